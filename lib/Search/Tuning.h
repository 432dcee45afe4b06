// SPDX-License-Identifier: Apache-2.0
// The constants that the solver of placement problems is tuned with. None changes an optimum or a bound that is proven:
// they decide where effort goes. They were chosen together, on the contest instances and on the problems of
// `kerf plan` (docs/search-scaling.md has the times they give); where a constant was compared with other values, its
// comment says so, and no other one was compared alone.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kerf::search::tuning {

namespace ascent {                          // of the dual (Ascent.cpp)
inline constexpr int kPatience = 8;         // passes without a gain worth having before rate and width shrink
inline constexpr double kShrink = 0.6;      // by which they shrink
inline constexpr double kWorthwhile = 2e-2; // of the gap: a gain worth having
inline constexpr int64_t kOverhead = 200;   // steps: what a pass takes at least
inline constexpr int kStreak = 5;           // gains in a row before the rate grows again
inline constexpr double kGrow = 1.6;        // by which it grows
inline constexpr double kMostRate = 1;
inline constexpr int kScalePasses = 2; // of the dual, at each scale of the first prices that is tried
inline constexpr double kScaleStep = 1.3;
inline constexpr int kScaleSteps = 20;
inline constexpr double kLeastRate = 1e-4;  // of the first: less moves nothing any more
inline constexpr double kMemory = 0.7;      // of the direction, from one pass to the next
inline constexpr double kFirstWidth = 3e-4; // of the bound
inline constexpr double kLeastShare = 1e-7; // of all that is paid: the price of a row that nobody wants, so it can grow
} // namespace ascent

namespace attempt {                         // ascents, roundings and prunings in turn (Attempt.cpp)
inline constexpr int kRoundEvery = 10;      // passes of the dual between two roundings
inline constexpr double kPrimalShare = 0.2; // of the steps of an ascent may go into rounding
/// The smallest share of the labels that a pruning must take out; else it waits for a smaller gap. Pruning whenever
/// anything can be taken out was tried: a search after a small change of the problem then takes five times as long.
inline constexpr double kPruneLeast = 0.03;
inline constexpr int kPrunePasses = 30;         // of the dual at least, before its labels are pruned
inline constexpr double kPruneAt = 0.6;         // of the gap at the last pruning
inline constexpr double kWorthwhile = 0.9;      // a reduction that leaves fewer of the labels is followed by an ascent
inline constexpr int kReplayPasses = 2;         // of the dual at least, where an earlier search pruned
inline constexpr double kReplayGap = 1.3;       // of the gap that the earlier search pruned at
inline constexpr double kNextRate = 0.05;       // of prices that have been good before
inline constexpr int64_t kRoundSteps = 1 << 26; // of the first round of improvement, for each thread; later ones double
inline constexpr int64_t kNodes = 60;           // subproblems of one neighbourhood
} // namespace attempt

namespace branch {                 // and bound (Branch.cpp)
inline constexpr int kPasses = 40; // of the dual, at a subproblem
inline constexpr double kRate = 0.1;
inline constexpr size_t kCandidates = 40;     // variables of which both halves are tried before one is split
inline constexpr int kTrialPasses = 4;        // of the dual, at a half that is tried
inline constexpr int64_t kTrialLabels = 3000; // of a core, at most, for trials to be worth their time
inline constexpr int64_t kOverhead = 2'000;   // steps: what a subproblem takes at least
inline constexpr double kAgain = 0.7;         // a subproblem that lost so much of its labels is looked at again
inline constexpr int kDepth = 2000;           // of splits: far beyond what a budget explores
} // namespace branch

namespace explain { // what another strategy of an op would cost (Explain.cpp)
inline constexpr int kPasses = 150;
inline constexpr double kRate = 0.02;     // of prices that are good already
inline constexpr double kFirstRate = 0.2; // of the first ones
} // namespace explain

namespace leastPeak {                           // where nothing fits (LeastPeak.cpp)
inline constexpr int kShares = 12;              // of the budget: at most one for each limit that is tried
inline constexpr int64_t kLeastSteps = 100'000; // what a limit takes at least
} // namespace leastPeak

namespace neighbourhoods {                   // (Neighbourhoods.cpp)
inline constexpr int64_t kOverhead = 20'000; // steps: what a neighbourhood takes at least
} // namespace neighbourhoods

namespace primal { // rounding and repair (Primal.cpp)
inline constexpr int kRepairRounds = 60;
inline constexpr int kPairsTried = 20; // of the pairs of labels that would be cheaper, cheapest first, when rows refuse
} // namespace primal

namespace solver {                                  // the budget (Solver.cpp)
inline constexpr double kTimeShare = 0.97;          // of the wall seconds: what is being done is finished first
inline constexpr int64_t kExhaustSteps = 2'000'000; // partial choices: a second or so
inline constexpr size_t kExhaustNodes = 64;
inline constexpr double kLeastPeakShare = 0.3; // of the time or work is kept for the least peak, should nothing fit
} // namespace solver

} // namespace kerf::search::tuning
