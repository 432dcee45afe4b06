// SPDX-License-Identifier: Apache-2.0
// Code that attention's kernels share. They work on one block of query rows at a time, so that the scratch memory of a
// thread holds kQueryRows x T scores and never S x T. Threads share the heads. In the backward kernels, all query heads
// of one key/value head are one task, because they add to the same gradient. The backward kernels recompute the
// probabilities of a block from the saved log-sum-exp (Dao et al., FlashAttention, 2022).
#pragma once

#include "../../AttentionSizes.h"
#include "Families.h"
#include "Gemm.h"
#include "Simd.h"

#include <algorithm>
#include <cmath>

namespace kerf::runtime::kernels {

/// Number of query rows in a block. 64 x 1,024 scores in float32 are 256 KB, which stay in the second-level cache.
inline constexpr int64_t kQueryRows = 64;

/// The keys that an instruction attends to: all of them, or one block of them, as in a step of ring attention.
enum class KeyScope { All, OneBlock };

/// Reads and checks the sizes of an attention instruction whose query, key, value and (if `masked`) mask are the
/// operands from number `first` on. With KeyScope::OneBlock, also reads the attributes of a step of ring attention.
/// Returns nothing if `check` has failed.
std::optional<AttentionSizes> attentionSizes(Checker &check, const BindRequest &request, size_t first, bool masked,
                                             KeyScope scope);

/// One head of one batch entry: indices of the batch entry, the query head and its key/value head.
struct Head {
  int64_t b, h, g;
};

/// Applies the mask and the causal mask to a block of scores of the queries [row, row + rows) and `keys` keys. Excluded
/// scores become -infinity.
template <typename T>
void maskScores(const AttentionSizes &z, const void *mask, Head head, int64_t row, int64_t rows, int64_t keys,
                T *scores) {
  constexpr T kExcluded = -std::numeric_limits<T>::infinity();
  for (int64_t i = 0; i < rows; ++i) {
    T *line = scores + i * keys;
    if (z.masked) {
      int64_t at = head.b * z.maskBatch + head.h * z.maskHead + (row + i) * z.maskRow + z.maskColumn;
      if (z.maskIsBool) {
        const Bool8 *m = static_cast<const Bool8 *>(mask) + at;
        for (int64_t j = 0; j < keys; ++j)
          line[j] = m[j].byte ? line[j] : kExcluded;
      } else {
        const T *m = static_cast<const T *>(mask) + at;
        for (int64_t j = 0; j < keys; ++j)
          line[j] += m[j];
      }
    }
    if (z.causal)
      std::fill(line + std::min(keys, z.firstQuery + row + i + 1), line + keys, kExcluded);
  }
}

/// Replaces a row of scores by probabilities (softmax), and returns the row's log-sum-exp. A row whose scores are all
/// -infinity becomes zeros, with a log-sum-exp of -infinity.
template <typename T> [[gnu::always_inline]] inline T normalizeRow(T *line, int64_t keys) {
  T highest = -std::numeric_limits<T>::infinity();
#pragma omp simd reduction(max : highest)
  for (int64_t j = 0; j < keys; ++j)
    highest = highest > line[j] ? highest : line[j];
  T shift = highest == -std::numeric_limits<T>::infinity() ? T(0) : highest;
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t j = 0; j < keys; ++j) {
    T e = fastExp(T(line[j] - shift));
    line[j] = e;
    sum += double(e);
  }
  if (sum == 0)
    return -std::numeric_limits<T>::infinity();
  T inverse = T(1 / sum);
#pragma omp simd
  for (int64_t j = 0; j < keys; ++j)
    line[j] *= inverse;
  return T(double(shift) + std::log(sum));
}

