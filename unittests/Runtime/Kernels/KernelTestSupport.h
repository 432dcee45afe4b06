// SPDX-License-Identifier: Apache-2.0
// Runs one kernel on host tensors given as doubles. Every run also checks what all kernels owe: nothing written outside
// of results and scratch, the same bits when called twice, with three threads, and where the kernel says that it may
// write over an operand.
#pragma once

#include "kerf/Runtime/Cpu/Kernels.h"
#include <gtest/gtest.h>
#include <random>

namespace kerf::runtime::test {

using Json = nlohmann::ordered_json;

struct HostTensor {
  DType dtype = DType::F64;
  Shape shape;
  std::vector<double> values;
  int64_t elements() const { return elementsOf(shape); }
};

struct ResultType {
  DType dtype;
  Shape shape;
};

struct RunOptions {
  Mesh mesh;
  int64_t rank = 0;
};

/// The results, or the kernel's (or binding's) error.
Result<std::vector<HostTensor>> tryKernel(const std::string &op, const Json &attrs,
                                          const std::vector<HostTensor> &operands,
                                          const std::vector<ResultType> &results, const RunOptions &options = {});
/// As above; an error fails the test and gives zeros.
std::vector<HostTensor> runKernel(const std::string &op, const Json &attrs, const std::vector<HostTensor> &operands,
                                  const std::vector<ResultType> &results, const RunOptions &options = {});
/// The message of an expected error; empty (and a failure) when the kernel runs.
std::string errorOf(const std::string &op, const Json &attrs, const std::vector<HostTensor> &operands,
                    const std::vector<ResultType> &results, const RunOptions &options = {});

/// Random numbers of one test; the seed is printed with every failure through SCOPED_TRACE.
class Random {
public:
  explicit Random(uint64_t seed) : engine(seed) {}
  int64_t integer(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(engine); }
  double normal() { return std::normal_distribution<double>()(engine); }
  HostTensor normals(DType dtype, Shape shape, double scale = 1);
  HostTensor integers(DType dtype, Shape shape, int64_t low, int64_t high);
  Shape shape(size_t rank, int64_t largest);
  std::vector<int64_t> permutation(int64_t n);

private:
  std::mt19937_64 engine;
};

/// What the tensor holds once its values are stored in its dtype.
HostTensor rounded(HostTensor tensor);
HostTensor scalar(DType dtype, double value);

/// |actual - expected| <= tolerance * max(1, |expected|); NaN equals NaN.
void expectNear(const HostTensor &actual, const std::vector<double> &expected, double tolerance,
                const std::string &what = "");

/// Of a product or sum in that dtype.
double toleranceOf(DType dtype);

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
int64_t flatIndex(const Shape &shape, const std::vector<int64_t> &index);

/// Checks `gradients[i]` against central differences of sum(weights * f(operands)) in operands[i], for float64
/// functions.
void expectGradient(const std::function<std::vector<double>(const std::vector<HostTensor> &)> &f,
                    std::vector<HostTensor> operands, size_t operand, const std::vector<double> &weights,
                    const HostTensor &gradient, double tolerance = 1e-6);

} // namespace kerf::runtime::test
