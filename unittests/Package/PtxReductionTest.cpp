// SPDX-License-Identifier: Apache-2.0
// Checks which reductions the entries of PTX compute, and in which form.
#include "kerf/Package/PtxReduction.h"

#include <algorithm>
#include <gtest/gtest.h>

namespace kerf::package {
namespace {

TEST(PtxReduction, HasTheFormAndWidthOfItsShape) {
  struct Case {
    Shape shape;
    std::vector<int64_t> dimensions;
    DType from, to;
    ReduceForm form;
    int64_t width; // 0: the runtime reduces
  };
  using Form = ReduceForm;
  for (const Case &c :
       std::vector<Case>{{{8192, 768}, {0}, DType::F32, DType::F32, Form::Table, 4},
                         {{8192, 768}, {0}, DType::BF16, DType::F32, Form::Table, 8},
                         {{8192, 770}, {0}, DType::BF16, DType::F32, Form::Table, 2},
                         {{8192, 771}, {0}, DType::BF16, DType::BF16, Form::Table, 1},
                         {{40, 768}, {1}, DType::BF16, DType::BF16, Form::Warps, 8},
                         {{40, 768}, {1}, DType::BF16, DType::F32, Form::Warps, 4}, // the order of float32
                         {{40, 770}, {1}, DType::F32, DType::F32, Form::Warps, 0},
                         {{40, 4096}, {1}, DType::F32, DType::F32, Form::Blocks, 4},
                         {{40, 16}, {1}, DType::F32, DType::F32, Form::Threads, 0},
                         {{16, 64, 56, 56}, {0, 2, 3}, DType::F32, DType::F32, Form::Blocks, 4},
                         {{16, 64, 56, 56}, {1}, DType::F32, DType::F32, Form::Table, 0}}) {
    SCOPED_TRACE(c.shape[1]);
    Shape kept;
    for (size_t d = 0; d < c.shape.size(); ++d)
      if (std::find(c.dimensions.begin(), c.dimensions.end(), int64_t(d)) == c.dimensions.end())
        kept.push_back(c.shape[d]);
    Function kernel{"kernel",
                    {{c.from, c.shape}, {c.from, c.shape}, {c.to, kept}},
                    {0},
                    {2},
                    {{"negate", {0}, {1}, nlohmann::ordered_json::object(), ""},
                     {"reduce", {1}, {2}, {{"dimensions", c.dimensions}, {"kind", "sum"}}, ""}},
                    true};
    auto reduction = ptxReduction(kernel);
    ASSERT_EQ(reduction.has_value(), c.width > 0);
    if (!reduction)
      continue;
    EXPECT_EQ(reduction->plan.form, c.form);
    EXPECT_EQ(reduction->width, c.width);
    EXPECT_EQ(reduction->results, std::vector<int>{2});
  }
}

TEST(PtxReduction, WarpsReadSeveralRowsOfFewColumns) {
  struct Case {
    int64_t columns, rowsOfWarp, tiles; // tiles of threads with four columns
  };
  for (const Case &c : {Case{8, 32, 2},
                        {16, 16, 2},
                        {24, 8, 2},
                        {64, 4, 2},
                        {96, 2, 2},
                        {128, 2, 2},
                        {136, 1, 2},
                        {256, 1, 2},
                        {64 + 4, 1, 1},
                        {1, 1, 1}}) {
    SCOPED_TRACE(c.columns);
    auto plan = reducePlan({100000, c.columns, 1}, {0, 2}, 4);
    ASSERT_TRUE(plan);
    if (c.columns == 1) { // all elements are one run
      EXPECT_EQ(plan->form, ReduceForm::Blocks);
      continue;
    }
    EXPECT_EQ(plan->rowsOfWarp, c.rowsOfWarp);
    EXPECT_EQ(plan->tiles(4), c.tiles);
    EXPECT_EQ(plan->rowsOfWarp, reducePlan({100000, c.columns}, {0}, 2)->rowsOfWarp); // of another type
    EXPECT_LE(plan->pieces, 100000 / (64 * c.rowsOfWarp) + 1);                        // eight rows for each thread
  }
}

TEST(PtxReduction, IsOneForAllReductionsOfAKernelOrNone) {
  const Shape shape = {32768, 768};
  // The type of each result, and whether it reduces the argument instead of its negation.
  auto kernelWith = [&](std::vector<std::pair<DType, int>> results, bool negates = true) {
    Function kernel{"kernel", {{DType::BF16, shape}, {DType::BF16, shape}}, {0}, {}, {}, true};
    if (negates)
      kernel.body.push_back({"negate", {0}, {1}, nlohmann::ordered_json::object(), ""});
    for (auto [dtype, ofArgument] : results) {
      int result = int(kernel.values.size());
      kernel.values.push_back({dtype, {768}});
      kernel.results.push_back(result);
      kernel.body.push_back({"reduce", {ofArgument ? 0 : 1}, {result}, {{"dimensions", {0}}, {"kind", "max"}}, ""});
    }
    return ptxReduction(kernel);
  };
  constexpr DType kHalf = DType::BF16, kFull = DType::F32;
  auto one = kernelWith({{kHalf, 0}});
  ASSERT_TRUE(one);
  EXPECT_GT(one->plan.pieces, 1);
  EXPECT_GE(one->plan.outerOfPiece * one->plan.pieces, 32768);
  EXPECT_EQ(one->blocks(), 3 * one->plan.pieces); // tiles of 256 columns
  EXPECT_EQ(kernelWith({{kHalf, 1}, {kHalf, 0}, {kHalf, 1}})->results, (std::vector<int>{2, 3, 4}));
  EXPECT_EQ(kernelWith({{kHalf, 1}, {kHalf, 0}, {kHalf, 0}, {kHalf, 0}})->results, (std::vector<int>{3, 4, 5}));
  EXPECT_EQ(kernelWith({{kFull, 1}, {kHalf, 0}})->results, (std::vector<int>{3})); // the first has other pieces
  EXPECT_EQ(kernelWith({{kHalf, 1}})->results, (std::vector<int>{2}));
  EXPECT_FALSE(kernelWith({{kHalf, 1}}, false)); // the runtime needs no copy
  auto alone = kernelWith({{kFull, 1}}, false);
  ASSERT_TRUE(alone);
  EXPECT_EQ(alone->width, 8);
  EXPECT_FALSE(kernelWith({{kHalf, 0}, {kFull, 0}})); // float32 has narrower tiles, and so fewer pieces
  EXPECT_FALSE(kernelWith({{kHalf, 0}, {kHalf, 0}, {kHalf, 0}, {kHalf, 0}}));
}

} // namespace
} // namespace kerf::package
