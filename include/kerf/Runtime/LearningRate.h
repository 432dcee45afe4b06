// SPDX-License-Identifier: Apache-2.0
// The learning rate of each training step: a linear warm-up followed by a schedule.
#pragma once

#include <cstdint>
#include <string>

namespace kerf::runtime {

/// A learning rate schedule over the steps of a training, which are counted from 0. The rate rises linearly from 0 to
/// `peak` during the first `warmup` steps and then follows `schedule`. A linear or cosine schedule reaches 0 at step
/// `total`, and the rate stays 0 after that step.
struct LearningRate {
  std::string schedule = "constant"; // "constant", "linear" or "cosine"
  double peak = 1e-3;                // the highest learning rate
  int64_t warmup = 0;                // number of warm-up steps
  int64_t total = 0;                 // the step at which a linear or cosine schedule reaches 0; unused by "constant"

  /// Returns the learning rate of step `step` as a fraction of `peak`, from 0 to 1.
  double factor(int64_t step) const;
  /// Returns the learning rate of step `step`.
  double at(int64_t step) const { return peak * factor(step); }
};

} // namespace kerf::runtime
