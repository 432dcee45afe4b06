// SPDX-License-Identifier: Apache-2.0
// Which numbers have which type in a step that computes in 16 bits, as the command line and the passes say it
// (docs/mixed-precision.md).
#pragma once

#include "kerf/Package/Package.h"
#include "mlir/Pass/Pass.h"
#include <memory>

namespace kerf {

/// What the loss is multiplied by for its gradients, so that small ones survive f16.
enum class LossScaling { None, Dynamic, Static };

/// Parameters, states and their updates are f32. Defaults of the scale are torch.amp.GradScaler's.
struct PrecisionOptions {
  DType compute = DType::BF16;  // or F16: products, attention, elementwise ops
  bool reduceInCompute = false; // gradients are summed over ranks in `compute` instead of f32
  LossScaling scaling = LossScaling::None;
  double lossScale = 65536;       // the first one, or the only one
  int64_t lossScaleWindow = 2000; // dynamic: good steps in a row after which it doubles
};

/// kerf-mixed-precision with these options.
std::unique_ptr<mlir::Pass> createMixedPrecision(const PrecisionOptions &options);

} // namespace kerf
