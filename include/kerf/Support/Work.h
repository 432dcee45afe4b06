// SPDX-License-Identifier: Apache-2.0
// What one kernel launch does, as plain data: the dialect says it, the cost model turns it into seconds.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kerf {

/// Kinds of kernel that reach a different share of a device's peak (docs/cost-model.md).
enum class KernelClass {
  Product,   // dot_general: matrix products
  Attention, // fused attention and its backward
  Pointwise, // elementwise chains, broadcast, convert, copies in order
  Reduction, // reduce, softmax, norms, cross-entropy and their backwards
  Gather,    // gather, embedding, scatter: memory in no order
  Movement,  // transpose, concatenate, slice, pad, iota: bytes only
  Nothing,   // reshape that copies nothing, constants: no launch
};
inline std::string_view toString(KernelClass kernelClass) {
  constexpr std::string_view names[] = {"product", "attention", "pointwise", "reduction",
                                        "gather",  "movement",  "nothing"};
  return names[static_cast<int>(kernelClass)];
}

/// Floating point operations an element of composites, counting an exponential or a tanh as one (only their share of a
/// step matters: memory bounds these ops). Of cross entropies, an element of the logits.
inline constexpr double kSoftmaxFlops = 5, kSoftmaxBackwardFlops = 4, kGeluFlops = 8, kGeluBackwardFlops = 14;
inline constexpr double kLayerNormFlops = 8, kLayerNormBackwardFlops = 14, kRmsNormFlops = 5,
                        kRmsNormBackwardFlops = 10;
inline constexpr double kCrossEntropyFlops = 4, kCrossEntropyBackwardFlops = 4;

/// Of one launch on one rank, from local shapes.
struct Work {
  KernelClass kernelClass = KernelClass::Nothing;
  double flops = 0;
  double bytes = 0; // read and written
  /// The key of `peak_flops` in the cluster file: "f32", "bf16", "f16", "f64", "i64", ...
  std::string dtype = "f32";
  /// Launches, when the work stands for several alike kernels.
  double launches = 1;
  /// Of one launch, where the class has them, 0 when not known. Product: `batch` times an m x k by k x n product.
  /// Attention: m queries and n keys of head size k, `batch` = samples x heads.
  double m = 0, n = 0, k = 0, batch = 1;
};

} // namespace kerf
