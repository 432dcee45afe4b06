// RUN: kerf-opt %s -kerf-mixed-precision="dtype=f16 loss-scale=dynamic" -kerf-differentiate -kerf-add-optimizer="optimizer=adamw loss-scale-window=7" | FileCheck %s
// RUN: kerf-opt %s -kerf-mixed-precision="dtype=f16 loss-scale=static" -kerf-differentiate -kerf-add-optimizer | FileCheck %s --check-prefix=STATIC
// RUN: kerf-opt %s -kerf-mixed-precision="dtype=bf16" -kerf-differentiate -kerf-add-optimizer -canonicalize | FileCheck %s --check-prefix=SUMS

// The backward pass starts from the scale. Gradients are checked and divided by it when they are complete, and every
// update has the condition of a skipped step. The scale, its tracker and the number of updates are updated last.

// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[SCALE:[a-z0-9]+]]: tensor<f32> {kerf.kind = "state", kerf.name = "grad_scaler/scale", kerf.updated_by = 7 : i64}
// CHECK-SAME: %[[TRACKER:[a-z0-9]+]]: tensor<i64> {kerf.kind = "state", kerf.name = "grad_scaler/growth_tracker", kerf.updated_by = 8 : i64}
// CHECK-SAME: %[[UPDATES:[a-z0-9]+]]: tensor<i64> {kerf.kind = "state", kerf.name = "grad_scaler/updates", kerf.updated_by = 9 : i64}
// CHECK: kerf.convert %[[SCALE]] {kerf.backward} : (tensor<f32>) -> tensor<f16>
// CHECK: %[[GB:.*]] = kerf.sync_gradient %{{.*}} {parameter = "b"} : (tensor<8xf32>)
// CHECK: %[[GW:.*]] = kerf.sync_gradient %{{.*}} {parameter = "w"} : (tensor<8x8xf32>)
// CHECK: %[[NW:.*]] = kerf.count_nonfinite %[[GW]] : (tensor<8x8xf32>) -> tensor<i64>
// CHECK: %[[NB:.*]] = kerf.count_nonfinite %[[GB]] : (tensor<8xf32>) -> tensor<i64>
// CHECK: %[[N:.*]] = kerf.add %[[NW]], %[[NB]]
// CHECK: %[[SKIP:.*]] = kerf.compare %[[N]], %{{.*}} {direction = #kerf<comparison NE>, kerf.skips_step}
// CHECK: %[[INVERSE:.*]] = kerf.divide %{{.*}}, %[[SCALE]]
// CHECK: %[[WIDE:.*]] = kerf.broadcast_in_dim %[[INVERSE]]
// CHECK: %[[UW:.*]] = kerf.multiply %[[GW]], %[[WIDE]]
// CHECK: %[[GOOD:.*]] = kerf.add %[[TRACKER]], %{{.*}}
// CHECK: kerf.constant dense<7> : tensor<i64>
// CHECK: %[[GROWS:.*]] = kerf.compare %[[GOOD]], %{{.*}} {direction = #kerf<comparison GE>}
// CHECK: kerf.constant dense<5.000000e-01>
// CHECK: %[[HALVED:.*]] = kerf.multiply %[[SCALE]]
// CHECK: %[[GROWN:.*]] = kerf.select %[[GROWS]], %{{.*}}, %[[SCALE]]
// CHECK: %[[SCALE1:.*]] = kerf.select %[[SKIP]], %[[HALVED]], %[[GROWN]]
// CHECK: %[[TRACKER1:.*]] = kerf.select %[[SKIP]]
// CHECK: %[[UPDATES1:.*]] = kerf.select %[[SKIP]], %[[UPDATES]]
// CHECK: kerf.convert %[[UPDATES]] : (tensor<i64>) -> tensor<f64>
// CHECK: kerf.map({{.*}}%[[UW]]{{.*}}%[[SKIP]]{{.*}}kerf.update = "w"
// CHECK: return {{.*}}, %[[SCALE1]], %[[TRACKER1]], %[[UPDATES1]]

// A constant scale is not adapted, and SGD needs no number of updates.

// STATIC-LABEL: func.func @main(
// STATIC-SAME: %[[SCALE:[a-z0-9]+]]: tensor<f32> {kerf.kind = "constant", kerf.name = "grad_scaler/scale"}
// STATIC-NOT: grad_scaler
// STATIC: kerf.convert %[[SCALE]] {kerf.backward}
// STATIC: %[[SKIP:.*]] = kerf.compare {{.*}} {direction = #kerf<comparison NE>, kerf.skips_step}
// STATIC: kerf.map({{.*}}%[[SKIP]]
// STATIC: kerf.select

// Without a scale nothing is checked. Products and sums give the f32 of the parameters' gradients directly.

// SUMS-LABEL: func.func @main(
// SUMS-NOT: count_nonfinite
// SUMS: %[[DB:.*]] = kerf.reduce {{.*}}kerf.backward{{.*}} : (tensor<4x8xbf16>) -> tensor<8xf32>
// SUMS: kerf.sync_gradient %[[DB]] {parameter = "b"}
// SUMS: %[[DW:.*]] = kerf.dot_general {{.*}}kerf.backward{{.*}} : (tensor<4x8xbf16>, tensor<4x8xbf16>) -> tensor<8x8xf32>
// SUMS: kerf.sync_gradient %[[DW]] {parameter = "w"}
func.func @main(%x: tensor<4x8xf32> {kerf.kind = "input", kerf.name = "x"},
                %w: tensor<8x8xf32> {kerf.kind = "parameter", kerf.name = "w", kerf.trainable},
                %b: tensor<8xf32> {kerf.kind = "parameter", kerf.name = "b", kerf.trainable}) -> (tensor<f32> {kerf.name = "loss"}) {
  %y = kerf.dot_general %x, %w {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %bb = kerf.broadcast_in_dim %b {broadcast_dimensions = array<i64: 1>} : (tensor<8xf32>) -> tensor<4x8xf32>
  %z = kerf.add %y, %bb : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %t = kerf.tanh %z : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %loss = kerf.reduce %t {kind = #kerf<reduce_kind sum>, dimensions = array<i64: 0, 1>} : (tensor<4x8xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}
