// SPDX-License-Identifier: Apache-2.0
// Places the operators of a step on the mesh axes whose ranks share a microbatch, as Megatron-LM does or with the pins
// of a plan.
#pragma once

#include "kerf/PlanSearch/CompletePlan.h"
#include "kerf/Transforms/Layout.h"

namespace kerf {

/// A step whose operators are placed on a mesh. The axes of the mesh are "data" (the data-parallel groups and
/// microbatches together, only if the module has more samples than one microbatch), "expert", "context", and the
/// sub-axes of "model".
struct StepLayout {
  CollectiveModel collectives; // costs of collectives on the mesh
  Placement placement;         // the placement problem with the strategies of each operator
  std::vector<int> choice;     // index of the chosen strategy for each node of the placement
  /// The axis of the plan (an index into kPlanAxes, with its part) that each mesh axis is; absent for "data".
  std::vector<std::optional<AxisRef>> axes;
};

/// Places the operators of `module` under the layout `key`. Operators in `pins` keep their strategies; the others
/// follow `known`, the layout found for another batch size, or are searched if `known` is null. `model` names the
/// module in messages. Fails when the sizes of the layout do not divide the model or the pins contradict each other.
Result<StepLayout> layOutStep(mlir::ModuleOp module, const std::string &model, const LayoutKey &key,
                              const Cluster &cluster, const Plan &pins, const DecidedLayout *known);

} // namespace kerf
