// SPDX-License-Identifier: Apache-2.0
// A pass over the list of steps of one stage: a product and the instructions that cuBLASLt can compute in the same call
// become one instruction with `parts` at the place of the product. The list
//   7: p = dot_general x, w      8: y = relu z      9: a, b = fused_add_gelu p, bias
// becomes
//   7: a, b = dot_general x, w + fused_add_gelu bias      8: y = relu z
// A device that has no such calls runs the parts one by one.
#pragma once

#include "kerf/Package/FlatProgram.h"

namespace kerf::steps {

/// Joins products with a bias, another tensor, GELU, GELU's gradient and its sums, or with the sums of a factor.
/// No instruction moves out of its task or past a message between stages. Returns the number of joined products.
int64_t joinProducts(package::FlatProgram &flat);

} // namespace kerf::steps
