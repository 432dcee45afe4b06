// SPDX-License-Identifier: Apache-2.0
// Plan + model + cluster -> StepWork and StepPlan -> simulator. The model is imported at the size of one microbatch;
// layers are cut over stages and chunks here.
#include "kerf/Compiler/Simulate.h"

#include "kerf/Transforms/Layout.h"
#include "kerf/Transforms/ModelWork.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>

using namespace mlir;
using namespace kerf::ir;

namespace kerf {

namespace {

class PlanSimulation {
public:
  PlanSimulation(MLIRContext &context, const std::string &modelPath, const Plan &given, const std::string &planFile,
                 const Cluster &all, const SimulateOptions &options)
      : context(context), modelPath(modelPath), plan(given), planFile(planFile), all(all), options(options),
        configured(std::filesystem::path(modelPath).extension() == ".json") {}

  Result<Simulated> run();

private:
  Status completeMesh();
  Status completeBatch(int64_t exported);
  Status completeExecution();
  Result<ModelWork> workOfModel();
  Result<std::vector<std::pair<int64_t, int64_t>>> cutLayers(int64_t layers) const;
  Status assemble(ModelWork model);
  StepPlan stepPlan() const;
  Error wrong(const std::string &message) const { return {fmt::format("{}: {}", planFile, message)}; }
  int64_t size(const char *axis) const { return plan.meshSizes.at(axis); }
  std::vector<AxisRef> axis(const char *name) const {
    int index = mesh.find(name);
    return index < 0 ? std::vector<AxisRef>() : std::vector<AxisRef>{wholeAxis(mesh, index)};
  }

