// SPDX-License-Identifier: Apache-2.0
// Compares kernels that move elements with index arithmetic on random shapes, for every element width.
#include "KernelTestSupport.h"

#include <algorithm>

namespace kerf::runtime::test {
namespace {
const DType kWidths[] = {DType::F64, DType::F32, DType::BF16, DType::I8, DType::Bool};
constexpr int kRuns = 60;

HostTensor anyTensor(Random &random, DType dtype, Shape shape) {
  return random.integers(dtype, std::move(shape), 0, dtype == DType::Bool ? 1 : 100);
}

void expectTransposed(const HostTensor &x, const std::vector<int64_t> &permutation) {
  Shape to;
  for (int64_t d : permutation)
    to.push_back(x.shape[d]);
  std::vector<double> expected;
  forEachIndex(to, [&](const std::vector<int64_t> &index) {
    std::vector<int64_t> from(permutation.size());
    for (size_t d = 0; d < permutation.size(); ++d)
      from[permutation[d]] = index[d];
    expected.push_back(x.values[flatIndex(x.shape, from)]);
  });
  EXPECT_EQ(runKernel("transpose", {{"permutation", permutation}}, {x}, {{x.dtype, to}})[0].values, expected);
}

TEST(Shape, TransposeOfRandomShapes) {
  for (int seed = 0; seed < kRuns; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    size_t rank = random.integer(0, 5);
    HostTensor x = anyTensor(random, kWidths[seed % 5], random.shape(rank, rank < 3 ? 70 : 7));
    std::vector<int64_t> permutation = random.permutation(rank);
    expectTransposed(x, permutation);
  }
}

TEST(Shape, TransposeOfFewRows) {
  for (int64_t rows = 2; rows <= 5; ++rows)
    for (DType type : kWidths) {
      Random random{uint64_t(rows)};
      expectTransposed(anyTensor(random, type, {2, rows, 48}), {0, 2, 1});
      expectTransposed(anyTensor(random, type, {rows, 16, 5}), {2, 1, 0}); // rows that are not neighbours
      expectTransposed(anyTensor(random, type, {rows, 4, 16}), {1, 2, 0});
      expectTransposed(anyTensor(random, type, {rows, 51}), {1, 0});
    }
}

TEST(Shape, BroadcastOfRandomShapes) {
  for (int seed = 0; seed < kRuns; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    size_t rank = random.integer(0, 5);
    Shape to = random.shape(rank, 9), from;
    std::vector<int64_t> map;
    for (size_t d = 0; d < rank; ++d)
      if (random.integer(0, 1)) {
        map.push_back(d);
        from.push_back(random.integer(0, 2) ? to[d] : 1);
      }
    HostTensor x = anyTensor(random, kWidths[seed % 5], from);
    std::vector<double> expected;
    forEachIndex(to, [&](const std::vector<int64_t> &index) {
      std::vector<int64_t> at;
      for (size_t d = 0; d < map.size(); ++d)
        at.push_back(from[d] == 1 ? 0 : index[map[d]]);
      expected.push_back(x.values[flatIndex(from, at)]);
    });
    EXPECT_EQ(runKernel("broadcast_in_dim", {{"broadcast_dimensions", map}}, {x}, {{x.dtype, to}})[0].values, expected);
  }
}

TEST(Shape, SliceAndPadOfRandomShapes) {
  for (int seed = 0; seed < kRuns; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    size_t rank = random.integer(0, 4);
    HostTensor x = anyTensor(random, kWidths[seed % 5], random.shape(rank, 9));
    std::vector<int64_t> start, limit, strides, low, high, interior;
    Shape sliced, padded;
    for (size_t d = 0; d < rank; ++d) {
      start.push_back(random.integer(0, x.shape[d]));
      limit.push_back(random.integer(start[d], x.shape[d]));
      strides.push_back(random.integer(1, 3));
      sliced.push_back((limit[d] - start[d] + strides[d] - 1) / strides[d]);
      low.push_back(random.integer(0, 2));
      high.push_back(random.integer(0, 2));
      interior.push_back(random.integer(0, 2));
      padded.push_back(low[d] + high[d] + x.shape[d] + (x.shape[d] - 1) * interior[d]);
    }
    std::vector<double> expected;
    forEachIndex(sliced, [&](std::vector<int64_t> index) {
      for (size_t d = 0; d < rank; ++d)
        index[d] = start[d] + index[d] * strides[d];
      expected.push_back(x.values[flatIndex(x.shape, index)]);
    });
    EXPECT_EQ(
        runKernel("slice", {{"start", start}, {"limit", limit}, {"strides", strides}}, {x}, {{x.dtype, sliced}})[0]
            .values,
        expected);

    std::vector<double> border(elementsOf(padded), 1);
    forEachIndex(x.shape, [&](const std::vector<int64_t> &index) {
      std::vector<int64_t> at(rank);
      for (size_t d = 0; d < rank; ++d)
        at[d] = low[d] + index[d] * (interior[d] + 1);
      border[flatIndex(padded, at)] = x.values[flatIndex(x.shape, index)];
    });
    HostTensor y = runKernel("pad", {{"low", low}, {"high", high}, {"interior", interior}}, {x, scalar(x.dtype, 1)},
                             {{x.dtype, padded}})[0];
    EXPECT_EQ(y.values, border);
  }
}

TEST(Shape, ConcatenateOfRandomShapes) {
  for (int seed = 0; seed < kRuns; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    size_t rank = random.integer(1, 4), dimension = random.integer(0, rank - 1);
    Shape shape = random.shape(rank, 6);
    std::vector<HostTensor> pieces;
    std::vector<std::pair<size_t, int64_t>> origins; // of each index of the dimension: piece, index there
    int64_t count = random.integer(1, 4);
    for (int64_t p = 0; p < count; ++p) {
      Shape piece = shape;
      piece[dimension] = random.integer(0, 5);
      for (int64_t i = 0; i < piece[dimension]; ++i)
        origins.push_back({size_t(p), i});
      pieces.push_back(anyTensor(random, kWidths[seed % 5], piece));
    }
    shape[dimension] = origins.size();
    std::vector<double> expected;
    forEachIndex(shape, [&](std::vector<int64_t> index) {
      auto [piece, at] = origins[index[dimension]];
      index[dimension] = at;
      expected.push_back(pieces[piece].values[flatIndex(pieces[piece].shape, index)]);
    });
    EXPECT_EQ(runKernel("concatenate", {{"dimension", dimension}}, pieces, {{pieces[0].dtype, shape}})[0].values,
              expected);
  }
}

TEST(Shape, ConstantAndIota) {
  EXPECT_EQ(runKernel("constant", {{"value", {2.5}}}, {}, {{DType::F32, {2, 3}}})[0].values,
            std::vector<double>(6, 2.5));
  EXPECT_EQ(runKernel("constant", {{"value", {1, -2, 3}}}, {}, {{DType::I64, {3}}})[0].values,
            (std::vector<double>{1, -2, 3}));
  EXPECT_EQ(runKernel("constant", {{"value", {true, false}}}, {}, {{DType::Bool, {2}}})[0].values,
            (std::vector<double>{1, 0}));
  HostTensor special = runKernel("constant", {{"value", {"inf", "-inf", "nan"}}}, {}, {{DType::BF16, {3}}})[0];
  expectNear(special, {INFINITY, -INFINITY, NAN}, 0);
  EXPECT_EQ(runKernel("iota", {{"dimension", 1}}, {}, {{DType::I32, {2, 3}}})[0].values,
            (std::vector<double>{0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(runKernel("iota", {{"dimension", 0}}, {scalar(DType::I64, 5)}, {{DType::I64, {2, 2}}})[0].values,
            (std::vector<double>{5, 5, 6, 6}));
}

TEST(Shape, LocalSlicesTileTheTensorAndEndInZeros) {
  // <"a"=2, "b"=3>, cut by b then a into 6 pieces of 2 of a dimension of 9: position = b * 2 + a, rank = a * 3 + b.
  Mesh mesh{{{"a", 2}, {"b", 3}}};
  HostTensor x{DType::F32, {9, 2}, {}};
  for (int i = 0; i < 18; ++i)
    x.values.push_back(i + 1);
  Json attrs = {{"dim", 0}, {"axes", {1, 1, 3, 0, 1, 2}}};
  for (int64_t a = 0; a < 2; ++a)
    for (int64_t b = 0; b < 3; ++b) {
      int64_t begin = (b * 2 + a) * 2;
      std::vector<double> expected;
      for (int64_t i = begin * 2; i < begin * 2 + 4; ++i)
        expected.push_back(i < 18 ? i + 1 : 0);
      EXPECT_EQ(runKernel("local_slice", attrs, {x}, {{DType::F32, {2, 2}}}, {mesh, a * 3 + b})[0].values, expected);
      Json offset = {{"axes", {1, 1, 3, 0, 1, 2}}, {"chunk", 2}};
      EXPECT_EQ(runKernel("shard_offset", offset, {}, {{DType::I64, {}}}, {mesh, a * 3 + b})[0].values[0], begin);
    }
}

TEST(Shape, MaskPaddingReplacesWhatIsPastTheEnd) {
  Mesh mesh{{{"a", 3}}};
  struct Case {
    DType dtype;
    const char *fill;
    double value;
  };
  const Case cases[] = {{DType::F32, "sum", 0},       {DType::F64, "max", -kInf}, {DType::BF16, "min", kInf},
                        {DType::I32, "max", -0x1p31}, {DType::I8, "min", 127},    {DType::Bool, "max", 0},
                        {DType::Bool, "min", 1},      {DType::I64, "sum", 0}};
  for (const Case &c : cases)
    for (int64_t rank = 0; rank < 3; ++rank) { // 4 of 12 places each, 5 elements: 4, 1 and 0 of them
      HostTensor x{c.dtype, {2, 4}, std::vector<double>(8, 1)};
      if (c.dtype == DType::F32)
        x.values[7] = rank == 0 ? 1 : std::numeric_limits<double>::quiet_NaN();
      std::vector<double> expected;
      for (int64_t i = 0; i < 8; ++i)
        expected.push_back(rank * 4 + i % 4 < 5 ? 1 : c.value);
      Json attrs = {{"dim", 1}, {"axes", {0, 1, 3}}, {"size", 5}, {"fill", c.fill}};
      EXPECT_EQ(runKernel("mask_padding", attrs, {x}, {{c.dtype, {2, 4}}}, {mesh, rank})[0].values, expected);
    }
}

TEST(Shape, FaultsAreMessages) {
  HostTensor x{DType::F32, {2, 3}, std::vector<double>(6)};
  auto error = [&](const char *op, const Json &attrs, const Shape &to, const std::vector<HostTensor> &in) {
    return errorOf(op, attrs, in, {{DType::F32, to}});
  };
  EXPECT_EQ(error("transpose", {{"permutation", {0, 2}}}, {2, 3}, {x}),
            "transpose: attribute 'permutation' names dimension 2, but the tensor has 2; compile the package again");
  EXPECT_EQ(error("transpose", {{"permutation", {0, 0}}}, {2, 2}, {x}),
            "transpose: attribute 'permutation' names dimension 0 twice; compile the package again");
  EXPECT_EQ(error("transpose", {{"permutation", {1, 0}}}, {3, 3}, {x}),
            "transpose: dimension 1 of the result has size 3, not 2; compile the package again");
  EXPECT_EQ(error("transpose", Json::object(), {3, 2}, {x}),
            "transpose: attribute 'permutation' is missing; compile the package again");
  EXPECT_EQ(error("slice", {{"start", {0, 1}}, {"limit", {2, 4}}, {"strides", {1, 1}}}, {2, 3}, {x}),
            "slice: slice 1:4:1 of dimension 1 of size 3; compile the package again");
  EXPECT_EQ(error("concatenate", {{"dimension", 0}}, {5, 3}, {x, x}),
            "concatenate: the operands have 4 along dimension 0, the result 5; compile the package again");
  EXPECT_EQ(error("broadcast_in_dim", {{"broadcast_dimensions", {0, 1}}}, {4, 3}, {x}),
            "broadcast_in_dim: dimension 0 of size 2 cannot become dimension 0 of size 4; compile the package again");
  EXPECT_EQ(error("constant", {{"value", {1, 2}}}, {3}, {}),
            "constant: attribute 'value' has 2 elements, the result 3; compile the package again");
  EXPECT_EQ(error("local_slice", {{"dim", 0}, {"axes", {2, 1, 2}}}, {1, 3}, {x}),
            "local_slice: attribute 'axes' names axis 2 of a mesh of 0 axes; compile the package again");
  EXPECT_EQ(error("exponential", Json::object(), {2, 3}, {x, x}),
            "exponential: takes 1 operands, but has 2; compile the package again");
  EXPECT_EQ(errorOf("exponential", Json::object(), {scalar(DType::I32, 1)}, {{DType::I32, {}}}),
            "exponential: takes floating types, but was given i32; compile the package again");
  EXPECT_NE(error("frobnicate", Json::object(), {}, {}).find("no kernel for the op 'frobnicate'"), std::string::npos);
}

} // namespace
} // namespace kerf::runtime::test
