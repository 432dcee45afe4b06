// SPDX-License-Identifier: Apache-2.0
// Answers to questions about saved plans: why a plan is as it is, how two plans differ, and which plan would be the
// best one after a change of the job. These calls neither print nor exit.
#pragma once

#include "kerf/Compiler/JobSettings.h"
#include "kerf/Compiler/SavedJob.h"

namespace kerf {

/// The answer to a question, in both forms.
struct Answer {
  nlohmann::ordered_json json;
  std::string text; // for a terminal
};

/// Returns whether the plan was written by a search over whole plans, and not by a search over placements.
bool isWholePlan(const Plan &plan);

/// The changes to the job of a plan about which the user asks.
struct JobChanges {
  std::vector<std::string> whatIf;       // scaled quantities, such as "infiniband.bandwidth*2"
  std::string trainer;                   // name of another trainer; "": the trainer of the stored job
  std::optional<ModelSource> model = {}; // the model, where it is not the file of that name; absent: that file
};
/// Applies one change, such as "infiniband.bandwidth*2", "ranks*2" or "global_batch/2", to the parts of a job. Fails
/// when the text has another form or names an unknown quantity.
Status scaleJob(const std::string &whatIf, Cluster &cluster, JobSettings &settings, Plan &constraints);

/// A question about one plan, or about two.
struct ExplainRequest {
  std::string file; // names `plan` in messages
  Plan plan;
  std::string otherFile = {}; // names `other` in messages
  std::optional<Plan> other = {};
  std::string op = {}; // glob of the operators to explain, for plans of the search over placements; "": all
  JobChanges changes = {};
  std::function<void(const std::string &)> onSearchBegin = {}; // called with a description before each search
  std::function<bool()> stop = {}; // called often during searches; true ends them with the best plans so far
};

/// Explains a plan of either search, or the differences of two plans of the same kind. Fails when the question does
/// not fit the kind of the plan, when the plan lacks its job or its report, or when no plan fits the changed job.
Result<Answer> explain(mlir::MLIRContext &context, const ExplainRequest &request);

} // namespace kerf
