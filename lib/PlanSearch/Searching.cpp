// SPDX-License-Identifier: Apache-2.0
#include "Searching.h"
#include "Pins.h"
#include "SearchLowered.h"
#include "Tuning.h"
#include "kerf/PlanSearch/Outside.h"
#include "kerf/Support/Units.h"
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kerf::plansearch {

/// Leaves the questions that plans below the choice can answer. False: none is left.
bool Searching::narrow(Choice &choice) const {
  if (otherwise)
    choice.questions = otherwise->answered(choice, *space);
  else if (choice.level == Choice::Level::Layout && space->dataDoesTheSame(choice))
    choice.questions = 0;
  return choice.questions != 0;
}

Status Searching::open(std::vector<Choice> choices, double atLeast) {
  for (Choice &choice : choices) {
    if (!narrow(choice))
      continue;
    auto bound = bounds->of(choice, threshold(choice.questions));
    if (!bound)
      return bound.error();
    ++found.statistics.choices;
    ++work;
    double better = std::max(*bound, atLeast);
    choice.questions = useful(choice.questions, better);
    if (choice.questions)
      queue.push({better, numbers++, std::move(choice)});
  }
  return ok();
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
  Questions alike = otherwise ? choice.questions & otherwise->recompute() : 0,
            rest = static_cast<Questions>(choice.questions & ~alike);
  auto add = [&](const Recomputation &recomputation, Questions questions) {
    Choice decided = choice;
    decided.level = Choice::Level::Ready;
    decided.questions = questions;
    if (!options.constraints.decidesRecompute()) {
      candidates->recomputeStep(one, recomputation); // the plan is not asked
      auto [known, isNew] = numberOf.try_emplace(recomputation, static_cast<int>(recomputationOf.size()));
      if (isNew)
        recomputationOf.push_back(recomputation);
      decided.recompute = known->second;
    }
    if (isSearched(one.step.schedule) && !candidates->mayFit(one))
      return;
    double bound = std::max(atLeast, leastStepSeconds(one.work, one.step, *one.pipeline));
    decided.questions = useful(questions, bound);
    if (decided.questions)
      list.push_back({bound, numbers++, decided});
  };
  if (rest)
    for (const Recomputation &recomputation : candidates->recomputations(one))
      add(recomputation, rest);
  if (alike)
    for (Recompute mode : {Recompute::None, Recompute::Selective, Recompute::Full})
      if (otherwise->uniformRecompute() != mode &&
          std::ranges::find(job.trainer->space.recompute, mode) != job.trainer->space.recompute.end())
        if (auto recomputation = candidates->uniform(one, mode))
          add(*recomputation, alike);
  return list;
}

/// The choices below the threshold, the least bound first.
Result<std::vector<Choice>> Searching::byBound(std::vector<Choice> choices) {
  std::vector<std::pair<double, size_t>> order;
  for (size_t i = 0; i < choices.size(); ++i) {
    if (!narrow(choices[i]))
      continue;
    auto bound = bounds->of(choices[i]);
    if (!bound)
      return bound.error();
    ++work;
    if (*bound < threshold(choices[i].questions))
      order.emplace_back(*bound, i);
  }
  std::sort(order.begin(), order.end());
  std::vector<Choice> sorted;
  for (const auto &[bound, index] : order)
    sorted.push_back(choices[index]);
  return sorted;
}

/// Simulates a few plans of the layout, of those that fit the ones with the least bounds: something to compare with
/// early on. Bounds of different schedules are not alike near what their plans take, so that the first is seldom the
/// best.
Status Searching::dive(const Choice &layout) {
  auto model = bounds->workOf(bounds->keyOf(layout));
  if (!model)
    return model.error();
  if (!*model)
    return ok();
  auto orders = byBound(bounds->orders(layout, **model));
  if (!orders)
    return orders.error();
  std::vector<Choice> all;
  for (const Choice &order : *orders)
    for (Choice &choice : space->executions(order))
      all.push_back(choice);
  auto executions = byBound(all);
  if (!executions)
    return executions.error();
  if (options.constraints.schedule.name.empty()) // schedules that are searched take long to simulate
    std::erase_if(*executions, [](const Choice &choice) { return recordOf(choice.schedule).searched; });
  int more = otherwise ? 0 : kMoreDives; // many questions at once take the work for themselves
  bool fits = false;
  for (size_t i = 0; i < executions->size() && (fits ? more-- > 0 : i < kMostDives); ++i) {
    auto cuts = byBound(space->cuts((*executions)[i])); // none where a plan that was found is faster
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
    fits |= kept > before;
  }
  return ok();
}

/// A plan for each mesh that uses most of the ranks, with small microbatches, for which memory is the least trouble.
Status Searching::sow(std::vector<Choice> meshes) {
  std::stable_sort(meshes.begin(), meshes.end(),
                   [](const Choice &a, const Choice &b) { return a.frame.ranks() > b.frame.ranks(); });
  int64_t most = meshes.front().frame.ranks(), leastContext = std::numeric_limits<int64_t>::max();
  for (const Choice &mesh : meshes)
    leastContext = std::min(leastContext, mesh.frame.context);
  for (const Choice &mesh : meshes) {
    if (mesh.frame.context > leastContext) // data, stages and model spare memory as well
      continue;
    if (static_cast<double>(mesh.frame.ranks()) < kMostRanks * static_cast<double>(most) ||
        work > std::min(options.workBudget, kUsualWork) / kSowingShare || mustStop())
      break;
    Choice one = mesh;
    if (!narrow(one))
      continue;
    auto bound = bounds->of(one);
    if (!bound)
      return bound.error();
    if (*bound >= threshold(one.questions))
      continue;
    // The first has the smallest microbatch, and is sequence parallel where that can be.
    if (std::vector<Choice> layouts = space->layouts(one); !layouts.empty() && narrow(layouts.front()))
      if (Status status = dive(layouts.front()); !status)
        return status;
  }
  return ok();
}

bool Searching::mustStop() const {
  if (options.stop && options.stop())
    return true;
  return options.seconds &&
         std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count() > *options.seconds;
}

std::string Searching::limitText() const {
  if (all.mixed() && std::isinf(memoryLimit.bytes))
    return "the memory of its devices";
  return bytesText(all.mixed() ? memoryLimit.bytes : memoryLimit.of(all.device)) + " a device";
}

Status Searching::judge(Result<std::optional<Candidate>> made, Questions questions) {
  if (!made)
    return made.error();
  if (!*made)
    return ok();
  Candidate &one = **made;
  auto simulation = simulate(one.work, one.step, *one.pipeline);
  if (!simulation)
    return ok();
  ++found.statistics.simulated;
  work += kWorkOfCandidate + one.step.schedule.stages * one.step.schedule.microbatches * one.step.schedule.chunks;
  simulation->fits = true;
  for (int64_t s = 0; s < one.step.schedule.stages; ++s)
    simulation->fits &= simulation->memory[s].deviceBytes <= memoryLimit.of(one.pipeline->device(s));
  if (!simulation->fits)
    return ok();
  questions = useful(questions, simulation->stepSeconds);
  for (size_t q = 0; q < answers.size(); ++q)
    if (questions >> q & 1)
      keep(answers[q].plans, {one.completed.plan, *simulation});
  return ok();
}

/// Among the best, one of a kind: plans of the same mesh, order and schedule differ in details only.
void Searching::keep(std::vector<FoundPlan> &plans, FoundPlan result) {
  auto kind = [](const Plan &plan) {
    return std::tuple(plan.meshSizes, plan.mesh(), plan.schedule.name, plan.schedule.chunks, plan.schedule.variant);
  };
  ++kept;
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

/// Bounds the meshes, simulates first plans, and returns what is left to ask.
Result<std::vector<Choice>> Searching::begin() {
  const Plan &given = options.constraints;
  for (const auto &[axis, ways] : given.meshSizes)
    if (ways > 1 && planAxis(axis) < 0)
      return Error{fmt::format("{}: mesh.{} is {}; searched are {}, set it to 1", options.constraintsFile, axis, ways,
                               fmt::join(kPlanAxes, ", "))};
  Result<Bounds> made = Bounds::make(all, job, layouts, options, memoryLimit);
  if (!made)
    return made.error();
  bounds.emplace(std::move(*made));
  space = &bounds->space();
  candidates.emplace(all, job, options, *bounds, memoryLimit);
  auto meshes = space->meshes();
  if (!meshes)
    contradiction = true;
  if (meshes && otherwise)
    for (Choice &mesh : *meshes)
      mesh.questions = otherwise->all();
  return meshes;
}

/// Decides one choice further.
Status Searching::expand(const Open &top) {
  switch (top.choice.level) {
  case Choice::Level::Mesh:
    return open(space->layouts(top.choice), top.bound);
  case Choice::Level::Layout: {
    if (++layoutsOpened == nextDive) {
      nextDive *= 2;
      if (Status status = dive(top.choice); !status)
        return status;
    }
    auto model = bounds->workOf(bounds->keyOf(top.choice));
    return model ? open(bounds->orders(top.choice, **model), top.bound) : Status(model.error());
  }
  case Choice::Level::Order:
    return open(space->executions(top.choice), top.bound);
  case Choice::Level::Execution:
    return open(space->cuts(top.choice), top.bound);
  case Choice::Level::Cut: {
    auto plans = ready(top.choice, top.bound);
    if (!plans)
      return plans.error();
    for (Open &plan : *plans)
      queue.push(std::move(plan));
    return ok();
  }
  case Choice::Level::Ready:
    return judge(top.choice);
  }
  return ok();
}

/// Until no open choice can give a better answer, or the budget ends. Open choices are left in the queue.
Status Searching::explore() {
  auto elapsed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count(); };
  const Questions every = otherwise ? otherwise->all() : 1;
  double told = 1;
  while (!queue.empty()) {
    Open top = queue.top();
    found.lowerBoundSeconds = top.bound;
    if (top.bound >= threshold(every) || work >= options.workBudget || (until == Until::AnyFits && anyFound()))
      break;
    if (double now = elapsed(); options.progress && now > told) {
      told = now + 1;
      double best = answers.front().plans.empty() ? 0 : answers.front().plans.front().simulation.stepSeconds;
      options.progress(best, best > 0 ? std::min(best, top.bound) : top.bound);
    }
    if (mustStop())
      break;
    queue.pop();
    top.choice.questions = useful(top.choice.questions, top.bound);
    if (top.choice.questions)
      if (Status status = expand(top); !status)
        return status;
  }
  return ok();
}

Status Searching::search(std::vector<Choice> meshes) {
  if (Status status = open(meshes, 0); !status)
    return status;
  if (Status status = sow(std::move(meshes)); !status)
    return status;
  return explore();
}

/// Sets the lower bound of each question to the least bound of the choices that are left open for it.
void Searching::boundAnswers() {
  for (; !queue.empty(); queue.pop())
    for (size_t q = 0; q < answers.size(); ++q)
      if (queue.top().choice.questions >> q & 1)
        answers[q].lowerBound = std::min(answers[q].lowerBound, queue.top().bound);
}

Result<FoundPlans> Searching::run() {
  auto meshes = begin();
  if (!meshes)
    return meshes.error();
  if (options.from) {
    Plan plan = overlaid(decisionsOf(*options.from), options.constraints);
    plan.globalBatch = space->globalBatch();
    (void)judge(candidates->make(std::move(plan), Recomputation()),
                1); // what cannot be carried out any more is left aside
    candidates->forgetRefusal();
  }
  if (Status status = search(std::move(*meshes)); !status)
    return status.error();
  found.plans = std::move(answers.front().plans);
  contradiction = found.plans.empty() && exhausted();
  if (auto refusal = candidates->refusal(); found.plans.empty() && refusal) // the constraints contradict each other
    return *refusal;
  if (found.plans.empty() && !exhausted())
    return Error{fmt::format("no plan for {} of {} that fits into {} was found within the budget; give a larger "
                             "<budget>, or pin a part of the plan",
                             countText(all.ranks(), "rank"), all.name, limitText()),
                 ExitStatus::Infeasible};
  if (found.plans.empty())
    return Error{
        fmt::format("no plan for {} of {} fits into {}", countText(all.ranks(), "rank"), all.name, limitText()),
        ExitStatus::Infeasible};
  double best = found.plans.front().simulation.stepSeconds;
  found.lowerBoundSeconds = queue.empty() ? best : std::min(best, found.lowerBoundSeconds);
  found.statistics.layouts = bounds->layoutsMade();
  found.outside = outsideOfSpace(all, job, options, space->layers());
  for (FoundPlan &one : found.plans)
    one.plan.predicted = predictionOf(one.simulation, found.lowerBoundSeconds);
  return std::move(found);
}

Result<std::vector<OtherwisePlan>> Searching::runOtherwise(const Otherwise &asked) {
  otherwise = &asked;
  answers.assign(asked.keys().size(), {});
  auto meshes = begin();
  if (!meshes)
    return meshes.error();
  if (Status status = search(std::move(*meshes)); !status)
    return status.error();
  boundAnswers();
  std::vector<OtherwisePlan> list;
  for (size_t q = 0; q < answers.size(); ++q) {
    OtherwisePlan &one = list.emplace_back();
    one.key = asked.keys()[q];
    one.lowerBoundSeconds = answers[q].lowerBound;
    if (answers[q].plans.empty())
      continue;
    FoundPlan &best = answers[q].plans.front();
    one.lowerBoundSeconds = std::min(one.lowerBoundSeconds, best.simulation.stepSeconds);
    best.plan.predicted = predictionOf(best.simulation, one.lowerBoundSeconds);
    one.plan = std::move(best);
  }
  return list;
}

Prediction predictionOf(const Simulation &simulation, double lowerBoundSeconds) {
  Prediction predicted;
  predicted.stepSeconds = simulation.stepSeconds;
  predicted.lowerBoundSeconds = lowerBoundSeconds;
  for (const StageMemory &stage : simulation.memory)
    predicted.peakBytes.push_back(static_cast<int64_t>(stage.peakBytes));
  predicted.fits = simulation.fits;
  return predicted;
}

} // namespace kerf::plansearch
