// SPDX-License-Identifier: Apache-2.0
#include "kerf/Transforms/ReshardSeconds.h"

#include "kerf/Transforms/Work.h"
#include <algorithm>
#include <limits>

namespace kerf {

size_t ReshardSeconds::Hash::operator()(const std::vector<int64_t> &numbers) const {
  uint64_t hash = numbers.size();
  for (int64_t number : numbers) { // Fibonacci hashing
    hash = (hash ^ static_cast<uint64_t>(number)) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 29;
  }
  return hash;
}

static void addAxes(std::vector<int64_t> &numbers, const std::vector<AxisRef> &axes) {
  numbers.push_back(static_cast<int64_t>(axes.size()));
  for (const AxisRef &axis : axes)
    numbers.insert(numbers.end(), {axis.axis, axis.before, axis.size});
}

double ReshardSeconds::operator()(const Shape &shape, int64_t elementBytes, const Sharding &from, const Sharding &to) {
  int64_t uncutBytes = elementBytes; // of one element of the dimensions that are cut
  std::vector<std::vector<int64_t>> cut;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (from.dims[d].axes.empty() && to.dims[d].axes.empty()) {
      uncutBytes *= shape[d];
      continue;
    }
    std::vector<int64_t> &numbers = cut.emplace_back();
    numbers.reserve(16);
    numbers.push_back(shape[d]);
    for (const DimSharding *its : {&from.dims[d], &to.dims[d]}) {
      numbers.push_back(its->chunk);
      addAxes(numbers, its->axes);
    }
  }
  std::sort(cut.begin(), cut.end());
  std::vector<int64_t> key = {uncutBytes};
  key.reserve(64);
  for (const Sharding *its : {&from, &to}) {
    key.push_back(static_cast<int64_t>(its->partialKind));
    addAxes(key, its->partial);
  }
  for (const std::vector<int64_t> &numbers : cut)
    key.insert(key.end(), numbers.begin(), numbers.end());
  auto [found, isNew] = known.try_emplace(std::move(key), 0.0);
  if (!isNew)
    return found->second;
  auto seconds = canReshard(from, to) ? reshardPrice(collectives.mesh(), shape, elementBytes, from, to,
                                                     stepPriceFor(collectives), leastPrices)
                                      : Result<double>(Error{""});
  found->second = seconds ? *seconds : std::numeric_limits<double>::infinity();
  return found->second;
}

} // namespace kerf
