// SPDX-License-Identifier: Apache-2.0
// A model under each layout that plans ask for: imported at the microbatch's size, laid out, and told as plain data.
#pragma once

#include "kerf/Compiler/Compiler.h"
#include "kerf/CostModel/ModelWork.h"
#include "kerf/PlanSearch/CompletePlan.h"
#include "kerf/Transforms/Layout.h"

namespace kerf {

class ModelLayouts {
public:
  /// `dtype`: of activations and products; `step.import.globalBatch` is the batch that the user asks for. The prices
  /// that choose the layout are the cluster's, of a mixed one its first group's. Of `pins` the ops and arguments count:
  /// what they leave open is Megatron-LM's layout.
  ModelLayouts(mlir::MLIRContext &context, ModelSource model, StepOptions step, std::string dtype,
               const Cluster &cluster, const Plan &pins);

  /// The job that plans are completed for. Imports an exported model, whose batch is its own.
  Result<TrainingJob> job(std::optional<int64_t> ranks);
  /// A plan whose stages are cut at ops, told by layers, as the step was imported with its cuts (StepOptions).
  Result<Plan> withLayers(const Plan &completed);
  /// Computed once for each key.
  Result<const ModelWork *> work(const LayoutKey &key);
  /// Sizes of "model" up to `most` that divide the heads of every attention (without attention: powers of two).
  Result<std::vector<int64_t>> modelSizes(int64_t most);
  /// Of "expert": what divides the experts, 1 where there are none.
  Result<std::vector<int64_t>> expertSizes(int64_t most);
  /// Returns the sizes of "context" up to `most` that divide the positions of every attention and leave each rank
  /// `tokens` of them or more; 1 without attention.
  Result<std::vector<int64_t>> contextSizes(int64_t most, int64_t tokens);
  /// Whether attention can be cut so.
  Result<bool> possible(const LayoutKey &key);
  /// Whether an export's step can be done in microbatches: if not, why, as a compilation says it. Found out once.
  Status checkMicrobatches();
  /// Of the imports so far.
  const std::vector<std::string> &warnings() const { return theWarnings; }

private:
  Result<TrainingStep *> imported(int64_t microbatch);
  /// Elements of the optimizer's states for each of the parameters', on average.
  Result<double> momentsPerElement();
  struct Placed;
  Result<Placed> place(const LayoutKey &key);

  mlir::MLIRContext &context;
  ModelSource model;
  StepOptions step;
  std::string dtype;
  Cluster cluster;
  Plan pins;
  std::map<int64_t, TrainingStep> steps; // by their batch; an exported model is imported once
  std::map<LayoutKey, ModelWork> works;
  std::map<LayoutKey, DecidedLayout> decided; // of a config.json, to be followed by larger microbatches
  std::optional<Status> microbatched;
  std::vector<std::string> theWarnings;
};

} // namespace kerf
