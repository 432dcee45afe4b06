// SPDX-License-Identifier: Apache-2.0
// The largest numbers of a row of f32, which the op top_k and compiled kernels pick.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kerf::runtime::kernels {

/// So many numbers are sorted by counting for each one how many are larger. Up to kMostLanes are read together.
inline constexpr int64_t kFewKeys = 160, kMostLanes = 8;
/// Returns the bytes of memory for the keys of a row of `size` numbers, and for few sorted ones.
constexpr int64_t bytesOfKeys(int64_t size) { return (size + kMostLanes + kFewKeys) * int64_t(sizeof(int64_t)); }
/// Returns the bytes of memory that pickLargest needs for a row of `size` numbers: also three for each group.
constexpr int64_t bytesToPick(int64_t size) { return bytesOfKeys(size) + 3 * size * int64_t(sizeof(int32_t)); }

/// Picks the `count` largest of a row's `size` numbers into `values`, the largest first and the first of equal ones
/// first, and their places into `places`. Returns false, and picks nothing, where a number is NaN. `memory` holds
/// bytesToPick(size) bytes and is aligned to 64.
bool pickLargest(const float *row, int64_t size, int64_t count, float *values, int32_t *places, std::byte *memory);

/// The same for a row of a compiled kernel, of at most package::kLongestRow numbers, NaN among them or not.
void pickLargestOfRow(const float *row, float *values, int32_t *places, int64_t size, int64_t count);

} // namespace kerf::runtime::kernels
