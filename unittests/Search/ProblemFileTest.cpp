// SPDX-License-Identifier: Apache-2.0
// The contest's file format: reading, messages for malformed files, and that a written problem keeps its optimum.
#include "kerf/Search/ProblemFile.h"
#include "RandomProblems.h"
#include "kerf/Search/Solver.h"
#include "kerf/Support/File.h"
#include <filesystem>
#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

using namespace kerf;
using namespace kerf::test;

namespace {

/// The example with five nodes that the contest published.
const std::string kExample = R"({"problem": {"name": "example",
  "nodes": {"intervals": [[30, 70], [40, 70], [50, 120], [110, 140], [110, 150]],
            "costs": [[15], [55, 65], [25, 45, 35], [85, 75], [95]],
            "usages": [[10], [25, 25], [15, 20, 15], [10, 10], [15]]},
  "edges": {"nodes": [[0, 1], [0, 2], [1, 3], [2, 4], [3, 4]],
            "costs": [[30, 40], [50, 10, 40], [90, 10, 20, 80], [60, 20, 30], [70, 60]]},
  "usage_limit": 50}})";

class ProblemFile : public testing::Test {
protected:
  void SetUp() override {
    folder = std::filesystem::temp_directory_path() / ("kerf-problems-" + std::to_string(getpid()));
    std::filesystem::create_directory(folder);
  }
  void TearDown() override { std::filesystem::remove_all(folder); }
  std::string path(const std::string &name) const { return folder / name; }

  Result<Problem> readText(const std::string &text) {
    Status written = writeFile(path("p.json"), text);
    return written ? readProblem(path("p.json")) : Result<Problem>(written.error());
  }

  /// Reads the example with its one occurrence of `from` replaced by `to`.
  static std::string exampleWith(const std::string &from, const std::string &to) {
    std::string text = kExample;
    size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
  }

  void expectRefused(const std::string &text, const std::vector<std::string> &words) {
    Result<Problem> problem = readText(text);
    ASSERT_FALSE(static_cast<bool>(problem)) << text.substr(0, 300);
    EXPECT_EQ(problem.error().status, ExitStatus::BadInput);
    EXPECT_NE(problem.error().message.find("p.json"), std::string::npos) << problem.error().message;
    for (const std::string &word : words)
      EXPECT_NE(problem.error().message.find(word), std::string::npos) << problem.error().message;
  }

  std::filesystem::path folder;
};

std::string zipped(const std::string &text, const std::string &path) {
  gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
  gzclose(file);
  return *readFile(path);
}

} // namespace

TEST_F(ProblemFile, ReadsTheExample) {
  Result<Problem> problem = readText(kExample);
  ASSERT_TRUE(static_cast<bool>(problem)) << problem.error().message;
  EXPECT_EQ(problem->name, "example");
  ASSERT_EQ(problem->nodes.size(), 5u);
  EXPECT_EQ(problem->nodes[2].costs, (std::vector<Cost>{25, 45, 35}));
  ASSERT_EQ(problem->edges.size(), 5u);
  EXPECT_EQ(problem->costOf(problem->edges[2], 1, 0), 20);
  ASSERT_EQ(problem->usages.size(), 5u);
  EXPECT_EQ(problem->usages[2].bytes, (std::vector<int64_t>{15, 20, 15}));
  EXPECT_EQ(problem->usages[2].live[0].begin, 50);
  EXPECT_EQ(problem->usages[2].live[0].end, 120);
  EXPECT_EQ(problem->memoryLimitBytes, 50);
  Result<Solution> solution = solve(*problem);
  ASSERT_TRUE(solution->feasible);
  EXPECT_EQ(solution->cost, bruteForce(*problem).cost);
  EXPECT_EQ(costOf(*problem, {0, 0, 2, 1, 0}), 15 + 55 + 35 + 75 + 95 + 30 + 40 + 10 + 30 + 60);
}

