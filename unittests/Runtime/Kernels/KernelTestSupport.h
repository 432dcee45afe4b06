// SPDX-License-Identifier: Apache-2.0
// Runs single kernels on host tensors that are given as doubles. Each run also checks the duties of every kernel: it
// writes nothing outside of its results and scratch memory, and it gives the same bits when it is called twice, when it
// runs with three threads, and when it writes in place over an operand that it may overwrite.
#pragma once

#include "kerf/Runtime/Cpu/Kernels.h"
#include <gtest/gtest.h>
#include <limits>
#include <random>

namespace kerf::runtime::test {

using Json = nlohmann::ordered_json;

inline constexpr DType F64 = DType::F64, F32 = DType::F32;
inline constexpr double kInf = std::numeric_limits<double>::infinity();

/// A tensor whose elements are given as doubles.
struct HostTensor {
  DType dtype = DType::F64;
  Shape shape;
  std::vector<double> values;
  int64_t elements() const { return elementsOf(shape); }
};

/// The type of a kernel's result.
struct ResultType {
  DType dtype;
  Shape shape;
};

/// The mesh and the rank that a kernel runs on.
struct RunOptions {
  Mesh mesh;
  int64_t rank = 0;
};

/// Runs a kernel and returns its results. Fails with the error of binding or running the kernel.
Result<std::vector<HostTensor>> tryKernel(const std::string &op, const Json &attrs,
                                          const std::vector<HostTensor> &operands,
                                          const std::vector<ResultType> &results, const RunOptions &options = {});
/// Runs a kernel and returns its results. An error fails the test, and the results are zeros.
std::vector<HostTensor> runKernel(const std::string &op, const Json &attrs, const std::vector<HostTensor> &operands,
                                  const std::vector<ResultType> &results, const RunOptions &options = {});
/// Runs a kernel that must fail, and returns the error's message. If the kernel succeeds, the test fails and the
/// message is empty.
std::string errorOf(const std::string &op, const Json &attrs, const std::vector<HostTensor> &operands,
                    const std::vector<ResultType> &results, const RunOptions &options = {});

/// Random numbers of one test; the seed is printed with every failure through SCOPED_TRACE.
class Random {
public:
  explicit Random(uint64_t seed) : engine(seed) {}
  /// Returns an integer in [low, high].
  int64_t integer(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(engine); }
  /// Returns a standard normal number.
  double normal() { return std::normal_distribution<double>()(engine); }
  /// Returns a tensor of normal numbers with standard deviation `scale`.
  HostTensor normals(DType dtype, Shape shape, double scale = 1);
  /// Returns a tensor of integers in [low, high].
  HostTensor integers(DType dtype, Shape shape, int64_t low, int64_t high);
  /// Returns a shape of `rank` dimensions with sizes from 1 to `largest`.
  Shape shape(size_t rank, int64_t largest);
  /// Returns a permutation of 0 to n - 1.
  std::vector<int64_t> permutation(int64_t n);

private:
  std::mt19937_64 engine;
};

/// Returns the tensor with its values rounded to its element type.
HostTensor rounded(HostTensor tensor);
/// Returns a scalar tensor.
HostTensor scalar(DType dtype, double value);

/// Expects |actual - expected| <= tolerance * max(1, |expected|) for each element, where NaN equals NaN.
void expectNear(const HostTensor &actual, const std::vector<double> &expected, double tolerance,
                const std::string &what = "");

/// Returns the tolerance for expectNear of products and sums in an element type.
double toleranceOf(DType dtype);

/// Returns the number of graphs that the stand-in of cuDNN has executed; -1 where the kernels run on another device, or
/// on a real GPU.
int64_t cudnnExecutions();

/// Whether the kernels of this process run on a GPU, not on a processor or the stand-in of a GPU.
bool isOnRealGpu();

/// Calls f(index) for every index of the shape in row-major order.
template <typename F> void forEachIndex(const Shape &shape, F f) {
  std::vector<int64_t> index(shape.size(), 0);
  for (int64_t flat = 0; flat < elementsOf(shape); ++flat) {
    int64_t rest = flat;
    for (size_t d = shape.size(); d-- > 0; rest /= shape[d])
      index[d] = rest % shape[d];
    f(index);
  }
}
/// Returns the row-major number of the element at `index`.
int64_t flatIndex(const Shape &shape, const std::vector<int64_t> &index);

/// Expects that `gradient` is the gradient of sum(weights * f(operands)) with respect to operands[operand], by central
/// differences. All operands are float64.
void expectGradient(const std::function<std::vector<double>(const std::vector<HostTensor> &)> &f,
                    std::vector<HostTensor> operands, size_t operand, const std::vector<double> &weights,
                    const HostTensor &gradient, double tolerance = 1e-6);

} // namespace kerf::runtime::test
