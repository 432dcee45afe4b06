// SPDX-License-Identifier: Apache-2.0
// kerf solve: runs the solver on a placement problem from a file.
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

/// Prints progress lines of three numbers on standard error: seconds since the start, the best cost found ("inf" before
/// the first) and the lower bound.
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

/// Returns when and by which nodes the peak memory of `choice` arises: "at moment 7, where of 9 nodes these take the
/// most: 3 (120 bytes), 0 (80 bytes)".
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

/// Returns the error of a problem without a feasible solution. `budgetOption` is the option that limited the solver,
/// such as "--timeout 2".
Error nothingFits(const Problem &problem, const Solution &solution, const std::string &file,
                  const std::string &budgetOption) {
  std::string moreTime = fmt::format("give more than {}", budgetOption);
  if (solution.choice.empty())
    return {solution.proven ? fmt::format("{}: every choice contains a strategy with infinite cost", file)
                            : fmt::format("{}: no choice with finite cost was found; {}", file, moreTime),
            ExitStatus::Infeasible};
  int64_t limit = problem.memoryLimitBytes.value_or(0);
  std::string what =
      solution.proven ? fmt::format("no choice fits into usage_limit {}", limit)
                      : fmt::format("no choice that fits into usage_limit {} was found, though one may exist", limit);
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

void addSolveCommand(CLI::App &app, int &status) {
  auto [sub, command] = addCommand<SolveCommand>(
      app, "solve",
      "Solve a placement problem: choose one strategy for each node, with the least total cost and the memory within "
      "the limit at every moment.\n"
      "The last line of standard output is the list of chosen strategies as JSON. Each progress line on standard error "
      "has the seconds since the start, the best cost and the lower bound.\n"
      "Example: kerf solve problem.json.gz --timeout 60",
      status);
  sub->add_option("PROBLEM", command->file,
                  "problem file: problem.json or problem.json.gz, in the format of the ASPLOS/EuroSys 2025 contest "
                  "(docs/interface.md)")
      ->required();
  auto *timeout = sub->add_option("--timeout", command->timeout,
                                  "limit in seconds of wall time, 0 or more, which includes reading the file (default: "
                                  "no limit; --work applies)")
                      ->check(finiteNumber(0));
  sub->add_option("--work", command->work,
                  fmt::format("limit in units of work instead of seconds, 0 or more, which gives the same answer on "
                              "every machine (default: {}, "
                              "about half a second on one core)",
                              SolveOptions().workBudget))
      ->check(wholeNumber(0))
      ->excludes(timeout);
  sub->add_option("--threads", command->threads, "number of threads, 1 to 1024")
      ->check(wholeNumber(1, 1024))
      ->capture_default_str();
  sub->add_option("-o,--output", command->output, "file for the list of chosen strategies, which is also printed");
}

} // namespace kerf::tool
