// SPDX-License-Identifier: Apache-2.0
// Optimizer sharding: states (1), gradients (2) and parameters (3) cut over the ranks that share a parameter. All of it
// is shardings: what is partial and asked for in pieces becomes a reduce-scatter, what is cut and asked for whole an
// all-gather.
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

/// Of gradients, with level 2 and 3: of every microbatch, or of their sum.
enum class Reduction { OfEach, OfSum };

struct Sharder {
  ModuleOp module;
  func::FuncOp main;
  Mesh mesh;
  std::vector<int> replicas; // axes whose ranks hold the same parameters, and share their states

  Sharder(ModuleOp module, const std::vector<std::string> &sharded)
      : module(module), main(module.lookupSymbol<func::FuncOp>(KerfDialect::kEntryName)), mesh(meshOf(module)) {
    for (const std::string &axis : sharded)
      replicas.push_back(mesh.find(axis));
  }

  struct Cut {
    std::vector<int> axes; // of the mesh, that cut
    size_t dim = 0;        // this dimension
    OpSharding sharding;   // of the map then
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

/// The dimension that needs the least padding; of equal ones one that is whole (a second cut of a dimension changes
/// which rank holds which piece), the first of these.
std::optional<size_t> dimToCut(const Shape &local, const Sharding &lies, int64_t ways) {
  std::optional<size_t> best;
  std::pair<double, bool> least;
  for (size_t d = 0; d < local.size(); ++d) {
    if (local[d] <= 1)
      continue;
    double padded = static_cast<double>((local[d] + ways - 1) / ways * ways) / static_cast<double>(local[d]);
    std::pair<double, bool> its(padded, !lies.dims[d].axes.empty());
    if (!best || its < least)
      best = d, least = its;
  }
  return best;
}

/// Cuts the maps of one parameter's update, the arguments that they replace, and the gradient's way to them.
Status Sharder::shard(BlockArgument parameter, ArrayRef<MapOp> maps, int64_t level, Reduction reduction) {
  std::optional<Cut> ofParameter;
  for (MapOp map : maps) {
    auto cut = cutMap(map);
    if (!cut)
      return cut.error();
    if (!*cut)
      continue; // a scalar stays whole
    for (auto [operand, sharding] : llvm::zip(map->getOperands(), (*cut)->sharding.operands)) {
      auto argument = dyn_cast<BlockArgument>(operand);
      if (!argument || !main.getArgAttr(argument.getArgNumber(), KerfDialect::kUpdatedByAttr))
        continue;
      if (argument != parameter || level == 3)
        setSharding(main, argument.getArgNumber(), sharding);
      if (argument == parameter)
        ofParameter = **cut;
    }
  }
  return ofParameter ? shardGradient(parameter, *ofParameter, level, reduction) : ok();
}

/// Cuts a map over the replicas that do not cut it yet; nothing where there is no dimension to cut.
Result<std::optional<Sharder::Cut>> Sharder::cutMap(MapOp map) {
  Rule rule = map.getShardingRule();
  auto strategy = strategyOf(map, rule);
  if (!strategy)
    return strategy.error();
  auto projected = project(rule, mesh, *strategy);
  if (!projected)
    return std::optional<Cut>();
  Cut cut;
  int64_t ways = 1;
  for (int axis : replicas)
    if (strategy->factorOfAxis[axis] < 0) {
      cut.axes.push_back(axis);
      ways *= mesh.axes[axis].size;
    }
  const Sharding &lies = projected->results[0];
  auto dim = dimToCut(localShape(shapeOf(map.getResult(0)), lies), lies, ways);
  if (cut.axes.empty() || !dim)
    return std::optional<Cut>();
  cut.dim = *dim;
  for (int axis : cut.axes)
    strategy->factorOfAxis[axis] = rule.results[0][cut.dim].front();
  projected = project(rule, mesh, *strategy);
  if (!projected)
    return Error{"an optimizer's update can't be cut", ExitStatus::InternalCheck};
  map->setAttr(KerfDialect::kStrategyAttr, strategyAttr(map.getContext(), mesh, rule, *strategy));
  cut.sharding = *projected;
  return std::optional(cut);
}

/// From the sum of the gradient on, its way to the update follows the update.
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

/// A layer gets its sharded parameter in pieces, and gathers it where it is used.
void Sharder::shardUses(Value parameter, const Sharding &sharding) {
  for (OpOperand &use : parameter.getUses()) {
    auto call = dyn_cast<CallOp>(use.getOwner());
    auto callee = call ? module.lookupSymbol<func::FuncOp>(call.getCallee()) : func::FuncOp();
    if (callee)
      setSharding(callee, use.getOperandNumber(), sharding);
  }
}

/// Lets updates, and the operators behind a gradient's sum, follow their operands from now on, but for the maps that
/// read a parameter or one of its states. Returns these maps by the parameter's name.
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
    return Error{"optimizer_sharding is 3 on some stages only; compiled programs have it on all or none"};
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
    // Two stages add up their shares of a gradient before these meet and are reduced.
    Reduction reduction = stages.size() > 1 ? Reduction::OfSum : Reduction::OfEach;
    if (level > 0)
      if (Status status = sharder.shard(parameter, found->second, level, reduction); !status)
        return status;
  }
  return ok();
}

} // namespace kerf
