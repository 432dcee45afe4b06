// SPDX-License-Identifier: Apache-2.0
#include "kerf/Transforms/ReshardSeconds.h"

#include "kerf/Transforms/Work.h"
#include "llvm/ADT/SmallVector.h"
#include <algorithm>
#include <limits>

namespace kerf {

ReshardSeconds::ReshardSeconds(const CollectiveModel &collectives)
    : collectives(collectives), price(stepPriceFor(collectives)) {}

size_t ReshardSeconds::Hash::operator()(std::span<const int64_t> numbers) const {
  uint64_t hash = numbers.size();
  for (int64_t number : numbers) { // Fibonacci hashing
    hash = (hash ^ static_cast<uint64_t>(number)) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 29;
  }
  return hash;
}

static void addAxes(llvm::SmallVectorImpl<int64_t> &numbers, const std::vector<AxisRef> &axes) {
  numbers.push_back(static_cast<int64_t>(axes.size()));
  for (const AxisRef &axis : axes)
    numbers.append({axis.axis, axis.before, axis.size});
}

double ReshardSeconds::operator()(const Shape &shape, int64_t elementBytes, const Sharding &from, const Sharding &to) {
  int64_t uncutBytes = elementBytes;                        // of one element of the dimensions that are cut
  llvm::SmallVector<llvm::SmallVector<int64_t, 14>, 4> cut; // on the stack: most calls find a known reshard
  for (size_t d = 0; d < shape.size(); ++d) {
    if (from.dims[d].axes.empty() && to.dims[d].axes.empty()) {
      uncutBytes *= shape[d];
      continue;
    }
    llvm::SmallVectorImpl<int64_t> &numbers = cut.emplace_back();
    numbers.push_back(shape[d]);
    for (const DimSharding *its : {&from.dims[d], &to.dims[d]}) {
      numbers.push_back(its->chunk);
      addAxes(numbers, its->axes);
    }
  }
  std::sort(cut.begin(), cut.end());
  llvm::SmallVector<int64_t, 64> key = {uncutBytes};
  for (const Sharding *its : {&from, &to}) {
    key.push_back(static_cast<int64_t>(its->partialKind));
    addAxes(key, its->partial);
  }
  for (const auto &numbers : cut)
    key.append(numbers.begin(), numbers.end());
  std::span<const int64_t> numbers(key.data(), key.size());
  if (auto found = known.find(numbers); found != known.end())
    return found->second;
  auto seconds = canReshard(from, to)
                     ? reshardPrice(collectives.mesh(), shape, elementBytes, from, to, price, leastPrices)
                     : Result<double>(Error{""});
  double its = seconds ? *seconds : std::numeric_limits<double>::infinity();
  known.emplace(std::vector<int64_t>(key.begin(), key.end()), its);
  return its;
}

} // namespace kerf
