// SPDX-License-Identifier: Apache-2.0
// The pipelines of Kerf: which passes a model goes through, in which order, from the imported graph to the package.
// docs/architecture.md says why each stands where it stands; docs/passes.md says what each does.
#pragma once

#include "kerf/Transforms/MixedPrecision.h"
#include "kerf/Transforms/Optimizer.h"
#include "kerf/Transforms/Passes.h"
#include "mlir/Pass/PassManager.h"
#include <optional>
#include <string>
#include <vector>

namespace kerf {

/// These options say how an imported graph becomes one training step over whole tensors.
struct StepPipeline {
  /// The program has gradients and an optimizer of its own: only its repeated layers are looked for.
  bool wholeStep = false;
  bool recognizeComposites = true;
  std::vector<std::string> layerPatterns = {}; // of ops that a plan names; a layer that one names gets its own function
  bool patternsOfAllOps = false;
  std::vector<std::string> cuts = {};             // patterns of the ops at which pipeline stages end
  std::optional<PrecisionOptions> precision = {}; // none: as imported
  OptimizerOptions optimizer = {};
};

/// These options say how a step with strategies becomes the program of one rank.
struct LoweringPipeline {
  StepPrice price;            // of reshards
  bool chunkProducts = false; // products run in chunks beside the collectives that bring their operands
  bool overlapAll = false;    // collectives of layers, too, run beside other work
  std::optional<AssignTasksOptions> tasks = {}; // of a plan that says how a step is executed
};

/// The imported graph -> one training step over whole tensors, in functions of layers.
void addStepPasses(mlir::OpPassManager &passes, const StepPipeline &options);
/// A step whose ops have strategies -> the same with reshards between them.
void addPlacementPasses(mlir::OpPassManager &passes);
/// Ops with strategies and reshards -> one rank's ops and collectives, in tasks where a plan says how it is executed.
void addLoweringPasses(mlir::OpPassManager &passes, const LoweringPipeline &options);
/// One rank's ops -> instructions, which `emitPackage` writes; with `fuse`, calls of kernels in place of pointwise
/// ones.
void addPackagingPasses(mlir::OpPassManager &passes, bool fuse);

/// "builtin.module(kerf-recognize-composites,kerf-fold-reshapes,...)", as `kerf-opt --pass-pipeline` takes it.
std::string pipelineText(const mlir::OpPassManager &passes);

/// Registers the pipelines by name for kerf-opt: --kerf-step, --kerf-placement, --kerf-lowering, --kerf-packaging.
void registerKerfPipelines();

} // namespace kerf
