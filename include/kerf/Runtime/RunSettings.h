// SPDX-License-Identifier: Apache-2.0
// The settings of a training run: learning rate, steps, seed and data order. A run that resumes a checkpoint takes the
// checkpoint's value of each setting that the caller does not give.
#pragma once

#include "kerf/Runtime/Checkpoint.h"
#include "kerf/Runtime/DataSet.h"
#include "kerf/Runtime/LearningRate.h"

namespace kerf::runtime {

/// The settings that a caller gives, for example as command-line options. An absent setting is taken from the
/// checkpoint to resume, or else from the defaults.
struct RequestedSettings {
  std::optional<std::string> schedule; // LearningRate::schedule
  std::optional<double> lr;            // LearningRate::peak
  std::optional<int64_t> warmup;       // LearningRate::warmup
  std::optional<int64_t> total;        // LearningRate::total
  std::optional<int64_t> steps;        // steps of the whole training, including those before a resumed checkpoint
  std::optional<uint64_t> seed;        // seed of dropout, initial parameters and shuffling
  bool shuffle = false;                // DataOrder::shuffle; false leaves it to the checkpoint
  bool samples = false;                // DataOrder::samples; false leaves it to the checkpoint
};

/// The complete settings of a run. Steps are counted from the beginning of the training.
struct RunSettings {
  LearningRate learningRate; // the learning rate schedule
  int64_t firstStep = 0;     // number of the first step of this run
  int64_t endStep = 0;       // number of the step behind the last one
  uint64_t seed = 0;         // seed of dropout, initial parameters and shuffling
  DataOrder order;           // how batches are made from the training data
  int64_t firstBatch = 0; // number of the batch that the first step begins with, counted through all passes of the data
  int64_t perStep = 1;    // batches in each step (gradient accumulation)
};

/// Returns how batches are made from the data: as requested, or as in the run that wrote the checkpoint `resumed`
/// (may be null).
DataOrder dataOrder(const RequestedSettings &requested, const Checkpoint *resumed);

/// Numbers of batches that a run's settings depend on.
struct BatchCounts {
  int64_t inData = 1;  // batches in one pass through the data
  int64_t perStep = 1; // batches in each step of the program (package::batchesOfStep)
};
/// Combines the requested settings with those of the checkpoint `resumed` (null: none) and the defaults. By
/// default a run trains for one pass through the data. Fails if the requested number of steps is smaller than
/// the checkpoint's step.
Result<RunSettings> runSettings(const RequestedSettings &requested, const BatchCounts &batches,
                                const Checkpoint *resumed);

/// Returns the description of a run that its checkpoints store (CheckpointIndex::info): model, plan, mesh, learning
/// rate schedule and data order.
nlohmann::ordered_json checkpointInfo(const package::Program &program, const RunSettings &settings);

/// Returns lines of text for the user: which checkpoint is resumed, and what differs between this run and the one that
/// wrote it. `dataSteps` is the number of batches in one pass through this run's data.
std::string resumeText(const Checkpoint &resumed, const package::Program &program, const RunSettings &settings,
                       int64_t dataSteps);

} // namespace kerf::runtime
