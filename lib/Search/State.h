// SPDX-License-Identifier: Apache-2.0
// A choice of labels with what it costs, what every single change would cost, and the bytes of every row. Private to
// Search.
#pragma once

#include "Core.h"

namespace kerf::search {

/// Load minus slack of every row; the greatest is known at once.
class RowLoads {
public:
  explicit RowLoads(const std::vector<int64_t> &slack);
  void add(int firstRow, int endRow, int64_t bytes);
  /// Of all rows; negative while everything fits. The least possible number when there are no rows.
  int64_t worst() const { return greatest.empty() ? std::numeric_limits<int64_t>::min() : greatest[1]; }
  /// Of every row.
  std::vector<int64_t> all() const;

private:
  void addBelow(int place, int low, int high, int firstRow, int endRow, int64_t bytes);
  int rows = 0, leaves = 1;
  std::vector<int64_t> pending, greatest; // heap order
};

/// Stands for infinity where numbers of infinite entries are compared; more than any sum of finite ones.
inline constexpr double kForbiddenCost = 1e17;

class State {
public:
  State(const Core &core, Labels labels);

  const Core &core;
  Labels labels;
  double cost = 0;
  int64_t steps = 0; // table cells and labels looked at
  RowLoads loads;
  /// [variable][label]: its own cost and its tables with the neighbours as they are; kForbiddenCost for each infinite
  /// entry.
  double local(int variable, int label) const {
    return finite[variable][label] + kForbiddenCost * blocked[variable][label];
  }
  double gain(int variable, int label) const { return local(variable, labels[variable]) - local(variable, label); }

  bool fits() const { return loads.worst() <= 0; }
  bool allowed() const { return forbidden == 0; }
  int forbidden = 0; // infinite entries that the labels take
  void set(int variable, int label);

private:
  std::vector<std::vector<double>> finite;
  std::vector<std::vector<int>> blocked;
};

} // namespace kerf::search
