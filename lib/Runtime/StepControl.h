// SPDX-License-Identifier: Apache-2.0
// The flags that ranks exchange at the end of a step, so that all of them stop, skip or go on after the same step.
#pragma once

#include "kerf/Runtime/Communicator.h"
#include <cstdint>

namespace kerf::runtime {

inline constexpr uint64_t kInterruptedFlag = 1; // the rank's process has received SIGINT
inline constexpr uint64_t kTerminatedFlag = 2;  // the rank's process has received SIGTERM
inline constexpr uint64_t kNonfiniteFlag = 4;   // the step's loss, or a tensor that it updated, is infinite or NaN

/// Returns the bitwise or of all ranks' flags. All ranks must call it at the same point of the program. It allocates
/// nothing, and its messages have the tag `tag`.
Result<uint64_t> combineFlags(Communicator &communicator, uint64_t flags, int64_t tag);

/// Returns the flag for the signal SIGINT or SIGTERM; 0 for any other signal.
uint64_t flagOfSignal(int signal);
/// Returns the signal that ends the run: SIGTERM or else SIGINT if its flag is set, otherwise 0.
int signalOfFlags(uint64_t flags);

} // namespace kerf::runtime
