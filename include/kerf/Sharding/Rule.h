// SPDX-License-Identifier: Apache-2.0
// The sharding rule of an op: a map from every tensor dimension to the factors (indices) of its iteration space.
//
//   dot_general   ([b, m, k], [b, k, n]) -> ([b, m, n])      b, m, n pass through; k: reduction(sum)
//   reshape       ([ij, k]) -> ([i, jk])   i=2, j=4, k=4     one dimension, several factors, major first
//   embedding     ([v, d], [t]) -> ([t, d])                  v: reduction(sum) of masked rows
//
// A *strategy* assigns each mesh axis to one factor or to none. Everything else follows: the sharding of each operand
// and result, the partial results, the local shapes.
#pragma once

#include "kerf/Sharding/Sharding.h"

namespace kerf {

enum class FactorKind {
  /// May be cut. A result that lacks the factor, while some operand has it, is left partial by `reduction`.
  Cuttable,
  /// May be cut, but then the op must first be decomposed into simpler ones (softmax over a split class dimension).
  Decomposed,
  /// May not be cut.
  Replicated,
  /// No index: the op is linear in the operands of `partialOperands` taken together, so that these may be partial sums
  /// over an axis and the results in `partialResults` then are too (add: both operands; multiply: one of the two).
  PartialSum,
};

struct Factor {
  std::string name;
  int64_t size = 1; // 0 for PartialSum
  FactorKind kind = FactorKind::Cuttable;
  ReduceKind reduction = ReduceKind::Sum;
  std::vector<int> partialOperands, partialResults; // PartialSum only
};

/// dims[d]: the factors of dimension d, major first; the product of their sizes is the dimension's size.
using FactorMap = std::vector<std::vector<int>>;

struct Rule {
  std::vector<Factor> factors;
  std::vector<FactorMap> operands, results;
};

/// factorOfAxis[a]: the factor that mesh axis a cuts, or -1.
struct Strategy {
  std::vector<int> factorOfAxis;
  auto operator<=>(const Strategy &) const = default;
};

struct OpSharding {
  std::vector<Sharding> operands, results;
  bool operator==(const OpSharding &) const = default;
};

/// The shardings that `strategy` asks of the operands and gives to the results; nothing when the strategy can't be
/// carried out: it cuts a Replicated factor or one of size 0, leaves a tensor partial in two different kinds, or cuts a
/// minor factor of a dimension whose major factors aren't cut down to one element each, or cuts such a minor factor
/// unevenly (positions would not hold contiguous chunks of one size). Factor i of size s cut n ways has local size
/// ceil(s/n), also where s < n (trailing ranks then hold only padding); a dimension's chunk is the product of its
/// factors' local sizes. Several axes that cut one factor are ordered as in the mesh. Assignments of axes of size 1 are
/// ignored: such axes never occur in a sharding. The local op computes the local results from the local operands. Where
/// a cut Cuttable factor that some result lacks is padded, the op must first put `reduction`'s neutral element into an
/// operand's padding; a cut Decomposed factor leaves no result partial: the simpler ops into which the caller
/// decomposes do those reductions.
std::optional<OpSharding> project(const Rule &rule, const Mesh &mesh, const Strategy &strategy);

/// Every strategy that `project` accepts, in lexicographic order, all -1 first. An axis of size 1 is never assigned; a
/// factor of size smaller than the ways that would cut it is not cut.
std::vector<Strategy> enumerateStrategies(const Rule &rule, const Mesh &mesh);

/// The lines above, for docs and errors: "([b, m, k], [b, k, n]) -> ([b, m, n])  k: reduction(sum)"; sizes where a
/// dimension has several factors: "([ij, k]) -> ([i, jk])  i=2, j=4, k=4". A dimension of size 1 without a factor is
/// "1".
std::string toString(const Rule &rule);
/// The rule fits the op: counts, tensor ranks, products of factor sizes, no factor twice in one tensor.
Status checkRule(const Rule &rule, std::span<const Shape> operandShapes, std::span<const Shape> resultShapes);

// Rules that many ops share. Factors are named i, j, k, ...; dimensions of size 1 have one in elementwiseRule, none in
// reshapeRule.
/// All operands and results of one shape. `linearOperandSets`: each a set of operands in which the op is jointly
/// linear, a PartialSum factor named sum0, sum1, ...
Rule elementwiseRule(const Shape &shape, int numOperands, int numResults,
                     const std::vector<std::vector<int>> &linearOperandSets);
/// Factors are the parts into which the two row-major shapes cut each other: 8x4 -> 2x16 gives ([ij, k]) -> ([i, jk]).
/// Where the rest shares no boundary, each dimension's rest is Replicated: 6x4 -> 4x6 gives ([ij, m]) -> ([ik, l]) with
/// i=2 and j=3, k=2, l=6, m=4 replicated. Has no PartialSum factor: the op that knows that it is linear adds one.
Rule reshapeRule(const Shape &from, const Shape &to);

} // namespace kerf
