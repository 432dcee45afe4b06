// SPDX-License-Identifier: Apache-2.0
// Device code that adds several numbers at a time over the threads of a block, pairwise, in an order that depends only
// on the number of threads.
#pragma once

#include "PackCode.h"

namespace kerf::runtime::cuda {

/// Adds the M values of a warp's threads, value by value. Thread t gets the sum of value t / (32 / M). Each of the
/// first steps halves the values that a thread has, so there are fewer steps than for each value alone.
template <int M, int distance = 16> KERF_DEVICE N sumsOfWarp(const std::array<N, M> &values) {
  if constexpr (distance == 0) {
    return values[0];
  } else if constexpr (M == 1) {
    return sumsOfWarp<1, distance / 2>({values[0] + ofOther(values[0], distance)});
  } else {
    const bool isUpper = threadInBlock() & distance;
    std::array<N, M / 2> sums;
#pragma unroll
    for (int k = 0; k < M / 2; ++k) {
      const N low = values[k], high = values[k + M / 2];
      sums[k] = (isUpper ? high : low) + ofOther(isUpper ? low : high, distance);
    }
    return sumsOfWarp<M / 2, distance / 2>(sums);
  }
}

/// Adds M values over the threads of a block, as often as it is called. Successive calls use two places of shared
/// memory in turns, so each has one barrier.
template <int M> struct BlockSums {
  int place = 0;

  /// Replaces the values of each thread by their sums. Every thread of the block must call it.
  KERF_DEVICE void add(std::array<N, M> &values) {
    KERF_SHARED N sums[2][M][32];
    constexpr int kThreadsOfValue = 32 / M;
    const int lane = int(threadInBlock()) % 32, warp = int(threadInBlock()) / 32, warps = int(threadsOfBlock()) / 32;
    N sum = sumsOfWarp<M>(values);
    if (warps > 1) {
      if (lane % kThreadsOfValue == 0)
        sums[place][lane / kThreadsOfValue][warp] = sum;
      __nvvm_bar_sync(0);
#pragma unroll
      for (int m = 0; m < M; ++m)
        values[m] = lane < warps ? sums[place][m][lane] : N(0);
      sum = sumsOfWarp<M>(values);
      place = 1 - place;
    }
#pragma unroll
    for (int m = 0; m < M; ++m)
      values[m] = ofThread(sum, m * kThreadsOfValue);
  }
};

} // namespace kerf::runtime::cuda
