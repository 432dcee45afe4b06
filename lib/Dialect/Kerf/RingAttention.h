// SPDX-License-Identifier: Apache-2.0
// Attention whose keys and values pass round a ring of ranks, as the device ops of one rank (Liu, Zaharia and Abbeel,
// 2023).
//
//   3 ranks, forward:    shift kv   own block   wait   shift kv   block 1   wait   block 2
//   backward:            the same, and behind block 1: shift dkv
//                        behind block 2: wait   dkv += block 2's   shift dkv   wait   dkv += own block's
//
// Each block's keys and values are on their way while the one before is computed on, so that a rank holds two blocks.
// Their gradients follow them, one shift behind, and end where the block came from. Causal work is made equal first
// (kerf.ring_balance) where the sequence can be halved on every rank and no mask is added.
#pragma once

#include "kerf/Dialect/Kerf/KerfDialect.h"

namespace kerf::ir {

/// `operands` and `types` are local, `axes` those of the ranks that share the sequence.
mlir::SmallVector<mlir::Value> ringAttention(mlir::OpBuilder &builder, AttentionOp op, mlir::ValueRange operands,
                                             mlir::TypeRange types, llvm::ArrayRef<AxisRef> axes);
mlir::SmallVector<mlir::Value> ringAttentionBackward(mlir::OpBuilder &builder, AttentionBackwardOp op,
                                                     mlir::ValueRange operands, mlir::TypeRange types,
                                                     llvm::ArrayRef<AxisRef> axes);

} // namespace kerf::ir
