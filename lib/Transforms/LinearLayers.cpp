// SPDX-License-Identifier: Apache-2.0
#include "LinearLayers.h"
#include "Calls.h"

using namespace mlir;
using namespace kerf::ir;

namespace kerf {

/// Returns whether the op's result has the values of its operand, in another order, shape or element type.
static bool keepsValues(Operation *op) {
  return op->getNumOperands() == 1 && (op->hasTrait<PicksElements>() || op->hasTrait<SameValue>());
}

/// Returns the value from which views and conversions make `value`.
static Value originOf(Value value) {
  for (Operation *op = value.getDefiningOp(); op && keepsValues(op); op = value.getDefiningOp())
    value = op->getOperand(0);
  return value;
}

bool isFromParameter(ModuleOp module, Value value) {
  auto argument = dyn_cast<BlockArgument>(originOf(value));
  if (!argument)
    return false;
  auto function = cast<func::FuncOp>(argument.getOwner()->getParentOp());
  if (function.getName() == KerfDialect::kEntryName)
    return isParameter(argument);
  SmallVector<CallOp> calls = callsOf(module, function);
  return !calls.empty() && llvm::all_of(calls, [&](CallOp call) {
    return isFromParameter(module, call.getInputs()[argument.getArgNumber()]);
  });
}

/// Returns whether the value is, up to an added bias, the scores of classes that a loss reads.
static bool areScores(Value value) {
  return llvm::any_of(value.getUsers(), [&](Operation *user) {
    if (user->hasTrait<ReadsScores>())
      return user->getOperand(0) == value;
    return (keepsValues(user) || isa<AddOp>(user)) && areScores(user->getResult(0));
  });
}

bool isOfLinearLayer(ModuleOp module, DotGeneralOp product) {
  auto lhs = tensorType(product.getLhs()), rhs = tensorType(product.getRhs());
  if (!product.getLhsBatching().empty())
    return false;
  int64_t contracted = 1;
  for (int64_t dim : product.getLhsContracting())
    contracted *= lhs.getDimSize(dim);
  int64_t rows = contracted ? lhs.getNumElements() / contracted : 0,
          columns = contracted ? rhs.getNumElements() / contracted : 0;
  for (int64_t size : {contracted, rows, columns})
    if (size == 0 || size % kEightBitSizeUnit != 0)
      return false;
  return isFromParameter(module, product.getLhs()) != isFromParameter(module, product.getRhs()) &&
         !areScores(product.getResult());
}

/// Returns whether the backward pass computes the value.
static bool isGradient(ModuleOp module, Value value) {
  Value source = originOf(value);
  if (Operation *op = source.getDefiningOp())
    return op->hasAttr(KerfDialect::kBackwardAttr);
  auto argument = cast<BlockArgument>(source);
  auto function = cast<func::FuncOp>(argument.getOwner()->getParentOp());
  return llvm::any_of(callsOf(module, function), [&](CallOp call) {
    Operation *from = call.getInputs()[argument.getArgNumber()].getDefiningOp();
    return from && from->hasAttr(KerfDialect::kBackwardAttr);
  });
}

EightBitProducts eightBitProducts(ModuleOp step) {
  EightBitProducts found;
  llvm::DenseSet<Location> layers; // a backward op has the location of its forward op
  auto isBackward = [](DotGeneralOp product) { return product->hasAttr(KerfDialect::kBackwardAttr); };
  step.walk([&](DotGeneralOp product) {
    if (isBackward(product) || product->hasAttr(KerfDialect::kUpdateAttr) || !isOfLinearLayer(step, product))
      return;
    found.products.insert(product);
    layers.insert(product.getLoc());
    for (Value factor : {product.getLhs(), product.getRhs()})
      if (!isFromParameter(step, factor))
        found.quantized.insert(factor);
  });
  step.walk([&](DotGeneralOp product) {
    if (!isBackward(product) || !layers.contains(product.getLoc()))
      return;
    found.products.insert(product);
    for (Value factor : {product.getLhs(), product.getRhs()})
      if (isGradient(step, factor))
        found.quantized.insert(factor);
  });
  return found;
}

} // namespace kerf
