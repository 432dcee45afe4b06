// SPDX-License-Identifier: Apache-2.0
// Sums of gradients by the algebra of sums, so that they are computed from smaller tensors.
#pragma once

#include "kerf/Dialect/Kerf/Emit.h"

namespace kerf::ir {

/// Returns the sums of `x` over the dimensions `dims` (strictly increasing). Where x is a sum of tensors, each of them
/// multiplied by a factor that is constant along `dims`, and the sums of all these tensors are known, the result is
/// computed from these sums:
///
///   sum(-(a * f + b * g)) = -(sum(a) * f + sum(b) * g)
///
/// A sum is known if the block has it already, or if it is zero because the tensor is the difference of a tensor and
/// its mean. Batch normalization needs one pass less over the gradient in this way.
mlir::Value sumOfTerms(Emitter emit, mlir::Value x, mlir::ArrayRef<int64_t> dims);

} // namespace kerf::ir
