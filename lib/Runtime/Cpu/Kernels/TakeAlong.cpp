// SPDX-License-Identifier: Apache-2.0
// Lookups of slices by indices of each batch entry, and their gradient. The gradient adds slices in the order of the
// indices, so it is deterministic for any number of threads.
#include "TakeAlong.h"

#include <algorithm>
#include <cstring>

namespace kerf::runtime::kernels {

namespace {

/// The sizes of a lookup: the batch, the indexed dimension on this rank and in the global tensor, the indices of each
/// batch entry, and a slice.
struct LookupSizes {
  int64_t batch, local, whole, count, inner;
};

/// Checks an instruction and returns its sizes. `table` is [b.., v, c..], `indices` is [b.., t..] and `slices` is
/// [b.., t.., c..].
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

/// The lookups of an instruction.
template <typename I> struct Lookup {
  const I *indices;
  TensorView offsetView; // the scalar operand `offset`; its data is null if this rank has the whole dimension
  LookupSizes sizes;
  Shape shape; // shape of the indices

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
  /// Calls visit(slice, row) for the slices of the batch entries [begin, end). `row` is the number of the slice in the
  /// rank's part of the table, or -1 if another rank holds the slice.
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

Result<PlannedKernel> planTakeAlong(const BindRequest &request) {
  Checker check(request);
  if (!check.counts(2, 3, 1))
    return check.error();
  const TensorView &table = request.operands[0], &indices = request.operands[1], &result = request.results[0];
  std::optional<LookupSizes> sizes = lookupSizes(check, request, table, indices, result);
  if (!sizes)
    return check.error();
  return withIndexType(request, indices.dtype, [&](auto type) -> Result<PlannedKernel> {
    using I = typename decltype(type)::type;
    return PlannedKernel{[lookup = lookupOf<I>(request, indices, *sizes), x = dataOf<std::byte>(table),
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

Result<PlannedKernel> planTakeAlongBackward(const BindRequest &request) {
  Checker check(request);
  if (!check.counts(2, 3, 1))
    return check.error();
  const TensorView &indices = request.operands[0], &gradient = request.operands[1], &result = request.results[0];
  std::optional<LookupSizes> sizes = lookupSizes(check, request, result, indices, gradient);
  if (!sizes)
    return check.error();
  return withIndexType(request, indices.dtype, [&](auto index) {
    using I = typename decltype(index)::type;
    return withFloatType(request, result.dtype, [&](auto type) -> Result<PlannedKernel> {
      using T = typename decltype(type)::type;
      return PlannedKernel{[lookup = lookupOf<I>(request, indices, *sizes), dy = dataOf<T>(gradient),
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
