// RUN: kerf-opt %s | kerf-opt | FileCheck %s
// The examples of calls, dropout, sync_gradient and maps.

func.func private @layer(tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>

// CHECK-LABEL: @step
func.func @step(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %p: tensor<8xf32>, %m: tensor<8xf32>, %v: tensor<8xf32>, %g: tensor<8xf32>,
                %lr: tensor<f32>, %step: tensor<i64>, %skip: tensor<i1>) {
  // CHECK: kerf.call @layer(%{{.*}}, %{{.*}}) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %y = kerf.call @layer(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  // CHECK: kerf.sync_gradient %{{.*}} {parameter = "w"} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %s = kerf.sync_gradient %w {parameter = "w"} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  // CHECK: %{{.*}}:2 = kerf.map(%{{.*}}, %{{.*}}, %{{.*}}) {kerf.update = "w"} : (tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> (tensor<8xf32>, tensor<8xf32>) {
  // CHECK-NEXT: ^bb0(%[[P:.*]]: tensor<f32>, %[[G:.*]]: tensor<f32>, %[[RATE:.*]]: tensor<f32>):
  // CHECK-NEXT: %[[CHANGE:.*]] = kerf.multiply %[[RATE]], %[[G]] : (tensor<f32>, tensor<f32>) -> tensor<f32>
  // CHECK-NEXT: %[[NEW:.*]] = kerf.subtract %[[P]], %[[CHANGE]] : (tensor<f32>, tensor<f32>) -> tensor<f32>
  // CHECK-NEXT: kerf.yield %[[NEW]], %[[CHANGE]] : tensor<f32>, tensor<f32>
  %p1, %v1 = kerf.map(%p, %g, %lr) {kerf.update = "w"} : (tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> (tensor<8xf32>, tensor<8xf32>) {
  ^bb0(%one: tensor<f32>, %slope: tensor<f32>, %rate: tensor<f32>):
    %change = kerf.multiply %rate, %slope : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %new = kerf.subtract %one, %change : (tensor<f32>, tensor<f32>) -> tensor<f32>
    kerf.yield %new, %change : tensor<f32>, tensor<f32>
  }
  // CHECK: kerf.count_nonfinite %{{.*}} : (tensor<8x8xf32>) -> tensor<i64>
  %n = kerf.count_nonfinite %w : (tensor<8x8xf32>) -> tensor<i64>
  // CHECK: kerf.dropout %{{.*}} {rate = 1.000000e-01 : f64} : (tensor<8x8xf32>, tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<8x8xf32>
  %d = kerf.dropout %w, %step, %step, %step {rate = 0.1 : f64} : (tensor<8x8xf32>, tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<8x8xf32>
  // CHECK: kerf.dropout %{{.*}} {rate = 1.000000e-01 : f64, sizes = array<i64: 16, 8>} : (tensor<8x8xf32>, tensor<i64>, tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<8x8xf32>
  %piece = kerf.dropout %w, %step, %step, %step, %step {rate = 0.1 : f64, sizes = array<i64: 16, 8>}
      : (tensor<8x8xf32>, tensor<i64>, tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<8x8xf32>
  return
}
