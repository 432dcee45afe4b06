// SPDX-License-Identifier: Apache-2.0
// Compiles a training step under a plan to a device program, and writes its report.
#include "kerf/Compiler/Compiler.h"

#include "Diagnostics.h"
#include "EmitProgram.h"
#include "PlanLowering.h"
#include "kerf/Compiler/Hardware.h"
#include "kerf/Package/Accumulation.h"
#include "kerf/Package/Native.h"
#include "kerf/Transforms/OpKeys.h"
#include "kerf/Transforms/Pipelines.h"
#include "kerf/Transforms/Placement.h"
#include "kerf/Transforms/Work.h"
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <limits>
#include <map>
#include <unistd.h>

using namespace mlir;
using namespace kerf::ir;

namespace kerf {

namespace {

/// Adds the strategy and the seconds of each operator on one rank to the report. Runs before partitioning, which
/// removes the strategies.
void reportOps(ModuleOp module, const CollectiveModel &collectives, Report &report) {
  auto calls = callCounts(module);
  for (auto &[op, key] : opKeys(module)) {
    auto attr = op->getAttrOfType<DictionaryAttr>(KerfDialect::kStrategyAttr);
    Rule rule = cast<ShardingRuleOpInterface>(op).getShardingRule();
    auto strategy = attr ? parseStrategyAttr(attr, collectives.mesh(), rule)
                         : Result<Strategy>(Strategy{std::vector<int>(collectives.mesh().axes.size(), -1)});
    auto sharding = strategy ? project(rule, collectives.mesh(), *strategy) : std::nullopt;
    if (!sharding || cast<WorkOpInterface>(op).getKernelClass() == KernelClass::Nothing)
      continue;
    int64_t count = calls[op->getParentOfType<func::FuncOp>().getName().str()];
    report.ops.push_back({key.key, strategyText(collectives.mesh(), rule, *strategy), count,
                          static_cast<double>(count) * opSeconds(op, rule, *strategy, *sharding, collectives)});
  }
}

/// Fails when the plan was made for another model or cluster, or needs more ranks than the cluster has.
Status checkBelongs(const TrainingStep &step, const Plan &plan, const std::string &file, const Cluster &cluster) {
  if (!plan.modelHash.empty() && plan.modelHash != step.modelHash)
    return Error{fmt::format(
        "{} was made for another model: its inputs.model_sha256 is {:.16}..., this model's is {:.16}...; plan again",
        file, plan.modelHash, step.modelHash)};
  std::string hash = sha256(toJson(cluster));
  if (!plan.clusterHash.empty() && plan.clusterHash != hash)
    return Error{fmt::format("{} was made for another cluster: its inputs.cluster_sha256 is {:.16}..., that of {} with "
                             "{} ranks is {:.16}...; plan again",
                             file, plan.clusterHash, cluster.name, cluster.ranks(), hash)};
  int64_t ranks = 1;
  for (const auto &[axis, size] : plan.meshSizes)
    ranks *= size;
  if (ranks > cluster.ranks())
    return Error{
        fmt::format("{}: its mesh has {} ranks, but {} has {}; give a larger cluster or <ranks>, or plan again", file,
                    ranks, cluster.name, cluster.ranks())};
  return isExecutionPlan(plan, batchOf(*step.module)) ? ok() : checkLowerable(plan, file);
}

/// Returns the mesh with one microbatch, which has the ranks as its elements and the same axis numbers.
Mesh meshOfRanks(Mesh mesh) {
  for (MeshAxis &axis : mesh.axes)
    if (axis.name == KerfDialect::kMicrobatchAxis)
      axis.size = 1;
  return mesh;
}

/// Returns the costs of reshards, which may move data between ranks but not between microbatches, as these follow each
/// other in time.
StepPrice priceBetweenRanks(const CollectiveModel &collectives, const Mesh &mesh) {
  int time = mesh.find(KerfDialect::kMicrobatchAxis.str());
  return [price = stepPriceFor(collectives), time](const ReshardStep &step, int64_t bytesIn, int64_t bytesOut) {
    bool overTime = std::any_of(step.axes.begin(), step.axes.end(), [&](auto &axis) { return axis.axis == time; });
    if (!overTime)
      return price(step, bytesIn, bytesOut);
    return step.kind == ReshardStepKind::LocalSlice ? 0 : std::numeric_limits<double>::infinity();
  };
}

/// Returns how the step is executed, as a text for reports: "1f1b; 4 microbatches of 1; recompute full; optimizer
/// sharding 1".
std::string executionText(const CompletedPlan &completed) {
  const Plan &plan = completed.plan;
  std::vector<std::string> words;
  if (plan.meshSizes.at("stage") > 1)
    words.push_back(scheduleText(plan.schedule.name, plan.schedule.variant, plan.schedule.chunks));
  words.push_back(fmt::format("{} microbatch{} of {}", completed.microbatches, completed.microbatches > 1 ? "es" : "",
                              plan.microbatch));
  std::map<int64_t, std::string> meshes;
  for (const StageLayers &run : plan.stages)
    if (!run.mesh.empty())
      meshes[run.stage] = stageMeshText(run.mesh);
  for (const auto &[stage, mesh] : meshes)
    words.push_back(fmt::format("stage {}: {}", stage, mesh));
  if (plan.contextStyle)
    words.emplace_back(toString(*plan.contextStyle));
  if (plan.sequenceParallel.front())
    words.push_back("sequence parallel");
  if (plan.layout == OpLayout::Solved)
    words.push_back("layout solved");
  std::vector<std::string_view> recompute;
  for (Recompute mode : plan.recompute)
    recompute.push_back(toString(mode));
  words.push_back(recompute.empty() ? std::string("recompute by layers")
                                    : fmt::format("recompute {}", fmt::join(recompute, ", ")));
  words.push_back(fmt::format("optimizer sharding {}", fmt::join(plan.optimizerSharding, ", ")) +
                  (plan.optimizerShardingRanks ? fmt::format(" on {} ranks", plan.optimizerShardingRanks) : ""));
  return fmt::format("{}", fmt::join(words, "; "));
}

package::ScheduleChoice scheduleOf(const Plan &plan) {
  return {plan.schedule.name, plan.schedule.variant, plan.schedule.chunks, plan.schedule.inFlight};
}

} // namespace

/// Returns a warning if a stage of the program needs more memory than an accelerator has; nothing if all stages fit.
static std::optional<std::string> memoryWarning(const std::vector<StageMemory> &stages, const Cluster &cluster) {
  if (cluster.mixed() || cluster.device.kind == "cpu")
    return std::nullopt;
  for (size_t stage = 0; stage < stages.size(); ++stage)
    if (double bytes = stages[stage].deviceBytes + cluster.device.curves.contextBytes;
        bytes > static_cast<double>(cluster.device.memoryBytes))
      return fmt::format(
          "stage {} of the program needs {} on each rank ({}), but the device {} has {}; plan again with more "
          "recomputation, optimizer sharding or ranks, or with a smaller microbatch",
          stage, bytesText(bytes), memoryRulesText(cluster.device), cluster.device.name,
          bytesText(static_cast<double>(cluster.device.memoryBytes)));
  return std::nullopt;
}

Result<PlacedStep> placeStep(const TrainingStep &step, const Plan &plan, const std::string &planFile,
                             const Cluster &cluster) {
  if (Status status = checkOneGroup(cluster, "kerf compile"); !status)
    return status.error();
  if (Status status = checkBelongs(step, plan, planFile, cluster); !status)
    return status.error();
  auto cuts = stageCuts(plan, planFile);
  if (!cuts)
    return cuts.error();
  if (!cuts->empty() && *cuts != step.cuts)
    return Error{fmt::format("{}: its stages end at operators, but the step was imported without these cuts", planFile),
                 ExitStatus::InternalCheck};
  PlacedStep placed;
  if (isExecutionPlan(plan, batchOf(*step.module))) {
    auto lowered = lowerPlan(step, plan, planFile, cluster);
    if (!lowered)
      return lowered.error();
    placed.execution = std::move(*lowered);
  }
  placed.mesh = (placed.execution ? placed.execution->layouts.front().passes : plan).mesh();
  placed.module = cast<ModuleOp>(step.module.get()->clone());
  if (Status status =
          placed.execution ? applyExecution(*placed.module, *placed.execution) : applyPlan(*placed.module, plan);
      !status)
    return Error{fmt::format("{}: {}", planFile, status.error().message), status.error().status};
  DiagnosticCollector collected(placed.module->getContext());
  auto passes = PassManager::on<ModuleOp>(placed.module->getContext());
  addPlacementPasses(passes);
  placed.pipeline = pipelineText(passes);
  if (Status status = collected.run(passes, *placed.module); !status)
    return status.error();
  return placed;
}

static bool hasOnlyCpus(const Cluster &cluster) { return !cluster.mixed() && cluster.device.kind == "cpu"; }

Result<CompileResult> compileStep(const TrainingStep &step, const Plan &plan, const std::string &planFile,
                                  const Cluster &cluster) {
  auto placed = placeStep(step, plan, planFile, cluster);
  if (!placed)
    return placed.error();
  OwningOpRef<ModuleOp> module = std::move(placed->module);
  const std::optional<PlanLowering> &execution = placed->execution;
  const Mesh &mesh = placed->mesh;
  ModuleOp whole = step.module.get();
  CollectiveModel collectives(meshOfRanks(mesh), cluster);
  DiagnosticCollector collected(module->getContext());
  CompileResult compiled;
  compiled.pipelines.emplace_back("step", step.pipeline);
  compiled.pipelines.emplace_back("placement", placed->pipeline);
  Report &report = compiled.report;
  report.cluster = cluster.name;
  report.ranks = cluster.ranks();
  report.mesh = execution ? execution->completed.mesh : mesh;
  report.usedRanks = report.mesh.ranks();
  report.memoryLimitBytes = cluster.device.memoryBytes;
  report.types = step.types;
  if (execution)
    report.execution = executionText(execution->completed);
  else
    reportOps(*module, collectives, report);
  {
    auto passes = PassManager::on<ModuleOp>(module->getContext());
    LoweringPipeline lowering{priceBetweenRanks(collectives, mesh)};
    auto overlaps = [&](const char *what) {
      return execution && llvm::is_contained(*execution->completed.plan.overlap, what);
    };
    if (cluster.levels.size() > 1)
      lowering.ranksOfNode = cluster.levels.front().size;
    lowering.padClasses = !hasOnlyCpus(cluster);
    lowering.chunkProducts = overlaps("products");
    lowering.overlapTensor = overlaps("tensor");
    if (execution)
      lowering.tasks = {.chunks = execution->completed.plan.schedule.chunks,
                        .splitBackward = recordOf(execution->completed.schedule.kind).splitsBackward};
    addLoweringPasses(passes, lowering);
    compiled.pipelines.emplace_back("lowering", pipelineText(passes));
    if (Status status = collected.run(passes, *module); !status)
      return status.error();
  }
  if (execution &&
      (mesh.find(KerfDialect::kStageAxis.str()) >= 0 || mesh.find(KerfDialect::kMicrobatchAxis.str()) >= 0))
    setSchedule(*module, scheduleOf(execution->completed.plan));
  if (Status status = emitProgram(*module, collectives, KernelSource::Fused, compiled); !status)
    return status.error();
  if (auto batches = whole->getAttrOfType<IntegerAttr>(kAccumulateAttr))
    compiled.program.info[package::kAccumulateKey] = batches.getInt();
  compiled.device = std::move(module);
  if (plan.predicted) {
    report.stepSeconds = plan.predicted->stepSeconds;
    report.lowerBoundSeconds = plan.predicted->lowerBoundSeconds;
  }
  if (pricedAsLowered(cluster) || !execution)
    report.stepSeconds = compiled.figures.stepSeconds;
  report.warnings = step.warnings;
  if (auto warning = memoryWarning(compiled.figures.memory, cluster))
    report.warnings.push_back(std::move(*warning));
  return compiled;
}

bool pricedAsLowered(const Cluster &cluster) { return hasOnlyCpus(cluster); }

static Status writePackageFiles(const CompileResult &compiled, const TensorMap &weights, const std::string &folder) {
  TensorMap needed;
  for (const package::Arg &arg : compiled.program.args)
    if (auto found = weights.find(arg.name); found != weights.end())
      needed.insert(*found);
  if (Status status = writeSafetensors(folder + "/" + package::kWeightsFile, needed); !status)
    return status;
  if (compiled.program.native)
    for (const package::NativeImage &image : compiled.program.native->images)
      if (Status status = writeFile(folder + "/" + imageFileName(image), image.code); !status)
        return status;
  return writeFile(folder + "/" + package::kProgramFile, package::writeProgram(compiled.program));
}

Status writePackage(const CompileResult &compiled, const TensorMap &weights, const std::string &folder) {
  std::error_code code;
  std::filesystem::create_directories(folder, code);
  if (code)
    return Error{
        fmt::format("cannot create the folder '{}': {}; write the package to another folder", folder, code.message())};
  // An old package is replaced only after the new package is completely on disk, so that files of two packages never
  // mix.
  const std::string unfinished = fmt::format("{}/.{}.tmp", folder, getpid());
  std::filesystem::remove_all(unfinished, code);
  std::filesystem::create_directory(unfinished, code);
  if (code)
    return Error{
        fmt::format("cannot write the folder '{}': {}; write the package to another folder", folder, code.message())};
  std::vector<std::string> names = {package::kWeightsFile};
  if (compiled.program.native)
    for (const package::NativeImage &image : compiled.program.native->images)
      names.push_back(imageFileName(image));
  names.push_back(package::kProgramFile);
  Status written = writePackageFiles(compiled, weights, unfinished);
  for (const std::string &name : names) {
    if (written)
      std::filesystem::rename(unfinished + "/" + name, folder + "/" + name, code);
    if (written && code)
      written = Error{
          fmt::format("cannot write '{}/{}': {}; write the package to another folder", folder, name, code.message())};
  }
  std::filesystem::remove_all(unfinished, code);
  return written;
}

} // namespace kerf
