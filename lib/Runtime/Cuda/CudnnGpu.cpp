// SPDX-License-Identifier: Apache-2.0
#include "CudnnGpu.h"
#include "Measuring.h"

#include <fmt/format.h>

namespace kerf::runtime::cuda {

Result<std::shared_ptr<CudnnGpu>> CudnnGpu::of(Context &gpu) {
  if (gpu.cudnn)
    return gpu.cudnn;
  auto cudnn = loadCudnn();
  if (!cudnn)
    return cudnn.error();
  if (Status status = gpu.use(); !status)
    return status.error();
  CudnnHandle handle = nullptr;
  if (CudnnResult result = (*cudnn)->create(&handle))
    return cudnnError(**cudnn, result, fmt::format("be opened on GPU {}", gpu.number()));
  gpu.cudnn.reset(new CudnnGpu(**cudnn, handle));
  return gpu.cudnn;
}

/// Most plans of a graph that are measured. Each of them is compiled first, which takes longer than running it.
static constexpr size_t kMostMeasured = 6;

Result<std::shared_ptr<const CudnnPlan>> CudnnGpu::plan(const std::shared_ptr<Context> &gpu, const CudnnGraph &graph,
                                                        const PlanLimits &limits) {
  std::lock_guard lock(mutex);
  std::string key = fmt::format("{}most {} {}", textOf(graph), limits.mostBytes, limits.deterministic);
  if (auto found = plans.find(key); found != plans.end())
    return found->second;
  auto made = make(gpu, graph, limits, key);
  if (made)
    plans.emplace(std::move(key), *made);
  return made;
}

Result<std::shared_ptr<const CudnnPlan>> CudnnGpu::make(const std::shared_ptr<Context> &gpu, const CudnnGraph &graph,
                                                        const PlanLimits &limits, const std::string &key) {
  std::string reason;
  CudnnPlans made; // the first plans, as many as have been needed so far
  auto need = [&](size_t count) {
    auto first = plansOf(cudnn, {handle}, graph, limits, count, reason);
    if (first)
      made = std::move(*first);
    return first ? ok() : Status(first.error());
  };
  size_t number = 0;
  if (gpu->products.measures && multiplicationsOf(graph) >= kLeastMeasured) {
    static Choices<std::string, size_t> choices;
    auto chosen = choices.find(*gpu, key, [&]() -> Result<size_t> {
      if (Status planned = need(kMostMeasured); !planned)
        return planned.error();
      return made.size() < 2 ? size_t(0) : fastest(gpu, graph, limits, made);
    });
    if (!chosen)
      return chosen.error();
    number = *chosen;
  }
  if (made.size() <= number)
    if (Status planned = need(number + 1); !planned)
      return planned.error();
  return made.size() <= number ? nullptr : made[number];
}

Result<size_t> CudnnGpu::fastest(const std::shared_ptr<Context> &gpu, const CudnnGraph &graph, const PlanLimits &limits,
                                 const CudnnPlans &plans) {
  std::vector<int64_t> bytes;
  for (const GraphTensor &tensor : graph.tensors)
    bytes.push_back(bytesOf(tensor));
  bytes.push_back(limits.mostBytes);
  auto bench = Bench::create(gpu, bytes);
  if (!bench)
    return size_t(0); // the GPU has no memory left for a measurement
  std::vector<void *> addresses;
  for (size_t i = 0; i < graph.tensors.size(); ++i)
    addresses.push_back((*bench)->memory(i));
  auto tensors = bindTensors(cudnn, graph, addresses, (*bench)->memory(graph.tensors.size()));
  if (!tensors)
    return tensors.error();
  std::vector<LibraryCall> calls;
  for (const std::shared_ptr<const CudnnPlan> &plan : plans)
    calls.emplace_back([&](CudaStream &stream) { return enqueue(*plan, **tensors, stream); });
  return (*bench)->fastest(calls);
}

Status CudnnGpu::execute(const CudnnPlan &plan, const Descriptor &tensors, CudaStream &stream) {
  std::lock_guard lock(mutex);
  return enqueue(plan, tensors, stream);
}

Status CudnnGpu::enqueue(const CudnnPlan &plan, const Descriptor &tensors, CudaStream &stream) {
  CudnnResult result = cudnn.setStream(handle, stream.stream);
  if (result == 0)
    result = cudnn.execute(handle, plan.plan.get(), tensors.get());
  if (result == 0)
    return ok();
  return cudnnError(cudnn, result, fmt::format("run on GPU {}", stream.context->number()));
}

} // namespace kerf::runtime::cuda
