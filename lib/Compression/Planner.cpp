// SPDX-License-Identifier: Apache-2.0
// The planner: starting points, local search, and the removal of what does not help. The header states the objective.
#include "kerf/Compression/Planner.h"
#include "Evaluation.h"

#include <algorithm>
#include <numeric>
#include <set>

namespace kerf::compression {

namespace {

constexpr double kSame = 1 + 1e-9;           // values within this factor count as equal
constexpr int kLambdas = 8;                  // relaxations that serve as starting points, by weight of the wire
constexpr size_t kMostCuts = 16;             // and by first layer
constexpr size_t kMostSizes = 12;            // thresholds of size that serve as starting points
constexpr int64_t kPairEvaluations = 20'000; // pairs of changes are tried if there are at most so many

/// Returns the choices that occur as options, each once, without their pieces.
std::vector<SyncChoice> kindsOfOptions(const PlanProblem &problem) {
  std::vector<SyncChoice> kinds;
  for (const PlanGradient &gradient : problem.gradients)
    for (size_t o = 1; o < gradient.options.size(); ++o) {
      SyncChoice kind = gradient.options[o].choice;
      kind.pieces = 1;
      if (std::find(kinds.begin(), kinds.end(), kind) == kinds.end())
        kinds.push_back(kind);
    }
  return kinds;
}

/// Returns at most `most` of the values, evenly spaced, the first and last included.
template <typename Value> std::vector<Value> spread(const std::vector<Value> &values, size_t most) {
  if (values.size() <= most)
    return values;
  std::vector<Value> some;
  for (size_t i = 0; i < most; ++i)
    some.push_back(values[i * (values.size() - 1) / (most - 1)]);
  return some;
}

/// The choice that minimizes the mean of the formulas a and b for the layers from `firstLayer` on.
OptionIndices relaxed(const PlanProblem &problem, double lambda, size_t firstLayer) {
  OptionIndices choice(problem.gradients.size(), 0);
  for (size_t t = 0; t < choice.size(); ++t) {
    const PlanGradient &gradient = problem.gradients[t];
    auto weighted = [&](const SyncOption &option) {
      return lambda * option.cost.wire + (1 - lambda) * option.cost.compute();
    };
    for (size_t o = 1; o < gradient.options.size() && gradient.layer >= firstLayer; ++o)
      if (weighted(gradient.options[o]) < weighted(gradient.options[choice[t]]))
        choice[t] = static_cast<int>(o);
  }
  return choice;
}

/// Searches from the best starting point.
class Planner {
public:
  Planner(const PlanProblem &problem, int64_t most) : problem(problem), at(problem), most(most) {}

  void consider(const OptionIndices &choice) {
    at.set(choice);
    if (double seconds = at.seconds(); best.empty() || seconds < bestSeconds) {
      best = choice;
      bestSeconds = seconds;
    }
  }

  void startingPoints() {
    std::vector<SyncChoice> kinds = kindsOfOptions(problem);
    std::set<double> sizes, layers;
    for (const PlanGradient &gradient : problem.gradients)
      if (gradient.options.size() > 1) {
        sizes.insert(gradient.bytes);
        layers.insert(static_cast<double>(gradient.layer));
      }
    for (const SyncChoice &kind : kinds)
      for (double size : spread(std::vector(sizes.begin(), sizes.end()), kMostSizes))
        consider(chooseBySize(problem, kind, size));
    for (double layer : spread(std::vector(layers.begin(), layers.end()), kMostCuts))
      for (int i = 1; i <= kLambdas; ++i)
        consider(relaxed(problem, static_cast<double>(i) / kLambdas, static_cast<size_t>(layer)));
  }

  /// Changes one gradient at a time until no change helps.
  void improve() {
    at.set(best);
    for (bool better = true; better && at.evaluations() < most;) {
      better = false;
      for (size_t i = problem.gradients.size(); i-- > 0 && at.evaluations() < most;)
        better |= improveOne(i);
    }
    best = at.choice();
  }

  /// Changes two gradients at a time, for problems that are small enough.
  void improvePairs() {
    double options = 0, squares = 0;
    for (const PlanGradient &gradient : problem.gradients) {
      auto others = static_cast<double>(gradient.options.size() - 1);
      options += others;
      squares += others * others;
    }
    if ((options * options - squares) / 2 > kPairEvaluations)
      return;
    for (bool better = true; better && at.evaluations() < most;) {
      better = false;
      for (size_t i = 0; i < best.size(); ++i)
        for (size_t j = i + 1; j < best.size(); ++j)
          better |= improveTwo(i, j);
      improve();
    }
  }

