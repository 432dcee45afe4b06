// SPDX-License-Identifier: Apache-2.0
// Explains a plan: what limits its speed, what the best alternative to each of its decisions would cost, and which
// change of the cluster or of the batch would make the alternative the better one. All figures are the simulator's.
#pragma once

#include "kerf/PlanSearch/PlanSearch.h"

namespace kerf {

/// Multiplies one quantity of the cluster by `factor`, such as "infiniband.bandwidth", "device.flops" or
/// "device.memory_bandwidth". Returns false, and changes nothing, when the cluster has no such quantity.
bool scaleQuantity(Cluster &cluster, const std::string &name, double factor);
/// Returns the names of the cluster's quantities that step times depend on, from the device to the outermost link.
std::vector<std::string> scalableQuantities(const Cluster &cluster);

/// The change of a plan's step time when one quantity of the cluster grows by 1 % and everything else stays the same.
struct Sensitivity {
  std::string quantity;         // as in scalableQuantities
  double secondsPerPercent = 0; // negative: the step becomes faster
};

/// The factor of a quantity at which an alternative plan becomes the faster one, found by bisection to 1 %. The
/// quantity may also be "global_batch".
struct BreakEven {
  std::string quantity; // as in scalableQuantities, or "global_batch"
  double factor = 1;    // multiple of the quantity's present value
};

/// An alternative to one decision of a plan, and where the alternative becomes the better plan.
struct Alternative : AlternativePlan {
  std::string none;                  // the reason why there is no such plan; empty: there is one
  std::vector<BreakEven> breakEvens; // quantities whose change makes this plan the faster one; the least change first
};

/// The best plan for the same cluster with more or less memory on every device.
struct MemoryVariant {
  std::optional<FoundPlan> plan; // absent: no plan that fits was found
  int64_t memoryBytes = 0;       // memory limit of a device; on a mixed cluster 0 unless the user gave a limit
  double lowerBoundSeconds = 0;  // lower bound of the seconds of a step, over all plans with that memory
  /// Returns whether `plan` is proven to be the best one.
  bool proven() const { return plan && lowerBoundSeconds >= plan->simulation.stepSeconds; }
};

/// Everything that explains one plan.
struct Explanation {
  Plan constraints;                       // constraints of the search, which every alternative keeps
  std::vector<Sensitivity> sensitivities; // the largest gain first
  size_t fullestStage = 0;                // the stage that uses the largest share of its device's memory
  MemoryVariant moreMemory, lessMemory;   // best plans with 10 % (kMemoryStep) more and less memory
  /// One alternative for each decision that the search was free to make, in the order of kDecisions. Only the first
  /// ones where the search was stopped.
  std::vector<Alternative> alternatives;
};

inline constexpr double kMemoryStep = 0.1; // share of a device's memory that MemoryVariant adds or removes

/// Explains `plan`, which searchPlans found with the same arguments. One common search looks for alternatives to all
/// decisions; each alternative that it leaves unproven is searched again with the alternative's pins. `onSearchBegin`
/// is called with a description of each search.
Result<Explanation> explainPlan(const Cluster &cluster, const TrainingJob &job, const LayoutSource &layouts,
                                const PlanSearchOptions &options, const FoundPlan &plan,
                                const std::function<void(const std::string &)> &onSearchBegin = {});

/// Returns the constraints with `pins` added, as `kerf plan --constraints` takes them. `pins` override constraints.
Plan withPins(const Plan &constraints, const Plan &pins);
/// Returns pins as the JSON of a constraints file: {"kerf": 1, ...}.
nlohmann::ordered_json constraintsJson(const Plan &pins);

/// A decision that two plans make differently.
struct PlanDifference {
  std::string key;        // key of plan.json that holds the decision
  std::string one, other; // the values in both plans as text; "-": the plan leaves the decision open
};
/// Returns all decisions that two plans make differently.
std::vector<PlanDifference> differences(const Plan &one, const Plan &other);
/// Returns a plan's value for a key of plan.json as text; "-" when the plan leaves the decision open.
std::string decisionText(const Plan &plan, const std::string &key);

/// Completes a plan for the cluster and simulates it. Fails when the plan contradicts the cluster, the
/// job or the model.
Result<FoundPlan> simulatePlan(const Plan &plan, const Cluster &cluster, const TrainingJob &job,
                               const LayoutSource &layouts);

} // namespace kerf
