// SPDX-License-Identifier: Apache-2.0
// Analysis of the batch: which dimensions of which values count samples, and may therefore be sharded by "data".
#pragma once

#include "kerf/Dialect/Kerf/KerfDialect.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

namespace kerf {

/// Returns the factor that is sharded first when a dimension that consists of `factors` (major first) is sharded: the
/// first one of more than one element. Returns -1 where there is none.
int leadingFactor(const Rule &rule, const std::vector<int> &factors);

/// Returns whether the value is a constant or a broadcast of one. Unrelated ops may share such a value, so a property
/// of its dimensions that holds in one op need not hold in another.
bool isConstant(mlir::Value value);

/// The dimensions of a module's values that index the batch. They are found by starting at dimension 0 of every input
/// and following the factors of rules through ops and calls, in both directions and until nothing changes, but not
/// through constants.
class BatchDims {
public:
  /// Analyses the module.
  explicit BatchDims(mlir::ModuleOp module);
  /// Returns whether dimension `dim` of `value` indexes the batch.
  bool isBatch(mlir::Value value, unsigned dim) const { return tagged.contains({value, dim}); }
  /// Returns, for each factor of the rule of an op with these operands and results, whether it indexes the batch.
  std::vector<bool> batchFactors(const Rule &rule, mlir::ValueRange operands, mlir::ValueRange results) const;

private:
  bool tag(mlir::Value value, unsigned dim) { return !isConstant(value) && tagged.insert({value, dim}).second; }
  bool spread(const Rule &rule, mlir::ValueRange operands, mlir::ValueRange results);
  llvm::DenseSet<std::pair<mlir::Value, unsigned>> tagged;
};

} // namespace kerf
