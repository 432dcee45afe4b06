// SPDX-License-Identifier: Apache-2.0
// Detection of numbers in a cluster file that were written in the wrong unit, for example GB/s instead of bytes/s.
// Private to CostModel.
#pragma once

#include <string>

namespace kerf {

/// The physical quantities that numbers of a cluster file measure; each has one unit in the file.
enum class Quantity { Bytes, BytesPerSecond, FlopPerSecond, Seconds };

/// Returns an error message if `value` is so large or small that no device or network link can have it; the message
/// names the unit of the file and the value that was probably meant. Returns "" for plausible values. `key` is the key
/// of the cluster file.
std::string implausible(Quantity quantity, const std::string &key, double value);

} // namespace kerf
