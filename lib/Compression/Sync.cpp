// SPDX-License-Identifier: Apache-2.0
#include "kerf/Compression/Sync.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <fmt/format.h>

namespace kerf::compression {

SyncNetwork linkNetwork(int64_t nodes, int64_t innerMembers, Link inner, Link outer, double nodeBandwidth) {
  auto local = static_cast<double>(innerMembers), all = static_cast<double>(nodes);
  auto hops = [](double units) { return units > 1 ? std::ceil(std::log2(units)) : 0; };
  // Seconds across one level on which `units` units exchange `bytes` in `rounds` passes of a ring.
  auto ring = [](double units, double bytes, double bandwidth, double rounds) {
    return units > 1 ? rounds * (units - 1) / units * bytes / bandwidth : 0;
  };
  auto seconds = [=](Collective collective, Reach reach, double bytes) {
    double units = reach == Reach::Outer ? 1 : local, far = reach == Reach::Inner ? 1 : all;
    // A node's link carries the message of each of its groups: one for all ranks together, or one for each member.
    double perRank = std::min(outer.bandwidth, nodeBandwidth / local);
    double farBandwidth = reach == Reach::Outer ? perRank : nodeBandwidth;
    double rounds = collective == Collective::AllReduce ? 2 : 1;
    double latency = rounds * (inner.latency * (units - 1) + outer.latency * hops(far));
    if (collective == Collective::AllToAll) { // every rank sends an equal share to every other rank
      double members = units * far;
      double near = (units - 1) / members * bytes / inner.bandwidth;
      return latency + std::max(units > 1 ? near : 0, far > 1 ? (members - units) / members * bytes / perRank : 0);
    }
    return latency + std::max(ring(units, bytes, inner.bandwidth, rounds), ring(far, bytes, farBandwidth, rounds));
  };
  return {nodes * innerMembers, innerMembers, seconds};
}

double pipelinedSeconds(std::span<const SyncStage> stages, int64_t pieces) {
  double once = 0, busy[3] = {0, 0, 0};
  for (const SyncStage &stage : stages) {
    once += stage.seconds;
    busy[static_cast<size_t>(stage.on)] += stage.seconds;
  }
  return once + static_cast<double>(pieces - 1) * *std::max_element(std::begin(busy), std::end(busy));
}

std::vector<SyncStage> stagesOf(const SyncChoice &choice, int64_t pieces, const SyncGradient &gradient,
                                const SyncNetwork &network, const CodecCurve &curve) {
  auto own = static_cast<double>(elementsOf(gradient.shape));
  double elements = std::max(own, gradient.elementsTogether);
  std::vector<SyncStage> stages;
  auto wire = [&](Collective collective, Reach reach, double bytes) {
    stages.push_back(
        {reach == Reach::Inner ? StageOn::InnerWire : StageOn::Wire, network.seconds(collective, reach, bytes)});
  };
  auto compute = [&](double seconds) { stages.push_back({StageOn::Compute, seconds}); };
  if (!choice.codec) {
    wire(gradient.sharded ? Collective::ReduceScatter : Collective::AllReduce, Reach::All,
         elements * gradient.plainWidth);
    return stages;
  }
  const CodecRecord &codec = *choice.codec;
  double piece = elements / static_cast<double>(pieces), plain = piece * gradient.plainWidth;
  auto members = static_cast<double>(network.members);
  Reach reach = choice.hierarchy ? Reach::Outer : Reach::All;
  if (choice.hierarchy) {
    wire(Collective::ReduceScatter, Reach::Inner, plain);
    piece /= static_cast<double>(network.innerMembers);
    members /= static_cast<double>(network.innerMembers);
  }
  double f32 = 4 * piece;
  double payload = piece * static_cast<double>(payloadBytes(codec, gradient.shape)) / std::max(1.0, own);
  double messages = static_cast<double>(codec.dependentMessages);
  switch (choice.scheme) {
  case SyncScheme::AllReduce:
    for (int64_t m = 0; m < codec.dependentMessages; ++m) { // each factor is computed from the sum of the one before
      compute(curve.encodeSeconds(f32) / messages);
      wire(Collective::AllReduce, reach, payload / messages);
    }
    compute(curve.decodeSeconds(f32));
    break;
  case SyncScheme::AllGather:
    compute(curve.encodeSeconds(f32));
    wire(Collective::AllGather, reach, members * payload);
    compute(members * curve.decodeSeconds(f32));
    break;
  case SyncScheme::TwoStage: // a rank decodes the parts of all ranks in one kernel, which also encodes the sum
    compute(curve.encodeSeconds(f32));
    wire(Collective::AllToAll, reach, payload);
    compute(curve.decodePerByte * f32 + curve.encodeSeconds(f32 / members));
    wire(Collective::AllGather, reach, payload);
    compute(curve.decodeSeconds(f32));
    break;
  case SyncScheme::ReduceScatter:
    compute(curve.encodeSeconds(f32));
    wire(codec.summable ? Collective::ReduceScatter : Collective::AllToAll, reach, payload);
    compute(curve.decodeSeconds(codec.summable ? f32 / members : f32));
    break;
  }
  if (choice.hierarchy && choice.scheme != SyncScheme::ReduceScatter)
    wire(Collective::AllGather, Reach::Inner, plain);
  return stages;
}

SyncCost syncCost(const SyncChoice &choice, const SyncGradient &gradient, const SyncNetwork &network,
                  const CodecCurve &curve) {
  int64_t pieces = choice.codec ? choice.pieces : 1;
  std::vector<SyncStage> stages = stagesOf(choice, pieces, gradient, network, curve);
  auto own = static_cast<double>(elementsOf(gradient.shape));
  double share = gradient.elementsTogether > own ? own / gradient.elementsTogether : 1;
  auto isCompute = [](const SyncStage &stage) { return stage.on == StageOn::Compute; };
  auto end = std::find_if_not(stages.begin(), stages.end(), isCompute);
  SyncCost cost;
  for (auto stage = stages.begin(); stage != end; ++stage)
    cost.first += stage->seconds;
  if (isCompute(stages.back()))
    cost.last = stages.back().seconds;
  for (auto stage = end; stage != stages.end(); ++stage)
    cost.after += isCompute(*stage) ? stage->seconds : 0;
  cost.wire = pipelinedSeconds(stages, pieces) - cost.first - cost.last;
  cost.before = static_cast<double>(pieces) * cost.first * share;
  cost.after *= static_cast<double>(pieces) * share;
  cost.first *= share;
  cost.last *= share;
  cost.wire *= share;
  return cost;
}

double soloSeconds(const SyncChoice &choice, const SyncGradient &gradient, const SyncNetwork &network,
                   const CodecCurve &curve) {
  int64_t pieces = choice.codec ? choice.pieces : 1;
  return pipelinedSeconds(stagesOf(choice, pieces, gradient, network, curve), pieces);
}

bool isPossible(const SyncChoice &choice, const SyncGradient &gradient, const SyncNetwork &network, std::string *why) {
  if (!choice.codec)
    return true;
  const CodecRecord &codec = *choice.codec;
  auto no = [&](std::string reason) {
    if (why)
      *why = std::move(reason);
    return false;
  };
  if (!accepts(codec, gradient.shape))
    return no(fmt::format("codec {} needs a matrix", codec.name));
  bool scatters = choice.scheme == SyncScheme::ReduceScatter;
  if (scatters != gradient.sharded)
    return no(gradient.sharded ? "a sharded optimizer needs the scheme reduce-scatter"
                               : "the scheme reduce-scatter is for sharded optimizers");
  if (choice.scheme == SyncScheme::AllReduce && !codec.summable)
    return no(fmt::format("payloads of codec {} cannot be summed; take two-stage or all-gather", codec.name));
  bool cuts = scatters || choice.scheme == SyncScheme::TwoStage || choice.hierarchy || choice.pieces > 1;
  if (codec.rankOfFactors > 0 ? cuts : choice.scheme == SyncScheme::TwoStage && !codec.cutsPayload)
    return no(fmt::format("a payload of codec {} cannot be sent in parts", codec.name));
  if (choice.hierarchy && !network.hierarchical())
    return no("hierarchy needs several nodes with several of the ranks in each");
  return true;
}

SyncScheme usualScheme(const CodecRecord &codec) {
  return codec.summable ? SyncScheme::AllReduce : codec.cutsPayload ? SyncScheme::TwoStage : SyncScheme::AllGather;
}

int64_t bestPieces(SyncChoice choice, const SyncGradient &gradient, const SyncNetwork &network,
                   const CodecCurve &curve) {
  if (!choice.codec || choice.codec->rankOfFactors > 0)
    return 1;
  int64_t elements = elementsOf(gradient.shape), best = 1;
  double bestSeconds = 0;
  for (int64_t pieces = 1; pieces <= kMostPieces; pieces *= 2) {
    if (pieces > 1 && elements / pieces < choice.codec->block * network.members)
      break;
    choice.pieces = pieces;
    double seconds = soloSeconds(choice, gradient, network, curve);
    if (pieces == 1 || seconds < bestSeconds) {
      best = pieces;
      bestSeconds = seconds;
    }
  }
  return best;
}

double idealPieces(std::span<const std::pair<double, double>> stages, size_t slowest, double bytes) {
  double others = 0;
  for (size_t i = 0; i < stages.size(); ++i)
    others += i == slowest ? 0 : stages[i].second;
  double start = stages[slowest].first;
  return start > 0 ? std::max(1.0, std::sqrt(others * bytes / start)) : static_cast<double>(kMostPieces);
}

} // namespace kerf::compression
