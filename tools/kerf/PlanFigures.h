// SPDX-License-Identifier: Apache-2.0
// The seconds and bytes that compile and train tell of a plan: those that plan and simulate tell.
#pragma once

#include "Options.h"

namespace kerf::tool {

/// Puts the simulator's figures into `planned` where they are the plan's: of whole plans on devices other than CPUs.
/// Elsewhere they are the lowered program's already.
Status takeFigures(Planned &planned, const ModelFlags &model, const Cluster &cluster, int64_t batch);

/// Refuses a plan that needs more than --memory, and warns of one that needs more than the devices leave for it.
Status checkMemory(const Planned &planned, const std::string &planFile, const PlanFlags &flags, const Cluster &cluster);

} // namespace kerf::tool
