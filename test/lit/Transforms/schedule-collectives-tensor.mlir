// RUN: kerf-opt --kerf-schedule-collectives=tensor=true %s | FileCheck %s

// The backward of a layer: the sum of the input's gradient runs beside the product of the weight's gradient, for which
// a saved activation is gathered beside the product before it. A gather of a computed tensor stays where it is.

kerf.mesh @mesh #kerf.mesh<"model"=2>
// CHECK-LABEL: func.func @backward
// CHECK: %[[G:.*]] = kerf.all_gather %arg1
// CHECK-NEXT: %[[X:.*]] = kerf.dot_general %arg0, %arg2
// CHECK-NEXT: %[[S:.*]] = kerf.all_reduce %[[X]]
// CHECK-NEXT: %[[A:.*]] = kerf.wait %[[G]]
// CHECK-NEXT: %[[W:.*]] = kerf.dot_general %[[A]], %arg0
// CHECK-NEXT: %[[N:.*]] = kerf.negate %arg0
// CHECK-NEXT: %[[P:.*]] = kerf.all_gather %[[W]]
// CHECK-NEXT: %[[D:.*]] = kerf.wait %[[S]]
// CHECK-NEXT: kerf.tanh %[[D]]
func.func @backward(%dy: tensor<4x8xf32>, %saved: tensor<2x16xf32>, %w: tensor<8x16xf32>) -> (tensor<4x16xf32>, tensor<32x8xf32>, tensor<4x8xf32>) {
  %x = kerf.dot_general %dy, %w {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>} : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  %g = kerf.all_gather %saved {axes = array<i64: 0, 1, 2>, dim = 0 : i64, stream = "collectives", cause = "saved"} : (tensor<2x16xf32>) -> !kerf.pending<tensor<4x16xf32>>
  %a = kerf.wait %g : (!kerf.pending<tensor<4x16xf32>>) -> tensor<4x16xf32>
  %dw = kerf.dot_general %a, %dy {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 0>, rhs_contracting = array<i64: 0>} : (tensor<4x16xf32>, tensor<4x8xf32>) -> tensor<16x8xf32>
  %n = kerf.negate %dy : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %p = kerf.all_gather %dw {axes = array<i64: 0, 1, 2>, dim = 0 : i64, stream = "collectives", cause = "w"} : (tensor<16x8xf32>) -> !kerf.pending<tensor<32x8xf32>>
  %q = kerf.wait %p : (!kerf.pending<tensor<32x8xf32>>) -> tensor<32x8xf32>
  %s = kerf.all_reduce %x {axes = array<i64: 0, 1, 2>, kind = #kerf<reduce_kind sum>, stream = "collectives", cause = "x"} : (tensor<4x16xf32>) -> !kerf.pending<tensor<4x16xf32>>
  %d = kerf.wait %s : (!kerf.pending<tensor<4x16xf32>>) -> tensor<4x16xf32>
  %t = kerf.tanh %d : (tensor<4x16xf32>) -> tensor<4x16xf32>
  return %t, %q, %n : tensor<4x16xf32>, tensor<32x8xf32>, tensor<4x8xf32>
}

// A gather waits for the call of a layer before it, because the gathered tensor would take memory during the call.
// CHECK-LABEL: func.func @after_a_call
// CHECK: kerf.dot_general
// CHECK-NEXT: kerf.call @backward
// CHECK-NEXT: kerf.all_gather %arg1
func.func @after_a_call(%dy: tensor<4x8xf32>, %saved: tensor<2x16xf32>, %w: tensor<8x16xf32>) -> (tensor<4x16xf32>, tensor<4x16xf32>) {
  %x = kerf.dot_general %dy, %w {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>} : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  %c:3 = kerf.call @backward(%dy, %saved, %w) : (tensor<4x8xf32>, tensor<2x16xf32>, tensor<8x16xf32>) -> (tensor<4x16xf32>, tensor<32x8xf32>, tensor<4x8xf32>)
  %g = kerf.all_gather %saved {axes = array<i64: 0, 1, 2>, dim = 0 : i64, stream = "collectives", cause = "saved"} : (tensor<2x16xf32>) -> !kerf.pending<tensor<4x16xf32>>
  %a = kerf.wait %g : (!kerf.pending<tensor<4x16xf32>>) -> tensor<4x16xf32>
  return %a, %x : tensor<4x16xf32>, tensor<4x16xf32>
}
