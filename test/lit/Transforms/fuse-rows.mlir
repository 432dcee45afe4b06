// RUN: kerf-opt --kerf-fuse-rows --split-input-file %s | FileCheck %s

// The largest element of a row, the codes and what they leave are one kernel, in which codes are packed.
// CHECK: func.func private @fused_abs_reduce_broadcast_in_dim_and_6_more(%{{.*}}: tensor<8x64xf32>) -> (tensor<8xf32>, tensor<8x32xi8>, tensor<8x64xf32>)
// CHECK-SAME: attributes {kerf.kernel}
// CHECK-LABEL: func.func @codes_and_their_error
// CHECK-NEXT: %[[Y:.*]]:3 = kerf.call @fused_abs_reduce_broadcast_in_dim_and_6_more(%arg0)
// CHECK-NEXT: return %[[Y]]#1, %[[Y]]#0, %[[Y]]#2
func.func @codes_and_their_error(%x: tensor<8x64xf32>) -> (tensor<8x32xi8>, tensor<8xf32>, tensor<8x64xf32>) {
  %abs = kerf.abs %x : (tensor<8x64xf32>) -> tensor<8x64xf32>
  %size = kerf.reduce %abs {kind = #kerf<reduce_kind max>, dimensions = array<i64: 1>} : (tensor<8x64xf32>) -> tensor<8xf32>
  %sizes = kerf.broadcast_in_dim %size {broadcast_dimensions = array<i64: 0>} : (tensor<8xf32>) -> tensor<8x64xf32>
  %level = kerf.divide %x, %sizes : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
  %codes = kerf.convert %level : (tensor<8x64xf32>) -> tensor<8x64xi8>
  %packed = kerf.pack %codes {bits = 4 : i64} : (tensor<8x64xi8>) -> tensor<8x32xi8>
  %back = kerf.unpack %packed {bits = 4 : i64} : (tensor<8x32xi8>) -> tensor<8x64xi8>
  %decoded = kerf.convert %back : (tensor<8x64xi8>) -> tensor<8x64xf32>
  %error = kerf.subtract %x, %decoded : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
  return %packed, %size, %error : tensor<8x32xi8>, tensor<8xf32>, tensor<8x64xf32>
}

// -----

// What two ranks sent is decoded, added and encoded again in one pass.
// CHECK: func.func private @fused_convert_multiply_convert_and_7_more(%{{.*}}: tensor<8x64xi8>, %{{.*}}: tensor<8xf32>, %{{.*}}: tensor<8x64xi8>, %{{.*}}: tensor<8xf32>) -> (tensor<8xf32>, tensor<8x64xi8>)
// CHECK-LABEL: func.func @decode_add_and_encode
// CHECK-NEXT: kerf.call
// CHECK-NEXT: return
func.func @decode_add_and_encode(%a: tensor<8x64xi8>, %p: tensor<8xf32>, %b: tensor<8x64xi8>, %q: tensor<8xf32>) -> (tensor<8x64xi8>, tensor<8xf32>) {
  %0 = kerf.convert %a : (tensor<8x64xi8>) -> tensor<8x64xf32>
  %1 = kerf.broadcast_in_dim %p {broadcast_dimensions = array<i64: 0>} : (tensor<8xf32>) -> tensor<8x64xf32>
  %2 = kerf.multiply %0, %1 : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
  %3 = kerf.convert %b : (tensor<8x64xi8>) -> tensor<8x64xf32>
  %4 = kerf.broadcast_in_dim %q {broadcast_dimensions = array<i64: 0>} : (tensor<8xf32>) -> tensor<8x64xf32>
  %5 = kerf.multiply %3, %4 : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
  %sum = kerf.add %2, %5 : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
  %abs = kerf.abs %sum : (tensor<8x64xf32>) -> tensor<8x64xf32>
  %size = kerf.reduce %abs {kind = #kerf<reduce_kind max>, dimensions = array<i64: 1>} : (tensor<8x64xf32>) -> tensor<8xf32>
  %sizes = kerf.broadcast_in_dim %size {broadcast_dimensions = array<i64: 0>} : (tensor<8xf32>) -> tensor<8x64xf32>
  %level = kerf.divide %sum, %sizes : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
  %codes = kerf.convert %level : (tensor<8x64xf32>) -> tensor<8x64xi8>
  return %codes, %size : tensor<8x64xi8>, tensor<8xf32>
}

// -----

// Rows of 8,192 elements are too long, and those of 40 are no multiple of 16. Without codes, ops are left alone.
// CHECK-NOT: kerf.call
func.func @left_alone(%x: tensor<2x8192xi8>, %y: tensor<2x40xi8>, %z: tensor<8x64xf32>) -> (tensor<2x4096xi8>, tensor<2x20xi8>, tensor<8x64xf32>) {
  %0 = kerf.pack %x {bits = 4 : i64} : (tensor<2x8192xi8>) -> tensor<2x4096xi8>
  %1 = kerf.pack %y {bits = 4 : i64} : (tensor<2x40xi8>) -> tensor<2x20xi8>
  %size = kerf.reduce %z {kind = #kerf<reduce_kind max>, dimensions = array<i64: 1>} : (tensor<8x64xf32>) -> tensor<8xf32>
  %sizes = kerf.broadcast_in_dim %size {broadcast_dimensions = array<i64: 0>} : (tensor<8xf32>) -> tensor<8x64xf32>
  %level = kerf.divide %z, %sizes : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
  return %0, %1, %level : tensor<2x4096xi8>, tensor<2x20xi8>, tensor<8x64xf32>
}

// -----

// The largest elements of a row, their places in 16 bits and what they leave are one kernel.
// CHECK: func.func private @fused_add_abs_top_k_and_5_more(%{{.*}}: tensor<8x64xf32>, %{{.*}}: tensor<8x64xf32>) -> (tensor<8x4xf32>, tensor<8x4xi16>, tensor<8x64xf32>)
// CHECK-LABEL: func.func @largest_and_their_error
// CHECK-NEXT: kerf.call
// CHECK-NEXT: return
func.func @largest_and_their_error(%g: tensor<8x64xf32>, %e: tensor<8x64xf32>) -> (tensor<8x4xf32>, tensor<8x4xi16>, tensor<8x64xf32>) {
  %x = kerf.add %g, %e : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
  %abs = kerf.abs %x : (tensor<8x64xf32>) -> tensor<8x64xf32>
  %largest, %indices = kerf.top_k %abs : (tensor<8x64xf32>) -> (tensor<8x4xf32>, tensor<8x4xi32>)
  %values = kerf.take_along %x, %indices {batch_dims = 1 : i64, size = 64 : i64} : (tensor<8x64xf32>, tensor<8x4xi32>) -> tensor<8x4xf32>
  %places = kerf.convert %indices : (tensor<8x4xi32>) -> tensor<8x4xi16>
  %back = kerf.convert %places : (tensor<8x4xi16>) -> tensor<8x4xi32>
  %sent = kerf.take_along_backward %back, %values {batch_dims = 1 : i64, size = 64 : i64} : (tensor<8x4xi32>, tensor<8x4xf32>) -> tensor<8x64xf32>
  %error = kerf.subtract %x, %sent : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
  return %values, %places, %error : tensor<8x4xf32>, tensor<8x4xi16>, tensor<8x64xf32>
}

// -----

// Elements at the same places of all rows are decoded and added by a kernel, which reads the one row of places.
// CHECK: func.func private @{{.*}}(%{{.*}}: tensor<4xi32>, %{{.*}}: tensor<8x4xf32>, %{{.*}}: tensor<8x64xf32>) -> tensor<8x64xf32>
// CHECK-LABEL: func.func @same_places
// CHECK-NEXT: kerf.call
// CHECK-NEXT: return
func.func @same_places(%indices: tensor<4xi32>, %values: tensor<8x4xf32>, %sum: tensor<8x64xf32>) -> tensor<8x64xf32> {
  %all = kerf.broadcast_in_dim %indices {broadcast_dimensions = array<i64: 1>} : (tensor<4xi32>) -> tensor<8x4xi32>
  %x = kerf.take_along_backward %all, %values {batch_dims = 1 : i64, size = 64 : i64} : (tensor<8x4xi32>, tensor<8x4xf32>) -> tensor<8x64xf32>
  %y = kerf.add %sum, %x : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
  return %y : tensor<8x64xf32>
}

// -----

// A lookup of labels is no codec's work.
// CHECK-LABEL: func.func @labels
// CHECK-NOT: kerf.call
func.func @labels(%x: tensor<8x64xf32>, %labels: tensor<8x1xi32>) -> tensor<8x1xf32> {
  %y = kerf.take_along %x, %labels {batch_dims = 1 : i64, size = 64 : i64} : (tensor<8x64xf32>, tensor<8x1xi32>) -> tensor<8x1xf32>
  %z = kerf.negate %y : (tensor<8x1xf32>) -> tensor<8x1xf32>
  return %z : tensor<8x1xf32>
}
