// SPDX-License-Identifier: Apache-2.0
// The parts of kerf-recognize-composites, one a family. Each looks at one op, the last of the pattern, and replaces its
// uses on a match.
#pragma once

#include "Matching.h"

namespace kerf {

/// gelu from its tanh or erf.
bool recognizeGelu(mlir::Operation *op);
/// layer_norm and rms_norm from the multiply by the scale (rms_norm) or the addition of the bias (layer_norm).
bool recognizeNorm(mlir::Operation *op);
/// softmax from the division by its sum.
bool recognizeSoftmax(mlir::Operation *op);
/// attention from the product of probabilities and values.
bool recognizeAttention(mlir::Operation *op);

/// True when `mask`, of shape [B, H, S, S], is seen to be 0 (true for i1) where key j <= query i and lowest (false)
/// elsewhere.
bool isCausalMask(mlir::Value mask);

} // namespace kerf
