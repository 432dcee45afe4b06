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

  /// Returns the plan of a graph with at most `mostBytes` bytes of workspace; null if cuDNN has none.
  Result<std::shared_ptr<const CudnnPlan>> plan(const CudnnGraph &graph, int64_t mostBytes);
  /// Enqueues the execution of a plan on a stream.
  Status execute(const CudnnPlan &plan, const Descriptor &tensors, CudaStream &stream);

  const Cudnn &cudnn;

private:
  CudnnGpu(const Cudnn &cudnn, CudnnHandle handle) : cudnn(cudnn), handle(handle) {}
  CudnnHandle handle;
  std::mutex mutex;                                              // the handle is for one thread at a time
  std::map<std::string, std::shared_ptr<const CudnnPlan>> plans; // by text of the graph and most bytes
};

} // namespace kerf::runtime::cuda
