// SPDX-License-Identifier: Apache-2.0
// The passes of Kerf: create*() and registration, generated from Passes.td, which says what each does.
#pragma once

#include "kerf/Dialect/Kerf/KerfDialect.h"
#include "kerf/Sharding/Reshard.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

namespace kerf {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "kerf/Transforms/Passes.h.inc"

/// kerf-partition with reshards priced on a cluster (kerf/Transforms/Work.h).
std::unique_ptr<mlir::Pass> createPartition(StepPrice price);
} // namespace kerf
