// SPDX-License-Identifier: Apache-2.0
// Joins the layouts of pipeline stages with different meshes into one module. Each operator takes its strategy from the
// layout of its stage, and a layer that stages with different meshes call is cloned for each mesh. All layouts use the
// same axes of the program mesh, so that kerf-insert-reshards handles values that cross from one stage to another.
#include "PlanLowering.h"
#include "kerf/Package/Accumulation.h"
#include "kerf/Transforms/Placement.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <fmt/format.h>
#include <map>

using namespace mlir;
using namespace kerf::ir;

namespace kerf {

namespace {

constexpr StringRef kBackward = "_backward"; // suffix of the function with a layer's backward pass

func::FuncOp mainOf(ModuleOp module) { return module.lookupSymbol<func::FuncOp>(KerfDialect::kEntryName); }

/// Returns the name of the clone for `layout`: "layer_backward" -> "layer_mesh1_backward".
std::string nameWith(StringRef function, int layout) {
  bool backward = function.consume_back(kBackward);
  return fmt::format("{}_mesh{}{}", function.str(), layout, backward ? kBackward.str() : "");
}

/// Joins copies of a module, each with one layout, into the first copy.
class Joiner {
public:
  Joiner(ModuleOp module, const PlanLowering &lowering)
      : module(module), main(mainOf(module)), lowering(lowering), stages(lowering.completed.plan.meshSizes.at("stage")),
        last(stages * lowering.completed.plan.schedule.chunks - 1) {}

  /// Joins the layouts. `laidOut` has one copy of the module for each layout; the first copy is the module itself.
  void run(ArrayRef<ModuleOp> laidOut);

private:
  void findUpdate();
  void findParts();
  void findPartsOfOthers();
  void separate(func::FuncOp function, ArrayRef<ModuleOp> laidOut);
  void splitSum(SyncGradientOp sync);
  bool joinsLayouts(Operation *op);

  bool isUpdated(BlockArgument argument) {
    return static_cast<bool>(main.getArgAttr(argument.getArgNumber(), KerfDialect::kUpdatedByAttr));
  }
  bool isInput(BlockArgument argument) {
    auto kind = main.getArgAttrOfType<StringAttr>(argument.getArgNumber(), KerfDialect::kKindAttr);
    return kind && kind.getValue() == "input";
  }
  int64_t homeOf(Value parameter) const {
    std::set<int64_t> found = stagesOf(parameter, lowering);
    return found.empty() ? 0 : *found.begin();
  }
  int layoutOf(Operation *op) const {
    auto given = op->getAttrOfType<IntegerAttr>(KerfDialect::kPartAttr);
    auto found = parts.find(op);
    int64_t part = given ? given.getInt() : found == parts.end() ? 0 : found->second;
    return lowering.layoutOfStage[part % stages];
  }

