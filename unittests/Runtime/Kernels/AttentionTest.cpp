// SPDX-License-Identifier: Apache-2.0
// Compares attention with grouped queries, masks and causality with its definition in double, and its gradient
// with finite differences.
#include "KernelTestSupport.h"

#include <array>
#include <cmath>
#include <tuple>

namespace kerf::runtime::test {
namespace {

struct AttentionCase {
  int64_t b, s, t, h, g, d, e;
  double scale = 0.3;
  bool causal = false;
  std::vector<HostTensor> in; // query, key, value, and a mask or none

  Json attrs() const {
    Json json = {{"scale", scale}};
    if (causal)
      json["causal"] = true;
    return json;
  }
  std::vector<ResultType> types() const { return {{in[0].dtype, {b, s, h, e}}, {in[0].dtype, {b, h, s}}}; }
};

struct Oracle {
  std::vector<double> out, lse;
};

Oracle oracleAttention(const AttentionCase &c) {
  auto at = [](const HostTensor &x, int64_t i, int64_t j, int64_t k, int64_t l) {
    return x.values[flatIndex(x.shape, {i, j, k, l})];
  };
  Oracle o{std::vector<double>(c.b * c.s * c.h * c.e), std::vector<double>(c.b * c.h * c.s)};
  for (int64_t b = 0; b < c.b; ++b)
    for (int64_t h = 0; h < c.h; ++h)
      for (int64_t i = 0; i < c.s; ++i) {
        std::vector<double> weights(c.t);
        double sum = 0;
        for (int64_t j = 0; j < c.t; ++j) {
          double score = 0;
          for (int64_t d = 0; d < c.d; ++d)
            score += c.scale * at(c.in[0], b, i, h, d) * at(c.in[1], b, j, h / (c.h / c.g), d);
          if (c.in.size() == 4) {
            const HostTensor &m = c.in[3];
            double mask = at(m, m.shape[0] == 1 ? 0 : b, m.shape[1] == 1 ? 0 : h, i, j);
            score = m.dtype == DType::Bool ? (mask ? score : -kInf) : score + mask;
          }
          weights[j] = c.causal && j > i ? 0 : std::exp(score);
          sum += weights[j];
        }
        o.lse[(b * c.h + h) * c.s + i] = std::log(sum);
        for (int64_t j = 0; j < c.t && sum > 0; ++j)
          for (int64_t e = 0; e < c.e; ++e)
            o.out[((b * c.s + i) * c.h + h) * c.e + e] += weights[j] / sum * at(c.in[2], b, j, h / (c.h / c.g), e);
      }
  return o;
}

enum class MaskKind { None, Float, Bool };

AttentionCase randomCase(Random &random, DType dtype, MaskKind mask, bool causal, int64_t longest) {
  AttentionCase c;
  c.b = random.integer(1, 2);
  c.g = random.integer(1, 2);
  c.h = c.g * random.integer(1, 3);
  c.t = random.integer(1, longest);
  c.s = causal ? c.t : random.integer(1, longest);
  c.d = random.integer(1, 9);
  c.e = random.integer(1, 9);
  c.causal = causal;
  c.in = {random.normals(dtype, {c.b, c.s, c.h, c.d}), random.normals(dtype, {c.b, c.t, c.g, c.d}),
          random.normals(dtype, {c.b, c.t, c.g, c.e})};
  Shape maskShape = {random.integer(0, 1) ? 1 : c.b, random.integer(0, 1) ? 1 : c.h, c.s, c.t};
  if (mask == MaskKind::Float)
    c.in.push_back(random.normals(dtype, maskShape));
  if (mask == MaskKind::Bool)
    c.in.push_back(random.integers(DType::Bool, maskShape, 0, 1));
  if (mask != MaskKind::None)
    for (int64_t j = 0; j < c.t; ++j) // query 0 sees nothing
      c.in[3].values[j] = mask == MaskKind::Bool ? 0 : -kInf;
  return c;
}

TEST(Attention, MatchesTheDefinition) {
  for (int seed = 0; seed < 36; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    DType dtype = seed % 5 == 0 ? DType::BF16 : seed % 2 ? F32 : F64;
    // 150 queries are three blocks of rows.
    AttentionCase c = randomCase(random, dtype, MaskKind(seed % 3), seed / 3 % 2, seed % 4 == 0 ? 150 : 12);
    Oracle oracle = oracleAttention(c);
    std::vector<HostTensor> out = runKernel("attention", c.attrs(), c.in, c.types());
    expectNear(out[0], oracle.out, toleranceOf(dtype), "out");
    expectNear(out[1], oracle.lse, toleranceOf(dtype), "lse");
  }
}

TEST(Attention, GradientsMatchFiniteDifferences) {
  for (int seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    AttentionCase c = randomCase(random, F64, MaskKind(seed % 3), seed / 3 % 2, 7);
    std::vector<HostTensor> out = runKernel("attention", c.attrs(), c.in, c.types());
    HostTensor dOut = random.normals(F64, out[0].shape);
    std::vector<HostTensor> backward = c.in;
    backward.insert(backward.end(), {out[0], out[1], dOut});
    std::vector<HostTensor> gradients = runKernel("attention_backward", c.attrs(), backward,
                                                  {{F64, c.in[0].shape}, {F64, c.in[1].shape}, {F64, c.in[2].shape}});
    for (size_t i = 0; i < 3; ++i)
      expectGradient([&](const auto &in) { return runKernel("attention", c.attrs(), in, c.types())[0].values; }, c.in,
                     i, dOut.values, gradients[i]);
  }
}

TEST(Attention, BackwardOverSeveralBlocksAgreesWithFloat64) {
  // The same numbers are used in float32, over three blocks of rows, and in float64.
  Random random(5);
  AttentionCase wide = randomCase(random, F32, MaskKind::None, true, 12);
  wide = {2, 150, 150, 4, 2, 8, 6, 0.35, true, {}};
  wide.in = {random.normals(F32, {2, 150, 4, 8}), random.normals(F32, {2, 150, 2, 8}),
             random.normals(F32, {2, 150, 2, 6})};
  HostTensor dOut = random.normals(F32, {2, 150, 4, 6});
  std::vector<HostTensor> gradients[2];
  for (DType dtype : {F32, F64}) {
    AttentionCase c = wide;
    for (HostTensor &x : c.in)
      x.dtype = dtype;
    dOut.dtype = dtype;
    std::vector<HostTensor> out = runKernel("attention", c.attrs(), c.in, c.types()), backward = c.in;
    backward.insert(backward.end(), {out[0], out[1], dOut});
    gradients[dtype == F64] = runKernel("attention_backward", c.attrs(), backward,
                                        {{dtype, c.in[0].shape}, {dtype, c.in[1].shape}, {dtype, c.in[2].shape}});
  }
  for (size_t i = 0; i < 3; ++i)
    expectNear(gradients[0][i], gradients[1][i].values, 5e-5, "gradient " + std::to_string(i));
}

/// Compares attention of 16-bit tensors with a float32 log-sum-exp, and its gradients, with the same numbers in
/// float64.
void compareWithFloat64(Random &random, AttentionCase c) {
  DType half = c.in[0].dtype;
  for (HostTensor &x : c.in)
    x = rounded(x);
  AttentionCase wide = c;
  for (HostTensor &x : wide.in)
    x.dtype = x.dtype == DType::Bool ? x.dtype : F64;
  std::vector<HostTensor> expected = runKernel("attention", wide.attrs(), wide.in, wide.types());
  std::vector<HostTensor> out =
      runKernel("attention", c.attrs(), c.in, {{half, {c.b, c.s, c.h, c.e}}, {F32, {c.b, c.h, c.s}}});
  double tolerance = half == DType::BF16 ? 0.02 : 0.004;
  expectNear(out[0], expected[0].values, tolerance, "out");
  expectNear(out[1], expected[1].values, 1e-5, "lse");
  HostTensor dOut = rounded(random.normals(half, out[0].shape));
  std::vector<HostTensor> backward = c.in;
  backward.insert(backward.end(), {out[0], out[1], dOut});
  std::vector<ResultType> types;
  for (size_t i = 0; i < 3; ++i)
    types.push_back({half, c.in[i].shape});
  std::vector<HostTensor> gradients = runKernel("attention_backward", c.attrs(), backward, types);
  std::vector<HostTensor> wideBackward = wide.in;
  dOut.dtype = F64;
  wideBackward.insert(wideBackward.end(), {expected[0], expected[1], dOut});
  for (ResultType &type : types)
    type.dtype = F64;
  expected = runKernel("attention_backward", c.attrs(), wideBackward, types);
  // A gradient of a key or a value is a sum over queries and heads, of which each product is rounded.
  for (size_t i = 0; i < 3; ++i)
    expectNear(gradients[i], expected[i].values, 3 * tolerance, "gradient " + std::to_string(i));
}

/// Returns a case of 16-bit tensors that cuDNN computes on NVIDIA GPUs.
AttentionCase halfCase(Random &random, DType half, bool causal, int64_t longest) {
  AttentionCase c = randomCase(random, half, MaskKind::None, causal, longest);
  c.d = 8 * random.integer(1, 3), c.e = 8 * random.integer(1, 3);
  c.in = {random.normals(half, {c.b, c.s, c.h, c.d}, 0.5), random.normals(half, {c.b, c.t, c.g, c.d}, 0.5),
          random.normals(half, {c.b, c.t, c.g, c.e})};
  return c;
}

// The form of mixed precision: 16-bit tensors, and a float32 log-sum-exp. On NVIDIA GPUs, cuDNN computes it.
TEST(Attention, OfSixteenBitsWithFloatStatisticsAgreesWithFloat64) {
  int64_t before = cudnnExecutions(), instructions = 0;
  for (int seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    compareWithFloat64(random, halfCase(random, seed % 2 ? DType::F16 : DType::BF16, seed % 3 > 0, 70));
    instructions += 2;
  }
  if (before >= 0) {
    EXPECT_GE(cudnnExecutions() - before, instructions);
  }
}

TEST(Attention, OfBf16OverSeveralBlocksAgreesWithFloat64) {
  Random random(9);
  // Products over 1,100 keys have two blocks of the depth; the causal case has three blocks of queries.
  for (auto [s, h, g, causal] : {std::tuple{1100, 2, 1, false}, {1100, 1, 1, true}, {150, 4, 2, true}}) {
    SCOPED_TRACE(std::to_string(s) + (causal ? " causal" : ""));
    AttentionCase c{1, s, s, h, g, 8, 16, 0.3, causal, {}};
    c.in = {random.normals(DType::BF16, {1, s, h, 8}, 0.5), random.normals(DType::BF16, {1, s, g, 8}, 0.5),
            random.normals(DType::BF16, {1, s, g, 16})};
    compareWithFloat64(random, c);
  }
}

TEST(Attention, BlocksOfARingOfBf16AgreeWithFloat64) {
  for (int seed = 0; seed < 6; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    AttentionCase c = halfCase(random, DType::BF16, false, 100);
    for (HostTensor &x : c.in)
      x = rounded(x);
    HostTensor dQuery = rounded(random.normals(DType::BF16, c.in[0].shape));
    HostTensor dOut = rounded(random.normals(DType::BF16, {c.b, c.s, c.h, c.e}));
    const RunOptions options{{{{"context", 2}}}, 1}; // the second of two ranks attends to the first one's keys
    const Json attrs = {{"scale", c.scale}, {"axes", {0, 1, 2}}, {"step", 1}};
    AttentionCase wide = c;
    for (HostTensor &x : wide.in)
      x.dtype = F64;
    std::vector<HostTensor> out = runKernel("attention", wide.attrs(), wide.in, wide.types());
    out[0].dtype = DType::BF16;
    out[0] = rounded(out[0]);
    std::vector<std::vector<HostTensor>> gradients;
    for (DType dtype : {DType::BF16, F64}) {
      std::vector<HostTensor> operands = {dQuery, c.in[0], c.in[1], c.in[2], out[0], out[1], dOut};
      for (HostTensor &x : operands)
        x.dtype = dtype;
      operands[5].dtype = dtype == F64 ? F64 : F32;
      gradients.push_back(runKernel("attention_block_backward", attrs, operands,
                                    {{dtype, c.in[0].shape}, {dtype, c.in[1].shape}, {dtype, c.in[2].shape}}, options));
    }
    for (size_t i = 0; i < 3; ++i)
      expectNear(gradients[0][i], gradients[1][i].values, 0.06, "gradient " + std::to_string(i));
  }
}

/// Sets the mask of a row of queries to one of the kinds of rows that programs have.
void setMaskRow(Random &random, HostTensor &mask, int64_t row) {
  bool isBool = mask.dtype == DType::Bool;
  double excluded = isBool ? 0 : -kInf, attended = isBool ? 1 : 0;
  double lowest = mask.dtype == DType::F16 ? -65504 : mask.dtype == F32 ? -0x1.FFFFFEp127 : -0x1.FEp127;
  int64_t keys = mask.shape[3], kind = random.integer(0, isBool ? 2 : 6), padding = random.integer(1, keys);
  for (int64_t j = 0; j < keys; ++j) {
    double &x = mask.values[size_t(row * keys + j)];
    switch (kind) {
    case 0: // no key
      x = excluded;
      break;
    case 1: // keys at the end are padding
      x = j < padding ? attended : excluded;
      break;
    case 2: // any keys
      x = random.integer(0, 1) ? attended : excluded;
      break;
    case 3: // padding by the lowest finite number
      x = j < padding ? 0 : lowest;
      break;
    case 4: // all keys are padding by the lowest finite number
      x = lowest;
      break;
    case 5: // all keys are padding by another large number
      x = -16384;
      break;
    default: // a bias
      x = random.normal();
    }
  }
}

TEST(Attention, MasksOfSixteenBitsAgreeWithFloat64) {
  int64_t before = cudnnExecutions(), instructions = 0;
  for (int seed = 0; seed < 9; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    DType half = seed % 2 ? DType::F16 : DType::BF16;
    AttentionCase c = halfCase(random, half, seed / 4 % 2, 40);
    if (c.s == 1) // whose gradients cuDNN does not compute
      continue;
    Shape shape = {random.integer(0, 1) ? 1 : c.b, random.integer(0, 1) ? 1 : c.h, c.s, c.t};
    DType type = std::array{half, DType::Bool, F32}[size_t(seed % 3)];
    HostTensor mask{type, shape, std::vector<double>(size_t(elementsOf(shape)))};
    for (int64_t row = 0; row < elementsOf(shape) / c.t; ++row)
      setMaskRow(random, mask, row);
    c.in.push_back(mask);
    compareWithFloat64(random, c);
    instructions += 2;
  }
  if (before >= 0) {
    EXPECT_GE(cudnnExecutions() - before, instructions);
  }
}

/// Concatenates the pieces [begin, begin + count) of `x` along dimension `dim`, for each of `begins`.
HostTensor pieces(const HostTensor &x, size_t dim, const std::vector<int64_t> &begins, int64_t count) {
  HostTensor made{x.dtype, x.shape, {}};
  made.shape[dim] = count * int64_t(begins.size());
  forEachIndex(made.shape, [&](std::vector<int64_t> index) {
    index[dim] = begins[size_t(index[dim] / count)] + index[dim] % count;
    made.values.push_back(x.values[flatIndex(x.shape, index)]);
  });
  return made;
}

void addTo(HostTensor &sum, const HostTensor &more) {
  for (size_t i = 0; i < sum.values.size(); ++i)
    sum.values[i] += more.values[i];
}

/// A ring of ranks for ring attention: each rank's part of the sequence, and the attributes of its kernels.
struct RingCase {
  int64_t ranks, length; // positions of a rank
  bool causal, balanced;

