// RUN: kerf-opt %s -kerf-cut-stages=until=layer.1/tanh -mlir-print-debuginfo -mlir-print-local-scope | FileCheck %s

// Layers whose module scope the exporter did not record are named by their number. The cut is in the second layer.

// CHECK-LABEL: func.func @main(
// CHECK: %[[A:.*]] = kerf.call @layer(%{{.*}}) {kerf.part = 0 : i64} : {{.*}} loc("layer.0")
// CHECK: %[[B:.*]] = kerf.call @layer_piece(%[[A]], %{{.*}}) {kerf.part = 0 : i64} : {{.*}} loc("layer.1")
// CHECK: %[[C:.*]] = kerf.call @layer_piece_0(%[[B]], %{{.*}}) {kerf.part = 1 : i64} : {{.*}} loc("layer.1")
// CHECK: kerf.reduce %[[C]]
func.func private @layer(%x: tensor<4xf32>, %w: tensor<4xf32>) -> tensor<4xf32> {
  %a = kerf.multiply %x, %w : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("scale")
  %b = kerf.tanh %a : (tensor<4xf32>) -> tensor<4xf32> loc("bend")
  %y = kerf.multiply %b, %w : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("out")
  return %y : tensor<4xf32>
}
func.func @main(%v: tensor<4xf32> {kerf.kind = "parameter", kerf.name = "v", kerf.trainable},
                %w: tensor<4xf32> {kerf.kind = "parameter", kerf.name = "w", kerf.trainable},
                %i: tensor<4xf32> {kerf.kind = "input", kerf.name = "i"}) -> tensor<f32> {
  %x = kerf.call @layer(%i, %v) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %y = kerf.call @layer(%x, %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %l = kerf.reduce %y {kind = #kerf<reduce_kind sum>, dimensions = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32> loc("sum")
  return %l : tensor<f32>
}
