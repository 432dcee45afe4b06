// SPDX-License-Identifier: Apache-2.0
// Best first: the choice of the least bound is decided further, until no bound is below the best plan simulated.
#include "kerf/PlanSearch/PlanSearch.h"
#include "Bounds.h"
#include "Pins.h"
#include "kerf/CostModel/StepMemory.h"
#include "kerf/PlanSearch/StepOfPlan.h"
#include <algorithm>
#include <chrono>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <limits>
#include <queue>

namespace kerf {

using namespace plansearch;

namespace {

constexpr int64_t kWorkOfCandidate = 100; // beside bounding a choice
// Where nothing fits: searches for the pins that conflict and for the least memory that would do, and how close they
// come.
constexpr int kLeastMemoryTries = 16;
constexpr int64_t kQuickShare = 16; // of the budget, for each question whether anything fits
constexpr double kLeastMemoryPrecision = 1.01;
// Plans to begin with: of meshes with so many of the ranks, for at most one part in so many of the budget.
constexpr double kMostRanks = 0.9;
constexpr int64_t kSowingShare = 4;
constexpr size_t kMostDives = 40; // executions of a layout that are tried until one fits
constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Open {
  double bound = 0;
  int64_t number = 0; // of its making: ties go to the first
  Choice choice;
  /// The least bound comes first, then what is decided the furthest.
  bool operator<(const Open &other) const {
    return std::tuple(-bound, choice.level, -number) < std::tuple(-other.bound, other.choice.level, -other.number);
  }
};

double mostBytes(const Simulation &simulation) {
  double most = 0;
  for (const StageMemory &stage : simulation.memory)
    most = std::max(most, stage.deviceBytes);
  return most;
}

/// A plan on its way to be simulated.
struct Candidate {
  CompletedPlan completed;
  StepWork work;
  StepPlan step;
  std::unique_ptr<CollectiveModel> collectives;
};

class Searching {
public:
  enum class Until { Best, AnyFits };
  Searching(const Cluster &cluster, const TrainingJob &job, const LayoutSource &layouts,
            const PlanSearchOptions &options, double memoryLimit, Until until = Until::Best)
      : all(cluster), job(job), layouts(layouts), options(options), memoryLimit(memoryLimit), until(until) {}

  Result<FoundPlans> run();
  /// Nothing was left to try.
  bool exhausted() const { return queue.empty(); }
  /// The search failed because of what it was asked for, not because of the model.
  bool contradicted() const { return contradiction; }

private:
  Status open(std::vector<Choice> choices, double atLeast);
  Result<std::optional<Candidate>> candidate(const Choice &choice);
  Result<std::optional<Candidate>> candidate(Plan plan);
  const Schedule *scheduleOf(const ScheduleOptions &options);
  std::optional<std::vector<std::string>> fittingModes(const Candidate &one);
  bool mayFit(const Candidate &one);
  Result<std::vector<Open>> ready(const Choice &choice, double atLeast);
  Result<std::vector<Choice>> byBound(const std::vector<Choice> &choices);
  Status dive(const Choice &layout);
  Status sow(std::vector<Choice> meshes);
  Status judge(const Choice &choice) { return judge(candidate(choice)); }
  Status judge(Result<std::optional<Candidate>> made);
  bool mustStop() const;
  void keep(FoundPlan result);
  double threshold() const {
    return static_cast<int>(found.plans.size()) < options.top ? kInfinity : found.plans.back().simulation.stepSeconds;
  }

