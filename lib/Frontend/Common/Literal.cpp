// SPDX-License-Identifier: Apache-2.0
// Creates, compares and compresses constant tensors.
#include "Common/Literal.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kerf::frontend {

namespace {
constexpr int64_t kMostBytes = int64_t(8)
                               << 30; // limit of one folded constant; the largest mask of known models has 0.13 GiB
// Limit of the number of elements: no machine holds as many, and sums of such byte counts fit into 64 bits.
constexpr __int128 kMostElements = __int128(1) << 56;
} // namespace

bool isFloat(DType dtype) {
  return dtype == DType::F64 || dtype == DType::F32 || dtype == DType::BF16 || dtype == DType::F16;
}

Result<int64_t> normalizeAxis(int64_t axis, int64_t rank) {
  if (axis < -rank || axis >= rank)
    return Error{fmt::format("axis {} is outside of a tensor of {} dimensions", axis, rank)};
  return axis < 0 ? axis + rank : axis;
}

Result<FreshLiteral> allocateLiteral(DType dtype, const Shape &shape) {
  __int128 bytes = bytesOf(dtype);
  for (int64_t size : shape) {
    if (size < 0)
      return Error{fmt::format("a constant has the invalid shape {}", shapeText(shape))};
    bytes *= size;
    if (bytes > kMostBytes)
      return Error{fmt::format("a constant of shape {} and type {} would take more than {} bytes at import",
                               shapeText(shape), toString(dtype), kMostBytes)};
  }
  auto [tensor, memory] = allocateTensor(dtype, shape);
  return FreshLiteral{Literal{tensor, shape}, memory};
}

Result<Literal> literalFromTensor(const Tensor &tensor, DType floatType) {
  Tensor wanted = tensor;
  if (isFloat(tensor.dtype) && tensor.dtype != floatType) {
    Result<Tensor> converted = convertTensor(tensor, floatType);
    if (!converted)
      return converted.error();
    wanted = *converted;
  }
  bool aligned = reinterpret_cast<uintptr_t>(wanted.data) % bytesOf(wanted.dtype) == 0;
  if (!aligned || wanted.dtype == DType::Bool) {
    auto [copy, memory] = allocateTensor(wanted.dtype, wanted.shape);
    if (wanted.bytes())
      std::memcpy(memory, wanted.data, wanted.bytes());
    if (wanted.dtype == DType::Bool)
      for (int64_t i = 0, n = wanted.bytes(); i < n; ++i)
        memory[i] = std::byte(memory[i] != std::byte(0));
    wanted = copy;
  }
  return Literal{wanted, wanted.shape};
}

template <typename Number> static Literal makeScalar(DType dtype, Number value) {
  auto [tensor, memory] = allocateTensor(dtype, {});
  dispatch(dtype, [&, bytes = memory](auto zero) {
    *reinterpret_cast<decltype(zero) *>(bytes) = static_cast<decltype(zero)>(dtype == DType::Bool ? value != 0 : value);
  });
  return Literal{tensor, {}};
}

Literal scalarLiteral(DType dtype, double value) { return makeScalar(dtype, value); }
Literal scalarLiteral(DType dtype, int64_t value) { return makeScalar(dtype, value); }

Literal indexLiteral(const std::vector<int64_t> &values) {
  auto [tensor, memory] = allocateTensor(DType::I64, {int64_t(values.size())});
  if (!values.empty())
    std::memcpy(memory, values.data(), values.size() * sizeof(int64_t));
  return Literal{tensor, tensor.shape};
}

Result<Literal> materialize(const Literal &literal) {
  if (literal.stored.shape == literal.shape)
    return literal;
  Result<FreshLiteral> fresh = allocateLiteral(literal.dtype(), literal.shape);
  if (!fresh)
    return fresh.error();
  // From the last dimension to the first, each block of the result repeats the block of the next dimension.
  int64_t element = bytesOf(literal.dtype());
  auto fill = [&](auto &self, size_t dim, const std::byte *from, std::byte *to) -> std::pair<int64_t, int64_t> {
    if (dim == literal.shape.size()) {
      std::memcpy(to, from, element);
      return {element, element};
    }
    int64_t read = 0, written = 0;
    for (int64_t i = 0; i < literal.shape[dim]; ++i) {
      if (i > 0 && literal.stored.shape[dim] == 1) {
        std::memcpy(to + written, to, written / i);
        written += written / i;
        continue;
      }
      auto [r, w] = self(self, dim + 1, from + read, to + written);
      read += r;
      written += w;
    }
    return {read, written};
  };
  if (elementsOf(literal.shape) > 0)
    fill(fill, 0, literal.stored.data, fresh->bytes);
  return fresh->literal;
}

