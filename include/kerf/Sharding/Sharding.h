// SPDX-License-Identifier: Apache-2.0
// How a tensor lies on a mesh of ranks. Plain data: no IR.
//
//   Mesh <"x"=4, "y"=2>, tensor of 10 x 6, sharding [{"x"}, {}] partial ["y"]
//     dimension 0 is cut into chunks of ceil(10/4) = 3: the ranks with x = 0,1,2,3 hold rows 0-2, 3-5, 6-8, 9-9.
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

using Shape = std::vector<int64_t>;

struct MeshAxis {
  std::string name;
  int64_t size = 1;
  bool operator==(const MeshAxis &) const = default;
};

/// A named grid of ranks, outermost axis first: along the last axis, ranks are neighbours (rank numbers differ by one).
struct Mesh {
  std::vector<MeshAxis> axes;
  bool operator==(const Mesh &) const = default;
  int64_t ranks() const;
  /// Index of the axis of that name, or -1.
  int find(std::string_view name) const;
  /// Coordinate of `rank` along `axis`.
  int64_t coordinate(int64_t rank, int axis) const;
};

/// A mesh axis or a part of one. An axis of size 12 = 2*3*2 has the sub-axis (2)3: `before` = 2, `size` = 3; its
/// coordinate is (coordinate / (axisSize / (before*size))) % size. The whole axis has before = 1 and its full size.
struct AxisRef {
  int axis = 0;
  int64_t before = 1;
  int64_t size = 1;
  auto operator<=>(const AxisRef &) const = default;
};

AxisRef wholeAxis(const Mesh &mesh, int axis);
int64_t coordinate(const Mesh &mesh, const AxisRef &ref, int64_t rank);
/// Position of `rank` in the mixed-radix number whose digits are `refs`, the first the most significant.
int64_t position(const Mesh &mesh, std::span<const AxisRef> refs, int64_t rank);
/// Product of the sizes.
int64_t ways(std::span<const AxisRef> refs);
/// The ranks that differ from `rank` at most along `refs`, ordered by position: the group of a collective.
std::vector<int64_t> groupOf(const Mesh &mesh, std::span<const AxisRef> refs, int64_t rank);
/// The rank at position `p` of that group: `rank` with its digits along `refs` replaced by those of `p`.
int64_t rankAt(const Mesh &mesh, std::span<const AxisRef> refs, int64_t rank, int64_t p);
/// Neighbouring parts of one axis written as one: {"x":(1)2, "x":(2)3} -> {"x":(1)6}. Positions stay what they are.
std::vector<AxisRef> mergeParts(std::span<const AxisRef> refs);

enum class ReduceKind { Sum, Max, Min };
std::string_view toString(ReduceKind kind);

/// One dimension: the axes that cut it (major first) and the elements that one position holds.
/// Position p holds [p*chunk, min((p+1)*chunk, size)). `chunk` is 0 exactly when `axes` is empty (the whole dimension).
struct DimSharding {
  std::vector<AxisRef> axes;
  int64_t chunk = 0;
  auto operator<=>(const DimSharding &) const = default;
};

/// How one tensor lies on the mesh. No axis (or overlapping parts of one) occurs twice, in `dims` and `partial`
/// together.
struct Sharding {
  std::vector<DimSharding> dims;
  /// Axes (sorted) over which the local tensors are still to be combined by `partialKind`.
  std::vector<AxisRef> partial;
  ReduceKind partialKind = ReduceKind::Sum; // Sum when `partial` is empty
  auto operator<=>(const Sharding &) const = default;

  static Sharding replicated(size_t rank) { return {std::vector<DimSharding>(rank), {}, ReduceKind::Sum}; }
  /// Every rank holds the whole value: nothing cut, nothing partial.
  bool isReplicated() const;
};

/// ceil(size / ways(axes)): the chunk that a dimension gets when nothing asks for another.
int64_t defaultChunk(int64_t size, std::span<const AxisRef> axes);
/// Local extent of a dimension of `size` (padding included).
int64_t localExtent(int64_t size, const DimSharding &dim);
Shape localShape(const Shape &shape, const Sharding &sharding);
/// First global index that `rank` holds, and how many of its local elements exist (0 when it holds only padding).
struct Extent {
  int64_t begin = 0, count = 0;
};
Extent validExtent(int64_t size, const DimSharding &dim, const Mesh &mesh, int64_t rank);
/// True when some rank holds padding along the dimension.
bool isPadded(int64_t size, const DimSharding &dim);
/// The same placement with `mergeParts` done in every dimension and in `partial`, and `partial` sorted: two shardings
/// with the same canonical form put the same elements on every rank.
Sharding canonical(Sharding sharding);
/// The tensor's rank is the sharding's, every part of an axis exists and is larger than 1 (an axis of size 1 never
/// occurs), no axis is used twice, chunks cover the size (ways * chunk >= size; trailing positions may hold nothing but
/// padding), `partial` is sorted.
Status checkSharding(const Mesh &mesh, const Shape &shape, const Sharding &sharding);

/// `[{"x"}, {"x":(1)2, "y"}/32, {}] partial ["z"]`: `/32` is a chunk that is not the default one; `partial(max) ["z"]`
/// where the kind is not sum.
std::string toString(const Mesh &mesh, const Shape &shape, const Sharding &sharding);

} // namespace kerf
