// SPDX-License-Identifier: Apache-2.0
// The constants of the searches that this room begins, besides those of the solver (lib/Search/Tuning.h) and of the
// search over whole plans (lib/PlanSearch/Tuning.h). Where nothing is said of other values, none was compared.
#pragma once

#include <cstdint>

namespace kerf {

// Sizes of mesh axes that are tried where a plan does not pin them.

/// Fewest positions of a sequence for each rank of the axis "context".
inline constexpr int64_t kLeastTokens = 1024;
/// Fewest channels of an image for each rank of the axis "model": the number that a matrix unit takes at once. With
/// fewer channels a cut saves no time.
inline constexpr int64_t kLeastChannels = 8;

// Placements under a memory limit (PlanStep.cpp).

/// Placements of a mesh that are solved. Each after the first gets an estimated limit that is lower by the bytes that
/// the program before it needed beyond its own estimate; the last one asks for the least memory.
inline constexpr int kMemoryRounds = 4;
/// Limits that are tried besides where nothing fits, as shares of the way from the least estimate to the estimate of
/// the plan without a limit.
inline constexpr double kOtherTries[] = {0.25, 0.5, 1.0};

// Questions after a search.

/// Part of the search's budget for the question what all ranks would take, where the best plan leaves some out.
inline constexpr int64_t kShareForAllRanks = 8;
/// When no plan fits: how many times as many ranks are tried, and the seconds for each try.
inline constexpr int64_t kMostTimes = 64;
inline constexpr double kRemedySeconds = 2;

} // namespace kerf
