// RUN: kerf-opt %s | kerf-opt | FileCheck %s
// RUN: kerf-opt %s -kerf-differentiate | FileCheck %s --check-prefix=GRADIENT

// Every example of RoutingOps.td.

// CHECK-LABEL: func.func private @routing
func.func private @routing(%scores: tensor<3x4x8xf32>, %x: tensor<3x4x16xf32>, %weights: tensor<3x4x2xf32>) {
  // CHECK: kerf.top_k %{{.*}} : (tensor<3x4x8xf32>) -> (tensor<3x4x2xf32>, tensor<3x4x2xi64>)
  %values, %indices = kerf.top_k %scores : (tensor<3x4x8xf32>) -> (tensor<3x4x2xf32>, tensor<3x4x2xi64>)
  // CHECK: kerf.top_k_backward
  %1 = kerf.top_k_backward %indices, %values : (tensor<3x4x2xi64>, tensor<3x4x2xf32>) -> tensor<3x4x8xf32>
  // CHECK: kerf.dispatch %{{.*}} {experts = 8 : i64}
  %slots = kerf.dispatch %x, %indices, %weights {experts = 8 : i64} : (tensor<3x4x16xf32>, tensor<3x4x2xi64>, tensor<3x4x2xf32>) -> tensor<8x3x4x16xf32>
  // CHECK: kerf.combine %{{.*}} {experts = 8 : i64}
  %3 = kerf.combine %slots, %indices, %weights {experts = 8 : i64} : (tensor<8x3x4x16xf32>, tensor<3x4x2xi64>, tensor<3x4x2xf32>) -> tensor<3x4x16xf32>
  // CHECK: kerf.combine_backward %{{.*}} {experts = 8 : i64}
  %4 = kerf.combine_backward %slots, %indices, %x {experts = 8 : i64} : (tensor<8x3x4x16xf32>, tensor<3x4x2xi64>, tensor<3x4x16xf32>) -> tensor<3x4x2xf32>
  return
}

// A mixture of experts in which each expert multiplies by a number.

// GRADIENT-LABEL: func.func @main
// GRADIENT: %[[V:.*]], %[[I:.*]] = kerf.top_k
// GRADIENT: %[[SLOTS:.*]] = kerf.dispatch %[[X:.*]], %[[I]], %[[ONES:.*]] {experts = 4 : i64}
// GRADIENT: %[[MADE:.*]] = kerf.multiply %[[SLOTS]]
// GRADIENT: kerf.combine %[[MADE]], %[[I]], %[[V]]
// GRADIENT-DAG: %[[DMADE:.*]] = kerf.dispatch %[[DY:.*]], %[[I]], %[[V]] {experts = 4 : i64, kerf.backward}
// GRADIENT-DAG: %[[DV:.*]] = kerf.combine_backward %[[MADE]], %[[I]], %[[DY]] {experts = 4 : i64, kerf.backward}
// GRADIENT-DAG: kerf.top_k_backward %[[I]], %[[DV]] {kerf.backward}
// GRADIENT-DAG: kerf.combine %{{.*}}, %[[I]], %[[ONES]] {experts = 4 : i64, kerf.backward}
func.func @main(%x: tensor<2x3x5xf32> {kerf.kind = "parameter", kerf.name = "x", kerf.trainable},
                %scores: tensor<2x3x4xf32> {kerf.kind = "parameter", kerf.name = "scores", kerf.trainable},
                %experts: tensor<4xf32> {kerf.kind = "parameter", kerf.name = "experts", kerf.trainable}) -> (tensor<f32> {kerf.name = "loss"}) {
  %v, %i = kerf.top_k %scores : (tensor<2x3x4xf32>) -> (tensor<2x3x2xf32>, tensor<2x3x2xi64>)
  %one = kerf.constant dense<1.0> : tensor<2x3x2xf32>
  %slots = kerf.dispatch %x, %i, %one {experts = 4 : i64} : (tensor<2x3x5xf32>, tensor<2x3x2xi64>, tensor<2x3x2xf32>) -> tensor<4x2x3x5xf32>
  %e = kerf.broadcast_in_dim %experts {broadcast_dimensions = array<i64: 0>} : (tensor<4xf32>) -> tensor<4x2x3x5xf32>
  %made = kerf.multiply %slots, %e : (tensor<4x2x3x5xf32>, tensor<4x2x3x5xf32>) -> tensor<4x2x3x5xf32>
  %y = kerf.combine %made, %i, %v {experts = 4 : i64} : (tensor<4x2x3x5xf32>, tensor<2x3x2xi64>, tensor<2x3x2xf32>) -> tensor<2x3x5xf32>
  %square = kerf.multiply %y, %y : (tensor<2x3x5xf32>, tensor<2x3x5xf32>) -> tensor<2x3x5xf32>
  %loss = kerf.reduce %square {kind = #kerf<reduce_kind sum>, dimensions = array<i64: 0, 1, 2>} : (tensor<2x3x5xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}
