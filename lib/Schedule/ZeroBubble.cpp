// SPDX-License-Identifier: Apache-2.0
// Zero-bubble orders: Qi, Wan, Huang & Lin, "Zero Bubble Pipeline Parallelism" (ICLR 2024, arXiv:2401.10241).
//
// A stage may hold the activations of `limit` microbatches; the share `weightGradientShare` of a microbatch's
// activations stays from its input gradient to its weight gradient. The handcrafted orders (sections 2.1 and 2.2) take
// this share as 1 and fill the limit on every stage: stage s runs its first input gradient after w forwards and runs
// weight gradients `limit - w` microbatches later. The searched orders (section 3) are list schedules for the given
// durations: the best of several rules and of the handcrafted order.
#include "Internal.h"
#include "kerf/Support/Threads.h"
#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>

using namespace kerf;

namespace {

struct Rule {
  /// The share of a weight gradient's duration by which it may delay the next task.
  double patience;
  /// Whether forwards run before input gradients if both are ready; after the first gradient they alternate.
  bool eagerForward;
  /// Whether a stage at its memory limit runs a weight gradient as soon as possible, to make room for a forward that
  /// has arrived.
  bool makeRoom;
  /// Whether no forward starts that would delay the first input gradient, for which all previous stages wait.
  bool awaitFirst;
};

std::vector<Rule> allRules() {
  std::vector<Rule> rules;
  for (double patience : {0.0, 0.5, 1.0})
    for (bool eagerForward : {false, true})
      for (bool makeRoom : {false, true})
        for (bool awaitFirst : {false, true})
          rules.push_back({patience, eagerForward, makeRoom, awaitFirst});
  return rules;
}

std::vector<PassDurations> durationsOfStages(const ScheduleOptions &options) {
  return options.durations.size() == 1 ? std::vector(options.stages, options.durations.front()) : options.durations;
}

double shareOf(const ScheduleOptions &options, int64_t stage) {
  return options.weightGradientShare[options.weightGradientShare.size() == 1 ? 0 : stage];
}

/// Whether stages must run as many forwards before their first input gradient as minInFlight promises.
enum class Promises { Kept, Ignored };

/// Simulates all stages at once; each idle stage starts the task that the rule selects.
class ListScheduler {
public:
  ListScheduler(const ScheduleOptions &options, double limit, Promises promises)
      : durations(durationsOfStages(options)), p(options.stages), m(options.microbatches), limit(limit),
        leaves(std::bit_ceil(static_cast<size_t>(p))) {
    for (int64_t s = 0; s < p; ++s) {
      rooms.push_back({options.activations.empty() ? 1 : options.activations[s], shareOf(options, s),
                       schedule::mostInFlight(options, s)});
      promised.push_back(promises == Promises::Kept ? minInFlight(options, s, 0) : 0);
    }
  }

  /// Returns the longest time from a stage's first task to its last one; infinite where it cannot be less than `least`,
  /// and where a stage runs fewer forwards before its first input gradient than promised. Writes the order of each
  /// stage's tasks to `order`, unless it is null.
  double run(const Rule &its, double least, std::vector<std::vector<Task>> *order) {
    begin(its);
    if (order)
      order->assign(p, {});
    for (int64_t left = 3 * p * m; left > 0; --left) {
      const auto [stage, kind, index] = step();
      if (kind == TaskKind::InputGradient && index == 0 && stages[stage].forwards < promised[stage])
        return kNever;
      if (order)
        (*order)[stage].push_back({kind, index, 0});
      else if (leastSpan(stage) >= least * kRounding)
        return kNever;
    }
    double longest = 0;
    for (const State &state : stages)
      longest = std::max(longest, state.free - state.begin);
    return longest;
  }

  /// Returns whether each stage of a rule's order runs as many forwards before its first input gradient as promised.
  bool holdsWhatArrives(const Rule &its) {
    begin(its);
    for (int64_t left = p; left > 0;) {
      const auto [stage, kind, index] = step();
      if (kind != TaskKind::InputGradient || index > 0)
        continue;
      if (stages[stage].forwards < promised[stage])
        return false;
      --left;
    }
    return true;
  }

