// SPDX-License-Identifier: Apache-2.0
// Calls of attention and of ring attention. Where aclnnFlashAttentionScore has the form and is there, it computes
// attention without the matrix of scores. Otherwise the calls are products, a softmax and another product, on float32
// copies.
#include "../Cpu/Kernels/Attention.h"
#include "Calls.h"
#include "Prices.h"
#include "kerf/Runtime/Cpu/Kernels.h"

#include <limits>

namespace kerf::runtime::ascend {

namespace {
using kernels::KeyScope;
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr double kLowest = -double(std::numeric_limits<float>::max());

/// The inputs of an attention instruction: query, key, value and (if there is one) mask are the operands from number
/// `first` on.
struct Inputs {
  AttentionSizes z;
  View query, key, value;
  std::optional<View> mask;
};

Inputs inputsOf(Builder &b, size_t first, bool isMasked, KeyScope scope) {
  b.refuseDoubles();
  BindRequest host = hostRequest(b.request, nullptr);
  if (isMasked && host.operands[first + 3].dtype != DType::Bool)
    host.operands[first + 3].dtype = host.operands[first].dtype; // the type that the check asks for
  kernels::Checker check(host);
  Inputs in{*kernels::attentionSizes(check, host, first, isMasked, scope),
            b.operand(first),
            b.operand(first + 1),
            b.operand(first + 2),
            {}};
  if (isMasked)
    in.mask = b.operand(first + 3);
  return in;
}

// The flash form.

bool hasFlash(const Builder &b, const Inputs &in) {
  constexpr int64_t kMostWidth = 768, kMostHeads = 256;
  bool hasFloatMask = in.mask && in.mask->dtype != DType::Bool;
  return b.target.generation != Generation::First && in.z.d == in.z.e && in.z.d <= kMostWidth && in.z.h <= kMostHeads &&
         !hasFloatMask && in.query.elements() > 0 && in.key.elements() > 0;
}

/// How the flash form masks scores: booleans that are true where a key is hidden.
struct FlashMask {
  std::optional<View> hidden;
  int64_t sparse = 0, precise = 0; // the operator's sparseMode and innerPrecise
};

FlashMask flashMaskOf(Builder &b, const Inputs &in) {
  constexpr int64_t kCausal = 2, kSide = 2048; // causal from the upper left, with a mask of this size for all sizes
  constexpr int64_t kHiddenRows = 2;           // rows may have no key
  const AttentionSizes &z = in.z;
  auto causal = [&](int64_t rows, int64_t columns, int64_t first) {
    std::vector<uint8_t> bits(static_cast<size_t>(rows * columns));
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j)
        bits[size_t(i * columns + j)] = j > first + i;
    return b.constant(DType::Bool, {rows, columns}, bits.data());
  };
  if (!in.mask && !z.causal)
    return {};
  if (!in.mask && z.firstQuery == 0)
    return {causal(kSide, kSide, 0), kCausal, 0};
  if (!in.mask)
    return {causal(z.s, z.t, z.firstQuery), 0, 0};
  View hidden = b.temporary(DType::Bool, {z.b, in.mask->sizes[1], z.s, z.t});
  b.call(op::LogicalNot, broadcast(*in.mask, hidden.sizes, {0, 1, 2, 3}), hidden);
  if (z.causal)
    b.call(op::LogicalOr, hidden, broadcast(causal(z.s, z.t, z.firstQuery), hidden.sizes, {2, 3}), hidden);
  return {hidden, 0, kHiddenRows};
}

constexpr int64_t kAllTokens = std::numeric_limits<int32_t>::max(); // no limit to the distance of query and key
constexpr int64_t kCopies = 8;                                      // of each maximum and sum
constexpr const char *kLayout = "BSND";

void addFlash(Builder &b, const Inputs &in, const View &out, const View &lse) {
  const AttentionSizes &z = in.z;
  FlashMask mask = flashMaskOf(b, in);
  View most = b.temporary(DType::F32, {z.b, z.h, z.s, kCopies}), sum = b.temporary(DType::F32, most.sizes);
  b.call(op::FlashAttentionScore, in.query, in.key, in.value, {}, {}, {}, mask.hidden, {}, z.scale, 1.0, kAllTokens,
         kAllTokens, z.h, kLayout, mask.precise, mask.sparse, most, sum, {}, out);
  b.call(op::Log, sum, sum);
  b.add(most, sum, sum);
  View first = sliced(sum, 3, 0, 1);
  first.sizes.pop_back(), first.strides.pop_back();
  b.copy(first, lse);
}

void addFlashBackward(Builder &b, const Inputs &in, size_t others) {
  const AttentionSizes &z = in.z;
  FlashMask mask = flashMaskOf(b, in);
  View out = b.operand(others), lse = b.operand(others + 1), dOut = b.operand(others + 2);
  // exp(score - maximum) / sum is the same with lse as the maximum and a sum of 1.
  View most = b.temporary(DType::F32, {z.b, z.h, z.s, kCopies}), sum = b.temporary(DType::F32, most.sizes);
  b.copy(broadcast(b.as(DType::F32, lse), most.sizes, {0, 1, 2}), most);
  if (in.mask) { // rows without keys have a logarithm of -infinity
    constexpr double kLow = -1e30;
    b.call(op::Clamp, most, Builder::scalar(DType::F32, kLow), Builder::scalar(DType::F32, -kLow), most);
  }
  b.fill(sum, 1);
  b.call(op::FlashAttentionScoreGrad, in.query, in.key, in.value, dOut, {}, {}, {}, mask.hidden, most, sum, {}, out, {},
         z.scale, 1.0, kAllTokens, kAllTokens, z.h, kLayout, mask.precise, mask.sparse, b.result(0), b.result(1),
         b.result(2), {});
}

// The composed form. Query heads that share a key head are g groups of r: tensors are [b, g, r * s, width].

/// The queries that attend to any key, the keys to which any query attends, and their scores, in float32.
struct Composed {
  AttentionSizes z;
  int64_t r = 1;              // query heads of a group
  View query, key, value;     // [b, g, r * s, d], [b, g, t, d], [b, g, t, e]
  View scores;                // [b, g, r * s, t]
  std::optional<View> hidden; // booleans with the sizes of the scores
};

View transposed(const View &view) { return permuted(view, {0, 1, 3, 2}); }

/// Returns rows [from, to) of a tensor of query heads as [b, g, r, s, width].
View groupsOf(const AttentionSizes &z, const View &view) {
  Shape sizes = view.sizes;
  View rows = sliced(reshaped(view, {sizes[0], sizes[1], z.g, z.h / z.g, sizes[3]}), 1, z.from, z.to - z.from);
  return permuted(rows, {0, 2, 3, 1, 4});
}
/// Returns a dense float32 copy as [b, g, r * s, width].
View groupedCopy(Builder &b, const AttentionSizes &z, const View &view) {
  View groups = groupsOf(z, view), made = b.temporary(DType::F32, groups.sizes);
  View source = groups;
  if (groups.dtype != DType::F32) {
    View wide = b.as(DType::F32, view);
    source = groupsOf(z, wide);
  }
  b.copy(source, made);
  return reshaped(made, {made.sizes[0], made.sizes[1], made.sizes[2] * made.sizes[3], made.sizes[4]});
}
/// Returns the keys that are seen as [b, g, t, width].
View seenOf(Builder &b, const AttentionSizes &z, const View &view) {
  return permuted(sliced(b.as(DType::F32, view), 1, 0, z.seen), {0, 2, 1, 3});
}
/// Returns a tensor [b, h, s] of numbers of the queries as [b, g, r, s, 1].
View perQuery(const AttentionSizes &z, const View &view) {
  View shaped = reshaped(view, {z.b, z.g, z.h / z.g, z.s, 1});
  return sliced(shaped, 3, z.from, z.to - z.from);
}

/// Adds the calls of the scores, of which those of hidden keys are the lowest number.
Composed scoresOf(Builder &b, const Inputs &in) {
  const AttentionSizes &z = in.z;
  Composed c{z, z.h / z.g, groupedCopy(b, z, in.query), seenOf(b, z, in.key), seenOf(b, z, in.value), {}, {}};
  const int64_t rows = z.to - z.from;
  c.scores = b.temporary(DType::F32, {z.b, z.g, c.r * rows, z.seen});
  multiply(b, c.query, transposed(c.key), c.scores);
  b.call(op::Muls, c.scores, Builder::scalar(DType::F32, z.scale), c.scores);
  if (!in.mask && !z.causal)
    return c;
  const Shape split = {z.b, z.g, c.r, rows, z.seen};
  View scores = reshaped(c.scores, split);
  c.hidden = b.temporary(DType::Bool, c.scores.sizes);
  View hidden = reshaped(*c.hidden, split);
  if (in.mask) {
    View mask = sliced(sliced(*in.mask, 2, z.from, rows), 3, z.maskColumn, z.seen);
    // [1 or b, 1 or h, s, t] as [1 or b, 1 or g, 1 or r, s, t]
    int64_t heads = mask.sizes[1], stride = mask.strides[1];
    bool isShared = heads == 1;
    mask.sizes = {mask.sizes[0], isShared ? 1 : z.g, isShared ? 1 : c.r, rows, z.seen};
    mask.strides = {mask.strides[0], stride * c.r, stride, mask.strides[2], mask.strides[3]};
    View all = broadcast(mask, split, {0, 1, 2, 3, 4});
    if (mask.dtype == DType::Bool) {
      b.call(op::LogicalNot, all, hidden);
      b.call(op::InplaceMaskedFillScalar, scores, hidden, Builder::scalar(DType::F32, -kInfinity));
    } else {
      View wide = all;
      if (mask.dtype != DType::F32) {
        View copy = b.temporary(DType::F32, split);
        b.cast(all, copy);
        wide = copy;
      }
      b.add(scores, wide, scores);
    }
  }
  if (z.causal) {
    std::vector<uint8_t> bits(static_cast<size_t>(rows * z.seen));
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < z.seen; ++j)
        bits[size_t(i * z.seen + j)] = j > z.firstQuery + z.from + i;
    View later = b.constant(DType::Bool, {rows, z.seen}, bits.data());
    b.call(op::InplaceMaskedFillScalar, scores, broadcast(later, split, {3, 4}),
           Builder::scalar(DType::F32, -kInfinity));
  }
  View infinite = b.temporary(DType::F32, {});
  b.fill(infinite, -kInfinity);
  b.call(op::EqTensor, c.scores, broadcast(infinite, c.scores.sizes, {}), *c.hidden);
  b.call(op::InplaceMaskedFillScalar, c.scores, *c.hidden, Builder::scalar(DType::F32, kLowest));
  return c;
}

