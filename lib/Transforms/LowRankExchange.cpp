// SPDX-License-Identifier: Apache-2.0
// PowerSGD (Vogels et al. 2019): a gradient M of a x b is sent as P = M Q and Q = M' P of r columns, by two
// all-reduces. Factors are kept as rows (P' and Q'), whose elements are contiguous.
#include "GradientBlocks.h"
#include "GradientExchange.h"

using namespace mlir;
using namespace kerf::ir;

namespace kerf {

namespace {

/// The number that the norm of a row gets before the row is divided by it (as in PyTorch's hook).
constexpr double kOrthogonalEps = 1e-8;

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
    firstFactor = startAllReduce(emit, product(emit, startingFactor(emit), 1, matrix, 1));
  }

  void add(OpBuilder &builder) override {
    Emitter emit{builder, start->getLoc()};
    left = orthogonal(emit, wait(emit, firstFactor));
    secondFactor = startAllReduce(emit, product(emit, left, 1, matrix, 0));
  }

  void receive(OpBuilder &builder) override {
    Emitter emit{builder, start->getLoc()};
    Value right = wait(emit, secondFactor);
    replaceState(emit, state, right, context.states.before(state));
    Value sum = product(emit, left, 0, right, 0);
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
  Value product(Emitter &emit, Value x, int64_t xDim, Value y, int64_t yDim) {
    return emit.dot(x, y, {}, {}, {xDim}, {yDim});
  }

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

  /// Makes the rows orthogonal, one after the other (modified Gram-Schmidt).
  Value orthogonal(Emitter &emit, Value factor) {
    SmallVector<Value> made;
    for (int64_t row = 0; row < rank; ++row) {
      Value x = emit.reshape(rowsOf(emit, factor, row, row + 1), {rows});
      for (Value other : made) {
        Value share = emit.sum(emit.multiply(x, other), {0});
        x = emit.subtract(x, emit.multiply(other, like(emit, share, x)));
      }
      Value squared = emit.sum(emit.multiply(x, x), {0});
      Value norm = SqrtOp::create(emit.builder, emit.loc, squared.getType(), squared);
      norm = emit.add(norm, emit.splat(kOrthogonalEps, norm));
      made.push_back(emit.divide(x, like(emit, norm, x)));
    }
    SmallVector<Value> parts;
    for (Value x : made)
      parts.push_back(emit.reshape(x, {1, rows}));
    return ConcatenateOp::create(emit.builder, emit.loc, factor.getType(), parts, emit.builder.getI64IntegerAttr(0));
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
