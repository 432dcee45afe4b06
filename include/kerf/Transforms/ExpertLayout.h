// SPDX-License-Identifier: Apache-2.0
// What a layout means for experts: which dimensions are theirs, and the axis "expert".
#pragma once

#include "kerf/Transforms/Placement.h"

namespace kerf {

/// Experts of the module's mixtures: 0 where it has none; the fewest where they differ.
int64_t expertsOf(mlir::ModuleOp module);

/// `layout`, where "model" leaves alone which expert a dimension counts and the slots of each, but may cut the width of
/// what is exchanged (each of its ranks then exchanges a share, and gathers); and the axis "expert" cuts
///   - the experts, wherever an op has them: their products, parameters and optimizer states;
///   - the batch elsewhere, in what sends tokens to slots and back too. Between the two the slots change hands by
///   all-to-alls (GShard, Lepikhin et al. 2020).
/// For buildProblem.
StrategyRank withExperts(mlir::ModuleOp module, const Mesh &mesh, StrategyRank layout);

/// `rules` (none: the ops' own), where tokens that "context" cuts are sent to slots that it cuts as well: each of its
/// ranks fills its share of every expert's slots, without a look at the tokens of the others. For buildProblem, of
/// predictions.
RuleOfOp withExpertGroups(const Mesh &mesh, RuleOfOp rules);

} // namespace kerf
