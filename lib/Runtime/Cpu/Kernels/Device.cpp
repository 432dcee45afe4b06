// SPDX-License-Identifier: Apache-2.0
// Ops whose result depends on the rank: shard_offset (where the rank's piece begins), local_slice (its piece of a
// tensor) and mask_padding (replaces padding by a value).
#include "Families.h"
#include "StridedCopy.h"

#include <algorithm>
#include <cstring>

namespace kerf::runtime::kernels {

Result<PlannedKernel> planShardOffset(const BindRequest &request) {
  Checker check(request);
  if (!check.counts(0, 0, 1))
    return check.error();
  std::vector<AxisRef> axes = check.axes("axes");
  int64_t chunk = check.integer("chunk");
  check.scalar(request.results[0], "the result");
  check.indices(request.results[0], "the result");
  check.require(chunk >= 0, "attribute 'chunk' is {}, which is negative", chunk);
  if (check.failed())
    return check.error();
  int64_t offset = position(request.mesh, axes, request.rank) * chunk;
  return withIndexType(request, request.results[0].dtype, [&](auto type) -> Result<PlannedKernel> {
    using T = typename decltype(type)::type;
    check.require(offset <= std::numeric_limits<T>::max(), "offset {} does not fit {}", offset,
                  toString(request.results[0].dtype));
    if (check.failed())
      return check.error();
    return PlannedKernel{[y = mutableDataOf<T>(request.results[0]), offset] {
      *y = T(offset);
      return ok();
    }};
  });
}

Result<PlannedKernel> planMaskPadding(const BindRequest &request) {
  Checker check(request);
  if (!check.counts(1, 1, 1))
    return check.error();
  const TensorView &operand = request.operands[0], &result = request.results[0];
  check.sameType(operand, "the operand", result, "the result");
  size_t dim = check.dimension("dim", operand.shape.size());
  std::vector<AxisRef> axes = check.axes("axes");
  int64_t size = check.integer("size");
  size_t fill = check.choice("fill", {"sum", "max", "min"});
  if (check.failed())
    return check.error();
  int64_t chunk = operand.shape[dim];
  int64_t valid = std::clamp<int64_t>(size - position(request.mesh, axes, request.rank) * chunk, 0, chunk);
  int64_t outer = product(operand.shape, 0, dim), inner = product(operand.shape, dim + 1);
  const bool isByte = isFloat8(operand.dtype);
  check.require(!isByte || fill == 0, "the fill of 8-bit floats is {}, but must be \"sum\"", fill == 1 ? "max" : "min");
  if (check.failed())
    return check.error();
  return withElementType(request, isByte ? DType::U8 : operand.dtype, [&](auto type) -> Result<PlannedKernel> {
    using T = typename decltype(type)::type;
    T value = fill == 0 ? T(0) : fill == 1 ? lowestOf<T>() : highestOf<T>();
    const T *x = dataOf<T>(operand);
    T *y = mutableDataOf<T>(result);
    return PlannedKernel{[=] {
      for (int64_t o = 0; o < outer; ++o) {
        T *row = y + o * chunk * inner;
        if (x != y && valid * inner > 0)
          std::memcpy(row, x + o * chunk * inner, valid * inner * sizeof(T));
        std::fill_n(row + valid * inner, (chunk - valid) * inner, value);
      }
      return ok();
    }};
  });
}

Result<PlannedKernel> planLocalSlice(const BindRequest &request) {
  Checker check(request);
  if (!check.counts(1, 1, 1))
    return check.error();
  const TensorView &operand = request.operands[0], &result = request.results[0];
  size_t dim = check.dimension("dim", operand.shape.size());
  std::vector<AxisRef> axes = check.axes("axes");
  check.dtype(result, "the result", operand.dtype);
  Shape expected = operand.shape;
  if (!check.failed() && result.shape.size() == expected.size())
    expected[dim] = result.shape[dim];
  check.shape(result, "the result", expected);
  if (check.failed())
    return check.error();
  int64_t size = operand.shape[dim], chunk = result.shape[dim];
  int64_t begin = std::min(size, position(request.mesh, axes, request.rank) * chunk);
  int64_t bytes = product(operand.shape, dim + 1) * bytesOf(operand.dtype), outer = product(operand.shape, 0, dim);
  int64_t validBytes = std::min(chunk, size - begin) * bytes, rowBytes = chunk * bytes;
  const std::byte *from = dataOf<std::byte>(operand);
  std::byte *to = mutableDataOf<std::byte>(result);
  return PlannedKernel{[=] {
    for (int64_t o = 0; o < outer && rowBytes > 0; ++o) {
      if (validBytes > 0)
        std::memcpy(to + o * rowBytes, from + (o * size + begin) * bytes, validBytes);
      std::memset(to + o * rowBytes + validBytes, 0, rowBytes - validBytes);
    }
    return ok();
  }};
}

} // namespace kerf::runtime::kernels
