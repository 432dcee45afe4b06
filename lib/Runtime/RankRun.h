// SPDX-License-Identifier: Apache-2.0
// One rank's part of a run: its steps (RankRun.cpp), filling its arguments (RankFill.cpp), and exchanging data with
// other ranks (RankGather.cpp).
#pragma once

#include "Box.h"
#include "CheckpointFiles.h"
#include "Host/Staging.h"
#include "Inputs.h"
#include "StepGuard.h"
#include "kerf/Runtime/Run.h"

namespace kerf::runtime {

/// Tag of the messages between pipeline stages that belong to no instruction of the program. gatherShards uses the tag
/// before this one.
inline constexpr int64_t kStageTag = 3;

/// An argument that gets new content before every step. The content is prepared in host memory and then copied
/// to the device.
struct Feed {
  const ArgSource *source = nullptr; // source of the content
  BoxCopy cut;                       // copies the rank's part of the batch to `host`
  std::shared_ptr<std::byte> host;   // host memory that the compute stream copies from
  TensorView target;                 // the rank's local tensor of the argument
};

/// The sources of a rank's batches.
struct RankBatches {
  BatchSource &training;             // source of the training batches
  BatchSource *evaluation = nullptr; // null: the run is not evaluated
  int64_t user = 0;                  // the rank's user number at both sources
};

/// The next use of a rank's batches after a step: another step of training, whose first batch may be read while this
/// step runs, or a use that is not known or takes other batches.
enum class Following { Step, Unknown };

/// The outcome of a step, the same on all ranks.
struct StepEnd {
  int signal = 0;                 // the signal that asks the run to end, or 0
  std::optional<Error> nonfinite; // under OnNan::Stop: the error, if the loss is not finite
};

/// One rank of a run. All ranks must call the same functions in the same order.
class RankRun {
public:
  RankRun(const package::Program &program, const Inputs &inputs, const RunOptions &options, Communicator &communicator,
          RankBatches batches);
  RankRun(RankRun &&);
  ~RankRun();

  /// Does the whole run that the options describe, from loading the program to writing the last file. The functions
  /// below are parts of it.
  Result<RunReport> run();

  /// Loads the program and fills its arguments. Sets the fields of `report` that are known then.
  Status start(RunReport &report);
  /// Runs step number `result.step` and sets the other fields of `result`.
  Result<StepEnd> step(StepResult &result, Following following = Following::Unknown);
  /// Evaluates the model on the next `count` batches of `source`. `step` is the last training step
  /// before the evaluation.
  Result<Evaluation> evaluate(BatchSource &source, int64_t count, int64_t step);
  /// Writes a checkpoint before step `nextStep`.
  Status save(const CheckpointOptions &to, int64_t nextStep);
  /// Takes parameters, buffers and optimizer states from a checkpoint, and the seed from the run's options.
  Status restore(const Checkpoint &from);
  /// Replaces the content of the arguments that `tensors` names. The tensors have the arguments' exported shapes.
  Status assign(const TensorMap &tensors);
  /// Returns, on rank 0 only, the global parameters and buffers in their exported shapes, and the optimizer
  /// states if `withStates`.
  Result<TensorMap> gatherTensors(bool withStates);
  /// Returns the number of the rank.
  int64_t rank() const { return communicator.rank(); }

private:
  Status load(StartTimes &times);
  Status openCheckpoints();
  Status checkpoint(int64_t nextStep, bool isLast);
  Status write(CheckpointWriter &to, int64_t nextStep);
  Status checkFinite(int64_t nextStep);
  Result<StepEnd> decideStepEnd(StepResult &step);
  Status record(const StepResult &step, const StepEnd &end, RunReport &report);
  Error nonfiniteLoss(const StepResult &step) const;
  std::string lastCheckpointText() const;
  Error messageOnRankZero(Error error) const;
  int64_t ranksOfProcess() const { return options.communicator ? 1 : communicator.size(); }
  Shard shardOfPiece(const ArgumentPiece &piece) const;
  Status fill(const ArgumentPiece &piece, Staging &staging);
  Status fillCut(const ArgumentPiece &piece, const Tensor &whole, Staging &staging);
  Status fillSaved(const ArgumentPiece &piece, ShardReader &from);
  Status startBatch(BatchSource &source);
  Status runWithNext(StepKind kind, BatchSource *following);
  Status feed(BatchSource &source, int64_t number, double learningRate, double rateFactor);
  Status openFeed(const ArgSource &source, BoxCopy cut, const TensorView &target);
  Status clearAccumulators();
  Status runBatches(StepResult &result, Following following);
  Result<StepEnd> tryStep(StepResult &result, Following following);
  Status runStep(StepResult &result, Following following);
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
  std::optional<ShardReader> reader; // the checkpoint to resume, while arguments are filled from it
  std::optional<CheckpointWriter> writer;
  std::optional<StepGuard> guard;
  std::optional<Status> startedBatch;    // of a batch that was started while the last step ran; absent: none was
  int64_t skippedSteps = 0;              // steps that were skipped in the whole training (OnNan::Skip)
  std::optional<int64_t> lastCheckpoint; // `nextStep` of the last checkpoint that this run has written
};

} // namespace kerf::runtime