TEST_F(ProblemFile, KeysMayComeInAnyOrderAndUnknownOnesDoNotMatter) {
  Result<Problem> problem = readText(R"({"version": {"a": [1, {"b": null}]}, "problem": {"usage_limit": 7, "x": "y",
    "edges": {"costs": [[1, 2]], "weights": [[[]]], "nodes": [[1, 0]]},
    "nodes": {"usages": [[4, 5], [6]], "names": ["a", "b"], "costs": [[0, 3], [9]], "intervals": [[0, 2], [1, 3]]}}, "z": 1.5e3})");
  ASSERT_TRUE(static_cast<bool>(problem)) << problem.error().message;
  EXPECT_EQ(problem->edges[0].u, 1);
  EXPECT_EQ(costOf(*problem, {1, 0}), 3 + 9 + 2);
  EXPECT_EQ(peakBytesOf(*problem, {1, 0}), 11);
}

TEST_F(ProblemFile, WithoutALimitOrMemory) {
  Result<Problem> problem = readText(exampleWith(",\n  \"usage_limit\": 50", ""));
  ASSERT_TRUE(static_cast<bool>(problem)) << problem.error().message;
  EXPECT_EQ(problem->memoryLimitBytes, std::nullopt);
  problem = readText(exampleWith("[30, 70]", "[30, 30]"));
  EXPECT_EQ(problem->usages.size(), 4u) << "an empty interval is no usage";
  problem = readText(exampleWith("[25, 25]", "[0, 0]"));
  EXPECT_EQ(problem->usages.size(), 4u) << "no bytes are no usage";
  problem = readText(
      R"({"problem": {"nodes": {"intervals": [], "costs": [], "usages": []}, "edges": {"nodes": [], "costs": []}}})");
  ASSERT_TRUE(static_cast<bool>(problem)) << problem.error().message;
  EXPECT_TRUE(problem->nodes.empty());
}

TEST_F(ProblemFile, LargeNumbersAreExactAndJustCosts) {
  Result<Problem> problem = readText(exampleWith("[55, 65]", "[1000000000000000000, 4611686018427387904]"));
  ASSERT_TRUE(static_cast<bool>(problem)) << problem.error().message;
  EXPECT_EQ(problem->nodes[1].costs, (std::vector<Cost>{1'000'000'000'000'000'000, kMaxCost}));
  problem = readText(exampleWith("[90, 10, 20, 80]", "[1152921504606846977, 10, 20, 80]"));
  EXPECT_EQ(problem->costOf(problem->edges[2], 0, 0), 1'152'921'504'606'846'977);
}

TEST_F(ProblemFile, EqualTablesAreStoredOnce) {
  Result<Problem> problem = readText(exampleWith("[60, 20, 30], [70, 60]", "[60, 20, 30], [30, 40]"));
  ASSERT_TRUE(static_cast<bool>(problem)) << problem.error().message;
  EXPECT_EQ(problem->tables.size(), 4u);
  EXPECT_EQ(problem->edges[4].table, problem->edges[0].table);
}

TEST_F(ProblemFile, GzipIsSeenWhateverTheName) {
  std::string packed = zipped(kExample, path("example.json.gz"));
  EXPECT_TRUE(static_cast<bool>(readProblem(path("example.json.gz"))));
  Result<Problem> problem = readText(packed); // under a name that ends in .json
  ASSERT_TRUE(static_cast<bool>(problem)) << problem.error().message;
  EXPECT_EQ(problem->nodes.size(), 5u);
  ASSERT_TRUE(static_cast<bool>(writeFile(path("plain.gz"), kExample)));
  EXPECT_TRUE(static_cast<bool>(readProblem(path("plain.gz"))));
  // Several gzip members are one text.
  EXPECT_TRUE(static_cast<bool>(
      readText(zipped(kExample.substr(0, 100), path("a")) + zipped(kExample.substr(100), path("b")))));
}

