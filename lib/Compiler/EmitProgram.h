// SPDX-License-Identifier: Apache-2.0
// The device level, as it is -> program and report.
#pragma once

#include "kerf/Compiler/Compiler.h"
#include "kerf/CostModel/Collectives.h"

namespace kerf {

/// How often a step calls each function, by name.
std::map<std::string, int64_t> callCounts(mlir::ModuleOp module);

/// Of a module whose ops have tasks: `kerf.schedule`.
void setSchedule(mlir::ModuleOp module, const package::ScheduleChoice &schedule);

/// Which kernels native code is made for: those that fusing pointwise ops gives, or those written in the program.
enum class Kernels { Fused, AsWritten };

/// Writes the program with its figures, and what the report says of its collectives, its memory and what it trains.
/// Errors: what the package's checker finds wrong.
Status emitProgram(mlir::ModuleOp module, const CollectiveModel &collectives, Kernels kernels, Compiled &compiled);

} // namespace kerf
