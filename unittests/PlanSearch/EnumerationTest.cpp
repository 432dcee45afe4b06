// SPDX-License-Identifier: Apache-2.0
// Compares the search with an enumeration of its whole search space (docs/search.md), in which every plan is simulated.
// The environment variable KERF_SEEDS="1..300" selects other seeds. Only then are jobs with many plans enumerated,
// which take half a minute each.
#include "RandomJobs.h"
#include "kerf/PlanSearch/StepOfPlan.h"
#include <algorithm>
#include <cstdlib>
#include <gtest/gtest.h>
#include <limits>
#include <map>
#include <numeric>

using namespace kerf;
using namespace kerf::test;

namespace {

constexpr int64_t kMostPlans = 60'000;

struct Best {
  double seconds = std::numeric_limits<double>::infinity();
  Plan plan;
  int64_t plans = 0;
  bool complete = true; // false when the enumeration ended at kMostPlans
};

/// Enumerates all plans of the search space in nested loops. It shares no code with the search.
class Enumeration {
public:
  explicit Enumeration(RandomJob &job) : job(job), source(job.source()) {}

  Best run() {
    const int64_t batch = job.job.globalBatch, ranks = job.cluster.ranks();
    for (int64_t stage = 1; stage <= std::min(ranks, job.layers); ++stage)
      for (int64_t data = 1; data <= ranks; ++data)
        for (int64_t model : job.options.modelSizes)
          for (int64_t context : job.options.contextSizes)
            for (int64_t expert : job.options.expertSizes) {
              int64_t groups = data * expert;
              if (stage * groups * model * context > ranks || batch % groups != 0)
                continue;
              for (int64_t microbatch = 1; microbatch <= batch / groups; ++microbatch)
                for (ContextStyle style : {ContextStyle::Ring, ContextStyle::Ulysses})
                  if ((std::gcd(context, microbatch) == 1 || // otherwise a larger axis "data" is at least as good
                       !job.options.constraints.meshSizes.empty()) &&
                      batch / groups % microbatch == 0 && (context > 1 || style == ContextStyle::Ring))
                    layout(
                        {{"stage", stage}, {"data", data}, {"context", context}, {"expert", expert}, {"model", model}},
                        microbatch, style);
            }
    return best;
  }

private:
  void layout(const std::map<std::string, int64_t> &mesh, int64_t microbatch, ContextStyle style) {
    Plan plan = job.options.constraints;
    if ((plan.microbatch && plan.microbatch != microbatch) || (!plan.meshSizes.empty() && plan.meshSizes != mesh))
      return;
    plan.meshSizes = mesh;
    plan.globalBatch = job.job.globalBatch;
    plan.microbatch = microbatch;
    plan.contextStyle = style;
    std::vector<std::string> order = {"data", "model", "stage"};
    for (const char *axis : {"context", "expert"})
      if (mesh.at(axis) > 1)
        order.push_back(axis);
    std::sort(order.begin(), order.end());
    int64_t cut = mesh.at("data") * mesh.at("context") * mesh.at("expert");
    do {
      plan.order = order;
      for (const auto &[layout, sequence] : {std::pair(OpLayout::Megatron, false), std::pair(OpLayout::Megatron, true),
                                             std::pair(OpLayout::Solved, false)}) {
        if (mesh.at("model") == 1 && (sequence || layout == OpLayout::Solved))
          continue;
        if (mesh.at("expert") > 1 && layout == OpLayout::Solved)
          continue;
        plan.layout = layout;
        plan.sequenceParallel = {sequence};
        const std::vector<int64_t> &pinned = job.options.constraints.optimizerSharding;
        for (int64_t sharding = 0; sharding <= (cut > 1 ? 3 : 0); ++sharding) {
          plan.optimizerSharding = pinned.empty() ? std::vector{sharding} : pinned;
          plan.optimizerShardingRanks = 0;
          pipelines(plan);
          for (int64_t n = std::max<int64_t>(replicasInNode(plan.mesh()), 1); n < cut && sharding > 0; n *= 2) {
            if (n == 1 || shardCount(shardingAxes(plan.mesh(), n)) != n)
              continue;
            plan.optimizerShardingRanks = n;
            pipelines(plan);
          }
        }
      }
    } while (std::next_permutation(order.begin(), order.end()));
  }

