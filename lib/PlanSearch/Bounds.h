// SPDX-License-Identifier: Apache-2.0
// Lower bounds of the step time of all plans below a choice of the search tree (docs/search.md, "The search"). Results
// on which bounds depend are computed once and kept.
#pragma once

#include "CutBound.h"
#include "Space.h"
#include <limits>
#include <tuple>

namespace kerf::plansearch {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kSumRounding = 1 - 1e-9; // relative difference of sums of doubles in another order

/// The memory that a plan may use on each device.
struct MemoryLimit {
  double bytes = 0;           // on any device; infinite: no limit of its own
  bool cappedByDevice = true; // whether the device's own memory limits it as well
  /// Returns the bytes that a plan may use on `device`.
  double onDevice(const DeviceSpec &device) const {
    return cappedByDevice ? std::min(bytes, static_cast<double>(device.memoryBytes)) : bytes;
  }
};

/// Returns the bytes of weights, gradients and optimizer states per parameter, under plans that keep the constraints
/// and the states as `states` says.
StateBytes keptStateBytes(const TrainingJob &job, const Plan &constraints, OptimizerStates states);
/// Returns the least of these bytes under all plans of the search space.
StateBytes plannedStateBytes(const TrainingJob &job, const Plan &constraints);

/// Describes the memory limit of a cluster's devices, for messages.
std::string limitText(const MemoryLimit &limit, const Cluster &cluster);

/// Computes lower bounds of choices. All references passed to `make` must outlive the object.
class Bounds {
public:
  /// Makes the bounds and the search space. Lays out the model once to learn its number of layers. Fails when the model
  /// cannot be laid out on one rank.
  static Result<Bounds> make(const Cluster &cluster, const TrainingJob &job, const LayoutSource &layouts,
                             const PlanSearchOptions &options, MemoryLimit memoryLimit);

  /// Returns a lower bound, in seconds, of the step time of all plans below `choice`; infinite when none of them fits
  /// into memory. Once the bound reaches `cutoff`, it need not be the tightest one. 0 for Choice::Level::Recomputation.
  Result<double> lowerBound(const Choice &choice, double cutoff = std::numeric_limits<double>::infinity());

  /// The work from which the share of a rank is taken before the layout is known: that on one rank, or that of the
  /// layout without "context", in which each rank has the whole sequence.
  enum class ShareOf : int8_t { OneRank, WholeSequence };
  /// Returns a lower bound, in seconds, of the step time of all plans below a choice of Level::Layout. It is computed
  /// without the layout, and is at most the choice's `lowerBound`. 0 where the work of which it is a share is unknown.
  Result<double> boundBeforeLayout(const Choice &choice, ShareOf whole = ShareOf::OneRank);

  /// Returns a lower bound, in seconds, of the step time of all plans below a choice of Level::Mesh or Level::Layout,
  /// computed from communication that no layout avoids, without the layout. `known` is a lower bound, and the result is
  /// no less.
  Result<double> boundWithCommunication(const Choice &choice, double known, ShareOf whole = ShareOf::OneRank);

  /// Returns a lower bound, in seconds, of the step time of all plans below a choice of Level::Layout with "context",
  /// computed from the layout without it: "context" cuts tokens and nothing else. `known` is as above, and is returned
  /// where no better bound is known.
  Result<double> boundOfWholeSequence(const Choice &choice, double known);
  /// Returns the layout from which `boundOfWholeSequence` is computed.
  LayoutKey wholeSequenceKeyOf(const Choice &choice) const;

  /// Returns a lower bound, in seconds, of the step time of all plans below a choice of Level::Execution, computed from
  /// the layers and the memory of each part that every cut has; 0 where nothing is known. `cutoff` is as above.
  Result<double> boundOfAllCuts(const Choice &execution, double cutoff);

