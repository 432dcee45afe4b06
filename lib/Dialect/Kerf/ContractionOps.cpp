// SPDX-License-Identifier: Apache-2.0
// Ops that sum over dimensions or look elements up by index: verifiers, sharding rules, work and gradients.
#include "CompositeRules.h"
#include "kerf/Dialect/Kerf/Quantize.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::ir;

//===-- dot_general -----------------------------------------------------------------------------------------------===//

namespace {

/// Returns the dimensions of a tensor of `rank` dimensions that are in neither list.
SmallVector<int64_t> freeDims(int64_t rank, ArrayRef<int64_t> batching, ArrayRef<int64_t> contracting) {
  SmallVector<int64_t> dims;
  for (int64_t dim = 0; dim < rank; ++dim)
    if (!llvm::is_contained(batching, dim) && !llvm::is_contained(contracting, dim))
      dims.push_back(dim);
  return dims;
}

SmallVector<int64_t> lhsFree(DotGeneralOp op) {
  return freeDims(tensorType(op.getLhs()).getRank(), op.getLhsBatching(), op.getLhsContracting());
}

SmallVector<int64_t> rhsFree(DotGeneralOp op) {
  return freeDims(tensorType(op.getRhs()).getRank(), op.getRhsBatching(), op.getRhsContracting());
}

/// Checks one operand's batching and contracting dimensions: each lies within the operand's rank, and none
/// is listed twice.
LogicalResult checkSide(DotGeneralOp op, StringRef side, Value value, ArrayRef<int64_t> batching,
                        ArrayRef<int64_t> contracting) {
  SmallVector<int64_t> seen;
  for (int64_t dim : llvm::concat<const int64_t>(batching, contracting)) {
    if (dim < 0 || dim >= tensorType(value).getRank())
      return op.emitOpError() << "names dimension " << dim << " of " << side
                              << ", which must be at least 0 and below the rank " << tensorType(value).getRank();
    if (llvm::is_contained(seen, dim))
      return op.emitOpError() << "names dimension " << dim << " of " << side
                              << " twice; each dimension may be named only once";
    seen.push_back(dim);
  }
  return success();
}

/// Checks that lhs and rhs list equally many dimensions, of equal sizes. `verb` is the word for the list in messages.
LogicalResult checkPairs(DotGeneralOp op, StringRef verb, ArrayRef<int64_t> lhs, ArrayRef<int64_t> rhs) {
  if (lhs.size() != rhs.size())
    return op.emitOpError() << verb << " " << lhs.size() << " dimensions of lhs with " << rhs.size()
                            << " of rhs; both need the same number";
  for (auto [left, right] : llvm::zip(lhs, rhs)) {
    int64_t leftSize = tensorType(op.getLhs()).getDimSize(left), rightSize = tensorType(op.getRhs()).getDimSize(right);
    if (leftSize != rightSize)
      return op.emitOpError() << "dimension " << left << " of lhs " << verb << " with dimension " << right
                              << " of rhs: sizes " << leftSize << " != " << rightSize << "; they must agree";
  }
  return success();
}

/// Returns the name of factor i of `count`: "m" if it is the only one, else "m0", "m1", ...
std::string numbered(StringRef prefix, size_t i, size_t count) {
  return count == 1 ? prefix.str() : prefix.str().append(std::to_string(i));
}

} // namespace

