// SPDX-License-Identifier: Apache-2.0
// Emission of an optimizer's update: first op by op as the rule computes, then grouped into maps.
#include "EmitUpdate.h"
#include "GroupElementwise.h"
#include "kerf/Dialect/Kerf/Emit.h"
#include "kerf/Optimizer/CodedMean.h"
#include "kerf/Optimizer/Update.h"

#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace kerf::ir;

namespace kerf {

namespace {

/// A listener that records new ops in order.
struct Recorder : OpBuilder::Listener {
  SmallVector<Operation *> ops;
  void notifyOperationInserted(Operation *op, OpBuilder::InsertPoint) override { ops.push_back(op); }
};

/// The emitter of an optimizer's formula as kerf ops.
class OpEmitter : public TermEmitter {
public:
  explicit OpEmitter(Emitter &emit) : emit(emit) {}

  /// Gives an IR value a number, with which terms name it.
  Term term(Value value) { return {*this, add(value)}; }
  /// Returns the IR value of a term, whose element type is `wide` where the term is a constant.
  Value valueOf(const Term &term, Type wide) {
    return term.isConstant() ? number(term.number(), RankedTensorType::get({}, wide)) : valueOf(term.id());
  }

  Shape shape(TermValue value) const override { return shapeOf(valueOf(value)); }
  unsigned elementBits(TermValue value) const override { return typeOf(value).getElementTypeBitWidth(); }
  TermValue constant(double value, TermValue like) override { return add(number(value, typeOf(like))); }
  TermValue convert(TermValue value, TermValue like) override { return add(converted(valueOf(value), typeOf(like))); }
  TermValue binary(BinaryTerm operation, TermValue x, TermValue y) override {
    switch (operation) {
    case BinaryTerm::Add:
      return create<AddOp>(x, y);
    case BinaryTerm::Subtract:
      return create<SubtractOp>(x, y);
    case BinaryTerm::Multiply:
      return create<MultiplyOp>(x, y);
    case BinaryTerm::Divide:
      return create<DivideOp>(x, y);
    case BinaryTerm::Power:
      return create<PowerOp>(x, y);
    case BinaryTerm::Maximum:
      return create<MaximumOp>(x, y);
    case BinaryTerm::Minimum:
      return create<MinimumOp>(x, y);
    }
    llvm_unreachable("unknown operation");
  }
  TermValue unary(UnaryTerm operation, TermValue x) override {
    switch (operation) {
    case UnaryTerm::Sqrt:
      return create<SqrtOp>(x);
    case UnaryTerm::Sign:
      return create<SignOp>(x);
    case UnaryTerm::Floor:
      return create<FloorOp>(x);
    }
    llvm_unreachable("unknown operation");
  }
  TermValue wherePositive(TermValue condition, TermValue x, TermValue y) override {
    Value positive = emit.compare(valueOf(condition), number(0, typeOf(condition)), Comparison::GT);
    return add(emit.select(positive, valueOf(x), valueOf(y)));
  }
  TermValue sum(TermValue x, const Shape &dims) override { return add(emit.sum(valueOf(x), dims)); }
  TermValue along(TermValue x, TermValue like, int64_t dim) override {
    return add(emit.broadcastAlong(valueOf(x), valueOf(like), dim));
  }
  TermValue reshape(TermValue x, const Shape &shape) override { return add(emit.reshape(valueOf(x), shape)); }
  TermValue product(TermValue x, int64_t xDim, TermValue y, int64_t yDim) override {
    return add(emit.dot(valueOf(x), valueOf(y), {}, {}, {xDim}, {yDim}));
  }

private:
  TermValue add(Value value) {
    values.push_back(value);
    return static_cast<TermValue>(values.size()) - 1;
  }
  Value valueOf(TermValue value) const { return values[static_cast<size_t>(value)]; }
  RankedTensorType typeOf(TermValue value) const { return tensorType(valueOf(value)); }
  template <typename Op> TermValue create(TermValue x, TermValue y) {
    return add(Op::create(emit.builder, emit.loc, typeOf(x), valueOf(x), valueOf(y)));
  }
  template <typename Op> TermValue create(TermValue x) {
    return add(Op::create(emit.builder, emit.loc, typeOf(x), valueOf(x)));
  }
  /// Returns the scalar or tensor converted to the element type of `like`. A scalar is broadcast to a tensor's shape.
  Value converted(Value value, RankedTensorType like) {
    value = emit.convert(value, like.getElementType());
    return value.getType() == like ? value : emit.broadcast(value, like.getShape(), {});
  }
  Value number(double value, RankedTensorType like) {
    auto scalar = RankedTensorType::get({}, like.getElementType());
    auto attribute = DenseElementsAttr::get(scalar, emit.builder.getFloatAttr(like.getElementType(), value));
    return converted(ConstantOp::create(emit.builder, emit.loc, scalar, attribute), like);
  }

