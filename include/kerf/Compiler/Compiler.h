// SPDX-License-Identifier: Apache-2.0
// The compiler as library calls that a framework can embed: import a model as a training step, find a plan for the
// step, and compile the step to a program under the plan. These calls neither print nor exit.
#pragma once

#include "kerf/CostModel/Cluster.h"
#include "kerf/CostModel/Simulator.h"
#include "kerf/Frontend/Import.h"
#include "kerf/Optimizer/Options.h"
#include "kerf/Report/Report.h"
#include "kerf/Search/Plan.h"
#include "kerf/Search/Solver.h"
#include "kerf/Transforms/MixedPrecision.h"

namespace kerf {

/// Creates an MLIR context with the dialects of Kerf's IR. The context is single-threaded, so that diagnostics have the
/// same order on every run.
std::unique_ptr<mlir::MLIRContext> createContext();

/// The options with which a model is imported and turned into a training step.
struct StepOptions {
  ImportOptions import;
  OptimizerOptions optimizer;
  /// The types of a mixed-precision step, whose `import.floatType` must be F32. Absent: the whole step computes in
  /// `import.floatType`.
  std::optional<PrecisionOptions> precision;
  /// Whether attention, normalizations and GELU of an export are replaced by one operator each.
  bool recognizeComposites = true;
  /// Whether a model whose exporter folded parameters into constants is accepted; its remaining parameters are trained.
  /// If false, such a model is an error.
  bool acceptFolded = false;
  /// Keys of the operators at which pipeline stages end (stageCuts), set by `setPlanDependentOptions`.
  std::vector<std::string> cuts = {};
  /// Patterns of the operators that the plan pins, set by `setPlanDependentOptions`. A pattern may match a single
  /// layer, which the import then keeps apart from the other layers.
  std::vector<std::string> patterns = {};
  /// Whether `patterns` lists the keys of all operators, as plans of the search over placements do.
  bool patternsOfAllOps = false;
};

/// Sets the options of the import that depend on a plan: `cuts` (the operators at which the plan's pipeline stages
/// end), `patterns` (the operators that the plan's entries `ops` and `recompute` select) and `patternsOfAllOps`. `plan`
/// may be a complete plan or constraints. `where` names the plan in messages. Fails when the plan cuts stages at
/// operators and gives a part of the pipeline twice or not at all.
Status setPlanDependentOptions(StepOptions &options, const Plan &plan, const std::string &where);

/// One training step on a single device (forward, backward and optimizer, over unsharded tensors), with the weights and
/// notes of its model.
struct TrainingStep {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  TensorMap weights;
  std::vector<std::string> warnings;
  std::string modelHash;                 // SHA-256 of the graph, its names and shapes, in hexadecimal
  std::vector<std::string> missingFiles; // weights files that do not exist (ImportedModel::missingFiles)
  std::vector<Report::Type> types;       // the types of mixed precision, for reports; empty without mixed precision
  /// Pins that a person wrote into kerf IR (`kerf.strategy` on operators, `kerf.sharding` on arguments). A plan
  /// keeps these pins, except where it sets the same operator or argument itself.
  std::vector<OpPlan> ops;
  std::vector<ArgumentPlan> arguments;
  /// The cuts of StepOptions. With cuts, each layer call has an attribute that names its part of the pipeline.
  std::vector<std::string> cuts;
  std::string pipeline; // the passes that built the step, as `pipelineText` writes them
};

/// Imports the model and runs the passes that build its training step: recognition of composite operators, reshapes,
/// layers, mixed precision, gradients and optimizer. Fails with ExitStatus::BadInput and a message for the user when
/// the model or an option is wrong.
Result<TrainingStep> importTrainingStep(mlir::MLIRContext &context, const ModelSource &model,
                                        const StepOptions &options);

/// The options of a search for a plan.
struct PlanOptions {
  Plan constraints;                                // decisions that the plan has to keep
  std::string constraintsFile = "the constraints"; // name of the constraints in messages
  std::optional<int64_t> memoryLimitBytes;         // bytes per rank, in addition to the limit of the device
  std::optional<double> margin; // fraction of device memory to leave free; absent: the default of withMargin
  int64_t workBudget = SolveOptions().workBudget; // effort of the solver for each mesh, in units of work
  int alternatives = 3;                           // number of next-best plans in the report
  bool allRanks = false;                          // true: the plan has to use all ranks of the cluster
};

/// A step compiled under a plan: the device program, which every rank runs, and the report on it.
struct CompileResult {
  package::Program program;
  Report report;
  /// The program as IR, in the MLIR context of the step; null when `compileDevice` made this result.
  mlir::OwningOpRef<mlir::ModuleOp> device = {};
  bool forGpu = false; // whether `device` is packaged for GPUs
  /// Predicted seconds of one step of the program, and the bytes that the runtime allocates on each stage
  /// (`peakBytes`). `figures` is for the program with machine code for its pointwise operators if `usesCode`, and
  /// without such code otherwise.
  Simulation figures = {};
  /// The same prediction for the program without machine code, and its memory on the fullest stage.
  Simulation figuresWithoutCode = {};
  Report::Memory memoryWithoutCode = {};
  /// Whether the program may get machine code: true if the code needs no more memory than the single operators.
  bool usesCode = false;
  /// The pass pipelines that the step went through: name ("placement") and passes, as `pipelineText` writes them.
  std::vector<std::pair<std::string, std::string>> pipelines = {};
};

/// Returns whether the step time and the memory of plans for this cluster are predicted from the compiled program,
/// which is so on CPUs. On other devices the simulator predicts both, except for plans that set the strategy of each
/// operator.
bool pricedAsLowered(const Cluster &cluster);

/// A plan for a training step, compiled.
struct PlanResult {
  Plan plan;
  CompileResult compiled;
  /// The placement problem that the search solved, for the mesh of the plan and the memory limit of the cluster. Has no
  /// nodes when the caller gave the plan.
  Problem problem = {};
  std::vector<std::string> notes = {};    // notes for the user, such as that fewer ranks are faster
  std::vector<std::string> warnings = {}; // warnings for the user, such as that the plan does not fit into memory
};

/// Returns the note that `fewer` ranks are faster than all `ranks`: "4 ranks would take 4.5 ms a step, 2 take 3.4 ms:
/// planned for 2; <all-ranks> plans for 4".
std::string fewerRanksText(int64_t ranks, double seconds, int64_t fewer, double fewerSeconds);

/// Searches for the fastest placement of the step's operators that fits into the memory of every rank of `cluster`, and
/// compiles the step under it. Fails with ExitStatus::Infeasible and the least memory that any tried plan needs when no
/// plan fits.
Result<PlanResult> planStep(const TrainingStep &step, const Cluster &cluster, const PlanOptions &options);

/// Returns whether the plan decides how a step is executed: pipeline stages, microbatches, recomputation, optimizer
/// sharding, or sequence, context or expert parallelism. The strategies of such a plan's operators come from
/// Megatron-LM's layout (docs/plan.md). `batch` is the number of samples in a step.
bool isExecutionPlan(const Plan &plan, int64_t batch);

/// Returns whether the plan is complete and sets the strategy of every operator, as plans of the search over placements
/// do. `batch` is the number of samples in a step.
bool isOpByOp(const Plan &plan, int64_t batch);

/// Compiles the step under a complete plan or an execution plan (isExecutionPlan). `planFile` names the plan in
/// messages; `cluster` gives the costs by which reshards are chosen and the step is predicted. Fails when plan, model
/// and cluster do not belong together.
Result<CompileResult> compileStep(const TrainingStep &step, const Plan &plan, const std::string &planFile,
                                  const Cluster &cluster);

/// Compiles a device program that a person wrote, without changing it. The program's own mesh says the ranks. `file`
/// names the program in messages. Fails when the mesh has more ranks than `cluster`.
Result<CompileResult> compileDevice(const TrainingStep &device, const std::string &file, const Cluster &cluster);
/// Reads the device program of a file, for compileDevice. `weights` names a file of tensors that replace the program's
/// own weights by name.
Result<TrainingStep> importDevice(mlir::MLIRContext &context, const std::string &path,
                                  const std::optional<std::string> &weights);

/// Fuses the pointwise operators and reductions of the program into kernels, and generates machine code of the kernels
/// for each instruction set in `isas` (kerf/Codegen/Codegen.h). The results stay bitwise equal. Does nothing when the
/// code would need more memory (CompileResult::usesCode). In a program that a person wrote (compileDevice) nothing is
/// fused: only the kernels that its author wrote get machine code.
Status addNativeCode(CompileResult &compiled, const std::vector<std::string> &isas);
/// Leaves the program without machine code, and sets its predicted step time and memory to those of a program that runs
/// its operators one by one.
Status leaveOutNativeCode(CompileResult &compiled);

/// Writes the package for all ranks into `folder`: program.json, weights.safetensors and machine code. An old package
/// in `folder` is replaced only after all new files are on disk. Fails when a file cannot be written.
Status writePackage(const CompileResult &compiled, const TensorMap &weights, const std::string &folder);

/// Returns the number of samples in a step of the module: the first dimension of its first input that has dimensions,
/// or 1.
int64_t batchOf(mlir::ModuleOp module);

/// Returns the SHA-256 of `bytes` in hexadecimal.
std::string sha256(std::string_view bytes);
/// Returns the SHA-256 of the module's printed text in hexadecimal.
std::string sha256(mlir::ModuleOp module);

} // namespace kerf
