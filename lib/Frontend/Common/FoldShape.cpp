// SPDX-License-Identifier: Apache-2.0
// Folds operations that move, look up or reduce elements.
#include "Common/Fold.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fmt/format.h>

namespace kerf::frontend {

namespace {

std::vector<int64_t> stepsOf(const Shape &shape) {
  std::vector<int64_t> steps(shape.size());
  int64_t step = 1;
  for (size_t d = shape.size(); d-- > 0; step *= shape[d])
    steps[d] = step;
  return steps;
}

/// Copies `element`-sized elements into a dense block of `shape`, from `from` with `steps` elements between neighbours.
void copyStrided(const std::byte *from, const std::vector<int64_t> &steps, const Shape &shape, int64_t element,
                 std::byte *&to, size_t dim = 0) {
  if (dim == shape.size()) {
    std::memcpy(to, from, element);
    to += element;
    return;
  }
  if (dim + 1 == shape.size() && steps[dim] == 1) {
    std::memcpy(to, from, shape[dim] * element);
    to += shape[dim] * element;
    return;
  }
  for (int64_t i = 0; i < shape[dim]; ++i)
    copyStrided(from + i * steps[dim] * element, steps, shape, element, to, dim + 1);
}

Result<Literal> gatherStrided(const Literal &x, int64_t offset, const std::vector<int64_t> &steps, const Shape &stored,
                              const Shape &shape) {
  Result<FreshLiteral> fresh = allocateLiteral(x.dtype(), stored);
  if (!fresh)
    return fresh.error();
  std::byte *to = fresh->bytes;
  int64_t element = bytesOf(x.dtype());
  if (elementsOf(stored) > 0)
    copyStrided(x.stored.data + offset * element, steps, stored, element, to);
  fresh->literal.shape = shape;
  return fresh->literal;
}

/// The sizes before, at and after a dimension.
struct Split3 {
  int64_t outer = 1, size = 1, inner = 1;
};
Split3 splitAt(const Shape &shape, int64_t dim) {
  return {elementsOf(Shape(shape.begin(), shape.begin() + dim)), shape[dim],
          elementsOf(Shape(shape.begin() + dim + 1, shape.end()))};
}

} // namespace

Result<Literal> foldReshape(const Literal &x, const Shape &shape) {
  Literal result = x;
  if (x.isSplat()) {
    result.stored.shape.assign(shape.size(), 1);
    result.shape = shape;
    return result;
  }
  // Adding and removing dimensions of size 1 does not change how the other dimensions are stored.
  auto big = [](const Shape &s) {
    Shape dims;
    std::copy_if(s.begin(), s.end(), std::back_inserter(dims), [](int64_t size) { return size != 1; });
    return dims;
  };
  if (big(x.shape) == big(shape)) {
    Shape stored;
    size_t from = 0;
    for (int64_t size : shape) {
      while (size != 1 && x.shape[from] == 1)
        ++from;
      stored.push_back(size == 1 ? 1 : x.stored.shape[from++]);
    }
    result.stored.shape = stored;
    result.shape = shape;
    return result;
  }
  Result<Literal> whole = materialize(x);
  if (!whole)
    return whole.error();
  whole->stored.shape = whole->shape = shape;
  return whole;
}

Result<Literal> foldTranspose(const Literal &x, const std::vector<int64_t> &permutation) {
  std::vector<int64_t> old = stepsOf(x.stored.shape), steps;
  Shape stored, shape;
  for (int64_t from : permutation) {
    steps.push_back(old[from]);
    stored.push_back(x.stored.shape[from]);
    shape.push_back(x.shape[from]);
  }
  return gatherStrided(x, 0, steps, stored, shape);
}

Result<Literal> foldSlice(const Literal &x, const std::vector<int64_t> &start, const Shape &count,
                          const std::vector<int64_t> &strides) {
  std::vector<int64_t> steps = stepsOf(x.stored.shape);
  Shape stored = count;
  int64_t offset = 0;
  for (size_t d = 0; d < count.size(); ++d) {
    if (x.stored.shape[d] == 1 && count[d] > 0) {
      stored[d] = 1;
      continue;
    }
    offset += start[d] * steps[d];
    steps[d] *= strides[d];
  }
  return gatherStrided(x, offset, steps, stored, count);
}

Result<Literal> foldConcatenate(const std::vector<Literal> &inputs, int64_t dim) {
  Shape shape = inputs.front().shape;
  shape[dim] = 0;
  std::vector<Literal> whole;
  for (const Literal &input : inputs) {
    Result<Literal> one = materialize(input);
    if (!one)
      return one.error();
    shape[dim] += one->shape[dim];
    whole.push_back(*one);
  }
  Result<FreshLiteral> fresh = allocateLiteral(inputs.front().dtype(), shape);
  if (!fresh)
    return fresh.error();
  Split3 parts = splitAt(shape, dim);
  int64_t row = parts.inner * bytesOf(inputs.front().dtype());
  std::byte *to = fresh->bytes;
  for (int64_t o = 0; o < parts.outer; ++o)
    for (const Literal &input : whole) {
      int64_t bytes = input.shape[dim] * row;
      if (bytes)
        std::memcpy(to, input.stored.data + o * bytes, bytes);
      to += bytes;
    }
  return fresh->literal;
}

Result<Literal> foldPad(const Literal &x, const Literal &value, const std::vector<int64_t> &low,
                        const std::vector<int64_t> &high) {
  // Padding is a concatenation with copies of the value.
  Literal result = x;
  for (size_t d = 0; d < low.size(); ++d) {
    auto border = [&](int64_t size) {
      Literal copies = value;
      copies.shape = result.shape;
      copies.shape[d] = size;
      copies.stored.shape.assign(result.shape.size(), 1);
      return copies;
    };
    std::vector<Literal> parts;
    if (low[d])
      parts.push_back(border(low[d]));
    parts.push_back(result);
    if (high[d])
      parts.push_back(border(high[d]));
    if (parts.size() == 1)
      continue;
    Result<Literal> joined = foldConcatenate(parts, d);
    if (!joined)
      return joined.error();
    result = *joined;
  }
  return result;
}

Result<Literal> foldGather(const Literal &x, const Literal &indices, int64_t axis) {
  Result<Literal> whole = materialize(x);
  Result<std::vector<int64_t>> at = integersOf(indices);
  if (!whole)
    return whole.error();
  if (!at)
    return at.error();
  Shape shape(x.shape.begin(), x.shape.begin() + axis);
  shape.insert(shape.end(), indices.shape.begin(), indices.shape.end());
  shape.insert(shape.end(), x.shape.begin() + axis + 1, x.shape.end());
  Result<FreshLiteral> fresh = allocateLiteral(x.dtype(), shape);
  if (!fresh)
    return fresh.error();
  Split3 parts = splitAt(x.shape, axis);
  int64_t row = parts.inner * bytesOf(x.dtype());
  std::byte *to = fresh->bytes;
  for (int64_t o = 0; o < parts.outer; ++o)
    for (int64_t index : *at) {
      if (index < -parts.size || index >= parts.size)
        return Error{fmt::format("index {} is outside of dimension {} of size {}", index, axis, parts.size)};
      if (row)
        std::memcpy(to, whole->stored.data + (o * parts.size + (index < 0 ? index + parts.size : index)) * row, row);
      to += row;
    }
  return fresh->literal;
}

Result<Literal> foldGatherNd(const Literal &x, const Literal &indices, int64_t batchDims) {
  Result<Literal> whole = materialize(x);
  Result<std::vector<int64_t>> at = integersOf(indices);
  if (!whole)
    return whole.error();
  if (!at)
    return at.error();
  int64_t rank = x.shape.size(), indexRank = indices.shape.size();
  if (indexRank == 0 || batchDims < 0 || batchDims >= std::min(rank, indexRank) || indices.shape.back() < 1 ||
      indices.shape.back() > rank - batchDims ||
      !std::equal(x.shape.begin(), x.shape.begin() + batchDims, indices.shape.begin()))
    return Error{fmt::format("indices of shape {} do not fit data of shape {} with {} batch dimensions",
                             shapeText(indices.shape), shapeText(x.shape), batchDims)};
  int64_t depth = indices.shape.back();
  Shape shape(indices.shape.begin(), indices.shape.end() - 1);
  shape.insert(shape.end(), x.shape.begin() + batchDims + depth, x.shape.end());
  Result<FreshLiteral> fresh = allocateLiteral(x.dtype(), shape);
  if (!fresh)
    return fresh.error();
  std::vector<int64_t> steps = stepsOf(x.shape);
  int64_t element = bytesOf(x.dtype()),
          slice = elementsOf(Shape(x.shape.begin() + batchDims + depth, x.shape.end())) * element;
  int64_t batches = elementsOf(Shape(x.shape.begin(), x.shape.begin() + batchDims)), tuples = at->size() / depth;
  int64_t batchStep = batchDims ? steps[batchDims - 1] : 0;
  std::byte *to = fresh->bytes;
  for (int64_t t = 0; t < tuples; ++t) {
    int64_t offset = t / std::max<int64_t>(tuples / std::max<int64_t>(batches, 1), 1) * batchStep;
    for (int64_t k = 0; k < depth; ++k) {
      int64_t index = (*at)[t * depth + k], size = x.shape[batchDims + k];
      if (index < -size || index >= size)
        return Error{fmt::format("index {} is outside of dimension {} of size {}", index, batchDims + k, size)};
      offset += (index < 0 ? index + size : index) * steps[batchDims + k];
    }
    if (slice)
      std::memcpy(to, whole->stored.data + offset * element, slice);
    to += slice;
  }
  return fresh->literal;
}

/// Returns the maximum or minimum over no elements: the least or the largest value of the type.
template <typename T> static T neutralOf(Reduction op, DType dtype) {
  using Limits = std::numeric_limits<T>;
  if (op == Reduction::Maximum)
    return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
  return dtype == DType::Bool ? T(1) : Limits::has_infinity ? Limits::infinity() : Limits::max();
}

/// Adds integers with wrap-around, by unsigned arithmetic, for which C++ defines overflow.
template <typename T> static T added(T x, T y) {
  if constexpr (std::is_floating_point_v<T>)
    return x + y;
  else
    return T(uint64_t(x) + uint64_t(y));
}

Result<Literal> foldReduce(Reduction op, const Literal &x, const std::vector<int64_t> &dims) {
  Result<Literal> current = materialize(x);
  if (!current)
    return current;
  for (size_t i = dims.size(); i-- > 0;) {
    Split3 parts = splitAt(current->shape, dims[i]);
    Shape shape = current->shape;
    shape.erase(shape.begin() + dims[i]);
    Result<FreshLiteral> fresh = allocateLiteral(x.dtype(), shape);
    if (!fresh)
      return fresh.error();
    dispatch(x.dtype(), [&](auto zero) {
      using T = decltype(zero);
      const T *in = current->as<T>();
      T *out = fresh->as<T>();
      if (parts.size == 0 && op != Reduction::Sum)
        std::fill_n(out, elementsOf(shape), neutralOf<T>(op, x.dtype()));
      for (int64_t o = 0; o < parts.outer; ++o)
        for (int64_t k = 0; k < parts.size; ++k)
          for (int64_t j = 0; j < parts.inner; ++j) {
            T value = in[(o * parts.size + k) * parts.inner + j], &sum = out[o * parts.inner + j];
            if (k == 0)
              sum = value;
            else if (op == Reduction::Sum)
              sum = added(sum, value);
            else if (op == Reduction::Maximum)
              sum = std::max(sum, value);
            else
              sum = std::min(sum, value);
          }
    });
    current = fresh->literal;
  }
  return current;
}

Result<Literal> foldCumulativeSum(const Literal &x, int64_t axis, CumulativeSumKind sumOf, Direction direction) {
  Result<Literal> whole = materialize(x);
  if (!whole)
    return whole;
  Result<FreshLiteral> fresh = allocateLiteral(x.dtype(), x.shape);
  if (!fresh)
    return fresh.error();
  Split3 parts = splitAt(x.shape, axis);
  dispatch(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T *in = whole->as<T>();
    T *out = fresh->as<T>();
    for (int64_t o = 0; o < parts.outer; ++o)
      for (int64_t j = 0; j < parts.inner; ++j) {
        T sum = 0;
        for (int64_t k = 0; k < parts.size; ++k) {
          int64_t at = direction == Direction::Forward ? k : parts.size - 1 - k,
                  i = (o * parts.size + at) * parts.inner + j;
          T next = added(sum, in[i]);
          out[i] = sumOf == CumulativeSumKind::Inclusive ? next : sum;
          sum = next;
        }
      }
  });
  return fresh->literal;
}

