// SPDX-License-Identifier: Apache-2.0
// Preprocessing of a core: eliminates variables, labels and rows that can be decided without search. At least one
// optimal choice remains. Private to the Search room.
#pragma once

#include "Reduction.h"

namespace kerf::search {

/// Limits of the effort of one reduction.
struct ReduceOptions {
  int64_t dominanceCells = 200'000'000; // most table entries that the search for dominated labels reads
  int64_t seriesCells = 1 << 12;        // most entries of a table that replaces a variable with two neighbours
};

/// Applies all reductions until none applies any more or the limits of `options` are reached. Sets Core::infeasible
/// when no choice is left.
Reduction reduce(Core core, const ReduceOptions &options = {});

} // namespace kerf::search
