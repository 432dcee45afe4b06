// SPDX-License-Identifier: Apache-2.0
// Expert parallelism: how the mesh axes "expert", "model" and "context" shard the ops of mixtures of experts.
#pragma once

#include "kerf/Transforms/Placement.h"

namespace kerf {

/// Returns the number of experts of the module's mixtures of experts: 0 where the module has none, the smallest number
/// where mixtures differ.
int64_t expertsOf(mlir::ModuleOp module);

/// Returns the preference `layout`, extended to mixtures of experts, for buildProblem.
///   - The axis "expert" shards the experts wherever an op has a dimension of experts: in their products, parameters
///     and optimizer states. It shards the batch everywhere else, including the ops that move tokens to slots and back.
///     Between the two, all-to-alls exchange the slots (GShard, Lepikhin et al. 2020).
///   - The axis "model" may not shard a dimension that counts experts or slots. It may shard the width of the tokens
///     that are exchanged, so that each of its ranks exchanges a share, and gathers the tokens afterwards.
StrategyPreference preferenceWithExperts(mlir::ModuleOp module, const Mesh &mesh, StrategyPreference layout);

/// Returns the sharding rules `rules` (empty: each op's own rule), changed for ops that move tokens to slots where
/// "context" shards the tokens. The slots are then sharded by "context" too: each of its ranks fills its share of every
/// expert's slots with its own tokens, without exchanging tokens with the others. For buildProblem, in predictions.
RuleOfOp rulesWithExpertGroups(const Mesh &mesh, RuleOfOp rules);

} // namespace kerf
