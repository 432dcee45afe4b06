// SPDX-License-Identifier: Apache-2.0
// The timeline of a problem under a choice that changes one gradient at a time.
#pragma once

#include "kerf/Compression/Planner.h"

namespace kerf::compression {

/// Keeps the costs of each layer up to date while choices change.
class Evaluation {
public:
  explicit Evaluation(const PlanProblem &problem);

  void set(const OptionIndices &choice);
  void change(size_t gradient, int option);
  /// Returns F of the present choice; `sends`, if given, gets the time at which each layer's gradients are sent.
  double seconds(std::vector<SendTime> *sends = nullptr);
  const OptionIndices &choice() const { return now; }
  /// Returns the number of calls of seconds().
  int64_t evaluations() const { return count; }

private:
  void sumLayer(size_t layer);

  const PlanProblem &problem;
  std::vector<StreamLayer> layers;
  std::vector<std::pair<size_t, size_t>> gradientsOf; // for each layer, its range of gradients
  OptionIndices now;
  int64_t count = 0;
};

} // namespace kerf::compression
