// SPDX-License-Identifier: Apache-2.0
// Compares top_k, dispatch, combine and their gradients with loops in double, and the results of one rank's experts
// with those of all experts.
#include "KernelTestSupport.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace kerf::runtime::test {
namespace {

TEST(TopK, PicksTheLargestFirstAndTheFirstOfEqualOnes) {
  for (int seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    int64_t rows = random.integer(0, 5), size = random.integer(1, 9), count = random.integer(1, size);
    DType dtype = seed % 3 == 0 ? DType::BF16 : seed % 3 == 1 ? F32 : F64;
    HostTensor scores = random.integers(F64, {rows, 2, size}, 0, 6); // many are equal
    scores.dtype = dtype;
    HostTensor gradient = random.normals(dtype, {rows, 2, count});
    std::vector<double> values, places, spread(scores.elements());
    for (int64_t row = 0; row < rows * 2; ++row) {
      std::vector<int64_t> order(size);
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
        return scores.values[row * size + a] > scores.values[row * size + b];
      });
      for (int64_t j = 0; j < count; ++j) {
        values.push_back(scores.values[row * size + order[j]]);
        places.push_back(double(order[j]));
        spread[row * size + order[j]] = gradient.values[row * count + j];
      }
    }
    DType index = seed % 2 ? DType::I64 : DType::I32;
    auto picked = runKernel("top_k", {}, {scores}, {{dtype, {rows, 2, count}}, {index, {rows, 2, count}}});
    EXPECT_EQ(picked[0].values, values);
    EXPECT_EQ(picked[1].values, places);
    EXPECT_EQ(runKernel("top_k_backward", {}, {picked[1], gradient}, {{dtype, scores.shape}})[0].values, spread);
  }
}

/// Long rows are cut into groups. Returns the places of the `count` greatest scores of a row, by sorting all of it.
std::vector<double> greatestPlaces(const std::vector<double> &row, int64_t count) {
  std::vector<int64_t> order(row.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return row[a] > row[b]; });
  return {order.begin(), order.begin() + count};
}

/// Compares choices from rows of 65 to `longest` scores with those of a sort.
void picksAsBySorting(int seeds, int64_t longest) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (int seed = 0; seed < seeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    int64_t rows = random.integer(1, 3), size = random.integer(65, longest);
    int64_t count = std::min(size, seed % 3 == 0   ? random.integer(1, 60)
                                   : seed % 3 == 1 ? random.integer(1, size)
                                                   : size);
    // Scores of many values, of few values, sorted ones, ones of which most are equal, and ones with infinite ones.
    HostTensor scores = seed % 5 == 1 ? random.integers(F32, {rows, size}, -3, 3) : random.normals(F32, {rows, size});
    for (int64_t i = 0; i < rows * size; ++i) {
      double &x = scores.values[i];
      if (seed % 5 == 2)
        x = double(seed % 2 ? i : -i);
      if (seed % 5 == 3 && random.integer(0, 99))
        x = 0;
      if (seed % 5 == 4 && !random.integer(0, 9))
        x = random.integer(0, 1) ? infinity : -infinity;
    }
    scores.dtype = seed % 7 ? F32 : F64;
    DType index = seed % 2 ? DType::I64 : DType::I32;
    auto picked = runKernel("top_k", {}, {scores}, {{scores.dtype, {rows, count}}, {index, {rows, count}}});
    for (int64_t row = 0; row < rows; ++row) {
      std::vector<double> from(scores.values.begin() + row * size, scores.values.begin() + (row + 1) * size);
      std::vector<double> places = greatestPlaces(from, count);
      for (int64_t i = 0; i < count; ++i) {
        ASSERT_EQ(picked[1].values[row * count + i], places[i]) << "choice " << i;
        ASSERT_EQ(picked[0].values[row * count + i], from[size_t(places[i])]);
      }
    }
  }
}

TEST(TopK, PicksFromRowsAsBySortingThem) { picksAsBySorting(20, 200); }
TEST(TopK, PicksFromLongRowsAsBySortingThem) { picksAsBySorting(120, 5000); }

TEST(TopK, NeverPicksNanAheadOfWhatCameBefore) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (int64_t size : {8, 300}) {
    HostTensor scores{F32, {1, size}, std::vector<double>(size_t(size), 0)};
    scores.values[3] = nan;
    scores.values[2] = 5;
    scores.values[size - 1] = 7;
    auto picked = runKernel("top_k", {}, {scores}, {{F32, {1, 2}}, {DType::I32, {1, 2}}});
    EXPECT_EQ(picked[1].values, (std::vector<double>{double(size - 1), 2}));
  }
}

/// A random case: its sizes and operands.
struct Case {
  int64_t experts, batch, tokens, choices, slots, width;
  DType dtype;
  HostTensor x, y, indices, weights;

  explicit Case(Random &random, DType dtype)
      : experts(random.integer(1, 6)), batch(random.integer(1, 4)), tokens(random.integer(1, 7)),
        choices(random.integer(1, 3)), slots(random.integer(1, tokens * choices + 1)), width(random.integer(1, 40)),
        dtype(dtype), x(random.normals(dtype, {batch, tokens, width})),
        y(random.normals(dtype, {experts, batch, slots, width})),
        indices(random.integers(DType::I64, {batch, tokens, choices}, 0, experts - 1)),
        weights(random.normals(dtype, {batch, tokens, choices})) {}

