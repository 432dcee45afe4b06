// SPDX-License-Identifier: Apache-2.0
// The constants that the search over whole plans is tuned with, and what was tried for each. None changes which plans
// there are or what they take: they decide where the search looks first and when it ends. docs/search.md says what the
// search does with them. Where nothing is said of other values, none was compared.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kerf::plansearch {

// The tree (Searching.cpp).

/// Work of a plan that is made and simulated, beside its tasks, where bounding a choice is 1.
inline constexpr int64_t kWorkOfCandidate = 100;
/// First plans are those of meshes with at least this share of the ranks, for at most one part in `kSowingShare` of the
/// budget. Tried: without first plans the search of a model that hardly fits ended without any plan.
inline constexpr double kMostRanks = 0.9;
inline constexpr int64_t kSowingShare = 4;
/// Executions of a layout that are tried until one fits.
inline constexpr size_t kMostDives = 40;
/// Executions that are tried after that, of those that may be faster still. Tried: 0, with which a 6.7B OPT on 16 V100
/// with selective recomputation pinned was left at 87.02 s when the budget ended; 8 give 85.86 s, and the proven best
/// is 83.07 s.
inline constexpr int kMoreDives = 8;

// The search for remedies when no plan fits (PlanSearch.cpp).

/// Limits that are tried to find the least memory that would do, and how close the last two come.
inline constexpr int kLeastMemoryTries = 16;
inline constexpr double kLeastMemoryPrecision = 1.01;
/// Part of the budget for each question whether anything fits.
inline constexpr int64_t kQuickShare = 16;

// Plans that are priced as programs (SearchLowered.cpp).

/// Plans of each round: estimates of plans that are alike differ from their programs by a few per cent.
inline constexpr int kLeastLowered = 4;
inline constexpr int kRounds = 6;
/// Where programs need more than their estimates, a round asks for plans of kTighter times the memory that would be
/// enough; where no estimate fits, of kLooser times as much, in at most kLooserRounds rounds.
inline constexpr double kTighter = 0.97, kLooser = 1.5;
inline constexpr int kLooserRounds = 3;

// Bounds on the questions that explanations and the memory curve ask (Explain.cpp, Pareto.cpp).

/// Budgets of one search, for the alternatives of all decisions together.
inline constexpr int64_t kJointBudgets = 2;
/// Factors of a quantity between which a decision may turn round, and how closely the turn is told.
inline constexpr double kFactors[] = {0.25, 0.5, 2, 4};
inline constexpr double kFlipPrecision = 1.01;
/// Part of the budget for each plan for fewer ranks or less memory, the fewest ranks as a part of all, and the steps
/// between no memory and all.
inline constexpr int64_t kShareOfBudget = 4, kFewestShare = 16;
inline constexpr int kMemorySteps = 8;

} // namespace kerf::plansearch
