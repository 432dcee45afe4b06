// SPDX-License-Identifier: Apache-2.0
// Compares the solver with enumeration on many random small problems of each family: the optimum, its proof, and every
// bound that the solver reports. The environment variable KERF_SEEDS=1..1250 selects the seeds of each family.
#include "Families.h"
#include "kerf/Search/ProblemFile.h"
#include "kerf/Search/Solver.h"
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <gtest/gtest.h>

using namespace kerf;
using namespace kerf::test;

namespace {

struct Seeds {
  uint64_t first = 1, last = 1250; // times 16 families: 20,000 problems
};

Seeds seeds() {
  Seeds seeds;
  const char *text = std::getenv("KERF_SEEDS");
  if (!text)
    return seeds;
  const char *end = text + std::strlen(text);
  auto [dots, failed] = std::from_chars(text, end, seeds.first);
  if (failed != std::errc() || end - dots < 3 || std::from_chars(dots + 2, end, seeds.last).ptr != end) {
    ADD_FAILURE() << "KERF_SEEDS is '" << text << "'; write FIRST..LAST";
    std::exit(1);
  }
  return seeds;
}

/// Checks a solution against the optimum. `complete`: the budget was large enough to prove the solution.
void expectConsistent(const Problem &problem, const Exact &exact, const SolveOptions &options, bool complete) {
  bool exists = exact.cost < kUnboundedTotal;
  auto note = [&](const Progress &progress) {
    EXPECT_LE(progress.lowerBound, exact.cost)
        << "bound " << toString(progress.lowerBound) << " on the way, optimum " << toString(exact.cost);
    if (progress.cost) {
      EXPECT_GE(*progress.cost, exact.cost)
          << "cost " << toString(*progress.cost) << " on the way, optimum " << toString(exact.cost);
    }
  };
  Result<Solution> solved = solve(problem, options, note);
  ASSERT_TRUE(static_cast<bool>(solved)) << solved.error().message;
  const Solution &solution = *solved;
  Status status = verify(problem, solution);
  EXPECT_TRUE(static_cast<bool>(status)) << status.error().message;
  EXPECT_LE(solution.lowerBound, exact.cost) << toString(solution.lowerBound) << ", optimum " << toString(exact.cost);
  if (solution.feasible) {
    EXPECT_GE(solution.cost, exact.cost) << toString(solution.cost) << ", optimum " << toString(exact.cost);
  }
  if (solution.proven) {
    EXPECT_EQ(solution.feasible, exists);
    if (exists) {
      EXPECT_EQ(toString(solution.cost), toString(exact.cost));
    }
    EXPECT_EQ(toString(solution.lowerBound), toString(exact.cost));
  }
  bool somethingAllowed = exact.leastPeak != std::numeric_limits<int64_t>::max();
  if (solution.feasible || !somethingAllowed) {
    EXPECT_EQ(solution.leastPeakBytes, 0);
  } else if (!solution.choice.empty()) {
    EXPECT_GE(solution.leastPeakBytes, exact.leastPeak);
    if (solution.leastPeakProven) {
      EXPECT_EQ(solution.leastPeakBytes, exact.leastPeak);
    }
  }
  if (!complete)
    return;
  EXPECT_EQ(solution.feasible, exists);
  EXPECT_TRUE(solution.proven) << "cost " << toString(solution.cost) << ", bound " << toString(solution.lowerBound);
  EXPECT_EQ(!solution.choice.empty(), somethingAllowed && !problem.nodes.empty());
  if (!exists && somethingAllowed) {
    EXPECT_EQ(solution.leastPeakBytes, exact.leastPeak);
    EXPECT_TRUE(solution.leastPeakProven);
  }
}

class Families : public testing::TestWithParam<Family> {};

} // namespace

TEST_P(Families, EqualTryingEverything) {
  constexpr int64_t kTinyWork = 2000, kThreadsWork = 1'000'000;
  constexpr uint64_t kWholeEvery = 50; // with several threads, local search may use up a whole budget
  auto [first, last] = seeds();
  int64_t fit = 0, misfit = 0;
  for (uint64_t seed = first; seed <= last; ++seed) {
    Problem problem = GetParam().make(seed);
    SCOPED_TRACE(problem.name);
    Exact exact = tryEverything(problem);
    ++(exact.cost < kUnboundedTotal ? fit : misfit);
    {
      SCOPED_TRACE("1 thread");
      expectConsistent(problem, exact, {}, true);
    }
    {
      SCOPED_TRACE("2 threads");
      bool whole = seed % kWholeEvery == 0;
      expectConsistent(problem, exact, {.workBudget = whole ? SolveOptions().workBudget : kThreadsWork, .threads = 2},
                       whole);
    }
    {
      SCOPED_TRACE("little work");
      expectConsistent(problem, exact, {.workBudget = kTinyWork}, false);
    }
    if (HasFailure()) {
      std::string path = std::filesystem::temp_directory_path() /
                         (std::string(GetParam().name) + "-" + std::to_string(seed) + ".json");
      Status written = writeProblem(problem, path);
      FAIL() << problem.name << ": see it alone with KERF_SEEDS=" << seed << ".." << seed
             << (written ? "; the problem is in " + path : "");
    }
  }
  RecordProperty("fit", std::to_string(fit));
  RecordProperty("misfit", std::to_string(misfit));
}

INSTANTIATE_TEST_SUITE_P(Small, Families, testing::ValuesIn(families().begin(), families().end()),
                         [](const testing::TestParamInfo<Family> &info) { return std::string(info.param.name); });
