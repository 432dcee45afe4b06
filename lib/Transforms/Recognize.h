// SPDX-License-Identifier: Apache-2.0
// The parts of kerf-recognize-composites, one a family. Each looks at one op, the last of the pattern, and replaces its
// uses on a match.
#pragma once

#include "Matching.h"

namespace kerf {

/// One computation on all rows from a concatenation of rows that are computed one by one.
bool recognizeRows(mlir::Operation *op);
/// gelu from its tanh or erf.
bool recognizeGelu(mlir::Operation *op);
/// layer_norm and rms_norm from the multiply by the scale (rms_norm) or the addition of the bias (layer_norm).
bool recognizeNorm(mlir::Operation *op);
/// softmax from the division by its sum.
bool recognizeSoftmax(mlir::Operation *op);
/// cross_entropy from a lookup in log-softmax, by gather or as a sum over a one-hot mask, and from log-sum-exp less a
/// lookup in the same logits.
bool recognizeCrossEntropy(mlir::Operation *op);
/// attention from the product of probabilities and values.
bool recognizeAttention(mlir::Operation *op);

/// Returns the value of which `value` (of shape `full`, or with dimension `dim` gone or of size 1) is a copy along
/// `dim`: broadcasts along it and reshapes that insert or drop it are skipped. Null where `value` is no such copy.
mlir::Value rowsAlong(mlir::Value value, mlir::ArrayRef<int64_t> full, int64_t dim);
/// Returns the operand of a reduction of `kind` over `dim` alone, else null. `rows` may be null.
mlir::Value reducedOperand(mlir::Value rows, ir::ReduceKindIR kind, int64_t dim);

/// True when `mask`, of shape [B, H, S, S], is seen to be 0 (true for i1) where key j <= query i and lowest (false)
/// elsewhere.
bool isCausalMask(mlir::Value mask);

} // namespace kerf
