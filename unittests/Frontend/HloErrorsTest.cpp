// SPDX-License-Identifier: Apache-2.0
// Tests of wrong StableHLO text, which gives an error with line and column, and never a crash.
#include "HloTexts.h"
#include "StableHlo/HloText.h"

namespace kerf {
namespace {

TEST(HloErrors, AllUnsupportedOperationsInOneMessage) {
  Imported imported = importText(summed("tensor<4xf32>", R"(
    %0 = "stablehlo.sort"(%arg0) <{dimension = 0 : i64}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %5 = stablehlo.compare LT, %a, %b, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %5 : tensor<i1>
    }) : (tensor<4xf32>) -> tensor<4xf32>
    %1 = stablehlo.cbrt %0 : tensor<4xf32>
    %2 = stablehlo.cbrt %1 : tensor<4xf32>
    %3 = stablehlo.custom_call @lapack_x(%2) {backend_config = ""} : (tensor<4xf32>) -> tensor<4xf32>
    %dead = stablehlo.ceil %3 : tensor<4xf32>
)",
                                        "%3", "tensor<4xf32>", "[0]"));
  expectError(imported, {"3 operations", "stablehlo.sort (line 4, column 5",
                         "stablehlo.cbrt (line 9, column 5 and 1 more)", "stablehlo.custom_call @lapack_x"});
  EXPECT_EQ(imported.model.error().message.find("ceil"), std::string::npos); // the loss does not need it
}

TEST(HloErrors, Windows) {
  struct Row {
    const char *from, *to;
    std::vector<std::string> words;
  };
  const Row rows[] = {
      {"[b, 0, f]x", "[b, 0, 1]x", {"'f'", "rank 3"}},
      {"[b, 0, f]x", "[b, f]x", {"'b'", "rank 3"}},
      {"feature_group_count = 1", "feature_group_count = 2", {"2 groups", "3 channels"}},
      {"batch_group_count = 1", "batch_group_count = 0", {"batch_group_count", "0"}},
      {"stride = [2]", "stride = [0]", {"window_strides", "0"}},
      {"stride = [2]", "stride = [2, 1]", {"window_strides", "2 entries", "1 are needed"}},
      {"pad = [[-1, 1]]", "pad = [[-1]]", {"padding", "1 entries", "2 are needed"}},
      {"pad = [[-1, 1]]", "pad = [[-7, 1]]", {"6 elements", "-7"}},
      {"rhs_dilate = [1]", "rhs_dilate = [9]", {"spans 10", "with its padding 6"}},
      {"dense<0xFF800000>", "dense<0.0>", {"initial value", "-inf"}},
      {"stablehlo.maximum %a, %b", "stablehlo.multiply %a, %b", {"initial value", "constant 1"}},
      {"window_dimensions = array<i64: 1, 1, 2>",
       "window_dimensions = array<i64: 1, 2>",
       {"2 dimensions, but the tensor has 3"}},
      {"compare GE", "compare GT", {"GE or LE"}},
      {"stablehlo.add %a, %b", "stablehlo.maximum %a, %b", {"by add"}},
  };
  for (const Row &row : rows) {
    SCOPED_TRACE(row.to);
    std::string text = windows();
    size_t at = text.find(row.from);
    ASSERT_NE(at, std::string::npos);
    expectError(importText(text.replace(at, std::string_view(row.from).size(), row.to)), row.words);
  }
}

TEST(HloErrors, TypesThatTheTextSaysAreCompared) {
  expectError(importText(summed("tensor<4x8xf32>",
                                "    %0 = stablehlo.transpose %arg0, dims = [1, 0] : (tensor<4x8xf32>) "
                                "-> tensor<4x8xf32>\n",
                                "%0", "tensor<4x8xf32>", "[0, 1]")),
              {"line 3, column 5", "[8, 4]", "tensor<4x8xf32>"});
  expectError(importText(summed("tensor<4xf32>", "    %0 = stablehlo.add %arg0, %nothing : tensor<4xf32>\n", "%0",
                                "tensor<4xf32>", "[0]")),
              {"line 3, column 5", "%nothing"});
  expectError(importText("func.func @main(%arg0: tensor<?xf32>) -> tensor<f32> {\n  %0 = stablehlo.negate %arg0 : "
                         "tensor<f32>\n  return %0 : tensor<f32>\n}\n"),
              {"line 1, column 31", "no size"});
}

