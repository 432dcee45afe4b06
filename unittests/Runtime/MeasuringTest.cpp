// SPDX-License-Identifier: Apache-2.0
// The choice of the fastest way of a library, on the stand-ins.
#include "../../lib/Runtime/Cuda/Measuring.h"
#include "../../lib/Runtime/Cuda/CudnnAttention.h"
#include "../../lib/Runtime/Cuda/CudnnGpu.h"
#include "../../lib/Runtime/Cuda/Library.h"

#include <chrono>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <thread>

namespace kerf::runtime::cuda {
namespace {

TEST(Measuring, ChoosesTheFastestCallThatRuns) {
  auto context = std::move(*Context::open(0));
  auto bench = Bench::create(context, {64, 0, 16});
  ASSERT_TRUE(bench) << bench.error().message;
  EXPECT_NE((*bench)->memory(0), nullptr);
  EXPECT_EQ((*bench)->memory(1), nullptr);
  auto lasting = [](int milliseconds) -> LibraryCall {
    return [=](CudaStream &) -> Status {
      std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
      return ok();
    };
  };
  LibraryCall failing = [](CudaStream &) -> Status { return Error{"the library refuses"}; };
  EXPECT_EQ(*(*bench)->fastest({lasting(20), lasting(1), lasting(20)}), 1u);
  EXPECT_EQ(*(*bench)->fastest({lasting(1), lasting(20)}), 0u);
  EXPECT_EQ(*(*bench)->fastest({failing, lasting(20), lasting(1)}), 2u);
  EXPECT_EQ((*bench)->fastest({failing, failing}).error().message, "the library refuses");
}

TEST(Measuring, RunsLongCallsLessOften) {
  auto context = std::move(*Context::open(0));
  auto bench = Bench::create(context, {});
  ASSERT_TRUE(bench) << bench.error().message;
  int runs[3] = {};
  auto counted = [&](int number, int milliseconds) -> LibraryCall {
    return [&runs, number, milliseconds](CudaStream &) -> Status {
      ++runs[number];
      std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
      return ok();
    };
  };
  EXPECT_EQ(*(*bench)->fastest({counted(0, 10), counted(1, 100), counted(2, 0)}), 2u);
  EXPECT_EQ(runs[0], 3) << "one run that is not counted, and two that are";
  EXPECT_EQ(runs[1], 2) << "the second one is much longer than the first call's";
  EXPECT_GE(runs[2], 3);
  EXPECT_LE(runs[2], 7);
}

TEST(Measuring, KeepsChoicesForTheProcess) {
  auto context = std::move(*Context::open(0));
  Choices<std::string, int> choices;
  int measured = 0;
  auto measure = [&] { return Result<int>(++measured); };
  EXPECT_EQ(*choices.find(*context, "a", measure), 1);
  EXPECT_EQ(*choices.find(*context, "b", measure), 2);
  EXPECT_EQ(*choices.find(*context, "a", measure), 1);
  auto fail = [] { return Result<int>(Error{"no"}); };
  EXPECT_FALSE(choices.find(*context, "c", fail));
  EXPECT_EQ(*choices.find(*context, "c", measure), 3);
}

int64_t executions() {
  auto library = openLibrary("libcudnn_graph.so.9");
  EXPECT_TRUE(library);
  return reinterpret_cast<int64_t (*)()>(dlsym(library->handle, "kerfStandinCudnnExecutions"))();
}

/// The graph of an attention with `s` queries and keys, in vectors of 128 numbers.
CudnnGraph graphOf(int64_t s) {
  AttentionSizes z{};
  z.b = z.h = z.g = 1, z.s = z.t = s, z.d = z.e = 128;
  return forwardGraph(z, denseStrides(z), {1, 1}, kDataBfloat16).graph;
}

TEST(Measuring, RunsThePlansOfLargeGraphsOnce) {
  constexpr int64_t kPlans = 2, kLeastRuns = 2, kMostRuns = 7; // the stand-in proposes two plans that may run
  static constexpr PlanLimits kLimits{kForwardWorkspace, false};
  EXPECT_EQ(multiplicationsOf(graphOf(512)), 512.0 * 512 * 256);
  int64_t before = executions();
  auto planOf = [](int64_t s, bool measures) {
    auto context = std::move(*Context::open(0));
    context->products.measures = measures;
    auto plan = (*CudnnGpu::of(*context))->plan(context, graphOf(s), kLimits);
    EXPECT_TRUE(plan && *plan);
    return (*plan)->engine;
  };
  planOf(512, false);
  planOf(64, true);
  EXPECT_EQ(executions(), before);
  int64_t engine = planOf(512, true);
  int64_t after = executions();
  EXPECT_GE(after, before + kPlans * kLeastRuns);
  EXPECT_LE(after, before + kPlans * kMostRuns);
  EXPECT_EQ(planOf(512, true), engine); // another rank
  EXPECT_EQ(executions(), after);
}

TEST(Measuring, TakesOnlyPlansOfTheLimits) {
  auto cudnn = loadCudnn();
  ASSERT_TRUE(cudnn) << cudnn.error().message;
  auto context = std::move(*Context::open(0));
  CudnnHandle handle = nullptr;
  ASSERT_EQ((*cudnn)->create(&handle), 0);
  auto engines = [&](PlanLimits limits, size_t tries) {
    std::string reason;
    auto plans = plansOf(**cudnn, {handle}, graphOf(64), limits, tries, reason);
    EXPECT_TRUE(plans);
    std::vector<int64_t> numbers;
    for (const auto &plan : *plans)
      numbers.push_back(plan->engine);
    return numbers;
  };
  // The stand-in proposes 3, which needs a large workspace, 2, whose sums change from run to run, and 4.
  using Engines = std::vector<int64_t>;
  EXPECT_EQ(engines({kForwardWorkspace, false}, 6), (Engines{2, 4}));
  EXPECT_EQ(engines({kForwardWorkspace, false}, 2), (Engines{2, 4}));
  EXPECT_EQ(engines({kForwardWorkspace, false}, 1), Engines{2});
  EXPECT_EQ(engines({kForwardWorkspace, true}, 1), Engines{4});
  EXPECT_EQ(engines({0, false}, 6), Engines());
  EXPECT_EQ((*cudnn)->destroy(handle), 0);
}

} // namespace
} // namespace kerf::runtime::cuda
