// SPDX-License-Identifier: Apache-2.0
// Merges dimensions of copies, and runs the copies' loops for each element size.
#include "StridedCopy.h"

#include <algorithm>
#include <cstring>

namespace kerf::runtime::kernels {

namespace {
constexpr int64_t kTile = 32; // a tile of 8-byte elements in both orders fits the first-level cache

template <typename T> void copyRow(const T *from, T *to, const CopyDim &dim) {
  if (dim.to == 1 && dim.from == 1) {
    std::memcpy(to, from, dim.size * sizeof(T));
  } else if (dim.to == 1 && dim.from == 0) {
    std::fill(to, to + dim.size, *from);
  } else {
    for (int64_t i = 0; i < dim.size; ++i)
      to[i * dim.to] = from[i * dim.from];
  }
}

/// Copies two dimensions in tiles. `rows` is contiguous in the source, and `columns` is contiguous in the target.
template <typename T> void copyTiles(const T *from, T *to, const CopyDim &rows, const CopyDim &columns) {
  for (int64_t i0 = 0; i0 < rows.size; i0 += kTile)
    for (int64_t j0 = 0; j0 < columns.size; j0 += kTile)
      for (int64_t i = i0; i < std::min(i0 + kTile, rows.size); ++i) {
        const T *source = from + i * rows.from;
        T *target = to + i * rows.to;
        for (int64_t j = j0; j < std::min(j0 + kTile, columns.size); ++j)
          target[j * columns.to] = source[j * columns.from];
      }
}

/// Copies `left` dimensions, given from the outermost on. `first` is used in place of dim[0].
template <typename T> void copyDims(const T *from, T *to, const CopyDim &first, const CopyDim *dim, size_t left) {
  if (left == 1)
    return copyRow(from, to, first);
  if (left == 2 && first.from == 1 && dim[1].from != 0)
    return copyTiles(from, to, first, dim[1]);
  for (int64_t i = 0; i < first.size; ++i)
    copyDims(from + i * first.from, to + i * first.to, dim[1], dim + 1, left - 1);
}
} // namespace

std::vector<int64_t> stridesOf(const Shape &shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t d = shape.size(); d-- > 1;)
    strides[d - 1] = strides[d] * shape[d];
  return strides;
}

StridedCopy::StridedCopy(std::vector<CopyDim> given, int64_t elementBytes) : elementBytes(elementBytes) {
  empty = std::any_of(given.begin(), given.end(), [](const CopyDim &d) { return d.size <= 0; });
  std::erase_if(given, [](const CopyDim &d) { return d.size <= 1; });
  std::stable_sort(given.begin(), given.end(), [](const CopyDim &a, const CopyDim &b) { return a.to > b.to; });
  for (const CopyDim &dim : given) {
    if (!dims.empty() && dims.back().from == dim.from * dim.size && dims.back().to == dim.to * dim.size)
      dims.back() = {dims.back().size * dim.size, dim.from, dim.to};
    else
      dims.push_back(dim);
  }
  if (dims.empty())
    dims.push_back({1, 1, 1});
  // The dimension that is contiguous in the source becomes the last but one, so that it is copied in tiles.
  for (size_t d = 0; d + 2 < dims.size(); ++d)
    if (dims[d].from == 1)
      std::rotate(dims.begin() + d, dims.begin() + d + 1, dims.end() - 1);
}

/// Copies elements of type T. The team's threads share the outermost dimension.
template <typename T> void StridedCopy::run(const T *from, T *to, ThreadTeam *team) const {
  const CopyDim &first = dims[0];
  int64_t inner = 1;
  for (size_t d = 1; d < dims.size(); ++d)
    inner *= dims[d].size;
  forPieces(team, first.size, rowsOfTask(inner), [&](int64_t begin, int64_t end) {
    copyDims(from + begin * first.from, to + begin * first.to, {end - begin, first.from, first.to}, dims.data(),
             dims.size());
  });
}

void StridedCopy::operator()(const void *from, void *to, ThreadTeam *team) const {
  if (empty)
    return;
  switch (elementBytes) {
  case 1:
    return run(static_cast<const uint8_t *>(from), static_cast<uint8_t *>(to), team);
  case 2:
    return run(static_cast<const uint16_t *>(from), static_cast<uint16_t *>(to), team);
  case 4:
    return run(static_cast<const uint32_t *>(from), static_cast<uint32_t *>(to), team);
  default:
    return run(static_cast<const uint64_t *>(from), static_cast<uint64_t *>(to), team);
  }
}

} // namespace kerf::runtime::kernels
