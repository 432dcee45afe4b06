// SPDX-License-Identifier: Apache-2.0
// The last step of all ranks as a timeline file.
#pragma once

#include "kerf/Runtime/Communicator.h"
#include "kerf/Runtime/Executor.h"

namespace kerf::runtime {

/// Gathers the timelines of all ranks on rank 0, and returns them there as a file in the "Trace Event Format"
/// (chrome://tracing, Perfetto); returns an empty text on other ranks. Each rank is a process of the trace and each of
/// its streams a thread, as in the simulator's timeline. Times are in microseconds from the earliest start. Each
/// rank's label says how much of its communication was hidden behind computation. All ranks must call the function.
/// Uses tag 3.
Result<std::string> chromeTrace(Communicator &communicator, int64_t stage, const std::vector<Span> &spans,
                                const OverlapTimes &overlap);

} // namespace kerf::runtime
