// SPDX-License-Identifier: Apache-2.0
// Ops that create, rearrange or combine tensors: verifiers, sharding rules, lowering to shards, gradients and folds.
#include "CompositeRules.h"
#include "LinearSums.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::ir;

namespace {

/// Returns the factor name of dimension `dim` (i, j, k, ...) in a rule that has a factor for each dimension of the op.
std::string indexName(int64_t dim) {
  constexpr int64_t kLetters = 'z' - 'i' + 1;
  return dim < kLetters ? std::string(1, static_cast<char>('i' + dim)) : std::string("d").append(std::to_string(dim));
}

LogicalResult checkElementType(Operation *op, Value operand, Value result) {
  Type from = tensorType(operand).getElementType(), to = tensorType(result).getElementType();
  if (from == to)
    return success();
  return op->emitOpError() << "has operand elements of " << from << " and result elements of " << to
                           << "; they must agree";
}

/// Checks that the attribute `name` has one entry for each dimension of the operand.
LogicalResult checkCount(Operation *op, StringRef name, ArrayRef<int64_t> entries, int64_t rank) {
  if (static_cast<int64_t>(entries.size()) == rank)
    return success();
  return op->emitOpError() << name << " has " << entries.size() << " entries for an operand of rank " << rank
                           << "; it needs one for each dimension";
}

LogicalResult checkScalar(Operation *op, StringRef name, Value scalar, Value like) {
  if (tensorType(scalar).getRank() == 0 && tensorType(scalar).getElementType() == tensorType(like).getElementType())
    return success();
  return op->emitOpError() << name << " is a " << scalar.getType() << ", but should be a scalar of "
                           << tensorType(like).getElementType();
}

/// Returns the rule of an op whose operand and result have equal rank: a dimension for which `isWhole` is true may be
/// sharded, any other one neither in the operand nor in the result.
RuleWriter dimensionwise(Operation *op, function_ref<bool(int64_t)> isWhole) {
  RuleWriter writer;
  FactorMap operand, result;
  Shape from = shapeOf(op->getOperand(0)), to = shapeOf(op->getResult(0));
  for (int64_t dim = 0, rank = from.size(); dim < rank; ++dim) {
    std::string name = indexName(dim);
    if (isWhole(dim)) {
      int factor = writer.factor(name, from[dim]);
      operand.push_back({factor});
      result.push_back({factor});
      continue;
    }
    operand.push_back({writer.factor(name, from[dim], FactorKind::Replicated)});
    result.push_back({writer.factor(name + "'", to[dim], FactorKind::Replicated)});
  }
  writer.rule.operands = {operand};
  writer.rule.results = {result};
  return writer;
}

} // namespace

//===-- constant --------------------------------------------------------------------------------------------------===//

OpFoldResult ConstantOp::fold(FoldAdaptor) { return getValue(); }

static bool isSplat(ConstantOp op) {
  auto elements = dyn_cast<DenseElementsAttr>(op.getValue());
  return elements && elements.isSplat();
}

// dense<0.0>: () -> ([i, j])      where elements differ, i and j may not be sharded
Rule ConstantOp::getShardingRule() {
  RuleWriter writer;
  FactorMap result;
  for (auto [dim, size] : llvm::enumerate(shapeOf(getResult())))
    result.push_back(
        {writer.factor(indexName(dim), size, isSplat(*this) ? FactorKind::Cuttable : FactorKind::Replicated)});
  writer.rule.results = {result};
  return writer.rule;
}

FailureOr<SmallVector<Value>> ConstantOp::localize(OpBuilder &builder, ValueRange, TypeRange resultTypes,
                                                   const LocalizeContext &) {
  auto type = cast<RankedTensorType>(resultTypes[0]);
  if (type == getType())
    return SmallVector<Value>{ConstantOp::create(builder, getLoc(), type, getValue())};
  if (!isSplat(*this))
    return emitOpError() << "of type " << getType() << " cannot be sharded into " << type
                         << "; only a constant whose elements are equal may be sharded";
  auto elements = cast<DenseElementsAttr>(getValue()).resizeSplat(type);
  return SmallVector<Value>{ConstantOp::create(builder, getLoc(), type, elements)};
}

