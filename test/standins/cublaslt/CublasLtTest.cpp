// SPDX-License-Identifier: Apache-2.0
// The stand-in of cuBLASLt refuses what the library refuses, so that tests on it find such calls.
#include "Problem.h"

#include <gtest/gtest.h>

using namespace kerf::standin::cublaslt;

extern "C" {
int cuInit(unsigned);
int cuDevicePrimaryCtxRetain(void **, int);
int cuCtxSetCurrent(void *);
int cuMemAlloc_v2(uint64_t *, size_t);
int cuStreamSynchronize(void *);
int cublasLtCreate(void **);
int cublasLtMatmulDescCreate(Operation **, int, int);
int cublasLtMatmulDescDestroy(Operation *);
int cublasLtMatmulDescSetAttribute(Operation *, int, const void *, size_t);
int cublasLtMatrixLayoutCreate(Matrix **, int, uint64_t, uint64_t, int64_t);
int cublasLtMatrixLayoutSetAttribute(Matrix *, int, const void *, size_t);
int cublasLtMatmulPreferenceCreate(Preference **);
int cublasLtMatmulPreferenceSetAttribute(Preference *, int, const void *, size_t);
int cublasLtMatmulAlgoGetHeuristic(void *, Operation *, Matrix *, Matrix *, Matrix *, Matrix *, Preference *, int,
                                   Answer *, int *);
int cublasLtMatmul(void *, Operation *, const void *, const void *, Matrix *, const void *, Matrix *, const void *,
                   const void *, Matrix *, void *, Matrix *, const Algorithm *, void *, size_t, void *);
}

