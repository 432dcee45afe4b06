// SPDX-License-Identifier: Apache-2.0
// What cuDNN reads in place of attention's mask: numbers that are added to the scores, and a log-sum-exp that gives the
// rows that Kerf's own kernels compute no weight (docs/gpu.md).
#include "TileCode.h"

namespace kerf::runtime::cuda {

/// Four numbers that one instruction writes.
struct alignas(16) Four {
  float numbers[4];
};

/// Computes the bias and the tops of a mask. A warp works on one row.
KERF_KERNEL void attentionBias(AttentionBiasParameters p) {
  for (int64_t row = firstElement() / 32; row < p.rows; row += elementStep() / 32) {
    const int64_t start = row * p.keys, last = row % p.queries; // the last key of a causal row
    const int64_t seen = p.causal && last + 1 < p.keys ? last + 1 : p.keys;
    auto number = [&](int64_t key) {
      if (p.isBool)
        return at<Bool>(p.mask, start + key) ? 0.0F : lowest<float>();
      return p.isFloat32 ? at<F32>(p.mask, start + key) : float(at(p.mask, start + key));
    };
    float top = lowest<float>();
    for (int64_t key = lane(); key < seen; key += 32)
      top = larger(top, number(key));
    syncWarp();
    top = combineWarp(top, larger<float>);
    const bool own = isOwnRow(top);
    auto *bias = reinterpret_cast<Four *>(p.bias + row * p.columns);
    for (int64_t four = lane(); four * 4 < p.columns; four += 32) {
      Four out;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float x = own || four * 4 + i >= p.keys ? 0.0F : number(four * 4 + i);
        out.numbers[i] = x < kLeastBias ? kLeastBias : x;
      }
      bias[four] = out;
    }
    if (lane() == 0)
      p.tops[row] = top;
  }
}

KERF_KERNEL void attentionSums(AttentionSumsParameters p) {
  for (int64_t i = firstElement(); i < p.b * p.h * p.s; i += elementStep()) {
    const int64_t query = i % p.s, head = i / p.s % p.h, batch = i / p.s / p.h;
    const float top = p.tops.data[batch * p.tops.batch + head * p.tops.head + query], lse = p.lse[i];
    p.copy[i] = isOwnRow(top) || lse == lowest<float>() ? -kLeastBias : lse;
  }
}

} // namespace kerf::runtime::cuda
