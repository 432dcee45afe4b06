// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mlir/IR/MLIRContext.h"

#include <memory>

namespace kerf::fuzz {

/// Returns an MLIR context that is replaced after a few hundred inputs, because types and attributes accumulate in it.
inline mlir::MLIRContext &context() {
  constexpr int kInputs = 200;
  static std::unique_ptr<mlir::MLIRContext> held;
  static int inputs = 0;
  if (!held || ++inputs == kInputs) {
    held = std::make_unique<mlir::MLIRContext>(mlir::MLIRContext::Threading::DISABLED);
    inputs = 0;
  }
  return *held;
}

} // namespace kerf::fuzz
