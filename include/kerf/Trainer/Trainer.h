// SPDX-License-Identifier: Apache-2.0
// Trains a model step by step inside another program: from a model file, or a model in memory, to losses
// (docs/embedding.md). It neither prints nor exits.
#pragma once

#include "kerf/Compiler/PlanTraining.h"
#include "kerf/Runtime/Session.h"

namespace kerf::training {

struct TrainerOptions {
  ModelSource model;
  StepOptions step = {};     // the loss, the optimizer, what is trained, the sizes of a configuration's step
  std::string dtype = "f32"; // f32, f64; bf16 and f16: as `step.precision` says, or by default (defaultPrecision)
  /// Instead of the model's own, by their names: parameters, buffers, constants.
  TensorMap weights = {};
  /// The seed of dropout, and of parameters that neither the model nor `weights` gives. Without it, a model whose
  /// weights are not there is an error.
  std::optional<uint64_t> seed = {};

  int64_t ranks = 0;                   // threads of this process; 0: those of `plan`, else 1
  std::optional<Plan> plan = {};       // complete, or what a search is held to; nothing: a search is free
  std::optional<Cluster> cluster = {}; // that prices the plans; nothing: this machine
  PlanOptions search = {};             // its constraints are `plan`'s
  std::optional<SearchKind> searchKind = {};

  runtime::LearningRate learningRate = {};
  std::string device = std::string(runtime::kDefaultDevice); // of each rank, as runtime::createDevice takes it
  int64_t threads = 1;                                       // of each rank
  bool nativeCode = true; // machine code for this processor; the numbers are the same without it
  runtime::OnNan onNan = runtime::OnNan::Stop;
};

/// One call at a time, from any thread; `cancel` and `ended` may be called beside another call. What is said of errors
/// with runtime::Session holds: a call that fails leaves the trainer as it was, unless `ended` says otherwise.
class Trainer {
public:
  /// Imports, plans, compiles and loads. Messages name a setting that would help in angle brackets, "<ranks>"
  /// (kerf/Support/Settings.h). Infeasible (ExitStatus) where no plan fits.
  static Result<Trainer> create(const TrainerOptions &options);
  Trainer(Trainer &&) noexcept;
  Trainer &operator=(Trainer &&) noexcept;
  ~Trainer();

  /// Returns the tensors that a batch must hold: every input of the model, whole; ranks take their parts. With
  /// `step.optimizer.accumulate` batches a step, each shape has their number in front.
  const std::vector<runtime::BatchTensor> &inputs() const;
  /// One step of training: its number, its loss, the learning rate that it took and its seconds.
  Result<runtime::StepResult> step(const TensorMap &batch);
  int64_t nextStep() const; // counted from 0

  /// Means of the loss and of the model's metrics over batches of held-out data, as Session has it. Nothing is trained.
  Result<runtime::Evaluation> evaluate(const runtime::DataSet &data, bool samples = false,
                                       std::optional<int64_t> batches = {});

  /// Parameters and buffers under the model's own names, in its shapes.
  Result<TensorMap> parameters();
  /// Replaces those that are named; states of the optimizer stay.
  Status assign(const TensorMap &tensors);
  /// Writes `parameters` as .safetensors.
  Status saveWeights(const std::string &path);

  /// Writes a checkpoint into the folder. `load` goes on from the last one there, on any plan of the same model, as
  /// `kerf train --resume` does: the losses are those of a training that was never interrupted.
  Status save(const std::string &folder);
  Status load(const std::string &folder);

  /// Ends the trainer from another thread; a step under way fails with runtime::kCancelled.
  void cancel();
  /// Returns the error that ended the trainer, or nothing while it has not ended.
  std::optional<Error> ended() const;

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
