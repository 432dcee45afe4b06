// SPDX-License-Identifier: Apache-2.0
// A plan as a set of pins, by the keys of plan.json: "mesh.model", "schedule.chunks", "recompute".
#pragma once

#include "kerf/Search/Plan.h"
#include <functional>

namespace kerf::plansearch {

std::vector<std::string> pinsOf(const Plan &plan);
/// "mesh.model = 8": one of pinsOf(plan).
std::string pinText(const Plan &plan, const std::string &pin);
/// As JSON; nothing where the plan does not say.
std::optional<std::string> pinValue(const Plan &plan, const std::string &pin);
Plan without(const Plan &plan, const std::string &pin);
/// What kDecisions name of the plan, and nothing else.
Plan decisionsOf(const Plan &plan);
/// What `pins` say counts, what they leave out is as `base` says.
Plan overlaid(const Plan &base, const Plan &pins);

/// A smallest set of pins that cannot hold together: without any one of them `possible` says yes. The batch and the
/// pins of ops and arguments, which the layouts are made with, always stay. Empty where even these alone are not
/// possible.
std::vector<std::string> conflictingPins(const Plan &plan, const std::function<bool(const Plan &)> &possible);

} // namespace kerf::plansearch
