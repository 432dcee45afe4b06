// SPDX-License-Identifier: Apache-2.0
// Calls of dropout. CANN's own random numbers depend on how the tensor is split, so the host draws which elements are
// dropped from Kerf's counters (docs/operators.md) while the stream waits, and the device gets one byte for each.
#include "../Philox.h"
#include "Calls.h"

#include <cmath>
#include <cstring>

namespace kerf::runtime::ascend {

namespace {
/// The bytes that the host reads and writes for a dropout.
struct Exchange {
  const int64_t *seed, *step, *stream, *offset; // offset: null on whole tensors
  uint8_t *isDropped;                           // one byte for each element
  double *scale;                                // the factor of all elements
};

/// Draws the elements of a shard of the shape `part` of the tensor `whole`.
void draw(const Exchange &e, const Shape &part, const Shape &whole, double rate) {
  const int64_t n = elementsOf(part);
  if (*e.step < 0) { // a negative step number marks an evaluation, in which nothing is dropped
    std::memset(e.isDropped, 0, size_t(n));
    *e.scale = 1;
    return;
  }
  *e.scale = 1 / (1 - rate);
  const auto dropsBelow = uint32_t(std::min(std::ceil(std::ldexp(rate, 32)), double(UINT32_MAX)));
  const uint64_t high = uint64_t(uint32_t(*e.step)) | uint64_t(*e.stream) << 32, key = ~uint64_t(*e.seed);
  const uint64_t origin = e.offset ? uint64_t(*e.offset) : 0;
  std::vector<int64_t> strides = rowMajorStrides(whole), index(part.size(), 0);
  const int64_t run = part.empty() ? 1 : part.back();
  uint64_t counter = ~uint64_t(0);
  std::array<uint32_t, 4> words = {};
  for (int64_t begin = 0; begin < n; begin += run) {
    uint64_t first = origin;
    for (size_t d = 0; d + 1 < part.size(); ++d)
      first += uint64_t(index[d] * strides[d]);
    for (int64_t i = 0; i < run; ++i) {
      uint64_t element = first + uint64_t(i);
      if (element / 4 != counter) {
        counter = element / 4;
        words = philox(counter, high, key);
      }
      e.isDropped[begin + i] = words[element % 4] < dropsBelow;
    }
    for (size_t d = part.size(); d-- > 1;) {
      if (++index[d - 1] < part[d - 1])
        break;
      index[d - 1] = 0;
    }
  }
}
} // namespace

void callDropout(Builder &b) {
  constexpr size_t kOfShard = 5; // operands x, seed, step, stream, and offset for a shard
  View x = b.operand(0), y = b.result();
  const int64_t n = x.elements();
  if (n == 0)
    return;
  constexpr int64_t kNumbers = 4 * int64_t(sizeof(int64_t));
  auto *numbers = static_cast<int64_t *>(b.pinned(kNumbers));
  auto *scale = static_cast<double *>(b.pinned(sizeof(double)));
  auto *isDropped = static_cast<uint8_t *>(b.pinned(n));
  const size_t scalars = b.operands() - 1;
  for (size_t i = 0; i < scalars; ++i)
    b.add(CopyCall{numbers + i, b.request.operands[1 + i].data, int64_t(sizeof(int64_t)), CopyKind::ToHost});
  Exchange exchange{numbers,   numbers + 1, numbers + 2, b.operands() == kOfShard ? numbers + 3 : nullptr,
                    isDropped, scale};
  Shape whole = b.operands() == kOfShard ? b.integers("sizes") : x.sizes;
  b.add(HostCall([exchange, part = x.sizes, whole, rate = b.number("rate")] { draw(exchange, part, whole, rate); }));
  View mask = b.temporary(DType::Bool, x.sizes), factor = b.temporary(DType::F64, {});
  b.add(CopyCall{mask.data, isDropped, n, CopyKind::ToDevice});
  b.add(CopyCall{factor.data, scale, int64_t(sizeof(double)), CopyKind::ToDevice});
  b.call(op::Mul, x, broadcast(b.as(x.dtype, factor), x.sizes, {}), y);
  b.call(op::InplaceMaskedFillScalar, y, mask, Builder::scalar(y.dtype, 0));
}

} // namespace kerf::runtime::ascend
