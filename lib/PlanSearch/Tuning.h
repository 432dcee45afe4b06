// SPDX-License-Identifier: Apache-2.0
// Tuning constants of the search over whole plans, and the values that were tried for them. They decide where the
// search looks first and when it ends; none of them changes the search space or a plan's step time. docs/search.md
// describes how the search uses them. Only where a comment says so was a constant compared with other values.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kerf::plansearch {

// Search of the tree (TreeSearch.cpp).

/// Layouts of open choices that other threads compute before the search comes to them, and open choices that are looked
/// at for them; layouts of the first plans likewise. Not compared with other numbers.
inline constexpr size_t kExpectedLayouts = 16, kOpenLayoutsLookedAt = 4096, kExpectedFirstLayouts = 4;
/// Work of making and simulating one plan, without its schedule's tasks, in units of bounding one choice.
inline constexpr int64_t kWorkOfCandidate = 100;
/// Forwards of the schedules that are kept for other cuts, at most. Not compared with other values.
inline constexpr int64_t kMostKnownTasks = 500'000;
/// Models of communication that are kept for bounds of meshes and layouts, at most. Tried: to keep all, which takes
/// 1.9 GB for a mixture of experts on 8,192 ranks, and none, with which its gap is 65 instead of 11 % after a minute.
inline constexpr size_t kMostCommunicationModels = 10'000;
/// Before the tree is explored, first plans are simulated for meshes that use at least this share of the ranks of the
/// largest mesh. Tried: without first plans, the search for a model that hardly fits ended without any plan.
inline constexpr double kMostRanks = 0.9;
/// First plans take at most one part in this many of the work budget; the first half of it goes to one plan for each
/// mesh. Tried: all plans of a mesh before the next mesh, with which a GPT of 10^12 parameters on 3,072 A100, priced
/// for Kerf's runtime, ended at 80.75 s instead of 72.33 s.
inline constexpr int64_t kFirstPlansShare = 4;
/// Most executions that are simulated for each mesh of the simple rule. Not compared with other numbers.
inline constexpr size_t kRuleExecutions = 2;
/// Layouts drawn at random at which a dive starts before the tree is explored.
inline constexpr int kRandomLayouts = 24;
/// Most meshes with more ranks of "context" than the first plans have, for which a plan is simulated where the batch
/// has fewer samples than there are ranks. Not compared with other numbers.
inline constexpr size_t kContextDives = 64;
/// Most executions of one layout that are simulated until one of them fits into memory.
inline constexpr size_t kMostDives = 40;
/// Most executions of one layout that are simulated after the first one that fits. Tried: 0, with which a 6.7B OPT on
/// 16 V100 with selective recomputation pinned was left at 87.02 s when the budget ended; 8 give 85.86 s, and the
/// proven best is 83.07 s.
inline constexpr int kMoreDives = 8;
/// While the tree is explored, the gap between two layouts at which a dive starts grows by one part in this many. Not
/// compared with other values on its own.
inline constexpr int64_t kDiveSpacing = 4;
/// Most layouts at which a dive starts when the budget ends before the proof.
inline constexpr size_t kLastDives = 16;

// Search for remedies when no plan fits (PlanSearch.cpp).

/// Most memory limits that are tried to find the least memory with which some plan fits.
inline constexpr int kLeastMemoryTries = 16;
/// The search for the least memory ends when a sufficient limit is at most this times an insufficient one.
inline constexpr double kLeastMemoryPrecision = 1.01;
/// Each question whether any plan fits gets one part in this many of the work budget.
inline constexpr int64_t kQuickShare = 16;

// Plans that are judged by their programs (SearchLowered.cpp).

/// Least number of plans that one round lowers: estimates of similar plans are off by different few per cent.
inline constexpr int kLeastLowered = 4;
/// Most rounds of searching by estimates and lowering the plans found.
inline constexpr int kRounds = 6;
/// If programs need more memory than their estimates, the next round searches below the limit by as much, and
/// by this factor more.
inline constexpr double kTighter = 0.97;
/// If no estimate fits, the next round searches with this times the memory, in at most kLooserRounds rounds.
inline constexpr double kLooser = 1.5;
inline constexpr int kLooserRounds = 3;

// Plans whose gradients are compressed (SearchCompressed.cpp).

/// Plans of each of the two searches, without compression, whose compression is planned. Not
/// compared with other numbers.
inline constexpr int kCompressedFinalists = 6;
/// Each of the two searches gets one part in this many of the work budget.
inline constexpr int64_t kCompressedShare = 2;

// Explanations and Pareto plans (Explain.cpp, Pareto.cpp).

/// Work budget of the common search for alternatives to all decisions, in budgets of one search.
inline constexpr int64_t kJointBudgets = 2;
/// Factors of a quantity that are tried to bracket the break-even point of an alternative.
inline constexpr double kBreakEvenFactors[] = {0.25, 0.5, 2, 4};
/// Bisection of a break-even point ends when both ends of the bracket differ by at most this factor.
inline constexpr double kBreakEvenPrecision = 1.01;
/// Each search for a Pareto plan gets one part in this many of the work budget.
inline constexpr int64_t kShareOfBudget = 4;
/// The fewest ranks of a Pareto plan are one part in this many of all ranks.
inline constexpr int64_t kFewestShare = 16;
/// Pareto plans are searched for at this many evenly spaced memory limits up to the best plan's memory.
inline constexpr int kMemorySteps = 8;

} // namespace kerf::plansearch
