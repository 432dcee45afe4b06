// SPDX-License-Identifier: Apache-2.0
// The optimizer of a training step, as the command line and kerf-add-optimizer both say it.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kerf {

enum class OptimizerKind { Sgd, AdamW };

/// Parameters with settings of their own.
struct OptimizerGroup {
  std::string glob;                   // of names; a parameter is of the first group whose glob matches
  std::optional<double> learningRate; // instead of the step's; the schedule multiplies it likewise
  std::optional<double> weightDecay;
};

/// The learning rate is not here: it is an input of the step. Defaults are PyTorch's, but that AdamW's weight decay is
/// 0.01 there.
struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::Sgd;
  double momentum = 0.0;                 // sgd, in [0, 1)
  double beta1 = 0.9, beta2 = 0.999;     // adamw, in [0, 1)
  double epsilon = 1e-8;                 // adamw, added to the square root; > 0
  double weightDecay = 0.0;              // per unit of learning rate, >= 0
  std::vector<std::string> noDecayGlobs; // parameters (by name) without weight decay
  double clipNorm = 0.0;                 // largest global norm of the gradients; 0: no clipping
  bool gradientNorms = false;            // also return each gradient's squared norm, before clipping
  std::string reduceType;                // "bf16" or "f16": in which gradients are summed over ranks; "": their own
  std::vector<OptimizerGroup> groups;
  int64_t accumulate = 1;         // batches of one step, whose gradients are averaged; >= 1
  int64_t lossScaleWindow = 2000; // good steps after which a dynamic loss scale doubles; >= 1
};

/// Attribute of a module whose step takes several batches: how many.
inline constexpr const char *kAccumulateAttr = "kerf.accumulate";

/// Makes @main, which returns the loss and gradients, the training step (Passes.td says how it looks). Reports options
/// out of range.
mlir::LogicalResult addOptimizer(mlir::ModuleOp module, const OptimizerOptions &options);

/// kerf-add-optimizer with these options.
std::unique_ptr<mlir::Pass> createAddOptimizer(const OptimizerOptions &options);

} // namespace kerf
