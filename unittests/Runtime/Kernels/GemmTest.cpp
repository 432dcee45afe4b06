// SPDX-License-Identifier: Apache-2.0
// Calls of cuBLASLt that no instruction makes by itself: products that are added to their result, and products with
// epilogues. The tests run where the variable KERF_KERNEL_DEVICE names a GPU.
#include "../../../lib/Runtime/Cuda/Gemm.h"
#include "kerf/Package/Half.h"

#include <cmath>
#include <gtest/gtest.h>
#include <numbers>
#include <random>

namespace kerf::runtime::cuda {
namespace {

/// A tensor in the GPU's memory that is given and read as doubles.
class GpuNumbers {
public:
  GpuNumbers(const std::shared_ptr<Context> &context, DType type, const std::vector<double> &values)
      : context(context), type(type), count(values.size()), memory(*allocateOfGpu(context, bytes())) {
    auto staged = *allocatePinned(context, bytes());
    for (size_t i = 0; i < count; ++i)
      if (type == DType::BF16)
        reinterpret_cast<uint16_t *>(staged.get())[i] = bf16FromFloat(float(values[i]));
      else if (type == DType::F64)
        reinterpret_cast<double *>(staged.get())[i] = values[i];
      else
        reinterpret_cast<float *>(staged.get())[i] = float(values[i]);
    copy(memory.get(), staged.get(), CopyKind::ToDevice);
  }
  std::vector<double> read() const {
    auto staged = *allocatePinned(context, bytes());
    copy(staged.get(), memory.get(), CopyKind::ToHost);
    std::vector<double> values(count);
    for (size_t i = 0; i < count; ++i)
      values[i] = type == DType::BF16  ? floatFromBf16(reinterpret_cast<uint16_t *>(staged.get())[i])
                  : type == DType::F64 ? reinterpret_cast<double *>(staged.get())[i]
                                       : reinterpret_cast<float *>(staged.get())[i];
    return values;
  }
  void *address() const { return memory.get(); }

private:
  int64_t bytes() const { return int64_t(count) * kerf::bytesOf(type); }
  void copy(void *to, const void *from, CopyKind kind) const {
    auto stream = std::move(*CudaStream::create(context));
    EXPECT_TRUE(stream->copy(to, from, bytes(), kind));
    EXPECT_TRUE(stream->synchronize());
  }
  std::shared_ptr<Context> context;
  DType type;
  size_t count;
  std::shared_ptr<std::byte> memory;
};

constexpr int64_t kM = 24, kN = 10, kK = 7;

/// Numbers for all tensors of one call, exact in every type of the test.
struct Numbers {
  explicit Numbers(int seed) {
    std::mt19937 random(static_cast<unsigned>(seed));
    auto some = [&](int64_t count) {
      std::vector<double> values(static_cast<size_t>(count));
      for (double &value : values)
        value = (double(random() % 33) - 16) / 16;
      return values;
    };
    a = some(kM * kK), b = some(kK * kN), d = some(kM * kN), bias = some(std::max(kM, kN)), aux = some(kM * kN);
  }
  double product(int64_t i, int64_t j) const {
    double sum = 0;
    for (int64_t k = 0; k < kK; ++k)
      sum += a[size_t(k * kM + i)] * b[size_t(j * kK + k)];
    return sum;
  }
  std::vector<double> a, b, d, bias, aux; // all column-major
};

Gemm gemmOf(DType type, DType result) {
  Gemm gemm;
  gemm.m = kM, gemm.n = kN, gemm.k = kK;
  gemm.a = {type, kM, kK, kM, 0, false};
  gemm.b = {type, kK, kN, kK, 0, false};
  gemm.d = {result, kM, kN, kM, 0, false};
  return gemm;
}

double gelu(double x) { return x / 2 * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x))); }
double geluSlope(double x) { return (gelu(x + 1e-5) - gelu(x - 1e-5)) / 2e-5; }

/// The tensors that a call leaves.
struct Left {
  std::vector<double> d, bias, aux;
};

Left run(const std::shared_ptr<Context> &gpu, const Gemm &gemm, const Numbers &numbers) {
  DType type = gemm.a.type, result = gemm.d.type;
  GpuNumbers a(gpu, type, numbers.a), b(gpu, type, numbers.b), d(gpu, result, numbers.d),
      bias(gpu, result, numbers.bias), aux(gpu, result, numbers.aux);
  EXPECT_TRUE(isSupported(gemm));
  auto call = callOf(gpu, gemm, {a.address(), b.address(), d.address(), nullptr, bias.address(), aux.address()});
  if (!call) {
    ADD_FAILURE() << call.error().message;
    return {numbers.d, numbers.bias, numbers.aux};
  }
  auto stream = std::move(*CudaStream::create(gpu));
  Status status = (*call)(*stream);
  EXPECT_TRUE(status);
  EXPECT_TRUE(stream->synchronize());
  return {d.read(), bias.read(), aux.read()};
}

std::shared_ptr<Context> gpuOfTest() {
  const char *device = std::getenv("KERF_KERNEL_DEVICE");
  if (!device || !std::string_view(device).starts_with("cuda"))
    return nullptr;
  auto context = Context::open(0);
  EXPECT_TRUE(context);
  return *context;
}

