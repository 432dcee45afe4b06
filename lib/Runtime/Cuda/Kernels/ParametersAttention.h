// SPDX-License-Identifier: Apache-2.0
// The parameters of the kernels of attention (Attention.cu). Parameters.h says what holds for all structs of
// parameters.
#pragma once

#include "../../AttentionSizes.h"
#include "Parameters.h"

namespace kerf::runtime::cuda {

/// The largest number of each row of a mask, [1 or b, 1 or h, s]; 0 for a boolean row with a key, and -infinity for a
/// row without keys. Where cuDNN computes the other rows, the kernels of attention compute those of isOwnRow.
struct MaskTops {
  const float *data = nullptr; // null where the kernels compute all rows
  int64_t batch = 0, head = 0; // strides; 0 where all batch entries or heads share the mask
};
/// The largest absolute value of a mask's row that cuDNN computes. The log-sum-exp of a row with larger numbers has too
/// few digits to recompute its probabilities.
inline constexpr float kMostOfMask = 1024;
/// Returns whether Kerf's own kernels compute the row of a mask, by its largest number.
constexpr bool isOwnRow(float top) { return !(top <= kMostOfMask && top >= -kMostOfMask); }

/// The mask of some batch entries as `bias`, float32 numbers that cuDNN adds to the scores, and its `tops`: numbers
/// below kLeastBias become kLeastBias, and rows of isOwnRow become zeros. There are `rows` rows of s queries each.
struct AttentionBiasParameters {
  const void *mask; // [rows / s, s, keys]
  float *bias;      // [rows / s, s, columns], of which the columns from `keys` on have no meaning
  float *tops;      // [rows / s, s]
  int64_t rows, queries, keys, columns;
  bool causal, isBool, isFloat32; // neither: the mask has the type of the module
};
/// The number of a pair that the mask excludes. Its exponential is 0 beside any score above kLeastBias / 4, and kernels
/// that compute with powers of 2 can multiply it by log2(e).
inline constexpr float kLeastBias = -0x1p126F;

/// A copy of the log-sum-exp [b, h, s] for cuDNN: rows of isOwnRow and rows without keys have a number for which all
/// probabilities, exp(score - number), are 0.
struct AttentionSumsParameters {
  const float *lse;
  float *copy;
  int64_t b, h, s;
  MaskTops tops;
};

/// Elements from a row to the next one of a query, a key and a value, or of their gradients: at least those of the
/// heads, and more where the tensors are parts of wider rows.
struct AttentionStrides {
  int64_t query, key, value;
};
/// The operands and sizes that the kernels of attention share: query [b, s, h, d], key [b, t, g, d] and value
/// [b, t, g, e].
struct AttentionInputs : AttentionSizes {
  const void *query, *key, *value;
  AttentionStrides strides;
  const void *mask; // null if there is none
  MaskTops tops = {};
  bool floatSums = false, floatMask = false; // whether the log-sum-exp, the mask is float32 beside 16-bit tensors
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
  AttentionStrides strides; // of the gradients
  void *dots, *factors;
};

/// Queries, or keys, on which a block works at a time: as many as a warp has threads.
inline constexpr int kAttentionTile = 32;
/// Threads of a block.
inline constexpr int kAttentionThreads = 256;

} // namespace kerf::runtime::cuda
