// SPDX-License-Identifier: Apache-2.0
// The seconds of one task of the pipeline schedule (a forward, a backward or half of a backward) on one part of the
// model. The cost of a task consists of the kernels of its segments, the collectives that the kernels wait for, and the
// gathers and reductions of parameters on the communication stream.
#pragma once

#include "SecondsByAxes.h"
#include "kerf/Compression/Timeline.h"
#include "kerf/CostModel/CompressedGradients.h"
#include <map>
#include <tuple>

namespace kerf::cost {

/// Share of a collective's seconds by which it slows down compute that runs at the same time: NCCL's channels occupy 16
/// to 24 of a GPU's 108 to 132 SMs and some of its memory bandwidth (docs/cost-model.md).
constexpr double kContention = 0.3;

/// The seconds of one task.
struct TaskCost {
  double forward = 0, backward = 0, recompute = 0; // compute seconds, including the slow-down by concurrent collectives
  SecondsByAxes collectives;                       // seconds of collectives, overlapped or not
  SecondsByAxes exposed;                           // the part of `collectives` in which no kernel runs
  double seconds = 0;                              // duration of the task: compute and exposed communication
  double tail = 0; // seconds for which reductions that the task started continue after its end
  /// Seconds of gathers and reductions on the communication stream; set for tasks of the last microbatch only.
  double besideSeconds = 0;
  /// Returns the seconds in which kernels run.
  double compute() const { return forward + backward + recompute; }
};

/// Prices the tasks of a step under one plan, on one set of ranks with the same device and network. Passes that occur
/// several times are priced once.
class TaskPricer {
public:
  TaskPricer(const StepWork &work, const StepPlan &plan, const CollectiveModel &collectives)
      : work(work), plan(plan), collectives(collectives) {}

  /// Returns the cost of a task of kind `kind` on part `part` of the work, whose layers have the recomputation modes
  /// `recompute`. `last` says whether the task belongs to the last microbatch, whose backward reduces all gradients.
  /// `choices` says how the gradients of the part are synchronized; null: none is compressed.
  TaskCost task(int part, TaskKind kind, const LayerModes &recompute, bool last,
                const GradientChoices *choices = nullptr) const;
  /// Returns the backward of the part's last microbatch as a problem of the planner of compression.
  PartProblem problem(int part, TaskKind kind, const LayerModes &recompute, const OptionSource &options) const;
  /// Returns the seconds in which the gradients of a part are reduced after its last backward, if the reduction does
  /// not overlap with the backward.
  SecondsByAxes reduction(int part) const;
  /// Returns the seconds in which the parameters of a part are gathered after the optimizer (ZeRO stages 1 and 2).
  SecondsByAxes gatherAfterStep(int part) const;
  /// Returns the seconds of the optimizer's update of a part: memory traffic, and matrix products (Muon).
  double optimizer(int part) const;

  /// Returns how often a collective runs in one pass, and the bytes of each run.
  std::pair<int64_t, double> runsOf(const PassCollective &collective) const {
    if (inPieces(collective))
      return {kProductPieces, collective.bytes / static_cast<double>(kProductPieces)};
    return {collective.hops, collective.bytes};
  }
  /// Returns whether the backward of a layer with the recomputation mode `layer` recomputes kernels of its forward.
  bool recomputesKernels(const Segment &segment, Recompute layer) const;
  /// Returns the seconds in which one layer's gradients of a microbatch are added to those of earlier microbatches; 0
  /// if the products that compute the gradients do this.
  double accumulation(const Segment &segment) const;
  /// Returns the seconds in which one layer's saved activations are copied to the host's memory, or back.
  double hostSeconds(const Segment &segment) const;
  /// Returns the mesh axes over which the optimizer states of a parameter group are cut and copied under this plan.
  ShardAxes shardAxesOf(const ParameterGroup &group) const {
    return plan.optimizerSharding ? shardAxes(group.reduceAxes, plan.shardingAxes) : ShardAxes{{}, group.reduceAxes};
  }
  /// Returns the seconds of one collective of the parameters or gradients of one layer's group: an all-reduce over all
  /// ranks that have the parameters, any other collective over the ranks that share the states. Gradients that share a
  /// bucket are charged their part of the bucket's seconds.
  double groupSeconds(Collective kind, const ParameterGroup &group, double bytesPerElement) const;
  /// Returns the seconds of the all-reduce, once per step, of gradient shards over the ranks that have copies of them.
  /// `elements` counts the elements before sharding.
  double copiesSeconds(const ShardAxes &shares, double elements) const;