TEST_F(ProblemFile, TextsThatEndAtAPageHaveTheirPaddingToo) {
  for (size_t size : {4096, 8192, 4096 - 1, 4096 - 63, 4096 - 64, 4096 + 1}) {
    std::string text = kExample + std::string(size - kExample.size(), ' ');
    EXPECT_TRUE(static_cast<bool>(readText(text))) << size;
    size_t end = text.size();
    text.resize(0);
    text = std::string(end - kExample.size(), '\n') + kExample;
    EXPECT_TRUE(static_cast<bool>(readText(text))) << size;
  }
}

TEST_F(ProblemFile, RefusesWhatIsMalformed) {
  struct Case {
    std::string from, to;
    std::vector<std::string> words;
  };
  const Case cases[] = {
      {"[40, 70]", "[70, 40]", {"nodes.intervals[1]", "begins at 70 and ends at 40"}},
      {"[40, 70]", "[-1, 70]", {"nodes.intervals[1][0] is -1", "0 to 4611686018427387904"}},
      {"[40, 70]", "[40]", {"nodes.intervals[1] has 1 entries", "two"}},
      {"[40, 70]", "[40, 70, 80]", {"nodes.intervals[1] has 3 entries"}},
      {"[40, 70], ", "", {"nodes.costs has 5 entries and nodes.intervals has 4"}},
      {"[25, 25], ", "", {"nodes.costs has 5 entries and nodes.usages has 4"}},
      {"[55, 65]", "[]", {"nodes.costs[1] is empty"}},
      {"[25, 25]", "[25]", {"nodes.usages[1] has 1 entries and nodes.costs[1] has 2"}},
      {"[25, 45, 35]", "[25, 45, -35]", {"nodes.costs[2][2] is -35"}},
      {"[25, 45, 35]", "[25, 45, 3.5]", {"nodes.costs[2][2]", "whole number", "3.5"}},
      {"[25, 45, 35]", "[25, 45, 1e18]", {"nodes.costs[2][2]", "whole number", "1e18"}},
      {"[25, 45, 35]", "[25, 45, \"35\"]", {"nodes.costs[2][2]", "whole number", "\"35\""}},
      {"[25, 45, 35]", "[25, 45, null]", {"nodes.costs[2][2]", "null"}},
      {"[25, 45, 35]", "[25, 45, [35]]", {"nodes.costs[2][2]"}},
      {"[25, 45, 35]",
       "[25, 45, 4611686018427387905]",
       {"nodes.costs[2][2] is 4611686018427387905", "4611686018427387904"}},
      {"[25, 45, 35]", "[25, 45, 99999999999999999999]", {"nodes.costs[2][2]", "99999999999999999999"}},
      {"[25, 45, 35]", "[25, 45, 35x]", {"nodes.costs[2][2]", "35x"}},
      {"[25, 45, 35]", "[25 45, 35]", {"nodes.costs[2]", "byte"}},
      {"[25, 45, 35]", "[25, 45, ]", {"nodes.costs[2]", "byte"}},
      {"[25, 45, 35]", "25", {"nodes.costs[2] must be a list of numbers; is 25"}},
      {"[[15], [55, 65], [25, 45, 35], [85, 75], [95]]",
       "{}",
       {"nodes.costs must be a list of lists of numbers; is {"}},
      {"[25, 25]", "[25, -25]", {"nodes.usages[1][1] is -25"}},
      {"[25, 25]", "[4611686018427387904, 25]", {"live at moment 50", "2^61"}},
      {"[2, 4]", "[2, 5]", {"edges.nodes[3] joins nodes 2 and 5, but there are 5 nodes"}},
      {"[2, 4]", "[2, -1]", {"edges.nodes[3][1] is -1"}},
      {"[2, 4]", "[2, 2]", {"edges.nodes[3] joins node 2 with itself"}},
      {"[2, 4]", "[2]", {"edges.nodes[3] has 1 entries"}},
      {"[2, 4], ", "", {"edges.nodes has 4 entries and edges.costs has 5"}},
      {"[60, 20, 30]", "[60, 20]", {"edges.costs[3] has 2 entries; nodes 2 and 4 have 3 x 1 = 3"}},
      {"[60, 20, 30]", "[60, 20, 1.0]", {"edges.costs[3][2]", "1.0"}},
      {"\"usage_limit\": 50", "\"usage_limit\": -50", {"usage_limit is -50"}},
      {"\"usage_limit\": 50", "\"usage_limit\": null", {"usage_limit", "null"}},
      {"\"usage_limit\": 50", "\"usage_limit\": 50, \"usage_limit\": 51", {"usage_limit is there twice"}},
      {"\"name\": \"example\"", "\"name\": 7", {"problem.name must be a string; is 7"}},
      {"\"costs\": [[15]", "\"cost\": [[15]", {"nodes has no key \"costs\""}},
      {"\"edges\": {\"nodes\"", "\"edge\": {\"nodes\"", {"problem has no key \"edges\""}},
      {"\"problem\"", "\"Problem\"", {"has no key \"problem\""}},
      {"\"usage_limit\": 50}}", "\"usage_limit\": 50}}}", {"byte"}},
      {"\"usage_limit\": 50}}", "\"usage_limit\": 50}} 1", {"byte"}},
      {"\"usage_limit\": 50}}", "\"usage_limit\": 50]}", {"byte"}},
      {"\"example\"", "\"exa\xff\xffmple\"", {"no JSON at byte 28 of", "UTF-8"}},
      {"\"example\"", "\"example", {"byte"}},
  };
  for (const Case &wrong : cases) {
    SCOPED_TRACE(wrong.from + " -> " + wrong.to);
    expectRefused(exampleWith(wrong.from, wrong.to), wrong.words);
  }
  for (const char *text : {"", " ", "7", "\"problem\"", "[]", "[1, 2]", "null", "{}", "{", "[", "}", "hello",
                           "{\"problem\": 1}", "{\"problem\"}", "{\"problem\": {}}", "{\"problem\": {\"nodes\": []}}",
                           "\x1f\x8b", "\x1f\x8bxxxxxxxxxxxxxxxxxxxx", "\xff\xfe{"}) {
    SCOPED_TRACE(text);
    expectRefused(text, {});
  }
}

