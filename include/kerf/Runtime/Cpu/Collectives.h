// SPDX-License-Identifier: Apache-2.0
// Collectives of tensors in the host's memory, once for every communicator. A reduction adds the ranks' values in order
// of their position in the group, for every element, whatever its size and algorithm: the bits depend neither on time
// nor on the communicator, and every rank of an all_reduce gets the same. Semantics: docs/operators.md; message plan:
// docs/runtime.md.
#pragma once

#include "kerf/Runtime/CollectiveBackend.h"
#include "kerf/Runtime/Communicator.h"
#include "kerf/Runtime/Cpu/Kernels.h"

namespace kerf::runtime {

/// A seed: sums are added in an order that it and the collective's tag choose, the same on all ranks. None: in order of
/// position.
using SumOrder = std::optional<uint64_t>;

/// `request.bind.scratch` has collectiveScratchBytes; its addresses are the host's. The bits of several collectives
/// that are one are those of one after the other.
Result<Kernel> bindCollective(const CollectiveRequest &request, Communicator &communicator, const SumOrder &order = {});
Result<int64_t> collectiveScratchBytes(const CollectiveRequest &request);

} // namespace kerf::runtime
