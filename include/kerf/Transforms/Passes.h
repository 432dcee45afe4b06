// SPDX-License-Identifier: Apache-2.0
// The passes of Kerf: the functions create*() and the registration, which are generated from Passes.td. Passes.td
// describes each pass.
#pragma once

#include "kerf/Dialect/Kerf/KerfDialect.h"
#include "kerf/Sharding/Reshard.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

namespace kerf {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "kerf/Transforms/Passes.h.inc"

/// Creates the pass kerf-partition, which chooses the sequence of collectives for each reshard by `price`
/// (stepPriceFor in kerf/Transforms/Work.h prices them on a cluster).
std::unique_ptr<mlir::Pass> createPartition(StepPrice price);
} // namespace kerf
