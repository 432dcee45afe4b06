// SPDX-License-Identifier: Apache-2.0
// Normally distributed random numbers.
#pragma once

#include <cstdint>

namespace kerf::runtime {

/// Returns the normally distributed number that belongs to two random words (Box and Muller's method). Each word is
/// moved to the middle of its interval, so that the logarithm is finite.
double normalOf(uint32_t a, uint32_t b);

/// Writes float(scale * normalOf(words 0 and 1 of the counter (low + i, high) of Philox under `key`)) to out[i] for
/// each i in [0, count). The bits are the same on all processors on which std::log and std::cos give the same bits.
void normalRow(uint64_t low, uint64_t high, uint64_t key, double scale, int64_t count, float *out);

} // namespace kerf::runtime
