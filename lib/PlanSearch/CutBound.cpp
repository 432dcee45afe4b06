// SPDX-License-Identifier: Apache-2.0
#include "CutBound.h"
#include "RecomputationLadder.h"
#include "kerf/PlanSearch/StepOfPlan.h"
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace kerf::plansearch {

namespace {

constexpr double kLess = 1 - 1e-9; // keeps rounding from pushing a quotient above an integer

/// Returns the number of a chunk's backward tasks that its stage's gradient reductions can run beside. Reductions begin
/// with the last microbatch on the last chunk; on earlier chunks the last group of microbatches still follows.
double tasksBesideReductions(const ScheduleOptions &schedule, int64_t chunk) {
  return chunk + 1 < schedule.chunks ? static_cast<double>(std::min(schedule.microbatches, schedule.stages)) : 1;
}

/// Seconds and bytes of one stage of a cut, for one microbatch and without recomputation.
struct CutStage {
  PassSeconds::SegmentSeconds first, all; // seconds of its first part, and of all its parts
  double states = 0;                      // bytes of parameters, gradients and optimizer states
  double held = 0, extra = 0; // with pinned recomputation: activation bytes in flight, and of one running task
  double reductions = 0, firstReductions = 0; // seconds of gradient reductions: all parts, its first part
  double copies = 0;                          // seconds of sums of copies once a step, of all parts
  double beside = 0;                          // seconds of tasks that reductions can run beside
  /// Seconds of reductions after the last task of its first part: without recomputation, and with all of it.
  std::array<double, 2> tail = {};
  int64_t most = 0; // number of layers of its largest part
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
  double after = 0;                         // activation bytes of a microbatch that waits for its weight gradient
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
    PartModes modes = partModesAt(ladder, rung, layers, most);
    double recompute = 0, held = 0, after = 0;
    for (const PartSegment &one : segments) {
      bool isLayer = prices.model.chain[one.entry].layers > 0;
      int64_t first = isLayer ? std::min(modes.first, one.count) : 0;
      modes.first -= first;
      for (auto [mode, count] : {std::pair(modes.otherMode, one.count - first), {modes.firstMode, first}}) {
        if (count == 0)
          continue;
        const auto index = static_cast<size_t>(isLayer ? mode : Recompute::None);
        const LayerActivationBytes &bytes = prices.activations[one.entry][index];
        recompute += static_cast<double>(count) * prices.at(stage).seconds->segments[one.entry].recompute[index];
        held += static_cast<double>(count) * bytes.untilInputGradient;
        after += static_cast<double>(count) * bytes.untilWeightGradient;
        option.extra = std::max({option.extra, bytes.duringBackward, bytes.workspace});
      }
    }
    option.recompute += recompute;
    option.besideRecompute += tasksBesideReductions(schedule, c) * recompute;
    option.firstRecompute = c == 0 ? recompute : option.firstRecompute;
    option.one = c == 0 ? held : option.one;
    option.held += static_cast<double>(minInFlight(schedule, stage, c)) * held;
    if (recordOf(schedule.kind).splitsBackward) { // the first microbatch waits for its weight gradient
      option.after = after;
      option.held += std::max(0.0, after - held);
    }
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
  double all = its.beside + (recordOf(schedule.kind).splitsBackward ? 0 : option.besideRecompute);
  return std::max({0.0, its.tail[option.firstRecompute > 0], its.reductions + its.copies - all});
}

/// Returns the stage's seconds for the pipeline bound. `inFlight` is as StageSeconds::inFlight.
StageSeconds secondsOf(const CutPrices &prices, const ScheduleOptions &schedule, int64_t stage, const CutStage &its,
                       const StageOption &option, double inFlight) {
  auto microbatches = static_cast<double>(schedule.microbatches);
  StageSeconds seconds;
  if (schedule.chunks == 1)
    seconds.inFlight = inFlight;
  seconds.busy = microbatches * (its.all.forward + its.all.backward() + option.recompute);
  if (prices.reductionTiming == ReductionTiming::EveryMicrobatch) // the next microbatch waits for the reductions
    seconds.busy += (microbatches - 1) * std::max(0.0, its.firstReductions - reducingSeconds(schedule, its, option));
  seconds.forward = its.first.forward;
  seconds.backward =
      (recordOf(schedule.kind).splitsBackward ? its.first.inputGradient : its.first.backward()) + option.firstRecompute;
  seconds.warmup = std::isinf(inFlight) ? inFlight : inFlight * its.first.forward;
  seconds.sendForward = stage + 1 < schedule.stages ? prices.at(stage).sendForward : 0;
  seconds.sendBackward = stage > 0 ? prices.at(stage).sendBackward : 0;
  if (!prices.sendsOverlap && schedule.chunks == 1) { // the stage waits for its messages
    seconds.busy += microbatches * (seconds.sendForward + seconds.sendBackward);
    seconds.warmup += std::min(inFlight, microbatches) * seconds.sendForward;
  }
  seconds.after = reductionsAfter(prices, schedule, its, option);
  if (schedule.stages > 1 && (stage == 0 || stage + 1 == schedule.stages))
    seconds.after += prices.tiedSeconds;
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

/// Returns the bound of a schedule whose task order is searched (zero-bubble); all stages are on the same rung.
/// `omitted` is the number of layers that are in no part (cutSecondsLowerBound), which may be in any of them. The
/// number of microbatches in flight on a stage is limited by the schedule and by the stage's memory.
double searchedSeconds(const CutPrices &prices, const Cut &cut, ScheduleOptions schedule, int64_t omitted) {
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
  double omittedBytes = 0; // activations of one microbatch on the omitted layers, at most
  for (size_t l = 0; omitted > 0 && l < chain.size(); ++l)
    for (const LayerActivationBytes &held : prices.activations[l])
      if (chain[l].layers)
        omittedBytes = std::max(omittedBytes, static_cast<double>(omitted) * held.untilInputGradient);
  std::vector<StageOption> options(cut.stages.size());
  std::vector<StageSeconds> stages(cut.stages.size());
  const std::vector<bool> like = likeBefore(prices, cut);
  /// Tries one rung. Returns false when no later rung of the ladder can be better.
  auto tryRung = [&](RecomputationLadder ladder, int64_t rung) {
    double sum = omittedBytes, busiest = 0;
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
      double inFlight =
          limited ? maxInFlight(schedule, static_cast<int64_t>(s)) : std::numeric_limits<double>::infinity();
      if (!pinned && each > 0)
        inFlight = std::min(inFlight, std::floor(room / each * (1 + 1e-9)));
      auto needed = limited && omitted == 0 && schedule.inFlight.empty()
                        ? static_cast<double>(minInFlight(schedule, static_cast<int64_t>(s), 0))
                        : 1.0;
      if (inFlight < needed ||
          (!pinned && deviceBytes((needed - 1) * options[s].one + std::max(options[s].one, options[s].after), device) -
                              deviceBytes(0, device) >
                          room * (1 + 1e-9)))
        return true;
      stages[s] = secondsOf(prices, schedule, static_cast<int64_t>(s), its, options[s], inFlight);
      const double share = options[s].one > 0 ? options[s].after / options[s].one : 0,
                   weightGradient = its.first.weightGradient;
      if (limited)
        stages[s].ofSchedule = holdingOfSchedule(schedule, static_cast<int64_t>(s), share, weightGradient);
      if (!pinned && each > 0)
        stages[s].ofMemory = {room / each * (1 + 1e-9), share * weightGradient};
    }
    least = std::min(least, pipelineSecondsLowerBound(stages, schedule, prices.sendsOverlap));
    return true;
  };
  const std::vector<RecomputationLadder> ladders = laddersOf(prices.modes);
  for (RecomputationLadder ladder : ladders)
    for (int64_t rung = ladder == ladders.front() ? 0 : firstNewRung(ladder, most);
         rung <= (pinned ? 0 : lastRung(ladder, most)) && tryRung(ladder, rung); ++rung)
      ;
  return least;
}

/// A moment of the step: the most microbatches are in flight, or the first one of them waits for its weight gradient.
enum class Moment { InFlight, Waiting };

/// Returns the seconds of recomputation that memory forces on one run of layers at a moment if the stages held nothing
/// else.
double forcedByLayerRun(const CutPrices &prices, const ScheduleOptions &schedule, size_t run, Moment moment) {
  bool alone = schedule.chunks == 1 && !recordOf(schedule.kind).splitsBackward; // temporary memory comes on top
  const auto &held = prices.activations[run];
  const auto &recompute = prices.at(0).seconds->segments[run].recompute;
  auto all = static_cast<double>(prices.model.chain[run].layers);
  std::array<double, std::size(kDeviceModes)> room = {}; // number of layers that fit on all stages, by mode
  for (int64_t s = 0; s < schedule.stages; ++s) {
    // The last chunk has the fewest microbatches in flight, so every layer counts as if it were there.
    auto inFlight = static_cast<double>(minInFlight(schedule, s, schedule.chunks - 1));
    double here = 0;
    for (Recompute its : prices.modes) {
      const auto mode = static_cast<size_t>(its);
      double left = prices.at(0).memoryLimit - deviceBytes(alone ? held[mode].duringBackward : 0, *prices.at(0).device);
      double waiting = moment == Moment::Waiting ? held[mode].untilWeightGradient - held[mode].untilInputGradient : 0;
      double bytes = prices.stateBytes[run] + inFlight * held[mode].untilInputGradient + waiting;
      double each = deviceBytes(bytes, *prices.at(0).device) - deviceBytes(0, *prices.at(0).device);
      here = std::max(here, left < 0 ? 0 : each > 0 ? std::floor(left / each * (1 + 1e-9)) : all);
      room[mode] += here; // as many as with the modes before
    }
  }
  // Layers that do not fit with the cheapest modes need at least the seconds of the next mode.
  std::vector<size_t> modes;
  for (Recompute its : prices.modes)
    modes.push_back(static_cast<size_t>(its));
  std::ranges::sort(modes, {}, [&](size_t mode) { return recompute[mode]; });
  double fitting = 0, before = 0, forced = 0; // `before`: seconds of the mode before
  for (size_t mode : modes) {
    forced += std::max(0.0, all - fitting) * (recompute[mode] - before);
    before = recompute[mode];
    fitting = std::max(fitting, room[mode]);
  }
  return all > fitting ? std::numeric_limits<double>::infinity() : forced;
}

} // namespace

double forcedRecomputeSeconds(const CutPrices &prices, const ScheduleOptions &schedule, bool waits) {
  if (std::isinf(prices.at(0).memoryLimit))
    return 0;
  const std::vector<ChainSegment> &chain = prices.model.chain;
  double most = 0;
  for (size_t l = 0; l < chain.size(); ++l)
    if (chain[l].layers) {
      most = std::max(most, forcedByLayerRun(prices, schedule, l, Moment::InFlight));
      if (waits)
        most = std::max(most, forcedByLayerRun(prices, schedule, l, Moment::Waiting));
    }
  return most;
}

namespace {

/// Returns the least bytes of an entry of the chain under the pinned recomputation modes.
template <typename Bytes> double leastPinned(const CutPrices &prices, size_t entry, Bytes bytes) {
  double least = std::numeric_limits<double>::infinity();
  for (Recompute mode : prices.pinnedModes)
    if (static_cast<size_t>(mode) < prices.activations[entry].size())
      least = std::min(least, bytes(prices.activations[entry][static_cast<size_t>(mode)]));
    else
      return 0; // offloaded activations
  return prices.pinnedModes.empty() ? 0 : least;
}

/// Returns the seconds for which the reductions of a part go on after its last backward task. The task runs the
/// backward passes of the layers from the last one to the first one, and the reduction of a layer follows its pass.
double tailOf(std::span<const PartSegment> part, const CutPrices &prices, const StagePrices &on, bool split,
              bool recomputes) {
  double tail = 0, before = 0; // `before`: reductions of the layers passed so far, minus their backward passes
  for (const auto &[entry, number] : part) {
    const PassSeconds::SegmentSeconds &seconds = on.seconds->segments[entry];
    double pass = split ? seconds.weightGradient : seconds.backward();
    if (recomputes && !split)
      pass += std::ranges::max(seconds.recompute);
    double reduction = (*on.reductionSeconds)[entry] + (on.copiesSeconds ? (*on.copiesSeconds)[entry] : 0);
    auto count = static_cast<double>(number);
    tail = std::max({tail, before + reduction, before + count * reduction - (count - 1) * pass});
    before += count * (reduction - pass);
  }
  return tail;
}

Cut cutOf(const CutPrices &prices, const std::vector<int64_t> &layersOfParts, const ScheduleOptions &schedule) {
  auto parts = static_cast<int64_t>(layersOfParts.size());
  const std::vector<ChainSegment> &chain = prices.model.chain;
  Cut cut;
  cut.stages.resize(schedule.stages);
  cut.segments.reserve(parts + 2);
  std::vector<double> gathered(schedule.stages, 0); // bytes beside the states of each stage
  // Per microbatch and layer, by entry of the chain.
  std::vector<double> held, extra;
  for (size_t l = 0; l < chain.size(); ++l) {
    held.push_back(leastPinned(prices, l, [](const LayerActivationBytes &its) { return its.untilInputGradient; }));
    extra.push_back(leastPinned(
        prices, l, [](const LayerActivationBytes &its) { return std::max(its.duringBackward, its.workspace); }));
  }
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
      stage.held +=
          static_cast<double>(minInFlight(schedule, p % schedule.stages, p / schedule.stages)) * count * held[l];
      stage.extra = std::max(stage.extra, extra[l]);
      if (prices.gatheredBytes)
        gathered[p % schedule.stages] = std::max(gathered[p % schedule.stages], (*prices.gatheredBytes)[l]);
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
      std::span<const PartSegment> segments(cut.segments.begin() + (p == 0 ? 0 : cut.ends[p - 1]), cut.segments.end());
      for (bool recomputes : {false, true})
        if (on.reductionSeconds)
          stage.tail[recomputes] = tailOf(segments, prices, on, recordOf(schedule.kind).splitsBackward, recomputes);
    }
  }
  for (size_t s = 0; s < gathered.size(); ++s)
    cut.stages[s].states += gathered[s];
  return cut;
}

