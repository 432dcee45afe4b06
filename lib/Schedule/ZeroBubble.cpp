// SPDX-License-Identifier: Apache-2.0
// Zero-bubble orders: Qi, Wan, Huang & Lin, "Zero Bubble Pipeline Parallelism" (ICLR 2024, arXiv:2401.10241).
//
// A stage may hold the activations of `limit` microbatches; the share `weightGradientShare` of a microbatch's
// activations stays from its input gradient to its weight gradient. The handcrafted orders (sections 2.1 and 2.2) take
// this share as 1 and fill the limit on every stage: stage s runs its first input gradient after w forwards and runs
// weight gradients `limit - w` microbatches later. The searched orders (section 3) are list schedules for the given
// durations: the best of several rules and of the handcrafted order.
#include "Internal.h"
#include <algorithm>
#include <limits>

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

/// Simulates all stages at once; each idle stage starts the task that the rule selects.
class ListScheduler {
public:
  ListScheduler(const ScheduleOptions &options, int64_t limit, Rule rule)
      : d(options.durations), weightGradientShare(options.weightGradientShare), activations(options.activations),
        p(options.stages), m(options.microbatches), limit(limit), rule(rule), stages(p),
        forwardAt(p, std::vector<double>(m, kNever)), gradientAt(p, std::vector<double>(m, kNever)) {
    for (int64_t i = 0; i < m; ++i)
      forwardAt[0][i] = 0;
  }

  std::vector<std::vector<Task>> run() {
    std::vector<Choice> next(p);
    next[0] = choose(0);
    for (int64_t left = 3 * p * m; left > 0; --left) {
      // The stage with the earliest next decision (a task and its start); ties are broken by stage index.
      int64_t best = 0;
      for (int64_t s = 1; s < p; ++s)
        if (next[s].start < next[best].start)
          best = s;
      start(best, next[best]);
      for (int64_t s = std::max<int64_t>(0, best - 1); s <= std::min(p - 1, best + 1); ++s)
        next[s] = choose(s); // the input of all other stages is unchanged
    }
    std::vector<std::vector<Task>> order;
    for (State &state : stages)
      order.push_back(std::move(state.order));
    return order;
  }

private:
  static constexpr double kNever = std::numeric_limits<double>::infinity();
  struct State {
    double free = 0;
    int64_t forwards = 0, gradients = 0, weights = 0;
    bool lastWasForward = false;
    std::vector<Task> order;
  };
  struct Choice {
    TaskKind kind = TaskKind::Forward;
    double start = kNever;
  };

  Choice choose(int64_t s) const {
    const State &state = stages[s];
    double held = static_cast<double>(state.forwards - state.gradients) +
                  weightGradientShare * static_cast<double>(state.gradients - state.weights);
    double size = activations.empty() ? 1 : activations[s];
    // A stage may always hold one microbatch.
    bool room = held == 0 || (held + 1) * size <= static_cast<double>(limit);
    double forward = state.forwards < m && room ? std::max(state.free, forwardAt[s][state.forwards]) : kNever;
    double gradient = state.gradients < state.forwards ? std::max(state.free, gradientAt[s][state.gradients]) : kNever;
    bool weight = state.weights < state.gradients;
    if (rule.awaitFirst && state.gradients == 0 && gradient < forward + d.forward)
      forward = kNever;
    // Before the first backward, forwards run; afterwards forwards and backwards alternate.
    bool preferForward =
        rule.eagerForward ? forward <= gradient && !(state.lastWasForward && state.gradients > 0) : forward < gradient;
    Choice next = preferForward ? Choice{TaskKind::Forward, forward} : Choice{TaskKind::InputGradient, gradient};
    if (next.start == kNever && forward < kNever)
      next = {TaskKind::Forward, forward};
    if (weight && rule.makeRoom && !room && state.forwards < m && forwardAt[s][state.forwards] <= state.free)
      return {TaskKind::WeightGradient, state.free};
    if (weight && next.start > state.free + (1 - rule.patience) * d.weightGradient)
      return {TaskKind::WeightGradient, state.free};
    return next;
  }

  void start(int64_t s, const Choice &choice) {
    State &state = stages[s];
    int64_t index = 0;
    if (choice.kind == TaskKind::Forward) {
      index = state.forwards++;
      state.free = choice.start + d.forward;
      if (s + 1 < p)
        forwardAt[s + 1][index] = state.free + d.send;
      else
        gradientAt[s][index] = state.free;
    } else if (choice.kind == TaskKind::InputGradient) {
      index = state.gradients++;
      state.free = choice.start + d.inputGradient;
      if (s > 0)
        gradientAt[s - 1][index] = state.free + d.send;
    } else {
      index = state.weights++;
      state.free = choice.start + d.weightGradient;
    }
    state.lastWasForward = choice.kind == TaskKind::Forward;
    state.order.push_back({choice.kind, index, 0});
  }

  PassDurations d;
  double weightGradientShare;
  std::vector<double> activations;
  int64_t p, m, limit;
  Rule rule;
  std::vector<State> stages;
  std::vector<std::vector<double>> forwardAt, gradientAt; // arrival of the input, by stage and microbatch
};

double longestStageSpan(const ScheduleOptions &options, const std::vector<std::vector<Task>> &order) {
  Schedule schedule;
  schedule.kind = options.kind;
  schedule.stages = options.stages;
  schedule.microbatches = options.microbatches;
  schedule.splitBackward = true;
  schedule.order = order;
  const PassDurations &d = options.durations;
  return runSchedule(
             schedule,
             [&](int64_t, const Task &task) {
               return task.kind == TaskKind::Forward         ? d.forward
                      : task.kind == TaskKind::InputGradient ? d.inputGradient
                                                             : d.weightGradient;
             },
             [&](StageChunk, const Task &) { return d.send; })
      .longestStageSpan;
}

} // namespace

std::vector<std::vector<Task>> schedule::zeroBubbleByHand(int64_t stages, int64_t microbatches, int64_t limit) {
  std::vector<std::vector<Task>> orders;
  for (int64_t s = 0; s < stages; ++s) {
    // Number of forwards that fit before the first gradient returns: the distance of p - s stages (1F1B), or
    // there and back.
    int64_t fill = limit < 2 * stages - 1 ? stages - s : 2 * (stages - s) - 1;
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

std::vector<std::vector<Task>> schedule::zeroBubbleSearched(const ScheduleOptions &options, int64_t limit) {
  std::vector<std::vector<Task>> best = zeroBubbleByHand(options.stages, options.microbatches, limit);
  double bestSeconds = longestStageSpan(options, best);
  auto consider = [&](std::vector<std::vector<Task>> order) {
    if (double seconds = longestStageSpan(options, order); seconds < bestSeconds) {
      bestSeconds = seconds;
      best = std::move(order);
    }
  };
  if (limit > options.stages)
    consider(zeroBubbleByHand(options.stages, options.microbatches, options.stages));
  for (const Rule &rule : allRules())
    consider(ListScheduler(options, limit, rule).run());
  return best;
}
