// RUN: kerf-opt %s --split-input-file --kerf-split-backward | FileCheck %s

// CHECK-LABEL: func.func private @layer_backward_weights(%arg0: tensor<4xf32>, %arg1: tensor<4xf32>)
// CHECK-NEXT: %[[W:.*]] = kerf.multiply %arg1, %arg0
// CHECK-NEXT: return %[[W]]
// The bias's gradient is computed on the way to the input's gradient.
// CHECK-LABEL: func.func private @layer_backward_input(%arg0: tensor<4xf32>, %arg1: tensor<4xf32>)
// CHECK-NEXT: %[[B:.*]] = kerf.tanh %arg1
// CHECK-NEXT: %[[X:.*]] = kerf.multiply %[[B]], %arg0
// CHECK-NEXT: return %[[X]], %[[B]]
// CHECK-LABEL: func.func @main
// CHECK: %[[R:.*]]:2 = kerf.call @layer_backward_input(%arg1, %arg2) {kerf.backward, kerf.part = 0 : i64}
// CHECK-NEXT: %[[G:.*]] = kerf.call @layer_backward_weights(%arg0, %[[R]]#1) {kerf.backward, kerf.part = 0 : i64}
// CHECK-NEXT: kerf.accumulate %[[G]]
// CHECK-NEXT: kerf.accumulate %[[R]]#1
// CHECK-NEXT: kerf.negate %[[R]]#0
func.func private @layer_backward(%x: tensor<4xf32>, %w: tensor<4xf32>, %dy: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %db = kerf.tanh %dy : (tensor<4xf32>) -> tensor<4xf32>
  %dw = kerf.multiply %db, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %dx = kerf.multiply %db, %w : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %dx, %dw, %db : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
func.func @main(%x: tensor<4xf32>, %w: tensor<4xf32>, %dy: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %dx, %dw, %db = kerf.call @layer_backward(%x, %w, %dy) {kerf.backward, kerf.part = 0 : i64} : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
  %gw = kerf.accumulate %dw : (tensor<4xf32>) -> tensor<4xf32>
  %gb = kerf.accumulate %db : (tensor<4xf32>) -> tensor<4xf32>
  %0 = kerf.negate %dx : (tensor<4xf32>) -> tensor<4xf32>
  return %0, %gw, %gb : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// The gradient of the weight is summed over ranks before it is summed over microbatches (optimizer sharding 2). It is
// still computed apart.

// CHECK-LABEL: func.func private @layer_backward_weights(%arg0: tensor<4xf32>, %arg1: tensor<4xf32>)
// CHECK-LABEL: func.func private @layer_backward_input(%arg0: tensor<4xf32>, %arg1: tensor<4xf32>)
// CHECK-LABEL: func.func @main
// CHECK: %[[X:.*]] = kerf.call @layer_backward_input(%arg1, %arg2)
// CHECK-NEXT: %[[G:.*]] = kerf.call @layer_backward_weights(%arg0, %arg2)
// CHECK-NEXT: %[[P:.*]] = kerf.reduce_scatter %[[G]]
// CHECK-NEXT: %[[S:.*]] = kerf.wait %[[P]]
// CHECK-NEXT: kerf.accumulate %[[S]]
func.func private @layer_backward(%x: tensor<4xf32>, %w: tensor<4xf32>, %dy: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %dw = kerf.multiply %dy, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %dx = kerf.multiply %dy, %w : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %dx, %dw : tensor<4xf32>, tensor<4xf32>
}
func.func @main(%x: tensor<4xf32>, %w: tensor<4xf32>, %dy: tensor<4xf32>) -> (tensor<4xf32>, tensor<2xf32>) {
  %dx, %dw = kerf.call @layer_backward(%x, %w, %dy) {kerf.backward} : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  %p = kerf.reduce_scatter %dw {axes = array<i64: 0, 1, 2>, dim = 0 : i64, kind = #kerf<reduce_kind sum>, stream = "collectives", cause = ""} : (tensor<4xf32>) -> !kerf.pending<tensor<2xf32>>
  %s = kerf.wait %p : (!kerf.pending<tensor<2xf32>>) -> tensor<2xf32>
  %gw = kerf.accumulate %s : (tensor<2xf32>) -> tensor<2xf32>
  %0 = kerf.negate %dx : (tensor<4xf32>) -> tensor<4xf32>
  return %0, %gw : tensor<4xf32>, tensor<2xf32>
}
