// SPDX-License-Identifier: Apache-2.0
// Sum, maximum and minimum over dimensions. Float sums run in double, in an order that only the shape decides.
#include "Combine.h"
#include "Families.h"
#include "Simd.h"
#include "StridedCopy.h"

#include <algorithm>

namespace kerf::runtime::kernels {

namespace {
struct ReduceDim {
  int64_t size, from, to; // strides in elements; `to` of a reduced dimension is 0
};

template <typename A, typename T> [[gnu::always_inline]] inline A widened(T x) {
  if constexpr (std::is_same_v<T, Bool8> && !std::is_same_v<A, Bool8>)
    return A(int(x)); // a sum of bools counts, and is true unless 0: their logical or
  else
    return A(x);
}

/// Sixteen running results over a row, combined in order at its end: the same on every machine, and vectors for the
/// compiler.
constexpr int64_t kLanes = 16;

template <typename T, typename Op> [[gnu::always_inline]] inline auto reducedRow(const T *x, int64_t n) {
  using A = typename Op::template Accumulator<T>;
  A lanes[kLanes];
  for (int64_t l = 0; l < kLanes; ++l)
    lanes[l] = Op::template first<T>();
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
#pragma omp simd
    for (int64_t l = 0; l < kLanes; ++l)
      lanes[l] = Op::combine(lanes[l], widened<A>(x[i + l]));
  for (; i < n; ++i)
    lanes[i % kLanes] = Op::combine(lanes[i % kLanes], widened<A>(x[i]));
  A result = lanes[0];
  for (int64_t l = 1; l < kLanes; ++l)
    result = Op::combine(result, lanes[l]);
  return result;
}

/// acc[j] is the running result of the innermost dimension's element j where that is kept, acc[0] where it is reduced.
/// `last` stands for the innermost dimension.
template <typename T, typename Op, typename A>
void reduceInto(A *acc, const T *x, const ReduceDim *dim, size_t left, const ReduceDim &last) {
  if (left > 1) {
    for (int64_t i = 0; i < dim->size; ++i)
      reduceInto<T, Op, A>(acc, x + i * dim->from, dim + 1, left - 1, last);
  } else if (last.to == 0) {
    dispatch([](auto, A *acc, const T *x, int64_t n) { acc[0] = Op::combine(acc[0], reducedRow<T, Op>(x, n)); }, acc, x,
             last.size);
  } else {
    dispatch(
        [](auto, A *acc, const T *x, int64_t n) {
#pragma omp simd
          for (int64_t j = 0; j < n; ++j)
            acc[j] = Op::combine(acc[j], widened<A>(x[j]));
        },
        acc, x, last.size);
  }
}

template <typename T, typename Op> struct Reduction {
  using A = typename Op::template Accumulator<T>;
  std::vector<ReduceDim> kept, rest; // outer kept dimensions; then the reduced ones and the innermost
  int64_t width = 1;                 // elements of `acc`

  void run(const T *x, T *y, A *acc, size_t depth) const {
    if (depth < kept.size()) {
      for (int64_t i = 0; i < kept[depth].size; ++i)
        run(x + i * kept[depth].from, y + i * kept[depth].to, acc, depth + 1);
      return;
    }
    runColumns(x, y, acc, 0, width);
  }

  /// Columns [begin, end) of the innermost dimension, all of it where it is reduced.
  void runColumns(const T *x, T *y, A *acc, int64_t begin, int64_t end) const {
    std::fill(acc + begin, acc + end, Op::template first<T>());
    ReduceDim last = rest.back();
    if (last.to)
      last = {end - begin, 1, 1};
    reduceInto<T, Op, A>(acc + begin, x + begin, rest.data(), rest.size(), last);
    for (int64_t j = begin; j < end; ++j)
      y[j] = T(acc[j]);
  }

  /// The team shares the outermost kept dimension or, where there is none, the columns; `acc`: `width` numbers of each
  /// thread.
  void run(Team *team, const T *x, T *y, A *acc) const {
    if (kept.empty()) {
      constexpr int64_t kColumns = 64; // of a task: some lines of a cache in each row
      forPieces(team, width, kColumns, [&](int64_t begin, int64_t end) { runColumns(x, y, acc, begin, end); });
      return;
    }
    int64_t elements = width;
    for (size_t d = 1; d < kept.size(); ++d)
      elements *= kept[d].size;
    for (const ReduceDim &dim : rest)
      elements *= dim.to ? 1 : dim.size;
    int64_t count = rowsOfTask(elements);
    forTasks(team, (kept[0].size + count - 1) / count, [&](int64_t task, int64_t thread) {
      for (int64_t i = task * count; i < std::min(kept[0].size, (task + 1) * count); ++i)
        run(x + i * kept[0].from, y + i * kept[0].to, acc + thread * width, 1);
    });
  }
};

template <typename T, typename Op> Planned planned(const BindRequest &request, const std::vector<ReduceDim> &dims) {
  Reduction<T, Op> reduction;
  const ReduceDim &innermost = dims.back();
  for (size_t d = 0; d + 1 < dims.size(); ++d)
    (dims[d].to ? reduction.kept : reduction.rest).push_back(dims[d]);
  reduction.rest.push_back(innermost);
  reduction.width = innermost.to ? innermost.size : 1;
  using A = typename Op::template Accumulator<T>;
  ScratchLayout layout;
  A *acc = scratchAt<A>(request.scratch, layout.take(threadsOf(request.team) * reduction.width * int64_t(sizeof(A))));
  const T *x = dataOf<T>(request.operands[0]);
  T *y = mutableDataOf<T>(request.results[0]);
  bool nothingToDo = request.results[0].elements() == 0;
  return {[=, team = request.team] {
            if (!nothingToDo)
              reduction.run(team, x, y, acc);
            return ok();
          },
          layout.bytes()};
}
} // namespace

Result<Planned> planReduce(const BindRequest &request) {
  Checker check(request);
  if (!check.counts(1, 1, 1))
    return check.error();
  const TensorView &operand = request.operands[0], &result = request.results[0];
  size_t kind = check.choice("kind", {"sum", "max", "min"});
  std::vector<int64_t> reduced = check.dimensions("dimensions", operand.shape.size());
  Shape expected;
  for (size_t d = 0; d < operand.shape.size(); ++d)
    if (std::find(reduced.begin(), reduced.end(), int64_t(d)) == reduced.end())
      expected.push_back(operand.shape[d]);
  check.shape(result, "the result", expected);
  check.dtype(result, "the result", operand.dtype);
  if (check.failed())
    return check.error();

  std::vector<int64_t> fromStrides = stridesOf(operand.shape), toStrides = stridesOf(expected);
  std::vector<ReduceDim> dims;
  size_t keptSoFar = 0;
  for (size_t d = 0; d < operand.shape.size(); ++d) {
    bool keeps = std::find(reduced.begin(), reduced.end(), int64_t(d)) == reduced.end();
    int64_t to = keeps ? toStrides[keptSoFar++] : 0;
    if (operand.shape[d] == 1)
      continue;
    // Neighbours of one kind are one dimension: both lie row-major in the operand, and kept ones in the result.
    if (!dims.empty() && (dims.back().to != 0) == keeps)
      dims.back() = {dims.back().size * operand.shape[d], fromStrides[d], to};
    else
      dims.push_back({operand.shape[d], fromStrides[d], to});
  }
  if (dims.empty())
    dims.push_back({1, 1, 0});
  return forAny(request, operand.dtype, [&](auto type) -> Result<Planned> {
    using T = typename decltype(type)::type;
    return kind == 0   ? planned<T, SumOf>(request, dims)
           : kind == 1 ? planned<T, MaxOf>(request, dims)
                       : planned<T, MinOf>(request, dims);
  });
}

} // namespace kerf::runtime::kernels
