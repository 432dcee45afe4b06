// SPDX-License-Identifier: Apache-2.0
// Reductions at the end of fused kernels, for Routines.cu. They combine elements in the order of the kernels of
// ReduceRows.cu. The code generator (lib/Codegen) passes the function that computes the elements, and all sizes as
// constants; everything is inlined into the kernel, so that elements stay in registers.
#pragma once

#include "ColumnCode.h"

namespace kerf::runtime::cuda {

/// Computes items of W neighbouring elements, which begin at the elements first, first + apart, ..., and stores those
/// that the kernel stores. It writes the number of element k of item i that is reduced into result r to
/// values[(i * R + r) * W + k], where R results are reductions. Maxima and minima are exact in double, so that all
/// reductions have one type.
using ElementsOf = void (*)(const void *addresses, int64_t first, int64_t apart, double *values);

/// The functions that compute one item and `together` items, which is 2 or 4. The latter loads all of its items at
/// once.
struct FusedElements {
  ElementsOf one, several;
  int32_t together;
  const void *addresses;

  /// Calls f(x) for the values of each item of the elements i, i + apart, ... below n, in their order.
  template <int W, int R, typename F> KERF_DEVICE void each(int64_t i, int64_t n, int64_t apart, F f) const {
    if (together == 4)
      eachOf<4, W, R>(i, n, apart, f);
    else
      eachOf<2, W, R>(i, n, apart, f);
#pragma unroll 1
    for (; i < n; i += apart) {
      double x[R * W];
      one(addresses, i, apart, x);
      f(x);
    }
  }

private:
  template <int U, int W, int R, typename F> KERF_DEVICE void eachOf(int64_t &i, int64_t n, int64_t apart, F f) const {
#pragma unroll 1
    for (; i + (U - 1) * apart < n; i += U * apart) {
      double x[U * R * W];
      several(addresses, i, apart, x);
#pragma unroll
      for (int item = 0; item < U; ++item)
        f(x + item * R * W);
    }
  }
};

/// A result of a fused kernel that is a reduction.
struct FusedResult {
  Reduction kind;
  int32_t type; // number of DType
  void *to;     // the result; the partial results of the pieces if there are several

