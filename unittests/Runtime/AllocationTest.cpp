// SPDX-License-Identifier: Apache-2.0
// Training steps allocate no memory: these tests count the allocations of whole runs, on all ranks and streams,
// from the end of the first step on. The command `AllocationTests PACKAGE DATA.npz` counts those of a package that
// `kerf compile` wrote.
#include "AllocationCounter.h"
#include "TestPipelines.h"

#include <barrier>
#include <cstdlib>
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <new>
#include <oneapi/dnnl/dnnl.h>

namespace kerf::runtime::test {
namespace {
constexpr int64_t kCountedSteps = 5;

/// Counts the allocations of steps 1 to kCountedSteps; step 0 may allocate. Every rank calls the learning rate function
/// when a step begins, and the ranks wait for each other there. So all ranks have ended step 0 when counting starts,
/// and the last counted step when counting stops.
Result<Allocations> countSteps(const package::Program &program, const TensorMap &weights, const TensorMap &data) {
  Allocations counted;
  int64_t meetings = 0;
  auto met = [&]() noexcept {
    if (++meetings == 1)
      startCounting();
    else
      counted = stopCounting();
  };
  std::barrier barrier(std::ptrdiff_t(package::ranksOf(program)), met);
  RunOptions options;
  options.steps = kCountedSteps + 2;
  options.threads = 2;
  options.learningRate = [&](int64_t step) {
    if (step == 1 || step == kCountedSteps + 1)
      barrier.arrive_and_wait();
    return 0.01;
  };
  auto report = run(program, weights, data, options);
  if (!report)
    return report.error();
  fmt::print("ranks: {}, steps: {}, allocations by Kerf: {}, by oneDNN: {}\n", package::ranksOf(program), kCountedSteps,
             counted.kerf, counted.oneDnn);
  return counted;
}

std::string stacksOf(const Allocations &allocations) {
  std::string text =
      "Kerf allocated during steps; the first calls, innermost first (addr2line -Cfe PROGRAM ADDRESS):\n";
  for (const std::string &stack : allocations.first)
    text += stack + "\n";
  return text;
}

class AllocationTest : public testing::Test {
  void SetUp() override {
    if (!canCountAllocations())
      GTEST_SKIP() << "a sanitizer's malloc can't be counted";
  }
};

template <typename T> [[gnu::noinline]] void use(T &&thing) {
  asm volatile("" : : "g"(&thing) : "memory"); // seen from outside: the compiler may not leave the allocation out
}

TEST_F(AllocationTest, IsSeenWhateverAsksForIt) {
  struct alignas(64) Wide {
    double values[8];
  };
  startCounting();
  std::vector<int> numbers(10);
  use(numbers);
  auto wide = std::make_unique<Wide>();
  use(wide);
  std::string text(100, 'x');
  use(text);
  void *plain = std::malloc(10);
  use(plain);
  plain = std::realloc(plain, 1000);
  use(plain);
  void *zeros = std::calloc(3, 7);
  use(zeros);
  Allocations counted = stopCounting();
  std::free(plain);
  std::free(zeros);
  EXPECT_EQ(counted.kerf, 6) << stacksOf(counted);
  EXPECT_EQ(counted.oneDnn, 0);
}

TEST_F(AllocationTest, OneDnnsOwnAreToldApart) {
  startCounting();
  dnnl_engine_t engine = nullptr;
  dnnl_status_t status = dnnl_engine_create(&engine, dnnl_cpu, 0);
  Allocations counted = stopCounting();
  ASSERT_EQ(status, dnnl_success);
  dnnl_engine_destroy(engine);
  EXPECT_GT(counted.oneDnn, 0);
  EXPECT_EQ(counted.kerf, 0) << stacksOf(counted);
}

TEST_F(AllocationTest, NoneInAStep) {
  // The sizes are large enough for oneDNN's products and for an all_reduce of two phases. One collective is waited for
  // immediately, and one runs on its own stream.
  constexpr int64_t kRows = 16, kWidth = 64, kClasses = 40;
  for (int64_t ranks = 1; ranks <= 4; ++ranks)
    for (DType dtype : {DType::F32, DType::F64, DType::BF16}) {
      SCOPED_TRACE(fmt::format("{} ranks, {}", ranks, toString(dtype)));
      auto program = classifier(ranks, kRows, kWidth, kClasses, dtype);
      ASSERT_TRUE(package::checkProgram(program));
      auto counted = countSteps(program, {}, classifierData(ranks, kRows, kWidth, kClasses, 3));
      ASSERT_TRUE(counted) << counted.error().message;
      EXPECT_EQ(counted->kerf, 0) << stacksOf(*counted);
    }
}

TEST_F(AllocationTest, NoneInAStepWithStages) {
  PipelineCase test;
  test.schedule = package::ScheduleChoice{"1f1b", ""};
  test.parts = test.stages = 3;
  test.microbatches = 4;
  test.data = 2;
  test.rows = 16;
  test.skip = test.tied = test.norm = true;
  test.dtype = test.sumType = DType::F32;
  auto counted = countSteps(pipelineProgram(test), pipelineWeights(test), pipelineData(test, 2));
  ASSERT_TRUE(counted) << counted.error().message;
  EXPECT_EQ(counted->kerf, 0) << stacksOf(*counted);
}

int countPackage(const std::string &folder, const std::string &dataFile) {
  auto loaded = loadPackage(folder);
  auto data = readTensors(dataFile);
  if (!loaded || !data) {
    fmt::print(stderr, "{}\n", loaded ? data.error().message : loaded.error().message);
    return 1;
  }
  auto counted = countSteps(loaded->program, loaded->weights, *data);
  if (!counted || counted->kerf)
    fmt::print(stderr, "{}\n", counted ? stacksOf(*counted) : counted.error().message);
  return counted && !counted->kerf ? 0 : 1;
}

} // namespace
} // namespace kerf::runtime::test

int main(int argc, char **argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc == 3)
    return kerf::runtime::test::countPackage(argv[1], argv[2]);
  return RUN_ALL_TESTS();
}
