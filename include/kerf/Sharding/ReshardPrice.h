// SPDX-License-Identifier: Apache-2.0
// The price of a reshard without its steps, for searches that price many thousand reshards and carry out few of them.
#pragma once

#include "kerf/Sharding/Reshard.h"
#include <map>
#include <vector>

namespace kerf {

/// Least prices of the steps of a reshard, which reshardPrice keeps between calls. An object serves one price function.
class LeastStepPrices {
public:
  /// Least prices of a step in which one axis takes part, whatever the other axes of the step are.
  struct Axis {
    double moved;  // the axis cuts a dimension before the step, and cuts it no longer after the step
    double gone;   // in the last such step, if the axis cuts nothing in the end
    double summed; // the value is partial over the axis before the step, and no longer after the step
  };
  /// The least prices for one tensor and one set of axes.
  struct Entry {
    std::vector<Axis> axes;
    double anyStep = 0; // of the last step that communicates, whatever its axes are
  };
  /// Returns the least prices for a tensor of `bytes` bytes that `axes` may cut into `shardsOfAxes` shards, and that is
  /// cut into `shardsOfGoal` shards in the end.
  const Entry &of(const std::vector<AxisRef> &axes, int64_t bytes, int64_t shardsOfAxes, int64_t shardsOfGoal,
                  const StepPrice &price);

private:
  std::map<std::vector<int64_t>, Entry> known;
};

/// Returns the total price of the steps that planReshard returns, in a fraction of its time: the search goes first to
/// where the least prices of the steps that are still needed (`known`) are low. `price` must read nothing of a step but
/// its kind and its axes, and must not decrease when the bytes grow. Where planReshard gives up because its search is
/// too long, the price may be that of a cheaper sequence.
Result<double> reshardPrice(const Mesh &mesh, const Shape &shape, int64_t elementBytes, const Sharding &from,
                            const Sharding &to, const StepPrice &price, LeastStepPrices &known);

} // namespace kerf