//===-- iota ------------------------------------------------------------------------------------------------------===//

LogicalResult IotaOp::verify() {
  int64_t rank = tensorType(getResult()).getRank();
  if (getDimension() >= static_cast<uint64_t>(rank))
    return emitOpError() << "dimension " << static_cast<int64_t>(getDimension())
                         << " must be at least 0 and below the result's rank " << rank;
  return getOffset() ? checkScalar(*this, "offset", getOffset(), getResult()) : success();
}

// () -> ([i, j])
Rule IotaOp::getShardingRule() {
  RuleWriter writer;
  FactorMap result;
  for (auto [dim, size] : llvm::enumerate(shapeOf(getResult())))
    result.push_back({writer.factor(indexName(dim), size)});
  writer.rule.operands.resize(getOffset() ? 1 : 0);
  writer.rule.results = {result};
  return writer.rule;
}

FailureOr<SmallVector<Value>> IotaOp::localize(OpBuilder &builder, ValueRange operands, TypeRange resultTypes,
                                               const LocalizeContext &context) {
  const DimSharding &cut = context.sharding.results[0].dims[getDimension()];
  Value offset = operands.empty() ? Value() : operands[0];
  if (!cut.axes.empty()) {
    auto scalar = RankedTensorType::get({}, tensorType(getResult()).getElementType());
    Value begin = ShardOffsetOp::create(builder, getLoc(), scalar, axisTriples(cut.axes), cut.chunk);
    offset = offset ? AddOp::create(builder, getLoc(), scalar, offset, begin) : begin;
  }
  return SmallVector<Value>{IotaOp::create(builder, getLoc(), resultTypes[0], offset, getDimension())};
}

//===-- broadcast_in_dim ------------------------------------------------------------------------------------------===//

LogicalResult BroadcastInDimOp::verify() {
  ArrayRef<int64_t> from = tensorType(getOperand()).getShape(), to = tensorType(getResult()).getShape(),
                    dims = getBroadcastDimensions();
  int64_t rank = to.size();
  if (failed(checkElementType(*this, getOperand(), getResult())) ||
      failed(checkCount(*this, "broadcast_dimensions", dims, from.size())))
    return failure();
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] < 0 || dims[d] >= rank)
      return emitOpError() << "broadcast_dimensions has entry " << dims[d]
                           << ", which must be at least 0 and below the result's rank " << rank;
    if (d > 0 && dims[d] <= dims[d - 1])
      return emitOpError() << "broadcast_dimensions has entry " << dims[d] << " after " << dims[d - 1]
                           << "; entries must increase";
    if (from[d] != 1 && from[d] != to[dims[d]])
      return emitOpError() << "dimension " << d << " of the operand has size " << from[d] << ", but dimension "
                           << dims[d] << " of the result has size " << to[dims[d]]
                           << "; they must agree, or the operand's must be 1";
  }
  return success();
}

// ([j]) -> ([i, j]). A dimension that exists only in the result has a factor of the result alone; a dimension of size 1
// that is expanded has no factor in the operand.
Rule BroadcastInDimOp::getShardingRule() {
  RuleWriter writer;
  Shape from = shapeOf(getOperand()), to = shapeOf(getResult());
  FactorMap operand(from.size()), result;
  for (auto [dim, size] : llvm::enumerate(to))
    result.push_back({writer.factor(indexName(dim), size)});
  for (auto [d, dim] : llvm::enumerate(getBroadcastDimensions()))
    if (from[d] == to[dim])
      operand[d] = result[dim];
  writer.rule.operands = {operand};
  writer.rule.results = {result};
  writer.linear({0}, {0});
  return writer.rule;
}

