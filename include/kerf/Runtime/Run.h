// SPDX-License-Identifier: Apache-2.0
// Runs a program for a number of steps: the work of `kerf run` and `kerf train`, as a function that a framework can
// embed. The function neither prints nor exits, with one exception: under MPI, a rank that fails during a step must
// end the job.
#pragma once

#include "kerf/Package/TensorFile.h"
#include "kerf/Runtime/Checkpoint.h"
#include "kerf/Runtime/DataSet.h"
#include "kerf/Runtime/Executor.h"
#include <functional>
#include <map>

namespace kerf::runtime {

/// The outcome of one training step.
struct StepResult {
  int64_t step = 0;        // number of the step, from 0
  double loss = 0;         // mean loss over the step's batches
  double learningRate = 0; // the learning rate that the step used
  double seconds = 0;      // duration of the step in seconds
  bool skipped = false;    // true if the step was undone because of OnNan::Skip
};

/// The reaction of a run to a step whose loss is infinite or NaN.
enum class OnNan {
  Stop,    // the run fails, and writes no checkpoint and no weights that contain non-finite numbers
  Skip,    // the step is undone; also where the loss is finite and a tensor that the step updated is not
  Continue // the run goes on as if the loss were finite
};

/// The result of evaluating the model on held-out data.
struct Evaluation {
  int64_t step = 0;    // number of the last training step before the evaluation, from 0
  int64_t batches = 0; // number of batches that were evaluated
  /// Mean over the batches of each scalar result, by the result's name; "loss" comes first.
  std::vector<std::pair<std::string, double>> means;
  double seconds = 0; // duration of the evaluation in seconds
};

/// When a run is evaluated, and on which data. An evaluation updates nothing, and dropout is off.
struct EvaluationOptions {
  const DataSet *data = nullptr;  // the held-out data; null: no evaluation
  bool samples = false;           // whether a row of `data` is one sample (DataOrder::samples); rows are never shuffled
  int64_t every = 1;              // steps from one evaluation to the next; one also follows the last step
  std::optional<int64_t> batches; // number of batches of each evaluation, from the data's first; absent: one pass
};

/// The options of a run.
struct RunOptions {
  /// The number of the first step and the number of steps. A step takes as many batches as the program was
  /// compiled for (package::batchesOfStep).
  int64_t firstStep = 0, steps = 1;
  /// Returns the learning rate of the step with this number, counted from 0.
  std::function<double(int64_t)> learningRate = [](int64_t) { return 0.0; };
  /// Returns the schedule's factor at the step with this number: learning rates that belong to single parameters are
  /// multiplied by it.
  std::function<double(int64_t)> rateFactor = [](int64_t) { return 1.0; };
  /// How batches are made from the training data.
  DataOrder order;
  /// Number of the batch that the first step begins with, counted through all passes of the data; absent: `firstStep`
  /// times the batches of a step.
  std::optional<int64_t> firstBatch;
  /// Called once in each process, by its first rank, before the first step.
  std::function<void()> onStart;
  /// Called on rank 0 before the first step with each note of its device (Device::notes).
  std::function<void(const std::string &)> onNote;
  /// Called on rank 0 after each step. An error ends the run.
  std::function<Status(const StepResult &)> onStep;
  /// Called by each rank after each step. Returns the signal (SIGINT or SIGTERM) that asks the run to end after this
  /// step, or 0 for none.
  std::function<int()> stopSignal;
  /// The reaction to a step with an infinite or NaN loss.
  OnNan onNan = OnNan::Stop;
  /// When, and on which data, the model is evaluated.
  EvaluationOptions evaluation;
  /// Called on rank 0 after each evaluation. An error ends the run.
  std::function<Status(const Evaluation &)> onEvaluation;
  /// The communicator of this process's rank, where each rank is a process; null: all ranks are threads
  /// of this process.
  Communicator *communicator = nullptr;
  /// The device of each rank, as a name that createDevice takes.
  std::string device;
  /// Number of host threads of each rank for its kernels. Results do not depend on this number.
  int64_t threads = 1;
  /// Whether products may round float32 factors to TF32. Fails on a device that has no TF32.
  bool tf32 = false;
  /// Seed of dropout and of initial parameters.
  uint64_t seed = 0;
  /// Path of the file to which rank 0 writes the parameters and buffers at the end, under their exported names and
  /// shapes; empty: none.
  std::string savePath;
  /// Called on rank 0 at the end, with the tensors that the file `savePath` would hold. An error ends the run.
  std::function<Status(const TensorMap &)> saveTo;
  /// Whether the optimizer's states are also written to the file `savePath` and given to the function `saveTo`.
  bool saveStates = false;
  /// Path of the file to which rank 0 writes the last step of every rank, as a timeline for chrome://tracing or
  /// Perfetto; empty: none.
  std::string tracePath;
  /// The folder and the frequency of checkpoints; no checkpoint is written if the folder is empty.
  CheckpointOptions checkpoint;
  /// Checkpoint to resume from: it gives the initial parameters, buffers and states instead of `weights` and the seed.
  /// `firstStep` should be the checkpoint's next step. Null: none.
  const Checkpoint *resume = nullptr;
  /// The simulated link between ranks that are threads of this process; absent: messages arrive at once.
  std::optional<EmulatedLink> link;
  /// How the ranks' programs are executed.
  ExecutorOptions executor;
};

/// Seconds that a rank needs before its first step.
struct StartTimes {
  double read = 0;    // to read or make the package and to open the data; the caller of `run` measures and sets it
  double device = 0;  // to open the device
  double kernels = 0; // to plan memory, and to load and bind kernels and collectives
  double tensors = 0; // to fill parameters, states and constants
  std::map<std::string, double> parts; // parts of `kernels`, by the device's names (Device::bindSeconds)
};

/// The results and measurements of a run.
struct RunReport {
  /// The outcome of each step of this run, in order.
  std::vector<StepResult> steps;
  /// The signal (SIGINT or SIGTERM) that ended the run before its last step, or 0.
  int stoppedBy = 0;
  /// Number of steps skipped (OnNan::Skip) in the whole training, including the steps before a resumed checkpoint.
  int64_t skippedSteps = 0;
  /// The evaluations of this run, in order.
  std::vector<Evaluation> evaluations;
  /// The first step's results that replace no argument ("loss", "gradient_norm_squared/NAME"), as global tensors.
  /// Filled on rank 0 only.
  TensorMap firstResults;
  MemoryReport memory;                   // memory of this rank
  std::vector<MemoryReport> stageMemory; // memory of one rank of each pipeline stage; filled on rank 0 only
  TimeReport times;                      // times of this rank
  StartTimes start;                      // seconds of this rank before the first step
  std::vector<std::string> initialized;  // parameters that no file gave and that were initialized from the seed
  std::vector<std::string> unused;       // names in `weights` that the program does not have
};

/// Runs a program. `weights` holds parameters, buffers, constants and, to continue a training, optimizer states under
/// their exported names. `data` holds one array for each input of the program, whose first axis counts batches or
/// samples; after the last row, the data starts again. Names, shapes and types of both are checked before the first
/// step; values that are out of range fail in the step that meets them. Every rank returns the same report, except for
/// fields that say otherwise. If all ranks have the same error, only rank 0 has its message, and the message on the
/// others is empty.
Result<RunReport> run(const package::Program &program, const TensorMap &weights, const DataSet &data,
                      const RunOptions &options);
/// Runs a program on data in memory; otherwise like the function above.
Result<RunReport> run(const package::Program &program, const TensorMap &weights, const TensorMap &data,
                      const RunOptions &options);

/// Returns the number of batches in one pass through the data. Fails if the data does not fit the program's inputs.
Result<int64_t> batchesOf(const package::Program &program, const DataSet &data, const DataOrder &order);

/// The content of a package's folder: program.json, and weights.safetensors where it exists.
struct LoadedPackage {
  package::Program program;
  TensorMap weights; // empty if the package has no weights
};
/// Reads the package in `folder`. Fails if program.json is missing, or if any file is damaged.
Result<LoadedPackage> loadPackage(const std::string &folder);

/// Returns why the device uses none of the package's compiled kernels, or an empty text if it uses them or
/// there are none.
Result<std::string> reasonCodeUnused(const package::Program &program, std::string_view device = kDefaultDevice);

/// Makes the checks of `weights`, `data` and `resume` that `run` makes before ranks start, without starting them. For
/// callers that want the error message early.
Status checkInputs(const package::Program &program, const TensorMap &weights, const DataSet &data,
                   const DataOrder &order, const Checkpoint *resume = nullptr);

} // namespace kerf::runtime
