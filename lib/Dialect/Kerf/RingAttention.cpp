// SPDX-License-Identifier: Apache-2.0
#include "RingAttention.h"
#include "CompositeRules.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::ir;

namespace {

enum class Way { There, Back };

/// An emitter of the device ops of one ring attention, at the end of a block.
class Ring {
public:
  Ring(OpBuilder &builder, Operation *op, Value query, bool causal, bool masked, ArrayRef<AxisRef> ring)
      : builder(builder), op(op), loc(op->getLoc()), axes(builder.getDenseI64ArrayAttr(axisTriples(ring))),
        ranks(shardCount(ring)), balanced(causal && !masked && tensorType(query).getDimSize(1) % 2 == 0),
        before(builder.getBlock()->empty() ? nullptr : &builder.getBlock()->back()) {}

  /// Ops emitted for a backward op get its attribute kerf.backward.
  ~Ring() {
    Attribute backward = op->getDiscardableAttr(KerfDialect::kBackwardAttr);
    if (!backward)
      return;
    Operation *made = before ? before->getNextNode() : &builder.getBlock()->front();
    for (; made; made = made->getNextNode())
      made->setDiscardableAttr(KerfDialect::kBackwardAttr, backward);
  }

  SmallVector<Value> shift(ValueRange values, StringRef what) {
    return llvm::map_to_vector(values, [&](Value value) -> Value {
      return RingShiftOp::create(builder, loc, pending(value), value, axes, builder.getStringAttr("ring"), cause(what));
    });
  }
  SmallVector<Value> wait(ValueRange started) {
    return llvm::map_to_vector(started, [&](Value value) -> Value {
      return WaitOp::create(builder, loc, cast<PendingType>(value.getType()).getTensor(), value);
    });
  }
  /// Emits ring_balance (or its inverse) for each value, along the dimension that is the value's sequence.
  SmallVector<Value> balance(ArrayRef<std::pair<Value, int64_t>> values, Way way) {
    if (!balanced)
      return llvm::map_to_vector(values, [](auto &value) { return value.first; });
    UnitAttr inverse = way == Way::Back ? builder.getUnitAttr() : nullptr;
    SmallVector<Value> started = llvm::map_to_vector(values, [&](auto &value) -> Value {
      return RingBalanceOp::create(builder, loc, pending(value.first), value.first, axes,
                                   builder.getI64IntegerAttr(value.second), inverse, builder.getStringAttr("ring"),
                                   cause("equal causal work"));
    });
    return wait(started);
  }
  /// Returns the columns of the mask that belong to the rank's own keys.
  Value ownColumns(Value mask, Value key) {
    if (!mask)
      return mask;
    RankedTensorType type = tensorType(mask);
    SmallVector<int64_t> shape(type.getShape());
    shape.back() = tensorType(key).getDimSize(1);
    return LocalSliceOp::create(builder, loc, RankedTensorType::get(shape, type.getElementType()), mask,
                                builder.getI64IntegerAttr(3), axes);
  }
  Value converted(Value value, Type type) {
    return value.getType() == type ? value : ConvertOp::create(builder, loc, type, value).getResult();
  }
  /// Returns the type in which sums over blocks are kept: f32 for 16-bit types.
  Type wide(Type type) const {
    auto tensor = cast<RankedTensorType>(type);
    return isHalf(tensor.getElementType()) ? RankedTensorType::get(tensor.getShape(), builder.getF32Type()) : tensor;
  }
  UnitAttr balancedAttr() const { return balanced ? builder.getUnitAttr() : nullptr; }

  OpBuilder &builder;
  Operation *op;
  Location loc;
  DenseI64ArrayAttr axes;
  int64_t ranks;

private:
  Type pending(Value value) const { return PendingType::get(builder.getContext(), tensorType(value)); }
  StringAttr cause(StringRef what) const { return builder.getStringAttr(what + " of " + nodeName(loc)); }

  bool balanced;
  Operation *before; // the op before the first one emitted
};

constexpr StringRef kKeysAndValues = "keys and values", kTheirGradients = "gradients of keys and values";

} // namespace

