// SPDX-License-Identifier: Apache-2.0
// Shardings: how a tensor is distributed over a mesh of ranks. Plain data without any IR.
//
//   Mesh <"x"=4, "y"=2>, tensor of 10 x 6, sharding [{"x"}, {}] partial ["y"]
//     Dimension 0 is cut into chunks of ceil(10/4) = 3: the ranks with x = 0,1,2,3 hold rows 0-2, 3-5, 6-8, 9-9.
//     Every rank's local tensor is 3 x 6; the rows past 10 on x = 3 are *padding*: allocated, of unspecified content.
//     The value is the sum of the local tensors of y = 0 and y = 1 (a *partial* value).
#pragma once

#include "kerf/Support/Result.h"
#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace kerf {

/// The sizes of a tensor's dimensions, in elements.
using Shape = std::vector<int64_t>;

/// One named side of a mesh and the number of ranks along it.
struct MeshAxis {
  std::string name; // name of the axis, for example "data" or "model"
  int64_t size = 1; // number of ranks along the axis
  bool operator==(const MeshAxis &) const = default;
};

/// A named grid of ranks. The first axis is the outermost one; ranks that are neighbours along the last axis have
/// consecutive rank numbers.
struct Mesh {
  std::vector<MeshAxis> axes; // axes of the grid, outermost first
  bool operator==(const Mesh &) const = default;
  /// Returns the number of ranks: the product of the axis sizes.
  int64_t ranks() const;
  /// Returns the index of the axis named `name`, or -1 if the mesh has no such axis.
  int find(std::string_view name) const;
  /// Returns the coordinate of `rank` along the axis with index `axis`, from 0 to the axis size - 1.
  int64_t coordinate(int64_t rank, int axis) const;
};

/// A mesh axis or a sub-axis, which is a contiguous group of the digits of a mesh axis. An axis of size 12
/// (2*3*2) has the sub-axis written (2)3, with `before` = 2 and `size` = 3; the coordinate of a rank along the
/// sub-axis is (coordinate along the axis / (axis size / (before*size))) % size. A complete axis has `before` = 1
/// and its full size.
struct AxisRef {
  int axis = 0;       // index of the axis in the mesh
  int64_t before = 1; // product of the sizes of the more significant sub-axes of the same axis
  int64_t size = 1;   // number of positions along the sub-axis
  auto operator<=>(const AxisRef &) const = default;
};

/// Returns the reference to the complete axis with index `axis`.
AxisRef wholeAxis(const Mesh &mesh, int axis);
/// Returns the coordinate of `rank` along the axis or sub-axis `ref`, from 0 to ref.size - 1.
int64_t coordinate(const Mesh &mesh, const AxisRef &ref, int64_t rank);
/// Returns the position of `rank` in the mixed-radix number whose digits are the coordinates along `refs`, the first
/// entry of `refs` being the most significant digit. The position ranges from 0 to shardCount(refs) - 1.
int64_t position(const Mesh &mesh, std::span<const AxisRef> refs, int64_t rank);
/// Returns the number of shards into which the axes `refs` cut a dimension: the product of their sizes.
int64_t shardCount(std::span<const AxisRef> refs);
/// Returns the process group of `rank` along `refs`: all ranks that differ from `rank` at most in their coordinates
/// along `refs`, ordered by position. These ranks take part in one collective.
std::vector<int64_t> groupOf(const Mesh &mesh, std::span<const AxisRef> refs, int64_t rank);
/// Returns the member at position `p` of the process group groupOf(mesh, refs, rank).
int64_t rankAt(const Mesh &mesh, std::span<const AxisRef> refs, int64_t rank, int64_t p);
/// Returns `refs` with adjacent sub-axes of one axis merged: {"x":(1)2, "x":(2)3} becomes {"x":(1)6}. The position of
/// every rank stays the same.
std::vector<AxisRef> mergeParts(std::span<const AxisRef> refs);

/// The operation that combines the local tensors of a partial value.
enum class ReduceKind { Sum, Max, Min };
/// Returns "sum", "max" or "min".
std::string_view toString(ReduceKind kind);

/// The sharding of one tensor dimension. The rank at position p along `axes` holds the elements [p*chunk,
/// min((p+1)*chunk, size)) of the dimension.
struct DimSharding {
  std::vector<AxisRef> axes; // axes that cut the dimension, most significant first; empty: the dimension is not cut
  int64_t chunk = 0;         // elements that each position holds; 0 exactly if `axes` is empty
  auto operator<=>(const DimSharding &) const = default;
};

/// The distribution of one tensor over a mesh. An axis, or overlapping sub-axes of one axis, may occur only once in
/// `dims` and `partial` together.
struct Sharding {
  std::vector<DimSharding> dims;            // one entry for each dimension of the tensor
  std::vector<AxisRef> partial;             // axes, sorted, over which the local tensors must still be combined
  ReduceKind partialKind = ReduceKind::Sum; // how partial local tensors are combined; Sum if `partial` is empty
  auto operator<=>(const Sharding &) const = default;

  /// Returns the sharding of a tensor of `rank` dimensions that every rank of the mesh holds completely.
  static Sharding replicated(size_t rank) { return {std::vector<DimSharding>(rank), {}, ReduceKind::Sum}; }
  /// Returns whether every rank holds the complete value: no dimension is cut and the value is not partial.
  bool isReplicated() const;
};

/// Returns the chunk of a dimension of `size` elements that `axes` cut evenly: ceil(size / shardCount(axes)).
int64_t defaultChunk(int64_t size, std::span<const AxisRef> axes);
/// Returns the number of elements that each rank allocates along a dimension of `size` elements, padding included.
int64_t localExtent(int64_t size, const DimSharding &dim);
/// Returns the shape of each rank's local tensor, padding included, for a tensor of shape `shape`.
Shape localShape(const Shape &shape, const Sharding &sharding);
/// A contiguous range of global indices along one dimension.
struct Extent {
  int64_t begin = 0, count = 0; // first global index, and number of indices
};
/// Returns the range of global indices that `rank` holds along a dimension of `size` elements, padding excluded. The
/// count is 0 if the rank holds only padding.
Extent validExtent(int64_t size, const DimSharding &dim, const Mesh &mesh, int64_t rank);
/// Returns whether some rank holds padding along a dimension of `size` elements.
bool isPadded(int64_t size, const DimSharding &dim);
/// Returns the canonical form of a sharding: adjacent sub-axes are merged (mergeParts) and `partial` is sorted. Two
/// shardings with the same canonical form place the same elements on every rank.
Sharding canonical(Sharding sharding);
/// Checks that `sharding` is valid for a tensor of shape `shape` on `mesh`. It must have one entry for each dimension;
/// its axes must exist, have more than one rank, and be used only once; the chunks must cover each dimension
/// (shardCount * chunk >= size; trailing positions may hold only padding); and `partial` must be sorted.
Status checkSharding(const Mesh &mesh, const Shape &shape, const Sharding &sharding);

/// Returns a sharding as text: `[{"x"}, {"x":(1)2, "y"}/32, {}] partial ["z"]`. Here `"x":(1)2` is a sub-axis and `/32`
/// a chunk that differs from defaultChunk. A reduction other than sum is printed as `partial(max) ["z"]`.
std::string toString(const Mesh &mesh, const Shape &shape, const Sharding &sharding);

} // namespace kerf
