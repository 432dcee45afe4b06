// SPDX-License-Identifier: Apache-2.0
// oneDNN's convolutions of float32, on row-major tensors. A convolution is cut into pieces along one of its dimensions,
// as its shape alone decides; a team's threads share the pieces.
#pragma once

#include "Windows.h"

#include <memory>

namespace kerf::runtime::kernels {

/// Operand [samples, groups * in, size..], kernel [groups * out, in, window..], result [samples, groups * out,
/// places..].
struct ConvolutionSizes {
  int64_t samples = 0, groups = 1, in = 0, out = 0;
  Window window;
};

/// Which of the three is computed from the others.
enum class ConvolutionSide { Operand, Kernel, Result };

class OneDnnConvolution {
public:
  /// Null where oneDNN does not do this convolution.
  static std::shared_ptr<OneDnnConvolution> make(const ConvolutionSizes &sizes, ConvolutionSide made);
  ~OneDnnConvolution();
  Status run(Team *team, float *operand, float *kernel, float *result, void *scratch) const;

  int64_t scratchBytes = 0;

private:
  struct Parts;
  std::unique_ptr<Parts> parts;
};

} // namespace kerf::runtime::kernels
