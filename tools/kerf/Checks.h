// SPDX-License-Identifier: Apache-2.0
// Validators for the values of command-line options, and the messages of a wrong command line.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <limits>

namespace kerf::tool {

/// Returns a validator that accepts whole numbers from `least` to `most`. Numbers beyond 64 bits are refused, not
/// clamped.
CLI::Validator wholeNumber(int64_t least, int64_t most = std::numeric_limits<int64_t>::max());
/// Returns a validator that accepts whole numbers from 0 to 2^64 - 1.
CLI::Validator unsignedNumber();
/// Returns a validator that accepts finite numbers from `least` to `most`.
CLI::Validator finiteNumber(double least, double most = std::numeric_limits<double>::max());
/// Returns a validator that accepts a number of bytes from 1 to 2^62 with or without a unit, such as "85899345920",
/// "80GiB" or "80 GB", and replaces the text by the number of bytes without a unit.
CLI::Validator numberOfBytes();

/// Returns a validator that accepts the path of a file that can be written.
CLI::Validator writableFile();

/// Prints the text that `error` stands for: the help or the version that the user asked for, or one error message on a
/// wrong command line. Returns the exit status of the program.
int printUsage(const CLI::App &app, const CLI::ParseError &error);

} // namespace kerf::tool
