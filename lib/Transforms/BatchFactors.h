// SPDX-License-Identifier: Apache-2.0
// Which dimensions of which values are the batch: what the mesh axis "data" may cut.
#pragma once

#include "kerf/Dialect/Kerf/KerfDialect.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

namespace kerf {

/// Returns the factor that cutting a dimension of these factors cuts first: its major one of more than one element; -1
/// where there is none.
int leadingFactor(const Rule &rule, const std::vector<int> &factors);

/// Returns whether the value is a constant, or a constant's broadcast. Ops that have nothing to do with each other may
/// share such a value, so that what is known of its dimensions in one op does not hold in another.
bool isConstant(mlir::Value value);

/// Starts at dimension 0 of every input (rank >= 1) and follows factors through ops and calls, both ways, until nothing
/// changes; never through constants.
class BatchDims {
public:
  explicit BatchDims(mlir::ModuleOp module);
  bool isBatch(mlir::Value value, unsigned dim) const { return tagged.contains({value, dim}); }
  /// Factors of the rule of an op that index the batch.
  std::vector<bool> batchFactors(const Rule &rule, mlir::ValueRange operands, mlir::ValueRange results) const;

private:
  bool tag(mlir::Value value, unsigned dim) { return !isConstant(value) && tagged.insert({value, dim}).second; }
  bool spread(const Rule &rule, mlir::ValueRange operands, mlir::ValueRange results);
  llvm::DenseSet<std::pair<mlir::Value, unsigned>> tagged;
};

} // namespace kerf