SmallVector<Value> kerf::ir::ringAttention(OpBuilder &builder, AttentionOp op, ValueRange operands, TypeRange types,
                                           ArrayRef<AxisRef> axes) {
  Value mask = op.getMask() ? operands[3] : Value();
  Ring ring(builder, op, operands[0], op.getCausal(), op.getMask() != nullptr, axes);
  SmallVector<Value> its = ring.balance({{operands[0], 1}, {operands[1], 1}, {operands[2], 1}}, Way::There);
  Value query = its[0];
  SmallVector<Value> block = {its[1], its[2]}, next = ring.shift(block, kKeysAndValues);
  auto own =
      AttentionOp::create(builder, op.getLoc(), ring.wide(types[0]), ring.wide(types[1]), query, block[0], block[1],
                          ring.ownColumns(mask, block[0]), op.getScaleAttr(), op.getCausalAttr(), nullptr);
  auto pinLike = [&](Operation *block) { // copies a plan's decision about the recomputation of `op`
    if (Attribute pin = op->getAttr(KerfDialect::kRecomputeAttr))
      block->setAttr(KerfDialect::kRecomputeAttr, pin);
  };
  pinLike(own);
  Value output = own.getResult(), lse = own.getLse();
  for (int64_t step = 1; step < ring.ranks; ++step) {
    block = ring.wait(next);
    if (step + 1 < ring.ranks)
      next = ring.shift(block, kKeysAndValues);
    auto more = AttentionBlockOp::create(builder, op.getLoc(), output.getType(), lse.getType(), output, lse, query,
                                         block[0], block[1], mask, op.getScaleAttr(), op.getCausalAttr(),
                                         ring.balancedAttr(), ring.axes, builder.getI64IntegerAttr(step));
    pinLike(more);
    output = more.getResult(), lse = more.getLse();
  }
  return ring.balance({{ring.converted(output, types[0]), 1}, {ring.converted(lse, types[1]), 2}}, Way::Back);
}

SmallVector<Value> kerf::ir::ringAttentionBackward(OpBuilder &builder, AttentionBackwardOp op, ValueRange operands,
                                                   TypeRange types, ArrayRef<AxisRef> axes) {
  Value mask = op.getMask() ? operands[3] : Value();
  ValueRange last = operands.take_back(3); // output, lse, gradient
  Ring ring(builder, op, operands[0], op.getCausal(), op.getMask() != nullptr, axes);
  SmallVector<Value> its = ring.balance(
      {{operands[0], 1}, {operands[1], 1}, {operands[2], 1}, {last[0], 1}, {last[1], 2}, {last[2], 1}}, Way::There);
  Value query = its[0], output = its[3], lse = its[4], gradient = its[5];
  SmallVector<Value> block = {its[1], its[2]}, next = ring.shift(block, kKeysAndValues);
  auto own = AttentionBackwardOp::create(builder, op.getLoc(), ring.wide(types[0]), types[1], types[2], query, block[0],
                                         block[1], ring.ownColumns(mask, block[0]), output, lse, gradient,
                                         op.getScaleAttr(), op.getCausalAttr(), nullptr);
  Value queryGradient = own.getQueryGradient();
  Emitter emit{builder, op.getLoc()};
  SmallVector<Value> following; // gradients of the blocks, which follow their blocks around the ring
  auto addArrived = [&](SmallVector<Value> here) {
    SmallVector<Value> arrived = ring.wait(following);
    for (auto [sum, more] : llvm::zip(here, arrived))
      sum = emit.add(more, sum);
    return here;
  };
  for (int64_t step = 1; step < ring.ranks; ++step) {
    block = ring.wait(next);
    if (step + 1 < ring.ranks)
      next = ring.shift(block, kKeysAndValues);
    auto more = AttentionBlockBackwardOp::create(builder, op.getLoc(), queryGradient.getType(), types[1], types[2],
                                                 queryGradient, query, block[0], block[1], mask, output, lse, gradient,
                                                 op.getScaleAttr(), op.getCausalAttr(), ring.balancedAttr(), ring.axes,
                                                 builder.getI64IntegerAttr(step));
    queryGradient = more.getQueryGradient();
    SmallVector<Value> here = {more.getKeyGradient(), more.getValueGradient()};
    following = ring.shift(step == 1 ? here : addArrived(here), kTheirGradients);
  }
  SmallVector<Value> sums = addArrived({own.getKeyGradient(), own.getValueGradient()});
  return ring.balance({{ring.converted(queryGradient, types[0]), 1}, {sums[0], 1}, {sums[1], 1}}, Way::Back);
}

//===-- the block ops ---------------------------------------------------------------------------------------------===//

