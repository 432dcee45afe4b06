// SPDX-License-Identifier: Apache-2.0
// Numbers of a cluster file that were written in another unit than the file has. Private to CostModel.
#pragma once

#include <string>

namespace kerf {

/// What a number of a cluster file measures; each has one unit there.
enum class Quantity { Bytes, BytesPerSecond, FlopPerSecond, Seconds };

/// Says why no device or link has this much, with the unit and the value that was probably meant; "" where some may.
std::string implausible(Quantity quantity, const std::string &key, double value);

} // namespace kerf
