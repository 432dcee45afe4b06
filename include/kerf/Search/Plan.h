// SPDX-License-Identifier: Apache-2.0
// Plans: all decisions about how one model is trained on one cluster, as plain data and as plan.json
// (docs/interface.md). A plan in which some decisions are missing serves as constraints of a search: decisions that it
// makes are kept, the others are searched.
#pragma once

#include "kerf/Compression/Sync.h"
#include "kerf/Sharding/Sharding.h"
#include "kerf/Support/Interval.h"
#include "kerf/Support/PlanWords.h"
#include "kerf/Support/Result.h"
#include <map>
#include <nlohmann/json.hpp>

namespace kerf {

/// The mesh axes that a plan may name, from the outermost to the innermost unless the plan's `order` differs.
inline constexpr const char *kPlanAxes[] = {"stage", "data", "context", "expert", "model"};
/// Returns the index of the axis `name` in kPlanAxes, or -1 if there is none of that name.
int planAxis(std::string_view name);

/// The words that a plan's key "overlap" may list: kinds of communication that run beside computation.
inline constexpr const char *kPlanOverlaps[] = {"gradients", "parameters", "tensor", "stage", "products", "experts"};

/// The sharding strategy of some ops: the mesh axes that cut each factor of the op's iteration space.
struct OpPlan {
  std::string pattern; // glob on "scope/op#k" (kerf/Transforms/OpKeys.h), or the name of a node in the exported model
  std::map<std::string, std::vector<std::string>> strategy; // for each factor: the mesh axes that cut it
  bool operator==(const OpPlan &) const = default;
};

/// The sharding of some arguments of the model (parameters, states, inputs): the mesh axes that cut each dimension.
struct ArgumentPlan {
  std::string pattern;                        // glob on the argument's exported name
  std::vector<std::vector<std::string>> dims; // for each dimension of the argument: names of the mesh axes that cut it
  bool operator==(const ArgumentPlan &) const = default;
};

/// The pipeline schedule (kerf/Schedule/Schedule.h): the order in which stages run microbatches. Empty text and 0 mean
/// that the decision is left to the search.
struct SchedulePlan {
  std::string name;    // "gpipe", "1f1b", "interleaved" or "zero-bubble"
  int64_t chunks = 0;  // parts of the model that each stage holds, more than 1 only for interleaved schedules
  std::string variant; // variant of the schedule "zero-bubble": "h1", "1p", "2p" or "by-memory"
  /// Zero-bubble 1p, 2p and by-memory: the most microbatches whose activations each stage holds; a single number is
  /// that of all stages, and empty means as many as the variant says.
  std::vector<int64_t> inFlight;
  bool operator==(const SchedulePlan &) const = default;
};

/// The part of the model that chunk `chunk` of stage `stage` holds: either a run of layers, or all ops up to a border
/// that an op's name gives.
struct StageLayers {
  std::optional<std::pair<int64_t, int64_t>> layers; // first and last layer; absent: no layer, or `until` is given
  int64_t stage = 0, chunk = 0;                      // numbers of the stage and of its chunk, from 0
  /// Glob on op names of the forward pass: the part holds the ops after the previous part, up to the matching ones.
  /// Empty: the part is given by `layers`, or it is the last part and holds all remaining ops.
  std::string until = {};
  std::map<std::string, int64_t> mesh = {}; // axis sizes of the stage's own mesh; empty: the plan's
  bool operator==(const StageLayers &) const = default;
};

/// The activation checkpointing mode of the layers that `pattern` matches.
struct LayerRecompute {
  std::string pattern; // a layer number "7", a range "4-7", or a glob on the number or the name ("transformer.h.7")
  Recompute mode = Recompute::None; // activation checkpointing mode of each layer that `pattern` matches
  bool operator==(const LayerRecompute &) const = default;
};

/// Whether the backward pass recomputes the results of some ops, regardless of their layers' mode.
struct OpRecompute {
  std::string pattern;    // glob on op names, as in OpPlan::pattern
  bool recompute = false; // false: the results are kept from the forward pass
  bool operator==(const OpRecompute &) const = default;
};

/// How the gradients of some parameters are synchronized.
struct CompressionPin {
  /// Glob on names of parameters. The pattern "*" leaves out vectors, tables of embeddings and small gradients
  /// (compression::excludedByDefault); every other pattern applies to all parameters that it matches.
  std::string pattern;
  compression::SyncChoice choice; // codec, scheme and the rest
  bool operator==(const CompressionPin &) const = default;
};

/// The part of a plan that decides where tensors and ops are placed: the mesh, and what its axes cut. An absent or
/// empty field leaves the decision to the search.
struct PlanLayout {
  std::map<std::string, int64_t> meshSizes; // ranks along each axis, by the axis' name
  std::vector<std::string> order;           // the axes from the outermost to the innermost
  std::vector<StageLayers> stages;          // the cut of the model into pipeline stages
  std::optional<OpLayout> layout;           // how the axis "model" shards the ops of a layer
  /// Whether the axis "model" also cuts the sequence: one value for all stages, or one for each stage.
  std::vector<bool> sequenceParallel;
  std::optional<ContextStyle> contextStyle; // the attention algorithm of context parallelism
  /// The ZeRO level, 0 to 3: one value for all stages, or one for each stage.
  std::vector<int64_t> optimizerSharding;
  int64_t optimizerShardingRanks = 0;  // ranks that share one copy of the optimizer states; 0: undecided
  std::vector<OpPlan> ops;             // pinned strategies; the first pattern that matches an op counts
  std::vector<ArgumentPlan> arguments; // pinned shardings; the first pattern that matches an argument counts
};

/// The part of a plan that decides when and how computation runs. An absent or empty field leaves the decision to the
/// search.
struct PlanExecution {
  int64_t globalBatch = 0; // samples of a step on all ranks; 0: undecided
  int64_t microbatch = 0;  // samples of a microbatch on one model replica; 0: undecided
  SchedulePlan schedule;   // the pipeline schedule
  /// The activation checkpointing mode of the layers: one mode for all stages, or one for each stage. Empty: undecided,
  /// or decided by `recomputeLayers`.
  std::vector<Recompute> recompute;
  std::vector<LayerRecompute> recomputeLayers; // modes by layer, used instead of `recompute`; other layers: None
  /// Pinned recomputation of single ops; the first pattern that matches an op counts. The mode of the op's layer
  /// decides for an op that no pattern matches.
  std::vector<OpRecompute> recomputeOps;
  std::optional<std::vector<std::string>> overlap; // communication that runs beside computation: words of kPlanOverlaps
  std::string gradientDtype;                       // element type in which gradients are summed, for example "f32"
  std::optional<AttentionKernels> attention;       // the implementation of attention
  std::optional<OptimizerStates> optimizerStates;  // how the optimizer's states are kept; absent: undecided, or Device
  /// Compression of gradients; the first pattern that matches a parameter counts, and others are not compressed.
  std::vector<CompressionPin> compression;

