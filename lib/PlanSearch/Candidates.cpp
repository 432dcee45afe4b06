// SPDX-License-Identifier: Apache-2.0
#include "Candidates.h"
#include "Tuning.h"

#include <algorithm>
#include <cmath>

namespace kerf::plansearch {

namespace {
constexpr double kMoreRounding = 1 + 1e-9; // relative difference of sums of doubles in another order
} // namespace

bool hasSearchedOrder(const ScheduleOptions &schedule) { return recordOf(schedule.kind).searched; }

Result<std::optional<Candidate>> Candidates::make(Plan plan, const Recomputation &recomputation) {
  bool decided = plan.decidesRecompute();
  auto completed = completePlan(std::move(plan), options.constraintsFile, cluster, job);
  if (!completed) {
    firstRefusal = firstRefusal ? firstRefusal : completed.error();
    return std::optional<Candidate>();
  }
  if (options.checkPlan)
    if (Status kept = options.checkPlan(*completed); !kept) {
      firstRefusal = firstRefusal ? firstRefusal : kept.error();
      return std::optional<Candidate>();
    }
  auto model = bounds.workOf(layoutKeyOf(completed->plan));
  if (!model)
    return model.error();
  if (!*model)
    return std::optional<Candidate>();
  auto work = stepWork(*completed, job, **model);
  auto step = work ? stepPlan(*completed, job, **model) : Result<StepPlan>(work.error());
  if (!step) {
    firstRefusal = firstRefusal ? firstRefusal : step.error();
    return std::optional<Candidate>();
  }
  std::unique_ptr<CollectiveModel> collectives;
  std::unique_ptr<PipelineModel> pipeline;
  if (completed->cluster.mixed()) {
    auto mixed = PipelineModel::make(completed->mesh, completed->cluster);
    if (!mixed) {
      firstRefusal = firstRefusal ? firstRefusal : mixed.error();
      return std::optional<Candidate>();
    }
    pipeline = std::make_unique<PipelineModel>(std::move(*mixed));
  } else {
    collectives = std::make_unique<CollectiveModel>(completed->mesh, completed->cluster, bounds.groupShapes());
    pipeline = std::make_unique<PipelineModel>(*collectives);
  }
  anyMade = true;
  Candidate one{std::move(*completed), *model, std::move(*work), std::move(*step), std::move(collectives),
                std::move(pipeline)};
  if (!decided)
    if (Status status = applyRecomputation(one, recomputation); !status)
      return status.error();
  return std::optional<Candidate>(std::move(one));
}

/// Returns the number of layers of each part.
static std::vector<int64_t> layersOfParts(const StepWork &work, const ScheduleOptions &schedule) {
  std::vector<int64_t> layers;
  for (int64_t p = 0; p < schedule.stages * schedule.chunks; ++p) {
    int64_t &its = layers.emplace_back(0);
    for (const Segment &segment : work.parts[work.part[p % schedule.stages][p / schedule.stages]].segments)
      its += segment.recomputable ? segment.repeat : 0;
  }
  return layers;
}

/// Returns the number of layers of a stage's largest part.
static int64_t mostLayers(const std::vector<int64_t> &layersOfParts, int64_t stage, int64_t stages) {
  int64_t most = 0;
  for (size_t p = stage; p < layersOfParts.size(); p += stages)
    most = std::max(most, layersOfParts[p]);
  return most;
}

/// Returns the recomputation modes of the layers of each part.
static std::vector<LayerModes> modesOfParts(const std::vector<int64_t> &layersOfParts,
                                            const Recomputation &recomputation, int64_t stages) {
  bool alike = recomputation.rungs.size() == 1;
  int64_t mostOfAll = *std::max_element(layersOfParts.begin(), layersOfParts.end());
  std::vector<LayerModes> modes;
  for (size_t p = 0; p < layersOfParts.size(); ++p) {
    auto stage = static_cast<int64_t>(p) % stages;
    int64_t layers = layersOfParts[p], most = alike ? mostOfAll : mostLayers(layersOfParts, stage, stages);
    modes.push_back(layerModes(partModesAt(recomputation.ladder, recomputation.at(stage), layers, most), layers));
  }
  return modes;
}

Status Candidates::applyRecomputation(Candidate &one, const Recomputation &recomputation) {
  if (recomputation == Recomputation())
    return ok();
  int64_t stages = one.step.schedule.stages, next = 0;
  std::vector<int64_t> layers = layersOfParts(one.work, one.step.schedule);
  std::vector<LayerModes> byPart = modesOfParts(layers, recomputation, stages);
  LayerCut cut;
  std::vector<Recompute> modes;
  for (size_t p = 0; p < layers.size(); ++p) {
    cut.emplace_back(next, next + layers[p]);
    next += layers[p];
    for (const RecomputeRun &run : byPart[p])
      modes.resize(modes.size() + run.layers, run.mode);
  }
  setRecompute(one.completed.plan, modes, cut, stages);
  auto step = stepPlan(one.completed, job, *one.model);
  if (!step)
    return step.error();
  one.step = std::move(*step);
  return ok();
}

void Candidates::applyToStep(Candidate &one, const Recomputation &recomputation) {
  std::vector<int64_t> layers = layersOfParts(one.work, one.step.schedule);
  one.step.recomputeOfPart = modesOfParts(layers, recomputation, one.step.schedule.stages);
}

/// Returns a schedule with the memory peaks of the schedule for `given`, whose order does not depend on task durations;
/// null when there is none.
const Schedule *Candidates::scheduleOf(const ScheduleOptions &given) {
  const ScheduleOptions options = withFewMicrobatches(given);
  ScheduleKey key(options.kind, options.stages, options.microbatches, options.chunks);
  auto known = knownSchedules.find(key);
  if (known == knownSchedules.end()) {
    auto made = makeSchedule(options);
    const int64_t tasks = options.stages * options.microbatches * options.chunks;
    if (knownTasks += tasks; knownTasks > kMostKnownTasks) {
      knownSchedules.clear();
      knownTasks = tasks;
    }
    known = knownSchedules.try_emplace(key).first;
    if (made)
      known->second.schedule = std::move(*made);
  }
  lastSchedule = &known->second;
  return lastSchedule->schedule ? &*lastSchedule->schedule : nullptr;
}

/// Returns the peak candidates of a stage under the last schedule that scheduleOf returned.
const std::vector<PeakCandidate> &Candidates::peakCandidatesOf(int64_t stage) {
  auto [moments, isNew] = lastSchedule->peakCandidates.try_emplace(stage);
  if (isNew)
    moments->second = peakCandidates(*lastSchedule->schedule, stage);
  return moments->second;
}

bool Candidates::fits(const Candidate &one) {
  const Schedule *schedule = scheduleOf(one.step.schedule);
  if (!schedule)
    return false;
  for (int64_t s = 0; s < one.step.schedule.stages; ++s)
    if (const DeviceSpec &device = one.pipeline->device(s);
        peakDeviceBytes(one.work, one.step, *schedule, device, s) > memoryLimit.onDevice(device)) {
      if (keepsSmallest)
        noteTooLarge(one, *schedule);
      return false;
    }
  return true;
}

void Candidates::noteTooLarge(const Candidate &one, const Schedule &schedule) {
  double most = 0;
  for (int64_t s = 0; s < one.step.schedule.stages && most < smallestBytes; ++s)
    most = std::max(most, peakDeviceBytes(one.work, one.step, schedule, one.pipeline->device(s), s));
  if (most >= smallestBytes)
    return;
  smallestBytes = most;
  smallestPlan = one.completed.plan;
  if (!options.constraints.decidesRecompute()) // only then the step may recompute what the plan does not
    smallestPlan->recompute = {one.step.recomputeOfPart.empty() ? one.step.recompute : Recompute::Full};
}

/// Returns each stage's first rung of the ladder that fits into memory; nothing when some stage fits on no rung.
std::optional<Recomputation> Candidates::firstFittingRungs(Candidate &one, RecomputationLadder ladder) {
  const Schedule *schedule = scheduleOf(one.step.schedule);
  if (!schedule)
    return std::nullopt;
  int64_t stages = one.step.schedule.stages, chunks = one.step.schedule.chunks;
  std::vector<int64_t> layers = layersOfParts(one.work, one.step.schedule);
  Recomputation found{ladder, {}};
  StepPlan tried = one.step;
  tried.recompute = Recompute::None;
  for (int64_t s = 0; s < stages; ++s) {
    const DeviceSpec &device = one.pipeline->device(s);
    double limit = memoryLimit.onDevice(device);
    tried.recomputeOfPart.clear();
    int64_t rung = 0, most = mostLayers(layers, s, stages), last = lastRung(ladder, most);
    if (peakDeviceBytes(one.work, tried, *schedule, device, s) > limit) {
      tried.recomputeOfPart.resize(stages * chunks);
      std::vector<LayerModes> modes(chunks);
      for (++rung; rung <= last; ++rung) {
        for (int64_t c = 0; c < chunks; ++c)
          modes[c] = layerModes(partModesAt(ladder, rung, layers[c * stages + s], most), layers[c * stages + s]);
        if (peakDeviceBytes(peakCandidatesOf(s), one.work, tried, modes, device, s) > limit * kMoreRounding)
          continue;
        for (int64_t c = 0; c < chunks; ++c)
          tried.recomputeOfPart[c * stages + s] = modes[c];
        if (peakDeviceBytes(one.work, tried, *schedule, device, s) <= limit)
          break;
      }
    }
    if (rung > last) {
      if (keepsSmallest) {
        applyToStep(one, {ladder, {lastRung(ladder, *std::max_element(layers.begin(), layers.end()))}});
        noteTooLarge(one, *schedule);
      }
      return std::nullopt;
    }
    found.rungs.push_back(rung);
  }
  if (stages == 1 || std::all_of(found.rungs.begin(), found.rungs.end(), [](int64_t rung) { return rung == 0; }))
    found.rungs.resize(1);
  return found;
}

std::vector<Recomputation> Candidates::candidateRecomputations(Candidate &one) {
  const ScheduleOptions &schedule = one.step.schedule;
  bool searched = hasSearchedOrder(schedule);
  bool pinned = options.constraints.decidesRecompute();
  std::vector<Recomputation> list;
  if (pinned) {
    if (searched ? mayFit(one) : fits(one))
      list.emplace_back();
    return list;
  }
  if (job.trainer->space.recomputeForm != RecomputeForm::ByStage)
    return trainerRecomputations(one);
  const std::vector<RecomputationLadder> ladders = laddersOf(job.trainer->space.recompute);
  std::vector<int64_t> layers = layersOfParts(one.work, schedule);
  if (!searched) {
    auto isNew = [&](const Recomputation &found) { // whether no ladder before it has all of its rungs
      for (int64_t s = 0; s < schedule.stages; ++s)
        if (found.at(s) >= firstNewRung(found.ladder, mostLayers(layers, s, schedule.stages)))
          return true;
      return false;
    };
    for (RecomputationLadder ladder : ladders) {
      auto found = firstFittingRungs(one, ladder);
      if (found && (list.empty() || isNew(*found)))
        list.push_back(std::move(*found));
      if (list.empty() || list.back().rungs == std::vector<int64_t>{0})
        break; // all ladders have the same first and last rung
    }
    return list;
  }
  // The schedule's order may depend on recomputation, so all stages are on the same rung. All ladders have the first
  // and the last rung of the first ladder. A rung can pay only if it lets a stage hold more microbatches than the rung
  // before.
  int64_t most = *std::max_element(layers.begin(), layers.end());
  const bool pinnedHeld = !schedule.inFlight.empty();
  std::optional<std::vector<int64_t>> without; // held without recomputation; empty: all microbatches have room
  const std::vector<double> limits = memoryLimits(one);
  for (RecomputationLadder ladder : ladders) {
    const bool first = ladder == ladders.front();
    std::optional<std::vector<int64_t>> held = without; // by stage, with the rung before
    for (int64_t rung = first ? 0 : 1; rung < lastRung(ladder, most) + (first ? 1 : 0); ++rung) {
      applyToStep(one, {ladder, {rung}});
      if (!mayFit(one))
        continue;
      std::vector<int64_t> fit = inFlightThatFits(one.work, one.step, *one.pipeline, limits);
      if ((first || rung >= firstNewRung(ladder, most)) && (pinnedHeld || fit != held))
        list.push_back({ladder, {rung}});
      held = std::move(fit);
      without = rung == 0 ? held : without;
      if (!pinnedHeld && held->empty())
        break;
    }
    if (!list.empty() && list.back().rungs == std::vector<int64_t>{0})
      break; // without recomputation all microbatches have room
  }
  return list;
}

std::vector<Recomputation> Candidates::trainerRecomputations(Candidate &one) {
  const TrainerSpace &can = job.trainer->space;
  std::vector<int64_t> layers = layersOfParts(one.work, one.step.schedule);
  int64_t most = *std::max_element(layers.begin(), layers.end());
  std::vector<Recomputation> list;
  if (most == 0 && (hasSearchedOrder(one.step.schedule) ? mayFit(one) : fits(one)))
    list.emplace_back();
  for (Recompute mode : can.recompute) {
    auto all = uniformRecomputation(one, mode);
    if (all)
      list.push_back(std::move(*all));
    bool first = list.size() == 1 && list.front() == Recomputation();
    if (first && !hasSearchedOrder(one.step.schedule)) // no recomputation is the fastest
      return list;
  }
  if (can.recomputeForm != RecomputeForm::FirstOfParts || hasSearchedOrder(one.step.schedule) ||
      one.step.overlap.experts)
    return list;
  for (int64_t rung = 1; rung < most; ++rung) {
    Recomputation block{RecomputationLadder::Full, {rung}};
    applyToStep(one, block);
    if (!fits(one))
      continue;
    list.push_back(std::move(block)); // more recomputation is slower
    break;
  }
  return list;
}

std::optional<Recomputation> Candidates::uniformRecomputation(Candidate &one, Recompute mode) {
  std::vector<int64_t> layers = layersOfParts(one.work, one.step.schedule);
  int64_t most = *std::max_element(layers.begin(), layers.end());
  if (most == 0)
    return std::nullopt;
  if (mode == Recompute::Full && one.step.overlap.experts) // exchanges of tokens overlap without it only
    return std::nullopt;
  if (mode != Recompute::None && recordOf(one.step.schedule.kind).splitsBackward &&
      !job.trainer->space.zeroBubbleWithRecompute)
    return std::nullopt;
  Recomputation all; // the first rung of every ladder
  for (RecomputationLadder ladder : kRecomputationLadders)
    if (auto its = std::ranges::find(modesOf(ladder), mode); its != modesOf(ladder).end() && mode != Recompute::None)
      all = {ladder, {(its - modesOf(ladder).begin()) * most}};
  applyToStep(one, all);
  bool can = hasSearchedOrder(one.step.schedule) ? mayFit(one) : fits(one);
  return can ? std::optional(all) : std::nullopt;
}

bool Candidates::mayFit(const Candidate &one) const {
  ScheduleOptions options = one.step.schedule;
  describeActivations(one.work, one.step, options);
  Schedule least; // the most microbatches in flight before the first backward, and this backward
  least.stages = options.stages;
  least.splitBackward = true;
  for (int64_t s = 0; s < options.stages; ++s) {
    std::vector<Task> &order = least.order.emplace_back(minInFlight(options, s, 0), Task(TaskKind::Forward, 0, 0));
    order.push_back({TaskKind::InputGradient, 0, 0});
    order.push_back({TaskKind::WeightGradient, 0, 0});
  }
  for (int64_t s = 0; s < options.stages; ++s)
    if (const DeviceSpec &device = one.pipeline->device(s);
        peakDeviceBytes(one.work, one.step, least, device, s) > memoryLimit.onDevice(device))
      return false;
  return true;
}

std::vector<double> Candidates::memoryLimits(const Candidate &one) const {
  std::vector<double> limits;
  for (int64_t s = 0; s < one.step.schedule.stages; ++s)
    limits.push_back(memoryLimit.onDevice(one.pipeline->device(s)));
  return limits;
}

void Candidates::holdWhatFits(Candidate &one) const {
  if (!hasSearchedOrder(one.step.schedule) || !one.step.schedule.inFlight.empty())
    return;
  const std::vector<int64_t> inFlight = inFlightThatFits(one.work, one.step, *one.pipeline, memoryLimits(one));
  one.completed.plan.schedule.inFlight = one.completed.schedule.inFlight = one.step.schedule.inFlight = inFlight;
}

} // namespace kerf::plansearch