  /// Gives each gradient the option with the least loss that keeps the seconds.
  void dropNeedless() {
    at.set(best);
    std::vector<size_t> order(best.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return problem.gradients[a].bytes < problem.gradients[b].bytes; });
    for (size_t t : order) {
      const std::vector<SyncOption> &options = problem.gradients[t].options;
      int now = at.choice()[t], least = now;
      for (size_t o = 0; o < options.size(); ++o) {
        if (options[o].ratio >= options[least].ratio)
          continue;
        at.change(t, static_cast<int>(o));
        if (at.seconds() <= bestSeconds * kSame)
          least = static_cast<int>(o);
      }
      at.change(t, least);
    }
    best = at.choice();
    bestSeconds = at.seconds();
  }

  OptionIndices best;
  double bestSeconds = 0;
  int64_t evaluations() const { return at.evaluations(); }

private:
  bool improveOne(size_t t) {
    int start = at.choice()[t], least = start;
    for (size_t o = 0; o < problem.gradients[t].options.size(); ++o) {
      if (static_cast<int>(o) == start)
        continue;
      at.change(t, static_cast<int>(o));
      if (double seconds = at.seconds(); seconds * kSame < bestSeconds) {
        bestSeconds = seconds;
        least = static_cast<int>(o);
      }
    }
    at.change(t, least);
    return least != start;
  }

  bool improveTwo(size_t i, size_t j) {
    int oldI = at.choice()[i], oldJ = at.choice()[j], bestI = oldI, bestJ = oldJ;
    for (size_t a = 0; a < problem.gradients[i].options.size(); ++a)
      for (size_t b = 0; b < problem.gradients[j].options.size(); ++b) {
        if (static_cast<int>(a) == oldI || static_cast<int>(b) == oldJ)
          continue;
        at.change(i, static_cast<int>(a));
        at.change(j, static_cast<int>(b));
        if (double seconds = at.seconds(); seconds * kSame < bestSeconds) {
          bestSeconds = seconds;
          bestI = static_cast<int>(a);
          bestJ = static_cast<int>(b);
        }
      }
    at.change(i, bestI);
    at.change(j, bestJ);
    bool better = bestI != oldI || bestJ != oldJ;
    if (better)
      best = at.choice();
    return better;
  }

  const PlanProblem &problem;
  Evaluation at;
  int64_t most;
};

} // namespace

double finishSeconds(const PlanProblem &problem, const OptionIndices &choice) {
  Evaluation at(problem);
  at.set(choice);
  return at.seconds();
}

OptionIndices chooseBySize(const PlanProblem &problem, const SyncChoice &like, double leastBytes) {
  OptionIndices choice(problem.gradients.size(), 0);
  for (size_t t = 0; t < choice.size(); ++t) {
    const PlanGradient &gradient = problem.gradients[t];
    for (size_t o = 1; o < gradient.options.size() && gradient.bytes >= leastBytes; ++o) {
      const SyncChoice &its = gradient.options[o].choice;
      if (its.codec == like.codec && its.scheme == like.scheme && its.hierarchy == like.hierarchy)
        choice[t] = static_cast<int>(o);
    }
  }
  return choice;
}

OptionIndices chooseAlways(const PlanProblem &problem) {
  OptionIndices best(problem.gradients.size(), 0);
  double bestSeconds = 0;
  for (const SyncChoice &kind : kindsOfOptions(problem)) {
    OptionIndices choice = chooseBySize(problem, kind, 0);
    for (size_t t = 0; t < choice.size(); ++t) // a gradient without this kind takes another one
      if (choice[t] == 0 && problem.gradients[t].options.size() > 1)
        choice[t] = 1;
    double seconds = finishSeconds(problem, choice);
    if (bestSeconds == 0 || seconds < bestSeconds) {
      best = std::move(choice);
      bestSeconds = seconds;
    }
  }
  return best;
}

double compressedShare(const PlanProblem &problem, const OptionIndices &choice) {
  double all = 0, compressed = 0;
  for (size_t t = 0; t < choice.size(); ++t) {
    all += problem.gradients[t].bytes;
    compressed += choice[t] ? problem.gradients[t].bytes : 0;
  }
  return all > 0 ? compressed / all : 0;
}

PlannedGradients planGradients(const PlanProblem &problem, const PlannerOptions &options) {
  Planner planner(problem, options.mostEvaluations);
  OptionIndices none(problem.gradients.size(), 0);
  planner.consider(none);
  double plain = planner.bestSeconds;
  bool free = std::any_of(problem.gradients.begin(), problem.gradients.end(),
                          [](const PlanGradient &one) { return one.options.size() > 1; });
  int64_t others = 0;
  if (free && finishLowerBound(problem) < plain - options.leastGain) {
    planner.startingPoints();
    PlannedGradients espresso = planByEspresso(problem);
    others = espresso.evaluations;
    planner.consider(espresso.choice);
    planner.improve();
    planner.improvePairs();
    planner.dropNeedless();
  }
  if (plain - planner.bestSeconds <= std::max(options.leastGain, plain * (kSame - 1)))
    return {none, plain, plain, planner.evaluations() + others};
  return {planner.best, planner.bestSeconds, plain, planner.evaluations() + others};
}

} // namespace kerf::compression
