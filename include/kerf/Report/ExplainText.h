// SPDX-License-Identifier: Apache-2.0

// Texts and JSON of the answers of `kerf explain` and of trade-offs: why a plan is as it is, what two plans decide
// differently, and which plans trade step time for devices or memory.
#pragma once

#include "kerf/PlanSearch/CompressPlan.h"
#include "kerf/PlanSearch/Explain.h"
#include "kerf/PlanSearch/Pareto.h"
#include "kerf/Report/StepReport.h"

namespace kerf {

/// Returns the explanation of `plan` as text for a terminal: its memory, its sensitivities, and for each decision the
/// best plan with another value.
std::string toText(const Explanation &explanation, const FoundPlan &plan);
/// Returns the explanation of `plan` as JSON, with the keys of `kerf explain --json` (docs/interface.md).
nlohmann::ordered_json toJson(const Explanation &explanation, const FoundPlan &plan);

/// Returns the explanation of a plan's compression as a table for a terminal.
std::string toText(const ExplainedCompression &compression);
/// Returns the same explanation as JSON: the value of the key "compression" of `kerf explain --json`.
nlohmann::ordered_json toJson(const ExplainedCompression &compression);

/// Returns as text how plan `other` differs from plan `one`: step time by parts, memory, and decisions. The plans may
/// be for different jobs.
std::string differenceText(const FoundPlan &one, const FoundPlan &other);
/// Returns the same differences as differenceText, as JSON.
nlohmann::ordered_json differenceJson(const FoundPlan &one, const FoundPlan &other);

/// Returns a table of plans that trade step time for devices or memory. `pricePerHour` is the price of one device; with
/// 0 (unknown), the column of prices is left out.
std::string toText(const std::vector<ParetoPlan> &plans, double pricePerHour);
/// Returns the same table as JSON.
nlohmann::ordered_json toJson(const std::vector<ParetoPlan> &plans, double pricePerHour);

} // namespace kerf