LogicalResult DotGeneralOp::verify() {
  if (failed(checkSide(*this, "lhs", getLhs(), getLhsBatching(), getLhsContracting())) ||
      failed(checkSide(*this, "rhs", getRhs(), getRhsBatching(), getRhsContracting())) ||
      failed(checkPairs(*this, "batches", getLhsBatching(), getRhsBatching())) ||
      failed(checkPairs(*this, "contracts", getLhsContracting(), getRhsContracting())))
    return failure();
  Type left = tensorType(getLhs()).getElementType(), right = tensorType(getRhs()).getElementType(),
       out = getType().getElementType();
  bool areFloat8 = isFloat8(left) && isFloat8(right);
  if ((left != right && !areFloat8) || !mayAccumulateIn(left, out))
    return emitOpError() << "has elements of " << left << " in lhs, " << right << " in rhs and " << out
                         << " in the result; they must agree, but the result of 16-bit floats may be f32";
  if (isa<Float8E5M2Type>(left) && isa<Float8E5M2Type>(right))
    return emitOpError() << "has two factors of f8E5M2; at least one must be f8E4M3FN";
  if (getMagnitudes().size() != (areFloat8 ? 2 : 0))
    return emitOpError() << "has " << getMagnitudes().size() << " magnitudes for factors of " << left << " and "
                         << right << "; 8-bit factors need 2, other factors none";
  for (Value magnitude : getMagnitudes())
    if (failed(checkShape(*this, "a magnitude", magnitude, {})))
      return failure();
  SmallVector<int64_t> expected;
  for (int64_t dim : getLhsBatching())
    expected.push_back(tensorType(getLhs()).getDimSize(dim));
  for (int64_t dim : lhsFree(*this))
    expected.push_back(tensorType(getLhs()).getDimSize(dim));
  for (int64_t dim : rhsFree(*this))
    expected.push_back(tensorType(getRhs()).getDimSize(dim));
  return checkShape(*this, "result", getResult(), expected);
}

// ([b, m, k], [b, k, n]) -> ([b, m, n])  k: reduction(sum)
Rule DotGeneralOp::getShardingRule() {
  RuleWriter writer;
  Shape left = shapeOf(getLhs()), right = shapeOf(getRhs());
  FactorMap lhs(left.size()), rhs(right.size()), result;
  SmallVector<int64_t> rows = lhsFree(*this), columns = rhsFree(*this);
  for (size_t i = 0, count = getLhsBatching().size(); i < count; ++i) {
    int factor = writer.factor(numbered("b", i, count), left[getLhsBatching()[i]]);
    lhs[getLhsBatching()[i]] = rhs[getRhsBatching()[i]] = {factor};
    result.push_back({factor});
  }
  for (size_t i = 0; i < rows.size(); ++i)
    result.push_back(lhs[rows[i]] = {writer.factor(numbered("m", i, rows.size()), left[rows[i]])});
  for (size_t i = 0, count = getLhsContracting().size(); i < count; ++i)
    lhs[getLhsContracting()[i]] =
        rhs[getRhsContracting()[i]] = {writer.factor(numbered("k", i, count), left[getLhsContracting()[i]])};
  for (size_t i = 0; i < columns.size(); ++i)
    result.push_back(rhs[columns[i]] = {writer.factor(numbered("n", i, columns.size()), right[columns[i]])});
  writer.rule.operands = {lhs, rhs};
  writer.rule.operands.resize(getNumOperands());
  writer.rule.results = {result};
  writer.linear({0}, {0});
  writer.linear({1}, {0});
  return writer.rule;
}

double DotGeneralOp::getFlops() { // 2 * b * m * n * k
  double flops = 2.0 * elements(getResult());
  for (int64_t dim : getLhsContracting())
    flops *= static_cast<double>(tensorType(getLhs()).getDimSize(dim));
  return flops;
}

KernelClass DotGeneralOp::getKernelClass() { return KernelClass::Product; }

void DotGeneralOp::describe(ArrayRef<Shape> operands, ArrayRef<Shape> results, Work &work) {
  auto count = [&](ArrayRef<int64_t> dims) {
    double product = 1;
    for (int64_t dim : dims)
      product *= static_cast<double>(operands[0][dim]);
    return product;
  };
  work.batch = count(getLhsBatching());
  work.k = count(getLhsContracting());
  work.m = elementsIn(operands[0]) / (work.batch * work.k);
  work.n = elementsIn(operands[1]) / (work.batch * work.k);
}

