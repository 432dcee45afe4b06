// SPDX-License-Identifier: Apache-2.0
// The states of compressed gradients: errors of encodings, momentum before encoding, factors. Each rank has its own
// part, so they do not fit another number of ranks.
#pragma once

#include "kerf/Package/Package.h"

namespace kerf::package {

/// Name prefix of the states that the compression of gradients keeps: "compression_error/NAME" and others.
inline constexpr std::string_view kCompressionPrefix = "compression_";
/// Returns true if `arg` is a state whose name begins with kCompressionPrefix. A run that resumes a checkpoint without
/// it, or with another number of ranks, starts it from zeros.
inline bool isCompressionState(const Arg &arg) {
  return arg.kind == ArgKind::State && arg.name.starts_with(kCompressionPrefix);
}

} // namespace kerf::package
