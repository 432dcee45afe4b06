// SPDX-License-Identifier: Apache-2.0
// Calls of the ops of codecs of compressed gradients. Random numbers are hashes of counters, whose products of 32-bit
// integers wrap around; CANN's pages do not say what its products do there, so the host draws them while the stream
// waits, as it does for dropout (CallsRandom.cpp).
#include "Calls.h"

#include "kerf/Support/HashRandom.h"

namespace kerf::runtime::ascend {

void callRandomKey(Builder &b) {
  constexpr auto kBytes = int64_t(sizeof(int64_t));
  auto *seed = static_cast<int64_t *>(b.pinned(kBytes)), *step = static_cast<int64_t *>(b.pinned(kBytes));
  auto *key = static_cast<uint32_t *>(b.pinned(sizeof(uint32_t)));
  b.add(CopyCall{seed, b.request.operands[0].data, kBytes, CopyKind::ToHost});
  b.add(CopyCall{step, b.request.operands[1].data, kBytes, CopyKind::ToHost});
  b.add(HostCall([=, stream = uint64_t(b.integer("stream")), place = uint64_t(b.position("axes"))] {
    *key = hashKey(uint64_t(*seed), uint64_t(*step), stream, place);
  }));
  b.add(CopyCall{b.request.results[0].data, key, sizeof(uint32_t), CopyKind::ToDevice});
}

void callRandom(Builder &b) {
  const TensorView &keys = b.request.operands[0], &y = b.request.results[0];
  const int64_t n = y.elements();
  if (n == 0)
    return;
  auto *key = static_cast<uint32_t *>(b.pinned(keys.bytes()));
  auto *drawn = static_cast<float *>(b.pinned(y.bytes()));
  b.add(CopyCall{key, keys.data, keys.bytes(), CopyKind::ToHost});
  b.add(HostCall([=] {
    for (int64_t i = 0; i < n; ++i)
      drawn[i] = hashUniform(key[i], uint32_t(i));
  }));
  b.add(CopyCall{y.data, drawn, y.bytes(), CopyKind::ToDevice});
}

namespace {
/// The parts of a row of codes that share the bytes of a row: part k is in bits [k * bits, (k + 1) * bits).
struct Packing {
  View codes, bytes; // as unsigned bytes
  int64_t bits, parts;
  Packing(Builder &b, const View &codes, const View &bytes)
      : codes(asType(codes, DType::U8)), bytes(asType(bytes, DType::U8)), bits(b.integer("bits")), parts(8 / bits) {}
  View part(int64_t k) const {
    const int64_t width = bytes.sizes.back();
    return sliced(codes, codes.sizes.size() - 1, k * width, width);
  }
};

/// Returns a number as a tensor of the given sizes.
View filled(Builder &b, int64_t value, const Shape &sizes) {
  View one = b.temporary(DType::I32, {});
  b.fill(one, double(value));
  return broadcast(one, sizes, {});
}
} // namespace

void callPack(Builder &b) {
  const Packing p(b, b.operand(0), b.result());
  View sum = b.temporary(DType::I32, p.bytes.sizes), next = b.temporary(DType::I32, p.bytes.sizes),
       mask = filled(b, (1 << p.bits) - 1, p.bytes.sizes);
  for (int64_t k = 0; k < p.parts; ++k) {
    View code = k == 0 ? sum : next;
    b.cast(p.part(k), code);
    b.call(op::BitwiseAndTensor, code, mask, code);
    if (k > 0) {
      b.call(op::Muls, next, Builder::scalar(DType::I32, double(1 << (k * p.bits))), next);
      b.add(sum, next, sum);
    }
  }
  b.cast(sum, p.bytes);
}

void callUnpack(Builder &b) {
  const Packing p(b, b.result(), b.operand(0));
  View left = b.temporary(DType::I32, p.bytes.sizes), code = b.temporary(DType::I32, p.bytes.sizes),
       mask = filled(b, (1 << p.bits) - 1, p.bytes.sizes), divisor = filled(b, 1 << p.bits, p.bytes.sizes);
  constexpr int kDown = 2; // rounding of the quotient
  b.cast(p.bytes, left);
  for (int64_t k = 0; k < p.parts; ++k) {
    b.call(op::BitwiseAndTensor, left, mask, code);
    b.cast(code, p.part(k));
    if (k + 1 < p.parts)
      b.call(op::DivMod, left, divisor, kDown, left);
  }
}

} // namespace kerf::runtime::ascend