namespace {

/// Emits a product. 8-bit factors have magnitudes, and their product has elements of the type `element`.
Value productOf(Emitter &emit, const QuantizedFactor &x, const QuantizedFactor &y, ArrayRef<int64_t> xBatching,
                ArrayRef<int64_t> yBatching, ArrayRef<int64_t> xContracting, ArrayRef<int64_t> yContracting,
                Type element) {
  SmallVector<Value, 2> magnitudes;
  if (x.magnitude)
    magnitudes = {x.magnitude, y.magnitude};
  return emit.dot(x.value, y.value, xBatching, yBatching, xContracting, yContracting, element, magnitudes);
}

/// One operand of a product, from the viewpoint of the operand's gradient. This gradient is the product of the result's
/// gradient and of the other operand, which contracts the dimensions that the other operand contributed to the result.
struct ProductSide {
  Value operand;
  QuantizedFactor other;
  ArrayRef<int64_t> batching, otherBatching, contracting, otherContracting;
  SmallVector<int64_t> free, otherFree; // remaining dimensions of this operand and of the other one
  int64_t firstOtherFree;               // position in the result at which `otherFree` begins
};

/// Returns the permutation that puts dimensions in place: dimension p of the given tensor becomes dimension order[p].
SmallVector<int64_t> inverse(ArrayRef<int64_t> order) {
  SmallVector<int64_t> permutation(order.size());
  for (auto [position, dim] : llvm::enumerate(order))
    permutation[dim] = position;
  return permutation;
}

Value productGradient(Emitter &emit, const ProductSide &side, const QuantizedFactor &gradient, Type element) {
  Shape batch = firstDims(side.batching.size());
  SmallVector<int64_t> meeting; // the result's dimensions that the other operand contributed
  for (size_t i = 0; i < side.otherFree.size(); ++i)
    meeting.push_back(side.firstOtherFree + i);
  // The other operand's contracting dimensions remain in its own order; each corresponds to a dimension
  // of this operand.
  SmallVector<int64_t> sortedContracting(side.otherContracting), partners;
  llvm::sort(sortedContracting);
  for (int64_t dim : sortedContracting)
    partners.push_back(side.contracting[llvm::find(side.otherContracting, dim) - side.otherContracting.begin()]);
  // Both orders of the two factors give the gradient up to a transpose. The order that needs no transpose is taken.
  SmallVector<int64_t> freeFirst(side.batching), freeLast(side.batching);
  llvm::append_range(freeFirst, side.free);
  llvm::append_range(freeFirst, partners);
  llvm::append_range(freeLast, partners);
  llvm::append_range(freeLast, side.free);
  if (!llvm::is_sorted(freeFirst) && llvm::is_sorted(freeLast))
    return productOf(emit, side.other, gradient, side.otherBatching, batch, side.otherFree, meeting, element);
  Value product = productOf(emit, gradient, side.other, batch, side.otherBatching, meeting, side.otherFree, element);
  return emit.transpose(product, inverse(freeFirst));
}

} // namespace

LogicalResult DotGeneralOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGradients, ArrayRef<bool> wanted,
                                          SmallVectorImpl<Value> &operandGradients) {
  Emitter emit{builder, getLoc()};
  operandGradients.assign(getNumOperands(), Value());
  SmallVector<int64_t> rows = lhsFree(*this), columns = rhsFree(*this);
  int64_t firstRow = getLhsBatching().size(), firstColumn = firstRow + rows.size();
  bool areFloat8 = !getMagnitudes().empty();
  QuantizedFactor lhs{getLhs(), areFloat8 ? getMagnitudes()[0] : Value()},
      rhs{getRhs(), areFloat8 ? getMagnitudes()[1] : Value()};
  ProductSide left{getLhs(), rhs,     getLhsBatching(), getRhsBatching(), getLhsContracting(), getRhsContracting(),
                   rows,     columns, firstColumn};
  ProductSide right{getRhs(), lhs,  getRhsBatching(), getLhsBatching(), getRhsContracting(), getLhsContracting(),
                    columns,  rows, firstRow};
  Type element = areFloat8 ? getType().getElementType() : tensorType(getLhs()).getElementType();
  Value given = emit.convert(resultGradients[0], element);
  QuantizedFactor gradient =
      areFloat8 ? quantized(emit, given, Float8E5M2Type::get(getContext())) : QuantizedFactor{given, {}};
  if (wanted[0])
    operandGradients[0] = productGradient(emit, left, gradient, element);
  if (wanted[1])
    operandGradients[1] = productGradient(emit, right, gradient, element);
  return success();
}