LogicalResult BroadcastInDimOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGradients,
                                              ArrayRef<bool> wanted, SmallVectorImpl<Value> &operandGradients) {
  Emitter emit{builder, getLoc()};
  operandGradients.assign(1, Value());
  if (!wanted[0])
    return success();
  ArrayRef<int64_t> from = tensorType(getOperand()).getShape(), to = tensorType(getResult()).getShape();
  SmallVector<int64_t> copied; // the dimensions along which elements are copied
  for (int64_t dim = 0, rank = to.size(); dim < rank; ++dim) {
    const auto *source = llvm::find(getBroadcastDimensions(), dim);
    bool isKept =
        source != getBroadcastDimensions().end() && from[source - getBroadcastDimensions().begin()] == to[dim];
    if (!isKept && to[dim] != 1)
      copied.push_back(dim);
  }
  operandGradients[0] = emit.reshape(sumOfTerms(emit, resultGradients[0], copied), from);
  return success();
}

OpFoldResult BroadcastInDimOp::fold(FoldAdaptor) {
  // An op with strictly increasing dimensions and equal types is the identity.
  return getOperand().getType() == getType() ? OpFoldResult(getOperand()) : OpFoldResult();
}

//===-- reshape ---------------------------------------------------------------------------------------------------===//

LogicalResult ReshapeOp::verify() {
  int64_t from = tensorType(getOperand()).getNumElements(), to = tensorType(getResult()).getNumElements();
  if (failed(checkElementType(*this, getOperand(), getResult())))
    return failure();
  return from == to ? success()
                    : emitOpError() << "has " << from << " elements in the operand and " << to
                                    << " in the result; both need the same number";
}

// ([ij, k]) -> ([i, jk])
Rule ReshapeOp::getShardingRule() {
  RuleWriter writer{reshapeRule(shapeOf(getOperand()), shapeOf(getResult()))};
  writer.linear({0}, {0});
  return writer.rule;
}

LogicalResult ReshapeOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGradients, ArrayRef<bool> wanted,
                                       SmallVectorImpl<Value> &operandGradients) {
  Emitter emit{builder, getLoc()};
  operandGradients.assign(1,
                          wanted[0] ? emit.reshape(resultGradients[0], tensorType(getOperand()).getShape()) : Value());
  return success();
}

OpFoldResult ReshapeOp::fold(FoldAdaptor adaptor) {
  if (getOperand().getType() == getType())
    return getOperand();
  if (auto elements = dyn_cast_or_null<DenseElementsAttr>(adaptor.getOperand()))
    return elements.reshape(getType());
  auto inner = getOperand().getDefiningOp<ReshapeOp>();
  if (!inner)
    return {};
  if (inner.getOperand().getType() == getType())
    return inner.getOperand();
  getOperandMutable().set(inner.getOperand());
  return getResult();
}

//===-- transpose -------------------------------------------------------------------------------------------------===//

LogicalResult TransposeOp::verify() {
  ArrayRef<int64_t> from = tensorType(getOperand()).getShape(), permutation = getPermutation();
  int64_t rank = from.size();
  if (failed(checkElementType(*this, getOperand(), getResult())) ||
      failed(checkCount(*this, "permutation", permutation, rank)))
    return failure();
  SmallVector<int64_t> expected;
  for (auto [d, dim] : llvm::enumerate(permutation)) {
    if (dim < 0 || dim >= rank)
      return emitOpError() << "permutation has entry " << dim
                           << ", which must be at least 0 and below the operand's rank " << rank;
    if (llvm::is_contained(permutation.take_front(d), dim))
      return emitOpError() << "permutation names dimension " << dim << " twice; each dimension may be named only once";
    expected.push_back(from[dim]);
  }
  return checkShape(*this, "result", getResult(), expected);
}

// ([i, j]) -> ([j, i])
Rule TransposeOp::getShardingRule() {
  RuleWriter writer;
  FactorMap operand, result;
  for (auto [dim, size] : llvm::enumerate(shapeOf(getOperand())))
    operand.push_back({writer.factor(indexName(dim), size)});
  for (int64_t dim : getPermutation())
    result.push_back(operand[dim]);
  writer.rule.operands = {operand};
  writer.rule.results = {result};
  writer.linear({0}, {0});
  return writer.rule;
}

