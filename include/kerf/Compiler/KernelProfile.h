// SPDX-License-Identifier: Apache-2.0
// Reads how long the kernels of one rank took in a training run: a trace of PyTorch's profiler, or a summary of
// kernels by Nsight Systems. Kernels are told apart by their names (docs/cost-model.md, "Calibration").
#pragma once

#include "kerf/Support/Result.h"
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace kerf {

/// Classes of kernels in a profile.
enum class ProfiledKernel {
  Product,    // matrix products and convolutions
  Attention,  // fused attention
  Memory,     // all others: pointwise kernels, norms, softmax, optimizers
  Collective, // of NCCL and the like; their seconds include waiting for other ranks
  Copy,       // copies between host and device, and clears of memory
};
inline constexpr size_t kProfiledKernels = 5;
/// Returns the class of the kernel named `name`.
ProfiledKernel classOfKernel(std::string_view name);

/// The seconds of the kernels of one rank.
struct KernelProfile {
  std::array<double, kProfiledKernels> seconds = {}; // of all steps together, by ProfiledKernel
  int64_t kernels = 0;                               // number of kernels
  int64_t steps = 0;                                 // number of training steps; 0: the file does not say
  double of(ProfiledKernel kind) const { return seconds[static_cast<size_t>(kind)]; }
};

/// Reads a profile from the text of a file: the JSON trace that torch.profiler exports (export_chrome_trace), or the
/// CSV that `nsys stats --report cuda_gpu_kern_sum --format csv` prints. `where` names the file in messages. Fails if
/// the text is neither, or has no kernel of a GPU.
Result<KernelProfile> parseKernelProfile(std::string_view text, const std::string &where);

} // namespace kerf
