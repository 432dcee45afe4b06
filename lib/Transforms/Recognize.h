// SPDX-License-Identifier: Apache-2.0
// The pattern matchers of the pass kerf-recognize-composites. Each recognizer looks at one op, which is the last op of
// its pattern. On a match it replaces the op's result by that of a composite and returns true; otherwise it changes
// nothing and returns false.
#pragma once

#include "Matching.h"

namespace kerf {

/// Recognizes a concatenation of rows that are computed one by one in the same way, and computes all rows at once.
bool recognizeRows(mlir::Operation *op);
/// Recognizes gelu. Unlike the other recognizers, this one starts from the tanh or erf inside of the formula.
bool recognizeGelu(mlir::Operation *op);
/// Recognizes rms_norm, ending in the multiplication by the scale, and layer_norm, ending in the addition of the bias.
bool recognizeNorm(mlir::Operation *op);
/// Recognizes softmax, ending in the division by the sum.
bool recognizeSoftmax(mlir::Operation *op);
/// Recognizes cross_entropy. The pattern ends in a lookup in log-softmax (a gather, or a sum over a one-hot mask), or
/// in the difference of log-sum-exp and a lookup in the same logits.
bool recognizeCrossEntropy(mlir::Operation *op);
/// Recognizes attention, ending in the product of probabilities and values.
bool recognizeAttention(mlir::Operation *op);

/// Returns the value that `value` copies along dimension `dim`, looking through broadcasts along it and through
/// reshapes that insert or drop it; null where `value` is no such copy. `full` is the shape with dimension `dim`;
/// `value` has this shape, or lacks the dimension, or has size 1 there.
mlir::Value rowsAlong(mlir::Value value, mlir::ArrayRef<int64_t> full, int64_t dim);
/// Returns the operand of the op that computes `rows`, where this op is a reduction of `kind` over `dim` alone, else
/// null. `rows` may be null.
mlir::Value reducedOperand(mlir::Value rows, ir::ReduceKindIR kind, int64_t dim);

/// Returns whether the IR shows that `mask`, of shape [B, H, S, S], is a causal mask: 0 (i1: true) where key j <= query
/// i, and a very low number (i1: false) elsewhere.
bool isCausalMask(mlir::Value mask);

} // namespace kerf
