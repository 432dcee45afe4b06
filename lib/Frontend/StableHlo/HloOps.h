// SPDX-License-Identifier: Apache-2.0
// The table of StableHLO ops that Kerf reads. A handler sees one op whose operands are known or computed, and gives its
// results; the evaluator (HloEvaluate.h) compares them with the types that the text says.
#pragma once

#include "StableHlo/HloText.h"

namespace kerf::frontend::hlo {

using Terms = std::vector<Term>;

/// A tensor type as Kerf computes it: every floating type is the builder's.
struct TensorType {
  DType dtype;
  Shape shape;
  const NarrowFormat *narrow = nullptr; // that the text says
};
Result<TensorType> tensorType(const Type &type, DType floatType);

/// One op on its way into the IR.
struct Node {
  const Operation &op;
  TermBuilder &b;
  Terms operands;
  std::vector<TensorType> results; // what the text says

  const Term &input(size_t i) const { return operands[i]; }
  const Shape &resultShape() const { return results.front().shape; }
  /// A list of integers; an error where it is missing.
  Result<std::vector<int64_t>> integers(std::string_view name) const;
  Result<int64_t> integer(std::string_view name) const;
};

/// A list of dimensions: an attribute's integers (a list, or a constant), each of [0, rank) and none twice.
Result<std::vector<int64_t>> integersOf(const Attribute &attribute, std::string_view name);
Status checkDims(const std::vector<int64_t> &dims, int64_t rank, std::string_view name);

struct OpHandler {
  const char *name;
  int minOperands, maxOperands;
  Result<Terms> (*evaluate)(Node &node);
};
/// Null for an op that has none: unsupported, or control flow.
const OpHandler *findHandler(std::string_view name);
/// Why an op is not supported and what to do instead, "" where nothing more can be said.
std::string_view wayOut(std::string_view name);

Result<Terms> one(Result<Term> term);

/// An elementwise op by its name, on terms of one shape.
Result<Term> applyBinary(TermBuilder &b, std::string_view name, const Term &x, const Term &y);

// Shapes (HloShapes.cpp): as TermBuilder's, but simpler where a value was just made for the contrary purpose.
Result<Term> reshaped(TermBuilder &b, const Term &x, const Shape &shape);
Result<Term> broadcastInDim(TermBuilder &b, const Term &x, const Shape &shape, const std::vector<int64_t> &dims);
Result<Term> sliced(TermBuilder &b, const Term &x, const Shape &start, const Shape &limit, const Shape &strides);
/// Negative borders take elements away; `interior` elements stand between two.
Result<Term> padded(TermBuilder &b, const Term &x, const Term &value, const Shape &low, const Shape &high,
                    const Shape &interior);
Result<Term> reversed(TermBuilder &b, const Term &x, const std::vector<int64_t> &dims);
/// `x` with `update` in place of the box that begins at `start`.
Result<Term> updated(TermBuilder &b, const Term &x, const Term &update, const Shape &start);
/// 0, 1, ... along `dim`, the same along the others.
Result<Term> indexAlong(TermBuilder &b, DType dtype, const Shape &shape, int64_t dim);
/// max(0, min(index, most)).
Result<Term> clamped(TermBuilder &b, const Term &index, int64_t most);

// Handlers, by file.
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
/// The op of a region that combines its two arguments ("stablehlo.add"), "" where it returns the second; an error for
/// any other region.
Result<std::string> combinerOf(const Region &region);
/// What changes nothing when it is combined by that op; nothing for an unknown op.
std::optional<double> neutralOf(const std::string &name, DType dtype);

Result<Terms> evaluateConvolution(Node &node); // HloWindows.cpp
Result<Terms> evaluateReduceWindow(Node &node);
Result<Terms> evaluateSelectAndScatter(Node &node);

} // namespace kerf::frontend::hlo