TEST_F(ProblemFile, EveryTruncationIsRefused) {
  for (size_t size = 0; size < kExample.size(); ++size)
    expectRefused(kExample.substr(0, size), {"the text ends at byte " + std::to_string(size)});
  std::string packed = zipped(kExample, path("whole.gz"));
  for (size_t size = 0; size < packed.size(); ++size)
    expectRefused(packed.substr(0, size), {});
  expectRefused(packed.substr(0, packed.size() - 3), {"gzip data is cut off"});
  std::string damaged = packed;
  damaged[damaged.size() - 6] ^= 1; // the checksum
  expectRefused(damaged, {"gzip data is damaged"});
}

TEST_F(ProblemFile, ChangedBytesNeverCrash) {
  std::mt19937 random(7);
  for (int round = 0; round < 1000; ++round) {
    std::string text = kExample;
    for (int change = 1 + static_cast<int>(random() % 3); change > 0; --change) {
      size_t at = random() % text.size();
      switch (random() % 3) {
      case 0:
        text[at] = "{}[],:\"0123456789.-e \\nulltrue\xc3"[random() % 31];
        break;
      case 1:
        text.erase(at, 1 + random() % 5);
        break;
      default:
        text.insert(at, text.substr(random() % text.size(), random() % 8));
      }
    }
    Result<Problem> problem = readText(text);
    if (!problem) {
      EXPECT_FALSE(problem.error().message.empty());
      continue;
    }
    EXPECT_TRUE(static_cast<bool>(check(*problem)));
  }
}

TEST_F(ProblemFile, FilesThatCannotBeRead) {
  EXPECT_NE(readProblem(path("nowhere.json")).error().message.find("nowhere.json"), std::string::npos);
  EXPECT_NE(readProblem(folder).error().message.find("folder"), std::string::npos);
  Problem problem;
  problem.nodes = {{"n", {1}}};
  EXPECT_FALSE(static_cast<bool>(writeProblem(problem, path("no/such/folder.json"))));
}