  /// Returns the longest time that a stage's tasks take together, than which no order is faster.
  double busy() const {
    double longest = 0;
    for (const PassDurations &d : durations)
      longest = std::max(longest, static_cast<double>(m) * (d.forward + d.inputGradient + d.weightGradient));
    return longest;
  }

private:
  static constexpr double kNever = std::numeric_limits<double>::infinity();
  static constexpr double kRounding = 1 + 1e-12; // sums in another order
  struct State {
    double begin = 0, free = 0; // start of the first task, end of the last one
    int64_t forwards = 0, gradients = 0, weights = 0;
    bool lastWasForward = false;
  };
  struct Choice {
    TaskKind kind = TaskKind::Forward;
    double start = kNever;
  };

  /// The memory of a stage.
  struct Room {
    double size;     // activations of a microbatch, in the unit of `limit`
    double share;    // of these that wait for the weight gradient
    double inFlight; // microbatches that have room
  };
  struct Started {
    int64_t stage;
    TaskKind kind;
    int64_t microbatch;
  };

  void begin(const Rule &its) {
    rule = its;
    stages.assign(p, {});
    forwardAt.assign(p * m, kNever);
    gradientAt.assign(p * m, kNever);
    std::fill(forwardAt.begin(), forwardAt.begin() + m, 0.0);
    next.assign(p, {});
    starts.assign(2 * leaves, kNever);
    choose(0);
  }

  /// Starts the next task.
  Started step() {
    const int64_t stage = earliest();
    const TaskKind kind = next[stage].kind;
    const int64_t index = start(stage, next[stage]);
    choose(stage);
    if (kind == TaskKind::Forward && stage + 1 < p)
      choose(stage + 1); // its input has arrived
    if (kind == TaskKind::InputGradient && stage > 0)
      choose(stage - 1);
    return {stage, kind, index};
  }

  /// Returns the least time from the stage's first task to its last one, which tasks of the stage alone cause.
  double leastSpan(int64_t s) const {
    const State &state = stages[s];
    const PassDurations &d = durations[s];
    return state.free - state.begin + static_cast<double>(m - state.forwards) * d.forward +
           static_cast<double>(m - state.gradients) * d.inputGradient +
           static_cast<double>(m - state.weights) * d.weightGradient;
  }

  void choose(int64_t s) {
    next[s] = chosen(s);
    size_t node = leaves + static_cast<size_t>(s);
    starts[node] = next[s].start;
    for (node /= 2; node > 0; node /= 2)
      starts[node] = std::min(starts[2 * node], starts[2 * node + 1]);
  }

  /// Returns the stage with the earliest next decision (a task and its start), the first one of several.
  int64_t earliest() const {
    size_t node = 1;
    while (node < leaves)
      node = 2 * node + (starts[2 * node + 1] < starts[2 * node]);
    return static_cast<int64_t>(node - leaves);
  }

  Choice chosen(int64_t s) const {
    const State &state = stages[s];
    const PassDurations &d = durations[s];
    const auto [size, share, inFlight] = rooms[s];
    const auto running = static_cast<double>(state.forwards - state.gradients),
               waiting = static_cast<double>(state.gradients - state.weights), held = running + share * waiting;
    // A stage may always hold one microbatch. Before any waits, there must be room for the first one that will.
    const double needed = waiting > 0 ? held + 1 : running + std::max(1.0, share);
    // For the schedule's limit one that waits counts at most as one that runs.
    bool room = held == 0 || (needed <= inFlight && (running + std::min(1.0, share) * waiting + 1) * size <= limit);
    double forward = state.forwards < m && room ? std::max(state.free, forwardAt[s * m + state.forwards]) : kNever;
    double gradient =
        state.gradients < state.forwards ? std::max(state.free, gradientAt[s * m + state.gradients]) : kNever;
    bool weight = state.weights < state.gradients;
    // Activations that the input gradient recomputes need room, too.
    if (weight && share > 1 && held + share - 1 > inFlight) {
      if (gradient <= state.free)
        return {TaskKind::WeightGradient, state.free};
      gradient = kNever;
    }
    if (rule.awaitFirst && state.gradients == 0 && gradient < forward + d.forward)
      forward = kNever;
    // Before the first backward, forwards run; afterwards forwards and backwards alternate.
    bool preferForward =
        rule.eagerForward ? forward <= gradient && !(state.lastWasForward && state.gradients > 0) : forward < gradient;
    Choice next = preferForward ? Choice{TaskKind::Forward, forward} : Choice{TaskKind::InputGradient, gradient};
    if (next.start == kNever && forward < kNever)
      next = {TaskKind::Forward, forward};
    if (weight && rule.makeRoom && !room && state.forwards < m && forwardAt[s * m + state.forwards] <= state.free)
      return {TaskKind::WeightGradient, state.free};
    if (weight && next.start > state.free + (1 - rule.patience) * d.weightGradient)
      return {TaskKind::WeightGradient, state.free};
    return next;
  }

