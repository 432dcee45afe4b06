// RUN: kerf-opt %s -split-input-file -kerf-add-optimizer="clip-norm=2.0" | FileCheck %s
// RUN: kerf-opt %s -split-input-file -kerf-add-optimizer="clip-norm=2.0 reduce-type=bf16" | FileCheck %s --check-prefix=REDUCE

// The learning rate of a float64 model is float64. The squares of 16-bit gradients are summed in f32.

// CHECK-LABEL: func.func @main
// CHECK-SAME: tensor<f64> {kerf.kind = "learning_rate"
func.func @main(%w: tensor<4xf64> {kerf.kind = "parameter", kerf.name = "w", kerf.trainable}, %l: tensor<f64> {kerf.kind = "input", kerf.name = "l"})
    -> (tensor<f64>, tensor<4xf64> {kerf.name = "gradient/w"}) {
  return %l, %w : tensor<f64>, tensor<4xf64>
}

// -----

// CHECK-LABEL: func.func @main
// CHECK-SAME: tensor<f32> {kerf.kind = "learning_rate"
// CHECK: %[[G:.*]] = kerf.sync_gradient
// CHECK: %[[WIDE:.*]] = kerf.convert %[[G]] : (tensor<4xbf16>) -> tensor<4xf32>
// CHECK: kerf.multiply %[[WIDE]], %[[WIDE]]
// CHECK: kerf.minimum {{.*}} -> tensor<f32>
// CHECK: kerf.convert {{.*}} (tensor<f32>) -> tensor<bf16>
// CHECK: kerf.map({{.*}}) {kerf.update = "w"} : (tensor<4xbf16>, tensor<4xbf16>, tensor<f32>) -> tensor<4xbf16> {
// CHECK: kerf.convert {{.*}} : (tensor<bf16>) -> tensor<f32>
// CHECK: kerf.subtract {{.*}} -> tensor<f32>
// CHECK: kerf.convert {{.*}} : (tensor<f32>) -> tensor<bf16>
// CHECK: kerf.yield {{.*}} : tensor<bf16>
func.func @main(%w: tensor<4xbf16> {kerf.kind = "parameter", kerf.name = "w", kerf.trainable}, %l: tensor<f32> {kerf.kind = "input", kerf.name = "l"})
    -> (tensor<f32>, tensor<4xbf16> {kerf.name = "gradient/w"}) {
  return %l, %w : tensor<f32>, tensor<4xbf16>
}

// -----

// With reduce-type, gradients are summed over ranks in 16 bits.

// REDUCE-LABEL: func.func @main
// REDUCE: %[[N:.*]] = kerf.convert %{{.*}} : (tensor<4xf32>) -> tensor<4xbf16>
// REDUCE-NEXT: %[[S:.*]] = kerf.sync_gradient %[[N]] {parameter = "single"} : (tensor<4xbf16>) -> tensor<4xbf16>
// REDUCE-NEXT: %[[G:.*]] = kerf.convert %[[S]] : (tensor<4xbf16>) -> tensor<4xf32>
// REDUCE: kerf.multiply %[[G]], %[[G]]
func.func @main(%w: tensor<4xf32> {kerf.kind = "parameter", kerf.name = "single", kerf.trainable}, %l: tensor<f32> {kerf.kind = "input", kerf.name = "l"})
    -> (tensor<f32>, tensor<4xf32> {kerf.name = "gradient/single"}) {
  return %l, %w : tensor<f32>, tensor<4xf32>
}
