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

/// Returns the number of proposals among which the fastest plan of a graph is found. cuDNN compiles the plans of graphs
/// with several operations, each of which takes some tenths of a second.
static size_t triesOf(const CudnnGraph &graph) {
  constexpr size_t kOfOneOperation = 6, kOfSeveral = 4;
  return graph.nodes.size() == 1 ? kOfOneOperation : kOfSeveral;
}

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
  CudnnPlans made;
  size_t number = 0;
  auto propose = [&](size_t tries) {
    auto plans = plansOf(cudnn, {handle}, graph, limits, tries, reason);
    if (plans)
      made = std::move(*plans);
    return plans ? ok() : Status(plans.error());
  };
  size_t tries = gpu->products.measures && multiplicationsOf(graph) >= kLeastMeasured ? triesOf(graph) : 1;
  if (tries > 1) {
    static Choices<std::string, size_t> choices;
    auto chosen = choices.find(*gpu, key, [&]() -> Result<size_t> {
      if (Status proposed = propose(tries); !proposed)
        return proposed.error();
      return made.size() < 2 ? size_t(0) : fastest(gpu, graph, limits, made);
    });
    if (!chosen)
      return chosen.error();
    number = *chosen;
  }
  if (made.empty())
    if (Status proposed = propose(number == 0 ? 1 : tries); !proposed)
      return proposed.error();
  return number < made.size() ? made[number] : nullptr;
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