/// Turns the scores into probabilities: all keys are there, so that a softmax gives them, or `lse` has the logarithms
/// of the sums over all blocks of keys.
void addProbabilities(Builder &b, const Composed &c, const std::optional<View> &lse) {
  View p = c.scores;
  if (lse) {
    View split = reshaped(p, {c.z.b, c.z.g, c.r, c.z.to - c.z.from, c.z.seen});
    b.subtract(split, broadcast(*lse, split.sizes, {0, 1, 2, 3, 4}), split);
    b.call(op::Exp, p, p);
  } else {
    softmax(b, p, 3, p);
  }
  if (c.hidden)
    b.call(op::InplaceMaskedFillScalar, p, *c.hidden, Builder::scalar(DType::F32, 0));
}

/// Copies [b, g, r * s, width] to rows [from, to) of a tensor of query heads.
void copyGroups(Builder &b, const AttentionSizes &z, const View &from, const View &to) {
  View groups = groupsOf(z, to);
  b.copy(reshaped(from, groups.sizes), groups);
}
/// Copies [b, g, t, width] to the seen keys of a gradient, and zeros to the others.
void copyKeys(Builder &b, const AttentionSizes &z, const View &from, const View &to) {
  if (z.seen < z.t)
    b.fill(sliced(to, 1, z.seen, z.t - z.seen), 0);
  b.copy(from, permuted(sliced(to, 1, 0, z.seen), {0, 2, 1, 3}));
}

