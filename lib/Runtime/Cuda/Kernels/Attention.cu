// SPDX-License-Identifier: Apache-2.0
// Attention and its gradients. A block of threads works on a tile of 32 queries (or keys), and goes through the keys
// (or queries) in tiles of 32. The forward kernel normalizes as it goes (Milakov and Gimelshein, Online normalizer
// calculation for softmax, 2018); the backward kernels recompute the probabilities from the saved log-sum-exp (Dao et
// al., FlashAttention, 2022). Every sum has an order that depends only on the sizes.
#include "TileCode.h"

// A bound of its own, because these kernels keep many numbers in registers.
#define KERF_ATTENTION_KERNEL                                                                                          \
  extern "C" __attribute__((global)) __attribute__((launch_bounds(kerf::runtime::cuda::kAttentionThreads)))

namespace kerf::runtime::cuda {

/// One head of one batch entry, with its key/value head.
struct Head {
  const AttentionInputs &in;
  int64_t b, h, g;

  KERF_DEVICE Head(const AttentionInputs &in, int64_t b, int64_t h) : in(in), b(b), h(h), g(h / (in.h / in.g)) {}
  KERF_DEVICE Matrix queries() const { return headOf(in.query, b, h, in.s, in.strides.query, in.d); }
  KERF_DEVICE Matrix keys() const { return headOf(in.key, b, g, in.t, in.strides.key, in.d); }
  KERF_DEVICE Matrix values() const { return headOf(in.value, b, g, in.t, in.strides.value, in.e); }
  /// Returns the head of a tensor that is shaped like the output.
  KERF_DEVICE Matrix outputs(const void *data) const { return headOf(data, b, h, in.s, in.h * in.e, in.e); }
  /// Returns the number of a query's log-sum-exp.
  KERF_DEVICE int64_t number(int64_t query) const { return (b * in.h + h) * in.s + query; }
  /// Returns whether the kernels compute the row of a query.
  KERF_DEVICE bool computes(int64_t query) const {
    return !in.tops.data || (query < in.s && isOwnRow(in.tops.data[b * in.tops.batch + h * in.tops.head + query]));
  }
  /// Returns whether the kernels compute any row of the tile from `row` on; the same for all threads of a warp.
  KERF_DEVICE bool computesTile(int64_t row) const {
    if (!in.tops.data)
      return true;
    syncWarp();
    return combineWarp(int(computes(row + lane())), larger<int>) != 0;
  }
};

/// Returns element i of a log-sum-exp.
KERF_DEVICE N sumAt(const AttentionInputs &in, const void *lse, int64_t i) {
  return in.floatSums ? N(at<F32>(lse, i)) : at(lse, i);
}

/// Returns the number of keys that the queries in [row, row + kTile) may attend to.
KERF_DEVICE int64_t keysOf(const AttentionInputs &in, int64_t row) {
  int64_t end = row + kTile < in.to ? row + kTile : in.to;
  if (end <= row || row + kTile <= in.from)
    return 0;
  int64_t causal = in.firstQuery + end;
  return !in.causal ? in.seen : causal < in.t ? causal : in.t;
}

/// Returns whether a pair of a query and a key is one of the instruction. The masks may still exclude it.
KERF_DEVICE bool isPair(const AttentionInputs &in, int64_t query, int64_t key) {
  return query >= in.from && query < in.to && key < (in.causal ? in.t : in.seen);
}

/// Returns the score of a pair from the product of query and key. Excluded pairs have the score -infinity.
KERF_DEVICE N scoreOf(const Head &head, int64_t query, int64_t key, N product) {
  const AttentionInputs &in = head.in;
  N score = product * N(in.scale);
  if (in.mask) {
    int64_t place = head.b * in.maskBatch + head.h * in.maskHead + query * in.maskRow + in.maskColumn + key;
    if (!in.maskIsBool)
      score += in.floatMask ? N(at<F32>(in.mask, place)) : at(in.mask, place);
    else if (!at<Bool>(in.mask, place))
      score = lowest<N>();
  }
  return in.causal && key > in.firstQuery + query ? lowest<N>() : score;
}

/// The softmax of a row of scores, as far as a thread's lane has seen it.
struct RowSoftmax {
  N highest = lowest<N>(); // of all lanes
  double sum = 0;          // of exp(score - shift()) of this lane

