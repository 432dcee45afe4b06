// SPDX-License-Identifier: Apache-2.0
// The attributes by which passes hand on how gradients are compressed.
#pragma once

#include "kerf/Codec/Codec.h"
#include "kerf/Dialect/Kerf/Emit.h"
#include "kerf/Optimizer/CodedMean.h"
#include "kerf/Support/Compression.h"

namespace kerf {

/// On a sync_gradient and on the collectives that it becomes: how the gradient is compressed (CompressedSync).
inline constexpr llvm::StringLiteral kCompressionAttr = "kerf.compression";
/// On the module: the texts of the user's codecs, by name.
inline constexpr llvm::StringLiteral kCodecTextsAttr = "kerf.codec_texts";
/// On the module: the name of the codec of parameters that are gathered over ranks.
inline constexpr llvm::StringLiteral kGatherCodecAttr = "kerf.gather_codec";
/// On a collective: the batches in which it runs (flatBatches). In all other batches its result is zeros.
inline constexpr llvm::StringLiteral kBatchesAttr = "kerf.batches";
/// On a collective of a payload: the bytes of the gradient that the payload stands for, by which buckets fill.
inline constexpr llvm::StringLiteral kGradientBytesAttr = "kerf.gradient_bytes";
/// On a scalar i1 (unit): true in a step that changes no parameter and no state.
inline constexpr llvm::StringLiteral kSkipsStepAttr = "kerf.skips_step";

/// On the two scalars that make the update of a parameter wait for a sum, whether this step is local and the sum of
/// learning rates: the parameter's name.
inline constexpr llvm::StringLiteral kLocalStepsAttr = "kerf.local_steps";
/// Prefix of the scalar states that hold the sum of a learning rate since the last sum of ranks: the name of the
/// argument with the learning rate follows.
inline constexpr llvm::StringLiteral kRatesPrefix = "compression_rates/";

/// The contents of the attribute `kerf.compression`.
struct CompressedSync {
  std::string parameter, codec;
  std::string scheme;    // "two-stage" or "all-gather"; "": chosen by codec and ranks
  bool feedback = false; // whether error feedback is kept
  double momentum = 0;   // factor of the momentum that is added before encoding; 0: none
  /// State of the optimizer that is the momentum of what arrived, which is the same on all ranks; "": each rank has a
  /// momentum of its own.
  std::string momentumState = {};
  bool hierarchy = false; // whether ranks of a node sum plainly first
  int64_t pieces = 1;     // pieces that are encoded, sent and decoded beside each other
  int64_t firstBatch = 0; // number of the first batch whose gradients are compressed; those before are summed plainly
  std::string optimizer = {};  // record whose mean (CodedMean) is summed in place of the gradient; "": none
  SettingValues settings = {}; // of this optimizer
  /// With local steps, the learning rate of the parameter is the scalar argument `rate`, times `rateFactor`.
  std::string rate = {};
  double rateFactor = 1;
  std::string piece = {}; // end of the names of the states of one piece: "#0", "#1", ...; "": the gradient is whole
  mlir::DictionaryAttr toAttr(mlir::MLIRContext *context) const;
  static CompressedSync fromAttr(mlir::DictionaryAttr attr);
};

/// Returns the batches in which the gradient, or the mean in its place, is summed plainly and in codes.
SumBatches sumBatches(const CompressedSync &how);

/// Returns whether `batch`, a scalar of type i64, belongs to the set, as a scalar of type i1.
mlir::Value isIn(ir::Emitter &emit, mlir::Value batch, const BatchSet &batches);

/// Returns the codec `name`: one of the user's (kCodecTextsAttr of the module) or one of Kerf's.
Result<Codec> findCodec(mlir::ModuleOp module, const std::string &name);

} // namespace kerf
