// SPDX-License-Identifier: Apache-2.0
#include "Simulation.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <limits>

namespace kerf::simulation {

static constexpr double kPadding = std::numeric_limits<double>::quiet_NaN();

int64_t elements(const Shape &shape) {
  int64_t product = 1;
  for (int64_t size : shape)
    product *= size;
  return product;
}

static int64_t offset(const Shape &shape, const Shape &index) {
  int64_t sum = 0;
  for (size_t d = 0; d < shape.size(); ++d)
    sum = sum * shape[d] + index[d];
  return sum;
}

Array::Array(Shape shape, double value) : shape(shape), data(elements(shape), value) {}
double &Array::at(const Shape &index) { return data[offset(shape, index)]; }
double Array::at(const Shape &index) const { return data[offset(shape, index)]; }

int64_t pick(std::mt19937 &random, int64_t low, int64_t high) {
  return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
}

Array randomArray(const Shape &shape, std::mt19937 &random) {
  Array array(shape);
  for (double &x : array.data)
    x = static_cast<double>(pick(random, -99, 99));
  return array;
}

double combine(ReduceKind kind, double a, double b) {
  if (std::isnan(a) || std::isnan(b))
    return kPadding;
  return kind == ReduceKind::Sum ? a + b : kind == ReduceKind::Max ? std::max(a, b) : std::min(a, b);
}

std::optional<Shape> globalIndex(const Mesh &mesh, const Shape &shape, const Sharding &sharding, int64_t rank,
                                 const Shape &local) {
  Shape index = local;
  for (size_t d = 0; d < shape.size(); ++d) {
    index[d] += position(mesh, sharding.dims[d].axes, rank) * sharding.dims[d].chunk;
    if (index[d] >= shape[d])
      return std::nullopt;
  }
  return index;
}

/// Returns random arrays that combine to `value`.
static std::vector<Array> partsOf(const Array &value, const Sharding &sharding, std::mt19937 &random) {
  std::vector<Array> parts(shardCount(sharding.partial), value);
  for (size_t i = 0; i < value.data.size(); ++i) {
    const size_t keeper = random() % parts.size();
    double others = 0;
    for (size_t p = 0; p < parts.size(); ++p) {
      if (p == keeper)
        continue;
      const double step = static_cast<double>(pick(random, 0, 50));
      if (sharding.partialKind == ReduceKind::Sum)
        others += parts[p].data[i] = step;
      else
        parts[p].data[i] += sharding.partialKind == ReduceKind::Max ? -step : step;
    }
    parts[keeper].data[i] -= others;
  }
  return parts;
}

Ranks place(const Mesh &mesh, const Array &value, const Sharding &sharding, std::mt19937 &random) {
  const std::vector<Array> parts = partsOf(value, sharding, random);
  Ranks ranks;
  for (int64_t rank = 0; rank < mesh.ranks(); ++rank) {
    Array local(localShape(value.shape, sharding), kPadding);
    forEachIndex(local.shape, [&](const Shape &index) {
      if (std::optional<Shape> global = globalIndex(mesh, value.shape, sharding, rank, index))
        local.at(index) = parts[position(mesh, sharding.partial, rank)].at(*global);
    });
    ranks.push_back(std::move(local));
  }
  return ranks;
}

std::string difference(const Mesh &mesh, const Array &value, const Sharding &sharding, const Ranks &ranks) {
  std::string text;
  for (int64_t rank = 0; rank < mesh.ranks(); ++rank) {
    if (ranks[rank].shape != localShape(value.shape, sharding))
      return fmt::format("rank {} holds {} instead of {}", rank, fmt::join(ranks[rank].shape, "x"),
                         fmt::join(localShape(value.shape, sharding), "x"));
    const std::vector<int64_t> group = groupOf(mesh, sharding.partial, rank);
    forEachIndex(ranks[rank].shape, [&](const Shape &index) {
      const std::optional<Shape> global = globalIndex(mesh, value.shape, sharding, rank, index);
      if (!global || !text.empty())
        return;
      double found = ranks[group[0]].at(index);
      for (size_t p = 1; p < group.size(); ++p)
        found = combine(sharding.partialKind, found, ranks[group[p]].at(index));
      if (!(found == value.at(*global)))
        text = fmt::format("rank {}: element {} is {} instead of {}", rank, *global, found, value.at(*global));
    });
  }
  return text;
}

/// Returns the elements [begin, begin + extent) of a dimension, with padding beyond the end of the array.
static Array window(const Array &array, int dim, int64_t begin, int64_t extent) {
  Shape shape = array.shape;
  shape[dim] = extent;
  Array result(shape, kPadding);
  forEachIndex(shape, [&](const Shape &index) {
    Shape source = index;
    source[dim] += begin;
    if (source[dim] < array.shape[dim])
      result.at(index) = array.at(source);
  });
  return result;
}

static Array concatenate(const std::vector<Array> &arrays, int dim) {
  Shape shape = arrays[0].shape;
  const int64_t each = shape[dim];
  shape[dim] *= static_cast<int64_t>(arrays.size());
  Array result(shape);
  forEachIndex(shape, [&](const Shape &index) {
    Shape source = index;
    source[dim] %= each;
    result.at(index) = arrays[index[dim] / each].at(source);
  });
  return result;
}

static Array reduceOver(const std::vector<int64_t> &group, const Ranks &ranks, ReduceKind kind) {
  Array sum = ranks[group[0]];
  for (size_t p = 1; p < group.size(); ++p)
    for (size_t i = 0; i < sum.data.size(); ++i)
      sum.data[i] = combine(kind, sum.data[i], ranks[group[p]].data[i]);
  return sum;
}

static Array carryOutOn(const Mesh &mesh, const Shape &shape, const Sharding &before, const ReshardStep &step,
                        const Ranks &ranks, int64_t rank) {
  const std::vector<int64_t> group = groupOf(mesh, step.axes, rank);
  const int64_t mine = position(mesh, step.axes, rank);
  const Shape localAfter = localShape(shape, step.after);
  std::vector<Array> received;
  switch (step.kind) {
  case ReshardStepKind::AllReduce:
    return reduceOver(group, ranks, before.partialKind);
  case ReshardStepKind::ReduceScatter:
    return window(reduceOver(group, ranks, before.partialKind), step.dim, mine * localAfter[step.dim],
                  localAfter[step.dim]);
  case ReshardStepKind::AllGather:
    for (int64_t other : group)
      received.push_back(ranks[other]);
    return window(concatenate(received, step.dim), step.dim, 0, localAfter[step.dim]);
  case ReshardStepKind::AllToAll:
    for (int64_t other : group)
      received.push_back(
          window(ranks[other], step.otherDim, mine * localAfter[step.otherDim], localAfter[step.otherDim]));
    return window(concatenate(received, step.dim), step.dim, 0, localAfter[step.dim]);
  case ReshardStepKind::CollectivePermute:
    return ranks[permuteSource(mesh, before, step.after, rank)];
  case ReshardStepKind::LocalSlice:
    return window(ranks[rank], step.dim, mine * localAfter[step.dim], localAfter[step.dim]);
  }
  return Array({});
}

Ranks carryOut(const Mesh &mesh, const Shape &shape, const Sharding &before, const ReshardStep &step,
               const Ranks &ranks) {
  Ranks result;
  for (int64_t rank = 0; rank < mesh.ranks(); ++rank)
    result.push_back(carryOutOn(mesh, shape, before, step, ranks, rank));
  return result;
}

Mesh randomMesh(std::mt19937 &random, int64_t maxRanks) {
  static const char *const kNames[] = {"x", "y", "z"};
  Mesh mesh;
  const int64_t count = pick(random, 1, 3);
  for (int64_t a = 0; a < count; ++a) {
    int64_t size = pick(random, 1, 6);
    if (mesh.ranks() * size > maxRanks)
      size = 1;
    mesh.axes.push_back({kNames[a], size});
  }
  return mesh;
}

Shape randomShape(std::mt19937 &random, size_t maxDims) {
  static constexpr int64_t kSizes[] = {1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 13};
  Shape shape(pick(random, 1, static_cast<int64_t>(maxDims)));
  for (int64_t &size : shape)
    size = kSizes[random() % std::size(kSizes)];
  return shape;
}

/// Returns the complete axis, or two sub-axes of it if its size is composite.
static std::vector<AxisRef> randomParts(const Mesh &mesh, int axis, std::mt19937 &random) {
  const int64_t size = mesh.axes[axis].size;
  if (size == 1)
    return {};
  const int64_t cut = pick(random, 2, size);
  if (cut == size || size % cut != 0 || pick(random, 0, 1))
    return {wholeAxis(mesh, axis)};
  return {{axis, 1, cut}, {axis, cut, size / cut}};
}

Sharding randomSharding(const Mesh &mesh, const Shape &shape, std::mt19937 &random) {
  std::vector<AxisRef> refs;
  for (size_t a = 0; a < mesh.axes.size(); ++a)
    for (const AxisRef &ref : randomParts(mesh, static_cast<int>(a), random))
      refs.push_back(ref);
  std::shuffle(refs.begin(), refs.end(), random);

  Sharding sharding = Sharding::replicated(shape.size());
  for (const AxisRef &ref : refs) {
    const int64_t where = pick(random, -2, static_cast<int64_t>(shape.size()) - 1); // -2: unused, -1: partial
    if (where == -1)
      sharding.partial.push_back(ref);
    else if (where >= 0)
      sharding.dims[where].axes.push_back(ref);
  }
  std::sort(sharding.partial.begin(), sharding.partial.end());
  if (!sharding.partial.empty())
    sharding.partialKind = static_cast<ReduceKind>(pick(random, 0, 2));
  for (size_t d = 0; d < shape.size(); ++d) {
    DimSharding &dim = sharding.dims[d];
    dim.chunk = defaultChunk(shape[d], dim.axes);
    if (!dim.axes.empty() && pick(random, 0, 3) == 0)
      dim.chunk += pick(random, 1, 3);
  }
  return sharding;
}

} // namespace kerf::simulation
