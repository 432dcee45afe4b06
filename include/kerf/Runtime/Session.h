// SPDX-License-Identifier: Apache-2.0
// A program run step by step: the caller gives each step its batch. The ranks are threads of this process, which load
// the program once and wait between steps. It neither prints nor exits.
#pragma once

#include "kerf/Runtime/LearningRate.h"
#include "kerf/Runtime/Run.h"

namespace kerf::runtime {

struct SessionOptions {
  LearningRate learningRate;
  uint64_t seed = 0;                                // of dropout, and of parameters that no weights give
  std::string device = std::string(kDefaultDevice); // of each rank, as createDevice takes it
  int64_t threads = 1;                              // of each rank, for its kernels; no result depends on it
  OnNan onNan = OnNan::Stop;                        // Stop: `step` fails
  std::optional<EmulatedLink> link = {};            // between the ranks
  ExecutorOptions executor = {};
};

/// An input of the program, as `step` takes it.
struct BatchTensor {
  std::string name;
  DType dtype = DType::F32;
  Shape shape;
};

/// One call at a time, from any thread; `cancel` and `ended` may be called beside another call.
///
/// A call that fails leaves the session as it was, and the next call is as good as any, unless `ended` says otherwise:
/// an error inside a step, or of a rank, ends the session, and every later call fails with what it ended with.
class Session {
public:
  /// `weights`: parameters, buffers, constants and, to go on with, states, under their names; names that the program
  /// does not have are left out. Waits until every rank has loaded its program and has its memory.
  static Result<Session> create(package::Program program, const TensorMap &weights, const SessionOptions &options);
  Session(Session &&) noexcept;
  Session &operator=(Session &&) noexcept;
  ~Session();

  /// Returns the tensors that a batch must hold. Where a step takes several batches (package::batchesOfStep), each
  /// shape has their number in front.
  const std::vector<BatchTensor> &inputs() const;

  /// One step of training on the batch: its loss, and the learning rate that it took. `batch` holds every input and
  /// nothing else; floating types are converted into each other, and integers where the numbers fit. Fails without a
  /// step where it does not. A loss that is not finite is an error under OnNan::Stop: the parameters are what the step
  /// has made of them, `load` or `assign` gives others.
  Result<StepResult> step(const TensorMap &batch);
  /// The number of the next step, counted from 0.
  int64_t nextStep() const;

  /// The means of the loss, and of the program's other scalars, over `batches` batches of the data, from the first one
  /// on; over one pass without. `samples` as DataOrder has it. Nothing is trained.
  Result<Evaluation> evaluate(const DataSet &data, bool samples = false, std::optional<int64_t> batches = {});

  /// Parameters and buffers as they are now, whole, under their exported names and in their exported shapes.
  Result<TensorMap> parameters();
  /// Replaces parameters and buffers by those that `tensors` names. States of the optimizer stay.
  Status assign(const TensorMap &tensors);

  /// Writes a checkpoint of everything that the next steps depend on into `folder`, and keeps the one before it: a
  /// session of any plan of the same model, or `kerf train --resume`, goes on from it (docs/checkpoints.md). `info`
  /// tells of the writer.
  Status save(const std::string &folder, const nlohmann::ordered_json &info = nlohmann::ordered_json::object());
  /// Goes on from the checkpoint: parameters, buffers, states, seed and the number of the next step are its own.
  Status load(const Checkpoint &checkpoint);

  /// Ends the session from another thread. A step under way ends with the error kCancelled when its ranks next wait for
  /// each other, at the latest when it is done; an evaluation, with the batch that it is at.
  void cancel();
  /// Returns the error that ended the session, or nothing while it has not ended.
  std::optional<Error> ended() const;

  const package::Program &program() const;
  /// Returns the memory that rank 0 has taken.
  const MemoryReport &memory() const;
  /// Parameters that no weights gave: they were initialized from the seed.
  const std::vector<std::string> &initialized() const;

private:
  struct State;
  explicit Session(std::unique_ptr<State> state);
  std::unique_ptr<State> state;
};

/// The message that a cancelled session ends with.
inline constexpr const char *kCancelled = "the training was cancelled";

} // namespace kerf::runtime
