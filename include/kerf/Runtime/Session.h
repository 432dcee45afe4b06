// SPDX-License-Identifier: Apache-2.0
// Runs a program step by step: the caller passes each step its batch. The ranks are threads of this process, which load
// the program once and wait between steps. A session neither prints nor exits.
#pragma once

#include "kerf/Runtime/LearningRate.h"
#include "kerf/Runtime/Run.h"

namespace kerf::runtime {

/// The options of a session.
struct SessionOptions {
  LearningRate learningRate;                        // learning rate of each step
  int64_t firstStep = 0;                            // number of the first step; more than 0 if `weights` has states
  uint64_t seed = 0;                                // seed of dropout, and of parameters that `weights` does not give
  std::string device = std::string(kDefaultDevice); // device of each rank, as a name that createDevice takes
  int64_t threads = 1;                              // host threads of each rank's kernels; results do not depend on it
  OnNan onNan = OnNan::Stop;                        // reaction to an infinite or NaN loss; Stop: Session::step fails
  std::optional<EmulatedLink> link = {};            // simulated link between the ranks; absent: none
  ExecutorOptions executor = {};
};

/// The name, type and shape of one tensor that each batch must contain.
struct BatchTensor {
  std::string name;
  DType dtype = DType::F32;
  Shape shape;
};

/// A loaded program that trains one step per call. Only one call may be active at a time, from any thread, except that
/// `cancel` and `ended` may be called during another call.
///
/// A call that fails on its arguments leaves the session unchanged and usable. An error inside a step or on a rank ends
/// the session: `ended` then returns that error, and every later call fails with it.
class Session {
public:
  /// Loads a program on all of its ranks, and waits until every rank has its memory. `weights` holds parameters,
  /// buffers, constants and, to continue a training, optimizer states under their exported names; names that the
  /// program does not have are ignored.
  static Result<Session> create(package::Program program, const TensorMap &weights, const SessionOptions &options);
  Session(Session &&) noexcept;
  Session &operator=(Session &&) noexcept;
  ~Session();

  /// Returns the tensors that a batch must contain. If a step takes several batches (package::batchesOfStep), the first
  /// axis of each shape is their number.
  const std::vector<BatchTensor> &inputs() const;

  /// Trains one step on `batch` and returns its loss and learning rate. `batch` must contain exactly the tensors of
  /// `inputs()`. Floating types are converted into each other, and integer types where the numbers fit. Fails without a
  /// step if the batch does not match. Under OnNan::Stop, also fails after a step whose loss is not finite: the
  /// parameters are then as that step left them, and `load` or `assign` can replace them.
  Result<StepResult> step(const TensorMap &batch);
  /// Returns the number of the next step, counted from 0.
  int64_t nextStep() const;
  /// Sets the learning rate of the following steps to `factor` times the peak of the options, and that of each
  /// parameter group to `factor` times the rate of the group. Replaces the schedule. Fails if `factor` is negative or
  /// not finite.
  Status setLearningRateFactor(double factor);

  /// Computes the means of the loss and of the program's other scalar results over the first `batches` batches of the
  /// data, or over all of them if `batches` is absent. `samples` says whether a row of the data is one sample
  /// (DataOrder::samples). Nothing is updated.
  Result<Evaluation> evaluate(const DataSet &data, bool samples = false, std::optional<int64_t> batches = {});

  /// Returns the current parameters and buffers as global tensors, under their exported names and in
  /// their exported shapes.
  Result<TensorMap> parameters();
  /// Returns what `parameters` returns and the states of the optimizer, as "exp_avg/NAME OF THE PARAMETER".
  Result<TensorMap> parametersAndStates();
  /// Replaces the parameters and buffers that `tensors` names. Optimizer states stay unchanged.
  Status assign(const TensorMap &tensors);

  /// Writes a checkpoint of everything that the next steps depend on into `folder`, and keeps the checkpoint before it
  /// as well. A session of any plan of the same model, or `kerf train --resume`, can continue from the checkpoint
  /// (docs/checkpoints.md). `info` describes the writer (CheckpointIndex::info).
  Status save(const std::string &folder, const nlohmann::ordered_json &info = nlohmann::ordered_json::object());
  /// Continues from a checkpoint: takes over its parameters, buffers, optimizer states, seed and step number.
  Status load(const Checkpoint &checkpoint);

  /// Ends the session; may be called from another thread. A step that is running fails with the error
  /// kCancelled when its ranks next wait for each other, at the latest when the step is done. An evaluation
  /// ends with its current batch.
  void cancel();
  /// Returns the error that ended the session, or nothing if the session is usable.
  std::optional<Error> ended() const;

  /// Returns the program that the session runs.
  const package::Program &program() const;
  /// Returns the memory of rank 0.
  const MemoryReport &memory() const;
  /// Returns the names of the parameters that `weights` did not give and that were initialized from the seed.
  const std::vector<std::string> &initialized() const;

private:
  struct State;
  explicit Session(std::unique_ptr<State> state);
  std::unique_ptr<State> state;
};

/// The message of the error that ends a cancelled session.
inline constexpr const char *kCancelled = "the training was cancelled";

} // namespace kerf::runtime
