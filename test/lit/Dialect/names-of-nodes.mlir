// RUN: kerf import %s | FileCheck %s
// A node may have any name: the first operation says that this is kerf IR and not StableHLO.

// CHECK: kerf.add
func.func @main(%x: tensor<4xf32> {kerf.kind = "input", kerf.name = "stablehlo.x"},
                %w: tensor<4xf32> {kerf.kind = "parameter", kerf.name = "w", kerf.trainable}) -> (tensor<f32> {kerf.name = "loss"}) {
  %h = kerf.add %x, %w : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("stablehlo.add/node")
  %loss = kerf.reduce %h {kind = #kerf<reduce_kind sum>, dimensions = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}
