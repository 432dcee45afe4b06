// SPDX-License-Identifier: Apache-2.0
// Emission of an optimizer's update: first op by op as the rule computes, then grouped into maps.
#include "GroupElementwise.h"
#include "Update.h"

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

/// The emission of the update of one parameter.
class Emission {
public:
  Emission(OpBuilder &builder, const UpdateRequest &request)
      : request(request), emit{builder, request.loc}, own(tensorType(request.parameter).getElementType()),
        wide(isHalf(own) ? Type(builder.getF32Type()) : own) {}

  SmallVector<Value> run() {
    Update update{seen(request.parameter), seen(request.gradient), scalar(request.rate), {}, request.settings, {}};
    if (request.number)
      update.number = scalar(request.number) + 1;
    auto states = request.record.states(request.settings, request.shape);
    for (auto [state, value] : llvm::zip(states, request.states))
      update.states.emplace_back(state.name, Term(emit, emit.convert(value, wide)));
    request.record.rule(update);
    SmallVector<Value> results = {stored(update.parameter, request.parameter)};
    for (auto [state, value] : llvm::zip(update.states, request.states))
      results.push_back(stored(state.second, value));
    return results;
  }

private:
  /// Returns a tensor of the parameter's shape in the program, converted to the shape and type that the rule sees.
  Term seen(Value value) { return {emit, emit.reshape(emit.convert(value, wide), request.shape)}; }
  Term scalar(Value value) { return {emit, emit.convert(value, emit.builder.getF64Type())}; }
  /// Returns a new value in the shape and type in which it is stored, or the old value where the update is skipped.
  Value stored(const Term &made, Value before) {
    Value value = emit.reshape(made.as(typeOf(made), emit), tensorType(before).getShape());
    value = emit.convert(value, own);
    if (!request.skip)
      return value;
    Value skip = request.skip;
    if (tensorType(value).getRank() > 0)
      skip = emit.broadcast(skip, tensorType(value).getShape(), {});
    return emit.select(skip, before, value);
  }
  Type typeOf(const Term &made) const { return RankedTensorType::get(made.shape(), wide); }

  const UpdateRequest &request;
  Emitter emit;
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

} // namespace kerf
