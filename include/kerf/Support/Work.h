// SPDX-License-Identifier: Apache-2.0
// The work of a kernel launch (operations, bytes, shape) as plain data. The dialect describes each operator by it, and
// the cost model turns it into seconds.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kerf {

/// Classes of kernels. All kernels of a class reach the same share of a device's peak (docs/cost-model.md).
enum class KernelClass {
  Product,   // matrix products (dot_general)
  Attention, // fused attention, forward and backward
  Pointwise, // chains of elementwise ops, broadcasts, type conversions, contiguous copies
  Reduction, // reductions, softmax, norms, cross-entropy, and the backwards of these
  Gather,    // gather, embedding and scatter: memory accesses in irregular order
  Movement,  // transpose, concatenate, slice, pad, iota: these only move bytes
  Nothing,   // ops that launch no kernel: constants, and reshapes that copy nothing
};
/// Returns the name of a kernel class in reports: "product", "attention", ...
inline std::string_view toString(KernelClass kernelClass) {
  constexpr std::string_view names[] = {"product", "attention", "pointwise", "reduction",
                                        "gather",  "movement",  "nothing"};
  return names[static_cast<int>(kernelClass)];
}

/// Floating-point operations per element of composite ops; an exponential or a tanh counts as one operation. For cross
/// entropies the elements are those of the logits. Rough values are enough, because memory bandwidth limits these ops.
inline constexpr double kSoftmaxFlops = 5, kSoftmaxBackwardFlops = 4, kGeluFlops = 8, kGeluBackwardFlops = 14;
inline constexpr double kLayerNormFlops = 8, kLayerNormBackwardFlops = 14, kRmsNormFlops = 5,
                        kRmsNormBackwardFlops = 10;
inline constexpr double kCrossEntropyFlops = 4, kCrossEntropyBackwardFlops = 4;

/// The work of a kernel on one rank, computed from the rank's local shapes.
struct Work {
  KernelClass kernelClass = KernelClass::Nothing; // class that determines which share of the peak the kernel reaches
  double flops = 0;                               // floating-point operations of all launches
  double bytes = 0;                               // bytes that all launches read and write
  /// Element type in which the kernel computes: a key of `peak_flops` in the cluster file, for example "f32" or "bf16".
  std::string dtype = "f32";
  /// Number of kernel launches, if the record stands for several identical kernels.
  double launches = 1;
  /// Sizes of one launch; 0 if not known. A product is `batch` times an m x k by k x n matrix product. Attention has m
  /// queries and n keys of head size k, and `batch` is samples x heads. Other kernel classes have no sizes.
  double m = 0, n = 0, k = 0, batch = 1;
};

} // namespace kerf
