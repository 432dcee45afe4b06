// RUN: kerf-opt %s | kerf-opt | FileCheck %s

// Every example of CompositeOps.td.

// CHECK-LABEL: func.func @composites
func.func @composites(%x: tensor<4x8xf32>, %s: tensor<8xf32>, %rows: tensor<4xf32>, %q: tensor<2x8x4x16xf32>, %k: tensor<2x8x2x16xf32>,
    %mask: tensor<1x4x8x8xi1>, %logits: tensor<4x8x97xf32>, %labels: tensor<4x8xi64>, %table: tensor<97x8xf32>, %ids: tensor<4xi64>) {
  // CHECK: kerf.softmax
  %0 = kerf.softmax %x {dimension = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: kerf.softmax_backward
  %1 = kerf.softmax_backward %0, %x {dimension = 1 : i64} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: kerf.gelu %{{.*}} {approximate}
  %2 = kerf.gelu %x {approximate} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: kerf.gelu_backward
  %3 = kerf.gelu_backward %x, %2 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: kerf.layer_norm
  %y, %mean, %rstd = kerf.layer_norm %x, %s, %s {epsilon = 1.0e-5 : f64} : (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4xf32>, tensor<4xf32>)
  // CHECK: kerf.layer_norm_backward
  %dx, %ds, %db = kerf.layer_norm_backward %x, %s, %mean, %rstd, %y : (tensor<4x8xf32>, tensor<8xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>)
  // CHECK: kerf.rms_norm
  %z, %r = kerf.rms_norm %x, %s {epsilon = 1.0e-6 : f64} : (tensor<4x8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4xf32>)
  // CHECK: kerf.rms_norm_backward
  %rx, %rd = kerf.rms_norm_backward %x, %s, %r, %z : (tensor<4x8xf32>, tensor<8xf32>, tensor<4xf32>, tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<8xf32>)
  // CHECK: kerf.attention %{{.*}} {causal, scale = 2.500000e-01 : f64}
  %out, %lse = kerf.attention %q, %k, %k, %mask {scale = 0.25 : f64, causal} : (tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x16xf32>, tensor<1x4x8x8xi1>) -> (tensor<2x8x4x16xf32>, tensor<2x4x8xf32>)
  // CHECK: kerf.attention_backward
  %dq, %dk, %dv = kerf.attention_backward %q, %k, %k, %mask, %out, %lse, %out {scale = 0.25 : f64, causal}
      : (tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x16xf32>, tensor<1x4x8x8xi1>, tensor<2x8x4x16xf32>, tensor<2x4x8xf32>, tensor<2x8x4x16xf32>)
      -> (tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x16xf32>)
  // CHECK: kerf.cross_entropy
  %nll, %l = kerf.cross_entropy %logits, %labels {ignore_index = -100 : i64} : (tensor<4x8x97xf32>, tensor<4x8xi64>) -> (tensor<4x8xf32>, tensor<4x8xf32>)
  // CHECK: kerf.cross_entropy_backward
  %dl = kerf.cross_entropy_backward %logits, %labels, %l, %nll {ignore_index = -100 : i64} : (tensor<4x8x97xf32>, tensor<4x8xi64>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8x97xf32>
  // CHECK: kerf.embedding
  %e = kerf.embedding %table, %ids {rows = 97 : i64} : (tensor<97x8xf32>, tensor<4xi64>) -> tensor<4x8xf32>
  // CHECK: kerf.embedding_backward
  %dt = kerf.embedding_backward %ids, %e {rows = 97 : i64} : (tensor<4xi64>, tensor<4x8xf32>) -> tensor<97x8xf32>
  return
}
