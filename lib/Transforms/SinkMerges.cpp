// SPDX-License-Identifier: Apache-2.0
// Moving reshapes that merge dimensions below ops that can work on the separate dimensions: [8, 32, 64] -> [256, 64] ->
// op becomes op -> [8, 32, ..] -> [256, ..].
#include "FoldReshapes.h"

using namespace mlir;
using namespace kerf::ir;

namespace kerf {

/// Returns the parts of a value's dimensions that a reshape merged, or nothing where the value is no merge.
static std::optional<Parts> mergedParts(Value value) {
  auto reshape = value.getDefiningOp<ReshapeOp>();
  if (!reshape)
    return std::nullopt;
  auto parts = splitParts(tensorType(value).getShape(), tensorType(reshape.getOperand()).getShape());
  return parts && !isTrivial(*parts) ? parts : std::nullopt;
}

/// Replaces `op` by the same op on `operands`, whose results have the parts `resultParts` and are then merged.
static bool replaceMerged(Operation *op, ValueRange operands, ArrayRef<Parts> resultParts) {
  OpBuilder builder(op);
  SmallVector<Shape> shapes;
  for (const Parts &parts : resultParts)
    shapes.push_back(splitShape(parts));
  Operation *made = cloneWithShapes(builder, op, operands, shapes);
  for (auto [old, result] : llvm::zip(op->getResults(), made->getResults()))
    old.replaceAllUsesWith(reshapeAt(builder, op->getLoc(), result, tensorType(old).getShape()));
  return true;
}

static bool sinkElementwise(Operation *op) {
  std::optional<Parts> parts;
  for (Value operand : op->getOperands())
    if (auto merged = mergedParts(operand);
        merged && (!parts || splitShape(*merged).size() > splitShape(*parts).size()))
      parts = merged;
  if (!parts || !llvm::all_of(op->getOperands(), [&](Value operand) { return canSplit(operand, *parts, Users::One); }))
    return false;
  Splitter splitter;
  SmallVector<Value> operands;
  for (Value operand : op->getOperands())
    operands.push_back(splitter.split(operand, *parts));
  return replaceMerged(op, operands, {*parts});
}

/// Dropout depends on an element's index in row-major order, which a reshape does not change.
static bool sinkIntoDropout(DropoutOp op) {
  auto parts = mergedParts(op.getOperand());
  if (!parts)
    return false;
  SmallVector<Value> operands(op->getOperands());
  operands[0] = operands[0].getDefiningOp()->getOperand(0);
  return replaceMerged(op, operands, {*parts});
}

/// Returns the parts with each dimension unsplit for which `keep` is false.
template <typename Keep> static Parts restricted(const Parts &parts, ArrayRef<int64_t> shape, Keep keep) {
  Parts result = parts;
  for (size_t dim = 0; dim < parts.size(); ++dim)
    if (!keep(static_cast<int64_t>(dim)))
      result[dim] = {shape[dim]};
  return result;
}

static bool sinkIntoProduct(DotGeneralOp op) {
  for (bool left : {true, false}) {
    Value mine = left ? op.getLhs() : op.getRhs();
    Value other = left ? op.getRhs() : op.getLhs();
    auto parts = mergedParts(mine);
    if (!parts)
      continue;
    auto batching = left ? op.getLhsBatching() : op.getRhsBatching();
    auto otherBatching = left ? op.getRhsBatching() : op.getLhsBatching();
    auto contracting = left ? op.getLhsContracting() : op.getRhsContracting();
    auto otherContracting = left ? op.getRhsContracting() : op.getLhsContracting();
    auto otherShape = tensorType(other).getShape();
    // The other operand has to be split in the same way, dimension by dimension, as far as possible.
    Parts otherParts = wholeParts(otherShape);
    Parts taken = *parts;
    auto follow = [&](ArrayRef<int64_t> dims, ArrayRef<int64_t> otherDims) {
      for (auto [dim, otherDim] : llvm::zip(dims, otherDims)) {
        Parts wanted = otherParts;
        wanted[otherDim] = taken[dim];
        if (canSplit(other, wanted, Users::One))
          otherParts = wanted;
        else
          taken[dim] = {tensorType(mine).getDimSize(dim)};
      }
    };
    follow(batching, otherBatching);
    follow(contracting, otherContracting);
    if (isTrivial(taken))
      continue;
    OpBuilder builder(op);
    Value source = mine.getDefiningOp()->getOperand(0);
    Value mineSplit = reshapeAt(builder, mine.getLoc(), source, splitShape(taken));
    Value otherSplit = Splitter().split(other, otherParts);
    Value made = left ? splitProduct(op, mineSplit, taken, otherSplit, otherParts)
                      : splitProduct(op, otherSplit, otherParts, mineSplit, taken);
    op.getResult().replaceAllUsesWith(reshapeAt(builder, op.getLoc(), made, tensorType(op.getResult()).getShape()));
    return true;
  }
  return false;
}

static bool sinkIntoReduce(ReduceOp op) {
  auto parts = mergedParts(op.getOperand());
  if (!parts)
    return false;
  std::vector<int64_t> first = firstPart(*parts);
  SmallVector<int64_t> dims;
  Parts kept;
  for (size_t dim = 0; dim < parts->size(); ++dim) {
    if (!llvm::is_contained(op.getDimensions(), static_cast<int64_t>(dim))) {
      kept.push_back((*parts)[dim]);
      continue;
    }
    for (size_t part = 0; part < (*parts)[dim].size(); ++part)
      dims.push_back(first[dim] + static_cast<int64_t>(part));
  }
  OpBuilder builder(op);
  Value source = op.getOperand().getDefiningOp()->getOperand(0);
  auto type = RankedTensorType::get(splitShape(kept), tensorType(op.getResult()).getElementType());
  auto made = ReduceOp::create(builder, op.getLoc(), type, source, op.getKind(), dims);
  made->setDiscardableAttrs(op->getDiscardableAttrDictionary());
  op.getResult().replaceAllUsesWith(reshapeAt(builder, op.getLoc(), made, tensorType(op.getResult()).getShape()));
  return true;
}

/// Moves a merge below norms, softmax and the loss, for which all dimensions but one are rows.
static bool sinkIntoRows(Operation *op) {
  Value operand = op->getOperand(0);
  auto merged = mergedParts(operand);
  int64_t last = tensorType(operand).getRank() - 1;
  auto softmax = dyn_cast<SoftmaxOp>(op);
  int64_t fixed = softmax ? static_cast<int64_t>(softmax.getDimension()) : last;
  if (!merged)
    return false;
  Parts parts = restricted(*merged, tensorType(operand).getShape(), [&](int64_t dim) { return dim != fixed; });
  if (isTrivial(parts))
    return false;
  OpBuilder builder(op);
  SmallVector<Value> operands(op->getOperands());
  operands[0] = reshapeAt(builder, op->getLoc(), operand.getDefiningOp()->getOperand(0), splitShape(parts));
  if (softmax) {
    Operation *made = cloneWithShapes(builder, op, operands, {splitShape(parts)});
    cast<SoftmaxOp>(made).setDimension(firstPart(parts)[fixed]);
    softmax.getResult().replaceAllUsesWith(
        reshapeAt(builder, op->getLoc(), made->getResult(0), tensorType(softmax.getResult()).getShape()));
    return true;
  }
  Parts rows(parts.begin(), parts.end() - 1);
  if (isa<CrossEntropyOp>(op)) {
    if (!canSplit(operands[1], rows, Users::One))
      return false;
    operands[1] = Splitter().split(operands[1], rows);
    return replaceMerged(op, operands, {rows, rows});
  }
  std::vector<Parts> results(op->getNumResults(), rows); // statistics have one number for each row
  results[0] = parts;
  return replaceMerged(op, operands, results);
}

static bool sinkIntoEmbedding(EmbeddingOp op) {
  auto parts = mergedParts(op.getIndices());
  if (!parts)
    return false;
  Parts rows = *parts;
  rows.push_back({op.getTable().getType().getDimSize(1)});
  return replaceMerged(op, {op.getTable(), op.getIndices().getDefiningOp()->getOperand(0)}, {rows});
}

bool sinkMerges(Operation *op) {
  if (op->use_empty())
    return false;
  if (isElementwise(op))
    return sinkElementwise(op);
  if (auto dropout = dyn_cast<DropoutOp>(op))
    return sinkIntoDropout(dropout);
  if (auto product = dyn_cast<DotGeneralOp>(op))
    return sinkIntoProduct(product);
  if (auto reduce = dyn_cast<ReduceOp>(op))
    return sinkIntoReduce(reduce);
  if (op->hasTrait<NormalizesRows>() || isa<SoftmaxOp>(op) || isa<CrossEntropyOp>(op))
    return sinkIntoRows(op);
  if (auto embedding = dyn_cast<EmbeddingOp>(op))
    return sinkIntoEmbedding(embedding);
  return false;
}

} // namespace kerf
