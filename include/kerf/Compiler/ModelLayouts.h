// SPDX-License-Identifier: Apache-2.0
// Computes the work of a model (FLOP, bytes, memory) under each layout that a plan can have. The model is imported at
// the size of a microbatch, and its operators are placed on the ranks that share the microbatch.
#pragma once

#include "kerf/Compiler/Compiler.h"
#include "kerf/Compiler/LayoutsAhead.h"
#include "kerf/CostModel/ModelWork.h"
#include "kerf/PlanSearch/CompletePlan.h"
#include "kerf/Transforms/Layout.h"

#include <condition_variable>
#include <mutex>
#include <span>

namespace kerf {

/// The layouts of one model on one cluster, each computed once and cached. Only `work`, `possible` and `expect` may be
/// called while layouts are computed ahead.
class ModelLayouts {
public:
  /// Prepares the layouts of `model`. `dtype` is the type of activations and products; `step.import.globalBatch` is the
  /// global batch that the user asks for. The costs of `cluster` (of its first group, for a mixed cluster) choose the
  /// layout. The operators and arguments that `pins` sets keep their strategies; all others are placed as in
  /// Megatron-LM. `trainer` will run the plan.
  ModelLayouts(mlir::MLIRContext &context, ModelSource model, StepOptions step, std::string dtype,
               const Cluster &cluster, const Plan &pins, const Trainer &trainer);

  /// Returns the facts of the training job that completing a plan needs, such as batch and optimizer states. `ranks`
  /// limits the ranks of the cluster; absent: all. Fails when an exported model cannot be imported.
  Result<TrainingJob> job(std::optional<int64_t> ranks);
  /// Returns `completed` with pipeline stages that end at operators rewritten as ranges of layers. The step must have
  /// been imported with the cuts of the plan (StepOptions::cuts).
  Result<Plan> withLayers(const Plan &completed);
  /// Returns the work of the model under the layout `key`; the pointer stays valid as long as this object. Fails with
  /// ExitStatus::Infeasible when the pins do not allow the layout.
  Result<const ModelWork *> work(const LayoutKey &key);
  /// Replaces the list of layouts that `work` will probably be asked for next, the most likely one first. Other threads
  /// compute them, one thread fewer than this machine has processors. An empty list waits until no layout is computed.
  void expect(std::span<const LayoutKey> keys);
  /// Returns the sizes of the mesh axis "model" up to `most` that divide the heads of every attention, and with
  /// `unevenHeads` also the powers of two below the number of heads that have at most two sub-axes (modelSubAxisSizes).
  /// Without attention they divide the channels of every convolution, or else are powers of two.
  Result<std::vector<int64_t>> modelSizes(int64_t most, bool unevenHeads);
  /// Returns the sizes of the mesh axis "expert" up to `most` that divide the number of experts; only 1 in a model
  /// without experts.
  Result<std::vector<int64_t>> expertSizes(int64_t most);
  /// Returns the sizes of the mesh axis "context" up to `most` that divide the sequence length of every attention and
  /// leave each rank at least `tokens` positions; only 1 in a model without attention.
  Result<std::vector<int64_t>> contextSizes(int64_t most, int64_t tokens);
  /// Returns whether the attention of the model can be sharded as the layout `key` says.
  Result<bool> possible(const LayoutKey &key);
  /// Checks whether the step of an exported model can run in microbatches. Fails with the reason, as a compilation
  /// reports it. The answer is cached.
  Status checkMicrobatches();
  /// Returns the warnings of the first import of the model.
  const std::vector<std::string> &warnings() const { return theWarnings; }

private:
  /// Returns the training step of the model, imported with a batch of `microbatch` samples. The batch of an exported
  /// model is fixed: its step has that batch, and `microbatch` is ignored.
  Result<TrainingStep *> imported(int64_t microbatch);
  /// Returns the average number of optimizer-state elements per parameter element, such as 2 for Adam.
  Result<double> momentsPerElement();
  /// A layout that is computed, or is being computed.
  struct Made {
    bool busy = false;                     // whether a thread computes it
    std::optional<Result<ModelWork>> work; // absent until it is computed
    DecidedLayout decided;                 // empty where the layout follows another one
  };
  /// Returns a layout once it is computed, by this thread or by another one.
  const Made &made(const LayoutKey &key);
  /// Computes a layout.
  Result<ModelWork> lay(const LayoutKey &key, DecidedLayout &decided);
  /// Returns the layout that is searched for, and that the layout `key` follows; `key` where it follows no other.
  LayoutKey searchedFor(const LayoutKey &key);
  /// Computes a layout before it is asked for.
  void workAhead(const LayoutKey &key);

  mlir::MLIRContext &context;
  ModelSource model;
  StepOptions step;
  std::string dtype;
  Cluster cluster;
  Plan pins;
  bool ownPrograms;                      // whether Kerf itself runs the plan, and not another trainer
  TrainerMemory memory;                  // what the trainer allocates besides
  std::mutex importing;                  // of `steps`
  std::map<int64_t, TrainingStep> steps; // imported steps by batch; an exported model has the key 0
  std::mutex making;                     // of `layouts` and `possibleLayouts`
  std::condition_variable isMade;        // some layout's work is there
  std::map<LayoutKey, Made> layouts;
  /// Results of `possible`, by sequenceParallel, ulysses, fusedAttention, context and model of the key.
  std::map<std::tuple<bool, bool, bool, int64_t, int64_t>, bool> possibleLayouts;
  std::optional<Status> microbatched;
  std::vector<std::string> theWarnings;
  LayoutsAhead ahead; // last: its threads use all of the above
};

} // namespace kerf
