// SPDX-License-Identifier: Apache-2.0
// A gradient as blocks for a codec: the elements that each rank of a group will own stand together, and each owner's
// part is padded to whole blocks.
#pragma once

#include "kerf/Codec/Codec.h"
#include "kerf/Dialect/Kerf/Emit.h"

namespace kerf {

/// The way of a gradient to blocks and back.
class GradientBlocks {
public:
  /// A gradient of type `gradient` in `parts` parts along dimension `dim`, or of its elements in row-major order where
  /// `dim` is absent.
  GradientBlocks(mlir::RankedTensorType gradient, int64_t parts, std::optional<int64_t> dim, int64_t block);

  int64_t parts, blocksOfPart, block;
  /// Returns the gradient as f32 blocks, [parts * blocksOfPart, block].
  mlir::Value toBlocks(ir::Emitter &emit, mlir::Value gradient) const;
  /// Returns the whole gradient that `blocks` hold. Only where the parts follow each other in row-major order.
  mlir::Value fromBlocks(ir::Emitter &emit, mlir::Value blocks) const;
  /// Returns the part of type `type` of one owner, which `blocks` ([blocksOfPart, block]) hold.
  mlir::Value partFromBlocks(ir::Emitter &emit, mlir::Value blocks, mlir::RankedTensorType type) const;
  /// Returns the part of one rank as f32 blocks, [blocksOfPart, block].
  mlir::Value partToBlocks(ir::Emitter &emit, mlir::Value part) const;
  /// Returns the whole tensor whose parts `blocks` ([parts * blocksOfPart, block]) hold. Only for parts along a
  /// dimension.
  mlir::Value wholeFromBlocks(ir::Emitter &emit, mlir::Value blocks) const;
  /// Returns whether `part` has the size along the dimension that all parts but the last have.
  bool isPart(mlir::Value part) const { return dim && ir::tensorType(part).getDimSize(*dim) == chunk; }

private:
  mlir::RankedTensorType gradient;
  std::optional<int64_t> dim;
  int64_t before = 1, after = 1; // elements before and after `dim`
  int64_t chunk = 0;             // size of a part along `dim`
  int64_t elementsOfPart = 0;    // without padding to blocks
};

/// Returns `x` with zeros after its elements along `dim`, so that it has `size` of them.
mlir::Value padded(ir::Emitter &emit, mlir::Value x, int64_t dim, int64_t size);
/// Returns the first `size` elements of `x` along `dim`.
mlir::Value firstOf(ir::Emitter &emit, mlir::Value x, int64_t dim, int64_t size);
/// Returns the elements from `begin` to `end` of `x` along its first dimension.
mlir::Value rowsOf(ir::Emitter &emit, mlir::Value x, int64_t begin, int64_t end);

/// Returns the first op that uses the result of the wait: what replaces the result has to stand before it.
mlir::Operation *firstUserOf(ir::WaitOp wait);

} // namespace kerf
