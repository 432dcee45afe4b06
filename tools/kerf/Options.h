// SPDX-License-Identifier: Apache-2.0
// Options that several commands of `kerf` share, and what they become.
#pragma once

#include "Applies.h"
#include "Job.h"
#include "kerf/Compiler/PlanTraining.h"
#include "kerf/Runtime/Run.h"
#include "kerf/Runtime/RunSettings.h"
#include <CLI/CLI.hpp>

namespace kerf::tool {

inline constexpr const char *kPrintPipelineHelp =
    "print the passes that the model went through, in order, as kerf-opt takes them";
inline constexpr const char *kNoNativeHelp =
    "run pointwise ops one by one, without machine code made for them; the numbers are the same";

/// MODEL and what says how it is trained.
struct ModelFlags {
  std::string model, loss, weights, optimizer = "sgd", dtype = "f32";
  std::vector<std::string> metrics, trainable, frozen, noDecay;
  std::vector<OptimizerGroup> groups;
  int64_t accumulate = 1;
  SettingValues settings; // of the optimizer, that were given
  double clipNorm = 0;
  int64_t globalBatch = 0, sequence = 0;
  std::optional<double> expertCapacity;
  bool noRecognition = false, acceptFolded = false;

  /// `dtypes`: those that the command knows, from f32 and f64 on. Those of 16 bits and less are no type of the import.
  /// Returns MODEL, which is required; a plan may name it where a command takes one.
  CLI::Option *addTo(CLI::App &command, std::vector<std::string> dtypes = {"f32", "f64"});
  /// --optimizer, and the settings of all optimizers.
  void addOptimizerTo(CLI::App &command);
  /// Options of a step that is trained, not of a prediction.
  void addTrainingTo(CLI::App &command);
  StepOptions toStepOptions() const;
};

/// How a step computes in bf16 or f16.
struct PrecisionFlags {
  std::string reduceDtype, lossScale; // empty: not given, as below
  std::optional<double> initialLossScale;
  std::optional<int64_t> lossScaleWindow;

  void addTo(CLI::App &command);
  /// The first option that was given, or "".
  std::string given() const;
  /// Nothing for f32 and f64, which none of the options is for.
  Result<std::optional<PrecisionOptions>> toOptions(const std::string &dtype) const;
};

/// Adds --for, the trainer that will run the plan.
void addTrainer(CLI::App &command, std::string &trainer);

/// Adds --margin, the share of each device's memory that plans leave free.
void addMargin(CLI::App &command, std::optional<double> &margin);

/// Where it runs, and what is asked of the plan.
struct PlanFlags {
  std::string cluster, constraints, mode = "auto", from;
  std::string trainer; // of --for; empty: Kerf
  std::string search;  // "placement", "whole"; empty: what suits the devices
  int64_t ranks = 0, memory = 0, top = 3;
  std::optional<double> margin; // of the devices' memory; none: defaultMargin
  double budgetSeconds = 0;
  std::optional<Job> job = {}; // of --plan
  bool allRanks = false;
  bool printPipeline = false;

  void addTo(CLI::App &command);
  Result<Cluster> toCluster() const;
  Result<PlanOptions> toPlanOptions() const;
};

/// What a run does.
struct RunFlags : runtime::AskedSettings {
  std::string data, evalData, save, saveHf, hfConfig, log, trace, gradientNorms, checkpoint, resume;
  std::optional<int64_t> every, keep, evalEvery, evalSteps; // given, or not
  std::optional<runtime::EmulatedLink> link;
  int64_t threads = 1;
  std::string device = std::string(runtime::kDefaultDevice);
  bool deterministic = false;
  std::string onNan = "stop";

  void addTo(CLI::App &command);
  /// The options that plans and packages keep for later runs: learning rate, its schedule and the seed.
  void addKeptTo(CLI::App &command);
};

/// Returns the request that the options make of a plan. A whole search that is interrupted ends with the best plan so
/// far.
Result<PlanRequest> planRequest(const ModelFlags &model, const PrecisionFlags &precision, const PlanFlags &flags,
                                const Cluster &cluster);

/// The message of a library with the settings that it names written as options (kerf/Support/Settings.h).
std::string withOptions(const std::string &message);
/// The options of all commands, for `withOptions`.
void learnOptions(const CLI::App &app);

/// Prints lines on standard error. Where that is full or closed, they are lost and the command goes on.
void say(const std::string &text);

/// Prints the error as the one message of a failed command and gives the exit status.
int fail(const Error &error);

/// A subcommand, and the flags of a `Command` that it fills and runs; `status` becomes the exit status. A Command with
/// a GivenPlan `given` takes the options that were not typed from the job of its --plan, after its `beforePlan`, where
/// it has one.
template <typename Command>
std::pair<CLI::App *, std::shared_ptr<Command>> addCommand(CLI::App &app, const char *name, const char *text,
                                                           int &status) {
  auto command = std::make_shared<Command>();
  CLI::App *sub = app.add_subcommand(name, text);
  sub->callback([command, sub, &status] {
    std::set<std::string> typed = typedOptions(*sub);
    if constexpr (requires { command->beforePlan(); })
      if (Status before = command->beforePlan(); !before) {
        status = fail(before.error());
        return;
      }
    if constexpr (requires { command->given; })
      if (Status taken = takePlan(*sub, command->given); !taken) {
        status = fail(taken.error());
        return;
      }
    Status applies = checkApplies(*sub, typed);
    status = applies ? command->run() : fail(applies.error());
  });
  return {sub, command};
}

// The commands: each function adds a subcommand and its options.
void addImport(CLI::App &app, int &status);
void addPlan(CLI::App &app, int &status);
void addCompile(CLI::App &app, int &status);
void addRun(CLI::App &app, int &status);
void addTrain(CLI::App &app, int &status);
void addExplain(CLI::App &app, int &status);
void addSolve(CLI::App &app, int &status);
void addSimulate(CLI::App &app, int &status);
void addProfile(CLI::App &app, int &status);
void addExport(CLI::App &app, int &status);
void addVerify(CLI::App &app, int &status);

/// The model as a training step, and the context that its IR lives in.
struct ImportedStep {
  std::unique_ptr<mlir::MLIRContext> context;
  TrainingStep step;
};
/// `planFile`: the plan, or the constraints, that the step is for, which may cut it at ops and treat one layer
/// otherwise than the others; "": none. `hybrid`: the model is a device program, which is taken as it is.
Result<ImportedStep> importStep(const ModelFlags &model, const PrecisionFlags &precision, bool gradientNorms,
                                const std::string &planFile = "", bool hybrid = false);

/// Searches, or loads `planFile` when it is complete; the plan, which keeps the job that `command` asks for, and its
/// device program. `step` is of `model`.
Result<Planned> planAndCompile(const CLI::App &command, const TrainingStep &step, const ModelFlags &model,
                               const PrecisionFlags &precision, const std::string &planFile, const PlanFlags &flags);

/// The checkpoint that a run goes on from, or null, and lines for people on options that are not the checkpoint's.
struct Resumed {
  const runtime::Checkpoint *checkpoint = nullptr;
  std::string note;
};

/// Runs a program and writes what the flags ask for. Standard error has `warnings`, and what is trained, before the
/// first step.
Result<runtime::RunReport> runProgram(const package::Program &program, const TensorMap &weights, const RunFlags &flags,
                                      const std::vector<std::string> &warnings, const Resumed &from, bool quiet);

} // namespace kerf::tool
