// SPDX-License-Identifier: Apache-2.0
// What the values of options have to be, with messages that a person reads.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <limits>

namespace kerf::tool {

/// Accepts whole numbers from `least` to `most`; what 64 bits don't hold is refused, not taken as the largest.
CLI::Validator wholeNumber(int64_t least, int64_t most = std::numeric_limits<int64_t>::max());
/// Accepts whole numbers from 0 to 2^64 - 1.
CLI::Validator unsignedNumber();
/// Accepts finite numbers from `least` to `most`.
CLI::Validator finiteNumber(double least, double most = std::numeric_limits<double>::max());
/// Accepts a number of bytes above 0 with or without a unit, "85899345920", "80GiB" or "80 GB", and puts the number
/// without it in its place.
CLI::Validator numberOfBytes();

/// Accepts the name of a file that can be written.
CLI::Validator writableFile();

/// Prints help or version, or what is wrong with the command line as the one message of a failed command. Returns the
/// exit status.
int tellUsage(const CLI::App &app, const CLI::ParseError &error);

} // namespace kerf::tool
