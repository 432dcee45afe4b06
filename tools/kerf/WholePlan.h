// SPDX-License-Identifier: Apache-2.0
// The search over whole plans (kerf plan --search whole), and kerf explain of the plans that it wrote. A whole plan
// decides pipeline stages, microbatches, recomputation and optimizer sharding besides the placement of operators.
#pragma once

#include "Options.h"

namespace kerf::tool {

/// The output options of `kerf plan --search whole`.
struct WholePlanFlags {
  std::string output, report; // files for the plan and for the report; "": not written
  bool json = false;          // prints the plan as JSON instead of the report as text
  bool pareto = false;        // also searches the best plans for fewer ranks and for less memory
};

/// Searches for the fastest whole plan, prints it and writes the files of `flags`. The written plan stores its job, so
/// that kerf explain can search again later. `plan` holds the options from which `request` was built. Returns the exit
/// status.
int searchWholePlan(const CLI::App &command, const PlanRequest &request, const PlanFlags &plan,
                    const WholePlanFlags &flags);

/// Returns whether the plan was written by searchWholePlan, and not by a search over placements.
bool isWholePlan(const Plan &plan);

/// The changes to the job stored in a plan that kerf explain asks about.
struct JobChanges {
  std::vector<std::string> whatIf; // scaled quantities, such as "infiniband.bandwidth*2"
  std::string trainer;             // name of another trainer; "": the trainer of the stored job
};
/// Prints why `plan`, read from `file`, is the best plan of its job; with `changes.whatIf`, the best plan of the
/// changed job; with `other`, read from `otherFile`, the differences of the two plans. Returns the exit status.
int explainWholePlan(const std::string &file, const Plan &plan, const std::string &otherFile,
                     const std::optional<Plan> &other, const JobChanges &changes, bool json);

} // namespace kerf::tool
