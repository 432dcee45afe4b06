// RUN: kerf-opt %s | kerf-opt | FileCheck %s
// RUN: kerf-opt %s -kerf-differentiate | FileCheck %s --check-prefix=GRADIENT

// Every example of WindowOps.td.

// CHECK-LABEL: func.func private @windows
func.func private @windows(%x: tensor<4x6x8xf32>, %k: tensor<10x3x3xf32>, %z: tensor<4x8xf32>) {
  // CHECK: kerf.convolution %{{.*}} {dilations = array<i64: 1>, high = array<i64: 0>, low = array<i64: 1>, strides = array<i64: 2>}
  %y = kerf.convolution %x, %k {strides = array<i64: 2>, dilations = array<i64: 1>, low = array<i64: 1>, high = array<i64: 0>}
      : (tensor<4x6x8xf32>, tensor<10x3x3xf32>) -> tensor<4x10x4xf32>
  // CHECK: kerf.convolution_transpose %{{.*}} : (tensor<4x10x4xf32>, tensor<10x3x3xf32>) -> tensor<4x6x8xf32>
  %1 = kerf.convolution_transpose %y, %k {strides = array<i64: 2>, dilations = array<i64: 1>, low = array<i64: 1>, high = array<i64: 0>}
      : (tensor<4x10x4xf32>, tensor<10x3x3xf32>) -> tensor<4x6x8xf32>
  // CHECK: kerf.convolution_kernel %{{.*}} : (tensor<4x6x8xf32>, tensor<4x10x4xf32>) -> tensor<10x3x3xf32>
  %2 = kerf.convolution_kernel %x, %y {strides = array<i64: 2>, dilations = array<i64: 1>, low = array<i64: 1>, high = array<i64: 0>}
      : (tensor<4x6x8xf32>, tensor<4x10x4xf32>) -> tensor<10x3x3xf32>
  // CHECK: kerf.reduce_window %{{.*}} {{.*}}kind = #kerf<reduce_kind max>
  %3 = kerf.reduce_window %z {kind = #kerf<reduce_kind max>, window = array<i64: 1, 3>, strides = array<i64: 1, 2>,
      dilations = array<i64: 1, 1>, low = array<i64: 0, 1>, high = array<i64: 0, 0>} : (tensor<4x8xf32>) -> tensor<4x4xf32>
  // CHECK: kerf.select_and_scatter
  %4 = kerf.select_and_scatter %z, %3 {kind = #kerf<reduce_kind max>, window = array<i64: 1, 3>, strides = array<i64: 1, 2>,
      dilations = array<i64: 1, 1>, low = array<i64: 0, 1>, high = array<i64: 0, 0>} : (tensor<4x8xf32>, tensor<4x4xf32>) -> tensor<4x8xf32>
  return
}

// A convolution, max pooling and sum pooling. The images are no parameter, so they get no gradient.

// GRADIENT-LABEL: func.func @main
// GRADIENT: %[[Y:.*]] = kerf.convolution %[[X:.*]], %{{.*}}
// GRADIENT: kerf.reduce_window %[[Y]]
// GRADIENT: %[[PADDED:.*]] = kerf.pad {{.*}} {high = array<i64: 0, 0, 2>, interior = array<i64: 0, 0, 1>, kerf.backward, low = array<i64: 0, 0, 1>}
// GRADIENT: %[[SUMS:.*]] = kerf.reduce_window %[[PADDED]] {{.*}}kerf.backward, kind = #kerf<reduce_kind sum>, {{.*}}strides = array<i64: 1, 1, 1>
// GRADIENT: %[[DY:.*]] = kerf.select_and_scatter %[[Y]], %[[SUMS]] {{.*}}kerf.backward
// GRADIENT: kerf.convolution_kernel %[[X]], %[[DY]] {{.*}}kerf.backward
// GRADIENT-NOT: kerf.convolution_transpose
func.func @main(%x: tensor<4x6x8xf32> {kerf.kind = "input", kerf.name = "x"},
                %k: tensor<10x3x3xf32> {kerf.kind = "parameter", kerf.name = "k", kerf.trainable}) -> (tensor<f32> {kerf.name = "loss"}) {
  %y = kerf.convolution %x, %k {strides = array<i64: 1>, dilations = array<i64: 1>, low = array<i64: 1>, high = array<i64: 1>}
      : (tensor<4x6x8xf32>, tensor<10x3x3xf32>) -> tensor<4x10x8xf32>
  %m = kerf.reduce_window %y {kind = #kerf<reduce_kind max>, window = array<i64: 1, 1, 2>, strides = array<i64: 1, 1, 1>,
      dilations = array<i64: 1, 1, 1>, low = array<i64: 0, 0, 0>, high = array<i64: 0, 0, 0>} : (tensor<4x10x8xf32>) -> tensor<4x10x7xf32>
  %s = kerf.reduce_window %m {kind = #kerf<reduce_kind sum>, window = array<i64: 1, 1, 2>, strides = array<i64: 1, 1, 2>,
      dilations = array<i64: 1, 1, 1>, low = array<i64: 0, 0, 0>, high = array<i64: 0, 0, 0>} : (tensor<4x10x7xf32>) -> tensor<4x10x3xf32>
  %square = kerf.multiply %s, %s : (tensor<4x10x3xf32>, tensor<4x10x3xf32>) -> tensor<4x10x3xf32>
  %loss = kerf.reduce %square {kind = #kerf<reduce_kind sum>, dimensions = array<i64: 0, 1, 2>} : (tensor<4x10x3xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}
