// SPDX-License-Identifier: Apache-2.0
// Calls that create or move elements. Moves are strided copies that differ only in their views.
#include "Calls.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace kerf::runtime::ascend {

ScalarValue neutralOf(DType dtype, bool isMaximum) {
  auto of = [&](auto zero) {
    using Limits = std::numeric_limits<decltype(zero)>;
    return ScalarValue{DType::I64, 0, isMaximum ? int64_t(Limits::lowest()) : int64_t(Limits::max())};
  };
  switch (dtype) {
  case DType::I64:
    return of(int64_t());
  case DType::I32:
    return of(int32_t());
  case DType::I16:
    return of(int16_t());
  case DType::I8:
    return of(int8_t());
  case DType::U8:
    return of(uint8_t());
  case DType::Bool:
    return of(bool());
  default:
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    return {dtype == DType::F64 ? DType::F64 : DType::F32, isMaximum ? -kInfinity : kInfinity};
  }
}

void callConstant(Builder &b) {
  View y = b.result();
  const auto &elements = b.attrs().at("value");
  const int64_t n = y.elements(), bytes = bytesOf(y.dtype);
  bool isFloat = y.dtype == DType::F32 || y.dtype == DType::F16 || y.dtype == DType::BF16;
  if (elements.size() == 1 && isFloat)
    return b.fill(y, package::parseNumber(elements[0]).value_or(0));
  std::vector<std::byte> all(static_cast<size_t>(n * bytes));
  for (int64_t i = 0; i < n; ++i) {
    uint64_t bits = elementBits(elements[elements.size() == 1 ? 0 : size_t(i)], y.dtype);
    std::memcpy(all.data() + i * bytes, &bits, size_t(bytes)); // little-endian: the low bytes come first
  }
  b.copy(b.constant(y.dtype, y.sizes, all.data()), y);
}

void callIota(Builder &b) {
  View y = b.result();
  auto dimension = size_t(b.integer("dimension"));
  int64_t size = y.sizes[dimension];
  View row = b.temporary(y.dtype, {size});
  b.call(op::Arange, Builder::scalar(y.dtype, 0), Builder::scalar(y.dtype, double(size)), Builder::scalar(y.dtype, 1),
         row);
  if (b.operands() > 0)
    b.add(row, broadcast(b.operand(0), {size}, {}), row);
  b.copy(broadcast(row, y.sizes, {int64_t(dimension)}), y);
}

void callBroadcast(Builder &b) {
  View y = b.result();
  b.copy(broadcast(b.operand(0), y.sizes, b.integers("broadcast_dimensions")), y);
}

void callTranspose(Builder &b) { b.copy(permuted(b.operand(0), b.integers("permutation")), b.result()); }

void callSlice(Builder &b) {
  View x = b.operand(0), y = b.result();
  std::vector<int64_t> start = b.integers("start"), strides = b.integers("strides");
  for (size_t d = 0; d < y.sizes.size(); ++d)
    x = sliced(x, d, start[d], y.sizes[d], strides[d]);
  b.copy(x, y);
}

void callPad(Builder &b) {
  View x = b.operand(0), y = b.result();
  b.copy(broadcast(b.operand(1), y.sizes, {}), y);
  std::vector<int64_t> low = b.integers("low"), interior = b.integers("interior");
  View inner = y;
  for (size_t d = 0; d < y.sizes.size(); ++d)
    inner = sliced(inner, d, low[d], x.sizes[d], interior[d] + 1);
  b.copy(x, inner);
}

void callConcatenate(Builder &b) {
  View y = b.result();
  auto dimension = size_t(b.integer("dimension"));
  int64_t begin = 0;
  for (size_t i = 0; i < b.operands(); ++i) {
    View x = b.operand(i);
    b.copy(x, sliced(y, dimension, begin, x.sizes[dimension]));
    begin += x.sizes[dimension];
  }
}

void callSyncGradient(Builder &b) { b.copy(b.operand(0), b.result()); }

void callShardOffset(Builder &b) {
  int64_t offset = b.position("axes") * b.integer("chunk");
  b.copy(b.constant(DType::I64, {}, &offset), b.result());
}

void callMaskPadding(Builder &b) {
  View x = b.operand(0), y = b.result();
  auto dim = size_t(b.integer("dim"));
  int64_t chunk = x.sizes[dim], valid = std::clamp<int64_t>(b.integer("size") - b.position("axes") * chunk, 0, chunk);
  b.copy(x, y);
  std::string kind = b.text("fill");
  if (valid < chunk)
    b.call(op::InplaceFillScalar, sliced(y, dim, valid, chunk - valid),
           kind == "sum" ? Builder::scalar(y.dtype, 0) : neutralOf(y.dtype, kind == "max"));
}

void callLocalSlice(Builder &b) {
  View x = b.operand(0), y = b.result();
  auto dim = size_t(b.integer("dim"));
  int64_t size = x.sizes[dim], chunk = y.sizes[dim], begin = std::min(size, b.position("axes") * chunk),
          valid = std::min(chunk, size - begin);
  b.copy(sliced(x, dim, begin, valid), sliced(y, dim, 0, valid));
  if (valid < chunk)
    b.fill(sliced(y, dim, valid, chunk - valid), 0);
}

} // namespace kerf::runtime::ascend
