// SPDX-License-Identifier: Apache-2.0
// The training job that a plan was made for. plan.json keeps it under "job" (docs/plan.md), so that every command that
// takes the plan asks about the same model, options and machines.
#pragma once

#include "kerf/CostModel/Cluster.h"
#include "kerf/Search/Plan.h"
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

namespace kerf::tool {

/// All of it is optional in a file that a person writes.
struct Job {
  std::string model;                                                 // path, as it was typed
  nlohmann::ordered_json options = nlohmann::ordered_json::object(); // option's name with '_' -> value
  std::optional<Cluster> cluster;                                    // with all its ranks
  int64_t ranks = 0;                                                 // the first ones that are used; 0: all
  std::optional<Plan> constraints;                                   // what the search was held to
};

/// A plan file that a command was given, and the job in it.
struct GivenPlan {
  std::string file; // for messages
  std::optional<Plan> plan;
  std::optional<Job> job;
};

/// Reads the "job" of `plan`; nothing where the plan has none. `file` names the plan in messages.
Result<std::optional<Job>> jobOf(const Plan &plan, const std::string &file);

/// Refuses a job whose model is not where its path says, seen from the current folder.
Status checkModelExists(const Job &job, const std::string &file);

/// Which options a command takes from a job: all that it has, or those that `kerf run` has for a package.
enum class JobPart { All, Run };

/// Gives each option of `command` that was not typed the value of `job`. Prints a note for each typed one that differs.
/// Options of the job that the command does not have are left out.
Status takeOptions(CLI::App &command, const Job &job, const std::string &file, JobPart part);

/// Reads the plan of the command's --plan, where one is given, and takes the command's options and MODEL from its job.
/// A command that needs a MODEL and got none is refused.
Status takePlan(CLI::App &command, GivenPlan &given);

/// The job as plan.json holds it, from the options of `command` as they are now.
Result<nlohmann::ordered_json> describeJob(const CLI::App &command, const Cluster &cluster, int64_t ranks,
                                           const Plan &constraints);

/// The machines of a command: those of `clusterFile`, else of the job, else `ranksHere` ranks of this machine. `ranks`:
/// how many of them were asked for; 0: as many as the file, or the job, says.
Result<Cluster> machinesOf(const std::string &clusterFile, const std::optional<Job> &job, int64_t ranks,
                           int64_t ranksHere);

} // namespace kerf::tool
