// SPDX-License-Identifier: Apache-2.0
// The tensor-parallel layouts that plans can choose: Megatron-LM's, with or without sequence parallelism, and the
// solver's. They are derived from the IR alone, without a list of known models.
#pragma once

#include "kerf/Support/PlanWords.h"
#include "kerf/Transforms/Placement.h"

#include <map>

namespace kerf {

/// The rule by which the mesh axis "model" (tensor parallelism) shards ops.
enum class ModelAxisLayout {
  Megatron,         // Megatron-LM's layout without sequence parallelism: "model" never shards the residual stream
  MegatronSequence, // Megatron-LM's layout with sequence parallelism: ops between products are sharded by sequence
  Solved,           // anything but the batch may be sharded: the solver takes the cheapest strategy of every op
};

/// Returns the preference, for buildProblem, that makes the solver choose the layout `modelLayout`.
///
/// The residual stream is the tensor [batch, sequence, width] that a layer passes on to the next one. Its dimensions
/// are followed through every op but products.
///   - At every product with a parameter, and every table lookup, "model" shards a factor of the parameter that the
///     residual stream lacks: columns where the product reads the stream, rows where the product writes it (Shoeybi et
///     al. 2019), and the vocabulary of embedding tables and of the loss.
///   - Between such products, "model" shards factors that the stream lacks (heads, the hidden width of the MLP), and
///     never the stream itself. With MegatronSequence, ops on the stream are sharded along the sequence (Korthikanti et
///     al. 2022).
///   - The input of a norm between two products (the latent of DeepSeek's attention) is treated as the stream: every
///     rank of "model" computes it, with MegatronSequence for its part of the sequence only.
///   - "model" may consist of several sub-axes (modelSubAxisSizes). Sub-axes after the first shard no key/value head
///     that query heads share; their ranks have copies of these heads and of the ops that compute them.
///   - "context" shards the sequence, and "data" the batch, wherever an op has such a dimension.
/// Tensors that match none of these patterns are replicated. With Solved, only the rules for "context" and "data" hold.
StrategyPreference layoutPreference(mlir::ModuleOp module, const Mesh &mesh, ModelAxisLayout modelLayout);
/// The smallest value of a layout's preference that means that "data" does not shard the batch. Lower values mean that
/// it does, or that there is no batch.
inline constexpr int kUnshardedBatch = 8;

/// The strategies of a solved placement problem, kept so that they can be applied to the same model with
/// another batch size.
struct DecidedLayout {
  /// A hash of the module's ops in order, of the values that they read and of tensor ranks. Sizes are not hashed.
  size_t structure = 0;
  /// The strategy of each node. A node's key is the number of its value (arguments and op results are numbered in
  /// module order), and whether the node is a resharded form of this value (PlacementNode::reshardedValue).
  std::map<std::pair<int, bool>, Strategy> strategies;
};
/// Returns the strategies that `choice` selects: node i of `placement` has strategy `choice[i]`.
DecidedLayout decidedLayout(mlir::ModuleOp module, const Placement &placement, const std::vector<int> &choice);
/// Returns, for buildProblem, the strategies of `decided` for a module of the same structure, such as the same model
/// with another batch size. Returns null for a module of another structure.
DecidedStrategy strategiesOfLayout(mlir::ModuleOp module, const DecidedLayout &decided);

/// Returns the entries `ops` and `arguments` of the plan `pins`, translated from the plan's axes to the mesh `local` of
/// one layout. "model" becomes all its sub-axes; an axis that the mesh lacks shards nothing. Fails where a pin shards
/// anything but the batch by "data", and where it names "stage" or an unknown axis.
Result<Plan> localPins(mlir::ModuleOp module, const Plan &pins, const Mesh &local);

/// Returns the sizes of the sub-axes into which one layout's mesh divides "model", major first; their product is
/// `model`. There is one sub-axis, unless "model" has more ranks than there are key/value heads. In this case the first
/// one shards the key/value heads, the second one the query heads that share such a head, and the third one finds
/// nothing to shard.
///   8 key/value heads, 64 query heads:   model 8 -> {8}    model 16 -> {8, 2}    model 12 -> {4, 3} (each key/value
///   head is on three ranks)
std::vector<int64_t> modelSubAxisSizes(mlir::ModuleOp module, int64_t model);
/// Returns the mesh axis name of a sub-axis of "model": "model" for the first one (`before` is 1), and "model/8" for
/// one that follows sub-axes with a product of 8 (`before` is 8).
std::string modelSubAxisName(int64_t before);

/// Returns the sharding rules, for buildProblem, of attention whose sequence "context" shards. With Ring, keys and
/// values are sharded like queries, and sending them around the ring is part of the attention op. With Ulysses, the
/// heads on one rank of "model" are a factor of their own, which "context" shards; the reshards before and after the op
/// are all-to-alls. All other ops keep their rule.
RuleOfOp contextRules(const Mesh &mesh, ContextStyle style);
/// Returns whether ring attention is possible: keys and queries belong to one sequence. The keys of another sequence
/// (cross attention) are gathered instead.
bool canUseRingAttention(mlir::Operation *attention);
/// Checks that the sequences and heads of the module are divisible as context parallelism over `context` ranks, beside
/// tensor parallelism over `model` ranks, requires. Fails where they are not, where the module has no attention, and
/// where ring attention is combined with unfused attention kernels.
Status checkContext(mlir::ModuleOp module, int64_t context, int64_t model, ContextStyle style, bool fusedAttention);

} // namespace kerf
