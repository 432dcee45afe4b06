// SPDX-License-Identifier: Apache-2.0
// Reads and writes a rank's shards from and to checkpoints on disk.
#pragma once

#include "FolderLock.h"
#include "Shards.h"
#include "kerf/Runtime/Checkpoint.h"

namespace kerf::runtime {

/// Returns whether an argument's content carries over from step to step: parameters, buffers and optimizer states, but
/// not accumulated gradients, which every step starts at zero.
bool staysBetweenSteps(const package::Arg &arg);
/// Returns whether checkpoints hold argument number `arg`: it carries over from step to step, and some rank has it. A
/// buffer that no instruction uses is on no rank.
bool isSaved(const package::Program &program, size_t arg);

/// Fills a rank's local tensors from a checkpoint, which any plan of the model may have written. A file is mapped into
/// memory when the first of its boxes is needed.
class ShardReader {
public:
  /// Prepares to read from `checkpoint`, which must outlive the reader.
  explicit ShardReader(const Checkpoint &checkpoint) : checkpoint(checkpoint) {}
  /// Fills the local tensor `local` of a shard of the argument `arg`, in the argument's element type. Padding
  /// is not touched.
  Status read(const package::Arg &arg, const Shard &shard, std::byte *local);

private:
  Result<Tensor> box(const std::string &name, const SavedTensor &saved, const SavedBox &box);

  const Checkpoint &checkpoint;
  std::map<int, TensorMap> files;
};

/// Creates the checkpoint folder if necessary, and locks it for the lifetime of the result. Called once, before
/// ranks start. Removes what an interrupted checkpoint has left. Fails if another run holds the lock, or if the
/// folder cannot be written, holds a checkpoint of a later step, or lacks space for the checkpoints of steps
/// `firstStep` to `endStep`.
Result<FolderLock> prepareFolder(const CheckpointOptions &options, const package::Program &program, int64_t firstStep,
                                 int64_t endStep);

/// The position of a training between two steps. The fields are those of CheckpointIndex.
struct TrainingPosition {
  int64_t nextStep = 0;     // number of the next step
  uint64_t seed = 0;        // the run's seed
  int64_t dataSteps = 1;    // batches in one pass through the training data
  int64_t skippedSteps = 0; // steps before `nextStep` that updated nothing
};

/// Writes one rank's part of checkpoints. Every rank makes a writer and calls the same functions in the same order.
class CheckpointWriter {
public:
  /// Creates a writer for a run that ends before step `endStep`; a checkpoint is due there in any case. Fails if the
  /// checkpoint folder does not exist on this rank.
  static Result<CheckpointWriter> create(const package::Program &program, const CheckpointOptions &options,
                                         Communicator &communicator, int64_t endStep);

  /// Returns whether a checkpoint has to be written before step `nextStep`.
  bool isDue(int64_t nextStep) const { return nextStep % options->every == 0 || nextStep == endStep; }

  /// Writes the checkpoint before step `at.nextStep`, lets the file `latest` point to it, and removes old
  /// checkpoints. `read` copies the rank's local tensor of an argument to host memory; only one shard at a time is in
  /// host memory. Fails either on all ranks or on none. Uses tag 2, as gatherShards does; all ranks must call both
  /// functions in the same order.
  Status save(const TrainingPosition &at, const std::function<Status(size_t arg, std::byte *local)> &read);

private:
  CheckpointWriter(const package::Program &program, const CheckpointOptions &options, Communicator &communicator,
                   int64_t endStep, CheckpointIndex planned)
      : program(&program), options(&options), communicator(&communicator), endStep(endStep),
        planned(std::move(planned)) {}

  Status writeShards(const std::string &folder, const std::function<Status(size_t arg, std::byte *local)> &read);
  Status gatherChecksums();
  Status publish(const std::string &folder);

  const package::Program *program;
  const CheckpointOptions *options;
  Communicator *communicator;
  int64_t endStep;
  CheckpointIndex planned;
};

} // namespace kerf::runtime
