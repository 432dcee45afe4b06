// SPDX-License-Identifier: Apache-2.0
// Best first: the choice of the least bound is decided further, until no bound is below the best plan simulated.
#include "kerf/PlanSearch/PlanSearch.h"
#include "Prices.h"
#include "Space.h"
#include "kerf/PlanSearch/StepOfPlan.h"
#include <algorithm>
#include <chrono>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <queue>

namespace kerf {

using namespace plansearch;

namespace {

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

struct Simulated {
  Plan plan;
  Simulation simulation;
};

class Searching {
public:
  Searching(const Cluster &cluster, const TrainingJob &job, const LayoutSource &layouts,
            const PlanSearchOptions &options)
      : all(cluster), job(job), layouts(layouts), options(options) {}

  Result<FoundPlans> run();

private:
  Result<double> boundOfMesh(const Choice &choice);
  Result<double> boundOfLayout(const Choice &choice);
  Result<double> boundOfExecution(const Choice &choice);
  Result<double> boundOf(const Choice &choice);
  Status open(std::vector<Choice> choices, double atLeast);
  Status evaluate(const Choice &choice);
  void keep(Simulated result);
  Result<std::optional<Simulated>> simulated(const Plan &plan);
  LayoutKey keyOf(const Choice &choice) const;
  Result<const ModelWork *> workOf(const LayoutKey &key);
  const Cluster &clusterOf(int64_t ranks);
  const CollectiveModel &collectivesOf(const Choice &choice);
  double threshold() const {
    return static_cast<int>(found.plans.size()) < options.top ? kInfinity : found.plans.back().simulation.stepSeconds;
  }

