// SPDX-License-Identifier: Apache-2.0
// Tuning constants of the solver of placement problems. They decide where effort goes; none of them changes an optimum
// or a bound that is proven. The constants were chosen together, on the contest instances and on the problems of
// `kerf plan` (docs/search-scaling.md has the times). Only where a comment says so was a constant compared with other
// values on its own.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kerf::search::tuning {

namespace ascent {                     // ascent of the dual (Ascent.cpp); "rate" and "width" as in AscentOptions
inline constexpr int kPatience = 8;    // passes without a worthwhile gain of the bound before rate and width shrink
inline constexpr double kShrink = 0.6; // factor by which rate and width shrink
inline constexpr double kWorthwhile = 2e-2; // a worthwhile gain, as a share of the gap between bound and target
inline constexpr int64_t kOverhead = 200;   // steps that a pass counts besides the table entries it reads
inline constexpr int kStreak = 5;           // gains in a row before the rate grows again
inline constexpr double kGrow = 1.6;        // factor by which the rate grows
inline constexpr double kMostRate = 3;      // largest rate
inline constexpr int kScalePasses = 2;      // passes of the dual at each common factor of the prices that is tried
inline constexpr double kScaleStep = 1.3;   // ratio of two common factors that are tried in a row
inline constexpr int kScaleSteps = 20;      // most common factors that are tried in one direction
inline constexpr double kLeastRate = 1e-4;  // share of the first rate below which the ascent ends
inline constexpr double kMemory = 0.7;      // weight of the earlier direction against the current one (momentum)
inline constexpr double kFirstWidth = 3e-4; // first width, as a share of the bound
/// Least price of a row, as a share of the prices of all rows: a price of 0 could never grow by multiplication.
inline constexpr double kLeastShare = 1e-7;
} // namespace ascent

namespace coreSolver {                 // alternation of ascents, rounding, pruning and improvement (CoreSolver.cpp)
inline constexpr int kRoundEvery = 10; // passes of the dual between two roundings to a choice
/// Most steps of walks, as a share of an ascent's steps: halved by a walk that finds nothing, doubled by one that does.
inline constexpr double kMostWalkShare = 0.5, kLeastWalkShare = 0.1;
/// Most steps of roundings, until a choice fits, as a share of an ascent's steps.
inline constexpr double kRoundShare = 0.2;
/// Least share of the labels that a pruning must forbid; otherwise the pruning waits for a smaller gap. Pruning
/// as soon as anything can be forbidden was tried: a warm start after a small change of the problem then takes
/// five times as long.
inline constexpr double kPruneLeast = 0.03;
inline constexpr int kPrunePasses = 30;    // least passes of the dual before its labels are pruned
inline constexpr double kPruneAt = 0.6;    // the gap has to shrink to this share of the last pruning's gap
inline constexpr double kWorthwhile = 0.9; // another ascent follows a reduction that leaves less than this share
inline constexpr int kReplayPasses = 2;    // least passes of the dual at a checkpoint of an earlier search
inline constexpr double kReplayGap = 1.3;  // a checkpoint prunes once the gap is at most this times its own
/// First temperature of an annealing: times the variables, this many times the gap. On a problem of 177 variables
/// (means of four walks of 4,000 rounds), 3 times as hot found the same costs within 1 %, a third as hot 6.5 % worse
/// ones.
inline constexpr double kHeat = 15;
inline constexpr int kAnnealPasses = 10;                      // passes of the dual before an annealing
inline constexpr int kLeastRounds = 1500, kMostRounds = 6000; // rounds of an annealing
/// Share of the gap by which branch and bound or joins have to raise the bound to go on without a longer pause.
inline constexpr double kWorthwhileRaise = 0.02;
inline constexpr double kNextRate = 0.05;       // rate of an ascent that starts from good prices
inline constexpr int64_t kRoundSteps = 1 << 26; // first round of improvement, for each thread; doubled later
inline constexpr int64_t kNodes = 60;           // most subproblems of one neighbourhood
} // namespace coreSolver

namespace branching {                         // branch and bound (Branch.cpp)
inline constexpr int kPasses = 40;            // most passes of the dual at a subproblem
inline constexpr double kRate = 0.1;          // first rate of its ascent
inline constexpr size_t kCandidates = 40;     // variables of which both halves are bounded before one is split
inline constexpr int kTrialPasses = 4;        // passes of the dual to bound a half
inline constexpr int64_t kTrialLabels = 3000; // most labels of a core for which bounding halves is worth the time
inline constexpr int64_t kOverhead = 2'000;   // steps that a subproblem counts besides the table entries it reads
inline constexpr double kRepeatShare = 0.7;   // a subproblem reduced to less than this share of labels is bounded again
inline constexpr int kDepth = 2000;           // most nested splits: far more than any budget reaches
} // namespace branching

