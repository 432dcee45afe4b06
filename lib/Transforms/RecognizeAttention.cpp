// SPDX-License-Identifier: Apache-2.0
// Recognition of attention: from the product of probabilities and values, back through the NaN guard, softmax, masks
// and scale, to the product of queries and keys.
#include "Recognize.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::ir;

namespace {
/// The ops between the query-key product and the softmax.
struct Scores {
  DotGeneralOp product;
  double scale = 1.0;
  bool causal = false;
  Value mask; // has the scores' shape
};
} // namespace

/// Returns p where the value is select(is_nan(p), 0, p), otherwise the value itself.
static Value skipGuard(Value value) {
  auto select = value.getDefiningOp<SelectOp>();
  if (!select)
    return value;
  auto guard = select.getPredicate().getDefiningOp<IsNanOp>();
  auto zero = scalarOf(select.getOnTrue());
  return guard && guard.getOperand() == select.getOnFalse() && zero && *zero == 0 ? select.getOnFalse() : value;
}

/// Removes masks, then scales, from the operand of softmax.
static std::optional<Scores> scoresOf(Value value) {
  Scores scores;
  auto takeMask = [&](Value mask) {
    if (isCausalMask(mask))
      scores.causal = true;
    else if (scores.mask)
      return false;
    else
      scores.mask = mask;
    return true;
  };
  while (true) {
    if (auto product = value.getDefiningOp<DotGeneralOp>()) {
      scores.product = product;
      return scores;
    }
    if (auto scaled = asScaled(value)) {
      scores.scale *= scaled->factor;
      value = scaled->value;
      continue;
    }
    // A scale applied after a mask would scale the mask too.
    if (scores.scale != 1.0)
      return std::nullopt;
    if (auto add = value.getDefiningOp<AddOp>()) {
      bool left = add.getLhs().getDefiningOp<DotGeneralOp>() || asScaled(add.getLhs()) ||
                  add.getLhs().getDefiningOp<AddOp>() || add.getLhs().getDefiningOp<SelectOp>();
      bool right = add.getRhs().getDefiningOp<DotGeneralOp>() != nullptr;
      Value inner = left && !right ? add.getLhs() : right ? add.getRhs() : Value();
      if (!inner || !takeMask(inner == add.getLhs() ? add.getRhs() : add.getLhs()))
        return std::nullopt;
      value = inner;
      continue;
    }
    if (auto select = value.getDefiningOp<SelectOp>()) {
      auto hidden = scalarOf(select.getOnFalse());
      if (!hidden || *hidden > -1e9 || !takeMask(select.getPredicate()))
        return std::nullopt;
      value = select.getOnTrue();
      continue;
    }
    return std::nullopt;
  }
}

/// Returns a value of which `value` is the transpose by `permutation`, looking through transposes, and through reshapes
/// around them that only merge and split leading dimensions.
static Value baseOf(Emitter &emit, Value value, SmallVector<int64_t> &permutation) {
  while (true) {
    if (auto transpose = value.getDefiningOp<TransposeOp>()) {
      permutation = composed(transpose.getPermutation(), permutation);
      value = transpose.getOperand();
      continue;
    }
    // reshape(transpose(reshape(x))): x [8, 4, 32, 16] -> [32, 32, 16] -> [32, 16, 32] -> [8, 4, 16, 32] is a transpose
    // of x.
    auto outer = value.getDefiningOp<ReshapeOp>();
    auto middle = outer ? outer.getOperand().getDefiningOp<TransposeOp>() : TransposeOp();
    auto inner = middle ? middle.getOperand().getDefiningOp<ReshapeOp>() : ReshapeOp();
    if (!inner || !llvm::equal(middle.getPermutation(), ArrayRef<int64_t>{0, 2, 1}))
      return value;
    auto to = tensorType(outer.getResult()).getShape();
    auto merged = tensorType(middle.getOperand()).getShape();
    if (to.size() != 4 || to[0] * to[1] != merged[0] || to[2] != merged[2] || to[3] != merged[1])
      return value;
    value = emit.reshape(inner.getOperand(), {to[0], to[1], merged[1], merged[2]});
    permutation = composed({0, 1, 3, 2}, permutation);
  }
}

