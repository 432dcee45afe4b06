// SPDX-License-Identifier: Apache-2.0
// The layouts that plans name, found from the IR alone: Megatron-LM's, and the solver's.
#pragma once

#include "kerf/Support/PlanWords.h"
#include "kerf/Transforms/Placement.h"

#include <map>

namespace kerf {

/// What "model" cuts.
enum class OverModel {
  Megatron,         // Megatron-LM's layout, the stream whole
  MegatronSequence, // the same, what lies between products cut along the sequence
  Solved,           // anything but the batch: the solver takes the cheapest strategy of every op
};

/// The stream is what layers hand on, [batch, sequence, width]: its dimensions are followed through every op but
/// products.
///   - "model" cuts, at every product with a parameter and every table look-up, a factor of the parameter that the
///   stream does not
///     have: columns where the stream comes in, rows where it goes out (Shoeybi et al. 2019), the vocabulary of tables
///     and of the loss.
///   - Between them it cuts what the stream does not have (heads, the MLP's width), never the stream itself; with
///   MegatronSequence
///     the ops on the stream are cut along the sequence (Korthikanti et al. 2022).
///   - What a norm takes of each token between two products (the latents of DeepSeek's attention) is the stream too:
///   every rank of "model" makes it, with MegatronSequence for its part of the sequence.
///   - "model" may be several axes (modelParts). Parts but the first cut no head of keys and values that query heads
///   share: their ranks
///     have copies of these heads and of what makes them.
///   - "context" cuts the sequence, and "data" the batch, wherever there is one.
/// What suits none of this is left whole. Solved keeps what is said of "context" and "data". For buildProblem.
StrategyRank layoutRank(mlir::ModuleOp module, const Mesh &mesh, OverModel overModel);
/// Ranks from here on leave the batch whole over "data"; lower ones do not.
inline constexpr int kBatchWhole = 8;

struct DecidedLayout {
  /// Of the module: its ops in order, and which values they take. Sizes do not count.
  size_t structure = 0;
  /// The strategies of a solved problem by what they are of: the number of the value that the node decides in the
  /// module, and whether the node is that value as its users see it.
  std::map<std::pair<int, bool>, Strategy> strategies;
};
DecidedLayout decidedLayout(mlir::ModuleOp module, const Placement &placement, const std::vector<int> &choice);
/// The same for a module of the same structure, which differs in the size of its batch; null for any other.
DecidedStrategy followLayout(mlir::ModuleOp module, const DecidedLayout &decided);

/// The `ops` and `arguments` of a plan, which name the plan's axes, on the mesh of one layout: "model" is all its
/// parts, an axis that the mesh lacks cuts nothing. Errors: "data" on anything but the batch; "stage", or no axis.
Result<Plan> localPins(mlir::ModuleOp module, const Plan &pins, const Mesh &local);

/// The axes of one layout's mesh that are "model", major first, by size: one, or where it has more ranks than there are
/// heads of keys and values, the part that cuts these, the part that cuts the query heads that share one, and what is
/// left and finds no head to cut.
///   8 key/value heads, 64 heads:   model 8 -> 8    model 16 -> 8 x 2    model 12 -> 4 x 3 (each head on three ranks)
std::vector<int64_t> modelParts(mlir::ModuleOp module, int64_t model);
/// "model" for the first, "model/8" for one that follows 8 ways.
std::string modelPartName(int64_t before);

/// Attention over a sequence that "context" cuts, as an op of its own kind. Ring: keys and values are cut as queries
/// are, their way round the ring is part of the op. Ulysses: the heads of one rank of "model" are a factor of their
/// own, which "context" cuts; the reshards around it are the all-to-alls. For buildProblem.
RuleOfOp contextRules(const Mesh &mesh, ContextStyle style);
/// Attention whose keys are of the queries' sequence: those of another one are gathered.
bool canRing(mlir::Operation *attention);
/// Sequences and heads of the module divide, so that contextRules can be laid out.
Status checkContext(mlir::ModuleOp module, int64_t context, int64_t model, ContextStyle style, bool fusedAttention);

} // namespace kerf
