// SPDX-License-Identifier: Apache-2.0
// softmax, layer_norm and rms_norm, and their gradients. Sums over a row, and over rows, are accumulated in double.
#include "Families.h"
#include "Simd.h"

#include <algorithm>

namespace kerf::runtime::kernels {

namespace {
/// A tensor seen as (outer, size, inner), where `size` is the dimension of a softmax.
struct SoftmaxSizes {
  int64_t outer, size, inner;
  /// Returns the number of the first element of row number `row`, in [0, outer * inner).
  int64_t start(int64_t row) const { return row / inner * size * inner + row % inner; }
};

/// Computes the softmax of one row whose elements are `stride` apart. If the maximum is infinite, the result is NaN,
/// as by definition.
template <typename T> [[gnu::always_inline]] inline void softmaxRow(const T *x, T *y, int64_t n, int64_t stride) {
  T highest = -std::numeric_limits<T>::infinity();
#pragma omp simd reduction(max : highest)
  for (int64_t i = 0; i < n; ++i)
    highest = highest > x[i * stride] ? highest : x[i * stride];
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) {
    T e = fastExp(T(x[i * stride] - highest)); // a NaN in the row makes the sum, and so the whole row, NaN
    y[i * stride] = e;
    sum += double(e);
  }
  T inverse = T(1 / sum);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i)
    y[i * stride] *= inverse;
}

template <typename T>
[[gnu::always_inline]] inline void softmaxBackwardRow(const T *y, const T *dy, T *dx, int64_t n, int64_t stride) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i)
    sum += double(y[i * stride]) * double(dy[i * stride]);
  T dot = T(sum);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i)
    dx[i * stride] = y[i * stride] * (dy[i * stride] - dot);
}

SoftmaxSizes softmaxSizes(const Shape &shape, size_t dimension) {
  return {product(shape, 0, dimension), shape[dimension], product(shape, dimension + 1)};
}

/// The numbers of rows and of columns of a normalization.
struct NormSizes {
  int64_t rows, n;
};

std::optional<NormSizes> normSizes(Checker &check, const TensorView &x,
                                   std::initializer_list<const TensorView *> likeOperand,
                                   std::initializer_list<const TensorView *> likeScale,
                                   std::initializer_list<const TensorView *> likeRows) {
  check.require(!x.shape.empty(), "the operand is a scalar: there is no last dimension");
  if (check.failed())
    return std::nullopt;
  Shape rows(x.shape.begin(), x.shape.end() - 1), last = {x.shape.back()};
  auto all = [&](auto &views, std::string_view name, const Shape &shape) {
    for (const TensorView *view : views) {
      check.dtype(*view, name, x.dtype);
      check.shape(*view, name, shape);
    }
  };
  all(likeOperand, "a tensor like the operand", x.shape);
  all(likeScale, "a tensor like the scale", last);
  all(likeRows, "a statistic of the rows", rows);
  if (check.failed())
    return std::nullopt;
  return NormSizes{elementsOf(rows), x.shape.back()};
}

template <typename T> [[gnu::always_inline]] inline double sumOf(const T *x, int64_t n) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i)
    sum += double(x[i]);
  return sum;
}

template <typename T>
[[gnu::always_inline]] inline void layerNormRow(const T *x, const T *scale, const T *bias, T *y, T *meanOut, T *rstdOut,
                                                int64_t n, double epsilon) {
  double mean = sumOf(x, n) / double(n), squares = 0;
#pragma omp simd reduction(+ : squares)
  for (int64_t i = 0; i < n; ++i)
    squares += (double(x[i]) - mean) * (double(x[i]) - mean);
  double rstd = 1 / std::sqrt(squares / double(n) + epsilon);
  *meanOut = T(mean);
  *rstdOut = T(rstd);
  T m = T(mean), r = T(rstd);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i)
    y[i] = (x[i] - m) * r * scale[i] + bias[i];
}

/// Computes the gradient of one row: dx = rstd * (g - mean(g) - xhat * mean(g * xhat)) with g = dy * scale and xhat =
/// (x - mean) * rstd. For rms_norm (Center::None), mean(g) is left out and xhat = x * rstd.
enum class Center { Mean, None };

