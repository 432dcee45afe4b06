// RUN: kerf-opt %s --kerf-recompute | FileCheck %s

// The first layer is fully recomputed, the second saves everything but the results of attention, the
// third saves everything.

// CHECK-LABEL: func.func private @layer(
// CHECK: return %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} :

// CHECK-LABEL: func.func private @layer_backward(%arg0: tensor<2x4xf32>, %arg1: tensor<2x4xf32>, %arg2: tensor<2x4xf32>)

// CHECK-LABEL: func.func private @layer_backward_full(%arg0: tensor<2x4xf32>, %arg1: tensor<2x4xf32>)
// CHECK-NEXT: %[[T:.*]] = kerf.tanh %arg1
// CHECK-NEXT: %[[A:.*]] = kerf.all_reduce %[[T]]
// CHECK-NEXT: %[[S:.*]] = kerf.wait %[[A]]
// CHECK-NEXT: %[[P:.*]] = kerf.softmax %[[S]]
// CHECK-NEXT: kerf.multiply %[[P]], %arg0
// CHECK-NEXT: kerf.multiply %{{.*}}, %[[T]]
// CHECK-NEXT: return

// CHECK-LABEL: func.func private @layer_backward_selective(%arg0: tensor<2x4xf32>, %arg1: tensor<2x4xf32>, %arg2: tensor<2x4xf32>)
// CHECK-NEXT: %[[P:.*]] = kerf.softmax %arg2 {dimension = 1 : i64}
// CHECK-NEXT: kerf.multiply %[[P]], %arg1
// CHECK-NEXT: kerf.multiply %{{.*}}, %arg0
// CHECK-NEXT: return

// CHECK-LABEL: func.func @main
// CHECK-COUNT-3: kerf.call @layer(
// CHECK: kerf.call @layer_backward(
// CHECK: kerf.call @layer_backward_selective(
// CHECK: kerf.call @layer_backward_full(

func.func private @layer(%x: tensor<2x4xf32>, %w: tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>) {
  %t = kerf.tanh %x : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %a = kerf.all_reduce %t {axes = array<i64: 0, 1, 2>, kind = #kerf<reduce_kind sum>, stream = "collectives", cause = ""} : (tensor<2x4xf32>) -> !kerf.pending<tensor<2x4xf32>>
  %s = kerf.wait %a : (!kerf.pending<tensor<2x4xf32>>) -> tensor<2x4xf32>
  %p = kerf.softmax %s {dimension = 1 : i64} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %y = kerf.multiply %p, %w : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  return %y, %t, %s, %p : tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>
}
func.func private @layer_backward(%t: tensor<2x4xf32>, %p: tensor<2x4xf32>, %dy: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %0 = kerf.multiply %p, %dy : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %1 = kerf.multiply %0, %t : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  return %1 : tensor<2x4xf32>
}
func.func @main(%x: tensor<2x4xf32>, %w: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %y0, %t0, %s0, %p0 = kerf.call @layer(%x, %w) : (tensor<2x4xf32>, tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>)
  %y1, %t1, %s1, %p1 = kerf.call @layer(%y0, %w) : (tensor<2x4xf32>, tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>)
  %y2, %t2, %s2, %p2 = kerf.call @layer(%y1, %w) : (tensor<2x4xf32>, tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>)
  %d2 = kerf.call @layer_backward(%t2, %p2, %y2) {kerf.backward} : (tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %d1 = kerf.call @layer_backward(%t1, %p1, %d2) {kerf.backward, kerf.recompute = "selective"} : (tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %d0 = kerf.call @layer_backward(%t0, %p0, %d1) {kerf.backward, kerf.recompute = "full"} : (tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  return %d0 : tensor<2x4xf32>
}