void addComposed(Builder &b, const Inputs &in, const View &out, const View &lse) {
  const AttentionSizes &z = in.z;
  if (out.elements() == 0)
    return;
  if (z.t == 0) {
    b.fill(out, 0);
    return b.call(op::InplaceFillScalar, lse, Builder::scalar(lse.dtype, -kInfinity));
  }
  Composed c = scoresOf(b, in);
  View sums = b.temporary(DType::F32, {z.b, z.g, c.r * z.s, 1}),
       means = b.temporary(DType::F32, {z.b, z.g, c.r * z.s, z.e});
  logSumExp(b, c.scores, 3, sums);
  addProbabilities(b, c, {});
  multiply(b, c.scores, c.value, means);
  b.copy(reshaped(sums, lse.sizes), lse);
  copyGroups(b, z, means, out);
}

/// Adds the calls of the gradients. The output, the log-sum-exp and the gradient of the output are the operands from
/// number `others` on.
void addComposedBackward(Builder &b, const Inputs &in, size_t others, const std::optional<View> &soFar) {
  const AttentionSizes &z = in.z;
  View dq = b.result(0), dk = b.result(1), dv = b.result(2);
  const int64_t rows = z.to - z.from;
  if (rows <= 0 || z.seen <= 0 || in.query.elements() == 0 || in.key.elements() == 0) {
    soFar ? b.copy(*soFar, dq) : b.fill(dq, 0);
    b.fill(dk, 0);
    return b.fill(dv, 0);
  }
  View out = b.as(DType::F32, b.operand(others)), lse = b.as(DType::F32, b.operand(others + 1)),
       given = b.as(DType::F32, b.operand(others + 2));
  Composed c = scoresOf(b, in);
  addProbabilities(b, c, soFar ? std::optional(perQuery(z, lse)) : std::nullopt);
  View products = b.temporary(DType::F32, out.sizes), dots = b.temporary(DType::F32, {z.b, z.s, z.h});
  b.call(op::Mul, out, given, products);
  b.call(op::ReduceSum, products, std::vector<int64_t>{3}, false, DType::F32, dots);
  View dot = permuted(sliced(reshaped(dots, {z.b, z.s, z.g, c.r, 1}), 1, z.from, rows), {0, 2, 3, 1, 4});
  View dOut = groupedCopy(b, z, given), ds = b.temporary(DType::F32, c.scores.sizes);
  multiply(b, dOut, transposed(c.value), ds);
  View split = reshaped(ds, {z.b, z.g, c.r, rows, z.seen});
  b.subtract(split, broadcast(dot, split.sizes, {0, 1, 2, 3, 4}), split);
  b.call(op::Mul, ds, c.scores, ds);
  b.call(op::Muls, ds, Builder::scalar(DType::F32, z.scale), ds);
  View byQuery = b.temporary(DType::F32, c.query.sizes), byKey = b.temporary(DType::F32, {z.b, z.g, z.seen, z.d}),
       byValue = b.temporary(DType::F32, {z.b, z.g, z.seen, z.e});
  multiply(b, ds, c.key, byQuery);
  multiply(b, transposed(ds), c.query, byKey);
  multiply(b, transposed(c.scores), dOut, byValue);
  if (soFar) {
    b.copy(*soFar, dq);
    View groups = groupsOf(z, dq);
    b.add(groups, reshaped(byQuery, groups.sizes), groups);
  } else {
    copyGroups(b, z, byQuery, dq);
  }
  copyKeys(b, z, byKey, dk);
  copyKeys(b, z, byValue, dv);
}

