// SPDX-License-Identifier: Apache-2.0
// Shards optimizer states (level 1), gradients (2) and parameters (3) over the ranks that replicate a parameter, as
// ZeRO does (Rajbhandari et al. 2020). Only shardings are set here. The reshard passes then turn a partial sum that is
// needed in pieces into a reduce-scatter, and a sharded tensor that is needed whole into an all-gather.
#include "PlanLowering.h"

#include "kerf/Package/Accumulation.h"
#include "kerf/Transforms/Placement.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <fmt/format.h>
#include <set>

using namespace mlir;
using namespace kerf::ir;

namespace kerf {

namespace {

/// The gradients that are reduced over ranks at levels 2 and 3: those of each microbatch, or their sum over
/// microbatches.
enum class Reduction { OfEach, OfSum };

/// Shards the updates of parameters in one layout.
struct Sharder {
  ModuleOp module;
  func::FuncOp main;
  Mesh mesh;
  std::vector<int> replicas; // axes whose ranks replicate the parameters, and over which the states are sharded

  Sharder(ModuleOp module, const std::vector<std::string> &sharded)
      : module(module), main(module.lookupSymbol<func::FuncOp>(KerfDialect::kEntryName)), mesh(meshOf(module)) {
    for (const std::string &axis : sharded)
      replicas.push_back(mesh.find(axis));
  }

