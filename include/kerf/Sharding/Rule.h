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
/// carried out: it cuts a Replicated factor, leaves a result partial in two different kinds, or cuts a minor factor
/// of a dimension whose major factors aren't cut down to one element each (the chunk would not be contiguous).
/// Factor i of size s cut n ways has local size ceil(s/n); a dimension's chunk is that times the sizes of its minor factors.
std::optional<OpSharding> project(const Rule &rule, const Mesh &mesh, const Strategy &strategy);

/// Every strategy that `project` accepts, in lexicographic order, all -1 first. An axis of size 1 is never assigned; a
/// factor of size smaller than the ways that would cut it is not cut.
std::vector<Strategy> enumerateStrategies(const Rule &rule, const Mesh &mesh);

/// `dot_general`'s line above, for docs and errors: "([b, m, k], [b, k, n]) -> ([b, m, n])  k: reduction(sum)".
std::string toString(const Rule &rule);
Status checkRule(const Rule &rule, std::span<const Shape> operandShapes, std::span<const Shape> resultShapes);

// Rules that many ops share.
/// All operands and results of one shape. `linearOperandSets`: each a set of operands in which the op is jointly linear.
Rule elementwiseRule(const Shape &shape, int numOperands, int numResults, const std::vector<std::vector<int>> &linearOperandSets);
/// Factors are the parts into which the two row-major shapes cut each other: 8x4 -> 2x16 gives ([ij, k]) -> ([i, jk]).
/// Where sizes share no boundary (6 -> 4x... can't be refined), the block's factor is Replicated.
Rule reshapeRule(const Shape &from, const Shape &to);

} // namespace kerf
