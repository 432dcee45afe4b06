// SPDX-License-Identifier: Apache-2.0
// The stand-in of libopapi_transformer.so: attention in the layout BSND.
#include "Tensors.h"

#include <cmath>
#include <cstring>

namespace kerf::standin::cann {

namespace {
struct Attention {
  int64_t b, s, h, d, t, g;
  double scale;
  int64_t sparse;
  aclTensor query, key, value, mask;
  bool isMasked;
};

/// Checks what forward and gradient have in common.
Attention checked(Check &check, const aclTensor *query, const aclTensor *key, const aclTensor *value,
                  const std::vector<const aclTensor *> &absent, const aclTensor *mask, const aclIntArray *prefix,
                  double scale, double keepProb, int64_t preTokens, int64_t nextTokens, int64_t headNum,
                  const char *layout, int64_t innerPrecise, int64_t sparseMode) {
  Attention a{};
  for (const aclTensor *one : {query, key, value})
    check.tensor(one, kFloats);
  check.tensor(mask, bitOf(Bool) | bitOf(U8), true);
  if (check.code)
    return a;
  check.same(query, key);
  check.same(query, value);
  for (const aclTensor *one : absent)
    check.rule(!one, "option", "an option that this stand-in does not compute");
  check.rule(!prefix && keepProb == 1, "option", "no prefix and no dropout");
  check.rule(std::strcmp(layout, "BSND") == 0 && query->sizes.size() == 4 && key->sizes.size() == 4, "layout", "BSND");
  check.rule(preTokens == 2147483647 && nextTokens == 2147483647, "tokens", "no limit of distances");
  check.rule(innerPrecise == 0 || innerPrecise == 2, "option", "innerPrecise is 0 or 2");
  if (check.code)
    return a;
  a = {query->sizes[0], query->sizes[1],
       query->sizes[2], query->sizes[3],
       key->sizes[1],   key->sizes[2],
       scale,           sparseMode,
       *query,          *key,
       *value,          {},
       mask != nullptr};
  check.sizes(key, {a.b, a.t, a.g, a.d});
  check.sizes(value, {a.b, a.t, a.g, a.d});
  check.rule(headNum == a.h && a.h <= 256 && a.h % a.g == 0, "heads",
             "up to 256 heads, a multiple of those of the keys");
  check.rule(a.d <= 768, "width", "heads of up to 768 elements");
  check.rule(sparseMode == 0 || (sparseMode == 2 && mask), "sparse", "mode 0, or 2 with a mask");
  if (mask) {
    a.mask = *mask;
    const Sizes &m = mask->sizes;
    if (sparseMode == 2)
      check.sizes(mask, {2048, 2048});
    else
      check.rule(m == Sizes{a.s, a.t} || m == Sizes{1, 1, a.s, a.t} || m == Sizes{a.b, 1, a.s, a.t} ||
                     m == Sizes{a.b, a.h, a.s, a.t},
                 "mask", "the mask has none of the sizes [S,T], [1,1,S,T], [B,1,S,T] and [B,N,S,T]");
  }
  return a;
}

/// Returns whether a key is hidden, for all of [b, h, s, t].
std::vector<uint8_t> hiddenOf(const Attention &a) {
  std::vector<uint8_t> hidden(static_cast<size_t>(a.b * a.h * a.s * a.t), 0);
  if (!a.isMasked)
    return hidden;
  if (a.sparse == 2) {
    for (int64_t i = 0; i < a.b * a.h * a.s; ++i)
      for (int64_t j = 0; j < a.t; ++j)
        hidden[size_t(i * a.t + j)] = j > i % a.s;
    return hidden;
  }
  std::vector<double> mask = load(a.mask, {a.b, a.h, a.s, a.t});
  for (size_t i = 0; i < mask.size(); ++i)
    hidden[i] = mask[i] != 0;
  return hidden;
}

/// Returns the scores of all keys of a query; those of hidden keys are -infinity.
std::vector<double> scoresOf(const Attention &a, const std::vector<double> &q, const std::vector<double> &k,
                             const std::vector<uint8_t> &hidden, int64_t b, int64_t h, int64_t s) {
  std::vector<double> scores(static_cast<size_t>(a.t));
  const double *query = q.data() + ((b * a.s + s) * a.h + h) * a.d;
  for (int64_t j = 0; j < a.t; ++j) {
    const double *key = k.data() + ((b * a.t + j) * a.g + h / (a.h / a.g)) * a.d;
    double dot = 0;
    for (int64_t i = 0; i < a.d; ++i)
      dot += query[i] * key[i];
    scores[size_t(j)] = hidden[size_t(((b * a.h + h) * a.s + s) * a.t + j)] ? -INFINITY : a.scale * dot;
  }
  return scores;
}
} // namespace

KERF_OPERATOR(aclnnFlashAttentionScore, const aclTensor *query, const aclTensor *key, const aclTensor *value,
              const aclTensor *realShift, const aclTensor *dropMask, const aclTensor *paddingMask,
              const aclTensor *attenMask, const aclIntArray *prefix, double scaleValue, double keepProb,
              int64_t preTokens, int64_t nextTokens, int64_t headNum, char *inputLayout, int64_t innerPrecise,
              int64_t sparseMode, const aclTensor *softmaxMax, const aclTensor *softmaxSum, const aclTensor *softmaxOut,
              const aclTensor *attentionOut) {
  Check check("aclnnFlashAttentionScore");
  Attention a = checked(check, query, key, value, {realShift, dropMask, paddingMask, softmaxOut}, attenMask, prefix,
                        scaleValue, keepProb, preTokens, nextTokens, headNum, inputLayout, innerPrecise, sparseMode);
  check.result(softmaxMax, bitOf(F32));
  check.result(softmaxSum, bitOf(F32));
  check.result(attentionOut, kFloats);
  if (check.code)
    return check.code;
  check.same(query, attentionOut);
  check.sizes(softmaxMax, {a.b, a.h, a.s, 8});
  check.sizes(softmaxSum, {a.b, a.h, a.s, 8});
  check.sizes(attentionOut, query->sizes);
  return check.executor(
      workspace, executor,
      [a, most = *softmaxMax, sum = *softmaxSum, out = *attentionOut] {
        std::vector<double> q = load(a.query), k = load(a.key), v = load(a.value), result(q.size(), 0), maxima, sums;
        const std::vector<uint8_t> hidden = hiddenOf(a);
        for (int64_t b = 0; b < a.b; ++b)
          for (int64_t h = 0; h < a.h; ++h)
            for (int64_t s = 0; s < a.s; ++s) {
              std::vector<double> scores = scoresOf(a, q, k, hidden, b, h, s);
              double highest = -3.4028234663852886e38, total = 0;
              for (double score : scores)
                highest = std::max(highest, score);
              for (double &score : scores)
                total += score = std::exp(score - highest);
              maxima.insert(maxima.end(), 8, highest);
              sums.insert(sums.end(), 8, total);
              double *row = result.data() + ((b * a.s + s) * a.h + h) * a.d;
              for (int64_t j = 0; j < a.t && total > 0; ++j)
                for (int64_t i = 0; i < a.d; ++i)
                  row[i] += scores[size_t(j)] / total * v[size_t(((b * a.t + j) * a.g + h / (a.h / a.g)) * a.d + i)];
            }
        store(most, maxima);
        store(sum, sums);
        store(out, result);
      },
      8192);
}

KERF_OPERATOR(aclnnFlashAttentionScoreGrad, const aclTensor *query, const aclTensor *keyIn, const aclTensor *value,
              const aclTensor *dy, const aclTensor *pseShift, const aclTensor *dropMask, const aclTensor *paddingMask,
              const aclTensor *attenMask, const aclTensor *softmaxMax, const aclTensor *softmaxSum,
              const aclTensor *softmaxIn, const aclTensor *attentionIn, const aclIntArray *prefix, double scaleValue,
              double keepProb, int64_t preTokens, int64_t nextTokens, int64_t headNum, char *inputLayout,
              int64_t innerPrecise, int64_t sparseMode, const aclTensor *dqOut, const aclTensor *dkOut,
              const aclTensor *dvOut, const aclTensor *dpseOut) {
  Check check("aclnnFlashAttentionScoreGrad");
  Attention a =
      checked(check, query, keyIn, value, {pseShift, dropMask, paddingMask, softmaxIn, dpseOut}, attenMask, prefix,
              scaleValue, keepProb, preTokens, nextTokens, headNum, inputLayout, innerPrecise, sparseMode);
  for (const aclTensor *one : {dy, attentionIn})
    check.tensor(one, kFloats);
  for (const aclTensor *one : {dqOut, dkOut, dvOut})
    check.result(one, kFloats);
  check.tensor(softmaxMax, bitOf(F32));
  check.tensor(softmaxSum, bitOf(F32));
  if (check.code)
    return check.code;
  for (const aclTensor *one : {dy, attentionIn, dqOut, dkOut, dvOut})
    check.same(query, one);
  check.sizes(softmaxMax, {a.b, a.h, a.s, 8});
  check.sizes(softmaxSum, {a.b, a.h, a.s, 8});
  for (const aclTensor *one : {dy, attentionIn, dqOut})
    check.sizes(one, query->sizes);
  check.sizes(dkOut, keyIn->sizes);
  check.sizes(dvOut, value->sizes);
  return check.executor(
      workspace, executor,
      [a, dy = *dy, most = *softmaxMax, sum = *softmaxSum, out = *attentionIn, dq = *dqOut, dk = *dkOut, dv = *dvOut] {
        std::vector<double> q = load(a.query), k = load(a.key), v = load(a.value), given = load(dy), o = load(out),
                            maxima = load(most), sums = load(sum), byQuery(q.size(), 0), byKey(k.size(), 0),
                            byValue(v.size(), 0);
        const std::vector<uint8_t> hidden = hiddenOf(a);
        for (int64_t b = 0; b < a.b; ++b)
          for (int64_t h = 0; h < a.h; ++h)
            for (int64_t s = 0; s < a.s; ++s) {
              std::vector<double> scores = scoresOf(a, q, k, hidden, b, h, s);
              const auto row = size_t(((b * a.s + s) * a.h + h) * a.d), number = size_t(((b * a.h + h) * a.s + s) * 8);
              double dots = 0;
              for (int64_t i = 0; i < a.d; ++i)
                dots += given[row + size_t(i)] * o[row + size_t(i)];
              for (int64_t j = 0; j < a.t; ++j) {
                const double p = std::exp(scores[size_t(j)] - maxima[number]) / sums[number];
                const auto at = size_t(((b * a.t + j) * a.g + h / (a.h / a.g)) * a.d);
                double dp = 0;
                for (int64_t i = 0; i < a.d; ++i)
                  dp += given[row + size_t(i)] * v[at + size_t(i)];
                const double ds = p * (dp - dots) * a.scale;
                for (int64_t i = 0; i < a.d; ++i) {
                  byQuery[row + size_t(i)] += ds * k[at + size_t(i)];
                  byKey[at + size_t(i)] += ds * q[row + size_t(i)];
                  byValue[at + size_t(i)] += p * given[row + size_t(i)];
                }
              }
            }
        store(dq, byQuery);
        store(dk, byKey);
        store(dv, byValue);
      },
      8192);
}

} // namespace kerf::standin::cann
