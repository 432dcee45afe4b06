// SPDX-License-Identifier: Apache-2.0
// The pass that adds an optimizer to a model's gradients.
#pragma once

#include "kerf/Optimizer/Options.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include <memory>

namespace kerf {

/// The name of the module attribute that holds the number of batches of a step, where it is more than 1.
inline constexpr const char *kAccumulateAttr = "kerf.accumulate";

/// Turns @main, which returns the loss and gradients, into the training step that Passes.td describes
/// (kerf-add-optimizer). Reports an error where an option is out of range.
mlir::LogicalResult addOptimizer(mlir::ModuleOp module, const OptimizerOptions &options);

/// Creates the pass kerf-add-optimizer with these options.
std::unique_ptr<mlir::Pass> createAddOptimizer(const OptimizerOptions &options);

} // namespace kerf