  KERF_DEVICE double neutral() const {
    return kind == Reduction::Sum ? 0.0 : kind == Reduction::Max ? lowest<double>() : highest<double>();
  }
  KERF_DEVICE double combine(double a, double b) const {
    return kind == Reduction::Sum ? a + b : kind == Reduction::Max ? larger(a, b) : smaller(a, b);
  }
  /// Writes value number i of all pieces. Partial results have the type that `combinePieces` reads.
  KERF_DEVICE void write(int64_t pieces, int64_t i, double value) const {
    constexpr int32_t kF64 = 0, kF32 = 1, kBF16 = 2; // numbers of DType
    bool isPartial = pieces > 1;
    if (type == kF64 || (isPartial && kind == Reduction::Sum))
      put<F64>(to, i, value);
    else if (type == kF32 || isPartial)
      put<F32>(to, i, float(value));
    else if (type == kBF16)
      put<BF16>(to, i, float(value));
    else
      put<F16>(to, i, float(value));
  }
};

/// The sizes of package::ReducePlan.
struct FusedSizes {
  int64_t outer, kept, inner, outerOfPiece, innerOfPiece, innerPieces, pieces, rowsOfWarp;
};

/// Reduces rows of a table as reduceTable of ReduceRows.cu does, into R results.
struct FusedTable {
  template <int W, int R>
  KERF_DEVICE static void run(const FusedElements &elements, const FusedSizes &p, const FusedResult (&results)[R]) {
    KERF_SHARED double values[kReduceThreads / 32][32 * W];
    const TableThread<W> thread(p.rowsOfWarp);
    const int64_t tiles = (p.kept + thread.columns - 1) / thread.columns;
    for (int64_t tile = block(); tile < tiles * p.pieces; tile += blocks()) {
      int64_t piece = tile / tiles, first = (tile - piece * tiles) * thread.columns, column = first + thread.column;
      int64_t begin = piece * p.outerOfPiece, end = begin + p.outerOfPiece < p.outer ? begin + p.outerOfPiece : p.outer;
      std::array<double, W> sums[R];
#pragma unroll
      for (int r = 0; r < R; ++r)
#pragma unroll
        for (int k = 0; k < W; ++k)
          sums[r][k] = results[r].neutral();
      if (column < p.kept)
        elements.each<W, R>((begin + thread.group) * p.kept + column, end * p.kept, thread.groups * p.kept,
                            [&](const double *x) {
#pragma unroll
                              for (int r = 0; r < R; ++r)
#pragma unroll
                                for (int k = 0; k < W; ++k)
                                  sums[r][k] = results[r].combine(sums[r][k], x[r * W + k]);
                            });
#pragma unroll
      for (int r = 0; r < R; ++r)
        thread.combine(
            values, sums[r], results[r].neutral(), [&](double a, double b) { return results[r].combine(a, b); },
            [&](int64_t k, double value) {
              if (first + k < p.kept)
                results[r].write(p.pieces, piece * p.kept + first + k, value);
            });
    }
  }
};

/// Reduces runs as reduceRuns of ReduceRows.cu does, into R results. A run, and a piece of one, is whole sectors.
template <typename Group> struct FusedRuns {
  template <int W, int R>
  KERF_DEVICE static void run(const FusedElements &elements, const FusedSizes &p, const FusedResult (&results)[R]) {
    for (int64_t item = Group::firstRow(); item < p.pieces * p.kept; item += Group::rowStep()) {
      int64_t piece = item / p.kept, outerPiece = piece / p.innerPieces;
      int64_t left = (piece - outerPiece * p.innerPieces) * p.innerOfPiece, begin = outerPiece * p.outerOfPiece;
      int64_t n = left < p.inner ? p.inner - left : 0;
      n = n < p.innerOfPiece ? n : p.innerOfPiece;
      int64_t start = (begin * p.kept + item - piece * p.kept) * p.inner + left;
      int64_t runs = p.outer - begin < p.outerOfPiece ? p.outer - begin : p.outerOfPiece;
      double value[R];
#pragma unroll
      for (int r = 0; r < R; ++r)
        value[r] = results[r].neutral();
      for (; runs > 0; --runs, start += p.kept * p.inner)
        elements.each<W, R>(start + Group::first() * W, start + n, Group::step() * W, [&](const double *x) {
#pragma unroll
          for (int r = 0; r < R; ++r)
#pragma unroll
            for (int k = 0; k < W; ++k)
              value[r] = results[r].combine(value[r], x[r * W + k]);
        });
#pragma unroll
      for (int r = 0; r < R; ++r) {
        double whole = Group::combine(value[r], [&](double a, double b) { return results[r].combine(a, b); });
        if (Group::first() == 0)
          results[r].write(p.pieces, item, whole);
      }
    }
  }
};

#define KERF_ELEMENTS ElementsOf one, ElementsOf several, int32_t together, const void *addresses
#define KERF_ELEMENTS_GIVEN {one, several, together, addresses}
#define KERF_SIZES                                                                                                     \
  int64_t outer, int64_t kept, int64_t inner, int64_t outerOfPiece, int64_t innerOfPiece, int64_t innerPieces,         \
      int64_t pieces, int64_t rowsOfWarp
#define KERF_SIZES_GIVEN {outer, kept, inner, outerOfPiece, innerOfPiece, innerPieces, pieces, rowsOfWarp}
#define KERF_RESULT(r) int32_t kind##r, int32_t type##r, void *to##r
#define KERF_GIVEN(r) {Reduction(kind##r), type##r, to##r}
/// Defines the functions of one form and width, for one to three results.
#define KERF_REDUCTIONS(form, name, W)                                                                                 \
  __attribute__((device)) void name##W##With1(KERF_ELEMENTS, KERF_SIZES,                                               \
                                              KERF_RESULT(0)) __asm__("reduce." #name ".w" #W ".r1");                  \
  __attribute__((device)) void name##W##With1(KERF_ELEMENTS, KERF_SIZES, KERF_RESULT(0)) {                             \
    form::run<W, 1>(KERF_ELEMENTS_GIVEN, KERF_SIZES_GIVEN, {KERF_GIVEN(0)});                                           \
  }                                                                                                                    \
  __attribute__((device)) void name##W##With2(KERF_ELEMENTS, KERF_SIZES, KERF_RESULT(0),                               \
                                              KERF_RESULT(1)) __asm__("reduce." #name ".w" #W ".r2");                  \
  __attribute__((device)) void name##W##With2(KERF_ELEMENTS, KERF_SIZES, KERF_RESULT(0), KERF_RESULT(1)) {             \
    form::run<W, 2>(KERF_ELEMENTS_GIVEN, KERF_SIZES_GIVEN, {KERF_GIVEN(0), KERF_GIVEN(1)});                            \
  }                                                                                                                    \
  __attribute__((device)) void name##W##With3(KERF_ELEMENTS, KERF_SIZES, KERF_RESULT(0), KERF_RESULT(1),               \
                                              KERF_RESULT(2)) __asm__("reduce." #name ".w" #W ".r3");                  \
  __attribute__((device)) void name##W##With3(KERF_ELEMENTS, KERF_SIZES, KERF_RESULT(0), KERF_RESULT(1),               \
                                              KERF_RESULT(2)) {                                                        \
    form::run<W, 3>(KERF_ELEMENTS_GIVEN, KERF_SIZES_GIVEN, {KERF_GIVEN(0), KERF_GIVEN(1), KERF_GIVEN(2)});             \
  }

KERF_REDUCTIONS(FusedTable, table, 1)
KERF_REDUCTIONS(FusedTable, table, 2)
KERF_REDUCTIONS(FusedTable, table, 4)
KERF_REDUCTIONS(FusedTable, table, 8)
KERF_REDUCTIONS(FusedRuns<WarpOfRow>, warps, 2)
KERF_REDUCTIONS(FusedRuns<WarpOfRow>, warps, 4)
KERF_REDUCTIONS(FusedRuns<WarpOfRow>, warps, 8)
KERF_REDUCTIONS(FusedRuns<BlockOfRow>, blocks, 2)
KERF_REDUCTIONS(FusedRuns<BlockOfRow>, blocks, 4)
KERF_REDUCTIONS(FusedRuns<BlockOfRow>, blocks, 8)

} // namespace kerf::runtime::cuda
