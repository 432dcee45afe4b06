// RUN: kerf-opt %s | kerf-opt | FileCheck %s
// Calls, dropout, synchronization and optimizer updates as their documentation shows them.

func.func private @layer(tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>

// CHECK-LABEL: @step
func.func @step(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %p: tensor<8xf32>, %m: tensor<8xf32>, %v: tensor<8xf32>, %g: tensor<8xf32>,
                %lr: tensor<f32>, %step: tensor<i64>, %skip: tensor<i1>) {
  // CHECK: kerf.call @layer(%{{.*}}, %{{.*}}) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %y = kerf.call @layer(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  // CHECK: kerf.sync_gradient %{{.*}} {parameter = "w"} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %s = kerf.sync_gradient %w {parameter = "w"} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  // CHECK: kerf.sgd %{{.*}} {momentum = 9.000000e-01 : f64, weight_decay = 0.000000e+00 : f64} : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> (tensor<8xf32>, tensor<8xf32>)
  %p1, %v1 = kerf.sgd %p, %v, %g, %lr {momentum = 0.9 : f64, weight_decay = 0.0 : f64}
      : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> (tensor<8xf32>, tensor<8xf32>)
  // CHECK: kerf.adamw %{{.*}} {beta1 = {{.*}} : f64, beta2 = {{.*}} : f64, epsilon = 1.000000e-08 : f64, weight_decay = {{.*}} : f64}
  %p2, %m2, %v2 = kerf.adamw %p, %m, %v, %g, %lr, %step {beta1 = 0.9 : f64, beta2 = 0.999 : f64, epsilon = 1.0e-8 : f64, weight_decay = 0.01 : f64}
      : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<i64>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
  // CHECK: kerf.count_nonfinite %{{.*}} : (tensor<8x8xf32>) -> tensor<i64>
  %n = kerf.count_nonfinite %w : (tensor<8x8xf32>) -> tensor<i64>
  // CHECK: kerf.sgd {{.*}} : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<i1>) -> (tensor<8xf32>, tensor<8xf32>)
  %p3, %v3 = kerf.sgd %p, %v, %g, %lr, %skip {momentum = 0.9 : f64, weight_decay = 0.0 : f64}
      : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<i1>) -> (tensor<8xf32>, tensor<8xf32>)
  // CHECK: kerf.adamw {{.*}} : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<i64>, tensor<i1>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
  %p4, %m4, %v4 = kerf.adamw %p, %m, %v, %g, %lr, %step, %skip {beta1 = 0.9 : f64, beta2 = 0.999 : f64, epsilon = 1.0e-8 : f64, weight_decay = 0.01 : f64}
      : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<i64>, tensor<i1>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
  // CHECK: kerf.dropout %{{.*}} {rate = 1.000000e-01 : f64} : (tensor<8x8xf32>, tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<8x8xf32>
  %d = kerf.dropout %w, %step, %step, %step {rate = 0.1 : f64} : (tensor<8x8xf32>, tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<8x8xf32>
  // CHECK: kerf.dropout %{{.*}} {rate = 1.000000e-01 : f64, sizes = array<i64: 16, 8>} : (tensor<8x8xf32>, tensor<i64>, tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<8x8xf32>
  %piece = kerf.dropout %w, %step, %step, %step, %step {rate = 0.1 : f64, sizes = array<i64: 16, 8>}
      : (tensor<8x8xf32>, tensor<i64>, tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<8x8xf32>
  return
}