  const Cluster &all;
  const TrainingJob &job;
  const LayoutSource &layouts;
  const PlanSearchOptions &options;
  std::optional<Bounds> bounds;
  const Space *space = nullptr; // the bounds'
  double memoryLimit;
  Until until;
  std::optional<Error> refusal; // of the first plan that cannot be
  bool anyMade = false;         // some plan can
  bool contradiction = false;
  std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
  int64_t work = 0; // done, as PlanSearchOptions::workBudget counts it
  int64_t numbers = 0;
  int64_t kept = 0; // plans that were among the best when they were found
  std::priority_queue<Open> queue;
  std::vector<std::vector<std::string>> modesOf; // recomputation by stage, that choices name by number
  std::map<std::vector<std::string>, int> numberOfModes;
  std::optional<Schedule> lastSchedule; // cuts of one execution share it
  std::tuple<ScheduleKind, int64_t, int64_t, int64_t> lastKey;
  FoundPlans found;
};

Status Searching::open(std::vector<Choice> choices, double atLeast) {
  for (Choice &choice : choices) {
    auto bound = bounds->of(choice);
    if (!bound)
      return bound.error();
    ++found.statistics.choices;
    ++work;
    double better = std::max(*bound, atLeast);
    if (better < threshold())
      queue.push({better, numbers++, std::move(choice)});
  }
  return ok();
}

/// Nothing: a plan that cannot be (a number of microbatches that the stages do not divide).
Result<std::optional<Candidate>> Searching::candidate(const Choice &choice) {
  Plan plan = space->plan(choice);
  if (plan.recompute.empty())
    plan.recompute = choice.recompute < 0 ? std::vector<std::string>{"none"} : modesOf[choice.recompute];
  return candidate(std::move(plan));
}

Result<std::optional<Candidate>> Searching::candidate(Plan plan) {
  auto completed = completePlan(std::move(plan), options.constraintsFile, all, job);
  if (!completed) {
    refusal = refusal ? refusal : completed.error();
    return std::optional<Candidate>();
  }
  auto model = bounds->workOf(layoutOf(completed->plan));
  if (!model)
    return model.error();
  if (!*model)
    return std::optional<Candidate>();
  auto work = stepWork(*completed, job, **model);
  if (!work) {
    refusal = refusal ? refusal : work.error();
    return std::optional<Candidate>();
  }
  anyMade = true;
  auto collectives = std::make_unique<CollectiveModel>(completed->mesh, completed->cluster, bounds->groupShapes());
  StepPlan step = stepPlan(*completed, job);
  return std::optional<Candidate>({std::move(*completed), std::move(*work), std::move(step), std::move(collectives)});
}

/// Of the order alone; not for schedules that are searched for the seconds of their tasks.
const Schedule *Searching::scheduleOf(const ScheduleOptions &options) {
  std::tuple key(options.kind, options.stages, options.microbatches, options.chunks);
  if (!lastSchedule || lastKey != key) {
    auto made = makeSchedule(options);
    lastSchedule = made ? std::make_optional(std::move(*made)) : std::nullopt;
    lastKey = key;
  }
  return lastSchedule ? &*lastSchedule : nullptr;
}

/// The least recomputation with which each stage fits: more of it never makes a stage faster. Nothing: some stage does
/// not fit with any.
std::optional<std::vector<std::string>> Searching::fittingModes(const Candidate &one) {
  const Schedule *schedule = scheduleOf(one.step.schedule);
  if (!schedule)
    return std::nullopt;
  constexpr std::pair<Recompute, const char *> kModes[] = {
      {Recompute::None, "none"}, {Recompute::Selective, "selective"}, {Recompute::Full, "full"}};
  const Device &device = one.collectives->cluster().device;
  bool pinned = !options.constraints.recompute.empty(), fits = true;
  std::vector<std::string> modes;
  StepPlan tried = one.step;
  for (int64_t s = 0; s < one.step.schedule.stages; ++s) {
    double bytes = 0;
    for (auto [mode, word] : kModes) {
      if (!pinned) {
        tried.recompute = mode;
        tried.recomputeOfStage.clear();
      }
      bytes = deviceBytesOf(one.work, tried, *schedule, device, s);
      if (bytes > memoryLimit && !pinned)
        continue;
      modes.push_back(word);
      break;
    }
    fits &= bytes <= memoryLimit;
  }
  if (!fits)
    return std::nullopt;
  if (pinned)
    return std::vector<std::string>();
  if (std::all_of(modes.begin(), modes.end(), [&](const std::string &mode) { return mode == modes.front(); }))
    modes.resize(1);
  return modes;
}

/// With a single microbatch, which any schedule holds at least.
bool Searching::mayFit(const Candidate &one) {
  Schedule single;
  single.stages = one.step.schedule.stages;
  single.microbatches = 1;
  single.order.assign(single.stages, {{TaskKind::Forward, 0, 0}, {TaskKind::Backward, 0, 0}});
  for (int64_t s = 0; s < single.stages; ++s)
    if (deviceBytesOf(one.work, one.step, single, one.collectives->cluster().device, s) > memoryLimit)
      return false;
  return true;
}

/// Decides recomputation; nothing where the plan cannot be, or does not fit.
Result<std::vector<Open>> Searching::ready(const Choice &choice, double atLeast) {
  std::vector<Open> list;
  auto made = candidate(choice);
  if (!made)
    return made.error();
  if (!*made)
    return list;
  work += kWorkOfCandidate;
  Candidate &one = **made;
  const ScheduleOptions &schedule = one.step.schedule;
  bool searched = schedule.kind == ScheduleKind::ZeroBubble && schedule.variant != ZeroBubbleVariant::H1;
  std::vector<std::vector<std::string>> modes = {{}};
  bool other = options.other && options.other->key == "recompute";
  if (other && !options.constraints.recompute.empty())
    return list;
  if (!searched && !other) {
    auto fitting = fittingModes(one);
    if (!fitting)
      return list;
    modes = {std::move(*fitting)};
  } else if (options.constraints.recompute.empty()) { // the order may depend on it: all stages alike
    modes = {{"none"}, {"selective"}, {"full"}};
    if (other)
      std::erase(modes, options.other->than.recompute);
  }
  for (auto &mode : modes) {
    Choice decided = choice;
    decided.level = Choice::Level::Ready;
    if (!mode.empty()) {
      one.completed.plan.recompute = mode;
      one.step = stepPlan(one.completed, job);
      auto [known, isNew] = numberOfModes.try_emplace(mode, static_cast<int>(modesOf.size()));
      if (isNew)
        modesOf.push_back(mode);
      decided.recompute = known->second;
    }
    if ((searched || other) && !mayFit(one))
      continue;
    double bound = std::max(atLeast, leastStepSeconds(one.work, one.step, PipelineModel(*one.collectives)));
    if (bound < threshold())
      list.push_back({bound, numbers++, decided});
  }
  return list;
}

/// The choices below the threshold, the least bound first.
Result<std::vector<Choice>> Searching::byBound(const std::vector<Choice> &choices) {
  std::vector<std::pair<double, size_t>> order;
  for (size_t i = 0; i < choices.size(); ++i) {
    auto bound = bounds->of(choices[i]);
    if (!bound)
      return bound.error();
    ++work;
    if (*bound < threshold())
      order.emplace_back(*bound, i);
  }
  std::sort(order.begin(), order.end());
  std::vector<Choice> sorted;
  for (const auto &[bound, index] : order)
    sorted.push_back(choices[index]);
  return sorted;
}

/// Simulates one plan of the layout, the first that fits of those with the least bounds: something to compare with
/// early on.
Status Searching::dive(const Choice &layout) {
  auto model = bounds->workOf(bounds->keyOf(layout));
  if (!model)
    return model.error();
  if (!*model)
    return ok();
  auto executions = byBound(space->executions(layout, bounds->distinctOrders(layout, **model)));
  if (!executions)
    return executions.error();
  if (options.constraints.schedule.name.empty()) // schedules that are searched take long to simulate
    std::erase_if(*executions, [](const Choice &choice) {
      return choice.schedule == ScheduleKind::ZeroBubble && choice.variant != ZeroBubbleVariant::H1;
    });
  for (size_t i = 0; i < std::min(executions->size(), kMostDives); ++i) {
    auto cuts = byBound(space->cuts((*executions)[i]));
    if (!cuts)
      return cuts.error();
    if (cuts->empty())
      continue;
    auto plans = ready(cuts->front(), 0);
    if (!plans)
      return plans.error();
    int64_t before = kept;
    if (!plans->empty())
      if (Status status = judge(plans->front().choice); !status)
        return status;
    if (kept > before)
      return ok();
  }
  return ok();
}

/// A plan for each mesh that uses most of the ranks, with small microbatches, for which memory is the least trouble.
Status Searching::sow(std::vector<Choice> meshes) {
  std::stable_sort(meshes.begin(), meshes.end(),
                   [](const Choice &a, const Choice &b) { return a.frame.ranks() > b.frame.ranks(); });
  int64_t most = meshes.front().frame.ranks();
  for (const Choice &mesh : meshes) {
    if (static_cast<double>(mesh.frame.ranks()) < kMostRanks * static_cast<double>(most) ||
        work > options.workBudget / kSowingShare || mustStop())
      break;
    auto bound = bounds->of(mesh);
    if (!bound)
      return bound.error();
    if (*bound >= threshold())
      continue;
    // The first has the smallest microbatch, and is sequence parallel where that can be.
    if (std::vector<Choice> layouts = space->layouts(mesh); !layouts.empty())
      if (Status status = dive(layouts.front()); !status)
        return status;
  }
  return ok();
}

bool Searching::mustStop() const {
  if (options.stop && options.stop())
    return true;
  return options.seconds &&
         std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() > *options.seconds;
}

Status Searching::judge(Result<std::optional<Candidate>> made) {
  if (!made)
    return made.error();
  if (!*made)
    return ok();
  Candidate &one = **made;
  auto simulation = simulate(one.work, one.step, *one.collectives);
  if (!simulation)
    return ok();
  ++found.statistics.simulated;
  work += kWorkOfCandidate + one.step.schedule.stages * one.step.schedule.microbatches * one.step.schedule.chunks;
  simulation->fits = mostBytes(*simulation) <= memoryLimit;
  if (simulation->fits && simulation->stepSeconds < threshold())
    keep({std::move(one.completed.plan), std::move(*simulation)});
  return ok();
}

/// Among the best, one of a kind: plans of the same mesh, order and schedule differ in details only.
void Searching::keep(FoundPlan result) {
  auto kind = [](const Plan &plan) {
    return std::tuple(plan.meshSizes, plan.mesh(), plan.schedule.name, plan.schedule.chunks, plan.schedule.variant);
  };
  ++kept;
  auto &plans = found.plans;
  auto same = std::find_if(plans.begin(), plans.end(),
                           [&](const FoundPlan &other) { return kind(other.plan) == kind(result.plan); });
  if (same != plans.end()) {
    if (same->simulation.stepSeconds <= result.simulation.stepSeconds)
      return;
    plans.erase(same);
  }
  auto after = std::find_if(plans.begin(), plans.end(), [&](const FoundPlan &other) {
    return other.simulation.stepSeconds > result.simulation.stepSeconds;
  });
  plans.insert(after, {std::move(result.plan), std::move(result.simulation)});
  if (static_cast<int>(plans.size()) > options.top)
    plans.pop_back();
}

Result<FoundPlans> Searching::run() {
  const Plan &given = options.constraints;
  for (const auto &[axis, ways] : given.meshSizes)
    if (ways > 1 && planAxis(axis) < 0)
      return Error{fmt::format("{}: mesh.{} is {}; searched are {}, set it to 1", options.constraintsFile, axis, ways,
                               fmt::join(kPlanAxes, ", "))};
  auto elapsed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); };
  Result<Bounds> made = Bounds::make(all, job, layouts, options, memoryLimit);
  if (!made)
    return made.error();
  bounds.emplace(std::move(*made));
  space = &bounds->space();
  auto meshes = space->meshes();
  if (!meshes) {
    contradiction = true;
    return meshes.error();
  }
  if (options.from) {
    Plan plan = overlaid(decisionsOf(*options.from), given);
    plan.globalBatch = space->globalBatch();
    (void)judge(candidate(std::move(plan))); // what cannot be carried out any more is left aside
    refusal.reset();
    anyMade = false;
  }
  if (Status status = open(*meshes, 0); !status)
    return status.error();
  if (Status status = sow(std::move(*meshes)); !status)
    return status.error();

