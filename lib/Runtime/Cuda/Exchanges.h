// SPDX-License-Identifier: Apache-2.0
// The plan of a collective on GPUs. A collective that NCCL computes with the same result is one call of NCCL
// (NativeCollectives.h). Any other has the phases that the host's collectives have (Cpu/CollectivePhases.h): boxes of
// the operand are packed, NCCL exchanges them in one group of sends and receives, and they are unpacked or added in the
// order of the ranks. Large boxes go piece by piece, in several rounds that use the same scratch memory.
#pragma once

#include "NativeCollectives.h"
#include "kerf/Runtime/CollectiveBackend.h"

namespace kerf::runtime::cuda {

/// One message of a round: bytes of the device's memory and the peer's position in the process group. The collectives
/// of a bucket may have different groups.
struct Message {
  std::byte *data = nullptr;
  int64_t bytes = 0;
  int peer = 0;
  size_t group = 0; // number of the collective in the bucket, whose group it is
};

/// One group of sends and receives, with the kernels before and after it.
struct Round {
  std::vector<Call> before, after; // pack, and unpack or add
  std::vector<Message> sends, receives;
};

/// The calls that compute collectives of a bucket as a whole; for each collective, nothing if it has rounds instead.
using NativeCalls = std::vector<std::optional<NativeCollective>>;

/// The ranks of a process group, in the order of their positions.
using Members = std::vector<int64_t>;

/// A collective or a bucket of collectives, ready to be enqueued.
struct ExchangePlan {
  std::vector<Round> rounds;
  NativeCalls native;          // enqueued in the first round
  std::vector<Members> groups; // for each collective
  int64_t scratchBytes = 0;
};

/// Plans a collective or a bucket for this rank. The addresses of the request may be null where only the scratch memory
/// is of interest. Fails as the host's plan does, and where a box has too many dimensions.
Result<ExchangePlan> planExchanges(const CollectiveRequest &request, const CollectiveOptions &options);

} // namespace kerf::runtime::cuda
