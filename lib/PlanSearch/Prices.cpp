// SPDX-License-Identifier: Apache-2.0
#include "Prices.h"
#include "Ways.h"
#include "kerf/CostModel/Compute.h"
#include "kerf/PlanSearch/StepOfPlan.h"
#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

namespace kerf::plansearch {

namespace {

constexpr double kLess = 1 - 1e-9; // a quotient that rounding must not push over a whole number

double bodySeconds(const PassWork &pass, const Device &device, const CollectiveModel *collectives,
                   const Overlap &overlap, const TrainerPrices &trainer,
                   std::optional<Recompute> again = std::nullopt) {
  double compute = 0, waiting = 0, issue = 0;
  for (const Kernel &kernel : pass.kernels) {
    if (again && !runsAgain(kernel.again, *again))
      continue;
    compute += computeSeconds(device, kernel.work);
    if (kernel.work.kernelClass != KernelClass::Nothing)
      issue += kernel.work.launches * issueSeconds(trainer, device);
  }
  if (collectives)
    for (const PassCollective &collective : pass.collectives)
      if ((!again || runsAgain(collective.again, *again)) && !collective.besideAttention &&
          !(overlap.tensor && collective.independent) && !(overlap.products && collective.besideProduct))
        waiting +=
            collectives->seconds(collective.kind, onMesh(collective.axes, collectives->mesh()), collective.bytes);
  return std::max(compute + waiting, issue);
}

int64_t times(const ChainLink &link) { return link.layers ? link.layers : 1; }

} // namespace

PassSeconds passSeconds(const ModelWork &model, const Device &device, const CollectiveModel *collectives,
                        const Overlap &overlap, const TrainerPrices &trainer, const StateBytes *accumulated) {
  PassSeconds seconds;
  double cheapest = std::numeric_limits<double>::infinity();
  for (const ChainLink &link : model.chain) {
    const Segment &segment = link.segment;
    auto body = [&](const PassWork &pass) { return bodySeconds(pass, device, collectives, overlap, trainer); };
    PassSeconds::Link one{body(segment.forward), body(segment.inputGradient), body(segment.weightGradient), {}};
    if (segment.recomputable) {
      for (Recompute mode : {Recompute::None, Recompute::Selective, Recompute::Full})
        one.again[static_cast<size_t>(mode)] =
            bodySeconds(segment.forward, device, collectives, overlap, trainer, mode);
      double always = one.again[0];
      one.inputGradient += always;
      for (double &more : one.again)
        more -= always;
    }
    if (accumulated) {
      double elements = 0;
      for (const ParameterGroup &group : segment.parameters)
        elements += group.elements;
      one.weightGradient +=
          accumulationSeconds(device, elements, static_cast<double>(segment.parameters.size()), *accumulated);
    }
    seconds.links.push_back(one);
    seconds.forward += static_cast<double>(times(link)) * one.forward;
    seconds.backward += static_cast<double>(times(link)) * one.backward();
    seconds.weightGradient += static_cast<double>(times(link)) * one.weightGradient;
    if (link.layers)
      cheapest = std::min(cheapest, one.forward + one.backward());
  }
  seconds.layer = cheapest < std::numeric_limits<double>::infinity() ? cheapest : 0;
  return seconds;
}

LinkHeld heldOf(const ModelWork &model) {
  LinkHeld held;
  for (const ChainLink &link : model.chain)
    held.push_back({heldBytes(link.segment, Recompute::None), heldBytes(link.segment, Recompute::Selective),
                    heldBytes(link.segment, Recompute::Full)});
  return held;
}

namespace {

/// Tasks of a chunk from where the reductions of its stage can begin, with the last microbatch on the last chunk. Those
/// of the chunks before it follow for the last group of microbatches.
double tasksBesideReductions(const ScheduleOptions &schedule, int64_t chunk) {
  return chunk + 1 < schedule.chunks ? static_cast<double>(std::min(schedule.microbatches, schedule.stages)) : 1;
}

/// A stage of a cut, as far as its links say; nothing recomputed.
struct CutStage {
  PassSeconds::Link first, all; // its first part, all its parts
  double states = 0;
  double reductions = 0, firstReductions = 0; // of gradients: all parts, its first
  double beside = 0;                          // seconds of tasks that all reductions may hide behind
  int64_t most = 0;                           // layers of its largest part
};

struct PartLink {
  size_t link;
  int64_t count; // of its layers
  bool operator==(const PartLink &) const = default;
};

struct Cut {
  std::vector<CutStage> stages;
  std::vector<PartLink> links; // of all parts, one after the other
  std::vector<size_t> ends;    // of each part in `links`
};

/// What a stage pays on a step of a way, and what it holds then.
struct StageOption {
  double again = 0, firstAgain = 0; // of a microbatch: all its parts, its first
  double besideAgain = 0;           // of tasks that reductions may hide behind
  double one = 0;                   // held of a microbatch, on its first part
  double held = 0;                  // least, of all microbatches in flight
  double extra = 0;                 // beside that
};

StageOption optionOf(const CutPrices &prices, const ScheduleOptions &schedule, const Cut &cut, int64_t stage, Way way,
                     int64_t step, int64_t most) {
  StageOption option;
  for (int64_t c = 0; c < schedule.chunks; ++c) {
    size_t part = c * schedule.stages + stage, begin = part == 0 ? 0 : cut.ends[part - 1];
    std::span<const PartLink> links(cut.links.data() + begin, cut.ends[part] - begin);
    int64_t layers = 0;
    for (const PartLink &one : links)
      layers += prices.model.chain[one.link].layers ? one.count : 0;
    RecomputedLayers left = layersOf(way, step, layers, most);
    double again = 0, held = 0;
    for (const PartLink &one : links) {
      bool isLayer = prices.model.chain[one.link].layers > 0;
      int64_t full = isLayer ? std::min(left.full, one.count) : 0,
              selective = isLayer ? std::min(left.selective, one.count - full) : 0;
      left.full -= full;
      left.selective -= selective;
      const int64_t counts[] = {one.count - full - selective, selective, full};
      for (int mode = 0; mode < 3; ++mode) {
        if (counts[mode] == 0)
          continue;
        const HeldBytes &bytes = prices.held[one.link][mode];
        again += static_cast<double>(counts[mode]) * prices.at(stage).seconds->links[one.link].again[mode];
        held += static_cast<double>(counts[mode]) * bytes.all;
        option.extra = std::max({option.extra, bytes.recomputing, bytes.workspace});
      }
    }
    option.again += again;
    option.besideAgain += tasksBesideReductions(schedule, c) * again;
    option.firstAgain = c == 0 ? again : option.firstAgain;
    option.one = c == 0 ? held : option.one;
    option.held += static_cast<double>(leastInFlight(schedule, stage, c)) * held;
  }
  return option;
}

/// Of the task beside which the gradients of the stage's first part are reduced.
double reducingSeconds(const ScheduleOptions &schedule, const CutStage &its, const StageOption &option) {
  bool split = recordOf(schedule.kind).splitsBackward;
  return split ? its.first.weightGradient : its.first.backward() + option.firstAgain;
}

/// Of reductions, what runs on after the stage's last task.
double reductionsAfter(const CutPrices &prices, const ScheduleOptions &schedule, const CutStage &its,
                       const StageOption &option) {
  if (prices.reductions == Reductions::After)
    return its.reductions;
  double last = reducingSeconds(schedule, its, option),
         all = its.beside + (recordOf(schedule.kind).splitsBackward ? 0 : option.besideAgain);
  return std::max({0.0, its.firstReductions - last, its.reductions - all});
}

/// `before`: most forwards before the stage's first backward.
StageSeconds secondsOf(const CutPrices &prices, const ScheduleOptions &schedule, int64_t stage, const CutStage &its,
                       const StageOption &option, double before) {
  auto microbatches = static_cast<double>(schedule.microbatches);
  StageSeconds seconds;
  seconds.busy = microbatches * (its.all.forward + its.all.backward() + option.again);
  if (prices.reductions == Reductions::EveryMicrobatch) // the next microbatch waits for them
    seconds.busy += (microbatches - 1) * std::max(0.0, its.firstReductions - reducingSeconds(schedule, its, option));
  seconds.forward = its.first.forward;
  seconds.backward =
      (recordOf(schedule.kind).splitsBackward ? its.first.inputGradient : its.first.backward()) + option.firstAgain;
  seconds.warmup = std::isinf(before) ? before : before * its.first.forward;
  seconds.sendOn = stage + 1 < schedule.stages ? prices.at(stage).sendOn : 0;
  seconds.sendBack = stage > 0 ? prices.at(stage).sendBack : 0;
  if (!prices.sendsOverlap && schedule.chunks == 1) { // its messages hold a stage up
    seconds.busy += microbatches * (seconds.sendOn + seconds.sendBack);
    seconds.warmup += std::min(before, microbatches) * seconds.sendOn;
  }
  seconds.after = reductionsAfter(prices, schedule, its, option);
  return seconds;
}

/// Stages that hold and pay what the one before them does, where the order is searched.
std::vector<bool> likeBefore(const CutPrices &prices, const Cut &cut) {
  std::vector<bool> like(cut.stages.size(), false);
  auto linksOf = [&](size_t stage) {
    size_t begin = stage == 0 ? 0 : cut.ends[stage - 1];
    return std::span<const PartLink>(cut.links.data() + begin, cut.ends[stage] - begin);
  };
  for (size_t s = 1; s < like.size() && prices.stages.size() == 1; ++s)
    like[s] = std::ranges::equal(linksOf(s), linksOf(s - 1));
  return like;
}

/// Of a zero-bubble schedule that is searched, all stages recomputing alike: before its first backward a stage can do
/// as many forwards as the schedule's limit and its memory hold.
double searchedSeconds(const CutPrices &prices, const Cut &cut, ScheduleOptions schedule) {
  bool pinned = std::isinf(prices.at(0).memoryLimit);
  // What stands between runs of layers is left out of `cut`, so that the shares are not the schedule's.
  const std::vector<ChainLink> &chain = prices.model.chain;
  bool between = false;
  for (size_t l = 1; l + 1 < chain.size(); ++l)
    between |= chain[l].layers == 0;
  bool limited = !pinned && !between;
  int64_t most = 0;
  for (const CutStage &stage : cut.stages)
    most = std::max(most, stage.most);
  double least = std::numeric_limits<double>::infinity();
  std::vector<StageOption> options(cut.stages.size());
  std::vector<StageSeconds> stages(cut.stages.size());
  const std::vector<bool> like = likeBefore(prices, cut);
  /// False: no later step of the way is any better.
  auto tryStep = [&](Way way, int64_t step) {
    double sum = 0, busiest = 0;
    for (size_t s = 0; s < options.size(); ++s) {
      options[s] = like[s] ? options[s - 1] : optionOf(prices, schedule, cut, static_cast<int64_t>(s), way, step, most);
      sum += options[s].one;
      const CutStage &its = cut.stages[s];
      busiest = std::max(busiest, static_cast<double>(schedule.microbatches) *
                                      (its.all.forward + its.all.backward() + options[s].again));
    }
    if (busiest >= least)
      return false;
    double mean = sum / static_cast<double>(options.size());
    schedule.activations.clear();
    for (const StageOption &option : options)
      schedule.activations.push_back(mean > 0 ? option.one / mean * kLess : 0);
    for (size_t s = 0; s < stages.size(); ++s) {
      const CutStage &its = cut.stages[s];
      const Device &device = *prices.at(static_cast<int64_t>(s)).device;
      double each = deviceBytes(options[s].one, device) - deviceBytes(0, device),
             room = prices.at(static_cast<int64_t>(s)).memoryLimit - deviceBytes(its.states, device);
      double before =
          limited ? mostForwardsFirst(schedule, static_cast<int64_t>(s)) : std::numeric_limits<double>::infinity();
      if (!pinned && each > 0)
        before = std::min(before, std::floor(room / each * (1 + 1e-9)));
      if (before < 1 || room < 0)
        return true;
      stages[s] = secondsOf(prices, schedule, static_cast<int64_t>(s), its, options[s], before);
    }
    least = std::min(least, leastPipelineSeconds(stages, schedule, prices.sendsOverlap));
    return true;
  };
  for (Way way : kWays)
    for (int64_t step = 0; step <= (pinned ? 0 : lastStep(way, most)) && tryStep(way, step); ++step)
      ;
  return least;
}

} // namespace

namespace {

/// Of the layers of one run, whatever else the stages hold.
double forcedByRun(const CutPrices &prices, const ScheduleOptions &schedule, size_t run) {
  bool alone = schedule.chunks == 1 && !recordOf(schedule.kind).splitsBackward; // nothing overlaps in memory
  const std::array<HeldBytes, 3> &held = prices.held[run];
  const std::array<double, 3> &again = prices.at(0).seconds->links[run].again;
  auto all = static_cast<double>(prices.model.chain[run].layers);
  std::array<double, 3> room = {}; // layers that all stages can hold in a mode
  for (int64_t s = 0; s < schedule.stages; ++s) {
    // A layer may be on the chunk that holds the fewest microbatches: the last one.
    auto inFlight = static_cast<double>(leastInFlight(schedule, s, schedule.chunks - 1));
    double here = 0;
    for (int mode = 0; mode < 3; ++mode) {
      double left = prices.at(0).memoryLimit - deviceBytes(alone ? held[mode].recomputing : 0, *prices.at(0).device);
      double each = deviceBytes(prices.states[run] + inFlight * held[mode].all, *prices.at(0).device) -
                    deviceBytes(0, *prices.at(0).device);
      here = std::max(here, left < 0 ? 0 : each > 0 ? std::floor(left / each * (1 + 1e-9)) : all);
      room[mode] += here; // what a lesser mode holds a greater one is granted
    }
  }
  if (all > room[2])
    return std::numeric_limits<double>::infinity();
  // What does not fit without has to be selective at least, what not even that holds is full.
  double full = std::max(0.0, all - room[1]), some = std::max(full, all - room[0]);
  return full * again[2] + (some - full) * std::min(again[1], again[2]);
}

} // namespace

double forcedSeconds(const CutPrices &prices, const ScheduleOptions &schedule) {
  if (std::isinf(prices.at(0).memoryLimit))
    return 0;
  const std::vector<ChainLink> &chain = prices.model.chain;
  double most = 0;
  for (size_t l = 0; l < chain.size(); ++l)
    if (chain[l].layers)
      most = std::max(most, forcedByRun(prices, schedule, l));
  return most;
}

namespace {

Cut cutOf(const CutPrices &prices, const std::vector<int64_t> &layersOfParts, const ScheduleOptions &schedule) {
  auto parts = static_cast<int64_t>(layersOfParts.size());
  const std::vector<ChainLink> &chain = prices.model.chain;
  Cut cut;
  cut.stages.resize(schedule.stages);
  cut.links.reserve(parts + 2);
  int64_t begin = 0;
  for (int64_t p = 0; p < parts; ++p) {
    int64_t end = begin + layersOfParts[p], at = 0;
    CutStage &stage = cut.stages[p % schedule.stages];
    const StagePrices &on = prices.at(p % schedule.stages);
    PassSeconds::Link part;
    double reductions = 0;
    for (size_t l = 0; l < chain.size(); ++l) {
      // What stands between two runs goes with either: left out.
      int64_t layers = chain[l].layers, last = l + 1 == chain.size();
      int64_t number = layers ? std::max<int64_t>(0, std::min(end, at + layers) - std::max(begin, at))
                              : (l == 0 && p == 0) || (last && p + 1 == parts);
      at += layers;
      if (number == 0)
        continue;
      auto count = static_cast<double>(number);
      const PassSeconds::Link &link = on.seconds->links[l];
      part.forward += count * link.forward;
      part.inputGradient += count * link.inputGradient;
      part.weightGradient += count * link.weightGradient;
      stage.states += count * prices.states[l];
      reductions += on.reductions ? count * (*on.reductions)[l] : 0;
      cut.links.push_back({l, number});
    }
    cut.ends.push_back(cut.links.size());
    begin = end;
    stage.most = std::max(stage.most, layersOfParts[p]);
    stage.all.forward += part.forward;
    stage.all.inputGradient += part.inputGradient;
    stage.all.weightGradient += part.weightGradient;
    stage.reductions += reductions;
    stage.beside += tasksBesideReductions(schedule, p / schedule.stages) *
                    (recordOf(schedule.kind).splitsBackward ? part.weightGradient : part.backward());
    if (p < schedule.stages) {
      stage.first = part;
      stage.firstReductions = reductions;
    }
  }
  return cut;
}

} // namespace

double cutSeconds(const CutPrices &prices, const std::vector<int64_t> &layersOfParts, const ScheduleOptions &schedule,
                  double enough) {
  auto microbatches = static_cast<double>(schedule.microbatches);
  bool split = recordOf(schedule.kind).splitsBackward, alone = schedule.chunks == 1 && !split;
  Cut cut = cutOf(prices, layersOfParts, schedule);
  double busiest = 0;
  for (const CutStage &stage : cut.stages)
    busiest = std::max(busiest, microbatches * (stage.all.forward + stage.all.backward()));
  if (busiest >= enough)
    return busiest;
  if (recordOf(schedule.kind).searched)
    return searchedSeconds(prices, cut, schedule);
  std::vector<StageSeconds> stages(schedule.stages);
  double least = std::numeric_limits<double>::infinity();
  for (Way way : kWays) {
    bool recomputes = false, fits = true;
    for (int64_t s = 0; s < schedule.stages && fits; ++s) {
      const CutStage &its = cut.stages[s];
      // More recomputation is never faster: the first step that may fit is the least that can be needed.
      int64_t step = 0, last = lastStep(way, its.most);
      StageOption option;
      for (;; ++step) {
        option = optionOf(prices, schedule, cut, s, way, step, its.most);
        fits = deviceBytes(its.states + option.held + (alone ? option.extra : 0), *prices.at(s).device) <=
               prices.at(s).memoryLimit;
        if (fits || step == last)
          break;
      }
      recomputes |= step > 0;
      stages[s] = secondsOf(prices, schedule, s, its, option, mostForwardsFirst(schedule, s));
    }
    if (fits)
      least = std::min(least, leastPipelineSeconds(stages, schedule, prices.sendsOverlap));
    if (!recomputes) // nor on the other way
      break;
  }
  return least;
}

double bestSeconds(const ModelWork &model, const Device &device) {
  double seconds = 0;
  for (const ChainLink &link : model.chain)
    for (const PassWork *pass : {&link.segment.forward, &link.segment.inputGradient, &link.segment.weightGradient})
      for (const Kernel &kernel : pass->kernels) {
        double rate = peakFlops(device, kernel.work.dtype) * efficiencyOf(device, kernel.work.kernelClass).flops;
        if (rate > 0)
          seconds += static_cast<double>(times(link)) * kernel.work.flops / rate;
      }
  return seconds;
}

double bestSpeed(const ModelWork &model, const Device &device, const Device &than) {
  double most = 0;
  for (const ChainLink &link : model.chain)
    for (const PassWork *pass : {&link.segment.forward, &link.segment.inputGradient, &link.segment.weightGradient})
      for (const Kernel &kernel : pass->kernels) {
        auto rate = [&](const Device &its) {
          return peakFlops(its, kernel.work.dtype) * efficiencyOf(its, kernel.work.kernelClass).flops;
        };
        if (kernel.work.flops > 0 && rate(than) > 0)
          most = std::max(most, rate(device) / rate(than));
      }
  return most;
}

double speedOf(const ModelWork &model, const PassSeconds &passes, const PassSeconds &than) {
  double most = 0;
  for (size_t l = 0; l < passes.links.size(); ++l) {
    double its = passes.links[l].whole(), other = than.links[l].whole();
    if (model.chain[l].layers && other > 0)
      most = std::max(most, its > 0 ? other / its : std::numeric_limits<double>::infinity());
  }
  return most;
}

Reductions reductionsOf(int optimizerSharding, bool gradientOverlap) {
  return optimizerSharding >= 2 ? Reductions::EveryMicrobatch
         : gradientOverlap      ? Reductions::Beside
                                : Reductions::After;
}

ParameterSeconds parameterSeconds(const ModelWork &model, const CollectiveModel &collectives, const StateBytes &bytes,
                                  const OptimizerSharding &sharding, bool gradientOverlap, double bucketBytes) {
  // Merged by the ranks that share them: never dearer than one by one.
  std::vector<std::map<std::vector<AxisRef>, double>> elementsOf; // by link, of one layer
  std::map<std::vector<AxisRef>, double> all;
  for (const ChainLink &link : model.chain) {
    auto &elements = elementsOf.emplace_back();
    for (const ParameterGroup &group : link.segment.parameters)
      elements[onMesh(group.reduceAxes, collectives.mesh())] += group.elements;
    for (const auto &[axes, number] : elements)
      all[axes] += static_cast<double>(times(link)) * number;
  }
  Reductions reductions = reductionsOf(sharding.level, gradientOverlap);
  bool everyMicrobatch = reductions == Reductions::EveryMicrobatch;
  double width = everyMicrobatch ? bytes.weight : bytes.gradient;
  // Of a layer: by itself where it is beside backwards; else with the rest of its part, at the rate of the whole
  // model's, since none is better.
  auto reduction = [&](const std::vector<AxisRef> &axes, double number) {
    double together = reductions == Reductions::After ? all[axes] : number;
    if (together <= 0)
      return 0.0;
    double bucket = reductions == Reductions::After ? 0 : bucketBytes;
    if (sharding.level == 0)
      return inBucketSeconds(collectives, Collective::AllReduce, axes, together * width, bucket) * (number / together);
    ShardAxes shares = shardAxes(axes, sharding.axes);
    double seconds = inBucketSeconds(collectives, Collective::ReduceScatter, shares.cut, together * width, bucket);
    if (!everyMicrobatch) // else once a step, which is left out
      seconds += collectives.seconds(Collective::AllReduce, shares.copies,
                                     together * width / static_cast<double>(ways(shares.cut)));
    return seconds * (number / together);
  };
  ParameterSeconds seconds;
  for (size_t l = 0; l < model.chain.size(); ++l) {
    auto count = static_cast<double>(times(model.chain[l]));
    double &ofLayer = seconds.reductions.emplace_back();
    for (const auto &[axes, number] : elementsOf[l]) {
      if (sharding.level >= 3)
        seconds.everyMicrobatch +=
            2 * count *
            collectives.seconds(Collective::AllGather, shardAxes(axes, sharding.axes).cut, number * bytes.weight);
      ofLayer += reduction(axes, number);
    }
    seconds.reduction += count * ofLayer;
    if (everyMicrobatch)
      seconds.everyMicrobatch += count * ofLayer;
  }
  return seconds;
}

std::vector<double> stateBytesOf(const ModelWork &model, const Mesh &mesh, const StateBytes &bytes,
                                 const OptimizerSharding &sharding) {
  std::vector<double> ofLinks;
  for (const ChainLink &link : model.chain) {
    double sum = 0;
    for (const ParameterGroup &group : link.segment.parameters) {
      auto shards = static_cast<double>(ways(shardAxes(onMesh(group.reduceAxes, mesh), sharding.axes).cut));
      sum += group.elements *
             (bytes.weight / (sharding.level >= 3 ? shards : 1) + bytes.gradient / (sharding.level >= 2 ? shards : 1) +
              bytes.states / (sharding.level >= 1 ? shards : 1));
    }
    ofLinks.push_back(sum);
  }
  return ofLinks;
}

double wholeOf(const ModelWork &model, const std::vector<double> &ofLinks) {
  double sum = 0;
  for (size_t l = 0; l < ofLinks.size(); ++l)
    sum += static_cast<double>(times(model.chain[l])) * ofLinks[l];
  return sum;
}

} // namespace kerf::plansearch
