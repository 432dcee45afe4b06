// SPDX-License-Identifier: Apache-2.0
// The static memory plan: each buffer of a step gets a fixed offset in one arena, and buffers whose lifetimes do not
// overlap may share bytes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace kerf::runtime {

/// The size of a buffer, and the positions of the step from `begin` to `end` (both included) during which it is alive.
struct Lifetime {
  int64_t bytes = 0, begin = 0, end = 0;
};

/// The offsets of buffers in an arena.
struct BufferPlacement {
  std::vector<int64_t> offsets; // for each buffer: its byte offset in the arena
  int64_t bytes = 0;            // size of the arena
};

/// Computes offsets such that no two buffers with overlapping lifetimes share bytes. Buffers are placed from the
/// largest to the smallest, each in the smallest sufficient gap between the placed buffers that are alive with it, or
/// above all of them (greedy by size: Pisarchyk and Lee, Efficient Memory Management for Deep Neural Net Inference,
/// 2020). Offsets are multiples of `alignment` bytes.
BufferPlacement placeBuffers(std::span<const Lifetime> buffers, int64_t alignment);

/// Returns the bytes of the buffers that are alive at each of `positions` positions, sizes rounded up to `alignment`.
/// The maximum is a lower bound of the arena's size.
std::vector<int64_t> liveBytes(std::span<const Lifetime> buffers, int64_t positions, int64_t alignment);

} // namespace kerf::runtime
