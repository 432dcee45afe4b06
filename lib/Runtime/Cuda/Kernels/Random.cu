// SPDX-License-Identifier: Apache-2.0
// Dropout, and the ops that take a rank's piece of a tensor. Consecutive elements of the global tensor use the random
// words of consecutive counters, four each.
#include "PackCode.h"
#pragma clang force_cuda_host_device begin
#include "ParametersLookup.h"
#pragma clang force_cuda_host_device end

namespace kerf::runtime::cuda {

constexpr int kWords = 4; // random words of a counter

/// Drops and scales elements that need not begin with the first word of a counter.
KERF_DEVICE void dropSingly(const DropoutParameters &p, uint64_t origin, uint64_t high, uint64_t key) {
  int64_t run = p.global.rank > 0 ? p.global.sizes[p.global.rank - 1] : 1; // elements that are consecutive globally
  N scale = N(p.scale);
  for (int64_t begin = firstElement() * kWords; begin < p.n; begin += elementStep() * kWords) {
    int64_t left = run - begin % run; // elements until the end of the run
    uint64_t number = origin + uint64_t(placeOf(p.global, begin)), counter = number / kWords;
    std::array<uint32_t, kWords> words = philox(counter, high, key);
    for (int64_t i = begin; i < begin + kWords && i < p.n; ++i, ++number, --left) {
      if (left == 0) {
        number = origin + uint64_t(placeOf(p.global, i));
        left = run;
      }
      if (number / kWords != counter) {
        counter = number / kWords;
        words = philox(counter, high, key);
      }
      uint32_t low = number & 1 ? words[1] : words[0], upper = number & 1 ? words[3] : words[2];
      put(p.y, i, (number & 2 ? upper : low) < p.dropsBelow ? N(0) : at(p.x, i) * scale);
    }
  }
}

/// Drops and scales packs of elements that use all words of one counter or several.
KERF_DEVICE void dropPacks(const DropoutParameters &p, uint64_t origin, uint64_t high, uint64_t key) {
  constexpr int W = packOfDropout(sizeof(T));
  N scale = N(p.scale);
  for (int64_t i = firstElement() * W; i < p.n; i += elementStep() * W) {
    uint64_t counter = (origin + uint64_t(placeOf(p.global, i))) / kWords;
    Pack<W> x = loadPack<W, T, Access::Whole>(p.x, i);
#pragma unroll
    for (int first = 0; first < W; first += kWords) {
      std::array<uint32_t, kWords> words = philox(counter + first / kWords, high, key);
#pragma unroll
      for (int k = 0; k < kWords; ++k)
        x[first + k] = words[k] < p.dropsBelow ? N(0) : x[first + k] * scale;
    }
    storePack<W>(p.y, i, x);
  }
}

KERF_KERNEL void dropout(DropoutParameters p) {
  if (*p.step < 0) // an evaluation, in which nothing is dropped
    return eachOfGrid<kWidth>(p.n, areAligned(p.x, p.y), [&](auto width, int64_t i) {
      storeElements<width>(p.y, i, loadElements<width, T, Access::Whole>(p.x, i));
    });
  uint64_t high = uint64_t(uint32_t(*p.step)) | uint64_t(*p.stream) << 32, key = ~uint64_t(*p.seed);
  uint64_t origin = p.offset ? uint64_t(*p.offset) : 0;
  if (p.isPacked && origin % kWords == 0)
    dropPacks(p, origin, high, key);
  else
    dropSingly(p, origin, high, key);
}

template <typename E> KERF_DEVICE void takePiece(const PieceParameters &p) {
  for (int64_t i = firstElement(); i < p.n; i += elementStep()) {
    int64_t row = i / p.inner, outer = row / p.chunk, j = row - outer * p.chunk;
    const E *x = static_cast<const E *>(p.x);
    static_cast<E *>(p.y)[i] =
        j < p.valid ? x[(outer * p.size + p.begin + j) * p.inner + (i - row * p.inner)] : E(p.fill);
  }
}

KERF_KERNEL void piece(PieceParameters p) {
  switch (p.bytes) {
  case 1:
    return takePiece<uint8_t>(p);
  case 2:
    return takePiece<uint16_t>(p);
  case 4:
    return takePiece<uint32_t>(p);
  default:
    return takePiece<uint64_t>(p);
  }
}

} // namespace kerf::runtime::cuda
