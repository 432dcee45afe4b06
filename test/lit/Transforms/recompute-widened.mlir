// RUN: kerf-opt %s -kerf-recompute-widened -split-input-file | FileCheck %s

// A difference to a mean is computed again from 16-bit numbers for each op that reads it.
// CHECK-LABEL: func.func @twice
// CHECK-SAME: %[[X:.*]]: tensor<32x64xbf16>, %[[M:.*]]: tensor<64xf32>
// CHECK-COUNT-2: kerf.convert %[[X]]
// CHECK-NOT: kerf.convert %[[X]]
// CHECK: return
func.func @twice(%x: tensor<32x64xbf16>, %mean: tensor<64xf32>) -> (tensor<f32>, tensor<32x64xbf16>) {
  %wide = kerf.convert %x : (tensor<32x64xbf16>) -> tensor<32x64xf32>
  %means = kerf.broadcast_in_dim %mean {broadcast_dimensions = array<i64: 1>} : (tensor<64xf32>) -> tensor<32x64xf32>
  %d = kerf.subtract %wide, %means : (tensor<32x64xf32>, tensor<32x64xf32>) -> tensor<32x64xf32>
  %sum = kerf.reduce %d {dimensions = array<i64: 0, 1>, kind = #kerf<reduce_kind sum>} : (tensor<32x64xf32>) -> tensor<f32>
  %y = kerf.convert %d : (tensor<32x64xf32>) -> tensor<32x64xbf16>
  return %sum, %y : tensor<f32>, tensor<32x64xbf16>
}

// -----

// The layer returns its 16-bit argument's product and the mean instead of their difference, and the backward function
// takes them.
// CHECK-LABEL: func.func private @layer(
// CHECK-SAME: -> (tensor<f32>, tensor<32x64xbf16>, tensor<64xf32>)
// CHECK: return %{{.*}}, %{{.*}}, %{{.*}} : tensor<f32>, tensor<32x64xbf16>, tensor<64xf32>
// CHECK-LABEL: func.func private @layer_backward(
// CHECK-SAME: %[[G:.*]]: tensor<f32>, %[[P:.*]]: tensor<32x64xbf16>, %[[M:.*]]: tensor<64xf32>)
// CHECK: %[[WIDE:.*]] = kerf.convert %[[P]]
// CHECK: %[[D:.*]] = kerf.subtract %[[WIDE]], %{{.*}}
// CHECK: kerf.multiply %[[D]], %{{.*}}
// CHECK-LABEL: func.func @main
// CHECK-NEXT: %[[R:.*]]:3 = kerf.call @layer
// CHECK-NEXT: kerf.call @layer_backward(%{{.*}}, %[[R]]#1, %[[R]]#2)
// CHECK-NEXT: return
func.func private @layer(%x: tensor<32x64xbf16>, %w: tensor<64x64xbf16>) -> (tensor<f32>, tensor<32x64xf32>) {
  %p = kerf.dot_general %x, %w {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>}
      : (tensor<32x64xbf16>, tensor<64x64xbf16>) -> tensor<32x64xbf16>
  %mean = kerf.reduce %p {dimensions = array<i64: 0>, kind = #kerf<reduce_kind sum>} : (tensor<32x64xbf16>) -> tensor<64xf32>
  %wide = kerf.convert %p : (tensor<32x64xbf16>) -> tensor<32x64xf32>
  %means = kerf.broadcast_in_dim %mean {broadcast_dimensions = array<i64: 1>} : (tensor<64xf32>) -> tensor<32x64xf32>
  %d = kerf.subtract %wide, %means : (tensor<32x64xf32>, tensor<32x64xf32>) -> tensor<32x64xf32>
  %sum = kerf.reduce %d {dimensions = array<i64: 0, 1>, kind = #kerf<reduce_kind sum>} : (tensor<32x64xf32>) -> tensor<f32>
  return %sum, %d : tensor<f32>, tensor<32x64xf32>
}
func.func private @layer_backward(%g: tensor<f32>, %d: tensor<32x64xf32>) -> tensor<32x64xf32> {
  %gs = kerf.broadcast_in_dim %g {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<32x64xf32>
  %y = kerf.multiply %d, %gs : (tensor<32x64xf32>, tensor<32x64xf32>) -> tensor<32x64xf32>
  return %y : tensor<32x64xf32>
}
func.func @main(%x: tensor<32x64xbf16>, %w: tensor<64x64xbf16>) -> tensor<32x64xf32> {
  %r:2 = kerf.call @layer(%x, %w) : (tensor<32x64xbf16>, tensor<64x64xbf16>) -> (tensor<f32>, tensor<32x64xf32>)
  %y = kerf.call @layer_backward(%r#0, %r#1) : (tensor<f32>, tensor<32x64xf32>) -> tensor<32x64xf32>
  return %y : tensor<32x64xf32>
}

// -----

// What an op with a math routine computes is stored, as is a sum of two tensors of its own width.
// CHECK-LABEL: func.func @stored
// CHECK-COUNT-1: kerf.exponential
// CHECK-NOT: kerf.exponential
// CHECK-COUNT-1: kerf.add
// CHECK-NOT: kerf.add
// CHECK: return
func.func @stored(%x: tensor<32x64xbf16>, %a: tensor<32x64xf32>, %b: tensor<32x64xf32>) -> (tensor<f32>, tensor<f32>, tensor<32x64xf32>, tensor<32x64xf32>) {
  %wide = kerf.convert %x : (tensor<32x64xbf16>) -> tensor<32x64xf32>
  %e = kerf.exponential %wide : (tensor<32x64xf32>) -> tensor<32x64xf32>
  %c = kerf.add %a, %b : (tensor<32x64xf32>, tensor<32x64xf32>) -> tensor<32x64xf32>
  %sumE = kerf.reduce %e {dimensions = array<i64: 0, 1>, kind = #kerf<reduce_kind sum>} : (tensor<32x64xf32>) -> tensor<f32>
  %sumC = kerf.reduce %c {dimensions = array<i64: 0, 1>, kind = #kerf<reduce_kind sum>} : (tensor<32x64xf32>) -> tensor<f32>
  %ee = kerf.multiply %e, %e : (tensor<32x64xf32>, tensor<32x64xf32>) -> tensor<32x64xf32>
  %cc = kerf.multiply %c, %c : (tensor<32x64xf32>, tensor<32x64xf32>) -> tensor<32x64xf32>
  return %sumE, %sumC, %ee, %cc : tensor<f32>, tensor<f32>, tensor<32x64xf32>, tensor<32x64xf32>
}

// -----

// A product in f32 that one op reads is computed right before this op, so that the 16-bit factor is kept until then.
// CHECK-LABEL: func.func @once
// CHECK-SAME: %[[X:.*]]: tensor<32x64xbf16>, %[[F:.*]]: tensor<64xf32>
// CHECK: %[[SUM:.*]] = kerf.reduce
// CHECK: %[[WIDE:.*]] = kerf.convert %[[X]]
// CHECK: %[[P:.*]] = kerf.multiply %[[WIDE]], %{{.*}}
// CHECK-NEXT: kerf.add %[[P]], %{{.*}}
// CHECK-NOT: kerf.multiply
func.func @once(%x: tensor<32x64xbf16>, %f: tensor<64xf32>) -> tensor<32x64xf32> {
  %wide = kerf.convert %x : (tensor<32x64xbf16>) -> tensor<32x64xf32>
  %factors = kerf.broadcast_in_dim %f {broadcast_dimensions = array<i64: 1>} : (tensor<64xf32>) -> tensor<32x64xf32>
  %p = kerf.multiply %wide, %factors : (tensor<32x64xf32>, tensor<32x64xf32>) -> tensor<32x64xf32>
  %sum = kerf.reduce %wide {dimensions = array<i64: 0>, kind = #kerf<reduce_kind sum>} : (tensor<32x64xf32>) -> tensor<64xf32>
  %sums = kerf.broadcast_in_dim %sum {broadcast_dimensions = array<i64: 1>} : (tensor<64xf32>) -> tensor<32x64xf32>
  %y = kerf.add %p, %sums : (tensor<32x64xf32>, tensor<32x64xf32>) -> tensor<32x64xf32>
  return %y : tensor<32x64xf32>
}

// -----

// The gradient that a block passes on is a sum, which only a pointwise op of the block before it reads. The block returns
// the two summands, and the other one adds them.
// CHECK-LABEL: func.func private @block_backward(
// CHECK-SAME: %[[Y:.*]]: tensor<32x64xbf16>, %[[W:.*]]: tensor<64x64xbf16>, %[[A:.*]]: tensor<32x64xbf16>, %[[B:.*]]: tensor<32x64xbf16>) -> (tensor<32x64xbf16>, tensor<32x64xbf16>)
// CHECK: %[[SUM:.*]] = kerf.add %[[A]], %[[B]]
// CHECK: %[[G:.*]] = kerf.multiply %[[SUM]], %[[Y]]
// CHECK: %[[P:.*]] = kerf.dot_general %[[G]], %[[W]]
// CHECK-NOT: kerf.add
// CHECK: return %{{(.*, .*)}} : tensor<32x64xbf16>, tensor<32x64xbf16>
// CHECK-LABEL: func.func @main
// CHECK: %[[R:.*]]:2 = kerf.call @block_backward(%{{.*}}, %{{.*}}, %arg2, %arg3)
// CHECK-NEXT: kerf.call @block_backward(%{{.*}}, %{{.*}}, %[[R]]#{{[01]}}, %[[R]]#{{[01]}})
func.func private @block_backward(%y: tensor<32x64xbf16>, %w: tensor<64x64xbf16>, %dy: tensor<32x64xbf16>) -> tensor<32x64xbf16> {
  %g = kerf.multiply %dy, %y : (tensor<32x64xbf16>, tensor<32x64xbf16>) -> tensor<32x64xbf16>
  %p = kerf.dot_general %g, %w {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>}
      : (tensor<32x64xbf16>, tensor<64x64xbf16>) -> tensor<32x64xbf16>
  %dx = kerf.add %g, %p : (tensor<32x64xbf16>, tensor<32x64xbf16>) -> tensor<32x64xbf16>
  return %dx : tensor<32x64xbf16>
}
func.func @main(%y: tensor<32x64xbf16>, %w: tensor<64x64xbf16>, %a: tensor<32x64xbf16>, %b: tensor<32x64xbf16>) -> tensor<32x64xbf16> {
  %sum = kerf.add %a, %b : (tensor<32x64xbf16>, tensor<32x64xbf16>) -> tensor<32x64xbf16>
  %0 = kerf.call @block_backward(%y, %w, %sum) : (tensor<32x64xbf16>, tensor<64x64xbf16>, tensor<32x64xbf16>) -> tensor<32x64xbf16>
  %1 = kerf.call @block_backward(%y, %w, %0) : (tensor<32x64xbf16>, tensor<64x64xbf16>, tensor<32x64xbf16>) -> tensor<32x64xbf16>
  %z = kerf.negate %1 : (tensor<32x64xbf16>) -> tensor<32x64xbf16>
  return %z : tensor<32x64xbf16>
}

// -----

// A product reads the sum too, so the function that computes it stores it. So does a function whose sum the backward pass
// reads, because it would keep two tensors until then instead of one.
// CHECK-LABEL: func.func private @stored_sum(
// CHECK: kerf.add
// CHECK: return %{{[^,]*}} : tensor<32x64xbf16>
// CHECK-LABEL: func.func private @saved_sum(
// CHECK: kerf.add
// CHECK: return %{{[^,]*}} : tensor<32x64xbf16>
func.func private @stored_sum(%x: tensor<32x64xbf16>, %y: tensor<32x64xbf16>) -> tensor<32x64xbf16> {
  %sum = kerf.add %x, %y : (tensor<32x64xbf16>, tensor<32x64xbf16>) -> tensor<32x64xbf16>
  return %sum : tensor<32x64xbf16>
}
func.func private @saved_sum(%x: tensor<32x64xbf16>, %y: tensor<32x64xbf16>) -> tensor<32x64xbf16> {
  %sum = kerf.add %x, %y : (tensor<32x64xbf16>, tensor<32x64xbf16>) -> tensor<32x64xbf16>
  return %sum : tensor<32x64xbf16>
}
func.func @main(%x: tensor<32x64xbf16>, %y: tensor<32x64xbf16>, %w: tensor<64x64xbf16>) -> (tensor<32x64xbf16>, tensor<32x64xbf16>, tensor<32x64xbf16>) {
  %0 = kerf.call @stored_sum(%x, %y) : (tensor<32x64xbf16>, tensor<32x64xbf16>) -> tensor<32x64xbf16>
  %p = kerf.dot_general %0, %w {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>}
      : (tensor<32x64xbf16>, tensor<64x64xbf16>) -> tensor<32x64xbf16>
  %n = kerf.negate %0 : (tensor<32x64xbf16>) -> tensor<32x64xbf16>
  %1 = kerf.call @saved_sum(%x, %y) : (tensor<32x64xbf16>, tensor<32x64xbf16>) -> tensor<32x64xbf16>
  %d = kerf.negate %1 {kerf.backward} : (tensor<32x64xbf16>) -> tensor<32x64xbf16>
  return %p, %n, %d : tensor<32x64xbf16>, tensor<32x64xbf16>, tensor<32x64xbf16>
}

// -----

// Rotary embeddings exchange the halves of each row in 16 bits, and the kernel that reads them widens them.
// CHECK-LABEL: func.func @rotary
// CHECK: %[[HIGH:.*]] = kerf.slice %arg0 {{.*}} -> tensor<32x32xbf16>
// CHECK: %[[MINUS:.*]] = kerf.negate %{{.*}} : (tensor<32x32xbf16>) -> tensor<32x32xbf16>
// CHECK: %[[LOW:.*]] = kerf.slice %arg0 {{.*}} -> tensor<32x32xbf16>
// CHECK: %[[ROTATED:.*]] = kerf.concatenate %[[MINUS]], %[[LOW]] {dimension = 1 : i64} : (tensor<32x32xbf16>, tensor<32x32xbf16>) -> tensor<32x64xbf16>
// CHECK: kerf.convert %[[ROTATED]] : (tensor<32x64xbf16>) -> tensor<32x64xf32>
// CHECK-NOT: kerf.concatenate
func.func @rotary(%x: tensor<32x64xbf16>, %sin: tensor<32x64xf32>) -> tensor<32x64xf32> {
  %high = kerf.slice %x {start = array<i64: 0, 32>, limit = array<i64: 32, 64>, strides = array<i64: 1, 1>} : (tensor<32x64xbf16>) -> tensor<32x32xbf16>
  %minus = kerf.negate %high : (tensor<32x32xbf16>) -> tensor<32x32xbf16>
  %a = kerf.convert %minus : (tensor<32x32xbf16>) -> tensor<32x32xf32>
  %wide = kerf.convert %x : (tensor<32x64xbf16>) -> tensor<32x64xf32>
  %b = kerf.slice %wide {start = array<i64: 0, 0>, limit = array<i64: 32, 32>, strides = array<i64: 1, 1>} : (tensor<32x64xf32>) -> tensor<32x32xf32>
  %rotated = kerf.concatenate %a, %b {dimension = 1 : i64} : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x64xf32>
  %y = kerf.multiply %rotated, %sin : (tensor<32x64xf32>, tensor<32x64xf32>) -> tensor<32x64xf32>
  return %y : tensor<32x64xf32>
}

// -----

// One of the tensors is float32 to begin with, so nothing is concatenated in 16 bits.
// CHECK-LABEL: func.func @one_is_wide
// CHECK: kerf.concatenate {{.*}} -> tensor<32x64xf32>
func.func @one_is_wide(%x: tensor<32x32xbf16>, %b: tensor<32x32xf32>) -> tensor<32x64xf32> {
  %a = kerf.convert %x : (tensor<32x32xbf16>) -> tensor<32x32xf32>
  %y = kerf.concatenate %a, %b {dimension = 1 : i64} : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x64xf32>
  return %y : tensor<32x64xf32>
}
