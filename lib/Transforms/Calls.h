// SPDX-License-Identifier: Apache-2.0
// Upkeep of functions that are reached by kerf.call: dead ops, and arguments and results that nobody uses.
#pragma once

#include "kerf/Dialect/Kerf/KerfDialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/BitVector.h"

namespace kerf {

/// The calls of `function` in `module`, in program order.
mlir::SmallVector<ir::CallOp> callsOf(mlir::ModuleOp module, mlir::func::FuncOp function);

/// Calls of the same callee with other operands or results; the old call is gone.
/// `results[i]`, where not null, takes over the uses of the old result i.
ir::CallOp rebuildCall(ir::CallOp call, mlir::ValueRange operands, mlir::TypeRange types,
                       llvm::function_ref<int64_t(int64_t oldResult)> newResult);

/// Erases pure ops and calls whose results have no use, last first. True when there were some.
bool eraseDeadOps(mlir::Block &block);

/// Until nothing changes: drops results of private functions that no call uses, the ops that made them, and arguments
/// that the function doesn't use; then functions that nobody calls.
void pruneCalls(mlir::ModuleOp module);

/// The places of the metrics among the results of @main: named floating scalars that are neither the loss (result 0),
/// nor a gradient, nor what replaces an argument.
mlir::SmallVector<unsigned> metricResults(mlir::func::FuncOp main);

/// Where `call`, in `main`, stands for a run of alike layers (`kerf.repeat`), makes it a call for each layer, with
/// parameters of its own. Emits an error where names and results do not tell how one layer follows the other.
mlir::LogicalResult splitRepeat(ir::CallOp call, mlir::func::FuncOp main);

} // namespace kerf
