// SPDX-License-Identifier: Apache-2.0
// What a simulated step takes, and a plan that was found with it, for people.
#pragma once

#include "kerf/PlanSearch/PlanSearch.h"

namespace kerf {

/// Seconds, where they go, and the memory of the stage that has the least to spare.
std::string toText(const Simulation &simulation, int64_t ranks, const std::string &cluster);

/// The best plan's decisions, its step, how far from the best it can be, and the plans behind it.
std::string toText(const FoundPlans &found, const std::string &model, const Cluster &cluster);

/// What a complete plan decides, for people: {"mesh", "stage 8 x data 8 (outermost first)"}, ...
std::vector<std::pair<std::string, std::string>> decisions(const Plan &plan);

/// By which share no plan of the space searched is faster. 0: proven the best.
double gapOf(double stepSeconds, double lowerBoundSeconds);
/// `outside`: what the space that the bound is about leaves out (kerf/PlanSearch/Outside.h).
std::string boundText(double stepSeconds, double lowerBoundSeconds, const std::vector<std::string> &outside);
/// "8 of 64 ranks stay unused"; "" where none do.
std::string unusedText(int64_t ranks, const Cluster &cluster, bool proven);

/// "stage 8 x data 16 x model 8, 1f1b, full recomputation": a plan in a line.
std::string planText(const Plan &plan);

} // namespace kerf
