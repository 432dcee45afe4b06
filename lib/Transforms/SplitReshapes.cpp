// SPDX-License-Identifier: Apache-2.0
#include "SplitReshapes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace kerf::ir;

namespace kerf {

bool isElementwise(Operation *op) { return op->hasTrait<OpTrait::Elementwise>(); }

Operation *cloneWithShapes(OpBuilder &builder, Operation *op, ValueRange operands, ArrayRef<Shape> resultShapes) {
  OperationState state(op->getLoc(), op->getName());
  state.addOperands(operands);
  for (auto [result, shape] : llvm::zip(op->getResults(), resultShapes))
    state.addTypes(RankedTensorType::get(shape, tensorType(result).getElementType()));
  state.addAttributes(op->getAttrs());
  return builder.create(state);
}

Value reshapeAt(OpBuilder &builder, Location loc, Value value, ArrayRef<int64_t> shape) {
  return Emitter{builder, loc}.reshape(value, shape);
}

bool isViewable(BlockArgument argument) {
  auto function = dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp());
  auto kind =
      function ? function.getArgAttrOfType<StringAttr>(argument.getArgNumber(), KerfDialect::kKindAttr) : StringAttr();
  return kind && (kind.getValue() == "parameter" || kind.getValue() == "buffer" || kind.getValue() == "constant");
}

/// Returns the parts of the operand's dimensions that correspond to `parts` of the result's dimensions.
static Parts broadcastParts(BroadcastInDimOp op, const Parts &parts) {
  Parts operand;
  auto shape = tensorType(op.getOperand()).getShape();
  for (auto [dim, target] : llvm::enumerate(op.getBroadcastDimensions()))
    operand.push_back(shape[dim] == 1 ? Shape{1} : parts[target]);
  return operand;
}

static Parts permutedParts(TransposeOp op, const Parts &parts) {
  Parts operand(parts.size());
  for (auto [dim, from] : llvm::enumerate(op.getPermutation()))
    operand[from] = parts[dim];
  return operand;
}

/// Returns whether the slice takes the complete dimension.
static bool isWhole(SliceOp op, int64_t dim) {
  return op.getStart()[dim] == 0 && op.getStrides()[dim] == 1 &&
         op.getLimit()[dim] == tensorType(op.getOperand()).getDimSize(dim);
}

static std::optional<Parts> sliceParts(SliceOp op, const Parts &parts) {
  Parts operand = parts;
  for (size_t dim = 0; dim < parts.size(); ++dim) {
    if (isWhole(op, static_cast<int64_t>(dim)))
      continue;
    if (parts[dim].size() > 1)
      return std::nullopt;
    operand[dim] = {tensorType(op.getOperand()).getDimSize(static_cast<int64_t>(dim))};
  }
  return operand;
}

void productParts(DotGeneralOp op, const Parts &parts, Parts &lhs, Parts &rhs) {
  lhs = wholeParts(tensorType(op.getLhs()).getShape());
  rhs = wholeParts(tensorType(op.getRhs()).getShape());
  size_t next = 0;
  for (auto [l, r] : llvm::zip(op.getLhsBatching(), op.getRhsBatching()))
    lhs[l] = rhs[r] = parts[next++];
  auto fill = [&](Parts &operand, ArrayRef<int64_t> batching, ArrayRef<int64_t> contracting) {
    for (size_t dim = 0; dim < operand.size(); ++dim)
      if (!llvm::is_contained(batching, static_cast<int64_t>(dim)) &&
          !llvm::is_contained(contracting, static_cast<int64_t>(dim)))
        operand[dim] = parts[next++];
  };
  fill(lhs, op.getLhsBatching(), op.getLhsContracting());
  fill(rhs, op.getRhsBatching(), op.getRhsContracting());
}

