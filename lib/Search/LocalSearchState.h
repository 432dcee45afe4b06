// SPDX-License-Identifier: Apache-2.0
// A choice of labels whose cost, memory and cost of every single change are kept up to date. Private
// to the Search room.
#pragma once

#include "Core.h"

namespace kerf::search {

/// Bytes minus slack of every memory row, in a segment tree: an update of consecutive rows takes logarithmic time, and
/// the greatest value is available in constant time.
class RowLoads {
public:
  /// Starts with no bytes in any row.
  explicit RowLoads(const std::vector<int64_t> &slack);
  /// Adds `bytes` (negative: removes) in the rows [firstRow, endRow).
  void add(int firstRow, int endRow, int64_t bytes);
  /// Returns the greatest bytes minus slack of all rows: 0 or negative while the memory constraint R holds. Without
  /// rows it is the least integer.
  int64_t greatestExcess() const { return greatest.empty() ? std::numeric_limits<int64_t>::min() : greatest[1]; }
  /// Returns bytes minus slack, indexed by row.
  std::vector<int64_t> all() const;

private:
  void addBelow(int place, int low, int high, int firstRow, int endRow, int64_t bytes);
  int rows = 0, leaves = 1;
  std::vector<int64_t> pending, greatest; // nodes of the tree; the children of k are 2 k and 2 k + 1
};

/// A finite stand-in, in cost units, for the infinite cost of something forbidden. It exceeds every sum of finite
/// costs, so that choices with fewer forbidden entries compare as cheaper.
inline constexpr double kForbiddenCost = 1e17;

/// A choice of a core's labels, with incremental costs and row loads.
class LocalSearchState {
public:
  /// `core` must outlive the state.
  LocalSearchState(const Core &core, Labels labels);

  const Core &core;
  Labels labels;
  double cost = 0;   // the core objective of `labels`, without forbidden entries
  int64_t steps = 0; // table entries and labels that were read so far
  RowLoads loads;
  /// Returns the cost units that a variable pays if it takes `label` and its neighbours keep their labels: its own cost
  /// and its tables. Each forbidden entry counts kForbiddenCost.
  double local(int variable, int label) const {
    return finite[variable][label] + kForbiddenCost * blocked[variable][label];
  }
  /// Returns how many cost units a change of one variable to `label` saves; negative: the change costs more.
  double gain(int variable, int label) const { return local(variable, labels[variable]) - local(variable, label); }

  /// Returns whether the memory constraint R holds.
  bool fits() const { return loads.greatestExcess() <= 0; }
  /// Returns whether the choice takes nothing forbidden.
  bool allowed() const { return forbidden == 0; }
  int forbidden = 0; // forbidden table entries that the choice takes
  /// Changes the label of one variable.
  void set(int variable, int label);

private:
  std::vector<std::vector<double>> finite; // [variable][label]: the finite part of `local`
  std::vector<std::vector<int>> blocked;   // [variable][label]: forbidden entries in `local`
};

} // namespace kerf::search
