// SPDX-License-Identifier: Apache-2.0
// Slices at indices that each batch entry has of its own, and their gradient, which adds slices in the order of the
// indices (deterministic, whatever the number of threads).
#include "TakeAlong.h"

#include <algorithm>
#include <cstring>

namespace kerf::runtime::kernels {

namespace {

/// Sizes of the batch, of the looked-up dimension on this rank and as a whole, of each batch entry's indices, and of a
/// slice.
struct LookupSizes {
  int64_t batch, local, whole, count, inner;
};

/// Checks an instruction: `table` [b.., v, c..], `indices` [b.., t..], `slices` [b.., t.., c..].
std::optional<LookupSizes> lookupSizes(Checker &check, const BindRequest &request, const TensorView &table,
                                       const TensorView &indices, const TensorView &slices) {
  int64_t batchDims = check.integer("batch_dims"), whole = check.integer("size");
  check.indices(indices, "the indices");
  check.dtype(slices, "the tensor of slices", table.dtype);
  check.require(batchDims >= 0 && batchDims < int64_t(table.shape.size()) && batchDims <= int64_t(indices.shape.size()),
                "attribute 'batch_dims' is {}, but the tensor has {} dimensions and the indices {}", batchDims,
                table.shape.size(), indices.shape.size());
  if (check.failed())
    return std::nullopt;
  for (int64_t d = 0; d < batchDims; ++d)
    check.require(table.shape[d] == indices.shape[d], "batch dimension {} has {} entries, but {} of indices", d,
                  table.shape[d], indices.shape[d]);
  Shape expected = indices.shape;
  expected.insert(expected.end(), table.shape.begin() + batchDims + 1, table.shape.end());
  check.shape(slices, "the tensor of slices", expected);
  int64_t local = table.shape[batchDims];
  if (request.operands.size() == 3) {
    check.scalar(request.operands[2], "the offset");
    check.indices(request.operands[2], "the offset");
  } else {
    check.require(whole == local, "attribute 'size' is {}, but dimension {} has {}", whole, batchDims, local);
  }
  if (check.failed())
    return std::nullopt;
  return LookupSizes{product(table.shape, 0, batchDims), local, whole, product(indices.shape, batchDims),
                     product(table.shape, batchDims + 1)};
}

template <typename I> struct Lookup {
  const I *indices;
  TensorView offsetView; // without data where the dimension is whole
  LookupSizes sizes;
  Shape shape; // of the indices

  std::optional<Error> firstOutside() const {
    for (int64_t i = 0, n = sizes.batch * sizes.count; i < n; ++i) {
      if (indices[i] >= -sizes.whole && indices[i] < sizes.whole)
        continue;
      std::vector<int64_t> position(shape.size());
      for (int64_t d = int64_t(shape.size()), flat = i; d-- > 0; flat /= shape[d])
        position[d] = flat % shape[d];
      return Error{fmt::format("index {} at [{}] is outside of [{}, {}); check the input data", int64_t(indices[i]),
                               fmt::join(position, ", "), -sizes.whole, sizes.whole)};
    }
    return std::nullopt;
  }
  int64_t offset() const { return offsetView.data ? int64_t(readScalar(offsetView)) : 0; }
  /// visit(slice, row) for the slices of the batch entries [begin, end); `row` counts the slices of the rank's piece of
  /// the table and is -1 where another rank holds it.
  template <typename F> void forSlices(int64_t begin, int64_t end, const F &visit) const {
    const int64_t first = offset();
    for (int64_t b = begin; b < end; ++b)
      for (int64_t i = b * sizes.count; i < (b + 1) * sizes.count; ++i) {
        int64_t row = (indices[i] < 0 ? indices[i] + sizes.whole : int64_t(indices[i])) - first;
        visit(i, row >= 0 && row < sizes.local ? b * sizes.local + row : -1);
      }
  }
};

template <typename I>
Lookup<I> lookupOf(const BindRequest &request, const TensorView &indices, const LookupSizes &sizes) {
  return {dataOf<I>(indices), request.operands.size() == 3 ? request.operands[2] : TensorView(), sizes, indices.shape};
}

} // namespace

Result<Planned> planTakeAlong(const BindRequest &request) {
  Checker check(request);
  if (!check.counts(2, 3, 1))
    return check.error();
  const TensorView &table = request.operands[0], &indices = request.operands[1], &result = request.results[0];
  std::optional<LookupSizes> sizes = lookupSizes(check, request, table, indices, result);
  if (!sizes)
    return check.error();
  return forIndex(request, indices.dtype, [&](auto type) -> Result<Planned> {
    using I = typename decltype(type)::type;
    return Planned{[lookup = lookupOf<I>(request, indices, *sizes), x = dataOf<std::byte>(table),
                    y = mutableDataOf<std::byte>(result), bytes = sizes->inner * bytesOf(result.dtype),
                    team = request.team]() -> Status {
      if (std::optional<Error> error = lookup.firstOutside())
        return *error;
      if (bytes == 0)
        return ok();
      int64_t entry = lookup.sizes.count * lookup.sizes.inner;
      forPieces(team, lookup.sizes.batch, rowsOfTask(entry), [&](int64_t begin, int64_t end) {
        lookup.forSlices(begin, end, [&](int64_t slice, int64_t row) {
          if (row >= 0)
            std::memcpy(y + slice * bytes, x + row * bytes, bytes);
          else
            std::memset(y + slice * bytes, 0, bytes);
        });
      });
      return ok();
    }};
  });
}

Result<Planned> planTakeAlongBackward(const BindRequest &request) {
  Checker check(request);
  if (!check.counts(2, 3, 1))
    return check.error();
  const TensorView &indices = request.operands[0], &gradient = request.operands[1], &result = request.results[0];
  std::optional<LookupSizes> sizes = lookupSizes(check, request, result, indices, gradient);
  if (!sizes)
    return check.error();
  return forIndex(request, indices.dtype, [&](auto index) {
    using I = typename decltype(index)::type;
    return forFloat(request, result.dtype, [&](auto type) -> Result<Planned> {
      using T = typename decltype(type)::type;
      return Planned{[lookup = lookupOf<I>(request, indices, *sizes), dy = dataOf<T>(gradient),
                      dx = mutableDataOf<T>(result), team = request.team]() -> Status {
        if (std::optional<Error> error = lookup.firstOutside())
          return *error;
        const int64_t inner = lookup.sizes.inner, entry = lookup.sizes.local * inner;
        forPieces(team, lookup.sizes.batch, rowsOfTask(entry), [&](int64_t begin, int64_t end) {
          std::fill(dx + begin * entry, dx + end * entry, T(0));
          lookup.forSlices(begin, end, [&](int64_t slice, int64_t row) {
            for (int64_t i = 0; i < inner && row >= 0; ++i)
              dx[row * inner + i] += dy[slice * inner + i];
          });
        });
        return ok();
      }};
    });
  });
}

} // namespace kerf::runtime::kernels
