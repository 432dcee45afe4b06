// SPDX-License-Identifier: Apache-2.0
// Copies between the memory of a device and that of its host.
#pragma once

#include <string_view>

namespace kerf::package {

inline constexpr std::string_view kOffload = "offload", kPrefetch = "prefetch";
inline bool isHostCopy(std::string_view op) { return op == kOffload || op == kPrefetch; }
/// A collective or such a copy: its result is there when it has been waited for.
bool isAsynchronous(std::string_view op);

} // namespace kerf::package