LogicalResult TransposeOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGradients, ArrayRef<bool> wanted,
                                         SmallVectorImpl<Value> &operandGradients) {
  Emitter emit{builder, getLoc()};
  operandGradients.assign(1, Value());
  SmallVector<int64_t> inverse(getPermutation().size());
  for (auto [d, dim] : llvm::enumerate(getPermutation()))
    inverse[dim] = d;
  if (wanted[0])
    operandGradients[0] = emit.transpose(resultGradients[0], inverse);
  return success();
}

OpFoldResult TransposeOp::fold(FoldAdaptor adaptor) {
  if (llvm::is_sorted(getPermutation()))
    return getOperand();
  if (auto elements = dyn_cast_or_null<SplatElementsAttr>(adaptor.getOperand()))
    return elements.resizeSplat(getType());
  auto inner = getOperand().getDefiningOp<TransposeOp>();
  if (!inner)
    return {};
  SmallVector<int64_t> both =
      llvm::map_to_vector(getPermutation(), [&](int64_t dim) { return inner.getPermutation()[dim]; });
  if (llvm::is_sorted(both))
    return inner.getOperand();
  setPermutation(both);
  getOperandMutable().set(inner.getOperand());
  return getResult();
}

//===-- slice -----------------------------------------------------------------------------------------------------===//

/// Returns whether the slice takes the complete dimension.
static bool isWhole(SliceOp op, int64_t dim) {
  return op.getStart()[dim] == 0 && op.getStrides()[dim] == 1 &&
         op.getLimit()[dim] == tensorType(op.getOperand()).getDimSize(dim);
}

LogicalResult SliceOp::verify() {
  ArrayRef<int64_t> from = tensorType(getOperand()).getShape(), start = getStart(), limit = getLimit(),
                    strides = getStrides();
  int64_t rank = from.size();
  if (failed(checkElementType(*this, getOperand(), getResult())) || failed(checkCount(*this, "start", start, rank)) ||
      failed(checkCount(*this, "limit", limit, rank)) || failed(checkCount(*this, "strides", strides, rank)))
    return failure();
  SmallVector<int64_t> expected;
  for (int64_t dim = 0; dim < rank; ++dim) {
    if (start[dim] < 0 || start[dim] > limit[dim] || limit[dim] > from[dim])
      return emitOpError() << "takes " << start[dim] << " to " << limit[dim] << " of dimension " << dim
                           << ", whose size is " << from[dim] << "; 0 <= start <= limit <= size must hold";
    if (strides[dim] < 1)
      return emitOpError() << "has stride " << strides[dim] << " along dimension " << dim << "; a stride is at least 1";
    expected.push_back((limit[dim] - start[dim] + strides[dim] - 1) / strides[dim]);
  }
  return checkShape(*this, "result", getResult(), expected);
}

// ([i, j]) -> ([i, j'])      j, of which only a part is taken, may not be sharded
Rule SliceOp::getShardingRule() {
  RuleWriter writer = dimensionwise(*this, [&](int64_t dim) { return isWhole(*this, dim); });
  writer.linear({0}, {0});
  return writer.rule;
}

void SliceOp::describe(ArrayRef<Shape> operands, ArrayRef<Shape> results, Work &work) {
  countPickedBytesOnly(*this, operands, results, work);
}

FailureOr<SmallVector<Value>> SliceOp::localize(OpBuilder &builder, ValueRange operands, TypeRange resultTypes,
                                                const LocalizeContext &) {
  // A dimension that is sharded is taken completely, so the limit of the local op is the size of the local operand.
  SmallVector<int64_t> limit(getLimit());
  for (int64_t dim = 0, rank = limit.size(); dim < rank; ++dim)
    if (isWhole(*this, dim))
      limit[dim] = tensorType(operands[0]).getDimSize(dim);
  SmallVector<Value> results = cloneWithTypes(builder, *this, operands, resultTypes);
  results[0].getDefiningOp<SliceOp>().setLimit(limit);
  return results;
}

