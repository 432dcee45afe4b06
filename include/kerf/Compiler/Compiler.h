// SPDX-License-Identifier: Apache-2.0
// The way of a model through the rooms, as calls that a framework can embed: import a training step, plan it, lower it.
// They neither print nor exit.
#pragma once

#include "kerf/CostModel/Cluster.h"
#include "kerf/CostModel/Simulator.h"
#include "kerf/Frontend/Import.h"
#include "kerf/Report/Report.h"
#include "kerf/Search/Plan.h"
#include "kerf/Search/Solver.h"
#include "kerf/Transforms/MixedPrecision.h"
#include "kerf/Transforms/Optimizer.h"

namespace kerf {

/// A context with the dialects that Kerf's IR needs, single-threaded (the same order of diagnostics on every run).
std::unique_ptr<mlir::MLIRContext> createContext();

struct StepOptions {
  ImportOptions import;
  OptimizerOptions optimizer;
  /// Nothing: everything is in import.floatType. Otherwise that is F32.
  std::optional<PrecisionOptions> precision;
  bool recognizeComposites = true;
  /// Takes a graph whose exporter folded parameters away; what is left of the model is trained. Otherwise that is an
  /// error.
  bool acceptFolded = false;
  /// `prepareFor` copies both from the plan that the step is compiled under. `cuts` names the ops at which stages end
  /// (stageCuts). `patterns` are the patterns of the plan's `ops`, which may name a single layer.
  std::vector<std::string> cuts = {}, patterns = {};
  /// The patterns are the names of all ops, as a search over placements writes them.
  bool patternsOfAllOps = false;
};

/// Sets `cuts` and `patterns` of the plan, a whole one or a set of constraints. `where` names it in messages.
Status prepareFor(StepOptions &options, const Plan &plan, const std::string &where);

/// One training step over whole tensors, with what came with the model.
struct TrainingStep {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  TensorMap weights;
  std::vector<std::string> warnings;
  std::string modelHash;                 // SHA-256 of graph, names and shapes, in hexadecimal
  std::vector<std::string> missingFiles; // of weights, as ImportedModel has them
  std::vector<Report::Type> types;       // of mixed precision
  /// What kerf IR was annotated with by hand (`kerf.strategy` of ops, `kerf.sharding` of arguments): pins of any plan.
  std::vector<OpPlan> ops;
  std::vector<ArgumentPlan> arguments;
  /// Those of StepOptions: calls say their part of the pipeline.
  std::vector<std::string> cuts;
  std::string pipeline; // that made it, as `pipelineText` writes it
};

/// Imports the model and runs the passes up to one whole training step: composites, reshapes, layers, precision,
/// gradients, optimizer.
Result<TrainingStep> importTrainingStep(mlir::MLIRContext &context, const ModelSource &model,
                                        const StepOptions &options);

struct PlanOptions {
  Plan constraints;
  std::string constraintsFile = "the constraints"; // for messages
  std::optional<int64_t> memoryLimitBytes;         // per rank; the device's own memory counts as well
  std::optional<double> margin;                    // of the device's memory; absent: as withMargin has it
  int64_t workBudget = SolveOptions().workBudget;  // per mesh
  int alternatives = 3;                            // runners-up that the report names
  bool allRanks = false;                           // no plan uses fewer ranks than the cluster has
};

/// The device program of a step under a plan, and the report of what the plan does there.
struct Compiled {
  package::Program program;
  Report report;
  /// The program as IR, in the step's context; null of compileDevice.
  mlir::OwningOpRef<mlir::ModuleOp> device = {};
  /// Seconds that one step of the program takes by its kernels and collectives, and the bytes that the runtime
  /// allocates on each stage (`peakBytes`; `fits`: in the device's memory), with machine code for its pointwise ops
  /// where that needs no more memory (`usesCode`), and without. They are the figures of plans that are priced as
  /// lowered.
  Simulation figures = {}, figuresWithoutCode = {};
  bool usesCode = false;
  /// The pipelines that the step went through, by their names, as `pipelineText` writes them.
  std::vector<std::pair<std::string, std::string>> pipelines = {};
};

/// Whether plans for this cluster are priced as the programs that they are lowered to, and take the memory that the
/// runtime plans for them: on CPUs. On other devices both are the simulator's, but for plans of strategies op by op,
/// which it does not know.
bool pricedAsLowered(const Cluster &cluster);

struct Planned {
  Plan plan;
  Compiled compiled;
  /// What the search answered, on the plan's mesh and under the cluster's limit. Without nodes where the plan was
  /// given.
  Problem problem = {};
  std::vector<std::string> notes = {};    // for the user, such as that fewer ranks are faster
  std::vector<std::string> warnings = {}; // such as that the devices have too little memory for it
};

/// "4 ranks would take 4.5 ms a step, 2 take 3.4 ms: planned for 2; --all-ranks plans for 4".
std::string fewerRanksText(int64_t ranks, double seconds, int64_t fewer, double fewerSeconds);

/// The fastest plan that fits into the memory of every rank of `cluster`. Infeasible: ExitStatus::Infeasible, with the
/// least memory that some plan needs.
Result<Planned> planStep(const TrainingStep &step, const Cluster &cluster, const PlanOptions &options);

/// The plan leaves the strategies of ops to the layout that `kerf simulate` predicts (docs/plan.md): it asks for
/// stages, microbatches, recomputation, optimizer sharding, or sequence, context or expert parallelism. `batch`: of the
/// model.
bool isExecutionPlan(const Plan &plan, int64_t batch);

/// The plan is complete and says the strategy of every op, as a search over placements finds it. `batch`: of the model.
bool isOpByOp(const Plan &plan, int64_t batch);

/// Lowers the step under a complete plan, or one that says how a step is executed. Checks that plan, model and cluster
/// belong together. `cluster` prices reshards and predictions.
Result<Compiled> compileStep(const TrainingStep &step, const Plan &plan, const std::string &planFile,
                             const Cluster &cluster);

/// A device program that somebody wrote, as it is: ranks of its own mesh, no pass changes it. `file` names it in
/// messages.
Result<Compiled> compileDevice(const TrainingStep &device, const std::string &file, const Cluster &cluster);
/// The device program of a file, to be compiled by compileDevice.
Result<TrainingStep> importDevice(mlir::MLIRContext &context, const std::string &path,
                                  const std::optional<std::string> &weights);

/// Makes kernels of the program's pointwise ops, with machine code for each of `isas` (kerf/Codegen/Codegen.h): another
/// program of the same bits, which needs no more memory. Nothing changes where it would (Compiled::usesCode). A program
/// of compileDevice has the kernels that are written in it.
Status addNativeCode(Compiled &compiled, const std::vector<std::string> &isas);
/// Instead: the figures become those of a program that runs its ops one by one.
Status leaveOutNativeCode(Compiled &compiled);

/// Writes the package of all ranks: program.json, weights.safetensors and code in `folder`, each file whole or not at
/// all.
Status writePackage(const Compiled &compiled, const TensorMap &weights, const std::string &folder);

/// Samples of the module's inputs: the first dimension of the first one that has any, or 1.
int64_t batchOf(mlir::ModuleOp module);

/// SHA-256 in hexadecimal.
std::string sha256(std::string_view bytes);
/// Of the module's text.
std::string sha256(mlir::ModuleOp module);

} // namespace kerf
