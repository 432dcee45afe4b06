// SPDX-License-Identifier: Apache-2.0
// The sizes of attention instructions, for the kernels of processors and of GPUs.
#pragma once

#include <cstdint>

namespace kerf::runtime {

/// The sizes and options of an attention instruction on this rank.
struct AttentionSizes {
  int64_t b, s, t;                      // batch size, number of queries, number of keys
  int64_t h, g;                         // number of query heads, number of key/value heads
  int64_t d, e;                         // width of a query or key vector, width of a value vector
  int64_t maskBatch, maskHead, maskRow; // strides of the mask in elements; 0 where all batch entries or heads share it
  int64_t maskColumn;                   // column of the mask that belongs to the first key
  bool causal;                          // whether a query attends only to keys up to its own position
  bool masked, maskIsBool;              // whether there is a mask, and whether it is boolean (true: attend)
  double scale;                         // factor of the products of queries and keys
  int64_t firstQuery;                   // position in the sequence of the rank's first query
  /// The queries in [from, to) attend to the keys before `seen`; other queries attend to no key. A causal mask, if
  /// `causal`, comes on top.
  int64_t from, to, seen;

  /// Returns the number of keys that a block of queries ending before row `end` may attend to.
  constexpr int64_t keys(int64_t end) const { return !causal ? seen : t < firstQuery + end ? t : firstQuery + end; }
};

} // namespace kerf::runtime
