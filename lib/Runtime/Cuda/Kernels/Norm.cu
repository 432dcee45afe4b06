// SPDX-License-Identifier: Apache-2.0
// softmax, layer_norm, rms_norm and cross_entropy with their gradients, and the count of numbers that are not finite.
// Sums over a row, and over rows, are accumulated in double, in an order that depends only on the sizes.
#include "IndexCode.h"
#pragma clang force_cuda_host_device begin
#include "ParametersNorm.h"
#pragma clang force_cuda_host_device end

namespace kerf::runtime::cuda {

/// The threads of a block, which share one row.
struct BlockOfRow {
  KERF_DEVICE static int64_t firstRow() { return block(); }
  KERF_DEVICE static int64_t rowStep() { return blocks(); }
  KERF_DEVICE static int64_t first() { return threadInBlock(); }
  KERF_DEVICE static int64_t step() { return threadsOfBlock(); }
  template <typename X, typename F> KERF_DEVICE static X combine(X value, F f) { return combineBlock(value, f); }
};
/// One thread, which has a row of its own.
struct ThreadOfRow {
  KERF_DEVICE static int64_t firstRow() { return firstElement(); }
  KERF_DEVICE static int64_t rowStep() { return elementStep(); }
  KERF_DEVICE static int64_t first() { return 0; }
  KERF_DEVICE static int64_t step() { return 1; }
  template <typename X, typename F> KERF_DEVICE static X combine(X value, F) { return value; }
};
template <typename Group> KERF_DEVICE double sumOf(double value) {
  return Group::combine(value, [](double a, double b) { return a + b; });
}

/// The sum of exp(x - highest) of the numbers x seen so far, whose maximum is `highest` (Milakov and Gimelshein, Online
/// normalizer calculation for softmax, 2018). NaN never becomes the maximum, but makes the sum NaN.
struct ExpSum {
  N highest = lowest<N>();
  double sum = 0;

  KERF_DEVICE void raise(N to) {
    if (to > highest) {
      sum *= double(fastExp(N(highest - to)));
      highest = to;
    }
  }
  /// Returns the number to subtract: 0 if all numbers so far are -infinity, which add 0 to the sum.
  KERF_DEVICE N shift() const { return highest == lowest<N>() ? N(0) : highest; }

  /// Adds element(i) for the group's indices i below n, and then combines the sums of the group.
  template <typename Group, typename F> KERF_DEVICE static ExpSum of(int64_t n, F element) {
    constexpr int kAtOnce = 4; // loads that are under way at the same time
    ExpSum all;
    for (int64_t i = Group::first(); i < n; i += kAtOnce * Group::step()) {
      N x[kAtOnce], highest = lowest<N>();
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k) {
        int64_t j = i + k * Group::step();
        x[k] = j < n ? element(j) : lowest<N>();
      }
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k)
        highest = x[k] > highest ? x[k] : highest;
      all.raise(highest);
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k)
        all.sum += double(fastExp(N(x[k] - all.shift())));
    }
    all.raise(Group::combine(all.highest, larger<N>));
    all.sum = sumOf<Group>(all.sum);
    return all;
  }
};

/// Returns the number of the first element of a softmax's row.
template <typename P> KERF_DEVICE int64_t startOf(const P &p, int64_t row) {
  return row / p.inner * p.size * p.inner + row % p.inner;
}

/// If the maximum is infinite, the result is NaN, as by definition.
template <typename Group> KERF_DEVICE void softmaxRows(const SoftmaxParameters &p) {
  for (int64_t row = Group::firstRow(); row < p.rows; row += Group::rowStep()) {
    int64_t start = startOf(p, row);
    ExpSum all = ExpSum::of<Group>(p.size, [&](int64_t i) { return at(p.x, start + i * p.inner); });
    N inverse = N(1 / all.sum);
    for (int64_t i = Group::first(); i < p.size; i += Group::step()) {
      int64_t place = start + i * p.inner;
      put(p.y, place, fastExp(N(at(p.x, place) - all.highest)) * inverse);
    }
  }
}
KERF_KERNEL void softmax(SoftmaxParameters p) { softmaxRows<BlockOfRow>(p); }
KERF_KERNEL void softmaxByThreads(SoftmaxParameters p) { softmaxRows<ThreadOfRow>(p); }

