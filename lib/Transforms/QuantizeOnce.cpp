// SPDX-License-Identifier: Apache-2.0
// kerf-quantize-once: quantizes parameters to 8 bits once a step, and not in every call of a layer.
#include "Calls.h"
#include "kerf/Transforms/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace kerf::ir;

namespace kerf {

#define GEN_PASS_DEF_QUANTIZEONCE
#include "kerf/Transforms/Passes.h.inc"

namespace {

/// Returns whether the op can run in the caller of a layer where its operands are known there: it is a part of the
/// quantization of a tensor, or of the way of a parameter to its quantization.
bool canRunInCaller(Operation *op) {
  return isa<ConvertOp, ReshapeOp, TransposeOp, AbsOp, ReduceOp, MaskPaddingOp, AllGatherOp, AllReduceOp, WaitOp,
             QuantizeOp>(op);
}

/// Returns whether every rank of the gather has a part of the same size, so that no part has padding.
bool hasEqualParts(AllGatherOp gather) {
  auto dim = static_cast<unsigned>(gather.getDim());
  auto part = tensorType(gather.getOperand());
  auto whole = cast<RankedTensorType>(cast<PendingType>(gather.getType()).getTensor());
  int64_t parts = 1;
  ArrayRef<int64_t> axes = gather.getAxes();
  for (size_t i = 2; i < axes.size(); i += 3)
    parts *= axes[i];
  return whole.getDimSize(dim) == parts * part.getDimSize(dim);
}

/// The quantization of a tensor that is gathered from shards, op by op.
struct GatheredFactor {
  SmallVector<Operation *> gathers; // gathers and waits, from the whole tensor back to the shard
  Value shard;
  AbsOp size;
  ReduceOp largest;                    // over all elements of `size`
  SmallVector<Operation *> agreements; // of the magnitude among ranks, from the magnitude back to `largest`
};

/// Returns the parts of `quantize` where it reads a whole tensor that was gathered from shards of equal sizes, and the
/// magnitude of this tensor.
std::optional<GatheredFactor> gatheredFactor(QuantizeOp quantize) {
  GatheredFactor factor;
  for (factor.shard = quantize.getOperand(); isa_and_nonnull<AllGatherOp, WaitOp>(factor.shard.getDefiningOp());
       factor.shard = factor.gathers.back()->getOperand(0)) {
    factor.gathers.push_back(factor.shard.getDefiningOp());
    if (auto gather = dyn_cast<AllGatherOp>(factor.gathers.back()); gather && !hasEqualParts(gather))
      return std::nullopt;
  }
  Value magnitude = quantize.getMagnitude();
  for (; isa_and_nonnull<AllReduceOp, WaitOp>(magnitude.getDefiningOp());
       magnitude = factor.agreements.back()->getOperand(0))
    factor.agreements.push_back(magnitude.getDefiningOp());
  factor.largest = magnitude.getDefiningOp<ReduceOp>();
  factor.size = factor.largest ? factor.largest.getOperand().getDefiningOp<AbsOp>() : AbsOp();
  if (factor.gathers.empty() || !factor.size || factor.size.getOperand() != quantize.getOperand())
    return std::nullopt;
  return factor;
}

/// Erases the op and those that only it read, as far as their results have no uses. Collectives count as ops with
/// effects elsewhere, but one whose result is not needed may go, because every rank has the same program.
void eraseUnused(Operation *op) {
  if (!op || !op->use_empty() || !canRunInCaller(op))
    return;
  SmallVector<Value> operands(op->getOperands());
  op->erase();
  for (Value operand : operands)
    eraseUnused(operand.getDefiningOp());
}

/// Returns a copy of the collective or wait `op` of another operand, whose elements have another type.
Value copyOf(OpBuilder &builder, Operation *op, Value operand) {
  IRMapping mapping;
  mapping.map(op->getOperand(0), operand);
  Operation *copy = builder.clone(*op, mapping);
  copy->getResult(0).setType(withElement(op->getResult(0).getType(), elementOf(operand.getType())));
  return copy->getResult(0);
}

/// Quantizes the shards of a tensor, and gathers the 8-bit shards. The magnitude is the largest one of all shards.
void quantizeShards(QuantizeOp quantize, GatheredFactor factor) {
  OpBuilder builder(factor.size);
  Location loc = quantize.getLoc();
  Value size = AbsOp::create(builder, loc, factor.shard.getType(), factor.shard);
  Value magnitude = copyOf(builder, factor.largest, size);
  for (Operation *op : llvm::reverse(factor.gathers)) {
    auto gather = dyn_cast<AllGatherOp>(op);
    if (!gather)
      continue;
    Type pending = PendingType::get(builder.getContext(), cast<RankedTensorType>(magnitude.getType()));
    Value started = AllReduceOp::create(builder, loc, pending, magnitude, gather.getAxesAttr(),
                                        factor.largest.getKindAttr(), gather.getStreamAttr(), gather.getCauseAttr());
    magnitude = WaitOp::create(builder, loc, magnitude.getType(), started);
  }
  for (Operation *op : llvm::reverse(factor.agreements))
    magnitude = copyOf(builder, op, magnitude);
  auto type = withElement(factor.shard.getType(), quantize.getType().getElementType());
  Value gathered = QuantizeOp::create(builder, loc, type, factor.shard, magnitude);
  for (Operation *op : llvm::reverse(factor.gathers))
    gathered = copyOf(builder, op, gathered);
  quantize.getMagnitude().replaceAllUsesWith(magnitude);
  quantize.getResult().replaceAllUsesWith(gathered);
  Operation *largest = factor.agreements.empty() ? factor.largest.getOperation() : factor.agreements.front();
  eraseUnused(quantize);
  eraseUnused(largest);
}

struct QuantizeOnce : impl::QuantizeOnceBase<QuantizeOnce> {
  void runOnOperation() override {
    main = getOperation().lookupSymbol<func::FuncOp>(KerfDialect::kEntryName);
    if (!main)
      return;
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (function != main && !function.isDeclaration())
        moveOut(function);
    for (auto &[op, cause] : causes)
      op->setAttr("cause", cause);
    quantizeBeforeGathers(main, [](BlockArgument argument) { return isParameter(argument); });
    pruneCalls(getOperation());
    startBeforeWaits();
  }

private:
  using ArgumentTest = llvm::function_ref<bool(BlockArgument)>;