TEST(HloErrors, LoopsWithoutEnd) {
  auto loop = [](const std::string &condition) {
    return summed("tensor<f32>", R"(
    %0 = stablehlo.while(%x = %arg0) : tensor<f32>
    cond {
      )" + condition + R"(
      stablehlo.return %more : tensor<i1>
    } do {
      stablehlo.return %x : tensor<f32>
    }
)",
                  "%0", "tensor<f32>", "[]");
  };
  expectError(importText(loop("%more = stablehlo.constant dense<true> : tensor<i1>")),
              {"line 4, column 5", "iterations"});
  expectError(importText(loop("%more = stablehlo.compare LT, %x, %x : (tensor<f32>, tensor<f32>) -> tensor<i1>")),
              {"line 4, column 5", "number of iterations"});
  expectError(
      importText("func.func @main(%arg0: tensor<f32>) -> tensor<f32> {\n  %0 = call @main(%arg0) : (tensor<f32>) -> "
                 "tensor<f32>\n  %1 = stablehlo.negate %0 : tensor<f32>\n  return %1 : tensor<f32>\n}\n"),
      {"line 2, column 3", "calls itself"});
}

TEST(HloErrors, Nesting) {
  for (const char *open : {"[", "{a = ", "<a = "}) {
    std::string deep = "func.func @main() attributes {x = ";
    for (int i = 0; i < 100000; ++i)
      deep += open;
    auto module = frontend::hlo::parse(deep);
    ASSERT_FALSE(bool(module));
  }
  std::string regions = "func.func @main() {";
  for (int i = 0; i < 100000; ++i)
    regions += "\"stablehlo.if\"() ({";
  auto module = frontend::hlo::parse(regions);
  ASSERT_FALSE(bool(module));
  EXPECT_NE(module.error().message.find("levels of nesting"), std::string::npos);
}

/// Returns a text that uses most kinds of syntax.
std::string manyForms() {
  return R"(#loc = loc("x")
module @m attributes {a = 1 : i32} {
  func.func public @main(%arg0: tensor<4x3xf32> {b = "c"} loc(#loc), %arg1: tensor<2xi32>) -> (tensor<f32> {jax.result_info = "r"}) {
    %c = stablehlo.constant dense<[[1.0, 2.0, 0x7F800000]]> : tensor<1x3xf32>
    %0 = stablehlo.broadcast_in_dim %c, dims = [0, 1] : (tensor<1x3xf32>) -> tensor<4x3xf32>
    %2 = stablehlo.compare GT, %0, %arg0, FLOAT : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xi1>
    %1 = stablehlo.select %2, %0, %arg0 : tensor<4x3xi1>, tensor<4x3xf32>
    %3 = "stablehlo.gather"(%1, %arg1) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 3>}> : (tensor<4x3xf32>, tensor<2xi32>) -> tensor<2x3xf32>
    %4 = stablehlo.slice %3 [0:2:1, 1:3] : (tensor<2x3xf32>) -> tensor<2x2xf32>
    %z = stablehlo.constant dense<0.0> : tensor<f32>
    %5 = stablehlo.pad %4, %z, low = [0, -1], high = [1, 0], interior = [0, 1] : (tensor<2x2xf32>, tensor<f32>) -> tensor<3x2xf32>
    %6 = call @f(%5) : (tensor<3x2xf32>) -> tensor<f32>
    return %6 : tensor<f32>
  }
  func.func private @f(%arg0: tensor<3x2xf32>) -> tensor<f32> {
    %z = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%arg0 init: %z) across dimensions = [0, 1] : (tensor<3x2xf32>, tensor<f32>) -> tensor<f32>
     reducer(%a: tensor<f32>, %b: tensor<f32>) {
      %1 = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %1 : tensor<f32>
    }
    return %0 : tensor<f32>
  }
}
)";
}

TEST(HloErrors, EveryTruncation) {
  std::string text = manyForms();
  ASSERT_TRUE(bool(frontend::hlo::parse(text))) << frontend::hlo::parse(text).error().message;
  size_t end = text.find_last_of('}');
  for (size_t length = 0; length <= end; ++length) {
    auto module = frontend::hlo::parse(text.substr(0, length));
    if (module)
      EXPECT_TRUE(module->functions.empty()) << length; // an empty text, or aliases only
    else
      EXPECT_EQ(module.error().message.rfind("line ", 0), 0u) << module.error().message;
  }
}

/// Replaces every byte of the text and imports it, which must give a model or an error.
TEST(HloErrors, EveryByteDamaged) {
  TemporaryFolder folder;
  std::string text = manyForms(), path = (folder.path / "loss.mlir").string();
  ImportOptions options;
  options.trainable = {"*"};
  auto context = std::make_unique<mlir::MLIRContext>(mlir::MLIRContext::Threading::DISABLED);
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
  auto whole = importModel(*context, path, options);
  ASSERT_TRUE(bool(whole)) << whole.error().message;
  for (size_t at = 0; at < text.size(); ++at)
    for (char c : {'9', '<'}) {
      std::string damaged = text;
      damaged[at] = c;
      std::ofstream(path, std::ios::binary | std::ios::trunc) << damaged;
      auto model = importModel(*context, path, options);
      if (!model) {
        EXPECT_NE(model.error().status, ExitStatus::InternalCheck) << model.error().message;
      }
    }
}

} // namespace
} // namespace kerf