template <typename Group> KERF_DEVICE void softmaxBackwardRows(const SoftmaxBackwardParameters &p) {
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
KERF_KERNEL void softmaxBackward(SoftmaxBackwardParameters p) { softmaxBackwardRows<BlockOfRow>(p); }
KERF_KERNEL void softmaxBackwardByThreads(SoftmaxBackwardParameters p) { softmaxBackwardRows<ThreadOfRow>(p); }

KERF_DEVICE double inverseRoot(double x) { return 1 / __builtin_elementwise_sqrt(x); }

KERF_KERNEL void layerNorm(NormParameters p) {
  for (int64_t row = block(); row < p.rows; row += blocks()) {
    int64_t start = row * p.n;
    double sum = 0, squares = 0;
    for (int64_t i = threadInBlock(); i < p.n; i += threadsOfBlock())
      sum += double(at(p.x, start + i));
    double mean = sumOfBlock(sum) / double(p.n);
    for (int64_t i = threadInBlock(); i < p.n; i += threadsOfBlock()) {
      double distance = double(at(p.x, start + i)) - mean;
      squares += distance * distance;
    }
    N m = N(mean), r = N(inverseRoot(sumOfBlock(squares) / double(p.n) + p.epsilon));
    for (int64_t i = threadInBlock(); i < p.n; i += threadsOfBlock())
      put(p.y, start + i, (at(p.x, start + i) - m) * r * at(p.scale, i) + at(p.bias, i));
    if (threadInBlock() == 0) {
      put(p.mean, row, m);
      put(p.rstd, row, r);
    }
  }
}

KERF_KERNEL void rmsNorm(NormParameters p) {
  for (int64_t row = block(); row < p.rows; row += blocks()) {
    int64_t start = row * p.n;
    double squares = 0;
    for (int64_t i = threadInBlock(); i < p.n; i += threadsOfBlock()) {
      double x = double(at(p.x, start + i));
      squares += x * x;
    }
    N r = N(inverseRoot(sumOfBlock(squares) / double(p.n) + p.epsilon));
    for (int64_t i = threadInBlock(); i < p.n; i += threadsOfBlock())
      put(p.y, start + i, at(p.x, start + i) * r * at(p.scale, i));
    if (threadInBlock() == 0)
      put(p.rstd, row, r);
  }
}

/// dx = rstd * (g - mean(g) - xhat * mean(g * xhat)) with g = dy * scale and xhat = (x - mean) * rstd. Without a mean
/// (rms_norm), mean(g) is left out and xhat = x * rstd.
KERF_KERNEL void normBackward(NormBackwardParameters p) {
  for (int64_t row = block(); row < p.rows; row += blocks()) {
    int64_t start = row * p.n;
    N mean = p.mean ? at(p.mean, row) : N(0), rstd = at(p.rstd, row);
    double sum = 0, dot = 0;
    for (int64_t i = threadInBlock(); i < p.n; i += threadsOfBlock()) {
      N hat = (at(p.x, start + i) - mean) * rstd, g = at(p.dy, start + i) * at(p.scale, i);
      sum += double(g);
      dot += double(g) * double(hat);
    }
    N meanOfG = p.mean ? N(sumOfBlock(sum) / double(p.n)) : N(0), meanOfDot = N(sumOfBlock(dot) / double(p.n));
    for (int64_t i = threadInBlock(); i < p.n; i += threadsOfBlock()) {
      N hat = (at(p.x, start + i) - mean) * rstd, g = at(p.dy, start + i) * at(p.scale, i);
      put(p.dx, start + i, rstd * (g - meanOfG - hat * meanOfDot));
    }
  }
}

/// Sums the gradients of scale and bias over the rows of each piece.
KERF_KERNEL void sumPieces(NormBackwardParameters p) {
  int64_t n = p.pieces * p.n;
  for (int64_t element = firstElement(); element < n; element += elementStep()) {
    int64_t piece = element / p.n, i = element - piece * p.n;
    int64_t begin = piece * p.rowsOfPiece, end = begin + p.rowsOfPiece < p.rows ? begin + p.rowsOfPiece : p.rows;
    double dScale = 0, dBias = 0;
#pragma unroll 4
    for (int64_t row = begin; row < end; ++row) {
      N mean = p.mean ? at(p.mean, row) : N(0), dy = at(p.dy, row * p.n + i);
      N hat = (at(p.x, row * p.n + i) - mean) * at(p.rstd, row);
      dScale += double(dy) * double(hat);
      dBias += double(dy);
    }
    p.sums[element] = dScale;
    if (p.dBias)
      p.sums[n + element] = dBias;
  }
}

/// Adds the sums of the pieces in their order.
KERF_KERNEL void addPieces(NormBackwardParameters p) {
  for (int64_t i = firstElement(); i < p.n; i += elementStep()) {
    double dScale = 0, dBias = 0;
    for (int64_t piece = 0; piece < p.pieces; ++piece) {
      dScale += p.sums[piece * p.n + i];
      if (p.dBias)
        dBias += p.sums[(p.pieces + piece) * p.n + i];
    }
    put(p.dScale, i, N(dScale));
    if (p.dBias)
      put(p.dBias, i, N(dBias));
  }
}

/// Returns whether a row has a label that counts. Reports a wrong label, for which the result is false.
template <typename P> KERF_DEVICE bool isLabelled(const P &p, int64_t row, int64_t label) {
  if (label == p.ignored)
    return false;
  bool isClass = label >= 0 && label < p.classes;
  if (!isClass && threadInBlock() == 0)
    fault(p.faults, label, row);
  return isClass;
}

KERF_KERNEL void crossEntropy(LossParameters p) {
  for (int64_t row = block(); row < p.rows; row += blocks()) {
    int64_t start = row * p.classes, label = integerAt(p.labels, row);
    bool counts = isLabelled(p, row, label);
    ExpSum all = ExpSum::of<BlockOfRow>(p.classes, [&](int64_t i) { return at(p.logits, start + i); });
    if (threadInBlock() != 0)
      continue;
    double lse = double(all.shift()) + logOf(all.sum); // log(0) = -infinity if all logits are -infinity
    put(p.lse, row, N(lse));
    // The difference is taken before rounding, because it may be small.
    put(p.nll, row, counts ? N(lse - double(at(p.logits, start + label))) : N(0));
  }
}

KERF_KERNEL void crossEntropyBackward(LossBackwardParameters p) {
  for (int64_t row = block(); row < p.rows; row += blocks()) {
    int64_t start = row * p.classes, label = integerAt(p.labels, row);
    bool counts = isLabelled(p, row, label);
    N lse = at(p.lse, row), gradient = at(p.dNll, row);
    for (int64_t i = threadInBlock(); i < p.classes; i += threadsOfBlock()) {
      N d = fastExp(N(at(p.logits, start + i) - lse)) * gradient;
      put(p.dLogits, start + i, !counts ? N(0) : i == label ? d - gradient : d);
    }
  }
}

KERF_KERNEL void countNonfinite(CountNonfiniteParameters p) {
  int64_t count = 0;
  for (int64_t i = firstElement(); i < p.n; i += elementStep()) {
    N x = at(p.x, i);
    bool isFinite = (x < 0 ? -x : x) <= std::numeric_limits<N>::max(); // comparisons with NaN are false
    count += !isFinite;
  }
  count = sumOfBlock(count);
  if (threadInBlock() == 0)
    p.counts[block()] = count;
}
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
