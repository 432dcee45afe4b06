// SPDX-License-Identifier: Apache-2.0
// softmax and cross_entropy with their gradients, and the count of numbers that are not finite. Sums over a row are
// accumulated in double, in an order that depends only on the sizes; the elements of one access are added before.
#include "ExpCode.h"
#include "IndexCode.h"
#include "PackCode.h"

namespace kerf::runtime::cuda {

/// Returns e^x for x of at most 128. Beside 16-bit numbers, the rounding of x * log2(e), at most |x| * 6e-8, is left.
KERF_DEVICE N exponentialOfRow(N x) {
  constexpr float kLog2E = 0x1.715476p+0f;
  if constexpr (isHalf<T>)
    return powerOfTwo(x * kLog2E);
  else
    return exponentialBelow(x);
}
/// Returns the larger number, and the other one if one of them is NaN.
KERF_DEVICE N largerNumber(N a, N b) { return __builtin_elementwise_max(a, b); }

/// The sum of exp(x - highest) of the numbers x seen so far, whose maximum is `highest` (Milakov and Gimelshein, Online
/// normalizer calculation for softmax, 2018). NaN never becomes the maximum, but makes the sum NaN.
struct ExpSum {
  N highest = lowest<N>();
  double sum = 0;

  KERF_DEVICE void raise(N to) {
    if (to > highest) {
      sum *= double(exponentialOfRow(highest - to));
      highest = to;
    }
  }
  /// Returns the number to subtract: 0 if all numbers so far are -infinity, which add 0 to the sum.
  KERF_DEVICE N shift() const { return highest == lowest<N>() ? N(0) : highest; }

  template <int W> KERF_DEVICE void add(const Pack<W> &x) {
    N most = x[0];
#pragma unroll
    for (int k = 1; k < W; ++k)
      most = largerNumber(most, x[k]);
    raise(most);
    const N less = shift();
    Pack<W> terms;
#pragma unroll
    for (int k = 0; k < W; ++k)
      terms[k] = exponentialOfRow(x[k] - less);
    sum += sumOfPack<W>(terms);
  }

