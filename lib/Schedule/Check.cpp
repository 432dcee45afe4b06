// SPDX-License-Identifier: Apache-2.0
// The proof that a schedule does not deadlock, and its timeline. Both walk through the tasks in an order in which every
// task's input has arrived.
#include "kerf/Schedule/Schedule.h"
#include <algorithm>
#include <fmt/format.h>

using namespace kerf;

namespace {

bool isForward(const Task &task) { return task.kind == TaskKind::Forward; }
/// Returns whether the task sends its output to another part.
bool sends(const Task &task) { return task.kind != TaskKind::WeightGradient; }
/// Returns whether the task is a backward or the first half of one.
bool isFirstBackward(const Task &task) {
  return task.kind == TaskKind::Backward || task.kind == TaskKind::InputGradient;
}
/// Returns whether the activations of the microbatch are freed after the task.
bool isLastBackward(const Task &task) {
  return task.kind == TaskKind::Backward || task.kind == TaskKind::WeightGradient;
}

std::optional<StageChunk> inputFrom(const Schedule &schedule, StageChunk part, const Task &task) {
  if (isForward(task))
    return partBefore(schedule, part);
  return isFirstBackward(task) ? partAfter(schedule, part) : std::nullopt;
}

/// The times at which the outputs of forwards and input gradients arrive where they are needed; negative: not yet sent.
class Arrivals {
public:
  explicit Arrivals(const Schedule &schedule)
      : schedule(schedule),
        times(2, std::vector<double>(schedule.stages * schedule.chunks * schedule.microbatches, -1)) {}
  /// Returns the arrival time of the output of a forward (or of an input gradient) on `part`.
  double &of(bool forward, StageChunk part, int64_t microbatch) {
    return times[forward][(part.chunk * schedule.stages + part.stage) * schedule.microbatches + microbatch];
  }

private:
  const Schedule &schedule;
  std::vector<std::vector<double>> times;
};

/// Calls `run(stage, index)` for every task, in an order in which the task's input has arrived; `run` must record what
/// the task sends. Returns the number of tasks that ran on each stage; it is smaller than the number of all tasks if
/// the stages deadlock.
template <typename Run> std::vector<size_t> walk(const Schedule &schedule, Arrivals &arrivals, Run run) {
  auto ready = [&](int64_t stage, const Task &task) {
    std::optional<StageChunk> from = inputFrom(schedule, {stage, task.chunk}, task);
    return !from || arrivals.of(isForward(task), *from, task.microbatch) >= 0;
  };
  std::vector<size_t> next(schedule.stages, 0);
  std::vector<int64_t> work; // stages that may be able to continue, each at most once
  std::vector<char> listed(schedule.stages, 1);
  for (int64_t s = schedule.stages - 1; s >= 0; --s)
    work.push_back(s);
  while (!work.empty()) {
    int64_t stage = work.back();
    work.pop_back();
    listed[stage] = 0;
    while (next[stage] < schedule.order[stage].size() && ready(stage, schedule.order[stage][next[stage]])) {
      const Task &task = schedule.order[stage][next[stage]];
      run(stage, next[stage]++);
      StageChunk part{stage, task.chunk};
      std::optional<StageChunk> to = !sends(task)      ? std::nullopt
                                     : isForward(task) ? partAfter(schedule, part)
                                                       : partBefore(schedule, part);
      if (to && to->stage != stage && !listed[to->stage]) {
        work.push_back(to->stage);
        listed[to->stage] = 1;
      }
    }
  }
  return next;
}

/// Checks that every task occurs once, and that each microbatch runs its forward before its backward (or its input and
/// weight gradients).
Status checkTasks(const Schedule &schedule) {
  for (int64_t s = 0; s < schedule.stages; ++s) {
    // State of each microbatch and chunk: 0 nothing done, 1 forward done, 2 input gradient done, 3 all done.
    std::vector<int> progress(schedule.microbatches * schedule.chunks, 0);
    for (const Task &task : schedule.order[s]) {
      if (task.microbatch < 0 || task.microbatch >= schedule.microbatches || task.chunk < 0 ||
          task.chunk >= schedule.chunks)
        return Error{fmt::format("stage {}: {} is outside {} microbatches and {} chunks", s, toString(task, 2),
                                 schedule.microbatches, schedule.chunks)};
      if ((task.kind == TaskKind::Backward) == schedule.splitBackward && !isForward(task))
        return Error{fmt::format("stage {}: {} in a schedule whose backward is {}", s, toString(task, schedule.chunks),
                                 schedule.splitBackward ? "split" : "not split")};
      int &state = progress[task.chunk * schedule.microbatches + task.microbatch];
      int needed = isForward(task) ? 0 : task.kind == TaskKind::WeightGradient ? 2 : 1;
      if (state != needed)
        return Error{fmt::format("stage {}: {} comes {}", s, toString(task, schedule.chunks),
                                 state < needed ? "before its input" : "twice")};
      state = task.kind == TaskKind::Backward ? 3 : needed + 1;
    }
    for (size_t i = 0; i < progress.size(); ++i)
      if (progress[i] != 3)
        return Error{fmt::format("stage {}: microbatch {} of chunk {} is not finished", s, i % schedule.microbatches,
                                 i / schedule.microbatches)};
  }
  return ok();
}

/// The microbatches in the order in which a part runs its forwards, and its backwards up to the input gradient.
struct PassOrder {
  std::vector<int64_t> forwards, backwards;
};

/// Returns the order of the passes of each part; chunk c of stage s is part c * stages + s.
std::vector<PassOrder> passOrders(const Schedule &schedule) {
  std::vector<PassOrder> orders(schedule.stages * schedule.chunks);
  for (PassOrder &order : orders) {
    order.forwards.reserve(schedule.microbatches);
    order.backwards.reserve(schedule.microbatches);
  }
  for (int64_t s = 0; s < schedule.stages; ++s)
    for (const Task &task : schedule.order[s]) {
      PassOrder &order = orders[task.chunk * schedule.stages + s];
      if (isForward(task))
        order.forwards.push_back(task.microbatch);
      else if (isFirstBackward(task))
        order.backwards.push_back(task.microbatch);
    }
  return orders;
}

} // namespace

