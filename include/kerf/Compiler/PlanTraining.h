// SPDX-License-Identifier: Apache-2.0
// Chooses the plan of a training: one of the searches finds it, or it is given and lowered as it is. These calls neither
// print nor exit.
#pragma once

#include "kerf/Compiler/Compiler.h"
#include "kerf/Compiler/PlanWhole.h"

#include <functional>

namespace kerf {

/// The two searches for a plan. Placement searches the strategy of every operator on a mesh of data and model; Whole
/// searches everything that a plan can say (docs/search.md).
enum class SearchKind { Placement, Whole };

/// A job to be planned. Searches import the model anew, at the sizes that they ask about.
struct PlanRequest {
  ModelSource model;
  StepOptions step;          // as the step was imported, without what `prepareFor` puts in
  std::string dtype = "f32"; // as SimulateOptions has it
  Cluster cluster;           // the ranks that may be used
  PlanOptions options = {};
  std::optional<SearchKind> search = {};  // nothing: what suits the devices and the constraints
  const Trainer *trainer = &ownTrainer(); // that will run the plan
  bool dataOnly = false;                  // nothing but the batch is cut
  bool standIn = false;                   // the cluster stands in for a given plan's: they are not compared
  double seconds = 0;                     // of a whole search's effort, of a 2020s core; 0: the default
  std::optional<Plan> from = {};          // a whole search begins with it
  std::function<bool()> stop = {};        // asked often during a whole search: true ends it with the best so far
};

/// The search that the request asks for. Where it asks for none: Placement on CPUs, Whole on other devices and where
/// the constraints decide what only whole plans have. Refuses a placement of such constraints. `batch`: the samples of
/// a step; 0: not known.
Result<SearchKind> searchOf(const PlanRequest &request, int64_t batch);

/// A whole train step, with gradients and an optimizer of its own, has only placements.
bool isWholeTrainStep(const TrainingStep &step);

/// The request as a job for the search over whole plans.
Result<WholeJob> wholeJob(mlir::MLIRContext &context, const PlanRequest &request);
/// Returns notes for people that compare the best plan on all ranks with `best`, where `best` uses fewer ranks.
std::vector<std::string> notesOnRanks(const WholeJob &job, const FoundPlan &best);

/// Searches and lowers `step`, which was imported as the request says. Where the request names no search and no
/// placement fits, the whole plan is searched.
Result<Planned> planTraining(const TrainingStep &step, const PlanRequest &request);
/// Lowers `step` under a plan that is complete, or that says how a step is executed; the defaults complete it. `where`
/// names the plan in messages. Infeasible where it needs more than the request's memory.
Result<Planned> compilePlan(const TrainingStep &step, const Plan &plan, const std::string &where,
                            const PlanRequest &request);

/// The changes of a job that would make an infeasible one feasible, each found by trying it alone. A change that does
/// not help is empty.
struct Remedies {
  std::optional<int64_t> ranks = {};         // of the same devices; maybe more than the cluster has
  std::optional<std::string> optimizer = {}; // that keeps no states
  std::optional<std::string> dtype = {};     // of 16 bits
};
/// Asks the search again and again, a few seconds each time. Ranks are tried up to 64 times as many. `whole`: the
/// cluster with all its ranks.
Remedies findRemedies(const PlanRequest &request, const Cluster &whole);

/// Makes the program one for the processor that is here: with machine code of its best instruction set, or op by op
/// where it has none of them (codegen::kIsas), or without `native`. The numbers are the same.
Status addCodeForThisMachine(Compiled &compiled, bool native);

/// Writes the origin of a program into its info: `model`, `model_hash` and `plan`.
void describeProgram(package::Program &program, const std::string &model, const TrainingStep &step, const Plan &plan);

} // namespace kerf
