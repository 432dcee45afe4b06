// SPDX-License-Identifier: Apache-2.0
// Collectives and messages between NPUs over HCCL.
#pragma once

#include "Context.h"
#include "kerf/Runtime/CollectiveBackend.h"

namespace kerf::runtime::ascend {

/// Returns the bytes of scratch memory that a collective on the NPU needs.
Result<int64_t> collectiveScratchBytes(const CollectiveRequest &request, const CollectiveOptions &options);

/// Creates the object that binds a rank's collectives. HCCL is loaded where there are several ranks; `deterministic`
/// asks it for the same bits in all runs.
Result<std::unique_ptr<CollectiveBackend>> createAscendCollectives(const std::shared_ptr<Context> &context,
                                                                   Communicator &communicator,
                                                                   const CollectiveOptions &options,
                                                                   bool deterministic);

} // namespace kerf::runtime::ascend
