// SPDX-License-Identifier: Apache-2.0
// A program run for some steps: what `kerf run` and `kerf train` do, as a call that a framework can embed. It neither
// prints nor exits, but for a rank that fails during a step under MPI, which must end the job.
#pragma once

#include "kerf/Package/TensorFile.h"
#include "kerf/Runtime/Checkpoint.h"
#include "kerf/Runtime/DataSet.h"
#include "kerf/Runtime/Executor.h"
#include <functional>

namespace kerf::runtime {

struct StepResult {
  int64_t step = 0;
  double loss = 0, learningRate = 0, seconds = 0;
  bool skipped = false; // by OnNan::Skip
};

/// The action of a run after a step whose loss is infinite or NaN.
enum class OnNan {
  Stop,    // fails, and writes no checkpoint and no weights of numbers that are not finite
  Skip,    // takes the step back, also where the loss is finite and what the step has updated is not
  Continue // nothing
};

/// The means of the loss and of other scalar results over held-out data.
struct Evaluation {
  int64_t step = 0; // the last one that was trained before
  int64_t batches = 0;
  std::vector<std::pair<std::string, double>> means; // by result, "loss" first
  double seconds = 0;
};

/// When and on what a run is evaluated. Nothing is updated by it, dropout is off.
struct EvaluationOptions {
  const DataSet *data = nullptr;  // none: nothing is evaluated
  bool samples = false;           // as DataOrder has it; the order is always that of the data
  int64_t every = 1;              // steps from one evaluation to the next; one follows the last step, too
  std::optional<int64_t> batches; // of each evaluation, from the first on; without: one pass
};

struct RunOptions {
  /// A step takes as many batches as the program was compiled for (package::batchesOfStep).
  int64_t firstStep = 0, steps = 1;
  /// By the number of the step, counted from 0.
  std::function<double(int64_t)> learningRate = [](int64_t) { return 0.0; };
  /// What the schedule multiplies learning rates by, for parameters with one of their own.
  std::function<double(int64_t)> rateFactor = [](int64_t) { return 1.0; };
  /// How batches are made of the data, in which order.
  DataOrder order;
  /// The batch of the first step, counted through all passes; without, that of a run that began at step 0.
  std::optional<int64_t> firstBatch;
  /// In each process, by its first rank, before the first step.
  std::function<void()> onStart;
  /// On rank 0, after each step. An error ends the run.
  std::function<Status(const StepResult &)> onStep;
  /// By each rank after each step. Returns a signal (SIGINT or SIGTERM) that asks the run to end after this step, or 0.
  std::function<int()> stopSignal;
  OnNan onNan = OnNan::Stop;
  EvaluationOptions evaluation;
  /// On rank 0, after each evaluation. An error ends the run.
  std::function<Status(const Evaluation &)> onEvaluation;
  /// This process is one rank of it. Without, all ranks are threads of this process.
  Communicator *communicator = nullptr;
  /// The device of each rank, in the form that createDevice takes.
  std::string device;
  /// Of each rank, for its kernels; no result depends on it.
  int64_t threads = 1;
  uint64_t seed = 0;
  /// Written at the end, by rank 0: parameters and buffers under their exported names and shapes.
  std::string savePath;
  /// Called at the end on rank 0 with the tensors that `savePath` would hold. An error ends the run.
  std::function<Status(const TensorMap &)> saveTo;
  /// States of the optimizer too.
  bool saveStates = false;
  /// Written at the end, by rank 0: the last step of every rank as a timeline for chrome://tracing or Perfetto.
  std::string tracePath;
  /// Written during the run; none where its folder is empty.
  CheckpointOptions checkpoint;
  /// Where parameters, buffers and states begin, instead of `weights` and the seed. `firstStep` should be its next
  /// step.
  const Checkpoint *resume = nullptr;
  /// Between ranks that are threads.
  std::optional<EmulatedLink> link;
  ExecutorOptions executor;
};

struct RunReport {
  std::vector<StepResult> steps;
  /// The signal that ended the run, or 0.
  int stoppedBy = 0;
  /// Steps of the whole training so far that were skipped.
  int64_t skippedSteps = 0;
  std::vector<Evaluation> evaluations;
  /// The first step's results that replace no argument ("loss", "gradient_norm_squared/NAME"), whole. On rank 0.
  TensorMap firstResults;
  MemoryReport memory;                   // of this rank
  std::vector<MemoryReport> stageMemory; // of a rank of each stage. On rank 0
  TimeReport times;                      // of rank 0
  double loadSeconds = 0;
  std::vector<std::string> initialized; // parameters that no file gave
  std::vector<std::string> unused;      // names in `weights` that the program doesn't have
};

/// `weights`: parameters, buffers, constants and, to go on with, states, under their names. `data`: for each input an
/// array with one leading axis of steps or samples, which starts again after its last. Names, shapes and types of
/// either are checked before the first step, numbers out of range in the step that meets them. The same report is
/// returned on every rank but for what says rank 0. An error that all ranks know has its message on rank 0; the others'
/// is empty.
Result<RunReport> run(const package::Program &program, const TensorMap &weights, const DataSet &data,
                      const RunOptions &options);
Result<RunReport> run(const package::Program &program, const TensorMap &weights, const TensorMap &data,
                      const RunOptions &options);

/// The batches of one pass through the data. Fails where the data does not fit the program.
Result<int64_t> batchesOf(const package::Program &program, const DataSet &data, const DataOrder &order);

/// program.json and, if there, weights.safetensors of a package's folder.
struct LoadedPackage {
  package::Program program;
  TensorMap weights;
};
Result<LoadedPackage> loadPackage(const std::string &folder);

/// Returns why the device uses none of the package's code, or "".
Result<std::string> unusedCode(const package::Program &program, std::string_view device = kDefaultDevice);

/// Checks and converts, in the calling thread: what `run` does with `weights` and `data` before ranks start. For
/// callers that want the message early.
Status checkInputs(const package::Program &program, const TensorMap &weights, const DataSet &data,
                   const DataOrder &order, const Checkpoint *resume = nullptr);

} // namespace kerf::runtime
