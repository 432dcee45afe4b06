// SPDX-License-Identifier: Apache-2.0
// The learning rate of each step: a warm-up, then a schedule.
#pragma once

#include <cstdint>
#include <string>

namespace kerf::runtime {

/// Steps are counted from 0. The rate rises from 0 to `peak` during the first `warmup` steps and then follows the
/// schedule, which a linear or cosine one ends with 0 at step `total`; it stays 0 from there on.
struct LearningRate {
  std::string schedule = "constant"; // constant, linear, cosine
  double peak = 1e-3;
  int64_t warmup = 0, total = 0;

  /// Returns what the rate at `step` is a multiple of `peak` by, from 0 to 1.
  double factor(int64_t step) const;
  double at(int64_t step) const { return peak * factor(step); }
};

} // namespace kerf::runtime
