// SPDX-License-Identifier: Apache-2.0
// Every decision for one model on one cluster, as plain data and as plan.json (docs/interface.md). A partial plan is a
// set of constraints: what it says stays, the rest is found.
#pragma once

#include "kerf/Sharding/Sharding.h"
#include "kerf/Support/PlanWords.h"
#include "kerf/Support/Result.h"
#include <map>
#include <nlohmann/json.hpp>

namespace kerf {

/// The axes that a plan may name, outermost first unless `order` says otherwise.
inline constexpr const char *kPlanAxes[] = {"stage", "data", "context", "expert", "model"};
/// Index in kPlanAxes, or -1.
int planAxis(std::string_view name);

/// What a plan's `overlap` may list.
inline constexpr const char *kPlanOverlaps[] = {"gradients", "parameters", "tensor", "stage", "products"};

/// The strategy of the ops that `pattern` matches: factor -> mesh axes that cut it.
struct OpPlan {
  std::string pattern; // glob on "scope/op#k" (kerf/Transforms/OpKeys.h), or an exported node name
  std::map<std::string, std::vector<std::string>> strategy;
  bool operator==(const OpPlan &) const = default;
};

/// How an argument (parameter, state, input) lies on the mesh: the axes of each dimension.
struct ArgumentPlan {
  std::string pattern; // glob on the exported name
  std::vector<std::vector<std::string>> dims;
  bool operator==(const ArgumentPlan &) const = default;
};

/// How microbatches pass through stages (kerf/Schedule/Schedule.h). Empty and 0: free.
struct SchedulePlan {
  std::string name; // "gpipe", "1f1b", "interleaved", "zero-bubble"
  int64_t chunks = 0;
  std::string variant; // of zero-bubble: "h1", "1p", "2p"
  bool operator==(const SchedulePlan &) const = default;
};

/// One run of layers, chunk `chunk` of stage `stage`: first to last, or none where the run holds only what stands
/// before or after all layers. Or all up to the ops that `until` means (a glob on names of the forward pass); the last
/// run then holds the rest.
struct StageLayers {
  std::optional<std::pair<int64_t, int64_t>> layers;
  int64_t stage = 0, chunk = 0;
  std::string until = {};
  std::map<std::string, int64_t> mesh = {}; // the stage's, without "stage"; empty: the plan's
  bool operator==(const StageLayers &) const = default;
};

/// What the layers that `pattern` matches recompute: a layer's number "7", numbers "4-7", or a glob on the number or on
/// the layer's name ("transformer.h.7").
struct LayerRecompute {
  std::string pattern;
  Recompute mode = Recompute::None;
  bool operator==(const LayerRecompute &) const = default;
};

/// Whether the backward makes the results of the ops that `pattern` matches again, whatever their layer recomputes.
struct OpRecompute {
  std::string pattern; // as OpPlan::pattern
  bool again = false;
  bool operator==(const OpRecompute &) const = default;
};

/// The part of a plan that says where tensors and operators lie: the mesh, and how its axes cut them.
struct PlanLayout {
  std::map<std::string, int64_t> meshSizes; // absent: free
  std::vector<std::string> order;           // empty: free
  std::vector<StageLayers> stages;          // empty: free
  std::optional<OpLayout> layout;           // absent: free
  std::vector<bool> sequenceParallel;       // one value, or one for each stage; empty: free
  std::optional<ContextStyle> contextStyle; // absent: free
  std::vector<int64_t> optimizerSharding;   // one value, or one for each stage; empty: free
  int64_t optimizerShardingRanks = 0;       // 0: free
  std::vector<OpPlan> ops;                  // the first that matches counts
  std::vector<ArgumentPlan> arguments;      // likewise
};

/// When and how it runs.
struct PlanExecution {
  int64_t globalBatch = 0, microbatch = 0; // samples; 0: free
  SchedulePlan schedule;
  std::vector<Recompute> recompute;                // one value, or one for each stage; empty: free
  std::vector<LayerRecompute> recomputeLayers;     // instead: the first that matches a layer counts, else None
  std::vector<OpRecompute> recomputeOps;           // the first that matches counts, else the layer's
  std::optional<std::vector<std::string>> overlap; // of kPlanOverlaps; absent: free
  std::string gradientDtype;                       // empty: free
  std::optional<AttentionKernels> attention;       // absent: free

  bool decidesRecompute() const { return !recompute.empty() || !recomputeLayers.empty(); }
};

/// The step time and the memory that were predicted when the plan was made.
struct Prediction {
  double stepSeconds = 0, lowerBoundSeconds = 0;
  std::vector<int64_t> peakBytes; // one per stage
  bool fits = true;
};

struct Plan : PlanLayout, PlanExecution {
  std::optional<Prediction> predicted; // present in a complete plan
  std::string modelHash, clusterHash;
  /// "report", "job" and "notes" of the file, as they are.
  nlohmann::ordered_json others = nlohmann::ordered_json::object();

  bool complete() const { return predicted.has_value(); }
  /// Axes of size > 1 in the plan's order: the mesh that passes see.
  Mesh mesh() const;
};

/// What each part of the pipeline but the last ends with (chunk c of stage s is part c * stages + s), where the plan
/// cuts at ops; empty where it cuts between layers. Refuses parts that are told twice or not at all.
Result<std::vector<std::string>> stageCuts(const Plan &plan, const std::string &where);

bool matchesLayer(const std::string &pattern, int64_t number, const std::string &name);
/// What layer `number` of stage `stage` recomputes; `name` empty: not known.
Recompute recomputeOf(const Plan &plan, int64_t stage, int64_t number, const std::string &name);

/// `where` names the file in messages. Keys that are not known are refused.
Result<Plan> parsePlan(std::string_view json, const std::string &where);
/// The file's; messages name it.
Result<Plan> readPlan(const std::string &path);
/// Deterministic text, ends with a newline.
std::string toJson(const Plan &plan);

/// The first thing in the plan that the passes can't lower yet, with what they can: one table (docs/plan.md).
Status checkLowerable(const Plan &plan, const std::string &where);

} // namespace kerf
