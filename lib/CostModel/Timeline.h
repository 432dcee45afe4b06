// SPDX-License-Identifier: Apache-2.0
// The tasks of a step with their costs, and the work that follows the last task of each stage. The simulator and its
// lower bounds share them.
#pragma once

#include "TaskCost.h"
#include "kerf/CostModel/Simulator.h"
#include <array>
#include <deque>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

namespace kerf::cost {

/// Checks that the plan and the network have the stages, chunks and parts of the work, and that devices have what the
/// plan needs.
Status checkFits(const StepWork &work, const StepPlan &plan, const PipelineModel &pipeline);

/// Prices every distinct task of the step once. Stages with the same device, mesh and optimizer sharding share the
/// costs of tasks; backwards share them only if they also recompute the same layers.
class Timeline {
public:
  /// The references must outlive the object.
  Timeline(const StepWork &work, const StepPlan &plan, const PipelineModel &pipeline);

  const TaskPricer &pricer(int64_t stage) const { return pricers[kindOfStage[stage]]; }

  /// Returns the cost of a task.
  const TaskCost &cost(int64_t stage, const Task &task);

  /// Returns the seconds of the message that a task sends. If messages do not overlap with compute, the sender's task
  /// is extended by these seconds.
  double sendSeconds(int64_t stage, const Task &task) const {
    int64_t part = task.chunk * plan.schedule.stages + stage;
    return task.kind == TaskKind::Forward ? toNext[part] : toPrevious[part];
  }
  /// Returns whether a task sends a message to another stage.
  bool leaves(const Schedule &schedule, int64_t stage, const Task &task) const;

  /// Returns the durations of the passes on each stage, for schedules whose order is searched.
  std::vector<PassDurations> durations();

  /// Returns by how many seconds a stage can at most be faster, from its first to its last task, than with `durations`:
  /// each stage begins at the same time as with them, and nothing takes less, except for the last weight gradient,
  /// which is the last task of its stage. Returns nothing where more than that is different.
  std::optional<double> mostBelow(const std::vector<PassDurations> &durations);

  /// Assigns the index of a cost to each stage and chunk; tasks with the same index cost the same. Called again after
  /// the plan's recomputation has changed, it keeps the costs of all tasks known so far.
  void numberTasks();

  const StepWork &work;
  const StepPlan &plan;
  const PipelineModel &pipeline;

private:
  struct StageKind {
    int group;
    int optimizerSharding;
    auto operator<=>(const StageKind &) const = default;
  };
  static constexpr size_t kTasks = 2 * (static_cast<size_t>(TaskKind::WeightGradient) + 1);
  struct Numbers { // indices into `costs`
    size_t plain, restoring;
  };

  std::map<StageKind, int> kinds;
  std::deque<StepPlan> plans; // a deque, because the pricers refer to its elements
  std::vector<TaskPricer> pricers;
  std::vector<int> kindOfStage;
  std::vector<double> toNext, toPrevious;                                            // message seconds, by part
  std::map<std::tuple<int, int, LayerModes, const GradientChoices *>, size_t> known; // indices into `costs`
  std::vector<Numbers> numbersOf;
  std::deque<std::array<std::optional<TaskCost>, kTasks>> costs;
};

/// The work that follows a stage's last task, in seconds.
struct Ending {
  SecondsByAxes reduction;   // exposed seconds
  SecondsByAxes gather;      // exposed seconds
  SecondsByAxes collectives; // seconds, overlapped or not
  double tied = 0;           // seconds of the sum of the gradients of tied parameters
  double optimizer = 0;      // seconds of the update
};

/// Returns the work that follows the last task of `stage`.
Ending endingOf(Timeline &timeline, int64_t stage);

} // namespace kerf::cost
