// SPDX-License-Identifier: Apache-2.0
// Indices as lookups and the routing of tokens read them.
#pragma once

#include "Calls.h"
#include <algorithm>

namespace kerf::runtime::ascend {

/// The indices of a lookup into `rows` rows, the part of `whole` rows that this rank has.
struct Lookup {
  size_t operand = 0; // number of the operand that holds the indices
  int64_t rows = 0, whole = 0;
  int64_t lowest = 0;              // indices below 0 count from the end
  int64_t entries = 1;             // batch entries, each with indices and rows of its own
  std::optional<View> offset = {}; // number of the first row of this rank's part; nothing where it has all rows
};
/// Indices that are ready for an operator.
struct Indices {
  View rows;                       // i64 [n], all of rows that exist
  std::optional<View> isElsewhere; // booleans [n], true where another rank has the row
};
/// Adds the calls that check indices and turn them into numbers of rows.
Indices indicesOf(Builder &b, const Lookup &lookup);
/// Sets the rows of `to` to the sums of the rows of `source` that have the index of the row.
void sumRows(Builder &b, const View &source, const View &indices, const View &to);
} // namespace kerf::runtime::ascend