  Emitter &emit;
  SmallVector<Value> values; // by their numbers
};

/// The emission of the update of one parameter.
class Emission {
public:
  Emission(OpBuilder &builder, const UpdateRequest &request)
      : request(request), emit{builder, request.loc}, ops(emit), own(tensorType(request.parameter).getElementType()),
        wide(isHalf(own) ? Type(builder.getF32Type()) : own) {}

  SmallVector<Value> run() {
    Update update = begin(seen(request.gradient), scalar(request.rate));
    request.record.rule(update);
    SmallVector<Value> results = {stored(update.parameter, request.parameter)};
    for (auto [state, value] : llvm::zip(update.states, request.states))
      results.push_back(stored(state.second, value));
    return results;
  }

  Value moved(Value moves) {
    Update update = begin(0, 1);
    return stored(update.parameter - request.record.codedMean->change(update, 1, seen(moves)), request.parameter);
  }

private:
  Update begin(const Term &gradient, const Term &rate) {
    Update update{seen(request.parameter), gradient, rate, {}, request.settings, {}};
    if (request.number)
      update.number = scalar(request.number) + 1;
    auto states = request.record.states(request.settings, request.shape);
    for (auto [state, value] : llvm::zip(states, request.states))
      update.states.emplace_back(state.name, ops.term(emit.convert(value, wide)));
    return update;
  }
  /// Returns a tensor of the parameter's shape in the program, converted to the shape and type that the rule sees.
  Term seen(Value value) { return ops.term(emit.reshape(emit.convert(value, wide), request.shape)); }
  Term scalar(Value value) { return ops.term(emit.convert(value, emit.builder.getF64Type())); }
  /// Returns a new value in the shape and type in which it is stored, or the old value where the update is skipped.
  Value stored(const Term &made, Value before) {
    Value value = emit.reshape(emit.convert(ops.valueOf(made, wide), wide), tensorType(before).getShape());
    value = emit.convert(value, own);
    if (!request.skip)
      return value;
    Value skip = request.skip;
    if (tensorType(value).getRank() > 0)
      skip = emit.broadcast(skip, tensorType(value).getShape(), {});
    return emit.select(skip, before, value);
  }

  const UpdateRequest &request;
  Emitter emit;
  OpEmitter ops;
  Type own, wide;
};

/// Returns the ops that depend on the parameter, and the constants and broadcasts of scalars that maps may contain. All
/// other ops depend on scalars of the step alone; they are not grouped, so that parameters can share them.
SmallVector<Operation *> opsOfParameter(ArrayRef<Operation *> ops, const UpdateRequest &request) {
  llvm::DenseSet<Value> its(request.states.begin(), request.states.end());
  its.insert_range(ArrayRef<Value>{request.parameter, request.gradient});
  SmallVector<Operation *> found;
  for (Operation *op : ops) {
    bool depends = llvm::any_of(op->getOperands(), [&](Value operand) { return its.contains(operand); });
    if (depends)
      its.insert_range(op->getResults());
    if (depends || isCheaperToRecompute(op))
      found.push_back(op);
  }
  return found;
}

} // namespace

SmallVector<Value> emitUpdate(OpBuilder &builder, const UpdateRequest &request) {
  Recorder recorder;
  OpBuilder::Listener *before = builder.getListener();
  builder.setListener(&recorder);
  SmallVector<Value> results = Emission(builder, request).run();
  builder.setListener(before);
  for (Operation *op : groupElementwise(builder, opsOfParameter(recorder.ops, request), results))
    op->setAttr(KerfDialect::kUpdateAttr, builder.getStringAttr(request.name));
  return results;
}

Value emitMoved(OpBuilder &builder, const UpdateRequest &request, Value moves) {
  return Emission(builder, request).moved(moves);
}

} // namespace kerf
