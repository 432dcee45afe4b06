// SPDX-License-Identifier: Apache-2.0
// Fuzzes signature.json for a small StableHLO text.
#include "Context.h"
#include "Input.h"
#include "kerf/Frontend/Import.h"

using namespace kerf;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  std::string_view input(reinterpret_cast<const char *>(data), bytes);
  constexpr std::string_view kText = R"(module @m {
  func.func public @main(%arg0: tensor<4xf32> {tf.aliasing_output = 1 : i32}, %arg1: tensor<4xf32>) -> (tensor<f32>, tensor<4xf32>) {
    %0 = stablehlo.multiply %arg0, %arg1 : tensor<4xf32>
    %c = stablehlo.constant dense<0.0> : tensor<f32>
    %1 = stablehlo.reduce(%0 init: %c) applies stablehlo.add across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
    %2 = stablehlo.subtract %arg0, %arg1 : tensor<4xf32>
    return %1, %2 : tensor<f32>, tensor<4xf32>
  }
})";
  fuzz::fileOf(input, "signature.json");
  fuzz::judge(importModel(fuzz::context(), fuzz::fileOf(kText, "model.mlir"), {}));
  return 0;
}
