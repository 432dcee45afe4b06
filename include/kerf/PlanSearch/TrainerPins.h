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

/// Returns the modes of a model of `layers` layers, two or more, whose activations wait in the host's memory but for
/// those of the last layer.
std::vector<LayerRecompute> allButLastOffloaded(int64_t layers);
/// Puts allButLastOffloaded() in the place of the pin `"recompute": "offload"` if the trainer runs nothing else. Fails
/// if the pins offload other layers. `layers` is the model's number of layers.
Status adaptOffload(const Trainer &trainer, int64_t layers, Plan &pins, const std::string &where);

} // namespace kerf
