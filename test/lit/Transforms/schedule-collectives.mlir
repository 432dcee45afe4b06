// RUN: kerf-opt --kerf-schedule-collectives %s | FileCheck %s

// The collective of a gradient starts where the gradient is computed and is awaited where its result is used, and so
// does a second one. Other collectives stay.

kerf.mesh @mesh #kerf.mesh<"data"=2>
// CHECK-LABEL: func.func @gradients_run_beside_compute
func.func @gradients_run_beside_compute(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  // CHECK: %[[G:.*]] = kerf.tanh
  // CHECK-NEXT: %[[P:.*]] = kerf.all_reduce %[[G]]
  // CHECK-NEXT: %[[H:.*]] = kerf.exponential
  // CHECK-NEXT: %[[Q:.*]] = kerf.all_reduce %[[H]]
  // CHECK-NEXT: kerf.negate
  // CHECK-DAG: kerf.wait %[[P]]
  // CHECK-DAG: kerf.wait %[[Q]]
  // CHECK: kerf.add
  %g = kerf.tanh %x : (tensor<4xf32>) -> tensor<4xf32>
  %h = kerf.exponential %x : (tensor<4xf32>) -> tensor<4xf32>
  %n = kerf.negate %x : (tensor<4xf32>) -> tensor<4xf32>
  %p = kerf.all_reduce %g {axes = array<i64: 0, 1, 2>, kind = #kerf<reduce_kind sum>, stream = "gradients", cause = "g"} : (tensor<4xf32>) -> !kerf.pending<tensor<4xf32>>
  %s = kerf.wait %p : (!kerf.pending<tensor<4xf32>>) -> tensor<4xf32>
  %q = kerf.all_reduce %h {axes = array<i64: 0, 1, 2>, kind = #kerf<reduce_kind sum>, stream = "gradients", cause = "h"} : (tensor<4xf32>) -> !kerf.pending<tensor<4xf32>>
  %t = kerf.wait %q : (!kerf.pending<tensor<4xf32>>) -> tensor<4xf32>
  %y = kerf.add %s, %t : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %y, %n : tensor<4xf32>, tensor<4xf32>
}
