// SPDX-License-Identifier: Apache-2.0
// Plans as sets of pins. A pin is one decision, named by its key in
// plan.json: "mesh.model", "schedule.chunks", "recompute".
#pragma once

#include "kerf/Search/Plan.h"
#include <functional>

namespace kerf::plansearch {

/// Returns the names of all pins of a plan.
std::vector<std::string> pinNames(const Plan &plan);
/// Returns a pin for messages, such as "mesh.model = 8"; only the name where the value is a list or an object.
std::string pinText(const Plan &plan, const std::string &pin);
/// Returns the value of a pin as JSON text; nothing when the plan lacks the pin.
std::optional<std::string> pinValue(const Plan &plan, const std::string &pin);
/// Returns the plan without one pin.
Plan withoutPin(const Plan &plan, const std::string &pin);
/// Returns only those decisions of a plan that kDecisions lists.
Plan decisionsOf(const Plan &plan);
/// Returns `base` with all pins of `pins`, which override those of `base`.
Plan overlaid(const Plan &base, const Plan &pins);

/// Returns a minimal set of pins of `plan` that cannot hold together: without any one of them, `possible` returns true.
/// The global batch and pins of ops and arguments are always kept, since the model's layouts depend on them. Returns an
/// empty list when even these alone are not possible.
std::vector<std::string> conflictingPins(const Plan &plan, const std::function<bool(const Plan &)> &possible);

} // namespace kerf::plansearch
