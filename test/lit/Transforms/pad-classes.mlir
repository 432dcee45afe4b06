// RUN: kerf-opt %s --kerf-pad-classes -split-input-file | FileCheck %s

// A classifier of 97 classes with a bias: the weight and the bias get zeros once, the scores have 104 columns, and the gradients of weight
// and bias have 97 again.

// CHECK-LABEL: func.func @main
// CHECK-SAME: (%[[X:.*]]: tensor<4x8xbf16>, %[[W:.*]]: tensor<8x97xbf16>, %[[B:.*]]: tensor<97xbf16>,
// CHECK-DAG: %[[W1:.*]] = kerf.pad %[[W]], %{{.*}} {high = array<i64: 0, 7>, interior = array<i64: 0, 0>, low = array<i64: 0, 0>}
// CHECK-DAG: %[[B1:.*]] = kerf.pad %[[B]], %{{.*}} {high = array<i64: 7>,
// CHECK: %[[P:.*]] = kerf.dot_general %[[X]], %[[W1]] {{.*}} -> tensor<4x104xbf16>
// CHECK: %[[R:.*]] = kerf.broadcast_in_dim %[[B1]]
// CHECK: %[[L:.*]] = kerf.add %[[P]], %[[R]] : {{.*}}tensor<4x104xbf16>
// CHECK: kerf.cross_entropy %[[L]], %{{.*}} {classes = 97 : i64, ignore_index = -100 : i64}
// CHECK: %[[D:.*]] = kerf.cross_entropy_backward %[[L]], {{.*}} {classes = 97 : i64, ignore_index = -100 : i64, kerf.backward} : {{.*}} -> tensor<4x104xbf16>
// CHECK: %[[DB:.*]] = kerf.reduce %[[D]] {{.*}} -> tensor<104xf32>
// CHECK-NEXT: kerf.slice %[[DB]] {kerf.backward, limit = array<i64: 97>, start = array<i64: 0>, strides = array<i64: 1>}
// CHECK: kerf.dot_general %[[D]], %[[W1]] {{.*}} -> tensor<4x8xbf16>
// CHECK: %[[DW:.*]] = kerf.dot_general %[[X]], %[[D]] {{.*}} -> tensor<8x104xf32>
// CHECK-NEXT: kerf.slice %[[DW]] {kerf.backward, limit = array<i64: 8, 97>, {{.*}} -> tensor<8x97xf32>
// CHECK-NOT: kerf.pad
func.func @main(%x: tensor<4x8xbf16>, %w: tensor<8x97xbf16>, %b: tensor<97xbf16>, %labels: tensor<4xi64>, %g: tensor<4xf32>)
    -> (tensor<4xf32>, tensor<4x8xbf16>, tensor<8x97xf32>, tensor<97xf32>) {
  %p = kerf.dot_general %x, %w {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>}
      : (tensor<4x8xbf16>, tensor<8x97xbf16>) -> tensor<4x97xbf16>
  %r = kerf.broadcast_in_dim %b {broadcast_dimensions = array<i64: 1>} : (tensor<97xbf16>) -> tensor<4x97xbf16>
  %l = kerf.add %p, %r : (tensor<4x97xbf16>, tensor<4x97xbf16>) -> tensor<4x97xbf16>
  %nll, %lse = kerf.cross_entropy %l, %labels {ignore_index = -100 : i64} : (tensor<4x97xbf16>, tensor<4xi64>) -> (tensor<4xf32>, tensor<4xf32>)
  %d = kerf.cross_entropy_backward %l, %labels, %lse, %g {ignore_index = -100 : i64, kerf.backward}
      : (tensor<4x97xbf16>, tensor<4xi64>, tensor<4xf32>, tensor<4xf32>) -> tensor<4x97xbf16>
  %db = kerf.reduce %d {kind = #kerf<reduce_kind sum>, dimensions = array<i64: 0>, kerf.backward} : (tensor<4x97xbf16>) -> tensor<97xf32>
  %dx = kerf.dot_general %d, %w {kerf.backward, lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 1>}
      : (tensor<4x97xbf16>, tensor<8x97xbf16>) -> tensor<4x8xbf16>
  %dw = kerf.dot_general %x, %d {kerf.backward, lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 0>, rhs_contracting = array<i64: 0>}
      : (tensor<4x8xbf16>, tensor<4x97xbf16>) -> tensor<8x97xf32>
  return %nll, %dx, %dw, %db : tensor<4xf32>, tensor<4x8xbf16>, tensor<8x97xf32>, tensor<97xf32>
}

// -----

// Three programs stay as they are: the number of classes is a multiple of 8; the numbers have 32 bits; the scores are a result too.

// CHECK-LABEL: func.func @aligned
// CHECK-NOT: kerf.pad
// CHECK-LABEL: func.func @wide
// CHECK-NOT: kerf.pad
// CHECK-LABEL: func.func @shown
// CHECK-NOT: kerf.pad
func.func @aligned(%x: tensor<4x8xbf16>, %w: tensor<8x96xbf16>, %labels: tensor<4xi64>) -> tensor<4xf32> {
  %p = kerf.dot_general %x, %w {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>}
      : (tensor<4x8xbf16>, tensor<8x96xbf16>) -> tensor<4x96xbf16>
  %nll, %lse = kerf.cross_entropy %p, %labels {ignore_index = -100 : i64} : (tensor<4x96xbf16>, tensor<4xi64>) -> (tensor<4xf32>, tensor<4xf32>)
  return %nll : tensor<4xf32>
}
func.func @wide(%x: tensor<4x8xf32>, %w: tensor<8x97xf32>, %labels: tensor<4xi64>) -> tensor<4xf32> {
  %p = kerf.dot_general %x, %w {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>}
      : (tensor<4x8xf32>, tensor<8x97xf32>) -> tensor<4x97xf32>
  %nll, %lse = kerf.cross_entropy %p, %labels {ignore_index = -100 : i64} : (tensor<4x97xf32>, tensor<4xi64>) -> (tensor<4xf32>, tensor<4xf32>)
  return %nll : tensor<4xf32>
}
func.func @shown(%x: tensor<4x8xbf16>, %w: tensor<8x97xbf16>, %labels: tensor<4xi64>) -> (tensor<4xf32>, tensor<4x97xbf16>) {
  %p = kerf.dot_general %x, %w {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>}
      : (tensor<4x8xbf16>, tensor<8x97xbf16>) -> tensor<4x97xbf16>
  %nll, %lse = kerf.cross_entropy %p, %labels {ignore_index = -100 : i64} : (tensor<4x97xbf16>, tensor<4xi64>) -> (tensor<4xf32>, tensor<4xf32>)
  return %nll, %p : tensor<4xf32>, tensor<4x97xbf16>
}
