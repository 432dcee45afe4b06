// SPDX-License-Identifier: Apache-2.0
// The local work of PowerSGD (Vogels et al. 2019): a matrix M of a x b is sent as the factors P = M Q and Q = M' P of R
// columns. Factors are kept as rows (P' and Q'), whose elements are contiguous.
#pragma once

#include "kerf/Dialect/Kerf/Emit.h"

namespace kerf {

/// Emits P' = (M Q)' of [R, a] for a matrix of [a, b] and Q' of [R, b].
mlir::Value lowRankLeft(ir::Emitter &emit, mlir::Value right, mlir::Value matrix);
/// Emits the rows of a factor, made orthogonal one after the other (modified Gram-Schmidt).
mlir::Value orthogonalRows(ir::Emitter &emit, mlir::Value factor);
/// Emits Q' = (M' P)' of [R, b] for a matrix of [a, b] and P' of [R, a].
mlir::Value lowRankRight(ir::Emitter &emit, mlir::Value left, mlir::Value matrix);
/// Emits the matrix P Q' of the two factors.
mlir::Value lowRankMatrix(ir::Emitter &emit, mlir::Value left, mlir::Value right);

} // namespace kerf
