// SPDX-License-Identifier: Apache-2.0
// The use of a saved plan by a program: model, settings and machines come from the job of the plan, except for those
// that the caller gives.
#pragma once

#include "kerf/Compiler/JobSettings.h"
#include "kerf/Compiler/SavedJob.h"

namespace kerf {

/// A plan, and what the caller gives besides it.
struct PlanUse {
  Plan plan = {};
  std::string planFile = "the plan";                                  // names the plan in messages
  std::optional<ModelSource> model = {};                              // absent: the model of the plan's job
  nlohmann::ordered_json settings = nlohmann::ordered_json::object(); // as readSettings reads them
  std::optional<Cluster> cluster = {}; // absent: the cluster of the job, or else CPU ranks of this machine
};

/// A plan with everything that is needed to use it.
struct ResolvedUse {
  ModelSource model;
  JobSettings settings;
  nlohmann::ordered_json options; // the settings as JSON, those of the job included
  Cluster cluster;                // the ranks that the plan may use
  bool knownMachines = false;     // whether the cluster was given or comes from the job
};

/// Takes what the caller does not give from the job of the plan. A setting of the job that depends on the optimizer or
/// the type is not taken where the caller gives another optimizer or another type. Fails when neither names a model,
/// and when the job, a setting or the cluster is wrong.
Result<ResolvedUse> resolveUse(const PlanUse &use);

} // namespace kerf
