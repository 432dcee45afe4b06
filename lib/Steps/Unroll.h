// SPDX-License-Identifier: Apache-2.0
// A stage's list as the schedule has it: `prepare`, the stage's tasks in the schedule's order, `update`; transfers are
// received at the start of the task that first uses them, and waited for where nobody can wait in a circle
// (StepOrder.h). A program without a schedule runs from its first instruction to its last.
#pragma once

#include "StepOrder.h"
#include "kerf/Package/FlatProgram.h"

namespace kerf::steps {

/// `order`: of a program with a schedule.
package::StepList unroll(const package::Program &program, const package::Expansion &expansion,
                         const std::optional<StepOrder> &order, int64_t stage);

/// A reduction that nothing waits for but the update (kerf-partition names its stream).
bool reducesGradients(const package::Instruction &instruction);
/// The stream that a collective names.
std::string streamNamed(const package::Instruction &collective);

} // namespace kerf::steps
