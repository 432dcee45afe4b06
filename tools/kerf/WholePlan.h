// SPDX-License-Identifier: Apache-2.0
// Searches for whole plans, and what kerf explain asks of the plans that it wrote.
#pragma once

#include "Options.h"

#include "kerf/Compiler/PlanWhole.h"

namespace kerf::tool {

struct WholePlanFlags {
  std::string output, report;
  bool json = false, pareto = false;
};

/// Searches and answers; the exit status. The plan keeps its job, so that it can be explained later.
int runPlanWhole(const CLI::App &command, const ModelFlags &model, const PrecisionFlags &precision,
                 const PlanFlags &plan, const Cluster &cluster, const WholePlanFlags &flags);

/// The best whole plan for a model that is then compiled, with notes for the user. `constraints` came from
/// `constraintsFile`.
struct WholeAnswer {
  Plan plan;
  std::vector<std::string> notes;
};
Result<WholeAnswer> searchWhole(const ModelFlags &model, const PrecisionFlags &precision, const PlanFlags &plan,
                                const Cluster &cluster, const Plan &constraints, const std::string &constraintsFile);

/// Adds to the error of an infeasible job what would make it feasible (Remedies.h). `cluster`: the ranks that the job
/// has.
Error withRemedies(Error error, const ModelFlags &model, const PlanFlags &plan, const Cluster &cluster);

/// The plan is one that runPlanWhole wrote.
bool isWhole(const Plan &plan);

/// What is otherwise than in the job that a plan keeps.
struct OtherJob {
  std::vector<std::string> whatIf; // "infiniband.bandwidth*2"
  std::string trainer;             // "": the job's
};
/// `other` may be empty; the exit status.
int explainWhole(const std::string &file, const Plan &plan, const std::string &otherFile,
                 const std::optional<Plan> &other, const OtherJob &otherwise, bool json);

} // namespace kerf::tool
