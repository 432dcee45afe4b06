// SPDX-License-Identifier: Apache-2.0
// Helpers of rewrites for matching values: constants behind broadcasts, scaled values, transposes.
#pragma once

#include "kerf/Dialect/Kerf/Emit.h"
#include <optional>

namespace kerf {

/// Returns the number that all elements of `value` equal, where it is a constant (one element, or all elements equal),
/// possibly behind broadcasts, reshapes, transposes and conversions. Returns nothing for any other value.
std::optional<double> scalarOf(mlir::Value value);

/// A value and the constant factor by which it is multiplied.
struct Scaled {
  mlir::Value value;
  double factor;
};
/// Returns x and c where `value` is x * c or c * x for a constant scalar c, and x and 1 / c where it is x / c. Returns
/// nothing for any other value.
std::optional<Scaled> asScaled(mlir::Value value);

/// Returns the permutation of transposing by `first` and then by `second`: dimension d of the result
/// is dimension `first[second[d]]`.
llvm::SmallVector<int64_t> composed(mlir::ArrayRef<int64_t> first, mlir::ArrayRef<int64_t> second);
/// Returns the inverse of a permutation.
llvm::SmallVector<int64_t> inverse(mlir::ArrayRef<int64_t> permutation);
/// Returns whether the permutation is 0, 1, 2, ...
bool isIdentity(mlir::ArrayRef<int64_t> permutation);

/// Returns `value` transposed by `permutation`. Where `value` is itself a transpose, both are combined; no op is
/// emitted where they cancel.
mlir::Value transposed(ir::Emitter &emit, mlir::Value value, mlir::ArrayRef<int64_t> permutation);

/// Returns whether two numbers agree up to the relative error `relative`. (Exporters round constants to f32.)
bool isClose(double x, double y, double relative = 1e-5);

/// Erases ops that have neither uses nor side effects, from the last to the first, until none is left.
void eraseDead(mlir::Operation *function);

} // namespace kerf
