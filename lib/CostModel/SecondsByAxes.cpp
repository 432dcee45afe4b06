// SPDX-License-Identifier: Apache-2.0
#include "SecondsByAxes.h"

namespace kerf::cost {

AxesKey axesKey(std::span<const AxisRef> refs) {
  uint64_t key = 0;
  int bits = 0;
  for (const AxisRef &ref : refs) {
    const uint64_t axis = static_cast<uint64_t>(ref.axis) + 1;
    bool known = false;
    for (uint64_t rest = key; rest; rest >>= 8)
      known |= (rest & 0xff) == axis;
    if (known || bits == 64)
      continue;
    key |= axis << bits;
    bits += 8;
  }
  return static_cast<AxesKey>(key);
}

std::string nameOf(AxesKey axes, const Mesh &mesh) {
  if (axes == AxesKey::Host)
    return "host";
  std::string names;
  for (auto rest = static_cast<uint64_t>(axes); rest; rest >>= 8)
    names += (names.empty() ? "" : "+") + mesh.axes[(rest & 0xff) - 1].name;
  return names;
}

std::map<std::string, double> SecondsByAxes::named(const Mesh &mesh) const {
  std::map<std::string, double> byName;
  for (const auto &[axes, seconds] : entries)
    byName[nameOf(axes, mesh)] += seconds;
  return byName;
}

} // namespace kerf::cost
