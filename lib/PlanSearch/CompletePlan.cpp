// SPDX-License-Identifier: Apache-2.0
#include "kerf/PlanSearch/CompletePlan.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <numeric>

namespace kerf {

namespace {

constexpr const char *kInnerAxes[] = {"data", "context", "expert", "model"}; // the axes within a stage
constexpr const char *kReplicaAxes[] = {"data", "context", "expert"};        // axes of ranks with the same parameters

class Completion {
public:
  Completion(Plan given, const std::string &where, const Cluster &all, const TrainingJob &job)
      : plan(std::move(given)), where(where), all(all), job(job) {}

  Result<CompletedPlan> run();

private:
  Status completeMesh();
  Status completeStageMeshes();
  Status completeBatch();
  Status checkBatchOfStages() const;
  Status completeExecution();
  Status checkShardingRanks() const;
  Status checkOptimizerStates() const;
  Error wrong(const std::string &message) const { return {fmt::format("{}: {}", where, message)}; }
  int64_t size(const char *axis) const { return plan.meshSizes.at(axis); }

  Plan plan;
  const std::string &where;
  const Cluster &all;
  const TrainingJob &job;
  Cluster cluster;
  Mesh mesh;
  int64_t microbatches = 1;
  ScheduleOptions schedule;
};

Status Completion::completeMesh() {
  for (const auto &[name, axisSize] : plan.meshSizes) {
    if (axisSize > 1 && planAxis(name) < 0)
      return wrong(fmt::format("mesh.{} is {}, but only the axes {} can be simulated; set it to 1", name, axisSize,
                               fmt::join(kPlanAxes, ", ")));
  }
  if (plan.ops.empty() && plan.arguments.empty() && plan.recomputeOps.empty()) {
    plan.ops = job.ops;
    plan.arguments = job.arguments;
    plan.recomputeOps = job.recomputeOps;
  } else if (plan.ops != job.ops || plan.arguments != job.arguments || plan.recomputeOps != job.recomputeOps) {
    return wrong("its pins of ops or arguments differ from those that the model was laid out with; give the plan as "
                 "the constraints");
  }
  int64_t others = 1;
  for (const auto &[name, axisSize] : plan.meshSizes)
    others *= axisSize;
  int64_t available = job.ranks.value_or(all.ranks());
  if (!plan.meshSizes.contains("data")) {
    if (available % others != 0)
      return wrong(fmt::format(
          "the mesh without \"data\" has {} ranks, which does not divide the {} ranks of {}; give mesh.data or <ranks>",
          others, available, all.name));
    plan.meshSizes["data"] = available / others;
    others = available;
  }
  for (const char *name : kPlanAxes)
    plan.meshSizes.try_emplace(name, 1);
  if (others > available)
    return wrong(
        fmt::format("its mesh has {} ranks, {} {}", others, all.name,
                    job.ranks ? fmt::format("is used with <ranks> {}; shrink the mesh or give more <ranks>", available)
                              : fmt::format("has {}; shrink the mesh or give a larger cluster", available)));
  if (job.ranks && others != available)
    return wrong(fmt::format("its mesh has {} ranks, <ranks> is {}; change one of them", others, available));
  auto first = firstRanks(all, others);
  if (!first)
    return first.error();
  cluster = std::move(*first);
  mesh = plan.mesh();
  return completeStageMeshes();
}

int64_t innerRanks(const std::map<std::string, int64_t> &sizes) {
  int64_t ranks = 1;
  for (const char *axis : kInnerAxes)
    if (auto its = sizes.find(axis); its != sizes.end())
      ranks *= its->second;
  return ranks;
}

Status Completion::completeStageMeshes() {
  std::map<int64_t, std::map<std::string, int64_t>> ofStage;
  for (StageLayers &run : plan.stages) {
    if (run.mesh.empty())
      continue;
    if (run.stage >= size("stage"))
      return wrong(fmt::format("stages: there is no stage {}; the plan has {} stages", run.stage, size("stage")));
    for (const char *axis : kInnerAxes)
      run.mesh.try_emplace(axis, 1);
    if (innerRanks(run.mesh) != innerRanks(plan.meshSizes))
      return wrong(fmt::format("the mesh of stage {} has {} ranks ({}), the plan's mesh {} for each stage ({}); all "
                               "stages have as many",
                               run.stage, innerRanks(run.mesh), stageMeshText(run.mesh), innerRanks(plan.meshSizes),
                               stageMeshText(plan.meshSizes)));
    auto [known, isNew] = ofStage.try_emplace(run.stage, run.mesh);
    if (!isNew && known->second != run.mesh)
      return wrong(fmt::format("stages: stage {} has two meshes, {} and {}; its chunks share one", run.stage,
                               stageMeshText(known->second), stageMeshText(run.mesh)));
  }
  for (auto &[stage, sizes] : ofStage)
    if (std::all_of(sizes.begin(), sizes.end(), [&](auto &axis) { return axis.second == plan.meshSizes[axis.first]; }))
      sizes.clear();
  Mesh any = mesh; // all axes that some stage has, in order
  for (StageLayers &run : plan.stages)
    if (auto its = ofStage.find(run.stage); its != ofStage.end()) {
      run.mesh = its->second;
      Plan all = plan;
      for (const MeshAxis &axis : any.axes)
        all.meshSizes[axis.name] = axis.size;
      for (const auto &[axis, axisSize] : run.mesh)
        all.meshSizes[axis] = std::max(all.meshSizes[axis], axisSize);
      any = all.mesh();
    }
  if (int stage = any.find("stage"); stagesDiffer(plan) && stage > 0 && stage + 1 < static_cast<int>(any.axes.size()))
    return wrong("order puts \"stage\" between other axes, and stages have meshes of their own; put \"stage\" first or "
                 "last");
  return ok();
}

/// Checks that every stage can share the samples of a microbatch among its model replicas.
Status Completion::checkBatchOfStages() const {
  int64_t groups = size("data") * size("expert"), samples = plan.microbatch * groups;
  for (const StageLayers &run : plan.stages)
    if (int64_t its = run.mesh.empty() ? groups : run.mesh.at("data") * run.mesh.at("expert"); samples % its != 0)
      return wrong(fmt::format("a microbatch has {} samples ({} for each of the {} data x expert groups of the plan's "
                               "mesh), which the {} groups of stage {} ({}) can't share; change microbatch or its mesh",
                               samples, plan.microbatch, groups, its, run.stage, stageMeshText(run.mesh)));
  return ok();
}

Status Completion::completeBatch() {
  int64_t asked = job.globalBatch, exported = job.exportedBatch;
  if (asked && plan.globalBatch && asked != plan.globalBatch)
    return wrong(fmt::format("global_batch is {}, <global-batch> is {}; drop one of them", plan.globalBatch, asked));
  if (asked)
    plan.globalBatch = asked;
  if (exported) {
    if (plan.globalBatch && plan.globalBatch != exported)
      return wrong(fmt::format("global_batch is {}; {} was exported with {} samples, which are its global batch",
                               plan.globalBatch, job.model, exported));
    plan.globalBatch = exported;
  }
  int64_t groups = size("data") * size("expert"); // groups with different samples
  std::string groupsText = size("expert") > 1 ? fmt::format("data x expert groups; change mesh.data, mesh.expert")
                                              : "model replicas; change mesh.data";
  if (!plan.globalBatch)
    plan.globalBatch = groups * std::max<int64_t>(1, plan.microbatch);
  if (plan.globalBatch % groups != 0 && job.perOpStrategies) {
    plan.microbatch = (plan.globalBatch + groups - 1) / groups;
    return ok();
  }
  if (plan.globalBatch % groups != 0)
    return wrong(fmt::format("global_batch {} is not a multiple of the {} {} or global_batch", plan.globalBatch, groups,
                             groupsText));
  int64_t group = plan.globalBatch / groups;
  if (!plan.microbatch)
    plan.microbatch = size("stage") > 1 ? 1 : group;
  if (plan.microbatch > group && size("stage") == 1)
    plan.microbatch = group;
  if (group % plan.microbatch != 0)
    return wrong(fmt::format(
        "the {} samples of a model replica (global_batch {} / {}) are not a multiple of microbatch {}; change "
        "microbatch or global_batch",
        group, plan.globalBatch,
        size("expert") > 1 ? fmt::format("(data {} x expert {})", size("data"), size("expert"))
                           : fmt::format("data {}", groups),
        plan.microbatch));
  microbatches = group / plan.microbatch;
  if (microbatches > 1 && !job.noMicrobatchesReason.empty())
    return wrong(fmt::format("microbatch is {} of the {} samples of a model replica; {}", plan.microbatch, group,
                             job.noMicrobatchesReason));
  return checkBatchOfStages();
}

/// Returns the value that all stages share, or `otherwise` if none is given. Fails when stages differ.
template <typename Value> Result<Value> sameForAll(const std::vector<Value> &values, Value otherwise, const char *key) {
  for (const auto &value : values)
    if (value != values.front())
      return Error{fmt::format("{} differs from stage to stage, which cannot be simulated; give one value", key)};
  return values.empty() ? otherwise : Value(values.front());
}

Status Completion::checkShardingRanks() const {
  for (int64_t stage = 0; stage < size("stage"); ++stage) {
    Plan its = planOfStage(plan, stage);
    if (int64_t replicas = replicaCount(its.mesh()); replicas % plan.optimizerShardingRanks != 0)
      return wrong(fmt::format(
          "optimizer_sharding_ranks is {}, which does not divide the {} ranks of data, context and expert{}; give a "
          "divisor",
          plan.optimizerShardingRanks, replicas, stagesDiffer(plan) ? fmt::format(" of stage {}", stage) : ""));
  }
  return ok();
}

Status Completion::checkOptimizerStates() const {
  if (plan.optimizerStates.value_or(OptimizerStates::Device) == OptimizerStates::Device)
    return ok();
  std::string_view word = toString(*plan.optimizerStates);
  if (std::any_of(plan.optimizerSharding.begin(), plan.optimizerSharding.end(), [](int64_t its) { return its != 1; }))
    return wrong(fmt::format("optimizer_states is {}, but optimizer_sharding is {}; give optimizer_sharding 1", word,
                             fmt::join(plan.optimizerSharding, ", ")));
  if (!mayKeepStatesOtherwise(job))
    return wrong(fmt::format("optimizer_states is {}, which is for bf16 parameters and the two moments of Adam, but "
                             "<dtype> is {} and the optimizer keeps {:g} for each element; give <dtype> bf16 or f8 and "
                             "<optimizer> adamw, or leave optimizer_states out",
                             word, job.dtype, job.optimizerMoments));
  return ok();
}

Status Completion::completeExecution() {
  int64_t stages = size("stage");
  if (plan.schedule.name.empty())
    plan.schedule.name = defaultSchedule(plan.schedule.chunks > 1).name;
  if (!plan.schedule.chunks)
    plan.schedule.chunks = defaultChunkCount(plan.schedule.name);
  if (plan.schedule.chunks > 1 && stages == 1)
    return wrong(fmt::format("schedule.chunks is {} with one stage, but chunks are for pipelines; leave it out",
                             plan.schedule.chunks));
  auto made = scheduleOptions(plan.schedule.name, plan.schedule.variant, stages, microbatches, plan.schedule.chunks);
  if (!made)
    return wrong(made.error().message);
  schedule = *made;
  if (!plan.schedule.inFlight.empty() && !recordOf(schedule.kind).searched)
    return wrong(
        fmt::format("schedule.in_flight is for the variants 1p, 2p and by-memory of zero-bubble, but the schedule "
                    "is {}; leave it out",
                    scheduleText(plan.schedule.name, plan.schedule.variant, plan.schedule.chunks)));
  schedule.inFlight = plan.schedule.inFlight;
  const std::pair<const char *, size_t> perStage[] = {{"schedule.in_flight", plan.schedule.inFlight.size()},
                                                      {"recompute", plan.recompute.size()},
                                                      {"optimizer_sharding", plan.optimizerSharding.size()},
                                                      {"sequence_parallel", plan.sequenceParallel.size()}};
  for (const auto &[key, count] : perStage)
    if (count > 1 && count != static_cast<size_t>(stages))
      return wrong(fmt::format("{} has {} values for {} stages; give one, or one for each stage", key, count, stages));
  if (!plan.decidesRecompute())
    plan.recompute = {Recompute::None};
  if (plan.optimizerSharding.empty())
    plan.optimizerSharding = {0};
  int64_t sharding = *std::max_element(plan.optimizerSharding.begin(), plan.optimizerSharding.end());
  auto sequence = sameForAll<bool>(plan.sequenceParallel, false, "sequence_parallel");
  if (!sequence)
    return wrong(sequence.error().message);
  plan.sequenceParallel = {*sequence};
  if (plan.layout == OpLayout::Solved && *sequence)
    return wrong("layout is \"solved\" and sequence_parallel true: the solver decides for each op what is cut; leave "
                 "one of them out");
  if (Status status = checkOptimizerStates(); !status)
    return status;
  if (sharding > 0 && plan.optimizerShardingRanks)
    if (Status status = checkShardingRanks(); !status)
      return status;
  if (!plan.overlap)
    plan.overlap = overlapWords(
        job.trainer->overlap({stages, schedule.kind, static_cast<int>(sharding), plan.sequenceParallel.front()}));
  bool mixed = job.dtype != "f32" && job.dtype != "f64";
  if (!mixed && !plan.gradientDtype.empty() && plan.gradientDtype != job.dtype)
    return wrong(
        fmt::format("gradient_dtype is {} and <dtype> {}; leave gradient_dtype out, or give <dtype> bf16, f16 or "
                    "f8",
                    plan.gradientDtype, job.dtype));
  if (mixed && plan.gradientDtype == "f64")
    return wrong(fmt::format("gradient_dtype is f64 and <dtype> {}; give f32 or a type of 16 bits", job.dtype));
  if (plan.gradientDtype.empty())
    plan.gradientDtype = mixed ? "f32" : job.dtype;
  plan.attention = plan.attention.value_or(AttentionKernels::Fused);
  plan.layout = plan.layout.value_or(OpLayout::Megatron);
  if (size("context") > 1 || std::any_of(plan.stages.begin(), plan.stages.end(), [](const StageLayers &run) {
        return !run.mesh.empty() && run.mesh.at("context") > 1;
      }))
    plan.contextStyle = plan.contextStyle.value_or(ContextStyle::Ring);
  return ok();
}

Result<CompletedPlan> Completion::run() {
  for (Status (Completion::*step)() :
       {&Completion::completeMesh, &Completion::completeBatch, &Completion::completeExecution})
    if (Status status = (this->*step)(); !status)
      return status.error();
  return CompletedPlan{std::move(plan), where, std::move(cluster), std::move(mesh), microbatches, schedule};
}

} // namespace

bool mayKeepStatesOtherwise(const TrainingJob &job) {
  return (job.dtype == "bf16" || job.dtype == "f8") && job.optimizerMoments == 2;
}

Result<CompletedPlan> completePlan(Plan plan, const std::string &where, const Cluster &cluster,
                                   const TrainingJob &job) {
  return Completion(std::move(plan), where, cluster, job).run();
}

std::vector<std::string> overlapWords(const Overlap &overlap) {
  const bool on[] = {overlap.gradients, overlap.parameters, overlap.tensor,
                     overlap.stage,     overlap.products,   overlap.experts};
  static_assert(std::size(on) == std::size(kPlanOverlaps));
  std::vector<std::string> words;
  for (size_t i = 0; i < std::size(on); ++i)
    if (on[i])
      words.emplace_back(kPlanOverlaps[i]);
  return words;
}

Overlap parseOverlap(const std::vector<std::string> &words) {
  auto has = [&](const char *word) { return std::find(words.begin(), words.end(), word) != words.end(); };
  return {has("gradients"), has("parameters"), has("tensor"), has("stage"), has("products"), has("experts")};
}

std::string stageMeshText(const std::map<std::string, int64_t> &sizes) {
  std::vector<std::string> words;
  for (const char *axis : kInnerAxes)
    if (auto its = sizes.find(axis); its != sizes.end() && its->second > 1)
      words.push_back(fmt::format("{} {}", axis, its->second));
  return words.empty() ? "1 rank" : fmt::format("{}", fmt::join(words, " x "));
}

bool stagesDiffer(const Plan &completed) {
  return std::any_of(completed.stages.begin(), completed.stages.end(), [](auto &run) { return !run.mesh.empty(); });
}

Plan planOfStage(const Plan &completed, int64_t stage) {
  Plan its = completed;
  for (const StageLayers &run : completed.stages) {
    if (run.stage != stage || run.mesh.empty())
      continue;
    int64_t samples = its.microbatch * its.meshSizes.at("data") * its.meshSizes.at("expert");
    for (const auto &[axis, size] : run.mesh)
      its.meshSizes[axis] = size;
    its.microbatch = samples / (its.meshSizes.at("data") * its.meshSizes.at("expert"));
    break;
  }
  return its;
}

int64_t replicaCount(const Mesh &mesh) { return shardCount(shardingAxes(mesh, 0)); }

std::vector<AxisRef> shardingAxes(const Mesh &mesh, int64_t ranks) {
  std::vector<AxisRef> refs;
  for (int axis = static_cast<int>(mesh.axes.size()) - 1; axis >= 0; --axis) {
    const auto &[name, size] = mesh.axes[axis];
    if (std::find(std::begin(kReplicaAxes), std::end(kReplicaAxes), name) == std::end(kReplicaAxes))
      continue;
    int64_t part = ranks ? std::gcd(ranks, size) : size;
    if (part > 1)
      refs.insert(refs.begin(), {axis, size / part, part});
    ranks /= ranks ? part : 1;
  }
  return refs;
}

LayoutKey layoutKeyOf(const Plan &completed) {
  auto size = [&](const char *axis) { return completed.meshSizes.at(axis); };
  return {size("model"),
          size("context"),
          size("expert"),
          completed.microbatch,
          completed.sequenceParallel.front(),
          completed.attention == AttentionKernels::Fused,
          size("context") > 1 && completed.contextStyle == ContextStyle::Ulysses,
          size("model") > 1 && completed.layout == OpLayout::Solved};
}

} // namespace kerf
