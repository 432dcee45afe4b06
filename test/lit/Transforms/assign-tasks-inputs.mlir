// RUN: kerf-opt %s --kerf-assign-tasks | FileCheck %s

// The gradient of a parameter in which the loss is linear depends on inputs alone. It is accumulated on the stage of
// the call that computes it, not on each stage of an update that reads it.
// CHECK: %[[G:.*]] = kerf.call @layer_backward(%arg0) {kerf.backward, kerf.task = {chunk = 0 : i64, phase = "backward", stage = 0 : i64}}
// CHECK-NEXT: %[[S:.*]] = kerf.accumulate %[[G]] {kerf.task = {chunk = 0 : i64, phase = "backward", stage = 0 : i64}}
// CHECK-NEXT: kerf.map(%arg1, %[[S]], {{.*}}phase = "update", stage = 0
kerf.mesh @mesh #kerf.mesh<"stage"=2>

func.func private @layer(%x: tensor<4xf32>, %w: tensor<4xf32>) -> tensor<4xf32> {
  %y = kerf.multiply %x, %w : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func private @layer_backward(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = kerf.add %x, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func @main(%x: tensor<4xf32> {kerf.kind = "input", kerf.name = "x"},
    %w: tensor<4xf32> {kerf.kind = "parameter", kerf.name = "w", kerf.updated_by = 1 : i64},
    %lr: tensor<f32> {kerf.kind = "learning_rate", kerf.name = "learning_rate"})
    -> (tensor<f32> {kerf.name = "loss"}, tensor<4xf32> {kerf.name = "w"}) {
  %y = kerf.call @layer(%x, %w) {kerf.part = 0 : i64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %l = kerf.reduce %y {kind = #kerf<reduce_kind sum>, dimensions = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
  %g = kerf.call @layer_backward(%x) {kerf.backward, kerf.part = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  %s = kerf.accumulate %g : (tensor<4xf32>) -> tensor<4xf32>
  %new = kerf.map(%w, %s, %lr) {kerf.update = "w"} : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32> {
  ^bb0(%p: tensor<f32>, %slope: tensor<f32>, %rate: tensor<f32>):
    %step = kerf.multiply %rate, %slope : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %q = kerf.subtract %p, %step : (tensor<f32>, tensor<f32>) -> tensor<f32>
    kerf.yield %q : tensor<f32>
  }
  return %l, %new : tensor<f32>, tensor<4xf32>
}
