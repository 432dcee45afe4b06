// SPDX-License-Identifier: Apache-2.0
// The exchange of payloads: by all-gather, in two stages, or as a reduce-scatter.
#include "GradientBlocks.h"
#include "GradientExchange.h"

using namespace mlir;
using namespace kerf::ir;

namespace kerf {

namespace {

class CodedExchange : public GradientExchange {
public:
  CodedExchange(Operation *start, const CompressedSync &how, const ExchangeContext &context, Codec its)
      : GradientExchange(start, how, context), codec(std::move(its)), scatters(isa<ReduceScatterOp>(start)),
        gathers(!scatters && (how.scheme.empty() ? codec.gathers || ranks == 2 : how.scheme == "all-gather")),
        blocks(tensorType(start->getOperand(0)), gathers ? 1 : ranks,
               scatters ? std::optional(cast<ReduceScatterOp>(start).getDim()) : std::nullopt, codec.block) {}

  void send(OpBuilder &builder) override {
    Emitter emit{builder, start->getLoc()};
    key = codec.encodeTakesKey ? randomKey(emit, false, codec.sharedKey) : Value();
    Value x = withMomentum(emit, unscaled(emit, blocks.toBlocks(emit, start->getOperand(0))));
    startPlain(emit, x, scatters ? std::optional<int64_t>(0) : std::nullopt);
    Feedback feedback;
    x = withFeedback(emit, x, "compression_error/", feedback);
    payload = encodeBlocks(builder, emit.loc, codec, x, key);
    if (how.feedback || (momentum && codec.masksMomentum)) {
      Value decoded = decodeBlocks(builder, emit.loc, codec, payload, key);
      if (how.feedback)
        keepError(emit, emit.subtract(x, decoded), feedback);
      if (momentum && codec.masksMomentum) {
        Value zero = emit.splat(0.0, x);
        Value masked = emit.select(emit.compare(decoded, zero, Comparison::EQ), momentum, zero);
        replaceState(emit, momentumState, masked, momentum);
      }
    }
    for (Value part : payload)
      first.push_back(gathers ? startGather(emit, part) : startAllToAll(emit, part));
    markPayload(first);
  }

  void add(OpBuilder &builder) override {
    if (gathers)
      return;
    Emitter emit{builder, start->getLoc()};
    sum = decodedSum(emit, arrived(emit, first));
    if (scatters)
      return;
    Value ownersKey = !key || codec.sharedKey ? key : randomKey(emit, true, false);
    Feedback feedback;
    Value x = withFeedback(emit, sum, "compression_owner_error/", feedback);
    payload = encodeBlocks(builder, emit.loc, codec, x, ownersKey);
    if (how.feedback)
      keepError(emit, emit.subtract(x, decodeBlocks(builder, emit.loc, codec, payload, ownersKey)), feedback);
    for (Value part : payload)
      second.push_back(startGather(emit, part));
    markPayload(second);
  }

  void receive(OpBuilder &builder) override {
    Emitter emit{builder, start->getLoc()};
    if (scatters)
      return finish(blocks.partFromBlocks(emit, scaled(emit, withPlain(emit, sum)),
                                          tensorType((*start->user_begin())->getResult(0))));
    Value all = gathers ? decodedSum(emit, arrived(emit, first))
                        : decodeBlocks(builder, emit.loc, codec, arrived(emit, second), key);
    finish(blocks.fromBlocks(emit, scaled(emit, withPlain(emit, all))));
  }

private:
  Value startGather(Emitter &emit, Value part) {
    int64_t count = tensorType(part).getNumElements();
    Type element = tensorType(part).getElementType();
    auto pending = PendingType::get(emit.builder.getContext(), RankedTensorType::get({ranks * count}, element));
    return AllGatherOp::create(emit.builder, emit.loc, pending, emit.reshape(part, {count}), axes,
                               emit.builder.getI64IntegerAttr(0), stream(emit), cause(emit));
  }

  Value startAllToAll(Emitter &emit, Value part) {
    int64_t count = tensorType(part).getNumElements();
    auto received = RankedTensorType::get({ranks, count / ranks}, tensorType(part).getElementType());
    return AllToAllOp::create(emit.builder, emit.loc, PendingType::get(emit.builder.getContext(), received),
                              emit.reshape(part, {1, count}), axes, emit.builder.getI64IntegerAttr(0),
                              emit.builder.getI64IntegerAttr(1), stream(emit), cause(emit));
  }

  /// Waits for collectives, and returns what arrived with the blocks of all senders as the first dimension.
  SmallVector<Value> arrived(Emitter &emit, ArrayRef<Value> pending) {
    SmallVector<Value> values;
    for (auto [value, part] : llvm::zip(pending, payload)) {
      RankedTensorType type = cast<PendingType>(value.getType()).getTensor();
      Shape shape = shapeOf(part);
      shape[0] = type.getNumElements() / (tensorType(part).getNumElements() / shape[0]);
      values.push_back(emit.reshape(WaitOp::create(emit.builder, emit.loc, type, value), shape));
    }
    return values;
  }

  /// Decodes the payloads of all ranks and adds them in the order of their positions, as a plain all-reduce does.
  Value decodedSum(Emitter &emit, ValueRange received) {
    Value total;
    int64_t each = shapeOf(received[0])[0] / ranks;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      SmallVector<Value> parts;
      for (Value part : received)
        parts.push_back(rowsOf(emit, part, rank * each, (rank + 1) * each));
      Value decoded = decodeBlocks(emit.builder, emit.loc, codec, parts, key);
      total = total ? emit.add(total, decoded) : decoded;
    }
    return total;
  }

  const Codec codec;
  bool scatters, gathers;
  GradientBlocks blocks;
  Value key, sum;
  SmallVector<Value> payload, first, second; // second: collectives of the owners' payloads
};

} // namespace

std::unique_ptr<GradientExchange> createCodedExchange(Operation *start, const CompressedSync &how,
                                                      const ExchangeContext &context, Codec codec) {
  return std::make_unique<CodedExchange>(start, how, context, std::move(codec));
}

} // namespace kerf
