// SPDX-License-Identifier: Apache-2.0
// Training of a model inside another program, step by step (docs/embedding.md). The model comes from a file or from
// memory. The trainer neither prints nor exits.
#pragma once

#include "kerf/Compiler/PlanTraining.h"
#include "kerf/Runtime/Session.h"

namespace kerf::training {

/// Options of Trainer::create.
struct TrainerOptions {
  ModelSource model;         // model file, or model in memory
  StepOptions step = {};     // loss, optimizer, trained parameters, and the batch sizes for a model from a config.json
  std::string dtype = "f32"; // "f32", "f64", or "bf16" and "f16": mixed precision as `step.precision` says
  /// Parameters, buffers and constants, by name, that replace the model's own values.
  TensorMap weights = {};
  /// Seed of dropout, and of initial values for parameters that neither the model nor `weights` contains. Without a
  /// seed, missing weights are an error.
  std::optional<uint64_t> seed = {};

  int64_t ranks = 0;             // number of ranks, which are threads of this process; 0: as many as `plan` has, or 1
  std::optional<Plan> plan = {}; // complete plan, or constraints of the search; none: an unconstrained search
  std::optional<Cluster> cluster = {};       // cluster for which plans are priced; none: this machine
  PlanOptions search = {};                   // options of the search; `plan` replaces its constraints
  std::optional<SearchKind> searchKind = {}; // kind of the search; none: chosen by the model and the cluster

  runtime::LearningRate learningRate = {};                   // learning rate and its schedule
  int64_t firstStep = 0;                                     // number of the first step (runtime::SessionOptions)
  std::string device = std::string(runtime::kDefaultDevice); // device of each rank, as runtime::createDevice takes it
  int64_t threads = 1;                                       // number of host threads for the kernels of each rank
  bool nativeCode = true;                      // true to run kernels as machine code; results are bit-identical without
  runtime::OnNan onNan = runtime::OnNan::Stop; // what to do when the loss or a gradient is not finite
};

/// A model in training. Calls may come from any thread, but only one at a time; only `cancel` and `ended` may run at
/// the same time as another call. A call that fails leaves the trainer as it was, unless `ended` returns an error.
class Trainer {
public:
  /// Imports the model, finds a plan, compiles the program and loads it on the ranks. Fails with ExitStatus::Infeasible
  /// if no plan fits into memory. Messages name settings in angle brackets, e.g. "<ranks>" (kerf/Support/Settings.h).
  static Result<Trainer> create(const TrainerOptions &options);
  Trainer(Trainer &&) noexcept;
  Trainer &operator=(Trainer &&) noexcept;
  ~Trainer();

  /// Returns the tensors that a batch must hold: every input of the model with its global shape, of which each
  /// rank takes its shard. With `step.optimizer.accumulate` batches a step, shapes have the number of batches as
  /// first dimension.
  const std::vector<runtime::BatchTensor> &inputs() const;
  /// Trains one step on `batch`. Returns the step's number, loss, learning rate and seconds.
  Result<runtime::StepResult> step(const TensorMap &batch);
  /// Returns the number of the next step, counted from 0.
  int64_t nextStep() const;
  /// Scales the learning rates of the following steps (runtime::Session::setLearningRateFactor).
  Status setLearningRateFactor(double factor);

  /// Returns the means of the loss and of the model's metrics over the first `batches` batches of the held-out data,
  /// or over all batches if `batches` is absent. `samples` says whether a row of the data is one sample instead of a
  /// batch (runtime::DataOrder::samples). Nothing is updated.
  Result<runtime::Evaluation> evaluate(const runtime::DataSet &data, bool samples = false,
                                       std::optional<int64_t> batches = {});

  /// Returns the current parameters and buffers, with the names and shapes of the model.
  Result<TensorMap> parameters();
  /// Returns what `parameters` returns and the states of the optimizer, as "exp_avg/NAME OF THE PARAMETER".
  Result<TensorMap> parametersAndStates();
  /// Replaces the parameters and buffers that `tensors` names. The optimizer's states stay.
  Status assign(const TensorMap &tensors);
  /// Writes the result of `parameters` to a .safetensors file.
  Status saveWeights(const std::string &path);

  /// Writes a checkpoint of everything that the next steps depend on into a folder of its own inside `folder`, and
  /// keeps the checkpoint before it as well (runtime::Session::save).
  Status save(const std::string &folder);
  /// Continues from the last checkpoint in the folder, as `kerf train --resume` does. The checkpoint may be from
  /// another plan of the same model. The losses are those of an uninterrupted training.
  Status load(const std::string &folder);

  /// Ends the trainer, also from another thread. A step that is running fails with runtime::kCancelled.
  void cancel();
  /// Returns the error that ended the trainer, or nothing while it has not ended.
  std::optional<Error> ended() const;

  /// Returns the complete plan by which the model is trained.
  const Plan &plan() const;
  /// Returns the plan's decisions and its predicted costs, with the warnings of the import.
  const Report &report() const;
  /// Returns hints about the plan for a user, for example that fewer ranks are faster.
  const std::vector<std::string> &notes() const;

private:
  struct State;
  explicit Trainer(std::unique_ptr<State> state);
  std::unique_ptr<State> state;
};

} // namespace kerf::training
