// SPDX-License-Identifier: Apache-2.0
#include "Box.h"

#include <algorithm>
#include <cstring>

namespace kerf::runtime {

BoxCopy::BoxCopy(const Shape &fromShape, const Shape &from, const Shape &toShape, const Shape &to, const Shape &counts,
                 int64_t elementBytes)
    : runBytes(elementBytes) {
  if (elementsOf(counts) == 0) {
    runBytes = 0;
    return;
  }
  int64_t fromStride = elementBytes, toStride = elementBytes;
  for (size_t d = counts.size(); d-- > 0;) {
    fromBytes += from[d] * fromStride;
    toBytes += to[d] * toStride;
    if (counts[d] > 1) {
      bool extends = loops.empty() && fromStride == runBytes && toStride == runBytes;
      if (extends)
        runBytes *= counts[d];
      else
        loops.push_back({counts[d], fromStride, toStride});
    }
    fromStride *= fromShape[d];
    toStride *= toShape[d];
  }
  std::reverse(loops.begin(), loops.end());
}

int64_t BoxCopy::bytes() const {
  int64_t bytes = runBytes;
  for (const Loop &loop : loops)
    bytes *= loop.count;
  return bytes;
}

void BoxCopy::runLoop(size_t index, const std::byte *from, std::byte *to) const {
  if (index == loops.size()) {
    std::memcpy(to, from, size_t(runBytes));
    return;
  }
  const Loop &loop = loops[index];
  for (int64_t i = 0; i < loop.count; ++i)
    runLoop(index + 1, from + i * loop.fromStride, to + i * loop.toStride);
}

void BoxCopy::run(const std::byte *from, std::byte *to) const {
  if (runBytes > 0)
    runLoop(0, from + fromBytes, to + toBytes);
}

BoxCopy packBox(const Shape &shape, const Shape &begin, const Shape &counts, int64_t elementBytes) {
  return BoxCopy(shape, begin, counts, Shape(counts.size(), 0), counts, elementBytes);
}

BoxCopy unpackBox(const Shape &shape, const Shape &begin, const Shape &counts, int64_t elementBytes) {
  return BoxCopy(counts, Shape(counts.size(), 0), shape, begin, counts, elementBytes);
}

} // namespace kerf::runtime
