// SPDX-License-Identifier: Apache-2.0
// Seconds of communication, listed by the mesh axes over which it runs. A search prices millions of tasks, so the axes
// are a number here; reports ask for their names.
#pragma once

#include "kerf/Sharding/Sharding.h"
#include <algorithm>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace kerf::cost {

/// A list of mesh axes, each at most once: one byte for each axis, the index of the axis plus 1. The first axis has the
/// lowest byte. Meshes of whole plans have five axes; of more than eight, the list has the first eight.
enum class AxesKey : uint64_t {
  None = 0,    // no axis
  Host = 0xff, // the link to the host's memory
};

/// Returns the key of the axes of `refs`, in the order in which they occur first.
AxesKey axesKey(std::span<const AxisRef> refs);

/// Returns the names of the axes joined by "+", such as "data+context".
std::string nameOf(AxesKey axes, const Mesh &mesh);

/// Seconds by mesh axes. Entries keep the order in which they were added first.
class SecondsByAxes {
public:
  /// Returns the seconds over `axes`, which are 0 at first.
  double &operator[](AxesKey axes) {
    auto known = std::find_if(entries.begin(), entries.end(), [&](const auto &one) { return one.first == axes; });
    return known != entries.end() ? known->second : entries.emplace_back(axes, 0.0).second;
  }
  /// Adds the seconds of `other`, `times` times.
  void add(const SecondsByAxes &other, double times = 1) {
    for (const auto &[axes, seconds] : other.entries)
      (*this)[axes] += times * seconds;
  }
  /// Returns the sum of the seconds of all axes.
  double total() const {
    double sum = 0;
    for (const auto &[axes, seconds] : entries)
      sum += seconds;
    return sum;
  }
  /// Returns the seconds by the names of the axes.
  std::map<std::string, double> named(const Mesh &mesh) const;

private:
  std::vector<std::pair<AxesKey, double>> entries;
};

} // namespace kerf::cost