  /// Returns the search space whose choices are bounded.
  const Space &space() const { return *theSpace; }
  /// Returns the model's work under a layout; null when the model cannot be laid out so.
  Result<const ModelWork *> workOf(const LayoutKey &key);
  /// Returns whether this object was given the work under a layout.
  bool isMade(const LayoutKey &key) const { return kernelSeconds.contains(key); }
  /// Returns the layout of all plans below `choice`.
  LayoutKey keyOf(const Choice &choice) const;
  /// Returns the orders of the mesh axes of a layout, without orders under which all of the layout's collectives run on
  /// the same links as under an order before.
  std::vector<Choice> orders(const Choice &layout, const ModelWork &work);
  /// Returns a cache that models of collectives on the cluster may share.
  std::shared_ptr<GroupShapes> groupShapes() const { return shapes; }
  /// Returns the number of layouts of the model that were computed.
  int64_t layoutsMade() const { return layoutCount; }

private:
  Bounds(const Cluster &cluster, const TrainingJob &job, const LayoutSource &layouts, const PlanSearchOptions &options,
         MemoryLimit memoryLimit);
  // One bound for each level of the search tree.
  Result<double> meshBound(const Choice &choice);
  Result<double> layoutBound(const Choice &choice);
  Result<double> orderBound(const Choice &choice);
  Result<double> executionBound(const Choice &choice);
  Result<double> cutBound(const Choice &choice, const std::vector<int64_t> &layersOfParts, double cutoff);
  /// Returns the seconds of recomputation for one microbatch that memory forces on stages that are filled evenly,
  /// whatever schedule and optimizer sharding are.
  double forcedEvenly(const Choice &choice, const ModelWork &work, const ActivationBytes &activations,
                      const PassSeconds &pass);
  /// Returns a bound for stages that are filled evenly, whatever schedule and optimizer sharding are.
  double evenSeconds(const Choice &choice, const ModelWork &work, const ActivationBytes &activations,
                     const PassSeconds &pass);
  const ActivationBytes &activationBytesOfLayout(const LayoutKey &key, const ModelWork &work);
  /// Returns the bytes that a plan may allocate on one rank of each stage, all stages together.
  double roomOfStages(const Choice &choice);
  /// Returns whether every part of the model that cannot be cut fits on some device of the mesh. `stateBytes` is as
  /// stateBytesOf, for optimizer sharding of `level`; null: for the level with which each part takes the fewest bytes.
  bool partsFit(const Choice &choice, const ModelWork &work, const std::vector<double> *stateBytes, int level);
  /// Returns the memory limit that forces recomputation; infinite where the constraints decide recomputation.
  double recomputeLimit(const DeviceSpec &device) const;
  /// The stages of a mesh that lie in one device group.
  struct StageGroup {
    const Cluster *cluster = nullptr;
    size_t number = 0; // index in uniformGroups
    int64_t firstStage = 0, stages = 0;
  };
  std::vector<StageGroup> stageGroups(const Choice &choice);
  /// Returns a bound for a mixed cluster: each stage does at most a share of the layers in proportion to its speed.
  double mixedSeconds(const Choice &choice, const ModelWork &work,
                      const std::function<const PassSeconds &(const StageGroup &)> &passesOf);
  /// Returns the cluster's first `ranks` ranks.
  const Cluster &clusterOf(int64_t ranks);
  /// Returns these ranks as one of them sees them, for CollectiveModel.
  std::shared_ptr<const Cluster> clusterOfRanks(int64_t ranks);
  /// Returns the model of communication of the choice's mesh and axis order.
  const PipelineModel &pipelineOf(const Choice &choice);
  /// Seconds of a stage's messages to the next and to the previous stage; 0 where there is none.
  struct MessageSeconds {
    double forward = 0, backward = 0;
  };
  MessageSeconds messageSecondsOf(const Choice &choice, const ModelWork &work, const PipelineModel &pipeline,
                                  int64_t stage);
  /// Returns the seconds after their last tasks in which the first and the last stage sum the gradients of parameters
  /// that both hold (tied embeddings).
  double tiedSeconds(const Choice &choice, const ModelWork &work);
  /// Bounds the tasks of the stages under a choice of Level::Execution, and `reduction` seconds, the sum over the
  /// stages, of reductions after the tasks. `forced` is the recomputation of a microbatch that memory forces, in
  /// seconds. With 0 seconds of reductions, it bounds the end of the first stage's last task if the schedule splits no
  /// backward pass.
  double tasksBound(const Choice &choice, const ModelWork &work, const PassSeconds &pass, double forced,
                    double reduction);
  /// Seconds of one microbatch in the first parts of the stages, each stage's as often as stages follow it.
  struct FirstPartSeconds {
    double forward = 0, backward = 0;
  };
  /// Returns the least of these seconds over all cuts of the searched space, for a pipeline of several chunks.
  FirstPartSeconds firstPartSeconds(const Choice &choice, const ModelWork &work, const PassSeconds &pass) const;
  /// Returns whether kernels add the unsharded gradients of all parameters to their sums in every microbatch, whatever
  /// is decided below the choice.
  bool accumulatesFullGradients(const Choice &choice) const;
  /// Returns the level of optimizer sharding if every plan below the choice reduces its gradients beside every
  /// microbatch's backward pass; 0 if none or not all of them do.
  int microbatchReductionLevel(const Choice &choice) const;
  /// Returns the seconds of the choice's passes with the collectives on their links.
  const PassSeconds &passesOn(const Choice &choice, const ModelWork &work, const CollectiveModel &collectives);
  /// Bytes of states and seconds of parameter communication.
  struct Parameters {
    std::vector<double> stateBytes;    // as stateBytesOf
    std::vector<double> gatheredBytes; // as CutPrices::gatheredBytes
    ParameterSeconds seconds;
    double updatedElements = 0; // elements of the whole model that one rank's optimizer updates
  };
  Parameters &parametersOf(const Choice &choice, const ModelWork &work, const CollectiveModel &collectives, int level);

