// SPDX-License-Identifier: Apache-2.0
#include "StepOrder.h"

#include <algorithm>
#include <tuple>

namespace kerf::steps {

StepOrder stepOrder(Schedule schedule) {
  ScheduleTimes times =
      runSchedule(schedule, [](int64_t, const Task &) { return 1.0; }, [](StageChunk, const Task &) { return 0.0; });
  std::vector<std::tuple<double, size_t, size_t>> tasks; // start, stage, task
  for (size_t stage = 0; stage < times.tasks.size(); ++stage)
    for (size_t task = 0; task < times.tasks[stage].size(); ++task)
      tasks.emplace_back(times.tasks[stage][task].start, stage, task);
  std::sort(tasks.begin(), tasks.end());
  StepOrder order{std::move(schedule), {}};
  for (const auto &stage : times.tasks)
    order.places.emplace_back(stage.size());
  for (size_t place = 0; place < tasks.size(); ++place)
    order.places[std::get<1>(tasks[place])][std::get<2>(tasks[place])] = int64_t(place);
  return order;
}

size_t waitTask(const StepOrder &order, int64_t stage, int64_t consumerStage, size_t consumer) {
  const std::vector<int64_t> &own = order.places[size_t(stage)];
  int64_t received = order.places[size_t(consumerStage)][consumer];
  return size_t(std::upper_bound(own.begin(), own.end(), received) - own.begin());
}

} // namespace kerf::steps
