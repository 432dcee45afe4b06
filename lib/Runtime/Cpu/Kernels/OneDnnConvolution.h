// SPDX-License-Identifier: Apache-2.0
// Convolutions by oneDNN of float32 or bf16 numbers, on tensors whose channels are their second or their last
// dimension. A convolution is cut into pieces along one of its dimensions, and the threads of a team share the pieces.
// The cut depends only on the shapes.
#pragma once

#include "Windows.h"

#include <array>
#include <memory>

namespace kerf::runtime::kernels {

/// The sizes of a convolution. The operand is [samples, groups * in, window.size..], the kernel [groups * out, in,
/// window.window..] and the result [samples, groups * out, window.places..]. With `channelsLast`, the second dimension
/// of each is its last one in memory.
struct ConvolutionSizes {
  int64_t samples = 0, groups = 1; // batch size and number of groups of channels
  int64_t in = 0, out = 0;         // input and output channels of each group
  bool channelsLast = false;
  Window window;
};

/// One of the three tensors of a convolution. The forward convolution computes the result; the two backward ones
/// compute the gradients of the operand and of the kernel.
enum class ConvolutionSide { Operand, Kernel, Result };

/// The element types of the three tensors, by ConvolutionSide: all are F32, or the two that are read are BF16 and the
/// computed one is BF16 or F32.
using ConvolutionTypes = std::array<DType, 3>;

/// A convolution that is planned once and run in every step.
class OneDnnConvolution {
public:
  /// Plans the convolution that computes the tensor `computed` from the other two. Returns null if oneDNN does
  /// not support it.
  static std::shared_ptr<OneDnnConvolution> make(const ConvolutionSizes &sizes, ConvolutionSide computed,
                                                 const ConvolutionTypes &types);
  ~OneDnnConvolution();
  /// Computes one of the three tensors from the other two. `scratch` has scratchBytes bytes.
  Status run(ThreadTeam *team, void *operand, void *kernel, void *result, void *scratch) const;

  int64_t scratchBytes = 0; // bytes of scratch memory that `run` needs

private:
  struct Parts;
  std::unique_ptr<Parts> parts;
};

} // namespace kerf::runtime::kernels