LogicalResult SliceOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGradients, ArrayRef<bool> wanted,
                                     SmallVectorImpl<Value> &operandGradients) {
  operandGradients.assign(1, Value());
  if (!wanted[0] || tensorType(getResult()).getNumElements() == 0)
    return success();
  // The gradient's elements are put back at their places, with zeros between and around them.
  Shape from = shapeOf(getOperand()), taken = shapeOf(getResult());
  SmallVector<int64_t> high, interior;
  for (size_t dim = 0; dim < from.size(); ++dim) {
    int64_t last = getStart()[dim] + (taken[dim] - 1) * getStrides()[dim];
    high.push_back(from[dim] - 1 - last);
    interior.push_back(getStrides()[dim] - 1);
  }
  auto scalar = RankedTensorType::get({}, getType().getElementType());
  Value zero = ConstantOp::create(builder, getLoc(), scalar, cast<ElementsAttr>(builder.getZeroAttr(scalar)));
  operandGradients[0] =
      PadOp::create(builder, getLoc(), getOperand().getType(), resultGradients[0], zero, getStart(), high, interior);
  return success();
}

OpFoldResult SliceOp::fold(FoldAdaptor) {
  return getOperand().getType() == getType() ? OpFoldResult(getOperand())
                                             : OpFoldResult(); // equal sizes: all elements are taken
}

//===-- pad -------------------------------------------------------------------------------------------------------===//

LogicalResult PadOp::verify() {
  ArrayRef<int64_t> from = tensorType(getOperand()).getShape(), low = getLow(), high = getHigh(),
                    interior = getInterior();
  int64_t rank = from.size();
  if (failed(checkElementType(*this, getOperand(), getResult())) ||
      failed(checkScalar(*this, "padding_value", getPaddingValue(), getOperand())) ||
      failed(checkCount(*this, "low", low, rank)) || failed(checkCount(*this, "high", high, rank)) ||
      failed(checkCount(*this, "interior", interior, rank)))
    return failure();
  SmallVector<int64_t> expected;
  for (int64_t dim = 0; dim < rank; ++dim) {
    if (low[dim] < 0 || high[dim] < 0 || interior[dim] < 0)
      return emitOpError() << "pads dimension " << dim << " by " << low[dim] << ", " << high[dim] << " and "
                           << interior[dim] << " (low, high, interior); none may be negative";
    expected.push_back(low[dim] + from[dim] + std::max<int64_t>(from[dim] - 1, 0) * interior[dim] + high[dim]);
  }
  return checkShape(*this, "result", getResult(), expected);
}

// ([i, j], []) -> ([i, j'])      j, which is padded, may not be sharded
Rule PadOp::getShardingRule() {
  RuleWriter writer = dimensionwise(
      *this, [&](int64_t dim) { return getLow()[dim] == 0 && getHigh()[dim] == 0 && getInterior()[dim] == 0; });
  writer.rule.operands.emplace_back();
  if (matchPattern(getPaddingValue(), m_AnyZeroFloat())) // a nonzero border would be summed as well
    writer.linear({0}, {0});
  return writer.rule;
}

LogicalResult PadOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGradients, ArrayRef<bool> wanted,
                                   SmallVectorImpl<Value> &operandGradients) {
  Emitter emit{builder, getLoc()};
  operandGradients.assign(2, Value());
  if (!wanted[0] && !wanted[1])
    return success();
  Shape from = shapeOf(getOperand());
  SmallVector<int64_t> limit, strides;
  for (size_t dim = 0; dim < from.size(); ++dim) {
    int64_t stride = getInterior()[dim] + 1;
    limit.push_back(getLow()[dim] + (from[dim] ? (from[dim] - 1) * stride + 1 : 0));
    strides.push_back(stride);
  }
  Value gradient = resultGradients[0];
  Value inner = SliceOp::create(builder, getLoc(), getOperand().getType(), gradient, getLow(), limit, strides);
  if (wanted[0])
    operandGradients[0] = inner;
  if (wanted[1]) { // the sum over the elements that are padding
    Shape dims = firstDims(from.size());
    operandGradients[1] = emit.subtract(emit.sum(gradient, dims), emit.sum(inner, dims));
  }
  return success();
}

