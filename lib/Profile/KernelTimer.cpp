// SPDX-License-Identifier: Apache-2.0
#include "KernelTimer.h"

#include "kerf/Runtime/Cpu/Kernels.h"
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

using namespace kerf;
using namespace kerf::profile;

namespace {

// In a training step, a kernel finds its operands after the step has used the rest of its working set. The kernel is
// therefore called on several copies of its tensors, which are together as large as the working set of a small step.
constexpr int64_t kFootprintBytes = int64_t(12) << 20;
constexpr int64_t kLeastCopies = 3, kMostCopies = 128;
constexpr size_t kMostCalls = 20000;

template <typename T> void fillNumbers(const runtime::TensorView &view, int64_t valueCount) {
  T *data = static_cast<T *>(view.data);
  for (int64_t i = 0; i < view.elements(); ++i)
    data[i] = valueCount > 0 ? T(i * 7919 % valueCount) : T(double(i % 17 + 1) / 32);
}

/// A kernel bound to several copies of its tensors.
class Bound {
public:
  static Result<std::unique_ptr<Bound>> make(const KernelSpec &spec) {
    auto bound = std::make_unique<Bound>();
    bound->instruction.op = spec.op;
    bound->instruction.attrs = spec.attrs;
    void *scratch = nullptr;
    int64_t bytes = 1;
    for (const auto *specs : {&spec.operands, &spec.results})
      for (const TensorSpec &tensor : *specs)
        bytes += elementsOf(tensor.shape) * bytesOf(tensor.dtype);
    int64_t copies = std::clamp(kFootprintBytes / bytes, kLeastCopies, kMostCopies);
    for (int64_t copy = 0; copy < copies; ++copy) {
      runtime::BindRequest request{bound->instruction, {}, {}, bound->mesh, 0, nullptr};
      for (const TensorSpec &operand : spec.operands)
        request.operands.push_back(bound->memory.tensor(operand));
      for (const TensorSpec &result : spec.results)
        request.results.push_back(bound->memory.tensor(result));
      Result<int64_t> scratchBytes = runtime::scratchBytes(request);
      if (!scratchBytes)
        return scratchBytes.error();
      if (!scratch)
        scratch = bound->memory.bytes(*scratchBytes);
      request.scratch = scratch;
      Result<runtime::Kernel> kernel = runtime::bindKernel(request);
      if (!kernel)
        return kernel.error();
      bound->kernels.push_back(std::move(*kernel));
    }
    return bound;
  }

  size_t copies() const { return kernels.size(); }
  Status run(size_t call) const { return kernels[call % kernels.size()](); }

private:
  package::Instruction instruction;
  Mesh mesh;
  TensorMemory memory;
  std::vector<runtime::Kernel> kernels;
};

Result<double> timed(const Bound &bound, double budgetSeconds) {
  for (size_t call = 0; call < bound.copies(); ++call)
    if (Status status = bound.run(call); !status)
      return status.error();
  std::vector<double> seconds;
  Clock::time_point begin = Clock::now();
  while (seconds.size() < size_t(kLeastCopies) ||
         (secondsSince(begin) < budgetSeconds && seconds.size() < kMostCalls)) {
    Clock::time_point start = Clock::now();
    if (Status status = bound.run(seconds.size()); !status)
      return status.error();
    seconds.push_back(secondsSince(start));
  }
  return percentile30(seconds);
}

} // namespace

void TensorMemory::Free::operator()(void *memory) const { std::free(memory); }

void *TensorMemory::bytes(int64_t count) {
  constexpr size_t kAlignment = size_t(runtime::kHostAlignment);
  size_t whole = (size_t(std::max<int64_t>(count, 1)) + kAlignment - 1) / kAlignment * kAlignment;
  blocks.emplace_back(std::aligned_alloc(kAlignment, whole));
  std::memset(blocks.back().get(), 0, whole);
  return blocks.back().get();
}

runtime::TensorView TensorMemory::tensor(const TensorSpec &spec) {
  runtime::TensorView view{nullptr, spec.dtype, spec.shape};
  view.data = bytes(view.bytes());
  switch (spec.dtype) {
  case DType::F32:
    fillNumbers<float>(view, 0);
    break;
  case DType::F64:
    fillNumbers<double>(view, 0);
    break;
  case DType::I64:
    fillNumbers<int64_t>(view, std::max<int64_t>(spec.valueCount, 1));
    break;
  default: // 16-bit floats stay 0, because the values do not change the time
    break;
  }
  return view;
}

double kerf::profile::percentile30(std::vector<double> &seconds) {
  auto at = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() * 3 / 10);
  std::nth_element(seconds.begin(), at, seconds.end());
  return *at;
}

Result<double> kerf::profile::secondsOfCall(const KernelSpec &spec, double budgetSeconds) {
  auto bound = Bound::make(spec);
  if (!bound)
    return bound.error();
  return timed(**bound, budgetSeconds);
}

Result<double> kerf::profile::secondsOfCall(const KernelSpec &spec, double budgetSeconds, int threads) {
  std::vector<std::unique_ptr<Bound>> bounds;
  for (int t = 0; t < threads; ++t) {
    auto bound = Bound::make(spec);
    if (!bound)
      return bound.error();
    bounds.push_back(std::move(*bound));
  }
  std::vector<Result<double>> results(bounds.size(), Result<double>(0.0));
  std::vector<std::thread> running;
  for (size_t t = 0; t < bounds.size(); ++t)
    running.emplace_back([&, t] { results[t] = timed(*bounds[t], budgetSeconds); });
  for (std::thread &thread : running)
    thread.join();
  double sum = 0;
  for (const Result<double> &result : results) {
    if (!result)
      return result.error();
    sum += *result;
  }
  return sum / static_cast<double>(threads);
}

Result<KernelSample> kerf::profile::measure(const KernelSpec &spec, double budgetSeconds) {
  auto seconds = secondsOfCall(spec, budgetSeconds);
  if (!seconds)
    return Error{"profile: " + spec.name + ": " + seconds.error().message, ExitStatus::InternalCheck};
  return sampleOf(spec, *seconds);
}

KernelSample kerf::profile::sampleOf(const KernelSpec &spec, double seconds) {
  KernelSample sample{spec.name, spec.work, seconds};
  if (sample.work.bytes == 0)
    for (const auto *specs : {&spec.operands, &spec.results})
      for (const TensorSpec &tensor : *specs)
        sample.work.bytes += static_cast<double>(elementsOf(tensor.shape) * bytesOf(tensor.dtype));
  return sample;
}
