// SPDX-License-Identifier: Apache-2.0
// How a run goes on from a checkpoint: what the flags say, else what the checkpoint was made with, else the defaults.
#pragma once

#include "Options.h"

namespace kerf::tool {

struct RunSettings {
  std::string schedule = "constant";
  double lr = 1e-3;
  int64_t warmup = 0, total = 0; // steps: of the rise; at which the schedule ends
  int64_t firstStep = 0, endStep = 0;
  uint64_t seed = 0;
  runtime::DataOrder order;
  int64_t firstBatch = 0; // of the first step, counted through all passes
  int64_t perStep = 1;    // batches of each step
  /// Returns the factor of the learning rate at `step`. It rises from 0 to 1 during the warm-up, and then follows the
  /// schedule.
  double scheduleFactor(int64_t step) const;
  double learningRate(int64_t step) const { return lr * scheduleFactor(step); }
};
/// Returns how batches are made of the data: as the flags say, or as the run of the checkpoint made them.
runtime::DataOrder dataOrder(const RunFlags &flags, const runtime::Checkpoint *resumed);
struct BatchCounts {
  int64_t inData = 1;  // in one pass through the data
  int64_t perStep = 1; // of the program (package::batchesOfStep)
};
Result<RunSettings> toSettings(const RunFlags &flags, const BatchCounts &batches, const runtime::Checkpoint *resumed);

/// The checkpoint of --resume; nothing without it. Its index alone is read, so that a wrong one is told before anything
/// takes long.
Result<std::optional<runtime::Checkpoint>> openResumed(const RunFlags &flags);

/// What a checkpoint of this run says of it.
nlohmann::ordered_json checkpointInfo(const package::Program &program, const RunSettings &settings);

/// Lines for people: what is resumed, and what differs from when it was made.
std::string resumeText(const runtime::Checkpoint &resumed, const package::Program &program, const RunSettings &settings,
                       int64_t dataSteps);

} // namespace kerf::tool