namespace {
/// A product of 16 x 8 by 8 x 4 in float32 that the library takes.
class CublasLtStandin : public ::testing::Test {
protected:
  void SetUp() override {
    void *context = nullptr;
    ASSERT_EQ(cuInit(0), 0);
    ASSERT_EQ(cuDevicePrimaryCtxRetain(&context, 0), 0);
    ASSERT_EQ(cuCtxSetCurrent(context), 0);
    ASSERT_EQ(cuMemAlloc_v2(&memory, 8192), 0);
    ASSERT_EQ(cublasLtCreate(&handle), 0);
    ASSERT_EQ(cublasLtMatmulDescCreate(&operation, 68, kF32), 0);
    ASSERT_EQ(cublasLtMatrixLayoutCreate(&a, kF32, 16, 8, 16), 0);
    ASSERT_EQ(cublasLtMatrixLayoutCreate(&b, kF32, 8, 4, 8), 0);
    ASSERT_EQ(cublasLtMatrixLayoutCreate(&d, kF32, 16, 4, 16), 0);
    ASSERT_EQ(cublasLtMatmulPreferenceCreate(&preference), 0);
    ASSERT_EQ(cublasLtMatmulPreferenceSetAttribute(preference, 1, &workspaceBytes, sizeof workspaceBytes), 0);
    uint32_t inWorkspace = 2;
    ASSERT_EQ(cublasLtMatmulPreferenceSetAttribute(preference, 3, &inWorkspace, sizeof inWorkspace), 0);
  }
  int propose(std::vector<Answer> &answers) {
    answers.resize(8);
    int count = 0;
    int status = cublasLtMatmulAlgoGetHeuristic(handle, operation, a, b, d, d, preference, 8, answers.data(), &count);
    answers.resize(size_t(count));
    return status;
  }
  /// Multiplies at these places of the memory, and returns the status.
  int multiply(const Algorithm &algorithm, uint64_t atA, uint64_t atB, uint64_t atD, uint64_t atSpace, size_t bytes) {
    float one = 1, zero = 0;
    auto at = [&](uint64_t place) { return reinterpret_cast<void *>(memory + place); };
    int status = cublasLtMatmul(handle, operation, &one, at(atA), a, at(atB), b, &zero, at(atD), d, at(atD), d,
                                &algorithm, at(atSpace), bytes, nullptr);
    EXPECT_EQ(cuStreamSynchronize(nullptr), 0);
    return status;
  }
  uint64_t memory = 0, workspaceBytes = 1024;
  void *handle = nullptr;
  Operation *operation = nullptr;
  Matrix *a = nullptr, *b = nullptr, *d = nullptr;
  Preference *preference = nullptr;
};

TEST_F(CublasLtStandin, ProposesSeveralAlgorithmsInTheWorkspace) {
  std::vector<Answer> answers;
  ASSERT_EQ(propose(answers), 0);
  std::vector<uint64_t> numbers;
  for (const Answer &answer : answers)
    numbers.push_back(answer.algorithm.number);
  EXPECT_EQ(numbers, (std::vector<uint64_t>{1, 5, 2, 3})) << "7 adds in place, which the preference excludes";
  EXPECT_EQ(answers[2].workspaceBytes, 2u * 16 * 4 * 4);
  uint64_t none = 0;
  ASSERT_EQ(cublasLtMatmulPreferenceSetAttribute(preference, 1, &none, sizeof none), 0);
  ASSERT_EQ(propose(answers), 0);
  EXPECT_EQ(answers.size(), 3u) << "algorithm 2 needs a workspace";
}

TEST_F(CublasLtStandin, RefusesBadAddressesAndSmallWorkspaces) {
  std::vector<Answer> answers;
  ASSERT_EQ(propose(answers), 0);
  const Algorithm &split = answers[2].algorithm;
  EXPECT_EQ(multiply(split, 0, 1024, 2048, 4096, 1024), 0);
  EXPECT_EQ(multiply(split, 0, 1024, 2048, 4096, 256), 7) << "the workspace is too small";
  EXPECT_EQ(multiply(split, 0, 1024, 2048, 8192 - 512, 1024), 7) << "the workspace ends outside of the memory";
  EXPECT_EQ(multiply(split, 4, 1024, 2048, 4096, 1024), 7) << "the address is not aligned";
  EXPECT_EQ(multiply(split, 0, 1024, 1024, 4096, 1024), 7) << "the result lies over an operand";
  EXPECT_EQ(multiply(split, 0, 1024, 2048, 2048, 1024), 7) << "the workspace lies over the result";
  EXPECT_EQ(multiply(split, 0, 8192, 2048, 4096, 1024), 7) << "an operand is outside of the memory";
  int32_t transposed = 1;
  ASSERT_EQ(cublasLtMatrixLayoutCreate(&b, kF32, 4, 8, 4), 0);
  ASSERT_EQ(cublasLtMatmulDescSetAttribute(operation, 4, &transposed, sizeof transposed), 0);
  EXPECT_EQ(multiply(split, 0, 1024, 2048, 4096, 1024), 7) << "the algorithm is for another problem";
}

TEST_F(CublasLtStandin, RefusesWrongDescriptions) {
  std::vector<Answer> answers;
  int64_t wide = 1;
  EXPECT_EQ(cublasLtMatmulDescSetAttribute(operation, 3, &wide, sizeof wide), 7) << "the attribute has 4 bytes";
  EXPECT_EQ(cublasLtMatmulDescSetAttribute(operation, 99, &wide, sizeof wide), 7);
  EXPECT_EQ(cublasLtMatrixLayoutSetAttribute(a, 5, &wide, sizeof wide), 7);
  Matrix *good = a;
  ASSERT_EQ(cublasLtMatrixLayoutCreate(&a, kF32, 16, 8, 15), 0);
  EXPECT_EQ(propose(answers), 7) << "columns overlap";
  ASSERT_EQ(cublasLtMatrixLayoutCreate(&a, kF32, 16, 9, 16), 0);
  EXPECT_EQ(propose(answers), 7) << "9 columns by 8 rows";
  ASSERT_EQ(cublasLtMatrixLayoutCreate(&a, kBF16, 16, 8, 16), 0);
  EXPECT_EQ(propose(answers), 15) << "factors of two types";
  a = good;
  uint32_t epilogue = 160;
  ASSERT_EQ(cublasLtMatmulDescSetAttribute(operation, 7, &epilogue, sizeof epilogue), 0);
  EXPECT_EQ(propose(answers), 15) << "the epilogue has no second matrix";
  epilogue = 1;
  ASSERT_EQ(cublasLtMatmulDescSetAttribute(operation, 7, &epilogue, sizeof epilogue), 0);
  EXPECT_EQ(propose(answers), 0);
  ASSERT_EQ(cublasLtMatmulDescDestroy(operation), 0);
  EXPECT_EQ(propose(answers), 7) << "the description was destroyed";
  EXPECT_EQ(cublasLtMatmulDescDestroy(operation), 7);
}
} // namespace
