// SPDX-License-Identifier: Apache-2.0
// The greatest scores of each row (top_k), which routing and sparse codecs choose, and their gradient.
#include "Families.h"
#include "Simd.h"

#include <algorithm>
#include <limits>

namespace kerf::runtime::kernels {

namespace {

/// Rows of at most this many scores are picked by insertion, which needs no other memory.
constexpr int64_t kShortRow = 64;
constexpr int64_t kLargestGroup = 64, kLeastGroup = 16;

template <typename T, typename I> struct Scored {
  T score;
  I place;
};

/// The memory that picking from one row needs: the greatest score of each group, a copy of these, and the scores that
/// may be picked.
template <typename T, typename I> struct PickMemory {
  T *greatest, *copy;
  Scored<T, I> *candidates;
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

/// Returns the size of the groups into which a row is cut: large ones, of which there are at least 2.5 times as many as
/// scores to be picked, so that few more scores than these lie above the bound. Groups of less than a vector are slower
/// than single scores.
int64_t groupSize(int64_t size, int64_t count) {
  int64_t group = kLargestGroup;
  while (group >= kLeastGroup && size / group < 2 * count + count / 2)
    group /= 2;
  return group < kLeastGroup ? 1 : group;
}

/// Writes the greatest score of each group of a row to `greatest`, and returns whether no score is NaN.
template <typename T> bool greatestOfGroups(const T *scores, int64_t size, int64_t group, T *greatest) {
  bool ordered = true;
  dispatch(
      [](auto, const T *scores, int64_t size, int64_t group, T *greatest, bool *ordered) {
        int64_t unordered = 0;
        if (group == 1) {
          for (int64_t i = 0; i < size; ++i) {
            greatest[i] = scores[i];
            unordered += scores[i] != scores[i];
          }
        } else {
          for (int64_t first = 0; first < size; first += group) {
            int64_t end = std::min(size, first + group), unknown = 0;
            T most = -std::numeric_limits<T>::infinity();
#pragma omp simd reduction(max : most) reduction(+ : unknown)
            for (int64_t i = first; i < end; ++i) {
              most = scores[i] > most ? scores[i] : most;
              unknown += scores[i] != scores[i];
            }
            greatest[first / group] = most;
            unordered += unknown;
          }
        }
        *ordered = unordered == 0;
      },
      scores, size, group, greatest, &ordered);
  return ordered;
}

/// Picks as pickByInsertion does, from a row without NaN. The `count`-th greatest of the groups' greatest scores is a
/// lower bound of the `count`-th greatest score, so that only groups which reach it have to be looked through.
template <typename T, typename I>
void pickByGroups(const T *scores, int64_t size, int64_t count, int64_t group, const PickMemory<T, I> &memory, T *best,
                  I *place) {
  const int64_t groups = (size + group - 1) / group;
  std::copy_n(memory.greatest, groups, memory.copy);
  std::nth_element(memory.copy, memory.copy + count - 1, memory.copy + groups, std::greater<T>());
  const T bound = memory.copy[count - 1];
  // Scores above the bound come before those that equal it; of the latter, only the first `count` may be picked. They
  // are written from the end of the memory backwards, which has room for all scores.
  Scored<T, I> *above = memory.candidates, *equal = above + size;
  int64_t greater = 0, ties = 0;
  for (int64_t number = 0; number < groups; ++number) {
    if (memory.greatest[number] < bound || (memory.greatest[number] == bound && ties == count))
      continue;
    for (int64_t i = number * group, end = std::min(size, i + group); i < end; ++i) {
      if (scores[i] > bound)
        above[greater++] = {scores[i], I(i)};
      else if (scores[i] == bound && ties < count)
        *(equal - ++ties) = {scores[i], I(i)};
    }
  }
  auto before = [](const Scored<T, I> &a, const Scored<T, I> &b) {
    return a.score > b.score || (a.score == b.score && a.place < b.place);
  };
  const int64_t first = std::min(greater, count);
  if (greater > count)
    std::nth_element(above, above + count - 1, above + greater, before);
  std::sort(above, above + first, before);
  for (int64_t i = 0; i < count; ++i) {
    const Scored<T, I> &from = i < first ? above[i] : *(equal - 1 - (i - first));
    best[i] = from.score;
    place[i] = from.place;
  }
}

} // namespace

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
      const bool inserts = size <= kShortRow || count == 0;
      const int64_t group = groupSize(size, count), groups = inserts ? 0 : (size + group - 1) / group;
      ScratchLayout layout;
      std::vector<PickMemory<T, I>> memory;
      for (int64_t thread = 0; thread < threads && !inserts; ++thread) {
        int64_t greatest = layout.take(groups * int64_t(sizeof(T))), copy = layout.take(groups * int64_t(sizeof(T))),
                candidates = layout.take(size * int64_t(sizeof(Scored<T, I>)));
        memory.push_back({scratchAt<T>(request.scratch, greatest), scratchAt<T>(request.scratch, copy),
                          scratchAt<Scored<T, I>>(request.scratch, candidates)});
      }
      return PlannedKernel{[=, x = dataOf<T>(scores), y = mutableDataOf<T>(values), at = mutableDataOf<I>(indices),
                            team = request.team]() -> Status {
                             const int64_t piece = rowsOfTask(size);
                             forTasks(team, (rows + piece - 1) / piece, [&](int64_t task, int64_t thread) {
                               for (int64_t row = task * piece; row < std::min(rows, (task + 1) * piece); ++row) {
                                 const T *from = x + row * size;
                                 T *best = y + row * count;
                                 I *place = at + row * count;
                                 if (!inserts && greatestOfGroups(from, size, group, memory[thread].greatest))
                                   pickByGroups(from, size, count, group, memory[thread], best, place);
                                 else
                                   pickByInsertion(from, size, count, best, place);
                               }
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
