// SPDX-License-Identifier: Apache-2.0
// Converts a completed plan and the model's work into the inputs of the simulator (StepWork and StepPlan).
#pragma once

#include "kerf/CostModel/ModelWork.h"
#include "kerf/CostModel/Simulator.h"
#include "kerf/PlanSearch/CompletePlan.h"

namespace kerf {

/// Converts axis references that are numbered as in kPlanAxes to references of `mesh`. References to an axis of size 1,
/// which `mesh` lacks, are dropped.
std::vector<AxisRef> onMesh(const std::vector<AxisRef> &refs, const Mesh &mesh);

/// Returns the error text for a plan with several stages when the model has no repeated layer to cut between: such a
/// model can only be cut at ops. `where` names the plan, `stages` is the plan's number of stages, and `model` is the
/// name of the model's file.
std::string noLayersText(const std::string &where, int64_t stages, const std::string &model);

/// The layers of each pipeline part as half-open ranges [first, end). Part c * stages + s is chunk c of stage s.
using LayerCut = std::vector<std::pair<int64_t, int64_t>>;

/// Returns the cut of a model of `layers` layers. Parts whose layers the plan gives have these; the others share the
/// remaining layers evenly, or on a mixed cluster in proportion to the peak FLOP/s of their stages' devices. Fails when
/// the plan's `stages` contradict each other or the number of layers.
Result<LayerCut> cutLayers(const CompletedPlan &completed, const TrainingJob &job, int64_t layers);

/// Returns the work of a step: the model's chain, cut into pipeline parts. Fails when the plan has several stages and
/// the model no repeated layer, or like cutLayers.
Result<StepWork> stepWork(const CompletedPlan &completed, const TrainingJob &job, const ModelWork &model);

/// Returns the work of a step whose stages have meshes of their own. `modelOfStage` is the model's work under the
/// layout of each stage (planOfStage).
Result<StepWork> stepWork(const CompletedPlan &completed, const TrainingJob &job,
                          const std::vector<const ModelWork *> &modelOfStage);

/// Places the plan's stages on the cluster, for the simulator's times of communication.
Result<PipelineModel> pipelineOf(const Plan &completed, const Cluster &cluster);

/// Returns the message of activations that each rank of a pipeline stage sends to the next stage in each microbatch:
/// the bytes, and the collectives with which the receivers gather them. `sends` says whether ranks along the axis
/// "model" that hold the same activations each send all of them or one share each.
StageMessage messageOf(const ModelWork &model, const Mesh &mesh, StageSends sends);

/// Returns the plan in the form that the simulator takes. Fails when a pattern of the plan's
/// `recompute` matches no layer.
Result<StepPlan> stepPlan(const CompletedPlan &completed, const TrainingJob &job, const ModelWork &model);

/// Sets the plan's recomputation to `modes`, indexed by layer, in the shortest form that plan.json has: one value for
/// all layers, one for each stage, or runs of layers. `cut` gives the layers of each of the parts of `stages` stages.
void setRecompute(Plan &plan, const std::vector<Recompute> &modes, const LayerCut &cut, int64_t stages);

/// Sets the intervals of a prediction.
void setIntervals(Prediction &prediction, const Uncertainty &uncertainty);

} // namespace kerf