  /// Combines the sums of the group.
  template <typename Group> KERF_DEVICE void combine() {
    raise(Group::combine(highest, [](N a, N b) { return a > b ? a : b; }));
    sum = sumOf<Group>(sum);
  }
};

/// Packs that a thread loads before it uses the first of them, so that a multiprocessor waits for enough bytes; as many
/// as fit into the registers.
template <typename Group> inline constexpr int kPacksInFlight = std::is_same_v<Group, BlockOfRow> ? 4 : 2;

/// Returns the sum of the n elements from `start` on, which a group shares.
template <typename Group, int W> KERF_DEVICE ExpSum expSum(const void *x, int64_t start, int64_t n) {
  ExpSum all;
  eachPacks<Group, W, kPacksInFlight<Group>>(start, n, [&](auto width, auto packs, int64_t i, int64_t apart) {
    all.add<packs * width>(loadPacks<packs, width>(x, start + i, apart));
  });
  all.combine<Group>();
  return all;
}

/// Computes rows whose elements are neighbours. If the maximum is infinite, the result is NaN, as by definition.
template <typename Group, int W> KERF_DEVICE void softmaxRows(const SoftmaxParameters &p) {
  for (int64_t row = Group::firstRow(); row < p.rows; row += Group::rowStep()) {
    int64_t start = row * p.size;
    ExpSum all = expSum<Group, W>(p.x, start, p.size);
    N inverse = N(1 / all.sum);
    eachPack<Group, W>(start, p.size, [&](auto width, int64_t i) {
      Pack<width> x = loadPack<width>(p.x, start + i);
#pragma unroll
      for (int k = 0; k < width; ++k)
        x[k] = exponentialOfRow(x[k] - all.highest) * inverse;
      storePack<width>(p.y, start + i, x);
    });
  }
}
KERF_KERNEL void softmaxByWarps(SoftmaxParameters p) { softmaxRows<WarpOfRow, kWidth>(p); }
KERF_KERNEL_SHARING(kRowThreads, kRowBlocks) void softmaxByBlocks(SoftmaxParameters p) {
  softmaxRows<BlockOfRow, kWidth>(p);
}
KERF_KERNEL void softmaxSingly(SoftmaxParameters p) { softmaxRows<BlockOfRow, 1>(p); }

/// Returns the number of the first element of a softmax's row whose elements lie `inner` apart.
template <typename P> KERF_DEVICE int64_t startOf(const P &p, int64_t row) {
  return row / p.inner * p.size * p.inner + row % p.inner;
}

template <typename Group> KERF_DEVICE void softmaxStrided(const SoftmaxParameters &p) {
  for (int64_t row = Group::firstRow(); row < p.rows; row += Group::rowStep()) {
    int64_t start = startOf(p, row);
    ExpSum all;
    for (int64_t i = Group::first(); i < p.size; i += Group::step())
      all.add<1>({at(p.x, start + i * p.inner)});
    all.combine<Group>();
    N inverse = N(1 / all.sum);
    for (int64_t i = Group::first(); i < p.size; i += Group::step()) {
      int64_t place = start + i * p.inner;
      put(p.y, place, exponentialOfRow(at(p.x, place) - all.highest) * inverse);
    }
  }
}
KERF_KERNEL void softmaxOfDistant(SoftmaxParameters p) { softmaxStrided<BlockOfRow>(p); }
KERF_KERNEL void softmaxByThreads(SoftmaxParameters p) { softmaxStrided<ThreadOfRow>(p); }

template <typename Group, int W> KERF_DEVICE void softmaxBackwardRows(const SoftmaxBackwardParameters &p) {
  for (int64_t row = Group::firstRow(); row < p.rows; row += Group::rowStep()) {
    int64_t start = row * p.size;
    double sum = 0;
    eachPack<Group, W>(start, p.size, [&](auto width, int64_t i) {
      Pack<width> y = loadPack<width>(p.y, start + i), dy = loadPack<width>(p.dy, start + i);
#pragma unroll
      for (int k = 0; k < width; ++k)
        y[k] *= dy[k];
      sum += double(sumOfPack<width>(y));
    });
    N dot = N(sumOf<Group>(sum));
    eachPack<Group, W>(start, p.size, [&](auto width, int64_t i) {
      Pack<width> y = loadPack<width>(p.y, start + i), dy = loadPack<width>(p.dy, start + i);
#pragma unroll
      for (int k = 0; k < width; ++k)
        y[k] *= dy[k] - dot;
      storePack<width>(p.dx, start + i, y);
    });
  }
}
KERF_KERNEL void softmaxBackwardByWarps(SoftmaxBackwardParameters p) { softmaxBackwardRows<WarpOfRow, kWidth>(p); }
KERF_KERNEL_SHARING(kRowThreads, kRowBlocks) void softmaxBackwardByBlocks(SoftmaxBackwardParameters p) {
  softmaxBackwardRows<BlockOfRow, kWidth>(p);
}
KERF_KERNEL void softmaxBackwardSingly(SoftmaxBackwardParameters p) { softmaxBackwardRows<BlockOfRow, 1>(p); }

template <typename Group> KERF_DEVICE void softmaxBackwardStrided(const SoftmaxBackwardParameters &p) {
  for (int64_t row = Group::firstRow(); row < p.rows; row += Group::rowStep()) {
    int64_t start = startOf(p, row);
    double sum = 0;
    for (int64_t i = Group::first(); i < p.size; i += Group::step())
      sum += double(at(p.y, start + i * p.inner)) * double(at(p.dy, start + i * p.inner));
    N dot = N(sumOf<Group>(sum));
    for (int64_t i = Group::first(); i < p.size; i += Group::step()) {
      int64_t place = start + i * p.inner;
      put(p.dx, place, at(p.y, place) * (at(p.dy, place) - dot));
    }
  }
}
KERF_KERNEL void softmaxBackwardOfDistant(SoftmaxBackwardParameters p) { softmaxBackwardStrided<BlockOfRow>(p); }
KERF_KERNEL void softmaxBackwardByThreads(SoftmaxBackwardParameters p) { softmaxBackwardStrided<ThreadOfRow>(p); }

/// Returns whether a row has a label that counts. Reports a wrong label, for which the result is false.
template <typename Group, typename P> KERF_DEVICE bool isLabelled(const P &p, int64_t row, int64_t label) {
  if (label == p.ignored)
    return false;
  bool isClass = label >= 0 && label < p.classes;
  if (!isClass && Group::first() == 0)
    fault(p.faults, label, row);
  return isClass;
}

template <typename Group, int W> KERF_DEVICE void lossRows(const LossParameters &p) {
  for (int64_t row = Group::firstRow(); row < p.rows; row += Group::rowStep()) {
    int64_t start = row * p.columns, label = integerAt(p.labels, row);
    bool counts = isLabelled<Group>(p, row, label);
    ExpSum all = expSum<Group, W>(p.logits, start, p.classes);
    if (Group::first() != 0)
      continue;
    double lse = double(all.shift()) + logOf(all.sum); // log(0) = -infinity if all logits are -infinity
    putAny(p.lse, row, N(lse));
    // The difference is taken before rounding, because it may be small.
    putAny(p.nll, row, counts ? N(lse - double(at(p.logits, start + label))) : N(0));
  }
}
KERF_KERNEL void lossByWarps(LossParameters p) { lossRows<WarpOfRow, kWidth>(p); }
KERF_KERNEL_SHARING(kRowThreads, kRowBlocks) void lossByBlocks(LossParameters p) { lossRows<BlockOfRow, kWidth>(p); }
KERF_KERNEL void lossSingly(LossParameters p) { lossRows<BlockOfRow, 1>(p); }

/// Bytes of a line of the caches. Rows of classes begin anywhere in a line, and a warp writes whole lines.
inline constexpr int kBytesOfLine = 128;
/// The most threads that rowCall gives a block.
inline constexpr int kSinglyThreads = 512;

template <typename Group, int W> KERF_DEVICE void lossBackwardRows(const LossBackwardParameters &p) {
  for (int64_t row = Group::firstRow(); row < p.rows; row += Group::rowStep()) {
    int64_t start = row * p.columns, label = integerAt(p.labels, row);
    bool counts = isLabelled<Group>(p, row, label);
    N lse = anyAt(p.lse, row), gradient = anyAt(p.dNll, row);
    for (int64_t i = p.classes + Group::first(); i < p.columns; i += Group::step())
      put(p.dLogits, start + i, N(0));
    if (!counts) {
      eachPack<Group, W>(start, p.classes,
                         [&](auto width, int64_t i) { storePack<width>(p.dLogits, start + i, Pack<width>{}); });
      continue;
    }
    eachPacks<Group, W, kPacksInFlight<Group> / 2, kBytesOfLine>(
        start, p.classes, [&](auto width, auto packs, int64_t i, int64_t apart) {
          Pack<packs * width> all = loadPacks<packs, width>(p.logits, start + i, apart);
#pragma unroll
          for (int pack = 0; pack < packs; ++pack) {
            const int64_t first = i + pack * apart, distance = label - first;
            const int hit = distance >= 0 && distance < width ? int(distance) : -1;
            Pack<width> d;
#pragma unroll
            for (int k = 0; k < width; ++k) {
              d[k] = exponentialOfRow(all[pack * width + k] - lse) * gradient;
              d[k] = k == hit ? d[k] - gradient : d[k];
            }
            storePack<width>(p.dLogits, start + first, d);
          }
        });
  }
}
KERF_KERNEL void lossBackwardByWarps(LossBackwardParameters p) { lossBackwardRows<WarpOfRow, kWidth>(p); }
KERF_KERNEL_SHARING(kRowThreads, kRowBlocks) void lossBackwardByBlocks(LossBackwardParameters p) {
  lossBackwardRows<BlockOfRow, kWidth>(p);
}
KERF_KERNEL_SHARING(kSinglyThreads, 2) void lossBackwardSingly(LossBackwardParameters p) { lossBackwardRows<BlockOfRow, 1>(p); }

template <int W> KERF_DEVICE void countOf(const CountNonfiniteParameters &p) {
  int64_t count = 0;
  eachPack<GridOfRow, W>(0, p.n, [&](auto width, int64_t i) {
    Pack<width> x = loadPack<width>(p.x, i);
#pragma unroll
    for (int k = 0; k < width; ++k) {
      bool isFinite = (x[k] < 0 ? -x[k] : x[k]) <= std::numeric_limits<N>::max(); // comparisons with NaN are false
      count += !isFinite;
    }
  });
  count = sumOfBlock(count);
  if (threadInBlock() == 0)
    p.counts[block()] = count;
}
KERF_KERNEL void countNonfinite(CountNonfiniteParameters p) { countOf<kWidth>(p); }
KERF_KERNEL void countNonfiniteSingly(CountNonfiniteParameters p) { countOf<1>(p); }
/// Adds the counts. One block does this.
KERF_KERNEL void addCounts(CountNonfiniteParameters p) {
  int64_t count = 0;
  for (int64_t i = threadInBlock(); i < p.count; i += threadsOfBlock())
    count += p.counts[i];
  count = sumOfBlock(count);
  if (threadInBlock() == 0)
    *p.total = count;
}

} // namespace kerf::runtime::cuda