  /// How an update was sharded.
  struct Cut {
    std::vector<int> axes; // mesh axes that shard the update
    size_t dim = 0;        // the dimension that they shard
    OpSharding sharding;   // sharding of the MapOp after the cut
  };
  Status shard(BlockArgument parameter, ArrayRef<MapOp> maps, int64_t level, Reduction reduction);
  Result<std::optional<Cut>> cutMap(MapOp map);
  Status shardGradient(BlockArgument parameter, const Cut &cut, int64_t level, Reduction reduction);
  Result<Strategy> strategyOf(Operation *op, const Rule &rule) const {
    auto attr = op->getAttrOfType<DictionaryAttr>(KerfDialect::kStrategyAttr);
    return attr ? parseStrategyAttr(attr, mesh, rule)
                : Result<Strategy>(Strategy{std::vector<int>(mesh.axes.size(), -1)});
  }
  void setSharding(func::FuncOp of, unsigned argument, const Sharding &sharding) const {
    of.setArgAttr(argument, KerfDialect::kShardingAttr,
                  ShardingAttr::fromSharding(of.getContext(), mesh, shapeOf(of.getArgument(argument)), sharding));
  }
  void shardUses(Value parameter, const Sharding &sharding);
};

/// Returns the dimension to shard into `shards` pieces: the dimension with the least padding; among equals one that is
/// not sharded yet (sharding a dimension twice changes which rank holds which piece), then the first. Returns nothing
/// when all dimensions have size 1.
std::optional<size_t> dimToCut(const Shape &local, const Sharding &lies, int64_t shards) {
  std::optional<size_t> best;
  std::pair<double, bool> least;
  for (size_t d = 0; d < local.size(); ++d) {
    if (local[d] <= 1)
      continue;
    double padded = static_cast<double>((local[d] + shards - 1) / shards * shards) / static_cast<double>(local[d]);
    std::pair<double, bool> its(padded, !lies.dims[d].axes.empty());
    if (!best || its < least)
      best = d, least = its;
  }
  return best;
}

/// Returns whether the step reads the parameter, apart from its update, only to convert it to fewer bytes.
bool isOnlyNarrowed(Value parameter, ModuleOp module) {
  return llvm::all_of(parameter.getUses(), [&](OpOperand &use) {
    Operation *user = use.getOwner();
    if (auto call = dyn_cast<CallOp>(user)) {
      auto callee = module.lookupSymbol<func::FuncOp>(call.getCallee());
      return callee && isOnlyNarrowed(callee.getArgument(use.getOperandNumber()), module);
    }
    return isa<MapOp>(user) || (isa<ConvertOp>(user) &&
                                bytesPerElement(user->getResult(0).getType()) < bytesPerElement(parameter.getType()));
  });
}

/// Shards the maps that update one parameter, the arguments that they replace, and the gradient on which they depend.
/// Below level 3 the parameter itself stays whole, except in 16-bit training: ranks then keep shards of the f32
/// parameter, and gather its 16-bit copy at the beginning of a step.
Status Sharder::shard(BlockArgument parameter, ArrayRef<MapOp> maps, int64_t level, Reduction reduction) {
  const bool keepsShards = level == 3 || isOnlyNarrowed(parameter, module);
  std::optional<Cut> ofParameter;
  for (MapOp map : maps) {
    auto cut = cutMap(map);
    if (!cut)
      return cut.error();
    if (!*cut)
      continue; // a scalar is replicated
    for (auto [operand, sharding] : llvm::zip(map->getOperands(), (*cut)->sharding.operands)) {
      auto argument = dyn_cast<BlockArgument>(operand);
      if (!argument || !main.getArgAttr(argument.getArgNumber(), KerfDialect::kUpdatedByAttr))
        continue;
      if (argument != parameter || keepsShards)
        setSharding(main, argument.getArgNumber(), sharding);
      if (argument == parameter)
        ofParameter = **cut;
    }
  }
  return ofParameter ? shardGradient(parameter, *ofParameter, level, reduction) : ok();
}

/// Shards a map over the replica axes that do not shard it yet. Returns nothing when the map has no dimension to shard.
Result<std::optional<Sharder::Cut>> Sharder::cutMap(MapOp map) {
  Rule rule = map.getShardingRule();
  auto strategy = strategyOf(map, rule);
  if (!strategy)
    return strategy.error();
  auto projected = project(rule, mesh, *strategy);
  if (!projected)
    return std::optional<Cut>();
  Cut cut;
  int64_t shards = 1;
  for (int axis : replicas)
    if (strategy->factorOfAxis[axis] < 0) {
      cut.axes.push_back(axis);
      shards *= mesh.axes[axis].size;
    }
  const Sharding &lies = projected->results[0];
  auto dim = dimToCut(localShape(shapeOf(map.getResult(0)), lies), lies, shards);
  if (cut.axes.empty() || !dim)
    return std::optional<Cut>();
  cut.dim = *dim;
  for (int axis : cut.axes)
    strategy->factorOfAxis[axis] = rule.results[0][cut.dim].front();
  projected = project(rule, mesh, *strategy);
  if (!projected)
    return Error{"the update of an optimizer cannot be sharded", ExitStatus::InternalCheck};
  map->setAttr(KerfDialect::kStrategyAttr, strategyAttr(map.getContext(), mesh, rule, *strategy));
  cut.sharding = *projected;
  return std::optional(cut);
}

/// Gives the sum of the gradient, and the accumulated gradient, the sharding of the update.
Status Sharder::shardGradient(BlockArgument parameter, const Cut &cut, int64_t level, Reduction reduction) {
  const Sharding &sharding = cut.sharding.results[0];
  if (level == 3)
    shardUses(parameter, sharding);
  auto name = main.getArgAttrOfType<StringAttr>(parameter.getArgNumber(), KerfDialect::kNameAttr);
  const std::string accumulator = (package::kAccumulatedPrefix.data() + name.getValue()).str();
  for (BlockArgument argument : main.getArguments())
    if (auto its = main.getArgAttrOfType<StringAttr>(argument.getArgNumber(), KerfDialect::kNameAttr);
        its && its.getValue() == accumulator)
      setSharding(main, argument.getArgNumber(), sharding);
  for (auto sync : main.getOps<SyncGradientOp>()) {
    if (sync.getParameter() != name.getValue())
      continue;
    Rule its = cast<ShardingRuleOpInterface>(sync.getOperation()).getShardingRule();
    auto strategy = strategyOf(sync, its);
    if (!strategy)
      return strategy.error();
    for (int axis : cut.axes)
      strategy->factorOfAxis[axis] = its.operands[0][cut.dim].front();
    sync->setAttr(KerfDialect::kStrategyAttr, strategyAttr(sync.getContext(), mesh, its, *strategy));
    if (level >= 2 && reduction == Reduction::OfEach)
      sync->setAttr(KerfDialect::kEachMicrobatchAttr, UnitAttr::get(sync.getContext()));
  }
  return ok();
}

/// Passes a sharded parameter (level 3) to layers in pieces; the layer gathers the parameter where it is used.
void Sharder::shardUses(Value parameter, const Sharding &sharding) {
  for (OpOperand &use : parameter.getUses()) {
    auto call = dyn_cast<CallOp>(use.getOwner());
    auto callee = call ? module.lookupSymbol<func::FuncOp>(call.getCallee()) : func::FuncOp();
    if (callee)
      setSharding(callee, use.getOperandNumber(), sharding);
  }
}

/// Removes the strategies of updates and of operators that depend on a gradient's sum, so that they take the sharding
/// of their operands. The maps that read a parameter or one of its states keep their strategies and are returned by the
/// parameter's name.
DenseMap<StringAttr, SmallVector<MapOp>> releaseUpdates(func::FuncOp main) {
  DenseMap<StringAttr, SmallVector<MapOp>> updates;
  DenseSet<Operation *> follows;
  for (Operation &op : main.front().without_terminator()) {
    auto name = op.getAttrOfType<StringAttr>(KerfDialect::kUpdateAttr);
    if (!name && llvm::none_of(op.getOperands(), [&](Value operand) {
          Operation *definer = operand.getDefiningOp();
          return definer && (isa<SyncGradientOp>(definer) || follows.contains(definer));
        }))
      continue;
    follows.insert(&op);
    auto map = dyn_cast<MapOp>(op);
    bool isOfArgument = llvm::any_of(op.getOperands(), llvm::IsaPred<BlockArgument>);
    if (map && name && isOfArgument)
      updates[name].push_back(map);
    else
      op.removeAttr(KerfDialect::kStrategyAttr);
  }
  return updates;
}

} // namespace

Status shardOptimizer(ModuleOp module, const PlanLowering &lowering) {
  const std::vector<int64_t> &levels = lowering.completed.plan.optimizerSharding;
  if (llvm::all_of(levels, [](int64_t level) { return level == 0; }))
    return ok();
  std::vector<Sharder> sharders;
  for (const LoweredLayout &layout : lowering.layouts)
    sharders.emplace_back(module, layout.sharded);
  if (llvm::all_of(sharders, [](const Sharder &sharder) { return sharder.replicas.empty(); }))
    return ok();
  if (llvm::is_contained(levels, 3) && llvm::any_of(levels, [](int64_t level) { return level != 3; }))
    return Error{"optimizer_sharding is 3 on some stages only, but compiled programs support 3 on all stages or on "
                 "none; change the stages' levels"};
  func::FuncOp main = sharders.front().main;
  const auto updates = releaseUpdates(main);
  for (BlockArgument parameter : main.getArguments()) {
    auto name = main.getArgAttrOfType<StringAttr>(parameter.getArgNumber(), KerfDialect::kNameAttr);
    auto found = name ? updates.find(name) : updates.end();
    if (found == updates.end())
      continue;
    std::set<int64_t> stages = stagesOf(parameter, lowering);
    int64_t home = stages.empty() ? 0 : *stages.begin(), level = levels.size() > 1 ? levels[home] : levels.front();
    Sharder &sharder = sharders[lowering.layoutOfStage[home]];
    // A parameter on two stages has its gradient added up over both stages before ranks reduce it.
    Reduction reduction = stages.size() > 1 ? Reduction::OfSum : Reduction::OfEach;
    if (level > 0)
      if (Status status = sharder.shard(parameter, found->second, level, reduction); !status)
        return status;
  }
  return ok();
}

} // namespace kerf