  /// Returns whether the value is computed only from arguments that pass the test, by ops that may run in the caller.
  static bool isComputedFrom(Value value, ArgumentTest test) {
    if (auto argument = dyn_cast<BlockArgument>(value))
      return test(argument);
    Operation *op = value.getDefiningOp();
    return canRunInCaller(op) && llvm::all_of(op->getOperands(), [&](Value v) { return isComputedFrom(v, test); });
  }

  static void quantizeBeforeGathers(func::FuncOp function, ArgumentTest isFixed) {
    for (QuantizeOp quantize : llvm::to_vector(function.getOps<QuantizeOp>()))
      if (isComputedFrom(quantize.getOperand(), isFixed))
        if (auto factor = gatheredFactor(quantize))
          quantizeShards(quantize, *factor);
  }

  /// Moves the quantization of parameters out of the function into @main. Parameters whose quantization reads a
  /// gathered tensor in another way stay as they are, because @main would hold the whole tensor for the whole step.
  void moveOut(func::FuncOp function) {
    SmallVector<CallOp> calls = callsOf(getOperation(), function);
    if (calls.empty() || llvm::any_of(calls, [&](CallOp call) { return call->getParentOp() != main.getOperation(); }))
      return;
    auto isFixed = [&](BlockArgument argument) {
      return llvm::all_of(calls, [&](CallOp call) {
        return isComputedFrom(call.getInputs()[argument.getArgNumber()],
                              [](BlockArgument outer) { return isParameter(outer); });
      });
    };
    quantizeBeforeGathers(function, isFixed);
    llvm::SetVector<Value> moved;
    for (auto quantize : function.getOps<QuantizeOp>())
      if (isComputedFrom(quantize.getResult(), isFixed) && !readsGathered(quantize.getOperand())) {
        moved.insert(quantize.getResult());
        moved.insert(quantize.getMagnitude());
      }
    if (moved.empty())
      return;
    for (CallOp call : calls) {
      SmallVector<Value> operands(call.getInputs());
      for (Value value : moved)
        operands.push_back(inMain(value, call));
      rebuildCall(call, operands, call.getResultTypes(), [](int64_t i) { return i; });
    }
    SmallVector<Operation *> unused;
    for (Value value : moved) {
      value.replaceAllUsesWith(addArgument(function, value));
      unused.push_back(value.getDefiningOp());
    }
    for (Operation *op : unused)
      eraseUnused(op);
  }

