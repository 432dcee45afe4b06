// SPDX-License-Identifier: Apache-2.0
// The greatest scores of each row (top_k), which routing and sparse codecs choose, and their gradient.
#include "Families.h"
#include "PickLargest.h"
#include "kerf/Package/RowKernel.h"

#include <algorithm>
#include <type_traits>

namespace kerf::runtime::kernels {

namespace {

/// Rows of at most this many scores are picked by insertion, which needs no other memory.
constexpr int64_t kShortRow = 64;

template <typename T, typename I> struct Scored {
  T score;
  I place;
};

/// Picks the `count` greatest of `size` scores. The list of the best stays sorted; the first of equal scores comes
/// first. NaN is never greater.
template <typename T, typename I>
void pickByInsertion(const T *scores, int64_t size, int64_t count, T *best, I *place) {
  int64_t have = 0;
  for (int64_t i = 0; i < size; ++i) {
    int64_t to = have;
    while (to > 0 && scores[i] > best[to - 1])
      --to;
    if (to == count)
      continue;
    have = std::min(have + 1, count);
    for (int64_t move = have - 1; move > to; --move) {
      best[move] = best[move - 1];
      place[move] = place[move - 1];
    }
    best[to] = scores[i];
    place[to] = I(i);
  }
}

/// Picks as pickByInsertion does, from a row without NaN.
template <typename T, typename I>
void pickBySorting(const T *scores, int64_t size, int64_t count, Scored<T, I> *all, T *best, I *place) {
  for (int64_t i = 0; i < size; ++i)
    all[i] = {scores[i], I(i)};
  auto before = [](const Scored<T, I> &a, const Scored<T, I> &b) {
    return a.score > b.score || (a.score == b.score && a.place < b.place);
  };
  std::partial_sort(all, all + count, all + size, before);
  for (int64_t i = 0; i < count; ++i) {
    best[i] = all[i].score;
    place[i] = all[i].place;
  }
}

/// Picks from a row of any length. `memory` holds bytesToPickFrom() bytes for long rows.
template <typename T, typename I>
void pick(const T *scores, int64_t size, int64_t count, std::byte *memory, T *best, I *place) {
  if (size <= kShortRow || count == 0)
    return pickByInsertion(scores, size, count, best, place);
  if constexpr (std::is_same_v<T, float>) {
    auto *found = reinterpret_cast<int32_t *>(memory + bytesToPick(size));
    if (!pickLargest(scores, size, count, best, found, memory))
      return pickByInsertion(scores, size, count, best, place);
    std::copy_n(found, count, place);
  } else {
    bool ordered = std::none_of(scores, scores + size, [](T x) { return x != x; });
    ordered ? pickBySorting(scores, size, count, reinterpret_cast<Scored<T, I> *>(memory), best, place)
            : pickByInsertion(scores, size, count, best, place);
  }
}
template <typename T, typename I> int64_t bytesToPickFrom(int64_t size, int64_t count) {
  return std::is_same_v<T, float> ? bytesToPick(size) + count * int64_t(sizeof(int32_t))
                                  : size * int64_t(sizeof(Scored<T, I>));
}

} // namespace

void pickLargestOfRow(const float *row, float *values, int32_t *places, int64_t size, int64_t count) {
  constexpr int64_t kLongest = package::kLongestRow;
  alignas(64) std::byte memory[bytesToPick(kLongest) + kLongest * sizeof(int32_t)];
  pick(row, size, count, memory, values, places);
}

Result<PlannedKernel> planTopK(const BindRequest &request) {
  Checker check(request);
  if (!check.counts(1, 1, 2))
    return check.error();
  const TensorView &scores = request.operands[0], &values = request.results[0], &indices = request.results[1];
  check.require(!scores.shape.empty() && values.shape.size() == scores.shape.size(),
                "the scores have {} dimensions and the values {}", scores.shape.size(), values.shape.size());
  check.dtype(values, "the values", scores.dtype);
  check.indices(indices, "the indices");
  if (check.failed())
    return check.error();
  Shape expected = scores.shape;
  int64_t size = scores.shape.back(), count = expected.back() = values.shape.back();
  check.shape(values, "the values", expected);
  check.shape(indices, "the indices", expected);
  check.require(count <= size, "{} of {} elements are picked", count, size);
  if (check.failed())
    return check.error();
  const int64_t rows = product(scores.shape, 0, scores.shape.size() - 1), threads = threadsOf(request.team);
  return withIndexType(request, indices.dtype, [&](auto index) {
    using I = typename decltype(index)::type;
    return withFloatType(request, scores.dtype, [&](auto type) -> Result<PlannedKernel> {
      using T = typename decltype(type)::type;
      const int64_t bytes = size <= kShortRow ? 0 : bytesToPickFrom<T, I>(size, count);
      ScratchLayout layout;
      std::vector<std::byte *> memory;
      for (int64_t thread = 0; thread < threads; ++thread)
        memory.push_back(scratchAt<std::byte>(request.scratch, layout.take(bytes)));
      return PlannedKernel{[=, x = dataOf<T>(scores), y = mutableDataOf<T>(values), at = mutableDataOf<I>(indices),
                            team = request.team]() -> Status {
                             const int64_t piece = rowsOfTask(size);
                             forTasks(team, (rows + piece - 1) / piece, [&](int64_t task, int64_t thread) {
                               for (int64_t row = task * piece; row < std::min(rows, (task + 1) * piece); ++row)
                                 pick(x + row * size, size, count, memory[thread], y + row * count, at + row * count);
                             });
                             return ok();
                           },
                           layout.bytes()};
    });
  });
}

Result<PlannedKernel> planTopKBackward(const BindRequest &request) {
  Checker check(request);
  if (!check.counts(2, 2, 1))
    return check.error();
  const TensorView &indices = request.operands[0], &gradient = request.operands[1], &result = request.results[0];
  check.indices(indices, "the indices");
  check.dtype(gradient, "the gradient", result.dtype);
  check.require(!gradient.shape.empty() && gradient.shape.size() == result.shape.size(),
                "the gradient has {} dimensions and the result {}", gradient.shape.size(), result.shape.size());
  if (check.failed())
    return check.error();
  Shape expected = result.shape;
  int64_t size = result.shape.back(), count = expected.back() = gradient.shape.back();
  check.shape(gradient, "the gradient", expected);
  check.shape(indices, "the indices", expected);
  if (check.failed())
    return check.error();
  return withIndexType(request, indices.dtype, [&](auto index) {
    using I = typename decltype(index)::type;
    return withFloatType(request, result.dtype, [&](auto type) -> Result<PlannedKernel> {
      using T = typename decltype(type)::type;
      return PlannedKernel{[=, at = dataOf<I>(indices), dy = dataOf<T>(gradient), dx = mutableDataOf<T>(result),
                            rows = product(result.shape, 0, result.shape.size() - 1)]() -> Status {
        std::fill_n(dx, rows * size, T(0));
        for (int64_t i = 0; i < rows * count; ++i) {
          if (at[i] < 0 || at[i] >= size)
            return Error{fmt::format("index {} at row {} is outside of [0, {}); check the input data", int64_t(at[i]),
                                     i / count, size)};
          dx[i / count * size + at[i]] += dy[i];
        }
        return ok();
      }};
    });
  });
}

} // namespace kerf::runtime::kernels
