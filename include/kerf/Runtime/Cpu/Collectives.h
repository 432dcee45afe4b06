// SPDX-License-Identifier: Apache-2.0
// Collectives on tensors in host memory, written once for all communicators. A reduction adds the ranks' values of each
// element in the order of the ranks' positions in the process group, for every size and algorithm. The bits of a sum
// therefore depend neither on timing nor on the communicator, and all ranks of an all_reduce get the same bits.
// Semantics of the collectives: docs/operators.md; messages that each one sends: docs/runtime.md.
#pragma once

#include "kerf/Runtime/CollectiveBackend.h"
#include "kerf/Runtime/Communicator.h"
#include "kerf/Runtime/Cpu/Kernels.h"

namespace kerf::runtime {

/// A seed that, together with a collective's tag, selects a random order for adding the ranks' values, the same order
/// on all ranks. Absent: the values are added in the order of the ranks' positions in the process group.
using SumOrderSeed = std::optional<uint64_t>;

/// Binds a collective, or a bucket of several, to host memory. `request.bind.scratch` must have
/// collectiveScratchBytes bytes. A bucket gives the same bits as its collectives one after the other. `order` makes
/// reductions add the ranks' values in a random order, for tests of how results depend on it; absent: in the order of
/// the ranks. Fails if an attribute, type or shape is wrong.
Result<Kernel> bindCollective(const CollectiveRequest &request, Communicator &communicator,
                              const SumOrderSeed &order = {});
/// Returns the bytes of scratch memory that bindCollective needs for the same request. Fails where
/// bindCollective would fail.
Result<int64_t> collectiveScratchBytes(const CollectiveRequest &request);

} // namespace kerf::runtime
