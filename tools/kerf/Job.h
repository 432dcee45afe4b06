// SPDX-License-Identifier: Apache-2.0
// The options of commands and the job of a plan (kerf/Compiler/SavedJob.h): every command that reads a plan uses the
// model, the options and the machines of its job.
#pragma once

#include "kerf/Compiler/SavedJob.h"
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

namespace kerf::tool {

/// The plan file of a command's option --plan, and the job stored in the plan.
struct PlanInput {
  std::string file; // path of the plan file, for messages
  std::optional<Plan> plan;
  std::optional<Job> job;
};

/// The options that a command takes from a job: all of its own options, or only those that `kerf run` has for a package
/// (learning rate, its schedule, seed).
enum class JobPart { All, Run };

/// Sets each option of `command` that was not typed to its value in `job`. Prints a note for each typed option that
/// differs from the job. Ignores options of the job that the command does not have. Fails when the command refuses a
/// value.
Status applyJobOptions(CLI::App &command, const Job &job, const std::string &file, JobPart part);

/// Reads the plan of the command's --plan, if one is given, into `planInput`, and takes the command's options and MODEL
/// from the job of the plan. Fails when the plan cannot be read, or when neither the command line nor the plan names a
/// model.
Status loadPlanAndJob(CLI::App &command, PlanInput &planInput);

/// Returns the job in the form that plan.json stores, from the current options of `command`. Fails when a text is not
/// UTF-8.
Result<nlohmann::ordered_json> describeJob(const CLI::App &command, const Cluster &cluster, int64_t ranks,
                                           const Plan &constraints);

/// Returns the machines of a command: those of `clusterFile`, or else of the job, or else `ranksHere` CPU ranks of this
/// machine. `ranks` is the number of ranks that the user asked for; 0 stands for the number in the file or in the job.
/// Fails when the file is wrong or has too few ranks.
Result<Cluster> chooseCluster(const std::string &clusterFile, const std::optional<Job> &job, int64_t ranks,
                              int64_t ranksHere);

} // namespace kerf::tool
