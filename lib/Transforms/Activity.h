// SPDX-License-Identifier: Apache-2.0
// Which values have a gradient worth computing: floating ones that depend on a trainable parameter (active) and lead to
// the loss through active values. Over calls both are the union of all calls, so that one backward function serves them
// all.
#pragma once

#include "kerf/Dialect/Kerf/KerfDialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"

namespace kerf {

class Activity {
public:
  /// Reports what can't be differentiated: no entry, no floating scalar as loss, a loss without trainable parameters,
  /// ops without a gradient on the way (all of them in one error).
  static mlir::FailureOr<Activity> compute(mlir::ModuleOp module);

  bool isUseful(mlir::Value value) const { return useful.contains(value); }
  void markUseful(mlir::Value value) { useful.insert(value); }
  /// The entry and what it calls, callees before callers.
  llvm::ArrayRef<mlir::func::FuncOp> calleesFirst() const { return functions; }

private:
  mlir::LogicalResult order(mlir::func::FuncOp function, mlir::SymbolTable &symbols,
                            llvm::SmallVectorImpl<mlir::func::FuncOp> &open);
  mlir::LogicalResult checkLoss(mlir::func::FuncOp main) const;
  bool spreadForward(mlir::func::FuncOp function, mlir::SymbolTable &symbols);
  bool spreadBackward(mlir::func::FuncOp function, mlir::SymbolTable &symbols);
  mlir::LogicalResult checkGradients(mlir::func::FuncOp main) const;

  llvm::SmallVector<mlir::func::FuncOp> functions;
  llvm::DenseSet<mlir::Value> active, useful;
};

} // namespace kerf
