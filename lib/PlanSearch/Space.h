// SPDX-License-Identifier: Apache-2.0
// The plans that are searched (docs/search.md, "The whole plan"), as a tree: each level decides some more.
#pragma once

#include "kerf/PlanSearch/PlanSearch.h"

namespace kerf::plansearch {

/// Sizes of the axes, in the order of kPlanAxes.
struct Frame {
  int64_t stage = 1, data = 1, context = 1, expert = 1, model = 1;
  int64_t ranks() const { return stage * data * context * expert * model; }
};

/// How microbatches pass through the stages.
struct Pipelining {
  std::string name, variant;
  int64_t chunks = 1;
};

/// A plan as far as it is decided.
struct Choice {
  enum class Level { Mesh, Layout, Execution, Cut, Ready };
  Level level = Level::Mesh;
  Frame frame;
  // Layout
  int64_t microbatch = 0;
  bool sequenceParallel = false;
  // Execution
  std::vector<std::string> order;
  Pipelining pipelining;
  std::vector<int64_t> optimizerSharding;
  // Cut: layers of the first and of the last part; those between share the rest evenly, the first ones one more.
  int64_t first = 0, last = 0;
  // Ready: known to fit where the schedule's order is known
  std::vector<std::string> recompute;
};

class Space {
public:
  /// `layers` of the model that can be cut; `given` says what stays.
  Space(const PlanSearchOptions &options, const TrainingJob &job, int64_t ranks, int64_t layers);

  /// Refuses constraints that leave nothing.
  Result<std::vector<Choice>> meshes() const;
  std::vector<Choice> layouts(const Choice &mesh) const;
  std::vector<Choice> executions(const Choice &layout) const;
  std::vector<Choice> cuts(const Choice &execution) const;

  int64_t globalBatch() const { return batch; }
  int64_t layers() const { return layerCount; }
  /// Microbatches of one data group.
  int64_t microbatches(const Choice &choice) const {
    return batch / (choice.frame.data * choice.frame.expert * choice.microbatch);
  }
  /// What is decided, on top of the constraints.
  Plan plan(const Choice &choice) const;
  /// Layers of each part; needs all that is decided at Level::Cut.
  std::vector<int64_t> layersOfParts(const Choice &choice) const;

private:
  std::vector<int64_t> sizes(const char *axis, const std::vector<int64_t> &all) const;

  const PlanSearchOptions &options;
  const Plan &given;
  int64_t available, layerCount, batch;
};

} // namespace kerf::plansearch