  const Cluster &all;
  const TrainingJob &job;
  const LayoutSource &layouts;
  const PlanSearchOptions &options;
  std::optional<Space> space;
  StateBytes stateBytes;
  bool tensorOverlap = false, gradientOverlap = true, layerGathers = true;
  double memoryLimit = 0;
  double leastMemory = kInfinity; // of plans that do not fit
  int64_t numbers = 0;
  std::priority_queue<Open> queue;
  std::map<int64_t, Cluster> clusters;
  std::map<std::vector<int64_t>, std::unique_ptr<CollectiveModel>> models;
  std::map<LayoutKey, PassSeconds> kernels;
  std::map<std::pair<LayoutKey, const CollectiveModel *>, PassSeconds> passes;
  FoundPlans found;
};

LayoutKey Searching::keyOf(const Choice &choice) const {
  return {choice.frame.model, choice.frame.context,    choice.frame.expert,
          choice.microbatch,  choice.sequenceParallel, options.constraints.attention != "unfused"};
}

Result<const ModelWork *> Searching::workOf(const LayoutKey &key) {
  auto work = layouts(key);
  if (work && kernels.try_emplace(key).second) {
    ++found.statistics.layouts;
    kernels[key] = passSeconds(**work, all.device, nullptr, tensorOverlap);
  }
  return work;
}

const Cluster &Searching::clusterOf(int64_t ranks) {
  auto known = clusters.find(ranks);
  if (known == clusters.end())
    known = clusters.emplace(ranks, *firstRanks(all, ranks)).first;
  return known->second;
}

/// Of the choice's mesh in its order.
const CollectiveModel &Searching::collectivesOf(const Choice &choice) {
  std::vector<int64_t> key;
  Plan plan = space->plan(choice);
  Mesh mesh = plan.mesh();
  for (const MeshAxis &axis : mesh.axes) {
    key.push_back(planAxis(axis.name));
    key.push_back(axis.size);
  }
  std::unique_ptr<CollectiveModel> &model = models[key];
  if (!model)
    model = std::make_unique<CollectiveModel>(mesh, clusterOf(mesh.ranks()));
  return *model;
}

/// Products at the best rate there is, on as many ranks as the mesh has.
Result<double> Searching::boundOfMesh(const Choice &choice) {
  auto work = workOf({1, 1, 1, 1, false, options.constraints.attention != "unfused"});
  if (!work)
    return work.error();
  double samples = static_cast<double>(space->globalBatch()) / static_cast<double>((*work)->samples);
  auto ranks = static_cast<double>(choice.frame.ranks());
  if (stateBytesOf(**work, Mesh(), stateBytes, 0) / ranks > memoryLimit)
    return kInfinity;
  return bestSeconds(**work, all.device) * samples / ranks;
}

/// Kernels alone, stages evenly filled.
Result<double> Searching::boundOfLayout(const Choice &choice) {
  LayoutKey key = keyOf(choice);
  auto work = workOf(key);
  if (!work)
    return work.error();
  const PassSeconds &pass = kernels.at(key);
  auto stages = static_cast<double>(choice.frame.stage);
  double layers = std::ceil(static_cast<double>(space->layers()) / stages);
  return static_cast<double>(space->microbatches(choice)) * std::max(pass.whole() / stages, layers * pass.layer);
}

/// With the collectives on their links, the way of the first microbatch to the last stage, and parameters gathered and
/// reduced.
Result<double> Searching::boundOfExecution(const Choice &choice) {
  LayoutKey key = keyOf(choice);
  auto work = workOf(key);
  if (!work)
    return work.error();
  const CollectiveModel &collectives = collectivesOf(choice);
  auto [entry, isNew] = passes.try_emplace({key, &collectives});
  PassSeconds &pass = entry->second;
  if (isNew)
    pass = passSeconds(**work, all.device, &collectives, tensorOverlap);
  int sharding = static_cast<int>(*std::min_element(choice.optimizerSharding.begin(), choice.optimizerSharding.end()));
  bool alike = std::all_of(choice.optimizerSharding.begin(), choice.optimizerSharding.end(),
                           [&](int64_t value) { return value == sharding; });
  auto stages = static_cast<double>(choice.frame.stage),
       microbatches = static_cast<double>(space->microbatches(choice));
  double most = *std::max_element(choice.optimizerSharding.begin(), choice.optimizerSharding.end());
  if (stateBytesOf(**work, collectives.mesh(), stateBytes, static_cast<int>(most)) / stages > memoryLimit)
    return kInfinity;
  double layers = std::ceil(static_cast<double>(space->layers()) / stages);
  double busiest = std::max(pass.whole() / stages, layers * pass.layer);
  double bound = microbatches * busiest;
  if (choice.pipelining.chunks == 1 && choice.pipelining.name != "zero-bubble")
    // Stage s waits for those before it, T >= w_0 + ... + w_{s-1} + m w_s, whatever the cut: T (1 - (1 - 1/m)^p) >= W.
    bound = std::max(bound, pass.whole() / (1 - std::pow(1 - 1 / microbatches, stages)));
  if (alike && layerGathers) {
    ParameterSeconds parameters = parameterSeconds(**work, collectives, stateBytes, sharding);
    bound = std::max(bound, (microbatches - 1) * parameters.everyMicrobatch / stages);
    bound += gradientOverlap ? std::max(0.0, (parameters.reduction - pass.backward) / stages)
                             : parameters.reduction / stages;
  }
  return bound;
}

Result<double> Searching::boundOf(const Choice &choice) {
  switch (choice.level) {
  case Choice::Level::Mesh:
    return boundOfMesh(choice);
  case Choice::Level::Layout:
    return boundOfLayout(choice);
  case Choice::Level::Execution:
    return boundOfExecution(choice);
  case Choice::Level::Cut:
    break;
  }
  return 0.0;
}

Status Searching::open(std::vector<Choice> choices, double atLeast) {
  for (Choice &choice : choices) {
    auto bound = boundOf(choice);
    if (!bound)
      return bound.error();
    ++found.statistics.choices;
    double better = std::max(*bound, atLeast);
    if (better < threshold())
      queue.push({better, numbers++, std::move(choice)});
  }
  return ok();
}

/// Nothing: a schedule that cannot be (a number of microbatches that the stages do not divide).
Result<std::optional<Simulated>> Searching::simulated(const Plan &plan) {
  auto completed = completePlan(plan, options.constraintsFile, all, job);
  if (!completed)
    return std::optional<Simulated>();
  auto model = workOf(layoutOf(completed->plan));
  if (!model)
    return model.error();
  auto work = stepWork(*completed, job, **model);
  if (!work)
    return std::optional<Simulated>();
  CollectiveModel collectives(completed->mesh, completed->cluster);
  auto simulation = simulate(*work, stepPlan(*completed, job), collectives);
  if (!simulation)
    return std::optional<Simulated>();
  ++found.statistics.simulated;
  simulation->fits = std::all_of(simulation->memory.begin(), simulation->memory.end(),
                                 [&](const StageMemory &stage) { return stage.deviceBytes <= memoryLimit; });
  return std::optional<Simulated>({std::move(completed->plan), std::move(*simulation)});
}

/// Every stage recomputes as little as lets it fit: more never makes a schedule of fixed order faster. Schedules that
/// are searched depend on it, and get one mode for all stages.
Status Searching::evaluate(const Choice &choice) {
  const char *const modes[] = {"none", "selective", "full"};
  Plan plan = space->plan(choice);
  bool pinned = !plan.recompute.empty();
  bool alike = choice.pipelining.name == "zero-bubble" || choice.frame.stage == 1;
  std::vector<size_t> mode(alike ? 1 : choice.frame.stage, 0);
  while (true) {
    if (!pinned) {
      plan.recompute.clear();
      for (size_t stage : mode)
        plan.recompute.push_back(modes[stage]);
      if (std::equal(mode.begin() + 1, mode.end(), mode.begin()))
        plan.recompute.resize(1);
    }
    auto simulation = simulated(plan);
    if (!simulation)
      return simulation.error();
    if (!*simulation || (*simulation)->simulation.stepSeconds >= threshold())
      return ok();
    Simulated &result = **simulation;
    if (result.simulation.fits) {
      keep(std::move(result));
      return ok();
    }
    bool more = false, least = true;
    double most = 0;
    for (size_t s = 0; s < result.simulation.memory.size(); ++s) {
      most = std::max(most, result.simulation.memory[s].deviceBytes);
      if (result.simulation.memory[s].deviceBytes <= memoryLimit)
        continue;
      size_t &its = mode[alike ? 0 : s];
      if (pinned || its + 1 == std::size(modes)) {
        least = false;
        continue;
      }
      more = true;
    }
    if (!least)
      leastMemory = std::min(leastMemory, most);
    if (!least || !more)
      return ok();
    std::vector<size_t> next = mode;
    for (size_t s = 0; s < result.simulation.memory.size(); ++s)
      if (result.simulation.memory[s].deviceBytes > memoryLimit)
        next[alike ? 0 : s] = mode[alike ? 0 : s] + 1;
    mode = next;
  }
}

/// Among the best, one of a kind: plans of the same mesh, order and schedule differ in details only.
void Searching::keep(Simulated result) {
  auto kind = [](const Plan &plan) {
    return std::tuple(plan.meshSizes, plan.mesh(), plan.schedule.name, plan.schedule.chunks, plan.schedule.variant);
  };
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
  if (!given.ops.empty() || !given.arguments.empty())
    return Error{fmt::format("{}: it pins single ops or arguments, which the search over whole plans does not know yet",
                             options.constraintsFile)};
  memoryLimit = static_cast<double>(all.device.memoryBytes);
  if (options.memoryLimitBytes)
    memoryLimit = std::min(memoryLimit, static_cast<double>(*options.memoryLimitBytes));
  std::string gradients = given.gradientDtype;
  bool mixed = job.dtype != "f32" && job.dtype != "f64";
  stateBytes = kerf::stateBytes(job.dtype == "f8" ? "bf16" : job.dtype,
                                gradients.empty() ? (mixed ? "f32" : job.dtype) : gradients, job.moments);
  if (given.overlap) {
    auto has = [&](const char *what) {
      return std::find(given.overlap->begin(), given.overlap->end(), what) != given.overlap->end();
    };
    tensorOverlap = has("tensor");
    gradientOverlap = has("gradients");
  }
  layerGathers = given.parameterGathers != "deepspeed-2021";
  auto whole = workOf({1, 1, 1, 1, false, given.attention != "unfused"});
  if (!whole)
    return whole.error();
  space.emplace(options, job, job.ranks.value_or(all.ranks()), (*whole)->layers());
  auto meshes = space->meshes();
  if (!meshes)
    return meshes.error();
  if (Status status = open(std::move(*meshes), 0); !status)
    return status.error();

  auto begin = std::chrono::steady_clock::now();
  auto elapsed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); };
  double told = 1;
  while (!queue.empty()) {
    Open top = queue.top();
    found.lowerBoundSeconds = top.bound;
    if (top.bound >= threshold() || found.statistics.simulated >= options.workBudget)
      break;
    if (double now = elapsed(); options.progress && now > told) {
      told = now + 1;
      options.progress(found.plans.empty() ? 0 : found.plans.front().simulation.stepSeconds, top.bound);
    }
    if (options.seconds && elapsed() > *options.seconds)
      break;
    queue.pop();
    Status status = ok();
    switch (top.choice.level) {
    case Choice::Level::Mesh:
      status = open(space->layouts(top.choice), top.bound);
      break;
    case Choice::Level::Layout:
      status = open(space->executions(top.choice), top.bound);
      break;
    case Choice::Level::Execution:
      status = open(space->cuts(top.choice), top.bound);
      break;
    case Choice::Level::Cut:
      status = evaluate(top.choice);
      break;
    }
    if (!status)
      return status.error();
  }
  if (found.plans.empty())
    return Error{
        fmt::format("no plan for {} ranks fits into {:.0f} bytes of memory of a device", all.ranks(), memoryLimit),
        ExitStatus::Infeasible};
  double best = found.plans.front().simulation.stepSeconds;
  found.lowerBoundSeconds = queue.empty() ? best : std::min(best, found.lowerBoundSeconds);
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
  return Searching(cluster, job, layouts, options).run();
}

} // namespace kerf
