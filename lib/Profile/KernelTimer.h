// SPDX-License-Identifier: Apache-2.0
// Bound kernels with memory of their own, timed.
#pragma once

#include "kerf/Profile/Profile.h"
#include "kerf/Runtime/Cpu/Kernels.h"
#include <chrono>
#include <memory>

namespace kerf::profile {

using Clock = std::chrono::steady_clock;
inline double secondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct TensorSpec {
  DType dtype = DType::F32;
  Shape shape;
  int64_t below = 0; // integers: values are 0 .. below - 1
};

struct KernelSpec {
  std::string name, op;
  nlohmann::ordered_json attrs;
  std::vector<TensorSpec> operands, results;
  Work work; // without bytes: all of operands and results, unless they are given
};

/// Memory of several kernels' tensors, aligned as the runtime's; freed together.
class Memory {
public:
  runtime::TensorView tensor(const TensorSpec &spec);
  void *bytes(int64_t count);

private:
  struct Free {
    void operator()(void *memory) const;
  };
  std::vector<std::unique_ptr<void, Free>> blocks;
};

/// Seconds of one call: the third quickest of ten when all calls within `budgetSeconds` are put in order. Calls go
/// round a few copies of the tensors, so that a kernel finds its operands where a step leaves them: in a cache that
/// holds them and their neighbours, or in memory.
Result<double> secondsOfCall(const KernelSpec &spec, double budgetSeconds);
/// The same while `threads` threads do so at once, each with copies of its own: the mean over them.
Result<double> secondsOfCall(const KernelSpec &spec, double budgetSeconds, int threads);

Result<KernelSample> measure(const KernelSpec &spec, double budgetSeconds);

/// Of a list of seconds, which is put in order.
double quickThird(std::vector<double> &seconds);

/// What is measured, by class; one list for every machine.
std::vector<KernelSpec> kernelSpecs(ProfileOptions::Effort effort);
/// A long pointwise kernel and a large product, to be run on all cores at once.
KernelSpec streamSpec();
KernelSpec productSpec(int64_t m, int64_t n, int64_t k, DType dtype = DType::F32);

} // namespace kerf::profile
