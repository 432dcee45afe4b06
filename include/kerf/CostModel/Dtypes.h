// SPDX-License-Identifier: Apache-2.0
// Lists the element types that a device computes in.
#pragma once

#include "kerf/CostModel/Cluster.h"

namespace kerf {

/// Refuses a type that an accelerator of `cluster` has no figure for in `peak_flops`: a V100 has no bf16. Processors
/// compute in every type.
Status checkDtype(const Cluster &cluster, std::string_view dtype);

} // namespace kerf
