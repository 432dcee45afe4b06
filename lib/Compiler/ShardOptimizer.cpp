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

  Status shard(Operation *update, int64_t level, Reduction reduction);
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

/// The update of one parameter, with the gradient's way to it and the arguments that it replaces.
Status Sharder::shard(Operation *update, int64_t level, Reduction reduction) {
  Rule rule = cast<ShardingRuleOpInterface>(update).getShardingRule();
  auto strategy = strategyOf(update, rule);
  if (!strategy)
    return strategy.error();
  auto projected = project(rule, mesh, *strategy);
  auto parameter = dyn_cast<BlockArgument>(update->getOperand(0));
  if (!projected || !parameter)
    return ok();
  std::vector<int> free;
  int64_t ways = 1;
  for (int axis : replicas)
    if (strategy->factorOfAxis[axis] < 0) {
      free.push_back(axis);
      ways *= mesh.axes[axis].size;
    }
  auto dim = dimToCut(localShape(shapeOf(parameter), projected->operands[0]), projected->operands[0], ways);
  if (free.empty() || !dim)
    return ok(); // a scalar stays whole
  const std::vector<int> &factors = rule.operands[0][*dim];
  for (int axis : free)
    strategy->factorOfAxis[axis] = factors.front();
  projected = project(rule, mesh, *strategy);
  if (!projected)
    return Error{"an optimizer's update can't be cut", ExitStatus::InternalCheck};
  update->setAttr(KerfDialect::kStrategyAttr, strategyAttr(update->getContext(), mesh, rule, *strategy));
  for (auto [i, operand] : llvm::enumerate(update->getOperands())) {
    auto argument = dyn_cast<BlockArgument>(operand);
    if (!argument || !main.getArgAttr(argument.getArgNumber(), KerfDialect::kUpdatedByAttr))
      continue;
    if (argument != parameter || level == 3)
      setSharding(main, argument.getArgNumber(), projected->operands[i]);
  }
  if (level == 3)
    shardUses(parameter, projected->operands[0]);
  // From the sum of the gradient on, its way to here follows the update.
  auto name = main.getArgAttrOfType<StringAttr>(parameter.getArgNumber(), KerfDialect::kNameAttr);
  const std::string accumulator = (package::kAccumulatedPrefix.data() + name.getValue()).str();
  for (BlockArgument argument : main.getArguments())
    if (auto its = main.getArgAttrOfType<StringAttr>(argument.getArgNumber(), KerfDialect::kNameAttr);
        its && its.getValue() == accumulator)
      setSharding(main, argument.getArgNumber(), projected->operands[0]);
  for (auto sync : main.getOps<SyncGradientOp>()) {
    if (sync.getParameter() != name.getValue())
      continue;
    Rule its = cast<ShardingRuleOpInterface>(sync.getOperation()).getShardingRule();
    auto cut = strategyOf(sync, its);
    if (!cut)
      return cut.error();
    for (int axis : free)
      cut->factorOfAxis[axis] = its.operands[0][*dim].front();
    sync->setAttr(KerfDialect::kStrategyAttr, strategyAttr(sync.getContext(), mesh, its, *cut));
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
  // Everything behind a gradient's sum follows its operands, but the updates themselves.
  DenseSet<Operation *> follows;
  Block &step = sharders.front().main.front();
  for (Operation &op : step.without_terminator())
    if (llvm::any_of(op.getOperands(), [&](Value operand) {
          Operation *definer = operand.getDefiningOp();
          return definer && (isa<SyncGradientOp>(definer) || follows.contains(definer));
        })) {
      follows.insert(&op);
      if (!isa<SgdOp, AdamwOp>(op))
        op.removeAttr(KerfDialect::kStrategyAttr);
    }
  for (Operation &op : step.without_terminator()) {
    if (!isa<SgdOp, AdamwOp>(op))
      continue;
    std::set<int64_t> stages = stagesOf(op.getOperand(0), lowering);
    int64_t home = stages.empty() ? 0 : *stages.begin(), level = levels.size() > 1 ? levels[home] : levels.front();
    Sharder &sharder = sharders[lowering.layoutOfStage[home]];
    // Two stages add up their shares of a gradient before these meet and are reduced.
    if (level > 0)
      if (Status status = sharder.shard(&op, level, stages.size() > 1 ? Reduction::OfSum : Reduction::OfEach); !status)
        return status;
  }
  return ok();
}

} // namespace kerf
