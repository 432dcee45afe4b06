// SPDX-License-Identifier: Apache-2.0
// Conversion between IR and a placement problem in plain data. The problem has one node for each decision (the strategy
// of an op, the sharding of an argument) and one edge for each use of a value (the reshard from the sharding in which
// the producer leaves the value to the one that the user needs).
#pragma once

#include "kerf/CostModel/Collectives.h"
#include "kerf/Dialect/Kerf/KerfDialect.h"
#include "kerf/Search/Plan.h"
#include "kerf/Search/Problem.h"
#include <functional>

namespace kerf {

/// A node of the placement problem. It stands for one of three things: an op; an argument of a function;
/// or a value that is resharded once for all its users. Strategy s of the node is `strategies[s]`, with
/// the shardings `shardings[s]`.
struct PlacementNode {
  mlir::Operation *op = nullptr; // null for an argument and for a resharded value
  mlir::BlockArgument argument;  // null unless the node is an argument
  Rule rule;                     // sharding rule of the op; argumentRule for an argument and for a resharded value
  std::vector<Strategy> strategies;
  std::vector<OpSharding> shardings;
  mlir::Value reshardedValue = {}; // null unless the node is a resharded value
};

/// A placement problem and what its nodes stand for in the IR.
struct Placement {
  Mesh mesh;
  Problem problem;
  std::vector<PlacementNode> nodes; // node i describes problem.nodes[i]
  /// Seconds of one unit of the problem's integer costs. It is the smallest power of two for which the sum of the most
  /// expensive strategies stays below 2^49 units. Strategies of more than 10^9 seconds are forbidden.
  double secondsPerCost = 1;
  /// Returns a cost of the problem in seconds.
  double seconds(TotalCost cost) const;
};

/// A function that says how well a strategy of one node suits a requested layout. Lower is better: of the strategies of
/// a node, only those with the lowest value are kept. Nothing: the strategy is never allowed.
using StrategyRank = std::function<std::optional<int>(const Strategy &strategy)>;
/// A function that returns the StrategyRank of a node, which may be called as long as the arguments live. `operands`
/// and `results` are the node's values, and `batchFactor[f]` is true where factor f of the node's rule indexes the
/// batch.
using StrategyPreference = std::function<StrategyRank(const PlacementNode &node, mlir::ValueRange operands,
                                                      mlir::ValueRange results, const std::vector<bool> &batchFactor)>;

/// A function that returns the strategy of a node where it is decided beforehand, and null where it is not. A node with
/// a decided strategy gets no other one.
using DecidedStrategy = std::function<const Strategy *(const PlacementNode &node, mlir::ValueRange results)>;

/// A function that returns the sharding rule of an op, for layouts that need another rule than the op's own. (Ring
/// attention is one: its communication is not expressed by reshards.)
using RuleOfOp = std::function<Rule(mlir::Operation *op)>;

/// Builds the placement problem of a training step (@main and the layers that it calls) on the mesh of `collectives`.
///   - "data" may shard the batch only, "model" anything else, other axes anything. The pins of ops and arguments in
///     `constraints` override this.
///   - The costs of a function that is called k times count k times. An argument of @main that the step replaces keeps
///     its sharding.
///   - Memory: every value is live from its definition to its last use, in the step with its calls inlined. Parameters
///     and states are always live. With `memoryLimitBytes`, the live bytes of a rank may not exceed the limit.
///   - `preference` keeps only the strategies of a node that suit a requested layout best; null: all are kept. `ruleOf`
///     replaces the sharding rules of ops; null: each op has its own rule. `decided` gives nodes a strategy that is
///     decided beforehand; null: no node has one.
/// Costs are in units of Placement::secondsPerCost seconds.
/// Fails where a pin matches no op, or names a factor or an axis that does not exist.
Result<Placement> buildProblem(mlir::ModuleOp module, const CollectiveModel &collectives, const Plan &constraints,
                               std::optional<int64_t> memoryLimitBytes, const StrategyPreference &preference = {},
                               const RuleOfOp &ruleOf = {}, const DecidedStrategy &decided = {});

/// Writes a solution (strategy `choice[i]` for node i) as the entries `ops` and `arguments` of `plan`. Equal entries of
/// equal layers are merged into one entry with a pattern.
void writeChoice(mlir::ModuleOp module, const Placement &placement, const std::vector<int> &choice, Plan &plan);

/// Writes a plan's decisions into the IR: the mesh, `kerf.strategy` on ops and `kerf.sharding` on arguments. An op
/// that the plan does not name gets its strategy from its operands later (kerf-insert-reshards). Fails in the same
/// cases as buildProblem.
Status applyPlan(mlir::ModuleOp module, const Plan &plan);

// The following functions are shared by the passes of this directory.

/// Returns the sharding rule of an argument of `shape`: that of an identity op, with one factor for each dimension.
Rule argumentRule(const Shape &shape);
/// Returns a strategy as an attribute that maps mesh axes to factors by name: {"model" = "n"}. Axes that shard nothing
/// are left out.
mlir::DictionaryAttr strategyAttr(mlir::MLIRContext *context, const Mesh &mesh, const Rule &rule,
                                  const Strategy &strategy);
/// Returns a strategy as text for a reader: "data: batch, model: n"; empty where it shards nothing.
std::string strategyText(const Mesh &mesh, const Rule &rule, const Strategy &strategy);
/// Returns the strategy that an attribute {"model" = "n"} stands for. Fails where it names an axis that the mesh lacks
/// or a factor that the rule lacks.
Result<Strategy> parseStrategyAttr(mlir::DictionaryAttr attr, const Mesh &mesh, const Rule &rule);
/// Returns the strategy of an op that a plan's entry {factor: [axes]} stands for. A mesh axis that the entry does not
/// mention has -2 (undecided) instead of a factor. In an empty entry every axis has -1 (shards nothing). Fails where
/// the mesh lacks an axis or the rule lacks a factor.
Result<Strategy> parseOpPlan(const OpPlan &op, const Mesh &mesh, const Rule &rule);
/// Returns the strategy of argumentRule that a plan's list of axes for each dimension stands for. `name` is the
/// argument's name, for error messages.
Result<Strategy> parseArgumentPlan(const ArgumentPlan &argument, const Mesh &mesh, const Rule &rule,
                                   const std::string &name);

} // namespace kerf
