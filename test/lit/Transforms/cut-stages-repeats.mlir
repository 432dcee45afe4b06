// RUN: kerf-opt %s -kerf-cut-stages=until=h.2/tanh -mlir-print-debuginfo -mlir-print-local-scope | FileCheck %s

// A call that stands for three layers, as in a model made from a configuration. Each layer becomes a call with separate
// parameters, an operand that the layers share stays one argument, and the third layer is divided.

// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[W0:[a-z0-9]+]]: tensor<4xf32> {kerf.kind = "parameter", kerf.name = "h.0.w", kerf.trainable}
// CHECK-SAME: %[[S:[a-z0-9]+]]: tensor<4xf32> {kerf.kind = "parameter", kerf.name = "shared", kerf.trainable}
// CHECK-SAME: %[[I:[a-z0-9]+]]: tensor<4xf32> {kerf.kind = "input", kerf.name = "i"}
// CHECK-SAME: %[[W1:[a-z0-9]+]]: tensor<4xf32> {kerf.kind = "parameter", kerf.name = "h.1.w", kerf.trainable}
// CHECK-SAME: %[[W2:[a-z0-9]+]]: tensor<4xf32> {kerf.kind = "parameter", kerf.name = "h.2.w", kerf.trainable}
// CHECK: %[[A:.*]] = kerf.call @layer(%[[I]], %[[S]], %[[W0]]) {kerf.part = 0 : i64} : {{.*}} loc("h.0")
// CHECK: %[[B:.*]] = kerf.call @layer(%[[A]], %[[S]], %[[W1]]) {kerf.part = 0 : i64} : {{.*}} loc("h.1")
// CHECK: %[[C:.*]] = kerf.call @layer_piece(%[[B]], %[[S]]) {kerf.part = 0 : i64} : {{.*}} loc("h.2")
// CHECK: %[[D:.*]] = kerf.call @layer_piece_0(%[[C]], %[[W2]]) {kerf.part = 1 : i64} : {{.*}} loc("h.2")
// CHECK: kerf.reduce %[[D]]
func.func private @layer(%x: tensor<4xf32>, %s: tensor<4xf32>, %w: tensor<4xf32>) -> tensor<4xf32> {
  %a = kerf.multiply %x, %s : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("h.0/scale")
  %b = kerf.tanh %a : (tensor<4xf32>) -> tensor<4xf32> loc("h.0/tanh")
  %y = kerf.multiply %b, %w : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("h.0/out")
  return %y : tensor<4xf32>
}
func.func @main(%w: tensor<4xf32> {kerf.kind = "parameter", kerf.name = "h.0.w", kerf.trainable},
                %s: tensor<4xf32> {kerf.kind = "parameter", kerf.name = "shared", kerf.trainable},
                %i: tensor<4xf32> {kerf.kind = "input", kerf.name = "i"}) -> tensor<f32> {
  %x = kerf.call @layer(%i, %s, %w) {kerf.repeat = 3 : i64} : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("h.0")
  %l = kerf.reduce %x {kind = #kerf<reduce_kind sum>, dimensions = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32> loc("sum")
  return %l : tensor<f32>
}
