// SPDX-License-Identifier: Apache-2.0
// Plans that the search simulates without exploring the tree: before it does, so that choices can be dropped early, and
// when its budget ends.
#include "TreeSearch.h"
#include "Tuning.h"
#include <algorithm>
#include <iterator>
#include <map>
#include <random>
#include <set>
#include <tuple>

namespace kerf::plansearch {

Result<bool> TreeSearch::simulateCut(const Choice &cut) {
  auto plans = decideRecomputation(cut, 0);
  if (!plans)
    return plans.error();
  int64_t before = kept;
  if (!plans->empty())
    if (Status status = simulateChoice(plans->front().choice); !status)
      return status.error();
  return kept > before;
}

void TreeSearch::expectLayouts(std::span<const Choice> choices) const {
  if (!options.expectLayouts)
    return;
  std::vector<LayoutKey> keys;
  for (const Choice &choice : choices)
    keys.push_back(bounds->keyOf(choice));
  options.expectLayouts(keys);
}

Result<double> TreeSearch::closestBound(const Choice &choice) {
  auto bound = choice.level == Choice::Level::Mesh ? bounds->lowerBound(choice) : bounds->boundBeforeLayout(choice);
  return bound && *bound < threshold(choice.questions) ? bounds->boundWithCommunication(choice, *bound) : bound;
}

/// Simulates plans with the least bounds until one fits, and a few more: the bounds of different schedules are not
/// equally tight, so the plan with the least bound is seldom the fastest.
Status TreeSearch::dive(const Choice &layout, int moreDives) {
  auto model = bounds->workOf(bounds->keyOf(layout));
  if (!model)
    return model.error();
  if (!*model)
    return ok();
  auto orders = sortedByBound(bounds->orders(layout, **model));
  if (!orders)
    return orders.error();
  std::vector<Choice> all;
  for (const Choice &order : *orders)
    for (Choice &choice : space->executions(order))
      all.push_back(choice);
  auto executions = sortedByBound(all);
  if (!executions)
    return executions.error();
  if (options.constraints.schedule.name.empty()) // schedules with a searched order take long to simulate
    std::erase_if(*executions, [](const Choice &choice) { return recordOf(choice.schedule).searched; });
  int more = asked ? 0 : moreDives; // several questions share one work budget
  bool fits = false;
  for (size_t i = 0; i < executions->size() && (fits ? more-- > 0 : i < kMostDives); ++i) {
    auto cuts = sortedByBound(space->cuts((*executions)[i])); // empty when a known plan is faster
    if (!cuts)
      return cuts.error();
    if (cuts->empty())
      continue;
    auto simulated = simulateCut(cuts->front());
    if (!simulated)
      return simulated.error();
    fits |= *simulated;
  }
  return ok();
}

/// Returns whether a rule that users of Megatron-LM go by leads to the mesh: "model" inside of a node, then pipeline
/// stages, both powers of two, and "data" takes the other ranks (Narayanan et al. 2021, section 5).
static bool followsRule(const AxisSizes &sizes, int64_t node) {
  auto isPowerOfTwo = [](int64_t size) { return (size & (size - 1)) == 0; };
  return sizes.model <= node && isPowerOfTwo(sizes.model) && isPowerOfTwo(sizes.stage);
}

/// Returns the cut in which the numbers of layers of two parts differ by at most one, or else the first one.
static const Choice *evenCut(const std::vector<Choice> &cuts, int64_t layers) {
  for (const Choice &cut : cuts) {
    const int64_t parts = cut.sizes.stage * cut.chunks;
    if (parts > 1 && cut.firstPartLayers == (layers + parts - 1) / parts && cut.lastPartLayers == layers / parts)
      return &cut;
  }
  return cuts.empty() ? nullptr : &cuts.front();
}

Status TreeSearch::simulateRulePlan(const Choice &layout) {
  auto model = bounds->workOf(bounds->keyOf(layout));
  if (!model)
    return model.error();
  std::vector<Choice> orders = *model ? bounds->orders(layout, **model) : std::vector<Choice>();
  if (orders.empty())
    return ok();
  // Where the constraints leave a choice, the rule takes 1F1B, and optimizer states are sharded over all replicas.
  const Plan &pins = options.constraints;
  std::vector<Choice> executions = space->executions(orders.front());
  std::erase_if(executions, [&](const Choice &one) {
    return (pins.schedule.name.empty() && one.schedule != ScheduleKind::OneFOneB) ||
           (pins.optimizerSharding.empty() && one.sizes.data > 1 && one.optimizerSharding != 1) || one.shardingRanks;
  });
  for (size_t i = 0; i < std::min(executions.size(), kRuleExecutions); ++i) {
    std::vector<Choice> cuts = space->cuts(executions[i]);
    if (const Choice *cut = evenCut(cuts, space->layers()))
      if (auto simulated = simulateCut(*cut); !simulated)
        return simulated.error();
  }
  return ok();
}

Status TreeSearch::simulateRulePlans(std::vector<Choice> meshes) {
  const int64_t node = cluster.mixed() || cluster.levels.empty() ? 1 : cluster.levels.front().size;
  auto leastOf = [&](int64_t AxisSizes::*axis) {
    return std::ranges::min(meshes, {}, [&](const Choice &mesh) { return mesh.sizes.*axis; }).sizes.*axis;
  };
  const int64_t most = meshes.front().sizes.ranks(), context = leastOf(&AxisSizes::context),
                expert = leastOf(&AxisSizes::expert);
  for (Choice &mesh : meshes) {
    if (mustStop() || mesh.sizes.ranks() < most || (goal == Goal::AnyFittingPlan && anyFound()))
      break;
    if (mesh.sizes.context > context || mesh.sizes.expert > expert || !followsRule(mesh.sizes, node))
      continue;
    std::vector<Choice> layouts = narrowQuestions(mesh) ? space->layouts(mesh) : std::vector<Choice>();
    if (layouts.empty() || !narrowQuestions(layouts.front()))
      continue;
    auto bound = closestBound(layouts.front());
    if (!bound)
      return bound.error();
    // Until a plan is found, a plan that does not fit serves to say how much memory is needed.
    if (*bound < threshold(mesh.questions) || (goal == Goal::BestPlan && !anyFound()))
      if (Status status = simulateRulePlan(layouts.front()); !status)
        return status;
  }
  return ok();
}

Status TreeSearch::simulateRandomLayouts(const std::vector<Choice> &meshes) {
  std::map<std::array<int64_t, 3>, std::vector<const Choice *>> byInnerAxes;
  for (const Choice &mesh : meshes)
    byInnerAxes[{mesh.sizes.model, mesh.sizes.context, mesh.sizes.expert}].push_back(&mesh);
  std::vector<const std::vector<const Choice *> *> groups;
  for (const auto &[axes, group] : byInnerAxes)
    groups.push_back(&group);
  std::mt19937_64 random; // with its default seed: every search tries the same layouts
  std::set<std::pair<std::array<int64_t, std::size(kPlanAxes)>, LayoutKey>> drawn;
  for (int i = 0; i < kRandomLayouts && !mustStop(); ++i) {
    const std::vector<const Choice *> &group = *groups[random() % groups.size()];
    std::vector<Choice> layouts = space->layouts(*group[random() % group.size()]);
    if (layouts.empty())
      continue;
    Choice layout = layouts[random() % layouts.size()];
    if (!narrowQuestions(layout) || !drawn.insert({layout.sizes.asArray(), bounds->keyOf(layout)}).second)
      continue;
    auto bound = closestBound(layout);
    if (!bound)
      return bound.error();
    if (*bound < threshold(layout.questions))
      if (Status status = dive(layout, 0); !status)
        return status;
  }
  return ok();
}

/// Takes small microbatches, with which plans need the least memory and most likely fit.
Status TreeSearch::simulateFirstPlans(std::vector<Choice> meshes) {
  std::stable_sort(meshes.begin(), meshes.end(),
                   [](const Choice &a, const Choice &b) { return a.sizes.ranks() > b.sizes.ranks(); });
  int64_t most = meshes.front().sizes.ranks(), leastContext = std::numeric_limits<int64_t>::max();
  for (const Choice &mesh : meshes)
    leastContext = std::min(leastContext, mesh.sizes.context);
  // First the plans of a simple rule, then one plan for as many meshes as possible, then a few more for each. Under
  // several questions, dives never simulate more than one plan, so the last pass alone suffices.
  if (!asked) {
    if (Status status = simulateRulePlans(meshes); !status)
      return status;
    if (Status status = simulateFirstPlans(meshes, most, leastContext, 0, 2 * kFirstPlansShare); !status)
      return status;
  }
  if (Status status = simulateFirstPlans(meshes, most, leastContext, kMoreDives, kFirstPlansShare); !status)
    return status;
  if (asked || goal == Goal::AnyFittingPlan)
    return ok();
  std::erase_if(meshes, [&](const Choice &mesh) {
    return static_cast<double>(mesh.sizes.ranks()) < kMostRanks * static_cast<double>(most);
  });
  if (Status status = simulateRandomLayouts(meshes); !status || space->globalBatch() >= most)
    return status;
  std::erase_if(meshes, [&](const Choice &mesh) { return mesh.sizes.context == leastContext; });
  return simulateContextPlans(meshes);
}

Status TreeSearch::simulateContextPlans(const std::vector<Choice> &meshes) {
  const int64_t near = cluster.mixed() || cluster.levels.empty() ? 1 : cluster.levels.front().size;
  std::vector<std::tuple<bool, double, size_t>> order; // model axis beyond a node, estimated seconds, mesh
  for (size_t i = 0; i < meshes.size() && !mustStop(); ++i) {
    std::vector<Choice> layouts = space->layouts(meshes[i]);
    if (layouts.empty() || !narrowQuestions(layouts.front()))
      continue;
    auto bound = closestBound(layouts.front());
    if (!bound)
      return bound.error();
    auto microbatches = static_cast<double>(space->microbatches(layouts.front()));
    double filling = (microbatches + static_cast<double>(meshes[i].sizes.stage) - 1) / microbatches; // of the pipeline
    if (*bound < threshold(layouts.front().questions))
      order.emplace_back(meshes[i].sizes.model > near, *bound * filling, i);
  }
  std::sort(order.begin(), order.end());
  order.resize(std::min(order.size(), kContextDives));
  std::vector<Choice> dives;
  for (const auto &[far, seconds, i] : order)
    dives.push_back(space->layouts(meshes[i]).front());
  for (size_t i = 0; i < dives.size() && !mustStop(); ++i) {
    expectLayouts(std::span(dives).subspan(i + 1));
    auto bound = bounds->boundOfWholeSequence(dives[i], 0);
    if (!bound)
      return bound.error();
    if (*bound < threshold(dives[i].questions))
      if (Status status = dive(dives[i], 0); !status)
        return status;
  }
  return ok();
}

Status TreeSearch::simulateFirstPlans(const std::vector<Choice> &meshes, int64_t mostRanks, int64_t leastContext,
                                      int moreDives, int64_t budgetShare) {
  for (size_t i = 0; i < meshes.size(); ++i) {
    const Choice &mesh = meshes[i];
    if (mesh.sizes.context > leastContext) // the axes data, stage and model save memory as well
      continue;
    if (static_cast<double>(mesh.sizes.ranks()) < kMostRanks * static_cast<double>(mostRanks) ||
        work > std::min(options.workBudget, kUsualWork) / budgetShare || mustStop())
      break;
    Choice one = mesh;
    if (!narrowQuestions(one))
      continue;
    auto bound = closestBound(one);
    if (!bound)
      return bound.error();
    if (*bound >= threshold(one.questions))
      continue;
    // The first layout has the smallest microbatch, and sequence parallelism where possible.
    std::vector<Choice> layouts = space->layouts(one);
    if (layouts.empty() || !narrowQuestions(layouts.front()))
      continue;
    bound = closestBound(layouts.front());
    if (!bound)
      return bound.error();
    if (*bound >= threshold(layouts.front().questions))
      continue;
    if (options.expectLayouts)
      expectLayouts(nextFirstLayouts(std::span(meshes).subspan(i + 1), leastContext));
    if (Status status = dive(layouts.front(), moreDives); !status)
      return status;
  }
  return ok();
}

std::vector<Choice> TreeSearch::nextFirstLayouts(std::span<const Choice> meshes, int64_t leastContext) const {
  std::vector<Choice> list;
  for (const Choice &mesh : meshes) {
    if (list.size() == kExpectedFirstLayouts)
      break;
    if (mesh.sizes.context > leastContext)
      continue;
    if (std::vector<Choice> layouts = space->layouts(mesh); !layouts.empty())
      list.push_back(layouts.front());
  }
  return list;
}

Status TreeSearch::diveFromOpenChoices() {
  if (queue.empty() || asked || goal == Goal::AnyFittingPlan)
    return ok();
  expectOpenLayouts();
  std::set<std::pair<std::array<int64_t, std::size(kPlanAxes)>, LayoutKey>> dived;
  for (auto open = queue; !open.empty() && dived.size() < kLastDives && !mustStop(); open.pop()) {
    Choice choice = open.top().choice;
    if (open.top().bound >= threshold(choice.questions))
      break;
    if (choice.level == Choice::Level::Mesh) // no layout is chosen yet
      continue;
    choice.level = Choice::Level::Layout;
    if (dived.insert({choice.sizes.asArray(), bounds->keyOf(choice)}).second)
      if (Status status = dive(choice); !status)
        return status;
  }
  return ok();
}

} // namespace kerf::plansearch
