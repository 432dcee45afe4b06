// SPDX-License-Identifier: Apache-2.0
// Between checkpoints on disk and the shards of a rank: what a run needs of Checkpoint.h and of the disk.
#pragma once

#include "FolderLock.h"
#include "Shards.h"
#include "kerf/Runtime/Checkpoint.h"

namespace kerf::runtime {

/// Parameters, buffers and states, but for sums of gradients, which begin anew with each step.
bool staysBetweenSteps(const package::Arg &arg);
/// One of them that some rank has: a buffer that nothing uses stays what its file says.
bool isSaved(const package::Program &program, size_t arg);

/// Fills a rank's local tensors from a checkpoint of any plan. Files are mapped when the first box of theirs is needed.
class ShardReader {
public:
  explicit ShardReader(const Checkpoint &checkpoint) : checkpoint(checkpoint) {}
  /// `local`: the shard's local tensor, in the element type of `arg`; padding is left as it is.
  Status read(const package::Arg &arg, const Shard &shard, std::byte *local);

private:
  Result<Tensor> box(const std::string &name, const SavedTensor &saved, const SavedBox &box);

  const Checkpoint &checkpoint;
  std::map<int, TensorMap> files;
};

/// Makes the folder and locks it for the time that the result lives, once, before ranks start. Fails where another run
/// has it, where it cannot be written, holds a later checkpoint, or has no room for those of steps `firstStep` to
/// `endStep`. Removes what an interrupted save left.
Result<FolderLock> prepareFolder(const CheckpointOptions &options, const package::Program &program, int64_t firstStep,
                                 int64_t endStep);

/// Where a training is between two steps; as in CheckpointIndex.
struct TrainingPosition {
  int64_t nextStep = 0;
  uint64_t seed = 0;
  int64_t dataSteps = 1, skippedSteps = 0;
};

/// Writes one rank's part. Every rank makes one and calls the same in the same order.
class CheckpointWriter {
public:
  /// `endStep`: of the run, after which there is a checkpoint in any case.
  static Result<CheckpointWriter> create(const package::Program &program, const CheckpointOptions &options,
                                         Communicator &communicator, int64_t endStep);

  bool isDue(int64_t nextStep) const { return nextStep % options->every == 0 || nextStep == endStep; }

  /// Writes the checkpoint before step `at.nextStep` beside the others, then makes it `latest`, then removes old
  /// ones. `read` copies the rank's local tensor of an argument into host memory. One shard at a time is in memory.
  /// Fails on all ranks or on none. Tag 2, as gatherShards: every rank calls both in one order.
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
