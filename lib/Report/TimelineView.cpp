// SPDX-License-Identifier: Apache-2.0
#include "Timeline.h"

#include <algorithm>
#include <set>

namespace kerf {

namespace {

constexpr int64_t kMostStages = 16;
constexpr int64_t kMostTasks = 64; // most tasks of a stage for which all are wide enough to be seen
constexpr int64_t kLeastTasks = 8; // fewest tasks of a stage that are shown at each end
constexpr double kWorthCutting = 0.1;

/// Returns at most kMostStages stages at equal distances, including the first and the last.
std::vector<int64_t> someOf(int64_t stages) {
  std::vector<int64_t> some;
  int64_t count = std::min(stages, kMostStages);
  for (int64_t i = 0; i < count; ++i)
    some.push_back(count == 1 ? 0 : i * (stages - 1) / (count - 1));
  return some;
}

} // namespace

TimelineView timelineView(const Simulation &simulation) {
  TimelineView view;
  auto stages = static_cast<int64_t>(simulation.memory.size());
  std::vector<std::vector<const TraceEvent *>> tasks(stages); // for each stage, in order of time
  for (const TraceEvent &event : simulation.trace) {
    view.endSeconds = std::max(view.endSeconds, event.start + event.seconds);
    if (event.task)
      tasks[event.stage].push_back(&event);
  }
  view.stages = someOf(stages);
  view.gapBegin = view.gapEnd = view.endSeconds;
  int64_t each = std::max(kLeastTasks, kMostTasks / 2 - 8 - stages);
  bool few = std::all_of(tasks.begin(), tasks.end(),
                         [&](const auto &all) { return static_cast<int64_t>(all.size()) <= kMostTasks; });
  if (!few) {
    double begin = 0, end = view.endSeconds;
    for (const auto &all : tasks) {
      begin = std::max(begin, all[each - 1]->start + all[each - 1]->seconds);
      end = std::min(end, all[all.size() - each]->start);
    }
    if (end - begin > kWorthCutting * view.endSeconds) {
      view.gapBegin = begin;
      view.gapEnd = end;
    }
  }
  std::set<int64_t> shown(view.stages.begin(), view.stages.end()), seen, all;
  for (const TraceEvent &event : simulation.trace) {
    bool isShown = event.start < view.gapBegin || event.start + event.seconds > view.gapEnd;
    if (event.task) {
      all.insert(event.task->microbatch);
      if (isShown && event.task->kind == TaskKind::Forward)
        seen.insert(event.task->microbatch);
    }
    if (isShown && shown.contains(event.stage) && event.seconds > 0)
      view.events.push_back(event);
  }
  view.hiddenMicrobatches = static_cast<int64_t>(all.size() - seen.size());
  return view;
}

} // namespace kerf
