// SPDX-License-Identifier: Apache-2.0
// What attention's kernels share: sizes, and a block of query rows at a time. A thread's scratch holds kQueryRows x T
// scores, never S x T. Threads share the heads; backward, those of one key/value head are one task, as they add to its
// gradient. The backward form computes the probabilities of a block again from the saved log-sum-exp (Dao et al.,
// FlashAttention, 2022).
#pragma once

#include "Families.h"
#include "Gemm.h"
#include "Simd.h"

#include <algorithm>
#include <cmath>

namespace kerf::runtime::kernels {

inline constexpr int64_t kQueryRows =
    64; // 64 x 1,024 scores in float32 are 256 KB: they stay in the second-level cache

struct AttentionSizes {
  int64_t b, s, t, h, g, d, e; // batch, queries, keys, query heads, key/value heads, widths of q and k, and of v
  int64_t maskBatch, maskHead, maskRow; // strides of the mask; 0 where it is one for all
  int64_t maskColumn;                   // of the first key
  bool causal, masked, maskIsBool;
  double scale;
  int64_t firstQuery; // number of the rank's first query
  /// Queries `from` to before `to` see the keys before `seen`, the others none.
  int64_t from, to, seen;

  /// Keys that a block of queries ending before row `end` may see.
  int64_t keys(int64_t end) const { return causal ? std::min(t, firstQuery + end) : seen; }
};

enum class Keys { All, OneBlock };

/// Query, key, value and perhaps a mask, from operand `first` on; with `OneBlock`, the attributes of a ring's block
/// too.
std::optional<AttentionSizes> attentionSizes(Checker &check, const BindRequest &request, size_t first, bool masked,
                                             Keys which);

/// Where one (batch, head) lies in each tensor.
struct Head {
  int64_t b, h, g;
};

/// Adds the mask to a block of scores of queries [row, row + rows) over `keys` keys; what is excluded becomes -inf.
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

/// Scores become probabilities; gives the log-sum-exp. A row that sees nothing becomes zeros, with -inf.
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

template <typename T> struct AttentionCall {
  AttentionSizes z;
  const T *q, *k, *v;
  const void *mask;
  T *scores, *dScores; // of the first thread, as is `scratch`
  std::byte *scratch;
  int64_t bytesOfThread;
  Team *team;

  MatrixView<T> queries(Head at, int64_t row) const {
    return {q + ((at.b * z.s + row) * z.h + at.h) * z.d, z.h * z.d, 1};
  }
  MatrixView<T> keys(Head at) const { return {k + (at.b * z.t * z.g + at.g) * z.d, z.g * z.d, 1}; }
  MatrixView<T> values(Head at) const { return {v + (at.b * z.t * z.g + at.g) * z.e, z.g * z.e, 1}; }
  int64_t rowOfOutput(Head at, int64_t row) const { return ((at.b * z.s + row) * z.h + at.h) * z.e; }

  /// scores = scale * q k^T + mask, [rows, keys].
  void score(Head at, int64_t row, int64_t rows, int64_t count) const {
    MatrixView<T> key = keys(at);
    gemm<T>(rows, count, z.d, T(z.scale), queries(at, row), {key.data, key.column, key.row}, scores, count,
            Into::Overwrite, scratch);
    maskScores<T>(z, mask, at, row, rows, count, scores);
  }

  AttentionCall ofThread(int64_t thread) const {
    AttentionCall own = *this;
    auto moved = [&](auto *pointer) {
      return reinterpret_cast<decltype(pointer)>(reinterpret_cast<std::byte *>(pointer) + thread * bytesOfThread);
    };
    own.scores = moved(scores), own.dScores = moved(dScores), own.scratch = moved(scratch);
    return own;
  }

  template <typename F> void eachBlock(Head at, F f) const {
    for (int64_t row = z.from; row < z.to; row += kQueryRows) {
      int64_t rows = std::min(kQueryRows, z.to - row);
      f(at, row, rows, z.keys(row + rows));
    }
  }
};

/// In place of what is there already, nothing.
template <typename T> void copyOver(Team *team, const T *from, T *to, int64_t n) {
  if (from != to)
    forElements(team, n, [&](int64_t begin, int64_t end) { std::copy(from + begin, from + end, to + begin); });
}

template <typename T> MatrixView<T> transposed(MatrixView<T> m) { return {m.data, m.column, m.row}; }

/// A log-sum-exp this far from 0 has too few digits for exp(score - it): that of a row whose keys are all masked by one
/// finite number (-10000, the lowest float) is that number. Probabilities whose sum is above 1 are divided by it.
constexpr double kFar = 1024;

template <typename T> struct Backward {
  AttentionCall<T> all;
  const T *out, *lse, *dOut;
  const T *dqSoFar; // of the blocks before this one, or null
  T *dq, *dk, *dv;

  void run() const {
    const AttentionSizes &z = all.z;
    auto clear = [&](T *gradient, int64_t n) {
      forElements(all.team, n, [&](int64_t begin, int64_t end) { std::fill(gradient + begin, gradient + end, T(0)); });
    };
    if (!dqSoFar)
      clear(dq, z.b * z.s * z.h * z.d); // stays where a query sees no key
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

  void runHead(const AttentionCall<T> &call, Head head) const {
    const AttentionSizes &z = call.z;
    T *dScores = call.dScores;
    call.eachBlock(head, [&](Head at, int64_t row, int64_t rows, int64_t keys) {
      if (keys == 0)
        return;
      call.score(at, row, rows, keys);
      const T *outRow = out + call.rowOfOutput(at, row), *dOutRow = dOut + call.rowOfOutput(at, row);
      MatrixView<T> dOutBlock = {dOutRow, z.h * z.e, 1}, p = {call.scores, keys, 1}, dS = {dScores, keys, 1};
      gemm<T>(rows, keys, z.e, T(1), dOutBlock, transposed(call.values(at)), dScores, keys, Into::Overwrite,
              call.scratch);
      for (int64_t i = 0; i < rows; ++i)
        dispatch(
            [](auto, T *p, T *dS, const T *out, const T *dOut, int64_t keys, int64_t e, T lse, T scale) {
              double dot = 0;
#pragma omp simd reduction(+ : dot)
              for (int64_t j = 0; j < e; ++j)
                dot += double(out[j]) * double(dOut[j]);
              // A row that saw nothing has no exponentials: -inf - -inf would be NaN.
              bool empty = lse == -std::numeric_limits<T>::infinity();
              T d = T(dot);
              if (!empty && std::abs(lse) > T(kFar)) {
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
      gemm<T>(rows, z.d, keys, T(1), dS, call.keys(at), dqBlock, z.h * z.d, dqSoFar ? Into::Add : Into::Overwrite,
              call.scratch);
      gemm<T>(keys, z.d, rows, T(1), transposed(dS), call.queries(at, row), dkHead, z.g * z.d, Into::Add, call.scratch);
      gemm<T>(keys, z.e, rows, T(1), transposed(p), dOutBlock, dvHead, z.g * z.e, Into::Add, call.scratch);
    });
  }
};

enum class Direction { Forward, Backward };

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
/// What both backward forms have behind query, key, value and mask, the operands from `first` on; before them a block
/// has the query's gradient so far.
Result<Planned> attentionBackward(Checker &check, const BindRequest &request, size_t first, bool masked,
                                  const AttentionSizes &sizes);

} // namespace kerf::runtime::kernels
