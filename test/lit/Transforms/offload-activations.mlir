// RUN: kerf-opt --kerf-offload-activations --split-input-file %s | FileCheck %s

// The activations that a layer saves leave the device as soon as they are computed. The stream that the next layer
// receives is copied with that layer, because that layer saves it.

func.func private @layer(%x: tensor<4xf32>, %w: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = kerf.multiply %x, %w : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = kerf.tanh %0 : (tensor<4xf32>) -> tensor<4xf32>
  return %1, %0 : tensor<4xf32>, tensor<4xf32>
}
func.func private @layer_backward(%h: tensor<4xf32>, %x: tensor<4xf32>, %w: tensor<4xf32>, %dy: tensor<4xf32>) -> tensor<4xf32> {
  %0 = kerf.multiply %h, %dy : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = kerf.multiply %0, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[X:.*]]: tensor<4xf32>, %[[W:.*]]: tensor<4xf32>
func.func @main(%x: tensor<4xf32>, %w: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: %[[Y:.*]]:2 = kerf.call @layer(%[[X]], %[[W]])
  // CHECK-DAG: %[[P0:.*]] = kerf.offload %[[Y]]#0 {kerf.part = 1 : i64, stream = "offload"} : (tensor<4xf32>) -> !kerf.pending<tensor<4xf32>>
  // CHECK-DAG: %[[H0:.*]] = kerf.wait %[[P0]] {kerf.part = 1 : i64}
  // CHECK-DAG: %[[P1:.*]] = kerf.offload %[[Y]]#1 {kerf.part = 0 : i64, stream = "offload"}
  // CHECK-DAG: %[[H1:.*]] = kerf.wait %[[P1]] {kerf.part = 0 : i64}
  // CHECK: %[[Z:.*]]:2 = kerf.call @layer(%[[Y]]#0, %[[W]])
  // CHECK: %[[P2:.*]] = kerf.offload %[[Z]]#1
  // CHECK: %[[H2:.*]] = kerf.wait %[[P2]]
  // CHECK: %[[F2:.*]] = kerf.prefetch %[[H2]] {kerf.backward, kerf.part = 1 : i64, stream = "prefetch"}
  // CHECK: %[[F0:.*]] = kerf.prefetch %[[H0]]
  // CHECK: %[[B2:.*]] = kerf.wait %[[F2]] {kerf.backward, kerf.part = 1 : i64}
  // CHECK: %[[B0:.*]] = kerf.wait %[[F0]]
  // CHECK: %[[D:.*]] = kerf.call @layer_backward(%[[B2]], %[[B0]], %[[W]], %[[Z]]#0) {kerf.backward, kerf.part = 1 : i64}
  // CHECK: %[[F1:.*]] = kerf.prefetch %[[H1]]
  // CHECK: %[[B1:.*]] = kerf.wait %[[F1]]
  // CHECK: kerf.call @layer_backward(%[[B1]], %[[X]], %[[W]], %[[D]]) {kerf.backward, kerf.part = 0 : i64}
  %y:2 = kerf.call @layer(%x, %w) {kerf.part = 0 : i64} : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  %z:2 = kerf.call @layer(%y#0, %w) {kerf.part = 1 : i64} : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  %loss = kerf.negate %z#0 {kerf.backward} : (tensor<4xf32>) -> tensor<4xf32>
  %d = kerf.call @layer_backward(%z#1, %y#0, %w, %z#0) {kerf.backward, kerf.offload, kerf.part = 1 : i64}
      : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %e = kerf.call @layer_backward(%y#1, %x, %w, %d) {kerf.backward, kerf.offload, kerf.part = 0 : i64}
      : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %e : tensor<4xf32>
}

// -----

// A value that two pipeline parts read in their backward pass is copied to host memory by each: a stage sends the other
// one a value in device memory, never a copy in host memory.

func.func private @layer(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = kerf.negate %x : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @layer_backward(%x: tensor<4xf32>, %dy: tensor<4xf32>) -> tensor<4xf32> {
  %0 = kerf.multiply %x, %dy : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: %[[Y:.*]] = kerf.call @layer
  // CHECK-DAG: %[[P1:.*]] = kerf.offload %[[Y]] {kerf.part = 1 : i64, stream = "offload"}
  // CHECK-DAG: %[[H1:.*]] = kerf.wait %[[P1]] {kerf.part = 1 : i64}
  // CHECK-DAG: %[[P0:.*]] = kerf.offload %[[Y]] {kerf.part = 0 : i64, stream = "offload"}
  // CHECK-DAG: %[[H0:.*]] = kerf.wait %[[P0]] {kerf.part = 0 : i64}
  // CHECK: kerf.prefetch %[[H1]] {kerf.backward, kerf.part = 1 : i64
  // CHECK: kerf.prefetch %[[H0]] {kerf.backward, kerf.part = 0 : i64
  %y = kerf.call @layer(%x) {kerf.part = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  %z = kerf.call @layer(%y) {kerf.part = 1 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  %d = kerf.call @layer_backward(%y, %z) {kerf.backward, kerf.offload, kerf.part = 1 : i64}
      : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %e = kerf.call @layer_backward(%y, %d) {kerf.backward, kerf.offload, kerf.part = 0 : i64}
      : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %e : tensor<4xf32>
}

// -----

// A value that another layer keeps in device memory stays there for both layers, and so does a table of several layers.

func.func private @layer(%x: tensor<4xf32>, %t: tensor<4xf32>) -> tensor<4xf32> {
  %0 = kerf.multiply %x, %t : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @layer_backward(%x: tensor<4xf32>, %dy: tensor<4xf32>) -> tensor<4xf32> {
  %0 = kerf.multiply %x, %dy : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
// CHECK-LABEL: func.func @main
// CHECK-NOT: kerf.offload %
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %t = kerf.tanh %x : (tensor<4xf32>) -> tensor<4xf32>
  %y = kerf.call @layer(%x, %t) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %z = kerf.call @layer(%y, %t) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %d = kerf.call @layer_backward(%y, %z) {kerf.backward} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %e = kerf.call @layer_backward(%y, %d) {kerf.backward, kerf.offload} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %f = kerf.call @layer_backward(%t, %e) {kerf.backward, kerf.offload} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %f : tensor<4xf32>
}
