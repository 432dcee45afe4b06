// SPDX-License-Identifier: Apache-2.0
// The settings of a run step by step, and of a run that goes on from a checkpoint. A setting that is not asked for is
// the checkpoint's, else the default.
#pragma once

#include "kerf/Runtime/Checkpoint.h"
#include "kerf/Runtime/DataSet.h"
#include "kerf/Runtime/LearningRate.h"

namespace kerf::runtime {

/// The settings that a caller asks for. An absent one is left to the checkpoint or the defaults.
struct AskedSettings {
  std::optional<std::string> schedule; // these four: of LearningRate
  std::optional<double> lr;
  std::optional<int64_t> warmup, total;
  std::optional<int64_t> steps; // those before a checkpoint included
  std::optional<uint64_t> seed;
  bool shuffle = false, samples = false; // as DataOrder has them
};

struct RunSettings {
  LearningRate learningRate;
  int64_t firstStep = 0, endStep = 0;
  uint64_t seed = 0;
  DataOrder order;
  int64_t firstBatch = 0; // of the first step, counted through all passes
  int64_t perStep = 1;    // batches of each step
};

/// Returns how batches are made of the data: as asked, or as the run of the checkpoint made them.
DataOrder dataOrder(const AskedSettings &asked, const Checkpoint *resumed);

struct BatchCounts {
  int64_t inData = 1;  // in one pass through the data
  int64_t perStep = 1; // of the program (package::batchesOfStep)
};
Result<RunSettings> runSettings(const AskedSettings &asked, const BatchCounts &batches, const Checkpoint *resumed);

/// Returns the description of a run that its checkpoints keep (CheckpointIndex::info).
nlohmann::ordered_json checkpointInfo(const package::Program &program, const RunSettings &settings);

/// Lines for people: what is resumed, and what differs from when it was made.
std::string resumeText(const Checkpoint &resumed, const package::Program &program, const RunSettings &settings,
                       int64_t dataSteps);

} // namespace kerf::runtime
