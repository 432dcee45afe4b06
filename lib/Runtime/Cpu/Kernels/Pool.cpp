// SPDX-License-Identifier: Apache-2.0
// reduce_window and select_and_scatter. A tensor is seen as (outer dimension, dimensions that the window moves over,
// inner dimension). Sums of floats are accumulated in double.
#include "Combine.h"
#include "Families.h"
#include "Simd.h"
#include "Windows.h"

#include <algorithm>
#include <span>

namespace kerf::runtime::kernels {

namespace {
/// The sizes of a pooling: the merged dimensions outside and inside of those that the window moves over,
/// and the window.
struct PoolSizes {
  int64_t outer = 1, inner = 1;
  Window window;
};

/// Reads a pooling's window, and merges the dimensions before and after those that the window moves over.
PoolSizes poolSizes(Checker &check, const Shape &operand, const Shape &places) {
  Window whole;
  whole.size = operand;
  whole.places = places;
  whole.window = check.integers("window");
  readWindow(check, whole);
  if (check.failed() || operand.empty())
    return {1, 1, {{1}, {1}, {1}, {1}, {1}, {0}, {0}}};
  auto passes = [&](size_t d) {
    return whole.window[d] == 1 && whole.strides[d] == 1 && whole.low[d] == 0 && whole.high[d] == 0;
  };
  size_t begin = 0, end = operand.size();
  while (begin + 1 < end && passes(begin))
    ++begin;
  while (end - 1 > begin && passes(end - 1))
    --end;
  PoolSizes sizes{product(operand, 0, begin), product(operand, end), {}};
  auto middle = [&](const std::vector<int64_t> &all) { return std::vector(all.begin() + begin, all.begin() + end); };
  sizes.window = {middle(whole.size),      middle(whole.window), middle(whole.places), middle(whole.strides),
                  middle(whole.dilations), middle(whole.low),    middle(whole.high)};
  return sizes;
}

/// Calls f(t, t * stride) for t in [begin, end). The strides 1 and 2, which nearly all poolings have, are constants for
/// the compiler, so that it can vectorize.
template <typename F> [[gnu::always_inline]] inline void along(int64_t begin, int64_t end, int64_t stride, const F &f) {
  if (stride == 1) {
#pragma omp simd
    for (int64_t t = begin; t < end; ++t)
      f(t, t);
  } else if (stride == 2) {
#pragma omp simd
    for (int64_t t = begin; t < end; ++t)
      f(t, 2 * t);
  } else {
    for (int64_t t = begin; t < end; ++t)
      f(t, t * stride);
  }
}

/// Calls body(number, thread) for each index of the outer dimension. The team's threads share the calls.
template <typename F> void forOuter(ThreadTeam *team, const PoolSizes &sizes, const F &body) {
  int64_t count = rowsOfTask(sizes.window.elements() * sizes.inner);
  forTasks(team, (sizes.outer + count - 1) / count, [&](int64_t task, int64_t thread) {
    for (int64_t o = task * count; o < std::min(sizes.outer, (task + 1) * count); ++o)
      body(o, thread);
  });
}

template <typename T, typename Op> PlannedKernel plannedReduce(const BindRequest &request, const PoolSizes &sizes) {
  using A = typename Op::template Accumulator<T>;
  ScratchLayout layout;
  int64_t width = sizes.window.placeCount() * sizes.inner;
  A *sums = scratchAt<A>(request.scratch, layout.take(threadsOf(request.team) * width * int64_t(sizeof(A))));
  auto pool = [](auto, const T *from, A *sums, T *y, int64_t width, int64_t inner, int64_t stride,
                 std::span<const WindowLine> lines) {
    std::fill_n(sums, width, Op::template first<T>());
    for (const WindowLine &line : lines) {
      const T *x = from + line.from * inner;
      A *sum = sums + line.to * inner;
      if (inner == 1)
        along(line.begin, line.end, stride,
              [=](int64_t t, int64_t at) { sum[t] = Op::combine(sum[t], widened<A>(x[at])); });
      else
        for (int64_t t = line.begin; t < line.end; ++t)
          along(0, inner, 1, [=](int64_t i, int64_t) {
            sum[t * inner + i] = Op::combine(sum[t * inner + i], widened<A>(x[t * stride * inner + i]));
          });
    }
    for (int64_t i = 0; i < width; ++i)
      y[i] = T(sums[i]);
  };
  return {[=, lines = linesOf(sizes.window), x = dataOf<T>(request.operands[0]),
           y = mutableDataOf<T>(request.results[0]), team = request.team] {
            forOuter(team, sizes, [&](int64_t o, int64_t thread) {
              dispatch(pool, x + o * sizes.window.elements() * sizes.inner, sums + thread * width, y + o * width, width,
                       sizes.inner, sizes.window.strides.back(), std::span<const WindowLine>(lines));
            });
            return ok();
          },
          layout.bytes()};
}

/// Plans select_and_scatter: each window selects its first element that is beyond all others (greater or less, as
/// `beyond` says) or NaN, and the gradient is added there. `Place` is the type of the selected indices; it is as wide
/// as T, so that loops over both vectorize well.
template <typename T, typename Place, typename Beyond>
PlannedKernel plannedSelect(const BindRequest &request, const PoolSizes &sizes, Beyond beyond) {
  ScratchLayout layout;
  int64_t width = sizes.window.placeCount() * sizes.inner, size = sizes.window.elements() * sizes.inner;
  int64_t threads = threadsOf(request.team);
  Place *places = scratchAt<Place>(request.scratch, layout.take(threads * width * int64_t(sizeof(Place))));
  T *bests = scratchAt<T>(request.scratch, layout.take(threads * width * int64_t(sizeof(T))));
  auto select = [beyond](auto, const T *from, const T *dy, T *dx, T *bests, Place *places, int64_t width, int64_t inner,
                         int64_t stride, std::span<const WindowLine> lines) {
    std::fill_n(places, width, Place(-1));
    std::fill_n(bests, width, T(0));
    for (const WindowLine &line : lines) {
      T *best = bests + line.to * inner;
      Place *place = places + line.to * inner;
      auto look = [=](int64_t t, int64_t at) {
        T x = from[at];
        bool takes = (place[t] < 0) | beyond(x, best[t]) | (x != x);
        best[t] = takes ? x : best[t];
        place[t] = takes ? Place(at) : place[t];
      };
      if (inner == 1)
        along(line.begin, line.end, stride, [=](int64_t t, int64_t at) { look(t, line.from + at); });
      else
        for (int64_t t = line.begin; t < line.end; ++t)
          along(0, inner, 1, [=](int64_t i, int64_t) { look(t * inner + i, (line.from + t * stride) * inner + i); });
    }
    for (int64_t i = 0; i < width; ++i)
      if (places[i] >= 0)
        dx[places[i]] += dy[i];
  };
  return {[=, lines = linesOf(sizes.window), x = dataOf<T>(request.operands[0]), dy = dataOf<T>(request.operands[1]),
           dx = mutableDataOf<T>(request.results[0]), team = request.team] {
            forOuter(team, sizes, [&](int64_t o, int64_t thread) {
              std::fill_n(dx + o * size, size, T(0));
              dispatch(select, x + o * size, dy + o * width, dx + o * size, bests + thread * width,
                       places + thread * width, width, sizes.inner, sizes.window.strides.back(),
                       std::span<const WindowLine>(lines));
            });
            return ok();
          },
          layout.bytes()};
}
} // namespace

Result<PlannedKernel> planReduceWindow(const BindRequest &request) {
  Checker check(request);
  if (!check.counts(1, 1, 1))
    return check.error();
  const TensorView &operand = request.operands[0], &result = request.results[0];
  size_t kind = check.choice("kind", {"sum", "max", "min"});
  check.dtype(result, "the result", operand.dtype);
  PoolSizes sizes = poolSizes(check, operand.shape, result.shape);
  if (check.failed())
    return check.error();
  return withElementType(request, operand.dtype, [&](auto type) -> Result<PlannedKernel> {
    using T = typename decltype(type)::type;
    return kind == 0   ? plannedReduce<T, SumOf>(request, sizes)
           : kind == 1 ? plannedReduce<T, MaxOf>(request, sizes)
                       : plannedReduce<T, MinOf>(request, sizes);
  });
}

Result<PlannedKernel> planSelectAndScatter(const BindRequest &request) {
  Checker check(request);
  if (!check.counts(2, 2, 1))
    return check.error();
  const TensorView &operand = request.operands[0], &gradient = request.operands[1];
  size_t kind = check.choice("kind", {"max", "min"});
  check.dtype(gradient, "the gradient", operand.dtype);
  check.sameType(request.results[0], "the result", operand, "the operand");
  PoolSizes sizes = poolSizes(check, operand.shape, gradient.shape);
  if (check.failed())
    return check.error();
  return withFloatType(request, operand.dtype, [&](auto type) -> Result<PlannedKernel> {
    using T = typename decltype(type)::type;
    auto plan = [&](auto place) -> PlannedKernel {
      using Place = decltype(place);
      return kind == 0 ? plannedSelect<T, Place>(request, sizes, [](T a, T b) { return a > b; })
                       : plannedSelect<T, Place>(request, sizes, [](T a, T b) { return a < b; });
    };
    bool small = sizes.window.elements() * sizes.inner <= std::numeric_limits<int32_t>::max();
    return sizeof(T) == sizeof(int32_t) && small ? plan(int32_t()) : plan(int64_t());
  });
}

} // namespace kerf::runtime::kernels
