// SPDX-License-Identifier: Apache-2.0
// The operations of a graph, computed one after the other with the numbers of their tensors' types.
#include "CudnnState.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

namespace kerf::standin::cudnn {

namespace {
constexpr int kFloat = 0, kHalf = 2, kInt32 = 4, kBfloat16 = 9, kTruth = 11;

double fromBits16(uint16_t bits, int type) {
  if (type == kBfloat16)
    return std::bit_cast<float>(uint32_t(bits) << 16);
  int exponent = bits >> 10 & 31, fraction = bits & 1023;
  double value = exponent == 31
                     ? (fraction ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity())
                 : exponent == 0 ? std::ldexp(fraction, -24)
                                 : std::ldexp(1024 + fraction, exponent - 25);
  return bits & 0x8000 ? -value : value;
}

uint16_t toBits16(double value, int type) {
  uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  double size = std::fabs(value);
  if (std::isnan(size))
    return type == kBfloat16 ? 0x7FC0 : 0x7E00;
  // Digits after the point of the significand, and the exponents of the smallest normal and the largest number.
  int digits = type == kBfloat16 ? 7 : 10, lowest = type == kBfloat16 ? -126 : -14,
      highest = type == kBfloat16 ? 127 : 15;
  if (size == 0)
    return sign;
  int exponent = std::isinf(size) ? highest + 1 : std::max(std::ilogb(size), lowest);
  double units = std::isinf(size) ? 0 : std::nearbyint(std::ldexp(size, digits - exponent)); // to even
  if (units == std::ldexp(1.0, digits + 1))
    units /= 2, ++exponent;
  if (exponent > highest)
    return uint16_t(sign | (type == kBfloat16 ? 0x7F80 : 0x7C00));
  int implied = 1 << digits;
  int all = int(units) < implied ? int(units) : (exponent - lowest + 1) * implied + (int(units) - implied);
  return uint16_t(sign | all);
}

double rounded(double value, int type) {
  if (type == kHalf || type == kBfloat16)
    return fromBits16(toBits16(value, type), type);
  return type == kFloat ? double(float(value)) : value;
}

double load(const std::byte *at, int type) {
  if (type == kHalf || type == kBfloat16) {
    uint16_t bits = 0;
    std::memcpy(&bits, at, sizeof bits);
    return fromBits16(bits, type);
  }
  float value = 0;
  std::memcpy(&value, at, sizeof value);
  return value;
}

void store(std::byte *at, int type, double value) {
  if (type == kHalf || type == kBfloat16) {
    uint16_t bits = toBits16(value, type);
    std::memcpy(at, &bits, sizeof bits);
    return;
  }
  float number = float(value);
  std::memcpy(at, &number, sizeof number);
}

/// Calls f(index, number) for every index of a shape in row-major order.
template <typename F> void each(const std::vector<int64_t> &dims, F f) {
  std::vector<int64_t> index(dims.size(), 0);
  int64_t all = 1;
  for (int64_t size : dims)
    all *= size;
  for (int64_t number = 0; number < all; ++number) {
    f(index, number);
    for (size_t d = dims.size(); d-- > 0;) {
      if (++index[d] < dims[d])
        break;
      index[d] = 0;
    }
  }
}

int64_t offsetOf(const Tensor &tensor, const std::vector<int64_t> &index) {
  int64_t offset = 0;
  for (size_t d = 0; d < index.size(); ++d)
    offset += index[d] * tensor.strides[d];
  return offset;
}

/// Returns the row-major number of the element of `dims` that an index of a larger shape belongs to: each dimension of
/// the shape is a multiple of that of `dims`.
int64_t numberIn(const std::vector<int64_t> &dims, const std::vector<int64_t> &index, const std::vector<int64_t> &of) {
  int64_t number = 0;
  for (size_t d = 0; d < dims.size(); ++d)
    number = number * dims[d] + index[d] / (of[d] / dims[d]);
  return number;
}

/// The values of the tensors of a graph, in row-major order.
struct Evaluation {
  const Graph &graph;
  const std::vector<std::byte *> &memory;
  std::vector<std::vector<double>> values = std::vector<std::vector<double>>(graph.tensors.size());

