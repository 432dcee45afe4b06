// SPDX-License-Identifier: Apache-2.0
// Megatron-LM's layout of one step on the axes that a plan gives to a microbatch.
#pragma once

#include "kerf/PlanSearch/CompletePlan.h"
#include "kerf/Transforms/Layout.h"

namespace kerf {

/// A step under a layout. Axes of the placement's mesh: "data", where the module has more samples than a microbatch
/// (the slices of its batch, by data groups and microbatches alike), "expert", "context", "model" in its parts.
struct LaidOut {
  CollectiveModel collectives;
  Placement placement;
  std::vector<int> choice;
  /// The plan's axis that each is (numbered as kPlanAxes); nothing for the slices.
  std::vector<std::optional<AxisRef>> axes;
};

/// `model` names the module in messages. What `pins` leave open is found, or follows `known` (null: nothing is known).
Result<LaidOut> layOut(mlir::ModuleOp module, const std::string &model, const LayoutKey &key, const Cluster &cluster,
                       const Plan &pins, const DecidedLayout *known);

} // namespace kerf
