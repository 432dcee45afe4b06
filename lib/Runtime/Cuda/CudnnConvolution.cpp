// SPDX-License-Identifier: Apache-2.0
#include "CudnnConvolution.h"

#include <algorithm>

namespace kerf::runtime::cuda {

namespace {
/// Adds a tensor without gaps in memory, and returns its number. With `channelsLast`, dimension 1 is the last one in
/// memory.
int addDense(CudnnGraph &graph, const std::vector<int64_t> &dims, CudnnData type, bool channelsLast) {
  std::vector<int64_t> strides(dims.size(), 1);
  int64_t next = channelsLast ? dims[1] : 1;
  for (size_t d = dims.size(); d-- > 0;)
    if (d != 1 || !channelsLast) {
      strides[d] = next;
      next *= dims[d];
    }
  return addTensor(graph, {type, dims, std::move(strides)});
}
} // namespace

ConvolutionGraph convolutionGraph(const ConvolutionShape &shape, CudnnKind kind, CudnnData type) {
  ConvolutionGraph all{};
  const auto &first = kind == kConvolutionDataGradient ? shape.result : shape.sample;
  const auto &second = kind == kConvolutionFilterGradient ? shape.result : shape.kernel;
  const auto &made = kind == kConvolutionForward        ? shape.result
                     : kind == kConvolutionDataGradient ? shape.sample
                                                        : shape.kernel;
  all.a = addDense(all.graph, first, type, shape.channelsLast);
  all.b = addDense(all.graph, second, type, shape.channelsLast);
  all.y = addDense(all.graph, made, type, shape.channelsLast);
  addNode(all.graph, {kind, 0, kDataFloat, all.a, all.b, -1, all.y, -1, shape.window});
  return all;
}

int64_t convolutionWorkspace(const ConvolutionShape &shape, CudnnData type) {
  constexpr int64_t kMost = int64_t(256) << 20, kRest = int64_t(1) << 20;
  auto elements = [](const std::vector<int64_t> &dims) {
    int64_t all = 1;
    for (int64_t size : dims)
      all *= size;
    return all;
  };
  int64_t bytes = type == kDataFloat ? 4 : 2;
  int64_t tensors = (elements(shape.sample) + elements(shape.kernel) + elements(shape.result)) * bytes;
  return std::min(kMost, tensors + tensors / 4 + kRest);
}

} // namespace kerf::runtime::cuda
