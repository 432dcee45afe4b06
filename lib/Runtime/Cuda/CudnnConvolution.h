// SPDX-License-Identifier: Apache-2.0
// Convolutions and their gradients as graphs of cuDNN.
#pragma once

#include "CudnnGraph.h"

namespace kerf::runtime::cuda {

/// The shapes and the window of a convolution: samples [n, channels, ...], kernel [outputs, channels of a group, ...]
/// and result [n, outputs, ...]. With `channelsLast`, the second dimension of each is its last one in memory.
struct ConvolutionShape {
  std::vector<int64_t> sample, kernel, result;
  GraphWindow window;
  bool channelsLast = false;
};

/// The graph of a convolution or of one of its gradients, and the numbers of its operands and of its result.
struct ConvolutionGraph {
  CudnnGraph graph;
  int a, b, y;
};
/// Returns the graph. `kind` says which of the three tensors is computed from the other two, which are the operands in
/// this order: sample and kernel (kConvolutionForward), result and kernel (kConvolutionDataGradient), or sample and
/// result (kConvolutionFilterGradient). There must be two or three spatial dimensions.
ConvolutionGraph convolutionGraph(const ConvolutionShape &shape, CudnnKind kind, CudnnData type);

/// Returns the most bytes of workspace that a plan of a convolution may need.
int64_t convolutionWorkspace(const ConvolutionShape &shape, CudnnData type);

} // namespace kerf::runtime::cuda
