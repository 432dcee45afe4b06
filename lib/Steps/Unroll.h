// SPDX-License-Identifier: Apache-2.0

// The list of steps of a stage before the passes: `prepare`, the stage's tasks in the order of the schedule, `update`.
// A message is received at the start of the task that first uses it, and a send is waited for where no deadlock is
// possible (StepOrder.h). A program without a schedule runs from its first instruction to its last.
#pragma once

#include "StepOrder.h"
#include "kerf/Package/FlatProgram.h"

namespace kerf::steps {

/// Returns the list of steps of `stage`. `order` must be given exactly for a program with a schedule.
package::StepList unroll(const package::Program &program, const package::Expansion &expansion,
                         const std::optional<StepOrder> &order, int64_t stage);

/// Returns true if the instruction is a collective on the stream "gradients", which kerf-partition requests for
/// reductions that only the optimizer's update waits for.
bool reducesGradients(const package::Instruction &instruction);
/// Returns the stream that a collective or copy requests by its attribute `stream`; "collective" if it has none.
std::string requestedStream(const package::Instruction &collective);

} // namespace kerf::steps
