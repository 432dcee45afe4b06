// SPDX-License-Identifier: Apache-2.0
// Cross entropy of rows of logits with integer labels, and its gradient, which uses the saved log-sum-exp.
#include "Bf16Elements.h"
#include "Families.h"

#include <algorithm>

namespace kerf::runtime::kernels {

namespace {
/// The number of rows, the number of elements of a row, how many of them (the first ones) are classes, and the label of
/// rows to ignore.
struct LossSizes {
  int64_t rows, columns, classes, ignored;
};

std::optional<LossSizes> lossSizes(Checker &check, const TensorView &logits, const TensorView &labels,
                                   std::initializer_list<const TensorView *> likeRows) {
  check.require(!logits.shape.empty(), "the logits are a scalar: there is no class dimension");
  check.indices(labels, "the labels");
  int64_t ignored = check.integer("ignore_index");
  if (check.failed())
    return std::nullopt;
  int64_t columns = logits.shape.back(), classes = check.integerOr("classes", columns);
  check.require(classes >= 0 && classes <= columns,
                "has {} classes, but should have 0 to {}, the number of columns of its logits", classes, columns);
  Shape rows(logits.shape.begin(), logits.shape.end() - 1);
  check.shape(labels, "the labels", rows);
  for (const TensorView *view : likeRows) {
    check.dtype(*view, "a tensor of rows", computeType(logits.dtype));
    check.shape(*view, "a tensor of rows", rows);
  }
  if (check.failed())
    return std::nullopt;
  return LossSizes{elementsOf(rows), columns, classes, ignored};
}

template <typename I> Status checkLabels(const I *labels, const LossSizes &s) {
  for (int64_t i = 0; i < s.rows; ++i)
    if (labels[i] != s.ignored && (labels[i] < 0 || labels[i] >= s.classes))
      return Error{
          fmt::format("label {} of row {} is outside of [0, {}) and is not the ignored label {}; check the input data",
                      int64_t(labels[i]), i, s.classes, s.ignored)};
  return ok();
}

template <typename E> [[gnu::always_inline]] inline double logSumExp(const E *x, int64_t n) {
  using T = ComputeType<E>;
  T highest = -std::numeric_limits<T>::infinity();
#pragma omp simd reduction(max : highest)
  for (int64_t i = 0; i < n; ++i)
    highest = highest > valueOf(x[i]) ? highest : valueOf(x[i]);
  if (highest == -std::numeric_limits<T>::infinity())
    highest = 0; // if all logits are -infinity, the result is log(0) = -infinity instead of NaN
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i)
    sum += double(fastExp(T(valueOf(x[i]) - highest)));
  return double(highest) + std::log(sum);
}
} // namespace

Result<PlannedKernel> planCrossEntropy(const BindRequest &request) {
  Checker check(request);
  if (!check.counts(2, 2, 2))
    return check.error();
  const TensorView &logits = request.operands[0], &labels = request.operands[1];
  std::optional<LossSizes> sizes = lossSizes(check, logits, labels, {&request.results[0], &request.results[1]});
  if (!sizes)
    return check.error();
  return withIndexType(request, labels.dtype, [&](auto index) {
    using I = typename decltype(index)::type;
    return withElementOfFloats(request, logits.dtype, [&](auto type) -> Result<PlannedKernel> {
      using E = typename decltype(type)::type;
      using T = ComputeType<E>;
      auto loop = [](auto, const E *x, const I *label, T *nll, T *lse, LossSizes s) {
        for (int64_t i = 0; i < s.rows; ++i, x += s.columns) {
          double sum = logSumExp(x, s.classes);
          lse[i] = T(sum);
          nll[i] = label[i] == s.ignored
                       ? T(0)
                       : T(sum - double(valueOf(x[label[i]]))); // before rounding: the difference may be small
        }
      };
      return PlannedKernel{[=, s = *sizes, x = dataOf<E>(logits), label = dataOf<I>(labels),
                            nll = mutableDataOf<T>(request.results[0]), lse = mutableDataOf<T>(request.results[1]),
                            team = request.team]() -> Status {
        if (Status status = checkLabels(label, s); !status)
          return status;
        forPieces(team, s.rows, rowsOfTask(s.classes), [&](int64_t i, int64_t end) {
          dispatch(loop, x + i * s.columns, label + i, nll + i, lse + i,
                   LossSizes{end - i, s.columns, s.classes, s.ignored});
        });
        return ok();
      }};
    });
  });
}

Result<PlannedKernel> planCrossEntropyBackward(const BindRequest &request) {
  Checker check(request);
  if (!check.counts(4, 4, 1))
    return check.error();
  const TensorView &logits = request.operands[0], &labels = request.operands[1];
  check.sameType(request.results[0], "the result", logits, "the logits");
  std::optional<LossSizes> sizes = lossSizes(check, logits, labels, {&request.operands[2], &request.operands[3]});
  if (!sizes)
    return check.error();
  return withIndexType(request, labels.dtype, [&](auto index) {
    using I = typename decltype(index)::type;
    return withElementOfFloats(request, logits.dtype, [&](auto type) -> Result<PlannedKernel> {
      using E = typename decltype(type)::type;
      using T = ComputeType<E>;
      auto loop = [](auto, const E *x, E *dx, T lse, T gradient, int64_t n) {
#pragma omp simd
        for (int64_t i = 0; i < n; ++i)
          dx[i] = elementOf<E>(fastExp(T(valueOf(x[i]) - lse)) * gradient);
      };
      return PlannedKernel{[=, s = *sizes, x = dataOf<E>(logits), label = dataOf<I>(labels),
                            lse = dataOf<T>(request.operands[2]), dy = dataOf<T>(request.operands[3]),
                            dx = mutableDataOf<E>(request.results[0]), team = request.team]() -> Status {
        if (Status status = checkLabels(label, s); !status)
          return status;
        forPieces(team, s.rows, rowsOfTask(s.classes), [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            E *row = dx + i * s.columns;
            if (label[i] == s.ignored) {
              std::fill_n(row, s.columns, E(0));
              continue;
            }
            const E *logits = x + i * s.columns;
            const T atLabel = (fastExp(T(valueOf(logits[label[i]]) - lse[i])) - T(1)) * dy[i]; // x may be dx
            dispatch(loop, logits, row, lse[i], dy[i], s.classes);
            row[label[i]] = elementOf<E>(atLabel);
            std::fill(row + s.classes, row + s.columns, E(0));
          }
        });
        return ok();
      }};
    });
  });
}

} // namespace kerf::runtime::kernels
