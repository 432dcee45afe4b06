// SPDX-License-Identifier: Apache-2.0
#include "Timeline.h"

#include <algorithm>
#include <set>

namespace kerf {

namespace {

constexpr int64_t kMostStages = 16;
constexpr int64_t kMostTasks = 64; // of a stage: a task is then wide enough to be seen
constexpr int64_t kLeastTasks = 8; // of the stage with the fewest, at each end
constexpr double kWorthCutting = 0.1;

/// The first and the last are there, those between at equal distances.
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
  std::vector<std::vector<const TraceEvent *>> tasks(stages); // in their order
  for (const TraceEvent &event : simulation.trace) {
    view.last = std::max(view.last, event.start + event.seconds);
    if (event.task)
      tasks[event.stage].push_back(&event);
  }
  view.stages = someOf(stages);
  view.begin = view.end = view.last;
  int64_t each = std::max(kLeastTasks, kMostTasks / 2 - 8 - stages);
  bool few = std::all_of(tasks.begin(), tasks.end(),
                         [&](const auto &all) { return static_cast<int64_t>(all.size()) <= kMostTasks; });
  if (!few) {
    double begin = 0, end = view.last;
    for (const auto &all : tasks) {
      begin = std::max(begin, all[each - 1]->start + all[each - 1]->seconds);
      end = std::min(end, all[all.size() - each]->start);
    }
    if (end - begin > kWorthCutting * view.last) {
      view.begin = begin;
      view.end = end;
    }
  }
  std::set<int64_t> shown(view.stages.begin(), view.stages.end()), seen, all;
  for (const TraceEvent &event : simulation.trace) {
    bool isShown = event.start < view.begin || event.start + event.seconds > view.end;
    if (event.task) {
      all.insert(event.task->microbatch);
      if (isShown && event.task->kind == TaskKind::Forward)
        seen.insert(event.task->microbatch);
    }
    if (isShown && shown.contains(event.stage) && event.seconds > 0)
      view.events.push_back(event);
  }
  view.hidden = static_cast<int64_t>(all.size() - seen.size());
  return view;
}

} // namespace kerf
