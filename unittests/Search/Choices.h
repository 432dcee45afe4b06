// SPDX-License-Identifier: Apache-2.0
// The enumeration of all choices of a core.
#pragma once

#include "../../lib/Search/Core.h"
#include <functional>

namespace kerf::test {

/// Calls `visit` with every choice of labels, also those that take something forbidden.
inline void forEachChoice(const search::Core &core, const std::function<void(const search::Labels &)> &visit) {
  search::Labels labels(core.size(), 0);
  for (int i = 0; i < core.size();) {
    visit(labels);
    for (i = 0; i < core.size() && ++labels[i] == core.labels(i); ++i)
      labels[i] = 0;
  }
}

} // namespace kerf::test