  /// Returns where the rank's parts of the sequence begin: two halves if balanced, otherwise one part.
  std::vector<int64_t> begins(int64_t rank) const {
    if (!balanced)
      return {rank * length};
    return {rank * length / 2, (2 * ranks - 1 - rank) * length / 2};
  }
  /// Returns the rank's part of a global tensor along dimension `dim`.
  HostTensor of(const HostTensor &x, size_t dim, int64_t rank) const {
    return pieces(x, dim, begins(rank), balanced ? length / 2 : length);
  }
  Json attrs(double scale, int64_t step) const {
    Json json = {{"scale", scale}, {"axes", {0, 1, ranks}}, {"step", step}};
    for (auto [name, on] : {std::pair("causal", causal), {"balanced", balanced}})
      if (on)
        json[name] = true;
    return json;
  }
};

TEST(Attention, BlocksOfARingAddUpToTheWhole) {
  for (int seed = 0; seed < 24; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    RingCase ring{random.integer(2, 4), 2 * random.integer(1, seed % 6 == 0 ? 40 : 4), seed % 2 == 0, seed % 4 == 0};
    AttentionCase c = randomCase(random, F64, ring.balanced ? MaskKind::None : MaskKind(seed % 3), false, 7);
    c.s = c.t = ring.ranks * ring.length;
    c.causal = ring.causal;
    c.in[0] = random.normals(F64, {c.b, c.s, c.h, c.d});
    c.in[1] = random.normals(F64, {c.b, c.t, c.g, c.d});
    c.in[2] = random.normals(F64, {c.b, c.t, c.g, c.e});
    if (c.in.size() == 4)
      c.in[3] = c.in[3].dtype == DType::Bool ? random.integers(DType::Bool, {c.b, 1, c.s, c.t}, 0, 1)
                                             : random.normals(F64, {1, c.h, c.s, c.t});
    HostTensor dOut = random.normals(F64, {c.b, c.s, c.h, c.e});
    std::vector<HostTensor> whole = runKernel("attention", c.attrs(), c.in, c.types()), backward = c.in;
    backward.insert(backward.end(), {whole[0], whole[1], dOut});
    std::vector<HostTensor> gradients = runKernel("attention_backward", c.attrs(), backward,
                                                  {{F64, c.in[0].shape}, {F64, c.in[1].shape}, {F64, c.in[2].shape}});
    std::vector<HostTensor> keyGradients, valueGradients; // of each rank's block
    for (int64_t rank = 0; rank < ring.ranks; ++rank) {
      keyGradients.push_back(ring.of(gradients[1], 1, rank));
      valueGradients.push_back(ring.of(gradients[2], 1, rank));
    }
    for (int64_t rank = 0; rank < ring.ranks; ++rank) {
      RunOptions options{{{{"context", ring.ranks}}}, rank};
      HostTensor query = ring.of(c.in[0], 1, rank), dHere = ring.of(dOut, 1, rank);
      auto masked = [&](std::vector<HostTensor> operands, bool own) {
        if (c.in.size() == 4) {
          HostTensor rows = ring.of(c.in[3], 2, rank);
          operands.push_back(own ? ring.of(rows, 3, rank) : rows);
        }
        return operands;
      };
      auto with = [](std::vector<HostTensor> operands, const std::vector<HostTensor> &more) {
        operands.insert(operands.end(), more.begin(), more.end());
        return operands;
      };
      HostTensor expected = ring.of(whole[0], 1, rank), expectedLse = ring.of(whole[1], 2, rank);
      std::vector<ResultType> types = {{F64, expected.shape}, {F64, expectedLse.shape}};
      HostTensor dQuery{F64, query.shape, {}};
      std::vector<HostTensor> out;
      for (int64_t step = 0; step < ring.ranks; ++step) {
        int64_t from = (rank - step + ring.ranks) % ring.ranks;
        HostTensor key = ring.of(c.in[1], 1, from), value = ring.of(c.in[2], 1, from);
        std::vector<ResultType> gradientTypes = {{F64, query.shape}, {F64, key.shape}, {F64, value.shape}};
        std::vector<HostTensor> operands = masked({query, key, value}, step == 0), parts;
        if (step == 0) {
          out = runKernel("attention", c.attrs(), operands, types);
          parts =
              runKernel("attention_backward", c.attrs(), with(operands, {expected, expectedLse, dHere}), gradientTypes);
        } else {
          out = runKernel("attention_block", ring.attrs(c.scale, step), with(out, operands), types, options);
          parts = runKernel("attention_block_backward", ring.attrs(c.scale, step),
                            with({dQuery}, with(operands, {expected, expectedLse, dHere})), gradientTypes, options);
        }
        dQuery = parts[0];
        for (HostTensor *part : {&parts[1], &parts[2]})
          for (double &x : part->values)
            x = -x;
        addTo(keyGradients[size_t(from)], parts[1]);
        addTo(valueGradients[size_t(from)], parts[2]);
      }
      expectNear(out[0], expected.values, 1e-12, "out");
      expectNear(out[1], expectedLse.values, 1e-12, "lse");
      expectNear(dQuery, ring.of(gradients[0], 1, rank).values, 1e-12, "dq");
    }
    for (int64_t rank = 0; rank < ring.ranks; ++rank)
      for (const HostTensor &left : {keyGradients[size_t(rank)], valueGradients[size_t(rank)]})
        expectNear(left, std::vector<double>(left.values.size(), 0), 1e-12,
                   "what all ranks leave of a block's gradient");
  }
}

TEST(Attention, LargestNegativeMasksAreNotExclusion) {
  // Exported masks add the lowest finite number. A row in which all keys are masked attends to all of them equally, as
  // in the framework.
  AttentionCase c{1, 1, 2, 1, 1, 1, 1, 1.0, false, {}};
  double lowest = std::numeric_limits<float>::lowest();
  c.in = {{F32, {1, 1, 1, 1}, {1}},
          {F32, {1, 2, 1, 1}, {1, 2}},
          {F32, {1, 2, 1, 1}, {4, 8}},
          {F32, {1, 1, 1, 2}, {lowest, lowest}}};
  std::vector<HostTensor> out = runKernel("attention", c.attrs(), c.in, c.types());
  EXPECT_EQ(out[0].values, std::vector<double>{6});
  // Each probability is 1/2, although the log-sum-exp is the mask itself: d score = 1/2 (value - 6).
  std::vector<HostTensor> backward = c.in;
  backward.insert(backward.end(), {out[0], out[1], HostTensor{F32, {1, 1, 1, 1}, {1}}});
  std::vector<HostTensor> gradients = runKernel("attention_backward", c.attrs(), backward,
                                                {{F32, c.in[0].shape}, {F32, c.in[1].shape}, {F32, c.in[2].shape}});
  EXPECT_EQ(gradients[0].values, std::vector<double>{-1 * 1 + 1 * 2});
  EXPECT_EQ(gradients[1].values, (std::vector<double>{-1, 1}));
  EXPECT_EQ(gradients[2].values, (std::vector<double>{0.5, 0.5}));
}

TEST(Attention, FaultsAreMessages) {
  AttentionCase c{1, 2, 3, 3, 2, 1, 1, 1.0, false, {}};
  auto zeros = [](Shape shape) { return HostTensor{F32, shape, std::vector<double>(elementsOf(shape))}; };
  c.in = {zeros({1, 2, 3, 1}), zeros({1, 3, 2, 1}), zeros({1, 3, 2, 1})};
  EXPECT_EQ(errorOf("attention", c.attrs(), c.in, c.types()),
            "attention: 3 query heads are no multiple of 2 key/value heads; compile the package again");
  c.in = {zeros({1, 2, 3, 1}), zeros({1, 3, 3, 1}), zeros({1, 3, 3, 1})};
  c.causal = true;
  EXPECT_EQ(errorOf("attention", c.attrs(), c.in, c.types()),
            "attention: causal attention of 2 queries over 3 keys; compile the package again");
  c.causal = false;
  c.in.push_back(zeros({1, 1, 3, 2}));
  EXPECT_EQ(errorOf("attention", c.attrs(), c.in, c.types()),
            "attention: the mask is f32[1, 1, 3, 2], not [1 or 1, 1 or 3, 2, 3]; compile the package again");
  HostTensor q{F32, {1, 3, 1, 1}, {1, 2, 3}}, sums{F32, {1, 1, 3}, {0, 0, 0}};
  RingCase ring{2, 3, true, true};
  EXPECT_EQ(
      errorOf("attention_block", ring.attrs(1, 1), {q, sums, q, q, q}, {{F32, q.shape}, {F32, sums.shape}},
              {{{{"context", 2}}}, 1}),
      "attention_block: balanced asks for causal and an even number of queries, not 3; compile the package again");
  EXPECT_EQ(errorOf("attention_block", ring.attrs(1, 2), {q, sums, q, q, q}, {{F32, q.shape}, {F32, sums.shape}},
                    {{{{"context", 2}}}, 1}),
            "attention_block: step 2 of 2 ranks; compile the package again");
}

} // namespace
} // namespace kerf::runtime::test