  ModuleOp module;
  func::FuncOp main;
  const PlanLowering &lowering;
  int64_t stages, last;
  DenseSet<Operation *> update;         // operators that depend on the sum of a gradient (SyncGradientOp)
  DenseSet<Operation *> follows;        // operators without a strategy, which take the sharding of their operands
  DenseMap<Operation *, int64_t> parts; // parts of operators of @main without kPartAttr
  DenseMap<Value, int64_t> homes;       // the stage that holds each parameter and state
};

void Joiner::findUpdate() {
  DenseMap<StringRef, Value> parameters;
  for (BlockArgument argument : main.getArguments()) {
    auto name = main.getArgAttrOfType<StringAttr>(argument.getArgNumber(), KerfDialect::kNameAttr);
    if (name)
      parameters[name.getValue()] = argument;
    StringRef summed = name ? name.getValue() : StringRef();
    if (summed.consume_front(package::kAccumulatedPrefix)) // an accumulated gradient is on the stage of its parameter
      homes[argument] = homeOf(parameters.lookup(summed));
    else if (isUpdated(argument))
      homes[argument] = homeOf(argument);
  }
  for (Operation &op : main.front().without_terminator()) {
    if (auto sync = dyn_cast<SyncGradientOp>(op))
      parts[&op] = homes.lookup(parameters.lookup(sync.getParameter()));
    if (llvm::any_of(op.getOperands(), [&](Value operand) {
          Operation *definer = operand.getDefiningOp();
          return definer && (isa<SyncGradientOp>(definer) || update.contains(definer));
        }))
      update.insert(&op);
    auto updated = op.getAttrOfType<StringAttr>(KerfDialect::kUpdateAttr);
    if (!updated)
      continue;
    int64_t home = parts[&op] = homes.lookup(parameters.lookup(updated.getValue()));
    for (Value operand : op.getOperands())
      if (homes.contains(operand))
        homes[operand] = home;
  }
}

/// Assigns operators to parts of the pipeline as kerf-assign-tasks does later. Operators that the pass assigns
/// differently still work, because every strategy is valid on every stage.
void Joiner::findParts() {
  enum Flow : unsigned { kOfInputs = 1, kOfTrained = 2, kOfBoth = 3 };
  DenseMap<Value, unsigned> flows;
  for (BlockArgument argument : main.getArguments())
    flows[argument] = isUpdated(argument) ? kOfTrained : isInput(argument) ? kOfInputs : 0u;
  DenseSet<Operation *> leads, backward; // operators that lead to a layer, and operators of the backward pass
  for (Operation &op : llvm::reverse(main.front().without_terminator()))
    if (llvm::any_of(op.getUsers(), [&](Operation *user) { return isa<CallOp>(user) || leads.contains(user); }))
      leads.insert(&op);
  DenseMap<Location, int64_t> forward;
  for (Operation &op : main.front().without_terminator()) {
    unsigned flow = 0;
    SmallVector<int64_t> ofOperands;
    bool back = op.hasAttr(KerfDialect::kBackwardAttr);
    for (Value operand : op.getOperands()) {
      flow |= flows.lookup(operand);
      Operation *definer = operand.getDefiningOp();
      if (definer && parts.contains(definer))
        ofOperands.push_back(parts.lookup(definer));
      back |= definer && backward.contains(definer);
    }
    for (Value result : op.getResults())
      flows[result] = flow;
    if (update.contains(&op) || isa<SyncGradientOp>(op) || (!isa<CallOp>(op) && flow != kOfBoth))
      continue;
    if (back)
      backward.insert(&op);
    auto itsForward = forward.find(op.getLoc());
    int64_t part;
    if (auto given = op.getAttrOfType<IntegerAttr>(KerfDialect::kPartAttr))
      part = given.getInt();
    else if (!back)
      part = !leads.contains(&op) ? last : ofOperands.empty() ? 0 : *llvm::max_element(ofOperands);
    else if (itsForward != forward.end())
      part = itsForward->second;
    else
      part = ofOperands.empty() ? last : *llvm::min_element(ofOperands);
    parts[&op] = part;
    if (!back)
      forward.try_emplace(op.getLoc(), part);
  }
}

/// Assigns each remaining operator, which every stage that needs its result computes, to the first of these stages.
void Joiner::findPartsOfOthers() {
  auto first = [&](auto users) {
    std::optional<int64_t> part;
    for (Operation *user : users)
      if (auto found = parts.find(user); found != parts.end() && !update.contains(user))
        part = std::min(part.value_or(found->second), found->second);
    return part;
  };
  for (Operation &op : llvm::reverse(main.front().without_terminator()))
    if (!parts.contains(&op) && !update.contains(&op))
      if (auto part = first(op.getUsers()))
        parts[&op] = *part;
  for (BlockArgument argument : main.getArguments())
    if (!homes.contains(argument))
      if (auto part = first(argument.getUsers()))
        homes[argument] = *part % stages;
}

/// Clones `function` for each further layout whose stages call it, and redirects the calls.
void Joiner::separate(func::FuncOp function, ArrayRef<ModuleOp> laidOut) {
  std::map<int, func::FuncOp> made = {{0, function}};
  bool called = false;
  for (auto call : main.getOps<CallOp>()) {
    if (call.getCallee() != function.getName())
      continue;
    int layout = layoutOf(call);
    func::FuncOp &its = made[layout];
    if (!its) {
      ModuleOp from = laidOut[layout];
      its = from.lookupSymbol<func::FuncOp>(function.getName()).clone();
      its.setName(nameWith(function.getName(), layout));
      module.getBody()->getOperations().insertAfter(function->getIterator(), its);
    }
    call.setCallee(its.getName());
    called |= layout == 0;
  }
  if (!called && made.size() > 1)
    function.erase();
}

/// Splits the sum of a gradient to which stages of several layouts contribute: each contribution is first accumulated
/// over all microbatches, so that the contributions are added once per step.
void Joiner::splitSum(SyncGradientOp sync) {
  SmallVector<AddOp> adds;
  SmallVector<OpOperand *> shares;
  SmallVector<OpOperand *> open = {&sync.getOperandMutable()};
  std::set<int> layouts;
  while (!open.empty()) {
    OpOperand *operand = open.pop_back_val();
    auto add = operand->get().getDefiningOp<AddOp>();
    if (add && add->hasOneUse()) {
      adds.push_back(add);
      for (OpOperand &each : add->getOpOperands())
        open.push_back(&each);
      continue;
    }
    shares.push_back(operand);
    if (Operation *definer = operand->get().getDefiningOp())
      layouts.insert(layoutOf(definer));
  }
  if (adds.empty() || layouts.size() < 2)
    return;
  for (OpOperand *share : shares) {
    OpBuilder builder(share->getOwner());
    share->set(AccumulateOp::create(builder, share->getOwner()->getLoc(), share->get().getType(), share->get()));
  }
  for (AddOp add : adds)
    add->removeAttr(KerfDialect::kStrategyAttr);
}

/// Returns whether the result of `op` is a partial sum whose operands come from other layouts or from operators without
/// a strategy.
bool Joiner::joinsLayouts(Operation *op) {
  auto attr = op->getAttrOfType<DictionaryAttr>(KerfDialect::kStrategyAttr);
  bool others = llvm::any_of(op->getOperands(), [&](Value operand) {
    Operation *definer = operand.getDefiningOp();
    return definer && (layoutOf(definer) != layoutOf(op) || follows.contains(definer));
  });
  if (!attr || !others)
    return false;
  Rule rule = cast<ShardingRuleOpInterface>(op).getShardingRule();
  auto strategy = parseStrategyAttr(attr, meshOf(module), rule);
  return strategy && llvm::any_of(strategy->factorOfAxis, [&](int factor) {
           return factor >= 0 && rule.factors[factor].kind == FactorKind::PartialSum;
         });
}

void Joiner::run(ArrayRef<ModuleOp> laidOut) {
  findUpdate();
  findParts();
  findPartsOfOthers();
  std::vector<func::FuncOp> mains;
  for (ModuleOp copy : laidOut)
    mains.push_back(mainOf(copy));
  std::vector<Block::iterator> at;
  for (func::FuncOp function : mains)
    at.push_back(function.front().begin());
  for (Operation &op : main.front().without_terminator()) {
    auto chosen = (*at[layoutOf(&op)]).getAttr(KerfDialect::kStrategyAttr);
    if (chosen && (!update.contains(&op) || op.hasAttr(KerfDialect::kUpdateAttr)))
      op.setAttr(KerfDialect::kStrategyAttr, chosen);
    else
      op.removeAttr(KerfDialect::kStrategyAttr); // the operator takes the sharding of its operands
    for (Block::iterator &its : at)
      ++its;
  }
  for (BlockArgument argument : main.getArguments()) {
    int layout = lowering.layoutOfStage[homes.lookup(argument)];
    unsigned index = argument.getArgNumber();
    main.setArgAttr(index, KerfDialect::kShardingAttr, mains[layout].getArgAttr(index, KerfDialect::kShardingAttr));
  }
  for (Operation &op : main.front().without_terminator())
    if (isa<ShardingRuleOpInterface>(op) && joinsLayouts(&op)) {
      op.removeAttr(KerfDialect::kStrategyAttr);
      follows.insert(&op);
    }
  for (auto sync : llvm::make_early_inc_range(main.getOps<SyncGradientOp>()))
    splitSum(sync);
  for (auto function : llvm::make_early_inc_range(module.getOps<func::FuncOp>()))
    if (function != main && function.getOps<CallOp>().empty())
      separate(function, laidOut);
}

} // namespace

Status applyLayouts(ModuleOp module, const PlanLowering &lowering) {
  std::vector<OwningOpRef<ModuleOp>> copies;
  for (size_t other = 1; other < lowering.layouts.size(); ++other)
    copies.emplace_back(cast<ModuleOp>(module->clone()));
  SmallVector<ModuleOp> laidOut = {module};
  for (OwningOpRef<ModuleOp> &copy : copies)
    laidOut.push_back(*copy);
  for (auto [copy, layout] : llvm::zip(laidOut, lowering.layouts)) {
    if (Status status = applyPlan(copy, layout.passes); !status)
      return status;
    markRingAttention(copy, layout.plan);
  }
  if (laidOut.size() > 1)
    Joiner(module, lowering).run(laidOut);
  return ok();
}

} // namespace kerf
