// SPDX-License-Identifier: Apache-2.0
// The last step as a timeline of all ranks.
#pragma once

#include "kerf/Runtime/Communicator.h"
#include "kerf/Runtime/Executor.h"

namespace kerf::runtime {

/// Every rank calls it with its own spans; rank 0 gets the whole file (the others an empty text). In the "Trace Event
/// Format", as the simulated timeline: a process for each rank, a thread for each of its streams, microseconds from
/// the earliest start; a rank's label says how much of its communication was hidden. Tag 3.
Result<std::string> chromeTrace(Communicator &communicator, int64_t stage, const std::vector<Span> &spans,
                                const Overlap &overlap);

} // namespace kerf::runtime