//===-- concatenate -----------------------------------------------------------------------------------------------===//

LogicalResult ConcatenateOp::verify() {
  if (getInputs().empty())
    return emitOpError() << "has 0 operands; it needs at least 1";
  Shape expected = shapeOf(getInputs()[0]);
  int64_t rank = expected.size(), dimension = getDimension();
  if (dimension < 0 || dimension >= rank)
    return emitOpError() << "dimension " << dimension << " must be at least 0 and below the operands' rank " << rank;
  expected[dimension] = 0;
  for (auto [i, input] : llvm::enumerate(getInputs())) {
    ArrayRef<int64_t> shape = tensorType(input).getShape();
    if (failed(checkElementType(*this, input, getResult())))
      return failure();
    if (static_cast<int64_t>(shape.size()) != rank)
      return emitOpError() << "operand " << i << " has rank " << shape.size() << ", operand 0 has rank " << rank
                           << "; they must agree";
    for (int64_t dim = 0; dim < rank; ++dim)
      if (dim != dimension && shape[dim] != expected[dim])
        return emitOpError() << "dimension " << dim << " of operand " << i << " has size " << shape[dim]
                             << ", of operand 0 size " << expected[dim] << "; they must agree";
    expected[dimension] += shape[dimension];
  }
  return checkShape(*this, "result", getResult(), expected);
}

// ([i0, j], [i1, j]) -> ([i, j])      i0, i1 and i, the concatenated dimension, may not be sharded
Rule ConcatenateOp::getShardingRule() {
  RuleWriter writer;
  FactorMap result;
  int64_t dimension = getDimension();
  for (auto [dim, size] : llvm::enumerate(shapeOf(getResult())))
    result.push_back({writer.factor(
        indexName(dim), size, static_cast<int64_t>(dim) == dimension ? FactorKind::Replicated : FactorKind::Cuttable)});
  std::vector<int> all;
  for (auto [i, input] : llvm::enumerate(getInputs())) {
    FactorMap operand = result;
    operand[dimension] = {writer.factor(indexName(dimension) + std::to_string(i),
                                        tensorType(input).getDimSize(dimension), FactorKind::Replicated)};
    writer.rule.operands.push_back(operand);
    all.push_back(i);
  }
  writer.rule.results = {result};
  writer.linear(all, {0});
  return writer.rule;
}

LogicalResult ConcatenateOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGradients, ArrayRef<bool> wanted,
                                           SmallVectorImpl<Value> &operandGradients) {
  operandGradients.assign(getInputs().size(), Value());
  Shape start(tensorType(getResult()).getRank(), 0), limit = shapeOf(getResult()), strides(start.size(), 1);
  int64_t dimension = getDimension();
  for (auto [i, input] : llvm::enumerate(getInputs())) {
    limit[dimension] = start[dimension] + tensorType(input).getDimSize(dimension);
    if (wanted[i])
      operandGradients[i] =
          SliceOp::create(builder, getLoc(), input.getType(), resultGradients[0], start, limit, strides);
    start[dimension] = limit[dimension];
  }
  return success();
}

//===-- sums of pads ----------------------------------------------------------------------------------------------===//