  double told = 1;
  int64_t layoutsOpened = 0, nextDive = 1;
  while (!queue.empty()) {
    Open top = queue.top();
    found.lowerBoundSeconds = top.bound;
    if (top.bound >= threshold() || work >= options.workBudget || (until == Until::AnyFits && !found.plans.empty()))
      break;
    if (double now = elapsed(); options.progress && now > told) {
      told = now + 1;
      options.progress(found.plans.empty() ? 0 : found.plans.front().simulation.stepSeconds, top.bound);
    }
    if (mustStop())
      break;
    queue.pop();
    Status status = ok();
    switch (top.choice.level) {
    case Choice::Level::Mesh:
      status = open(space->layouts(top.choice), top.bound);
      break;
    case Choice::Level::Layout:
      if (++layoutsOpened == nextDive) {
        nextDive *= 2;
        status = dive(top.choice);
      }
      if (auto model = bounds->workOf(bounds->keyOf(top.choice)); !model)
        status = model.error();
      else if (status)
        status = open(space->executions(top.choice, bounds->distinctOrders(top.choice, **model)), top.bound);
      break;
    case Choice::Level::Execution:
      status = open(space->cuts(top.choice), top.bound);
      break;
    case Choice::Level::Cut:
      if (auto plans = ready(top.choice, top.bound))
        for (Open &plan : *plans)
          queue.push(std::move(plan));
      else
        status = plans.error();
      break;
    case Choice::Level::Ready:
      status = judge(top.choice);
      break;
    }
    if (!status)
      return status.error();
  }
  contradiction = found.plans.empty() && exhausted();
  if (found.plans.empty() && refusal && !anyMade) // the constraints contradict each other
    return *refusal;
  if (found.plans.empty() && !exhausted())
    return Error{fmt::format("no plan for {} ranks of {} that fits into {:.0f} bytes a device was found within the "
                             "budget; give a larger --budget, or pin a part of the plan",
                             all.ranks(), all.name, memoryLimit),
                 ExitStatus::Infeasible};
  if (found.plans.empty())
    return Error{
        fmt::format("no plan for {} ranks of {} fits into {:.0f} bytes a device", all.ranks(), all.name, memoryLimit),
        ExitStatus::Infeasible};
  double best = found.plans.front().simulation.stepSeconds;
  found.lowerBoundSeconds = queue.empty() ? best : std::min(best, found.lowerBoundSeconds);
  found.statistics.layouts = bounds->layoutsMade();
  for (FoundPlan &one : found.plans) {
    Prediction predicted;
    predicted.stepSeconds = one.simulation.stepSeconds;
    predicted.lowerBoundSeconds = found.lowerBoundSeconds;
    for (const StageMemory &stage : one.simulation.memory)
      predicted.peakBytes.push_back(static_cast<int64_t>(stage.peakBytes));
    predicted.fits = one.simulation.fits;
    one.plan.predicted = predicted;
  }
  return std::move(found);
}

} // namespace

