// SPDX-License-Identifier: Apache-2.0
// From IR to a plain placement problem and back: one node a decision (the strategy of an op, the sharding of an
// argument), one edge a use of a value (the reshard between what its producer leaves and what its user asks for).
#pragma once

#include "kerf/CostModel/Collectives.h"
#include "kerf/Dialect/Kerf/KerfDialect.h"
#include "kerf/Search/Plan.h"
#include "kerf/Search/Problem.h"
#include <functional>

namespace kerf {

/// What a node of the problem stands for: an op, an argument of a function (the identity, as an op), or the form in
/// which the users of a value see it, where they share one. Strategy s of the node is strategies[s], and makes
/// shardings[s].
struct PlacementNode {
  mlir::Operation *op = nullptr;
  mlir::BlockArgument argument; // when op is null
  Rule rule;
  std::vector<Strategy> strategies;
  std::vector<OpSharding> shardings;
  mlir::Value seenByUsers = {}; // when op and argument are null
};

struct Placement {
  Mesh mesh;
  Problem problem;
  std::vector<PlacementNode> nodes; // as problem.nodes
  /// The unit of the problem's costs: a power of two, as fine as leaves the sum of the dearest strategies below 2^49
  /// units. Strategies of more than 10^9 seconds are forbidden.
  double secondsPerCost = 1;
  double seconds(TotalCost cost) const;
};

/// How well a strategy suits a layout that was asked for: of the strategies of a node only those of the least rank are
/// kept; nothing: never. `batchFactor` says which factors index the batch.
using StrategyRank =
    std::function<std::optional<int>(const PlacementNode &node, mlir::ValueRange operands, mlir::ValueRange results,
                                     const std::vector<bool> &batchFactor, const Strategy &strategy)>;

/// The strategy of a node where it is known, so that no other is made; null: of no strategy.
using DecidedStrategy = std::function<const Strategy *(const PlacementNode &node, mlir::ValueRange results)>;

/// The rule of an op, where a layout needs another one than the op's own (its work is then done by more than the op).
using RuleOfOp = std::function<Rule(mlir::Operation *op)>;

/// Builds the problem of a training step (@main and the layers that it calls) on the mesh of `collectives`.
///   - "data" may cut the batch only, "model" anything else, other axes anything; pins of ops and arguments in
///   `constraints` override.
///   - A function that is called k times counts k times; an argument of @main that the step replaces keeps its
///   sharding.
///   - Memory: every value from its definition to its last use, along the step with its calls unfolded; parameters and
///   states always.
/// Errors: a pin that matches no op or names a factor or an axis that isn't there.
Result<Placement> buildProblem(mlir::ModuleOp module, const CollectiveModel &collectives, const Plan &constraints,
                               std::optional<int64_t> memoryLimitBytes, const StrategyRank &rank = {},
                               const RuleOfOp &ruleOf = {}, const DecidedStrategy &decided = {});

/// The solution as the `ops` and `arguments` of a plan: alike entries of layers are folded into one pattern.
void writeChoice(mlir::ModuleOp module, const Placement &placement, const std::vector<int> &choice, Plan &plan);

/// Writes a plan's decisions into the IR: the mesh, `kerf.strategy` on ops, `kerf.sharding` on arguments. Ops that the
/// plan does not name follow their operands later (kerf-insert-reshards). Errors as in buildProblem.
Status applyPlan(mlir::ModuleOp module, const Plan &plan);

// Shared by the passes of this room.
Rule argumentRule(const Shape &shape);
/// {"model" = "n"}: mesh axis -> factor, both by name.
mlir::DictionaryAttr strategyAttr(mlir::MLIRContext *context, const Mesh &mesh, const Rule &rule,
                                  const Strategy &strategy);
/// "data: batch, model: n" for a reader; empty when nothing is cut.
std::string strategyText(const Mesh &mesh, const Rule &rule, const Strategy &strategy);
Result<Strategy> parseStrategyAttr(mlir::DictionaryAttr attr, const Mesh &mesh, const Rule &rule);
/// The strategy that a plan's {factor: [axes]} means, -2 for axes that it does not mention; {} cuts nothing.
Result<Strategy> parseOpPlan(const OpPlan &op, const Mesh &mesh, const Rule &rule);
/// The strategy of argumentRule that a plan's list of axes per dimension means for the argument called `name`.
Result<Strategy> parseArgumentPlan(const ArgumentPlan &argument, const Mesh &mesh, const Rule &rule,
                                   const std::string &name);

} // namespace kerf
