// SPDX-License-Identifier: Apache-2.0
#include "TreeSearch.h"
#include "Pins.h"
#include "SearchLowered.h"
#include "Tuning.h"
#include "kerf/PlanSearch/OutsideSpace.h"
#include "kerf/Support/Units.h"
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tuple>

namespace kerf::plansearch {

void TreeSearch::expectOpenLayouts() const {
  if (!options.expectLayouts)
    return;
  std::vector<LayoutKey> keys;
  size_t looked = 0;
  for (const auto &[order, open] : queue.layouts()) {
    const auto &[choice, bounded] = open;
    if (keys.size() == kExpectedLayouts || looked++ == kOpenLayoutsLookedAt ||
        order.first >= threshold(choice.questions))
      break;
    const bool whole = bounded < OpenChoice::Bounded::FromWholeSequence && !choice.solved;
    LayoutKey key = whole ? bounds->wholeSequenceKeyOf(choice) : bounds->keyOf(choice);
    if (!bounds->isMade(key) && std::ranges::find(keys, key) == keys.end())
      keys.push_back(key);
  }
  options.expectLayouts(keys);
}

bool TreeSearch::narrowQuestions(Choice &choice) const {
  if (asked)
    choice.questions = asked->answerable(choice, *space);
  else if (choice.level == Choice::Level::Layout && space->dataAxisDominates(choice))
    choice.questions = 0;
  return choice.questions != 0;
}

Status TreeSearch::addChoices(std::vector<Choice> choices, double atLeast) {
  for (Choice &choice : choices) {
    if (!narrowQuestions(choice))
      continue;
    // Layouts take long to compute, so each is computed only once its cheap bound is the least of all.
    bool isLayout = choice.level == Choice::Level::Layout, isMesh = choice.level == Choice::Level::Mesh,
         isExecution = choice.level == Choice::Level::Execution;
    auto bound = isLayout ? bounds->boundBeforeLayout(choice) : bounds->lowerBound(choice, threshold(choice.questions));
    if (!bound)
      return bound.error();
    ++found.statistics.choices;
    ++work;
    double better = std::max(*bound, atLeast);
    choice.questions = improvable(choice.questions, better);
    if (choice.questions)
      queue.push({better, numbers++, std::move(choice),
                  isLayout || isMesh || isExecution ? OpenChoice::Bounded::Cheaply : OpenChoice::Bounded::AtLevel});
  }
  return ok();
}

Result<std::vector<OpenChoice>> TreeSearch::decideRecomputation(const Choice &choice, double atLeast) {
  std::vector<OpenChoice> list;
  auto made = makeCandidate(choice);
  if (!made)
    return made.error();
  if (!*made)
    return list;
  work += kWorkOfCandidate;
  Candidate &one = **made;
  QuestionSet alike = asked ? choice.questions & asked->recomputeQuestion() : 0,
              rest = static_cast<QuestionSet>(choice.questions & ~alike);
  StepBounds stepBounds(one.work, one.step, *one.pipeline);
  std::vector<double> limits; // of candidates that may not fit
  if (hasSearchedOrder(one.step.schedule))
    limits = candidates->memoryLimits(one);
  auto add = [&](const Recomputation &recomputation, QuestionSet questions) {
    Choice decided = choice;
    decided.level = Choice::Level::Recomputation;
    decided.questions = questions;
    if (!options.constraints.decidesRecompute()) {
      candidates->applyToStep(one, recomputation); // only the step is bounded; the plan is made when it is simulated
      auto [known, isNew] = indexOf.try_emplace(recomputation, static_cast<int>(recomputations.size()));
      if (isNew)
        recomputations.push_back(recomputation);
      decided.recomputation = known->second;
    }
    double bound = std::max(atLeast, stepBounds.seconds(limits));
    decided.questions = improvable(questions, bound);
    if (decided.questions)
      list.push_back({bound, numbers++, decided});
  };
  if (rest)
    for (const Recomputation &recomputation : candidates->candidateRecomputations(one))
      add(recomputation, rest);
  if (alike)
    for (Recompute mode : kDeviceModes)
      if (asked->uniformRecompute() != mode &&
          std::ranges::find(job.trainer->space.recompute, mode) != job.trainer->space.recompute.end())
        if (auto recomputation = candidates->uniformRecomputation(one, mode))
          add(*recomputation, alike);
  return list;
}

Result<std::vector<Choice>> TreeSearch::sortedByBound(std::vector<Choice> choices) {
  std::vector<std::pair<double, size_t>> order;
  for (size_t i = 0; i < choices.size(); ++i) {
    if (!narrowQuestions(choices[i]))
      continue;
    auto bound = bounds->lowerBound(choices[i]);
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

bool TreeSearch::mustStop() const {
  if (options.stop && options.stop())
    return true;
  return options.seconds &&
         std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count() > *options.seconds;
}

Status TreeSearch::simulateChoice(Result<std::optional<Candidate>> made, QuestionSet questions) {
  if (!made)
    return made.error();
  if (!*made)
    return ok();
  Candidate &one = **made;
  candidates->holdWhatFits(one);
  work += kWorkOfCandidate;
  auto simulation = simulate(one.work, one.step, *one.pipeline, Trace::No, threshold(questions));
  if (!simulation)
    return ok();
  ++found.statistics.simulated;
  work += one.step.schedule.stages * one.step.schedule.microbatches * one.step.schedule.chunks;
  simulation->fits = true;
  for (int64_t s = 0; s < one.step.schedule.stages; ++s)
    simulation->fits &= simulation->memory[s].deviceBytes <= memoryLimit.onDevice(one.pipeline->device(s));
  if (!simulation->fits)
    return ok();
  questions = improvable(questions, simulation->stepSeconds);
  for (size_t q = 0; q < answers.size(); ++q)
    if (questions >> q & 1)
      insertPlan(answers[q].plans, {one.completed.plan, *simulation});
  candidates->keepSmallest(false);
  return ok();
}

/// Plans with the same mesh, order and schedule are of one kind: they differ only in details.
void TreeSearch::insertPlan(std::vector<FoundPlan> &plans, FoundPlan result) {
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

Result<std::vector<Choice>> TreeSearch::prepare() {
  const Plan &given = options.constraints;
  for (const auto &[axis, size] : given.meshSizes)
    if (size > 1 && planAxis(axis) < 0)
      return Error{fmt::format("{}: mesh.{} is {}, but only the axes {} can be searched; set it to 1",
                               options.constraintsFile, axis, size, fmt::join(kPlanAxes, ", "))};
  Result<Bounds> made = Bounds::make(cluster, job, layouts, options, memoryLimit);
  if (!made)
    return made.error();
  bounds.emplace(std::move(*made));
  space = &bounds->space();
  candidates.emplace(cluster, job, options, *bounds, memoryLimit);
  candidates->keepSmallest(!asked && goal == Goal::BestPlan);
  auto meshes = space->meshes();
  if (!meshes)
    contradiction = true;
  if (meshes && asked)
    for (Choice &mesh : *meshes)
      mesh.questions = asked->all();
  return meshes;
}

Result<double> TreeSearch::closerBound(OpenChoice &open) {
  using enum OpenChoice::Bounded;
  const Choice &choice = open.choice;
  const bool isLayout = choice.level == Choice::Level::Layout;
  const bool fromWhole = isLayout && open.bounded == WithCommunication;
  if (isLayout && open.bounded != Cheaply &&
      !bounds->isMade(fromWhole ? bounds->wholeSequenceKeyOf(choice) : bounds->keyOf(choice)))
    expectOpenLayouts();
  if (fromWhole) {
    open.bounded = FromWholeSequence;
    return bounds->boundOfWholeSequence(choice, open.bound);
  }
  const bool isCheap = open.bounded == Cheaply;
  open.bounded = isLayout && isCheap ? WithCommunication : AtLevel;
  if (choice.level == Choice::Level::Execution)
    return bounds->boundOfAllCuts(choice, threshold(choice.questions));
  return isCheap ? bounds->boundWithCommunication(choice, open.bound) : bounds->lowerBound(choice);
}

Result<bool> TreeSearch::boundCloser(OpenChoice &top) {
  auto bound = closerBound(top);
  if (!bound)
    return bound.error();
  if (*bound <= top.bound)
    return true;
  top.bound = *bound;
  top.choice.questions = improvable(top.choice.questions, top.bound);
  if (top.choice.questions)
    queue.push(top);
  return false;
}

Status TreeSearch::expand(const OpenChoice &top) {
  switch (top.choice.level) {
  case Choice::Level::Mesh:
    return addChoices(space->layouts(top.choice), top.bound);
  case Choice::Level::Layout: {
    if (++layoutsOpened == nextDive) {
      nextDive += nextDive / kDiveSpacing + 1;
      if (Status status = dive(top.choice); !status)
        return status;
    }
    auto model = bounds->workOf(bounds->keyOf(top.choice));
    return model ? addChoices(bounds->orders(top.choice, **model), top.bound) : Status(model.error());
  }
  case Choice::Level::Order:
    return addChoices(space->executions(top.choice), top.bound);
  case Choice::Level::Execution:
    return addChoices(space->cuts(top.choice), top.bound);
  case Choice::Level::Cut: {
    auto plans = decideRecomputation(top.choice, top.bound);
    if (!plans)
      return plans.error();
    for (OpenChoice &plan : *plans)
      queue.push(std::move(plan));
    return ok();
  }
  case Choice::Level::Recomputation:
    return simulateChoice(top.choice);
  }
  return ok();
}

/// Open choices that remain are left in the queue.
Status TreeSearch::explore() {
  auto elapsed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count(); };
  const QuestionSet every = asked ? asked->all() : 1;
  double told = 1;
  while (!queue.empty()) {
    OpenChoice top = queue.top();
    found.lowerBoundSeconds = top.bound;
    if (top.bound >= threshold(every) || work >= options.workBudget || (goal == Goal::AnyFittingPlan && anyFound()))
      break;
    if (double now = elapsed(); options.progress && now > told) {
      told = now + 1;
      double best = answers.front().plans.empty() ? 0 : answers.front().plans.front().simulation.stepSeconds;
      options.progress(best, best > 0 ? std::min(best, top.bound) : top.bound);
    }
    if (mustStop())
      break;
    queue.pop();
    top.choice.questions = improvable(top.choice.questions, top.bound);
    if (!top.choice.questions)
      continue;
    bool same = true;
    while (same && top.bounded != OpenChoice::Bounded::AtLevel) {
      auto its = boundCloser(top);
      if (!its)
        return its.error();
      same = *its;
    }
    if (!same)
      continue;
    if (Status status = expand(top); !status)
      return status;
  }
  return ok();
}

Status TreeSearch::search(std::vector<Choice> meshes) {
  Status status = addChoices(meshes, 0);
  if (status)
    status = simulateFirstPlans(std::move(meshes));
  if (status)
    status = explore();
  if (status)
    status = diveFromOpenChoices();
  if (options.expectLayouts)
    options.expectLayouts({});
  return status;
}

void TreeSearch::boundAnswers() {
  for (; !queue.empty(); queue.pop())
    for (size_t q = 0; q < answers.size(); ++q)
      if (queue.top().choice.questions >> q & 1)
        answers[q].lowerBound = std::min(answers[q].lowerBound, queue.top().bound);
}

Result<FoundPlans> TreeSearch::run() {
  auto meshes = prepare();
  if (!meshes)
    return meshes.error();
  if (options.startingPlan) {
    Plan plan = overlaid(decisionsOf(*options.startingPlan), options.constraints);
    plan.globalBatch = space->globalBatch();
    (void)simulateChoice(candidates->make(std::move(plan), Recomputation()),
                         1); // a starting plan that is no longer possible is ignored
    candidates->forgetRefusal();
  }
  if (Status status = search(std::move(*meshes)); !status)
    return status.error();
  found.plans = std::move(answers.front().plans);
  contradiction = found.plans.empty() && exhausted();
  if (auto refusal = candidates->refusal(); found.plans.empty() && refusal) // contradictory constraints
    return *refusal;
  if (found.plans.empty() && !exhausted())
    return Error{fmt::format("no plan for {} of {} that fits into {} was found within the budget; give a larger "
                             "<budget>, or pin a part of the plan",
                             countText(cluster.ranks(), "rank"), cluster.name, limitText(memoryLimit, cluster)),
                 ExitStatus::Infeasible};
  if (found.plans.empty())
    return Error{fmt::format("no plan for {} of {} fits into {}", countText(cluster.ranks(), "rank"), cluster.name,
                             limitText(memoryLimit, cluster)),
                 ExitStatus::Infeasible};
  double best = found.plans.front().simulation.stepSeconds;
  found.lowerBoundSeconds = queue.empty() ? best : std::min(best, found.lowerBoundSeconds);
  found.statistics.layouts = bounds->layoutsMade();
  found.outsideSpace = decisionsOutsideSpace(cluster, job, options, space->layers());
  for (FoundPlan &one : found.plans)
    one.plan.predicted = predictionOf(one.simulation, found.lowerBoundSeconds);
  return std::move(found);
}

std::optional<FoundPlan> TreeSearch::smallest() {
  if (!candidates || !candidates->smallest())
    return std::nullopt;
  auto made = candidates->make(*candidates->smallest(), Recomputation());
  if (!made || !*made)
    return std::nullopt;
  auto simulation = simulate((*made)->work, (*made)->step, *(*made)->pipeline);
  if (!simulation)
    return std::nullopt;
  return FoundPlan{(*made)->completed.plan, std::move(*simulation)};
}

Result<std::vector<AlternativePlan>> TreeSearch::findAlternatives(const DecisionQuestions &questions) {
  asked = &questions;
  answers.assign(questions.keys().size(), {});
  auto meshes = prepare();
  if (!meshes)
    return meshes.error();
  if (Status status = search(std::move(*meshes)); !status)
    return status.error();
  boundAnswers();
  std::vector<AlternativePlan> list;
  for (size_t q = 0; q < answers.size(); ++q) {
    AlternativePlan &one = list.emplace_back();
    one.key = questions.keys()[q];
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
  if (simulation.uncertainty)
    setIntervals(predicted, *simulation.uncertainty);
  return predicted;
}

} // namespace kerf::plansearch