  const Tensor &tensor(int number) const { return graph.tensors[size_t(number)]; }
  const std::vector<double> &operand(int number) {
    std::vector<double> &all = values[size_t(number)];
    const Tensor &t = tensor(number);
    if (all.empty()) {
      all.resize(size_t(t.elements()));
      each(t.dims, [&](const auto &index, int64_t i) {
        all[size_t(i)] = load(memory[size_t(number)] + offsetOf(t, index) * bytesOfElement(t.type), t.type);
      });
    }
    return all;
  }
  void finish(int number, std::vector<double> result) {
    const Tensor &t = tensor(number);
    for (double &value : result)
      value = rounded(value, t.type);
    if (!t.isVirtual)
      each(t.dims, [&](const auto &index, int64_t i) {
        store(memory[size_t(number)] + offsetOf(t, index) * bytesOfElement(t.type), t.type, result[size_t(i)]);
      });
    values[size_t(number)] = std::move(result);
  }

  void pointwise(const Node &node);
  void matmul(const Node &node);
  void reduce(const Node &node);
  void reshape(const Node &node);
  void convolve(const Node &node);
};

double combined(int mode, double a, double b, double t) {
  switch (mode) {
  case 0:
    return a + b;
  case 1:
    return a * b;
  case 6:
    return a / b;
  case 9:
    return a - b;
  case 13:
    return std::exp(a);
  case 15:
    return std::log(a);
  case 21:
    return a;
  case 303:
    return a >= b;
  case 601:
    return t != 0 ? a : b;
  default:
    std::abort(); // checkPattern takes no other mode
  }
}

/// Returns a number that is added to scores as kernels see it that compute with powers of 2: NaN if its product with
/// log2(e) is no float32 number, because they subtract two such products.
double biasOf(double number) {
  constexpr double kLog2e = 1.4426950408889634;
  return std::isinf(float(number * kLog2e)) ? std::numeric_limits<double>::quiet_NaN() : number;
}

void Evaluation::pointwise(const Node &node) {
  const Tensor &y = tensor(node.y);
  std::vector<double> result(size_t(y.elements()));
  auto at = [&](int number, const std::vector<int64_t> &index) {
    return number < 0 ? 0 : values[size_t(number)][size_t(numberIn(tensor(number).dims, index, y.dims))];
  };
  for (int number : {node.a, node.b, node.t})
    if (number >= 0 && node.mode != 501)
      operand(number);
  if (node.mode == 0 && !tensor(node.b).isVirtual && !tensor(node.b).isByValue)
    for (double &number : values[size_t(node.b)])
      number = biasOf(number);
  each(y.dims, [&](const auto &index, int64_t i) {
    result[size_t(i)] = node.mode == 501 ? double(index[size_t(node.axis)])
                                         : combined(node.mode, at(node.a, index), at(node.b, index), at(node.t, index));
  });
  finish(node.y, std::move(result));
}

void Evaluation::matmul(const Node &node) {
  const std::vector<double> &a = operand(node.a), &b = operand(node.b);
  const Tensor &left = tensor(node.a), &right = tensor(node.b);
  int64_t heads = left.dims[1], rows = left.dims[2], inner = left.dims[3], columns = right.dims[3];
  int64_t sharing = heads / right.dims[1];
  std::vector<double> result(size_t(left.dims[0] * heads * rows * columns), 0);
  for (int64_t m = 0; m < left.dims[0] * heads; ++m) {
    int64_t of = m / heads * right.dims[1] + m % heads / sharing;
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t k = 0; k < inner; ++k) {
        double factor = a[size_t((m * rows + i) * inner + k)];
        for (int64_t j = 0; j < columns; ++j)
          result[size_t((m * rows + i) * columns + j)] += factor * b[size_t((of * inner + k) * columns + j)];
      }
  }
  finish(node.y, std::move(result));
}

void Evaluation::reduce(const Node &node) {
  const std::vector<double> &x = operand(node.a);
  const Tensor &from = tensor(node.a), &to = tensor(node.y);
  double neutral = node.mode == 0 ? 0 : -std::numeric_limits<double>::infinity();
  std::vector<double> result(size_t(to.elements()), neutral);
  each(from.dims, [&](const auto &index, int64_t i) {
    double &sum = result[size_t(numberIn(to.dims, index, from.dims))];
    sum = node.mode == 0 ? sum + x[size_t(i)] : std::max(sum, x[size_t(i)]);
  });
  finish(node.y, std::move(result));
}

// A reshape sees its operand's elements where the result's strides find them.
void Evaluation::reshape(const Node &node) {
  const std::vector<double> &x = operand(node.a);
  const Tensor &from = tensor(node.a), &to = tensor(node.y);
  std::vector<double> places(size_t(from.span()), std::numeric_limits<double>::quiet_NaN());
  each(from.dims, [&](const auto &index, int64_t i) { places[size_t(offsetOf(from, index))] = x[size_t(i)]; });
  std::vector<double> result(x.size());
  each(to.dims, [&](const auto &index, int64_t i) { result[size_t(i)] = places[size_t(offsetOf(to, index))]; });
  finish(node.y, std::move(result));
}

void Evaluation::convolve(const Node &node) {
  int x = node.kind == 12 ? node.y : node.a, w = node.kind == 11 ? node.y : node.b;
  int y = node.kind == 10 ? node.y : node.kind == 11 ? node.b : node.a;
  const Tensor &sample = tensor(x), &kernel = tensor(w), &place = tensor(y);
  const std::vector<double> &a = operand(node.a), &b = operand(node.b);
  std::vector<double> result(size_t(tensor(node.y).elements()), 0);
  int64_t channels = kernel.dims[1], outputs = place.dims[1] / (sample.dims[1] / channels);
  size_t spatial = node.strides.size();
  std::vector<int64_t> window(kernel.dims.begin() + 1, kernel.dims.end()); // channel of the group, then spatial
  const int64_t windowSize =
      std::accumulate(window.begin(), window.end(), int64_t(1), std::multiplies<int64_t>()); // elements
  each(place.dims, [&](const auto &at, int64_t atY) {
    each(window, [&](const auto &in, int64_t inWindow) {
      int64_t from = at[0] * sample.dims[1] + at[1] / outputs * channels + in[0];
      for (size_t d = 0; d < spatial; ++d) {
        int64_t along = at[d + 2] * node.strides[d] + in[d + 1] * node.dilations[d] - node.before[d];
        if (along < 0 || along >= sample.dims[d + 2])
          return;
        from = from * sample.dims[d + 2] + along;
      }
      size_t atX = size_t(from), atW = size_t(at[1] * windowSize + inWindow);
      if (node.kind == 10)
        result[size_t(atY)] += a[atX] * b[atW];
      else if (node.kind == 11)
        result[atW] += a[atX] * b[size_t(atY)];
      else
        result[atX] += a[size_t(atY)] * b[atW];
    });
  });
  for (double &value : result)
    value *= double(node.alpha);
  if (node.beta != 0)
    for (size_t i = 0; i < result.size(); ++i)
      result[i] += double(node.beta) * operand(node.y)[i];
  finish(node.y, std::move(result));
}
} // namespace

int64_t bytesOfElement(int type) {
  switch (type) {
  case kHalf:
  case kBfloat16:
    return 2;
  case kFloat:
  case kInt32:
    return 4;
  case kTruth:
    return 1;
  default:
    return 0;
  }
}

void evaluate(const Graph &graph, const std::vector<std::byte *> &memory) {
  Evaluation evaluation{graph, memory};
  for (const Node &node : graph.nodes)
    switch (node.kind) {
    case 13:
      evaluation.pointwise(node);
      break;
    case 19:
      evaluation.matmul(node);
      break;
    case 22:
      evaluation.reduce(node);
      break;
    case 31:
      evaluation.reshape(node);
      break;
    default:
      evaluation.convolve(node);
    }
}

} // namespace kerf::standin::cudnn
