// SPDX-License-Identifier: Apache-2.0
// The pass pipelines of Kerf: which passes a model goes through, in which order, from the imported graph to the
// package. docs/architecture.md explains the order; docs/passes.md describes each pass.
#pragma once

#include "kerf/Transforms/AddOptimizer.h"
#include "kerf/Transforms/MixedPrecision.h"
#include "kerf/Transforms/Passes.h"
#include "mlir/Pass/PassManager.h"
#include <optional>
#include <string>
#include <vector>

namespace kerf {

/// The options of the pipeline that turns an imported graph into one training step over whole tensors.
struct StepPipeline {
  /// Whether the imported program is a complete step, with gradients and an optimizer of its own. Such a program only
  /// has its repeated layers outlined.
  bool wholeStep = false;
  bool recognizeComposites = true;
  /// Patterns of the op names for which a plan has entries. A layer that such an entry treats differently from others
  /// of its kind gets its own function.
  std::vector<std::string> layerPatterns = {};
  bool patternsOfAllOps = false;      // whether `layerPatterns` are the complete names of all ops
  std::vector<std::string> cuts = {}; // for each pipeline part but the last, the pattern of the ops at which it ends
  std::optional<PrecisionOptions> precision = {}; // nothing: numbers keep the types of the imported graph
  OptimizerOptions optimizer = {};
};

/// The options of the pipeline that lowers a step with strategies to the program of one rank.
struct LoweringPipeline {
  StepPrice price; // function that prices one collective of a reshard; the cheapest sequence of collectives is chosen
  bool chunkProducts = false; // whether products run in chunks that overlap with the collectives of their operands
  bool overlapTensor = false; // whether sums of input gradients overlap with the products of weight gradients
  std::optional<AssignTasksOptions> tasks = {}; // nothing: the step has no microbatches and no pipeline
  bool padClasses = true;  // whether classifiers get a number of columns that tensor cores can read
  int64_t ranksOfNode = 1; // number of neighbouring ranks that share fast links
};

/// The options of the pipeline that turns the program of one rank into instructions.
struct PackagingPipeline {
  bool forGpu = false; // whether tensors get the layout that GPUs want
  bool fuse = false;   // whether pointwise ops are fused into kernels
};

/// Adds the passes that turn the imported graph into one training step over whole tensors, with a function for each
/// kind of layer.
void addStepPasses(mlir::OpPassManager &passes, const StepPipeline &options);
/// Adds the passes that insert explicit reshards into a step whose ops have strategies.
void addPlacementPasses(mlir::OpPassManager &passes);
/// Adds the passes that lower ops with strategies and reshards to the ops and collectives of one rank, and that assign
/// them to schedule tasks where `options.tasks` is given.
void addLoweringPasses(mlir::OpPassManager &passes, const LoweringPipeline &options);
/// Adds the passes that turn the ops of one rank into the instructions that `emitPackage` writes.
void addPackagingPasses(mlir::OpPassManager &passes, const PackagingPipeline &options);

/// Returns the pipeline as text, as `kerf-opt --pass-pipeline` reads it:
/// "builtin.module(kerf-recognize-composites,kerf-fold-reshapes,...)".
std::string pipelineText(const mlir::OpPassManager &passes);

/// Registers the pipelines by name for kerf-opt: --kerf-step, --kerf-placement, --kerf-lowering, --kerf-packaging.
void registerKerfPipelines();

} // namespace kerf
