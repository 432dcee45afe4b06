// SPDX-License-Identifier: Apache-2.0
// Composites that look up a row or a class by index: cross_entropy, embedding and their backward ops.
#include "LookupRules.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::ir;

Value kerf::ir::zeroPadding(Emitter &emit, Value local, ArrayRef<int64_t> globalShape, const Sharding &sharding) {
  for (auto [dim, cut] : llvm::enumerate(sharding.dims)) {
    if (!isPadded(globalShape[dim], cut))
      continue;
    local = MaskPaddingOp::create(emit.builder, emit.loc, local.getType(), local, static_cast<uint64_t>(dim),
                                  axisTriples(cut.axes), static_cast<uint64_t>(globalShape[dim]), ReduceKindIR::sum);
  }
  return local;
}

SmallVector<Value> kerf::ir::withZeroedPadding(OpBuilder &builder, Operation *op, ValueRange operands, int index,
                                               const LocalizeContext &context) {
  Emitter emit{builder, op->getLoc()};
  SmallVector<Value> result(operands);
  result[index] = zeroPadding(emit, operands[index], shapeOf(op->getOperand(index)), context.sharding.operands[index]);
  return result;
}

Value kerf::ir::shardOffset(Emitter &emit, const DimSharding &dimension) {
  if (dimension.axes.empty())
    return Value();
  auto type = RankedTensorType::get({}, emit.builder.getI64Type());
  return ShardOffsetOp::create(emit.builder, emit.loc, type, axisTriples(dimension.axes),
                               static_cast<uint64_t>(dimension.chunk));
}

LogicalResult kerf::ir::checkOffset(Operation *op, Value offset) {
  if (!offset)
    return success();
  if (!tensorType(offset).getElementType().isInteger(64))
    return op->emitOpError() << "offset's element type is " << tensorType(offset).getElementType()
                             << ", but should be i64";
  return checkShape(op, "offset", offset, {});
}

//===-- cross_entropy ---------------------------------------------------------------------------------------------===//

static LogicalResult checkCrossEntropy(Operation *op, Value logits, Value labels, Value lse,
                                       std::optional<uint64_t> classes) {
  if (tensorType(logits).getRank() == 0)
    return op->emitOpError() << "logits have rank 0, but should have at least 1";
  auto rows = tensorType(logits).getShape().drop_back();
  int64_t columns = tensorType(logits).getShape().back();
  if (auto count = static_cast<int64_t>(classes.value_or(columns)); count < 0 || count > columns)
    return op->emitOpError() << "has " << count << " classes, but should have 0 to " << columns
                             << ", the number of columns of its logits";
  if (failed(checkShape(op, "labels", labels, rows)))
    return failure();
  return checkShape(op, "lse", lse, rows);
}

/// The sharding rule of cross_entropy and its backward op: rows may be sharded as they are, classes after
/// decomposition. `rows` and `logits` are the maps of the op's tensors.
namespace {
struct CrossEntropyRule : RuleWriter {
  FactorMap rows, logits;
  explicit CrossEntropyRule(Value operand)
      : rows(dims("i", tensorType(operand).getShape().drop_back())),
        logits(rows + FactorMap{{factor("v", tensorType(operand).getShape().back(), FactorKind::Decomposed)}}) {}
};
} // namespace

/// Returns an i1 tensor of the logits' shape that is true at the class that is the row's label. It is computed by
/// comparison with an iota, so that the class dimension can be sharded.
static Value isLabel(Emitter &emit, Value logits, Value labels) {
  auto shape = tensorType(logits).getShape();
  int64_t last = static_cast<int64_t>(shape.size()) - 1;
  Value classes = emit.iota(shape, tensorType(labels).getElementType(), last);
  return emit.compare(classes, emit.broadcastAlong(labels, logits, last), Comparison::EQ);
}

/// Returns x in rows whose label counts, and 0 in rows whose label is `ignoreIndex`.
static Value whereCounts(Emitter &emit, Value labels, int64_t ignoreIndex, Value x) {
  Value counts = emit.compare(labels, emit.splat(ignoreIndex, labels), Comparison::NE);
  return emit.select(counts, x, emit.splat(0.0, x));
}

LogicalResult CrossEntropyOp::verify() {
  if (failed(checkCrossEntropy(*this, getLogits(), getLabels(), getLse(), getClasses())))
    return failure();
  return checkShape(*this, "result", getResult(), tensorType(getLogits()).getShape().drop_back());
}

Rule CrossEntropyOp::getShardingRule() {
  CrossEntropyRule writer(getLogits());
  writer.rule.operands = {writer.logits, writer.rows};
  writer.rule.results = {writer.rows, writer.rows};
  return writer.rule;
}

FailureOr<SmallVector<Value>> CrossEntropyOp::localize(OpBuilder &builder, ValueRange operands, TypeRange resultTypes,
                                                       const LocalizeContext &context) {
  return cloneWithTypes(builder, *this, withZeroedPadding(builder, *this, operands, 1, context), resultTypes);
}

