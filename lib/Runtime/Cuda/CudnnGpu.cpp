// SPDX-License-Identifier: Apache-2.0
#include "CudnnGpu.h"

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

Result<std::shared_ptr<const CudnnPlan>> CudnnGpu::plan(const CudnnGraph &graph, int64_t mostBytes) {
  std::lock_guard lock(mutex);
  auto [found, isNew] = plans.try_emplace(fmt::format("{}most {}", textOf(graph), mostBytes));
  if (!isNew)
    return found->second;
  std::string reason;
  auto made = planOf(cudnn, {handle}, graph, mostBytes, reason);
  if (made)
    found->second = *made;
  else
    plans.erase(found);
  return made;
}

Status CudnnGpu::execute(const CudnnPlan &plan, const Descriptor &tensors, CudaStream &stream) {
  std::lock_guard lock(mutex);
  CudnnResult result = cudnn.setStream(handle, stream.stream);
  if (result == 0)
    result = cudnn.execute(handle, plan.plan.get(), tensors.get());
  if (result == 0)
    return ok();
  return cudnnError(cudnn, result, fmt::format("run on GPU {}", stream.context->number()));
}

} // namespace kerf::runtime::cuda
