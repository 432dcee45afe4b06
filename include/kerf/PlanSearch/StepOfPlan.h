// SPDX-License-Identifier: Apache-2.0
// A completed plan and the work of its layout -> what the simulator takes.
#pragma once

#include "kerf/CostModel/ModelWork.h"
#include "kerf/CostModel/Simulator.h"
#include "kerf/PlanSearch/CompletePlan.h"

namespace kerf {

/// Refs that are numbered as a plan's axes -> those of the mesh, which has no axis of size 1.
std::vector<AxisRef> onMesh(const std::vector<AxisRef> &refs, const Mesh &mesh);

/// The refusal of a plan with stages whose model has no layer that repeats, with the way out: cuts at ops.
std::string noLayersText(const std::string &where, int64_t stages, const std::string &model);

/// Half-open runs of layers, by part (chunk c of stage s is part c * stages + s).
using LayerCut = std::vector<std::pair<int64_t, int64_t>>;

/// As the plan's `stages` say. Where they do not: evenly, the first parts one more; on a mixed cluster in proportion to
/// the peak FLOP/s of the stages' devices.
Result<LayerCut> cutLayers(const CompletedPlan &completed, const TrainingJob &job, int64_t layers);

/// The chain cut into parts. Refuses stages without a repeated layer to cut.
Result<StepWork> stepWork(const CompletedPlan &completed, const TrainingJob &job, const ModelWork &model);

/// The same of stages with meshes of their own: the model's work under the layout of each stage (`ofStage`).
Result<StepWork> stepWork(const CompletedPlan &completed, const TrainingJob &job,
                          const std::vector<const ModelWork *> &modelOfStage);

/// Where the plan's stages lie in its cluster.
Result<PipelineModel> pipelineOf(const Plan &completed, const Cluster &cluster);

/// Returns the message that a stage sends to the next one in each microbatch.
StageMessage messageOf(const ModelWork &model, const Mesh &mesh, StageSends sends);

/// Refuses patterns of `recompute` that match no layer.
Result<StepPlan> stepPlan(const CompletedPlan &completed, const TrainingJob &job, const ModelWork &model);

/// `modes` of all layers, into the fewest words that say so: one value, one for each
/// stage, or runs of layers.
void setRecompute(Plan &plan, const std::vector<Recompute> &modes, const LayerCut &cut, int64_t stages);

} // namespace kerf
