// SPDX-License-Identifier: Apache-2.0
// The static memory plan: every value of a step at a fixed offset of one arena, values that are never alive together
// sharing bytes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace kerf::runtime {

/// A buffer that is alive from position `begin` to position `end` of the step, both included.
struct Lifetime {
  int64_t bytes = 0, begin = 0, end = 0;
};

struct Placement {
  std::vector<int64_t> offsets;
  int64_t bytes = 0; // of the arena
};

/// Largest first, each in the tightest gap between the buffers already placed that are alive with it, else above them
/// (greedy by size: Pisarchyk and Lee, Efficient Memory Management for Deep Neural Net Inference, 2020). Offsets are
/// multiples of `alignment`.
Placement placeBuffers(std::span<const Lifetime> buffers, int64_t alignment);

/// Bytes alive at each of the `positions` positions: their maximum is the least that any placement needs.
std::vector<int64_t> liveBytes(std::span<const Lifetime> buffers, int64_t positions, int64_t alignment);

} // namespace kerf::runtime
