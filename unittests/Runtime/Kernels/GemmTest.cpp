// SPDX-License-Identifier: Apache-2.0
// Calls of cuBLASLt that no instruction makes by itself: products that are added to their result, and products with
// epilogues. The tests run where the variable KERF_KERNEL_DEVICE names a GPU.
#include "../../../lib/Runtime/Cuda/Gemm.h"
#include "../../../lib/Runtime/Cuda/Library.h"
#include "kerf/Package/Half.h"

#include <cmath>
#include <dlfcn.h>
#include <functional>
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

struct Sizes {
  int64_t m, n, k;
};
constexpr Sizes kOdd{24, 10, 7}, kEven{64, 32, 48};

/// Numbers for all tensors of one call, exact in every type of the test.
struct Numbers {
  Numbers(int seed, Sizes sizes) : sizes(sizes) {
    std::mt19937 random(static_cast<unsigned>(seed));
    auto some = [&](int64_t count) {
      std::vector<double> values(static_cast<size_t>(count));
      for (double &value : values)
        value = (double(random() % 33) - 16) / 16;
      return values;
    };
    auto [m, n, k] = sizes;
    a = some(m * k), b = some(k * n), d = some(m * n), bias = some(std::max(m, n)), aux = some(m * n);
  }
  double product(int64_t i, int64_t j) const {
    double sum = 0;
    for (int64_t k = 0; k < sizes.k; ++k)
      sum += a[size_t(k * sizes.m + i)] * b[size_t(j * sizes.k + k)];
    return sum;
  }
  Sizes sizes;
  std::vector<double> a, b, d, bias, aux; // all column-major; op(A) is m x k, and op(B) is k x n
};

GemmMatrix factorOf(DType type, int64_t rows, int64_t columns, bool transposed) {
  return transposed ? GemmMatrix{type, columns, rows, columns, 0, true}
                    : GemmMatrix{type, rows, columns, rows, 0, false};
}

/// Returns the problem with the transposes that a linear layer has: gradients of its input have the transposed weight,
/// and gradients of its weight the transposed input.
Gemm gemmOf(DType type, DType result, Sizes sizes, Epilogue epilogue = Epilogue::None) {
  bool isOfInput = epilogue == Epilogue::GeluGradient || epilogue == Epilogue::GeluGradientAndSums;
  bool isOfWeight = epilogue == Epilogue::SumsOfA || epilogue == Epilogue::SumsOfB;
  Gemm gemm;
  gemm.m = sizes.m, gemm.n = sizes.n, gemm.k = sizes.k;
  gemm.a = factorOf(type, sizes.m, sizes.k, isOfInput);
  gemm.b = factorOf(type, sizes.k, sizes.n, isOfWeight);
  gemm.d = {result, sizes.m, sizes.n, sizes.m, 0, false};
  gemm.epilogue = epilogue;
  return gemm;
}

/// Returns the elements of a factor in the order in which they lie in memory.
std::vector<double> storedOf(const GemmMatrix &factor, const std::vector<double> &columnMajor) {
  if (!factor.transposed)
    return columnMajor;
  std::vector<double> stored(columnMajor.size());
  for (int64_t row = 0; row < factor.columns; ++row)
    for (int64_t column = 0; column < factor.rows; ++column)
      stored[size_t(row * factor.rows + column)] = columnMajor[size_t(column * factor.columns + row)];
  return stored;
}

double gelu(double x) { return x / 2 * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x))); }
double geluSlope(double x) { return (gelu(x + 1e-5) - gelu(x - 1e-5)) / 2e-5; }

/// The tensors that a call leaves.
struct Left {
  std::vector<double> d, bias, aux;
};

/// Runs a call; returns nothing where the library has no algorithm for it. `c` is the place of C where the call
/// accumulates; null: at D.
std::optional<Left> run(const std::shared_ptr<Context> &gpu, const Gemm &gemm, const Numbers &numbers,
                        const void *c = nullptr) {
  DType type = gemm.a.type, result = gemm.d.type;
  GpuNumbers a(gpu, type, storedOf(gemm.a, numbers.a)), b(gpu, type, storedOf(gemm.b, numbers.b)),
      d(gpu, result, numbers.d), bias(gpu, result, numbers.bias), aux(gpu, result, numbers.aux);
  EXPECT_TRUE(isSupported(gemm));
  GemmPlaces places{a.address(), b.address(), d.address(), nullptr, bias.address(), aux.address()};
  places.c = c;
  auto call = callIfOffered(gpu, gemm, places);
  EXPECT_TRUE(call) << call.error().message;
  if (!call || !*call)
    return std::nullopt;
  auto stream = std::move(*CudaStream::create(gpu));
  EXPECT_TRUE((**call)(*stream));
  EXPECT_TRUE(stream->synchronize());
  return Left{d.read(), bias.read(), aux.read()};
}