  /// Starts a task and returns the number of its microbatch.
  int64_t start(int64_t s, const Choice &choice) {
    State &state = stages[s];
    const PassDurations &d = durations[s];
    if (state.forwards == 0) // the first task of a stage is a forward
      state.begin = choice.start;
    int64_t index = 0;
    if (choice.kind == TaskKind::Forward) {
      index = state.forwards++;
      state.free = choice.start + d.forward;
      if (s + 1 < p)
        forwardAt[(s + 1) * m + index] = state.free + d.send;
      else
        gradientAt[s * m + index] = state.free;
    } else if (choice.kind == TaskKind::InputGradient) {
      index = state.gradients++;
      state.free = choice.start + d.inputGradient;
      if (s > 0)
        gradientAt[(s - 1) * m + index] = state.free + d.send;
    } else {
      index = state.weights++;
      state.free = choice.start + d.weightGradient;
    }
    state.lastWasForward = choice.kind == TaskKind::Forward;
    return index;
  }

  std::vector<PassDurations> durations; // of each stage
  int64_t p, m;
  double limit;
  std::vector<Room> rooms;       // of each stage
  std::vector<int64_t> promised; // by stage: forwards before the first input gradient, at least
  Rule rule = {};
  std::vector<State> stages;
  std::vector<Choice> next;   // of each stage
  size_t leaves;              // a power of two, at least the number of stages
  std::vector<double> starts; // tree of the least starts of `next`, from its root at 1; the leaves are the stages
  std::vector<double> forwardAt, gradientAt; // arrival of the input, by stage and microbatch
};

double longestStageSpan(const ScheduleOptions &options, const std::vector<std::vector<Task>> &order) {
  Schedule schedule;
  schedule.kind = options.kind;
  schedule.stages = options.stages;
  schedule.microbatches = options.microbatches;
  schedule.splitBackward = true;
  schedule.order = order;
  const std::vector<PassDurations> durations = durationsOfStages(options);
  return runSchedule(
             schedule,
             [&](int64_t stage, const Task &task) {
               const PassDurations &d = durations[stage];
               return task.kind == TaskKind::Forward         ? d.forward
                      : task.kind == TaskKind::InputGradient ? d.inputGradient
                                                             : d.weightGradient;
             },
             [&](StageChunk from, const Task &) { return durations[from.stage].send; })
      .longestStageSpan;
}

} // namespace

double schedule::mostInFlight(const ScheduleOptions &options, int64_t stage) {
  if (options.inFlight.empty())
    return std::numeric_limits<double>::infinity();
  return static_cast<double>(options.inFlight[options.inFlight.size() == 1 ? 0 : stage]);
}

double schedule::mostRunning(const ScheduleOptions &options, int64_t stage) {
  return std::max(1.0, std::floor(mostInFlight(options, stage) - std::max(0.0, shareOf(options, stage) - 1)));
}

int64_t schedule::zeroBubbleFill(int64_t stages, int64_t stage, double limit) {
  return limit < static_cast<double>(2 * stages - 1) ? stages - stage : 2 * (stages - stage) - 1;
}

std::vector<std::vector<Task>> schedule::zeroBubbleByHand(int64_t stages, int64_t microbatches, int64_t limit) {
  std::vector<std::vector<Task>> orders;
  for (int64_t s = 0; s < stages; ++s) {
    int64_t fill = zeroBubbleFill(stages, s, static_cast<double>(limit));
    int64_t warmup = std::min(fill, microbatches), behind = limit - fill;
    std::vector<Task> order;
    for (int64_t i = 0; i < warmup; ++i)
      order.push_back({TaskKind::Forward, i, 0});
    int64_t forwards = warmup, weights = 0;
    for (int64_t i = 0; i < microbatches; ++i) {
      order.push_back({TaskKind::InputGradient, i, 0});
      if (i >= behind)
        order.push_back({TaskKind::WeightGradient, weights++, 0});
      if (forwards < microbatches)
        order.push_back({TaskKind::Forward, forwards++, 0});
    }
    while (weights < microbatches)
      order.push_back({TaskKind::WeightGradient, weights++, 0});
    orders.push_back(std::move(order));
  }
  return orders;
}

/// From this many tasks on, several threads try the rules. Fewer tasks take less than a millisecond.
constexpr int64_t kTasksForThreads = 2'000;
constexpr unsigned kMostThreads = 8;

