// SPDX-License-Identifier: Apache-2.0
#include "CodedMeans.h"
#include "EmitUpdate.h"
#include "GradientBlocks.h"
#include "kerf/Transforms/DeviceAxes.h"

#include "mlir/IR/OperationSupport.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace kerf::ir;

namespace kerf {

namespace {

/// Returns whether the ranks along all these axes have samples of their own: the axes cut the first dimension of
/// inputs.
bool haveOwnSamples(func::FuncOp main, const Mesh &mesh, ArrayRef<AxisRef> axes) {
  llvm::SmallDenseSet<int> cutting;
  for (unsigned i = 0; i < main.getNumArguments(); ++i) {
    auto kind = main.getArgAttrOfType<StringAttr>(i, KerfDialect::kKindAttr);
    auto sharding = main.getArgAttrOfType<ShardingAttr>(i, KerfDialect::kShardingAttr);
    auto type = main.getArgAttrOfType<TypeAttr>(i, KerfDialect::kGlobalTypeAttr);
    if (!kind || kind.getValue() != "input" || !sharding || !type)
      continue;
    auto shape = cast<RankedTensorType>(type.getValue()).getShape();
    auto cut = sharding.toSharding(mesh, Shape(shape.begin(), shape.end()), [&] { return main.emitError(); });
    if (succeeded(cut) && !cut->dims.empty())
      for (const AxisRef &axis : cut->dims.front().axes)
        cutting.insert(axis.axis);
  }
  return llvm::all_of(axes, [&](const AxisRef &axis) { return cutting.contains(axis.axis); });
}

/// Operations are equal where they compute equal values.
struct SameOperation : llvm::DenseMapInfo<Operation *> {
  static unsigned getHashValue(Operation *op) {
    return static_cast<unsigned>(OperationEquivalence::computeHash(op, OperationEquivalence::directHashValue,
                                                                   OperationEquivalence::ignoreHashValue,
                                                                   OperationEquivalence::IgnoreLocations));
  }
  static bool isEqual(Operation *x, Operation *y) {
    const bool isKey = x == getEmptyKey() || x == getTombstoneKey() || y == getEmptyKey() || y == getTombstoneKey();
    return x == y || (!isKey && OperationEquivalence::isEquivalentTo(x, y, OperationEquivalence::IgnoreLocations));
  }
};

Value like(Emitter &emit, Value scalar, Value x) { return emit.broadcast(scalar, shapeOf(x), {}); }

/// Returns factor * state in the type of `gradient` and with its loss scale.
Value multiple(Emitter &emit, double factor, Value state, Value gradient, CompressionStates &states) {
  state = emit.convert(state, tensorType(gradient).getElementType());
  state = emit.multiply(state, emit.splat(factor, state));
  Value scale = states.find("", KerfDialect::kLossScaleName);
  return scale ? emit.multiply(state, like(emit, emit.convert(scale, tensorType(state).getElementType()), state))
               : state;
}

double ranksOf(AllReduceOp start) { return double(shardCount(axesFromFlat(start.getAxes()))); }

/// Makes each rank add its share of `all` to what `start` sums.
void addShare(Emitter &emit, AllReduceOp start, Value all) {
  Value share = emit.multiply(all, emit.splat(1.0 / ranksOf(start), all));
  start->setOperand(0, emit.add(start.getOperand(), share));
}

/// Subtracts `all` from what arrived, where the sum of `start` is used.
void subtractFromSum(Operation *start, Value all) {
  auto wait = cast<WaitOp>(*start->user_begin());
  OpBuilder builder(firstUserOf(wait));
  Value sum = Emitter{builder, start->getLoc()}.subtract(wait, all);
  wait.getResult().replaceAllUsesExcept(sum, sum.getDefiningOp());
}

/// The sum of one mean.
class MeanSum {
public:
  MeanSum(AllReduceOp start, const CompressedSync &how, const Mesh &mesh, CompressionStates &states)
      : start(start), how(how), mesh(mesh), states(states), record(*findOptimizer(how.optimizer)),
        coded(*record.codedMean), decay(how.settings.find(coded.decay)->second), batches(sumBatches(how)),
        ranks(ranksOf(start)) {}

