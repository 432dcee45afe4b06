// SPDX-License-Identifier: Apache-2.0
// Tests the lists of steps as a whole: a package holds the lists that the passes made, and a damaged list gives an
// error message.
#include "../Runtime/TestPipelines.h"

#include <gtest/gtest.h>

namespace kerf::steps::test {
namespace {
using package::Program;
using package::StepEntry;
using package::StepList;
using runtime::test::pipelineProgram;
using runtime::test::randomPipeline;
using runtime::test::withSteps;
using EntryKind = StepEntry::Kind;

/// Two stages of one layer each on two ranks, four microbatches.
Program twoStages() {
  runtime::test::PipelineCase test;
  test.schedule = package::ScheduleChoice{"1f1b", ""};
  test.stages = test.data = 2;
  test.microbatches = 4;
  test.rows = 8;
  return pipelineProgram(test);
}

TEST(Steps, AreTheSameAfterTheyHaveBeenWrittenAndRead) {
  std::mt19937 random(5);
  for (int trial = 0; trial < 100; ++trial) {
    Program program = withSteps(randomPipeline(random));
    auto read = package::readProgram(package::writeProgram(program));
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_TRUE(read->steps == program.steps) << "trial " << trial;
    EXPECT_EQ(read->stepPasses, stepPassesText({}));
    for (int64_t s = 0; s < package::stagesOf(program); ++s)
      EXPECT_TRUE(package::stepListOf(*package::flatten(program, s)) == program.steps[size_t(s)]) << "trial " << trial;
  }
}

TEST(Steps, NameTheStreamOfWhatRunsBeside) {
  // The gradient's reduction is waited for later than the loss's, which is waited for at once.
  Program program = runtime::test::classifier(2, 3, 5, 7, DType::F32);
  ASSERT_EQ(program.steps.size(), 1u);
  const package::Expansion expansion = package::expand(program);
  int runs = 0, starts = 0;
  for (const StepEntry &entry : program.steps[0]) {
    if (entry.kind == EntryKind::Run) {
      for (int op = entry.first; op <= entry.last; ++op)
        runs += expansion.ops[size_t(op)].source->op == "all_reduce";
      continue;
    }
    if (entry.kind == EntryKind::Join)
      continue;
    ASSERT_EQ(entry.kind, EntryKind::Start);
    EXPECT_EQ(entry.stream, "collective");
    EXPECT_EQ(entry.members.size(), 1u);
    ++starts;
  }
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(starts, 1);
}

TEST(Steps, SayWhatThePassesDid) {
  Program program = twoStages();
  auto figures = makeSteps(program);
  ASSERT_TRUE(figures) << figures.error().message;
  ASSERT_EQ(figures->size(), 2u);
  for (const StepPassCounts &stage : *figures) {
    std::map<std::string_view, int64_t> changed(stage.changed.begin(), stage.changed.end());
    EXPECT_EQ(changed.size(), stepPasses().size());
    EXPECT_EQ(changed["await-messages"], 4); // activations of four microbatches, or their gradients
    EXPECT_EQ(changed["copy-beside"], 0);
    EXPECT_EQ(changed["add-in-products"], 3); // of one layer's weight, in all microbatches but the first
  }
  EXPECT_EQ(stepPassesText({std::nullopt}),
            "add-in-products,join-products,fill-buckets{off},gather-ahead{off},copy-beside,move-updates-ahead,"
            "choose-streams,await-messages");
}

/// Returns the first entry of a kind.
StepEntry &entryOf(StepList &list, EntryKind kind) {
  return *std::find_if(list.begin(), list.end(), [&](const StepEntry &entry) { return entry.kind == kind; });
}
template <typename F> void eraseFrom(StepList &list, F which) {
  list.erase(std::find_if(list.begin(), list.end(), which));
}

TEST(Steps, ADamagedListIsAMessage) {
  struct Damage {
    const char *message;
    void (*make)(Program &program);
  };
  const Damage kDamages[] = {
      {"it has 2 stages, but 1 lists", [](Program &p) { p.steps.pop_back(); }},
      {"there is no instruction 100000", [](Program &p) { p.steps[0].push_back({EntryKind::Run, 100000, 100000}); }},
      {"there is no instruction -1", [](Program &p) { p.steps[0].push_back({EntryKind::Run, -1, -1}); }},
      {"there is no instruction 2147483647",
       [](Program &p) { p.steps[0].push_back({EntryKind::Run, 2147483647, 2147483647}); }},
      {"before its first", [](Program &p) { p.steps[0].push_back({EntryKind::Run, 3, 2}); }},
      {"there is no microbatch 4", [](Program &p) { p.steps[0].push_back({EntryKind::Run, 0, 0, 4}); }},
      {"there is no microbatch -1", [](Program &p) { p.steps[0].push_back({EntryKind::Run, 0, 0, -1}); }},
      {"runs twice in microbatch 0", [](Program &p) { p.steps[0].push_back(entryOf(p.steps[0], EntryKind::Run)); }},
      {"belongs to stage 0", [](Program &p) { p.steps[1].push_back(entryOf(p.steps[0], EntryKind::Run)); }},
      {"has not been computed yet", [](Program &p) { p.steps[0].erase(p.steps[0].begin()); }},
      {"it has no members to start", [](Program &p) { p.steps[0].push_back({EntryKind::Start}); }},
      {"other instructions are run", [](Program &p) { p.steps[0].push_back({EntryKind::Start, 0, 0, 0, {{0, 0}}}); }},
      {"an operand is still being received",
       [](Program &p) { eraseFrom(p.steps[1], [](const StepEntry &e) { return e.kind == EntryKind::Received; }); }},
      {"has not begun, or has been waited for already",
       [](Program &p) { p.steps[1].push_back(entryOf(p.steps[1], EntryKind::Received)); }},
      {"this transfer has begun already",
       [](Program &p) { p.steps[0].push_back(entryOf(p.steps[0], EntryKind::Send)); }},
      {"is never waited for",
       [](Program &p) { eraseFrom(p.steps[0], [](const StepEntry &e) { return e.kind == EntryKind::Sent; }); }},
      {"not a transfer", [](Program &p) { entryOf(p.steps[0], EntryKind::Send).first = 0; }},
      {"goes from stage 0 to stage 1",
       [](Program &p) { p.steps[0].push_back({EntryKind::Receive, entryOf(p.steps[0], EntryKind::Send).first}); }},
      {"would wait forever", // for what is sent at the step's end
       [](Program &p) {
         auto send = [](const StepEntry &e) { return e.kind == EntryKind::Send; };
         auto sent = [](const StepEntry &e) { return e.kind == EntryKind::Sent; };
         for (StepList &list : p.steps) {
           StepEntry late = entryOf(list, EntryKind::Send), wait = entryOf(list, EntryKind::Sent);
           eraseFrom(list, send);
           eraseFrom(list, sent);
           list.push_back(late);
           list.push_back(wait);
         }
       }},
      {"it has 1 instructions", [](Program &p) { p.steps[0].push_back({EntryKind::Join, 0, 0, 0, {{0, 0}}}); }},
      {"are no epilogue of a product",
       [](Program &p) {
         StepEntry &run = *std::find_if(p.steps[0].begin(), p.steps[0].end(), [](const StepEntry &e) {
           return e.kind == EntryKind::Run && e.last > e.first;
         });
         StepEntry join{EntryKind::Join, 0, 0, run.microbatch};
         for (int op = run.first; op <= run.last; ++op)
           join.members.push_back({op, run.microbatch});
         run = join;
       }},
      {"is not a dot_general of two operands", [](Program &p) { entryOf(p.steps[0], EntryKind::Add).first = 1; }},
      {"does not accumulate the result of", [](Program &p) { --entryOf(p.steps[0], EntryKind::Add).last; }},
      {"there is no instruction 100000", [](Program &p) { entryOf(p.steps[0], EntryKind::Add).last = 100000; }},
      {"no microbatch has begun the sum",
       [](Program &p) {
         StepEntry early = entryOf(p.steps[0], EntryKind::Add);
         eraseFrom(p.steps[0], [](const StepEntry &e) { return e.kind == EntryKind::Add; });
         early.microbatch = 0;
         StepList &list = p.steps[0];
         auto first = std::find_if(list.begin(), list.end(), [&](const StepEntry &e) {
           return e.kind == EntryKind::Run && e.first <= early.first && early.first <= e.last && e.microbatch == 0;
         });
         StepEntry rest = *first;
         first->last = early.first - 1;
         rest.first = early.last + 1;
         first = list.insert(first + 1, early) + 1;
         if (rest.first <= rest.last)
           list.insert(first, rest);
       }},
      {"runs twice in microbatch 1", [](Program &p) { p.steps[0].push_back(entryOf(p.steps[0], EntryKind::Add)); }},
      {"names the stream 'compute'", [](Program &p) { entryOf(p.steps[1], EntryKind::Receive).stream = "compute"; }},
      {"streams, but at most",
       [](Program &p) {
         StepList more;
         for (int i = 0; i < 40; ++i)
           more.push_back({EntryKind::Start, 0, 0, 0, {{0, 0}}, "s" + std::to_string(i)});
         p.steps[0].insert(p.steps[0].end(), more.begin(), more.end());
       }},
  };
  ASSERT_TRUE(package::checkProgram(twoStages()));
  for (const Damage &damage : kDamages) {
    Program program = twoStages();
    damage.make(program);
    Status status = package::checkProgram(program);
    ASSERT_FALSE(status) << damage.message;
    EXPECT_NE(status.error().message.find(damage.message), std::string::npos) << status.error().message;
  }
}

TEST(Steps, ASumIsUsedWhenAllMicrobatchesAreInIt) {
  Program program = twoStages();
  // Leave the last microbatch out of the sums: the reduction would then read an incomplete gradient.
  for (StepList &list : program.steps)
    eraseFrom(list, [](const StepEntry &entry) { return entry.kind == EntryKind::Add && entry.microbatch == 3; });
  Status status = package::checkProgram(program);
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().message.find("a sum over 4 microbatches, but only 3 have been added"), std::string::npos)
      << status.error().message;
}

/// Reading a damaged list never crashes, and every list that passes the checks can be flattened.
TEST(Steps, RandomDamageIsFoundOrHarmless) {
  std::mt19937 random(9);
  auto below = [&](size_t n) { return random() % n; };
  int refused = 0;
  for (int trial = 0; trial < 3000; ++trial) {
    Program program = twoStages();
    for (size_t times = 1 + below(3); times-- > 0;) {
      StepList &list = program.steps[below(2)];
      StepEntry &entry = list[below(list.size())];
      switch (below(6)) {
      case 0:
        list.erase(list.begin() + int64_t(below(list.size())));
        break;
      case 1:
        std::swap(entry, list[below(list.size())]);
        break;
      case 2:
        entry.first += int(below(3)) - 1;
        break;
      case 3:
        entry.last += int(below(3)) - 1;
        break;
      case 4:
        entry.microbatch = int64_t(below(5));
        break;
      default:
        entry.kind = EntryKind(below(6));
        break;
      }
    }
    Status status = package::checkProgram(program);
    refused += !status;
    if (status) {
      EXPECT_TRUE(runtime::planMemory(program, 0) && runtime::planMemory(program, 1));
    }
  }
  EXPECT_GT(refused, 2000);
}

} // namespace
} // namespace kerf::steps::test
