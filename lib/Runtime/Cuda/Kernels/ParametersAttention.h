// SPDX-License-Identifier: Apache-2.0
// The parameters of the kernels of attention (Attention.cu). Parameters.h says what holds for all structs of
// parameters.
#pragma once

#include "Parameters.h"

namespace kerf::runtime::cuda {

/// The operands and sizes that the kernels of attention share: query [b, s, h, d], key [b, t, g, d] and value
/// [b, t, g, e].
struct AttentionInputs {
  const void *query, *key, *value;
  const void *mask;                     // null if there is none
  int64_t b, s, t;                      // batch size, number of queries, number of keys
  int64_t h, g;                         // numbers of query heads and of key/value heads
  int64_t d, e;                         // widths of a query or key, and of a value
  int64_t maskBatch, maskHead, maskRow; // strides of the mask in elements; 0 where all batch entries or heads share it
  int64_t maskColumn;                   // column of the mask that belongs to the first key
  int64_t firstQuery;                   // position in the sequence of the rank's first query
  /// The queries in [from, to) attend to the keys before `seen`; other queries attend to no key. A causal mask, if
  /// `causal`, comes on top.
  int64_t from, to, seen;
  double scale;       // factor of the products of queries and keys
  int32_t causal;     // whether a query attends only to keys up to its own position
  int32_t maskIsBool; // whether the mask is boolean (true: attend); else it is added to the scores
};

/// out [b, s, h, e] and lse [b, h, s], the log-sum-exp of each query's scores. In a step of ring attention, they are
/// merged with those of earlier blocks of keys, soFar and lseSoFar; else these are null. A result may lie where its
/// counterpart lies.
struct AttentionParameters {
  AttentionInputs in;
  const void *soFar, *lseSoFar;
  void *out, *lse;
};

/// The gradients of query, key and value. dqSoFar, the query's gradient from earlier blocks of a ring, is null if there
/// is none; dq may lie where it lies. `dots` and `factors` are scratch memory for one number for each of the b * h * s
/// queries: the dot product of out and dOut, and the factor of the recomputed probabilities.
struct AttentionBackwardParameters {
  AttentionInputs in;
  const void *out, *lse, *dOut, *dqSoFar;
  void *dq, *dk, *dv;
  void *dots, *factors;
};

/// Queries, or keys, on which a block works at a time: as many as a warp has threads.
inline constexpr int kAttentionTile = 32;
/// Threads of a block.
inline constexpr int kAttentionThreads = 256;

} // namespace kerf::runtime::cuda