  FailureOr<Value> run() {
    Value gradient = start.getOperand(), mean = states.find("state", stateName(coded.state));
    if (!mean || shapeOf(mean) != shapeOf(gradient))
      return notWhole();
    OpBuilder builder(start);
    Emitter emit{builder, start.getLoc()};
    Value rates, old = multiple(emit, decay / (1 - decay), mean, gradient, states);
    if (batches.hasLocalSteps()) {
      if (failed(readLocally()))
        return failure();
      rates = sumMoves(emit, mean);
    } else {
      addShare(emit, start, old);
    }
    subtractFromSum(start, old);
    return rates;
  }

private:
  std::string stateName(const char *kind) const { return std::string(kind) + "/" + how.parameter; }
  LogicalResult notWhole() {
    return start->emitError() << "the gradient of '" << how.parameter << "' is summed as the mean '" << coded.state
                              << "' of gradients, which optimizer sharding cuts over ranks; use optimizer sharding 0";
  }

  /// Makes the model read the parameter as this rank has moved it since the last sum.
  LogicalResult readLocally() {
    if (!haveOwnSamples(start->getParentOfType<func::FuncOp>(), mesh, axesFromFlat(start.getAxes())))
      return start->emitError()
             << "the gradient of '" << how.parameter
             << "' is summed over ranks that have parts of the same samples, but optimizer " << record.name
             << " lets each rank take steps by its own gradient; compress this gradient with codec none, or give <"
             << coded.longest << "=1>, with which ranks sum in each step";
    Shape shape = shapeOf(start.getOperand());
    own = states.add(stateName("compression_mean"), shape);
    moves = states.add(stateName("compression_moves"), shape);
    Value parameter = states.find("parameter", how.parameter);
    SmallVector<OpOperand *> reads;
    bool isUpdated = false;
    for (OpOperand &use : parameter.getUses())
      if (use.getOwner()->hasAttr(KerfDialect::kUpdateAttr))
        isUpdated = true;
      else
        reads.push_back(&use);
    if (!isUpdated)
      return notWhole();
    OpBuilder builder(start->getContext());
    builder.setInsertionPointAfterValue(states.before(moves));
    UpdateRequest request{.loc = start->getLoc(),
                          .name = how.parameter,
                          .parameter = parameter,
                          .gradient = {},
                          .states = {},
                          .rate = {},
                          .number = states.scalar("step"),
                          .skip = {},
                          .record = record,
                          .settings = how.settings,
                          .shape = shape};
    for (const OptimizerState &state : record.states(how.settings, shape))
      request.states.push_back(states.find("state", stateName(state.name)));
    Value moved = emitMoved(builder, request, states.before(moves));
    for (OpOperand *read : reads)
      read->set(moved);
    return success();
  }

  /// Takes the local step, and makes `start` sum what all ranks have moved. Returns the sum of rates.
  Value sumMoves(Emitter &emit, Value mean) {
    Type f32 = emit.builder.getF32Type();
    mean = emit.convert(mean, f32);
    Value rate = scaledRate(emit, states.find("learning_rate", how.rate));
    Value rates = emit.add(scaledRate(emit, states.find("state", (kRatesPrefix + how.rate).str())), rate);
    Value noRate = emit.splat(0.0, rates); // a schedule may begin and end with rates of 0
    Value isMoving = emit.compare(rates, noRate, Comparison::GT);
    Value sums = isIn(emit, states.scalar("step"), batches.sums);
    // All scalars come first, so that the following ops become one kernel.
    Value now = emit.add(mean, states.before(own));
    now = emit.multiply(now, emit.splat(decay, now));
    Value gradient = emit.convert(start.getOperand(), f32);
    now = emit.add(now, emit.multiply(gradient, emit.splat((1 - decay) * ranks, gradient)));
    Value moved = emit.add(states.before(moves), emit.multiply(now, like(emit, rate, now)));
    Value perRate = emit.divide(moved, like(emit, rates, now));
    Value sent = emit.select(like(emit, isMoving, now), perRate, now);
    sent = emit.multiply(sent, emit.splat(1 / (ranks * (1 - decay)), sent));
    start->setOperand(0, emit.convert(sent, tensorType(start.getOperand()).getElementType()));
    Value zero = emit.splat(0.0, now), summing = like(emit, sums, now);
    states.replace(own, emit.select(summing, zero, emit.subtract(now, mean)));
    states.replace(moves, emit.select(summing, zero, moved));
    return rates;
  }