double CrossEntropyOp::getFlops() {
  return kCrossEntropyFlops * static_cast<double>(getLogits().getType().getNumElements());
}
KernelClass CrossEntropyOp::getKernelClass() { return KernelClass::Reduction; }

LogicalResult CrossEntropyOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGradients, ArrayRef<bool> wanted,
                                            SmallVectorImpl<Value> &operandGradients) {
  operandGradients.assign(2, Value());
  if (failed(refuseGradient(*this, "lse", resultGradients[1])))
    return failure();
  if (wanted[0])
    operandGradients[0] =
        CrossEntropyBackwardOp::create(builder, getLoc(), getLogits().getType(), getLogits(), getLabels(), getLse(),
                                       resultGradients[0], getIgnoreIndexAttr(), getClassesAttr());
  return success();
}

SmallVector<Value> CrossEntropyOp::decompose(OpBuilder &builder) {
  Emitter emit{builder, getLoc()};
  Value x = getLogits();
  int64_t last = tensorType(x).getRank() - 1;
  Value largest = emit.reduce(x, ReduceKindIR::max, {last});
  Value exponentials = emit.exponential(emit.subtract(x, emit.broadcastAlong(largest, x, last)));
  Value lse = emit.add(emit.log(emit.sum(exponentials, {last})), largest);
  Value picked = emit.sum(emit.select(isLabel(emit, x, getLabels()), x, emit.splat(0.0, x)), {last});
  return {whereCounts(emit, getLabels(), static_cast<int64_t>(getIgnoreIndex()), emit.subtract(lse, picked)), lse};
}

LogicalResult CrossEntropyBackwardOp::verify() {
  if (failed(checkCrossEntropy(*this, getLogits(), getLabels(), getLse(), getClasses())) ||
      failed(checkShape(*this, "gradient", getGradient(), tensorType(getLogits()).getShape().drop_back())))
    return failure();
  return checkShape(*this, "result", getResult(), tensorType(getLogits()).getShape());
}

Rule CrossEntropyBackwardOp::getShardingRule() {
  CrossEntropyRule writer(getLogits());
  writer.rule.operands = {writer.logits, writer.rows, writer.rows, writer.rows};
  writer.rule.results = {writer.logits};
  writer.linear({3}, {0});
  return writer.rule;
}

FailureOr<SmallVector<Value>> CrossEntropyBackwardOp::localize(OpBuilder &builder, ValueRange operands,
                                                               TypeRange resultTypes, const LocalizeContext &context) {
  return cloneWithTypes(builder, *this, withZeroedPadding(builder, *this, operands, 1, context), resultTypes);
}

double CrossEntropyBackwardOp::getFlops() {
  return kCrossEntropyBackwardFlops * static_cast<double>(getLogits().getType().getNumElements());
}
KernelClass CrossEntropyBackwardOp::getKernelClass() { return KernelClass::Reduction; }

SmallVector<Value> CrossEntropyBackwardOp::decompose(OpBuilder &builder) {
  Emitter emit{builder, getLoc()};
  Value x = getLogits();
  int64_t last = tensorType(x).getRank() - 1;
  Value probabilities = emit.exponential(emit.subtract(x, emit.broadcastAlong(getLse(), x, last)));
  Value oneHot = emit.convert(isLabel(emit, x, getLabels()), tensorType(x).getElementType());
  Value gradient = whereCounts(emit, getLabels(), static_cast<int64_t>(getIgnoreIndex()), getGradient());
  return {emit.multiply(emit.subtract(probabilities, oneHot), emit.broadcastAlong(gradient, x, last))};
}

//===-- embedding -------------------------------------------------------------------------------------------------===//

/// The sharding rule of embedding and its backward op, with the maps of `table` [v, d], `indices` [t..] and
/// rows [t.., d].
namespace {
struct EmbeddingRule : RuleWriter {
  FactorMap table, indices, rows;
  EmbeddingRule(RankedTensorType tableType, RankedTensorType indexType) {
    int v = factor("v", tableType.getDimSize(0));
    int d = factor("d", tableType.getDimSize(1));
    table = {{v}, {d}};
    indices = dims("t", indexType.getShape());
    rows = indices + FactorMap{{d}};
  }
};
} // namespace

static LogicalResult checkEmbedding(Operation *op, Value table, Value indices, Value rows, Value offset,
                                    int64_t globalRows) {
  if (tensorType(table).getRank() != 2)
    return op->emitOpError() << "table has rank " << tensorType(table).getRank() << ", but should have 2";
  Shape expected = shapeOf(indices);
  expected.push_back(tensorType(table).getDimSize(1));
  if (failed(checkShape(op, "tensor of rows", rows, expected)))
    return failure();
  if (!offset && tensorType(table).getDimSize(0) != globalRows)
    return op->emitOpError() << "rows is " << globalRows << ", but should be " << tensorType(table).getDimSize(0)
                             << ", the rows of the table";
  return checkOffset(op, offset);
}

LogicalResult EmbeddingOp::verify() {
  return checkEmbedding(*this, getTable(), getIndices(), getResult(), getOffset(), static_cast<int64_t>(getRows()));
}

