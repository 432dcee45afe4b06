// SPDX-License-Identifier: Apache-2.0
// Verifies that training under a plan gives the same results as training on one rank. The programs of the plan are
// checked at full size, and a run at reduced size is compared with a run on a single rank. The call neither prints nor
// exits.
#pragma once

#include "kerf/Compiler/Shrink.h"

namespace kerf {

/// The plan to verify, with its model and machines.
struct VerifyRequest {
  ModelSource model;
  StepOptions step;                  // options of the import from the plan's job, without mixed precision
  std::string dtype = "f32";         // type of activations and products, as in SimulateOptions
  Plan plan;                         // the plan, with or without gaps
  std::string planFile;              // name of the plan in messages
  Cluster cluster;                   // the machines of the plan, or CPU ranks of this machine if unknown
  bool limited = false;              // true if the machines are known, so that stages have to fit into their memory
  std::optional<double> margin = {}; // fraction of device memory to leave free; absent: the default of withMargin
};

/// The memory of each rank of one pipeline stage at full size.
struct StageMemoryNeed {
  int64_t bytes = 0;      // bytes that the rank needs
  int64_t limitBytes = 0; // bytes that its device has
};

/// The result of the checks at full size. A program that could deadlock is an error, so that this result implies an
/// order of messages without deadlock.
struct FullSizeCheck {
  int64_t ranks = 0, microbatches = 0; // ranks of the plan, and microbatches of a step
  std::vector<StageMemoryNeed> stages; // memory of each pipeline stage
  bool limited = false;                // VerifyRequest::limited
  std::string memoryRules = {};        // memoryRulesText of the devices
};

/// The result of verifying a plan.
struct VerifyResult {
  FullSizeCheck full;
  ShrunkPlan small;                      // the plan of the run at reduced size
  std::vector<double> losses;            // losses of the reduced plan, one for each step, computed in float64
  std::vector<double> lossesOfOneRank;   // losses of the single rank, in float64
  std::optional<std::string> difference; // text on the first difference between the two runs; absent if they agree
};

/// The number of training steps of each of the two compared runs.
inline constexpr int64_t kVerifiedSteps = 3;

/// Verifies a plan. Fails when the plan cannot be compiled or run. A difference between the runs and a stage that does
/// not fit into memory are not errors, but part of the result.
Result<VerifyResult> verifyPlan(const VerifyRequest &request);

/// Returns the result as JSON, with the keys of `kerf verify --json`.
nlohmann::ordered_json toJson(const VerifyResult &verified);
/// Returns the result as text. `planFile` names the plan, and `configured` says whether the model is a config.json.
std::string toText(const VerifyResult &verified, const std::string &planFile, bool configured);
/// Fails with ExitStatus::InternalCheck when the two runs differ, and with ExitStatus::Infeasible when a stage does not
/// fit into its device's memory.
Status verdict(const VerifyResult &verified, const std::string &planFile);

} // namespace kerf
