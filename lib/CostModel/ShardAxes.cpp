// SPDX-License-Identifier: Apache-2.0
#include "kerf/CostModel/StepWork.h"

#include <algorithm>

kerf::ShardAxes kerf::shardAxes(const std::vector<AxisRef> &reduceAxes,
                                const std::optional<std::vector<AxisRef>> &shardingAxes) {
  if (!shardingAxes)
    return {reduceAxes, {}};
  ShardAxes shares;
  for (const AxisRef &ref : reduceAxes) {
    auto its = std::find_if(shardingAxes->begin(), shardingAxes->end(),
                            [&](const AxisRef &cut) { return cut.axis == ref.axis; });
    if (its == shardingAxes->end()) {
      shares.copies.push_back(ref);
      continue;
    }
    shares.cut.push_back(*its);
    if (its->size < ref.size)
      shares.copies.push_back({ref.axis, ref.before, ref.size / its->size});
  }
  return shares;
}