Rule EmbeddingOp::getShardingRule() {
  EmbeddingRule writer(getTable().getType(), getIndices().getType());
  writer.rule.operands = {writer.table, writer.indices};
  if (getOffset())
    writer.rule.operands.push_back({});
  writer.rule.results = {writer.rows};
  writer.linear({0}, {0});
  return writer.rule;
}

FailureOr<SmallVector<Value>> EmbeddingOp::localize(OpBuilder &builder, ValueRange operands, TypeRange resultTypes,
                                                    const LocalizeContext &context) {
  Emitter emit{builder, getLoc()};
  SmallVector<Value> local = withZeroedPadding(builder, *this, operands, 1, context);
  Value offset = shardOffset(emit, context.sharding.operands[0].dims[0]);
  return SmallVector<Value>{
      EmbeddingOp::create(builder, getLoc(), resultTypes[0], local[0], local[1], offset, getRowsAttr())};
}

double EmbeddingOp::getFlops() { return 0; }
KernelClass EmbeddingOp::getKernelClass() { return KernelClass::Gather; }
void EmbeddingOp::describe(ArrayRef<Shape> operands, ArrayRef<Shape> results, Work &work) {
  countPickedBytesOnly(*this, operands, results, work);
}

LogicalResult EmbeddingOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGradients, ArrayRef<bool> wanted,
                                         SmallVectorImpl<Value> &operandGradients) {
  operandGradients.assign(getNumOperands(), Value());
  if (wanted[0])
    operandGradients[0] = EmbeddingBackwardOp::create(builder, getLoc(), getTable().getType(), getIndices(),
                                                      resultGradients[0], getOffset(), getRowsAttr());
  return success();
}

/// Returns the tensor [t.., v] that is 1 where the index at t names row v of the rank's shard, and 0 elsewhere.
static Value oneHotRows(Emitter &emit, Value indices, Value offset, RankedTensorType table) {
  Shape shape = shapeOf(indices);
  int64_t last = static_cast<int64_t>(shape.size());
  shape.push_back(table.getDimSize(0));
  Value numbers = emit.iota(shape, tensorType(indices).getElementType(), last);
  if (offset) {
    Value first = emit.convert(offset, tensorType(indices).getElementType());
    numbers = emit.add(numbers, emit.broadcast(first, shape, {}));
  }
  return emit.convert(emit.compare(numbers, emit.broadcastAlong(indices, numbers, last), Comparison::EQ),
                      table.getElementType());
}

SmallVector<Value> EmbeddingOp::decompose(OpBuilder &builder) {
  Emitter emit{builder, getLoc()};
  // The gradient is a product with one-hot rows, not a gather, because the product's rows can be sharded
  // like the table's.
  Value oneHot = oneHotRows(emit, getIndices(), getOffset(), getTable().getType());
  return {emit.dot(oneHot, getTable(), {}, {}, {getIndices().getType().getRank()}, {0})};
}

LogicalResult EmbeddingBackwardOp::verify() {
  return checkEmbedding(*this, getResult(), getIndices(), getGradient(), getOffset(), static_cast<int64_t>(getRows()));
}

Rule EmbeddingBackwardOp::getShardingRule() {
  EmbeddingRule writer(getResult().getType(), getIndices().getType());
  writer.rule.operands = {writer.indices, writer.rows};
  if (getOffset())
    writer.rule.operands.push_back({});
  writer.rule.results = {writer.table};
  writer.linear({1}, {0});
  return writer.rule;
}

FailureOr<SmallVector<Value>> EmbeddingBackwardOp::localize(OpBuilder &builder, ValueRange operands,
                                                            TypeRange resultTypes, const LocalizeContext &context) {
  Emitter emit{builder, getLoc()};
  SmallVector<Value> local = withZeroedPadding(builder, *this, operands, 0, context);
  Value offset = shardOffset(emit, context.sharding.results[0].dims[0]);
  return SmallVector<Value>{
      EmbeddingBackwardOp::create(builder, getLoc(), resultTypes[0], local[0], local[1], offset, getRowsAttr())};
}

double EmbeddingBackwardOp::getFlops() { return static_cast<double>(getGradient().getType().getNumElements()); }
KernelClass EmbeddingBackwardOp::getKernelClass() { return KernelClass::Gather; }

LogicalResult EmbeddingBackwardOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGradients,
                                                 ArrayRef<bool> wanted, SmallVectorImpl<Value> &operandGradients) {
  operandGradients.assign(getNumOperands(), Value());
  if (wanted[1])
    operandGradients[1] = EmbeddingOp::create(builder, getLoc(), getGradient().getType(), resultGradients[0],
                                              getIndices(), getOffset(), getRowsAttr());
  return success();
}

SmallVector<Value> EmbeddingBackwardOp::decompose(OpBuilder &builder) {
  Emitter emit{builder, getLoc()};
  Value oneHot = oneHotRows(emit, getIndices(), getOffset(), getResult().getType());
  Shape tokens = firstDims(getIndices().getType().getRank());
  return {emit.dot(oneHot, getGradient(), {}, {}, tokens, tokens)};
}
