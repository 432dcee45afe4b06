// SPDX-License-Identifier: Apache-2.0
// Activity analysis: which values need a gradient. A value is active if it is floating-point and depends on a trainable
// parameter. It is useful if, in addition, the loss depends on it through active values. For a function with several
// calls, both properties are the union over its calls, so that one backward function serves all of them.
#pragma once

#include "kerf/Dialect/Kerf/KerfDialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"

namespace kerf {

/// The useful values of a module: those for which kerf-differentiate computes a gradient.
class Activity {
public:
  /// Analyses the module. Reports an error where it cannot be differentiated: there is no entry function, the loss is
  /// no floating-point scalar or depends on no trainable parameter, or ops between parameters and the loss have no
  /// gradient (one error lists all of these ops).
  static mlir::FailureOr<Activity> compute(mlir::ModuleOp module);

  /// Returns whether the value needs a gradient.
  bool isUseful(mlir::Value value) const { return useful.contains(value); }
  /// Marks a value that was created after the analysis as one that needs a gradient.
  void markUseful(mlir::Value value) { useful.insert(value); }
  /// Returns the entry function and all functions that it calls, each callee before its callers.
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
