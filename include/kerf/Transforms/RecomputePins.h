// SPDX-License-Identifier: Apache-2.0
// A plan's entries about the recomputation of single ops, written as `kerf.recompute` on the ops of
// layers' forward functions.
#pragma once

#include "kerf/Dialect/Kerf/KerfDialect.h"
#include "kerf/Search/Plan.h"
#include "llvm/ADT/ArrayRef.h"
#include <optional>

namespace kerf {

/// Returns the plan's decision whether a layer's backward pass recomputes the op's results: true, false, or nothing
/// where the layer's mode decides. An op that only rearranges its operand (SameValue: a reshape, a transpose) takes the
/// decision for the op that computes the operand.
std::optional<bool> recomputationPin(mlir::Operation *op);

/// Returns whether selective recomputation recomputes the op's result: attention and softmax, whose results are large
/// and cheap to compute (Korthikanti et al. 2022, section 5).
bool isAttentionCore(mlir::Operation *op);

/// Sets `kerf.recompute` on the ops that the `pins` of a plan match; of several matching pins the first one applies.
/// Fails where a pin matches no op of a layer's forward function that an earlier pin left over.
Status pinRecomputation(mlir::ModuleOp module, llvm::ArrayRef<OpRecompute> pins);

} // namespace kerf