/// An attention kernel bound to its memory.
template <typename T> struct AttentionCall {
  AttentionSizes z;
  const T *q, *k, *v;    // query [b, s, h, d], key [b, t, g, d] and value [b, t, g, e]
  const void *mask;      // null if there is no mask
  T *scores, *dScores;   // one thread's block of scores and of their gradients
  std::byte *scratch;    // one thread's scratch memory for matrix products
  int64_t bytesOfThread; // distance from one thread's scratch memory to the next one's
  ThreadTeam *team;

  /// Returns a head's queries from row `row` on, as a matrix with one query a row.
  MatrixView<T> queries(Head at, int64_t row) const {
    return {q + ((at.b * z.s + row) * z.h + at.h) * z.d, z.h * z.d, 1};
  }
  /// Returns a head's keys, as a matrix with one key a row.
  MatrixView<T> keys(Head at) const { return {k + (at.b * z.t * z.g + at.g) * z.d, z.g * z.d, 1}; }
  /// Returns a head's values, as a matrix with one value a row.
  MatrixView<T> values(Head at) const { return {v + (at.b * z.t * z.g + at.g) * z.e, z.g * z.e, 1}; }
  /// Returns the number of the output's element at which query row `row` of a head begins.
  int64_t rowOfOutput(Head at, int64_t row) const { return ((at.b * z.s + row) * z.h + at.h) * z.e; }

  /// Computes the scores of the queries [row, row + rows) and the first `count` keys: scale * q k^T + mask, a matrix of
  /// rows x count.
  void score(Head at, int64_t row, int64_t rows, int64_t count) const {
    MatrixView<T> key = keys(at);
    gemm<T>(rows, count, z.d, T(z.scale), queries(at, row), {key.data, key.column, key.row}, scores, count,
            GemmOutput::Overwrite, scratch);
    maskScores<T>(z, mask, at, row, rows, count, scores);
  }

  /// Returns the same call with the scratch memory of thread `thread`.
  AttentionCall ofThread(int64_t thread) const {
    AttentionCall own = *this;
    auto moved = [&](auto *pointer) {
      return reinterpret_cast<decltype(pointer)>(reinterpret_cast<std::byte *>(pointer) + thread * bytesOfThread);
    };
    own.scores = moved(scores), own.dScores = moved(dScores), own.scratch = moved(scratch);
    return own;
  }

  /// Calls f(at, row, rows, keys) for each block of query rows that attend to any key.
  template <typename F> void eachBlock(Head at, F f) const {
    for (int64_t row = z.from; row < z.to; row += kQueryRows) {
      int64_t rows = std::min(kQueryRows, z.to - row);
      f(at, row, rows, z.keys(row + rows));
    }
  }
};

/// Copies n elements, unless source and target are the same memory.
template <typename T> void copyOver(ThreadTeam *team, const T *from, T *to, int64_t n) {
  if (from != to)
    forElements(team, n, [&](int64_t begin, int64_t end) { std::copy(from + begin, from + end, to + begin); });
}

/// Returns the transposed view of a matrix.
template <typename T> MatrixView<T> transposed(MatrixView<T> m) { return {m.data, m.column, m.row}; }

/// The largest absolute value of a log-sum-exp L that has enough digits for exp(score - L). Larger ones occur in rows
/// whose keys are all masked by one finite number (-10000, or the lowest float). In such rows, probabilities that sum
/// to more than 1 are divided by their sum.
constexpr double kLargeLogSumExp = 1024;

