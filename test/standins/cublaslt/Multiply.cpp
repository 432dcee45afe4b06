// SPDX-License-Identifier: Apache-2.0
#include "Multiply.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

namespace kerf::standin::cublaslt {

size_t bytesOf(int type) {
  switch (type) {
  case kF64:
    return 8;
  case kF32:
    return 4;
  case kF16:
  case kBF16:
    return 2;
  case kE4M3:
  case kE5M2:
    return 1;
  default:
    return 0;
  }
}

namespace {
template <typename T> T read(const std::byte *at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

/// Returns the value of an 8-bit number by the formulas of OCP's specification of the formats.
double valueOfFloat8(int type, uint8_t code) {
  const int mantissaBits = type == kE4M3 ? 3 : 2, bias = type == kE4M3 ? 7 : 15;
  const int exponent = (code & 0x7f) >> mantissaBits, mantissa = code & ((1 << mantissaBits) - 1);
  const double sign = code & 0x80 ? -1 : 1;
  if (type == kE4M3 ? (code & 0x7f) == 0x7f : exponent == 31 && mantissa != 0)
    return NAN;
  if (type == kE5M2 && exponent == 31)
    return sign * INFINITY;
  return sign * (exponent == 0 ? std::ldexp(mantissa, 1 - bias - mantissaBits)
                               : std::ldexp(mantissa + (1 << mantissaBits), exponent - bias - mantissaBits));
}

double load(int type, const std::byte *at) {
  switch (type) {
  case kE4M3:
  case kE5M2:
    return valueOfFloat8(type, read<uint8_t>(at));
  case kF64:
    return read<double>(at);
  case kF32:
    return read<float>(at);
  case kF16:
    return double(read<_Float16>(at));
  default:
    return std::bit_cast<float>(uint32_t(read<uint16_t>(at)) << 16);
  }
}

/// Rounds to the nearest number whose mantissa lacks the last `bits` bits of float32, ties to even.
float rounded(float value, int bits) {
  if (value != value)
    return value;
  auto word = std::bit_cast<uint32_t>(value);
  uint32_t unit = uint32_t(1) << bits;
  return std::bit_cast<float>((word + unit / 2 - 1 + (word >> bits & 1)) & ~(unit - 1));
}

void store(int type, double value, std::byte *at) {
  auto put = [&](auto stored) { std::memcpy(at, &stored, sizeof stored); };
  switch (type) {
  case kF64:
    return put(value);
  case kF32:
    return put(float(value));
  case kF16:
    return put(_Float16(float(value)));
  default:
    return put(uint16_t(std::bit_cast<uint32_t>(rounded(float(value), 16)) >> 16));
  }
}

/// Returns the matrix number `batch` as dense columns of numbers of type T, transposed if asked for.
template <typename T>
std::vector<T> numbersOf(const Matrix &matrix, const std::byte *address, int32_t batch, bool transposed, bool tf32) {
  size_t rows = matrix.rows, columns = matrix.columns, width = bytesOf(matrix.type);
  std::vector<T> numbers(rows * columns);
  const std::byte *first = address + batch * matrix.batchStride * int64_t(width);
  for (size_t column = 0; column < columns; ++column)
    for (size_t row = 0; row < rows; ++row) {
      auto value = T(load(matrix.type, first + (column * size_t(matrix.leading) + row) * width));
      if (tf32)
        value = T(rounded(float(value), 13));
      numbers[transposed ? row * columns + column : column * rows + row] = value;
    }
  return numbers;
}

/// Stores the sums of the rows, or of the columns, of a dense matrix in the product's bias.
template <typename T>
void storeSums(const Product &p, const std::vector<T> &numbers, size_t rows, size_t columns, bool ofRows) {
  std::vector<double> sums(ofRows ? rows : columns, 0);
  for (size_t column = 0; column < columns; ++column)
    for (size_t row = 0; row < rows; ++row)
      sums[ofRows ? row : column] += double(numbers[column * rows + row]);
  for (size_t i = 0; i < sums.size(); ++i)
    store(p.d.type, sums[i], p.bias + i * bytesOf(p.d.type));
}

double gelu(double x) { return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }
double geluSlope(double x) {
  double slope = std::sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
  double t = std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x));
  return (1 + t) / 2 + x / 2 * (1 - t * t) * slope;
}

/// Returns element (i, j) of D from that of the product, and keeps what the epilogue keeps.
double finished(const Product &p, double value, size_t i, size_t j) {
  size_t width = bytesOf(p.d.type);
  if (p.epilogue == 4 || p.epilogue == 36 || p.epilogue == 164)
    value += load(p.d.type, p.bias + i * width);
  if (p.epilogue == 36)
    return gelu(value);
  if (!needsAux(p.epilogue))
    return value;
  std::byte *aux = p.aux + (j * size_t(p.auxLeading) + i) * width;
  if (p.epilogue == 192 || p.epilogue == 208)
    return value * geluSlope(load(p.d.type, aux));
  store(p.d.type, value, aux);
  return gelu(value);
}

template <typename T> void multiplyBatch(const Product &p, int32_t batch, std::mt19937 &random) {
  std::vector<T> a = numbersOf<T>(p.a, p.addressA, batch, p.transposedA, p.tf32),
                 b = numbersOf<T>(p.b, p.addressB, batch, p.transposedB, p.tf32);
  size_t m = p.d.rows, n = p.d.columns, k = p.transposedA ? p.a.rows : p.a.columns;
  std::vector<std::vector<T>> sums(p.parts, std::vector<T>(m * n, T(0)));
  for (size_t part = 0; part < p.parts; ++part)
    for (size_t j = 0; j < n; ++j)
      for (size_t c = k * part / p.parts; c < k * (part + 1) / p.parts; ++c) {
        const T *column = a.data() + c * m;
        T factor = b[j * k + c], *sum = sums[part].data() + j * m;
        for (size_t i = 0; i < m; ++i)
          sum[i] += column[i] * factor;
      }
  if (p.randomOrder)
    std::shuffle(sums.begin(), sums.end(), random);
  for (size_t part = 1; part < p.parts; ++part)
    for (size_t e = 0; e < m * n; ++e)
      sums[0][e] += sums[part][e];
  if (p.epilogue == 256)
    storeSums(p, a, m, k, true);
  if (p.epilogue == 512)
    storeSums(p, b, k, n, false);
  size_t width = bytesOf(p.d.type);
  auto placeIn = [&](const Matrix &matrix, size_t i, size_t j) {
    return (batch * matrix.batchStride + int64_t(j) * matrix.leading + int64_t(i)) * int64_t(width);
  };
  std::vector<T> &results = sums[0];
  for (size_t j = 0; j < n; ++j)
    for (size_t i = 0; i < m; ++i) {
      T value = T(p.alpha) * results[j * m + i] * T(p.scaleB ? *p.scaleB : 1) * T(p.scaleA ? *p.scaleA : 1);
      if (p.beta != 0)
        value += T(p.beta) * T(load(p.c.type, p.addressC + placeIn(p.c, i, j)));
      results[j * m + i] = T(finished(p, double(value), i, j));
      store(p.d.type, double(results[j * m + i]), p.addressD + placeIn(p.d, i, j));
    }
  if (p.epilogue == 208)
    storeSums(p, results, m, n, true);
}
} // namespace

void multiply(const Product &product) {
  thread_local std::mt19937 random{std::random_device{}()};
  for (int32_t batch = 0; batch < product.d.batches; ++batch)
    product.d.type == kF64 ? multiplyBatch<double>(product, batch, random)
                           : multiplyBatch<float>(product, batch, random);
}

} // namespace kerf::standin::cublaslt
