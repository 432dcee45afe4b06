// RUN: kerf-opt %s -canonicalize -split-input-file | FileCheck %s

// CHECK-LABEL: @what_changes_nothing_is_gone
// CHECK-SAME: (%[[X:.*]]: tensor<4x8xf32>)
func.func @what_changes_nothing_is_gone(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = kerf.reshape %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = kerf.transpose %0 {permutation = array<i64: 0, 1>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = kerf.slice %1 {start = array<i64: 0, 0>, limit = array<i64: 4, 8>, strides = array<i64: 1, 1>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %3 = kerf.broadcast_in_dim %2 {broadcast_dimensions = array<i64: 0, 1>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %4 = kerf.convert %3 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK-NEXT: return %[[X]]
  return %4 : tensor<4x8xf32>
}

// -----

// CHECK-LABEL: @a_reshape_of_a_reshape_is_one
// CHECK-SAME: (%[[X:.*]]: tensor<4x8xf32>)
func.func @a_reshape_of_a_reshape_is_one(%x: tensor<4x8xf32>) -> (tensor<2x16xf32>, tensor<4x8xf32>) {
  %0 = kerf.reshape %x : (tensor<4x8xf32>) -> tensor<32xf32>
  // CHECK-NEXT: %[[Y:.*]] = kerf.reshape %[[X]] : (tensor<4x8xf32>) -> tensor<2x16xf32>
  %1 = kerf.reshape %0 : (tensor<32xf32>) -> tensor<2x16xf32>
  %2 = kerf.reshape %0 : (tensor<32xf32>) -> tensor<4x8xf32>
  // CHECK-NEXT: return %[[Y]], %[[X]]
  return %1, %2 : tensor<2x16xf32>, tensor<4x8xf32>
}

// -----

// CHECK-LABEL: @a_transpose_of_a_transpose_is_one
// CHECK-SAME: (%[[X:.*]]: tensor<2x3x4xf32>)
func.func @a_transpose_of_a_transpose_is_one(%x: tensor<2x3x4xf32>) -> (tensor<4x3x2xf32>, tensor<2x3x4xf32>) {
  %0 = kerf.transpose %x {permutation = array<i64: 1, 2, 0>} : (tensor<2x3x4xf32>) -> tensor<3x4x2xf32>
  // CHECK-NEXT: %[[Y:.*]] = kerf.transpose %[[X]] {permutation = array<i64: 2, 1, 0>} : (tensor<2x3x4xf32>) -> tensor<4x3x2xf32>
  %1 = kerf.transpose %0 {permutation = array<i64: 1, 0, 2>} : (tensor<3x4x2xf32>) -> tensor<4x3x2xf32>
  %2 = kerf.transpose %0 {permutation = array<i64: 2, 0, 1>} : (tensor<3x4x2xf32>) -> tensor<2x3x4xf32>
  // CHECK-NEXT: return %[[Y]], %[[X]]
  return %1, %2 : tensor<4x3x2xf32>, tensor<2x3x4xf32>
}

// -----

// CHECK-LABEL: @a_moved_constant_is_a_constant
func.func @a_moved_constant_is_a_constant() -> (tensor<2x2xi32>, tensor<3x2xf32>, tensor<2x2xi32>) {
  %0 = kerf.constant dense<[1, 2, 3, 4]> : tensor<4xi32>
  %1 = kerf.constant dense<1.0> : tensor<2x3xf32>
  // CHECK-DAG: %[[SQUARE:.*]] = kerf.constant dense<{{\[}}[1, 2], [3, 4]]> : tensor<2x2xi32>
  %2 = kerf.reshape %0 : (tensor<4xi32>) -> tensor<2x2xi32>
  // CHECK-DAG: %[[SPLAT:.*]] = kerf.constant dense<1.000000e+00> : tensor<3x2xf32>
  %3 = kerf.transpose %1 {permutation = array<i64: 1, 0>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  // CHECK-DAG: %[[TURNED:.*]] = kerf.transpose %[[SQUARE]]
  %4 = kerf.transpose %2 {permutation = array<i64: 1, 0>} : (tensor<2x2xi32>) -> tensor<2x2xi32>
  // CHECK: return %[[SQUARE]], %[[SPLAT]], %[[TURNED]]
  return %2, %3, %4 : tensor<2x2xi32>, tensor<3x2xf32>, tensor<2x2xi32>
}

// -----

// A sum of 16-bit elements of which only an f32 conversion is used becomes an f32 sum, also behind ops that move or add
// elements. Other sums keep their type.

// CHECK-LABEL: @sums_for_f32_are_f32
// CHECK-SAME: (%[[X:.*]]: tensor<4x8xbf16>, %[[Y:.*]]: tensor<8x4xbf16>)
func.func @sums_for_f32_are_f32(%x: tensor<4x8xbf16>, %y: tensor<8x4xbf16>) -> (tensor<4x4xf32>, tensor<8xf32>, tensor<4x4xbf16>, tensor<4x4xf32>, tensor<f32>) {
  // CHECK: %[[C:.*]] = kerf.constant dense<5.000000e-01> : tensor<f32>
  // CHECK: %[[D:.*]] = kerf.dot_general %[[X]], %[[Y]] {{.*}} : (tensor<4x8xbf16>, tensor<8x4xbf16>) -> tensor<4x4xf32>
  %d = kerf.dot_general %x, %y {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>} : (tensor<4x8xbf16>, tensor<8x4xbf16>) -> tensor<4x4xbf16>
  // CHECK: %[[T:.*]] = kerf.transpose %[[D]] {{.*}} -> tensor<4x4xf32>
  %t = kerf.transpose %d {permutation = array<i64: 1, 0>} : (tensor<4x4xbf16>) -> tensor<4x4xbf16>
  %t32 = kerf.convert %t : (tensor<4x4xbf16>) -> tensor<4x4xf32>
  // CHECK: %[[R:.*]] = kerf.reduce %[[X]] {{.*}} : (tensor<4x8xbf16>) -> tensor<8xf32>
  %r = kerf.reduce %x {kind = #kerf<reduce_kind sum>, dimensions = array<i64: 0>} : (tensor<4x8xbf16>) -> tensor<8xbf16>
  %r32 = kerf.convert %r : (tensor<8xbf16>) -> tensor<8xf32>
  // CHECK: %[[E:.*]] = kerf.dot_general {{.*}} -> tensor<4x4xbf16>
  %e = kerf.dot_general %x, %y {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>} : (tensor<4x8xbf16>, tensor<8x4xbf16>) -> tensor<4x4xbf16>
  // CHECK: %[[E32:.*]] = kerf.convert %[[E]]
  %e32 = kerf.convert %e : (tensor<4x4xbf16>) -> tensor<4x4xf32>
  %c = kerf.constant dense<0.5> : tensor<bf16>
  %c32 = kerf.convert %c : (tensor<bf16>) -> tensor<f32>
  // CHECK: return %[[T]], %[[R]], %[[E]], %[[E32]], %[[C]]
  return %t32, %r32, %e, %e32, %c32 : tensor<4x4xf32>, tensor<8xf32>, tensor<4x4xbf16>, tensor<4x4xf32>, tensor<f32>
}

// -----

// The gradients of the slices of a tensor become one tensor, whatever their order is.

// CHECK-LABEL: @a_sum_of_padded_parts_is_a_concatenation
// CHECK-SAME: (%[[A:.*]]: tensor<2x3xf32>, %[[B:.*]]: tensor<2x1xf32>, %[[C:.*]]: tensor<2x4xf32>)
func.func @a_sum_of_padded_parts_is_a_concatenation(%a: tensor<2x3xf32>, %b: tensor<2x1xf32>, %c: tensor<2x4xf32>) -> tensor<2x8xf32> {
  %zero = kerf.constant dense<0.0> : tensor<f32>
  %0 = kerf.pad %c, %zero {low = array<i64: 0, 4>, high = array<i64: 0, 0>, interior = array<i64: 0, 0>} : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x8xf32>
  %1 = kerf.pad %a, %zero {low = array<i64: 0, 0>, high = array<i64: 0, 5>, interior = array<i64: 0, 0>} : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x8xf32>
  %2 = kerf.pad %b, %zero {low = array<i64: 0, 3>, high = array<i64: 0, 4>, interior = array<i64: 0, 0>} : (tensor<2x1xf32>, tensor<f32>) -> tensor<2x8xf32>
  %3 = kerf.add %0, %1 : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  %4 = kerf.add %3, %2 : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  // CHECK-NEXT: %[[ALL:.*]] = kerf.concatenate %[[A]], %[[B]], %[[C]] {dimension = 1 : i64}
  // CHECK-NEXT: return %[[ALL]]
  return %4 : tensor<2x8xf32>
}

// -----

// CHECK-LABEL: @another_summand_is_added_to_the_concatenation
// CHECK-SAME: (%[[A:.*]]: tensor<3xf32>, %[[B:.*]]: tensor<2xf32>, %[[X:.*]]: tensor<7xf32>)
func.func @another_summand_is_added_to_the_concatenation(%a: tensor<3xf32>, %b: tensor<2xf32>, %x: tensor<7xf32>) -> tensor<7xf32> {
  %zero = kerf.constant dense<0.0> : tensor<f32>
  // CHECK-NEXT: %[[ZERO:.*]] = kerf.constant
  %0 = kerf.pad %a, %zero {low = array<i64: 1>, high = array<i64: 3>, interior = array<i64: 0>} : (tensor<3xf32>, tensor<f32>) -> tensor<7xf32>
  %1 = kerf.add %x, %0 : (tensor<7xf32>, tensor<7xf32>) -> tensor<7xf32>
  %2 = kerf.pad %b, %zero {low = array<i64: 4>, high = array<i64: 1>, interior = array<i64: 0>} : (tensor<2xf32>, tensor<f32>) -> tensor<7xf32>
  // CHECK-NEXT: %[[ALL:.*]] = kerf.concatenate %[[A]], %[[B]] {dimension = 0 : i64}
  // CHECK-NEXT: %[[PAD:.*]] = kerf.pad %[[ALL]], %[[ZERO]] {high = array<i64: 1>, interior = array<i64: 0>, low = array<i64: 1>}
  // CHECK-NEXT: %[[SUM:.*]] = kerf.add %[[X]], %[[PAD]]
  // CHECK-NEXT: return %[[SUM]]
  %3 = kerf.add %1, %2 : (tensor<7xf32>, tensor<7xf32>) -> tensor<7xf32>
  return %3 : tensor<7xf32>
}

// -----

// Parts that overlap, that leave a gap, or that another op reads, stay as they are.

// CHECK-LABEL: @other_sums_of_padded_parts_stay
func.func @other_sums_of_padded_parts_stay(%a: tensor<3xf32>, %b: tensor<2xf32>) -> (tensor<6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>) {
  // CHECK-NOT: concatenate
  %zero = kerf.constant dense<0.0> : tensor<f32>
  %one = kerf.constant dense<1.0> : tensor<f32>
  %0 = kerf.pad %a, %zero {low = array<i64: 0>, high = array<i64: 3>, interior = array<i64: 0>} : (tensor<3xf32>, tensor<f32>) -> tensor<6xf32>
  %1 = kerf.pad %b, %zero {low = array<i64: 2>, high = array<i64: 2>, interior = array<i64: 0>} : (tensor<2xf32>, tensor<f32>) -> tensor<6xf32>
  %2 = kerf.add %0, %1 : (tensor<6xf32>, tensor<6xf32>) -> tensor<6xf32>
  %3 = kerf.pad %a, %zero {low = array<i64: 0>, high = array<i64: 3>, interior = array<i64: 0>} : (tensor<3xf32>, tensor<f32>) -> tensor<6xf32>
  %4 = kerf.pad %b, %zero {low = array<i64: 4>, high = array<i64: 0>, interior = array<i64: 0>} : (tensor<2xf32>, tensor<f32>) -> tensor<6xf32>
  %5 = kerf.add %3, %4 : (tensor<6xf32>, tensor<6xf32>) -> tensor<6xf32>
  %6 = kerf.pad %b, %one {low = array<i64: 3>, high = array<i64: 1>, interior = array<i64: 0>} : (tensor<2xf32>, tensor<f32>) -> tensor<6xf32>
  %7 = kerf.pad %a, %zero {low = array<i64: 0>, high = array<i64: 3>, interior = array<i64: 0>} : (tensor<3xf32>, tensor<f32>) -> tensor<6xf32>
  %8 = kerf.add %6, %7 : (tensor<6xf32>, tensor<6xf32>) -> tensor<6xf32>
  %9 = kerf.pad %b, %zero {low = array<i64: 3>, high = array<i64: 1>, interior = array<i64: 0>} : (tensor<2xf32>, tensor<f32>) -> tensor<6xf32>
  %10 = kerf.add %9, %7 : (tensor<6xf32>, tensor<6xf32>) -> tensor<6xf32>
  return %2, %5, %8, %10 : tensor<6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>
}