/// Returns [B, T, G, X] for a key or value given as [B, T, H, X], where the H = G * R heads are R copies of each of G
/// heads; otherwise the value itself.
static Value ungrouped(Emitter &emit, Value value, ArrayRef<int64_t> permutation) {
  Value whole = emit.transpose(value, permutation);
  int64_t headDim = permutation[2];
  auto merge = value.getDefiningOp<ReshapeOp>();
  auto copies = merge ? merge.getOperand().getDefiningOp<BroadcastInDimOp>() : BroadcastInDimOp();
  if (!copies)
    return whole;
  auto shape = tensorType(value).getShape();
  auto wide = tensorType(copies.getResult()).getShape();
  if (wide.size() != shape.size() + 1 || wide[headDim] * wide[headDim + 1] != shape[headDim])
    return whole;
  Shape unsplit = withoutDim(wide, headDim + 1);
  unsplit[headDim] *= wide[headDim + 1];
  if (ArrayRef<int64_t>(unsplit) != shape)
    return whole;
  // The copied dimension follows the heads. The operand lacks it, or has size 1 there.
  Value operand = copies.getOperand();
  Shape expected(wide.begin(), wide.end());
  expected[headDim + 1] = 1;
  Shape dropped = withoutDim(wide, headDim + 1);
  auto dims = copies.getBroadcastDimensions();
  bool unit = tensorType(operand).getShape() == ArrayRef<int64_t>(expected);
  bool missing = tensorType(operand).getShape() == ArrayRef<int64_t>(dropped) && !llvm::is_contained(dims, headDim + 1);
  if (!unit && !missing)
    return whole;
  if (unit)
    if (auto insert = operand.getDefiningOp<ReshapeOp>();
        insert && tensorType(insert.getOperand()).getShape() == ArrayRef<int64_t>(dropped))
      operand = insert.getOperand();
  return transposed(emit, emit.reshape(operand, dropped), permutation);
}

/// Returns the mask as [1 or B, 1 or H, S, T], where dimensions that are only broadcast have size 1.
static Value compactMask(Emitter &emit, Value mask) {
  auto broadcast = mask.getDefiningOp<BroadcastInDimOp>();
  if (!broadcast)
    return mask;
  auto full = tensorType(mask).getShape();
  Shape compact(4, 1);
  for (auto [operandDim, dim] : llvm::enumerate(broadcast.getBroadcastDimensions()))
    compact[dim] = tensorType(broadcast.getOperand()).getDimSize(operandDim);
  Value result = emit.reshape(broadcast.getOperand(), compact);
  if (compact[2] == full[2] && compact[3] == full[3])
    return result;
  return emit.broadcast(result, {compact[0], compact[1], full[2], full[3]}, {0, 1, 2, 3});
}

/// Returns whether the mask may depend on a trained parameter (a relative position bias). Such a mask needs a gradient,
/// which the attention op does not compute. A value that a layer gets from @main may be one.
static bool isTrained(Value value) {
  llvm::SetVector<Value> sources;
  sources.insert(value);
  for (size_t i = 0; i < sources.size(); ++i) {
    if (auto argument = dyn_cast<BlockArgument>(sources[i])) {
      auto function = dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp());
      if (function &&
          (function.isPrivate() || function.getArgAttr(argument.getArgNumber(), KerfDialect::kTrainableAttr)))
        return true;
      continue;
    }
    Operation *op = sources[i].getDefiningOp();
    sources.insert(op->operand_begin(), op->operand_end());
  }
  return false;
}

/// Returns the only dimension that is neither batching nor contracting, or -1 where there is not exactly one.
static int64_t freeDim(Value operand, ArrayRef<int64_t> batching, ArrayRef<int64_t> contracting) {
  int64_t found = -1;
  for (int64_t dim = 0; dim < tensorType(operand).getRank(); ++dim) {
    if (llvm::is_contained(batching, dim) || llvm::is_contained(contracting, dim))
      continue;
    if (found >= 0)
      return -1;
    found = dim;
  }
  return found;
}

static bool isHeadProduct(DotGeneralOp op) {
  return op.getLhsBatching().size() == 2 && op.getLhsContracting().size() == 1 &&
         tensorType(op.getLhs()).getRank() == 4 && tensorType(op.getRhs()).getRank() == 4;
}

/// Simplifies an attention that the exporter wrote as one op: removes repeated keys and values, and recognizes
/// a causal mask.
static bool simplifyAttention(AttentionOp op) {
  OpBuilder builder(op);
  Emitter emit{builder, op.getLoc()};
  SmallVector<int64_t> keyOrder = {0, 1, 2, 3}, valueOrder = keyOrder;
  Value key = ungrouped(emit, baseOf(emit, op.getKey(), keyOrder), keyOrder);
  Value value = ungrouped(emit, baseOf(emit, op.getValue(), valueOrder), valueOrder);
  bool grouped =
      key.getType() != op.getKey().getType() && tensorType(key).getDimSize(2) == tensorType(value).getDimSize(2);
  if (grouped) {
    op.getKeyMutable().assign(key);
    op.getValueMutable().assign(value);
  }
  bool causal = op.getMask() && isCausalMask(op.getMask());
  if (causal) {
    op.getMaskMutable().clear();
    op.setCausal(true);
  }
  return grouped || causal;
}

