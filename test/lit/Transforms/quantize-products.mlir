// RUN: kerf-opt %s -kerf-quantize-products -cse -split-input-file | FileCheck %s
// RUN: kerf-opt %s -kerf-quantize-products -kerf-differentiate -canonicalize -cse -split-input-file | FileCheck %s --check-prefix=GRADIENT

// A product of activations and a parameter gets 8-bit factors. Two products share the 8-bit copy of what both read. The product that
// gives the scores of the loss keeps its factors.

// CHECK-LABEL: func.func @main
// CHECK: %[[W:.*]] = kerf.convert %arg1
// CHECK: %[[SIZE:.*]] = kerf.abs %arg0 : (tensor<16x32xbf16>)
// CHECK: %[[M:.*]] = kerf.reduce %[[SIZE]] {dimensions = array<i64: 0, 1>, kerf.per_microbatch, kind = #kerf<reduce_kind max>} : (tensor<16x32xbf16>) -> tensor<bf16>
// CHECK: %[[X8:.*]] = kerf.quantize %arg0, %[[M]] : (tensor<16x32xbf16>, tensor<bf16>) -> tensor<16x32xf8E4M3FN>
// CHECK: %[[N:.*]] = kerf.reduce
// CHECK: %[[W8:.*]] = kerf.quantize %[[W]], %[[N]] : (tensor<32x48xbf16>, tensor<bf16>) -> tensor<32x48xf8E4M3FN>
// CHECK: %[[Y:.*]] = kerf.dot_general %[[X8]], %[[W8]], %[[M]], %[[N]]
// CHECK-SAME: -> tensor<16x48xbf16>
// CHECK: kerf.dot_general %[[X8]],
// CHECK-SAME: tensor<32x48xf8E4M3FN>
// CHECK: kerf.dot_general %{{.*}}, %{{.*}} {{{.*}}} : (tensor<16x48xbf16>, tensor<48x64xbf16>) -> tensor<16x64xbf16>
// CHECK: kerf.cross_entropy

// The gradient of a result is quantized to f8E5M2 once, and multiplied by the 8-bit factors of the forward product. The gradient of a
// parameter is an f32 sum.

// GRADIENT-LABEL: func.func @main
// GRADIENT: %[[X8:.*]] = kerf.quantize %arg0, %[[M:.*]] : {{.*}} -> tensor<16x32xf8E4M3FN>
// GRADIENT: %[[G8:.*]] = kerf.quantize %{{.*}}, %[[G:.*]] {kerf.backward} : (tensor<16x48xbf16>, tensor<bf16>) -> tensor<16x48xf8E5M2>
// GRADIENT: kerf.dot_general %[[X8]], %[[G8]], %[[M]], %[[G]]
// GRADIENT-SAME: (tensor<16x32xf8E4M3FN>, tensor<16x48xf8E5M2>, tensor<bf16>, tensor<bf16>) -> tensor<32x48xf32>
func.func @main(%x: tensor<16x32xbf16> {kerf.kind = "input", kerf.name = "x"},
                %w: tensor<32x48xf32> {kerf.kind = "parameter", kerf.name = "w", kerf.trainable},
                %v: tensor<32x48xf32> {kerf.kind = "parameter", kerf.name = "v", kerf.trainable},
                %head: tensor<48x64xf32> {kerf.kind = "parameter", kerf.name = "head", kerf.trainable},
                %labels: tensor<16xi64> {kerf.kind = "input", kerf.name = "labels"}) -> tensor<f32> {
  %w16 = kerf.convert %w : (tensor<32x48xf32>) -> tensor<32x48xbf16>
  %v16 = kerf.convert %v : (tensor<32x48xf32>) -> tensor<32x48xbf16>
  %head16 = kerf.convert %head : (tensor<48x64xf32>) -> tensor<48x64xbf16>
  %a = kerf.dot_general %x, %w16 {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>} : (tensor<16x32xbf16>, tensor<32x48xbf16>) -> tensor<16x48xbf16>
  %b = kerf.dot_general %x, %v16 {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>} : (tensor<16x32xbf16>, tensor<32x48xbf16>) -> tensor<16x48xbf16>
  %h = kerf.multiply %a, %b : (tensor<16x48xbf16>, tensor<16x48xbf16>) -> tensor<16x48xbf16>
  %scores = kerf.dot_general %h, %head16 {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>} : (tensor<16x48xbf16>, tensor<48x64xbf16>) -> tensor<16x64xbf16>
  %nll, %lse = kerf.cross_entropy %scores, %labels {ignore_index = -100 : i64} : (tensor<16x64xbf16>, tensor<16xi64>) -> (tensor<16xf32>, tensor<16xf32>)
  %loss = kerf.reduce %nll {kind = #kerf<reduce_kind sum>, dimensions = array<i64: 0>} : (tensor<16xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}
