// SPDX-License-Identifier: Apache-2.0
// The sharding rule of an op: for each tensor dimension, the factors (indices of the op's iteration space) that the
// dimension is composed of.
//
//   dot_general   ([b, m, k], [b, k, n]) -> ([b, m, n])      b, m, n pass through; k: reduction(sum)
//   reshape       ([ij, k]) -> ([i, jk])   i=2, j=4, k=4     a dimension of several factors, most significant first
//   embedding     ([v, d], [t]) -> ([t, d])                  v: reduction(sum) of masked rows
//
// A *strategy* assigns each mesh axis to one factor or to none. The rule and the strategy together determine the
// sharding of each operand and result, which results are partial, and all local shapes.
#pragma once

#include "kerf/Sharding/Sharding.h"

namespace kerf {

/// The kinds of factors: whether and how a mesh axis may cut a factor.
enum class FactorKind {
  /// A mesh axis may cut the factor. If an operand has the factor and a result lacks it, the result becomes partial, to
  /// be combined by Factor::reduction.
  Cuttable,
  /// A mesh axis may cut the factor, but the op must first be decomposed into simpler ops. Example: a softmax whose
  /// class dimension is cut.
  Decomposed,
  /// No mesh axis may cut the factor.
  Replicated,
  /// The factor is not an index but states that the op is linear in the operands `partialOperands` taken together:
  /// these operands may be partial sums over a mesh axis, and the results `partialResults` are then partial sums too.
  /// An add is linear in both operands together; a multiply is linear in each of the two alone.
  PartialSum,
};

/// One index of an op's iteration space (or, for FactorKind::PartialSum, one linearity property of the op).
struct Factor {
  std::string name;                       // name in printed rules: "m", "k", "sum0"
  int64_t size = 1;                       // number of values of the index; 0 for PartialSum
  FactorKind kind = FactorKind::Cuttable; // whether and how a mesh axis may cut the factor
  ReduceKind reduction = ReduceKind::Sum; // how partial results over the factor are combined
  std::vector<int> partialOperands = {};  // PartialSum only: operand indices that may be partial together
  std::vector<int> partialResults = {};   // PartialSum only: result indices that are partial in that case
};

/// The factors of one tensor: entry d lists the indices of the factors of dimension d, the most significant first. The
/// product of their sizes is the size of the dimension; a dimension of size 1 may have no factor.
using FactorMap = std::vector<std::vector<int>>;

/// The sharding rule of one op: its factors, and how they make up each operand and result.
struct Rule {
  std::vector<Factor> factors;              // all factors; the maps below refer to them by index
  std::vector<FactorMap> operands, results; // factors of each operand and each result
};

/// A way to shard one op: which factor each mesh axis cuts.
struct Strategy {
  std::vector<int> factorOfAxis; // entry a: the factor (index in Rule::factors) that mesh axis a cuts; -1: no factor
  auto operator<=>(const Strategy &) const = default;
};

/// The shardings of all operands and results of one op under one strategy.
struct OpSharding {
  std::vector<Sharding> operands, results; // sharding of each operand and each result
  bool operator==(const OpSharding &) const = default;
};

/// Returns the shardings that `strategy` requires of the operands and produces for the results. The local op then
/// computes the local results from the local operands.
///
/// Returns nothing if the strategy is impossible. A strategy is impossible if it
/// - cuts a Replicated factor or a factor of size 0,
/// - makes a tensor partial with two different reductions,
/// - cuts a minor factor of a dimension while a more significant factor still has several elements on a rank, or
/// - cuts a minor factor unevenly below a more significant factor (ranks would not hold contiguous chunks of one size).
///
/// A factor of size s that is cut into n shards has the local size ceil(s/n), also if s < n (trailing ranks then hold
/// only padding). A dimension's chunk is the product of the local sizes of its factors. Several axes that cut one
/// factor are ordered as in the mesh; axes of size 1 are ignored. If a cut Cuttable factor is padded and some result
/// lacks the factor, the caller must first write the neutral element of `reduction` into an operand's padding. A cut
/// Decomposed factor leaves no result partial: the simpler ops of the decomposition do the reductions.
std::optional<OpSharding> project(const Rule &rule, const Mesh &mesh, const Strategy &strategy);

/// Returns all strategies that `project` accepts, in lexicographic order, beginning with "no axis cuts anything". Axes
/// of size 1 are never assigned, and a factor is never cut into more shards than it has elements.
std::vector<Strategy> enumerateStrategies(const Rule &rule, const Mesh &mesh);

/// Returns the rule as one line for documentation and errors: "([b, m, k], [b, k, n]) -> ([b, m, n])  k:
/// reduction(sum)". If a dimension has several factors, the sizes are appended: "([ij, k]) -> ([i, jk])  i=2, j=4,
/// k=4". A dimension of size 1 without a factor is printed as "1".
std::string toString(const Rule &rule);
/// Checks that `rule` fits an op with operands and results of these shapes: the same number of tensors and dimensions,
/// products of factor sizes equal to dimension sizes, and no factor twice in one tensor.
Status checkRule(const Rule &rule, std::span<const Shape> operandShapes, std::span<const Shape> resultShapes);

/// Returns the rule of an elementwise op: all operands and results have the shape `shape`, and each dimension is one
/// Cuttable factor (named i, j, k, ...), dimensions of size 1 included. Each entry of `linearOperandSets` is a set of
/// operand indices in which the op is jointly linear; it becomes a PartialSum factor named sum0, sum1, ...
Rule elementwiseRule(const Shape &shape, int numOperands, int numResults,
                     const std::vector<std::vector<int>> &linearOperandSets);
/// Returns the rule of a reshape between two row-major shapes. The factors (named i, j, k, ...) are the parts into
/// which the two shapes cut each other: 8x4 -> 2x16 gives ([ij, k]) -> ([i, jk]). Where the shapes share no
/// boundary, the rest of each dimension is a Replicated factor: 6x4 -> 4x6 gives ([ij, m]) -> ([ik, l]) with i=2 and
/// replicated j=3, k=2, l=6, m=4. Dimensions of size 1 have no factor. The rule has no PartialSum factor; a linear
/// op adds one itself.
Rule reshapeRule(const Shape &from, const Shape &to);

} // namespace kerf
