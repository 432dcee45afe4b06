// SPDX-License-Identifier: Apache-2.0
// All ranks of a mesh in one process, as plain vectors: what the property tests hold the sharding algebra against.
// Padding is NaN, so that an element computed from padding shows.
#pragma once

#include "kerf/Sharding/Reshard.h"
#include <random>

namespace kerf::simulation {

/// A row-major array.
struct Array {
  Shape shape;
  std::vector<double> data;

  explicit Array(Shape shape, double value = 0);
  double &at(const Shape &index);
  double at(const Shape &index) const;
};

int64_t elements(const Shape &shape);
/// Calls visit with every index of the shape, in row-major order.
template <typename Visit> void forEachIndex(const Shape &shape, Visit visit) {
  Shape index(shape.size(), 0);
  for (int64_t n = elements(shape); n > 0; --n) {
    visit(static_cast<const Shape &>(index));
    for (size_t d = shape.size(); d-- > 0;) {
      if (++index[d] < shape[d])
        break;
      index[d] = 0;
    }
  }
}

/// What each rank holds: [rank].
using Ranks = std::vector<Array>;

/// Integers, so that sums are exact in any order.
Array randomArray(const Shape &shape, std::mt19937 &random);
double combine(ReduceKind kind, double a, double b);
/// The local tensors of `value`; where `sharding` is partial, random parts that combine to it.
Ranks place(const Mesh &mesh, const Array &value, const Sharding &sharding, std::mt19937 &random);
/// What `rank` means: its elements combined over the partial axes; the index of the global tensor, or nothing for
/// padding.
std::optional<Shape> globalIndex(const Mesh &mesh, const Shape &shape, const Sharding &sharding, int64_t rank,
                                 const Shape &local);
/// Empty when the local tensors hold `value` as `sharding` says, else what differs first.
std::string difference(const Mesh &mesh, const Array &value, const Sharding &sharding, const Ranks &ranks);
/// Carries out one step as Reshard.h says.
Ranks carryOut(const Mesh &mesh, const Shape &shape, const Sharding &before, const ReshardStep &step,
               const Ranks &ranks);

/// Up to three axes of sizes 1 to 6, at most `maxRanks` in all.
Mesh randomMesh(std::mt19937 &random, int64_t maxRanks);
/// Whole axes and parts of axes on random dimensions, some partial; chunks sometimes larger than needed.
Sharding randomSharding(const Mesh &mesh, const Shape &shape, std::mt19937 &random);
Shape randomShape(std::mt19937 &random, size_t maxDims);
int64_t pick(std::mt19937 &random, int64_t low, int64_t high);

} // namespace kerf::simulation
