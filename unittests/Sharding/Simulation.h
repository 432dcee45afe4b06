// SPDX-License-Identifier: Apache-2.0
// A simulation of all ranks of a mesh in one process, with plain vectors, against which property tests compare the
// sharding algebra. Padding is NaN, so that an element computed from padding is detected.
#pragma once

#include "kerf/Sharding/Reshard.h"
#include <random>

namespace kerf::simulation {

/// The mesh of the worked examples.
inline const Mesh kMesh{{{"x", 4}, {"y", 2}}};

/// An array in row-major order.
struct Array {
  Shape shape;
  std::vector<double> data;

  explicit Array(Shape shape, double value = 0);
  double &at(const Shape &index);
  double at(const Shape &index) const;
};

int64_t elements(const Shape &shape);
/// Calls `visit` with every index of the shape, in row-major order.
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

/// The local tensor of each rank, indexed by rank.
using Ranks = std::vector<Array>;

/// Returns an array of random integers, so that sums are exact in any order.
Array randomArray(const Shape &shape, std::mt19937 &random);
/// Returns the sum, maximum or minimum of `a` and `b`.
double combine(ReduceKind kind, double a, double b);
/// Returns the local tensors of `value`; if `sharding` is partial, they are random summands (or operands of max, min)
/// of it.
Ranks place(const Mesh &mesh, const Array &value, const Sharding &sharding, std::mt19937 &random);
/// Returns the index in the global tensor of the element at index `local` of the local tensor of `rank`, or nothing if
/// the element is padding.
std::optional<Shape> globalIndex(const Mesh &mesh, const Shape &shape, const Sharding &sharding, int64_t rank,
                                 const Shape &local);
/// Returns "" if the local tensors hold `value` as `sharding` says, otherwise the first difference.
std::string difference(const Mesh &mesh, const Array &value, const Sharding &sharding, const Ranks &ranks);
/// Executes one reshard step as defined in Reshard.h.
Ranks carryOut(const Mesh &mesh, const Shape &shape, const Sharding &before, const ReshardStep &step,
               const Ranks &ranks);

/// Returns a random mesh of up to three axes of sizes 1 to 6 with at most `maxRanks` ranks.
Mesh randomMesh(std::mt19937 &random, int64_t maxRanks);
/// Returns a random sharding: complete axes and sub-axes on random dimensions, some partial; chunks are sometimes
/// larger than needed.
Sharding randomSharding(const Mesh &mesh, const Shape &shape, std::mt19937 &random);
/// Returns a random shape with at most `maxDims` dimensions.
Shape randomShape(std::mt19937 &random, size_t maxDims);
/// Returns a random number from `low` to `high`, both included.
int64_t pick(std::mt19937 &random, int64_t low, int64_t high);

} // namespace kerf::simulation
