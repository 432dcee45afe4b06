// SPDX-License-Identifier: Apache-2.0
// One compressed sum of a gradient over ranks, which is emitted in three parts so that other work runs while messages
// travel.
#pragma once

#include "Compression.h"
#include "CompressionStates.h"

namespace kerf {

/// The place of an exchange in the step.
struct ExchangeContext {
  CompressionStates &states;
  int64_t number; // of the gradient among the compressed ones of the step
  /// The axes along which ranks encode different numbers. Along all others they hold copies of the gradient.
  std::vector<AxisRef> differing = {};
  mlir::Value rate = {}; // scalar with which errors become updates; null: the learning rate
};

/// The exchange that replaces the collective `start` and its wait.
class GradientExchange {
public:
  GradientExchange(mlir::Operation *start, const CompressedSync &how, const ExchangeContext &context);
  virtual ~GradientExchange() = default;

  /// Encodes the gradient and starts the first collective.
  virtual void send(mlir::OpBuilder &builder) = 0;
  /// Waits for the first collective, and starts the second one where there is one.
  virtual void add(mlir::OpBuilder &builder) = 0;
  /// Waits for the last collective, and replaces the result of the plain one.
  virtual void receive(mlir::OpBuilder &builder) = 0;

  /// Returns the op before which the sum has to be complete.
  mlir::Operation *firstUser() const;
  /// Returns the collective that is replaced; null after `receive`.
  mlir::Operation *replaced() const { return start; }
  /// Returns the bytes of the gradient before it is encoded.
  int64_t gradientBytes() const;
  /// Returns whether the gradient is a piece of a parameter's gradient.
  bool isPiece() const { return !how.piece.empty(); }

protected:
  /// Returns `x` without the loss scale, so that states hold numbers that do not depend on it.
  mlir::Value unscaled(ir::Emitter &emit, mlir::Value x);
  /// Returns `x` with the loss scale.
  mlir::Value scaled(ir::Emitter &emit, mlir::Value x);
  /// Returns a scalar, converted to f32 and broadcast to the shape of `x`.
  mlir::Value like(ir::Emitter &emit, mlir::Value scalar, mlir::Value x);
  /// Adds the momentum of the gradients so far, where the plan says so.
  mlir::Value withMomentum(ir::Emitter &emit, mlir::Value x);

  /// The error of one encoding, which is added to what the next step encodes.
  struct Feedback {
    size_t state = 0;
    mlir::Value before, rate; // the state, and the learning rate
  };
  /// Adds what the step before did not send. The state is in units of updates, error times learning rate, so that a
  /// change of the learning rate does not change how much the parameter still has to move.
  mlir::Value withFeedback(ir::Emitter &emit, mlir::Value x, const char *prefix, Feedback &feedback);
  /// Keeps `error` for the next step.
  void keepError(ir::Emitter &emit, mlir::Value error, const Feedback &feedback);
  /// Sums `x`, a gradient before it is encoded, plainly in the batches of `batches.plain`. Does nothing where there are
  /// none. A `scatterDim` makes it a reduce-scatter along that dimension.
  void startPlain(ir::Emitter &emit, mlir::Value x, std::optional<int64_t> scatterDim = {});
  /// Returns the plain sum in the batches that sum plainly, else `sum`.
  mlir::Value withPlain(ir::Emitter &emit, mlir::Value sum);
  /// Replaces a state, except in the batches that encode nothing, which keep `before`.
  void replaceState(ir::Emitter &emit, size_t state, mlir::Value value, mlir::Value before);
  /// Limits collectives, which send one payload together, to the batches that sum in codes, and divides the bytes of
  /// the gradient among them (kGradientBytesAttr).
  void markPayload(mlir::ArrayRef<mlir::Value> pending);
  /// Returns the name of a state.
  std::string stateName(const char *prefix) const { return prefix + how.parameter + how.piece; }
  /// Returns the key of random numbers; `owner` is that of the second encoding. Ranks with copies of the gradient have
  /// the same key, so that their copies stay equal. With `shared`, all ranks have one key.
  mlir::Value randomKey(ir::Emitter &emit, bool owner, bool shared);
  /// Pieces of a gradient have a stream of their own, on which no bucket waits for more bytes.
  mlir::StringAttr stream(ir::Emitter &emit) {
    return emit.builder.getStringAttr(how.piece.empty() ? "gradients" : "gradient_pieces");
  }
  mlir::StringAttr cause(ir::Emitter &emit) { return emit.builder.getStringAttr("gradient of " + how.parameter); }
  /// Replaces the result of the plain collective, and erases it.
  void finish(mlir::Value result);

  mlir::Operation *start;
  const CompressedSync how;
  const ExchangeContext context;
  const SumBatches batches;
  mlir::DenseI64ArrayAttr axes;
  int64_t ranks; // of the group
  mlir::Value momentum;
  size_t momentumState = 0;

private:
  mlir::Value plain;           // the plain sum that is under way; null: all batches sum in codes
  mlir::Value isPlain, isIdle; // whether this batch sums plainly, and whether it encodes nothing; null with `plain`
};

/// Creates the exchange of payloads that a codec's functions encode and decode.
std::unique_ptr<GradientExchange> createCodedExchange(mlir::Operation *start, const CompressedSync &how,
                                                      const ExchangeContext &context, Codec codec);
/// Creates the exchange of two factors of low rank (PowerSGD).
std::unique_ptr<GradientExchange> createLowRankExchange(mlir::Operation *start, const CompressedSync &how,
                                                        const ExchangeContext &context, const Codec &codec);

} // namespace kerf