namespace join {                                 // bounds by joining variables (Join.cpp)
inline constexpr double kCycleWeight = 4;        // how much a closed cycle of three counts against growth
inline constexpr double kRate = 0.05;            // first rate of an ascent
inline constexpr int kPatience = 30;             // passes in which an ascent has to make a worthwhile gain
inline constexpr double kWorthwhile = 1e-2;      // a worthwhile gain, as a share of the gap
inline constexpr int64_t kMostCells = 8'000'000; // most table entries of a joined core
inline constexpr int64_t kPasses = 600;          // passes of the dual that the budget has to allow after a join
inline constexpr int64_t kStepsOfPruning = 8;    // steps of a pruning for each table entry
} // namespace join

namespace explain {                       // reduced costs for explanations (Explain.cpp)
inline constexpr int kPasses = 150;       // most passes of the dual
inline constexpr double kRate = 0.02;     // first rate, from the solution's prices
inline constexpr double kFirstRate = 0.2; // first rate, where the solution has no prices
} // namespace explain

namespace leastPeak {                           // search for the least peak memory (LeastPeak.cpp)
inline constexpr int kShares = 12;              // each memory limit tried gets one part in this many of the budget
inline constexpr int64_t kLeastSteps = 100'000; // least steps that a memory limit counts
} // namespace leastPeak

namespace neighbourhoods {                   // large neighbourhood search (Neighbourhoods.cpp)
inline constexpr int64_t kOverhead = 20'000; // steps that a neighbourhood counts besides the table entries it reads
} // namespace neighbourhoods

namespace priceWalk {                   // walks under memory prices (PriceWalk.cpp)
inline constexpr double kPersist = 1.3; // growth of a rise with each further round over the limit
inline constexpr double kMostRise = 2;  // most a price rises in one round, relative to itself
/// How much a price falls in one round, relative to itself: this times a number from kLeastFall to kLeastFall + 1.
inline constexpr double kFall = 0.02, kLeastFall = 0.2;
inline constexpr double kShrink = 0.97; // change of the size of changes with each choice that fits
inline constexpr int kRounds = 30;      // rounds of a walk
/// Largest difference of a variable's random factor from 1, in the first of kSpreads walks; each further one has a
/// quarter of it.
inline constexpr double kWidestSpread = 0.02;
inline constexpr int kSpreads = 4;
/// Steps of the budget for each step of a walk, which takes longer than others.
inline constexpr int64_t kStepsOfWalk = 4;
inline constexpr double kCold = 0.01;     // last temperature of an annealing, as a share of the first
inline constexpr double kFollowed = 0.02; // share of the first temperature below which single variables move too
inline constexpr int kRedraw = 10;        // choices that fit before new random factors are drawn
} // namespace priceWalk

namespace primal { // repair and local search (Primal.cpp), rises of prices (PriceWalk.cpp)
/// How much the price of a row over its limit rises, relative to itself, at least, and for each slack of excess.
inline constexpr double kLeastRise = 0.05, kRise = 0.5;
/// Least cost of the slack of a row over its limit, as a share of the cost of the slack of all rows.
inline constexpr double kLeastRowShare = 1e-4;
/// Least cost of the slack of all rows, as a share of the choice's cost.
inline constexpr double kLeastSlackShare = 1e-3;
inline constexpr int kRepairRounds = 60; // most rounds of raising prices to repair a choice
inline constexpr int kPairsTried = 20;   // cheaper pairs of labels whose memory is checked, the cheapest first
} // namespace primal

namespace solver {                                  // budgets of one problem (Solver.cpp)
inline constexpr double kTimeShare = 0.97;          // share of the time budget after which the search stops
inline constexpr int64_t kExhaustSteps = 2'000'000; // most partial choices of the search in integers: about a second
inline constexpr size_t kExhaustNodes = 64;         // most nodes of a problem that is searched in integers
inline constexpr double kLeastPeakShare = 0.3;      // share of the budget reserved for the least peak if nothing fits
} // namespace solver

} // namespace kerf::search::tuning
