// SPDX-License-Identifier: Apache-2.0
// The options of mixed precision: which numbers of a training step have which type, and how the loss is scaled
// (docs/mixed-precision.md). The command line and the passes share them.
#pragma once

#include "kerf/Package/Package.h"
#include "mlir/Pass/Pass.h"
#include <memory>

namespace kerf {

/// The loss scale: a number by which the gradient of the loss is multiplied so that small gradients do not underflow in
/// f16. None: 1. Dynamic: adapted from step to step. Static: fixed.
enum class LossScaling { None, Dynamic, Static };

/// The types of a step's numbers. Parameters, optimizer states and their updates are f32. The defaults of the loss
/// scale are those of torch.amp.GradScaler.
struct PrecisionOptions {
  DType compute = DType::BF16;   // the type of products, attention and elementwise ops: BF16 or F16
  bool reduceInCompute = false;  // whether gradients are summed over ranks in `compute` instead of in f32
  bool quantizeProducts = false; // whether the products of linear layers have 8-bit factors
  LossScaling scaling = LossScaling::None;
  double lossScale = 65536;       // the initial loss scale (Dynamic) or the only one (Static)
  int64_t lossScaleWindow = 2000; // Dynamic: number of steps in a row without overflow after which the scale doubles
};

/// Creates the pass kerf-mixed-precision with these options.
std::unique_ptr<mlir::Pass> createMixedPrecision(const PrecisionOptions &options);

} // namespace kerf