  /// Returns the number to subtract: 0 if all scores so far are -infinity.
  KERF_DEVICE N shift() const { return highest == lowest<N>() ? N(0) : highest; }
  /// Takes one more score of each lane, replaces it by its exponential, and returns the factor of the sums so far. A
  /// score that is NaN makes the sum NaN.
  KERF_DEVICE N add(N &score) {
    N before = highest, top = combineWarp(score == score ? score : lowest<N>(), larger<N>);
    highest = top > before ? top : before;
    N factor = before == highest ? N(1) : fastExp(N(before - highest));
    score = fastExp(N(score - shift()));
    sum = sum * double(factor) + double(score);
    return factor;
  }
};

/// The weights with which a row of earlier blocks and a row of this block make up the result, and its log-sum-exp.
struct Merged {
  N kept, added, lse;
};
/// Merges rows by their log-sum-exp. A row of this block without any key adds nothing.
KERF_DEVICE Merged merged(N before, N here) {
  if (here == lowest<N>())
    return {N(1), N(0), before};
  N higher = before < here ? here : before;
  N lse = higher + logOf(N(fastExp(N(before - higher)) + fastExp(N(here - higher))));
  return {fastExp(N(before - lse)), fastExp(N(here - lse)), lse};
}

KERF_ATTENTION_KERNEL void attention(AttentionParameters p) {
  KERF_SHARED Tile weights;
  const AttentionInputs &in = p.in;
  const int64_t tiles = (in.s + kTile - 1) / kTile;
  for (int64_t i = block(); i < in.b * in.h * tiles; i += blocks()) {
    const Head head(in, i / tiles / in.h, i / tiles % in.h);
    const int64_t row = i % tiles * kTile, count = keysOf(in, row);
    if (!head.computesTile(row))
      continue;
    const Matrix queries = head.queries(), keys = head.keys(), values = head.values(), out = head.outputs(p.out);
    N before[kRowsOfWarp]; // read now, because lse may lie where lseSoFar lies
#pragma unroll
    for (int r = 0; r < kRowsOfWarp; ++r) {
      int64_t query = row + firstRowOfWarp() + r;
      before[r] = p.lseSoFar && query < in.s ? sumAt(in, p.lseSoFar, head.number(query)) : lowest<N>();
    }
    syncWarp();
    for (int64_t from = 0; from == 0 || from < in.e; from += kColumns) {
      RowSoftmax softmax[kRowsOfWarp];
      WeightedSums sums;
      for (int64_t key = 0; key < count; key += kTile) {
        Part scores = productsOfRows(queries, row, keys, key);
#pragma unroll
        for (int r = 0; r < kRowsOfWarp; ++r) {
          int64_t query = row + firstRowOfWarp() + r;
          bool isIn = isPair(in, query, key + lane());
          N &score = scores.rows[r];
          score = isIn ? scoreOf(head, query, key + lane(), score) : lowest<N>();
          N factor = softmax[r].add(score);
#pragma unroll
          for (int k = 0; k < kColumnsOfLane; ++k)
            sums.sums[r][k] *= factor;
        }
        sums.add(weights, scores, values, key, from);
      }
      N inverse[kRowsOfWarp], kept[kRowsOfWarp];
#pragma unroll
      for (int r = 0; r < kRowsOfWarp; ++r) {
        double sum = sumOfWarp(softmax[r].sum);
        bool isEmpty = sum == 0;
        N here = isEmpty ? lowest<N>() : N(double(softmax[r].shift()) + logOf(sum));
        Merged result = p.lseSoFar ? merged(before[r], here) : Merged{N(0), N(1), here};
        inverse[r] = isEmpty ? N(0) : N(1 / sum) * result.added;
        kept[r] = result.kept;
        int64_t query = row + firstRowOfWarp() + r;
        if (from == 0 && query < in.s && lane() == 0 && head.computes(query)) {
          if (in.floatSums)
            put<F32>(p.lse, head.number(query), float(result.lse));
          else
            put(p.lse, head.number(query), result.lse);
        }
      }
      sums.each(out, row, from, [&](int64_t place, int r, N sum) {
        if (head.computes(row + firstRowOfWarp() + r))
          put(p.out, place, p.soFar ? kept[r] * at(p.soFar, place) + inverse[r] * sum : inverse[r] * sum);
      });
    }
  }
}

/// Returns a probability from a score and the row's log-sum-exp. A row that attends to no key has the log-sum-exp
/// -infinity, and its probabilities are 0.
KERF_DEVICE N probabilityOf(N score, N lse) { return lse == lowest<N>() ? N(0) : fastExp(N(score - lse)); }

/// The largest absolute value of a log-sum-exp L that has enough digits for exp(score - L). Larger ones occur in rows
/// whose keys are all masked by one finite number (-10000, or the lowest float). In such rows, probabilities that sum
/// to more than 1 are divided by their sum.
constexpr double kLargeLogSumExp = 1024;

/// Computes p.dots and p.factors. A warp works on one query.
KERF_ATTENTION_KERNEL void attentionRows(AttentionBackwardParameters p) {
  const AttentionInputs &in = p.in;
  const int64_t rows = in.b * in.h * in.s;
  for (int64_t row = firstElement() / 32; row < rows; row += elementStep() / 32) {
    const int64_t query = row % in.s;
    const Head head(in, row / in.s / in.h, row / in.s % in.h);
    if (!head.computes(query))
      continue;
    const Matrix out = head.outputs(p.out);
    double dot = 0, sum = 0;
    for (int64_t j = lane(); j < in.e; j += 32)
      dot += double(at(p.out, out.place(query, j))) * double(at(p.dOut, out.place(query, j)));
    dot = sumOfWarp(dot);
    N lse = sumAt(in, p.lse, row);
    if (lse != lowest<N>() && (lse < 0 ? -lse : lse) > N(kLargeLogSumExp)) {
      const Matrix queries = head.queries(), keys = head.keys();
      for (int64_t key = lane(); isPair(in, query, key); key += 32) {
        N product = 0;
        for (int64_t c = 0; c < in.d; ++c)
          product += queries.element(query, c) * keys.element(key, c);
        sum += double(probabilityOf(scoreOf(head, query, key, product), lse));
      }
      syncWarp();
      sum = sumOfWarp(sum);
    }
    if (lane() == 0) {
      static_cast<N *>(p.dots)[row] = N(dot);
      static_cast<N *>(p.factors)[row] = N(1 / (sum > 1 ? sum : 1));
    }
  }
}

/// The probability of a pair, and the gradient of the product of its query and key.
struct PairGradient {
  N probability = 0, slope = 0;
};
/// Returns them from the product of query and key and the product of value and dOut; zeros for what is no pair.
KERF_DEVICE PairGradient gradientOf(const AttentionBackwardParameters &p, const Head &head, int64_t query, int64_t key,
                                    N product, N dProbability) {
  if (!isPair(p.in, query, key) || !head.computes(query))
    return {};
  int64_t row = head.number(query);
  N probability = probabilityOf(scoreOf(head, query, key, product), sumAt(p.in, p.lse, row));
  probability *= static_cast<const N *>(p.factors)[row];
  return {probability, N(p.in.scale) * probability * (dProbability - static_cast<const N *>(p.dots)[row])};
}

/// Computes dq. A block works on a tile of queries.
KERF_ATTENTION_KERNEL void attentionQueries(AttentionBackwardParameters p) {
  KERF_SHARED Tile weights;
  const AttentionInputs &in = p.in;
  const int64_t tiles = (in.s + kTile - 1) / kTile;
  for (int64_t i = block(); i < in.b * in.h * tiles; i += blocks()) {
    const Head head(in, i / tiles / in.h, i / tiles % in.h);
    const int64_t row = i % tiles * kTile, count = keysOf(in, row);
    if (!head.computesTile(row))
      continue;
    const Matrix queries = head.queries(), keys = head.keys(), values = head.values(), dOut = head.outputs(p.dOut);
    for (int64_t from = 0; from < in.d; from += kColumns) {
      WeightedSums sums;
      for (int64_t key = 0; key < count; key += kTile) {
        Part slopes = productsOfRows(queries, row, keys, key), dProbabilities = productsOfRows(dOut, row, values, key);
#pragma unroll
        for (int r = 0; r < kRowsOfWarp; ++r)
          slopes.rows[r] =
              gradientOf(p, head, row + firstRowOfWarp() + r, key + lane(), slopes.rows[r], dProbabilities.rows[r])
                  .slope;
        sums.add(weights, slopes, keys, key, from);
      }
      const Matrix dQueries = headOf(p.dq, head.b, head.h, in.s, p.strides.query, in.d);
      sums.each(dQueries, row, from, [&](int64_t place, int r, N sum) {
        if (head.computes(row + firstRowOfWarp() + r))
          put(p.dq, place, p.dqSoFar ? at(p.dqSoFar, place) + sum : sum);
      });
    }
  }
}

/// Computes dk and dv, or adds the parts of the rows of isOwnRow to them. A block works on a tile of keys, for all
/// query heads that share their head.
KERF_ATTENTION_KERNEL void attentionKeys(AttentionBackwardParameters p) {
  KERF_SHARED Tile weights;
  const AttentionInputs &in = p.in;
  const int64_t tiles = (in.t + kTile - 1) / kTile, shared = in.h / in.g, width = in.d > in.e ? in.d : in.e;
  for (int64_t i = block(); i < in.b * in.g * tiles; i += blocks()) {
    const int64_t b = i / tiles / in.g, g = i / tiles % in.g, row = i % tiles * kTile;
    // The first query that may attend to the first key, at the start of a tile of queries.
    int64_t first = in.causal && row - in.firstQuery > in.from ? row - in.firstQuery : in.from;
    first = first / kTile * kTile;
    const int64_t end = row < in.seen ? in.to : 0;
    for (int64_t from = 0; from < width; from += kColumns) {
      WeightedSums dKeys, dValues;
      bool any = !in.tops.data;
      for (int64_t h = g * shared; h < (g + 1) * shared; ++h) {
        const Head head(in, b, h);
        const Matrix queries = head.queries(), dOut = head.outputs(p.dOut);
        for (int64_t query = first; query < end; query += kTile) {
          if (!head.computesTile(query))
            continue;
          any = true;
          Part slopes = productsOfRows(head.keys(), row, queries, query);
          Part probabilities = productsOfRows(head.values(), row, dOut, query);
#pragma unroll
          for (int r = 0; r < kRowsOfWarp; ++r) {
            PairGradient pair =
                gradientOf(p, head, query + lane(), row + firstRowOfWarp() + r, slopes.rows[r], probabilities.rows[r]);
            slopes.rows[r] = pair.slope;
            probabilities.rows[r] = pair.probability;
          }
          dKeys.add(weights, slopes, queries, query, from);
          dValues.add(weights, probabilities, dOut, query, from);
        }
      }
      if (!any) // cuDNN has computed these gradients
        continue;
      auto finish = [&](void *y, int64_t place, N sum) { put(y, place, in.tops.data ? at(y, place) + sum : sum); };
      dKeys.each(headOf(p.dk, b, g, in.t, p.strides.key, in.d), row, from,
                 [&](int64_t place, int, N sum) { finish(p.dk, place, sum); });
      dValues.each(headOf(p.dv, b, g, in.t, p.strides.value, in.e), row, from,
                   [&](int64_t place, int, N sum) { finish(p.dv, place, sum); });
    }
  }
}

} // namespace kerf::runtime::cuda
