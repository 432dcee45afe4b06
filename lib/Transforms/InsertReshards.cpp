// SPDX-License-Identifier: Apache-2.0
// kerf-insert-reshards (planned level): makes every change of sharding an op of its own.
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

/// Returns whether a reshard would gather or scatter over microbatches. Microbatches run one after the other, so
/// a value that is sharded over them cannot be gathered before the last one, and a sum over them cannot be
/// scattered to them.
bool gathersOverTime(const Sharding &from, const Sharding &to, int time) {
  for (auto [a, b] : llvm::zip(from.dims, to.dims))
    if (containsAxis(b.axes, time) ? containsAxis(from.partial, time) : containsAxis(a.axes, time))
      return true;
  return false;
}

double bytesToReshard(const Mesh &mesh, Value value, const Sharding &from, const Sharding &to) {
  if (from == to)
    return 0;
  if (!canReshard(from, to) || gathersOverTime(from, to, microbatchAxis(mesh)))
    return std::numeric_limits<double>::infinity();
  Shape shape = shapeOf(value);
  int64_t elementBytes = bytesPerElement(value.getType());
  StepPrice price = [time = microbatchAxis(mesh)](const ReshardStep &step, int64_t bytesIn, int64_t bytesOut) {
    bool overTime = step.kind != ReshardStepKind::LocalSlice && containsAxis(step.axes, time);
    return overTime ? std::numeric_limits<double>::infinity() : bytesReceived(step, bytesIn, bytesOut);
  };
  Sharding summed = containsAxis(to.partial, microbatchAxis(mesh)) ? from : summedOverMicrobatches(from, mesh);
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

/// The walk over the ops of one function in order. An op without a strategy follows its operands: it takes the strategy
/// that moves the fewest bytes, and of equal ones the strategy that shards the most. Such an op that depends on nothing
/// sharded (iota, a broadcast) is deferred until a user needs its result in some sharding.
class Walker {
public:
  Walker(func::FuncOp function, const Mesh &mesh, const std::map<std::string, SmallVector<Sharding>> &calleeResults,
         SymbolTable &symbols)
      : function(function), mesh(mesh), calleeResults(calleeResults), symbols(symbols) {}

  LogicalResult run();
  SmallVector<Sharding> results; // the shardings of the function's results, set by run

private:
  FailureOr<Operation *> decompose(Operation *op);
  LogicalResult place(Operation *op);
  LogicalResult placeCall(CallOp call);
  void placeSync(SyncGradientOp sync, const Sharding &to);
  FailureOr<std::pair<Strategy, OpSharding>> follow(Operation *op, const Rule &rule, const Sharding *wanted);
  void passSums(Operation *op, const Rule &rule, std::pair<Strategy, OpSharding> &choice);
  bool defers(Operation *op);
  bool hasMagnitudeOfAllRanks(Value value);
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
  /// The shardings in which a value is available, with the value in each. The first one is that of the producer.
  DenseMap<Value, SmallVector<std::pair<Sharding, Value>>> versions;
  DenseSet<Operation *> deferred;
  DenseMap<Value, Sharding> promised; // for results of decomposed ops: the sharding in which their users expect them
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

/// Chooses a strategy for an op that has none. `wanted`, if given, is the sharding that the op's first
/// result must have.
FailureOr<std::pair<Strategy, OpSharding>> Walker::follow(Operation *op, const Rule &rule, const Sharding *wanted) {
  double least = std::numeric_limits<double>::infinity();
  int64_t mostCut = 0;
  std::optional<std::pair<Strategy, OpSharding>> best;
  int time = microbatchAxis(mesh), stage = stageAxis(mesh);
  bool timed = wanted ? usesAxis(*wanted, time) : llvm::any_of(op->getOperands(), [&](Value value) {
    return !isDeferred(value) && usesAxis(versions[value].front().first, time);
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
      if (isDeferred(value)) { // can be computed in any sharding, except as a partial sum
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
    return op->emitError() << "has no strategy to whose shardings its operands can be brought; change the strategies "
                              "of the ops that compute them";
  return *best;
}

/// Returns the value in the sharding `target`, resharded from the closest available sharding.
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
    if (const Sharding &have = versions[value].front().first; gathersOverTime(have, target, microbatchAxis(mesh)))
      user->emitError() << "needs all samples of the batch at once, so it can't be cut into microbatches; set "
                           "microbatch to the samples of a model replica";
    else if (have.partialKind != ReduceKind::Sum && containsAxis(have.partial, microbatchAxis(mesh)))
      user->emitError() << "needs "
                        << (have.partialKind == ReduceKind::Max ? "the largest value" : "the smallest value")
                        << " over the whole batch, so it can't be cut into microbatches; set microbatch to the samples "
                           "of a model replica";
    else
      user->emitError() << "needs an operand with sharding " << toString(mesh, shapeOf(value), target)
                        << ", which no sequence of collectives gives from " << toString(mesh, shapeOf(value), have)
                        << "; change the strategy of this op or of the op that computes the operand";
    return {};
  }
  if (nearest.first == target)
    return nearest.second;
  if (int time = microbatchAxis(mesh);
      containsAxis(nearest.first.partial, time) && !containsAxis(target.partial, time)) {
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

/// Returns the sum of a value over all microbatches, which `user` needs. Only @main can contain it, because a layer
/// runs for each microbatch.
std::pair<Sharding, Value> Walker::sumOverTime(const Sharding &have, Value value, Operation *user) {
  if (function.getName() != KerfDialect::kEntryName) {
    user->emitError()
        << "needs a sum over the whole batch, so it can't be cut into microbatches; set microbatch to the "
           "samples of a model replica";
    return {};
  }
  if (!isa<FloatType>(tensorType(value).getElementType())) {
    user->emitError() << "needs a sum of integers over the whole batch, so it can't be cut into microbatches; set "
                         "microbatch to the samples of a model replica, or convert what is added to float";
    return {};
  }
  OpBuilder builder(user); // placed as early as possible, so that the sum over ranks may begin early
  if (Operation *definer = value.getDefiningOp())
    builder.setInsertionPointAfter(definer);
  return {summedOverMicrobatches(have, mesh), AccumulateOp::create(builder, user->getLoc(), value.getType(), value)};
}

/// A layout does not distinguish whether a layer sums a gradient over the batch before a linear op, or its caller does
/// after the op. Here only the caller can, after the last microbatch. The partial sum therefore passes through the op,
/// along every axis along which all its operands are partial.
void Walker::passSums(Operation *op, const Rule &rule, std::pair<Strategy, OpSharding> &choice) {
  int time = microbatchAxis(mesh);
  auto isPartial = [&](int operand, int axis) {
    Value value = op->getOperand(operand);
    return !isDeferred(value) && containsAxis(versions[value].front().first.partial, axis);
  };
  auto asksForSum = [&](int operand) {
    return isPartial(operand, time) && !containsAxis(choice.second.operands[operand].partial, time);
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

/// Returns the sharding of a maximum that each microbatch has for itself, and which is not combined over microbatches.
Sharding ofOneMicrobatch(const Sharding &sharding, const Mesh &mesh) {
  Sharding own = summedOverMicrobatches(sharding, mesh);
  if (own.partial.empty())
    own.partialKind = ReduceKind::Sum; // as of every sharding without partial values
  return own;
}

/// Reshards the operands to the shardings that the strategy needs, and sets the op's strategy.
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
    know(result, op->hasAttr(KerfDialect::kPerMicrobatchAttr) ? ofOneMicrobatch(lies, mesh) : lies);
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

/// Returns whether the value is the sum of contributions to a gradient that were each summed over microbatches.
static bool isSummed(Value value) {
  Operation *op = value.getDefiningOp();
  return op && (isa<AccumulateOp>(op) || (isa<AddOp, ReshardOp>(op) && llvm::all_of(op->getOperands(), isSummed)));
}

/// Places a sync_gradient, which is not expanded here: it takes the gradient as it is, and its attributes state the
/// sharding of its result. Where the gradient of each microbatch is scattered, the shards are summed over microbatches
/// before they are summed over the ranks that have the same shards.
void Walker::placeSync(SyncGradientOp sync, const Sharding &to) {
  MLIRContext *context = sync.getContext();
  Shape shape = shapeOf(sync.getOperand());
  auto [have, version] = versions[sync.getOperand()].front();
  bool each = sync->hasAttr(KerfDialect::kEachMicrobatchAttr);
  int time = microbatchAxis(mesh);
  bool ofAll = isScheduled(mesh) && (time < 0 ? !isSummed(version) : containsAxis(have.partial, time));
  if (ofAll && !each)
    std::tie(have, version) = sumOverTime(have, version, sync);
  Sharding left = to;
  for (const AxisRef &axis : have.partial)
    if (ofAll && each && !usesAxis(to, axis.axis))
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
  if (Sharding summed = summedOverMicrobatches(left, mesh); summed != to) {
    auto rest = cast<SyncGradientOp>(builder.clone(*sync));
    rest->removeAttr(KerfDialect::kEachMicrobatchAttr);
    rest.getOperandMutable().assign(sum);
    write(rest, summed, to);
    sum = rest.getResult();
  }
  result.replaceAllUsesExcept(sum, of);
  know(sum, to);
}

/// Returns the strategy that is written on an op, and its shardings.
FailureOr<std::pair<Strategy, OpSharding>> decided(Operation *op, const Rule &rule, const Mesh &mesh) {
  auto strategy = parseStrategyAttr(op->getAttrOfType<DictionaryAttr>(KerfDialect::kStrategyAttr), mesh, rule);
  if (!strategy)
    return op->emitError() << strategy.error().message;
  auto sharding = project(rule, mesh, *strategy);
  if (!sharding)
    return op->emitError() << "the strategy cannot be carried out; choose one that the rule allows: " << toString(rule);
  return std::pair{*strategy, *sharding};
}

/// Replaces a composite whose reduced dimension is sharded by simpler ops, which follow their operands. Their results
/// can be resharded to those that the composite's strategy promises. Returns the first of the new ops.
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
  if (auto sum = dyn_cast<AccumulateOp>(op)) { // written by hand, or for a contribution of one stage (StageLayouts.cpp)
    auto [have, version] = versions[sum.getOperand()].front();
    // The sum over microbatches was taken before the op that computes the operand, so the AccumulateOp is replaced.
    if (int time = microbatchAxis(mesh); time >= 0 && !containsAxis(have.partial, time)) {
      sum.getResult().replaceAllUsesWith(version);
      sum.erase();
      return success();
    }
    sum.getOperandMutable().assign(version);
    know(sum.getResult(), summedOverMicrobatches(have, mesh));
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
    return op->emitError() << "has no sharding rule; run kerf-insert-reshards before the passes that add this op";
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

/// Returns whether the value is the largest absolute value of a tensor, and the ranks that hold parts of the tensor
/// have agreed on it.
bool Walker::hasMagnitudeOfAllRanks(Value value) {
  Operation *op = value.getDefiningOp();
  return op && op->hasAttr(KerfDialect::kPerMicrobatchAttr) &&
         llvm::any_of(versions[value], [](auto &version) { return version.first.partial.empty(); });
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
  // The results of a layer keep the sharding in which they are computed. A result of @main has the sharding of the
  // argument that it replaces, or is replicated on all ranks.
  bool isMain = function.getName() == KerfDialect::kEntryName;
  std::map<int64_t, Sharding> replaced;
  for (unsigned i = 0; isMain && i < function.getNumArguments(); ++i)
    if (auto by = function.getArgAttrOfType<IntegerAttr>(i, KerfDialect::kUpdatedByAttr))
      replaced[by.getInt()] = versions[function.getArgument(i)].front().first;
  SmallVector<DictionaryAttr> attributes; // set at once, because each change would copy all of them
  for (OpOperand &operand : block.getTerminator()->getOpOperands()) {
    Value value = operand.get();
    Shape shape = shapeOf(value);
    Sharding target = Sharding::replicated(shape.size());
    if (auto found = replaced.find(operand.getOperandNumber()); found != replaced.end())
      target = found->second;
    else if (!isMain && !isDeferred(value))
      target = hasMagnitudeOfAllRanks(value) ? target : versions[value].front().first;
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
    // Callees come first, because the results of a call have the shardings of the callee's results.
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
