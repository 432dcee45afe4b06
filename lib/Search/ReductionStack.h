// SPDX-License-Identifier: Apache-2.0
// The reductions that were applied to a core one after the other. Private to the Search room.
#pragma once

#include "Reduction.h"
#include <map>

namespace kerf::search {

/// Messages of a dual from the tables between two variables u < v to the labels of u and of v, indexed by the labels of
/// the original core.
struct TableMessages {
  std::vector<double> toU, toV;
};
/// Messages by the pair (u, v) of variables of the original core, u < v.
using MessagesByPair = std::map<std::pair<int, int>, TableMessages>;

/// Keeps the reductions applied to a core, so that choices and messages can be mapped between the reduced core
/// and the original one.
class ReductionStack {
public:
  /// Returns the core after all reductions.
  const Core &core() const { return reduced; }
  /// Adds a reduction of `core()`.
  void push(Reduction reduction);

  /// Returns the original core's choice that belongs to a choice of `core()`.
  Labels expand(Labels labels) const;
  /// Returns `core()`'s labels of a choice of the original core; 0 for a variable whose label was eliminated.
  Labels project(Labels labels) const;
  /// Returns the original core's labels that choices of `core()` can stand for, as 1, indexed by [variable][label].
  std::vector<std::vector<char>> possible() const;

  /// Returns the messages in the tables of `like`, which has the variables and labels of `core()`, by the numbers of
  /// the original core.
  MessagesByPair saveMessages(const Core &like) const;
  /// Writes messages that are numbered as in the original core into the tables of `core()`.
  void loadMessages(const MessagesByPair &messages);

private:
  Core reduced;
  std::vector<Reduction> reductions;     // in order; their own cores are empty
  std::vector<int> variableOf;           // the original core's variable, indexed by [variable]; -1: two of them
  std::vector<std::vector<int>> labelOf; // the original core's label, indexed by [variable][label]
};

} // namespace kerf::search
