// SPDX-License-Identifier: Apache-2.0
// Solves one transformer-like problem and prints, as a line of JSON, the solver's time to a gap of 1 %, its last gap
// and its peak memory. Each problem runs in a process of its own, so that the peak memory is its own;
// benchmarks/search_scaling.py makes a table of many. Seconds are CPU time and the budget counts work, so that other
// processes hardly affect the result.
#include "TransformerProblem.h"
#include "kerf/Search/ProblemFile.h"
#include "kerf/Search/Solver.h"

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fmt/core.h>
#include <fstream>
#include <string>

using namespace kerf;

namespace {

constexpr int kOnePercent = 100; // a gap of 1 % means: cost - bound <= bound / 100

/// Returns the peak memory of this program. getrusage would include the parent's memory at the time of the fork.
double mebibytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (double kibibytes = 0; word == "VmHWM:" && status >> kibibytes)
      return kibibytes / 1024;
  return 0;
}

double cpuSeconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

int failed(const Error &error) {
  fmt::print(stderr, "error: {}\n", error.message);
  return 1;
}

} // namespace

int main(int count, char **words) {
  if (count < 5) {
    fmt::print(stderr, "use: search-scaling NODES LIMIT_IN_LEAST_PEAKS WORK THREADS [FILE to write the problem to]\n");
    return 1;
  }
  Problem problem = benchmarks::transformerProblem(std::atoi(words[1]), std::atof(words[2]), 1);
  if (count > 5)
    if (Status status = writeProblem(problem, words[5]); !status)
      return failed(status.error());
  double before = mebibytes(), firstAnswer = -1, onePercent = -1, lastBetter = 0;
  std::optional<TotalCost> best;
  double start = cpuSeconds();
  auto note = [&](const Progress &progress) {
    if (!progress.cost)
      return;
    double now = cpuSeconds() - start;
    if (firstAnswer < 0)
      firstAnswer = now;
    if (!best || *progress.cost < *best)
      lastBetter = now;
    best = progress.cost;
    if (onePercent < 0 && (*progress.cost - progress.lowerBound) * kOnePercent <= progress.lowerBound)
      onePercent = now;
  };
  auto solution =
      solve(problem, {.workBudget = static_cast<int64_t>(std::atof(words[3])), .threads = std::atoi(words[4])}, note);
  double seconds = cpuSeconds() - start;
  if (!solution)
    return failed(solution.error());
  if (Status status = verify(problem, *solution); !status)
    return failed(status.error());
  size_t labels = 0;
  for (const ProblemNode &node : problem.nodes)
    labels += node.costs.size();
  double gap = solution->feasible
                   ? static_cast<double>(solution->cost - solution->lowerBound) / static_cast<double>(solution->cost)
                   : 1;
  fmt::print("{{\"nodes\": {}, \"strategies\": {}, \"edges\": {}, \"tables\": {}, \"first_answer_seconds\": {:.4f}, "
             "\"one_percent_seconds\": {:.4f}, \"last_better_seconds\": {:.4f}, \"seconds\": {:.3f}, \"cost\": {}, "
             "\"bound\": {}, "
             "\"gap\": {:.6f}, \"proven\": {}, \"peak_bytes\": {}, \"limit_bytes\": {}, \"problem_mib\": {:.0f}, "
             "\"peak_mib\": {:.0f}}}\n",
             problem.nodes.size(), labels, problem.edges.size(), problem.tables.size(), firstAnswer, onePercent,
             lastBetter, seconds, toString(solution->cost), toString(solution->lowerBound), gap, solution->proven,
             solution->peakBytes, *problem.memoryLimitBytes, before, mebibytes());
  return 0;
}
