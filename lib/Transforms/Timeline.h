// SPDX-License-Identifier: Apache-2.0
// When each value of a training step is live, with the calls of @main unfolded: one moment an op.
#pragma once

#include "kerf/Dialect/Kerf/KerfDialect.h"
#include <vector>

namespace kerf {

class Timeline {
public:
  struct Buffer {
    mlir::Value value; // an op result or an argument of @main; what a call returns is the callee's value
    std::vector<std::pair<int64_t, int64_t>> live; // half open, one per instance
  };
  explicit Timeline(mlir::ModuleOp module);
  const std::vector<Buffer> &buffers() const { return list; }
  int64_t moments() const { return end; }

private:
  std::vector<Buffer> list;
  int64_t end = 0;
};

} // namespace kerf
