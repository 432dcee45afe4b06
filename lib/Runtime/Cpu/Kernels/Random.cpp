// SPDX-License-Identifier: Apache-2.0
// Dropout. Consecutive elements of the global tensor use the random words of consecutive counters, and several counters
// are computed at once.
#include "../../Philox.h"
#include "Families.h"
#include "Simd.h"

#include <cmath>

namespace kerf::runtime::kernels {

namespace {
/// The parameters of the random numbers that all elements of an instruction share.
struct Draw {
  uint64_t high, key;  // the counters' high half, and the generator's key
  uint32_t dropsBelow; // an element is dropped if its random word is below this threshold
};

/// Applies dropout to as many of the elements first, first + 1, ... of the global tensor as `counters` counters have
/// random words for, at most `count`. Returns the number of elements.
template <int counters, typename T>
[[gnu::always_inline]] inline int64_t dropRow(Draw draw, T scale, uint64_t first, int64_t count, const T *x, T *y) {
  constexpr int kWords = 4;
  PhiloxWords<counters> words = philoxRow<counters>(first / kWords, draw.high, draw.key);
  std::array<uint32_t, counters * kWords> row;
  for (int c = 0; c < counters; ++c)
    for (int w = 0; w < kWords; ++w)
      row[c * kWords + w] = words[w][c];
  int64_t skipped = int64_t(first % kWords), taken = std::min<int64_t>(count, int64_t(row.size()) - skipped);
#pragma omp simd
  for (int64_t i = 0; i < taken; ++i)
    y[i] = row[skipped + i] < draw.dropsBelow ? T(0) : x[i] * scale;
  return taken;
}

template <typename T>
[[gnu::always_inline]] inline void dropRun(Draw draw, T scale, uint64_t first, int64_t count, const T *x, T *y) {
  constexpr int64_t kLong = 64;
  for (int64_t i = 0; i < count;)
    i += count - i >= kLong ? dropRow<32>(draw, scale, first + uint64_t(i), count - i, x + i, y + i)
                            : dropRow<4>(draw, scale, first + uint64_t(i), count - i, x + i, y + i);
}
} // namespace

Result<PlannedKernel> planDropout(const BindRequest &request) {
  constexpr size_t kWhole = 4, kPiece = 5; // operands x, seed, step, stream; and offset for a shard
  Checker check(request);
  if (!check.counts(kWhole, kPiece, 1))
    return check.error();
  bool isPiece = request.operands.size() == kPiece;
  const TensorView &x = request.operands[0], &y = request.results[0];
  check.sameType(y, "the result", x, "the operand");
  std::vector<const int64_t *> scalars;
  for (size_t i = 1; i < request.operands.size(); ++i) {
    constexpr std::string_view kNames[] = {"the operand", "the seed", "the step", "the stream", "the offset"};
    check.scalar(request.operands[i], kNames[i]);
    check.dtype(request.operands[i], kNames[i], DType::I64);
    scalars.push_back(dataOf<int64_t>(request.operands[i]));
  }
  double rate = check.number("rate");
  check.require(rate >= 0 && rate < 1, "attribute 'rate' is {}, not in [0, 1)", rate);
  const Shape &shape = x.shape;
  Shape sizes = isPiece ? check.integers("sizes") : shape;
  check.require(sizes.size() == shape.size(), "attribute 'sizes' has {} entries for a tensor of rank {}", sizes.size(),
                shape.size());
  if (check.failed())
    return check.error();

  // The elements of the dimensions from `inner` on are contiguous in the global tensor.
  size_t inner = shape.size();
  int64_t run = 1;
  while (inner > 0 && (inner == shape.size() || shape[inner] == sizes[inner]))
    run *= shape[--inner];
  std::vector<uint64_t> strides(shape.size(), 1);
  for (size_t d = shape.size(); d-- > 1;)
    strides[d - 1] = strides[d] * uint64_t(sizes[d]);
  uint32_t dropsBelow = uint32_t(std::min(std::ceil(std::ldexp(rate, 32)), double(UINT32_MAX)));
  return withFloatType(request, x.dtype, [&](auto type) -> Result<PlannedKernel> {
    using T = typename decltype(type)::type;
    T scale = T(1 / (1 - rate));
    return PlannedKernel{[=, team = request.team, from = dataOf<T>(x), to = mutableDataOf<T>(y), n = x.elements()] {
      if (*scalars[1] < 0) { // a negative step number marks an evaluation, in which nothing is dropped
        std::copy(from, from + n, to);
        return ok();
      }
      uint64_t high = uint64_t(uint32_t(*scalars[1])) | uint64_t(*scalars[2]) << 32;
      Draw draw{high, ~uint64_t(*scalars[0]), dropsBelow};
      uint64_t origin = isPiece ? uint64_t(*scalars[3]) : 0;
      auto loop = [](auto, Draw draw, T scale, uint64_t first, int64_t count, const T *x, T *y) {
        dropRun(draw, scale, first, count, x, y);
      };
      forElements(team, n, [&](int64_t begin, int64_t end) {
        while (begin < end) {
          uint64_t first = origin + uint64_t(begin % run);
          int64_t rows = begin / run;
          for (size_t d = inner; d-- > 0; rows /= shape[d])
            first += uint64_t(rows % shape[d]) * strides[d];
          int64_t count = std::min(end - begin, run - begin % run);
          dispatch(loop, draw, scale, first, count, from + begin, to + begin);
          begin += count;
        }
      });
      return ok();
    }};
  });
}

} // namespace kerf::runtime::kernels