  /// The least share that a rank has in the work of a microbatch.
  struct LeastShare {
    ModelWork work;
    std::vector<PassSeconds> passes; // without communication, indexed by device group
    PassSeconds kernels;             // of the first group, without the host's seconds to issue kernels
    ActivationBytes activations;
  };
  /// Returns the least share of a rank under a choice of Level::Layout; null when the work is not known.
  Result<const LeastShare *> leastShareOf(const Choice &choice, ShareOf whole);

  /// Returns the work of a layout of one sample with the given sizes, without "context"; null when it is not known.
  const ModelWork *workOfSample(int64_t model, int64_t expert, bool sequenceParallel);
  /// Returns the collectives over "model" of the layers for one sample, which layouts of Megatron-LM with any sizes of
  /// the other axes have too.
  const std::vector<RepeatedCollective> &collectivesOfModel(int64_t model, bool sequenceParallel);
  /// Returns the exchanges of tokens of the layers for one sample, which all layouts with as many ranks of "expert"
  /// share.
  const std::vector<RepeatedCollective> &exchangesOfTokens(int64_t expert);
  /// Least seconds in which the layers of a microbatch wait for collectives, by pass.
  struct WaitingSeconds {
    double forward = 0, inputGradient = 0, weightGradient = 0;
    double total() const { return forward + inputGradient + weightGradient; }
  };
  WaitingSeconds leastWaiting(const Choice &order, const CollectiveModel &collectives);
  /// Returns the collectives of a mesh in an order of its axes, on a cluster whose ranks are all alike. The reference
  /// is valid until the next call: there are many more such orders than those of the layouts that are computed.
  const CollectiveModel &collectivesOf(const Choice &order);
  /// Least seconds of communication of parameters under every layout with the choice's sizes.
  struct LeastReductions {
    double everyMicrobatch = 0, last = 0; // as ParameterSeconds::everyMicrobatch, and the sum of the totals
    double stateBytes = 0;                // of parameters, gradients and states, all stages together
  };
  LeastReductions leastReductionsOf(const Choice &order, const CollectiveModel &collectives, int level,
                                    int64_t shardingRanks);

