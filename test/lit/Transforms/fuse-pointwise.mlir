// RUN: kerf-opt --kerf-fuse-pointwise --split-input-file %s | FileCheck %s
// RUN: kerf-opt "--kerf-fuse-pointwise=leave-biases" --split-input-file %s | FileCheck %s --check-prefix=LEAVE

// A bias that is added to every row and the ops after it are one kernel; a value that others read is a result
// of the kernel.
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

// Equal chains share a function, which contains their constants. The task is that of the ops.
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

// The product reads the sum before the difference could be computed: two kernels would wait for each other.
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

// Delaying the sum beyond the product would keep two tensors alive instead of one. A comparison of values that stay
// alive anyway may be delayed.
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

// Not fused: integers, a single op, a broadcast whose rows are too short. A single op on 16-bit floats is.
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

// -----

// Reductions of a kernel's values are results of the kernel, over the same dimensions for all of them.
// CHECK: func.func private @fused_multiply_reduce_reduce(%[[X:.*]]: tensor<8x64xf32>, %[[Y:.*]]: tensor<8x64xf32>)
// CHECK-SAME: -> (tensor<8x64xf32>, tensor<64xf32>, tensor<64xf32>) attributes {kerf.kernel}
// CHECK-NEXT: %[[P:.*]] = kerf.multiply %[[X]], %[[Y]]
// CHECK-NEXT: %[[S:.*]] = kerf.reduce %[[P]] {dimensions = array<i64: 0>, kind = #kerf<reduce_kind sum>}
// CHECK-NEXT: %[[M:.*]] = kerf.reduce %[[P]] {dimensions = array<i64: 0>, kind = #kerf<reduce_kind max>}
// CHECK-NEXT: return %[[P]], %[[S]], %[[M]]
// CHECK-LABEL: func.func @reductions_end_a_chain
func.func @reductions_end_a_chain(%x: tensor<8x64xf32>, %y: tensor<8x64xf32>) -> (tensor<8x64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<8xf32>) {
  // CHECK-NEXT: %[[K:.*]]:3 = kerf.call @fused_multiply_reduce_reduce(%arg0, %arg1)
  // CHECK-NEXT: %[[R:.*]] = kerf.reduce %[[K]]#0
  // CHECK-NEXT: return %[[K]]#0, %[[K]]#1, %[[K]]#2, %[[R]]
  %p = kerf.multiply %x, %y : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
  %s = kerf.reduce %p {dimensions = array<i64: 0>, kind = #kerf<reduce_kind sum>} : (tensor<8x64xf32>) -> tensor<64xf32>
  %m = kerf.reduce %p {dimensions = array<i64: 0>, kind = #kerf<reduce_kind max>} : (tensor<8x64xf32>) -> tensor<64xf32>
  %r = kerf.reduce %p {dimensions = array<i64: 1>, kind = #kerf<reduce_kind sum>} : (tensor<8x64xf32>) -> tensor<8xf32>
  return %p, %s, %m, %r : tensor<8x64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<8xf32>
}

// -----

// The result of a kernel's reduction exists only after the kernel, so its reader begins another kernel, which contains
// the broadcast.
// CHECK-LABEL: func.func @what_is_reduced_is_read_by_the_next_kernel
func.func @what_is_reduced_is_read_by_the_next_kernel(%x: tensor<64x32xf32>, %y: tensor<64x32xf32>) -> tensor<64x32xf32> {
  // CHECK-NEXT: %[[K:.*]]:2 = kerf.call @fused_add_reduce(%arg0, %arg1)
  // CHECK-NEXT: %[[Z:.*]] = kerf.call @fused_divide_negate(%[[K]]#0, %[[K]]#1)
  // CHECK-NEXT: return %[[Z]]
  %p = kerf.add %x, %y : (tensor<64x32xf32>, tensor<64x32xf32>) -> tensor<64x32xf32>
  %s = kerf.reduce %p {dimensions = array<i64: 1>, kind = #kerf<reduce_kind sum>} : (tensor<64x32xf32>) -> tensor<64xf32>
  %b = kerf.broadcast_in_dim %s {broadcast_dimensions = array<i64: 0>} : (tensor<64xf32>) -> tensor<64x32xf32>
  %q = kerf.divide %p, %b : (tensor<64x32xf32>, tensor<64x32xf32>) -> tensor<64x32xf32>
  %z = kerf.negate %q : (tensor<64x32xf32>) -> tensor<64x32xf32>
  return %z : tensor<64x32xf32>
}

// -----

// A reduction to few numbers runs in one thread, so its kernel contains only cheap ops whose results are not stored,
// and no math routines.
// CHECK-LABEL: func.func @few_results_are_one_threads_work
func.func @few_results_are_one_threads_work(%x: tensor<64x32xf32>) -> (tensor<f32>, tensor<f32>, tensor<f32>, tensor<64x32xf32>) {
  // CHECK: kerf.call @fused_multiply_reduce(%arg0)
  // CHECK-NEXT: %[[T:.*]] = kerf.tanh
  // CHECK-NEXT: kerf.reduce %[[T]]
  // CHECK-NEXT: %[[N:.*]] = kerf.negate
  // CHECK-NEXT: kerf.reduce %[[N]]
  %p = kerf.multiply %x, %x : (tensor<64x32xf32>, tensor<64x32xf32>) -> tensor<64x32xf32>
  %0 = kerf.reduce %p {dimensions = array<i64: 0, 1>, kind = #kerf<reduce_kind sum>} : (tensor<64x32xf32>) -> tensor<f32>
  %t = kerf.tanh %x : (tensor<64x32xf32>) -> tensor<64x32xf32>
  %1 = kerf.reduce %t {dimensions = array<i64: 0, 1>, kind = #kerf<reduce_kind sum>} : (tensor<64x32xf32>) -> tensor<f32>
  %n = kerf.negate %x : (tensor<64x32xf32>) -> tensor<64x32xf32>
  %2 = kerf.reduce %n {dimensions = array<i64: 0, 1>, kind = #kerf<reduce_kind min>} : (tensor<64x32xf32>) -> tensor<f32>
  return %0, %1, %2, %n : tensor<f32>, tensor<f32>, tensor<f32>, tensor<64x32xf32>
}

// -----

// The result of a math routine is not reduced in its kernel if it is stored, and is if it is not. A single reduction of
// 16-bit floats is a kernel; one of float32 or of short rows is not.
// CHECK-LABEL: func.func @reductions_beside_routines_and_alone
func.func @reductions_beside_routines_and_alone(%x: tensor<64x32xf32>, %h: tensor<64x32xbf16>, %s: tensor<64x8xf32>) -> (tensor<64x32xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>) {
  // CHECK-NEXT: %[[T:.*]] = kerf.tanh
  // CHECK-NEXT: kerf.reduce %[[T]]
  // CHECK-NEXT: kerf.call @fused_exponential_reduce(%arg0)
  // CHECK-NEXT: kerf.call @fused_reduce(%arg1)
  // CHECK-NEXT: kerf.reduce %arg0
  // CHECK-NEXT: kerf.negate
  // CHECK-NEXT: kerf.reduce
  %t = kerf.tanh %x : (tensor<64x32xf32>) -> tensor<64x32xf32>
  %0 = kerf.reduce %t {dimensions = array<i64: 1>, kind = #kerf<reduce_kind sum>} : (tensor<64x32xf32>) -> tensor<64xf32>
  %e = kerf.exponential %x : (tensor<64x32xf32>) -> tensor<64x32xf32>
  %1 = kerf.reduce %e {dimensions = array<i64: 1>, kind = #kerf<reduce_kind sum>} : (tensor<64x32xf32>) -> tensor<64xf32>
  %2 = kerf.reduce %h {dimensions = array<i64: 1>, kind = #kerf<reduce_kind sum>} : (tensor<64x32xbf16>) -> tensor<64xf32>
  %3 = kerf.reduce %x {dimensions = array<i64: 1>, kind = #kerf<reduce_kind max>} : (tensor<64x32xf32>) -> tensor<64xf32>
  %n = kerf.negate %s : (tensor<64x8xf32>) -> tensor<64x8xf32>
  %4 = kerf.reduce %n {dimensions = array<i64: 1>, kind = #kerf<reduce_kind sum>} : (tensor<64x8xf32>) -> tensor<64xf32>
  return %t, %0, %1, %2, %3, %4 : tensor<64x32xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>
}

// -----

// The gradients of silu(gate) * up: the product needs the gradient of `up`, and the gradient of `gate` comes after the
// product. It moves up, because it alone reads %dsilu and %sig, so one kernel writes both gradients.
// CHECK: func.func private @fused_multiply_logistic_subtract_and_4_more({{.*}}) -> (tensor<8x64xf32>, tensor<8x64xf32>)
// CHECK-LABEL: func.func @a_chain_after_a_product_moves_up
func.func @a_chain_after_a_product_moves_up(%gate: tensor<8x64xf32>, %up: tensor<8x64xf32>, %dh: tensor<8x64xf32>, %w: tensor<64x64xf32>) -> (tensor<8x64xf32>, tensor<8x64xf32>) {
  // CHECK-NEXT: %[[G:.*]]:2 = kerf.call @fused_multiply_logistic_subtract_and_4_more
  // CHECK-NEXT: %[[P:.*]] = kerf.dot_general %[[G]]#1, %arg3
  // CHECK-NEXT: return %[[P]], %[[G]]#0
  %dsilu = kerf.multiply %dh, %up : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
  %sig = kerf.logistic %gate : (tensor<8x64xf32>) -> tensor<8x64xf32>
  %silu = kerf.multiply %gate, %sig : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
  %dup = kerf.multiply %dh, %silu : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
  %p = kerf.dot_general %dup, %w {lhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_batching = array<i64>, rhs_contracting = array<i64: 0>} : (tensor<8x64xf32>, tensor<64x64xf32>) -> tensor<8x64xf32>
  %c = kerf.constant dense<1.0> : tensor<f32>
  %one = kerf.broadcast_in_dim %c {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<8x64xf32>
  %rest = kerf.subtract %one, %sig : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
  %slope = kerf.multiply %sig, %rest : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
  %dgate = kerf.multiply %dsilu, %slope : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
  return %p, %dgate : tensor<8x64xf32>, tensor<8x64xf32>
}

// -----

// The product reads %a itself, so nothing is saved where the chain after it moves up: it stays.
// CHECK-LABEL: func.func @a_chain_that_saves_nothing_stays
func.func @a_chain_that_saves_nothing_stays(%x: tensor<8x64xf32>, %y: tensor<8x64xf32>, %w: tensor<64x64xf32>) -> (tensor<8x64xf32>, tensor<8x64xf32>) {
  // CHECK-NEXT: %[[A:.*]] = kerf.call @fused_add_tanh
  // CHECK-NEXT: %[[P:.*]] = kerf.dot_general %[[A]], %arg2
  // CHECK-NEXT: %[[Z:.*]] = kerf.call @fused_negate_multiply(%[[A]])
  // CHECK-NEXT: return %[[P]], %[[Z]]
  %s = kerf.add %x, %y : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
  %a = kerf.tanh %s : (tensor<8x64xf32>) -> tensor<8x64xf32>
  %p = kerf.dot_general %a, %w {lhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_batching = array<i64>, rhs_contracting = array<i64: 0>} : (tensor<8x64xf32>, tensor<64x64xf32>) -> tensor<8x64xf32>
  %n = kerf.negate %a : (tensor<8x64xf32>) -> tensor<8x64xf32>
  %z = kerf.multiply %n, %n : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
  return %p, %z : tensor<8x64xf32>, tensor<8x64xf32>
}

// -----

// With leave-biases, GELU reads the sum of the product and its bias, which the product stores. Without it, one kernel
// stores this sum for the product that reads it, and GELU.
// LEAVE-LABEL: func.func @bias_of_product
// LEAVE: %[[P:.*]] = kerf.dot_general
// LEAVE: %[[S:.*]] = kerf.{{call @fused_add|add}}{{.*}}%[[P]]
// LEAVE: %[[Y:.*]] = kerf.{{call @fused_gelu|gelu}}{{[ (]*}}%[[S]]
// LEAVE: return %[[S]], %[[Y]]
// CHECK-LABEL: func.func @bias_of_product
// CHECK: kerf.call @fused_add_gelu
func.func @bias_of_product(%x: tensor<8x64xbf16>, %w: tensor<64x64xbf16>, %b: tensor<64xbf16>) -> (tensor<8x64xbf16>, tensor<8x64xbf16>) {
  %p = kerf.dot_general %x, %w {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>}
      : (tensor<8x64xbf16>, tensor<64x64xbf16>) -> tensor<8x64xbf16>
  %bias = kerf.broadcast_in_dim %b {broadcast_dimensions = array<i64: 1>} : (tensor<64xbf16>) -> tensor<8x64xbf16>
  %s = kerf.add %p, %bias : (tensor<8x64xbf16>, tensor<8x64xbf16>) -> tensor<8x64xbf16>
  %y = kerf.gelu %s : (tensor<8x64xbf16>) -> tensor<8x64xbf16>
  return %s, %y : tensor<8x64xbf16>, tensor<8x64xbf16>
}