template <typename T, Center center>
[[gnu::always_inline]] inline void normBackwardRow(const T *x, const T *scale, T mean, T rstd, const T *dy, T *dx,
                                                   double *dScale, double *dBias, int64_t n) {
  double sum = 0, dot = 0;
#pragma omp simd reduction(+ : sum, dot)
  for (int64_t i = 0; i < n; ++i) {
    T hat = (x[i] - mean) * rstd, g = dy[i] * scale[i];
    sum += double(g);
    dot += double(g) * double(hat);
    dScale[i] += double(dy[i]) * double(hat);
    if constexpr (center == Center::Mean)
      dBias[i] += double(dy[i]);
  }
  T meanOfG = center == Center::Mean ? T(sum / double(n)) : T(0), meanOfDot = T(dot / double(n));
#pragma omp simd
  for (int64_t i = 0; i < n; ++i)
    dx[i] = rstd * (dy[i] * scale[i] - meanOfG - (x[i] - mean) * rstd * meanOfDot);
}

/// Sums over rows, for the gradients of scale and bias. Each piece of the rows has a sum of its own, and these are
/// added in order. The number of pieces, and so every bit of the result, depends only on the number of rows.
struct ScaleSums {
  double *total = nullptr; // the `width` total sums, followed by the sums of the pieces
  int64_t width = 0, rowsOfPiece = 1;

  template <typename F> void add(ThreadTeam *team, int64_t rows, const F &piece) const {
    forPieces(team, rows, rowsOfPiece, [&](int64_t begin, int64_t end) {
      double *sums = total + (begin / rowsOfPiece + 1) * width;
      std::fill_n(sums, width, 0.0);
      piece(begin, end, sums);
    });
    std::fill_n(total, width, 0.0);
    for (int64_t row = 0; row < rows; row += rowsOfPiece)
      dispatch(
          [](auto, double *total, const double *sums, int64_t n) {
#pragma omp simd
            for (int64_t i = 0; i < n; ++i)
              total[i] += sums[i];
          },
          total, total + (row / rowsOfPiece + 1) * width, width);
  }
};

ScaleSums takeScaleSums(ScratchLayout &layout, const BindRequest &request, const NormSizes &sizes, int64_t width) {
  constexpr int64_t kFewestRows = 32, kMostPieces = 64;
  int64_t rowsOfPiece = std::max(kFewestRows, (sizes.rows + kMostPieces - 1) / kMostPieces);
  int64_t pieces = (sizes.rows + rowsOfPiece - 1) / rowsOfPiece;
  int64_t offset = layout.take((pieces + 1) * width * int64_t(sizeof(double)));
  return {scratchAt<double>(request.scratch, offset), width, rowsOfPiece};
}
} // namespace

Result<PlannedKernel> planSoftmax(const BindRequest &request) {
  Checker check(request);
  if (!check.counts(1, 1, 1))
    return check.error();
  check.sameType(request.operands[0], "the operand", request.results[0], "the result");
  size_t dimension = check.dimension("dimension", request.operands[0].shape.size());
  if (check.failed())
    return check.error();
  return withFloatType(request, request.operands[0].dtype, [&](auto type) -> Result<PlannedKernel> {
    using T = typename decltype(type)::type;
    auto loop = [](auto, const T *x, T *y, SoftmaxSizes s, int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row)
        if (int64_t at = s.start(row); s.inner == 1) // a call of its own, so that the compiler sees unit strides
          softmaxRow(x + at, y + at, s.size, 1);
        else
          softmaxRow(x + at, y + at, s.size, s.inner);
    };
    return PlannedKernel{[=, x = dataOf<T>(request.operands[0]), y = mutableDataOf<T>(request.results[0]),
                          s = softmaxSizes(request.operands[0].shape, dimension), team = request.team] {
      forPieces(team, s.outer * s.inner, rowsOfTask(s.size),
                [&](int64_t begin, int64_t end) { dispatch(loop, x, y, s, begin, end); });
      return ok();
    }};
  });
}