Result<FoundPlans> searchPlans(const Cluster &cluster, const TrainingJob &job, const LayoutSource &layouts,
                               const PlanSearchOptions &options) {
  auto limit = static_cast<double>(cluster.device.memoryBytes);
  if (options.memoryLimitBytes)
    limit = std::min(limit, static_cast<double>(*options.memoryLimitBytes));
  Searching search(cluster, job, layouts, options, limit);
  auto found = search.run();
  if (found || !search.contradicted() || !options.leastMemory)
    return found;
  PlanSearchOptions quick = options;
  quick.workBudget = options.workBudget / kQuickShare;
  quick.top = 1;
  std::vector<std::string> conflict = conflictingPins(options.constraints, [&](const Plan &pins) {
    quick.constraints = pins;
    return static_cast<bool>(Searching(cluster, job, layouts, quick, limit, Searching::Until::AnyFits).run());
  });
  for (std::string &pin : conflict)
    pin = pinText(options.constraints, pin);
  Error error = found.error();
  if (conflict.size() == 1)
    error.message += fmt::format("; without {} there is a plan", conflict.front());
  else if (!conflict.empty())
    error.message += fmt::format("; these pins conflict, and without any one of them there is a plan: {}",
                                 fmt::join(conflict, ", "));
  if (error.status != ExitStatus::Infeasible)
    return error;
  // How much would do: twice as much until some plan fits, then halves of the way between.
  quick.constraints = options.constraints;
  double tooLittle = limit, enough = kInfinity;
  for (int i = 0; i < kLeastMemoryTries && enough > tooLittle * kLeastMemoryPrecision; ++i) {
    double tried = std::isinf(enough) ? 2 * tooLittle : (tooLittle + enough) / 2;
    auto some = Searching(cluster, job, layouts, quick, tried, Searching::Until::AnyFits).run();
    if (some)
      enough = std::min(tried, mostBytes(some->plans.front().simulation));
    else
      tooLittle = tried;
  }
  if (!std::isinf(enough))
    error.message += fmt::format("; the smallest found needs {:.0f} bytes: take more ranks or devices of more memory{}",
                                 std::ceil(enough), options.memoryLimitBytes ? ", or give --memory as much" : "");
  return error;
}

} // namespace kerf
