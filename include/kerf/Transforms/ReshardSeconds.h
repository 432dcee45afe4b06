// SPDX-License-Identifier: Apache-2.0
// The seconds of many reshards on one mesh, each computed once.
#pragma once

#include "kerf/CostModel/Collectives.h"
#include "kerf/Sharding/ReshardPrice.h"
#include <unordered_map>

namespace kerf {

/// Computes secondsToReshard for one mesh. Reshards whose tensors differ only in the order of their dimensions, or in
/// how dimensions that neither sharding cuts make up their bytes, take the same seconds and are planned once.
class ReshardSeconds {
public:
  /// `collectives` must outlive the object.
  explicit ReshardSeconds(const CollectiveModel &collectives) : collectives(collectives) {}
  /// Returns secondsToReshard(collectives, shape, elementBytes, from, to).
  double operator()(const Shape &shape, int64_t elementBytes, const Sharding &from, const Sharding &to);

private:
  struct Hash {
    size_t operator()(const std::vector<int64_t> &numbers) const;
  };
  const CollectiveModel &collectives;
  LeastStepPrices leastPrices;
  std::unordered_map<std::vector<int64_t>, double, Hash> known; // by everything on which the seconds depend
};

} // namespace kerf
