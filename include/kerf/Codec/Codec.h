// SPDX-License-Identifier: Apache-2.0
// Codecs of compressed gradients. A codec is a module of two functions in kerf IR, which encode and decode one block of
// elements (docs/compression.md). The compiler applies them to all blocks of a gradient at once, so that a codec needs
// no code in the runtime.
#pragma once

#include "kerf/Dialect/Kerf/KerfDialect.h"
#include "kerf/Support/Result.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/OwningOpRef.h"
#include <memory>

namespace kerf {

/// A codec: its two functions, and the facts that the dictionary `kerf.codec` of its module states.
struct Codec {
  std::string name;
  int64_t block = 0; // elements of a block
  /// Whether the mean of what is decoded differs from what was encoded, so that training needs error feedback.
  bool biased = false;
  /// Whether error feedback makes no sense, because what is decoded does not have the size of what was encoded.
  bool noFeedback = false;
  /// Whether momentum has to be added to a gradient before it is encoded, and not to the sum of what is decoded.
  bool momentumFirst = false;
  /// Whether the momentum of the elements that were sent starts anew (factor masking of deep gradient compression).
  bool masksMomentum = false;
  /// Whether all ranks and all blocks have the same random numbers, so that all choose the same elements.
  bool sharedKey = false;
  /// Whether every rank sends its payload to every other one, because a sum of payloads has no payload of that size.
  bool gathers = false;
  /// Rank of the two factors that PowerSGD sends in place of payloads; 0 for all codecs with functions.
  int64_t rank = 0;
  /// Bytes of the payload of one block.
  int64_t blockBytes = 0;
  /// Whether `encode` takes a key of random numbers as its second argument, and `decode` as its last one.
  bool encodeTakesKey = false, decodeTakesKey = false;
  mutable mlir::func::FuncOp encode, decode; // mutable: MLIR's ops are handles without const functions
  /// The module that has the functions.
  std::shared_ptr<mlir::OwningOpRef<mlir::ModuleOp>> module;

  /// Returns the bytes of the payload of `elements` elements, which are padded to whole blocks.
  int64_t payloadBytes(int64_t elements) const { return (elements + block - 1) / block * blockBytes; }
};

/// Returns the names of the codecs that Kerf has, in alphabetical order: those with functions, and powersgd.
std::vector<std::string> codecNames();
/// Returns the text of the codec `name`, or "" where Kerf has no codec of this name.
std::string_view codecText(std::string_view name);
/// Returns the codec "powersgd" (rank 4) or "powersgd-R" (rank R, 1 to 64), which has no functions; nothing for other
/// names.
std::optional<Codec> lowRankCodec(std::string_view name);
/// Reads a codec from its text. `file` names the text in messages. Fails where the text is no codec: the message says
/// which rule it breaks.
Result<Codec> readCodec(mlir::MLIRContext &context, std::string_view text, const std::string &file);

/// Emits the ops that encode `blocks` (f32, [blocks, elements of a block]) and returns the parts of the payload, each
/// with the blocks as its first dimension. `key` is a scalar i32 (kerf.random_key). Without a key, the random numbers
/// are one half, with which the codecs of Kerf round to the nearest number.
mlir::SmallVector<mlir::Value> encodeBlocks(mlir::OpBuilder &builder, mlir::Location loc, const Codec &codec,
                                            mlir::Value blocks, mlir::Value key);
/// Emits the ops that decode a payload and returns the blocks (f32, [blocks, elements of a block]).
mlir::Value decodeBlocks(mlir::OpBuilder &builder, mlir::Location loc, const Codec &codec, mlir::ValueRange payload,
                         mlir::Value key);

} // namespace kerf