  /// Returns the largest number of ranks that may share optimizer states if every group has to lie inside of a node.
  int64_t replicasInNode(const Mesh &mesh) {
    int64_t node = job.cluster.mixed() ? std::numeric_limits<int64_t>::max() : job.cluster.devicesPerUnit(0), most = 1;
    for (const Cluster &group : job.cluster.groups)
      node = std::min(node, group.devicesPerUnit(0));
    for (int64_t ranks = 2; ranks <= node && ranks <= replicaCount(mesh); ++ranks) {
      if (replicaCount(mesh) % ranks != 0)
        continue;
      bool inside = true;
      for (int64_t rank = 0; rank < mesh.ranks(); ++rank)
        for (int64_t other : groupOf(mesh, shardingAxes(mesh, ranks), rank))
          inside &= other / node == rank / node;
      most = inside ? ranks : most;
    }
    return most;
  }

  void pipelines(Plan plan) {
    int64_t stages = plan.meshSizes.at("stage");
    const std::string pinned = job.options.constraints.schedule.name;
    for (const char *name : {"1f1b", "gpipe", "interleaved", "zero-bubble"}) {
      bool pipelined = std::string(name) != "1f1b";
      if ((!pinned.empty() && pinned != name) || (stages == 1 && pipelined))
        continue;
      std::vector<std::string> variants = {""};
      if (std::string(name) == "zero-bubble")
        variants = {"h1", "by-memory"};
      bool interleaved = std::string(name) == "interleaved";
      int64_t groups = plan.meshSizes.at("data") * plan.meshSizes.at("expert") * plan.microbatch;
      if (interleaved && job.job.globalBatch / groups % stages != 0)
        continue;
      for (const std::string &variant : variants)
        for (int64_t chunks = interleaved ? 2 : 1; chunks <= (interleaved ? job.layers / stages : 1); ++chunks) {
          plan.schedule = {name, chunks, variant, {}};
          cuts(plan, stages * chunks, variant == "by-memory" || stages == 1);
        }
    }
  }

  void cuts(Plan plan, int64_t parts, bool alike) {
    int64_t ranks = plan.mesh().ranks();
    if (!job.options.constraints.stages.empty()) {
      std::vector<int64_t> layers;
      return partialCuts(plan, parts, alike, layers, 0);
    }
    if (job.cluster.mixed() && ranks > job.cluster.groups.front().ranks())
      return mixedCuts(plan, parts, alike, ranks / plan.meshSizes.at("stage"));
    // The first and the last part have up to one layer more than an even share; the others share the rest evenly.
    int64_t share = (job.layers + parts - 1) / parts + 1;
    for (int64_t first = 1; first <= share; ++first)
      for (int64_t last = 1; last <= share; ++last) {
        std::vector<int64_t> layers = {first};
        int64_t rest = job.layers - first - last;
        if (parts == 1) {
          if (first > 1 || last > 1)
            continue;
          layers = {job.layers};
        } else {
          if (rest < parts - 2 || (parts == 2 && rest != 0))
            continue;
          for (int64_t i = 0; i < parts - 2; ++i)
            layers.push_back(rest / (parts - 2) + (i < rest % (parts - 2)));
          layers.push_back(last);
        }
        withLayers(plan, layers, alike);
      }
  }

