// SPDX-License-Identifier: Apache-2.0
// Helpers that the sources of composite ops share: a writer of sharding rules, and checks of shapes.
#pragma once

#include "kerf/Dialect/Kerf/Emit.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

namespace kerf::ir {

/// Returns the number of elements of a tensor, as a term of an amount of work.
inline double elements(mlir::Value value) { return static_cast<double>(tensorType(value).getNumElements()); }

/// A writer of sharding rules. It adds factors one by one; the factors of a tensor's dimensions are then written as a
/// list, such as {{b}, {s}, {g, r}, {d}}.
struct RuleWriter {
  Rule rule;
  /// Adds a factor and returns its index.
  int factor(std::string name, int64_t size, FactorKind kind = FactorKind::Cuttable) {
    Factor &added = rule.factors.emplace_back();
    added.name = std::move(name);
    added.size = size;
    added.kind = kind;
    return static_cast<int>(rule.factors.size()) - 1;
  }
  /// Adds one factor for each entry of `sizes`, with the names `prefix`0, `prefix`1 and so on, and returns the map of a
  /// tensor whose dimensions are these factors.
  FactorMap dims(std::string_view prefix, llvm::ArrayRef<int64_t> sizes, FactorKind kind = FactorKind::Cuttable) {
    FactorMap map;
    for (size_t i = 0; i < sizes.size(); ++i)
      map.push_back({factor(std::string(prefix).append(std::to_string(i)), sizes[i], kind)});
    return map;
  }
  /// Adds a factor of kind PartialSum, which says that `results` are jointly linear in `operands`, so that partial
  /// sums may pass through the op. The factors are named sum0, sum1, ... as in elementwiseRule, because plans
  /// refer to names.
  void linear(std::vector<int> operands, std::vector<int> results) {
    auto before =
        llvm::count_if(rule.factors, [](const Factor &other) { return other.kind == FactorKind::PartialSum; });
    factor(std::string("sum").append(std::to_string(before)), 0, FactorKind::PartialSum);
    rule.factors.back().partialOperands = std::move(operands);
    rule.factors.back().partialResults = std::move(results);
  }
};

/// Returns the map of a tensor with the dimensions of `left`, followed by those of `right`.
inline FactorMap operator+(FactorMap left, const FactorMap &right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

/// Returns a shape as text for messages: "4x8", or "a scalar".
inline std::string shapeText(llvm::ArrayRef<int64_t> shape) {
  return shape.empty() ? std::string("a scalar")
                       : llvm::join(llvm::map_range(shape, [](int64_t n) { return std::to_string(n); }), "x");
}

/// Checks that `value` has the shape `expected`. Reports an error such as "scale is 4, but should be 8" on `op` where
/// it does not; `name` is the word for the value.
inline mlir::LogicalResult checkShape(mlir::Operation *op, llvm::StringRef name, mlir::Value value,
                                      llvm::ArrayRef<int64_t> expected) {
  if (tensorType(value).getShape() == expected)
    return mlir::success();
  return op->emitOpError() << name << " is " << shapeText(tensorType(value).getShape()) << ", but should be "
                           << shapeText(expected);
}

/// Checks that `dimension` is a dimension of `value`, and reports an error on `op` where it is not.
inline mlir::LogicalResult checkDimension(mlir::Operation *op, int64_t dimension, mlir::Value value) {
  if (dimension >= 0 && dimension < tensorType(value).getRank())
    return mlir::success();
  return op->emitOpError() << "dimension " << dimension << " must be at least 0 and below the operand's rank "
                           << tensorType(value).getRank();
}

/// Reports an error on `op` where `gradient` is not null. It is the gradient of a result (called `result`) that only
/// the op's backward op may read.
inline mlir::LogicalResult refuseGradient(mlir::Operation *op, llvm::StringRef result, mlir::Value gradient) {
  if (!gradient)
    return mlir::success();
  return op->emitOpError() << "a gradient flows into '" << result
                           << "', which only the backward op may read; compute this value by separate ops";
}

/// Returns axes as the flat list of triples (axis, before, size) that attributes of device ops hold.
inline llvm::SmallVector<int64_t> axisTriples(llvm::ArrayRef<AxisRef> axes) {
  llvm::SmallVector<int64_t> triples;
  for (const AxisRef &ref : axes)
    triples.append({ref.axis, ref.before, ref.size});
  return triples;
}

/// Returns `local`, one rank's shard of a tensor of `globalShape` under `sharding`, with zeros in its padding. Indices
/// and labels need this, because an invalid one would end the run.
mlir::Value zeroPadding(Emitter &emit, mlir::Value local, llvm::ArrayRef<int64_t> globalShape,
                        const Sharding &sharding);

} // namespace kerf::ir
