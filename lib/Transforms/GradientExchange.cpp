// SPDX-License-Identifier: Apache-2.0
#include "GradientExchange.h"
#include "GradientBlocks.h"
#include "KernelOutline.h"
#include "kerf/Transforms/DeviceAxes.h"

#include <cmath>

using namespace mlir;
using namespace kerf::ir;

namespace kerf {

GradientExchange::GradientExchange(Operation *start, const CompressedSync &how, const ExchangeContext &context)
    : start(start), how(how), context(context), batches(sumBatches(how)),
      axes(start->getAttrOfType<DenseI64ArrayAttr>("axes")), ranks(1) {
  for (const AxisRef &axis : axesFromFlat(axes.asArrayRef()))
    ranks *= axis.size;
}

Operation *GradientExchange::firstUser() const { return firstUserOf(cast<WaitOp>(*start->user_begin())); }

int64_t GradientExchange::gradientBytes() const { return bytesOfTensor(start->getOperand(0)); }

Value GradientExchange::like(Emitter &emit, Value scalar, Value x) {
  return emit.broadcast(emit.convert(scalar, emit.builder.getF32Type()), shapeOf(x), {});
}

Value GradientExchange::unscaled(Emitter &emit, Value x) {
  Value scale = context.states.find("", KerfDialect::kLossScaleName);
  return scale ? emit.multiply(x, like(emit, emit.divide(emit.splat(1.0, scale), scale), x)) : x;
}

Value GradientExchange::scaled(Emitter &emit, Value x) {
  Value scale = context.states.find("", KerfDialect::kLossScaleName);
  return scale ? emit.multiply(x, like(emit, scale, x)) : x;
}

Value GradientExchange::withMomentum(Emitter &emit, Value x) {
  if (how.momentum == 0)
    return x;
  momentumState = context.states.add(stateName("compression_momentum/"), shapeOf(x));
  Value before = context.states.before(momentumState);
  momentum = emit.add(emit.multiply(before, emit.splat(how.momentum, x)), x);
  context.states.replace(momentumState, momentum);
  return momentum;
}

Value GradientExchange::withFeedback(Emitter &emit, Value x, const char *prefix, Feedback &feedback) {
  if (!how.feedback)
    return x;
  feedback.state = context.states.add(stateName(prefix), shapeOf(x));
  feedback.before = context.states.before(feedback.state);
  feedback.rate = context.rate ? context.rate : context.states.find("learning_rate", "learning_rate");
  if (!feedback.rate)
    return emit.add(x, feedback.before);
  Value rate = like(emit, feedback.rate, x), zero = emit.splat(0.0, x);
  Value moves = emit.compare(rate, zero, Comparison::GT);
  return emit.add(x, emit.select(moves, emit.divide(feedback.before, rate), zero));
}

void GradientExchange::keepError(Emitter &emit, Value error, const Feedback &feedback) {
  if (feedback.rate) {
    Value rate = like(emit, feedback.rate, error);
    Value moves = emit.compare(rate, emit.splat(0.0, error), Comparison::GT);
    error = emit.select(moves, emit.multiply(error, rate), feedback.before);
  }
  replaceState(emit, feedback.state, error, feedback.before);
}

void GradientExchange::startPlain(Emitter &emit, Value x, std::optional<int64_t> scatterDim) {
  if (batches.plain.ranges.empty())
    return;
  OpBuilder &builder = emit.builder;
  Value step = context.states.scalar("step");
  isPlain = isIdle = isIn(emit, step, batches.plain);
  if (batches.hasLocalSteps()) {
    Value sums = isIn(emit, step, batches.sums);
    isIdle = OrOp::create(builder, emit.loc, sums.getType(), isPlain,
                          NotOp::create(builder, emit.loc, sums.getType(), sums));
  }
  auto sum = ReduceKindIRAttr::get(builder.getContext(), ReduceKindIR::sum);
  auto type = tensorType(x);
  if (scatterDim) {
    Shape shape = shapeOf(x);
    shape[size_t(*scatterDim)] /= ranks;
    auto pending = PendingType::get(builder.getContext(), RankedTensorType::get(shape, type.getElementType()));
    plain = ReduceScatterOp::create(builder, emit.loc, pending, x, axes, builder.getI64IntegerAttr(*scatterDim), sum,
                                    stream(emit), cause(emit));
  } else {
    plain = AllReduceOp::create(builder, emit.loc, PendingType::get(builder.getContext(), type), x, axes, sum,
                                stream(emit), cause(emit));
  }
  plain.getDefiningOp()->setAttr(kBatchesAttr, builder.getDenseI64ArrayAttr(flatBatches(batches.plain)));
}

Value GradientExchange::withPlain(Emitter &emit, Value sum) {
  if (!plain)
    return sum;
  Value plainSum = WaitOp::create(emit.builder, emit.loc, cast<PendingType>(plain.getType()).getTensor(), plain);
  return emit.select(emit.broadcast(isPlain, shapeOf(sum), {}), plainSum, sum);
}

void GradientExchange::replaceState(Emitter &emit, size_t state, Value value, Value before) {
  if (isIdle)
    value = emit.select(emit.broadcast(isIdle, shapeOf(value), {}), before, value);
  context.states.replace(state, value);
}

void GradientExchange::markPayload(ArrayRef<Value> pending) {
  int64_t payload = 0;
  for (Value part : pending)
    payload += bytesOfTensor(part.getDefiningOp()->getOperand(0));
  Builder builder(start->getContext());
  for (Value part : pending) {
    Operation *collective = part.getDefiningOp();
    double share = double(bytesOfTensor(collective->getOperand(0))) / double(payload);
    auto bytes = int64_t(std::ceil(share * double(gradientBytes()))); // a full group has to fill its bucket
    collective->setAttr(kGradientBytesAttr, builder.getI64IntegerAttr(bytes));
    if (!batches.plain.ranges.empty())
      collective->setAttr(kBatchesAttr, builder.getDenseI64ArrayAttr(flatBatches(batches.coded)));
  }
}

Value GradientExchange::randomKey(Emitter &emit, bool owner, bool shared) {
  auto type = RankedTensorType::get({}, emit.builder.getI32Type());
  Value seed = context.states.scalar("seed"), step = context.states.scalar("step");
  return RandomKeyOp::create(
      emit.builder, emit.loc, type, seed, step, emit.builder.getI64IntegerAttr(2 * context.number + owner),
      emit.builder.getDenseI64ArrayAttr(flatAxes(shared ? std::vector<AxisRef>() : context.differing)));
}

void GradientExchange::finish(Value result) {
  auto wait = cast<WaitOp>(*start->user_begin());
  wait.getResult().replaceAllUsesWith(result);
  wait->erase();
  start->erase();
  start = nullptr;
}

} // namespace kerf
