// SPDX-License-Identifier: Apache-2.0
// Takes out of a core what can be decided without search; at least one optimum stays. Private to Search.
#pragma once

#include "Core.h"

namespace kerf::search {

/// A variable that is gone: its label follows from those of at most two others, all numbered as before the reduction.
struct Step {
  int variable = 0;
  int first = -1, second = -1;
  std::vector<int> labelOf; // [label of first * labels(second) + label of second]; one entry when there is none
};

struct Reduction {
  Core core;
  std::vector<int> variableOf;           // [core variable] -> variable before
  std::vector<std::vector<int>> labelOf; // [core variable][label] -> label before
  std::vector<Step> steps;               // to be undone from the last to the first
  std::vector<int> labelsBefore;         // [variable before]

  Labels expand(const Labels &labels) const;
  /// The other way; 0 where the label went.
  Labels project(const Labels &before) const;
};

struct ReduceOptions {
  int64_t dominanceCells = 200'000'000; // table cells looked at for dominance, at most
  int64_t seriesCells = 1 << 12;        // a table that replaces a variable between two others may have so many
};

Reduction reduce(Core core, const ReduceOptions &options = {});

} // namespace kerf::search
