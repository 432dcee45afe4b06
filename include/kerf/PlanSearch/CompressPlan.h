// SPDX-License-Identifier: Apache-2.0
// Compression of gradients in whole plans (docs/compression-planning.md): the choices that a plan states, and the
// planner's choices for a plan that a search has found.
#pragma once

#include "kerf/PlanSearch/PlanSearch.h"
#include "kerf/PlanSearch/StepOfPlan.h"

namespace kerf {

/// A plan in the form that the simulator takes, without the compression that the plan states.
struct StepView {
  const CompletedPlan &completed;
  const TrainingJob &job;
  const ModelWork &model;
  const StepWork &work;
  const StepPlan &step;
  const PipelineModel &pipeline;

  /// Returns the work of part `p`, which is chunk p / stages of stage p % stages.
  const Part &part(int64_t p) const {
    int64_t stages = step.schedule.stages;
    return work.parts[work.part[p % stages][p / stages]];
  }
};

/// Returns, for each part of the pipeline, the name of the parameter of each gradient, in the order of gradientsOf().
/// Part c * stages + s is chunk c of stage s.
Result<std::vector<std::vector<std::string>>> gradientNames(const StepView &view);

/// Returns the first pin that applies to the gradients of a parameter, or null.
const CompressionPin *compressionPinOf(const std::vector<CompressionPin> &pins, const std::string &name,
                                       const ParameterGroup &group);

/// Returns the step with the compression of `pins`. Fails when a pattern matches no parameter, or when a gradient
/// cannot be synchronized as its pin says.
Result<StepPlan> withCompression(const StepView &view, const std::vector<CompressionPin> &pins);

/// Returns patterns for the given choices such that the first one that matches a name gives its choice, and names that
/// no pattern matches are not compressed. Few patterns are used, and none is "*". `names` and `choices` belong
/// together.
std::vector<CompressionPin> patternsOf(const std::vector<std::string> &names,
                                       const std::vector<compression::SyncChoice> &choices);
/// Returns the name with "*" instead of its first number between dots, slashes or underscores: "h.*.mlp" of "h.7.mlp".
std::string withoutLayerNumber(const std::string &name);
/// Makes the choices simpler, so that they need fewer patterns: parameters that differ in the number of their layer
/// only get the choice of most of them and, with `oneForAll`, all compressed parameters get the most frequent choice.
std::vector<compression::SyncChoice> simplerChoices(const std::vector<std::string> &names,
                                                    std::vector<compression::SyncChoice> choices, bool oneForAll);
inline constexpr double kSimplerCosts = 0.002; // share of a step by which it may be longer with simpler choices

/// The compression of a plan, and the prediction with it.
struct PlannedCompression {
  std::vector<CompressionPin> compression;
  Simulation simulation;
};
/// Plans the compression of gradients that no pin of `pins` decides. `plain` is the simulation of the step without
/// compression, and `figures` are the figures that commands print for it: the same, or those of the compiled program.
/// The result has only `pins` where compression saves less than kLeastGain of the step or does not fit into memory.
Result<PlannedCompression> planCompression(const StepView &view, const std::vector<CompressionPin> &pins,
                                           const Simulation &plain, const Simulation &figures,
                                           const CompressionRequest &request);
inline constexpr double kLeastGain = 0.01; // share of a step that compression must save

/// Plans the compression of a plan that a search found without compression. Fails like simulatePlan.
Result<FoundPlan> compressPlan(const FoundPlan &found, const std::vector<CompressionPin> &pins, const Cluster &cluster,
                               const TrainingJob &job, const LayoutSource &layouts, const CompressionRequest &request);

/// Adds to `figures`, the figures of a compiled program without compression, what compression changes according to the
/// simulator: the difference of `coded` and `plain`.
void addDifference(Simulation &figures, const Simulation &plain, const Simulation &coded);

/// The reason why a gradient is compressed, or not.
enum class CompressionReason {
  Saves,       // it is compressed, and the last sum would be later without
  NoLater,     // it is compressed, and without its compression alone the last sum would not be later
  Excluded,    // vectors and tables are left out by default
  Hidden,      // it is sent beside the backward, before the communication stream last waits
  SavesNothing // no choice that is allowed makes the last sum earlier
};
/// Returns the reason as a phrase for people.
std::string_view toString(CompressionReason reason);

/// The gradients of parameters that differ in the number of their layer only and have the same choice and reason.
struct ExplainedGradient {
  std::string name;                 // parameter, with "*" for the layers' numbers if there are several
  int64_t count = 1;                // number of gradients
  double bytes = 0;                 // bytes of one gradient without compression, on one rank
  compression::SyncChoice choice;   // what the plan does
  compression::SyncCost plain, own; // costs of one gradient without compression, and with the choice
  double savedSeconds =
      0; // seconds by which the last sum would be later if one of them were not compressed, on average
  CompressionReason reason = CompressionReason::SavesNothing;
  /// The largest of kBandwidthFactors of the outermost network's bandwidth at which the planner compresses one of the
  /// gradients; 0: it does so at none of them.
  double compressedUpTo = 0;
};
/// The compression of a plan, explained for the stage whose sums end last.
struct ExplainedCompression {
  int64_t stage = 0;
  double plainSeconds = 0,
         seconds = 0;           // from the start of the last backward to the last sum: without and with the plan
  double lowerBoundSeconds = 0; // no choice that is allowed takes less
  double stateBytes = 0;        // bytes of error feedback and factors on one rank of the stage
  std::vector<ExplainedGradient> gradients; // in the order in which they become ready
};
inline constexpr double kBandwidthFactors[] = {0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 10, 30, 100};
/// Explains the compression of a complete plan under the limits of `request`. Fails like simulatePlan.
Result<ExplainedCompression> explainCompression(const Plan &plan, const Cluster &cluster, const TrainingJob &job,
                                                const LayoutSource &layouts, const CompressionRequest &request);

} // namespace kerf
