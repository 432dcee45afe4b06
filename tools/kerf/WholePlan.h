// SPDX-License-Identifier: Apache-2.0
// Searches for whole plans, and what kerf explain asks of the plans that it wrote.
#pragma once

#include "Options.h"

namespace kerf::tool {

struct WholePlanFlags {
  std::string output, report;
  bool json = false, pareto = false;
};

/// Searches and answers; the exit status. The plan keeps its job, so that it can be explained later. `request` is made
/// of `plan`.
int runPlanWhole(const CLI::App &command, const PlanRequest &request, const PlanFlags &plan,
                 const WholePlanFlags &flags);

/// The plan is one that runPlanWhole wrote.
bool isWhole(const Plan &plan);

/// The differences between the asked job and the one that a plan keeps.
struct OtherJob {
  std::vector<std::string> whatIf; // "infiniband.bandwidth*2"
  std::string trainer;             // "": the job's
};
/// `other` may be empty; the exit status.
int explainWhole(const std::string &file, const Plan &plan, const std::string &otherFile,
                 const std::optional<Plan> &other, const OtherJob &otherwise, bool json);

} // namespace kerf::tool
