// RUN: kerf-opt --kerf-schedule-collectives=tensor=true %s | FileCheck %s

// The backward of two products with one input, like those of queries and keys: the sum of the input's gradient starts
// before both products of weight gradients. Their saved activation is gathered one product before the sum. Gathers of
// other values stay where they are.

kerf.mesh @mesh #kerf.mesh<"model"=2>
// CHECK-LABEL: func.func @backward
// CHECK: %[[X0:.*]] = kerf.dot_general %arg0, %arg2
// CHECK-NEXT: %[[G:.*]] = kerf.all_gather %arg1 {{.*}}stream = "gathers"
// CHECK-NEXT: %[[X1:.*]] = kerf.dot_general %arg0, %arg3
// CHECK-NEXT: %[[X:.*]] = kerf.add %[[X0]], %[[X1]]
// CHECK-NEXT: %[[S:.*]] = kerf.all_reduce %[[X]] {{.*}}stream = "sums"
// CHECK-NEXT: %[[A:.*]] = kerf.wait %[[G]]
// CHECK-NEXT: kerf.dot_general %[[A]], %arg0
// CHECK-NEXT: %[[W:.*]] = kerf.dot_general %[[A]], %arg0
// CHECK-NEXT: %[[C:.*]] = kerf.negate %[[W]]
// CHECK-NEXT: %[[P:.*]] = kerf.all_gather %[[C]] {{.*}}stream = "collectives"
// CHECK-NEXT: %[[D:.*]] = kerf.wait %[[S]]
// CHECK-NEXT: kerf.tanh %[[D]]
func.func @backward(%dy: tensor<4x8xf32>, %saved: tensor<2x16xf32>, %w0: tensor<8x16xf32>, %w1: tensor<8x16xf32>)
    -> (tensor<4x16xf32>, tensor<16x8xf32>, tensor<32x8xf32>) {
  %x0 = kerf.dot_general %dy, %w0 {kerf.backward, lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>} : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  %g = kerf.all_gather %saved {axes = array<i64: 0, 1, 2>, dim = 0 : i64, stream = "collectives", cause = "saved"} : (tensor<2x16xf32>) -> !kerf.pending<tensor<4x16xf32>>
  %a = kerf.wait %g : (!kerf.pending<tensor<4x16xf32>>) -> tensor<4x16xf32>
  %dw0 = kerf.dot_general %a, %dy {kerf.backward, lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 0>, rhs_contracting = array<i64: 0>} : (tensor<4x16xf32>, tensor<4x8xf32>) -> tensor<16x8xf32>
  %x1 = kerf.dot_general %dy, %w1 {kerf.backward, lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>} : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  %dw1 = kerf.dot_general %a, %dy {kerf.backward, lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 0>, rhs_contracting = array<i64: 0>} : (tensor<4x16xf32>, tensor<4x8xf32>) -> tensor<16x8xf32>
  %c = kerf.negate %dw1 {kerf.backward} : (tensor<16x8xf32>) -> tensor<16x8xf32>
  %x = kerf.add %x0, %x1 {kerf.backward} : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
  %s = kerf.all_reduce %x {axes = array<i64: 0, 1, 2>, kind = #kerf<reduce_kind sum>, stream = "collectives", cause = "x"} : (tensor<4x16xf32>) -> !kerf.pending<tensor<4x16xf32>>
  %d = kerf.wait %s : (!kerf.pending<tensor<4x16xf32>>) -> tensor<4x16xf32>
  %p = kerf.all_gather %c {axes = array<i64: 0, 1, 2>, dim = 0 : i64, stream = "collectives", cause = "w"} : (tensor<16x8xf32>) -> !kerf.pending<tensor<32x8xf32>>
  %q = kerf.wait %p : (!kerf.pending<tensor<32x8xf32>>) -> tensor<32x8xf32>
  %t = kerf.tanh %d : (tensor<4x16xf32>) -> tensor<4x16xf32>
  return %t, %dw0, %q : tensor<4x16xf32>, tensor<16x8xf32>, tensor<32x8xf32>
}

// The gather of a parameter, which the gradient of the input needs, stays. So does the sum of a forward.
// CHECK-LABEL: func.func @others_stay
// CHECK: kerf.all_gather %arg1 {{.*}}stream = "collectives"
// CHECK-NEXT: kerf.wait
// CHECK-NEXT: kerf.dot_general
// CHECK-NEXT: kerf.all_reduce {{.*}}stream = "sums"
// CHECK: kerf.dot_general
// CHECK-NEXT: kerf.all_reduce {{.*}}stream = "collectives"
func.func @others_stay(%dy: tensor<4x8xf32>, %shard: tensor<4x16xf32>) -> (tensor<4x16xf32>, tensor<4x16xf32>) {
  %g = kerf.all_gather %shard {axes = array<i64: 0, 1, 2>, dim = 0 : i64, stream = "collectives", cause = "parameter"} : (tensor<4x16xf32>) -> !kerf.pending<tensor<8x16xf32>>
  %w = kerf.wait %g : (!kerf.pending<tensor<8x16xf32>>) -> tensor<8x16xf32>
  %x = kerf.dot_general %dy, %w {kerf.backward, lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>} : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  %s = kerf.all_reduce %x {axes = array<i64: 0, 1, 2>, kind = #kerf<reduce_kind sum>, stream = "collectives", cause = "x"} : (tensor<4x16xf32>) -> !kerf.pending<tensor<4x16xf32>>
  %d = kerf.wait %s : (!kerf.pending<tensor<4x16xf32>>) -> tensor<4x16xf32>
  %y = kerf.dot_general %dy, %w {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>} : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  %u = kerf.all_reduce %y {axes = array<i64: 0, 1, 2>, kind = #kerf<reduce_kind sum>, stream = "collectives", cause = "y"} : (tensor<4x16xf32>) -> !kerf.pending<tensor<4x16xf32>>
  %v = kerf.wait %u : (!kerf.pending<tensor<4x16xf32>>) -> tensor<4x16xf32>
  return %d, %v : tensor<4x16xf32>, tensor<4x16xf32>
}
