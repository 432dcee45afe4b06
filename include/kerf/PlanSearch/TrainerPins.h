// SPDX-License-Identifier: Apache-2.0
// Checks, before a search, for jobs that a trainer cannot run at all: its machines, its types of numbers, its
// optimizers, and the pins of the constraints.
#pragma once

#include "kerf/PlanSearch/PlanSearch.h"

namespace kerf {

/// Refuses machines that the trainer does not run on.
Status checkMachines(const Trainer &trainer, const Cluster &cluster);
/// Refuses what no plan for the trainer can have. `optimizer`: the word of --optimizer.
Status checkTrainer(const Trainer &trainer, const Cluster &cluster, const std::string &dtype,
                    const std::string &optimizer);
/// Refuses the first pin that the trainer cannot run. Pins of `overlap`, `gradient_dtype` and `attention` are taken as
/// they are: they are options of a trainer, and `kerf export` says what it cannot be told. `where` names the pins.
Status checkPins(const Trainer &trainer, const Plan &pins, const std::string &where);

} // namespace kerf
