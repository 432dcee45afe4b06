// SPDX-License-Identifier: Apache-2.0
// Answers the question of `kerf plan`: the best plan of a training job, with the job stored in the plan, so that the
// plan can later be explained, simulated, verified and compiled without repeating the settings. These calls neither
// print nor exit.
#pragma once

#include "kerf/Compiler/ExplainJob.h"
#include "kerf/Compiler/Simulate.h"
#include "kerf/Report/StepReport.h"

namespace kerf {

/// Returns the kind of search for the request: the given one, or else the one that the model, the cluster and the
/// constraints need. `wholeOnly` says that something was asked for that only the search over whole plans has. Fails
/// when the request contradicts itself.
Result<SearchKind> decideSearch(const PlanRequest &request, bool wholeOnly);

/// The result of a search over whole plans.
struct WholePlans {
  WholePlanJob job;
  FoundPlans found;
  std::vector<std::string> notes; // notes for the user, such as that fewer ranks are faster
  std::vector<ParetoPlan> pareto; // only if it was asked for
  /// Returns the best plan, with hashes and with `describedJob` as its job.
  Plan best(nlohmann::ordered_json describedJob, const Cluster &cluster) const;
};

/// The number of next best plans and the callbacks of searchWholePlans.
struct WholePlanCalls {
  int64_t top = 3;
  bool pareto = false; // also search the best plans for fewer ranks and for less memory
  std::function<void(double best, double bound)> progress = {};
  std::function<void(const std::string &)> onSearchBegin = {}; // called with a description before each further search
  /// The plan is chosen by the seconds that it exceeds with this probability, and must fit with the same probability of
  /// being wrong; absent: by the predicted seconds and bytes.
  std::optional<double> risk = {};
};

/// Keeps the plans that fit into memory with a probability of at least 1 - `risk`, sorts them by the seconds that each
/// exceeds with the probability `risk`, and keeps the first `most`. Fails if no plan is left.
Status preferSafePlan(std::vector<FoundPlan> &plans, double risk, int64_t most);

/// Searches for the fastest whole plans.
Result<WholePlans> searchWholePlans(mlir::MLIRContext &context, const PlanRequest &request,
                                    const WholePlanCalls &calls);

/// Makes the report of a plan that was simulated with Trace::Yes.
Result<StepReport> reportOn(const std::string &model, const Cluster &cluster, const SimulatedPlan &simulated);
/// Makes the report of `best`, the best plan of a search: simulates the plan again, with a timeline.
Result<StepReport> reportOn(mlir::MLIRContext &context, const PlanRequest &request, const WholePlans &plans,
                            const Plan &best);

/// Returns `error` with the changes that make an infeasible job feasible, found by trial searches (findRemedies), added
/// to its message. Returns errors other than ExitStatus::Infeasible unchanged. `whole` is the cluster with all ranks.
Error withRemedies(Error error, const PlanRequest &request, const Cluster &whole);

/// A training job that a program describes in the terms of plan.json.
struct PlanQuestion {
  ModelSource model;
  nlohmann::ordered_json settings = nlohmann::ordered_json::object(); // as readSettings reads them
  std::optional<Cluster> cluster = {};                                // absent: CPU ranks of this machine
  Plan constraints = {};
  std::string constraintsFile = "the constraints"; // names the constraints in messages
  std::optional<Plan> from = {};                   // plan with which a search over whole plans starts
  bool pareto = false;
  std::function<void(double best, double bound)> progress = {};
  std::function<bool()> stop = {}; // called often; true ends a search over whole plans with the best plan so far
};

/// The best plan of a job.
struct PlannedJob {
  Plan plan; // with its job
  std::string text;
  std::vector<std::string> warnings, notes;
  std::vector<FoundPlan> others = {}; // the next best plans of a search over whole plans
  std::vector<ParetoPlan> pareto = {};
  double pricePerHour = 0; // of one device; 0: unknown
};

/// Finds the best plan of a job. Fails with ExitStatus::Infeasible and the changes that would help when no plan fits.
Result<PlannedJob> planJob(mlir::MLIRContext &context, const PlanQuestion &question);

} // namespace kerf
