// SPDX-License-Identifier: Apache-2.0
// Whether a plan gives the numbers of one rank: its programs are checked at full size, and run at a small one against a
// single rank. It neither prints nor exits.
#pragma once

#include "kerf/Compiler/Shrink.h"

namespace kerf {

struct VerifyRequest {
  ModelSource model;
  StepOptions step;                  // as the plan's job has it, without precision
  std::string dtype = "f32";         // as SimulateOptions has it
  Plan plan;                         // complete or partial
  std::string planFile;              // for messages
  Cluster cluster;                   // the plan's machines, or this one where they are not known
  bool limited = false;              // the machines are known: stages have to fit into their memory
  std::optional<double> margin = {}; // as withMargin has it
};

/// Bytes of a stage's ranks at full size.
struct StageNeed {
  int64_t bytes = 0, limitBytes = 0;
};

/// The result of the checks at full size: an order of messages in which no rank waits for ever, and the memory of each
/// stage.
struct FullCheck {
  int64_t ranks = 0, microbatches = 0;
  std::vector<StageNeed> stages;
  bool limited = false; // as the request has it
};

/// `losses` are those of the small plan, in float64.
struct Verified {
  FullCheck full;
  Shrunk small;
  std::vector<double> losses, lossesOfOneRank;
  std::optional<std::string> difference; // the first between the two runs; nothing where there is none
};

inline constexpr int64_t kVerifiedSteps = 3; // of each run

/// Fails where the plan cannot be lowered or run. A difference is no error, nor is a stage that does not fit.
Result<Verified> verifyPlan(const VerifyRequest &request);

} // namespace kerf
