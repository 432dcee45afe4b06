// SPDX-License-Identifier: Apache-2.0
// A plan's entries about the recomputation of single ops, written as `kerf.recompute` on the ops of
// layers' forward functions.
#pragma once

#include "kerf/Dialect/Kerf/KerfDialect.h"
#include "kerf/Search/Plan.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include <optional>

namespace kerf {

/// Returns the plan's decision whether a layer's backward pass recomputes the op's results: true, false, or nothing
/// where the layer's mode decides. An op that only rearranges its operand (SameValue: a reshape, a transpose) takes the
/// decision for the op that computes the operand.
std::optional<bool> recomputationPin(mlir::Operation *op);

/// Returns whether the op computes attention in one kernel, or only moves or converts the result of such an op.
bool isAttentionKernel(mlir::Operation *op);

/// Returns whether selective recomputation recomputes the op's result: attention and softmax, whose results are large
/// and cheap to compute (Korthikanti et al. 2022, section 5).
bool isAttentionCore(mlir::Operation *op);

/// Returns the ops that pointwise recomputation runs again in a layer whose forward pass is `layer`: norms and
/// elementwise ops, and those that move elements, that lead from saved values to other saved values. The latter need
/// not be saved then. `isSaved` says whether the backward pass finds a value, an argument too, without recomputation;
/// `isAtHand` whether an op reads an operand as it is, without communication.
llvm::DenseSet<mlir::Operation *> pointwiseRecomputation(mlir::Block &layer,
                                                         llvm::function_ref<bool(mlir::Value)> isSaved,
                                                         llvm::function_ref<bool(mlir::OpOperand &)> isAtHand);

/// Sets `kerf.recompute` on the ops that the `pins` of a plan match; of several matching pins the first one applies.
/// Fails where a pin matches no op of a layer's forward function that an earlier pin left over.
Status pinRecomputation(mlir::ModuleOp module, llvm::ArrayRef<OpRecompute> pins);

} // namespace kerf