  Value scaledRate(Emitter &emit, Value rate) {
    rate = emit.convert(rate, emit.builder.getF32Type());
    return emit.multiply(rate, emit.splat(how.rateFactor, rate));
  }

  AllReduceOp start;
  const CompressedSync &how;
  const Mesh &mesh;
  CompressionStates &states;
  const OptimizerRecord &record;
  const CodedMean &coded;
  const double decay;
  const SumBatches batches;
  const double ranks;
  size_t own = 0, moves = 0; // states
};

} // namespace

void updateInEachStep(func::FuncOp main, ArrayRef<CompressedSync> sums) {
  for (Operation &op : llvm::make_early_inc_range(main.front())) {
    auto name = op.getAttrOfType<StringAttr>(kLocalStepsAttr);
    if (!name || llvm::any_of(sums, [&](const CompressedSync &how) { return how.parameter == name.getValue(); }))
      continue;
    OpBuilder builder(&op);
    Value now = op.getOperands().back(); // the rate of this step
    if (isa<NotOp>(op)) {
      auto type = cast<RankedTensorType>(op.getResult(0).getType());
      now = ConstantOp::create(builder, op.getLoc(), type, DenseElementsAttr::get(type, false));
    }
    op.getResult(0).replaceAllUsesWith(now);
    op.erase();
  }
}

void mergeScalars(Block &block) {
  llvm::DenseSet<Operation *, SameOperation> found;
  for (Operation &op : llvm::make_early_inc_range(block)) {
    if (op.getNumResults() != 1 || op.getNumRegions() > 0 || !isMemoryEffectFree(&op))
      continue;
    auto type = dyn_cast<RankedTensorType>(op.getResult(0).getType());
    if (!type || type.getRank() > 0)
      continue;
    auto [same, isNew] = found.insert(&op);
    if (isNew)
      continue;
    op.replaceAllUsesWith(*same);
    op.erase();
  }
}

FailureOr<Value> sumMeanInstead(Operation *start, const CompressedSync &how, const Mesh &mesh,
                                CompressionStates &states) {
  if (how.optimizer.empty())
    return Value();
  if (auto sum = dyn_cast<AllReduceOp>(start))
    return MeanSum(sum, how, mesh, states).run();
  return start->emitError() << "the gradient of '" << how.parameter
                            << "' is summed as a mean of gradients, which optimizer sharding cuts over ranks; use "
                               "optimizer sharding 0";
}

LogicalResult sumWithMomentum(Operation *start, CompressedSync &how, CompressionStates &states) {
  if (how.momentumState.empty())
    return success();
  auto wait = cast<WaitOp>(*start->user_begin());
  Value state = states.find("state", how.momentumState + "/" + how.parameter);
  if (!state)
    return start->emitError() << "the gradient of '" << how.parameter << "' is encoded with its momentum, but there is "
                              << "no state '" << how.momentumState << "'; use another codec, or optimizer sharding 0";
  if (shapeOf(state) != shapeOf(wait.getResult()))
    return start->emitError() << "the gradient of '" << how.parameter
                              << "' is encoded with its momentum, but a rank has a sum of type "
                              << wait.getResult().getType() << " and a state '" << how.momentumState << "' of type "
                              << state.getType() << "; use another codec, or optimizer sharding 0";
  OpBuilder builder(start);
  Emitter emit{builder, start->getLoc()};
  Value old = multiple(emit, how.momentum, state, start->getOperand(0), states);
  if (auto sum = dyn_cast<AllReduceOp>(start)) {
    addShare(emit, sum, old);
    how.momentum = 0;
  }
  subtractFromSum(start, old);
  return success();
}

} // namespace kerf
