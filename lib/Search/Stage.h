// SPDX-License-Identifier: Apache-2.0
// A core that is reduced again and again, and how what is said of it is said of the first one. Private to Search.
#pragma once

#include "Reduce.h"
#include <map>

namespace kerf::search {

/// What a dual moved from the tables between two variables to each of them, by the labels of the first core.
struct Moved {
  std::vector<double> toU, toV;
};
using MovedTables = std::map<std::pair<int, int>, Moved>; // u < v

class Stage {
public:
  const Core &core() const { return now; }
  void push(Reduction reduction);

  Labels expand(Labels labels) const;
  /// The other way; 0 where the label went.
  Labels project(Labels labels) const;

  /// What the tables of `like` have moved, a core of the same variables and labels as the stage's.
  MovedTables remember(const Core &like) const;
  /// The other way: the stage's core starts from there.
  void recall(const MovedTables &moved);

private:
  Core now;
  std::vector<Reduction> reductions;     // their cores are gone
  std::vector<int> variableOf;           // [variable] -> of the first core
  std::vector<std::vector<int>> labelOf; // [variable][label] -> of the first core
};

} // namespace kerf::search