  static bool readsGathered(Value value) {
    for (Operation *op = value.getDefiningOp(); op; op = op->getOperand(0).getDefiningOp())
      if (isa<AllGatherOp>(op))
        return true;
    return false;
  }

  static Value addArgument(func::FuncOp function, Value value) {
    // The parameter's sharding is that of its 8-bit copy. A magnitude is equal on all ranks.
    NamedAttrList attributes;
    if (auto quantize = value.getDefiningOp<QuantizeOp>())
      if (auto argument = dyn_cast<BlockArgument>(quantize.getOperand())) {
        attributes = function.getArgAttrDict(argument.getArgNumber());
        if (auto global = function.getArgAttrOfType<TypeAttr>(argument.getArgNumber(), KerfDialect::kGlobalTypeAttr))
          attributes.set(KerfDialect::kGlobalTypeAttr,
                         TypeAttr::get(withElement(global.getValue(), quantize.getType().getElementType())));
      }
    unsigned index = function.getNumArguments();
    (void)function.insertArgument(index, value.getType(), attributes.getDictionary(function.getContext()),
                                  value.getLoc());
    return function.getArgument(index);
  }

  /// Returns the value of a layer's function as @main computes it for `call`. Equal computations are shared.
  Value inMain(Value value, CallOp call) {
    if (auto argument = dyn_cast<BlockArgument>(value))
      return call.getInputs()[argument.getArgNumber()];
    Operation *op = value.getDefiningOp();
    IRMapping mapping;
    Operation *latest = nullptr;
    for (Value operand : op->getOperands()) {
      Value made = inMain(operand, call);
      mapping.map(operand, made);
      if (Operation *definer = made.getDefiningOp(); definer && (!latest || latest->isBeforeInBlock(definer)))
        latest = definer;
    }
    OpBuilder builder = latest ? OpBuilder(latest->getBlock(), std::next(latest->getIterator()))
                               : OpBuilder::atBlockBegin(&main.front());
    Operation *copy = builder.clone(*op, mapping);
    copy->removeAttr(KerfDialect::kBackwardAttr);
    copy->removeAttr(KerfDialect::kPerMicrobatchAttr);
    copy->removeAttr("cause"); // the layer of which a collective is a part does not matter for its equality
    SmallVector<Operation *> &alike = copies[copy->getOperand(0)];
    for (Operation *known : alike)
      if (OperationEquivalence::isEquivalentTo(known, copy, OperationEquivalence::IgnoreLocations)) {
        copy->erase();
        return known->getResult(0);
      }
    if (Attribute cause = op->getAttr("cause"))
      causes.try_emplace(copy, cause);
    alike.push_back(copy);
    return copy->getResult(0);
  }

  /// Moves the ops that need a collective of another parameter's magnitude behind the last magnitude, so that the
  /// collectives run together.
  void startBeforeWaits() {
    Operation *lastStart = nullptr;
    llvm::SetVector<Operation *> late;
    for (Operation &op : main.front()) {
      if (isa<CallOp>(op))
        break;
      bool waits = isa<WaitOp>(op) && isa_and_nonnull<AllReduceOp>(op.getOperand(0).getDefiningOp()) &&
                   llvm::any_of(op.getUsers(), [](Operation *user) { return isa<QuantizeOp, AllReduceOp>(user); });
      if (waits || llvm::any_of(op.getOperands(), [&](Value v) { return late.contains(v.getDefiningOp()); })) {
        if (!canRunInCaller(&op))
          break;
        late.insert(&op);
      } else if (isa<AllReduceOp>(op)) {
        lastStart = &op;
      }
    }
    for (Operation *op : late)
      if (lastStart && op->isBeforeInBlock(lastStart)) {
        op->moveAfter(lastStart);
        lastStart = op;
      }
  }

  func::FuncOp main;
  DenseMap<Value, SmallVector<Operation *>> copies; // what @main computes from a value for layers
  llvm::MapVector<Operation *, Attribute> causes;   // of the collectives among the copies
};

} // namespace
} // namespace kerf
