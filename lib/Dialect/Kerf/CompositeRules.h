// SPDX-License-Identifier: Apache-2.0
// What the composites' sources share: rules written dimension by dimension, and checks of shapes whose messages hold
// both shapes.
#pragma once

#include "kerf/Dialect/Kerf/Emit.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

namespace kerf::ir {

/// Returns the number of elements of a tensor, as a term of an amount of work.
inline double elements(mlir::Value value) { return static_cast<double>(tensorType(value).getNumElements()); }

/// Collects factors; a dimension's map is then written {{b}, {s}, {g, r}, {d}}.
struct RuleWriter {
  Rule rule;
  int factor(std::string name, int64_t size, FactorKind kind = FactorKind::Cuttable) {
    Factor &added = rule.factors.emplace_back();
    added.name = std::move(name);
    added.size = size;
    added.kind = kind;
    return static_cast<int>(rule.factors.size()) - 1;
  }
  /// One factor a dimension of `sizes`, named after `prefix`.
  FactorMap dims(std::string_view prefix, llvm::ArrayRef<int64_t> sizes, FactorKind kind = FactorKind::Cuttable) {
    FactorMap map;
    for (size_t i = 0; i < sizes.size(); ++i)
      map.push_back({factor(std::string(prefix).append(std::to_string(i)), sizes[i], kind)});
    return map;
  }
  /// The op is linear in `operands` taken together, for these results. Plans name factors: sum0, sum1, ... as in
  /// elementwiseRule.
  void linear(std::vector<int> operands, std::vector<int> results) {
    auto before =
        llvm::count_if(rule.factors, [](const Factor &other) { return other.kind == FactorKind::PartialSum; });
    factor(std::string("sum").append(std::to_string(before)), 0, FactorKind::PartialSum);
    rule.factors.back().partialOperands = std::move(operands);
    rule.factors.back().partialResults = std::move(results);
  }
};

inline FactorMap operator+(FactorMap left, const FactorMap &right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

/// `4x8`, or `a scalar`.
inline std::string shapeText(llvm::ArrayRef<int64_t> shape) {
  return shape.empty() ? std::string("a scalar")
                       : llvm::join(llvm::map_range(shape, [](int64_t n) { return std::to_string(n); }), "x");
}

/// `layer_norm: scale is 4, but should be 8`.
inline mlir::LogicalResult checkShape(mlir::Operation *op, llvm::StringRef what, mlir::Value value,
                                      llvm::ArrayRef<int64_t> expected) {
  if (tensorType(value).getShape() == expected)
    return mlir::success();
  return op->emitOpError() << what << " is " << shapeText(tensorType(value).getShape()) << ", but should be "
                           << shapeText(expected);
}

inline mlir::LogicalResult checkDimension(mlir::Operation *op, int64_t dimension, mlir::Value value) {
  if (dimension >= 0 && dimension < tensorType(value).getRank())
    return mlir::success();
  return op->emitOpError() << "dimension " << dimension << " is outside of the operand's rank "
                           << tensorType(value).getRank();
}

/// Refuses a gradient of a result that exists only for the backward form.
inline mlir::LogicalResult refuseGradient(mlir::Operation *op, llvm::StringRef result, mlir::Value gradient) {
  if (!gradient)
    return mlir::success();
  return op->emitOpError() << "a gradient flows into '" << result
                           << "', which only the backward form reads; compute that value by ops of its own";
}

/// (axis, before, size) triples, as the device ops carry them.
inline llvm::SmallVector<int64_t> axisTriples(llvm::ArrayRef<AxisRef> axes) {
  llvm::SmallVector<int64_t> triples;
  for (const AxisRef &ref : axes)
    triples.append({ref.axis, ref.before, ref.size});
  return triples;
}

/// `local`, zero where it is padding of a tensor of `globalShape` lying as `sharding`: an index or a label out there
/// must not end the run.
mlir::Value zeroPadding(Emitter &emit, mlir::Value local, llvm::ArrayRef<int64_t> globalShape,
                        const Sharding &sharding);

} // namespace kerf::ir