  /// Enumerates cuts in which pinned parts have their layers and each run of free parts shares its layers evenly. Free
  /// first and last parts of the model have up to one layer more than an even share.
  void partialCuts(Plan &plan, int64_t parts, bool alike, std::vector<int64_t> &layers, int64_t next) {
    auto part = static_cast<int64_t>(layers.size());
    if (part < parts) {
      for (int64_t count = 1; count <= job.layers - next; ++count) {
        layers.push_back(count);
        partialCuts(plan, parts, alike, layers, next + count);
        layers.pop_back();
      }
      return;
    }
    if (next != job.layers)
      return;
    std::vector<bool> told(parts, false);
    for (const StageLayers &run : job.options.constraints.stages) {
      int64_t stages = plan.meshSizes.at("stage"), its = run.chunk * stages + run.stage;
      if (run.stage >= stages || its >= parts)
        return;
      int64_t begin = std::accumulate(layers.begin(), layers.begin() + its, int64_t(0));
      if (begin != run.layers->first || begin + layers[its] - 1 != run.layers->second)
        return;
      told[its] = true;
    }
    for (int64_t begin = 0; begin < parts; ++begin) {
      int64_t end = begin;
      while (end < parts && !told[end])
        ++end;
      int64_t sum = std::accumulate(layers.begin() + begin, layers.begin() + end, int64_t(0)), count = end - begin;
      for (int64_t p = begin; p < end; ++p) {
        bool atEnd = p == 0 || p + 1 == parts;
        if (atEnd && count > 1 && layers[p] > (sum + count - 1) / count + 1)
          return;
        bool nextIsInner = p + 1 < end && p + 2 < parts;
        if (!atEnd && nextIsInner && layers[p] < layers[p + 1])
          return; // the earlier parts of a run get the extra layers
        for (int64_t other = begin; other < end; ++other)
          if (!atEnd && other > 0 && other + 1 < parts && layers[p] > layers[other] + 1)
            return;
      }
      begin = end;
    }
    withLayers(plan, layers, alike);
  }

  void withLayers(Plan &plan, const std::vector<int64_t> &layers, bool alike) {
    plan.stages.clear();
    int64_t next = 0, stages = plan.meshSizes.at("stage");
    for (int64_t p = 0; p < static_cast<int64_t>(layers.size()); ++p) {
      plan.stages.push_back({std::pair(next, next + layers[p] - 1), p % stages, p / stages});
      next += layers[p];
    }
    recomputation(plan, alike);
  }

  /// Enumerates cuts for two device groups: each group has half to twice its share by FLOP/s, and the model's first and
  /// last part vary as above.
  void mixedCuts(Plan plan, int64_t parts, bool alike, int64_t ranksOfStage) {
    int64_t stages = plan.meshSizes.at("stage"), first = job.cluster.groups.front().ranks();
    auto groupOf = [&](int64_t part) { return part % stages * ranksOfStage >= first ? 1 : 0; };
    int64_t count[2] = {0, 0};
    double weight[2] = {0, 0};
    for (int64_t p = 0; p < parts; ++p) {
      int g = groupOf(p);
      ++count[g];
      weight[g] += job.cluster.groups[g].device.peakFlops.at("bf16");
    }
    for (int64_t here = count[0]; here <= job.layers - count[1]; ++here) {
      const int64_t layers[2] = {here, job.layers - here};
      bool within = true;
      for (int g : {0, 1}) {
        double share = static_cast<double>(job.layers) * weight[g] / (weight[0] + weight[1]);
        within &= layers[g] >= std::floor(share / 2) && layers[g] <= std::ceil(2 * share);
      }
      if (!within)
        continue;
      for (int64_t ends[2] = {1, 0}; ends[0] <= layers[0]; ++ends[0])
        for (ends[1] = 1; ends[1] <= layers[1]; ++ends[1]) {
          bool can = true;
          for (int g : {0, 1})
            can &= count[g] == 1
                       ? ends[g] == layers[g]
                       : ends[g] <= (layers[g] + count[g] - 1) / count[g] + 1 && layers[g] - ends[g] >= count[g] - 1;
          if (!can)
            continue;
          std::vector<int64_t> all = {ends[0]};
          int64_t before[2] = {0, 0};
          for (int64_t p = 1; p + 1 < parts; ++p) {
            int g = groupOf(p);
            int64_t rest = layers[g] - ends[g], others = count[g] - 1;
            all.push_back(rest / others + (before[g]++ < rest % others ? 1 : 0));
          }
          all.push_back(ends[1]);
          withLayers(plan, all, alike);
        }
    }
  }

