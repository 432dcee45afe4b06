// SPDX-License-Identifier: Apache-2.0
// Collectives and messages between GPUs over NCCL.
#pragma once

#include "Context.h"
#include "kerf/Runtime/CollectiveBackend.h"

namespace kerf::runtime::cuda {

/// Returns the bytes of scratch memory that a collective on the GPU needs.
Result<int64_t> collectiveScratchBytes(const CollectiveRequest &request, const CollectiveOptions &options);

/// Creates the object that binds a rank's collectives. NCCL is loaded where there are several ranks.
Result<std::unique_ptr<CollectiveBackend>> createCudaCollectives(const std::shared_ptr<Context> &context,
                                                                 Modules &modules, Communicator &communicator,
                                                                 const CollectiveOptions &options);

} // namespace kerf::runtime::cuda
