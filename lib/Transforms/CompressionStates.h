// SPDX-License-Identifier: Apache-2.0
// The states of compressed gradients: errors of encodings, momentum, factors.
#pragma once

#include "kerf/Dialect/Kerf/Emit.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace kerf {

/// The arguments that kerf-compress-gradients adds to @main at the device level, and the values that replace them after
/// a step. They start as zeros.
class CompressionStates {
public:
  CompressionStates(mlir::func::FuncOp main, const Mesh &mesh) : main(main), mesh(mesh) {}

  /// Adds an f32 state of `shape` that each rank has for itself, and returns its number.
  size_t add(const std::string &name, const Shape &shape);
  /// Returns the state's value before the step, in the shape with which it was added.
  mlir::Value before(size_t state) { return states[state].before; }
  /// Sets the value that replaces the state.
  void replace(size_t state, mlir::Value value) { states[state].after = value; }

  /// Returns the argument of @main that has this kind and name, or null. An empty text fits every kind or name.
  mlir::Value find(llvm::StringRef kind, llvm::StringRef name);
  /// Returns the scalar i64 argument of this kind ("seed" or "step"), which is added where @main has none.
  mlir::Value scalar(llvm::StringRef kind);

  /// Makes the new values results of @main. In a step that is skipped (kSkipsStepAttr), states keep their values.
  void finish();

private:
  struct State {
    mlir::Value argument, before, after;
  };
  mlir::Value argument(mlir::RankedTensorType local, mlir::RankedTensorType global, llvm::StringRef kind,
                       llvm::StringRef name, mlir::Attribute sharding);

  mlir::func::FuncOp main;
  const Mesh &mesh;
  std::vector<State> states;
};

} // namespace kerf
