// SPDX-License-Identifier: Apache-2.0
// The parameters of the kernels of attention (Attention.cu). Parameters.h says what holds for all structs of
// parameters.
#pragma once

#include "../../AttentionSizes.h"
#include "Parameters.h"

namespace kerf::runtime::cuda {

/// The operands and sizes that the kernels of attention share: query [b, s, h, d], key [b, t, g, d] and value
/// [b, t, g, e].
struct AttentionInputs : AttentionSizes {
  const void *query, *key, *value;
  const void *mask; // null if there is none
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
