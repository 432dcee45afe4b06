// RUN: kerf-opt %s --split-input-file --verify-diagnostics | FileCheck %s

// CHECK-LABEL: func.func @sums
func.func @sums(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: kerf.accumulate %{{.*}} : (tensor<4xf32>) -> tensor<4xf32>
  %s = kerf.accumulate %x : (tensor<4xf32>) -> tensor<4xf32>
  // CHECK: kerf.transfer %{{.*}} {from = 1 : i64, to = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  %y = kerf.transfer %s {from = 1 : i64, to = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

func.func @same_stage(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{goes from stage 2 to stage 2; both are at least 0, and differ}}
  %y = kerf.transfer %x {from = 2 : i64, to = 2 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

func.func @stage_below_zero(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{goes from stage 0 to stage -1; both are at least 0, and differ}}
  %y = kerf.transfer %x {from = 0 : i64, to = -1 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