namespace {
/// A summand that holds zeros but for a part of one dimension.
struct PaddedPart {
  Value part;
  int64_t dimension, begin, end; // the part's place in that dimension
};

/// Returns the part of a value that pads one dimension of it with zeros and that nothing else reads.
std::optional<PaddedPart> paddedPart(Value value) {
  auto pad = value.getDefiningOp<PadOp>();
  auto isZero = [](Value scalar) { return matchPattern(scalar, m_AnyZeroFloat()) || matchPattern(scalar, m_Zero()); };
  if (!pad || !value.hasOneUse() || !isZero(pad.getPaddingValue()))
    return std::nullopt;
  int64_t dimension = -1;
  for (int64_t dim = 0, rank = pad.getLow().size(); dim < rank; ++dim) {
    if (pad.getInterior()[dim] != 0)
      return std::nullopt;
    if (pad.getLow()[dim] == 0 && pad.getHigh()[dim] == 0)
      continue;
    if (dimension >= 0)
      return std::nullopt;
    dimension = dim;
  }
  if (dimension < 0)
    return std::nullopt;
  int64_t begin = pad.getLow()[dimension];
  return PaddedPart{pad.getOperand(), dimension, begin, begin + tensorType(pad.getOperand()).getDimSize(dimension)};
}

/// Collects the summands of a sum, and of the sums among them that nothing else reads.
void collectSummands(AddOp sum, SmallVectorImpl<Value> &summands) {
  for (Value operand : sum->getOperands()) {
    auto inner = operand.getDefiningOp<AddOp>();
    if (inner && operand.hasOneUse())
      collectSummands(inner, summands);
    else
      summands.push_back(operand);
  }
}
} // namespace

/// Parts of a tensor that are padded with zeros and added are one concatenation, which moves each element once. So the
/// gradients of the slices of a tensor become one tensor:
///   pad a [0, n] + pad b [m, 0]  ->  concatenate a, b
/// At most one other summand stays, so that no sum is rounded in another order.
LogicalResult AddOp::canonicalize(AddOp op, PatternRewriter &rewriter) {
  SmallVector<Value> summands, others;
  collectSummands(op, summands);
  SmallVector<PaddedPart> parts;
  for (Value summand : summands) {
    if (auto part = paddedPart(summand))
      parts.push_back(*part);
    else
      others.push_back(summand);
  }
  if (parts.size() < 2 || others.size() > 1)
    return failure();
  llvm::stable_sort(parts, [](const PaddedPart &a, const PaddedPart &b) { return a.begin < b.begin; });
  for (size_t i = 1; i < parts.size(); ++i)
    if (parts[i].dimension != parts[0].dimension || parts[i].begin != parts[i - 1].end)
      return failure();

  int64_t dimension = parts[0].dimension, begin = parts.front().begin, end = parts.back().end;
  Shape whole = shapeOf(op.getResult());
  bool covers = begin == 0 && end == whole[dimension];
  SmallVector<Value> inputs;
  for (const PaddedPart &part : parts) {
    auto inner = part.part.getDefiningOp<ConcatenateOp>();
    if (inner && part.part.hasOneUse() && inner.getDimension() == uint64_t(dimension))
      llvm::append_range(inputs, inner.getInputs());
    else
      inputs.push_back(part.part);
  }
  auto marked = [&](auto made) { // a new op keeps the marks of the sum, such as the task that it belongs to
    made->setDiscardableAttrs(op->getDiscardableAttrDictionary());
    return made.getResult();
  };
  Shape joined = whole;
  joined[dimension] = end - begin;
  auto element = op.getType().getElementType();
  Value result =
      marked(ConcatenateOp::create(rewriter, op.getLoc(), RankedTensorType::get(joined, element), inputs, dimension));
  if (!covers) {
    auto scalar = RankedTensorType::get({}, element);
    Value zero = ConstantOp::create(rewriter, op.getLoc(), scalar, cast<ElementsAttr>(rewriter.getZeroAttr(scalar)));
    SmallVector<int64_t> low(whole.size(), 0), high = low, interior = low;
    low[dimension] = begin;
    high[dimension] = whole[dimension] - end;
    result = marked(PadOp::create(rewriter, op.getLoc(), op.getType(), result, zero, low, high, interior));
  }
  if (!others.empty())
    result = marked(AddOp::create(rewriter, op.getLoc(), op.getType(), others[0], result));
  rewriter.replaceOp(op, result);
  return success();
}