/// Returns the sum of exponentials of two logarithms as a logarithm: the larger one plus log(1 + exp(-difference)).
void addLogarithms(Builder &b, const View &x, const View &y, const View &to) {
  View most = b.temporary(DType::F32, x.sizes), first = b.temporary(DType::F32, x.sizes),
       second = b.temporary(DType::F32, x.sizes);
  b.call(op::Maximum, x, y, most);
  for (const auto &[from, part] : {std::pair(x, first), std::pair(y, second)}) {
    b.subtract(from, most, part);
    b.call(op::Exp, part, part);
  }
  b.add(first, second, first);
  b.call(op::Log, first, first);
  b.add(most, first, to);
}
} // namespace

void callAttention(Builder &b) {
  auto inputs = [](Builder &b) { return inputsOf(b, 0, b.operands() == 4, KeyScope::All); };
  auto flash = [&](Builder &b) { addFlash(b, inputs(b), b.result(0), b.result(1)); };
  auto products = [&](Builder &b) { addComposed(b, inputs(b), b.result(0), b.result(1)); };
  hasFlash(b, inputs(b)) ? choose(b, {{flash}, {products}}) : products(b);
}

void callAttentionBackward(Builder &b) {
  const bool isMasked = b.operands() == 7;
  const size_t others = isMasked ? 4 : 3;
  auto inputs = [isMasked](Builder &b) { return inputsOf(b, 0, isMasked, KeyScope::All); };
  auto flash = [&](Builder &b) { addFlashBackward(b, inputs(b), others); };
  auto products = [&](Builder &b) { addComposedBackward(b, inputs(b), others, {}); };
  hasFlash(b, inputs(b)) ? choose(b, {{flash}, {products}}) : products(b);
}

