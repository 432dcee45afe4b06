// SPDX-License-Identifier: Apache-2.0
// cuDNN on one GPU, and the plans that it has made there.
#pragma once

#include "Context.h"
#include "CudnnGraph.h"
#include <map>
#include <mutex>

namespace kerf::runtime::cuda {

/// cuDNN's handle for one GPU, and the plans of the graphs so far.
class CudnnGpu {
public:
  /// Returns cuDNN on a GPU, which the first call opens. Fails where cuDNN is missing or too old.
  static Result<std::shared_ptr<CudnnGpu>> of(Context &gpu);
  ~CudnnGpu() { cudnn.destroy(handle); }
  CudnnGpu(const CudnnGpu &) = delete;

  /// Returns the plan of a graph within the limits; null if cuDNN has none. If the GPU's options ask for measurements
  /// and the graph is large, it is the fastest one of the first plans that cuDNN proposes, otherwise the first one.
  Result<std::shared_ptr<const CudnnPlan>> plan(const std::shared_ptr<Context> &gpu, const CudnnGraph &graph,
                                                const PlanLimits &limits);
  /// Enqueues the execution of a plan on a stream.
  Status execute(const CudnnPlan &plan, const Descriptor &tensors, CudaStream &stream);

  const Cudnn &cudnn;

private:
  CudnnGpu(const Cudnn &cudnn, CudnnHandle handle) : cudnn(cudnn), handle(handle) {}
  Result<std::shared_ptr<const CudnnPlan>> make(const std::shared_ptr<Context> &gpu, const CudnnGraph &graph,
                                                const PlanLimits &limits, const std::string &key);
  Result<size_t> fastest(const std::shared_ptr<Context> &gpu, const CudnnGraph &graph, const PlanLimits &limits,
                         const CudnnPlans &plans);
  Status enqueue(const CudnnPlan &plan, const Descriptor &tensors, CudaStream &stream);
  CudnnHandle handle;
  std::mutex mutex;                                              // the handle is for one thread at a time
  std::map<std::string, std::shared_ptr<const CudnnPlan>> plans; // by text of the graph and of the limits
};

} // namespace kerf::runtime::cuda
