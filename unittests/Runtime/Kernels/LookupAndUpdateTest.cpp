// SPDX-License-Identifier: Apache-2.0
// Compares gather, embedding, their gradients and the kernels of optimizer updates with loops in double.
#include "KernelTestSupport.h"

#include <cmath>

namespace kerf::runtime::test {
namespace {

TEST(Gather, MatchesIndexArithmeticAndItsTranspose) {
  for (int seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    size_t rank = random.integer(1, 3), axis = random.integer(0, rank - 1);
    DType dtype = seed % 3 == 0 ? DType::BF16 : seed % 3 == 1 ? F32 : F64;
    HostTensor x = random.normals(dtype, random.shape(rank, 6));
    int64_t size = x.shape[axis];
    HostTensor indices =
        random.integers(seed % 2 ? DType::I64 : DType::I32, random.shape(random.integer(0, 2), 5), -size, size - 1);
    Shape to(x.shape.begin(), x.shape.begin() + axis);
    to.insert(to.end(), indices.shape.begin(), indices.shape.end());
    to.insert(to.end(), x.shape.begin() + axis + 1, x.shape.end());
    HostTensor updates = random.normals(dtype, to);
    std::vector<double> expected, sums(x.elements());
    forEachIndex(to, [&](const std::vector<int64_t> &index) {
      std::vector<int64_t> at(index.begin(), index.begin() + axis),
          lookup(index.begin() + axis, index.begin() + axis + indices.shape.size());
      int64_t row = int64_t(indices.values[flatIndex(indices.shape, lookup)]);
      at.push_back(row < 0 ? row + size : row);
      at.insert(at.end(), index.begin() + axis + indices.shape.size(), index.end());
      expected.push_back(x.values[flatIndex(x.shape, at)]);
      sums[flatIndex(x.shape, at)] += updates.values[flatIndex(to, index)];
    });
    Json attrs = {{"axis", axis}};
    EXPECT_EQ(runKernel("gather", attrs, {x, indices}, {{dtype, to}})[0].values, expected);
    attrs["size"] = size;
    expectNear(runKernel("scatter_add", attrs, {indices, updates}, {{dtype, x.shape}})[0], sums, toleranceOf(dtype));
  }
}

TEST(Gather, IndicesOutOfRangeAreMessages) {
  HostTensor x{F32, {3, 1}, {1, 2, 3}}, indices{DType::I64, {2, 2}, {0, 2, -3, 3}};
  EXPECT_EQ(errorOf("gather", {{"axis", 0}}, {x, indices}, {{F32, {2, 2, 1}}}),
            "index 3 at [1, 1] is outside of [-3, 3); check the input data");
}

TEST(TakeAlong, PiecesAddUpToTheWhole) {
  constexpr int64_t kBatch = 3, kSize = 10, kCount = 4, kInner = 2, kPieces = 3, kChunk = 4;
  const Shape table{kBatch, kSize, kInner}, piece{kBatch, kChunk, kInner}, slices{kBatch, kCount, kInner};
  for (DType dtype : {DType::BF16, F32, F64}) {
    Random random(11);
    HostTensor x = random.normals(dtype, table), dy = random.normals(dtype, slices);
    HostTensor indices = random.integers(DType::I32, {kBatch, kCount}, -kSize, kSize - 1);
    std::vector<double> expected, gradient(x.elements());
    forEachIndex(slices, [&](const std::vector<int64_t> &at) {
      int64_t row = int64_t(indices.values[at[0] * kCount + at[1]]);
      int64_t from = flatIndex(table, {at[0], row < 0 ? row + kSize : row, at[2]});
      expected.push_back(x.values[from]);
      gradient[from] += dy.values[flatIndex(slices, at)];
    });
    Json attrs = {{"batch_dims", 1}, {"size", kSize}};
    EXPECT_EQ(runKernel("take_along", attrs, {x, indices}, {{dtype, slices}})[0].values, expected);
    expectNear(runKernel("take_along_backward", attrs, {indices, dy}, {{dtype, table}})[0], gradient,
               toleranceOf(dtype));
    std::vector<double> sum(expected.size());
    for (int64_t p = 0; p < kPieces; ++p) {
      HostTensor part{dtype, piece, std::vector<double>(elementsOf(piece))}, offset = scalar(DType::I64, p * kChunk);
      forEachIndex(piece, [&](const std::vector<int64_t> &at) {
        int64_t row = p * kChunk + at[1];
        part.values[flatIndex(piece, at)] = row < kSize ? x.values[flatIndex(table, {at[0], row, at[2]})] : 0;
      });
      HostTensor y = runKernel("take_along", attrs, {part, indices, offset}, {{dtype, slices}})[0];
      HostTensor dx = runKernel("take_along_backward", attrs, {indices, dy, offset}, {{dtype, piece}})[0];
      for (size_t i = 0; i < sum.size(); ++i)
        sum[i] += y.values[i];
      forEachIndex(piece, [&](const std::vector<int64_t> &at) {
        int64_t row = p * kChunk + at[1];
        double wanted = row < kSize ? gradient[flatIndex(table, {at[0], row, at[2]})] : 0;
        EXPECT_NEAR(dx.values[flatIndex(piece, at)], wanted, toleranceOf(dtype) * (1 + std::fabs(wanted)));
      });
    }
    EXPECT_EQ(sum, expected);
  }
}

TEST(TakeAlong, FaultsAreMessages) {
  HostTensor x{F32, {2, 3}, {1, 2, 3, 4, 5, 6}}, indices{DType::I64, {2, 2}, {0, 2, -3, 3}};
  EXPECT_EQ(errorOf("take_along", {{"batch_dims", 1}, {"size", 3}}, {x, indices}, {{F32, {2, 2}}}),
            "index 3 at [1, 1] is outside of [-3, 3); check the input data");
  EXPECT_EQ(errorOf("take_along", {{"batch_dims", 2}, {"size", 3}}, {x, indices}, {{F32, {2, 2}}}),
            "take_along: attribute 'batch_dims' is 2, but the tensor has 2 dimensions and the indices 2; compile the "
            "package again");
  EXPECT_EQ(errorOf("take_along", {{"batch_dims", 1}, {"size", 4}}, {x, indices}, {{F32, {2, 2}}}),
            "take_along: attribute 'size' is 4, but dimension 1 has 3; compile the package again");
  HostTensor other{DType::I64, {3, 2}, {0, 0, 0, 0, 0, 0}};
  EXPECT_EQ(errorOf("take_along", {{"batch_dims", 1}, {"size", 3}}, {x, other}, {{F32, {3, 2}}}),
            "take_along: batch dimension 0 has 2 entries, but 3 of indices; compile the package again");
}

TEST(Embedding, PiecesOfTheTableAddUpToTheWhole) {
  Random random(7);
  constexpr int64_t kRows = 11, kWidth = 3, kPieces = 3, kChunk = 4; // the last piece has one row of padding
  HostTensor table = random.normals(F64, {kRows, kWidth}), ids = random.integers(DType::I64, {4, 5}, 0, kRows - 1);
  HostTensor dy = random.normals(F64, {4, 5, kWidth});
  Json attrs = {{"rows", kRows}};
  HostTensor whole = runKernel("embedding", attrs, {table, ids}, {{F64, {4, 5, kWidth}}})[0];
  HostTensor gradient = runKernel("embedding_backward", attrs, {ids, dy}, {{F64, {kRows, kWidth}}})[0];
  std::vector<double> sum(whole.values.size()), rows(kRows * kWidth), expected;
  for (int64_t i = 0; i < 20; ++i)
    for (int64_t d = 0; d < kWidth; ++d) {
      int64_t row = int64_t(ids.values[i]);
      expected.push_back(table.values[row * kWidth + d]);
      rows[row * kWidth + d] += dy.values[i * kWidth + d];
    }
  EXPECT_EQ(whole.values, expected);
  expectNear(gradient, rows, 1e-14);
  for (int64_t p = 0; p < kPieces; ++p) {
    HostTensor piece{F64, {kChunk, kWidth}, std::vector<double>(kChunk * kWidth, NAN)},
        offset = scalar(DType::I64, p * kChunk);
    for (int64_t i = 0; i < kChunk * kWidth && p * kChunk * kWidth + i < kRows * kWidth; ++i)
      piece.values[i] = table.values[p * kChunk * kWidth + i];
    HostTensor y = runKernel("embedding", attrs, {piece, ids, offset}, {{F64, {4, 5, kWidth}}})[0];
    for (size_t i = 0; i < sum.size(); ++i)
      sum[i] += y.values[i];
    HostTensor dTable = runKernel("embedding_backward", attrs, {ids, dy, offset}, {{F64, {kChunk, kWidth}}})[0];
    for (int64_t i = 0; i < kChunk * kWidth; ++i) {
      int64_t at = p * kChunk * kWidth + i;
      EXPECT_NEAR(dTable.values[i], at < kRows * kWidth ? rows[at] : 0, 1e-14);
    }
  }
  EXPECT_EQ(sum, expected);
}

/// Most of the indices are those of two rows, as common words and padding are in texts.
TEST(Embedding, RowsOfManySlicesGetAllOfThem) {
  constexpr int64_t kRows = 70, kCount = 2600;
  for (DType type : {F64, F32, DType::BF16})
    for (int64_t width : {1, 24, 144}) {
      SCOPED_TRACE(testing::Message() << toString(type) << ", width " << width);
      Random random{uint64_t(width)};
      HostTensor ids = random.integers(DType::I64, {kCount}, 0, kRows - 1);
      HostTensor dy = random.integers(type, {kCount, width}, -1, 1); // whose sums are exact in each order
      std::vector<double> expected(kRows * width);
      for (int64_t i = 0; i < kCount; ++i) {
        if (i % 2 == 0 || i % 5 == 1)
          ids.values[i] = i % 2 == 0 ? 33 : kRows - 1;
        for (int64_t k = 0; k < width; ++k)
          expected[int64_t(ids.values[i]) * width + k] += dy.values[i * width + k];
      }
      HostTensor gradient = runKernel("embedding_backward", {{"rows", kRows}}, {ids, dy}, {{type, {kRows, width}}})[0];
      EXPECT_EQ(gradient.values, expected);
    }
}

TEST(Embedding, IndicesOutOfRangeAreMessages) {
  HostTensor table{F32, {5, 1}, std::vector<double>(5)}, ids{DType::I32, {3}, {0, 4, 5}};
  EXPECT_EQ(errorOf("embedding", {{"rows", 5}}, {table, ids}, {{F32, {3, 1}}}),
            "index 5 at [2] is outside of [0, 5); check the input data");
  EXPECT_EQ(errorOf("embedding", {{"rows", 9}}, {table, ids}, {{F32, {3, 1}}}),
            "embedding: attribute 'rows' is 9, but the table has 5 rows; compile the package again");
  ids.values[2] = 8; // in another rank's piece
  EXPECT_EQ(runKernel("embedding", {{"rows", 9}}, {table, ids, scalar(DType::I64, 0)}, {{F32, {3, 1}}})[0].values[2],
            0);
}

TEST(Optimizer, TheWholeGradientIsTheGradient) {
  for (DType dtype : {F64, F32, DType::BF16}) {
    HostTensor g = Random(3).normals(dtype, {37});
    EXPECT_EQ(runKernel("sync_gradient", {{"parameter", "w"}}, {g}, {{dtype, {37}}})[0].values, g.values);
  }
}

TEST(Optimizer, WhatIsNotFiniteIsCounted) {
  for (DType dtype : {F64, F32, DType::BF16, DType::F16}) {
    Random random(11);
    HostTensor g = random.normals(dtype, {3, 41}, 1e4);
    g.values[7] = dtype == F64 ? 1e308 : dtype == DType::F16 ? -65504 : -3e38; // large, and finite
    std::vector<ResultType> count = {{DType::I64, {}}};
    EXPECT_EQ(runKernel("count_nonfinite", {}, {g}, count)[0].values, std::vector<double>{0});
    g.values[0] = INFINITY, g.values[64] = -INFINITY, g.values[122] = NAN;
    EXPECT_EQ(runKernel("count_nonfinite", {}, {g}, count)[0].values, std::vector<double>{3});
    g.shape = {0}, g.values.clear();
    EXPECT_EQ(runKernel("count_nonfinite", {}, {g}, count)[0].values, std::vector<double>{0});
  }
  EXPECT_EQ(errorOf("count_nonfinite", {}, {scalar(F32, 1)}, {{F32, {}}}),
            "count_nonfinite: the result is f32, not i64; compile the package again");
}

TEST(Kernels, MayWriteOverWhatTheyReadElementByElement) {
  package::Instruction matmul{"dot_general", {}, {}, {}, ""}, add{"add", {}, {}, {}, ""};
  EXPECT_TRUE(mayOverwrite(add, 1, 0));
  EXPECT_FALSE(mayOverwrite(matmul, 0, 0));
  EXPECT_FALSE(mayOverwrite({"all_reduce", {}, {}, {}, ""}, 0, 0));
}

} // namespace
} // namespace kerf::runtime::test
