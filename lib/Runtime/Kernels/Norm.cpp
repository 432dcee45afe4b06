// SPDX-License-Identifier: Apache-2.0
// softmax, layer_norm and rms_norm with their backward forms. Sums over a row, and over rows, run in double.
#include "Families.h"
#include "Simd.h"

#include <algorithm>

namespace kerf::runtime::kernels {

namespace {
/// A tensor as (outer, size, inner) around the dimension of a softmax.
struct SoftmaxSizes {
  int64_t outer, size, inner;
};

/// One row, elements `stride` apart. An infinite maximum gives NaN, as the definition does.
template <typename T> [[gnu::always_inline]] inline void softmaxRow(const T *x, T *y, int64_t n, int64_t stride) {
  T highest = -std::numeric_limits<T>::infinity();
#pragma omp simd reduction(max : highest)
  for (int64_t i = 0; i < n; ++i)
    highest = highest > x[i * stride] ? highest : x[i * stride];
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) {
    T e = fastExp(T(x[i * stride] - highest)); // a NaN in the row reaches the sum, and so all of the row
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

/// Rows and columns of a normalization, and its checked operands: `x`-like tensors, [n]-like vectors, statistics of one
/// value a row.
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

/// dx = rstd * (g - mean(g) - xhat * mean(g * xhat)) with g = dy * scale; for rms_norm mean(g) is left out and xhat = x
/// * rstd.
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
} // namespace

Result<Planned> planSoftmax(const BindRequest &request) {
  Checker check(request);
  if (!check.counts(1, 1, 1))
    return check.error();
  check.sameType(request.operands[0], "the operand", request.results[0], "the result");
  size_t dimension = check.dimension("dimension", request.operands[0].shape.size());
  if (check.failed())
    return check.error();
  return forFloat(request, request.operands[0].dtype, [&](auto type) -> Result<Planned> {
    using T = typename decltype(type)::type;
    auto loop = [](auto, const T *x, T *y, SoftmaxSizes s) {
      for (int64_t o = 0; o < s.outer; ++o)
        for (int64_t j = 0; j < s.inner; ++j)
          if (int64_t at = o * s.size * s.inner + j; s.inner == 1) // apart, so that the compiler sees unit strides
            softmaxRow(x + at, y + at, s.size, 1);
          else
            softmaxRow(x + at, y + at, s.size, s.inner);
    };
    return Planned{[=, x = dataOf<T>(request.operands[0]), y = mutableDataOf<T>(request.results[0]),
                    sizes = softmaxSizes(request.operands[0].shape, dimension)] {
      dispatch(loop, x, y, sizes);
      return ok();
    }};
  });
}

Result<Planned> planSoftmaxBackward(const BindRequest &request) {
  Checker check(request);
  if (!check.counts(2, 2, 1))
    return check.error();
  check.sameType(request.operands[1], "the gradient", request.operands[0], "the output");
  check.sameType(request.results[0], "the result", request.operands[0], "the output");
  size_t dimension = check.dimension("dimension", request.operands[0].shape.size());
  if (check.failed())
    return check.error();
  return forFloat(request, request.operands[0].dtype, [&](auto type) -> Result<Planned> {
    using T = typename decltype(type)::type;
    auto loop = [](auto, const T *y, const T *dy, T *dx, SoftmaxSizes s) {
      for (int64_t o = 0; o < s.outer; ++o)
        for (int64_t j = 0; j < s.inner; ++j)
          if (int64_t at = o * s.size * s.inner + j; s.inner == 1)
            softmaxBackwardRow(y + at, dy + at, dx + at, s.size, 1);
          else
            softmaxBackwardRow(y + at, dy + at, dx + at, s.size, s.inner);
    };
    return Planned{[=, y = dataOf<T>(request.operands[0]), dy = dataOf<T>(request.operands[1]),
                    dx = mutableDataOf<T>(request.results[0]),
                    sizes = softmaxSizes(request.operands[0].shape, dimension)] {
      dispatch(loop, y, dy, dx, sizes);
      return ok();
    }};
  });
}

Result<Planned> planLayerNorm(const BindRequest &request) {
  Checker check(request);
  if (!check.counts(3, 3, 3))
    return check.error();
  const auto &in = request.operands, &out = request.results;
  double epsilon = check.number("epsilon");
  std::optional<NormSizes> sizes = normSizes(check, in[0], {&out[0]}, {&in[1], &in[2]}, {&out[1], &out[2]});
  if (!sizes)
    return check.error();
  return forFloat(request, in[0].dtype, [&](auto type) -> Result<Planned> {
    using T = typename decltype(type)::type;
    auto loop = [](auto, const T *x, const T *scale, const T *bias, T *y, T *mean, T *rstd, NormSizes s,
                   double epsilon) {
      for (int64_t i = 0; i < s.rows; ++i)
        layerNormRow(x + i * s.n, scale, bias, y + i * s.n, mean + i, rstd + i, s.n, epsilon);
    };
    return Planned{[=, s = *sizes, x = dataOf<T>(in[0]), scale = dataOf<T>(in[1]), bias = dataOf<T>(in[2]),
                    y = mutableDataOf<T>(out[0]), mean = mutableDataOf<T>(out[1]), rstd = mutableDataOf<T>(out[2])] {
      dispatch(loop, x, scale, bias, y, mean, rstd, s, epsilon);
      return ok();
    }};
  });
}

Result<Planned> planLayerNormBackward(const BindRequest &request) {
  Checker check(request);
  if (!check.counts(5, 5, 3))
    return check.error();
  const auto &in = request.operands, &out = request.results;
  std::optional<NormSizes> sizes =
      normSizes(check, in[0], {&in[4], &out[0]}, {&in[1], &out[1], &out[2]}, {&in[2], &in[3]});
  if (!sizes)
    return check.error();
  return forFloat(request, in[0].dtype, [&](auto type) -> Result<Planned> {
    using T = typename decltype(type)::type;
    ScratchLayout layout;
    double *sums = scratchAt<double>(request.scratch, layout.take(2 * sizes->n * int64_t(sizeof(double))));
    auto loop = [](auto, const T *x, const T *scale, const T *mean, const T *rstd, const T *dy, T *dx, double *sums,
                   NormSizes s) {
      for (int64_t i = 0; i < s.rows; ++i)
        normBackwardRow<T, Center::Mean>(x + i * s.n, scale, mean[i], rstd[i], dy + i * s.n, dx + i * s.n, sums,
                                         sums + s.n, s.n);
    };
    return Planned{[=, s = *sizes, x = dataOf<T>(in[0]), scale = dataOf<T>(in[1]), mean = dataOf<T>(in[2]),
                    rstd = dataOf<T>(in[3]), dy = dataOf<T>(in[4]), dx = mutableDataOf<T>(out[0]),
                    dScale = mutableDataOf<T>(out[1]), dBias = mutableDataOf<T>(out[2])] {
                     std::fill_n(sums, 2 * s.n, 0.0);
                     dispatch(loop, x, scale, mean, rstd, dy, dx, sums, s);
                     std::transform(sums, sums + s.n, dScale, [](double v) { return T(v); });
                     std::transform(sums + s.n, sums + 2 * s.n, dBias, [](double v) { return T(v); });
                     return ok();
                   },
                   layout.bytes()};
  });
}

Result<Planned> planRmsNorm(const BindRequest &request) {
  Checker check(request);
  if (!check.counts(2, 2, 2))
    return check.error();
  const auto &in = request.operands, &out = request.results;
  double epsilon = check.number("epsilon");
  std::optional<NormSizes> sizes = normSizes(check, in[0], {&out[0]}, {&in[1]}, {&out[1]});
  if (!sizes)
    return check.error();
  return forFloat(request, in[0].dtype, [&](auto type) -> Result<Planned> {
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
    return Planned{[=, s = *sizes, x = dataOf<T>(in[0]), scale = dataOf<T>(in[1]), y = mutableDataOf<T>(out[0]),
                    rstd = mutableDataOf<T>(out[1])] {
      dispatch(loop, x, scale, y, rstd, s, epsilon);
      return ok();
    }};
  });
}

Result<Planned> planRmsNormBackward(const BindRequest &request) {
  Checker check(request);
  if (!check.counts(4, 4, 2))
    return check.error();
  const auto &in = request.operands, &out = request.results;
  std::optional<NormSizes> sizes = normSizes(check, in[0], {&in[3], &out[0]}, {&in[1], &out[1]}, {&in[2]});
  if (!sizes)
    return check.error();
  return forFloat(request, in[0].dtype, [&](auto type) -> Result<Planned> {
    using T = typename decltype(type)::type;
    ScratchLayout layout;
    double *sums = scratchAt<double>(request.scratch, layout.take(sizes->n * int64_t(sizeof(double))));
    auto loop = [](auto, const T *x, const T *scale, const T *rstd, const T *dy, T *dx, double *sums, NormSizes s) {
      for (int64_t i = 0; i < s.rows; ++i)
        normBackwardRow<T, Center::None>(x + i * s.n, scale, T(0), rstd[i], dy + i * s.n, dx + i * s.n, sums, nullptr,
                                         s.n);
    };
    return Planned{[=, s = *sizes, x = dataOf<T>(in[0]), scale = dataOf<T>(in[1]), rstd = dataOf<T>(in[2]),
                    dy = dataOf<T>(in[3]), dx = mutableDataOf<T>(out[0]), dScale = mutableDataOf<T>(out[1])] {
                     std::fill_n(sums, s.n, 0.0);
                     dispatch(loop, x, scale, rstd, dy, dx, sums, s);
                     std::transform(sums, sums + s.n, dScale, [](double v) { return T(v); });
                     return ok();
                   },
                   layout.bytes()};
  });
}

} // namespace kerf::runtime::kernels