  /// Enumerates recomputation: the first layers of each part selectively and then in full, or pointwise and then in
  /// full, or the first layers in full only; separately for each stage, or the same for all.
  void recomputation(const Plan &given, bool alike) {
    auto completed = completePlan(given, "the enumeration", job.cluster, job.job);
    if (!completed || !RandomJob::possible(layoutKeyOf(completed->plan)))
      return;
    const ModelWork &model = **source(layoutKeyOf(completed->plan));
    auto work = stepWork(*completed, job.job, model);
    if (!work)
      return;
    auto pipeline = PipelineModel::make(completed->mesh, completed->cluster);
    if (!pipeline)
      return;
    auto simulateOne = [&] { this->simulateOne(*completed, model, *work, *pipeline); };
    if (given.decidesRecompute())
      return simulateOne();
    Plan &plan = completed->plan;
    size_t stages = alike ? 1 : plan.meshSizes.at("stage");
    std::vector<int64_t> most(stages, 0);
    for (const StageLayers &run : plan.stages) {
      int64_t &its = most[alike ? 0 : run.stage];
      its = std::max(its, run.layers->second - run.layers->first + 1);
    }
    using enum Recompute;
    for (const std::vector<Recompute> &modes : std::initializer_list<std::vector<Recompute>>{
             {Selective, Full}, {Pointwise, Full}, {Pointwise, ExceptAttention, Full}, {Full}}) {
      const std::vector<Recompute> &can = job.job.trainer->space.recompute;
      if (!std::ranges::all_of(modes, [&](Recompute mode) { return std::ranges::find(can, mode) != can.end(); }))
        continue;
      std::vector<int64_t> steps(stages, 0);
      for (size_t s = 0; s < stages;) {
        plan.recomputeLayers.clear();
        for (const StageLayers &run : plan.stages)
          addLayers(plan, run, steps[alike ? 0 : run.stage], modes, most[alike ? 0 : run.stage]);
        plan.recompute =
            plan.recomputeLayers.empty() ? std::vector<Recompute>{Recompute::None} : std::vector<Recompute>();
        simulateOne();
        for (s = 0; s < stages && ++steps[s] > std::ssize(modes) * most[s]; ++s)
          steps[s] = 0;
      }
    }
  }

  /// Gives each layer the last of `modes` that `step` steps bring it to: after k * `most` steps all layers have mode k,
  /// and each further step brings one more layer to the next mode.
  static void addLayers(Plan &plan, const StageLayers &run, int64_t step, const std::vector<Recompute> &modes,
                        int64_t most) {
    for (int64_t layer = run.layers->first; layer <= run.layers->second; ++layer) {
      int64_t number = layer - run.layers->first, reached = 0;
      while (reached < std::ssize(modes) && number < step - reached * most)
        ++reached;
      if (reached > 0)
        plan.recomputeLayers.push_back({std::to_string(layer), modes[reached - 1]});
    }
  }

  void simulateOne(const CompletedPlan &completed, const ModelWork &model, const StepWork &work,
                   const PipelineModel &pipeline) {
    if (best.plans == kMostPlans && !std::getenv("KERF_SEEDS"))
      best.complete = false;
    if (!best.complete)
      return;
    StepPlan step = *stepPlan(completed, job.job, model);
    if (recordOf(step.schedule.kind).searched) {
      std::vector<double> limits;
      for (int64_t s = 0; s < step.schedule.stages; ++s)
        limits.push_back(static_cast<double>(pipeline.device(s).memoryBytes));
      step.schedule.inFlight = inFlightThatFits(work, step, pipeline, limits);
    }
    auto simulation = simulate(work, step, pipeline);
    if (!simulation)
      return;
    ++best.plans;
    if (!simulation->fits || simulation->stepSeconds >= best.seconds)
      return;
    best.seconds = simulation->stepSeconds;
    best.plan = completed.plan;
  }

