// SPDX-License-Identifier: Apache-2.0
#include "Prices.h"
#include "kerf/CostModel/Compute.h"
#include "kerf/PlanSearch/StepOfPlan.h"
#include <algorithm>
#include <cmath>
#include <limits>

namespace kerf::plansearch {

namespace {

constexpr double kLess = 1 - 1e-9; // a quotient that rounding must not push over a whole number

double bodySeconds(const PassWork &pass, const Device &device, const CollectiveModel *collectives, bool tensorOverlap,
                   bool onlySelective = false) {
  double compute = 0, waiting = 0, issue = 0;
  for (const Kernel &kernel : pass.kernels) {
    if (onlySelective && kernel.kept != Kept::Selective)
      continue;
    compute += computeSeconds(device, kernel.work);
    if (kernel.work.kernelClass != KernelClass::Nothing)
      issue += kernel.work.launches * device.curves.issueSeconds;
  }
  if (collectives)
    for (const PassCollective &collective : pass.collectives)
      if ((!onlySelective || collective.kept == Kept::Selective) && !collective.besideAttention &&
          !(tensorOverlap && collective.independent))
        waiting +=
            collectives->seconds(collective.kind, onMesh(collective.axes, collectives->mesh()), collective.bytes);
  return std::max(compute + waiting, issue);
}

int64_t times(const ChainLink &link) { return link.layers ? link.layers : 1; }

} // namespace

PassSeconds passSeconds(const ModelWork &model, const Device &device, const CollectiveModel *collectives,
                        bool tensorOverlap) {
  PassSeconds seconds;
  double cheapest = std::numeric_limits<double>::infinity();
  for (const ChainLink &link : model.chain) {
    const Segment &segment = link.segment;
    auto body = [&](const PassWork &pass) { return bodySeconds(pass, device, collectives, tensorOverlap); };
    PassSeconds::Link one{body(segment.forward), body(segment.inputGradient), body(segment.weightGradient), {}};
    if (segment.recomputable)
      one.again = {0, bodySeconds(segment.forward, device, collectives, tensorOverlap, true), one.forward};
    seconds.links.push_back(one);
    seconds.forward += static_cast<double>(times(link)) * one.forward;
    seconds.backward += static_cast<double>(times(link)) * one.backward();
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

/// Least number of microbatches (on one of its chunks each) that a stage holds at once.
int64_t leastInFlight(const ScheduleOptions &schedule, int64_t stage) {
  auto [stages, microbatches, chunks] = std::tuple(schedule.stages, schedule.microbatches, schedule.chunks);
  switch (schedule.kind) {
  case ScheduleKind::GPipe:
    return microbatches;
  case ScheduleKind::OneFOneB:
    return std::min(microbatches, stages - stage);
  case ScheduleKind::Interleaved:
    return std::min(microbatches * chunks,
                    2 * (stages - stage - 1) + (chunks - 1) * std::min(stages, microbatches) + 1);
  case ScheduleKind::ZeroBubble:
    if (schedule.variant == ZeroBubbleVariant::H1)
      return std::min(microbatches, stages - stage);
    break;
  }
  return 1;
}

/// A stage of a cut, as far as its links say.
struct CutStage {
  PassSeconds::Link first, all; // its first part, all its parts
  double states = 0;
  std::array<double, 3> held = {}, extra = {}; // of the part that holds least; beside it
  bool any = false;
};

/// Of a zero-bubble schedule that is searched, all stages recomputing alike: before its first backward a stage can do
/// as many forwards as the schedule's limit and its memory hold.
double searchedSeconds(const CutPrices &prices, const std::vector<CutStage> &cut, ScheduleOptions schedule) {
  auto microbatches = static_cast<double>(schedule.microbatches);
  bool pinned = std::isinf(prices.memoryLimit);
  double least = std::numeric_limits<double>::infinity();
  for (int mode = 0; mode < (pinned ? 1 : 3); ++mode) {
    double mean = 0;
    for (const CutStage &stage : cut)
      mean += stage.held[mode] / static_cast<double>(cut.size());
    schedule.activations.clear();
    for (const CutStage &stage : cut)
      schedule.activations.push_back(mean > 0 ? stage.held[mode] / mean * kLess : 0);
    // What stands between runs of layers is left out of `cut`, so that the shares are not the schedule's.
    const std::vector<ChainLink> &chain = prices.model.chain;
    bool between = false, fits = true;
    for (size_t l = 1; l + 1 < chain.size(); ++l)
      between |= chain[l].layers == 0;
    bool limited = !pinned && !between;
    std::vector<StageSeconds> stages;
    for (size_t s = 0; s < cut.size() && fits; ++s) {
      const CutStage &its = cut[s];
      double each = deviceBytes(its.held[mode], prices.device) - deviceBytes(0, prices.device),
             room = prices.memoryLimit - deviceBytes(its.states, prices.device);
      double before =
          limited ? mostForwardsFirst(schedule, static_cast<int64_t>(s)) : std::numeric_limits<double>::infinity();
      if (!pinned && each > 0)
        before = std::min(before, std::floor(room / each * (1 + 1e-9)));
      fits = before >= 1 && room >= 0;
      StageSeconds stage;
      stage.busy = microbatches * (its.all.forward + its.all.backward() + its.all.again[mode]);
      stage.forward = its.first.forward;
      stage.backward = its.first.inputGradient + its.first.again[mode];
      stage.warmup = std::isinf(before) ? before : before * its.first.forward;
      stages.push_back(stage);
    }
    if (fits)
      least = std::min(least, leastPipelineSeconds(stages, schedule, true));
  }
  return least;
}

} // namespace

namespace {

/// Of the layers of one run, whatever else the stages hold.
double forcedByRun(const CutPrices &prices, const ScheduleOptions &schedule, size_t run, bool onlyRun) {
  bool alone = schedule.chunks == 1 && schedule.kind != ScheduleKind::ZeroBubble; // nothing overlaps in memory
  const std::array<HeldBytes, 3> &held = prices.held[run];
  const std::array<double, 3> &again = prices.seconds.links[run].again;
  auto all = static_cast<double>(prices.model.chain[run].layers);
  std::array<double, 3> room = {}; // layers that all stages can hold in a mode
  for (int64_t s = 0; s < schedule.stages; ++s) {
    // With chunks, what is in flight may be the stage's smallest part: at least half of an even share, as parts differ
    // by one layer, but for the first and the last part, and where a part may have layers of other runs.
    auto inFlight = static_cast<double>(leastInFlight(schedule, s));
    if (schedule.chunks > 1)
      inFlight = !onlyRun || s == 0 || s + 1 == schedule.stages
                     ? 1
                     : std::max(1.0, inFlight / static_cast<double>(schedule.chunks) / 2);
    double here = 0;
    for (int mode = 0; mode < 3; ++mode) {
      double left = prices.memoryLimit - deviceBytes(alone ? held[mode].recomputing : 0, prices.device);
      double each =
          deviceBytes(prices.states[run] + inFlight * held[mode].all, prices.device) - deviceBytes(0, prices.device);
      here = std::max(here, left < 0 ? 0 : each > 0 ? std::floor(left / each * (1 + 1e-9)) : all);
      room[mode] += here; // what a lesser mode holds a greater one is granted
    }
  }
  if (all > room[2])
    return std::numeric_limits<double>::infinity();
  // A stage has one mode: what none of it keeps has to be selective at least, what not even that holds is full.
  double full = std::max(0.0, all - room[1]), some = std::max(full, all - room[0]);
  return full * again[2] + (some - full) * std::min(again[1], again[2]);
}

} // namespace

double forcedSeconds(const CutPrices &prices, const ScheduleOptions &schedule) {
  if (std::isinf(prices.memoryLimit))
    return 0;
  const std::vector<ChainLink> &chain = prices.model.chain;
  auto runs = std::count_if(chain.begin(), chain.end(), [](const ChainLink &link) { return link.layers > 0; });
  double most = 0;
  for (size_t l = 0; l < chain.size(); ++l)
    if (chain[l].layers)
      most = std::max(most, forcedByRun(prices, schedule, l, runs == 1));
  return most;
}

double cutSeconds(const CutPrices &prices, const std::vector<int64_t> &layersOfParts, const ScheduleOptions &schedule) {
  auto parts = static_cast<int64_t>(layersOfParts.size());
  auto microbatches = static_cast<double>(schedule.microbatches);
  bool split = schedule.kind == ScheduleKind::ZeroBubble;
  const std::vector<ChainLink> &chain = prices.model.chain;
  std::vector<CutStage> cut(schedule.stages);
  int64_t begin = 0;
  for (int64_t p = 0; p < parts; ++p) {
    int64_t end = begin + layersOfParts[p], at = 0;
    CutStage &stage = cut[p % schedule.stages];
    PassSeconds::Link part;
    std::array<double, 3> held = {};
    for (size_t l = 0; l < chain.size(); ++l) {
      // What stands between two runs goes with either: left out.
      int64_t layers = chain[l].layers, last = l + 1 == chain.size();
      int64_t number = layers ? std::max<int64_t>(0, std::min(end, at + layers) - std::max(begin, at))
                              : (l == 0 && p == 0) || (last && p + 1 == parts);
      at += layers;
      if (number == 0)
        continue;
      auto count = static_cast<double>(number);
      const PassSeconds::Link &link = prices.seconds.links[l];
      part.forward += count * link.forward;
      part.inputGradient += count * link.inputGradient;
      part.weightGradient += count * link.weightGradient;
      stage.states += count * prices.states[l];
      for (int mode = 0; mode < 3; ++mode) {
        part.again[mode] += count * link.again[mode];
        held[mode] += count * prices.held[l][mode].all;
        stage.extra[mode] =
            std::max({stage.extra[mode], prices.held[l][mode].recomputing, prices.held[l][mode].workspace});
      }
    }
    begin = end;
    stage.all.forward += part.forward;
    stage.all.inputGradient += part.inputGradient;
    stage.all.weightGradient += part.weightGradient;
    for (int mode = 0; mode < 3; ++mode) {
      stage.all.again[mode] += part.again[mode];
      stage.held[mode] = stage.any ? std::min(stage.held[mode], held[mode]) : held[mode];
    }
    if (!stage.any)
      stage.first = part;
    stage.any = true;
  }
  if (split && schedule.variant != ZeroBubbleVariant::H1)
    return searchedSeconds(prices, cut, schedule);
  std::vector<StageSeconds> stages(schedule.stages);
  for (int64_t s = 0; s < schedule.stages; ++s) {
    const CutStage &its = cut[s];
    // More recomputation is never faster: the first mode that may fit is the least that can be needed.
    int mode = 0;
    auto inFlight = static_cast<double>(leastInFlight(schedule, s));
    while (mode < 3 &&
           deviceBytes(its.states + inFlight * its.held[mode] + (schedule.chunks == 1 && !split ? its.extra[mode] : 0),
                       prices.device) > prices.memoryLimit)
      ++mode;
    if (mode == 3)
      return std::numeric_limits<double>::infinity();
    StageSeconds &stage = stages[s];
    stage.busy = microbatches * (its.all.forward + its.all.backward() + its.all.again[mode]);
    stage.forward = its.first.forward;
    stage.backward = (split ? its.first.inputGradient : its.first.backward()) + its.first.again[mode];
    double before = mostForwardsFirst(schedule, s);
    stage.warmup = std::isinf(before) ? before : before * its.first.forward;
  }
  return leastPipelineSeconds(stages, schedule, true);
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

ParameterSeconds parameterSeconds(const ModelWork &model, const CollectiveModel &collectives, const StateBytes &bytes,
                                  int optimizerSharding) {
  ParameterSeconds seconds;
  for (const ChainLink &link : model.chain) {
    std::map<std::vector<AxisRef>, double> elements; // merged: never dearer than one by one
    for (const ParameterGroup &group : link.segment.parameters)
      elements[onMesh(group.reduceAxes, collectives.mesh())] += group.elements;
    auto count = static_cast<double>(times(link));
    for (const auto &[axes, number] : elements) {
      if (optimizerSharding >= 3)
        seconds.everyMicrobatch += 2 * count * collectives.seconds(Collective::AllGather, axes, number * bytes.weight);
      if (optimizerSharding >= 2)
        seconds.everyMicrobatch += count * collectives.seconds(Collective::ReduceScatter, axes, number * bytes.weight);
      else
        seconds.reduction += collectives.seconds(optimizerSharding ? Collective::ReduceScatter : Collective::AllReduce,
                                                 axes, count * number * bytes.gradient);
    }
  }
  return seconds;
}

std::vector<double> stateBytesOf(const ModelWork &model, const Mesh &mesh, const StateBytes &bytes,
                                 int optimizerSharding) {
  std::vector<double> ofLinks;
  for (const ChainLink &link : model.chain) {
    double sum = 0;
    for (const ParameterGroup &group : link.segment.parameters) {
      auto shards = static_cast<double>(std::max<int64_t>(1, ways(onMesh(group.reduceAxes, mesh))));
      sum += group.elements * (bytes.weight / (optimizerSharding >= 3 ? shards : 1) +
                               bytes.gradient / (optimizerSharding >= 2 ? shards : 1) +
                               bytes.states / (optimizerSharding >= 1 ? shards : 1));
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