  /// Calls visit(number of the choice, of the token's first element, of the slot's first element) for each copy that
  /// has a slot.
  template <typename Visit> void copies(Visit visit) const {
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t e = 0; e < experts; ++e) {
        int64_t slot = 0;
        for (int64_t i = b * tokens * choices; i < (b + 1) * tokens * choices; ++i)
          if (int64_t(indices.values[i]) == e && slot++ < slots)
            visit(i, i / choices * width, ((e * batch + b) * slots + slot - 1) * width);
      }
  }
};

TEST(Routing, MovesEachCopyToTheNextSlotOfItsExpert) {
  for (int seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    Case c(random, seed % 3 == 0 ? DType::BF16 : seed % 3 == 1 ? F32 : F64);
    std::vector<double> slots(c.y.elements()), tokens(c.x.elements()), products(c.weights.elements());
    c.copies([&](int64_t choice, int64_t token, int64_t slot) {
      for (int64_t d = 0; d < c.width; ++d) {
        slots[slot + d] = c.weights.values[choice] * c.x.values[token + d];
        tokens[token + d] += c.weights.values[choice] * c.y.values[slot + d];
        products[choice] += c.y.values[slot + d] * c.x.values[token + d];
      }
    });
    Json attrs = {{"experts", c.experts}};
    expectNear(runKernel("dispatch", attrs, {c.x, c.indices, c.weights}, {{c.dtype, c.y.shape}})[0], slots,
               toleranceOf(c.dtype));
    expectNear(runKernel("combine", attrs, {c.y, c.indices, c.weights}, {{c.dtype, c.x.shape}})[0], tokens,
               toleranceOf(c.dtype));
    expectNear(runKernel("combine_backward", attrs, {c.y, c.indices, c.x}, {{c.dtype, c.weights.shape}})[0], products,
               toleranceOf(c.dtype));
  }
}

TEST(Routing, RanksWithSomeExpertsAddUpToAll) {
  for (int seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(100 + seed);
    Case c(random, F64);
    int64_t ranks = random.integer(1, 4), chunk = (c.experts + ranks - 1) / ranks, row = c.batch * c.slots * c.width;
    Json attrs = {{"experts", c.experts}};
    Shape piece = {chunk, c.batch, c.slots, c.width};
    auto all = runKernel("dispatch", attrs, {c.x, c.indices, c.weights}, {{F64, c.y.shape}})[0].values;
    all.resize(ranks * chunk * row); // experts that are padding get nothing
    std::vector<double> slots, tokens(c.x.elements()), products(c.weights.elements());
    for (int64_t rank = 0; rank < ranks; ++rank) {
      HostTensor offset = scalar(DType::I64, double(rank * chunk)),
                 part{F64, piece, std::vector<double>(chunk * row, NAN)}; // padding
      for (int64_t i = 0; i < chunk * row && rank * chunk * row + i < c.y.elements(); ++i)
        part.values[i] = c.y.values[rank * chunk * row + i];
      auto own = runKernel("dispatch", attrs, {c.x, c.indices, c.weights, offset}, {{F64, piece}})[0].values;
      slots.insert(slots.end(), own.begin(), own.end());
      auto sums = runKernel("combine", attrs, {part, c.indices, c.weights, offset}, {{F64, c.x.shape}})[0].values;
      auto dots =
          runKernel("combine_backward", attrs, {part, c.indices, c.x, offset}, {{F64, c.weights.shape}})[0].values;
      std::transform(sums.begin(), sums.end(), tokens.begin(), tokens.begin(), std::plus<>());
      std::transform(dots.begin(), dots.end(), products.begin(), products.begin(), std::plus<>());
    }
    EXPECT_EQ(slots, all);
    expectNear(runKernel("combine", attrs, {c.y, c.indices, c.weights}, {{F64, c.x.shape}})[0], tokens, 1e-14);
    expectNear(runKernel("combine_backward", attrs, {c.y, c.indices, c.x}, {{F64, c.weights.shape}})[0], products,
               1e-14);
  }
}

TEST(Routing, WrongChoicesAreMessages) {
  HostTensor x{F32, {1, 2, 1}, {1, 2}}, weights{F32, {1, 2, 1}, {1, 1}}, indices{DType::I32, {1, 2, 1}, {0, 3}};
  EXPECT_EQ(errorOf("dispatch", {{"experts", 3}}, {x, indices, weights}, {{F32, {3, 1, 2, 1}}}),
            "expert 3 at [0, 1, 0] is outside of [0, 3); check the input data");
  EXPECT_EQ(errorOf("dispatch", {{"experts", 3}}, {x, indices, weights}, {{F32, {2, 1, 2, 1}}}),
            "dispatch: attribute 'experts' is 3, but there are slots for 2 experts; compile the package again");
  EXPECT_EQ(
      errorOf("dispatch", {{"experts", int64_t(1) << 60}}, {x, indices, weights, scalar(DType::I64, 0)},
              {{F32, {2, 1, 2, 1}}}),
      "dispatch: attribute 'experts' is 1152921504606846976, 0 to 16777216 are supported; compile the package again");
  EXPECT_EQ(errorOf("top_k_backward", {}, {indices, weights}, {{F32, {1, 2, 3}}}),
            "index 3 at row 1 is outside of [0, 3); check the input data");
}

} // namespace
} // namespace kerf::runtime::test
