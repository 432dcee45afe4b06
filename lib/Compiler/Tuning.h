// SPDX-License-Identifier: Apache-2.0
// Constants of the searches that the compiler starts, besides those of the solver (lib/Search/Tuning.h) and of the
// search over whole plans (lib/PlanSearch/Tuning.h). Other values were compared only where the comment says so.
#pragma once

#include <cstdint>

namespace kerf {

// Limits for the sizes of mesh axes that the searches try.

/// The least number of sequence positions for each rank of the axis "context". With 1,024 and 512, plans for slow
/// networks were up to 6 and 5 % slower; with 64, no plan of eight jobs was faster.
inline constexpr int64_t kMinContextTokensPerRank = 256;
/// The most sub-axes (modelSubAxisSizes) of a size of "model" that does not divide the heads. Layouts with three of
/// them take five times as long to compute, and the third shards no attention.
inline constexpr size_t kMostUnevenSubAxes = 2;
/// The least number of convolution channels for each rank of the axis "model": the number that a matrix unit processes
/// at once. With fewer channels, sharding saves no time.
inline constexpr int64_t kMinChannelsPerRank = 8;

// Layouts of a model (ModelLayouts.cpp).

/// The most threads that compute layouts before a search asks for them.
inline constexpr int kMostThreadsAhead = 7;

// Placements under a memory limit (PlanStep.cpp).

/// The number of placements that are solved for one mesh. Each round after the first lowers the memory limit of the
/// estimate by the bytes that the previous program needed beyond its estimate; the last round minimizes memory.
inline constexpr int kMemoryRounds = 4;
/// Further memory limits that are tried when no placement fits, as fractions of the way from the least estimated memory
/// to the estimate of the plan without a limit.
inline constexpr double kFallbackLimitShares[] = {0.25, 0.5, 1.0};

// Searches that follow a search.

/// The divisor of the search budget for a second search over plans that use all ranks, when the best plan uses fewer.
inline constexpr int64_t kAllRanksBudgetDivisor = 8;
/// The largest multiple of the ranks that is tried when no plan fits, and the search effort in seconds for each try.
inline constexpr int64_t kMaxRankFactor = 64;
inline constexpr double kRemedySeconds = 2;

} // namespace kerf
