// SPDX-License-Identifier: Apache-2.0
// The gradients of a step as the planner of compression needs them: their networks, the speed of codecs on the device,
// and the backward pass in which they become ready (docs/compression-planning.md).
#pragma once

#include "kerf/Compression/Planner.h"
#include "kerf/CostModel/Simulator.h"

namespace kerf {

/// One gradient of a part of the pipeline.
struct GradientOfPart {
  size_t index = 0;                      // index of the gradient in gradientsOf()
  size_t segment = 0;                    // index in Part::segments
  int64_t layer = 0;                     // number of the layer within the segment, from 0
  const ParameterGroup *group = nullptr; // parameters; never null
};
/// Returns all gradients of a part, also those that are not summed over ranks: segment by segment, layer by layer, in
/// forward order.
std::vector<GradientOfPart> gradientsOf(const Part &part);

/// Returns the speed of a codec on the device of `collectives`, of whose cores ranks may have a share only: the
/// measured one of the cluster file, or else an estimate.
compression::CodecCurve codecCurve(const CollectiveModel &collectives, const compression::CodecRecord &codec);

/// Returns whether the planner leaves gradients of a process group uncompressed because its link is fast: all ranks
/// share a node of accelerators, each reaches its peers with at least a sixteenth of its memory's bandwidth (as over
/// NVLink), and the cluster file has no measured speeds of codecs. An estimated codec may then cost what it saves.
bool linkIsTooFast(const CollectiveModel &collectives, const std::vector<AxisRef> &axes);

/// The process group of some axes, divided into the ranks within a node and one rank of each node.
struct HierarchyAxes {
  std::vector<AxisRef> inner, outer; // sub-axes; `inner` is empty if no two ranks of a group share a node
};
/// Divides the process groups along `axes`. On a cluster of a single level there is no hierarchy.
HierarchyAxes hierarchyAxes(const CollectiveModel &collectives, const std::vector<AxisRef> &axes);
/// Returns the network between the ranks of a group. `collectives` must outlive the result.
compression::SyncNetwork syncNetwork(const CollectiveModel &collectives, const std::vector<AxisRef> &axes);

/// Returns the gradient of a parameter group under a plan, for one pipeline stage with ZeRO stage `sharding`.
compression::SyncGradient syncGradient(const ParameterGroup &group, const StepPlan &plan, int sharding);

/// Returns the bytes of state that one rank keeps to compress the gradient: factors, and error feedback of the gradient
/// and (in the two-stage scheme) of the part of the sum that the rank encodes.
double compressionStateBytes(const compression::SyncChoice &choice, const ParameterGroup &group);

/// Lists the options of a gradient.
using OptionSource =
    std::function<std::vector<compression::SyncOption>(const GradientOfPart &, const compression::SyncGradient &,
                                                       const compression::SyncNetwork &, const CollectiveModel &)>;
/// The backward of one part's last microbatch as a problem of the planner.
struct PartProblem {
  compression::PlanProblem problem;
  std::vector<size_t> indexOf; // for each gradient of the problem, its index in gradientsOf()
};
/// Returns the problem of chunk `chunk` of stage `stage`. It has no gradients if gradients are not summed beside the
/// backward (Overlap::gradients of a plan that does not shard them).
PartProblem gradientProblem(const StepWork &work, const StepPlan &plan, const PipelineModel &pipeline, int64_t stage,
                            int64_t chunk, const OptionSource &options);

} // namespace kerf
