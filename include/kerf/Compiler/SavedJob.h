// SPDX-License-Identifier: Apache-2.0
// The training job for which a plan was found: model, options and machines. plan.json stores the job under "job"
// (docs/plan.md).
#pragma once

#include "kerf/CostModel/Cluster.h"
#include "kerf/Search/Plan.h"

namespace kerf {

/// A training job. Every field may be missing in a plan file that a person wrote.
struct Job {
  std::string model;                                                 // path of the model, as the user typed it
  nlohmann::ordered_json options = nlohmann::ordered_json::object(); // name of the option with '_' for '-' -> value
  std::optional<Cluster> cluster;                                    // the machines, with all their ranks
  int64_t ranks = 0;               // the first N ranks of the cluster are used; 0: all
  std::optional<Plan> constraints; // the constraints of the search
};

/// Returns the names of the settings that the job of a plan may have, as messages write them ("clip-norm").
const std::vector<std::string> &jobSettingNames();

/// Reads the "job" of `plan`; returns nothing when the plan has none. `file` names the plan in messages. Fails when the
/// job has unknown keys or wrong values.
Result<std::optional<Job>> readJob(const Plan &plan, const std::string &file);

/// Fails when the model file of the job does not exist, relative to the current folder.
Status checkModelExists(const Job &job, const std::string &file);

/// Completes a job in the form that plan.json stores, which has "model" and "options", with the machines and the
/// constraints of the search. Fails when a text is not UTF-8.
Result<nlohmann::ordered_json> completeJob(nlohmann::ordered_json job, const Cluster &cluster, int64_t ranks,
                                           const Plan &constraints);

} // namespace kerf
