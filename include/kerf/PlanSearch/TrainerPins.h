// SPDX-License-Identifier: Apache-2.0
// Checks before a search: refuses jobs that a trainer cannot run at all because of the machines, the element type, the
// optimizer, or the pins of the constraints.
#pragma once

#include "kerf/PlanSearch/PlanSearch.h"

namespace kerf {

/// Checks that the trainer runs on the cluster's devices.
Status checkMachines(const Trainer &trainer, const Cluster &cluster);
/// Checks that the trainer runs on the cluster's devices, in the element type `dtype`, with the optimizer `optimizer`
/// (a word of the option --optimizer).
Status checkTrainer(const Trainer &trainer, const Cluster &cluster, const std::string &dtype,
                    const std::string &optimizer);
/// Checks that the trainer can run every pin; the error names the first pin at fault. Pins of `overlap`,
/// `gradient_dtype` and `attention` are not checked: `kerf export` reports those that the trainer has no option for.
/// `where` names the pins in the error.
Status checkPins(const Trainer &trainer, const Plan &pins, const std::string &where);

} // namespace kerf
