// SPDX-License-Identifier: Apache-2.0
// The table of supported StableHLO operations. A handler takes one operation with its evaluated operands and returns
// the results. The evaluator (HloEvaluate.h) checks the results against the types in the text.
#pragma once

#include "StableHlo/HloText.h"

namespace kerf::frontend::hlo {

/// The operands or the results of an operation.
using Terms = std::vector<Term>;

/// A tensor type in which Kerf computes: every floating-point type of the text is replaced by that of the builder.
struct TensorType {
  DType dtype;
  Shape shape;
  const NarrowFormat *narrow = nullptr; // the narrow format in the text; null: none
};
/// Converts a type of the text. Fails for types that Kerf does not support.
Result<TensorType> tensorType(const Type &type, DType floatType);

/// One operation during its import.
struct Node {
  const Operation &op;
  TermBuilder &b;
  Terms operands;
  std::vector<TensorType> results; // the result types in the text

  const Term &input(size_t i) const { return operands[i]; }
  const Shape &resultShape() const { return results.front().shape; }
  /// Returns the integers of a list attribute. Fails when the attribute is missing.
  Result<std::vector<int64_t>> integers(std::string_view name) const;
  /// Returns an integer attribute. Fails when the attribute is missing.
  Result<int64_t> integer(std::string_view name) const;
};

/// Returns the integers of an attribute, which may be a list or a constant. `name` names the attribute in messages.
Result<std::vector<int64_t>> integersOf(const Attribute &attribute, std::string_view name);
/// Fails when a dimension in `dims` is outside of [0, rank) or occurs twice.
Status checkDims(const std::vector<int64_t> &dims, int64_t rank, std::string_view name);

/// A row of the table of operations.
struct OpHandler {
  const char *name;
  int minOperands, maxOperands;
  Result<Terms> (*evaluate)(Node &node);
};
/// Returns the table row of an operation, or null for unsupported operations and for control flow.
const OpHandler *findHandler(std::string_view name);
/// Returns why an operation is not supported and what to do instead, or "" when there is no advice.
std::string_view unsupportedHint(std::string_view name);

/// Returns the term as a list of one result.
Result<Terms> one(Result<Term> term);

/// Applies the elementwise operation `name`, such as "stablehlo.add", to terms of one shape.
Result<Term> applyBinary(TermBuilder &b, std::string_view name, const Term &x, const Term &y);

// Operations on shapes (HloShapes.cpp). They are those of TermBuilder, but undo a preceding operation where possible (a
// reshape of a reshape is one reshape).
Result<Term> reshaped(TermBuilder &b, const Term &x, const Shape &shape);
Result<Term> broadcastInDim(TermBuilder &b, const Term &x, const Shape &shape, const std::vector<int64_t> &dims);
Result<Term> sliced(TermBuilder &b, const Term &x, const Shape &start, const Shape &limit, const Shape &strides);
/// Pads `x` with `value`: `low` and `high` elements at the ends of each dimension (negative: elements are removed), and
/// `interior` elements between neighbours.
Result<Term> padded(TermBuilder &b, const Term &x, const Term &value, const Shape &low, const Shape &high,
                    const Shape &interior);
/// Reverses the dimensions `dims`.
Result<Term> reversed(TermBuilder &b, const Term &x, const std::vector<int64_t> &dims);
/// Returns `x` with `update` written over the box that begins at `start`.
Result<Term> updated(TermBuilder &b, const Term &x, const Term &update, const Shape &start);
/// Returns the integers 0, 1, ... along dimension `dim`, equal along the other dimensions (StableHLO's iota).
Result<Term> indexAlong(TermBuilder &b, DType dtype, const Shape &shape, int64_t dim);
/// Returns max(0, min(index, most)).
Result<Term> clamped(TermBuilder &b, const Term &index, int64_t most);

// Handlers of operations, grouped by the file that defines them. Each evaluates one operation and fails with the reason
// when the operation is not supported.
Result<Terms> evaluateReduce(Node &node); // HloReduce.cpp
Result<Terms> evaluateDotGeneral(Node &node);
Result<Terms> evaluateDot(Node &node);

Result<Terms> evaluateBroadcastInDim(Node &node); // HloShapes.cpp
Result<Terms> evaluateReshape(Node &node);
Result<Terms> evaluateTranspose(Node &node);
Result<Terms> evaluateSlice(Node &node);
Result<Terms> evaluateDynamicSlice(Node &node);
Result<Terms> evaluateDynamicUpdateSlice(Node &node);
Result<Terms> evaluatePad(Node &node);
Result<Terms> evaluateConcatenate(Node &node);
Result<Terms> evaluateReverse(Node &node);
Result<Terms> evaluateIota(Node &node);

Result<Terms> evaluateGather(Node &node); // HloIndexing.cpp
Result<Terms> evaluateScatter(Node &node);
/// Returns the operation by which a region combines its two arguments, such as "stablehlo.add", or "" if it returns the
/// second argument. Fails for any other region.
Result<std::string> combinerOf(const Region &region);
/// Returns the neutral element of the operation `name`, such as 0 for "stablehlo.add", or nothing for an unknown
/// operation.
std::optional<double> neutralOf(const std::string &name, DType dtype);

Result<Terms> evaluateConvolution(Node &node); // HloWindows.cpp
Result<Terms> evaluateReduceWindow(Node &node);
Result<Terms> evaluateSelectAndScatter(Node &node);

} // namespace kerf::frontend::hlo
