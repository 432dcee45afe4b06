// SPDX-License-Identifier: Apache-2.0
// Planned level: makes every change of sharding an op of its own.
#include "TimeAxis.h"
#include "kerf/Transforms/Decompose.h"
#include "kerf/Transforms/Passes.h"
#include "kerf/Transforms/Placement.h"
#include "kerf/Transforms/Work.h"

#include "kerf/Package/Package.h"
#include <limits>
#include <map>

using namespace mlir;
using namespace kerf::ir;

namespace kerf {

#define GEN_PASS_DEF_INSERTRESHARDS
#include "kerf/Transforms/Passes.h.inc"

namespace {

/// Microbatches follow each other: what is cut over them can't be brought together before the last one, and is a sum
/// over them only then: nor can they share such a sum out.
bool gathersOverTime(const Sharding &from, const Sharding &to, int time) {
  for (auto [a, b] : llvm::zip(from.dims, to.dims))
    if (cutBy(b.axes, time) ? cutBy(from.partial, time) : cutBy(a.axes, time))
      return true;
  return false;
}

double bytesToReshard(const Mesh &mesh, Value value, const Sharding &from, const Sharding &to) {
  if (from == to)
    return 0;
  if (!canReshard(from, to) || gathersOverTime(from, to, timeAxis(mesh)))
    return std::numeric_limits<double>::infinity();
  Shape shape = shapeOf(value);
  int64_t elementBytes = bytesPerElement(value.getType());
  StepPrice price = [time = timeAxis(mesh)](const ReshardStep &step, int64_t bytesIn, int64_t bytesOut) {
    bool overTime = step.kind != ReshardStepKind::LocalSlice && cutBy(step.axes, time);
    return overTime ? std::numeric_limits<double>::infinity() : bytesReceived(step, bytesIn, bytesOut);
  };
  Sharding summed = cutBy(to.partial, timeAxis(mesh)) ? from : withoutTime(from, mesh);
  auto steps = planReshard(mesh, shape, elementBytes, summed, to, price);
  if (!steps)
    return std::numeric_limits<double>::infinity();
  double bytes = 0;
  const Sharding *before = &summed;
  for (const ReshardStep &step : *steps) {
    bytes += price(step, elementsOf(localShape(shape, *before)) * elementBytes,
                   elementsOf(localShape(shape, step.after)) * elementBytes);
    before = &step.after;
  }
  return bytes;
}

/// One function's ops in order. An op without a strategy follows its operands: it takes the strategy that moves the
/// fewest bytes, and of these the one that cuts most. Such an op that depends on nothing cut (iota, a broadcast) waits
/// for its users to say what they need.
class Walker {
public:
  Walker(func::FuncOp function, const Mesh &mesh, const std::map<std::string, SmallVector<Sharding>> &calleeResults,
         SymbolTable &symbols)
      : function(function), mesh(mesh), calleeResults(calleeResults), symbols(symbols) {}

  LogicalResult run();
  SmallVector<Sharding> results; // of the function, when run has succeeded

private:
  FailureOr<Operation *> decompose(Operation *op);
  LogicalResult place(Operation *op);
  LogicalResult placeCall(CallOp call);
  void placeSync(SyncGradientOp sync, const Sharding &to);
  FailureOr<std::pair<Strategy, OpSharding>> follow(Operation *op, const Rule &rule, const Sharding *wanted);
  void passSums(Operation *op, const Rule &rule, std::pair<Strategy, OpSharding> &choice);
  bool defers(Operation *op);
  Value demand(Value value, const Sharding &target, Operation *user);
  std::pair<Sharding, Value> sumOverTime(const Sharding &have, Value value, Operation *user);
  LogicalResult settle(Operation *op, const Strategy &strategy, const Rule &rule, const OpSharding &sharding);
  FailureOr<Sharding> argumentSharding(func::FuncOp of, unsigned index);
  bool isDeferred(Value value) { return value.getDefiningOp() && deferred.contains(value.getDefiningOp()); }
  void know(Value value, Sharding sharding) { versions[value].push_back({std::move(sharding), value}); }

