// SPDX-License-Identifier: Apache-2.0
// Tests which products the pass add-in-products merges with their sums, on steps written by hand.
#include "../../lib/Steps/AddInProducts.h"

#include <deque>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

namespace kerf::steps {
namespace {
using package::FlatInstruction;
using package::FlatProgram;

/// Builds the body of a flat program op by op, and merges it.
struct SummedStep {
  std::deque<package::Instruction> sources; // stay where they are
  FlatProgram flat;

  int value(DType type) {
    flat.values.push_back({type, {2, 2}});
    return int(flat.values.size()) - 1;
  }
  int add(const std::string &op, std::vector<int> operands, DType type = DType::F32) {
    sources.push_back({op, {}, {}, nlohmann::ordered_json::object(), ""});
    int result = value(type);
    flat.body.push_back({&sources.back(), std::move(operands), {result}});
    flat.body.back().origin = int(flat.body.size()) - 1;
    return result;
  }
  /// Returns the number of merged products and the body as text: "1 merged; dot_general 0 0 3 -> 5 (instruction 4)".
  std::string merged() {
    std::string text = fmt::format("{} merged", addInProducts(flat));
    for (const FlatInstruction &one : flat.body) {
      text += fmt::format("; {} {} -> {}", one.source->op, fmt::join(one.operands, " "), fmt::join(one.results, " "));
      if (one.sum >= 0)
        text += fmt::format(" (instruction {})", one.sum);
    }
    return text;
  }
  int x = value(DType::F32);
};

TEST(AddInProducts, MergesAllMicrobatchesButTheFirst) {
  SummedStep body;
  int x = body.x, sum = body.add("accumulate", {body.add("dot_general", {x, x})});
  for (int microbatch = 1; microbatch < 3; ++microbatch) {
    int one = body.add("dot_general", {x, x});
    body.add("tanh", {x});
    sum = body.add("accumulate", {sum, one});
  }
  body.add("tanh", {sum});
  EXPECT_EQ(body.merged(), "2 merged; dot_general 0 0 -> 1; accumulate 1 -> 2; dot_general 0 0 2 -> 5 (instruction 4); "
                           "tanh 0 -> 4; dot_general 0 0 5 -> 8 (instruction 7); tanh 0 -> 7; tanh 8 -> 9");
}

/// Returns whether the pass merges the second microbatch of a step that `build` makes. `build` gets the sum so far.
template <typename F> bool merges(F build) {
  SummedStep body;
  int sum = body.add("accumulate", {body.add("dot_general", {body.x, body.x})});
  build(body, sum);
  return body.merged().substr(0, 1) != "0";
}

TEST(AddInProducts, MergesOnlyWhatChangesNothingElse) {
  EXPECT_TRUE(merges([](SummedStep &b, int sum) { b.add("accumulate", {sum, b.add("dot_general", {b.x, b.x})}); }));
  // The gradient has another use: by an op, or as a result of the step.
  EXPECT_FALSE(merges([](SummedStep &b, int sum) {
    int one = b.add("dot_general", {b.x, b.x});
    b.add("tanh", {one});
    b.add("accumulate", {sum, one});
  }));
  EXPECT_FALSE(merges([](SummedStep &b, int sum) {
    int one = b.add("dot_general", {b.x, b.x});
    b.add("accumulate", {sum, one});
    b.flat.results = {one};
  }));
  EXPECT_FALSE(merges([](SummedStep &b, int sum) {
    int one = b.add("dot_general", {b.x, b.x});
    b.add("accumulate", {b.add("accumulate", {sum, one}), one});
  }));
  // There is a collective or another op between.
  EXPECT_FALSE(merges([](SummedStep &b, int sum) {
    b.add("accumulate", {sum, b.add("wait", {b.add("all_reduce", {b.add("dot_general", {b.x, b.x})})})});
  }));
  EXPECT_FALSE(merges(
      [](SummedStep &b, int sum) { b.add("accumulate", {sum, b.add("tanh", {b.add("dot_general", {b.x, b.x})})}); }));
  // The sum is wider than the product, or both have 16 bits.
  EXPECT_FALSE(merges(
      [](SummedStep &b, int sum) { b.add("accumulate", {sum, b.add("dot_general", {b.x, b.x}, DType::BF16)}); }));
  EXPECT_FALSE(merges([](SummedStep &b, int) {
    int sum = b.add("accumulate", {b.x}, DType::BF16);
    b.add("accumulate", {sum, b.add("dot_general", {b.x, b.x}, DType::BF16)}, DType::BF16);
  }));
  // The value is an argument, or the sum does not exist yet where the product runs.
  EXPECT_FALSE(merges([](SummedStep &b, int sum) { b.add("accumulate", {sum, b.x}); }));
  EXPECT_FALSE(merges([](SummedStep &b, int) {
    int one = b.add("dot_general", {b.x, b.x});
    int sum = b.add("accumulate", {b.add("tanh", {b.x})});
    b.add("accumulate", {sum, one});
  }));
}

TEST(AddInProducts, MergesEachProductWithItsOwnSum) {
  // The sums are taken in another order than the products.
  SummedStep body;
  int x = body.x;
  int first = body.add("accumulate", {body.add("dot_general", {x, x})});
  int second = body.add("accumulate", {body.add("dot_general", {x, x})});
  int a = body.add("dot_general", {x, x}), b = body.add("dot_general", {x, x});
  body.add("accumulate", {second, b});
  body.add("accumulate", {first, a});
  EXPECT_EQ(body.merged(),
            "2 merged; dot_general 0 0 -> 1; accumulate 1 -> 2; dot_general 0 0 -> 3; accumulate 3 -> 4; "
            "dot_general 0 0 2 -> 8 (instruction 7); dot_general 0 0 4 -> 7 (instruction 6)");
}

} // namespace
} // namespace kerf::steps
