// SPDX-License-Identifier: Apache-2.0
// The elements of tensors: their types, and how operators read and write them.
#include "Tensors.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

int64_t aclTensor::elements() const { return kerf::standin::cann::product(sizes); }
bool aclTensor::isInjective() const {
  std::vector<std::pair<int64_t, int64_t>> dims; // stride and size
  for (size_t d = 0; d < sizes.size(); ++d)
    if (sizes[d] > 1)
      dims.emplace_back(strides[d], sizes[d]);
  std::sort(dims.begin(), dims.end());
  int64_t reach = 0; // of the dimensions with smaller strides
  for (const auto &[stride, size] : dims) {
    if (stride <= reach)
      return false;
    reach += (size - 1) * stride;
  }
  return true;
}

namespace kerf::standin::cann {

namespace {
float floatFromHalf(uint16_t bits) {
  const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  double value = exponent == 0    ? std::ldexp(mantissa, -24)
                 : exponent == 31 ? (mantissa ? NAN : INFINITY)
                                  : std::ldexp(1024 + mantissa, exponent - 25);
  return float(bits >> 15 ? -value : value);
}
uint16_t halfFromDouble(double value) {
  const auto sign = uint16_t(std::signbit(value) ? 0x8000 : 0);
  if (std::isnan(value))
    return sign | 0x7e00;
  double magnitude = std::fabs(value);
  if (magnitude == 0)
    return sign;
  if (magnitude >= 65520)
    return sign | 0x7c00;
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  const int unit = std::max(exponent - 11, -24); // of the last bit
  const auto whole = uint32_t(std::nearbyint(std::ldexp(magnitude, -unit)));
  if (unit == -24)
    return uint16_t(sign | whole);
  return uint16_t(sign | ((uint32_t(unit + 24) << 10) + whole));
}
float floatFromBrain(uint16_t bits) {
  uint32_t wide = uint32_t(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}
uint16_t brainFromFloat(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  if (std::isnan(value))
    return uint16_t(bits >> 16 | 64);
  return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

struct Half {
  uint16_t bits;
};
struct Brain {
  uint16_t bits;
};
struct Flag {
  uint8_t byte;
};
double toDouble(Half x) { return floatFromHalf(x.bits); }
double toDouble(Brain x) { return floatFromBrain(x.bits); }
double toDouble(Flag x) { return x.byte; }
template <typename T> double toDouble(T x) { return double(x); }
template <typename T> T fromDouble(double x) {
  if constexpr (std::is_same_v<T, Half>)
    return {halfFromDouble(x)};
  else if constexpr (std::is_same_v<T, Brain>)
    return {brainFromFloat(float(x))};
  else if constexpr (std::is_same_v<T, Flag>)
    return {uint8_t(x != 0)};
  else if constexpr (std::is_integral_v<T>)
    return std::isnan(x)           ? T(0)
           : std::fabs(x) < 9.2e18 ? T(int64_t(x))
           : x < 0                 ? std::numeric_limits<T>::lowest()
                                   : std::numeric_limits<T>::max();
  else
    return T(x);
}

template <typename F> void withType(int type, F f) {
  switch (type) {
  case F32:
    return f(float());
  case F16:
    return f(Half());
  case BF16:
    return f(Brain());
  case F64:
    return f(double());
  case I64:
    return f(int64_t());
  case I32:
    return f(int32_t());
  case I16:
    return f(int16_t());
  case I8:
    return f(int8_t());
  case U8:
    return f(uint8_t());
  default:
    return f(Flag());
  }
}

/// Returns the strides of a tensor that is repeated to `sizes`.
Sizes repeatedStrides(const aclTensor &tensor, const Sizes &sizes) {
  Sizes strides(sizes.size(), 0);
  const size_t added = sizes.size() - tensor.sizes.size();
  for (size_t d = 0; d < tensor.sizes.size(); ++d)
    strides[d + added] = tensor.sizes[d] == 1 ? 0 : tensor.strides[d];
  return strides;
}

/// Calls row(place, first, stride, count) for each run of elements along the last dimension.
template <typename F> void eachRow(const Sizes &sizes, const Sizes &strides, F row) {
  const int64_t count = sizes.empty() ? 1 : sizes.back(), stride = sizes.empty() ? 0 : strides.back();
  const int64_t rows = count == 0 ? 0 : product(sizes) / count;
  Sizes index(sizes.size(), 0);
  int64_t first = 0;
  for (int64_t r = 0; r < rows; ++r) {
    row(r * count, first, stride, count);
    for (size_t d = sizes.size(); d-- > 1;) {
      first += strides[d - 1];
      if (++index[d - 1] < sizes[d - 1])
        break;
      first -= strides[d - 1] * sizes[d - 1];
      index[d - 1] = 0;
    }
  }
}
} // namespace

size_t bytesOf(int type) {
  switch (type) {
  case F64:
  case I64:
    return 8;
  case F32:
  case I32:
    return 4;
  case F16:
  case BF16:
  case I16:
    return 2;
  case I8:
  case U8:
  case Bool:
    return 1;
  default:
    return 0;
  }
}

int64_t product(const Sizes &sizes, size_t begin, size_t end) {
  int64_t all = 1;
  for (size_t d = begin; d < std::min(end, sizes.size()); ++d)
    all *= sizes[d];
  return all;
}

std::vector<double> load(const aclTensor &tensor, const Sizes &sizes) {
  std::vector<double> values(static_cast<size_t>(product(sizes)));
  withType(tensor.type, [&](auto zero) {
    using T = decltype(zero);
    const auto *data = reinterpret_cast<const T *>(tensor.data);
    eachRow(sizes, repeatedStrides(tensor, sizes), [&](int64_t place, int64_t first, int64_t stride, int64_t count) {
      for (int64_t i = 0; i < count; ++i)
        values[size_t(place + i)] = toDouble(data[first + i * stride]);
    });
  });
  return values;
}

void store(const aclTensor &tensor, const std::vector<double> &values) {
  withType(tensor.type, [&](auto zero) {
    using T = decltype(zero);
    auto *data = reinterpret_cast<T *>(tensor.data);
    eachRow(tensor.sizes, tensor.strides, [&](int64_t place, int64_t first, int64_t stride, int64_t count) {
      for (int64_t i = 0; i < count; ++i)
        data[first + i * stride] = fromDouble<T>(values[size_t(place + i)]);
    });
  });
}

void copyBits(const aclTensor &from, const aclTensor &to) {
  const size_t bytes = bytesOf(from.type);
  std::vector<std::byte> dense(size_t(to.elements()) * bytes); // the two may overlap
  eachRow(to.sizes, repeatedStrides(from, to.sizes), [&](int64_t place, int64_t first, int64_t stride, int64_t count) {
    for (int64_t i = 0; i < count; ++i)
      std::memcpy(dense.data() + size_t(place + i) * bytes, from.data + (first + i * stride) * int64_t(bytes), bytes);
  });
  eachRow(to.sizes, to.strides, [&](int64_t place, int64_t first, int64_t stride, int64_t count) {
    for (int64_t i = 0; i < count; ++i)
      std::memcpy(to.data + (first + i * stride) * int64_t(bytes), dense.data() + size_t(place + i) * bytes, bytes);
  });
}

} // namespace kerf::standin::cann
