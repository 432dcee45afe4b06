// SPDX-License-Identifier: Apache-2.0
// The collectives of the device level, once for every communicator. A reduction adds the ranks' values in order of
// their position in the group, for every element, whatever its size and algorithm: the bits depend neither on time nor
// on the communicator, and every rank of an all_reduce gets the same. Semantics: docs/operators.md; message plan:
// docs/runtime.md.
#pragma once

#include "kerf/Runtime/Communicator.h"
#include "kerf/Runtime/Kernels.h"

namespace kerf::runtime {

/// As for kernels; `bind.scratch` has collectiveScratchBytes. The collective uses the tags `tag` and `tag + 1`.
/// `bind.rank` is a rank of the whole mesh, microbatches included.
struct CollectiveRequest {
  BindRequest bind;
  Communicator *communicator = nullptr; // may be null for collectiveScratchBytes
  int64_t tag = 0;
};

/// A collective has at most so many messages to each peer under way.
inline constexpr size_t kMessagesToPeer = 2;

Result<Kernel> bindCollective(const CollectiveRequest &request);
Result<int64_t> collectiveScratchBytes(const CollectiveRequest &request);

} // namespace kerf::runtime
