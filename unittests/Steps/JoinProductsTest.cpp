// SPDX-License-Identifier: Apache-2.0
// Tests which instructions the pass join-products joins with a product, and where it puts them, on steps written by
// hand. A product of x [2, 3, 16] and w [16, 8] has the result [2, 3, 8].
#include "../../lib/Steps/JoinProducts.h"

#include <deque>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

namespace kerf::steps {
namespace {
using Json = nlohmann::ordered_json;
using package::FlatInstruction;
using package::FlatProgram;
using package::Function;

const Shape kRows = {2, 3, 8};

/// Builds the body of a flat program op by op, and joins it.
struct JoinedStep {
  std::deque<package::Instruction> sources; // stay where they are, as the functions do
  std::deque<Function> functions;
  FlatProgram flat;
  DType type;

  explicit JoinedStep(DType type = DType::F32) : type(type) {}
  int value(Shape shape, std::optional<DType> its = {}) {
    flat.values.push_back({its.value_or(type), std::move(shape)});
    return int(flat.values.size()) - 1;
  }
  int add(const std::string &op, std::vector<int> operands, Shape shape, Json attrs = Json::object(),
          std::optional<DType> its = {}) {
    sources.push_back({op, {}, {}, std::move(attrs), ""});
    int result = value(std::move(shape), its);
    flat.body.push_back({&sources.back(), std::move(operands), {result}});
    flat.body.back().origin = int(flat.body.size()) - 1;
    return result;
  }
  int product(int left, int right, std::vector<int64_t> overLeft, std::vector<int64_t> overRight, Shape shape,
              std::optional<DType> its = {}) {
    Json attrs = {{"lhs_batching", Json::array()}, {"rhs_batching", Json::array()}};
    attrs["lhs_contracting"] = overLeft;
    attrs["rhs_contracting"] = overRight;
    return add("dot_general", {left, right}, std::move(shape), attrs, its);
  }
  int linear() { return product(x, w, {2}, {0}, kRows); }
  /// Adds a bias to `to`, and applies GELU where `form` is the attribute of its form. Returns the results: P + bias
  /// where it is kept or no GELU follows, and GELU's.
  std::vector<int> biased(int to, int bias, std::optional<bool> tanhForm, bool keeps, std::vector<int64_t> dims = {2}) {
    package::Value whole{type, kRows};
    Function kernel{"fused", {flat.values[size_t(bias)], whole, whole, whole, whole}, {1, 0}, {}, {}, true};
    kernel.body.push_back({"broadcast_in_dim", {0}, {2}, {{"broadcast_dimensions", dims}}, ""});
    kernel.body.push_back({"add", {2, 1}, {3}, Json::object(), ""});
    if (!tanhForm || keeps)
      kernel.results.push_back(3);
    if (tanhForm) {
      kernel.body.push_back({"gelu", {3}, {4}, {{"approximate", *tanhForm}}, ""});
      kernel.results.push_back(4);
    }
    functions.push_back(kernel);
    int first = add("call", {to, bias}, kRows);
    std::vector<int> results = {first};
    if (kernel.results.size() == 2)
      results.push_back(value(kRows));
    flat.body.back().results = results;
    flat.body.back().kernel = &functions.back();
    return results;
  }
  /// Adds a kernel that adds a bias and then another tensor to `to`.
  int biasedAnd(int to, int bias, int addend) {
    package::Value whole{type, kRows};
    Function kernel{"fused", {whole, flat.values[size_t(bias)], whole, whole, whole, whole}, {0, 1, 2}, {5}, {}, true};
    kernel.body.push_back({"broadcast_in_dim", {1}, {3}, {{"broadcast_dimensions", {2}}}, ""});
    kernel.body.push_back({"add", {0, 3}, {4}, Json::object(), ""});
    kernel.body.push_back({"add", {2, 4}, {5}, Json::object(), ""});
    functions.push_back(kernel);
    int result = add("call", {to, bias, addend}, kRows);
    flat.body.back().kernel = &functions.back();
    return result;
  }
  int gradient(int kept, int of, bool tanhForm = true) {
    return add("gelu_backward", {kept, of}, kRows, {{"approximate", tanhForm}});
  }
  int sums(int of, Shape shape = {8}, const char *kind = "sum", std::vector<int64_t> dims = {0, 1},
           std::optional<DType> its = {}) {
    return add("reduce", {of}, std::move(shape), {{"dimensions", dims}, {"kind", kind}}, its);
  }
  /// Returns the instructions by number, with those of a group in parentheses: "0 (2 3) 1".
  std::string joined() {
    int64_t count = joinProducts(flat);
    std::vector<std::string> text;
    for (const FlatInstruction &one : flat.body) {
      std::vector<int> group;
      for (const FlatInstruction &part : one.parts)
        group.push_back(part.origin);
      bool isGroup = !group.empty();
      text.push_back(isGroup ? fmt::format("({})", fmt::join(group, " ")) : std::to_string(one.origin));
      count -= isGroup;
    }
    EXPECT_EQ(count, 0) << "the number of groups that the pass returned";
    return fmt::format("{}", fmt::join(text, " "));
  }
  int x = value({2, 3, 16}), w = value({16, 8}), bias = value({8}), kept = value(kRows);
};

/// Returns the text of a step that `build` makes.
template <typename F> std::string joined(F build, DType type = DType::F32) {
  JoinedStep step(type);
  build(step);
  return step.joined();
}

TEST(JoinProducts, JoinsABiasAndGelu) {
  auto bias = [](JoinedStep &s) { s.biased(s.linear(), s.bias, {}, false); };
  for (DType type : {DType::F32, DType::BF16, DType::F16})
    EXPECT_EQ(joined(bias, type), "(0 1)");
  EXPECT_EQ(joined([](JoinedStep &s) { s.biased(s.linear(), s.bias, true, false); }), "(0 1)");
  EXPECT_EQ(joined([](JoinedStep &s) { s.biased(s.linear(), s.bias, true, true); }), "(0 1)");
  EXPECT_EQ(joined([](JoinedStep &s) {
              int product = s.linear();
              s.add("tanh", {s.x}, {2, 3, 16});
              s.biased(product, s.bias, true, true);
            }),
            "(0 2) 1");
}

TEST(JoinProducts, JoinsGelusGradientAndItsSums) {
  EXPECT_EQ(joined([](JoinedStep &s) { s.gradient(s.kept, s.linear()); }), "(0 1)");
  EXPECT_EQ(joined([](JoinedStep &s) {
              int product = s.linear();
              s.add("tanh", {s.x}, {2, 3, 16});
              int gradient = s.gradient(s.kept, product);
              s.add("tanh", {gradient}, kRows);
              s.sums(gradient);
            }),
            "(0 2 4) 1 3");
  // The library rounds the sums of a 16-bit result to 16 bits, so float32 sums stay apart.
  EXPECT_EQ(joined([](JoinedStep &s) { s.sums(s.gradient(s.kept, s.linear()), {8}, "sum", {0, 1}, DType::F32); },
                   DType::BF16),
            "(0 1) 2");
}

TEST(JoinProducts, JoinsTheSumsOfAFactor) {
  // The gradient of a bias is the sum over the rows that the product of the weight's gradient contracts.
  for (bool sumsFirst : {false, true})
    EXPECT_EQ(joined([&](JoinedStep &s) {
                if (sumsFirst)
                  s.sums(s.kept);
                s.product(s.x, s.kept, {0, 1}, {0, 1}, {16, 8});
                if (!sumsFirst)
                  s.sums(s.kept);
              }),
              sumsFirst ? "(1 0)" : "(0 1)");
  EXPECT_EQ(joined([](JoinedStep &s) {
              s.product(s.kept, s.x, {0, 1}, {0, 1}, {8, 16}); // the sums of the left factor
              s.sums(s.kept);
            }),
            "(0 1)");
  EXPECT_EQ(joined(
                [](JoinedStep &s) {
                  s.product(s.x, s.kept, {0, 1}, {0, 1}, {16, 8}, DType::F32);
                  s.sums(s.kept, {8}, "sum", {0, 1}, DType::F32);
                },
                DType::BF16),
            "(0 1)");
  EXPECT_EQ(joined([](JoinedStep &s) { // the sums are used before the product
              int sums = s.sums(s.kept);
              s.add("tanh", {sums}, {8});
              s.product(s.x, s.kept, {0, 1}, {0, 1}, {16, 8});
            }),
            "0 1 2");
  EXPECT_EQ(joined([](JoinedStep &s) { // one sum belongs to one product
              s.product(s.x, s.kept, {0, 1}, {0, 1}, {16, 8});
              s.product(s.x, s.kept, {0, 1}, {0, 1}, {16, 8});
              s.sums(s.kept);
            }),
            "(0 2) 1");
}

TEST(JoinProducts, JoinsAnAddend) {
  for (DType type : {DType::F32, DType::BF16, DType::F16})
    EXPECT_EQ(joined([](JoinedStep &s) { s.add("add", {s.linear(), s.kept}, kRows); }, type), "(0 1)");
  EXPECT_EQ(joined([](JoinedStep &s) { s.add("add", {s.kept, s.linear()}, kRows); }), "(0 1)");
  EXPECT_EQ(joined([](JoinedStep &s) { s.biasedAnd(s.linear(), s.bias, s.kept); }), "(0 1)") << "with a bias";
  EXPECT_EQ(joined([](JoinedStep &s) { s.biasedAnd(s.kept, s.bias, s.linear()); }), "(0 1)") << "in another order";
  // A sum of three products: the second and the third one add what is there before them.
  EXPECT_EQ(joined([](JoinedStep &s) {
              int first = s.linear(), second = s.linear(), sum = s.add("add", {first, second}, kRows);
              s.add("tanh", {s.x}, {2, 3, 16});
              int third = s.linear();
              s.add("add", {third, sum}, kRows);
            }),
            "0 (1 2) 3 (4 5)");
}

TEST(JoinProducts, LeavesOtherAdditions) {
  EXPECT_EQ(joined([](JoinedStep &s) {
              int product = s.linear();
              s.add("add", {product, product}, kRows);
            }),
            "0 1")
      << "the product twice";
  EXPECT_EQ(joined([](JoinedStep &s) {
              int product = s.linear(), later = s.add("tanh", {s.kept}, kRows);
              s.add("add", {product, later}, kRows);
            }),
            "0 1 2")
      << "the addend is made after the product";
  EXPECT_EQ(joined([](JoinedStep &s) {
              int product = s.linear();
              s.add("add", {product, s.kept}, kRows);
              s.add("tanh", {product}, kRows);
            }),
            "0 1 2")
      << "the product is read again";
  EXPECT_EQ(joined([](JoinedStep &s) { s.add("subtract", {s.kept, s.linear()}, kRows); }), "0 1") << "a difference";
  EXPECT_EQ(joined([](JoinedStep &s) { s.add("add", {s.linear(), s.kept}, kRows); }, DType::F64), "0 1");
  EXPECT_EQ(joined([](JoinedStep &s) { s.biasedAnd(s.linear(), s.bias, s.value({3, 8})); }), "0 1") << "other rows";
  EXPECT_EQ(joined([](JoinedStep &s) { // the kernel stores P + bias too
              s.biasedAnd(s.linear(), s.bias, s.kept);
              s.functions.back().results = {4, 5};
              s.flat.body.back().results.insert(s.flat.body.back().results.begin(), s.value(kRows));
            }),
            "0 1");
}

TEST(JoinProducts, LeavesWhatTheLibraryComputesOtherwise) {
  EXPECT_EQ(joined([](JoinedStep &s) { s.biased(s.linear(), s.bias, false, true); }), "0 1") << "GELU's form with erf";
  EXPECT_EQ(joined([](JoinedStep &s) { s.gradient(s.kept, s.linear(), false); }), "0 1") << "the gradient of that form";
  EXPECT_EQ(joined([](JoinedStep &s) { s.gradient(s.linear(), s.kept); }), "0 1") << "the product is the kept operand";
  EXPECT_EQ(joined([](JoinedStep &s) { s.biased(s.linear(), s.bias, {}, false); }, DType::F64), "0 1");
  EXPECT_EQ(joined([](JoinedStep &s) { s.biased(s.linear(), s.value({2}), {}, false, {0}); }), "0 1")
      << "a bias of rows";
  EXPECT_EQ(joined([](JoinedStep &s) { s.biased(s.linear(), s.value({1}), {}, false); }), "0 1") << "a bias of 1";
  auto sumsOf = [](Shape shape, const char *kind, std::vector<int64_t> dims) {
    return joined([&](JoinedStep &s) { s.sums(s.gradient(s.kept, s.linear()), shape, kind, dims); });
  };
  EXPECT_EQ(sumsOf({8}, "max", {0, 1}), "(0 1) 2") << "a maximum";
  EXPECT_EQ(sumsOf({2, 3}, "sum", {2}), "(0 1) 2") << "sums over columns";
  EXPECT_EQ(sumsOf({3, 8}, "sum", {0}), "(0 1) 2") << "sums of some rows";
  EXPECT_EQ(joined([](JoinedStep &s) {
              s.product(s.x, s.kept, {0, 1}, {0, 1}, {16, 8});
              s.sums(s.kept, {3, 8}, "sum", {0});
            }),
            "0 1");
}

TEST(JoinProducts, LeavesProductsThatOthersRead) {
  EXPECT_EQ(joined([](JoinedStep &s) {
              int product = s.linear();
              s.biased(product, s.bias, {}, false);
              s.add("tanh", {product}, kRows);
            }),
            "0 1 2");
  EXPECT_EQ(joined([](JoinedStep &s) {
              int product = s.linear();
              s.biased(product, s.bias, {}, false);
              s.flat.results = {product};
            }),
            "0 1");
  EXPECT_EQ(joined([](JoinedStep &s) { // the sum over ranks comes before the bias
              int product = s.linear();
              int whole = s.add("wait", {s.add("all_reduce", {product}, kRows)}, kRows);
              s.biased(whole, s.bias, {}, false);
            }),
            "0 1 2 3");
  EXPECT_EQ(joined([](JoinedStep &s) { // the product adds to a sum over microbatches
              int product = s.linear();
              s.flat.body.back().operands.push_back(s.kept);
              s.flat.body.back().sum = 7;
              s.biased(product, s.bias, {}, false);
            }),
            "0 1");
}

TEST(JoinProducts, MovesNothingTooFar) {
  EXPECT_EQ(joined([](JoinedStep &s) { // the bias is not there yet
              int product = s.linear(), bias = s.add("tanh", {s.bias}, {8});
              s.biased(product, bias, {}, false);
            }),
            "0 1 2");
  auto apart = [](auto change) {
    return joined([&](JoinedStep &s) {
      int product = s.linear();
      s.add("tanh", {s.x}, {2, 3, 16});
      s.biased(product, s.bias, {}, false);
      change(s);
    });
  };
  EXPECT_EQ(apart([](JoinedStep &) {}), "(0 2) 1");
  EXPECT_EQ(apart([](JoinedStep &s) { s.flat.body[1].kind = FlatInstruction::Kind::Send; }), "0 1 2");
  EXPECT_EQ(apart([](JoinedStep &s) { s.flat.body[2].microbatch = 1; }), "0 1 2");
  EXPECT_EQ(apart([](JoinedStep &s) { s.flat.body[2].call = 3; }), "0 1 2");
}

} // namespace
} // namespace kerf::steps
