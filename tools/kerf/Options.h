// SPDX-License-Identifier: Apache-2.0
// The command-line options that several commands of `kerf` share, and their conversion to the options of the libraries.
#pragma once

#include "Command.h"
#include "RunOptions.h"
#include "kerf/Compiler/JobSettings.h"

namespace kerf::tool {

inline constexpr const char *kPrintPipelineHelp = "print the MLIR passes that the model went through, in order, in the "
                                                  "form that kerf-opt --pass-pipeline accepts, on "
                                                  "standard error";
inline constexpr const char *kClusterHelp =
    "cluster.json, the description of the machines, such as a file of clusters/ (default: CPU ranks of this machine)";
inline constexpr const char *kNoNativeHelp =
    "do not generate machine code for chains of pointwise operators; they run one by one, with the same results";

/// The argument MODEL and the options that define a training step of the model.
struct ModelFlags : ModelSettings {
  std::string model;

  /// Adds MODEL and the options of a model to `command`. `dtypes` are the values of --dtype that the command accepts.
  /// Returns the option MODEL, which is required; commands with --plan make it optional, because a plan can name its
  /// model.
  CLI::Option *addTo(CLI::App &command, std::vector<std::string> dtypes = {"f32", "f64"});
  /// Adds --optimizer, and one option for each setting of any optimizer.
  void addOptimizerTo(CLI::App &command);
  /// Adds the options that only a training has, not a prediction: --accumulate and --group.
  void addTrainingTo(CLI::App &command);
};

/// The options of mixed precision, for --dtype bf16 and f16.
struct PrecisionFlags : PrecisionSettings {
  /// Adds the options of mixed precision to `command`.
  void addTo(CLI::App &command);
  /// Returns the first of these options that was given ("--loss-scale"), or "" when none was.
  std::string firstGivenOption() const;
};

/// Adds --for, the name of the training system that will run the plan.
void addTrainer(CLI::App &command, std::string &trainer);

/// Adds --margin, the fraction of each device's memory that plans leave free.
void addMargin(CLI::App &command, std::optional<double> &margin);

/// Adds --compress and the limits of the planner of compression.
void addCompression(CLI::App &command, SearchSettings &search);

/// The help of --deterministic for commands that plan memory and run nothing.
inline constexpr const char *kPlannedDeterministicHelp =
    "plan memory for runs with --deterministic, which need more of it on GPUs; the result fits other runs too";

/// The options of a search for a plan: the machines, the constraints, the kind and the effort of the search.
struct PlanFlags : SearchSettings {
  std::string cluster, constraints, from;
  std::optional<Job> job = {}; // the job saved in the plan of --plan
  std::string runsOn = {};     // the device of --device, whose rules of memory apply; empty: that of the cluster
  bool deterministic = false;  // whether memory is planned for runs with --deterministic
  bool printPipeline = false;

  /// Adds the options of a search to `command`.
  void addTo(CLI::App &command);
  /// Returns the ranks that a plan may use. Fails when the cluster file is wrong or has too few ranks.
  Result<Cluster> toCluster() const;
};

/// Returns whether the user has pressed Ctrl-C during a search over whole plans. The first Ctrl-C ends the search with
/// the best plan so far; a second one ends the program.
bool isInterrupted();

/// Builds the request for a plan from the options. A search over whole plans that Ctrl-C interrupts ends with the best
/// plan found so far. Fails when an option is wrong or a file cannot be read.
Result<PlanRequest> makePlanRequest(const ModelFlags &model, const PrecisionFlags &precision, const PlanFlags &flags,
                                    const Cluster &cluster);

// Each of these functions adds one subcommand with its options to `app`. The subcommand stores its exit status in
// `status`.
void addImportCommand(CLI::App &app, int &status);
void addPlanCommand(CLI::App &app, int &status);
void addCompileCommand(CLI::App &app, int &status);
void addTrainCommand(CLI::App &app, int &status);
void addExplainCommand(CLI::App &app, int &status);
void addSolveCommand(CLI::App &app, int &status);
void addSimulateCommand(CLI::App &app, int &status);
void addExportCommand(CLI::App &app, int &status);
void addVerifyCommand(CLI::App &app, int &status);

/// A model imported as a training step, together with the MLIR context that owns its IR.
struct ImportedStep {
  std::unique_ptr<mlir::MLIRContext> context;
  TrainingStep step;
};
/// Imports the model as a training step. `planFile` names the plan or the constraints under which the step will be
/// compiled, because pipeline stages cut at operators and pins of single layers change the imported IR; "" stands for
/// none. With `hybrid` the model is a device program, which is imported unchanged. Fails with the message of the
/// command line.
Result<ImportedStep> importStep(const ModelFlags &model, const PrecisionFlags &precision, bool gradientNorms,
                                const std::string &planFile = "", bool hybrid = false);

/// Returns a plan for `step` (the import of `model`) and the device program compiled under the plan. The plan is
/// `planFile` where that file holds a complete plan; otherwise a search finds it. The plan stores the job described by
/// the options of `command`.
Result<PlanResult> planAndCompile(const CLI::App &command, const TrainingStep &step, const ModelFlags &model,
                                  const PrecisionFlags &precision, const std::string &planFile, const PlanFlags &flags);

} // namespace kerf::tool
