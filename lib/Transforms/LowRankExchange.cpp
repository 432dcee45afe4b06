// SPDX-License-Identifier: Apache-2.0
// PowerSGD: the factors of a gradient (kerf/Codec/LowRank.h) are summed by two all-reduces.
#include "GradientBlocks.h"
#include "GradientExchange.h"
#include "kerf/Codec/LowRank.h"

using namespace mlir;
using namespace kerf::ir;

namespace kerf {

namespace {

class LowRankExchange : public GradientExchange {
public:
  LowRankExchange(Operation *start, const CompressedSync &how, const ExchangeContext &context, const Codec &codec)
      : GradientExchange(start, how, context), rank(codec.rank) {
    auto type = tensorType(start->getOperand(0));
    rows = type.getDimSize(0);
    columns = rows ? type.getNumElements() / rows : 0;
    rank = std::min({rank, rows, columns});
  }

  void send(OpBuilder &builder) override {
    Emitter emit{builder, start->getLoc()};
    Value gradient = emit.reshape(emit.convert(start->getOperand(0), builder.getF32Type()), {rows, columns});
    gradient = withMomentum(emit, unscaled(emit, gradient));
    startPlain(emit, gradient);
    matrix = withFeedback(emit, gradient, "compression_error/", feedback);
    state = context.states.add(stateName("compression_factor/"), {rank, columns});
    firstFactor = startAllReduce(emit, lowRankLeft(emit, startingFactor(emit), matrix));
  }

  void add(OpBuilder &builder) override {
    Emitter emit{builder, start->getLoc()};
    left = orthogonalRows(emit, wait(emit, firstFactor));
    secondFactor = startAllReduce(emit, lowRankRight(emit, left, matrix));
  }

  void receive(OpBuilder &builder) override {
    Emitter emit{builder, start->getLoc()};
    Value right = wait(emit, secondFactor);
    replaceState(emit, state, right, context.states.before(state));
    Value sum = lowRankMatrix(emit, left, right);
    if (how.feedback)
      keepError(emit, emit.subtract(matrix, emit.multiply(sum, emit.splat(1.0 / double(ranks), sum))), feedback);
    auto type = tensorType(start->getOperand(0));
    Value result =
        emit.convert(emit.reshape(scaled(emit, withPlain(emit, sum)), type.getShape()), type.getElementType());
    if (auto scatter = dyn_cast<ReduceScatterOp>(start)) {
      auto part = cast<PendingType>(scatter.getResult().getType()).getTensor();
      result = LocalSliceOp::create(builder, emit.loc, part,
                                    padded(emit, result, scatter.getDim(), part.getDimSize(scatter.getDim()) * ranks),
                                    scatter.getDimAttr(), axes);
    }
    finish(result);
  }

private:
  /// Returns the factor of the last step, or random numbers where it is zero: in the first step, and after a gradient
  /// that was zero.
  Value startingFactor(Emitter &emit) {
    Value before = context.states.before(state);
    Value keys = emit.broadcast(randomKey(emit, false, true), shapeOf(before), {});
    Value random = RandomOp::create(emit.builder, emit.loc, before.getType(), keys);
    random = emit.subtract(random, emit.splat(0.5, random));
    Value size =
        emit.reduce(AbsOp::create(emit.builder, emit.loc, before.getType(), before), ReduceKindIR::max, {0, 1});
    Value isZero = emit.compare(size, emit.splat(0.0, size), Comparison::EQ);
    return emit.select(emit.broadcast(isZero, shapeOf(before), {}), random, before);
  }

  Value startAllReduce(Emitter &emit, Value factor) {
    auto type = PendingType::get(emit.builder.getContext(), tensorType(factor));
    Value pending = AllReduceOp::create(emit.builder, emit.loc, type, factor, axes,
                                        ReduceKindIRAttr::get(emit.builder.getContext(), ReduceKindIR::sum),
                                        stream(emit), cause(emit));
    markPayload(pending);
    return pending;
  }
  Value wait(Emitter &emit, Value pending) {
    return WaitOp::create(emit.builder, emit.loc, cast<PendingType>(pending.getType()).getTensor(), pending);
  }

  int64_t rank, rows = 0, columns = 0;
  Feedback feedback;
  size_t state = 0;
  Value matrix, left, firstFactor, secondFactor;
};

} // namespace

std::unique_ptr<GradientExchange> createLowRankExchange(Operation *start, const CompressedSync &how,
                                                        const ExchangeContext &context, const Codec &codec) {
  return std::make_unique<LowRankExchange>(start, how, context, codec);
}

} // namespace kerf