//===-- reduce ----------------------------------------------------------------------------------------------------===//

LogicalResult ReduceOp::verify() {
  ArrayRef<int64_t> from = tensorType(getOperand()).getShape(), dims = getDimensions();
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] < 0 || dims[i] >= static_cast<int64_t>(from.size()))
      return emitOpError() << "dimensions has entry " << dims[i]
                           << ", which must be at least 0 and below the operand's rank " << from.size();
    if (i > 0 && dims[i] <= dims[i - 1])
      return emitOpError() << "dimensions has entry " << dims[i] << " after " << dims[i - 1]
                           << "; entries must increase";
  }
  Type element = tensorType(getOperand()).getElementType();
  Type result = getType().getElementType();
  if (element != result && (getKind() != ReduceKindIR::sum || !mayAccumulateIn(element, result)))
    return emitOpError() << "has operand elements of " << element << " and result elements of " << result
                         << "; they must agree, but a sum of 16-bit floats may be f32";
  SmallVector<int64_t> expected;
  for (int64_t dim : freeDims(from.size(), dims, {}))
    expected.push_back(from[dim]);
  return checkShape(*this, "result", getResult(), expected);
}

static ReduceKind plainKind(ReduceKindIR kind) {
  return kind == ReduceKindIR::sum ? ReduceKind::Sum : kind == ReduceKindIR::max ? ReduceKind::Max : ReduceKind::Min;
}

// ([p, r]) -> ([p])  r: reduction(sum)
Rule ReduceOp::getShardingRule() {
  RuleWriter writer;
  Shape from = shapeOf(getOperand());
  FactorMap operand(from.size()), result;
  SmallVector<int64_t> kept = freeDims(from.size(), getDimensions(), {});
  for (size_t i = 0; i < kept.size(); ++i)
    result.push_back(operand[kept[i]] = {writer.factor(numbered("p", i, kept.size()), from[kept[i]])});
  for (size_t i = 0, count = getDimensions().size(); i < count; ++i) {
    int factor = writer.factor(numbered("r", i, count), from[getDimensions()[i]]);
    writer.rule.factors[factor].reduction = plainKind(getKind());
    operand[getDimensions()[i]] = {factor};
  }
  writer.rule.operands = {operand};
  writer.rule.results = {result};
  if (getKind() == ReduceKindIR::sum)
    writer.linear({0}, {0});
  return writer.rule;
}

double ReduceOp::getFlops() { return elements(getOperand()); }

KernelClass ReduceOp::getKernelClass() { return KernelClass::Reduction; }

LogicalResult ReduceOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGradients, ArrayRef<bool> wanted,
                                      SmallVectorImpl<Value> &operandGradients) {
  Emitter emit{builder, getLoc()};
  operandGradients.assign(1, Value());
  if (!wanted[0] || !isa<FloatType>(getType().getElementType()))
    return success();
  ArrayRef<int64_t> from = tensorType(getOperand()).getShape();
  SmallVector<int64_t> kept = freeDims(from.size(), getDimensions(), {});
  Value gradient = emit.convert(resultGradients[0], tensorType(getOperand()).getElementType());
  if (getKind() == ReduceKindIR::sum) {
    operandGradients[0] = emit.broadcast(gradient, from, kept);
    return success();
  }
  // The elements that equal the extremum share the gradient equally.
  Value reaches = emit.compare(getOperand(), emit.broadcast(getResult(), from, kept), Comparison::EQ);
  Value count = emit.sum(emit.convert(reaches, getType().getElementType()), getDimensions());
  Value share = emit.broadcast(emit.divide(gradient, count), from, kept);
  operandGradients[0] = emit.select(reaches, share, emit.splat(0.0, share));
  return success();
}

//===-- gather and scatter_add ------------------------------------------------------------------------------------===//

