// SPDX-License-Identifier: Apache-2.0
// Instructions that cuDNN computes, with limits that tests make small, and the executions of graphs that they share.
#pragma once

#include "Calls.h"
#include "CudnnGraph.h"

namespace kerf::runtime::cuda {

/// Most bytes of workspace and bias for one slice of attention. Instructions that need more are computed slice by
/// slice.
inline constexpr int64_t kMostAttentionScratch = int64_t(256) << 20;
/// Most elements of a tensor, less one: cuDNN's kernels may count in 32 bits.
inline constexpr int64_t kMostElements = int64_t(1) << 31;

using CudnnCalls = Result<std::optional<Calls>>;

/// Returns the calls of an attention instruction that cuDNN computes, with at most `mostBytes` for a mask's numbers, or
/// with those of one batch entry if these are more. Returns nothing if cuDNN has no plan or the form is not cuDNN's.
CudnnCalls attentionCalls(const CallRequest &request, int64_t mostBytes);
/// Returns the calls of an attention_backward instruction that cuDNN computes with at most `mostBytes` of workspace and
/// of a mask's numbers, or with those of one key/value head of one batch entry if these are more. Returns nothing if
/// cuDNN has no plan or the form is not cuDNN's.
CudnnCalls attentionBackwardCalls(const CallRequest &request, int64_t mostBytes);

/// Returns cuDNN's number of a 16-bit type; nothing for another type.
std::optional<CudnnData> halfTypeOf(DType type);

/// A tensor of memory, and the distances in bytes from a slice to the next one along the batch and along the heads.
struct SlicedTensor {
  int number;
  void *data;
  int64_t batchBytes = 0, headBytes = 0;
};

/// A graph that is executed for each slice, and its tensors.
struct SlicedGraph {
  std::shared_ptr<const CudnnGraph> graph;
  std::vector<SlicedTensor> tensors;
  int64_t batchSlices = 1, headSlices = 1;
  /// Adds the calls that come before those of the slices of this number along the batch; null for none.
  std::function<void(Calls &calls, int64_t batchSlice)> prepare = nullptr;
};

/// Adds the executions of a graph to `calls`. Returns nothing if cuDNN has no plan of the graph, and fails if the
/// run-time compiler that plans need is missing. A GPU that exists only to plan memory is taken to have a plan.
CudnnCalls withGraph(const CallRequest &request, Calls calls, const SlicedGraph &sliced, int64_t workspaceBytes);

} // namespace kerf::runtime::cuda