  /// Returns whether the plan decides what layers recompute.
  bool decidesRecompute() const { return !recompute.empty() || !recomputeLayers.empty(); }
};

/// The step time and the memory that were predicted when the plan was made.
struct Prediction {
  double stepSeconds = 0;                  // seconds of one training step
  double lowerBoundSeconds = 0;            // no plan of the search space takes less; 0: no bound is known
  std::vector<int64_t> peakBytes;          // peak bytes of tensors on a device, indexed by stage
  bool fits = true;                        // whether every stage fits into its device's memory
  std::optional<Interval> secondsInterval; // interval of `stepSeconds`, if one is known
  std::vector<Interval> peakIntervals;     // intervals of `peakBytes`; empty: not known
};

/// All decisions for one model on one cluster; incomplete when it serves as constraints.
struct Plan : PlanLayout, PlanExecution {
  std::optional<Prediction> predicted; // present in a plan that a search has completed
  std::string modelHash, clusterHash; // SHA-256 of the model and cluster files that the plan was made for; may be empty
  /// The keys "report", "job" and "notes" of the file, unchanged.
  nlohmann::ordered_json keptKeys = nlohmann::ordered_json::object();

  /// Returns whether the plan was completed by a search.
  bool complete() const { return predicted.has_value(); }
  /// Returns the mesh as compiler passes see it: the axes of size greater than 1, in the plan's order.
  Mesh mesh() const;
};

/// Returns the op pattern with which each pipeline part except the last ends, where the plan cuts the model at ops;
/// empty where it cuts between layers. Part c * stages + s is chunk c of stage s. Fails when a part is given twice or
/// is missing; `where` names the plan in the error.
Result<std::vector<std::string>> stageCuts(const Plan &plan, const std::string &where);

/// Returns whether a LayerRecompute pattern matches layer `number` of the given name. An empty name matches no glob.
bool matchesLayer(const std::string &pattern, int64_t number, const std::string &name);
/// Returns the activation checkpointing mode of layer `number`, which lies in stage `stage`. An empty `name` means that
/// the layer's name is unknown.
Recompute recomputeModeOf(const Plan &plan, int64_t stage, int64_t number, const std::string &name);

/// Parses the text of a plan.json. Fails on malformed text, unknown keys and values out of range; `where` names the
/// file in the error.
Result<Plan> parsePlan(std::string_view json, const std::string &where);
/// Reads a plan.json. Fails like parsePlan, or when the file cannot be read.
Result<Plan> readPlan(const std::string &path);
/// Returns the plan as the text of a plan.json, which ends with a newline. Equal plans give equal texts.
std::string toJson(const Plan &plan);

/// Checks that the plan can be combined with the search that chooses a strategy for each operator (docs/plan.md). That
/// search supports the mesh axes "data" and "model" only, and no pipeline stages, microbatches, recomputation,
/// optimizer sharding or sequence parallelism. The error names the first decision of the plan that the search does not
/// support, and what to do; `where` names the plan in the error.
Status checkLowerable(const Plan &plan, const std::string &where);

} // namespace kerf
