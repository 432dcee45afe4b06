// SPDX-License-Identifier: Apache-2.0
// Checks with random sizes, schedules and transfers that stages which run their unrolled programs never deadlock, and
// that an unrolled program uses no value before it is computed.
#include "../../lib/Steps/StepOrder.h"
#include "../Runtime/TestPipelines.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <set>

namespace kerf::steps::test {
namespace {
using package::FlatArg;
using package::FlatInstruction;
using package::FlatProgram;
using runtime::test::randomPipeline;
using runtime::test::withSteps;

using Kind = FlatInstruction::Kind;

StepOrder orderOf(const char *name, int64_t stages, int64_t microbatches, int64_t chunks = 1) {
  return stepOrder(*makeSchedule(*scheduleOptions(name, "", stages, microbatches, chunks)));
}

TEST(StepOrder, IsTheOrderOfStarts) {
  // Starts:  stage 0: F0 0, F1 1, B0 3, F2 4, B1 5, B2 7;  stage 1: F0 1, B0 2, F1 3, B1 4, F2 5, B2 6.
  StepOrder order = orderOf("1f1b", 2, 3);
  EXPECT_EQ(order.places[0], (std::vector<int64_t>{0, 1, 4, 6, 8, 11}));
  EXPECT_EQ(order.places[1], (std::vector<int64_t>{2, 3, 5, 7, 9, 10}));
  // F0 of stage 1, at place 2, receives the message of F0 of stage 0, which therefore waits for it at place 4, B0.
  EXPECT_EQ(waitTask(order, 0, 1, 0), 2u);
  EXPECT_EQ(waitTask(order, 0, 1, 5), 5u); // B2 of stage 1 -> B2 of stage 0
  EXPECT_EQ(waitTask(order, 1, 0, 5), 6u); // nothing comes after B2 of stage 0: before update
}

TEST(StepOrder, ComesAfterWhatATaskNeeds) {
  for (const char *name : {"gpipe", "1f1b", "interleaved", "zero-bubble"})
    for (int64_t stages : {1, 2, 3, 5})
      for (int64_t microbatches : {1, 2, 4, 7})
        for (int64_t chunks : {1, 2}) {
          if (chunks > 1 && std::string(name) != "interleaved")
            continue;
          StepOrder order = orderOf(name, stages, microbatches, chunks);
          std::set<int64_t> places;
          for (int64_t s = 0; s < stages; ++s) {
            const std::vector<Task> &tasks = order.schedule.order[size_t(s)];
            const std::vector<int64_t> &own = order.places[size_t(s)];
            ASSERT_TRUE(std::is_sorted(own.begin(), own.end()));
            places.insert(own.begin(), own.end());
            for (size_t t = 0; t < tasks.size(); ++t) {
              auto next = partAfter(order.schedule, {s, tasks[t].chunk});
              if (tasks[t].kind != TaskKind::Forward || !next)
                continue;
              const std::vector<Task> &theirs = order.schedule.order[size_t(next->stage)];
              Task consumer{TaskKind::Forward, tasks[t].microbatch, next->chunk};
              size_t there = size_t(std::find(theirs.begin(), theirs.end(), consumer) - theirs.begin());
              EXPECT_LT(own[t], order.places[size_t(next->stage)][there]);
              size_t wait = waitTask(order, s, next->stage, there);
              EXPECT_GT(wait, t);
              if (wait < own.size()) {
                EXPECT_GT(own[wait], order.places[size_t(next->stage)][there]);
              }
            }
          }
          EXPECT_EQ(int64_t(places.size()), *places.rbegin() + 1);
        }
}

/// Steps all stages, each as far as possible: a receive blocks until the message is sent, and the wait for a send
/// blocks until the message is received. Returns where each stage stopped.
std::vector<size_t> walk(const std::vector<FlatProgram> &stages) {
  std::set<int64_t> sent, received;
  std::vector<size_t> at(stages.size(), 0);
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t s = stages.size(); s-- > 0;)
      for (; at[s] < stages[s].body.size(); ++at[s], moved = true) {
        const FlatInstruction &next = stages[s].body[at[s]];
        if ((next.kind == Kind::Receive && !sent.count(next.message)) ||
            (next.kind == Kind::Sent && !received.count(next.message)))
          break;
        if (next.kind == Kind::Send) {
          EXPECT_TRUE(sent.insert(next.message).second);
        }
        if (next.kind == Kind::Receive) {
          EXPECT_TRUE(received.insert(next.message).second);
        }
      }
  }
  EXPECT_EQ(sent, received);
  return at;
}

/// Checks that operands are computed before their uses, that each value is computed once, and that each send is waited
/// for once, after it began.
void checkOrder(const FlatProgram &flat) {
  std::vector<bool> defined(flat.values.size(), false);
  for (const FlatArg &arg : flat.args)
    defined[size_t(arg.value)] = true;
  std::set<int64_t> open;
  for (const FlatInstruction &instruction : flat.body) {
    for (int operand : instruction.operands) {
      ASSERT_GE(operand, 0);
      ASSERT_TRUE(defined[size_t(operand)]);
    }
    for (int result : instruction.results) {
      ASSERT_FALSE(defined[size_t(result)]);
      defined[size_t(result)] = true;
    }
    if (instruction.kind == Kind::Send) {
      EXPECT_TRUE(open.insert(instruction.message).second);
    }
    if (instruction.kind == Kind::Sent) {
      EXPECT_EQ(open.erase(instruction.message), 1u);
    }
    EXPECT_LT(instruction.message, flat.messages);
    EXPECT_LT(instruction.origin, flat.origins);
  }
  EXPECT_TRUE(open.empty());
}

TEST(StepOrder, RandomTransfersNeverDeadlock) {
  constexpr uint32_t kSeed = 11;
  std::mt19937 random(kSeed);
  int64_t messages = 0;
  for (int trial = 0; trial < 400; ++trial) {
    package::Program program = withSteps(randomPipeline(random), {/*bucketBytes=*/trial % 2 ? 0 : 100});
    SCOPED_TRACE("seed " + std::to_string(kSeed) + ", trial " + std::to_string(trial));
    Status status = package::checkProgram(program);
    ASSERT_TRUE(status) << status.error().message << "\n" << package::writeProgram(program);
    std::vector<FlatProgram> stages;
    for (int64_t s = 0; s < package::stagesOf(program); ++s) {
      auto flat = package::flatten(program, s);
      ASSERT_TRUE(flat) << flat.error().message;
      checkOrder(*flat);
      stages.push_back(std::move(*flat));
    }
    messages += stages[0].messages;
    std::vector<size_t> stopped = walk(stages);
    for (size_t s = 0; s < stages.size(); ++s)
      ASSERT_EQ(stopped[s], stages[s].body.size()) << "stage " << s << "\n" << package::writeProgram(program);
  }
  EXPECT_GT(messages, 4000);
}

TEST(StepOrder, InstructionsOfOneOriginAreTheSame) {
  constexpr uint32_t kSeed = 12;
  std::mt19937 random(kSeed);
  for (int trial = 0; trial < 50; ++trial) {
    package::Program program = withSteps(randomPipeline(random));
    auto flat = package::flatten(program, 0);
    ASSERT_TRUE(flat);
    std::map<int, const package::Instruction *> sources;
    for (const FlatInstruction &instruction : flat->body)
      EXPECT_EQ(sources.emplace(instruction.origin, instruction.source).first->second, instruction.source);
  }
}

} // namespace
} // namespace kerf::steps::test