Result<ScheduleCheck> kerf::check(const Schedule &schedule) {
  if (schedule.stages < 1 || schedule.microbatches < 1 || schedule.chunks < 1 ||
      static_cast<int64_t>(schedule.order.size()) != schedule.stages)
    return Error{fmt::format("a schedule of {} stages, {} microbatches, {} chunks with orders for {} stages",
                             schedule.stages, schedule.microbatches, schedule.chunks, schedule.order.size())};
  if (Status tasks = checkTasks(schedule); !tasks)
    return tasks.error();

  Arrivals arrivals(schedule);
  std::vector<size_t> done = walk(schedule, arrivals, [&](int64_t stage, size_t index) {
    const Task &task = schedule.order[stage][index];
    if (sends(task))
      arrivals.of(isForward(task), {stage, task.chunk}, task.microbatch) = 0;
  });
  for (int64_t s = 0; s < schedule.stages; ++s)
    if (done[s] < schedule.order[s].size())
      return Error{fmt::format("deadlock: stage {} waits at task {} ({}) for an input that never comes", s, done[s],
                               toString(schedule.order[s][done[s]], schedule.chunks))};

  const std::vector<PassOrder> orders = passOrders(schedule);
  for (int64_t s = 0; s < schedule.stages; ++s)
    for (int64_t c = 0; c < schedule.chunks; ++c)
      if (std::optional<StageChunk> to = partAfter(schedule, {s, c}); to && to->stage != s)
        for (bool forward : {true, false})
          if (const PassOrder &one = orders[c * schedule.stages + s],
              &other = orders[to->chunk * schedule.stages + to->stage];
              forward ? one.forwards != other.forwards : one.backwards != other.backwards)
            return Error{fmt::format("stages {} and {} of chunks {} and {} order their {} microbatches differently", s,
                                     to->stage, c, to->chunk, forward ? "forward" : "backward")};

  ScheduleCheck result;
  for (const std::vector<Task> &order : schedule.order) {
    int64_t held = 0, heldInput = 0, most = 0, mostInput = 0;
    for (const Task &task : order) {
      if (isForward(task)) {
        most = std::max(most, ++held);
        mostInput = std::max(mostInput, ++heldInput);
      }
      held -= isLastBackward(task);
      heldInput -= isFirstBackward(task);
    }
    result.inFlight.push_back(most);
    result.inFlightInputGradient.push_back(mostInput);
  }
  return result;
}

ScheduleTimes kerf::runSchedule(const Schedule &schedule, const TaskSeconds &seconds, const SendSeconds &sendSeconds) {
  ScheduleTimes times;
  times.tasks.resize(schedule.stages);
  for (int64_t s = 0; s < schedule.stages; ++s)
    times.tasks[s].reserve(schedule.order[s].size());
  Arrivals arrivals(schedule);
  std::vector<double> free(schedule.stages, 0);
  double firstStart = 0;
  bool any = false;
  walk(schedule, arrivals, [&](int64_t stage, size_t index) {
    const Task &task = schedule.order[stage][index];
    StageChunk part{stage, task.chunk};
    double start = free[stage];
    if (std::optional<StageChunk> from = inputFrom(schedule, part, task))
      start = std::max(start, arrivals.of(isForward(task), *from, task.microbatch));
    double end = start + seconds(stage, task);
    free[stage] = end;
    times.tasks[stage].push_back({start, end});
    if (sends(task)) {
      std::optional<StageChunk> to = isForward(task) ? partAfter(schedule, part) : partBefore(schedule, part);
      bool leaves = to && to->stage != stage;
      arrivals.of(isForward(task), part, task.microbatch) = end + (leaves ? sendSeconds(part, task) : 0);
    }
    firstStart = any ? std::min(firstStart, start) : start;
    any = true;
  });
  for (const std::vector<TaskTime> &stage : times.tasks)
    if (!stage.empty()) {
      times.makespan = std::max(times.makespan, stage.back().end - firstStart);
      times.longestStageSpan = std::max(times.longestStageSpan, stage.back().end - stage.front().start);
    }
  return times;
}