bool kerf::recognizeAttention(Operation *op) {
  if (auto attention = dyn_cast<AttentionOp>(op))
    return simplifyAttention(attention);
  auto output = dyn_cast<DotGeneralOp>(op);
  if (!output || !isHeadProduct(output))
    return false;
  // The product is probabilities times values or, as JAX orders the operands of an einsum, values times probabilities.
  bool valuesFirst = !skipGuard(output.getLhs()).getDefiningOp<SoftmaxOp>();
  Value probabilities = valuesFirst ? output.getRhs() : output.getLhs();
  auto softmax = skipGuard(probabilities).getDefiningOp<SoftmaxOp>();
  auto probabilityBatching = valuesFirst ? output.getRhsBatching() : output.getLhsBatching();
  auto probabilityContracting = valuesFirst ? output.getRhsContracting() : output.getLhsContracting();
  if (!softmax || softmax.getDimension() != 3 || probabilityContracting[0] != 3 ||
      !llvm::equal(probabilityBatching, ArrayRef<int64_t>{0, 1}))
    return false;
  auto scores = scoresOf(softmax.getOperand());
  if (!scores || !isHeadProduct(scores->product) || (scores->mask && isTrained(scores->mask)))
    return false;

  OpBuilder builder(op);
  Emitter emit{builder, op->getLoc()};
  DotGeneralOp product = scores->product;
  double scale = scores->scale;
  auto skipScale = [&](Value value) {
    while (auto scaled = asScaled(value)) {
      scale *= scaled->factor;
      value = scaled->value;
    }
    return value;
  };
  // Returns the order of dimensions that gives [B, S, H, X] for an operand whose batching dimensions are B and H.
  auto orderOf = [](ArrayRef<int64_t> batching, int64_t row, int64_t column) {
    return SmallVector<int64_t>{batching[0], row, batching[1], column};
  };
  auto queryOrder = orderOf(product.getLhsBatching(),
                            freeDim(product.getLhs(), product.getLhsBatching(), product.getLhsContracting()),
                            product.getLhsContracting()[0]);
  auto keyOrder = orderOf(product.getRhsBatching(),
                          freeDim(product.getRhs(), product.getRhsBatching(), product.getRhsContracting()),
                          product.getRhsContracting()[0]);
  Value weighed = valuesFirst ? output.getLhs() : output.getRhs();
  auto valueBatching = valuesFirst ? output.getLhsBatching() : output.getRhsBatching();
  auto valueContracting = valuesFirst ? output.getLhsContracting() : output.getRhsContracting();
  auto valueOrder = orderOf(valueBatching, valueContracting[0], freeDim(weighed, valueBatching, valueContracting));
  Value query = baseOf(emit, skipScale(product.getLhs()), queryOrder);
  query = emit.transpose(query, queryOrder);
  Value keyBase = baseOf(emit, skipScale(product.getRhs()), keyOrder);
  Value valueBase = baseOf(emit, weighed, valueOrder);
  Value key = ungrouped(emit, keyBase, keyOrder);
  Value value = ungrouped(emit, valueBase, valueOrder);
  if (tensorType(key).getDimSize(2) != tensorType(value).getDimSize(2)) {
    key = emit.transpose(keyBase, keyOrder);
    value = emit.transpose(valueBase, valueOrder);
  }
  auto size = [](Value tensor, int64_t dim) { return tensorType(tensor).getDimSize(dim); };
  Type element = tensorType(query).getElementType();
  auto resultType = RankedTensorType::get({size(query, 0), size(query, 1), size(query, 2), size(value, 3)}, element);
  auto lseType = RankedTensorType::get({size(query, 0), size(query, 2), size(query, 1)}, element);
  Value mask = scores->mask ? compactMask(emit, scores->mask) : Value();
  UnitAttr causal = scores->causal ? builder.getUnitAttr() : UnitAttr();
  auto attention = AttentionOp::create(builder, op->getLoc(), resultType, lseType, query, key, value, mask,
                                       builder.getF64FloatAttr(scale), causal, nullptr);
  SmallVector<int64_t> order = valuesFirst ? SmallVector<int64_t>{0, 2, 3, 1} : SmallVector<int64_t>{0, 2, 1, 3};
  output.getResult().replaceAllUsesWith(emit.transpose(attention.getResult(), order));
  return true;
}
