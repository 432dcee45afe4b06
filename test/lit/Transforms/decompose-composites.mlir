// RUN: kerf-opt %s -split-input-file -kerf-decompose-composites -mlir-print-debuginfo -mlir-print-local-scope | FileCheck %s
// RUN: kerf-opt %s -split-input-file -kerf-decompose-composites=all | FileCheck %s --check-prefix=ALL

// Only composites are decomposed whose strategy shards a factor that requires it. The new ops keep the location and
// kerf.backward, but not the strategy.

// CHECK-LABEL: func.func @only_the_cut_softmax
// CHECK: kerf.softmax %{{.*}} {dimension = 1 : i64, kerf.strategy = {data = "i0"}}
// CHECK: %[[M:.*]] = kerf.reduce %{{.*}} {dimensions = array<i64: 1>, kerf.backward, kind = #kerf<reduce_kind max>} {{.*}} loc("scope/node")
// CHECK-NEXT: %[[B:.*]] = kerf.broadcast_in_dim %[[M]] {broadcast_dimensions = array<i64: 0>, kerf.backward}
// CHECK-NEXT: %[[D:.*]] = kerf.subtract %{{.*}}, %[[B]] {kerf.backward}
// CHECK-NEXT: %[[E:.*]] = kerf.exponential %[[D]]
// CHECK-NEXT: %[[S:.*]] = kerf.reduce %[[E]]
// CHECK-NEXT: %[[T:.*]] = kerf.broadcast_in_dim %[[S]]
// CHECK-NEXT: %[[Y:.*]] = kerf.divide %[[E]], %[[T]]
// CHECK-NEXT: return %[[Y]]
// ALL-LABEL: func.func @only_the_cut_softmax
// ALL-NOT: kerf.softmax
func.func @only_the_cut_softmax(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = kerf.softmax %x {dimension = 1 : i64, kerf.strategy = {data = "i0"}} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = kerf.softmax %0 {dimension = 1 : i64, kerf.strategy = {model = "v"}, kerf.backward} : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("scope/node")
  return %1 : tensor<4x8xf32>
}

// -----

// The label's logit is picked by comparison: a rank that holds other classes adds 0.

// CHECK-LABEL: func.func @cross_entropy_over_cut_classes
// CHECK: kerf.reduce {{.*}} kind = #kerf<reduce_kind max>
// CHECK: %[[I:.*]] = kerf.iota {dimension = 1 : i64} : () -> tensor<4x97xi64>
// CHECK: %[[L:.*]] = kerf.broadcast_in_dim %{{.*}} {broadcast_dimensions = array<i64: 0>} : (tensor<4xi64>) -> tensor<4x97xi64>
// CHECK: %[[P:.*]] = kerf.compare %[[I]], %[[L]] {direction = #kerf<comparison EQ>}
// CHECK: %[[S:.*]] = kerf.select %[[P]], %{{.*}}, %{{.*}} : (tensor<4x97xi1>
// CHECK: kerf.reduce %[[S]]
// CHECK: kerf.compare %{{.*}}, %{{.*}} {direction = #kerf<comparison NE>}
func.func @cross_entropy_over_cut_classes(%x: tensor<4x97xf32>, %y: tensor<4xi64>) -> tensor<4xf32> {
  %nll, %lse = kerf.cross_entropy %x, %y {ignore_index = -100 : i64, kerf.strategy = {model = "v"}} : (tensor<4x97xf32>, tensor<4xi64>) -> (tensor<4xf32>, tensor<4xf32>)
  return %nll : tensor<4xf32>
}

// -----

// Groups of query heads are a separate dimension: [B, G, S, R, T].

// ALL-LABEL: func.func @grouped_attention
// ALL: %[[Q:.*]] = kerf.reshape %{{.*}} : (tensor<2x8x4x16xf32>) -> tensor<2x8x2x2x16xf32>
// ALL: kerf.dot_general %[[Q]], %{{.*}} {lhs_batching = array<i64: 0, 2>, lhs_contracting = array<i64: 4>, rhs_batching = array<i64: 0, 2>, rhs_contracting = array<i64: 3>}
// ALL-SAME: -> tensor<2x2x8x2x8xf32>
// ALL: kerf.compare {{.*}} {direction = #kerf<comparison GE>} : (tensor<8x8xi64>
// ALL: kerf.broadcast_in_dim {{.*}} {broadcast_dimensions = array<i64: 2, 4>}
// ALL-NOT: kerf.attention
func.func @grouped_attention(%q: tensor<2x8x4x16xf32>, %k: tensor<2x8x2x16xf32>, %v: tensor<2x8x2x16xf32>) -> tensor<2x8x4x16xf32> {
  %out, %lse = kerf.attention %q, %k, %v {scale = 0.25 : f64, causal} : (tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x16xf32>) -> (tensor<2x8x4x16xf32>, tensor<2x4x8xf32>)
  return %out : tensor<2x8x4x16xf32>
}

// -----

// The simpler ops of a 16-bit composite compute in f32, like the composite's kernel.

// CHECK-LABEL: func.func @a_16_bit_norm
// CHECK: %[[X:.*]] = kerf.convert %{{.*}} {kerf.backward} : (tensor<4x8xbf16>) -> tensor<4x8xf32>
// CHECK: kerf.reduce {{.*}} -> tensor<4xf32>
// CHECK: %[[R:.*]] = kerf.rsqrt {{.*}} -> tensor<4xf32>
// CHECK: kerf.multiply %[[X]], %{{.*}} -> tensor<4x8xf32>
// CHECK: %[[Y:.*]] = kerf.multiply {{.*}} -> tensor<4x8xf32>
// CHECK-NEXT: %[[Y16:.*]] = kerf.convert %[[Y]] {kerf.backward} : (tensor<4x8xf32>) -> tensor<4x8xbf16>
// CHECK: return %[[Y16]], %[[R]]
func.func @a_16_bit_norm(%x: tensor<4x8xbf16>, %s: tensor<8xf32>) -> (tensor<4x8xbf16>, tensor<4xf32>) {
  %y, %rstd = kerf.rms_norm %x, %s {epsilon = 1.0e-6 : f64, kerf.strategy = {model = "d"}, kerf.backward} : (tensor<4x8xbf16>, tensor<8xf32>) -> (tensor<4x8xbf16>, tensor<4xf32>)
  return %y, %rstd : tensor<4x8xbf16>, tensor<4xf32>
}