Result<PlannedKernel> planSoftmaxBackward(const BindRequest &request) {
  Checker check(request);
  if (!check.counts(2, 2, 1))
    return check.error();
  check.sameType(request.operands[1], "the gradient", request.operands[0], "the output");
  check.sameType(request.results[0], "the result", request.operands[0], "the output");
  size_t dimension = check.dimension("dimension", request.operands[0].shape.size());
  if (check.failed())
    return check.error();
  return withFloatType(request, request.operands[0].dtype, [&](auto type) -> Result<PlannedKernel> {
    using T = typename decltype(type)::type;
    auto loop = [](auto, const T *y, const T *dy, T *dx, SoftmaxSizes s, int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row)
        if (int64_t at = s.start(row); s.inner == 1)
          softmaxBackwardRow(y + at, dy + at, dx + at, s.size, 1);
        else
          softmaxBackwardRow(y + at, dy + at, dx + at, s.size, s.inner);
    };
    return PlannedKernel{[=, y = dataOf<T>(request.operands[0]), dy = dataOf<T>(request.operands[1]),
                          dx = mutableDataOf<T>(request.results[0]),
                          s = softmaxSizes(request.operands[0].shape, dimension), team = request.team] {
      forPieces(team, s.outer * s.inner, rowsOfTask(s.size),
                [&](int64_t begin, int64_t end) { dispatch(loop, y, dy, dx, s, begin, end); });
      return ok();
    }};
  });
}

Result<PlannedKernel> planLayerNorm(const BindRequest &request) {
  Checker check(request);
  if (!check.counts(3, 3, 3))
    return check.error();
  const auto &in = request.operands, &out = request.results;
  double epsilon = check.number("epsilon");
  std::optional<NormSizes> sizes = normSizes(check, in[0], {&out[0]}, {&in[1], &in[2]}, {&out[1], &out[2]});
  if (!sizes)
    return check.error();
  return withFloatType(request, in[0].dtype, [&](auto type) -> Result<PlannedKernel> {
    using T = typename decltype(type)::type;
    auto loop = [](auto, const T *x, const T *scale, const T *bias, T *y, T *mean, T *rstd, NormSizes s,
                   double epsilon) {
      for (int64_t i = 0; i < s.rows; ++i)
        layerNormRow(x + i * s.n, scale, bias, y + i * s.n, mean + i, rstd + i, s.n, epsilon);
    };
    return PlannedKernel{[=, s = *sizes, x = dataOf<T>(in[0]), scale = dataOf<T>(in[1]), bias = dataOf<T>(in[2]),
                          y = mutableDataOf<T>(out[0]), mean = mutableDataOf<T>(out[1]),
                          rstd = mutableDataOf<T>(out[2]), team = request.team] {
      forPieces(team, s.rows, rowsOfTask(s.n), [&](int64_t i, int64_t end) {
        dispatch(loop, x + i * s.n, scale, bias, y + i * s.n, mean + i, rstd + i, NormSizes{end - i, s.n}, epsilon);
      });
      return ok();
    }};
  });
}

Result<PlannedKernel> planLayerNormBackward(const BindRequest &request) {
  Checker check(request);
  if (!check.counts(5, 5, 3))
    return check.error();
  const auto &in = request.operands, &out = request.results;
  std::optional<NormSizes> sizes =
      normSizes(check, in[0], {&in[4], &out[0]}, {&in[1], &out[1], &out[2]}, {&in[2], &in[3]});
  if (!sizes)
    return check.error();
  return withFloatType(request, in[0].dtype, [&](auto type) -> Result<PlannedKernel> {
    using T = typename decltype(type)::type;
    ScratchLayout layout;
    ScaleSums sums = takeScaleSums(layout, request, *sizes, 2 * sizes->n);
    auto loop = [](auto, const T *x, const T *scale, const T *mean, const T *rstd, const T *dy, T *dx, double *sums,
                   NormSizes s) {
      for (int64_t i = 0; i < s.rows; ++i)
        normBackwardRow<T, Center::Mean>(x + i * s.n, scale, mean[i], rstd[i], dy + i * s.n, dx + i * s.n, sums,
                                         sums + s.n, s.n);
    };
    return PlannedKernel{[=, s = *sizes, x = dataOf<T>(in[0]), scale = dataOf<T>(in[1]), mean = dataOf<T>(in[2]),
                          rstd = dataOf<T>(in[3]), dy = dataOf<T>(in[4]), dx = mutableDataOf<T>(out[0]),
                          dScale = mutableDataOf<T>(out[1]), dBias = mutableDataOf<T>(out[2]), team = request.team] {
                           sums.add(team, s.rows, [&](int64_t i, int64_t end, double *piece) {
                             dispatch(loop, x + i * s.n, scale, mean + i, rstd + i, dy + i * s.n, dx + i * s.n, piece,
                                      NormSizes{end - i, s.n});
                           });
                           std::transform(sums.total, sums.total + s.n, dScale, [](double v) { return T(v); });
                           std::transform(sums.total + s.n, sums.total + 2 * s.n, dBias, [](double v) { return T(v); });
                           return ok();
                         },
                         layout.bytes()};
  });
}

