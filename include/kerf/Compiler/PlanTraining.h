// SPDX-License-Identifier: Apache-2.0
// Plans a training job: finds a plan by one of the two searches, or compiles a plan that the caller gives. These calls
// neither print nor exit.
#pragma once

#include "kerf/Compiler/Compiler.h"
#include "kerf/Compiler/WholePlanJob.h"

#include <functional>

namespace kerf {

/// The kind of search for a plan. Placement chooses the sharding of every operator on a mesh of the axes data and
/// model. Whole also chooses pipeline stages, microbatches, recomputation and optimizer sharding (docs/search.md).
enum class SearchKind { Placement, Whole };

/// A request for a plan: the model, the machines and the options of the search. The searches import the model
/// themselves, at the batch sizes that they try.
struct PlanRequest {
  ModelSource model;
  StepOptions step;          // options of the import, without those that setPlanDependentOptions sets
  std::string dtype = "f32"; // type of activations and products, as in SimulateOptions
  Cluster cluster;           // the ranks that the plan may use
  PlanOptions options = {};
  std::optional<SearchKind> search = {};              // absent: chosen by devices and constraints (chooseSearch)
  const Trainer *trainer = &ownTrainer();             // the training system that will run the plan
  std::optional<CompressionRequest> compression = {}; // compression of gradients to plan; absent: none
  bool dataOnly = false;                              // true: only the batch is sharded (data parallelism)
  bool standIn = false; // true: `cluster` replaces the cluster of a given plan, and the plan is not checked against it
  double seconds = 0;   // effort of a search over whole plans, in seconds on a 2020s CPU core; 0: the default
  std::optional<Plan> from = {}; // plan with which a search over whole plans starts (warm start)
  /// Fails for plans that the trainer would refuse, as PlanSearchOptions::checkPlan does.
  std::function<Status(const CompletedPlan &)> checkPlan = {};
  std::function<bool()> stop =
      {}; // called often during a search over whole plans; true ends the search with the best plan so far
};

/// Returns the kind of search for the request. If the request names no kind, the result is Whole when the devices are
/// not CPUs or the constraints set stages, microbatches or other decisions that placements lack, and Placement
/// otherwise. `batch` is the number of samples in a step; 0: unknown. Fails when the request asks for Placement under
/// such constraints.
Result<SearchKind> chooseSearch(const PlanRequest &request, int64_t batch);

/// Returns whether the step was imported with gradients and an optimizer of its own (a whole train step of JAX). For
/// such a step only the search over placements applies.
bool isWholeTrainStep(const TrainingStep &step);

/// Builds the job of a search over whole plans from the request. Fails when the constraints contradict the request.
Result<WholePlanJob> makeWholePlanJob(mlir::MLIRContext &context, const PlanRequest &request);
/// Returns notes for the user that compare `best` with the best plan on all ranks of the job; none when `best` uses all
/// ranks. Runs another search.
std::vector<std::string> rankCountNotes(const WholePlanJob &job, const FoundPlan &best);

/// Finds a plan for `step`, which was imported with the options of the request, and compiles the step under it. When
/// the request names no kind of search and no placement fits into memory, whole plans are searched. Fails with
/// ExitStatus::Infeasible when no plan fits.
Result<PlanResult> planTraining(const TrainingStep &step, const PlanRequest &request);
/// Compiles `step` under `plan`, a complete plan or an execution plan (isExecutionPlan), whose gaps get defaults.
/// `where` names the plan in messages. Fails with ExitStatus::Infeasible when the plan needs more than the memory limit
/// of the request.
Result<PlanResult> compilePlan(const TrainingStep &step, const Plan &plan, const std::string &where,
                               const PlanRequest &request);

/// Changes that make an infeasible job feasible. Each change was tried alone; an absent change did not help.
struct Remedies {
  std::optional<int64_t> ranks = {}; // number of ranks with the same devices, possibly more than the cluster has
  std::optional<std::string> optimizer = {}; // name of an optimizer without states, "sgd"
  std::optional<std::string> dtype = {};     // name of a 16-bit type, "bf16"
};
/// Tries changes of an infeasible job by short searches of a few seconds each: up to 64 times as many ranks, an
/// optimizer without states, and a 16-bit type. `whole` is the cluster with all its ranks.
Remedies findRemedies(const PlanRequest &request, const Cluster &whole);

/// Adds the code to the program that a run on `device` ("KIND" or "KIND:PARAMETER") uses: PTX for the device `cuda`,
/// and for any other device machine code for the best instruction set of this processor (one of
/// codegen::kInstructionSets). Leaves the program without code if `native` is false or the processor supports none. The
/// results do not depend on this choice.
Status addCodeForDevice(CompileResult &compiled, std::string_view device, bool native);

/// Stores the origin of a program in its `info`: the keys `model`, `model_hash` and `plan`.
void describeProgram(package::Program &program, const std::string &model, const TrainingStep &step, const Plan &plan);

} // namespace kerf
