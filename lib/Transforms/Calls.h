// SPDX-License-Identifier: Apache-2.0
// Utilities for functions that kerf.call calls: changing signatures, and removing dead ops, arguments,
// results and functions.
#pragma once

#include "kerf/Dialect/Kerf/KerfDialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/BitVector.h"

namespace kerf {

/// Returns the calls of `function` in `module`, in program order.
mlir::SmallVector<ir::CallOp> callsOf(mlir::ModuleOp module, mlir::func::FuncOp function);

/// Replaces `call` by a call of the same callee with other operands and result types, erases `call`, and returns the
/// new call. Uses of the old result i become uses of the new result `newResult(i)`; a negative number: the old result
/// has no uses.
ir::CallOp rebuildCall(ir::CallOp call, mlir::ValueRange operands, mlir::TypeRange types,
                       llvm::function_ref<int64_t(int64_t oldResult)> newResult);

/// Erases pure ops and calls whose results have no uses, from the last to the first. Returns whether there were any.
bool eraseDeadOps(mlir::Block &block);

/// Removes results of private functions that no call uses, the ops that compute them, arguments that a function does
/// not use, and functions that no call names, until nothing changes.
void pruneCalls(mlir::ModuleOp module);

/// Returns the type of the elements of `type`, a tensor or a pending tensor.
mlir::Type elementOf(mlir::Type type);
/// Returns `type`, of a tensor or a pending tensor, with elements of type `element`.
mlir::Type withElement(mlir::Type type, mlir::Type element);

/// Returns whether the value is an argument of @main whose kind is "parameter", trained or frozen.
bool isParameter(mlir::Value value);

/// Returns the indices of those results of @main that are metrics: named floating-point scalars that are neither the
/// loss (result 0), nor a gradient, nor the new value of an argument.
mlir::SmallVector<unsigned> metricResults(mlir::func::FuncOp main);

/// Replaces `call`, in `main`, by one call for each layer that it stands for (`kerf.repeat`), with separate parameters.
/// Reports an error where the call has more than one result, so that it is unknown which of them the next layer reads,
/// and where its location does not end in the number of a layer.
mlir::LogicalResult splitRepeat(ir::CallOp call, mlir::func::FuncOp main);

} // namespace kerf
