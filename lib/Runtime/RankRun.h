// SPDX-License-Identifier: Apache-2.0
// One rank's part of a run: its steps (RankRun.cpp), its arguments (RankFill.cpp), and what ranks tell each other
// (RankGather.cpp).
#pragma once

#include "Box.h"
#include "CheckpointFiles.h"
#include "Inputs.h"
#include "StepGuard.h"
#include "kerf/Runtime/Run.h"

namespace kerf::runtime {

/// The tag of messages between stages that belong to no instruction of the program; Shards.h has the tag before it.
inline constexpr int64_t kStageTag = 3;

/// An argument that every step gets anew: cut from the batch (or made) in host memory, then moved to the device.
struct Feed {
  const ArgSource *source = nullptr;
  BoxCopy cut;
  std::shared_ptr<std::byte> host; // that streams copy from
  TensorView target;
};

/// Where a rank gets its batches from, and as which of the reader's users.
struct RankBatches {
  BatchSource &training;
  BatchSource *evaluation = nullptr; // none: nothing is evaluated
  int64_t user = 0;
};

/// The outcome of a step that all ranks know: the signal that asks to end, or 0, and the error of a step whose loss is
/// not finite under OnNan::Stop.
struct StepEnd {
  int signal = 0;
  std::optional<Error> nonfinite;
};

/// Every rank calls the same in the same order.
class RankRun {
public:
  RankRun(const package::Program &program, const Inputs &inputs, const RunOptions &options, Communicator &communicator,
          RankBatches batches);
  RankRun(RankRun &&);
  ~RankRun();

  /// Everything that the options say, from `start` to the last file. The calls below are its parts.
  Result<RunReport> run();

  /// Loads the program and fills its arguments; the report gets what is known then.
  Status start(RunReport &report);
  /// Runs step `result.step`, which fills the rest of it.
  Result<StepEnd> step(StepResult &result);
  Result<Evaluation> evaluate(BatchSource &source, int64_t count, int64_t step);
  /// Writes a checkpoint before step `nextStep`.
  Status save(const CheckpointOptions &to, int64_t nextStep);
  /// Takes what stays between steps from a checkpoint, and the seed from the options.
  Status restore(const Checkpoint &from);
  /// Gives arguments the content of the tensors of their names, which have their exported shapes.
  Status assign(const TensorMap &tensors);
  /// On rank 0: parameters and buffers, and states of the optimizer, in their exported shapes.
  Result<TensorMap> gatherTensors(bool withStates);
  int64_t rank() const { return communicator.rank(); }

private:
  Status load();
  Status openCheckpoints();
  Status checkpoint(int64_t nextStep, bool isLast);
  Status write(CheckpointWriter &to, int64_t nextStep);
  Status checkFinite(int64_t nextStep);
  Result<StepEnd> judge(StepResult &step);
  Status record(const StepResult &step, const StepEnd &end, RunReport &report);
  Error nonfiniteLoss(const StepResult &step) const;
  std::string lastCheckpointText() const;
  Error told(Error error) const;
  Shard shardOfPiece(const ArgumentPiece &piece) const;
  Status fill(const ArgumentPiece &piece);
  Status fillCut(const ArgumentPiece &piece, const Tensor &whole);
  Status fillSaved(const ArgumentPiece &piece, ShardReader &from);
  Status feed(BatchSource &source, int64_t number, double learningRate, double rateFactor);
  Status openFeed(const ArgSource &source, BoxCopy cut, const TensorView &target);
  Status clearAccumulators();
  Status runBatches(StepResult &result);
  Status runStep(StepResult &result);
  bool evaluatesAfter(int64_t step) const;
  Status evaluateAfter(int64_t step, RunReport &report);
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
