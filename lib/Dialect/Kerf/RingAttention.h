// SPDX-License-Identifier: Apache-2.0
// Ring attention (Liu, Zaharia and Abbeel, 2023) as the device ops of one rank. Each rank keeps its queries, and blocks
// of keys and values (kv) are sent around the ring of ranks that share the sequence.
//
//   3 ranks, forward:    shift kv   own block   wait   shift kv   block 1   wait   block 2
//   backward:            the same, and after block 1: shift dkv
//                        after block 2: wait   dkv += block 2's   shift dkv   wait   dkv += own block's
//
// The keys and values of a block are sent while the rank computes attention on the previous block, so that a rank holds
// two blocks at a time. The gradients dkv of a block follow the block one shift later, and arrive where it came from.
// Causal attention is first redistributed to equal work on every rank (kerf.ring_balance), provided that each rank's
// part of the sequence has an even size and that no mask is added.
#pragma once

#include "kerf/Dialect/Kerf/KerfDialect.h"

namespace kerf::ir {

/// Emits ring attention for `op` and returns its results. `operands` are one rank's shards, `types` the local types of
/// the results, and `axes` the mesh axes along which the ranks share the sequence.
mlir::SmallVector<mlir::Value> ringAttention(mlir::OpBuilder &builder, AttentionOp op, mlir::ValueRange operands,
                                             mlir::TypeRange types, llvm::ArrayRef<AxisRef> axes);
/// Emits the backward pass of ring attention for `op` and returns its results, with the same
/// arguments as ringAttention.
mlir::SmallVector<mlir::Value> ringAttentionBackward(mlir::OpBuilder &builder, AttentionBackwardOp op,
                                                     mlir::ValueRange operands, mlir::TypeRange types,
                                                     llvm::ArrayRef<AxisRef> axes);

} // namespace kerf::ir
