// SPDX-License-Identifier: Apache-2.0
// Lifetimes of the values of a training step. Time is counted in ops, in program order with the calls of @main inlined.
#pragma once

#include "kerf/Dialect/Kerf/KerfDialect.h"
#include <vector>

namespace kerf {

/// The lifetimes of all values of a training step.
class Timeline {
public:
  /// A value that occupies memory, and when it does.
  struct Buffer {
    /// An op result or an argument of @main. (A result of a call is listed as the value in the called function.)
    mlir::Value value;
    /// Half-open intervals of moments, one for each call of the function that contains the value.
    std::vector<std::pair<int64_t, int64_t>> live;
  };
  /// Computes the lifetimes of the module's training step.
  explicit Timeline(mlir::ModuleOp module);
  /// Returns all values that occupy memory.
  const std::vector<Buffer> &buffers() const { return list; }
  /// Returns the number of moments, one for each op of the step with its calls inlined.
  int64_t moments() const { return end; }

private:
  std::vector<Buffer> list;
  int64_t end = 0;
};

} // namespace kerf
