// RUN: kerf-opt %s | kerf-opt | FileCheck %s
// The example of every op of ShapeOps.td.

// CHECK-LABEL: @made_of_nothing
func.func @made_of_nothing(%offset: tensor<i32>) {
  // CHECK: kerf.constant dense<1.000000e+00> : tensor<f32>
  %c = kerf.constant dense<1.0> : tensor<f32>
  // CHECK: kerf.iota {dimension = 1 : i64} : () -> tensor<4x8xi32>
  %0 = kerf.iota {dimension = 1 : i64} : () -> tensor<4x8xi32>
  // CHECK: kerf.iota %{{.*}} {dimension = 0 : i64} : (tensor<i32>) -> tensor<4x8xi32>
  %1 = kerf.iota %offset {dimension = 0 : i64} : (tensor<i32>) -> tensor<4x8xi32>
  return
}

// CHECK-LABEL: @moved
func.func @moved(%v: tensor<8xf32>, %x: tensor<8x4xf32>, %y: tensor<4x8xf32>) {
  // CHECK: kerf.broadcast_in_dim %{{.*}} {broadcast_dimensions = array<i64: 1>} : (tensor<8xf32>) -> tensor<4x8xf32>
  %0 = kerf.broadcast_in_dim %v {broadcast_dimensions = array<i64: 1>} : (tensor<8xf32>) -> tensor<4x8xf32>
  // CHECK: kerf.reshape %{{.*}} : (tensor<8x4xf32>) -> tensor<2x16xf32>
  %1 = kerf.reshape %x : (tensor<8x4xf32>) -> tensor<2x16xf32>
  // CHECK: kerf.transpose %{{.*}} {permutation = array<i64: 1, 0>} : (tensor<4x8xf32>) -> tensor<8x4xf32>
  %2 = kerf.transpose %y {permutation = array<i64: 1, 0>} : (tensor<4x8xf32>) -> tensor<8x4xf32>
  // CHECK: kerf.slice %{{.*}} {limit = array<i64: 4, 6>, start = array<i64: 0, 2>, strides = array<i64: 1, 1>} : (tensor<4x8xf32>) -> tensor<4x4xf32>
  %3 = kerf.slice %y {start = array<i64: 0, 2>, limit = array<i64: 4, 6>, strides = array<i64: 1, 1>} : (tensor<4x8xf32>) -> tensor<4x4xf32>
  // Elements 3, 5 and 7 of eight.
  // CHECK: kerf.slice %{{.*}} : (tensor<8xf32>) -> tensor<3xf32>
  %4 = kerf.slice %v {start = array<i64: 3>, limit = array<i64: 8>, strides = array<i64: 2>} : (tensor<8xf32>) -> tensor<3xf32>
  return
}

// CHECK-LABEL: @combined
func.func @combined(%v: tensor<4xf32>, %x: tensor<2x8xf32>, %y: tensor<3x8xf32>) {
  %zero = kerf.constant dense<0.0> : tensor<f32>
  // CHECK: kerf.pad %{{.*}}, %{{.*}} {high = array<i64: 0>, interior = array<i64: 0>, low = array<i64: 1>} : (tensor<4xf32>, tensor<f32>) -> tensor<5xf32>
  %0 = kerf.pad %v, %zero {low = array<i64: 1>, high = array<i64: 0>, interior = array<i64: 0>} : (tensor<4xf32>, tensor<f32>) -> tensor<5xf32>
  // The result has 1 + 4 + 3 * 2 + 5 elements.
  // CHECK: kerf.pad %{{.*}} : (tensor<4xf32>, tensor<f32>) -> tensor<16xf32>
  %1 = kerf.pad %v, %zero {low = array<i64: 1>, high = array<i64: 5>, interior = array<i64: 2>} : (tensor<4xf32>, tensor<f32>) -> tensor<16xf32>
  // CHECK: kerf.concatenate %{{.*}}, %{{.*}} {dimension = 0 : i64} : (tensor<2x8xf32>, tensor<3x8xf32>) -> tensor<5x8xf32>
  %2 = kerf.concatenate %x, %y {dimension = 0 : i64} : (tensor<2x8xf32>, tensor<3x8xf32>) -> tensor<5x8xf32>
  return
}
