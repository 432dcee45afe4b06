// RUN: kerf-opt %s --kerf-recompute | FileCheck %s

// Among the ops of one layer, tanh is always recomputed, the sum and exp never are. The first layer is otherwise fully
// recomputed, so it saves both: its backward function reads neither, but recomputes values from them. The second layer
// saves all other values.

// CHECK-LABEL: func.func private @layer(
// CHECK-DAG: %[[SUM:.*]] = kerf.wait
// CHECK-DAG: %[[E:.*]] = kerf.exponential %[[SUM]]
// CHECK-DAG: %[[N:.*]] = kerf.negate %[[E]]
// CHECK: return %{{.*}}, %[[N]], %[[E]] :

// In the first layer, negate is recomputed too, from the saved result of exp.
// CHECK-LABEL: func.func private @layer_backward_full(%arg0: tensor<2x4xf32>, %arg1: tensor<2x4xf32>)
// CHECK-NEXT: %[[N:.*]] = kerf.negate %arg1
// CHECK-NEXT: %[[T:.*]] = kerf.tanh %[[N]]
// CHECK-NEXT: kerf.multiply %[[T]], %arg0
// CHECK-NEXT: return

// In the second layer, the operand of tanh is saved: the result of negate.
// CHECK-LABEL: func.func private @layer_backward_none(%arg0: tensor<2x4xf32>, %arg1: tensor<2x4xf32>)
// CHECK-NEXT: %[[T:.*]] = kerf.tanh %arg1
// CHECK-NEXT: kerf.multiply %[[T]], %arg0
// CHECK-NEXT: return

// CHECK-LABEL: func.func @main
// CHECK: kerf.call @layer_backward_none(
// CHECK: kerf.call @layer_backward_full(
// CHECK-NOT: kerf.recompute

func.func private @layer(%x: tensor<2x4xf32>, %w: tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>) {
  %m = kerf.multiply %x, %w {kerf.recompute = false} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %a = kerf.all_reduce %m {axes = array<i64: 0, 1, 2>, kind = #kerf<reduce_kind sum>, stream = "collectives", cause = ""} : (tensor<2x4xf32>) -> !kerf.pending<tensor<2x4xf32>>
  %s = kerf.wait %a : (!kerf.pending<tensor<2x4xf32>>) -> tensor<2x4xf32>
  %e = kerf.exponential %s {kerf.recompute = false} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %n = kerf.negate %e : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %t = kerf.tanh %n {kerf.recompute = true} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %y = kerf.multiply %t, %w : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  return %y, %n, %t : tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>
}
func.func private @layer_backward(%t: tensor<2x4xf32>, %dy: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %0 = kerf.multiply %t, %dy : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}
func.func @main(%x: tensor<2x4xf32>, %w: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %y0, %n0, %t0 = kerf.call @layer(%x, %w) : (tensor<2x4xf32>, tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>)
  %y1, %n1, %t1 = kerf.call @layer(%y0, %w) : (tensor<2x4xf32>, tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>)
  %d1 = kerf.call @layer_backward(%t1, %y1) {kerf.backward, kerf.recompute = "none"} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %d0 = kerf.call @layer_backward(%t0, %d1) {kerf.backward, kerf.recompute = "full"} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  return %d0 : tensor<2x4xf32>
}
