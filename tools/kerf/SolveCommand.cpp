// SPDX-License-Identifier: Apache-2.0
// kerf solve: the bare solver on a placement problem from a file.
#include "Checks.h"
#include "Options.h"

#include "kerf/Search/ProblemFile.h"
#include <algorithm>
#include <chrono>
#include <fmt/core.h>
#include <fmt/ranges.h>

namespace kerf::tool {

namespace {

using Clock = std::chrono::steady_clock;

double secondsSince(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// Lines of three numbers on standard error: seconds since the start, the best cost ("inf" while none is known), the
/// lower bound.
class ProgressLines {
public:
  explicit ProgressLines(Clock::time_point start) : start(start) {}

  void print(std::optional<TotalCost> cost, TotalCost lowerBound) {
    std::pair line(cost.value_or(kUnboundedTotal), lowerBound);
    if (last == line)
      return;
    last = line;
    fmt::print(stderr, "{:.3f} {} {}\n", secondsSince(start), toString(line.first), toString(line.second));
    std::fflush(stderr);
  }

private:
  Clock::time_point start;
  std::optional<std::pair<TotalCost, TotalCost>> last;
};

std::string summary(const Problem &problem, const Solution &solution) {
  size_t strategies = 0;
  for (const ProblemNode &node : problem.nodes)
    strategies += node.costs.size();
  std::string text = fmt::format("{}: {} nodes, {} strategies, {} edges with {} different tables\n",
                                 problem.name.empty() ? "problem" : problem.name, problem.nodes.size(), strategies,
                                 problem.edges.size(), problem.tables.size());
  text += fmt::format("  cost         {}\n", toString(solution.cost));
  if (solution.cost == solution.lowerBound)
    text += fmt::format("  lower bound  {} (nothing is cheaper)\n", toString(solution.lowerBound));
  else
    text += fmt::format("  lower bound  {} (at most {:.3g} % could be saved)\n", toString(solution.lowerBound),
                        100 * static_cast<double>(solution.cost - solution.lowerBound) /
                            static_cast<double>(solution.cost));
  text += fmt::format("  peak memory  {} bytes", solution.peakBytes);
  text += problem.memoryLimitBytes ? fmt::format(" of {}\n", *problem.memoryLimitBytes) : ", no limit\n";
  return text;
}

/// "at moment 7 of nodes 3 (120 bytes), 0 (80 bytes)": where the memory of the least peak is.
std::string whereThePeakIs(const Problem &problem, const std::vector<int> &choice) {
  constexpr size_t kMostNodes = 5;
  Peak peak = peakOf(problem, choice);
  if (!peak.moment)
    return "by the constant bytes alone";
  std::vector<std::pair<int64_t, int>> largest; // (-bytes, node)
  for (const MemoryUsage &usage : problem.usages)
    for (const LiveInterval &live : usage.live)
      if (live.begin <= *peak.moment && *peak.moment < live.end && usage.bytes[choice[usage.node]] > 0)
        largest.emplace_back(-usage.bytes[choice[usage.node]], usage.node);
  std::sort(largest.begin(), largest.end());
  std::vector<std::string> nodes;
  for (size_t i = 0; i < std::min(largest.size(), kMostNodes); ++i)
    nodes.push_back(fmt::format("{} ({} bytes)", largest[i].second, -largest[i].first));
  return fmt::format("at moment {}, where of {} nodes these take the most: {}", *peak.moment, largest.size(),
                     fmt::join(nodes, ", "));
}

/// `given`: "--timeout 2", what was not enough.
Error nothingFits(const Problem &problem, const Solution &solution, const std::string &file, const std::string &given) {
  std::string moreTime = fmt::format("give more than {}", given);
  if (solution.choice.empty())
    return {solution.proven ? fmt::format("{}: every choice takes something forbidden", file)
                            : fmt::format("{}: no choice was found; {}", file, moreTime),
            ExitStatus::Infeasible};
  int64_t limit = problem.memoryLimitBytes.value_or(0);
  std::string what = solution.proven
                         ? fmt::format("nothing fits into usage_limit {}", limit)
                         : fmt::format("nothing that fits into usage_limit {} was found, though it may exist", limit);
  std::string wayOut = fmt::format("set usage_limit to {} or more", solution.peakBytes);
  if (!solution.leastPeakProven)
    wayOut += fmt::format(", or {}", moreTime);
  return {fmt::format("{}: {}: the least peak found is {} bytes ({} the least), {}; {}", file, what, solution.peakBytes,
                      solution.leastPeakProven ? "proven" : "not proven", whereThePeakIs(problem, solution.choice),
                      wayOut),
          ExitStatus::Infeasible};
}

struct SolveCommand {
  std::string file, output;
  std::optional<double> timeout;
  std::optional<int64_t> work;
  int threads = 1;

  int run() {
    Clock::time_point start = Clock::now();
    auto problem = readProblem(file);
    if (!problem)
      return fail(problem.error());
    SolveOptions options;
    options.threads = threads;
    if (work)
      options.workBudget = *work;
    if (timeout) // reading counts
      options.seconds = std::max(0.0, *timeout - secondsSince(start));
    ProgressLines lines(start);
    auto solution =
        solve(*problem, options, [&](const Progress &progress) { lines.print(progress.cost, progress.lowerBound); });
    if (!solution)
      return fail(solution.error());
    lines.print(solution->feasible ? std::optional(solution->cost) : std::nullopt, solution->lowerBound);
    if (Status status = verify(*problem, *solution); !status)
      return fail(status.error());
    if (!solution->feasible)
      return fail(
          nothingFits(*problem, *solution, file,
                      timeout ? fmt::format("--timeout {}", *timeout) : fmt::format("--work {}", options.workBudget)));
    std::string list = fmt::format("[{}]\n", fmt::join(solution->choice, ", "));
    fmt::print("{}{}", summary(*problem, *solution), list);
    if (!output.empty())
      if (Status status = writeFile(output, list); !status)
        return fail(status.error());
    return 0;
  }
};

} // namespace

void addSolve(CLI::App &app, int &status) {
  auto [sub, command] = addCommand<SolveCommand>(
      app, "solve",
      "Answer a placement problem: one strategy for each node, least cost, memory under the limit at every moment.\n"
      "The last line of standard output is the chosen strategies as a JSON list. Progress goes to standard error: "
      "lines of seconds, cost and lower bound.\n"
      "Example: kerf solve problem.json.gz --timeout 60",
      status);
  sub->add_option(
         "PROBLEM", command->file,
         "problem.json or problem.json.gz in the format of the ASPLOS/EuroSys 2025 contest (docs/interface.md)")
      ->required();
  auto *timeout = sub->add_option("--timeout", command->timeout, "seconds of wall time to answer in, reading included")
                      ->check(finiteNumber(0));
  sub->add_option(
         "--work", command->work,
         fmt::format(
             "steps of work instead of seconds: the same answer on every machine (default {}, about half a second)",
             SolveOptions().workBudget))
      ->check(wholeNumber(0))
      ->excludes(timeout);
  sub->add_option("--threads", command->threads, "threads to use")->check(wholeNumber(1, 1024))->capture_default_str();
  sub->add_option("-o,--output", command->output, "write the list here too");
}

} // namespace kerf::tool
