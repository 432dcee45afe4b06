// SPDX-License-Identifier: Apache-2.0
// Helpers of tests that import StableHLO text.
#pragma once

#include "Graphs.h"

namespace kerf {

/// Imports a text without signature.json. `trainable` names the trained arguments.
inline Imported importText(const std::string &text, std::vector<std::string> trainable = {"arg0"}) {
  TemporaryFolder folder;
  std::string path = (folder.path / "loss.mlir").string();
  std::ofstream(path, std::ios::binary) << text;
  ImportOptions options;
  options.trainable = std::move(trainable);
  return importFile(path, options);
}

/// Returns a function of one argument with the operations `body` and the sum of `value` (of type `type`) over `dims` as
/// its result.
inline std::string summed(const std::string &argument, const std::string &body, const std::string &value,
                          const std::string &type, const std::string &dims, const std::string &more = "") {
  return "module @m {\n  func.func public @main(%arg0: " + argument + more + ") -> tensor<f32> {\n" + body +
         "    %zero = stablehlo.constant dense<0.0> : tensor<f32>\n" + "    %sum = stablehlo.reduce(" + value +
         " init: %zero) applies stablehlo.add across dimensions = " + dims + " : (" + type +
         ", tensor<f32>) -> tensor<f32>\n    return %sum : tensor<f32>\n  }\n}\n";
}

/// Expects that the imported IR contains all `parts`.
inline void expectOps(const Imported &imported, const std::vector<std::string> &parts) {
  ASSERT_TRUE(bool(imported.model)) << imported.model.error().message;
  std::string text = imported.text();
  for (const std::string &part : parts)
    EXPECT_NE(text.find(part), std::string::npos) << "no '" << part << "' in\n" << text;
}

/// Returns a text with a convolution with reversed kernel, a max pooling, and the gradient of max pooling.
inline std::string windows() {
  return summed("tensor<2x6x3xf32>", R"(
    %k = stablehlo.constant dense<[[[1.0, 2.0]], [[3.0, 4.0]], [[5.0, 6.0]]]> : tensor<3x1x2xf32>
    %0 = stablehlo.convolution(%arg0, %k) dim_numbers = [b, 0, f]x[i, o, 0]->[b, f, 0], window = {stride = [2], pad = [[-1, 1]], lhs_dilate = [1], rhs_dilate = [1], reverse = [true]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x6x3xf32>, tensor<3x1x2xf32>) -> tensor<2x1x3xf32>
    %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %z = stablehlo.constant dense<0.0> : tensor<f32>
    %1 = "stablehlo.reduce_window"(%0, %low) <{window_dimensions = array<i64: 1, 1, 2>, padding = dense<[[0, 0], [0, 0], [1, 0]]> : tensor<3x2xi64>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %m = stablehlo.maximum %a, %b : tensor<f32>
      stablehlo.return %m : tensor<f32>
    }) : (tensor<2x1x3xf32>, tensor<f32>) -> tensor<2x1x3xf32>
    %2 = "stablehlo.select_and_scatter"(%0, %1, %z) <{window_dimensions = array<i64: 1, 1, 2>, padding = dense<[[0, 0], [0, 0], [1, 0]]> : tensor<3x2xi64>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.compare GE, %a, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %s : tensor<i1>
    }, {
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %m = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %m : tensor<f32>
    }) : (tensor<2x1x3xf32>, tensor<2x1x3xf32>, tensor<f32>) -> tensor<2x1x3xf32>
)",
                "%2", "tensor<2x1x3xf32>", "[0, 1, 2]");
}

} // namespace kerf