  RandomJob &job;
  LayoutSource source;
  Best best;
};

/// Compares the search's answer with the best of all plans. Returns the best plan; nothing where none exists, since
/// constraints may contradict the model, or where there are too many plans to enumerate.
std::optional<Plan> findsTheBest(RandomJob &job) {
  Best best = Enumeration(job).run();
  if (!best.complete)
    return std::nullopt;
  auto found = searchPlans(job.cluster, job.job, job.source(), job.options);
  if (best.seconds == std::numeric_limits<double>::infinity()) {
    EXPECT_FALSE(found);
    bool told = found || found.error().status == ExitStatus::Infeasible || !job.options.constraints.stages.empty();
    EXPECT_TRUE(told) << found.error().message;
    return std::nullopt;
  }
  EXPECT_TRUE(found) << found.error().message << "\n" << toJson(best.plan);
  if (!found)
    return std::nullopt;
  EXPECT_GE(found->plans.front().simulation.stepSeconds, best.seconds);
  EXPECT_LE(found->plans.front().simulation.stepSeconds, best.seconds * kRounding)
      << toJson(found->plans.front().plan) << toJson(best.plan) << "of " << best.plans;
  EXPECT_EQ(found->lowerBoundSeconds, found->plans.front().simulation.stepSeconds);
  EXPECT_LE(found->statistics.simulated, best.plans);
  if (std::getenv("KERF_TELL"))
    std::printf("%lld plans, %lld simulated, %lld choices\n", static_cast<long long>(best.plans),
                static_cast<long long>(found->statistics.simulated), static_cast<long long>(found->statistics.choices));
  return best.plan;
}

} // namespace

TEST(Enumeration, TheSearchFindsTheBestOfAllPlans) {
  auto [from, to] = seedsOr(1, 20);
  int feasible = 0;
  for (uint64_t seed = from; seed <= to; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomJob job = randomJob(seed);
    feasible += findsTheBest(job).has_value();
  }
  EXPECT_GE(feasible, static_cast<int>(to - from + 1) / 3);
}

TEST(Enumeration, TheSearchFindsTheBestCutOfTheLayersThatConstraintsLeaveFree) {
  auto [from, to] = seedsOr(1, 60);
  int feasible = 0;
  for (uint64_t seed = from; seed <= to; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomJob job = randomJob(seed);
    if (job.cluster.mixed() || job.layers < 3 || job.job.ranks == 1)
      continue;
    int64_t last = static_cast<int64_t>(seed) % (job.layers - 1);
    if (seed % 3 == 0) // pins the first part, a middle part, or the second part with all later layers
      job.options.constraints.stages = {{std::pair<int64_t, int64_t>(0, last), 0, 0}};
    else if (seed % 3 == 1)
      job.options.constraints.stages = {{std::pair(last, last), static_cast<int64_t>(seed) % 2 + 1, 0}};
    else
      job.options.constraints.stages = {{std::pair(last + 1, job.layers - 1), 1, 0}};
    feasible += findsTheBest(job).has_value();
  }
  EXPECT_GE(feasible, static_cast<int>(to - from + 1) / 6);
}

/// Gives devices half to nine tenths of the memory that the best plan would use, and pins its mesh, microbatch and
/// optimizer sharding, so that many of the best plans recompute.
TEST(Enumeration, TheSearchFindsTheBestRecomputation) {
  auto [from, to] = seedsOr(1, 80);
  int feasible = 0;
  std::map<Recompute, int> layersWith; // number of layers, or of plans with one mode
  for (uint64_t seed = from; seed <= to; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomJob job = randomJob(seed);
    if (job.cluster.mixed() || job.options.constraints.decidesRecompute() || job.layers < 2)
      continue;
    job.cluster.device.memoryBytes *= 1000;
    auto roomy = searchPlans(job.cluster, job.job, job.source(), job.options);
    if (!roomy)
      continue;
    Plan &pins = job.options.constraints;
    const Plan &plan = roomy->plans.front().plan;
    pins.meshSizes = plan.meshSizes;
    pins.microbatch = plan.microbatch;
    pins.optimizerSharding = plan.optimizerSharding;
    double most = 0;
    for (const StageMemory &stage : roomy->plans.front().simulation.memory)
      most = std::max(most, stage.deviceBytes);
    job.cluster.device.memoryBytes = static_cast<int64_t>(most * (0.5 + 0.1 * static_cast<double>(seed / 2 % 5)));
    if (auto best = findsTheBest(job)) {
      ++feasible;
      for (Recompute mode : best->recompute)
        ++layersWith[mode];
      for (const LayerRecompute &rule : best->recomputeLayers)
        ++layersWith[rule.mode];
    }
  }
  EXPECT_GE(feasible, static_cast<int>(to - from + 1) / 6);
  for (Recompute mode : kDeviceModes)
    EXPECT_GE(layersWith[mode], 2) << toString(mode);
}
