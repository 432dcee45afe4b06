// RUN: kerf-opt --kerf-chunk-products --split-input-file %s | FileCheck %s

// An all-reduce is split into chunks along the outermost dimension with several elements. Users of the sum read the
// concatenated chunks.
// CHECK-LABEL: func.func @sum
// CHECK-SAME: %[[X:.*]]: tensor<1x6x8xf32>, %[[W:.*]]: tensor<8x16xf32>
func.func @sum(%x: tensor<1x6x8xf32>, %w: tensor<8x16xf32>) -> tensor<1x6x16xf32> {
  // CHECK: %[[X0:.*]] = kerf.slice %[[X]] {limit = array<i64: 1, 2, 8>, start = array<i64: 0, 0, 0>
  // CHECK: %[[Y0:.*]] = kerf.dot_general %[[X0]], %[[W]] {{.*}} -> tensor<1x2x16xf32>
  // CHECK: %[[P0:.*]] = kerf.all_reduce %[[Y0]]
  // CHECK: kerf.slice %[[X]] {limit = array<i64: 1, 4, 8>, start = array<i64: 0, 2, 0>
  // CHECK: kerf.slice %[[X]] {limit = array<i64: 1, 5, 8>, start = array<i64: 0, 4, 0>
  // CHECK: %[[X3:.*]] = kerf.slice %[[X]] {limit = array<i64: 1, 6, 8>, start = array<i64: 0, 5, 0>
  // CHECK: %[[Y3:.*]] = kerf.dot_general %[[X3]], %[[W]] {{.*}} -> tensor<1x1x16xf32>
  // CHECK: %[[P3:.*]] = kerf.all_reduce %[[Y3]]
  // CHECK: %[[Z0:.*]] = kerf.wait %[[P0]]
  // CHECK: %[[Z3:.*]] = kerf.wait %[[P3]]
  // CHECK: %[[Z:.*]] = kerf.concatenate %[[Z0]], %{{.*}}, %{{.*}}, %[[Z3]] {dimension = 1 : i64}
  // CHECK: return %[[Z]]
  %y = kerf.dot_general %x, %w {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 2>, rhs_contracting = array<i64: 0>}
      : (tensor<1x6x8xf32>, tensor<8x16xf32>) -> tensor<1x6x16xf32>
  %p = kerf.all_reduce %y {axes = array<i64: 0, 1, 2>, kind = #kerf<reduce_kind sum>, stream = "collectives", cause = "test"}
      : (tensor<1x6x16xf32>) -> !kerf.pending<tensor<1x6x16xf32>>
  %z = kerf.wait %p : (!kerf.pending<tensor<1x6x16xf32>>) -> tensor<1x6x16xf32>
  return %z : tensor<1x6x16xf32>
}

// -----

// The dimension that is scattered is not split. The chunks keep the attributes that tell the product's pass
// of the step.
// CHECK-LABEL: func.func @scatter
func.func @scatter(%x: tensor<2x6x8xf32>, %w: tensor<8x16xf32>) -> tensor<1x6x16xf32> {
  // CHECK: kerf.slice {{.*}}kerf.backward, limit = array<i64: 2, 2, 8>
  // CHECK: kerf.dot_general {{.*}}kerf.backward{{.*}} -> tensor<2x2x16xf32>
  // CHECK: kerf.reduce_scatter {{.*}}dim = 0 : i64{{.*}} : (tensor<2x2x16xf32>) -> !kerf.pending<tensor<1x2x16xf32>>
  // CHECK: kerf.concatenate {{.*}} {dimension = 1 : i64, kerf.backward} {{.*}} -> tensor<1x6x16xf32>
  %y = kerf.dot_general %x, %w {kerf.backward, lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 2>, rhs_contracting = array<i64: 0>}
      : (tensor<2x6x8xf32>, tensor<8x16xf32>) -> tensor<2x6x16xf32>
  %p = kerf.reduce_scatter %y {axes = array<i64: 0, 1, 2>, dim = 0 : i64, kind = #kerf<reduce_kind sum>, stream = "collectives", cause = "test"}
      : (tensor<2x6x16xf32>) -> !kerf.pending<tensor<1x6x16xf32>>
  %z = kerf.wait %p : (!kerf.pending<tensor<1x6x16xf32>>) -> tensor<1x6x16xf32>
  return %z : tensor<1x6x16xf32>
}

// -----

// The all-gather of a product's operand is split into chunks as well. Later users read the concatenated chunks.
// CHECK-LABEL: func.func @gather
// CHECK-SAME: %[[X:.*]]: tensor<2x3x8xf32>, %[[W:.*]]: tensor<8x16xf32>
func.func @gather(%x: tensor<2x3x8xf32>, %w: tensor<8x16xf32>) -> (tensor<2x6x16xf32>, tensor<2x6x8xf32>) {
  // CHECK: %[[X0:.*]] = kerf.slice %[[X]] {limit = array<i64: 1, 3, 8>
  // CHECK: %[[P0:.*]] = kerf.all_gather %[[X0]]
  // CHECK: %[[X1:.*]] = kerf.slice %[[X]] {limit = array<i64: 2, 3, 8>
  // CHECK: %[[P1:.*]] = kerf.all_gather %[[X1]]
  // CHECK: %[[G0:.*]] = kerf.wait %[[P0]]
  // CHECK: %[[Y0:.*]] = kerf.dot_general %[[G0]], %[[W]]
  // CHECK: %[[G1:.*]] = kerf.wait %[[P1]]
  // CHECK: %[[Y1:.*]] = kerf.dot_general %[[G1]], %[[W]]
  // CHECK-DAG: %[[Y:.*]] = kerf.concatenate %[[Y0]], %[[Y1]] {dimension = 0 : i64}
  // CHECK-DAG: %[[G:.*]] = kerf.concatenate %[[G0]], %[[G1]] {dimension = 0 : i64}
  // CHECK-DAG: %[[T:.*]] = kerf.tanh %[[G]]
  // CHECK: return %[[Y]], %[[T]]
  %p = kerf.all_gather %x {axes = array<i64: 0, 1, 2>, dim = 1 : i64, stream = "collectives", cause = "test"}
      : (tensor<2x3x8xf32>) -> !kerf.pending<tensor<2x6x8xf32>>
  %g = kerf.wait %p : (!kerf.pending<tensor<2x6x8xf32>>) -> tensor<2x6x8xf32>
  %y = kerf.dot_general %g, %w {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 2>, rhs_contracting = array<i64: 0>}
      : (tensor<2x6x8xf32>, tensor<8x16xf32>) -> tensor<2x6x16xf32>
  %t = kerf.tanh %g : (tensor<2x6x8xf32>) -> tensor<2x6x8xf32>
  return %y, %t : tensor<2x6x16xf32>, tensor<2x6x8xf32>
}

// -----

// These stay as they are: the sum of a gradient, a sum of another op's result than a product's, and a product with
// other users.
// CHECK-LABEL: func.func @untouched
func.func @untouched(%x: tensor<4x8xf32>, %w: tensor<8x16xf32>) -> (tensor<4x16xf32>, tensor<4x8xf32>, tensor<4x16xf32>) {
  // CHECK-NOT: kerf.slice
  %y = kerf.dot_general %x, %w {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>}
      : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  %p = kerf.all_reduce %y {axes = array<i64: 0, 1, 2>, kind = #kerf<reduce_kind sum>, stream = "gradients", cause = "test"}
      : (tensor<4x16xf32>) -> !kerf.pending<tensor<4x16xf32>>
  %0 = kerf.wait %p : (!kerf.pending<tensor<4x16xf32>>) -> tensor<4x16xf32>
  %t = kerf.tanh %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %q = kerf.all_reduce %t {axes = array<i64: 0, 1, 2>, kind = #kerf<reduce_kind sum>, stream = "collectives", cause = "test"}
      : (tensor<4x8xf32>) -> !kerf.pending<tensor<4x8xf32>>
  %1 = kerf.wait %q : (!kerf.pending<tensor<4x8xf32>>) -> tensor<4x8xf32>
  %u = kerf.dot_general %t, %w {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>}
      : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  %r = kerf.all_reduce %u {axes = array<i64: 0, 1, 2>, kind = #kerf<reduce_kind sum>, stream = "collectives", cause = "test"}
      : (tensor<4x16xf32>) -> !kerf.pending<tensor<4x16xf32>>
  %s = kerf.wait %r : (!kerf.pending<tensor<4x16xf32>>) -> tensor<4x16xf32>
  %2 = kerf.add %s, %u : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
  return %0, %1, %2 : tensor<4x16xf32>, tensor<4x8xf32>, tensor<4x16xf32>
}