TEST_F(ProblemFile, WhatWasReadIsWrittenAsItWas) {
  Problem problem = *readText(kExample);
  problem.name = "a \"name\"\n\xff";
  for (const char *name : {"out.json", "out.json.gz"}) {
    ASSERT_TRUE(static_cast<bool>(writeProblem(problem, path(name))));
    Result<Problem> again = readProblem(path(name));
    ASSERT_TRUE(static_cast<bool>(again)) << again.error().message;
    EXPECT_EQ(again->name, "a \"name\"\n\xef\xbf\xbd");
    ASSERT_EQ(again->nodes.size(), 5u);
    for (size_t i = 0; i < 5; ++i) {
      EXPECT_EQ(again->nodes[i].costs, problem.nodes[i].costs);
      EXPECT_EQ(again->usages[i].bytes, problem.usages[i].bytes);
      EXPECT_EQ(again->usages[i].live[0].end, problem.usages[i].live[0].end);
    }
    EXPECT_EQ(again->tables, problem.tables);
    EXPECT_EQ(again->memoryLimitBytes, 50);
  }
  EXPECT_EQ(readFile(path("out.json.gz"))->substr(0, 2), "\x1f\x8b");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 3) << "temporary files stay behind";
}

TEST_F(ProblemFile, TheBestAnswerOfWhatIsWrittenIsTheBestHere) {
  constexpr TotalCost kForbids = 1'000'000'000'000'000'000;
  int answered = 0, impossible = 0, forbidden = 0;
  for (unsigned seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    Problem problem = randomProblem(
        {.maxNodes = 5, .maxStrategies = 3, .forbiddenShare = 0.15, .memory = true, .ties = true, .pins = true},
        random);
    if (seed % 5 == 0)
      problem.memoryLimitBytes.reset();
    for (MemoryUsage &usage : problem.usages)
      for (LiveInterval &live : usage.live)
        if (seed % 3 == 0) // moments outside of the format's range
          live.begin -= 5, live.end -= 5;
    ASSERT_TRUE(static_cast<bool>(writeProblem(problem, path("w.json"))));
    Result<Problem> file = readProblem(path("w.json"));
    ASSERT_TRUE(static_cast<bool>(file)) << file.error().message;
    BruteForce best = bruteForce(problem);
    Result<Solution> solution = solve(*file);
    ASSERT_TRUE(static_cast<bool>(solution));
    ASSERT_TRUE(solution->proven);
    if (!solution->feasible) {
      EXPECT_EQ(best.cost, kUnboundedTotal);
      ++impossible;
      continue;
    }
    if (solution->cost >= kForbids) {
      EXPECT_EQ(best.cost, kUnboundedTotal);
      ++forbidden;
      continue;
    }
    ++answered;
    std::vector<int> choice(solution->choice.begin(),
                            solution->choice.begin() + static_cast<long>(problem.nodes.size()));
    EXPECT_EQ(solution->cost, best.cost);
    EXPECT_EQ(costOf(problem, choice), best.cost);
    EXPECT_EQ(peakBytesOf(problem, choice), solution->peakBytes);
  }
  EXPECT_GT(answered, 50);
  EXPECT_GT(impossible, 10);
  EXPECT_GT(forbidden, 10);
}

TEST_F(ProblemFile, WritesNoAmbiguousFile) {
  Problem problem;
  problem.nodes = {{"a", {600'000'000'000'000'000, 1}}, {"b", {400'000'000'000'000'000, 2}}};
  EXPECT_TRUE(static_cast<bool>(writeProblem(problem, path("w.json")))) << "nothing is forbidden";
  problem.ties = {{0, 1}};
  Status status = writeProblem(problem, path("tied.json"));
  ASSERT_FALSE(static_cast<bool>(status));
  EXPECT_NE(status.error().message.find("can sum to 1000000000000000000"), std::string::npos) << status.error().message;
  EXPECT_FALSE(std::filesystem::exists(path("tied.json")));
  problem.nodes[1].costs[0] -= 1;
  EXPECT_TRUE(static_cast<bool>(writeProblem(problem, path("tied.json"))));
}