/// Returns the seconds of each rule's order for `options.durations`; infinite where a rule is no faster than `least` or
/// than another one, and where another one is as fast as the tasks of the busiest stage.
static std::vector<double> secondsOfRules(const ScheduleOptions &options, double limit, Promises promises, double least,
                                          const std::vector<Rule> &rules) {
  std::vector<double> seconds(rules.size(), std::numeric_limits<double>::infinity());
  std::atomic<size_t> next = 0;
  std::atomic<double> best = least;
  const bool many = 3 * options.stages * options.microbatches >= kTasksForThreads;
  onThreads(many ? kMostThreads : 1, [&] {
    ListScheduler scheduler(options, limit, promises);
    for (size_t i = next++; i < rules.size() && best > scheduler.busy(); i = next++) {
      seconds[i] = scheduler.run(rules[i], best, nullptr);
      for (double known = best; seconds[i] < known && !best.compare_exchange_weak(known, seconds[i]);)
        ;
    }
  });
  return seconds;
}

/// Returns the fastest order of the rules for `options.durations`; nothing where none takes less than `least`.
static std::optional<std::vector<std::vector<Task>>> fastestOfRules(const ScheduleOptions &options, double limit,
                                                                    Promises promises, double least) {
  const std::vector<Rule> rules = allRules();
  const std::vector<double> seconds = secondsOfRules(options, limit, promises, least, rules);
  const auto fastest = std::ranges::min_element(seconds); // the first one of several, whichever thread was quicker
  if (*fastest >= least)
    return std::nullopt;
  std::vector<std::vector<Task>> order;
  ListScheduler(options, limit, promises).run(rules[fastest - seconds.begin()], *fastest, &order);
  return order;
}

static PassDurations meanOf(const std::vector<PassDurations> &durations) {
  PassDurations mean{0, 0, 0, 0};
  const auto stages = static_cast<double>(durations.size());
  for (const PassDurations &d : durations) {
    mean.forward += d.forward / stages;
    mean.inputGradient += d.inputGradient / stages;
    mean.weightGradient += d.weightGradient / stages;
    mean.send += d.send / stages;
  }
  return mean;
}

/// Returns whether each stage of an order holds at most `options.inFlight`.
static bool hasRoom(const ScheduleOptions &options, const std::vector<std::vector<Task>> &order) {
  for (int64_t s = 0; s < options.stages; ++s) {
    constexpr double kRounding = 1e-9;
    const double most = schedule::mostInFlight(options, s), share = shareOf(options, s);
    double held = 0;
    for (const Task &task : order[s]) {
      held += task.kind == TaskKind::Forward ? 1 : task.kind == TaskKind::InputGradient ? share - 1 : -share;
      if (held > std::max({1.0, share, most}) + kRounding)
        return false;
    }
  }
  return true;
}

/// Returns whether some rule's order for `options.durations` holds what arrives.
static bool anyHoldsWhatArrives(const ScheduleOptions &options, double limit) {
  const std::vector<Rule> rules = allRules();
  ListScheduler scheduler(options, limit, Promises::Kept);
  return std::ranges::any_of(rules, [&](const Rule &rule) { return scheduler.holdsWhatArrives(rule); });
}

std::vector<std::vector<Task>> schedule::zeroBubbleSearched(const ScheduleOptions &options, double limit) {
  std::vector<std::vector<Task>> best;
  double bestSeconds = options.shorterThan;
  auto consider = [&](std::vector<std::vector<Task>> order) {
    if (double seconds = longestStageSpan(options, order); seconds < bestSeconds && hasRoom(options, order)) {
      bestSeconds = seconds;
      best = std::move(order);
    }
  };
  for (int64_t held : {2 * options.stages, options.stages})
    if (static_cast<double>(held) <= limit)
      consider(zeroBubbleByHand(options.stages, options.microbatches, held));
  if (auto order = fastestOfRules(options, limit, Promises::Kept, bestSeconds))
    return *std::move(order);
  if (anyHoldsWhatArrives(options, limit))
    return best;
  // A slow stage lets few forwards through before the first microbatch returns. Orders for equal stages hold more.
  ScheduleOptions even = options;
  even.durations = {meanOf(durationsOfStages(options))};
  if (auto order = fastestOfRules(even, limit, Promises::Ignored, std::numeric_limits<double>::infinity()))
    consider(*std::move(order));
  return best;
}
