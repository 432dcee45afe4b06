// RUN: kerf-opt %s --kerf-recompute | FileCheck %s

// Pointwise recomputation runs the norm and the activation again: they follow from the layer's argument and from the
// first product, which are saved. The sum is saved, because the second product would have to be computed again for it,
// and so is what a collective brings.

// CHECK-LABEL: func.func private @layer_backward_pointwise(
// CHECK-SAME: %[[SUM:[a-z0-9]+]]: tensor<2x4xf32>, %[[WHOLE:[a-z0-9]+]]: tensor<2x4xf32>, %[[SAVED:[a-z0-9]+]]: tensor<2x4xf32>,
// CHECK-SAME: %[[DY:[a-z0-9]+]]: tensor<2x4xf32>, %[[X:[a-z0-9]+]]: tensor<2x4xf32>, %[[P:[a-z0-9]+]]: tensor<2x4xf32>)
// CHECK-NEXT: %[[N:.*]] = kerf.tanh %[[X]]
// CHECK-NEXT: %[[E:.*]] = kerf.exponential %[[P]]
// CHECK-NEXT: %[[A:.*]] = kerf.multiply %[[E]], %[[N]]
// CHECK-NEXT: %[[D:.*]] = kerf.multiply %[[N]], %[[DY]]
// CHECK-NEXT: kerf.multiply %[[D]], %[[A]]
// CHECK-NEXT: kerf.multiply %{{.*}}, %[[SUM]]
// CHECK-NEXT: kerf.multiply %{{.*}}, %[[WHOLE]]
// CHECK-NEXT: kerf.multiply %{{.*}}, %[[SAVED]]
// CHECK-NEXT: return

// CHECK-LABEL: func.func @main
// CHECK: kerf.call @layer_backward_pointwise(

func.func private @layer(%x: tensor<2x4xf32>, %w: tensor<4x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>) {
  %n = kerf.tanh %x : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %p = kerf.dot_general %n, %w {lhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_batching = array<i64>, rhs_contracting = array<i64: 0>} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %e = kerf.exponential %p : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %a = kerf.multiply %e, %n : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %q = kerf.dot_general %a, %w {lhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_batching = array<i64>, rhs_contracting = array<i64: 0>} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %s = kerf.add %q, %x : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %r = kerf.all_reduce %n {axes = array<i64: 0, 1, 2>, kind = #kerf<reduce_kind sum>, stream = "collectives", cause = ""} : (tensor<2x4xf32>) -> !kerf.pending<tensor<2x4xf32>>
  %c = kerf.wait %r : (!kerf.pending<tensor<2x4xf32>>) -> tensor<2x4xf32>
  %y = kerf.add %s, %c : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  return %y, %n, %a, %s, %c, %p : tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>
}
func.func private @layer_backward(%n: tensor<2x4xf32>, %a: tensor<2x4xf32>, %s: tensor<2x4xf32>, %c: tensor<2x4xf32>, %p: tensor<2x4xf32>, %dy: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %0 = kerf.multiply %n, %dy : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %1 = kerf.multiply %0, %a : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %2 = kerf.multiply %1, %s : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %3 = kerf.multiply %2, %c : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %4 = kerf.multiply %3, %p : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  return %4 : tensor<2x4xf32>
}
func.func @main(%x: tensor<2x4xf32>, %w: tensor<4x4xf32>) -> tensor<2x4xf32> {
  %y, %n, %a, %s, %c, %p = kerf.call @layer(%x, %w) : (tensor<2x4xf32>, tensor<4x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>)
  %d = kerf.call @layer_backward(%n, %a, %s, %c, %p, %x) {kerf.backward, kerf.recompute = "pointwise"} : (tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  return %d : tensor<2x4xf32>
}
