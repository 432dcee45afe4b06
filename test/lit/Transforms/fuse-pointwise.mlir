// RUN: kerf-opt --kerf-fuse-pointwise --split-input-file %s | FileCheck %s

// A bias, which is added to every row, and what follows it are one kernel; what others read of it is a result.
// CHECK: func.func private @fused_add_gelu(%[[X:.*]]: tensor<8x64xf32>, %[[B:.*]]: tensor<64xf32>)
// CHECK-SAME: attributes {kerf.kernel}
// CHECK-NEXT: %[[R:.*]] = kerf.broadcast_in_dim %[[B]]
// CHECK-NEXT: %[[S:.*]] = kerf.add %[[X]], %[[R]]
// CHECK-NEXT: %[[G:.*]] = kerf.gelu %[[S]]
// CHECK-NEXT: return %[[S]], %[[G]]
// CHECK-LABEL: func.func @a_bias_is_read_by_the_kernel
// CHECK-SAME: (%[[X:.*]]: tensor<8x64xf32>, %[[B:.*]]: tensor<64xf32>)
func.func @a_bias_is_read_by_the_kernel(%x: tensor<8x64xf32>, %bias: tensor<64xf32>) -> (tensor<8x64xf32>, tensor<8x64xf32>) {
  // CHECK-NEXT: %[[Y:.*]]:2 = kerf.call @fused_add_gelu(%[[X]], %[[B]])
  // CHECK-NEXT: return %[[Y]]#1, %[[Y]]#0
  %0 = kerf.broadcast_in_dim %bias {broadcast_dimensions = array<i64: 1>} : (tensor<64xf32>) -> tensor<8x64xf32>
  %1 = kerf.add %x, %0 : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
  %2 = kerf.gelu %1 : (tensor<8x64xf32>) -> tensor<8x64xf32>
  return %2, %1 : tensor<8x64xf32>, tensor<8x64xf32>
}

// -----

// Equal chains are one function, and constants are inside of it; the task is the op's.
// CHECK: func.func private @fused_multiply_tanh
// CHECK-NOT: func.func private
// CHECK-LABEL: func.func @equal_chains_share_a_kernel
func.func @equal_chains_share_a_kernel(%x: tensor<40xf64>, %y: tensor<40xf64>) -> (tensor<40xf64>, tensor<40xf64>) {
  // CHECK-NEXT: %[[A:.*]] = kerf.call @fused_multiply_tanh(%arg0) {kerf.task = "forward"}
  // CHECK-NEXT: %[[B:.*]] = kerf.call @fused_multiply_tanh(%arg1) {kerf.task = "backward"}
  // CHECK-NEXT: return %[[A]], %[[B]]
  %half = kerf.constant dense<0.5> : tensor<f64>
  %h = kerf.broadcast_in_dim %half {broadcast_dimensions = array<i64>, kerf.task = "forward"} : (tensor<f64>) -> tensor<40xf64>
  %0 = kerf.multiply %x, %h {kerf.task = "forward"} : (tensor<40xf64>, tensor<40xf64>) -> tensor<40xf64>
  %1 = kerf.tanh %0 {kerf.task = "forward"} : (tensor<40xf64>) -> tensor<40xf64>
  %k = kerf.broadcast_in_dim %half {broadcast_dimensions = array<i64>, kerf.task = "backward"} : (tensor<f64>) -> tensor<40xf64>
  %2 = kerf.multiply %y, %k {kerf.task = "backward"} : (tensor<40xf64>, tensor<40xf64>) -> tensor<40xf64>
  %3 = kerf.tanh %2 {kerf.task = "backward"} : (tensor<40xf64>) -> tensor<40xf64>
  return %1, %3 : tensor<40xf64>, tensor<40xf64>
}

// -----

// The product reads the sum before the difference could be there: two kernels would have to wait for each other.
// CHECK-LABEL: func.func @what_is_read_before_the_end_is_not_delayed
func.func @what_is_read_before_the_end_is_not_delayed(%x: tensor<4x4xf32>, %y: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // CHECK-NEXT: kerf.add
  // CHECK-NEXT: kerf.dot_general
  // CHECK-NEXT: kerf.call @fused_subtract_negate
  %0 = kerf.add %x, %y : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = kerf.dot_general %0, %y {lhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_batching = array<i64>, rhs_contracting = array<i64: 0>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %2 = kerf.subtract %0, %1 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %3 = kerf.negate %2 : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %3 : tensor<4x4xf32>
}

// -----

// Beside a product, a sum that waited would keep two tensors instead of one; a comparison of what is kept anyway may wait.
// CHECK-LABEL: func.func @waiting_holds_no_more_memory
func.func @waiting_holds_no_more_memory(%x: tensor<4x4xf32>, %y: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // CHECK: %[[P:.*]] = kerf.dot_general
  // CHECK-NEXT: %[[Q:.*]] = kerf.dot_general
  // CHECK-NEXT: %[[S:.*]] = kerf.call @fused_add_tanh(%[[P]], %[[Q]])
  // CHECK-NEXT: %[[D:.*]] = kerf.dot_general
  // CHECK-NEXT: kerf.call @fused_compare_multiply_select_and_1_more(%arg0, %arg1, %[[S]], %[[D]])
  %c = kerf.compare %x, %y {direction = #kerf<comparison GT>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xi1>
  %p = kerf.dot_general %x, %x {lhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_batching = array<i64>, rhs_contracting = array<i64: 0>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %q = kerf.dot_general %y, %y {lhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_batching = array<i64>, rhs_contracting = array<i64: 0>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %0 = kerf.add %p, %q : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %s = kerf.tanh %0 : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %d = kerf.dot_general %x, %y {lhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_batching = array<i64>, rhs_contracting = array<i64: 0>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %m = kerf.multiply %s, %d : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %r = kerf.select %c, %m, %x : (tensor<4x4xi1>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %z = kerf.subtract %r, %y : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %z : tensor<4x4xf32>
}

// -----

// Not of kernels: integers, one op alone, rows of a broadcast that are too short. One op of 16-bit floats is.
// CHECK-LABEL: func.func @what_stays
func.func @what_stays(%i: tensor<32xi64>, %x: tensor<8x4xf32>, %b: tensor<4xf32>, %h: tensor<32xbf16>) -> (tensor<32xi64>, tensor<8x4xf32>, tensor<32xbf16>) {
  // CHECK-NEXT: kerf.add
  // CHECK-NEXT: kerf.negate
  // CHECK-NEXT: kerf.broadcast_in_dim
  // CHECK-NEXT: kerf.add
  // CHECK-NEXT: kerf.call @fused_negate
  %0 = kerf.add %i, %i : (tensor<32xi64>, tensor<32xi64>) -> tensor<32xi64>
  %1 = kerf.negate %0 : (tensor<32xi64>) -> tensor<32xi64>
  %2 = kerf.broadcast_in_dim %b {broadcast_dimensions = array<i64: 1>} : (tensor<4xf32>) -> tensor<8x4xf32>
  %3 = kerf.add %x, %2 : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  %4 = kerf.negate %h : (tensor<32xbf16>) -> tensor<32xbf16>
  return %1, %3, %4 : tensor<32xi64>, tensor<8x4xf32>, tensor<32xbf16>
}