Result<Literal> foldRange(const Literal &start, const Literal &limit, const Literal &delta) {
  Result<double> from = numberOf(start), to = numberOf(limit), step = numberOf(delta);
  for (const Result<double> *r : {&from, &to, &step})
    if (!*r)
      return r->error();
  if (*step == 0)
    return Error{"the step of a Range is 0"};
  double count = std::max(0.0, std::ceil((*to - *from) / *step));
  if (!(count < double(int64_t(1) << 32)))
    return Error{fmt::format("a Range has {} elements, which is too many", count)};
  Result<FreshLiteral> fresh = allocateLiteral(start.dtype(), {int64_t(count)});
  if (!fresh)
    return fresh.error();
  dispatch(start.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T first = *start.as<T>(), by = *delta.as<T>();
    for (int64_t i = 0; i < int64_t(count); ++i)
      fresh->as<T>()[i] = T(first + T(i) * by);
  });
  return fresh->literal;
}

Result<Literal> foldTriangle(const Literal &x, int64_t diagonal, Triangle kept) {
  Result<Literal> whole = materialize(x);
  if (!whole)
    return whole;
  Result<FreshLiteral> fresh = allocateLiteral(x.dtype(), x.shape);
  if (!fresh)
    return fresh.error();
  size_t rank = x.shape.size();
  int64_t rows = x.shape[rank - 2], columns = x.shape[rank - 1], element = bytesOf(x.dtype());
  for (int64_t i = 0, n = elementsOf(x.shape); i < n; ++i) {
    int64_t row = i / columns % rows, column = i % columns;
    if (kept == Triangle::Upper ? column - row >= diagonal : column - row <= diagonal)
      std::memcpy(fresh->bytes + i * element, whole->stored.data + i * element, element);
  }
  return fresh->literal;
}

} // namespace kerf::frontend