double toleranceOf(DType type) { return type == DType::BF16 ? 1e-2 : type == DType::F64 ? 1e-12 : 1e-5; }
void expectNear(const std::vector<double> &actual, const std::function<double(int64_t, int64_t)> &expected,
                DType type) {
  for (int64_t j = 0; j < kN; ++j)
    for (int64_t i = 0; i < kM; ++i)
      ASSERT_NEAR(actual[size_t(j * kM + i)], expected(i, j),
                  toleranceOf(type) * std::max(1.0, std::abs(expected(i, j))))
          << i << ", " << j;
}

TEST(CudaGemm, AccumulatesInTheTypeOfTheResult) {
  auto gpu = gpuOfTest();
  if (!gpu)
    GTEST_SKIP() << "KERF_KERNEL_DEVICE names no GPU";
  const std::pair<DType, DType> types[] = {
      {DType::F32, DType::F32}, {DType::BF16, DType::F32}, {DType::F64, DType::F64}};
  for (auto [type, result] : types) {
    SCOPED_TRACE(std::string(toString(type)) + " to " + std::string(toString(result)));
    Numbers numbers(1);
    Gemm gemm = gemmOf(type, result);
    gemm.accumulates = true;
    auto left = run(gpu, gemm, numbers);
    expectNear(
        left.d, [&](int64_t i, int64_t j) { return numbers.d[size_t(j * kM + i)] + numbers.product(i, j); }, result);
  }
}

TEST(CudaGemm, HasEpilogues) {
  auto gpu = gpuOfTest();
  if (!gpu)
    GTEST_SKIP() << "KERF_KERNEL_DEVICE names no GPU";
  for (DType type : {DType::F32, DType::BF16})
    for (const EpilogueRow &row : kEpilogues) {
      SCOPED_TRACE(::testing::Message() << "epilogue " << row.number << " in " << toString(type));
      Numbers numbers(int(row.number));
      Gemm gemm = gemmOf(type, type);
      gemm.epilogue = row.epilogue;
      auto left = run(gpu, gemm, numbers);
      bool keeps = row.epilogue == Epilogue::KeptGeluOfBias;
      bool isGelu = keeps || row.epilogue == Epilogue::GeluOfBias;
      bool addsBias = isGelu || row.epilogue == Epilogue::Bias;
      bool isGradient = row.epilogue == Epilogue::GeluGradient || row.epilogue == Epilogue::GeluGradientAndSums;
      auto before = [&](int64_t i, int64_t j) {
        return numbers.product(i, j) + (addsBias ? numbers.bias[size_t(i)] : 0);
      };
      auto result = [&](int64_t i, int64_t j) {
        return isGradient ? before(i, j) * geluSlope(numbers.aux[size_t(j * kM + i)])
               : isGelu   ? gelu(before(i, j))
                          : before(i, j);
      };
      expectNear(left.d, result, type);
      expectNear(
          left.aux, [&](int64_t i, int64_t j) { return keeps ? before(i, j) : numbers.aux[size_t(j * kM + i)]; }, type);
      std::vector<double> bias = numbers.bias;
      for (int64_t i = 0; i < kM && row.epilogue == Epilogue::GeluGradientAndSums; ++i) {
        bias[size_t(i)] = 0;
        for (int64_t j = 0; j < kN; ++j)
          bias[size_t(i)] += result(i, j);
      }
      for (int64_t i = 0; i < kM && row.epilogue == Epilogue::SumsOfA; ++i) {
        bias[size_t(i)] = 0;
        for (int64_t k = 0; k < kK; ++k)
          bias[size_t(i)] += numbers.a[size_t(k * kM + i)];
      }
      for (int64_t j = 0; j < kN && row.epilogue == Epilogue::SumsOfB; ++j) {
        bias[size_t(j)] = 0;
        for (int64_t k = 0; k < kK; ++k)
          bias[size_t(j)] += numbers.b[size_t(j * kK + k)];
      }
      for (size_t i = 0; i < bias.size(); ++i)
        EXPECT_NEAR(left.bias[i], bias[i], 3 * toleranceOf(type) * std::max(1.0, std::abs(bias[i]))) << i;
    }
}

TEST(CudaGemm, RefusesWhatTheLibraryLacks) {
  Gemm gemm = gemmOf(DType::F32, DType::F32);
  EXPECT_TRUE(isSupported(gemm));
  gemm.d.type = DType::BF16;
  EXPECT_FALSE(isSupported(gemm)) << "float32 factors with a 16-bit result";
  gemm = gemmOf(DType::BF16, DType::F16);
  EXPECT_FALSE(isSupported(gemm)) << "two 16-bit types";
  gemm = gemmOf(DType::I32, DType::I32);
  EXPECT_FALSE(isSupported(gemm)) << "integers";
  gemm = gemmOf(DType::F32, DType::F32);
  gemm.a.leading = kM - 1;
  EXPECT_FALSE(isSupported(gemm)) << "columns that overlap";
  gemm = gemmOf(DType::F32, DType::F32);
  gemm.batches = 65536;
  EXPECT_FALSE(isSupported(gemm)) << "more batches than a grid has";
  gemm = gemmOf(DType::F32, DType::F32);
  gemm.epilogue = Epilogue::KeptGeluOfBias;
  gemm.m = gemm.a.rows = gemm.a.leading = gemm.d.rows = gemm.d.leading = 25;
  EXPECT_FALSE(isSupported(gemm)) << "columns of the second matrix that are no multiple of 8";
  gemm = gemmOf(DType::F64, DType::F64);
  gemm.epilogue = Epilogue::Bias;
  EXPECT_FALSE(isSupported(gemm)) << "an epilogue in float64";
}

} // namespace
} // namespace kerf::runtime::cuda
