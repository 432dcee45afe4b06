// SPDX-License-Identifier: Apache-2.0
// The seconds of many reshards on one mesh, each computed once.
#pragma once

#include "kerf/CostModel/Collectives.h"
#include "kerf/Sharding/ReshardPrice.h"
#include <algorithm>
#include <span>
#include <unordered_map>

namespace kerf {

/// Computes secondsToReshard for one mesh. Reshards whose tensors differ only in the order of their dimensions, or in
/// how dimensions that neither sharding cuts make up their bytes, take the same seconds and are planned once.
class ReshardSeconds {
public:
  /// `collectives` must outlive the object.
  explicit ReshardSeconds(const CollectiveModel &collectives);
  /// Returns secondsToReshard(collectives, shape, elementBytes, from, to).
  double operator()(const Shape &shape, int64_t elementBytes, const Sharding &from, const Sharding &to);

private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::span<const int64_t> numbers) const;
  };
  struct Equal {
    using is_transparent = void;
    bool operator()(std::span<const int64_t> a, std::span<const int64_t> b) const { return std::ranges::equal(a, b); }
  };
  const CollectiveModel &collectives;
  StepPrice price;
  LeastStepPrices leastPrices;
  std::unordered_map<std::vector<int64_t>, double, Hash, Equal> known; // by everything on which the seconds depend
};

} // namespace kerf