  func::FuncOp function;
  const Mesh &mesh;
  const std::map<std::string, SmallVector<Sharding>> &calleeResults;
  SymbolTable &symbols;
  /// Every form in which a value is there already; the first is how its producer leaves it.
  DenseMap<Value, SmallVector<std::pair<Sharding, Value>>> versions;
  DenseSet<Operation *> deferred;
  DenseMap<Value, Sharding> promised; // of what became simpler ops: how its users were told that it lies
};

FailureOr<Sharding> Walker::argumentSharding(func::FuncOp of, unsigned index) {
  Shape shape = shapeOf(of.getArgument(index));
  auto attr = of.getArgAttrOfType<ShardingAttr>(index, KerfDialect::kShardingAttr);
  if (!attr)
    return Sharding::replicated(shape.size());
  return attr.toSharding(mesh, shape, [&] { return of.emitError() << "argument " << index << ": "; });
}

bool Walker::defers(Operation *op) {
  if (op->getNumResults() != 1)
    return false;
  return isa<BroadcastInDimOp>(op) || llvm::all_of(op->getOperands(), [&](Value v) { return isDeferred(v); });
}

/// The strategy for an op that has none: `wanted`, if any, is the sharding that its first result has to get.
FailureOr<std::pair<Strategy, OpSharding>> Walker::follow(Operation *op, const Rule &rule, const Sharding *wanted) {
  double least = std::numeric_limits<double>::infinity();
  int64_t mostCut = 0;
  std::optional<std::pair<Strategy, OpSharding>> best;
  int time = timeAxis(mesh), stage = stageAxis(mesh);
  bool timed = wanted ? involves(*wanted, time) : llvm::any_of(op->getOperands(), [&](Value value) {
    return !isDeferred(value) && involves(versions[value].front().first, time);
  });
  for (Strategy &strategy : enumerateStrategies(rule, mesh)) {
    auto assigns = [&](int axis) { return axis >= 0 && strategy.factorOfAxis[axis] >= 0; };
    if (assigns(stage) || (assigns(time) && !timed))
      continue;
    auto sharding = project(rule, mesh, strategy);
    if (!sharding)
      continue;
    double bytes = wanted ? bytesToReshard(mesh, op->getResult(0), sharding->results[0], *wanted) : 0;
    for (auto [value, lies] : llvm::zip(op->getOperands(), sharding->operands)) {
      if (isDeferred(value)) { // can be made in any form but as a partial sum
        if (!lies.partial.empty())
          bytes = std::numeric_limits<double>::infinity();
        continue;
      }
      double fewest = std::numeric_limits<double>::infinity();
      for (auto &[have, unused] : versions[value])
        fewest = std::min(fewest, bytesToReshard(mesh, value, have, lies));
      bytes += fewest;
    }
    int64_t cut = 1;
    for (size_t axis = 0; axis < strategy.factorOfAxis.size(); ++axis)
      if (int factor = strategy.factorOfAxis[axis]; factor >= 0 && rule.factors[factor].kind != FactorKind::PartialSum)
        cut *= mesh.axes[axis].size;
    if (bytes < least || (bytes == least && cut > mostCut)) {
      least = bytes;
      mostCut = cut;
      best = {strategy, *sharding};
    }
  }
  if (!best)
    return op->emitError() << "has no strategy that its operands can be brought to";
  return *best;
}

/// The value under `target`, made from the nearest form that is there.
Value Walker::demand(Value value, const Sharding &target, Operation *user) {
  OpBuilder builder(user);
  if (isDeferred(value)) {
    Operation *op = value.getDefiningOp();
    for (auto &[have, version] : versions[value])
      if (have == target)
        return version;
    Rule rule = cast<ShardingRuleOpInterface>(op).getShardingRule();
    auto choice = follow(op, rule, &target);
    if (failed(choice))
      return {};
    Operation *copy = builder.clone(*op);
    if (failed(settle(copy, choice->first, rule, choice->second)))
      return {};
    versions[value].push_back({choice->second.results[0], copy->getResult(0)});
  }
  double least = std::numeric_limits<double>::infinity();
  std::pair<Sharding, Value> nearest;
  for (auto &[have, version] : versions[value]) {
    double bytes = bytesToReshard(mesh, value, have, target);
    if (bytes < least) {
      least = bytes;
      nearest = {have, version};
    }
  }
  if (!nearest.second) {
    if (const Sharding &have = versions[value].front().first; gathersOverTime(have, target, timeAxis(mesh)))
      user->emitError() << "needs all samples of the batch at once, so it can't be cut into microbatches; set "
                           "microbatch to the samples of a data group";
    else
      user->emitError() << "needs an operand under " << toString(mesh, shapeOf(value), target)
                        << ", which can't be made from " << toString(mesh, shapeOf(value), have);
    return {};
  }
  if (nearest.first == target)
    return nearest.second;
  if (int time = timeAxis(mesh); cutBy(nearest.first.partial, time) && !cutBy(target.partial, time)) {
    nearest = sumOverTime(nearest.first, nearest.second, user);
    if (!nearest.second)
      return {};
    versions[value].push_back(nearest);
    if (nearest.first == target)
      return nearest.second;
  }
  Shape shape = shapeOf(value);
  auto from = ShardingAttr::fromSharding(builder.getContext(), mesh, shape, nearest.first);
  auto to = ShardingAttr::fromSharding(builder.getContext(), mesh, shape, target);
  auto reshard = ReshardOp::create(builder, user->getLoc(), value.getType(), nearest.second, from, to);
  std::string source = value.getDefiningOp() ? nodeName(value.getDefiningOp()->getLoc()) : "an argument";
  reshard->setAttr("cause", builder.getStringAttr(source + " -> " + nodeName(user->getLoc())));
  versions[value].push_back({target, reshard.getResult()});
  return reshard.getResult();
}

/// The sum over all microbatches, which `user` asks for. Only the step itself can take it: a layer is done for each
/// one.
std::pair<Sharding, Value> Walker::sumOverTime(const Sharding &have, Value value, Operation *user) {
  if (function.getName() != KerfDialect::kEntryName) {
    user->emitError()
        << "needs a sum over the whole batch, so it can't be cut into microbatches; set microbatch to the "
           "samples of a data group";
    return {};
  }
  if (!isa<FloatType>(tensorType(value).getElementType())) {
    user->emitError() << "needs a sum of integers over the whole batch, so it can't be cut into microbatches; set "
                         "microbatch to the samples of a data group, or convert what is added to float";
    return {};
  }
  OpBuilder builder(user); // as soon as the value is there: its reduction may then begin
  if (Operation *definer = value.getDefiningOp())
    builder.setInsertionPointAfter(definer);
  return {withoutTime(have, mesh), AccumulateOp::create(builder, user->getLoc(), value.getType(), value)};
}

/// To a layout it is all the same whether a layer sums a gradient over the batch before a linear op or its caller does
/// behind it. Here it is not: only the caller can, when all microbatches are done. So the sum passes through the op,
/// over every axis over which all operands that it takes are partial.
void Walker::passSums(Operation *op, const Rule &rule, std::pair<Strategy, OpSharding> &choice) {
  int time = timeAxis(mesh);
  auto isPartial = [&](int operand, int axis) {
    Value value = op->getOperand(operand);
    return !isDeferred(value) && cutBy(versions[value].front().first.partial, axis);
  };
  auto asksForSum = [&](int operand) {
    return isPartial(operand, time) && !cutBy(choice.second.operands[operand].partial, time);
  };
  if (function.getName() == KerfDialect::kEntryName ||
      llvm::none_of(llvm::seq<int>(0, op->getNumOperands()), asksForSum))
    return;
  for (auto [f, factor] : llvm::enumerate(rule.factors)) {
    if (factor.kind != FactorKind::PartialSum)
      continue;
    Strategy strategy = choice.first;
    for (auto [axis, its] : llvm::enumerate(strategy.factorOfAxis))
      if (its < 0 && llvm::all_of(factor.partialOperands, [&](int operand) { return isPartial(operand, axis); }))
        its = static_cast<int>(f);
    if (auto sharding = project(rule, mesh, strategy); sharding && strategy.factorOfAxis[time] == static_cast<int>(f)) {
      choice = {strategy, *sharding};
      return;
    }
  }
}

/// Brings the operands where the strategy needs them and writes the strategy down.
LogicalResult Walker::settle(Operation *op, const Strategy &strategy, const Rule &rule, const OpSharding &sharding) {
  for (OpOperand &operand : op->getOpOperands()) {
    const Sharding &needed = sharding.operands[operand.getOperandNumber()];
    Value value = demand(operand.get(), needed, op);
    if (!value)
      return failure();
    operand.set(value);
  }
  op->setAttr(KerfDialect::kStrategyAttr, strategyAttr(op->getContext(), mesh, rule, strategy));
  for (auto [result, lies] : llvm::zip(op->getResults(), sharding.results))
    know(result, lies);
  return success();
}

LogicalResult Walker::placeCall(CallOp call) {
  auto callee = symbols.lookup<func::FuncOp>(call.getCallee());
  for (OpOperand &operand : call->getOpOperands()) {
    auto needed = argumentSharding(callee, operand.getOperandNumber());
    Value value = failed(needed) ? Value() : demand(operand.get(), *needed, call);
    if (!value)
      return failure();
    operand.set(value);
  }
  for (auto [result, lies] : llvm::zip(call.getOutputs(), calleeResults.at(call.getCallee().str())))
    know(result, lies);
  return success();
}

/// Shares of a gradient that were each summed over microbatches before they met.
static bool isSummed(Value value) {
  Operation *op = value.getDefiningOp();
  return op && (isa<AccumulateOp>(op) || (isa<AddOp, ReshardOp>(op) && llvm::all_of(op->getOperands(), isSummed)));
}

/// Stays abstract: it takes the gradient as it is and says itself what it leaves. Where that of each microbatch is cut,
/// the pieces are added up before they are summed over the ranks that hold the same ones.
void Walker::placeSync(SyncGradientOp sync, const Sharding &to) {
  MLIRContext *context = sync.getContext();
  Shape shape = shapeOf(sync.getOperand());
  auto [have, version] = versions[sync.getOperand()].front();
  bool each = sync->hasAttr(KerfDialect::kEachMicrobatchAttr);
  int time = timeAxis(mesh);
  bool ofAll = isScheduled(mesh) && (time < 0 ? !isSummed(version) : cutBy(have.partial, time));
  if (ofAll && !each)
    std::tie(have, version) = sumOverTime(have, version, sync);
  Sharding left = to;
  for (const AxisRef &axis : have.partial)
    if (ofAll && each && !involves(to, axis.axis))
      left.partial.push_back(axis);
  auto write = [&](SyncGradientOp op, const Sharding &before, const Sharding &after) {
    op->setAttr("from", ShardingAttr::fromSharding(context, mesh, shape, before));
    op->setAttr("to", ShardingAttr::fromSharding(context, mesh, shape, after));
  };
  sync.getOperandMutable().assign(version);
  write(sync, have, left);
  know(sync.getResult(), to);
  if (!ofAll || !each)
    return;
  OpBuilder builder(context);
  builder.setInsertionPointAfter(sync);
  Value result = sync.getResult(), sum = AccumulateOp::create(builder, sync.getLoc(), result.getType(), result);
  Operation *of = sum.getDefiningOp();
  if (Sharding summed = withoutTime(left, mesh); summed != to) {
    auto rest = cast<SyncGradientOp>(builder.clone(*sync));
    rest->removeAttr(KerfDialect::kEachMicrobatchAttr);
    rest.getOperandMutable().assign(sum);
    write(rest, summed, to);
    sum = rest.getResult();
  }
  result.replaceAllUsesExcept(sum, of);
  know(sum, to);
}

/// The strategy that is written on an op.
FailureOr<std::pair<Strategy, OpSharding>> decided(Operation *op, const Rule &rule, const Mesh &mesh) {
  auto strategy = parseStrategyAttr(op->getAttrOfType<DictionaryAttr>(KerfDialect::kStrategyAttr), mesh, rule);
  if (!strategy)
    return op->emitError() << strategy.error().message;
  auto sharding = project(rule, mesh, *strategy);
  if (!sharding)
    return op->emitError() << "the strategy can't be carried out: the rule is " << toString(rule);
  return std::pair{*strategy, *sharding};
}

/// A composite whose reduced dimension is cut becomes simpler ops, which follow their operands; what they leave can be
/// brought to where the composite's strategy says that its results lie. Gives the first of them.
FailureOr<Operation *> Walker::decompose(Operation *op) {
  Rule rule = cast<ShardingRuleOpInterface>(op).getShardingRule();
  auto choice = decided(op, rule, mesh);
  if (failed(choice))
    return failure();
  SmallVector<std::pair<OpOperand *, Sharding>> uses;
  for (auto [result, lies] : llvm::zip(op->getResults(), choice->second.results))
    if (!result.use_empty())
      uses.push_back({&*result.use_begin(), lies});
  auto simple = decomposeOp(op);
  if (failed(simple))
    return failure();
  for (auto &[use, lies] : uses)
    promised.try_emplace(use->get(), lies);
  return simple->front();
}

LogicalResult Walker::place(Operation *op) {
  if (auto sum = dyn_cast<AccumulateOp>(op)) { // written by hand, or of a share (StageLayouts.cpp)
    auto [have, version] = versions[sum.getOperand()].front();
    if (int time = timeAxis(mesh); time >= 0 && !cutBy(have.partial, time)) { // summed before what made it
      sum.getResult().replaceAllUsesWith(version);
      sum.erase();
      return success();
    }
    sum.getOperandMutable().assign(version);
    know(sum.getResult(), withoutTime(have, mesh));
    return success();
  }
  if (auto call = dyn_cast<CallOp>(op))
    return placeCall(call);
  if (auto reshard = dyn_cast<ReshardOp>(op)) { // written by hand
    Shape shape = shapeOf(reshard.getOperand());
    auto emitError = [op] { return op->emitError(); };
    auto from = reshard.getFrom().toSharding(mesh, shape, emitError),
         to = reshard.getTo().toSharding(mesh, shape, emitError);
    Value value = failed(from) || failed(to) ? Value() : demand(reshard.getOperand(), *from, op);
    if (!value)
      return failure();
    reshard.getOperandMutable().assign(value);
    know(reshard.getResult(), *to);
    return success();
  }
  auto ruled = dyn_cast<ShardingRuleOpInterface>(op);
  if (!ruled)
    return op->emitError() << "has no sharding rule";
  Rule rule = ruled.getShardingRule();
  auto attr = op->getAttrOfType<DictionaryAttr>(KerfDialect::kStrategyAttr);
  if (!attr && defers(op)) {
    deferred.insert(op);
    return success();
  }
  std::pair<Strategy, OpSharding> choice;
  if (attr) {
    auto written = decided(op, rule, mesh);
    if (failed(written))
      return failure();
    choice = *written;
    passSums(op, rule, choice);
  } else {
    auto told = op->getNumResults() ? promised.find(op->getResult(0)) : promised.end();
    auto followed = follow(op, rule, told == promised.end() ? nullptr : &told->second);
    if (failed(followed))
      return failure();
    choice = *followed;
  }
  if (auto sync = dyn_cast<SyncGradientOp>(op)) {
    if (isDeferred(sync.getOperand()))
      return settle(op, choice.first, rule, choice.second);
    placeSync(sync, choice.second.results[0]);
    sync->setAttr(KerfDialect::kStrategyAttr, strategyAttr(op->getContext(), mesh, rule, choice.first));
    return success();
  }
  return settle(op, choice.first, rule, choice.second);
}

LogicalResult Walker::run() {
  for (BlockArgument argument : function.getArguments()) {
    auto sharding = argumentSharding(function, argument.getArgNumber());
    if (failed(sharding))
      return failure();
    know(argument, *sharding);
  }
  Block &block = function.front();
  for (Operation *op = &block.front(), *next = nullptr; op != block.getTerminator(); op = next) {
    if (cutsDecomposedFactor(op)) {
      auto first = decompose(op);
      if (failed(first))
        return failure();
      next = *first;
      continue;
    }
    next = op->getNextNode();
    if (failed(place(op)))
      return failure();
  }
  // What a layer hands back lies as it was made; the step's own results lie as the arguments that they replace, or
  // whole everywhere.
  bool isMain = function.getName() == KerfDialect::kEntryName;
  std::map<int64_t, Sharding> replaced;
  for (unsigned i = 0; isMain && i < function.getNumArguments(); ++i)
    if (auto by = function.getArgAttrOfType<IntegerAttr>(i, KerfDialect::kUpdatedByAttr))
      replaced[by.getInt()] = versions[function.getArgument(i)].front().first;
  SmallVector<DictionaryAttr> attributes; // set together: one by one, each would copy those of all
  for (OpOperand &operand : block.getTerminator()->getOpOperands()) {
    Value value = operand.get();
    Shape shape = shapeOf(value);
    Sharding target = Sharding::replicated(shape.size());
    if (auto found = replaced.find(operand.getOperandNumber()); found != replaced.end())
      target = found->second;
    else if (!isMain && !isDeferred(value))
      target = versions[value].front().first;
    Value made = demand(value, target, block.getTerminator());
    if (!made)
      return failure();
    operand.set(made);
    NamedAttrList described(function.getResultAttrDict(operand.getOperandNumber()));
    described.set(KerfDialect::kShardingAttr, ShardingAttr::fromSharding(function.getContext(), mesh, shape, target));
    attributes.push_back(described.getDictionary(function.getContext()));
    results.push_back(target);
  }
  function.setAllResultAttrs(attributes);
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (deferred.contains(&op) && op.use_empty())
      op.erase();
  return success();
}

struct InsertReshards : impl::InsertReshardsBase<InsertReshards> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    Mesh mesh = meshOf(module);
    SymbolTable symbols(module);
    std::map<std::string, SmallVector<Sharding>> calleeResults;
    // Callees come first: a call's results lie as the callee's.
    SmallVector<func::FuncOp> functions;
    for (auto function : module.getOps<func::FuncOp>())
      if (function.getOps<CallOp>().empty())
        functions.push_back(function);
    for (auto function : module.getOps<func::FuncOp>())
      if (!function.getOps<CallOp>().empty())
        functions.push_back(function);
    for (func::FuncOp function : functions) {
      Walker walker(function, mesh, calleeResults, symbols);
      if (failed(walker.run()))
        return signalPassFailure();
      calleeResults[function.getName().str()] = std::move(walker.results);
    }
  }
};

} // namespace
} // namespace kerf
