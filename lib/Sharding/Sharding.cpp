// SPDX-License-Identifier: Apache-2.0
// The arithmetic of meshes and shardings: coordinates, process groups, local shapes, and the validity of a sharding.
#include "kerf/Sharding/Sharding.h"
#include "SubAxes.h"

#include <algorithm>
#include <fmt/format.h>
#include <limits>

namespace kerf {

int64_t Mesh::ranks() const {
  int64_t product = 1;
  for (const MeshAxis &axis : axes)
    product *= axis.size;
  return product;
}

int Mesh::find(std::string_view name) const {
  for (size_t a = 0; a < axes.size(); ++a)
    if (axes[a].name == name)
      return static_cast<int>(a);
  return -1;
}

/// Returns the difference of the rank numbers of two neighbours along the axis `axis`.
static int64_t axisStride(const Mesh &mesh, int axis) {
  int64_t stride = 1;
  for (size_t a = axis + 1; a < mesh.axes.size(); ++a)
    stride *= mesh.axes[a].size;
  return stride;
}

int64_t Mesh::coordinate(int64_t rank, int axis) const { return rank / axisStride(*this, axis) % axes[axis].size; }

AxisRef wholeAxis(const Mesh &mesh, int axis) { return {axis, 1, mesh.axes[axis].size}; }

/// Returns the difference of the rank numbers of two neighbours along the sub-axis `ref`.
static int64_t refStride(const Mesh &mesh, const AxisRef &ref) {
  return axisStride(mesh, ref.axis) * (mesh.axes[ref.axis].size / (ref.before * ref.size));
}

int64_t coordinate(const Mesh &mesh, const AxisRef &ref, int64_t rank) {
  return rank / refStride(mesh, ref) % ref.size;
}

int64_t position(const Mesh &mesh, std::span<const AxisRef> refs, int64_t rank) {
  int64_t p = 0;
  for (const AxisRef &ref : refs)
    p = p * ref.size + coordinate(mesh, ref, rank);
  return p;
}

int64_t shardCount(std::span<const AxisRef> refs) {
  int64_t product = 1;
  for (const AxisRef &ref : refs)
    product *= ref.size;
  return product;
}

int64_t rankAt(const Mesh &mesh, std::span<const AxisRef> refs, int64_t rank, int64_t p) {
  for (size_t i = refs.size(); i-- > 0;) {
    const int64_t digit = p % refs[i].size;
    p /= refs[i].size;
    rank += (digit - coordinate(mesh, refs[i], rank)) * refStride(mesh, refs[i]);
  }
  return rank;
}

std::vector<int64_t> groupOf(const Mesh &mesh, std::span<const AxisRef> refs, int64_t rank) {
  std::vector<int64_t> group(shardCount(refs));
  for (size_t p = 0; p < group.size(); ++p)
    group[p] = rankAt(mesh, refs, rank, static_cast<int64_t>(p));
  return group;
}

std::vector<AxisRef> mergeParts(std::span<const AxisRef> refs) {
  std::vector<AxisRef> merged;
  for (const AxisRef &ref : refs)
    appendMerged(merged, ref);
  return merged;
}

std::string_view toString(ReduceKind kind) {
  switch (kind) {
  case ReduceKind::Sum:
    return "sum";
  case ReduceKind::Max:
    return "max";
  case ReduceKind::Min:
    return "min";
  }
  return "?";
}

bool Sharding::isReplicated() const {
  return partial.empty() && std::all_of(dims.begin(), dims.end(), [](const DimSharding &d) { return d.axes.empty(); });
}

int64_t defaultChunk(int64_t size, std::span<const AxisRef> axes) {
  const int64_t n = shardCount(axes);
  // A dimension of size 0 has chunks of one element, all padding, because chunk 0 means that the dimension is not cut.
  return axes.empty() ? 0 : std::max<int64_t>(1, size / n + (size % n != 0));
}

int64_t localExtent(int64_t size, const DimSharding &dim) { return dim.axes.empty() ? size : dim.chunk; }

Shape localShape(const Shape &shape, const Sharding &sharding) {
  Shape local(shape.size());
  for (size_t d = 0; d < shape.size(); ++d)
    local[d] = localExtent(shape[d], sharding.dims[d]);
  return local;
}

Extent validExtent(int64_t size, const DimSharding &dim, const Mesh &mesh, int64_t rank) {
  if (dim.axes.empty())
    return {0, size};
  const int64_t begin = position(mesh, dim.axes, rank) * dim.chunk;
  return {begin, std::clamp<int64_t>(size - begin, 0, dim.chunk)};
}

bool isPadded(int64_t size, const DimSharding &dim) {
  return !dim.axes.empty() && shardCount(dim.axes) * dim.chunk > size;
}

Sharding canonical(Sharding sharding) {
  for (DimSharding &dim : sharding.dims)
    dim.axes = mergeParts(dim.axes);
  std::sort(sharding.partial.begin(), sharding.partial.end());
  sharding.partial = mergeParts(sharding.partial);
  return sharding;
}

/// Returns an axis as text: `"x"`, or `"x":(2)3` for a sub-axis.
static std::string toString(const Mesh &mesh, const AxisRef &ref) {
  if (ref.axis < 0 || ref.axis >= static_cast<int>(mesh.axes.size()))
    return fmt::format("axis {}", ref.axis);
  const MeshAxis &axis = mesh.axes[ref.axis];
  if (ref.before == 1 && ref.size == axis.size)
    return fmt::format("\"{}\"", axis.name);
  return fmt::format("\"{}\":({}){}", axis.name, ref.before, ref.size);
}

static std::string toString(const Mesh &mesh, std::span<const AxisRef> refs) {
  std::string text;
  for (const AxisRef &ref : refs)
    text += (text.empty() ? "" : ", ") + toString(mesh, ref);
  return text;
}

std::string toString(const Mesh &mesh, const Shape &shape, const Sharding &sharding) {
  std::string text = "[";
  for (size_t d = 0; d < sharding.dims.size(); ++d) {
    const DimSharding &dim = sharding.dims[d];
    text += fmt::format("{}{{{}}}", d ? ", " : "", toString(mesh, dim.axes));
    if (!dim.axes.empty() && (d >= shape.size() || dim.chunk != defaultChunk(shape[d], dim.axes)))
      text += fmt::format("/{}", dim.chunk);
  }
  text += "]";
  if (sharding.partial.empty())
    return text;
  const std::string kind =
      sharding.partialKind == ReduceKind::Sum ? "" : fmt::format("({})", toString(sharding.partialKind));
  return text + fmt::format(" partial{} [{}]", kind, toString(mesh, sharding.partial));
}

static Status checkRef(const Mesh &mesh, const AxisRef &ref) {
  if (ref.axis < 0 || ref.axis >= static_cast<int>(mesh.axes.size()))
    return Error{
        fmt::format("sharding names axis {}, the mesh has {} axes; number them from 0", ref.axis, mesh.axes.size())};
  if (ref.size < 2)
    return Error{fmt::format("sharding uses {} of size {}: axes of size 1 cut nothing; leave them out",
                             toString(mesh, ref), ref.size)};
  const int64_t size = mesh.axes[ref.axis].size;
  if (ref.before < 1 || ref.before > size || ref.size > size || size % (ref.before * ref.size) != 0)
    return Error{
        fmt::format("sharding uses {}: {} * {} does not divide the axis's size {}; choose a sub-axis that does",
                    toString(mesh, ref), ref.before, ref.size, size)};
  return ok();
}

/// Returns whether two sub-axes of one axis have no digit in common.
static bool areApart(const AxisRef &a, const AxisRef &b) {
  return a.axis != b.axis || b.before % (a.before * a.size) == 0 || a.before % (b.before * b.size) == 0;
}

static Status checkDim(int64_t size, const DimSharding &dim, size_t d) {
  if (dim.axes.empty() != (dim.chunk == 0))
    return Error{fmt::format("dimension {} is cut by {} axes but has chunk {}; the chunk must be 0 if no axis cuts the "
                             "dimension, else above 0",
                             d, dim.axes.size(), dim.chunk)};
  if (dim.axes.empty())
    return ok();
  const int64_t n = shardCount(dim.axes);
  if (dim.chunk < 0 || dim.chunk > std::numeric_limits<int64_t>::max() / n)
    return Error{fmt::format("dimension {} has chunk {}, which {} ranks cannot hold; the chunk should be {}", d,
                             dim.chunk, n, defaultChunk(size, dim.axes))};
  if (n * dim.chunk < size)
    return Error{
        fmt::format("dimension {} of size {} is not covered by {} chunks of {} = {}; the chunk must be at least {}", d,
                    size, n, dim.chunk, n * dim.chunk, defaultChunk(size, dim.axes))};
  return ok();
}

Status checkSharding(const Mesh &mesh, const Shape &shape, const Sharding &sharding) {
  if (sharding.dims.size() != shape.size())
    return Error{fmt::format("the sharding has {} dimensions, the tensor {}; give one entry for each dimension",
                             sharding.dims.size(), shape.size())};
  std::vector<AxisRef> used = sharding.partial;
  for (const DimSharding &dim : sharding.dims)
    used.insert(used.end(), dim.axes.begin(), dim.axes.end());
  for (const AxisRef &ref : used)
    if (Status status = checkRef(mesh, ref); !status)
      return status;
  for (size_t i = 0; i < used.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (!areApart(used[i], used[j]))
        return Error{fmt::format("{} and {} overlap; an axis may occur only once in a sharding",
                                 toString(mesh, used[j]), toString(mesh, used[i]))};
  for (size_t d = 0; d < shape.size(); ++d)
    if (Status status = checkDim(shape[d], sharding.dims[d], d); !status)
      return status;
  if (!std::is_sorted(sharding.partial.begin(), sharding.partial.end()))
    return Error{fmt::format("partial [{}] is not sorted by axis; sort it", toString(mesh, sharding.partial))};
  if (sharding.partial.empty() && sharding.partialKind != ReduceKind::Sum)
    return Error{fmt::format("the sharding is partial over no axis, but its reduction is {} instead of sum; leave "
                             "the reduction out",
                             toString(sharding.partialKind))};
  return ok();
}

} // namespace kerf
