// SPDX-License-Identifier: Apache-2.0
// Measurement of single CPU kernels on tensors that are allocated for the purpose.
#pragma once

#include "kerf/Profile/Profile.h"
#include "kerf/Runtime/Cpu/Kernels.h"
#include <chrono>
#include <memory>

namespace kerf::profile {

using Clock = std::chrono::steady_clock;
/// Returns the seconds that have passed since `start`.
inline double secondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// The type, shape and contents of an operand or result of a measured kernel.
struct TensorSpec {
  DType dtype = DType::F32; // element type
  Shape shape;              // sizes of the dimensions
  int64_t valueCount = 0;   // integer tensors: the values are 0 .. valueCount - 1; 0 for other types
};

/// A kernel to measure: the operator with its attributes, operands and results.
struct KernelSpec {
  std::string name, op;                      // name in reports, and name of the operator
  nlohmann::ordered_json attrs;              // attributes of the operator
  std::vector<TensorSpec> operands, results; // tensors that the kernel reads and writes
  Work work; // work of one call; if its bytes are 0, they are taken as those of all operands and results
};

/// Memory of the tensors of several kernels, aligned as in the runtime. All tensors are freed when the
/// object is destroyed.
class TensorMemory {
public:
  /// Allocates a tensor and fills it with values that its type allows.
  runtime::TensorView tensor(const TensorSpec &spec);
  /// Allocates `count` bytes of zeros.
  void *bytes(int64_t count);

private:
  struct Free {
    void operator()(void *memory) const;
  };
  std::vector<std::unique_ptr<void, Free>> blocks;
};

/// Returns the seconds of one call of a kernel: the 30th percentile of all calls within `budgetSeconds`. The calls
/// alternate between several copies of the tensors, so that a kernel finds its operands where it would find them in a
/// training step: in a cache if the working set fits into it, otherwise in memory. Fails if the kernel fails.
Result<double> secondsOfCall(const KernelSpec &spec, double budgetSeconds);
/// Returns the seconds of one call while `threads` threads run the kernel at once, each on its own tensors: the mean
/// over the threads of the 30th percentile. Fails if the kernel fails.
Result<double> secondsOfCall(const KernelSpec &spec, double budgetSeconds, int threads);

/// Measures a kernel on one thread for about `budgetSeconds`. Fails if the kernel fails.
Result<KernelSample> measure(const KernelSpec &spec, double budgetSeconds);

/// Returns the sample of a kernel that took `seconds`.
KernelSample sampleOf(const KernelSpec &spec, double seconds);

/// Returns the 30th percentile of `seconds`, which must not be empty; reorders the list.
double percentile30(std::vector<double> &seconds);

/// Returns the kernels to measure, grouped by class. The list is the same on every machine.
std::vector<KernelSpec> kernelSpecs(ProfileOptions::Effort effort);
/// Returns the kernels to measure on an accelerator, grouped by class, smaller ones of a kind before larger ones.
/// `halfType` is the type of 16 bits in which the accelerator trains.
std::vector<KernelSpec> deviceKernelSpecs(DType halfType);
/// Returns the kernels whose time is that of memory, on tensors of `rows` x `columns`.
std::vector<KernelSpec> rowKernelSpecs(int64_t rows, int64_t columns, DType dtype);
/// Returns a long pointwise kernel, which measures memory bandwidth.
KernelSpec streamSpec();
/// Returns a product of an m x k by a k x n matrix.
KernelSpec productSpec(int64_t m, int64_t n, int64_t k, DType dtype = DType::F32);

} // namespace kerf::profile
