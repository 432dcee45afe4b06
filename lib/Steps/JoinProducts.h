// SPDX-License-Identifier: Apache-2.0
// A pass over the list of steps of one stage: a product and the instructions that cuBLASLt can compute in the same call
// become a group, whose members follow each other. The list
//   7: p = dot_general x, w      8: y = relu z      9: a, b = fused_add_gelu p, bias
// becomes
//   7: p = dot_general x, w      9: a, b = fused_add_gelu p, bias      8: y = relu z
// with a mark at instruction 7. A device that has no such calls runs the same instructions one by one.
#pragma once

#include "kerf/Package/FlatProgram.h"

namespace kerf::steps {

/// Marks groups of a product with its bias and GELU, with GELU's gradient and its sums, or with the sums of a factor.
/// No member moves out of its task or past a message between stages. Returns the number of groups.
int64_t joinProducts(package::FlatProgram &flat);

} // namespace kerf::steps
