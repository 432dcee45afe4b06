// SPDX-License-Identifier: Apache-2.0
// Strategies that people write into kerf IR: `kerf.strategy = {model = "n"}` of ops, `kerf.sharding` of arguments.
#pragma once

#include "kerf/Compiler/Compiler.h"

namespace kerf {

struct Annotations {
  std::vector<OpPlan> ops;
  std::vector<ArgumentPlan> arguments;
  std::vector<std::string> annotated; // keys of ops as they are written, without their numbers
};

/// Of the model as it is written: takes the arguments' off, and notes which ops have some.
Result<Annotations> takeArgumentPins(mlir::ModuleOp module);
/// Of the training step that it has become: takes the ops' off. Errors: an annotated op is there no more.
Status takeOpPins(mlir::ModuleOp module, Annotations &found);

/// A step of what was read, with its hash: no pass has run.
TrainingStep stepOf(ImportedModel model);
/// Runs the passes up to one whole training step. `path` names the model in messages.
Result<TrainingStep> trainingStepOf(mlir::MLIRContext &context, ImportedModel model, const std::string &path,
                                    const StepOptions &options);

/// Those that none of the plan's own decides.
void addPins(const TrainingStep &step, Plan &plan);

} // namespace kerf
