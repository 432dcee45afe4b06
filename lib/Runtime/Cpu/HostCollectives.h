// SPDX-License-Identifier: Apache-2.0
// Collectives and messages for devices whose memory the host can read: the host sends, receives and adds.
#pragma once

#include "HostStreams.h"
#include "kerf/Runtime/CollectiveBackend.h"
#include "kerf/Runtime/Cpu/Collectives.h"

namespace kerf::runtime {

/// Returns the host address of `bytes` bytes at a device address. Fails if the bytes are not device memory.
using HostAddress = std::function<Result<void *>(void *address, int64_t bytes)>;

/// Creates collectives that the host runs. `order` selects the order of sums (SumOrderSeed), and `hostAddress`
/// translates device addresses. A failure is recorded in `firstFault`, and immediately ends the run on all ranks,
/// because other ranks may be waiting for this one.
std::unique_ptr<CollectiveBackend> createHostCollectives(Communicator &communicator, FirstFault &firstFault,
                                                         const SumOrderSeed &order, HostAddress hostAddress);

} // namespace kerf::runtime