/// Returns the number of query-key pairs of a block that the rank with the most work computes.
static double pairsOf(Value query, Value key, bool balanced) {
  double pairs = static_cast<double>(shapeOf(query)[0] * shapeOf(query)[1] * shapeOf(query)[2]) *
                 static_cast<double>(shapeOf(key)[1]);
  return balanced ? pairs / 2 : pairs;
}

/// Checks the shapes that attention_block and its backward op have in common (the bullets of their description).
template <typename Block> static LogicalResult checkBlock(Block op, Value output, Value lse) {
  Shape query = shapeOf(op.getQuery()), key = shapeOf(op.getKey()), value = shapeOf(op.getValue());
  for (auto [name, shape] : {std::pair{"query", query}, {"key", key}, {"value", value}})
    if (shape.size() != 4)
      return op.emitOpError() << name << " has rank " << shape.size() << ", but should have 4 ([B, S, H, D])";
  if (key[2] <= 0 || query[2] % key[2] != 0)
    return op.emitOpError() << "has " << query[2] << " query heads and " << key[2]
                            << " key heads; the query heads must be a multiple of the key heads";
  if (failed(checkShape(op, "key", op.getKey(), {query[0], query[1], key[2], query[3]})) ||
      failed(checkShape(op, "value", op.getValue(), {query[0], query[1], key[2], value[3]})) ||
      failed(checkShape(op, "output", output, {query[0], query[1], query[2], value[3]})) ||
      failed(checkShape(op, "lse", lse, {query[0], query[2], query[1]})))
    return failure();
  int64_t ranks = 1;
  ArrayRef<int64_t> axes = op.getAxes();
  if (axes.size() % 3 != 0)
    return op.emitOpError() << "has " << axes.size() << " numbers for axes; these are triples (index, before, size)";
  for (size_t i = 0; i < axes.size(); i += 3)
    ranks *= axes[i + 2];
  int64_t step = op.getStep();
  if (step < 1 || step >= ranks)
    return op.emitOpError() << "step is " << step << ", but should be 1 to " << ranks - 1 << " for " << ranks
                            << " ranks";
  if (op.getBalanced() && (!op.getCausal() || op.getMask() || query[1] % 2 != 0))
    return op.emitOpError() << "is balanced, which requires causal, no mask and an even number of queries (here "
                            << query[1] << ")";
  if (!op.getMask())
    return success();
  Shape mask = shapeOf(op.getMask());
  if (mask.size() != 4)
    return op.emitOpError() << "mask has rank " << mask.size() << ", but should have 4 ([1 or B, 1 or H, S, T])";
  return checkShape(op, "mask", op.getMask(),
                    {mask[0] == 1 ? 1 : query[0], mask[1] == 1 ? 1 : query[2], query[1], ranks * query[1]});
}

LogicalResult AttentionBlockOp::verify() {
  if (failed(checkShape(*this, "result", getResult(), tensorType(getSoFar()).getShape())) ||
      failed(checkShape(*this, "the result's lse", getLse(), tensorType(getLseSoFar()).getShape())))
    return failure();
  return checkBlock(*this, getSoFar(), getLseSoFar());
}

double AttentionBlockOp::getFlops() {
  return 2.0 * pairsOf(getQuery(), getKey(), getBalanced()) *
         static_cast<double>(shapeOf(getQuery())[3] + shapeOf(getValue())[3]);
}
KernelClass AttentionBlockOp::getKernelClass() { return KernelClass::Attention; }

LogicalResult AttentionBlockBackwardOp::verify() {
  if (failed(checkShape(*this, "so far", getSoFar(), tensorType(getQuery()).getShape())) ||
      failed(checkShape(*this, "query's gradient", getQueryGradient(), tensorType(getQuery()).getShape())) ||
      failed(checkShape(*this, "key's gradient", getKeyGradient(), tensorType(getKey()).getShape())) ||
      failed(checkShape(*this, "value's gradient", getValueGradient(), tensorType(getValue()).getShape())) ||
      failed(checkShape(*this, "gradient", getGradient(), tensorType(getOutput()).getShape())))
    return failure();
  return checkBlock(*this, getOutput(), getLse());
}

double AttentionBlockBackwardOp::getFlops() {
  return 2.0 * pairsOf(getQuery(), getKey(), getBalanced()) *
         static_cast<double>(3 * shapeOf(getQuery())[3] + 2 * shapeOf(getValue())[3]);
}
KernelClass AttentionBlockBackwardOp::getKernelClass() { return KernelClass::Attention; }