Value splitProduct(DotGeneralOp op, Value lhs, const Parts &lhsParts, Value rhs, const Parts &rhsParts) {
  OpBuilder builder(op);
  auto renumbered = [](ArrayRef<int64_t> dims, const Parts &parts) {
    std::vector<int64_t> first = firstPart(parts);
    SmallVector<int64_t> result;
    for (int64_t dim : dims)
      for (size_t part = 0; part < parts[dim].size(); ++part)
        result.push_back(first[dim] + static_cast<int64_t>(part));
    return result;
  };
  Emitter emit{builder, op.getLoc()};
  Value made = emit.dot(lhs, rhs, renumbered(op.getLhsBatching(), lhsParts), renumbered(op.getRhsBatching(), rhsParts),
                        renumbered(op.getLhsContracting(), lhsParts), renumbered(op.getRhsContracting(), rhsParts));
  made.getDefiningOp()->setDiscardableAttrs(op->getDiscardableAttrDictionary());
  return made;
}

static bool hasOneUser(Value value) {
  Operation *user = nullptr;
  for (Operation *next : value.getUsers()) {
    if (user && next != user)
      return false;
    user = next;
  }
  return true;
}

/// Looks through the reshapes of which `value` is the result: returns the first value that is no reshape, and the shape
/// that it needs so that `value` has `parts`.
static std::optional<std::pair<Value, Shape>> throughReshapes(Value value, const Parts &parts,
                                                              std::vector<Shape> &steps) {
  Value root = value;
  while (auto reshape = root.getDefiningOp<ReshapeOp>())
    root = reshape.getOperand();
  auto found = reshapeSteps(tensorType(root).getShape(), splitShape(parts));
  if (!found)
    return std::nullopt;
  steps = *found;
  return std::pair{root, steps.empty() ? shapeOf(root) : steps.front()};
}

bool canSplit(Value value, const Parts &parts, Users users) {
  if (isTrivial(parts) || scalarOf(value))
    return true;
  if (auto argument = dyn_cast<BlockArgument>(value))
    return isViewable(argument) && hasOneUser(argument);
  Operation *op = value.getDefiningOp();
  if (isa<ReshapeOp>(op)) {
    std::vector<Shape> steps;
    auto root = throughReshapes(value, parts, steps);
    if (!root)
      return false;
    auto first = splitParts(tensorType(root->first).getShape(), root->second);
    return !first || canSplit(root->first, *first, Users::One);
  }
  if (users == Users::One && !hasOneUser(value))
    return false;
  if (auto broadcast = dyn_cast<BroadcastInDimOp>(op))
    return canSplit(broadcast.getOperand(), broadcastParts(broadcast, parts), Users::One);
  if (isElementwise(op))
    return llvm::all_of(op->getOperands(), [&](Value operand) { return canSplit(operand, parts, Users::One); });
  if (auto dropout = dyn_cast<DropoutOp>(op))
    return canSplit(dropout.getOperand(), parts, Users::One);
  if (auto transpose = dyn_cast<TransposeOp>(op))
    return canSplit(transpose.getOperand(), permutedParts(transpose, parts), Users::One);
  if (auto slice = dyn_cast<SliceOp>(op)) {
    auto operand = sliceParts(slice, parts);
    return operand && canSplit(slice.getOperand(), *operand, Users::One);
  }
  if (auto product = dyn_cast<DotGeneralOp>(op)) {
    Parts lhs, rhs;
    productParts(product, parts, lhs, rhs);
    return canSplit(product.getLhs(), lhs, Users::One) && canSplit(product.getRhs(), rhs, Users::One);
  }
  return false;
}

Value Splitter::splitBroadcast(BroadcastInDimOp op, const Parts &parts) {
  OpBuilder builder(op);
  Parts operandParts = broadcastParts(op, parts);
  Value operand = split(op.getOperand(), operandParts);
  std::vector<int64_t> first = firstPart(parts);
  SmallVector<int64_t> dims;
  for (auto [dim, target] : llvm::enumerate(op.getBroadcastDimensions()))
    for (size_t part = 0; part < operandParts[dim].size(); ++part)
      dims.push_back(first[target] + static_cast<int64_t>(part));
  return Emitter{builder, op.getLoc()}.broadcast(operand, splitShape(parts), dims);
}

