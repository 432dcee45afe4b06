// SPDX-License-Identifier: Apache-2.0
// Why a whole plan is as it is, and what trading time for devices or memory gives, for people and as JSON.
#pragma once

#include "kerf/PlanSearch/Explain.h"
#include "kerf/PlanSearch/Pareto.h"
#include "kerf/Report/StepReport.h"

namespace kerf {

std::string toText(const Explanation &explanation, const FoundPlan &plan);
nlohmann::ordered_json toJson(const Explanation &explanation, const FoundPlan &plan);

/// Two plans of one job or of two: what they decide differently, and where the time goes.
std::string differenceText(const FoundPlan &one, const FoundPlan &other);
nlohmann::ordered_json differenceJson(const FoundPlan &one, const FoundPlan &other);

/// `pricePerHour` of a device; 0: not known, and no money is shown.
std::string toText(const std::vector<ParetoPlan> &plans, double pricePerHour);
nlohmann::ordered_json toJson(const std::vector<ParetoPlan> &plans, double pricePerHour);

} // namespace kerf
