// SPDX-License-Identifier: Apache-2.0
#include "kerf/Runtime/LearningRate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace kerf::runtime {

// The schedules are those of Hugging Face's get_*_schedule_with_warmup, except that the rate stays 0 after
// a schedule's end.
double LearningRate::factor(int64_t step) const {
  if (step < warmup)
    return static_cast<double>(step) / static_cast<double>(warmup);
  double done = static_cast<double>(step - warmup) / static_cast<double>(std::max<int64_t>(1, total - warmup));
  done = std::min(1.0, done);
  if (schedule == "linear")
    return 1 - done;
  if (schedule == "cosine")
    return 0.5 * (1 + std::cos(std::numbers::pi * done));
  return 1;
}

} // namespace kerf::runtime
