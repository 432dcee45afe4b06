// SPDX-License-Identifier: Apache-2.0
// Matrix products of any layout and type, in tiles of 16 x 16: what the GPU runs where no library has the product. The
// sum of an element is added in the order of the contracted index, and then to the element of `sum` if there is one.
#include "DeviceCode.h"

namespace kerf::runtime::cuda {

constexpr int64_t kTile = 16;

KERF_KERNEL void multiply(ProductParameters p) {
  KERF_SHARED N left[kTile][kTile + 1], right[kTile][kTile + 1]; // one more column, against conflicts of memory banks
  int64_t row = threadInBlock() / kTile, column = threadInBlock() % kTile;
  int64_t tilesDown = (p.m + kTile - 1) / kTile, tilesAcross = (p.n + kTile - 1) / kTile;
  for (int64_t tile = block(); tile < p.batches * tilesDown * tilesAcross; tile += blocks()) {
    int64_t batch = tile / (tilesDown * tilesAcross), rest = tile % (tilesDown * tilesAcross);
    int64_t i = rest / tilesAcross * kTile + row, j = rest % tilesAcross * kTile + column;
    int64_t leftStart = placeOf(p.leftBatch, batch) + (i < p.m ? placeOf(p.leftFree, i) : 0);
    // Threads load the right tile with their row as the contracted index.
    int64_t rightStart = placeOf(p.rightBatch, batch) + (j < p.n ? placeOf(p.rightFree, j) : 0);
    N sum = 0;
    for (int64_t k = 0; k < p.k; k += kTile) {
      left[row][column] =
          i < p.m && k + column < p.k ? at(p.left, leftStart + placeOf(p.leftContracted, k + column)) : N(0);
      right[row][column] =
          j < p.n && k + row < p.k ? at(p.right, rightStart + placeOf(p.rightContracted, k + row)) : N(0);
      __nvvm_bar_sync(0);
      for (int64_t c = 0; c < kTile; ++c)
        sum += left[row][c] * right[c][column];
      __nvvm_bar_sync(0);
    }
    if (i < p.m && j < p.n) {
      int64_t place = (batch * p.m + i) * p.n + j;
      put(p.result, place, p.sum ? at(p.sum, place) + sum : sum);
    }
  }
}

} // namespace kerf::runtime::cuda
