// SPDX-License-Identifier: Apache-2.0
// Each op of the function gets a new first dimension, and its attributes that name dimensions move by one. An op whose
// operands are the same for all blocks stays as it is; its result is broadcast where an op of each block reads it.
#include "ApplyToBlocks.h"

#include "kerf/Dialect/Kerf/Emit.h"
#include "kerf/Dialect/Kerf/TakeAlong.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace kerf::ir;

namespace kerf {

namespace {

/// How an attribute of an op changes when the op gets a new first dimension.
struct MovedAttribute {
  StringLiteral op, name;
  enum class Kind {
    Dimension,          // a dimension: plus one
    Dimensions,         // dimensions: each plus one
    DimensionsAndFirst, // dimensions: each plus one, and the new one before them
    Starts,             // a number for each dimension: 0 for the new one
    Sizes,              // a number for each dimension: the number of blocks for the new one
    Strides,            // a number for each dimension: 1 for the new one
  } kind;
};
using Kind = MovedAttribute::Kind;

constexpr MovedAttribute kMoved[] = {
    {"kerf.reduce", "dimensions", Kind::Dimensions},
    {"kerf.broadcast_in_dim", "broadcast_dimensions", Kind::DimensionsAndFirst},
    {"kerf.transpose", "permutation", Kind::DimensionsAndFirst},
    {"kerf.concatenate", "dimension", Kind::Dimension},
    {"kerf.slice", "start", Kind::Starts},
    {"kerf.slice", "limit", Kind::Sizes},
    {"kerf.slice", "strides", Kind::Strides},
    {"kerf.take_along", "batch_dims", Kind::Dimension},
    {"kerf.take_along_backward", "batch_dims", Kind::Dimension},
};

class BlockEmitter {
public:
  BlockEmitter(OpBuilder &builder, Location loc, int64_t blocks, bool sameRandom)
      : builder(builder), loc(loc), blocks(blocks), sameRandom(sameRandom) {}

  void map(Value old, BlockValue made) { values[old] = made; }

  void emit(Operation &op) {
    if (isa<RandomOp>(op) && !values.lookup(op.getOperand(0)).value)
      return map(op.getResult(0), {half(op.getResult(0).getType()), false});
    if (llvm::any_of(op.getOperands(), [&](Value operand) { return !values.lookup(operand).value; }))
      return; // the key, repeated for each element
    bool each = isa<RandomOp>(op) && !sameRandom;
    for (Value operand : op.getOperands())
      each |= values.lookup(operand).each;
    SmallVector<Value> operands;
    for (Value operand : op.getOperands())
      operands.push_back(each && !takesOneForAll(op, operand) ? ofEach(values.lookup(operand))
                                                              : values.lookup(operand).value);
    SmallVector<Type> types;
    for (Type type : op.getResultTypes())
      types.push_back(each ? withBlocks(type) : type);
    OperationState state(loc, op.getName(), operands, types, op.getAttrs());
    if (each)
      for (const MovedAttribute &moved : kMoved)
        if (op.getName().getStringRef() == moved.op)
          state.attributes.set(moved.name, changed(op.getAttr(moved.name), moved.kind));
    Operation *made = builder.create(state);
    for (auto [old, result] : llvm::zip(op.getResults(), made->getResults()))
      map(old, {result, each});
  }

  Value ofEach(Value old) { return ofEach(values.lookup(old)); }

private:
  /// Returns whether the op reads the operand as one tensor for all blocks: the scalar that a broadcast repeats.
  bool takesOneForAll(Operation &op, Value operand) {
    return isa<BroadcastInDimOp>(op) && !values.lookup(operand).each;
  }

  RankedTensorType withBlocks(Type type) {
    auto tensor = cast<RankedTensorType>(type);
    SmallVector<int64_t> shape{blocks};
    llvm::append_range(shape, tensor.getShape());
    return RankedTensorType::get(shape, tensor.getElementType());
  }

  /// Returns the value with the blocks as its first dimension.
  Value ofEach(BlockValue value) {
    if (value.each)
      return value.value;
    Value from = value.value;
    auto dims = llvm::to_vector(llvm::seq<int64_t>(1, tensorType(from).getRank() + 1));
    auto type = withBlocks(from.getType());
    if (auto broadcast = from.getDefiningOp<BroadcastInDimOp>()) { // one broadcast in place of two
      dims.clear();
      for (int64_t dim : broadcast.getBroadcastDimensions())
        dims.push_back(dim + 1);
      from = broadcast.getOperand();
    }
    return BroadcastInDimOp::create(builder, loc, type, from, builder.getDenseI64ArrayAttr(dims));
  }

  /// Returns a tensor of one half: in place of random numbers, numbers are rounded to the nearest one.
  Value half(Type type) {
    auto scalar = RankedTensorType::get({}, cast<RankedTensorType>(type).getElementType());
    auto value = DenseElementsAttr::get(scalar, ArrayRef<float>{0.5f});
    return BroadcastInDimOp::create(builder, loc, type, ConstantOp::create(builder, loc, scalar, value),
                                    builder.getDenseI64ArrayAttr({}));
  }

  Attribute changed(Attribute attribute, Kind kind) {
    if (kind == Kind::Dimension)
      return builder.getI64IntegerAttr(cast<IntegerAttr>(attribute).getInt() + 1);
    SmallVector<int64_t> numbers;
    if (kind == Kind::Starts || kind == Kind::DimensionsAndFirst)
      numbers.push_back(0);
    if (kind == Kind::Sizes)
      numbers.push_back(blocks);
    if (kind == Kind::Strides)
      numbers.push_back(1);
    bool moves = kind == Kind::Dimensions || kind == Kind::DimensionsAndFirst;
    for (int64_t number : cast<DenseI64ArrayAttr>(attribute).asArrayRef())
      numbers.push_back(number + moves);
    return builder.getDenseI64ArrayAttr(numbers);
  }

  OpBuilder &builder;
  Location loc;
  int64_t blocks;
  bool sameRandom;
  DenseMap<Value, BlockValue> values;
};

} // namespace

bool appliesToBlocks(Operation *op) {
  return op->hasTrait<OpTrait::Elementwise>() ||
         isa<ConstantOp, IotaOp, BroadcastInDimOp, ReduceOp, ReshapeOp, TransposeOp, SliceOp, ConcatenateOp, TopKOp,
             TakeAlongOp, TakeAlongBackwardOp, PackOp, UnpackOp>(op);
}

SmallVector<Value> applyToBlocks(OpBuilder &builder, Location loc, func::FuncOp function,
                                 ArrayRef<BlockValue> arguments, int64_t blocks, bool sameRandom) {
  BlockEmitter emitter(builder, loc, blocks, sameRandom);
  for (auto [old, made] : llvm::zip(function.getArguments(), arguments))
    emitter.map(old, made);
  for (Operation &op : function.front().without_terminator())
    emitter.emit(op);
  SmallVector<Value> results;
  for (Value result : function.front().getTerminator()->getOperands())
    results.push_back(emitter.ofEach(result));
  return results;
}

} // namespace kerf
