// RUN: kerf-opt %s -kerf-put-channels-last -split-input-file | FileCheck %s
// RUN: kerf-opt %s -kerf-put-channels-last=any-type -split-input-file | FileCheck %s --check-prefix=ANY

// The image is transposed where it enters, kernels where they are read, and the result where it leaves. A bias, a
// reduction to channels, a pooling, a pad and a slice follow the convolution.
// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[X:.*]]: tensor<4x16x8x8xbf16>, %[[K:.*]]: tensor<32x16x3x3xbf16>, %[[B:.*]]: tensor<32xbf16>
// CHECK-DAG: %[[X1:.*]] = kerf.transpose %[[X]] {permutation = array<i64: 0, 2, 3, 1>} : (tensor<4x16x8x8xbf16>) -> tensor<4x8x8x16xbf16>
// CHECK-DAG: %[[K1:.*]] = kerf.transpose %[[K]] {permutation = array<i64: 0, 2, 3, 1>} : (tensor<32x16x3x3xbf16>) -> tensor<32x3x3x16xbf16>
// CHECK: %[[Y:.*]] = kerf.convolution %[[X1]], %[[K1]] {channels_last, {{.*}}} : {{.*}} -> tensor<4x8x8x32xbf16>
// CHECK-NEXT: %[[WIDE:.*]] = kerf.broadcast_in_dim %[[B]] {broadcast_dimensions = array<i64: 3>} : (tensor<32xbf16>) -> tensor<4x8x8x32xbf16>
// CHECK-NEXT: %[[A:.*]] = kerf.add %[[Y]], %[[WIDE]]
// CHECK-NEXT: kerf.reduce %[[A]] {dimensions = array<i64: 0, 1, 2>
// CHECK-NEXT: %[[P:.*]] = kerf.reduce_window %[[A]] {{.*}}strides = array<i64: 1, 2, 2, 1>, window = array<i64: 1, 2, 2, 1>{{.*}} -> tensor<4x4x4x32xbf16>
// CHECK: %[[PAD:.*]] = kerf.pad %[[P]], %{{.*}} {high = array<i64: 0, 1, 2, 0>, interior = array<i64: 0, 0, 0, 0>, low = array<i64: 0, 0, 0, 0>}
// CHECK-NEXT: %[[S:.*]] = kerf.slice %[[PAD]] {limit = array<i64: 4, 5, 6, 16>, start = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1, 1, 1>}
// CHECK-NEXT: %[[C:.*]] = kerf.concatenate %[[S]], %[[S]] {dimension = 3 : i64}
// CHECK-NEXT: %[[R:.*]] = kerf.transpose %[[C]] {permutation = array<i64: 0, 3, 1, 2>} : (tensor<4x5x6x32xbf16>) -> tensor<4x32x5x6xbf16>
// CHECK-NEXT: return %[[R]]
func.func @main(%x: tensor<4x16x8x8xbf16>, %k: tensor<32x16x3x3xbf16>, %b: tensor<32xbf16>) -> (tensor<4x32x5x6xbf16>, tensor<32xf32>) {
  %y = kerf.convolution %x, %k {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, low = array<i64: 1, 1>, high = array<i64: 1, 1>}
      : (tensor<4x16x8x8xbf16>, tensor<32x16x3x3xbf16>) -> tensor<4x32x8x8xbf16>
  %wide = kerf.broadcast_in_dim %b {broadcast_dimensions = array<i64: 1>} : (tensor<32xbf16>) -> tensor<4x32x8x8xbf16>
  %a = kerf.add %y, %wide : (tensor<4x32x8x8xbf16>, tensor<4x32x8x8xbf16>) -> tensor<4x32x8x8xbf16>
  %sum = kerf.reduce %a {dimensions = array<i64: 0, 2, 3>, kind = #kerf<reduce_kind sum>} : (tensor<4x32x8x8xbf16>) -> tensor<32xf32>
  %p = kerf.reduce_window %a {kind = #kerf<reduce_kind max>, window = array<i64: 1, 1, 2, 2>, strides = array<i64: 1, 1, 2, 2>,
      dilations = array<i64: 1, 1, 1, 1>, low = array<i64: 0, 0, 0, 0>, high = array<i64: 0, 0, 0, 0>} : (tensor<4x32x8x8xbf16>) -> tensor<4x32x4x4xbf16>
  %zero = kerf.constant dense<0.0> : tensor<bf16>
  %pad = kerf.pad %p, %zero {low = array<i64: 0, 0, 0, 0>, high = array<i64: 0, 0, 1, 2>, interior = array<i64: 0, 0, 0, 0>}
      : (tensor<4x32x4x4xbf16>, tensor<bf16>) -> tensor<4x32x5x6xbf16>
  %s = kerf.slice %pad {start = array<i64: 0, 0, 0, 0>, limit = array<i64: 4, 16, 5, 6>, strides = array<i64: 1, 1, 1, 1>}
      : (tensor<4x32x5x6xbf16>) -> tensor<4x16x5x6xbf16>
  %c = kerf.concatenate %s, %s {dimension = 1 : i64} : (tensor<4x16x5x6xbf16>, tensor<4x16x5x6xbf16>) -> tensor<4x32x5x6xbf16>
  return %c, %sum : tensor<4x32x5x6xbf16>, tensor<32xf32>
}

// -----

// A layer's function takes and returns images with their channels last. The gradient of a kernel is transposed back, and
// a kernel of one element is no more than reshaped.
// CHECK-LABEL: func.func private @layer
// CHECK-SAME: %[[X:.*]]: tensor<4x8x8x16xbf16>, %[[K:.*]]: tensor<16x16x1x1xbf16>) -> tensor<4x8x8x16xbf16>
// CHECK-NEXT: %[[K1:.*]] = kerf.reshape %[[K]] : (tensor<16x16x1x1xbf16>) -> tensor<16x1x1x16xbf16>
// CHECK-NEXT: kerf.convolution %[[X]], %[[K1]] {channels_last
// CHECK-LABEL: func.func private @layer_backward
// CHECK-SAME: %[[X:.*]]: tensor<4x8x8x16xbf16>, %[[DY:.*]]: tensor<4x8x8x16xbf16>) -> tensor<16x16x3x3xbf16>
// CHECK-NEXT: %[[DK:.*]] = kerf.convolution_kernel %[[X]], %[[DY]] {channels_last, {{.*}}kerf.backward{{.*}} -> tensor<16x3x3x16xbf16>
// CHECK-NEXT: %[[BACK:.*]] = kerf.transpose %[[DK]] {kerf.backward, permutation = array<i64: 0, 3, 1, 2>}
// CHECK-NEXT: return %[[BACK]]
// CHECK-LABEL: func.func @main
// CHECK: kerf.transpose
// CHECK-NEXT: kerf.call @layer
// CHECK-NEXT: kerf.call @layer
// CHECK-NOT: kerf.transpose
// CHECK: kerf.call @layer_backward
// CHECK: kerf.transpose
// CHECK-NEXT: return
func.func private @layer(%x: tensor<4x16x8x8xbf16>, %k: tensor<16x16x1x1xbf16>) -> tensor<4x16x8x8xbf16> {
  %y = kerf.convolution %x, %k {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, low = array<i64: 0, 0>, high = array<i64: 0, 0>}
      : (tensor<4x16x8x8xbf16>, tensor<16x16x1x1xbf16>) -> tensor<4x16x8x8xbf16>
  return %y : tensor<4x16x8x8xbf16>
}
func.func private @layer_backward(%x: tensor<4x16x8x8xbf16>, %dy: tensor<4x16x8x8xbf16>) -> tensor<16x16x3x3xbf16> {
  %dk = kerf.convolution_kernel %x, %dy {kerf.backward, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, low = array<i64: 1, 1>, high = array<i64: 1, 1>}
      : (tensor<4x16x8x8xbf16>, tensor<4x16x8x8xbf16>) -> tensor<16x16x3x3xbf16>
  return %dk : tensor<16x16x3x3xbf16>
}
func.func @main(%x: tensor<4x16x8x8xbf16>, %k: tensor<16x16x1x1xbf16>) -> (tensor<4x16x8x8xbf16>, tensor<16x16x3x3xbf16>) {
  %y = kerf.call @layer(%x, %k) : (tensor<4x16x8x8xbf16>, tensor<16x16x1x1xbf16>) -> tensor<4x16x8x8xbf16>
  %z = kerf.call @layer(%y, %k) : (tensor<4x16x8x8xbf16>, tensor<16x16x1x1xbf16>) -> tensor<4x16x8x8xbf16>
  %dk = kerf.call @layer_backward(%y, %z) : (tensor<4x16x8x8xbf16>, tensor<4x16x8x8xbf16>) -> tensor<16x16x3x3xbf16>
  return %z, %dk : tensor<4x16x8x8xbf16>, tensor<16x16x3x3xbf16>
}

// -----

// float32 gains nothing, and neither does a convolution with one channel in each group.
// CHECK-LABEL: func.func @stays
// CHECK-NOT: transpose
// CHECK-NOT: channels_last
// CHECK: return
// ANY-LABEL: func.func @stays
// ANY: channels_last
func.func @stays(%x: tensor<4x16x8xf32>, %k: tensor<16x16x3xf32>, %u: tensor<4x16x8xbf16>, %v: tensor<16x1x3xbf16>)
    -> (tensor<4x16x8xf32>, tensor<4x16x8xbf16>) {
  %y = kerf.convolution %x, %k {strides = array<i64: 1>, dilations = array<i64: 1>, low = array<i64: 1>, high = array<i64: 1>}
      : (tensor<4x16x8xf32>, tensor<16x16x3xf32>) -> tensor<4x16x8xf32>
  %z = kerf.convolution %y, %k {strides = array<i64: 1>, dilations = array<i64: 1>, low = array<i64: 1>, high = array<i64: 1>}
      : (tensor<4x16x8xf32>, tensor<16x16x3xf32>) -> tensor<4x16x8xf32>
  %w = kerf.convolution %u, %v {strides = array<i64: 1>, dilations = array<i64: 1>, low = array<i64: 1>, high = array<i64: 1>}
      : (tensor<4x16x8xbf16>, tensor<16x1x3xbf16>) -> tensor<4x16x8xbf16>
  return %z, %w : tensor<4x16x8xf32>, tensor<4x16x8xbf16>
}

// -----

// Transposes of the model vanish, so that a convolution between ops on channels last needs none.
// CHECK-LABEL: func.func @between
// CHECK-SAME: %[[X:.*]]: tensor<4x8x8x16xbf16>
// CHECK-NEXT: kerf.transpose %{{.*}} -> tensor<16x3x3x16xbf16>
// CHECK-NEXT: %[[Y:.*]] = kerf.convolution %[[X]], %{{.*}} {channels_last
// CHECK-NEXT: %[[Z:.*]] = kerf.softmax %[[Y]]
// CHECK-NEXT: return %[[Z]]
func.func @between(%x: tensor<4x8x8x16xbf16>, %k: tensor<16x16x3x3xbf16>) -> tensor<4x8x8x16xbf16> {
  %second = kerf.transpose %x {permutation = array<i64: 0, 3, 1, 2>} : (tensor<4x8x8x16xbf16>) -> tensor<4x16x8x8xbf16>
  %y = kerf.convolution %second, %k {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, low = array<i64: 1, 1>, high = array<i64: 1, 1>}
      : (tensor<4x16x8x8xbf16>, tensor<16x16x3x3xbf16>) -> tensor<4x16x8x8xbf16>
  %last = kerf.transpose %y {permutation = array<i64: 0, 2, 3, 1>} : (tensor<4x16x8x8xbf16>) -> tensor<4x8x8x16xbf16>
  %z = kerf.softmax %last {dimension = 3 : i64} : (tensor<4x8x8x16xbf16>) -> tensor<4x8x8x16xbf16>
  return %z : tensor<4x8x8x16xbf16>
}

// -----

// An image in float32 is converted before it is transposed, because bf16 has half the bytes.
// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[X:.*]]: tensor<4x16x8x8xf32>
// CHECK: %[[C:.*]] = kerf.convert %[[X]] : (tensor<4x16x8x8xf32>) -> tensor<4x16x8x8xbf16>
// CHECK: kerf.transpose %[[C]] {permutation = array<i64: 0, 2, 3, 1>} : (tensor<4x16x8x8xbf16>) -> tensor<4x8x8x16xbf16>
func.func @main(%x: tensor<4x16x8x8xf32>, %k: tensor<32x16x3x3xbf16>) -> tensor<32xf32> {
  %c = kerf.convert %x : (tensor<4x16x8x8xf32>) -> tensor<4x16x8x8xbf16>
  %y = kerf.convolution %c, %k {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, low = array<i64: 1, 1>, high = array<i64: 1, 1>}
      : (tensor<4x16x8x8xbf16>, tensor<32x16x3x3xbf16>) -> tensor<4x32x8x8xbf16>
  %sum = kerf.reduce %y {dimensions = array<i64: 0, 2, 3>, kind = #kerf<reduce_kind sum>} : (tensor<4x32x8x8xbf16>) -> tensor<32xf32>
  return %sum : tensor<32xf32>
}
