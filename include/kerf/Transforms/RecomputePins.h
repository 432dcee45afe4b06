// SPDX-License-Identifier: Apache-2.0
// What a plan says of single ops' recomputation, as `kerf.recompute` of the ops of layers' forward functions.
#pragma once

#include "kerf/Dialect/Kerf/KerfDialect.h"
#include "kerf/Search/Plan.h"
#include "llvm/ADT/ArrayRef.h"
#include <optional>

namespace kerf {

/// Whether the layer's backward makes the op's results again; nothing: as the rest of the layer. What only lays another
/// op's result out otherwise goes with that op.
std::optional<bool> recomputePin(mlir::Operation *op);

/// What selective recomputation makes again: dear to keep and cheap to compute (Korthikanti et al. 2022, section 5).
bool isAttentionCore(mlir::Operation *op);

/// The first pin that matches an op counts. Refuses those that match no op of a layer's forward function.
Status pinRecomputation(mlir::ModuleOp module, llvm::ArrayRef<OpRecompute> pins);

} // namespace kerf
