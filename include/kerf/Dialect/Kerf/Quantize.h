// SPDX-License-Identifier: Apache-2.0
// Factors of products in 8-bit floats.
#pragma once

#include "kerf/Dialect/Kerf/Emit.h"

namespace kerf::ir {

/// A tensor of 8-bit floats and the magnitude with which it was quantized.
struct QuantizedFactor {
  mlir::Value value, magnitude;
};

/// Emits the largest absolute value of `x`, of each microbatch alone where there are several, and `x` quantized with it
/// to elements of the type `format`.
QuantizedFactor quantized(Emitter &emit, mlir::Value x, mlir::Type format);

} // namespace kerf::ir
