// SPDX-License-Identifier: Apache-2.0
// Collectives and messages of devices whose memory the host can read: the host sends, receives and adds.
#pragma once

#include "HostStreams.h"
#include "kerf/Runtime/CollectiveBackend.h"
#include "kerf/Runtime/Cpu/Collectives.h"

namespace kerf::runtime {

/// Returns where in the host's memory `bytes` bytes at an address of the device lie.
using HostAddress = std::function<Result<void *>(void *address, int64_t bytes)>;

/// A failure is told to all ranks at once, before the stream's host knows of it: others may be waiting for this rank.
std::unique_ptr<CollectiveBackend> createHostCollectives(Communicator &communicator, FaultWord &word,
                                                         const SumOrder &order, HostAddress hostAddress);

} // namespace kerf::runtime