Value Splitter::splitTranspose(TransposeOp op, const Parts &parts) {
  OpBuilder builder(op);
  Parts operandParts = permutedParts(op, parts);
  std::vector<int64_t> first = firstPart(operandParts);
  SmallVector<int64_t> order;
  for (int64_t from : op.getPermutation())
    for (size_t part = 0; part < operandParts[from].size(); ++part)
      order.push_back(first[from] + static_cast<int64_t>(part));
  return Emitter{builder, op.getLoc()}.transpose(split(op.getOperand(), operandParts), order);
}

Value Splitter::splitSlice(SliceOp op, const Parts &parts) {
  OpBuilder builder(op);
  Parts operandParts = *sliceParts(op, parts);
  SmallVector<int64_t> start, limit, strides;
  for (size_t dim = 0; dim < parts.size(); ++dim) {
    bool whole = isWhole(op, static_cast<int64_t>(dim));
    for (int64_t size : operandParts[dim]) {
      start.push_back(whole ? 0 : op.getStart()[dim]);
      limit.push_back(whole ? size : op.getLimit()[dim]);
      strides.push_back(op.getStrides()[dim]);
    }
  }
  auto type = RankedTensorType::get(splitShape(parts), tensorType(op.getResult()).getElementType());
  return SliceOp::create(builder, op.getLoc(), type, split(op.getOperand(), operandParts), start, limit, strides);
}

Value Splitter::split(Value value, const Parts &parts) {
  if (isTrivial(parts))
    return value;
  Value &known = made[{value.getAsOpaquePointer(), splitShape(parts)}];
  if (!known)
    known = make(value, parts);
  return known;
}

Value Splitter::make(Value value, const Parts &parts) {
  OpBuilder builder(value.getContext());
  builder.setInsertionPointAfterValue(value);
  Shape shape = splitShape(parts);
  Operation *op = value.getDefiningOp();
  if (scalarOf(value)) {
    if (isa<BroadcastInDimOp>(op) && tensorType(op->getOperand(0)).getRank() == 0)
      return Emitter{builder, op->getLoc()}.broadcast(op->getOperand(0), shape, {});
    return reshapeAt(builder, value.getLoc(), value, shape);
  }
  if (isa<BlockArgument>(value))
    return reshapeAt(builder, value.getLoc(), value, shape);
  if (isa<ReshapeOp>(op)) {
    std::vector<Shape> steps;
    auto root = throughReshapes(value, parts, steps);
    Value result = root->first;
    for (const Shape &step : steps) {
      auto first = result == root->first ? splitParts(tensorType(result).getShape(), step) : std::nullopt;
      result = first ? split(result, *first) : reshapeAt(builder, op->getLoc(), result, step);
    }
    return result;
  }
  if (auto broadcast = dyn_cast<BroadcastInDimOp>(op))
    return splitBroadcast(broadcast, parts);
  if (auto transpose = dyn_cast<TransposeOp>(op))
    return splitTranspose(transpose, parts);
  if (auto slice = dyn_cast<SliceOp>(op))
    return splitSlice(slice, parts);
  builder.setInsertionPoint(op);
  if (auto product = dyn_cast<DotGeneralOp>(op)) {
    Parts lhs, rhs;
    productParts(product, parts, lhs, rhs);
    Value left = split(product.getLhs(), lhs);
    return splitProduct(product, left, lhs, split(product.getRhs(), rhs), rhs);
  }
  SmallVector<Value> operands(op->getOperands());
  for (Value &operand : isa<DropoutOp>(op) ? MutableArrayRef(operands).take_front() : MutableArrayRef(operands))
    operand = split(operand, parts);
  return cloneWithShapes(builder, op, operands, {shape})->getResult(0);
}

} // namespace kerf
