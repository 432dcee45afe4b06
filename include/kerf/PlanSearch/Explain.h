// SPDX-License-Identifier: Apache-2.0
// Why a plan is as it is: what limits it, what each decision's best alternative would cost, and which change of the
// cluster or of the batch would turn the decision round. All figures are the simulator's.
#pragma once

#include "kerf/PlanSearch/PlanSearch.h"

namespace kerf {

/// A quantity of the cluster that time depends on: "infiniband.bandwidth", "device.flops", "device.memory_bandwidth".
/// Scaled in the cluster; false where there is none of this name.
bool scaleQuantity(Cluster &cluster, const std::string &name, double factor);
/// Those of the cluster that a plan can be sensitive to, inside out.
std::vector<std::string> quantitiesOf(const Cluster &cluster);

/// The step of one plan as one quantity grows by 1 %, all else the same.
struct Sensitivity {
  std::string quantity;
  double secondsPerPercent = 0; // negative: faster
};

/// The quantity's factor at which the alternative becomes the faster one (bisected to 1 %). "global_batch" is one too.
struct Flip {
  std::string quantity;
  double factor = 1;
};

/// The best plan found that decides something otherwise, and where it becomes the better one.
struct Alternative : OtherwisePlan {
  std::string none;        // why there is no such plan
  std::vector<Flip> flips; // the nearest to 1 first
};

/// The best plan on devices of more or less memory.
struct OtherMemory {
  std::optional<FoundPlan> plan; // none: nothing found that fits
  int64_t memoryBytes = 0;       // of a device; of a mixed cluster 0, or the limit that was given
  double lowerBoundSeconds = 0;
  bool proven() const { return plan && lowerBoundSeconds >= plan->simulation.stepSeconds; }
};

struct Explanation {
  Plan constraints;                       // of the search, that every alternative keeps
  std::vector<Sensitivity> sensitivities; // the strongest first
  size_t fullestStage = 0;                // the one with the least memory to spare
  OtherMemory moreMemory, lessMemory;     // with 10 % more on every device, and with 10 % less
  /// In the order of kDecisions, without those that cannot be otherwise; only the first ones where the search was
  /// stopped.
  std::vector<Alternative> alternatives;
};

inline constexpr double kMemoryStep = 0.1; // share of every device's memory that is added, and taken away

/// `plan` is one that searchPlans found with these arguments. All decisions are asked about in one search; what it
/// leaves unproven is searched again with the pins of the answer, as searchPlans would. `begun` is told each search.
Result<Explanation> explainPlan(const Cluster &cluster, const TrainingJob &job, const LayoutSource &layouts,
                                const PlanSearchOptions &options, const FoundPlan &plan,
                                const std::function<void(const std::string &)> &begun = {});

/// The constraints with `pins` too, as `kerf plan --constraints` takes them.
Plan withPins(const Plan &constraints, const Plan &pins);
/// Pins as a constraints file: {"kerf": 1, ...}.
nlohmann::ordered_json constraintsJson(const Plan &pins);

/// What two plans decide differently: the key of plan.json, and both values as text ("-": not decided).
struct PlanDifference {
  std::string key, one, other;
};
std::vector<PlanDifference> differences(const Plan &one, const Plan &other);
/// What the plan says of the key, as text.
std::string decisionText(const Plan &plan, const std::string &key);

/// The plan on a cluster, as the simulator has it.
Result<FoundPlan> simulateWhole(const Plan &plan, const Cluster &cluster, const TrainingJob &job,
                                const LayoutSource &layouts);

} // namespace kerf