Result<PlannedKernel> planRmsNorm(const BindRequest &request) {
  Checker check(request);
  if (!check.counts(2, 2, 2))
    return check.error();
  const auto &in = request.operands, &out = request.results;
  double epsilon = check.number("epsilon");
  std::optional<NormSizes> sizes = normSizes(check, in[0], {&out[0]}, {&in[1]}, {&out[1]});
  if (!sizes)
    return check.error();
  return withFloatType(request, in[0].dtype, [&](auto type) -> Result<PlannedKernel> {
    using T = typename decltype(type)::type;
    auto loop = [](auto, const T *x, const T *scale, T *y, T *rstd, NormSizes s, double epsilon) {
      for (int64_t row = 0; row < s.rows; ++row, x += s.n, y += s.n) {
        double squares = 0;
#pragma omp simd reduction(+ : squares)
        for (int64_t i = 0; i < s.n; ++i)
          squares += double(x[i]) * double(x[i]);
        T r = T(1 / std::sqrt(squares / double(s.n) + epsilon));
        rstd[row] = r;
#pragma omp simd
        for (int64_t i = 0; i < s.n; ++i)
          y[i] = x[i] * r * scale[i];
      }
    };
    return PlannedKernel{[=, s = *sizes, x = dataOf<T>(in[0]), scale = dataOf<T>(in[1]), y = mutableDataOf<T>(out[0]),
                          rstd = mutableDataOf<T>(out[1]), team = request.team] {
      forPieces(team, s.rows, rowsOfTask(s.n), [&](int64_t i, int64_t end) {
        dispatch(loop, x + i * s.n, scale, y + i * s.n, rstd + i, NormSizes{end - i, s.n}, epsilon);
      });
      return ok();
    }};
  });
}

Result<PlannedKernel> planRmsNormBackward(const BindRequest &request) {
  Checker check(request);
  if (!check.counts(4, 4, 2))
    return check.error();
  const auto &in = request.operands, &out = request.results;
  std::optional<NormSizes> sizes = normSizes(check, in[0], {&in[3], &out[0]}, {&in[1], &out[1]}, {&in[2]});
  if (!sizes)
    return check.error();
  return withFloatType(request, in[0].dtype, [&](auto type) -> Result<PlannedKernel> {
    using T = typename decltype(type)::type;
    ScratchLayout layout;
    ScaleSums sums = takeScaleSums(layout, request, *sizes, sizes->n);
    auto loop = [](auto, const T *x, const T *scale, const T *rstd, const T *dy, T *dx, double *sums, NormSizes s) {
      for (int64_t i = 0; i < s.rows; ++i)
        normBackwardRow<T, Center::None>(x + i * s.n, scale, T(0), rstd[i], dy + i * s.n, dx + i * s.n, sums, nullptr,
                                         s.n);
    };
    return PlannedKernel{
        [=, s = *sizes, x = dataOf<T>(in[0]), scale = dataOf<T>(in[1]), rstd = dataOf<T>(in[2]), dy = dataOf<T>(in[3]),
         dx = mutableDataOf<T>(out[0]), dScale = mutableDataOf<T>(out[1]), team = request.team] {
          sums.add(team, s.rows, [&](int64_t i, int64_t end, double *piece) {
            dispatch(loop, x + i * s.n, scale, rstd + i, dy + i * s.n, dx + i * s.n, piece, NormSizes{end - i, s.n});
          });
          std::transform(sums.total, sums.total + s.n, dScale, [](double v) { return T(v); });
          return ok();
        },
        layout.bytes()};
  });
}

} // namespace kerf::runtime::kernels
