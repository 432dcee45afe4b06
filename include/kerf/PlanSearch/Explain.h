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

struct Alternative {
  std::string key;               // one of kDecisions
  std::optional<FoundPlan> plan; // the best found that decides otherwise
  std::string none;              // why there is no such plan
  bool proven = false;           // that none is faster
  std::vector<Flip> flips;       // the nearest to 1 first
};

struct Explanation {
  std::vector<Sensitivity> sensitivities; // the strongest first
  size_t fullestStage = 0;                // the one with the least memory to spare
  /// What the best plan would take with 10 % more memory on every device, and with 10 % less; none: nothing found.
  std::optional<FoundPlan> moreMemory, lessMemory;
  /// In the order of kDecisions, without those that cannot be otherwise; only the first ones where the search was
  /// stopped.
  std::vector<Alternative> alternatives;
};

inline constexpr double kMemoryStep = 0.1; // share of every device's memory that is added, and taken away

/// `plan` is one that searchPlans found with these arguments. Each question is a search of its own over a fraction of
/// the budget; `begun` is told which.
Result<Explanation> explainPlan(const Cluster &cluster, const TrainingJob &job, const LayoutSource &layouts,
                                const PlanSearchOptions &options, const FoundPlan &plan,
                                const std::function<void(const std::string &)> &begun = {});

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
