// SPDX-License-Identifier: Apache-2.0
// The calls of a collective's plan (Host/Exchanges.h) on GPUs. A collective that NCCL computes with the same result is
// one call of NCCL (NativeCollectives.h).
#pragma once

#include "NativeCollectives.h"

namespace kerf::runtime::cuda {

/// One group of sends and receives, with the kernels before and after it.
struct Round {
  std::vector<Call> before, after; // pack, and unpack or add
  std::vector<Message> sends, receives;
};

/// The calls that compute collectives of a bucket as a whole; for each collective, nothing if it has rounds instead.
using NativeCalls = std::vector<std::optional<NativeCollective>>;

/// A collective or a bucket of collectives, ready to be enqueued.
struct GpuExchanges {
  std::vector<Round> rounds;
  NativeCalls native;          // enqueued in the first round
  std::vector<Members> groups; // for each collective
  int64_t scratchBytes = 0;
};

/// Plans a collective or a bucket for this rank. The addresses of the request may be null where only the scratch memory
/// is of interest. Fails as the host's plan does, and where a box has too many dimensions.
Result<GpuExchanges> gpuExchanges(const CollectiveRequest &request, const CollectiveOptions &options);

} // namespace kerf::runtime::cuda
