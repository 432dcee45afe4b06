// SPDX-License-Identifier: Apache-2.0

// Short texts about simulated plans: what `kerf plan` and `kerf simulate` print.
#pragma once

#include "kerf/PlanSearch/PlanSearch.h"

namespace kerf {

/// Returns a simulated step as text: step time and its parts, and the memory of the fullest pipeline stage. `ranks` is
/// the number of ranks of the plan, and `cluster` the cluster's name.
std::string toText(const Simulation &simulation, int64_t ranks, const std::string &cluster);

/// Returns the result of a search as text: the best plan's decisions, its step, how far it is from the lower bound, and
/// the next best plans. `model` is the name of the model's file.
std::string toText(const FoundPlans &found, const std::string &model, const Cluster &cluster);

/// Returns the decisions of a complete plan as pairs of a name and a text: {"mesh", "stage 8 x data 8 (outermost
/// first)"}, {"recompute", "full"}, ...
std::vector<std::pair<std::string, std::string>> decisionTexts(const Plan &plan);

/// Returns the share (0 to 1) of the step time by which a plan in the searched space could be faster at most; 0 if the
/// plan is proven optimal.
double optimalityGap(double stepSeconds, double lowerBoundSeconds);
/// Returns as text what the lower bound says about the plan. `outside` describes the plans that the searched space does
/// not cover (kerf/PlanSearch/OutsideSpace.h).
std::string boundText(double stepSeconds, double lowerBoundSeconds, const std::vector<std::string> &outside);
/// Returns how many ranks of the cluster a plan of `ranks` ranks leaves unused, e.g. "8 of 64 ranks stay unused"; "" if
/// none. `proven` tells whether the plan is proven optimal.
std::string unusedText(int64_t ranks, const Cluster &cluster, bool proven);

/// Returns a plan in one line: "stage 8 x data 16 x model 8, 1f1b, microbatch 1, recompute full".
std::string planText(const Plan &plan);

/// Returns the plan's compression of gradients as lines of a report, one for each pattern; "" without compression.
std::string compressionText(const Plan &plan);

} // namespace kerf