/// Returns the first slice of `tensor` along `dim`.
static Tensor firstSlice(const Tensor &tensor, size_t dim, int64_t outer, int64_t inner) {
  Shape shape = tensor.shape;
  int64_t size = shape[dim];
  shape[dim] = 1;
  auto [result, memory] = allocateTensor(tensor.dtype, shape);
  for (int64_t o = 0; o < outer; ++o)
    std::memcpy(memory + o * inner, tensor.data + o * size * inner, inner);
  return result;
}

Literal compress(const Literal &literal) {
  Literal result = literal;
  for (size_t dim = 0; dim < result.shape.size(); ++dim) {
    const Shape &shape = result.stored.shape;
    int64_t size = shape[dim];
    if (size <= 1 || result.storedElements() == 0)
      continue;
    int64_t outer = elementsOf(Shape(shape.begin(), shape.begin() + dim));
    int64_t inner = elementsOf(Shape(shape.begin() + dim + 1, shape.end())) * bytesOf(result.dtype());
    bool same = true;
    for (int64_t o = 0; same && o < outer; ++o) {
      const std::byte *first = result.stored.data + o * size * inner;
      for (int64_t i = 1; same && i < size; ++i)
        same = std::memcmp(first, first + i * inner, inner) == 0;
    }
    if (same)
      result.stored = firstSlice(result.stored, dim, outer, inner);
  }
  return result;
}

Status checkShape(const Shape &shape) {
  __int128 elements = 1;
  for (int64_t size : shape) {
    elements *= size;
    if (size < 0 || elements > kMostElements)
      return Error{fmt::format("the shape {} is not valid", shapeText(shape))};
  }
  return ok();
}

Result<Shape> broadcastShapes(const Shape &a, const Shape &b) {
  Shape result(std::max(a.size(), b.size()));
  for (size_t i = 0; i < result.size(); ++i) {
    int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1, y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1)
      return Error{fmt::format("shapes {} and {} do not broadcast: {} != {}", shapeText(a), shapeText(b), x, y)};
    result[result.size() - 1 - i] = x == 1 ? y : x;
  }
  if (Status status = checkShape(result); !status)
    return status.error();
  return result;
}

Result<Literal> broadcastLiteral(const Literal &literal, const Shape &shape) {
  Result<Shape> common = broadcastShapes(literal.shape, shape);
  if (!common)
    return common.error();
  if (*common != shape)
    return Error{fmt::format("shape {} does not broadcast to {}", shapeText(literal.shape), shapeText(shape))};
  Literal result = literal;
  size_t missing = shape.size() - literal.shape.size();
  result.stored.shape.insert(result.stored.shape.begin(), missing, 1);
  result.shape = shape;
  return result;
}

Result<std::vector<int64_t>> integersOf(const Literal &literal) {
  if (isFloat(literal.dtype()))
    return Error{fmt::format("integers are needed, but the constant has the type {}", toString(literal.dtype()))};
  Result<Literal> whole = materialize(literal);
  if (!whole)
    return whole.error();
  std::vector<int64_t> values(elementsOf(whole->shape));
  dispatch(whole->dtype(), [&](auto zero) {
    const auto *data = whole->as<decltype(zero)>();
    std::copy(data, data + values.size(), values.begin());
  });
  return values;
}

Result<double> numberOf(const Literal &literal) {
  if (elementsOf(literal.shape) != 1)
    return Error{fmt::format("a single number is needed, but the constant has the shape {}", shapeText(literal.shape))};
  return dispatch(literal.dtype(), [&](auto zero) { return double(*literal.as<decltype(zero)>()); });
}

bool allElementsEqual(const Literal &literal, double value) {
  return dispatch(literal.dtype(), [&](auto zero) {
    const auto *data = literal.as<decltype(zero)>();
    return std::all_of(data, data + literal.storedElements(), [&](auto x) { return double(x) == value; });
  });
}

bool sameValue(const Literal &a, const Literal &b) {
  return a.dtype() == b.dtype() && a.shape == b.shape && a.stored.shape == b.stored.shape &&
         std::memcmp(a.stored.data, b.stored.data, a.stored.bytes()) == 0;
}

} // namespace kerf::frontend
