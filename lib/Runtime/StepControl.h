// SPDX-License-Identifier: Apache-2.0
// What the ranks tell each other at the end of a step, so that all of them stop, skip or go on after the same one.
#pragma once

#include "kerf/Runtime/Communicator.h"
#include <cstdint>

namespace kerf::runtime {

inline constexpr uint64_t kInterruptedFlag = 1; // the rank's process has received SIGINT
inline constexpr uint64_t kTerminatedFlag = 2;  // SIGTERM
inline constexpr uint64_t kNonfiniteFlag = 4;   // the step's loss or what it updated is infinite or no number

/// Returns the flags that any rank has raised. Every rank calls it at the same place; it allocates nothing. Messages
/// have `tag`.
Result<uint64_t> combineFlags(Communicator &communicator, uint64_t flags, int64_t tag);

uint64_t flagOfSignal(int signal);
/// Returns the signal that ends the run: SIGTERM, SIGINT, or 0 for none.
int signalOfFlags(uint64_t flags);

} // namespace kerf::runtime
