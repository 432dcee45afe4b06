// SPDX-License-Identifier: Apache-2.0
// A check that the devices of a cluster can compute in a given element type.
#pragma once

#include "kerf/CostModel/Cluster.h"

namespace kerf {

/// Checks that all devices of `cluster` compute in the element type `dtype`. Fails if an accelerator has no entry for
/// `dtype` in `peak_flops` of the cluster file; a V100, for example, has no bf16. CPUs compute in every type.
Status checkDtype(const Cluster &cluster, std::string_view dtype);

} // namespace kerf
