// SPDX-License-Identifier: Apache-2.0
#include "Ring.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace kerf::standin::nccl {

namespace {
/// A 16-bit float with `Fraction` bits of fraction; its arithmetic is that of float, rounded to nearest even.
template <int Fraction> struct Narrow {
  uint16_t bits = 0;
  static constexpr int kExponentBits = 15 - Fraction, kBias = (1 << (kExponentBits - 1)) - 1;

  Narrow() = default;
  explicit Narrow(float value) {
    uint16_t sign = std::signbit(value) ? 0x8000 : 0, infinity = uint16_t(((1 << kExponentBits) - 1) << Fraction);
    double size = std::fabs(double(value));
    if (std::isnan(value) || std::isinf(value)) {
      bits = uint16_t(sign | infinity | (std::isnan(value) ? 1 << (Fraction - 1) : 0));
      return;
    }
    int exponent = size == 0 ? 1 - kBias : std::max(std::ilogb(size), 1 - kBias);
    auto units = uint32_t(std::nearbyint(std::ldexp(size, Fraction - exponent))); // of 2^(exponent - Fraction)
    uint32_t rounded = units + (uint32_t(exponent + kBias - 1) << Fraction);      // carries into the exponent
    bits = uint16_t(sign | (rounded >= infinity ? infinity : uint16_t(rounded)));
  }
  explicit operator float() const {
    int exponent = (bits >> Fraction) & ((1 << kExponentBits) - 1), fraction = bits & ((1 << Fraction) - 1);
    double size = exponent == (1 << kExponentBits) - 1 ? (fraction ? double(NAN) : double(INFINITY))
                                                       : std::ldexp(double(fraction + (exponent ? 1 << Fraction : 0)),
                                                                    std::max(exponent, 1) - kBias - Fraction);
    return float(bits & 0x8000 ? -size : size);
  }
};

template <typename T> T combined(T a, T b, int combine) {
  if constexpr (std::is_integral_v<T>) {
    using Wide = std::make_unsigned_t<T>; // so that sums wrap around
    return combine == 0                ? T(Wide(a) + Wide(b))
           : combine == 1              ? T(uint64_t(a) * uint64_t(b))
           : (combine == 2) == (a < b) ? b
                                       : a;
  } else if constexpr (std::is_floating_point_v<T>) {
    return combine == 0 ? a + b : combine == 1 ? a * b : combine == 2 ? std::fmax(a, b) : std::fmin(a, b);
  } else {
    return T(combined(float(a), float(b), combine));
  }
}

template <typename T>
void combineTyped(int first, const std::vector<const std::byte *> &inputs, std::byte *out, size_t count, int combine) {
  for (size_t i = 0; i < count; ++i) {
    T sum{}, next{};
    for (size_t r = 0; r < inputs.size(); ++r) {
      std::memcpy(&next, inputs[(size_t(first) + r) % inputs.size()] + i * sizeof(T), sizeof(T));
      sum = r == 0 ? next : combined(sum, next, combine);
    }
    std::memcpy(out + i * sizeof(T), &sum, sizeof(T));
  }
}
} // namespace

size_t bytesOf(int type) {
  constexpr size_t kBytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
  return type >= 0 && type < 10 ? kBytes[type] : 0;
}

void combineFrom(int first, const std::vector<const std::byte *> &inputs, std::byte *out, size_t count, int type,
                 int combine) {
  using Combine = void (*)(int, const std::vector<const std::byte *> &, std::byte *, size_t, int);
  constexpr Combine kCombine[] = {combineTyped<int8_t>,     combineTyped<uint8_t>, combineTyped<int32_t>,
                                  combineTyped<uint32_t>,   combineTyped<int64_t>, combineTyped<uint64_t>,
                                  combineTyped<Narrow<10>>, combineTyped<float>,   combineTyped<double>,
                                  combineTyped<Narrow<7>>};
  kCombine[type](first, inputs, out, count, combine);
}

} // namespace kerf::standin::nccl