/// A backward kernel of attention, bound to its memory.
template <typename T> struct Backward {
  AttentionCall<T> all;
  const T *out, *lse, *dOut; // the forward kernel's output and log-sum-exp, and the gradient of the output
  const T *dqSoFar;          // the query's gradient from earlier blocks of a ring, to add to; null: there is none
  T *dq, *dk, *dv;           // gradients of query, key and value to compute

  /// Computes the gradients. The team's threads share the key/value heads.
  void run() const {
    const AttentionSizes &z = all.z;
    auto clear = [&](T *gradient, int64_t n) {
      forElements(all.team, n, [&](int64_t begin, int64_t end) { std::fill(gradient + begin, gradient + end, T(0)); });
    };
    if (!dqSoFar)
      clear(dq, z.b * z.s * z.h * z.d); // stays zero where a query attends to no key
    else
      copyOver(all.team, dqSoFar, dq, z.b * z.s * z.h * z.d);
    clear(dk, z.b * z.t * z.g * z.d);
    clear(dv, z.b * z.t * z.g * z.e);
    forTasks(all.team, z.b * z.g, [&](int64_t task, int64_t thread) {
      AttentionCall<T> call = all.ofThread(thread);
      int64_t b = task / z.g, g = task % z.g, shared = z.h / z.g;
      for (int64_t h = g * shared; h < (g + 1) * shared; ++h)
        runHead(call, {b, h, g});
    });
  }

  /// Adds the contributions of one query head to the gradients.
  void runHead(const AttentionCall<T> &call, Head head) const {
    const AttentionSizes &z = call.z;
    T *dScores = call.dScores;
    call.eachBlock(head, [&](Head at, int64_t row, int64_t rows, int64_t keys) {
      if (keys == 0)
        return;
      call.score(at, row, rows, keys);
      const T *outRow = out + call.rowOfOutput(at, row), *dOutRow = dOut + call.rowOfOutput(at, row);
      MatrixView<T> dOutBlock = {dOutRow, z.h * z.e, 1}, p = {call.scores, keys, 1}, dS = {dScores, keys, 1};
      gemm<T>(rows, keys, z.e, T(1), dOutBlock, transposed(call.values(at)), dScores, keys, GemmOutput::Overwrite,
              call.scratch);
      for (int64_t i = 0; i < rows; ++i)
        dispatch(
            [](auto, T *p, T *dS, const T *out, const T *dOut, int64_t keys, int64_t e, T lse, T scale) {
              double dot = 0;
#pragma omp simd reduction(+ : dot)
              for (int64_t j = 0; j < e; ++j)
                dot += double(out[j]) * double(dOut[j]);
              // In a row that attends to no key, -infinity minus -infinity would be NaN.
              bool empty = lse == -std::numeric_limits<T>::infinity();
              T d = T(dot);
              if (!empty && std::abs(lse) > T(kLargeLogSumExp)) {
                double sum = 0;
#pragma omp simd reduction(+ : sum)
                for (int64_t j = 0; j < keys; ++j) {
                  p[j] = fastExp(T(p[j] - lse));
                  sum += double(p[j]);
                }
                T part = T(1 / std::max(sum, 1.0));
#pragma omp simd
                for (int64_t j = 0; j < keys; ++j) {
                  p[j] *= part;
                  dS[j] = scale * p[j] * (dS[j] - d);
                }
                return;
              }
#pragma omp simd
              for (int64_t j = 0; j < keys; ++j) {
                T probability = empty ? T(0) : fastExp(T(p[j] - lse));
                p[j] = probability;
                dS[j] = scale * probability * (dS[j] - d);
              }
            },
            call.scores + i * keys, dScores + i * keys, outRow + i * z.h * z.e, dOutRow + i * z.h * z.e, keys, z.e,
            lse[(at.b * z.h + at.h) * z.s + row + i], T(z.scale));
      T *dqBlock = dq + (call.queries(at, row).data - call.q);
      T *dkHead = dk + (call.keys(at).data - call.k), *dvHead = dv + (call.values(at).data - call.v);
      gemm<T>(rows, z.d, keys, T(1), dS, call.keys(at), dqBlock, z.h * z.d,
              dqSoFar ? GemmOutput::Add : GemmOutput::Overwrite, call.scratch);
      gemm<T>(keys, z.d, rows, T(1), transposed(dS), call.queries(at, row), dkHead, z.g * z.d, GemmOutput::Add,
              call.scratch);
      gemm<T>(keys, z.e, rows, T(1), transposed(p), dOutBlock, dvHead, z.g * z.e, GemmOutput::Add, call.scratch);
    });
  }
};

/// The direction of an attention kernel.
enum class Direction { Forward, Backward };

/// Binds an attention kernel whose query, key, value and mask are the operands from number `first` on, and takes its
/// scratch memory from `layout`.
template <typename T>
AttentionCall<T> callOf(const BindRequest &request, size_t first, const AttentionSizes &z, Direction direction,
                        ScratchLayout &layout) {
  int64_t rows = std::min(kQueryRows, z.s), width = std::max(z.d, z.e);
  int64_t scores = layout.take(rows * z.t * int64_t(sizeof(T)));
  int64_t dScores = direction == Direction::Backward ? layout.take(rows * z.t * int64_t(sizeof(T))) : scores;
  int64_t products = layout.take(std::max({gemmScratchBytes<T>(rows, z.t, width), gemmScratchBytes<T>(rows, width, z.t),
                                           gemmScratchBytes<T>(z.t, width, rows)}));
  int64_t bytesOfThread = layout.bytes();
  layout.take((threadsOf(request.team) - 1) * bytesOfThread);
  return {z,
          dataOf<T>(request.operands[first]),
          dataOf<T>(request.operands[first + 1]),
          dataOf<T>(request.operands[first + 2]),
          z.masked ? request.operands[first + 3].data : nullptr,
          scratchAt<T>(request.scratch, scores),
          scratchAt<T>(request.scratch, dScores),
          scratchAt<std::byte>(request.scratch, products),
          bytesOfThread,
          request.team};
}
/// Checks an instruction of attention_backward or attention_block_backward and builds its kernel. Its query, key, value
/// and (if `masked`) mask are the operands from number `first` on. In attention_block_backward, the operand before them
/// is the query's gradient from earlier blocks.
Result<PlannedKernel> attentionBackward(Checker &check, const BindRequest &request, size_t first, bool masked,
                                        const AttentionSizes &sizes);

} // namespace kerf::runtime::kernels
