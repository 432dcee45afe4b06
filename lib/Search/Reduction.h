// SPDX-License-Identifier: Apache-2.0
// How the choices of a core that was made smaller (Reduce.h, Join.h) correspond to those of the core before. Private to
// the Search room.
#pragma once

#include "Core.h"

namespace kerf::search {

/// A variable that a reduction eliminated. Its label follows from the labels of at most two other variables. Variables
/// and labels are numbered as before the reduction.
struct EliminatedVariable {
  int variable = 0;
  int first = -1, second = -1; // the variables that decide the label; -1: none
  std::vector<int> labelOf;    // indexed by [label of first * labels(second) + label of second]; one entry without any
};

/// A reduced core, and how its choices correspond to choices of the core before the reduction.
struct Reduction {
  Core core;
  std::vector<int> variableOf;           // the variable before the reduction, indexed by [variable]
  std::vector<std::vector<int>> labelOf; // the label before the reduction, indexed by [variable][label]
  /// A second variable before the reduction that is joined to the first (Join.h), or -1, indexed by [variable]; and its
  /// label, indexed by [variable][label]. Empty: none.
  std::vector<int> secondOf;
  std::vector<std::vector<int>> secondLabelOf;
  std::vector<EliminatedVariable> eliminated; // in the order of elimination; `expand` goes from the last to the first
  std::vector<int> labelsBefore;              // number of labels before the reduction, indexed by variable before it

  /// Returns whether a variable stands for two variables before the reduction.
  bool isJoined(size_t variable) const { return variable < secondOf.size() && secondOf[variable] >= 0; }
  /// Returns the choice of the core before the reduction that belongs to a choice of the reduced core.
  Labels expand(const Labels &labels) const;
  /// Returns the reduced core's labels of a choice before the reduction; 0 for a variable whose label was eliminated.
  Labels project(const Labels &before) const;
  /// Returns the labels before the reduction that choices with the labels `after`, 1 where a label may be taken, can
  /// stand for. Both are indexed by [variable][label].
  std::vector<std::vector<char>> possible(const std::vector<std::vector<char>> &after) const;
};

} // namespace kerf::search