std::shared_ptr<Context> gpuOfTest() {
  const char *device = std::getenv("KERF_KERNEL_DEVICE");
  if (!device || !std::string_view(device).starts_with("cuda"))
    return nullptr;
  auto context = Context::open(0);
  EXPECT_TRUE(context);
  return *context;
}

/// Whether the library is the stand-in, which has an algorithm for every problem of these tests.
bool isStandin() { return dlsym(openLibrary("libcublasLt.so.13")->handle, "kerfStandinProducts") != nullptr; }

double toleranceOf(DType type) { return type == DType::BF16 ? 1e-2 : type == DType::F64 ? 1e-12 : 1e-5; }
void expectNear(const std::vector<double> &actual, const Sizes &sizes,
                const std::function<double(int64_t, int64_t)> &expected, DType type) {
  for (int64_t j = 0; j < sizes.n; ++j)
    for (int64_t i = 0; i < sizes.m; ++i)
      ASSERT_NEAR(actual[size_t(j * sizes.m + i)], expected(i, j),
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
    Numbers numbers(1, kOdd);
    Gemm gemm = gemmOf(type, result, kOdd);
    gemm.accumulates = true;
    auto left = run(gpu, gemm, numbers);
    ASSERT_TRUE(left) << "no algorithm";
    expectNear(
        left->d, kOdd, [&](int64_t i, int64_t j) { return numbers.d[size_t(j * kOdd.m + i)] + numbers.product(i, j); },
        result);
  }
}

TEST(CudaGemm, AddsAnotherMatrixAndABias) {
  auto gpu = gpuOfTest();
  if (!gpu)
    GTEST_SKIP() << "KERF_KERNEL_DEVICE names no GPU";
  for (DType type : {DType::F32, DType::BF16})
    for (Epilogue epilogue : {Epilogue::None, Epilogue::Bias})
      for (bool inPlace : {false, true}) {
        SCOPED_TRACE(::testing::Message()
                     << toString(type) << ", epilogue " << numberOf(epilogue) << (inPlace ? ", in place" : ""));
        Numbers numbers(3, kEven), other(4, kEven); // C differs from what D holds
        Gemm gemm = gemmOf(type, type, kEven, epilogue);
        gemm.accumulates = true;
        GpuNumbers c(gpu, type, other.d);
        auto left = run(gpu, gemm, numbers, inPlace ? nullptr : c.address());
        ASSERT_TRUE(left) << "no algorithm";
        const std::vector<double> &added = inPlace ? numbers.d : other.d;
        expectNear(
            left->d, kEven,
            [&](int64_t i, int64_t j) {
              return added[size_t(j * kEven.m + i)] + numbers.product(i, j) +
                     (epilogue == Epilogue::Bias ? numbers.bias[size_t(i)] : 0);
            },
            type);
        EXPECT_EQ(c.read(), other.d) << "C is only read";
      }
}

/// Compares what a call with an epilogue leaves with the definition of the epilogue.
void expectEpilogue(const Left &left, const Numbers &numbers, Epilogue epilogue, DType type) {
  auto [m, n, depth] = numbers.sizes;
  bool keeps = epilogue == Epilogue::KeptGeluOfBias;
  bool isGelu = keeps || epilogue == Epilogue::GeluOfBias;
  bool addsBias = isGelu || epilogue == Epilogue::Bias;
  bool isGradient = epilogue == Epilogue::GeluGradient || epilogue == Epilogue::GeluGradientAndSums;
  auto auxOf = [&](int64_t i, int64_t j) { return numbers.aux[size_t(j * numbers.sizes.m + i)]; };
  auto before = [&](int64_t i, int64_t j) { return numbers.product(i, j) + (addsBias ? numbers.bias[size_t(i)] : 0); };
  auto result = [&](int64_t i, int64_t j) {
    return isGradient ? before(i, j) * geluSlope(auxOf(i, j)) : isGelu ? gelu(before(i, j)) : before(i, j);
  };
  expectNear(left.d, numbers.sizes, result, type);
  expectNear(left.aux, numbers.sizes, [&](int64_t i, int64_t j) { return keeps ? before(i, j) : auxOf(i, j); }, type);
  std::vector<double> bias = numbers.bias;
  for (int64_t i = 0; i < m && epilogue == Epilogue::GeluGradientAndSums; ++i) {
    bias[size_t(i)] = 0;
    for (int64_t j = 0; j < n; ++j)
      bias[size_t(i)] += result(i, j);
  }
  for (int64_t i = 0; i < m && epilogue == Epilogue::SumsOfA; ++i) {
    bias[size_t(i)] = 0;
    for (int64_t k = 0; k < depth; ++k)
      bias[size_t(i)] += numbers.a[size_t(k * m + i)];
  }
  for (int64_t j = 0; j < n && epilogue == Epilogue::SumsOfB; ++j) {
    bias[size_t(j)] = 0;
    for (int64_t k = 0; k < depth; ++k)
      bias[size_t(j)] += numbers.b[size_t(j * depth + k)];
  }
  for (size_t i = 0; i < bias.size(); ++i)
    EXPECT_NEAR(left.bias[i], bias[i], 3 * toleranceOf(type) * std::max(1.0, std::abs(bias[i]))) << i;
}