void callAttentionBlock(Builder &b) {
  Inputs in = inputsOf(b, 2, b.operands() == 6, KeyScope::OneBlock);
  const AttentionSizes &z = in.z;
  View out = b.result(0), lse = b.result(1);
  b.copy(b.operand(0), out);
  b.copy(b.operand(1), lse);
  const int64_t rows = z.to - z.from;
  if (rows <= 0 || z.seen <= 0 || out.elements() == 0)
    return;
  Composed c = scoresOf(b, in);
  const Shape queries = {z.b, z.g, c.r, rows, 1};
  View here = b.temporary(DType::F32, queries), before = b.temporary(DType::F32, queries),
       all = b.temporary(DType::F32, queries), means = b.temporary(DType::F32, {z.b, z.g, c.r * rows, z.e});
  logSumExp(b, c.scores, 3, reshaped(here, {z.b, z.g, c.r * rows, 1}));
  addProbabilities(b, c, {});
  multiply(b, c.scores, c.value, means);
  b.copy(perQuery(z, lse), before);
  addLogarithms(b, before, here, all);
  for (const View &weight : {before, here}) {
    b.subtract(weight, all, weight);
    b.call(op::Exp, weight, weight);
  }
  View groups = groupsOf(z, out), added = reshaped(means, groups.sizes);
  b.call(op::Mul, groups, broadcast(before, groups.sizes, {0, 1, 2, 3, 4}), groups);
  b.call(op::Mul, added, broadcast(here, groups.sizes, {0, 1, 2, 3, 4}), added);
  b.add(groups, added, groups);
  b.copy(all, perQuery(z, lse));
}

void callAttentionBlockBackward(Builder &b) {
  bool isMasked = b.operands() == 8;
  Inputs in = inputsOf(b, 1, isMasked, KeyScope::OneBlock);
  addComposedBackward(b, in, isMasked ? 5 : 4, b.operand(0));
}

} // namespace kerf::runtime::ascend
