// SPDX-License-Identifier: Apache-2.0
// The largest numbers of a row of f32, which the op top_k and compiled kernels pick.
#pragma once

#include <cstdint>
#include <memory>

namespace kerf::runtime::kernels {

/// Returns the bytes of memory that pickLargest needs for a row of `size` numbers.
int64_t bytesToPick(int64_t size);

/// Picks the `count` largest of a row's `size` numbers into `values`, the largest first and the first of equal ones
/// first, and their places into `places`. Returns false, and picks nothing, where a number is NaN. `memory` holds
/// bytesToPick(size) bytes and is aligned to 64.
bool pickLargest(const float *row, int64_t size, int64_t count, float *values, int32_t *places, std::byte *memory);

} // namespace kerf::runtime::kernels