  MLIRContext &context;
  const std::string &modelPath;
  Plan plan;
  const std::string &planFile;
  const Cluster &all;
  const SimulateOptions &options;
  bool configured; // a config.json: imported at the size that is asked for
  Cluster cluster;
  Mesh mesh;
  int64_t microbatches = 1, moduleBatch = 1;
  ScheduleOptions schedule;
  StepWork work;
  std::vector<std::string> warnings;
};

Status PlanSimulation::completeMesh() {
  for (const auto &[name, ways] : plan.meshSizes) {
    bool known = std::find_if(std::begin(kPlanAxes), std::end(kPlanAxes),
                              [&](const char *axis) { return name == axis; }) != std::end(kPlanAxes);
    if (ways > 1 && (!known || name == "context" || name == "expert"))
      return wrong(
          fmt::format("mesh.{} is {}; simulated are \"stage\", \"data\" and \"model\", set it to 1", name, ways));
  }
  if (!plan.ops.empty() || !plan.arguments.empty())
    return wrong("it pins single ops or arguments (\"ops\", \"arguments\"), which are not simulated yet; leave them "
                 "out: without pins the "
                 "layout is Megatron-LM's");
  int64_t others = 1;
  for (const auto &[name, ways] : plan.meshSizes)
    others *= ways;
  int64_t available = options.ranks.value_or(all.ranks());
  if (!plan.meshSizes.contains("data")) {
    if (available % others != 0)
      return wrong(fmt::format(
          "the mesh without \"data\" has {} ranks, which do not divide the {} ranks of {}; give mesh.data or --ranks",
          others, available, all.name));
    plan.meshSizes["data"] = available / others;
    others = available;
  }
  for (const char *name : kPlanAxes)
    plan.meshSizes.try_emplace(name, 1);
  if (others > available)
    return wrong(fmt::format("its mesh has {} ranks, {} {}", others, all.name,
                             options.ranks ? fmt::format("is used with --ranks {}", available)
                                           : fmt::format("has {}", available)));
  if (options.ranks && others != available)
    return wrong(fmt::format("its mesh has {} ranks, --ranks is {}; change one of them", others, available));
  auto first = firstRanks(all, others);
  if (!first)
    return first.error();
  cluster = std::move(*first);
  mesh = plan.mesh();
  return ok();
}

Status PlanSimulation::completeBatch(int64_t exported) {
  int64_t asked = options.step.import.globalBatch;
  if (asked && plan.globalBatch && asked != plan.globalBatch)
    return wrong(fmt::format("global_batch is {}, --global-batch is {}; drop one of them", plan.globalBatch, asked));
  if (asked)
    plan.globalBatch = asked;
  if (exported) {
    if (plan.globalBatch && plan.globalBatch != exported)
      return wrong(fmt::format("global_batch is {}; {} was exported with {} samples, which are its global batch",
                               plan.globalBatch, modelPath, exported));
    plan.globalBatch = exported;
  }
  int64_t data = size("data");
  if (!plan.globalBatch)
    plan.globalBatch = data * std::max<int64_t>(1, plan.microbatch);
  if (plan.globalBatch % data != 0)
    return wrong(
        fmt::format("global_batch {} is not a multiple of the {} data groups; change mesh.data or global_batch",
                    plan.globalBatch, data));
  int64_t group = plan.globalBatch / data;
  if (!plan.microbatch)
    plan.microbatch = size("stage") > 1 ? 1 : group;
  if (plan.microbatch > group && size("stage") == 1)
    plan.microbatch = group;
  if (group % plan.microbatch != 0)
    return wrong(
        fmt::format("the {} samples of a data group (global_batch {} / data {}) are not a multiple of microbatch {}",
                    group, plan.globalBatch, data, plan.microbatch));
  microbatches = group / plan.microbatch;
  return ok();
}

/// All stages alike, or an error that says they must be.
template <typename Value> Result<Value> sameForAll(const std::vector<Value> &values, Value otherwise, const char *key) {
  for (const auto &value : values)
    if (value != values.front())
      return Error{fmt::format("{} differs from stage to stage, which is not simulated yet; give one value", key)};
  return values.empty() ? otherwise : Value(values.front());
}

Status PlanSimulation::completeExecution() {
  int64_t stages = size("stage");
  if (plan.schedule.name.empty())
    plan.schedule.name = plan.schedule.chunks > 1 ? "interleaved" : "1f1b";
  if (!plan.schedule.chunks)
    plan.schedule.chunks = plan.schedule.name == "interleaved" ? 2 : 1;
  if (plan.schedule.chunks > 1 && stages == 1)
    return wrong(fmt::format("schedule.chunks is {} with one stage; chunks are for pipelines", plan.schedule.chunks));
  if (!plan.schedule.variant.empty() && plan.schedule.name != "zero-bubble")
    return wrong(fmt::format("schedule.variant is for \"zero-bubble\", schedule.name is \"{}\"", plan.schedule.name));
  auto made = scheduleOptions(plan.schedule.name, plan.schedule.variant, stages, microbatches, plan.schedule.chunks);
  if (!made)
    return wrong(made.error().message);
  schedule = *made;
  const std::pair<const char *, size_t> perStage[] = {{"recompute", plan.recompute.size()},
                                                      {"optimizer_sharding", plan.optimizerSharding.size()},
                                                      {"sequence_parallel", plan.sequenceParallel.size()}};
  for (const auto &[key, count] : perStage)
    if (count > 1 && count != static_cast<size_t>(stages))
      return wrong(fmt::format("{} has {} values for {} stages; give one, or one for each stage", key, count, stages));
  if (plan.recompute.empty())
    plan.recompute = {"none"};
  auto sharding = sameForAll<int64_t>(plan.optimizerSharding, 0, "optimizer_sharding");
  if (!sharding)
    return wrong(sharding.error().message);
  plan.optimizerSharding = {*sharding};
  auto sequence = sameForAll<bool>(plan.sequenceParallel, false, "sequence_parallel");
  if (!sequence)
    return wrong(sequence.error().message);
  plan.sequenceParallel = {*sequence};
  if (*sharding > 0 && plan.optimizerShardingRanks && plan.optimizerShardingRanks != size("data"))
    return wrong(fmt::format("optimizer_sharding_ranks is {}; simulated is sharding over all {} ranks of the data axis",
                             plan.optimizerShardingRanks, size("data")));
  if (!plan.overlap)
    plan.overlap = {"gradients", "parameters", "stage"};
  bool mixed = options.dtype != "f32" && options.dtype != "f64";
  if (!mixed && !plan.gradientDtype.empty() && plan.gradientDtype != options.dtype)
    return wrong(fmt::format("gradient_dtype is {} and --dtype {}: gradients of another type are for bf16, f16 and f8",
                             plan.gradientDtype, options.dtype));
  if (plan.gradientDtype.empty())
    plan.gradientDtype = mixed ? "f32" : options.dtype;
  auto fill = [](std::string &word, const char *otherwise) { word = word.empty() ? otherwise : word; };
  fill(plan.attention, "fused");
  fill(plan.gradientAccumulation, "fused");
  fill(plan.parameterGathers, "layer");
  fill(plan.stageSends, "scattered");
  return ok();
}

Result<ModelWork> PlanSimulation::workOfModel() {
  StepOptions step = options.step;
  step.import.floatType = DType::F32; // types are options.dtype's from here on
  step.import.structureOnly = true;
  step.optimizer.clipNorm = 0; // the simulator prices the optimizer
  if (configured) {
    if (Status status = completeBatch(0); !status)
      return status.error();
    step.import.globalBatch = plan.microbatch;
  }
  auto imported = importTrainingStep(context, modelPath, step);
  if (!imported)
    return imported.error();
  warnings = imported->warnings;
  moduleBatch = batchOf(*imported->module);
  if (!configured)
    if (Status status = completeBatch(moduleBatch); !status)
      return status.error();
  // Axes of the placement: microbatches (of an export, that has its whole batch), and the ranks that share a
  // microbatch.
  Mesh local;
  WorkOptions workOptions;
  if (int64_t slices = moduleBatch / plan.microbatch; slices > 1) {
    local.axes.push_back({"data", slices});
    workOptions.axes.push_back(std::nullopt);
  }
  if (size("model") > 1) {
    local.axes.push_back({"model", size("model")});
    workOptions.axes.push_back(axis("model").front());
  }
  Cluster enough = all;
  while (enough.ranks() < local.ranks()) { // the placement's prices are only compared with each other
    enough.levels.back().size *= 2;
    enough.usedRanks *= 2;
  }
  CollectiveModel collectives(local, enough);
  StrategyRank layout = megatronLayout(*imported->module, local,
                                       plan.sequenceParallel.front() ? SequenceParallel::Yes : SequenceParallel::No);
  auto placement = buildProblem(*imported->module, collectives, Plan(), std::nullopt, layout);
  if (!placement)
    return placement.error();
  auto solution = solve(placement->problem);
  if (!solution)
    return solution.error();
  if (solution->choice.empty())
    return Error{fmt::format("{}: no layout of {} over {} ranks of \"model\" can be carried out", planFile, modelPath,
                             size("model"))};
  workOptions.dtype = options.dtype;
  workOptions.fusedAttention = plan.attention == "fused";
  return modelWork(*imported->module, *placement, solution->choice, collectives, workOptions);
}

/// Half-open runs of layers, by part (chunk c of stage s is part c * stages + s). Evenly, the first parts one more,
/// where the plan does not say.
Result<std::vector<std::pair<int64_t, int64_t>>> PlanSimulation::cutLayers(int64_t layers) const {
  int64_t stages = size("stage"), parts = stages * plan.schedule.chunks;
  std::vector<std::pair<int64_t, int64_t>> runs;
  if (plan.stages.empty()) {
    if (layers < parts)
      return wrong(fmt::format("{} layers are not enough for {} stages of {} chunks; give \"stages\" or fewer of them",
                               layers, stages, plan.schedule.chunks));
    int64_t begin = 0;
    for (int64_t i = 0; i < parts; ++i) {
      int64_t count = layers / parts + (i < layers % parts ? 1 : 0);
      runs.emplace_back(begin, begin + count);
      begin += count;
    }
    return runs;
  }
  if (static_cast<int64_t>(plan.stages.size()) != parts)
    return wrong(fmt::format("\"stages\" has {} entries for {} stages of {} chunks", plan.stages.size(), stages,
                             plan.schedule.chunks));
  std::vector<const StageLayers *> byPart(parts, nullptr);
  for (const StageLayers &run : plan.stages) {
    if (run.stage >= stages || run.chunk >= plan.schedule.chunks)
      return wrong(fmt::format("stages: stage {}, chunk {} is not there; the plan has {} stages of {} chunks",
                               run.stage, run.chunk, stages, plan.schedule.chunks));
    const StageLayers *&its = byPart[run.chunk * stages + run.stage];
    if (its)
      return wrong(fmt::format("stages: chunk {} of stage {} is told twice", run.chunk, run.stage));
    its = &run;
  }
  int64_t next = 0;
  for (const StageLayers *run : byPart) {
    if (run->layers && run->layers->first != next)
      return wrong(
          fmt::format("stages: chunk {} of stage {} begins with layer {}, the part before it ends before layer {}",
                      run->chunk, run->stage, run->layers->first, next));
    int64_t end = run->layers ? run->layers->second + 1 : next;
    runs.emplace_back(next, end);
    next = end;
  }
  if (next != layers)
    return wrong(fmt::format("stages: they hold {} layers, {} has {}", next, modelPath, layers));
  return runs;
}

Status PlanSimulation::assemble(ModelWork model) {
  std::vector<AxisRef> data = axis("data"), modelAxis = axis("model");
  bool merged = plan.optimizerSharding.front() == 3 && plan.parameterGathers == "layer";
  for (ChainLink &link : model.chain) {
    for (ParameterGroup &group : link.segment.parameters)
      group.reduceAxes = data;
    if (merged && link.segment.parameters.size() > 1) { // one flat parameter a layer, as FSDP gathers it
      ParameterGroup flat{link.segment.name, 0, data};
      for (const ParameterGroup &group : link.segment.parameters)
        flat.elements += group.elements;
      link.segment.parameters = {flat};
    }
  }
  int64_t layers = model.layers(), stages = size("stage");
  if (layers == 0 && stages > 1)
    return wrong(
        fmt::format("mesh.stage is {}; no repeated layer was found in {} that could be cut", stages, modelPath));
  auto runs = layers
                  ? cutLayers(layers)
                  : Result<std::vector<std::pair<int64_t, int64_t>>>(std::vector<std::pair<int64_t, int64_t>>{{0, 0}});
  if (!runs)
    return runs.error();
  std::map<std::string, int> known; // parts that are alike
  std::vector<std::vector<size_t>> linksOfStage(stages);
  work.part.resize(stages);
  for (size_t p = 0; p < runs->size(); ++p) {
    auto [begin, end] = (*runs)[p];
    bool last = p + 1 == runs->size();
    Part part;
    std::string key;
    int64_t at = 0;
    std::vector<size_t> &links = linksOfStage[p % stages];
    auto take = [&](size_t l, int64_t repeat) {
      part.segments.push_back(model.chain[l].segment);
      part.segments.back().repeat = repeat;
      links.push_back(l);
      key += fmt::format("{}x{} ", l, repeat);
    };
    for (size_t l = 0; l < model.chain.size(); ++l) {
      const ChainLink &link = model.chain[l];
      if (link.layers) {
        int64_t count = std::min(end, at + link.layers) - std::max(begin, at);
        if (count > 0)
          take(l, count);
        at += link.layers;
        continue;
      }
      bool isFirst = l == 0, isLast = l + 1 == model.chain.size();
      bool here = isFirst && isLast ? true : isFirst ? p == 0 : isLast ? last : begin <= at && at < end;
      if (here)
        take(l, 1);
    }
    auto [found, isNew] = known.try_emplace(key, static_cast<int>(work.parts.size()));
    if (isNew) {
      part.name = p == 0 ? "first" : last ? "last" : fmt::format("part {}", p);
      work.parts.push_back(std::move(part));
    }
    work.part[p % stages].push_back(found->second);
  }
  // A parameter that a later stage uses too has a copy there, and their gradients are summed.
  for (auto &[link, group] : model.tied) {
    bool withOwner = std::find(linksOfStage[0].begin(), linksOfStage[0].end(), link) != linksOfStage[0].end();
    if (withOwner)
      continue;
    group.reduceAxes = data;
    for (Part &part : work.parts)
      for (Segment &segment : part.segments)
        if (segment.name == model.chain[link].segment.name && model.chain[link].layers == 0)
          segment.parameters.push_back(group);
    work.tiedElements += group.elements;
  }
  work.stageAxes = axis("stage");
  work.sendBytes = model.streamLocalBytes;
  bool whole = model.streamLocalBytes == model.streamBytes;
  if (whole && !modelAxis.empty() && plan.stageSends == "scattered") {
    work.sendBytes = model.streamBytes / static_cast<double>(size("model"));
    work.afterReceive = {
        {"gather of the stream", Collective::AllGather, modelAxis, model.streamBytes, Kept::Always, false}};
  }
  double batches = static_cast<double>(plan.globalBatch) / static_cast<double>(moduleBatch);
  work.tokens = model.tokens * batches;
  work.modelFlops = model.modelFlops * batches;
  work.dtype = options.dtype;
  return ok();
}

StepPlan PlanSimulation::stepPlan() const {
  StepPlan step;
  step.schedule = schedule;
  auto mode = [](const std::string &word) {
    return word == "full" ? Recompute::Full : word == "selective" ? Recompute::Selective : Recompute::None;
  };
  step.recompute = mode(plan.recompute.front());
  if (plan.recompute.size() > 1)
    for (const std::string &word : plan.recompute)
      step.recomputeOfStage.push_back(mode(word));
  step.optimizerSharding = static_cast<int>(plan.optimizerSharding.front());
  auto overlaps = [&](const char *what) {
    return std::find(plan.overlap->begin(), plan.overlap->end(), what) != plan.overlap->end();
  };
  step.overlap = {overlaps("gradients"), overlaps("parameters"), overlaps("tensor"), overlaps("stage")};
  const OptimizerOptions &optimizer = options.step.optimizer;
  int moments = optimizer.kind == OptimizerKind::AdamW ? 2 : optimizer.momentum > 0 ? 1 : 0;
  step.bytes = stateBytes(options.dtype == "f8" ? "bf16" : options.dtype, plan.gradientDtype, moments);
  step.gathers = plan.parameterGathers == "deepspeed-2021" ? GatherStyle::DeepSpeed2021 : GatherStyle::Layer;
  step.fusedAccumulation = plan.gradientAccumulation == "fused";
  return step;
}

Result<Simulated> PlanSimulation::run() {
  if (Status status = completeMesh(); !status)
    return status.error();
  // The schedule needs the number of microbatches, which an export's batch decides; the model needs what the plan says
  // of attention.
  if (plan.sequenceParallel.empty())
    plan.sequenceParallel = {false};
  if (plan.attention.empty())
    plan.attention = "fused";
  auto model = workOfModel();
  if (!model)
    return model.error();
  if (Status status = completeExecution(); !status)
    return status.error();
  if (Status status = assemble(std::move(*model)); !status)
    return status.error();
  CollectiveModel collectives(mesh, cluster);
  auto simulation = kerf::simulate(work, stepPlan(), collectives, options.trace);
  if (!simulation)
    return wrong(simulation.error().message);
  return Simulated{std::move(*simulation), std::move(work), mesh, std::move(plan), std::move(warnings)};
}

} // namespace

Result<Simulated> simulatePlan(MLIRContext &context, const std::string &modelPath, const Plan &plan,
                               const std::string &planFile, const Cluster &cluster, const SimulateOptions &options) {
  return PlanSimulation(context, modelPath, plan, planFile, cluster, options).run();
}

} // namespace kerf
