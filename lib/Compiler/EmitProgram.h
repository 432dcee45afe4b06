// SPDX-License-Identifier: Apache-2.0
// Turns a device-level module (local shapes and explicit collectives) into the program of a package, with its report.
#pragma once

#include "kerf/Compiler/Compiler.h"
#include "kerf/CostModel/Collectives.h"

namespace kerf {

/// Returns how many times a step calls each function of the module, by function name; 1 for @main.
std::map<std::string, int64_t> callCounts(mlir::ModuleOp module);

/// Stores the pipeline schedule as the attribute `kerf.schedule` of a module whose operators are assigned to the
/// schedule's tasks.
void setSchedule(mlir::ModuleOp module, const package::ScheduleChoice &schedule);

/// The origin of the kernels for which machine code is generated: fusing the pointwise operators, or the kernels that a
/// hand-written program contains.
enum class KernelSource { Fused, AsWritten };

/// Writes the program, its predicted step time and memory, and the parts of the report on collectives, memory and
/// trained tensors into `compiled`. Fails when the checker of packages finds an error in the program.
Status emitProgram(mlir::ModuleOp module, const CollectiveModel &collectives, KernelSource kernels,
                   CompileResult &compiled);

} // namespace kerf
