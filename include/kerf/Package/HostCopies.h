// SPDX-License-Identifier: Apache-2.0

// The ops that copy values between device memory and host memory, for activation offloading.
#pragma once

#include <string_view>

namespace kerf::package {

/// Names of the copy ops: `offload` copies a value from device memory to host memory, `prefetch` copies it back.
inline constexpr std::string_view kOffload = "offload", kPrefetch = "prefetch";
/// Returns true if `op` is `offload` or `prefetch`.
inline bool isHostCopy(std::string_view op) { return op == kOffload || op == kPrefetch; }
/// Returns true if `op` is a collective or a host copy: its result may be used only after a `wait` on it.
bool isAsynchronous(std::string_view op);

} // namespace kerf::package
