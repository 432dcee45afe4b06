// SPDX-License-Identifier: Apache-2.0
#include "Reduce.h"
#include "kerf/Package/Half.h"

#include <cstring>
#include <type_traits>

namespace kerf::runtime {

namespace {
/// An element type that is accumulated in its own type. Bf16 and F16 below are accumulated in float.
template <typename Stored> struct Plain {
  using Wide = Stored;
  static Wide widen(Stored value) { return value; }
};
struct Bf16 {
  using Wide = float;
  static float widen(uint16_t bits) { return floatFromBf16(bits); }
};
struct F16 {
  using Wide = float;
  static float widen(uint16_t bits) { return floatFromF16(bits); }
};

template <typename T> T sum(T a, T b) {
  if constexpr (std::is_same_v<T, bool>)
    return a || b;
  else if constexpr (std::is_integral_v<T>)
    return T(std::make_unsigned_t<T>(a) + std::make_unsigned_t<T>(b)); // wraps, as the dialect's add does
  else
    return a + b;
}
template <typename T> T larger(T a, T b) { return a > b || a != a ? a : b; }
template <typename T> T smaller(T a, T b) { return a < b || a != a ? a : b; }

template <typename Type, typename Stored>
void addAs(ReduceKind kind, std::byte *accumulator, const std::byte *next, int64_t elements) {
  using Wide = typename Type::Wide;
  Wide *into = reinterpret_cast<Wide *>(accumulator);
  const Stored *from = reinterpret_cast<const Stored *>(next);
  switch (kind) {
  case ReduceKind::Sum:
    for (int64_t i = 0; i < elements; ++i)
      into[i] = sum<Wide>(into[i], Type::widen(from[i]));
    break;
  case ReduceKind::Max:
    for (int64_t i = 0; i < elements; ++i)
      into[i] = larger<Wide>(into[i], Type::widen(from[i]));
    break;
  case ReduceKind::Min:
    for (int64_t i = 0; i < elements; ++i)
      into[i] = smaller<Wide>(into[i], Type::widen(from[i]));
    break;
  }
}
} // namespace

void Reducer::start(std::byte *accumulator, const std::byte *next, int64_t elements) const {
  if (!wideBytes()) {
    std::memcpy(accumulator, next, size_t(elements * bytesOf(dtype)));
    return;
  }
  float *into = reinterpret_cast<float *>(accumulator);
  const uint16_t *from = reinterpret_cast<const uint16_t *>(next);
  for (int64_t i = 0; i < elements; ++i)
    into[i] = dtype == DType::BF16 ? floatFromBf16(from[i]) : floatFromF16(from[i]);
}

void Reducer::add(std::byte *accumulator, const std::byte *next, int64_t elements) const {
  switch (dtype) {
  case DType::F64:
    return addAs<Plain<double>, double>(combines, accumulator, next, elements);
  case DType::F32:
    return addAs<Plain<float>, float>(combines, accumulator, next, elements);
  case DType::BF16:
    return addAs<Bf16, uint16_t>(combines, accumulator, next, elements);
  case DType::F16:
    return addAs<F16, uint16_t>(combines, accumulator, next, elements);
  case DType::I64:
    return addAs<Plain<int64_t>, int64_t>(combines, accumulator, next, elements);
  case DType::I32:
    return addAs<Plain<int32_t>, int32_t>(combines, accumulator, next, elements);
  case DType::I16:
    return addAs<Plain<int16_t>, int16_t>(combines, accumulator, next, elements);
  case DType::U64:
    return addAs<Plain<uint64_t>, uint64_t>(combines, accumulator, next, elements);
  case DType::U32:
    return addAs<Plain<uint32_t>, uint32_t>(combines, accumulator, next, elements);
  case DType::U16:
    return addAs<Plain<uint16_t>, uint16_t>(combines, accumulator, next, elements);
  case DType::I8:
    return addAs<Plain<int8_t>, int8_t>(combines, accumulator, next, elements);
  case DType::U8:
    return addAs<Plain<uint8_t>, uint8_t>(combines, accumulator, next, elements);
  case DType::Bool:
    return addAs<Plain<bool>, bool>(combines, accumulator, next, elements);
  case DType::F8E4M3FN:
  case DType::F8E5M2:
    return; // buildCollective refuses to combine them
  }
}

void Reducer::narrow(std::byte *out, const std::byte *accumulator, int64_t elements) const {
  uint16_t *into = reinterpret_cast<uint16_t *>(out);
  const float *from = reinterpret_cast<const float *>(accumulator);
  for (int64_t i = 0; i < elements; ++i)
    into[i] = dtype == DType::BF16 ? bf16FromFloat(from[i]) : f16FromFloat(from[i]);
}

} // namespace kerf::runtime
