// SPDX-License-Identifier: Apache-2.0
// Strategies that people write into kerf IR by hand: the attribute `kerf.strategy = {model = "n"}` on operators and
// `kerf.sharding` on arguments.
#pragma once

#include "kerf/Compiler/Compiler.h"

namespace kerf {

/// The annotations of a module, as pins of a plan.
struct Annotations {
  std::vector<OpPlan> ops;
  std::vector<ArgumentPlan> arguments;
  std::vector<std::string>
      annotated; // keys of the annotated operators in the written model, without the '#N' of equal keys
};

/// Removes the annotations of arguments from the imported model and returns them as pins, together with the keys of the
/// annotated operators. Fails when an annotation is malformed.
Result<Annotations> extractArgumentPins(mlir::ModuleOp module);
/// Removes the annotations of operators from the training step and adds them to `found` as pins. Fails when a pass has
/// removed an annotated operator.
Status extractOpPins(mlir::ModuleOp module, Annotations &found);

/// Returns the imported model as a TrainingStep with its hash, before any pass has run.
TrainingStep bareTrainingStep(ImportedModel model);
/// Runs the passes that build the training step of an imported model. `path` names the model in messages.
Result<TrainingStep> buildTrainingStep(mlir::MLIRContext &context, ImportedModel model, const std::string &path,
                                       const StepOptions &options);

/// Adds the pins of the step to `plan`, except for operators and arguments that the plan sets itself.
void addPins(const TrainingStep &step, Plan &plan);

} // namespace kerf
