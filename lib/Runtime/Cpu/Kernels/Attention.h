// SPDX-License-Identifier: Apache-2.0
// Code that attention's kernels share. They work on one block of query rows at a time, so that the scratch memory of a
// thread holds queryRows x T scores and never S x T. Threads share the heads. In the backward kernels, all query heads
// of one key/value head are one task, because they add to the same gradient. The backward kernels recompute the
// probabilities of a block from the saved log-sum-exp (Dao et al., FlashAttention, 2022).
//
// The kernels are templates of the type of an element: float, double or bf16 (uint16_t). With bf16 elements, scores,
// probabilities, the log-sum-exp and sums are float32. Probabilities and gradients of scores are rounded to bf16
// numbers where they are factors of a product.
#pragma once

#include "../../AttentionSizes.h"
#include "Bf16Elements.h"
#include "Families.h"
#include "Gemm.h"
#include "GemmOfBf16.h"

#include <algorithm>
#include <cmath>

namespace kerf::runtime::kernels {

/// Returns the number of query rows in a block. Large blocks pack keys and values less often. But the scores of a block
/// should stay in the second-level cache (64 x 1,024 of them in float32 are 256 KB), and with a causal mask a large
/// block computes more scores that the mask excludes.
inline int64_t queryRows(const AttentionSizes &z) {
  constexpr int64_t kFewest = 64, kScores = 64 * 1024, kRowsOfStep = 8;
  const int64_t most = z.causal ? kFewest : std::max(kFewest, kScores / std::max<int64_t>(z.t, 1));
  const int64_t blocks = std::max<int64_t>((z.s + most - 1) / most, 1);
  return roundUp(std::max<int64_t>((z.s + blocks - 1) / blocks, 1), kRowsOfStep);
}

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

/// Returns the bytes of scratch memory that `multiply` needs for sizes up to m, n and k.
template <typename E> int64_t multiplyScratchBytes(int64_t m, int64_t n, int64_t k) {
  if constexpr (isFloat<E>)
    return gemmScratchBytes<E>(m, n, k);
  else
    return gemmOfBf16ScratchBytes(m, n, k);
}

/// Computes c = a b, or c += a b with GemmOutput::Add, as gemm and gemmOfBf16 do.
template <typename E, typename C>
void multiply(int64_t m, int64_t n, int64_t k, MatrixView<E> a, MatrixView<E> b, C *c, int64_t ldc, GemmOutput output,
              void *scratch) {
  if constexpr (isFloat<E>)
    gemm<E>(m, n, k, E(1), a, b, c, ldc, output, scratch);
  else
    gemmOfBf16<C>(m, n, k, a, b, output == GemmOutput::Add ? c : nullptr, c, ldc, scratch);
}

/// Applies the mask and the causal mask to a block of scores of the queries [row, row + rows) and `keys` keys. Excluded
/// scores become -infinity.
template <typename E, typename T>
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
        const E *m = static_cast<const E *>(mask) + at;
        for (int64_t j = 0; j < keys; ++j)
          line[j] += valueOf(m[j]);
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

/// An attention kernel bound to its memory. E is the type of an element.
template <typename E> struct AttentionCall {
  using T = ComputeType<E>;

  AttentionSizes z;
  const E *q, *k, *v;                      // query [b, s, h, d], key [b, t, g, d] and value [b, t, g, e]
  const void *mask;                        // null if there is no mask
  T *scores = nullptr, *dScores = nullptr; // one thread's block of scores and of their gradients
  E *factor = nullptr; // with bf16 elements: one thread's block of scores that are rounded for a product
  T *dKeys = nullptr,
    *dValues = nullptr;         // with bf16 elements: one thread's sums of a head's gradients of keys and values
  std::byte *scratch = nullptr; // one thread's scratch memory for matrix products
  int64_t bytesOfThread = 0;    // distance from one thread's scratch memory to the next one's
  ThreadTeam *team = nullptr;

  /// Returns a head's queries from row `row` on, as a matrix with one query a row.
  MatrixView<E> queries(Head at, int64_t row) const {
    return {q + ((at.b * z.s + row) * z.h + at.h) * z.d, z.h * z.d, 1};
  }
  /// Returns a head's keys, as a matrix with one key a row.
  MatrixView<E> keys(Head at) const { return {k + (at.b * z.t * z.g + at.g) * z.d, z.g * z.d, 1}; }
  /// Returns a head's values, as a matrix with one value a row.
  MatrixView<E> values(Head at) const { return {v + (at.b * z.t * z.g + at.g) * z.e, z.g * z.e, 1}; }
  /// Returns the number of the output's element at which query row `row` of a head begins.
  int64_t rowOfOutput(Head at, int64_t row) const { return ((at.b * z.s + row) * z.h + at.h) * z.e; }

  /// Computes the scores of the queries [row, row + rows) and the first `count` keys: scale * q k^T + mask, a matrix of
  /// rows x count.
  void score(Head at, int64_t row, int64_t rows, int64_t count) const {
    const MatrixView<E> query = queries(at, row), key = keys(at), transposed = {key.data, key.column, key.row};
    if constexpr (isFloat<E>) {
      gemm<E>(rows, count, z.d, T(z.scale), query, transposed, scores, count, GemmOutput::Overwrite, scratch);
    } else {
      multiply(rows, count, z.d, query, transposed, scores, count, GemmOutput::Overwrite, scratch);
      dispatch(
          [](auto, float *scores, int64_t n, float scale) {
#pragma omp simd
            for (int64_t i = 0; i < n; ++i)
              scores[i] *= scale;
          },
          scores, rows * count, float(z.scale));
    }
    maskScores<E>(z, mask, at, row, rows, count, scores);
  }

  /// Returns a block of scores, or of their gradients, as a factor of a product. With bf16 elements it is valid until
  /// the next call.
  MatrixView<E> asFactor(const T *block, int64_t rows, int64_t count) const {
    if constexpr (isFloat<E>) {
      return {block, count, 1};
    } else {
      roundAll(block, factor, rows * count);
      return {factor, count, 1};
    }
  }

  /// Returns the same call with the scratch memory of thread `thread`.
  AttentionCall ofThread(int64_t thread) const {
    AttentionCall own = *this;
    auto move = [&](auto *&pointer) {
      pointer = reinterpret_cast<std::remove_reference_t<decltype(pointer)>>(reinterpret_cast<std::byte *>(pointer) +
                                                                             thread * bytesOfThread);
    };
    move(own.scores), move(own.dScores), move(own.scratch);
    if constexpr (!isFloat<E>)
      move(own.factor), move(own.dKeys), move(own.dValues);
    return own;
  }

  /// Calls f(at, row, rows, keys) for each block of query rows that attend to any key.
  template <typename F> void eachBlock(Head at, F f) const {
    const int64_t most = queryRows(z);
    for (int64_t row = z.from; row < z.to; row += most) {
      int64_t rows = std::min(most, z.to - row);
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
template <typename E> struct Backward {
  using T = ComputeType<E>;

  AttentionCall<E> all;
  const E *out, *dOut; // the forward kernel's output, and its gradient
  const T *lse;        // the forward kernel's log-sum-exp
  const E *dqSoFar;    // the query's gradient from earlier blocks of a ring, to add to; null: there is none
  E *dq, *dk, *dv;     // gradients of query, key and value to compute

  /// Computes the gradients. The team's threads share the key/value heads.
  void run() const {
    const AttentionSizes &z = all.z;
    auto clear = [&](E *gradient, int64_t n) {
      forElements(all.team, n, [&](int64_t begin, int64_t end) { std::fill(gradient + begin, gradient + end, E(0)); });
    };
    if (!dqSoFar)
      clear(dq, z.b * z.s * z.h * z.d); // stays zero where a query attends to no key
    else
      copyOver(all.team, dqSoFar, dq, z.b * z.s * z.h * z.d);
    if constexpr (isFloat<E>) {
      clear(dk, z.b * z.t * z.g * z.d);
      clear(dv, z.b * z.t * z.g * z.e);
    }
    forTasks(all.team, z.b * z.g, [&](int64_t task, int64_t thread) {
      AttentionCall<E> call = all.ofThread(thread);
      int64_t b = task / z.g, g = task % z.g, shared = z.h / z.g;
      if constexpr (!isFloat<E>) {
        std::fill_n(call.dKeys, z.t * z.d, T(0));
        std::fill_n(call.dValues, z.t * z.e, T(0));
      }
      for (int64_t h = g * shared; h < (g + 1) * shared; ++h)
        runHead(call, {b, h, g});
      if constexpr (!isFloat<E>)
        for (int64_t row = 0; row < z.t; ++row) {
          roundAll(call.dKeys + row * z.d, dk + ((b * z.t + row) * z.g + g) * z.d, z.d);
          roundAll(call.dValues + row * z.e, dv + ((b * z.t + row) * z.g + g) * z.e, z.e);
        }
    });
  }

  /// Adds the contributions of one query head to the gradients.
  void runHead(const AttentionCall<E> &call, Head head) const {
    const AttentionSizes &z = call.z;
    T *dScores = call.dScores;
    call.eachBlock(head, [&](Head at, int64_t row, int64_t rows, int64_t keys) {
      if (keys == 0)
        return;
      call.score(at, row, rows, keys);
      const E *outRow = out + call.rowOfOutput(at, row), *dOutRow = dOut + call.rowOfOutput(at, row);
      const MatrixView<E> dOutBlock = {dOutRow, z.h * z.e, 1};
      multiply(rows, keys, z.e, dOutBlock, transposed(call.values(at)), dScores, keys, GemmOutput::Overwrite,
               call.scratch);
      for (int64_t i = 0; i < rows; ++i)
        dispatch(
            [](auto, T *p, T *dS, const E *out, const E *dOut, int64_t keys, int64_t e, T lse, T scale) {
              double dot = 0;
#pragma omp simd reduction(+ : dot)
              for (int64_t j = 0; j < e; ++j)
                dot += double(valueOf(out[j])) * double(valueOf(dOut[j]));
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
      T *dKeys = call.dKeys, *dValues = call.dValues;
      int64_t dKeysRow = z.d, dValuesRow = z.e;
      if constexpr (isFloat<E>) { // added to in their place
        dKeys = dk + (call.keys(at).data - call.k), dKeysRow = z.g * z.d;
        dValues = dv + (call.values(at).data - call.v), dValuesRow = z.g * z.e;
      }
      const MatrixView<E> p = call.asFactor(call.scores, rows, keys);
      multiply(keys, z.e, rows, transposed(p), dOutBlock, dValues, dValuesRow, GemmOutput::Add, call.scratch);
      const MatrixView<E> dS = call.asFactor(dScores, rows, keys);
      multiply(rows, z.d, keys, dS, call.keys(at), dq + (call.queries(at, row).data - call.q), z.h * z.d,
               dqSoFar ? GemmOutput::Add : GemmOutput::Overwrite, call.scratch);
      multiply(keys, z.d, rows, transposed(dS), call.queries(at, row), dKeys, dKeysRow, GemmOutput::Add, call.scratch);
    });
  }
};

/// The direction of an attention kernel.
enum class Direction { Forward, Backward };

/// Binds an attention kernel whose query, key, value and mask are the operands from number `first` on, and takes its
/// scratch memory from `layout`.
template <typename E>
AttentionCall<E> callOf(const BindRequest &request, size_t first, const AttentionSizes &z, Direction direction,
                        ScratchLayout &layout) {
  using T = ComputeType<E>;
  const int64_t rows = std::min(queryRows(z), z.s), width = std::max(z.d, z.e), bytes = int64_t(sizeof(T));
  const bool backward = direction == Direction::Backward;
  AttentionCall<E> call{z, dataOf<E>(request.operands[first]), dataOf<E>(request.operands[first + 1]),
                        dataOf<E>(request.operands[first + 2]), z.masked ? request.operands[first + 3].data : nullptr};
  const int64_t scores = layout.take(rows * z.t * bytes);
  call.scores = scratchAt<T>(request.scratch, scores);
  call.dScores = backward ? scratchAt<T>(request.scratch, layout.take(rows * z.t * bytes)) : call.scores;
  if constexpr (!isFloat<E>) {
    call.factor = scratchAt<E>(request.scratch, layout.take(rows * z.t * int64_t(sizeof(E))));
    call.dKeys = scratchAt<T>(request.scratch, layout.take(backward ? z.t * z.d * bytes : 0));
    call.dValues = scratchAt<T>(request.scratch, layout.take(backward ? z.t * z.e * bytes : 0));
  }
  call.scratch = scratchAt<std::byte>(
      request.scratch,
      layout.take(std::max({multiplyScratchBytes<E>(rows, z.t, width), multiplyScratchBytes<E>(rows, width, z.t),
                            multiplyScratchBytes<E>(z.t, width, rows)})));
  call.bytesOfThread = layout.bytes();
  call.team = request.team;
  layout.take((threadsOf(request.team) - 1) * call.bytesOfThread);
  return call;
}

/// Checks an instruction of attention_backward or attention_block_backward and builds its kernel. Its query, key, value
/// and (if `masked`) mask are the operands from number `first` on. In attention_block_backward, the operand before them
/// is the query's gradient from earlier blocks.
Result<PlannedKernel> attentionBackward(Checker &check, const BindRequest &request, size_t first, bool masked,
                                        const AttentionSizes &sizes);

} // namespace kerf::runtime::kernels