/// Returns the first rung from 0 to `last` for which `fits` is true, or `last`. In each run of `run` rungs, which begin
/// with rung 1, those after a rung that fits do too.
template <typename Fits> int64_t firstFitting(int64_t last, int64_t run, Fits fits) {
  if (last == 0 || fits(0))
    return 0;
  int64_t end = run; // the last rung of a run
  while (end < last && !fits(end))
    end += run;
  int64_t low = end - run; // does not fit
  for (int64_t high = end; high - low > 1;)
    if (int64_t middle = low + (high - low) / 2; fits(middle))
      high = end = middle;
    else
      low = middle;
  return end;
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
    if (deviceBytes(stage.states + stage.held + (alone ? stage.extra : 0), *on.device) > on.stateLimit)
      return std::numeric_limits<double>::infinity();
    busiest = std::max(busiest, microbatches * (stage.all.forward + stage.all.backward()));
  }
  if (busiest >= cutoff)
    return busiest;
  if (recordOf(schedule.kind).searched)
    return searchedSeconds(prices, cut, schedule,
                           prices.model.layers() -
                               std::accumulate(layersOfParts.begin(), layersOfParts.end(), int64_t(0)));
  std::vector<StageSeconds> stages(schedule.stages);
  double least = std::numeric_limits<double>::infinity();
  // Whether each rung from one mode to the next takes fewer bytes than the one before.
  const bool alike = !split && std::ranges::count_if(prices.model.chain, &ChainSegment::layers) == 1;
  for (RecomputationLadder ladder : laddersOf(prices.modes)) {
    bool recomputes = false, isNew = false, fits = true;
    for (int64_t s = 0; s < schedule.stages && fits; ++s) {
      const CutStage &its = cut.stages[s];
      StageOption option;
      auto fitsOn = [&](int64_t rung) {
        option = optionOf(prices, schedule, cut, s, ladder, rung, its.most);
        return deviceBytes(its.states + option.held + (alone ? option.extra : 0), *prices.at(s).device) <=
               prices.at(s).memoryLimit;
      };
      // More recomputation is never faster, so the first rung that may fit gives the bound.
      const int64_t rung = firstFitting(lastRung(ladder, its.most), alike ? its.most : 1, fitsOn);
      fits = fitsOn(rung);
      recomputes |= rung > 0;
      isNew |= rung >= firstNewRung(ladder, its.most);
      stages[s] = secondsOf(prices, schedule, s, its, option, maxInFlight(schedule, s));
    }
    if (fits && (isNew || std::isinf(least)))
      least = std::min(least, pipelineSecondsLowerBound(stages, schedule, prices.sendsOverlap));
    if (!recomputes) // the other ladders begin with the same rung
      break;
  }
  return least;
}

ReductionTiming reductionTiming(int optimizerSharding, bool gradientOverlap) {
  return optimizerSharding >= 2 ? ReductionTiming::EveryMicrobatch
         : gradientOverlap      ? ReductionTiming::BesideBackward
                                : ReductionTiming::AfterBackward;
}

double filledShare(double stages, double microbatches) { return 1 - std::pow(1 - 1 / microbatches, stages); }

double evenlyFilled(double stages, double microbatches, int64_t layers, double total, double there, double layer) {
  double busiest = microbatches * std::max(total / stages, std::ceil(static_cast<double>(layers) / stages) * layer);
  bool interleaves = std::fmod(microbatches, stages) == 0;
  return std::max(busiest, interleaves ? there : there / filledShare(stages, microbatches));
}

} // namespace kerf::plansearch
