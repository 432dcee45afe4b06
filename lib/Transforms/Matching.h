// SPDX-License-Identifier: Apache-2.0
// Questions that rewrites ask of values: constants behind broadcasts, transposes, shapes of reshapes.
#pragma once

#include "kerf/Dialect/Kerf/Emit.h"
#include <optional>

namespace kerf {

/// The one number that every element of `value` is: a splat or one-element constant, through broadcast, reshape,
/// transpose and convert.
std::optional<double> scalarOf(mlir::Value value);

/// x and c of x * c, c * x or x / c (then 1 / c) for a scalar c.
struct Scaled {
  mlir::Value value;
  double factor;
};
std::optional<Scaled> asScaled(mlir::Value value);

/// The order that `first` and then `second` make: result dimension d of both is dimension first[second[d]].
llvm::SmallVector<int64_t> composed(mlir::ArrayRef<int64_t> first, mlir::ArrayRef<int64_t> second);
llvm::SmallVector<int64_t> inverse(mlir::ArrayRef<int64_t> permutation);
bool isIdentity(mlir::ArrayRef<int64_t> permutation);

/// `value` transposed by `permutation`, through what it is a transpose of: none where both cancel.
mlir::Value transposed(ir::Emitter &emit, mlir::Value value, mlir::ArrayRef<int64_t> permutation);

/// Within `relative` of each other (constants of an exporter are rounded to f32).
bool isClose(double x, double y, double relative = 1e-5);

/// Erases ops without users or effects, last first, until none is left.
void eraseDead(mlir::Operation *function);

} // namespace kerf