  const Cluster &all;
  const LayoutSource &layouts;
  const PlanSearchOptions &options;
  MemoryLimit memoryLimit;
  std::optional<Space> theSpace;
  /// Returns the overlap of the plans below the choice. While schedule and optimizer sharding are undecided, only
  /// `tensor` and `products` are meaningful.
  Overlap plannedOverlap(const Choice &choice) const;
  const Trainer &trainer;
  StateBytes stateBytes;                                                             // the least of all plans
  std::array<StateBytes, PlanWords<OptimizerStates>::words.size()> stateBytesOfKind; // indexed by OptimizerStates
  /// Returns the bytes of the plans below the choice, the least ones while how states are kept is undecided.
  const StateBytes &stateBytesAt(const Choice &choice) const {
    bool decided = choice.level >= Choice::Level::Execution;
    return decided ? stateBytesOfKind[static_cast<size_t>(choice.states)] : stateBytes;
  }
  /// Returns a lower bound of the seconds after the last reduction, in which the slowest stage updates its parameters
  /// and gathers them: the mean over the stages.
  Result<double> updateSeconds(const Choice &choice);
  std::optional<Overlap> pinnedOverlap;
  int64_t layoutCount = 0;
  std::map<int64_t, Cluster> clusters;                               // first ranks of the cluster, by their number
  std::map<int64_t, std::shared_ptr<const Cluster>> clustersOfRanks; // as clusterOfRanks returns them
  std::shared_ptr<GroupShapes> shapes = std::make_shared<GroupShapes>();
  /// The model of communication of a mesh in an axis order.
  struct MeshModels {
    std::unique_ptr<CollectiveModel> alike; // null on a mixed cluster
    std::optional<PipelineModel> pipeline;
  };
  std::map<std::pair<std::array<int64_t, std::size(kPlanAxes)>, AxisOrder>, MeshModels> models;
  std::map<LayoutKey, std::vector<PassSeconds>> kernelSeconds; // without communication, indexed by device group
  std::map<LayoutKey, ActivationBytes> activationBytesByLayout;
  /// By layout whose work is shared, number of ranks that share it, and number of ranks of ring attention.
  std::map<std::tuple<LayoutKey, int64_t, int64_t>, std::optional<LeastShare>> leastShares;
  std::map<std::pair<int64_t, bool>, std::vector<RepeatedCollective>> modelCollectives; // by "model", sequenceParallel
  std::map<int64_t, std::vector<RepeatedCollective>> tokenExchanges;                    // by "expert"
  std::map<std::tuple<int64_t, int64_t, bool>, ModelWork> leastParameters; // by "model", "expert", and whether staged
  std::map<std::pair<std::array<int64_t, std::size(kPlanAxes)>, AxisOrder>, std::unique_ptr<CollectiveModel>>
      communication; // by sizes and order of the mesh axes
  /// Indexed by sizes and order of the mesh axes, level and ranks of optimizer sharding.
  std::map<std::tuple<std::array<int64_t, std::size(kPlanAxes)>, AxisOrder, int, int64_t>, LeastReductions> reductions;
  /// Indexed by layout, links, accumulatesFullGradients, microbatchReductionLevel, the ranks that share the states,
  /// whether the schedule splits the backward pass, and whether exchanges of tokens overlap.
  std::map<std::tuple<LayoutKey, const CollectiveModel *, bool, int, int64_t, bool, bool>, PassSeconds> passes;
  std::map<std::tuple<LayoutKey, const CollectiveModel *, int, int64_t, bool, double>, Parameters> parameters;
};

} // namespace kerf::plansearch