/// Checks that `slices` has the dimensions of `indices` in place of dimension `axis` of `table`.
static LogicalResult checkLookup(Operation *op, Value table, Value indices, Value slices, int64_t axis,
                                 StringRef tableName, StringRef slicesName) {
  ArrayRef<int64_t> whole = tensorType(table).getShape();
  int64_t rank = whole.size();
  if (axis < 0 || axis >= rank)
    return op->emitOpError() << "axis " << axis << " must be at least 0 and below the rank " << rank << " of the "
                             << tableName;
  Type element = tensorType(table).getElementType(), sliceElement = tensorType(slices).getElementType();
  if (element != sliceElement)
    return op->emitOpError() << "has elements of " << element << " in the " << tableName << " and of " << sliceElement
                             << " in the " << slicesName << "; they must agree";
  SmallVector<int64_t> expected(whole.take_front(axis));
  llvm::append_range(expected, tensorType(indices).getShape());
  llvm::append_range(expected, whole.drop_front(axis + 1));
  return checkShape(op, slicesName, slices, expected);
}

namespace {

/// The factors of a lookup: the table's dimensions before the axis, the axis, those after it, and the dimensions
/// of the indices.
struct LookupMaps {
  FactorMap table, indices, slices;
};

LookupMaps lookupMaps(RuleWriter &writer, Value table, Value indices, int64_t axis) {
  ArrayRef<int64_t> whole = tensorType(table).getShape();
  auto named = [&](StringRef prefix, ArrayRef<int64_t> sizes) {
    FactorMap map;
    for (size_t i = 0; i < sizes.size(); ++i)
      map.push_back({writer.factor(numbered(prefix, i, sizes.size()), sizes[i])});
    return map;
  };
  FactorMap before = named("a", whole.take_front(axis));
  FactorMap looked = {{writer.factor("v", whole[axis], FactorKind::Replicated)}};
  FactorMap after = named("c", whole.drop_front(axis + 1));
  FactorMap own = named("t", tensorType(indices).getShape());
  return {before + looked + after, own, before + own + after};
}

} // namespace

LogicalResult GatherOp::verify() {
  return checkLookup(*this, getOperand(), getIndices(), getResult(), getAxis(), "operand", "result");
}

// ([a, v, c], [t]) -> ([a, t, c])      v may not be sharded
Rule GatherOp::getShardingRule() {
  RuleWriter writer;
  LookupMaps maps = lookupMaps(writer, getOperand(), getIndices(), getAxis());
  writer.rule.operands = {maps.table, maps.indices};
  writer.rule.results = {maps.slices};
  writer.linear({0}, {0});
  return writer.rule;
}

void GatherOp::describe(ArrayRef<Shape> operands, ArrayRef<Shape> results, Work &work) {
  countPickedBytesOnly(*this, operands, results, work);
}

LogicalResult GatherOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGradients, ArrayRef<bool> wanted,
                                      SmallVectorImpl<Value> &operandGradients) {
  operandGradients.assign(2, Value());
  if (wanted[0] && isa<FloatType>(getType().getElementType()))
    operandGradients[0] =
        ScatterAddOp::create(builder, getLoc(), getOperand().getType(), getIndices(), resultGradients[0], getAxis());
  return success();
}

LogicalResult ScatterAddOp::verify() {
  return checkLookup(*this, getResult(), getIndices(), getUpdates(), getAxis(), "result", "updates");
}

// ([t], [a, t, c]) -> ([a, v, c])  t: reduction(sum)      v may not be sharded
Rule ScatterAddOp::getShardingRule() {
  RuleWriter writer;
  LookupMaps maps = lookupMaps(writer, getResult(), getIndices(), getAxis());
  writer.rule.operands = {maps.indices, maps.slices};
  writer.rule.results = {maps.table};
  writer.linear({1}, {0});
  return writer.rule;
}

LogicalResult ScatterAddOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGradients, ArrayRef<bool> wanted,
                                          SmallVectorImpl<Value> &operandGradients) {
  operandGradients.assign(2, Value());
  if (wanted[1])
    operandGradients[1] =
        GatherOp::create(builder, getLoc(), getUpdates().getType(), resultGradients[0], getIndices(), getAxis());
  return success();
}

double ScatterAddOp::getFlops() { return elements(getUpdates()); }

KernelClass ScatterAddOp::getKernelClass() { return KernelClass::Gather; }
