// SPDX-License-Identifier: Apache-2.0
// Lower bounds of the step time of all plans that a choice leaves open (docs/search.md, "The search"), and what they
// are made of, each computed once.
#pragma once

#include "Prices.h"
#include "Space.h"
#include <limits>
#include <tuple>

namespace kerf::plansearch {

/// Bytes that a device may use.
struct MemoryLimit {
  double bytes = 0; // of any device
  bool own = true;  // its own memory counts as well
  double of(const Device &device) const {
    return own ? std::min(bytes, static_cast<double>(device.memoryBytes)) : bytes;
  }
};

class Bounds {
public:
  /// Lays out the model once to learn its layers.
  static Result<Bounds> make(const Cluster &cluster, const TrainingJob &job, const LayoutSource &layouts,
                             const PlanSearchOptions &options, MemoryLimit memoryLimit);

  /// Infinite where no such plan fits. A bound of `enough` or more need not be the best known. Not for choices that are
  /// ready.
  Result<double> of(const Choice &choice, double enough = std::numeric_limits<double>::infinity());

  const Space &space() const { return *theSpace; }
  Result<const ModelWork *> workOf(const LayoutKey &key);
  LayoutKey keyOf(const Choice &choice) const;
  /// Those that differ in where some group of the layout's collectives lies.
  std::vector<Choice> orders(const Choice &layout, const ModelWork &work);
  /// That models of collectives on the cluster may share.
  std::shared_ptr<GroupShapes> groupShapes() const { return shapes; }
  int64_t layoutsMade() const { return layoutCount; }

private:
  Bounds(const Cluster &cluster, const TrainingJob &job, const LayoutSource &layouts, const PlanSearchOptions &options,
         MemoryLimit memoryLimit);
  Result<double> ofMesh(const Choice &choice);
  Result<double> ofLayout(const Choice &choice);
  Result<double> ofOrder(const Choice &choice);
  Result<double> ofExecution(const Choice &choice);
  double evenSeconds(const Choice &choice, const ModelWork &work, const PassSeconds &pass);
  Result<double> ofCut(const Choice &choice, double enough);
  const LinkHeld &heldOfLayout(const LayoutKey &key, const ModelWork &work);
  double recomputeLimit(const Device &device) const;
  struct Group; // of ranks that are alike, as the mesh uses them
  std::vector<Group> groupsOf(const Choice &choice);
  double mixedSeconds(const Choice &choice, const ModelWork &work,
                      const std::function<const PassSeconds &(const Group &)> &passesOf);
  const Cluster &clusterOf(int64_t ranks);
  const PipelineModel &pipelineOf(const Choice &choice);
  struct Sends {
    double on = 0, back = 0;
  };
  Sends sendsOf(const Choice &choice, const ModelWork &work, const PipelineModel &pipeline, int64_t stage);
  bool accumulatesWhole(const Choice &choice) const;
  const PassSeconds &passesOn(const Choice &choice, const ModelWork &work, const CollectiveModel &collectives);
  struct Parameters {
    std::vector<double> stateBytes; // by link
    ParameterSeconds seconds;
  };
  Parameters &parametersOf(const Choice &choice, const ModelWork &work, const CollectiveModel &collectives, int level);

  const Cluster &all;
  const LayoutSource &layouts;
  const PlanSearchOptions &options;
  MemoryLimit memoryLimit;
  std::optional<Space> theSpace;
  /// Returns the overlap of the choice's plan. While schedule and sharding are open, only `tensor` and `products` are
  /// meaningful.
  Overlap overlapOf(const Choice &choice) const;
  const Trainer &trainer;
  StateBytes stateBytes;
  std::optional<Overlap> pinnedOverlap;
  int64_t layoutCount = 0;
  std::map<int64_t, Cluster> clusters;
  std::shared_ptr<GroupShapes> shapes = std::make_shared<GroupShapes>();
  struct Links {                            // of a mesh in an order
    std::unique_ptr<CollectiveModel> alike; // none on a mixed cluster
    std::optional<PipelineModel> pipeline;
  };
  std::map<std::pair<std::array<int64_t, std::size(kPlanAxes)>, AxisOrder>, Links> models;
  std::map<LayoutKey, std::vector<PassSeconds>> kernels; // on the devices of each group
  std::map<LayoutKey, LinkHeld> heldBytesOf;
  std::map<std::tuple<LayoutKey, const CollectiveModel *, bool>, PassSeconds> passes; // by accumulatesWhole
  std::map<std::tuple<LayoutKey, const CollectiveModel *, int, int64_t, bool>, Parameters> parameters;
};

} // namespace kerf::plansearch