  /// Returns the cost of one synchronization of a group's gradients, compressed as `choice` says. `last` says whether
  /// the shards of the last microbatch are summed over ranks with copies too.
  compression::SyncCost syncOf(const ParameterGroup &group, const compression::SyncChoice &choice, bool last) const;
  /// Returns the axes over which the group's gradients are summed by the scheme of the plan.
  std::vector<AxisRef> syncAxes(const ParameterGroup &group) const {
    return plan.optimizerSharding >= 1 ? shardAxesOf(group).cut : group.reduceAxes;
  }
  /// Returns the bytes of an element of a gradient that is not compressed.
  double gradientWidth() const { return plan.optimizerSharding >= 2 ? plan.bytes.weight : plan.bytes.gradient; }
  /// Returns whether the gradients of a task are summed beside it.
  bool sumsBeside(TaskKind kind, bool last) const {
    return kind != TaskKind::Forward && kind != TaskKind::InputGradient &&
           (plan.optimizerSharding >= 2 || (last && plan.overlap.gradients));
  }

  /// Returns the names of mesh axes joined by "+", each once: "data+context".
  std::string axisNames(const std::vector<AxisRef> &axes) const { return nameOf(axesKey(axes), collectives.mesh()); }
  /// Returns the number of shards into which the states of a parameter group are cut.
  double shards(const ParameterGroup &group) const {
    return static_cast<double>(std::max<int64_t>(1, shardCount(shardAxesOf(group).cut)));
  }

private:
  /// Whether the collective is split into pieces that overlap with pieces of a product.
  bool inPieces(const PassCollective &collective) const { return plan.overlap.products && collective.overlapsProduct; }
  /// The seconds of one pass over one layer.
  struct Pass {
    double compute = 0;
    SecondsByAxes collectives, exposed;
    double exposedSeconds = 0;     // sum of `exposed`
    double independentSeconds = 0; // collectives that may overlap with kernels; not in `exposed`
    AxesKey independentAxes = AxesKey::None;
    /// Exchanges of tokens that may run beside the other pass (Overlap::experts); not in `exposed`.
    double tokenSeconds = 0;
    AxesKey tokenAxes = AxesKey::None;
  };
  /// Returns the seconds of a pass, cached for segments that have a chainIndex.
  Pass pass(const Segment &segment, PassKind kind) const;
  /// Returns the seconds of the part of the forward pass that a layer with the mode `layer` recomputes.
  Pass recomputedPass(const Segment &segment, Recompute layer) const;
  /// Returns the seconds of `pass`; with a mode, only of what a layer with this mode recomputes.
  Pass priced(const PassWork &pass, std::optional<Recompute> recomputed = std::nullopt) const;
  /// Returns the sum of two passes, each of whose independent collectives run beside the kernels of the other pass; the
  /// seconds that do not fit there are exposed.
  Pass combined(Pass input, const Pass &weights) const;
  /// Hides a pass's exchanges of tokens behind `kernelSeconds` of the other pass, and exposes the rest.
  Pass withTokensBeside(Pass pass, double kernelSeconds) const;
  struct LayerPasses {
    Pass run;        // the task's own passes
    Pass recomputed; // parts of the forward that the backward recomputes
  };
  LayerPasses layerPasses(const Segment &segment, TaskKind kind, Recompute mode) const;
  /// The gathers and reductions of one layer's parameters.
  struct Traffic {
    compression::StreamLayer layer; // without the seconds of the layer's own kernels
    SecondsByAxes collectives;
  };
  /// Returns the gathers and reductions of one layer's parameters. `choices` points to the choice of each group's
  /// gradients, or is null.
  Traffic parameterTraffic(const Segment &segment, TaskKind kind, bool recomputes, bool last,
                           const compression::SyncChoice *choices) const;
  /// The functions below return what layerPasses and parameterTraffic (without choices) return, computed once for each
  /// segment of the work.
  const LayerPasses &knownPasses(const Segment &segment, TaskKind kind, Recompute mode) const;
  const Traffic &knownTraffic(const Segment &segment, TaskKind kind, bool recomputes, bool last) const;
  /// Returns the seconds in which a layer's kernels run and wait for collectives, copies of offloaded activations
  /// included; `copySeconds` gets the seconds of these copies.
  double bodySeconds(const Segment &segment, Recompute mode, const LayerPasses &layer, double &copySeconds) const;
  compression::StreamRules streamRules() const {
    return {plan.overlap.parameters, plan.overlap.gradients, plan.trainer.bucketBytes};
  }

  const StepWork &work;
  const StepPlan &plan;
  const CollectiveModel &collectives;
  mutable std::map<std::pair<int, PassKind>, Pass> passCache;
  mutable std::map<std::pair<int, Recompute>, Pass> recomputedCache;
  mutable std::map<std::tuple<const Segment *, TaskKind, Recompute>, LayerPasses> passesOfLayers;
  mutable std::map<std::tuple<const Segment *, TaskKind, bool, bool>, Traffic> trafficOfLayers;
};

} // namespace kerf::cost
