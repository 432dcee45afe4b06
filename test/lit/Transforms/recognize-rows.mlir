// RUN: kerf-opt %s -split-input-file -kerf-recognize-composites | FileCheck %s

// Bags of three rows of one table, as PyTorch's exporter writes them: the rows of all bags are looked up at once, then
// the slice of each bag is summed. The result is one sum over a separate dimension.

// CHECK-LABEL: func.func @bags(
// CHECK-SAME: %[[T:[a-z0-9]+]]: tensor<13x8xf32>, %[[I:[a-z0-9]+]]: tensor<6xi64>
// CHECK: %[[E:.*]] = kerf.embedding %[[T]], %[[I]]
// CHECK: %[[R:.*]] = kerf.reshape %[[E]] : (tensor<6x8xf32>) -> tensor<2x3x8xf32>
// CHECK: %[[S:.*]] = kerf.reduce %[[R]] {dimensions = array<i64: 1>, kind = #kerf<reduce_kind sum>} : (tensor<2x3x8xf32>) -> tensor<2x8xf32>
// CHECK: return %[[S]]
func.func @bags(%t: tensor<13x8xf32>, %i: tensor<6xi64>) -> tensor<2x8xf32> {
  %e = kerf.embedding %t, %i {rows = 13 : i64} : (tensor<13x8xf32>, tensor<6xi64>) -> tensor<6x8xf32>
  %s0 = kerf.slice %e {start = array<i64: 0, 0>, limit = array<i64: 3, 8>, strides = array<i64: 1, 1>} : (tensor<6x8xf32>) -> tensor<3x8xf32>
  %s1 = kerf.slice %e {start = array<i64: 3, 0>, limit = array<i64: 6, 8>, strides = array<i64: 1, 1>} : (tensor<6x8xf32>) -> tensor<3x8xf32>
  %r0 = kerf.reduce %s0 {dimensions = array<i64: 0>, kind = #kerf<reduce_kind sum>} : (tensor<3x8xf32>) -> tensor<8xf32>
  %r1 = kerf.reduce %s1 {dimensions = array<i64: 0>, kind = #kerf<reduce_kind sum>} : (tensor<3x8xf32>) -> tensor<8xf32>
  %u0 = kerf.reshape %r0 : (tensor<8xf32>) -> tensor<1x8xf32>
  %u1 = kerf.reshape %r1 : (tensor<8xf32>) -> tensor<1x8xf32>
  %c = kerf.concatenate %u0, %u1 {dimension = 0 : i64} : (tensor<1x8xf32>, tensor<1x8xf32>) -> tensor<2x8xf32>
  return %c : tensor<2x8xf32>
}

// -----

// The older exporter looks up each bag separately and divides by the bag's size. The last bag inserts its dimension of
// size 1 earlier.

// CHECK-LABEL: func.func @means(
// CHECK-SAME: %[[T:[a-z0-9]+]]: tensor<13x8xf32>, %[[I:[a-z0-9]+]]: tensor<6xi64>
// CHECK: %[[R:.*]] = kerf.reshape %[[I]] : (tensor<6xi64>) -> tensor<2x3xi64>
// CHECK: %[[E:.*]] = kerf.embedding %[[T]], %[[R]] {{.*}} -> tensor<2x3x8xf32>
// CHECK: %[[S:.*]] = kerf.reduce %[[E]] {dimensions = array<i64: 1>, kind = #kerf<reduce_kind sum>}
// CHECK: %[[D:.*]] = kerf.divide %[[S]], %{{.*}} : (tensor<2x8xf32>, tensor<2x8xf32>)
// CHECK: return %[[D]]
func.func @means(%t: tensor<13x8xf32>, %i: tensor<6xi64>) -> tensor<2x8xf32> {
  %n = kerf.constant dense<3.0> : tensor<f32>
  %i0 = kerf.slice %i {start = array<i64: 0>, limit = array<i64: 3>, strides = array<i64: 1>} : (tensor<6xi64>) -> tensor<3xi64>
  %i1 = kerf.slice %i {start = array<i64: 3>, limit = array<i64: 6>, strides = array<i64: 1>} : (tensor<6xi64>) -> tensor<3xi64>
  %e0 = kerf.embedding %t, %i0 {rows = 13 : i64} : (tensor<13x8xf32>, tensor<3xi64>) -> tensor<3x8xf32>
  %e1 = kerf.embedding %t, %i1 {rows = 13 : i64} : (tensor<13x8xf32>, tensor<3xi64>) -> tensor<3x8xf32>
  %r0 = kerf.reduce %e0 {dimensions = array<i64: 0>, kind = #kerf<reduce_kind sum>} : (tensor<3x8xf32>) -> tensor<8xf32>
  %r1 = kerf.reduce %e1 {dimensions = array<i64: 0>, kind = #kerf<reduce_kind sum>} : (tensor<3x8xf32>) -> tensor<8xf32>
  %n0 = kerf.broadcast_in_dim %n {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<8xf32>
  %d0 = kerf.divide %r0, %n0 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %u0 = kerf.reshape %d0 : (tensor<8xf32>) -> tensor<1x8xf32>
  %u1 = kerf.reshape %r1 : (tensor<8xf32>) -> tensor<1x8xf32>
  %n1 = kerf.broadcast_in_dim %n {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<1x8xf32>
  %d1 = kerf.divide %u1, %n1 : (tensor<1x8xf32>, tensor<1x8xf32>) -> tensor<1x8xf32>
  %c = kerf.concatenate %u0, %d1 {dimension = 0 : i64} : (tensor<1x8xf32>, tensor<1x8xf32>) -> tensor<2x8xf32>
  return %c : tensor<2x8xf32>
}

// -----

// torch.stack over the second dimension of rows that a `for` computed from columns 1 and 2 of four, which uses a part
// of the tensor, transposed, and a row that all iterations share.

// CHECK-LABEL: func.func @columns(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<5x4xf32>, %[[B:[a-z0-9]+]]: tensor<5xf32>
// CHECK: %[[P:.*]] = kerf.slice %[[X]] {limit = array<i64: 5, 3>, start = array<i64: 0, 1>, strides = array<i64: 1, 1>} : (tensor<5x4xf32>) -> tensor<5x2xf32>
// CHECK: kerf.transpose
// CHECK: %[[A:.*]] = kerf.add %{{.*}}, %{{.*}} : (tensor<2x5xf32>, tensor<2x5xf32>)
// CHECK: %[[Y:.*]] = kerf.transpose %[[A]] {permutation = array<i64: 1, 0>} : (tensor<2x5xf32>) -> tensor<5x2xf32>
// CHECK: return %[[Y]]
func.func @columns(%x: tensor<5x4xf32>, %b: tensor<5xf32>) -> tensor<5x2xf32> {
  %s0 = kerf.slice %x {start = array<i64: 0, 1>, limit = array<i64: 5, 2>, strides = array<i64: 1, 1>} : (tensor<5x4xf32>) -> tensor<5x1xf32>
  %s1 = kerf.slice %x {start = array<i64: 0, 2>, limit = array<i64: 5, 3>, strides = array<i64: 1, 1>} : (tensor<5x4xf32>) -> tensor<5x1xf32>
  %r0 = kerf.reshape %s0 : (tensor<5x1xf32>) -> tensor<5xf32>
  %r1 = kerf.reshape %s1 : (tensor<5x1xf32>) -> tensor<5xf32>
  %a0 = kerf.add %r0, %b : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32>
  %a1 = kerf.add %r1, %b : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32>
  %u0 = kerf.reshape %a0 : (tensor<5xf32>) -> tensor<5x1xf32>
  %u1 = kerf.reshape %a1 : (tensor<5xf32>) -> tensor<5x1xf32>
  %c = kerf.concatenate %u0, %u1 {dimension = 1 : i64} : (tensor<5x1xf32>, tensor<5x1xf32>) -> tensor<5x2xf32>
  return %c : tensor<5x2xf32>
}

// -----

// Rows stay as they are if they are out of order, have another step, belong to another tensor, or
// are computed differently.

// CHECK-LABEL: func.func @others(
// CHECK-COUNT-4: kerf.concatenate
func.func @others(%x: tensor<4x8xf32>, %z: tensor<4x8xf32>) -> (tensor<2x8xf32>, tensor<3x8xf32>, tensor<2x8xf32>, tensor<2x8xf32>) {
  %x0 = kerf.slice %x {start = array<i64: 0, 0>, limit = array<i64: 1, 8>, strides = array<i64: 1, 1>} : (tensor<4x8xf32>) -> tensor<1x8xf32>
  %x1 = kerf.slice %x {start = array<i64: 1, 0>, limit = array<i64: 2, 8>, strides = array<i64: 1, 1>} : (tensor<4x8xf32>) -> tensor<1x8xf32>
  %x3 = kerf.slice %x {start = array<i64: 3, 0>, limit = array<i64: 4, 8>, strides = array<i64: 1, 1>} : (tensor<4x8xf32>) -> tensor<1x8xf32>
  %z1 = kerf.slice %z {start = array<i64: 1, 0>, limit = array<i64: 2, 8>, strides = array<i64: 1, 1>} : (tensor<4x8xf32>) -> tensor<1x8xf32>
  %t1 = kerf.tanh %x1 : (tensor<1x8xf32>) -> tensor<1x8xf32>
  %a = kerf.concatenate %x1, %x0 {dimension = 0 : i64} : (tensor<1x8xf32>, tensor<1x8xf32>) -> tensor<2x8xf32>
  %b = kerf.concatenate %x0, %x1, %x3 {dimension = 0 : i64} : (tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>) -> tensor<3x8xf32>
  %c = kerf.concatenate %x0, %z1 {dimension = 0 : i64} : (tensor<1x8xf32>, tensor<1x8xf32>) -> tensor<2x8xf32>
  %d = kerf.concatenate %x0, %t1 {dimension = 0 : i64} : (tensor<1x8xf32>, tensor<1x8xf32>) -> tensor<2x8xf32>
  return %a, %b, %c, %d : tensor<2x8xf32>, tensor<3x8xf32>, tensor<2x8xf32>, tensor<2x8xf32>
}
