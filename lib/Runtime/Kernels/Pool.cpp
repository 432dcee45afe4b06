// SPDX-License-Identifier: Apache-2.0
// reduce_window and select_and_scatter. A tensor is seen as (outer, what the window moves over, inner); float sums run
// in double.
#include "Combine.h"
#include "Families.h"
#include "Windows.h"

#include <algorithm>

namespace kerf::runtime::kernels {

namespace {
struct PoolSizes {
  int64_t outer = 1, inner = 1;
  Window window;
};

/// The dimensions around those that the window moves along become one each.
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

template <typename A, typename T> A widened(T x) {
  if constexpr (std::is_same_v<T, Bool8> && !std::is_same_v<A, Bool8>)
    return A(int(x));
  else
    return A(x);
}

template <typename T, typename Op> Planned plannedReduce(const BindRequest &request, const PoolSizes &sizes) {
  using A = typename Op::template Accumulator<T>;
  ScratchLayout layout;
  int64_t width = sizes.window.placeCount() * sizes.inner;
  A *sums = scratchAt<A>(request.scratch, layout.take(width * int64_t(sizeof(A))));
  return {
      [=, lines = linesOf(sizes.window), x = dataOf<T>(request.operands[0]), y = mutableDataOf<T>(request.results[0])] {
        int64_t stride = sizes.window.strides.back(), inner = sizes.inner;
        for (int64_t o = 0; o < sizes.outer; ++o) {
          const T *from = x + o * sizes.window.elements() * inner;
          std::fill_n(sums, width, Op::template first<T>());
          for (const WindowLine &line : lines)
            for (int64_t t = line.begin; t < line.end; ++t)
              for (int64_t i = 0; i < inner; ++i) {
                A &sum = sums[(line.to + t) * inner + i];
                sum = Op::combine(sum, widened<A>(from[(line.from + t * stride) * inner + i]));
              }
          for (int64_t i = 0; i < width; ++i)
            y[o * width + i] = T(sums[i]);
        }
        return ok();
      },
      layout.bytes()};
}

/// The first element of each window that is beyond all before it, or not a number.
template <typename T, typename Beyond>
Planned plannedSelect(const BindRequest &request, const PoolSizes &sizes, Beyond beyond) {
  ScratchLayout layout;
  int64_t width = sizes.window.placeCount() * sizes.inner;
  int64_t *places = scratchAt<int64_t>(request.scratch, layout.take(width * int64_t(sizeof(int64_t))));
  return {[=, lines = linesOf(sizes.window), x = dataOf<T>(request.operands[0]), dy = dataOf<T>(request.operands[1]),
           dx = mutableDataOf<T>(request.results[0])] {
            int64_t stride = sizes.window.strides.back(), inner = sizes.inner, size = sizes.window.elements() * inner;
            for (int64_t o = 0; o < sizes.outer; ++o) {
              const T *from = x + o * size;
              std::fill_n(places, width, -1);
              for (const WindowLine &line : lines)
                for (int64_t t = line.begin; t < line.end; ++t)
                  for (int64_t i = 0; i < inner; ++i) {
                    int64_t &best = places[(line.to + t) * inner + i], at = (line.from + t * stride) * inner + i;
                    if (best < 0 || beyond(from[at], from[best]) || from[at] != from[at])
                      best = at;
                  }
              std::fill_n(dx + o * size, size, T(0));
              for (int64_t i = 0; i < width; ++i)
                if (places[i] >= 0)
                  dx[o * size + places[i]] += dy[o * width + i];
            }
            return ok();
          },
          layout.bytes()};
}
} // namespace

Result<Planned> planReduceWindow(const BindRequest &request) {
  Checker check(request);
  if (!check.counts(1, 1, 1))
    return check.error();
  const TensorView &operand = request.operands[0], &result = request.results[0];
  size_t kind = check.choice("kind", {"sum", "max", "min"});
  check.dtype(result, "the result", operand.dtype);
  PoolSizes sizes = poolSizes(check, operand.shape, result.shape);
  if (check.failed())
    return check.error();
  return forAny(request, operand.dtype, [&](auto type) -> Result<Planned> {
    using T = typename decltype(type)::type;
    return kind == 0   ? plannedReduce<T, SumOf>(request, sizes)
           : kind == 1 ? plannedReduce<T, MaxOf>(request, sizes)
                       : plannedReduce<T, MinOf>(request, sizes);
  });
}

Result<Planned> planSelectAndScatter(const BindRequest &request) {
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
  return forFloat(request, operand.dtype, [&](auto type) -> Result<Planned> {
    using T = typename decltype(type)::type;
    return kind == 0 ? plannedSelect<T>(request, sizes, [](T a, T b) { return a > b; })
                     : plannedSelect<T>(request, sizes, [](T a, T b) { return a < b; });
  });
}

} // namespace kerf::runtime::kernels