/// Whether a transformer with GELU has this call when it is trained in bf16. The library must have an algorithm for
/// these. NVIDIA does not say which of the others it has; without an algorithm, the parts run one after the other.
bool isOfTransformers(Epilogue epilogue, DType type, DType result, const Sizes &sizes) {
  if (type != DType::BF16 || sizes.m != kEven.m)
    return false;
  return result == DType::F32
             ? epilogue == Epilogue::SumsOfA
             : epilogue == Epilogue::Bias || epilogue == Epilogue::KeptGeluOfBias || epilogue == Epilogue::GeluGradient;
}

TEST(CudaGemm, HasEpilogues) {
  auto gpu = gpuOfTest();
  if (!gpu)
    GTEST_SKIP() << "KERF_KERNEL_DEVICE names no GPU";
  const std::pair<DType, DType> types[] = {
      {DType::F32, DType::F32}, {DType::BF16, DType::BF16}, {DType::BF16, DType::F32}};
  for (auto [type, result] : types)
    for (const Sizes &sizes : {kOdd, kEven})
      for (const EpilogueRow &row : kEpilogues) {
        SCOPED_TRACE(::testing::Message() << "epilogue " << row.number << " of " << sizes.m << " x " << sizes.k
                                          << " in " << toString(type) << " to " << toString(result));
        Numbers numbers(int(row.number), sizes);
        auto left = run(gpu, gemmOf(type, result, sizes, row.epilogue), numbers);
        if (left)
          expectEpilogue(*left, numbers, row.epilogue, result);
        else
          EXPECT_FALSE(isStandin() || isOfTransformers(row.epilogue, type, result, sizes)) << "no algorithm";
      }
}

TEST(CudaGemm, RefusesWhatTheLibraryLacks) {
  Gemm gemm = gemmOf(DType::F32, DType::F32, kOdd);
  EXPECT_TRUE(isSupported(gemm));
  gemm.d.type = DType::BF16;
  EXPECT_FALSE(isSupported(gemm)) << "float32 factors with a 16-bit result";
  gemm = gemmOf(DType::BF16, DType::F16, kOdd);
  EXPECT_FALSE(isSupported(gemm)) << "two 16-bit types";
  gemm = gemmOf(DType::I32, DType::I32, kOdd);
  EXPECT_FALSE(isSupported(gemm)) << "integers";
  gemm = gemmOf(DType::F32, DType::F32, kOdd);
  gemm.a.leading = kOdd.m - 1;
  EXPECT_FALSE(isSupported(gemm)) << "columns that overlap";
  gemm = gemmOf(DType::F32, DType::F32, kOdd);
  gemm.batches = 65536;
  EXPECT_FALSE(isSupported(gemm)) << "more batches than a grid has";
  gemm = gemmOf(DType::F32, DType::F32, kOdd);
  gemm.epilogue = Epilogue::KeptGeluOfBias;
  gemm.m = gemm.a.rows = gemm.a.leading = gemm.d.rows = gemm.d.leading = 25;
  EXPECT_FALSE(isSupported(gemm)) << "columns of the second matrix that are no multiple of 8";
  gemm = gemmOf(DType::F64, DType::F64, kOdd);
  gemm.epilogue = Epilogue::Bias;
  EXPECT_FALSE(isSupported(gemm)) << "an epilogue in float64";
  gemm = gemmOf(DType::F32, DType::F32, kEven, Epilogue::GeluOfBias);
  gemm.accumulates = true;
  EXPECT_FALSE(isSupported(gemm)) << "GELU of a product that is added to a matrix";
}

} // namespace
} // namespace kerf::runtime::cuda
