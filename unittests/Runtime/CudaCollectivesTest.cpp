// SPDX-License-Identifier: Apache-2.0
// Tests of the collectives of the device `cuda`: which ones are one call of NCCL, and that all of them give the CPU's
// results, sums of any order up to rounding and everything else bit by bit.
#include "../../lib/Runtime/Cuda/Collectives.h"
#include "../../lib/Runtime/Cuda/NativeCollectives.h"
#include "TestPrograms.h"

#include <cmath>
#include <gtest/gtest.h>
#include <thread>

namespace kerf::runtime::test {
namespace {

constexpr int64_t kMostRanks = 4; // of a case

struct CudaCollectivesOnGpus : testing::Test {
  void SetUp() override {
    if (std::string missing = missingDevices("cuda", kMostRanks); !missing.empty())
      GTEST_SKIP() << missing;
  }
};

/// Runs the collectives as one bucket on GPUs, and returns for each collective the bytes of each rank's result.
std::vector<std::vector<std::vector<std::byte>>> runOnGpus(const std::vector<CollectiveCase> &bucket,
                                                           const CollectiveOptions &options) {
  const Mesh &mesh = bucket[0].mesh;
  const int64_t ranks = mesh.ranks();
  auto communicators = createThreadCommunicators(ranks);
  std::vector<std::vector<std::vector<std::byte>>> results(bucket.size(),
                                                           std::vector<std::vector<std::byte>>(size_t(ranks)));
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      auto device = std::move(*createDevice("cuda", {.rank = rank}));
      std::vector<std::shared_ptr<std::byte>> memory;
      CollectiveRequest request{{bucket[0].instruction, {}, {}, mesh, rank}, kFirstCollectiveTag};
      for (const CollectiveCase &one : bucket) {
        std::vector<std::byte> operand = operandOf(one, rank);
        TensorView from{nullptr, one.dtype, one.operand}, to{nullptr, one.dtype, one.result};
        for (TensorView *view : {&from, &to}) {
          memory.push_back(std::move(*device->allocate(view->bytes())));
          view->data = memory.back().get();
        }
        ASSERT_TRUE(device->copyIn(from.data, operand.data(), from.bytes()));
        request.bind.operands.push_back(from);
        request.bind.results.push_back(to);
        if (&one != &bucket[0])
          request.others.push_back(&one.instruction);
      }
      auto backend = std::move(*device->createCollectives(*communicators[size_t(rank)], options));
      EXPECT_EQ(backend->ordered(), options.ordered || ranks == 1);
      memory.push_back(std::move(*device->allocate(*device->collectiveScratchBytes(request, options))));
      request.bind.scratch = memory.back().get();
      auto bound = backend->bind(request);
      ASSERT_TRUE(bound) << bound.error().message;
      auto stream = std::move(*device->createStream(StreamKind::Auxiliary));
      for (int repeat = 0; repeat < 2; ++repeat)
        ASSERT_TRUE((*bound)->launch(*stream));
      ASSERT_TRUE(stream->synchronize());
      for (size_t c = 0; c < bucket.size(); ++c) {
        const TensorView &to = request.bind.results[c];
        results[c][size_t(rank)].resize(size_t(to.bytes()));
        ASSERT_TRUE(device->copyOut(results[c][size_t(rank)].data(), to.data, to.bytes()));
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  return results;
}

bool isSumOfFloats(const CollectiveCase &test) {
  auto kind = test.instruction.attrs.find("kind");
  bool isFloat =
      test.dtype == DType::F32 || test.dtype == DType::F64 || test.dtype == DType::F16 || test.dtype == DType::BF16;
  return isFloat && kind != test.instruction.attrs.end() && *kind == "sum";
}

double toleranceOf(DType dtype) {
  return dtype == DType::F64 ? 1e-13 : dtype == DType::F32 ? 1e-5 : dtype == DType::F16 ? 1e-2 : 1e-1;
}

void expectCpusResults(const CollectiveCase &test, const std::vector<std::vector<std::byte>> &got, bool ordered) {
  auto expected = runCaseOnThreads(test);
  for (size_t r = 0; r < expected.size(); ++r) {
    if (ordered || !isSumOfFloats(test)) {
      ASSERT_TRUE(got[r] == expected[r]) << test.instruction.op << " of " << toString(test.dtype) << ", rank " << r;
      continue;
    }
    auto numbers = [&](const std::vector<std::byte> &bytes) {
      return valuesOf(Tensor{test.dtype, test.result, bytes.data(), nullptr});
    };
    std::vector<double> a = numbers(got[r]), b = numbers(expected[r]);
    double largest = 0;
    for (double value : b)
      largest = std::max(largest, std::isfinite(value) ? std::abs(value) : 0);
    for (size_t i = 0; i < a.size(); ++i)
      if (std::isfinite(b[i]))
        ASSERT_NEAR(a[i], b[i], toleranceOf(test.dtype) * largest)
            << test.instruction.op << " of " << toString(test.dtype) << ", rank " << r << ", element " << i;
      else
        ASSERT_TRUE(std::isnan(a[i]) == std::isnan(b[i])) << a[i] << " instead of " << b[i];
  }
}

/// Returns a collective over all ranks, whose parts are equal.
CollectiveCase evenCase(const std::string &op, DType dtype, const std::string &kind, int64_t ranks, size_t dim) {
  CollectiveCase test;
  test.mesh.axes = {{"a", ranks}};
  test.dtype = dtype;
  test.seed = uint32_t(7 * ranks + int64_t(dim));
  Shape whole = {3 * ranks, 4 * ranks}, part = whole;
  part[dim] /= ranks;
  test.operand = op == "all_gather" ? part : whole;
  test.result = op == "reduce_scatter" ? part : whole;
  test.instruction = {op, {}, {}, {{"axes", {0, 1, ranks}}, {"kind", kind}, {"dim", dim}}, "node"};
  return test;
}

std::optional<NativeCollective> nativeOf(const CollectiveCase &test, bool ordered) {
  TensorView from{nullptr, test.dtype, test.operand}, to{nullptr, test.dtype, test.result};
  return nativeCollective({test.instruction, from, to, test.mesh.ranks()}, cuda::ncclNumbers(), ordered);
}

TEST(CudaCollectives, AreOneCallOfNcclWhereItsResultIsTheSame) {
  for (bool ordered : {false, true}) {
    EXPECT_EQ(nativeOf(evenCase("all_reduce", DType::BF16, "sum", 4, 0), ordered).has_value(), !ordered);
    EXPECT_EQ(nativeOf(evenCase("reduce_scatter", DType::F32, "sum", 4, 0), ordered).has_value(), !ordered);
    EXPECT_TRUE(nativeOf(evenCase("all_reduce", DType::I64, "sum", 4, 0), ordered));
    EXPECT_TRUE(nativeOf(evenCase("all_reduce", DType::I32, "max", 4, 0), ordered));
    EXPECT_TRUE(nativeOf(evenCase("all_gather", DType::Bool, "sum", 4, 0), ordered));
    EXPECT_FALSE(nativeOf(evenCase("all_reduce", DType::F32, "max", 4, 0), ordered)) << "NCCL ignores NaN";
    EXPECT_FALSE(nativeOf(evenCase("all_reduce", DType::Bool, "sum", 4, 0), ordered)) << "the sum is 'or'";
    EXPECT_FALSE(nativeOf(evenCase("all_reduce", DType::I16, "sum", 4, 0), ordered)) << "NCCL has no such type";
    EXPECT_FALSE(nativeOf(evenCase("all_gather", DType::F32, "sum", 4, 1), ordered)) << "the parts are not contiguous";
    EXPECT_FALSE(nativeOf(evenCase("reduce_scatter", DType::I32, "sum", 4, 1), ordered));
    EXPECT_FALSE(nativeOf(evenCase("all_reduce", DType::I32, "sum", 1, 0), ordered)) << "there is nothing to do";
    CollectiveCase uneven = evenCase("all_gather", DType::F32, "sum", 4, 0);
    uneven.result[0] -= 1;
    EXPECT_FALSE(nativeOf(uneven, ordered)) << "the last part is smaller";
  }
  auto gather = nativeOf(evenCase("all_gather", DType::F64, "sum", 4, 0), true);
  EXPECT_EQ(gather->count, size_t(3 * 16 * 8));
  auto scatter = nativeOf(evenCase("reduce_scatter", DType::F64, "sum", 4, 0), false);
  EXPECT_EQ(scatter->count, size_t(3 * 16));
}

TEST_F(CudaCollectivesOnGpus, EvenOnesGiveTheCpusResults) {
  for (int64_t ranks : {2, 3, 4})
    for (const char *op : {"all_reduce", "reduce_scatter", "all_gather"})
      for (DType dtype : {DType::F32, DType::F64, DType::BF16, DType::F16, DType::I64, DType::I32, DType::Bool})
        for (size_t dim : {size_t(0), size_t(1)}) {
          CollectiveCase test = evenCase(op, dtype, dtype == DType::I32 ? "min" : "sum", ranks, dim);
          auto results = runOnGpus({test}, {.ordered = false})[0];
          expectCpusResults(test, results, false);
          if (ranks > 2 && op == std::string("all_reduce") && test.dtype == DType::F32) {
            EXPECT_FALSE(results == runCaseOnThreads(test)) << "the stand-in of NCCL adds in another order";
          }
          expectCpusResults(test, runOnGpus({test}, {.ordered = true})[0], true);
        }
}

TEST_F(CudaCollectivesOnGpus, RandomOnesGiveTheCpusResults) {
  constexpr uint32_t kSeed = 5;
  std::mt19937 random(kSeed);
  for (int trial = 0; trial < 120; ++trial) {
    SCOPED_TRACE("seed " + std::to_string(kSeed) + ", trial " + std::to_string(trial));
    CollectiveCase test = randomCase(random, 1 + trial % 4);
    bool ordered = trial % 2;
    CollectiveOptions options{.ordered = ordered};
    if (trial % 3 != 0) // in several pieces
      options.receivedBytes = 1 + elementsOf(test.operand) * bytesOf(test.dtype) / 3;
    expectCpusResults(test, runOnGpus({test}, options)[0], ordered);
  }
}

/// Returns the scratch memory of a collective on rank 1.
int64_t scratchOf(const CollectiveCase &test, const CollectiveOptions &options) {
  TensorView from{nullptr, test.dtype, test.operand}, to{nullptr, test.dtype, test.result};
  CollectiveRequest request{{test.instruction, {from}, {to}, test.mesh, 1}, kFirstCollectiveTag};
  return *cuda::collectiveScratchBytes(request, options);
}

/// Returns an even collective of large tensors, which are cut along dimension `dim`.
CollectiveCase largeCase(const std::string &op, int64_t ranks, size_t dim) {
  CollectiveCase test = evenCase(op, DType::F32, "sum", ranks, dim);
  Shape whole = {64 * ranks, int64_t(1) << 22}, part = whole; // 1 GiB for each rank
  part[dim] /= ranks;
  test.operand = op == "all_gather" ? part : whole;
  test.result = op == "reduce_scatter" ? part : whole;
  return test;
}

TEST(CudaCollectives, HoldNoMoreScratchMemoryThanTheLimit) {
  constexpr int64_t kLimit = int64_t(64) << 20;
  for (int64_t ranks : {2, 8, 64}) {
    for (const char *op : {"all_reduce", "reduce_scatter", "all_gather"}) {
      EXPECT_EQ(scratchOf(largeCase(op, ranks, 0), {}), 0) << op << ": NCCL's own call needs none";
      int64_t inner = scratchOf(largeCase(op, ranks, 1), {.ordered = true});
      EXPECT_GT(inner, op == std::string("all_reduce") ? kLimit / 2 : kLimit / 4) << op;
      EXPECT_LE(inner, 2 * kLimit + kLimit / ranks) << op << ": packed, received, and one sum";
    }
    EXPECT_EQ(scratchOf(largeCase("all_reduce", ranks, 0), {.ordered = true}), kLimit);
    EXPECT_EQ(scratchOf(largeCase("reduce_scatter", ranks, 0), {.ordered = true}), kLimit);
    EXPECT_EQ(scratchOf(largeCase("all_gather", ranks, 0), {.ordered = true}), 0) << "it adds nothing";
  }
}

TEST_F(CudaCollectivesOnGpus, OfABucketDoNotDisturbEachOther) {
  for (bool ordered : {false, true}) {
    std::vector<CollectiveCase> bucket = {
        evenCase("reduce_scatter", DType::F32, "sum", 3, 1), evenCase("reduce_scatter", DType::F32, "sum", 3, 1),
        evenCase("all_reduce", DType::F32, "sum", 3, 0),     evenCase("reduce_scatter", DType::F32, "sum", 3, 0),
        evenCase("all_gather", DType::F64, "sum", 3, 1),     evenCase("all_gather", DType::F64, "sum", 3, 0)};
    for (size_t c = 0; c < bucket.size(); ++c)
      bucket[c].seed = uint32_t(100 + c);
    auto results = runOnGpus(bucket, {.ordered = ordered, .receivedBytes = ordered ? 4096 : 1 << 20});
    for (size_t c = 0; c < bucket.size(); ++c)
      expectCpusResults(bucket[c], results[c], ordered);
  }
}

} // namespace
} // namespace kerf::runtime::test
