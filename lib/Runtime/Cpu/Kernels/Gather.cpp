// SPDX-License-Identifier: Apache-2.0
// Lookups of slices by index: gather, embedding, and their gradients. The gradients add slices in the order of the
// indices, so they are deterministic.
#include "Families.h"
#include "Simd.h"

#include <algorithm>
#include <cstring>

namespace kerf::runtime::kernels {

namespace {
/// Returns the multi-dimensional index of element number `flat` of a shape as text, for example "[2, 5]".
std::string positionText(const Shape &shape, int64_t flat) {
  std::vector<int64_t> index(shape.size());
  for (size_t d = shape.size(); d-- > 0; flat /= shape[d])
    index[d] = flat % shape[d];
  return fmt::format("[{}]", fmt::join(index, ", "));
}

/// Sizes of gather and scatter_add: the product of the dimensions before the indexed one, the size of the indexed
/// dimension, the number of indices, and the product of the dimensions after the indexed one.
struct SliceSizes {
  int64_t outer, size, count, inner;
};
/// Checks an instruction and returns its sizes. `sliced` is the tensor that is indexed, and `stacked` is the
/// tensor of slices.
std::optional<SliceSizes> sliceSizes(Checker &check, const TensorView &sliced, const TensorView &indices,
                                     const TensorView &stacked) {
  size_t axis = check.dimension("axis", sliced.shape.size());
  check.indices(indices, "the indices");
  check.dtype(stacked, "the tensor of slices", sliced.dtype);
  if (check.failed())
    return std::nullopt;
  Shape expected(sliced.shape.begin(), sliced.shape.begin() + axis);
  expected.insert(expected.end(), indices.shape.begin(), indices.shape.end());
  expected.insert(expected.end(), sliced.shape.begin() + axis + 1, sliced.shape.end());
  check.shape(stacked, "the tensor of slices", expected);
  if (check.failed())
    return std::nullopt;
  return SliceSizes{product(sliced.shape, 0, axis), sliced.shape[axis], indices.elements(),
                    product(sliced.shape, axis + 1)};
}

Error outside(int64_t index, const Shape &shape, int64_t position, int64_t lowest, int64_t size) {
  return {fmt::format("index {} at {} is outside of [{}, {}); check the input data", index,
                      positionText(shape, position), lowest, size)};
}

template <typename T> void addRow(const T *from, T *to, int64_t n) {
  dispatch(
      [](auto, const T *from, T *to, int64_t n) {
#pragma omp simd
        for (int64_t i = 0; i < n; ++i)
          to[i] += from[i];
      },
      from, to, n);
}

/// The lookups of embedding and its gradient. The rank's local part of the table holds its rows [offset, offset +
/// local), of `rows` rows in all.
template <typename I> struct RowLookup {
  const I *indices;
  const TensorView offsetView; // the scalar operand `offset`; its data is null if this rank has the whole table
  int64_t rows, local, count;  // rows of the whole table, rows of the local part, number of indices
  Shape shape;                 // shape of the indices

  int64_t offset() const { return offsetView.data ? int64_t(readScalar(offsetView)) : 0; }
  std::optional<Error> firstOutside() const {
    for (int64_t i = 0; i < count; ++i)
      if (indices[i] < 0 || indices[i] >= rows)
        return outside(indices[i], shape, i, 0, rows);
    return std::nullopt;
  }
};

/// Checks an instruction of embedding or its gradient and returns the rows of the whole table. `table` is [v, d], and
/// `slices` has the indices' shape and a last dimension of size d.
int64_t checkEmbedding(Checker &check, const BindRequest &request, const TensorView &table, const TensorView &indices,
                       const TensorView &slices) {
  int64_t rows = check.integer("rows");
  check.indices(indices, "the indices");
  check.require(table.shape.size() == 2, "the table has {} dimensions, not 2", table.shape.size());
  check.dtype(slices, "the tensor of rows", table.dtype);
  if (check.failed())
    return rows;
  Shape expected = indices.shape;
  expected.push_back(table.shape[1]);
  check.shape(slices, "the tensor of rows", expected);
  if (request.operands.size() == 3) {
    check.scalar(request.operands[2], "the offset");
    check.indices(request.operands[2], "the offset");
  } else {
    check.require(rows <= table.shape[0], "attribute 'rows' is {}, but the table has {} rows", rows, table.shape[0]);
  }
  return rows;
}

TensorView offsetOf(const BindRequest &request) {
  return request.operands.size() == 3 ? request.operands[2] : TensorView();
}
} // namespace

Result<PlannedKernel> planGather(const BindRequest &request) {
  Checker check(request);
  if (!check.counts(2, 2, 1))
    return check.error();
  std::optional<SliceSizes> sizes = sliceSizes(check, request.operands[0], request.operands[1], request.results[0]);
  if (!sizes)
    return check.error();
  return withIndexType(request, request.operands[1].dtype, [&](auto type) -> Result<PlannedKernel> {
    using I = typename decltype(type)::type;
    const std::byte *x = dataOf<std::byte>(request.operands[0]);
    std::byte *y = mutableDataOf<std::byte>(request.results[0]);
    int64_t sliceBytes = sizes->inner * bytesOf(request.results[0].dtype);
    return PlannedKernel{
        [=, s = *sizes, indices = dataOf<I>(request.operands[1]), shape = request.operands[1].shape]() -> Status {
          for (int64_t i = 0; i < s.count; ++i)
            if (indices[i] < -s.size || indices[i] >= s.size)
              return outside(indices[i], shape, i, -s.size, s.size);
          if (sliceBytes == 0)
            return ok();
          for (int64_t o = 0; o < s.outer; ++o)
            for (int64_t i = 0; i < s.count; ++i) {
              int64_t row = indices[i] < 0 ? indices[i] + s.size : indices[i];
              std::memcpy(y + (o * s.count + i) * sliceBytes, x + (o * s.size + row) * sliceBytes, sliceBytes);
            }
          return ok();
        }};
  });
}

Result<PlannedKernel> planScatterAdd(const BindRequest &request) {
  Checker check(request);
  if (!check.counts(2, 2, 1))
    return check.error();
  const TensorView &result = request.results[0];
  std::optional<SliceSizes> sizes = sliceSizes(check, result, request.operands[0], request.operands[1]);
  if (!sizes)
    return check.error();
  return withIndexType(request, request.operands[0].dtype, [&](auto index) {
    using I = typename decltype(index)::type;
    return withFloatType(request, result.dtype, [&](auto type) -> Result<PlannedKernel> {
      using T = typename decltype(type)::type;
      const I *indices = dataOf<I>(request.operands[0]);
      const T *updates = dataOf<T>(request.operands[1]);
      T *y = mutableDataOf<T>(result);
      return PlannedKernel{[=, s = *sizes, n = result.elements(), shape = request.operands[0].shape]() -> Status {
        for (int64_t i = 0; i < s.count; ++i)
          if (indices[i] < -s.size || indices[i] >= s.size)
            return outside(indices[i], shape, i, -s.size, s.size);
        std::fill_n(y, n, T(0));
        for (int64_t o = 0; o < s.outer; ++o)
          for (int64_t i = 0; i < s.count; ++i) {
            int64_t row = indices[i] < 0 ? indices[i] + s.size : indices[i];
            addRow(updates + (o * s.count + i) * s.inner, y + (o * s.size + row) * s.inner, s.inner);
          }
        return ok();
      }};
    });
  });
}

Result<PlannedKernel> planEmbedding(const BindRequest &request) {
  Checker check(request);
  if (!check.counts(2, 3, 1))
    return check.error();
  const TensorView &table = request.operands[0], &indices = request.operands[1], &result = request.results[0];
  int64_t rows = checkEmbedding(check, request, table, indices, result);
  if (check.failed())
    return check.error();
  return withIndexType(request, indices.dtype, [&](auto index) {
    using I = typename decltype(index)::type;
    return withFloatType(request, result.dtype, [&](auto type) -> Result<PlannedKernel> {
      using T = typename decltype(type)::type;
      RowLookup<I> lookup{dataOf<I>(indices), offsetOf(request),  rows,
                          table.shape[0],     indices.elements(), indices.shape};
      return PlannedKernel{[=, x = dataOf<T>(table), y = mutableDataOf<T>(result), d = table.shape[1]]() -> Status {
        if (std::optional<Error> error = lookup.firstOutside())
          return *error;
        int64_t offset = lookup.offset();
        for (int64_t i = 0; i < lookup.count; ++i) {
          int64_t row = lookup.indices[i] - offset;
          if (row >= 0 && row < lookup.local)
            std::copy_n(x + row * d, d, y + i * d);
          else
            std::fill_n(y + i * d, d, T(0));
        }
        return ok();
      }};
    });
  });
}

Result<PlannedKernel> planEmbeddingBackward(const BindRequest &request) {
  Checker check(request);
  if (!check.counts(2, 3, 1))
    return check.error();
  const TensorView &indices = request.operands[0], &gradient = request.operands[1], &table = request.results[0];
  int64_t rows = checkEmbedding(check, request, table, indices, gradient);
  if (check.failed())
    return check.error();
  return withIndexType(request, indices.dtype, [&](auto index) {
    using I = typename decltype(index)::type;
    return withFloatType(request, table.dtype, [&](auto type) -> Result<PlannedKernel> {
      using T = typename decltype(type)::type;
      RowLookup<I> lookup{dataOf<I>(indices), offsetOf(request),  rows,
                          table.shape[0],     indices.elements(), indices.shape};
      return PlannedKernel{[=, dy = dataOf<T>(gradient), dx = mutableDataOf<T>(table), d = table.shape[1],
                            team = request.team]() -> Status {
        if (std::optional<Error> error = lookup.firstOutside())
          return *error;
        int64_t offset = lookup.offset();
        forElements(team, lookup.local * d, [&](int64_t begin, int64_t end) { std::fill(dx + begin, dx + end, T(0)); });
        for (int64_t i = 0; i < lookup.count; ++i)
          if (int64_t row = lookup.indices[i] - offset; row >= 0 && row < lookup.local)
            addRow(dy + i * d, dx + row * d, d);
        return ok();
      }};
    });
  });
}

} // namespace kerf::runtime::kernels
