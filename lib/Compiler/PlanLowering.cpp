// SPDX-License-Identifier: Apache-2.0
#include "PlanLowering.h"
#include "HandWritten.h"
#include "ProgramMesh.h"
#include "StepLayout.h"
#include "kerf/PlanSearch/StepOfPlan.h"
#include "kerf/Transforms/Layout.h"
#include "kerf/Transforms/OpKeys.h"
#include "kerf/Transforms/RecomputePins.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <set>

using namespace mlir;
using namespace kerf::ir;

namespace kerf {

namespace {

constexpr const char *kSlices = "data"; // the layout's axis of data-parallel groups and microbatches together

func::FuncOp mainOf(ModuleOp module) { return module.lookupSymbol<func::FuncOp>(KerfDialect::kEntryName); }

/// Returns the calls of layers in order: forward calls, then backward calls.
std::pair<SmallVector<CallOp>, SmallVector<CallOp>> layerCalls(ModuleOp module) {
  std::pair<SmallVector<CallOp>, SmallVector<CallOp>> calls;
  for (auto call : mainOf(module).getOps<CallOp>())
    (call->hasAttr(KerfDialect::kBackwardAttr) ? calls.second : calls.first).push_back(call);
  return calls;
}

/// Returns the operators of the step that depend on inputs only and lead to a reduction over the batch, such as
/// counting the labels that are not ignored. These operators run once, on all samples of a rank, because every
/// microbatch needs their result.
std::set<Operation *> wholeBatchOps(ModuleOp module, const StepLayout &layout) {
  func::FuncOp main = mainOf(module);
  std::set<Operation *> inputOnly;
  for (Operation &op : main.front().without_terminator()) {
    bool alone = !isa<CallOp>(op);
    for (Value operand : op.getOperands()) {
      if (auto argument = dyn_cast<BlockArgument>(operand))
        alone &= !main.getArgAttr(argument.getArgNumber(), KerfDialect::kUpdatedByAttr);
      else
        alone &= inputOnly.contains(operand.getDefiningOp());
    }
    if (alone)
      inputOnly.insert(&op);
  }
  int slices = layout.placement.mesh.find(kSlices);
  std::set<Operation *> whole;
  for (size_t i = 0; slices >= 0 && i < layout.placement.nodes.size(); ++i) {
    const PlacementNode &node = layout.placement.nodes[i];
    if (!node.op || !inputOnly.contains(node.op))
      continue;
    for (const Sharding &result : node.shardings[layout.choice[i]].results)
      for (const AxisRef &axis : result.partial)
        if (axis.axis == slices)
          whole.insert(node.op);
  }
  for (Operation &op : llvm::reverse(main.front().without_terminator()))
    if (inputOnly.contains(&op) && llvm::any_of(op.getUsers(), [&](Operation *user) { return whole.contains(user); }))
      whole.insert(&op);
  return whole;
}

/// Replaces axes of the layout by axes of the program. `slices` are the axes that shard the batch.
void rename(std::vector<std::string> &axes, const AxisRoles &roles, const std::vector<std::string> &slices) {
  std::vector<std::string> renamed;
  for (const std::string &axis : axes) {
    const std::vector<std::string> &its = axis == kSlices ? slices : roles.axes.at(axis);
    renamed.insert(renamed.end(), its.begin(), its.end());
  }
  axes = std::move(renamed);
}

/// Joins the two head factors of attention, "g0" and "g1", which the layout of Ulysses shards by "model" and "context",
/// into the single factor "g" of the operator.
void joinHeads(OpPlan &op) {
  for (const char *part : {"g0", "g1"})
    if (auto found = op.strategy.extract(part); found && !found.mapped().empty()) {
      std::vector<std::string> &heads = op.strategy["g"];
      heads.insert(heads.end(), found.mapped().begin(), found.mapped().end());
    }
}

/// Removes strategies with factors that only predictions support, such as sharding the capacity of experts by
/// "context". These operators take the sharding of their operands. So do operators through which their results would
/// pass as partial sums, because these may be partial over other axes than the layout has.
void dropForeignFactors(Plan &passes, const llvm::MapVector<Operation *, OpKey> &keys) {
  std::map<std::string, const OpPlan *> plans;
  for (const OpPlan &plan : passes.ops)
    plans[plan.pattern] = &plan;
  std::set<Operation *> follows;
  std::set<std::string> dropped;
  for (auto &[op, key] : keys) { // in the order of the program
    auto plan = plans.find(key.key);
    if (plan == plans.end())
      continue;
    Rule rule = cast<ShardingRuleOpInterface>(op).getShardingRule();
    bool drops = llvm::any_of(plan->second->strategy, [&, op = op](const auto &cut) {
      auto factor = llvm::find_if(rule.factors, [&](const Factor &its) { return its.name == cut.first; });
      if (factor == rule.factors.end())
        return true;
      return factor->kind == FactorKind::PartialSum && llvm::any_of(factor->partialOperands, [&](int operand) {
               return follows.contains(op->getOperand(operand).getDefiningOp());
             });
    });
    if (drops) {
      follows.insert(op);
      dropped.insert(key.key);
    }
  }
  std::erase_if(passes.ops, [&](const OpPlan &plan) { return dropped.contains(plan.pattern); });
}

/// Leaves the inputs of a step unsharded, because the axes that come after the microbatch axis shard each microbatch
/// separately.
void keepInputsWhole(ModuleOp module, Plan &passes) {
  func::FuncOp main = mainOf(module);
  for (BlockArgument argument : main.getArguments()) {
    auto kind = main.getArgAttrOfType<StringAttr>(argument.getArgNumber(), KerfDialect::kKindAttr);
    if (!kind || kind.getValue() != "input")
      continue;
    std::string name = argumentKey(argument);
    ArgumentPlan whole{name, std::vector<std::vector<std::string>>(shapeOf(argument).size())};
    passes.arguments.insert(passes.arguments.begin(), std::move(whole));
  }
}

} // namespace

void markRingAttention(ModuleOp module, const Plan &plan) {
  if (plan.meshSizes.at("context") == 1 || plan.contextStyle != ContextStyle::Ring)
    return;
  Mesh mesh = meshOf(module);
  module.walk([&](Operation *op) {
    auto attr = op->getAttrOfType<DictionaryAttr>(KerfDialect::kStrategyAttr);
    if (kernelClassOf(op) != KernelClass::Attention || !attr || !canUseRingAttention(op))
      return;
    Rule rule = cast<ShardingRuleOpInterface>(op).getShardingRule();
    auto strategy = parseStrategyAttr(attr, mesh, rule);
    auto sharding = strategy ? project(rule, mesh, *strategy) : std::nullopt;
    int64_t ranks = sharding ? shardCount(sharding->operands[0].dims[1].axes) : 1;
    if (ranks > 1 && shapeOf(op->getOperand(0))[1] % ranks == 0)
      op->setAttr(KerfDialect::kRingAttr, UnitAttr::get(op->getContext()));
  });
}

bool isExecutionPlan(const Plan &plan, int64_t batch) {
  auto size = [&](const char *axis) { return plan.meshSizes.contains(axis) ? plan.meshSizes.at(axis) : 1; };
  auto any = [](const auto &values, const auto &off) {
    return std::any_of(values.begin(), values.end(), [&](const auto &value) { return value != off; });
  };
  int64_t groups = size("data") * size("expert");
  bool microbatches = plan.microbatch && plan.microbatch < (batch + groups - 1) / groups;
  return size("stage") > 1 || size("context") > 1 || size("expert") > 1 || microbatches ||
         any(plan.recompute, Recompute::None) || !plan.recomputeLayers.empty() || !plan.recomputeOps.empty() ||
         any(plan.optimizerSharding, int64_t(0)) || plan.optimizerShardingRanks > 1 ||
         any(plan.sequenceParallel, false) || plan.layout == OpLayout::Solved ||
         plan.attention == AttentionKernels::Unfused || !plan.schedule.name.empty() || !plan.stages.empty();
}

bool isOpByOp(const Plan &plan, int64_t batch) {
  return plan.complete() && !plan.ops.empty() && !isExecutionPlan(plan, batch);
}

/// Returns the strategies of operators and arguments of one layout on the mesh of the program.
static Plan lowerLayout(ModuleOp module, const CompletedPlan &completed, const StepLayout &layout,
                        const ProgramMesh &mesh, const AxisRoles &roles, const std::set<Operation *> &wholeBatch) {
  Plan passes;
  passes.meshSizes = mesh.sizes;
  passes.order = mesh.order;
  writeChoice(module, layout.placement, layout.choice, passes);
  std::vector<std::string> groups, slices;
  if (auto data = roles.axes.find(kSlices); data != roles.axes.end())
    groups = data->second;
  slices = groups;
  if (completed.microbatches > 1)
    slices.push_back(KerfDialect::kMicrobatchAxis.str());
  auto keys = opKeys(module);
  std::set<std::string> whole;
  for (Operation *op : wholeBatch)
    whole.insert(keys[op].key);
  for (OpPlan &op : passes.ops) {
    for (auto &[factor, axes] : op.strategy)
      rename(axes, roles, whole.contains(op.pattern) ? groups : slices);
    joinHeads(op);
  }
  dropForeignFactors(passes, keys);
  // An argument of a layer ("@layer#0") belongs to one microbatch; an argument of the step belongs to all microbatches.
  for (ArgumentPlan &argument : passes.arguments)
    for (std::vector<std::string> &axes : argument.dims)
      rename(axes, roles, argument.pattern.starts_with('@') ? slices : groups);
  if (microbatchesCutBatchFirst(completed))
    keepInputsWhole(module, passes);
  return passes;
}

/// Places the operators once for each different mesh of the stages.
static Status layOutStages(ModuleOp module, PlanLowering &lowering) {
  const CompletedPlan &completed = lowering.completed;
  std::vector<StepLayout> layouts;
  std::vector<LayoutMesh> meshes;
  std::set<Operation *> wholeBatch;
  for (int64_t stage = 0; stage < completed.plan.meshSizes.at("stage"); ++stage) {
    Plan its = planOfStage(completed.plan, stage);
    auto known = llvm::find_if(meshes, [&](const LayoutMesh &other) { return other.plan.meshSizes == its.meshSizes; });
    lowering.layoutOfStage.push_back(static_cast<int>(known - meshes.begin()));
    if (known != meshes.end())
      continue;
    auto layout = layOutStep(module, completed.where, layoutKeyOf(its), completed.cluster, its, nullptr);
    if (!layout)
      return layout.error();
    wholeBatch.merge(wholeBatchOps(module, *layout));
    meshes.push_back({std::move(its), layout->placement.mesh});
    layouts.push_back(std::move(*layout));
  }
  ProgramMesh mesh = programMesh(completed, meshes);
  for (size_t i = 0; i < layouts.size(); ++i)
    lowering.layouts.push_back({std::move(meshes[i].plan),
                                lowerLayout(module, completed, layouts[i], mesh, mesh.roles[i], wholeBatch),
                                mesh.roles[i].sharded});
  return ok();
}

Result<PlanLowering> lowerPlan(const TrainingStep &step, const Plan &given, const std::string &where,
                               const Cluster &cluster) {
  ModuleOp module = step.module.get();
  Plan plan = withLayers(module, given);
  addPins(step, plan);
  plan.gradientDtype.clear(); // gradient_dtype only affects predictions; the step has its types already
  if (plan.optimizerStates.value_or(OptimizerStates::Device) != OptimizerStates::Device)
    return Error{fmt::format("{}: optimizer_states \"{}\" can only be simulated and exported; leave it out", where,
                             toString(*plan.optimizerStates))};
  TrainingJob job;
  job.model = "the model";
  job.exportedBatch = batchOf(module);
  job.ops = plan.ops;
  job.arguments = plan.arguments;
  job.recomputeOps = plan.recomputeOps;
  auto completed = completePlan(plan, where, cluster, job);
  if (!completed)
    return completed.error();
  if (completed->plan.attention == AttentionKernels::Unfused)
    return Error{
        fmt::format("{}: attention \"unfused\" can only be simulated; give \"fused\", or <no-recognition> to run "
                    "attention as it was exported",
                    where)};
  PlanLowering lowering{std::move(*completed), {}, {}, {}};
  if (Status status = layOutStages(module, lowering); !status)
    return status.error();
  int64_t layers = static_cast<int64_t>(layerCalls(module).first.size());
  if (lowering.completed.plan.meshSizes.at("stage") == 1) {
    lowering.partOfLayer.assign(layers, 0);
    return lowering;
  }
  if (layers == 0)
    return Error{noLayersText(where, lowering.completed.plan.meshSizes.at("stage"), "the model")};
  auto cut = cutLayers(lowering.completed, job, layers);
  if (!cut)
    return cut.error();
  for (size_t part = 0; part < cut->size(); ++part)
    lowering.partOfLayer.resize((*cut)[part].second, static_cast<int64_t>(part));
  return lowering;
}

Plan withLayers(ModuleOp module, Plan plan) {
  if (llvm::all_of(plan.stages, [](const StageLayers &run) { return run.until.empty(); }))
    return plan;
  int64_t stages = plan.meshSizes.contains("stage") ? plan.meshSizes.at("stage") : 1, number = 0;
  std::map<int64_t, std::pair<int64_t, int64_t>> runs; // by part
  for (CallOp call : layerCalls(module).first) {
    int64_t part = call->getAttrOfType<IntegerAttr>(KerfDialect::kPartAttr).getInt();
    runs.try_emplace(part, number, number).first->second.second = number;
    ++number;
  }
  for (StageLayers &run : plan.stages) {
    run.until.clear();
    if (auto found = runs.find(run.chunk * stages + run.stage); found != runs.end())
      run.layers = found->second;
  }
  return plan;
}

std::set<int64_t> stagesOf(Value parameter, const PlanLowering &lowering) {
  const Plan &plan = lowering.completed.plan;
  int64_t stages = plan.meshSizes.at("stage"), last = stages * plan.schedule.chunks - 1;
  std::set<int64_t> found;
  bool layersSeen = false;
  SmallVector<Value> forms = {parameter}; // the parameter and views of it
  for (Operation &op : *parameter.getParentBlock()) {
    layersSeen |= isa<CallOp>(op);
    if (op.hasAttr(KerfDialect::kBackwardAttr) || op.hasAttr(KerfDialect::kUpdateAttr) ||
        llvm::none_of(op.getOperands(), [&](Value operand) { return llvm::is_contained(forms, operand); }))
      continue;
    if (op.hasTrait<SameValue>()) {
      forms.push_back(op.getResult(0));
      continue;
    }
    auto given = op.getAttrOfType<IntegerAttr>(KerfDialect::kPartAttr);
    found.insert((given ? given.getInt() : layersSeen ? last : 0) % stages);
  }
  return found;
}

Status applyExecution(ModuleOp module, const PlanLowering &lowering) {
  Builder builder(module.getContext());
  auto [forward, backward] = layerCalls(module);
  if (forward.size() != lowering.partOfLayer.size())
    return Error{fmt::format("the step has {} layers, but the parts of the plan have {}", forward.size(),
                             lowering.partOfLayer.size()),
                 ExitStatus::InternalCheck};
  for (auto [call, part] : llvm::zip(forward, lowering.partOfLayer))
    call->setAttr(KerfDialect::kPartAttr, builder.getI64IntegerAttr(part));
  int64_t stages = lowering.completed.plan.meshSizes.at("stage");
  for (const LayerRecompute &rule : lowering.completed.plan.recomputeLayers) {
    int64_t number = 0;
    if (llvm::none_of(forward,
                      [&](CallOp call) { return matchesLayer(rule.pattern, number++, nodeName(call.getLoc())); }))
      return Error{fmt::format("recompute[\"{}\"] matches none of the {} layers of the model; change the pattern",
                               rule.pattern, forward.size())};
  }
  const std::vector<OpRecompute> &pins = lowering.completed.plan.recomputeOps;
  if (Status status = pinRecomputation(module, pins); !status)
    return status;
  // Backward calls come in the reverse order of layers; a layer without gradients has no backward call.
  size_t next = forward.size();
  for (CallOp call : backward) {
    std::string callee = call.getCallee().str();
    while (next > 0 && forward[next - 1].getCallee().str() + "_backward" != callee)
      --next;
    if (next == 0)
      return Error{fmt::format("@{} belongs to no layer's forward pass", callee), ExitStatus::InternalCheck};
    int64_t part = lowering.partOfLayer[--next];
    call->setAttr(KerfDialect::kPartAttr, builder.getI64IntegerAttr(part));
    Recompute kind = recomputeModeOf(lowering.completed.plan, part % stages, static_cast<int64_t>(next),
                                     nodeName(forward[next].getLoc()));
    if (kind == Recompute::Offload) {
      call->setAttr(KerfDialect::kOffloadAttr, builder.getUnitAttr());
      kind = Recompute::None;
    }
    if (kind != Recompute::None || !pins.empty())
      call->setAttr(KerfDialect::kRecomputeAttr, builder.getStringAttr(toString(kind)));
  }
  if (Status status = applyLayouts(module, lowering); !status)
    return status;
  return shardOptimizer(module, lowering);
}

} // namespace kerf
