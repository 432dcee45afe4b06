// RUN: kerf-opt %s -kerf-expand-maps | FileCheck %s

// Ops on scalars alone stay scalar; a scalar that is combined with a tensor is broadcast. The ops keep the map's task
// and parameter.
// CHECK-LABEL: func.func @update
// CHECK-SAME: %[[P:[a-z0-9]+]]: tensor<2x4xf32>, %[[G:[a-z0-9]+]]: tensor<2x4xf32>, %[[LR:[a-z0-9]+]]: tensor<f32>
// CHECK-NEXT: %[[TWO:.*]] = kerf.constant {kerf.update = "w"} dense<2.000000e+00> : tensor<f32>
// CHECK-NEXT: %[[RATE:.*]] = kerf.multiply %[[LR]], %[[TWO]] {kerf.update = "w"} : (tensor<f32>, tensor<f32>) -> tensor<f32>
// CHECK-NEXT: %[[WIDE:.*]] = kerf.broadcast_in_dim %[[RATE]] {{.*}}kerf.update = "w"{{.*}} : (tensor<f32>) -> tensor<2x4xf32>
// CHECK-NEXT: %[[STEP:.*]] = kerf.multiply %[[WIDE]], %[[G]] {kerf.update = "w"} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
// CHECK-NEXT: %[[NEW:.*]] = kerf.subtract %[[P]], %[[STEP]] {kerf.update = "w"}
// CHECK-NEXT: %[[RATES:.*]] = kerf.broadcast_in_dim %[[RATE]]
// CHECK-NEXT: return %[[NEW]], %[[RATES]]
func.func @update(%p: tensor<2x4xf32>, %g: tensor<2x4xf32>, %lr: tensor<f32>) -> (tensor<2x4xf32>, tensor<2x4xf32>) {
  %new:2 = kerf.map(%p, %g, %lr) {kerf.update = "w"} : (tensor<2x4xf32>, tensor<2x4xf32>, tensor<f32>) -> (tensor<2x4xf32>, tensor<2x4xf32>) {
  ^bb0(%one: tensor<f32>, %slope: tensor<f32>, %rate: tensor<f32>):
    %two = kerf.constant dense<2.0> : tensor<f32>
    %twice = kerf.multiply %rate, %two : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %step = kerf.multiply %twice, %slope : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %made = kerf.subtract %one, %step : (tensor<f32>, tensor<f32>) -> tensor<f32>
    kerf.yield %made, %twice : tensor<f32>, tensor<f32>
  }
  return %new#0, %new#1 : tensor<2x4xf32>, tensor<2x4xf32>
}
