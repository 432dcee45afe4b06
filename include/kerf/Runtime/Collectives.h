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
///
/// Several collectives may be one: `bind` then has an operand and a result of each, and `others` the instructions after
/// the first. What can be sent is sent before anything is waited for, so that they pay a link's latency once; the bits
/// are those of one after the other. All ranks must bind the same ones in the same order.
struct CollectiveRequest {
  BindRequest bind;
  Communicator *communicator = nullptr; // may be null for collectiveScratchBytes
  int64_t tag = 0;
  std::vector<const package::Instruction *> others = {};
};

/// A collective has at most so many messages to each peer under way; several as one so many times more.
inline constexpr size_t kMessagesToPeer = 2;

Result<Kernel> bindCollective(const CollectiveRequest &request);
Result<int64_t> collectiveScratchBytes(const CollectiveRequest &request);

} // namespace kerf::runtime
