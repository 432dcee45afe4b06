// SPDX-License-Identifier: Apache-2.0
// Seconds of one task of the pipeline (a forward, a backward or half of one) of one part of the model, from its
// segments: kernels, the collectives they wait for, and gathers and reductions of sharded parameters beside them.
#pragma once

#include "kerf/CostModel/Simulator.h"

namespace kerf::cost {

// Compute that runs while a collective moves data loses this share of the collective's seconds: NCCL's channels take 16
// to 24 of a GPU's 108 to 132 SMs and some of its memory bandwidth (docs/cost-model.md).
constexpr double kContention = 0.3;

struct TaskCost {
  double forward = 0, backward = 0, recompute = 0;    // compute, contention included
  std::map<std::string, double> collectives, exposed; // by axes
  double seconds = 0;                                 // all of it: compute and what is exposed
  double tail = 0;                                    // that reductions begun here still need after the task's end
  double beside = 0; // of a last microbatch's task: its gathers and reductions, on the communication stream
  double compute() const { return forward + backward + recompute; }
};

/// Seconds of one layer within a task: `body` on the compute stream, the others on the communication stream.
struct Layer {
  double gather = 0, body = 0, reduce = 0;
  int64_t repeat = 1;     // equal layers that follow each other
  double reduceBytes = 0; // bytes of the gradients that `reduce` sums
};

/// Prices tasks of one work under one plan.
class TaskPricer {
public:
  TaskPricer(const StepWork &work, const StepPlan &plan, const CollectiveModel &collectives)
      : work(work), plan(plan), collectives(collectives) {}

  /// `last`: of the last microbatch, whose backward reduces the gradients of all.
  TaskCost task(int part, TaskKind kind, const LayerModes &recompute, bool last) const;
  /// Reduction of all gradients of a part after its last backward (no overlap), by axes.
  std::map<std::string, double> reduction(int part) const;
  /// Gathers of all parameters of a part after the optimizer (optimizer sharding 1 and 2), by axes.
  std::map<std::string, double> gatherAfterStep(int part) const;
  /// Returns the seconds of the optimizer on a part: bytes through memory, and the products of rules that have them.
  double optimizer(int part) const;

  /// How often a collective runs in one pass, and the bytes of each time.
  std::pair<int64_t, double> runsOf(const PassCollective &collective) const {
    if (inPieces(collective))
      return {kProductPieces, collective.bytes / static_cast<double>(kProductPieces)};
    return {collective.hops, collective.bytes};
  }
  /// Such a layer's backward runs kernels of its forward again.
  bool computesAgain(const Segment &segment, Recompute layer) const;
  /// Adds a microbatch's gradients to those before, where no product does.
  double accumulation(const Segment &segment) const;
  /// Of the copies of what a layer keeps to the host's memory, or back.
  double hostSeconds(const Segment &segment) const;
  /// How ranks share the group's states.
  ShardAxes sharesOf(const ParameterGroup &group) const {
    return plan.optimizerSharding ? shardAxes(group.reduceAxes, plan.shardingAxes) : ShardAxes{{}, group.reduceAxes};
  }
  /// Of a collective of the parameters or gradients of one layer's group among the ranks that share them; of whole ones
  /// (an all-reduce) among all. Gradients that share a bucket have their part of its seconds.
  double groupSeconds(Collective kind, const ParameterGroup &group, double bytesPerElement) const;
  /// Sums the gradients of shares over the ranks that have copies of them, once a step.
  double copiesSeconds(const ShardAxes &shares, double elements) const;

  std::string axisNames(const std::vector<AxisRef> &axes) const;
  /// Ranks over which a group's states are cut.
  double shards(const ParameterGroup &group) const {
    return static_cast<double>(std::max<int64_t>(1, ways(sharesOf(group).cut)));
  }

private:
  bool inPieces(const PassCollective &collective) const { return plan.overlap.products && collective.besideProduct; }
  struct Pass {
    double compute = 0;
    std::map<std::string, double> collectives, exposed;
    double exposedSeconds = 0;
    double independentSeconds = 0; // of collectives that may run beside kernels, not in `exposed`
    std::string independentAxes;
  };
  enum class Which { Forward, InputGradient, WeightGradient };
  /// Remembers those of segments that have a number.
  Pass pass(const Segment &segment, Which which) const;
  /// Of the forward, what such a layer runs again.
  Pass again(const Segment &segment, Recompute layer) const;
  Pass priced(const PassWork &pass, std::optional<Recompute> again = std::nullopt) const;
  /// Runs the independent collectives of both beside their kernels; what does not fit is exposed.
  Pass both(Pass input, const Pass &weights) const;
  struct LayerPasses {
    Pass run, again; // `again` runs parts of the forward once more, for the backward
  };
  LayerPasses layerPasses(const Segment &segment, TaskKind kind, Recompute mode) const;
  /// Returns the gathers and reductions of one layer's parameters, and adds the seconds of `repeat` layers to
  /// `collectives`, by axes.
  Layer parameterTraffic(const Segment &segment, TaskKind kind, bool recomputes, bool last, double repeat,
                         std::map<std::string, double> &collectives) const;

  const StepWork &work;
  const StepPlan &plan;
  const CollectiveModel &collectives;
  mutable std::map<std::pair<int, Which>, Pass> known;
  mutable std::map<std::pair<int, Recompute>, Pass> knownAgain;
};

} // namespace kerf::cost
