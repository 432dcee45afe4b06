// RUN: kerf-opt %s | kerf-opt | FileCheck %s
// The example of every op that sums over dimensions or looks elements up by index.

// CHECK-LABEL: @products
func.func @products(%x: tensor<4x8xf32>, %y: tensor<8x16xf32>, %q: tensor<2x4x3x8xf32>, %k: tensor<2x5x3x8xf32>) {
  // CHECK: kerf.dot_general %{{.*}}, %{{.*}} {lhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_batching = array<i64>, rhs_contracting = array<i64: 0>} : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  %0 = kerf.dot_general %x, %y {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>}
      : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  // Batch and heads come first in the result.
  // CHECK: kerf.dot_general %{{.*}} : (tensor<2x4x3x8xf32>, tensor<2x5x3x8xf32>) -> tensor<2x3x4x5xf32>
  %1 = kerf.dot_general %q, %k {lhs_batching = array<i64: 0, 2>, rhs_batching = array<i64: 0, 2>, lhs_contracting = array<i64: 3>, rhs_contracting = array<i64: 3>}
      : (tensor<2x4x3x8xf32>, tensor<2x5x3x8xf32>) -> tensor<2x3x4x5xf32>
  return
}

// CHECK-LABEL: @reductions
func.func @reductions(%x: tensor<4x8xf32>) {
  // CHECK: kerf.reduce %{{.*}} {dimensions = array<i64: 1>, kind = #kerf<reduce_kind sum>} : (tensor<4x8xf32>) -> tensor<4xf32>
  %0 = kerf.reduce %x {kind = #kerf<reduce_kind sum>, dimensions = array<i64: 1>} : (tensor<4x8xf32>) -> tensor<4xf32>
  // CHECK: kerf.reduce %{{.*}} {dimensions = array<i64: 0, 1>, kind = #kerf<reduce_kind max>} : (tensor<4x8xf32>) -> tensor<f32>
  %1 = kerf.reduce %x {kind = #kerf<reduce_kind max>, dimensions = array<i64: 0, 1>} : (tensor<4x8xf32>) -> tensor<f32>
  // CHECK: kerf.reduce %{{.*}} {dimensions = array<i64: 0>, kind = #kerf<reduce_kind min>} : (tensor<4x8xf32>) -> tensor<8xf32>
  %2 = kerf.reduce %x {kind = #kerf<reduce_kind min>, dimensions = array<i64: 0>} : (tensor<4x8xf32>) -> tensor<8xf32>
  return
}

// CHECK-LABEL: @lookups
func.func @lookups(%x: tensor<9x8xf32>, %i: tensor<4xi64>, %u: tensor<4x8xf32>, %ij: tensor<2x3xi32>, %each: tensor<9x2xi64>, %dy: tensor<9x2xf32>) {
  // CHECK: kerf.gather %{{.*}}, %{{.*}} {axis = 0 : i64} : (tensor<9x8xf32>, tensor<4xi64>) -> tensor<4x8xf32>
  %0 = kerf.gather %x, %i {axis = 0 : i64} : (tensor<9x8xf32>, tensor<4xi64>) -> tensor<4x8xf32>
  // CHECK: kerf.gather %{{.*}} {axis = 1 : i64} : (tensor<9x8xf32>, tensor<2x3xi32>) -> tensor<9x2x3xf32>
  %1 = kerf.gather %x, %ij {axis = 1 : i64} : (tensor<9x8xf32>, tensor<2x3xi32>) -> tensor<9x2x3xf32>
  // CHECK: kerf.scatter_add %{{.*}}, %{{.*}} {axis = 0 : i64} : (tensor<4xi64>, tensor<4x8xf32>) -> tensor<9x8xf32>
  %2 = kerf.scatter_add %i, %u {axis = 0 : i64} : (tensor<4xi64>, tensor<4x8xf32>) -> tensor<9x8xf32>
  // CHECK: kerf.take_along %{{.*}}, %{{.*}} {batch_dims = 1 : i64, size = 8 : i64} : (tensor<9x8xf32>, tensor<9x2xi64>) -> tensor<9x2xf32>
  %3 = kerf.take_along %x, %each {batch_dims = 1 : i64, size = 8 : i64} : (tensor<9x8xf32>, tensor<9x2xi64>) -> tensor<9x2xf32>
  // CHECK: kerf.take_along_backward %{{.*}}, %{{.*}} {batch_dims = 1 : i64, size = 8 : i64} : (tensor<9x2xi64>, tensor<9x2xf32>) -> tensor<9x8xf32>
  %4 = kerf.take_along_backward %each, %dy {batch_dims = 1 : i64, size = 8 : i64} : (tensor<9x2xi64>, tensor<9x2xf32>) -> tensor<9x8xf32>
  return
}
