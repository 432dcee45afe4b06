// RUN: kerf-opt %s -kerf-cut-stages=until=enc/out,dec/mix -mlir-print-debuginfo -mlir-print-local-scope | FileCheck %s

// A model without layers. The decoder's first op stands before the encoder's, and still belongs to the second part,
// because the encoder does not depend on it. The encoder's result skips the second part, a view of a parameter is
// computed in the part that uses it, and two parts share the table.

// CHECK-LABEL: func.func private @part(
// CHECK-SAME: %[[I:[a-z0-9]+]]: tensor<4x8xf32>{{.*}}, %[[T:[a-z0-9]+]]: tensor<8x8xf32>
// CHECK: kerf.dot_general %[[I]], %[[T]]
// CHECK: %[[O:.*]] = kerf.tanh {{.*}} loc("enc/out")
// CHECK: return %[[O]] : tensor<4x8xf32>
// CHECK-LABEL: func.func private @part_0(
// CHECK-SAME: %[[J:[a-z0-9]+]]: tensor<4x8xf32>{{.*}}, %[[T:[a-z0-9]+]]: tensor<8x8xf32>{{.*}}, %[[E:[a-z0-9]+]]: tensor<4x8xf32>
// CHECK: %[[V:.*]] = kerf.transpose %[[T]]
// CHECK: %[[D:.*]] = kerf.dot_general %[[J]], %[[V]] {{.*}} loc("dec/in")
// CHECK: kerf.add %[[D]], %[[E]] {{.*}} loc("dec/mix")
// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[T:[a-z0-9]+]]: tensor<8x8xf32> {{.*}} %[[I:[a-z0-9]+]]: tensor<4x8xf32> {{.*}} %[[J:[a-z0-9]+]]: tensor<4x8xf32>
// CHECK: %[[E:.*]] = kerf.call @part(%[[I]], %[[T]]) {kerf.part = 0 : i64} : {{.*}} loc("part 0")
// CHECK: %[[D:.*]] = kerf.call @part_0(%[[J]], %[[T]], %[[E]]) {kerf.part = 1 : i64} : {{.*}} loc("part 1")
// CHECK: %[[S:.*]] = kerf.multiply %[[D]], %[[E]]
// CHECK: kerf.reduce %[[S]]
func.func @main(%t: tensor<8x8xf32> {kerf.kind = "parameter", kerf.name = "t", kerf.trainable},
                %i: tensor<4x8xf32> {kerf.kind = "input", kerf.name = "i"},
                %j: tensor<4x8xf32> {kerf.kind = "input", kerf.name = "j"}) -> tensor<f32> {
  %v = kerf.transpose %t {permutation = array<i64: 1, 0>} : (tensor<8x8xf32>) -> tensor<8x8xf32> loc("view")
  %d = kerf.dot_general %j, %v {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("dec/in")
  %a = kerf.dot_general %i, %t {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("enc/in")
  %e = kerf.tanh %a : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("enc/out")
  %m = kerf.add %d, %e : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> loc("dec/mix")
  %s = kerf.multiply %m, %e : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> loc("skip")
  %l = kerf.reduce %s {kind = #kerf<reduce_kind sum>, dimensions = array<i64: 0, 1>} : (tensor<4x8xf32>) -> tensor<f32> loc("sum")
  return %l : tensor<f32>
}
