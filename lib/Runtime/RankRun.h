// SPDX-License-Identifier: Apache-2.0
// One rank's part of a run.
#pragma once

#include "CheckpointFiles.h"
#include "Inputs.h"
#include "StepGuard.h"
#include "kerf/Runtime/Run.h"

namespace kerf::runtime {

/// An argument that every step gets anew: cut from the batch (or made) in host memory, then moved to the device.
struct Feed;

/// Where a rank gets its batches from, and as which of the reader's users.
struct RankBatches {
  BatchReader &training;
  BatchReader *evaluation = nullptr; // none: nothing is evaluated
  int64_t user = 0;
};

class RankRun {
public:
  RankRun(const package::Program &program, const Inputs &inputs, const RunOptions &options, Communicator &communicator,
          RankBatches batches);
  RankRun(RankRun &&);
  ~RankRun();

  Result<RunReport> run();

private:
  Status load();
  Status openCheckpoints();
  Status checkpoint(int64_t nextStep, bool isLast);
  Status checkFinite(int64_t nextStep);
  Status endStep(StepResult &step, RunReport &report);
  Error nonfiniteLoss(const StepResult &step) const;
  std::string lastCheckpointText() const;
  Error told(Error error) const;
  Status fill(const ArgumentPiece &piece);
  Status feed(BatchReader &reader, int64_t number, double learningRate, double rateFactor);
  Status openFeed(const ArgSource &source, BoxCopy cut, const TensorView &target);
  Status clearAccumulators();
  Status runBatches(StepResult &result);
  Status runStep(StepResult &result);
  bool evaluatesAfter(int64_t step) const;
  Status evaluate(int64_t step, RunReport &report);
  Status readScalar(int result, double &value);
  Status gatherMemory(RunReport &report);
  Result<std::optional<Tensor>> gather(const std::optional<TensorView> &local, DType dtype, const Shape &shape,
                                       const Sharding &sharding, int64_t stage);
  Status gatherResults(RunReport &report);
  Result<std::optional<Tensor>> gatherArgument(size_t index, const std::vector<ArgumentPiece> &pieces);
  Status writeTrace();
  Status saveTrained(int64_t nextStep);

  const package::Program &program;
  const Inputs &inputs;
  const RunOptions &options;
  Communicator &communicator;
  RankBatches batches;
  int64_t stage;
  std::unique_ptr<Device> device;
  std::vector<Feed> feeds; // outlive the executor, whose streams copy from them
  std::unique_ptr<Executor> executor;
  std::vector<std::byte> zeros;      // what sums of gradients begin with
  std::optional<ShardReader> reader; // while arguments are filled
  std::optional<CheckpointWriter> writer;
  std::optional<StepGuard> guard;
  int64_t skippedSteps = 0;              // of the whole training
  std::optional<int64_t> lastCheckpoint; // the step before which the last one was written
};

} // namespace kerf::runtime
