// SPDX-License-Identifier: Apache-2.0
#include "Prices.h"
#include "RecomputationLadder.h"
#include "kerf/CostModel/Compute.h"
#include "kerf/PlanSearch/StepOfPlan.h"
#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

namespace kerf::plansearch {

namespace {

constexpr double kLess = 1 - 1e-9; // keeps rounding from pushing a quotient above an integer

/// Returns the seconds of a pass as TaskPricer::priced, without the collectives that a plan's overlap may hide.
double bodySeconds(const PassWork &pass, const DeviceSpec &device, const CollectiveModel *collectives,
                   const Overlap &overlap, const TrainerPrices &trainer,
                   std::optional<Recompute> recompute = std::nullopt) {
  double compute = 0, attention = 0, waiting = 0, issue = 0;
  for (const KernelWork &kernel : pass.kernels) {
    if (recompute && !isRecomputed(kernel.recomputedBy, *recompute))
      continue;
    double seconds = computeSeconds(device, kernel.work, attentionLibrary(trainer));
    compute += seconds;
    attention += kernel.work.kernelClass == KernelClass::Attention ? seconds : 0;
    if (kernel.work.kernelClass != KernelClass::Nothing)
      issue += kernel.work.launches * issueSeconds(trainer, device);
  }
  double beside = 0; // seconds of collectives that attention could hide, but does not
  for (const PassCollective &collective : pass.collectives) {
    if (!collectives || (recompute && !isRecomputed(collective.recomputedBy, *recompute)) ||
        mayHide(overlap, collective))
      continue;
    auto hops = static_cast<double>(collective.hops);
    double seconds =
        hops * collectives->seconds(collective.kind, onMesh(collective.axes, collectives->mesh()), collective.bytes);
    issue += seconds > 0 ? hops * issueSeconds(trainer, device) : 0;
    if (!collective.overlapsAttention) {
      waiting += seconds;
      continue;
    }
    double hidden = std::min({attention, seconds, attention * hops / (hops + 1)});
    attention -= hidden;
    compute += contentionSeconds(hidden, hidden);
    beside += seconds - hidden;
  }
  return (trainer.waitsForKernels ? compute + issue + waiting : std::max(compute + waiting, issue)) + beside;
}

int64_t times(const ChainSegment &entry) { return entry.layers ? entry.layers : 1; }

} // namespace

PassSeconds passSeconds(const ModelWork &model, const DeviceSpec &device, const CollectiveModel *collectives,
                        const Overlap &overlap, const TrainerPrices &trainer, const std::vector<Recompute> &recompute,
                        const MicrobatchGradients &gradients) {
  PassSeconds seconds;
  double cheapest = std::numeric_limits<double>::infinity();
  for (const ChainSegment &entry : model.chain) {
    const Segment &segment = entry.segment;
    auto body = [&](const PassWork &pass) { return bodySeconds(pass, device, collectives, overlap, trainer); };
    PassSeconds::SegmentSeconds one{
        body(segment.forward), body(segment.inputGradient), body(segment.weightGradient), {}};
    if (segment.recomputable) {
      for (Recompute mode : {Recompute::None, Recompute::Selective, Recompute::Full})
        one.recompute[static_cast<size_t>(mode)] =
            bodySeconds(segment.forward, device, collectives, overlap, trainer, mode);
      double always = one.recompute[0];
      if (!recompute.empty()) {
        always = std::numeric_limits<double>::infinity();
        for (Recompute mode : recompute)
          always = std::min(always, bodySeconds(segment.forward, device, collectives, overlap, trainer, mode));
      }
      one.inputGradient += always;
      for (double &more : one.recompute)
        more = std::max(0.0, more - always);
    }
    if (gradients.reductionSeconds) {
      // Kernels beside a reduction lose a share of its seconds. That of a task is no less than the sum of its layers'.
      auto kernels = [&](const PassWork &pass) { return bodySeconds(pass, device, nullptr, overlap, trainer); };
      double beside = kernels(segment.weightGradient) + (gradients.splitBackward ? 0 : kernels(segment.inputGradient));
      one.weightGradient += contentionSeconds(beside, (*gradients.reductionSeconds)[seconds.segments.size()]);
    }
    if (gradients.accumulated) {
      double elements = 0;
      for (const ParameterGroup &group : segment.parameters)
        elements += group.elements;
      one.weightGradient +=
          accumulationSeconds(device, elements, static_cast<double>(segment.parameters.size()), *gradients.accumulated);
    }
    seconds.segments.push_back(one);
    seconds.forward += static_cast<double>(times(entry)) * one.forward;
    seconds.backward += static_cast<double>(times(entry)) * one.backward();
    seconds.weightGradient += static_cast<double>(times(entry)) * one.weightGradient;
    if (entry.layers)
      cheapest = std::min(cheapest, one.forward + one.backward());
  }
  seconds.layer = cheapest < std::numeric_limits<double>::infinity() ? cheapest : 0;
  return seconds;
}

ModelWork leastShareOfWork(const ModelWork &model, int64_t ranks) {
  ModelWork share = model;
  const double part = 1 / static_cast<double>(ranks);
  share.tied.clear();
  for (ChainSegment &entry : share.chain) {
    Segment &segment = entry.segment;
    for (PassWork *pass : {&segment.forward, &segment.inputGradient, &segment.weightGradient}) {
      pass->collectives.clear();
      for (KernelWork &kernel : pass->kernels) {
        Work &work = kernel.work;
        work.flops *= part;
        work.bytes *= part;
        // A record of several launches may stand for experts or heads, which the ranks share.
        work.launches = std::max(std::min(work.launches, 1.0), work.launches * part);
        if (ranks > 1)
          work.m = work.n = work.k = 0; // no size is known, so that computeSeconds takes the best rate
      }
    }
    for (SavedTensor &tensor : segment.saved)
      tensor.bytes *= part;
    for (ParameterGroup &group : segment.parameters)
      group.elements *= part;
    segment.copied.clear();
    segment.pendingBytes *= part;
    segment.inputBytes *= part;
    segment.workspaceBytes *= part;
  }
  return share;
}

std::vector<RepeatedCollective> collectivesOfLayers(const ModelWork &model, int axis, bool tokensOnly) {
  std::vector<RepeatedCollective> list;
  auto isAlong = [&](const std::vector<AxisRef> &axes) {
    return !axes.empty() && std::ranges::all_of(axes, [&](const AxisRef &ref) { return ref.axis == axis; });
  };
  for (const ChainSegment &entry : model.chain) {
    const Segment &segment = entry.segment;
    for (auto [pass, runs] : {std::pair(&segment.forward, &RepeatedCollective::forward),
                              std::pair(&segment.inputGradient, &RepeatedCollective::inputGradient),
                              std::pair(&segment.weightGradient, &RepeatedCollective::weightGradient)})
      for (const PassCollective &one : pass->collectives) {
        if (entry.layers == 0 || one.overlapsAttention || (tokensOnly && !one.exchangesTokens) || !isAlong(one.axes))
          continue;
        PassCollective each = one;
        each.name.clear();
        each.bytes = std::min(each.bytes, model.layerOutputBytes);
        each.recomputedBy = RecomputedBy::Full;
        each.hops = 1;
        auto known = std::ranges::find_if(list, [&](const RepeatedCollective &its) { return its.collective == each; });
        if (known == list.end())
          known = list.insert(list.end(), {std::move(each)});
        (*known).*runs += static_cast<double>(entry.layers * one.hops);
      }
  }
  return list;
}

ActivationBytes activationBytesOf(const ModelWork &model) {
  ActivationBytes bytes;
  for (const ChainSegment &entry : model.chain)
    bytes.push_back({layerActivationBytes(entry.segment, Recompute::None),
                     layerActivationBytes(entry.segment, Recompute::Selective),
                     layerActivationBytes(entry.segment, Recompute::Full)});
  return bytes;
}

namespace {

/// Returns the number of a chunk's backward tasks that its stage's gradient reductions can run beside. Reductions begin
/// with the last microbatch on the last chunk; on earlier chunks the last group of microbatches still follows.
double tasksBesideReductions(const ScheduleOptions &schedule, int64_t chunk) {
  return chunk + 1 < schedule.chunks ? static_cast<double>(std::min(schedule.microbatches, schedule.stages)) : 1;
}

/// Seconds and bytes of one stage of a cut, for one microbatch and without recomputation.
struct CutStage {
  PassSeconds::SegmentSeconds first, all;     // seconds of its first part, and of all its parts
  double states = 0;                          // bytes of parameters, gradients and optimizer states
  double reductions = 0, firstReductions = 0; // seconds of gradient reductions: all parts, its first part
  double copies = 0, firstCopies = 0;         // seconds of sums of copies once a step, likewise
  double beside = 0;                          // seconds of tasks that reductions can run beside
  int64_t most = 0;                           // number of layers of its largest part
};

/// A part's share of one entry of the chain.
struct PartSegment {
  size_t entry;  // index in ModelWork::chain
  int64_t count; // number of its layers; 1 for an entry that is no run of layers
  bool operator==(const PartSegment &) const = default;
};

/// A cut of the model into pipeline parts.
struct Cut {
  std::vector<CutStage> stages;
  std::vector<PartSegment> segments; // of all parts, part after part
  std::vector<size_t> ends;          // end of each part in `segments`
};

/// Seconds and bytes that one rung of a recomputation ladder costs a stage.
struct StageOption {
  double recompute = 0, firstRecompute = 0; // seconds for one microbatch: all parts, its first part
  double besideRecompute = 0;               // seconds in tasks that reductions can run beside
  double one = 0;                           // activation bytes of one microbatch on its first part
  double held = 0;                          // least activation bytes of all microbatches in flight
  double extra = 0;                         // temporary bytes of one running task
};

StageOption optionOf(const CutPrices &prices, const ScheduleOptions &schedule, const Cut &cut, int64_t stage,
                     RecomputationLadder ladder, int64_t rung, int64_t most) {
  StageOption option;
  for (int64_t c = 0; c < schedule.chunks; ++c) {
    size_t part = c * schedule.stages + stage, begin = part == 0 ? 0 : cut.ends[part - 1];
    std::span<const PartSegment> segments(cut.segments.data() + begin, cut.ends[part] - begin);
    int64_t layers = 0;
    for (const PartSegment &one : segments)
      layers += prices.model.chain[one.entry].layers ? one.count : 0;
    RecomputedLayers left = recomputedLayersAt(ladder, rung, layers, most);
    double recompute = 0, held = 0;
    for (const PartSegment &one : segments) {
      bool isLayer = prices.model.chain[one.entry].layers > 0;
      int64_t full = isLayer ? std::min(left.full, one.count) : 0,
              selective = isLayer ? std::min(left.selective, one.count - full) : 0;
      left.full -= full;
      left.selective -= selective;
      const int64_t counts[] = {one.count - full - selective, selective, full};
      for (int mode = 0; mode < 3; ++mode) {
        if (counts[mode] == 0)
          continue;
        const LayerActivationBytes &bytes = prices.activations[one.entry][mode];
        recompute += static_cast<double>(counts[mode]) * prices.at(stage).seconds->segments[one.entry].recompute[mode];
        held += static_cast<double>(counts[mode]) * bytes.untilInputGradient;
        option.extra = std::max({option.extra, bytes.duringBackward, bytes.workspace});
      }
    }
    option.recompute += recompute;
    option.besideRecompute += tasksBesideReductions(schedule, c) * recompute;
    option.firstRecompute = c == 0 ? recompute : option.firstRecompute;
    option.one = c == 0 ? held : option.one;
    option.held += static_cast<double>(minInFlight(schedule, stage, c)) * held;
  }
  return option;
}

/// Returns the seconds of the task beside which the gradients of the stage's first part are reduced.
double reducingSeconds(const ScheduleOptions &schedule, const CutStage &its, const StageOption &option) {
  bool split = recordOf(schedule.kind).splitsBackward;
  return split ? its.first.weightGradient : its.first.backward() + option.firstRecompute;
}

/// Returns the seconds of reductions that remain after the stage's last task.
double reductionsAfter(const CutPrices &prices, const ScheduleOptions &schedule, const CutStage &its,
                       const StageOption &option) {
  if (prices.reductionTiming == ReductionTiming::AfterBackward)
    return its.reductions + its.copies;
  double last = reducingSeconds(schedule, its, option),
         all = its.beside + (recordOf(schedule.kind).splitsBackward ? 0 : option.besideRecompute);
  return std::max({0.0, its.firstReductions + its.firstCopies - last, its.reductions + its.copies - all});
}

/// Returns the stage's seconds for the pipeline bound. `before` is the most forward tasks before
/// its first backward task.
StageSeconds secondsOf(const CutPrices &prices, const ScheduleOptions &schedule, int64_t stage, const CutStage &its,
                       const StageOption &option, double before) {
  auto microbatches = static_cast<double>(schedule.microbatches);
  StageSeconds seconds;
  seconds.busy = microbatches * (its.all.forward + its.all.backward() + option.recompute);
  if (prices.reductionTiming == ReductionTiming::EveryMicrobatch) // the next microbatch waits for the reductions
    seconds.busy += (microbatches - 1) * std::max(0.0, its.firstReductions - reducingSeconds(schedule, its, option));
  seconds.forward = its.first.forward;
  seconds.backward =
      (recordOf(schedule.kind).splitsBackward ? its.first.inputGradient : its.first.backward()) + option.firstRecompute;
  seconds.warmup = std::isinf(before) ? before : before * its.first.forward;
  seconds.sendForward = stage + 1 < schedule.stages ? prices.at(stage).sendForward : 0;
  seconds.sendBackward = stage > 0 ? prices.at(stage).sendBackward : 0;
  if (!prices.sendsOverlap && schedule.chunks == 1) { // the stage waits for its messages
    seconds.busy += microbatches * (seconds.sendForward + seconds.sendBackward);
    seconds.warmup += std::min(before, microbatches) * seconds.sendForward;
  }
  seconds.after = reductionsAfter(prices, schedule, its, option);
  return seconds;
}

/// Returns, for each stage, whether its parts equal those of the stage before, so that its seconds and bytes do too.
std::vector<bool> likeBefore(const CutPrices &prices, const Cut &cut) {
  std::vector<bool> like(cut.stages.size(), false);
  auto segmentsOf = [&](size_t stage) {
    size_t begin = stage == 0 ? 0 : cut.ends[stage - 1];
    return std::span<const PartSegment>(cut.segments.data() + begin, cut.ends[stage] - begin);
  };
  for (size_t s = 1; s < like.size() && prices.stages.size() == 1; ++s)
    like[s] = std::ranges::equal(segmentsOf(s), segmentsOf(s - 1));
  return like;
}

/// Returns the bound of a schedule whose task order is searched (zero-bubble); all stages are on the same rung. The
/// number of forward tasks before a stage's first backward task is limited by the schedule and by the stage's memory.
double searchedSeconds(const CutPrices &prices, const Cut &cut, ScheduleOptions schedule) {
  bool pinned = std::isinf(prices.at(0).memoryLimit);
  // `cut` omits segments between runs of layers. Where there are any, the stages' shares of activation bytes are not
  // exactly those that the schedule is limited by.
  const std::vector<ChainSegment> &chain = prices.model.chain;
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
  /// Tries one rung. Returns false when no later rung of the ladder can be better.
  auto tryRung = [&](RecomputationLadder ladder, int64_t rung) {
    double sum = 0, busiest = 0;
    for (size_t s = 0; s < options.size(); ++s) {
      options[s] =
          like[s] ? options[s - 1] : optionOf(prices, schedule, cut, static_cast<int64_t>(s), ladder, rung, most);
      sum += options[s].one;
      const CutStage &its = cut.stages[s];
      busiest = std::max(busiest, static_cast<double>(schedule.microbatches) *
                                      (its.all.forward + its.all.backward() + options[s].recompute));
    }
    if (busiest >= least)
      return false;
    double mean = sum / static_cast<double>(options.size());
    schedule.activations.clear();
    for (const StageOption &option : options)
      schedule.activations.push_back(mean > 0 ? option.one / mean * kLess : 0);
    for (size_t s = 0; s < stages.size(); ++s) {
      const CutStage &its = cut.stages[s];
      const DeviceSpec &device = *prices.at(static_cast<int64_t>(s)).device;
      double each = deviceBytes(options[s].one, device) - deviceBytes(0, device),
             room = prices.at(static_cast<int64_t>(s)).memoryLimit - deviceBytes(its.states, device);
      double before =
          limited ? maxWarmupForwards(schedule, static_cast<int64_t>(s)) : std::numeric_limits<double>::infinity();
      if (!pinned && each > 0)
        before = std::min(before, std::floor(room / each * (1 + 1e-9)));
      auto needed = limited ? static_cast<double>(minInFlight(schedule, static_cast<int64_t>(s), 0)) : 1.0;
      if (before < needed || room < 0)
        return true;
      stages[s] = secondsOf(prices, schedule, static_cast<int64_t>(s), its, options[s], before);
    }
    least = std::min(least, pipelineSecondsLowerBound(stages, schedule, prices.sendsOverlap));
    return true;
  };
  for (RecomputationLadder ladder : kRecomputationLadders)
    for (int64_t rung = 0; rung <= (pinned ? 0 : lastRung(ladder, most)) && tryRung(ladder, rung); ++rung)
      ;
  return least;
}

} // namespace

namespace {

/// Returns the seconds of recomputation that memory forces on one run of layers if the stages held nothing else.
double forcedByLayerRun(const CutPrices &prices, const ScheduleOptions &schedule, size_t run) {
  bool alone = schedule.chunks == 1 && !recordOf(schedule.kind).splitsBackward; // temporary memory comes on top
  const std::array<LayerActivationBytes, 3> &held = prices.activations[run];
  const std::array<double, 3> &recompute = prices.at(0).seconds->segments[run].recompute;
  auto all = static_cast<double>(prices.model.chain[run].layers);
  std::array<double, 3> room = {}; // number of layers that fit on all stages, by mode
  for (int64_t s = 0; s < schedule.stages; ++s) {
    // The last chunk has the fewest microbatches in flight, so every layer counts as if it were there.
    auto inFlight = static_cast<double>(minInFlight(schedule, s, schedule.chunks - 1));
    double here = 0;
    for (int mode = 0; mode < 3; ++mode) {
      double left = prices.at(0).memoryLimit - deviceBytes(alone ? held[mode].duringBackward : 0, *prices.at(0).device);
      double bytes = prices.stateBytes[run] + inFlight * held[mode].untilInputGradient;
      double each = deviceBytes(bytes, *prices.at(0).device) - deviceBytes(0, *prices.at(0).device);
      here = std::max(here, left < 0 ? 0 : each > 0 ? std::floor(left / each * (1 + 1e-9)) : all);
      room[mode] += here; // a mode that recomputes more fits at least as many
    }
  }
  if (all > room[2])
    return std::numeric_limits<double>::infinity();
  // Layers that do not fit without recomputation need selective, and layers that do not fit selectively need full.
  double full = std::max(0.0, all - room[1]), some = std::max(full, all - room[0]);
  return full * recompute[2] + (some - full) * std::min(recompute[1], recompute[2]);
}

} // namespace

double forcedRecomputeSeconds(const CutPrices &prices, const ScheduleOptions &schedule) {
  if (std::isinf(prices.at(0).memoryLimit))
    return 0;
  const std::vector<ChainSegment> &chain = prices.model.chain;
  double most = 0;
  for (size_t l = 0; l < chain.size(); ++l)
    if (chain[l].layers)
      most = std::max(most, forcedByLayerRun(prices, schedule, l));
  return most;
}

namespace {

Cut cutOf(const CutPrices &prices, const std::vector<int64_t> &layersOfParts, const ScheduleOptions &schedule) {
  auto parts = static_cast<int64_t>(layersOfParts.size());
  const std::vector<ChainSegment> &chain = prices.model.chain;
  Cut cut;
  cut.stages.resize(schedule.stages);
  cut.segments.reserve(parts + 2);
  int64_t begin = 0;
  for (int64_t p = 0; p < parts; ++p) {
    int64_t end = begin + layersOfParts[p], at = 0;
    CutStage &stage = cut.stages[p % schedule.stages];
    const StagePrices &on = prices.at(p % schedule.stages);
    PassSeconds::SegmentSeconds part;
    double reductions = 0, copies = 0;
    for (size_t l = 0; l < chain.size(); ++l) {
      // A segment between two runs may belong to either part, so it is omitted.
      int64_t layers = chain[l].layers, last = l + 1 == chain.size();
      int64_t number = layers ? std::max<int64_t>(0, std::min(end, at + layers) - std::max(begin, at))
                              : (l == 0 && p == 0) || (last && p + 1 == parts);
      at += layers;
      if (number == 0)
        continue;
      auto count = static_cast<double>(number);
      const PassSeconds::SegmentSeconds &segment = on.seconds->segments[l];
      part.forward += count * segment.forward;
      part.inputGradient += count * segment.inputGradient;
      part.weightGradient += count * segment.weightGradient;
      stage.states += count * prices.stateBytes[l];
      reductions += on.reductionSeconds ? count * (*on.reductionSeconds)[l] : 0;
      copies += on.copiesSeconds ? count * (*on.copiesSeconds)[l] : 0;
      cut.segments.push_back({l, number});
    }
    cut.ends.push_back(cut.segments.size());
    begin = end;
    stage.most = std::max(stage.most, layersOfParts[p]);
    stage.all.forward += part.forward;
    stage.all.inputGradient += part.inputGradient;
    stage.all.weightGradient += part.weightGradient;
    stage.reductions += reductions;
    stage.copies += copies;
    stage.beside += tasksBesideReductions(schedule, p / schedule.stages) *
                    (recordOf(schedule.kind).splitsBackward ? part.weightGradient : part.backward());
    if (p < schedule.stages) {
      stage.first = part;
      stage.firstReductions = reductions;
      stage.firstCopies = copies;
    }
  }
  return cut;
}

} // namespace

namespace {

/// Returns the seconds of the tasks of one microbatch on a stage of several chunks, and of the messages that they send.
double passageSeconds(const CutPrices &prices, const ScheduleOptions &schedule, int64_t stage, const CutStage &its,
                      const StageOption &option) {
  const StagePrices &on = prices.at(stage); // the last part sends no activations, and the first one no gradients
  auto chunks = static_cast<double>(schedule.chunks);
  return its.all.forward + its.all.backward() + option.recompute +
         (chunks - (stage + 1 == schedule.stages ? 1 : 0)) * on.sendForward +
         (chunks - (stage == 0 ? 1 : 0)) * on.sendBackward;
}

} // namespace

double cutSecondsLowerBound(const CutPrices &prices, const std::vector<int64_t> &layersOfParts,
                            const ScheduleOptions &schedule, double cutoff) {
  auto microbatches = static_cast<double>(schedule.microbatches);
  bool split = recordOf(schedule.kind).splitsBackward, alone = schedule.chunks == 1 && !split;
  Cut cut = cutOf(prices, layersOfParts, schedule);
  double busiest = 0;
  for (size_t s = 0; s < cut.stages.size(); ++s) {
    const CutStage &stage = cut.stages[s];
    const StagePrices &on = prices.at(static_cast<int64_t>(s));
    if (deviceBytes(stage.states, *on.device) > on.stateLimit)
      return std::numeric_limits<double>::infinity();
    busiest = std::max(busiest, microbatches * (stage.all.forward + stage.all.backward()));
  }
  if (busiest >= cutoff)
    return busiest;
  if (recordOf(schedule.kind).searched)
    return searchedSeconds(prices, cut, schedule);
  std::vector<StageSeconds> stages(schedule.stages);
  double least = std::numeric_limits<double>::infinity();
  for (RecomputationLadder ladder : kRecomputationLadders) {
    bool recomputes = false, fits = true;
    // The last group of microbatches enters stage 0 after all forwards of the groups before it. Its last microbatch
    // follows the others of the group, passes through all parts and back, and stage 0 reduces gradients.
    const bool grouped = schedule.chunks > 1 && schedule.microbatches % schedule.stages == 0;
    double last = (microbatches - static_cast<double>(schedule.stages)) * cut.stages[0].all.forward +
                  static_cast<double>(schedule.stages - 1) * cut.stages[0].first.forward;
    for (int64_t s = 0; s < schedule.stages && fits; ++s) {
      const CutStage &its = cut.stages[s];
      // More recomputation is never faster, so the first rung that may fit gives the bound.
      int64_t rung = 0, last = lastRung(ladder, its.most);
      StageOption option;
      for (;; ++rung) {
        option = optionOf(prices, schedule, cut, s, ladder, rung, its.most);
        fits = deviceBytes(its.states + option.held + (alone ? option.extra : 0), *prices.at(s).device) <=
               prices.at(s).memoryLimit;
        if (fits || rung == last)
          break;
      }
      recomputes |= rung > 0;
      stages[s] = secondsOf(prices, schedule, s, its, option, maxWarmupForwards(schedule, s));
      last += passageSeconds(prices, schedule, s, its, option);
    }
    if (fits)
      least = std::min(least, std::max(pipelineSecondsLowerBound(stages, schedule, prices.sendsOverlap),
                                       grouped ? (last + stages[0].after) * kLess : 0));
    if (!recomputes) // the other ladder begins with the same rung
      break;
  }
  return least;
}

double bestCaseSeconds(const ModelWork &model, const DeviceSpec &device, const TrainerPrices &trainer,
                       const std::vector<Recompute> &recompute) {
  double seconds = 0;
  for (const ChainSegment &entry : model.chain)
    for (const PassWork *pass : {&entry.segment.forward, &entry.segment.inputGradient, &entry.segment.weightGradient})
      for (const KernelWork &kernel : pass->kernels) {
        double rate = peakFlops(device, kernel.work.dtype) *
                      efficiencyOf(device, kernel.work.kernelClass, attentionLibrary(trainer)).flops;
        bool again =
            pass == &entry.segment.forward && entry.segment.recomputable && !recompute.empty() &&
            std::ranges::all_of(recompute, [&](Recompute mode) { return isRecomputed(kernel.recomputedBy, mode); });
        if (rate > 0)
          seconds += static_cast<double>(times(entry)) * (again ? 2 : 1) * kernel.work.flops / rate;
      }
  return seconds;
}

double bestCaseSpeedup(const ModelWork &model, const DeviceSpec &device, const DeviceSpec &baseline) {
  double most = 0;
  for (const ChainSegment &entry : model.chain)
    for (const PassWork *pass : {&entry.segment.forward, &entry.segment.inputGradient, &entry.segment.weightGradient})
      for (const KernelWork &kernel : pass->kernels) {
        auto rate = [&](const DeviceSpec &its) {
          return peakFlops(its, kernel.work.dtype) * efficiencyOf(its, kernel.work.kernelClass).flops;
        };
        if (kernel.work.flops > 0 && rate(baseline) > 0)
          most = std::max(most, rate(device) / rate(baseline));
      }
  return most;
}

double relativeLayerSpeed(const ModelWork &model, const PassSeconds &passes, const PassSeconds &baseline) {
  double most = 0;
  for (size_t l = 0; l < passes.segments.size(); ++l) {
    double its = passes.segments[l].total(), other = baseline.segments[l].total();
    if (model.chain[l].layers && other > 0)
      most = std::max(most, its > 0 ? other / its : std::numeric_limits<double>::infinity());
  }
  return most;
}

ReductionTiming reductionTiming(int optimizerSharding, bool gradientOverlap) {
  return optimizerSharding >= 2 ? ReductionTiming::EveryMicrobatch
         : gradientOverlap      ? ReductionTiming::BesideBackward
                                : ReductionTiming::AfterBackward;
}

ParameterSeconds parameterSeconds(const ModelWork &model, const CollectiveModel &collectives, const StateBytes &bytes,
                                  const OptimizerSharding &sharding, bool gradientOverlap, double bucketBytes) {
  // Parameters with the same ranks count as one, which is never slower than one collective for each.
  std::vector<std::map<std::vector<AxisRef>, double>> elementsOf; // by entry of the chain, of one layer
  std::map<std::vector<AxisRef>, double> all;
  for (const ChainSegment &entry : model.chain) {
    auto &elements = elementsOf.emplace_back();
    for (const ParameterGroup &group : entry.segment.parameters)
      elements[onMesh(group.reduceAxes, collectives.mesh())] += group.elements;
    for (const auto &[axes, number] : elements)
      all[axes] += static_cast<double>(times(entry)) * number;
  }
  ReductionTiming timing = reductionTiming(sharding.level, gradientOverlap);
  bool everyMicrobatch = timing == ReductionTiming::EveryMicrobatch;
  double width = everyMicrobatch ? bytes.weight : bytes.gradient;
  // A layer's reduction beside a backward pass is one collective. After the backward pass it is part of a larger one;
  // the whole model's is the most efficient.
  auto reduction = [&](const std::vector<AxisRef> &axes, double number) {
    double together = timing == ReductionTiming::AfterBackward ? all[axes] : number;
    if (together <= 0)
      return 0.0;
    double bucket = timing == ReductionTiming::AfterBackward ? 0 : bucketBytes;
    if (sharding.level == 0)
      return bucketedReductionSeconds(collectives, Collective::AllReduce, axes, together * width, bucket) *
             (number / together);
    ShardAxes shares = shardAxes(axes, sharding.axes);
    double seconds =
        bucketedReductionSeconds(collectives, Collective::ReduceScatter, shares.cut, together * width, bucket);
    if (!everyMicrobatch)
      seconds += collectives.seconds(Collective::AllReduce, shares.copies,
                                     together * width / static_cast<double>(shardCount(shares.cut)));
    return seconds * (number / together);
  };
  auto sumOfCopies = [&](const std::vector<AxisRef> &axes, double number) {
    ShardAxes shares = shardAxes(axes, sharding.axes);
    auto shards = static_cast<double>(std::max<int64_t>(1, shardCount(shares.cut)));
    return collectives.seconds(Collective::AllReduce, shares.copies, number / shards * bytes.gradient);
  };
  ParameterSeconds seconds;
  for (size_t l = 0; l < model.chain.size(); ++l) {
    auto count = static_cast<double>(times(model.chain[l]));
    double &ofLayer = seconds.reductionBySegment.emplace_back();
    double copies = 0;
    for (const auto &[axes, number] : elementsOf[l]) {
      if (sharding.level >= 3)
        seconds.everyMicrobatch +=
            2 * count *
            collectives.seconds(Collective::AllGather, shardAxes(axes, sharding.axes).cut, number * bytes.weight);
      ofLayer += reduction(axes, number);
      if (everyMicrobatch && sharding.axes)
        copies += sumOfCopies(axes, number);
    }
    seconds.copiesBySegment.push_back(copies);
    seconds.copiesTotal += count * copies;
    seconds.reductionTotal += count * ofLayer;
    if (everyMicrobatch)
      seconds.everyMicrobatch += count * ofLayer;
  }
  return seconds;
}

std::vector<double> stateBytesOf(const ModelWork &model, const Mesh &mesh, const StateBytes &bytes,
                                 const OptimizerSharding &sharding) {
  std::vector<double> bySegment;
  for (const ChainSegment &entry : model.chain) {
    double sum = 0;
    for (const ParameterGroup &group : entry.segment.parameters) {
      auto shards = static_cast<double>(shardCount(shardAxes(onMesh(group.reduceAxes, mesh), sharding.axes).cut));
      sum += group.elements *
             (bytes.weight / (sharding.level >= 3 ? shards : 1) + bytes.gradient / (sharding.level >= 2 ? shards : 1) +
              bytes.states / (sharding.level >= 1 ? shards : 1));
    }
    bySegment.push_back(sum);
  }
  return bySegment;
}

double totalOverChain(const ModelWork &model, const std::vector<double> &bySegment) {
  double sum = 0;
  for (size_t l = 0; l < bySegment.size(); ++l)
    sum += static_cast<double>(times(model.chain[l])) * bySegment[l];
  return sum;
}

} // namespace kerf::plansearch
