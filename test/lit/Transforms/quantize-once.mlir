// RUN: kerf-opt %s --kerf-quantize-once -split-input-file | FileCheck %s

// Both functions of a layer quantize %w, which is whole on each rank and cut by the model axis otherwise. Afterwards @main does so once for
// each layer. The activation %x is quantized in the layer as before. Magnitudes of all layers are combined before the first one is used.

// CHECK-LABEL: func.func private @layer(
// CHECK-SAME: %[[X:.*]]: tensor<4x8xbf16>, %[[W8:.*]]: tensor<8x8xf8E4M3FN> {kerf.global_type = tensor<8x16xf8E4M3FN>}, %[[M:.*]]: tensor<bf16>)
// CHECK-NEXT: %[[A:.*]] = kerf.abs %[[X]]
// CHECK-NEXT: %[[N:.*]] = kerf.reduce %[[A]]
// CHECK-NEXT: %[[X8:.*]] = kerf.quantize %[[X]], %[[N]]
// CHECK-NEXT: kerf.dot_general %[[X8]], %[[W8]], %[[N]], %[[M]]
// CHECK-NEXT: return
// CHECK-LABEL: func.func private @layer_backward(
// CHECK-SAME: %[[G:.*]]: tensor<4x8xf8E5M2>, %[[GM:.*]]: tensor<bf16>, %[[W8:.*]]: tensor<8x8xf8E4M3FN> {{.*}}, %[[M:.*]]: tensor<bf16>)
// CHECK-NEXT: kerf.dot_general %[[G]], %[[W8]], %[[GM]], %[[M]]
// CHECK-NEXT: return

// CHECK-LABEL: func.func @main
// CHECK: kerf.all_reduce {{.*}} cause = "c"
// CHECK: kerf.all_reduce {{.*}} cause = "c"
// CHECK: kerf.wait
// CHECK: kerf.quantize
// CHECK: kerf.wait
// CHECK: kerf.quantize
// CHECK-NOT: kerf.quantize
// CHECK: %[[Y:.*]] = kerf.call @layer(%{{.*}}, %[[A8:.*]], %[[AM:.*]]) :
// CHECK: %[[Z:.*]] = kerf.call @layer(%[[Y]], %[[B8:.*]], %[[BM:.*]]) :
// CHECK: kerf.call @layer_backward(%{{.*}}, %{{.*}}, %[[B8]], %[[BM]])
// CHECK: kerf.call @layer_backward(%{{.*}}, %{{.*}}, %[[A8]], %[[AM]])

func.func private @layer(%x: tensor<4x8xbf16>, %w: tensor<8x8xbf16> {kerf.global_type = tensor<8x16xbf16>}) -> tensor<4x8xbf16> {
  %a = kerf.abs %x : (tensor<4x8xbf16>) -> tensor<4x8xbf16>
  %n = kerf.reduce %a {kind = #kerf<reduce_kind max>, dimensions = array<i64: 0, 1>, kerf.per_microbatch} : (tensor<4x8xbf16>) -> tensor<bf16>
  %x8 = kerf.quantize %x, %n : (tensor<4x8xbf16>, tensor<bf16>) -> tensor<4x8xf8E4M3FN>
  %b = kerf.abs %w : (tensor<8x8xbf16>) -> tensor<8x8xbf16>
  %local = kerf.reduce %b {kind = #kerf<reduce_kind max>, dimensions = array<i64: 0, 1>, kerf.per_microbatch} : (tensor<8x8xbf16>) -> tensor<bf16>
  %p = kerf.all_reduce %local {axes = array<i64: 0, 1, 2>, kind = #kerf<reduce_kind max>, stream = "collectives", cause = "c"} : (tensor<bf16>) -> !kerf.pending<tensor<bf16>>
  %m = kerf.wait %p : (!kerf.pending<tensor<bf16>>) -> tensor<bf16>
  %w8 = kerf.quantize %w, %m : (tensor<8x8xbf16>, tensor<bf16>) -> tensor<8x8xf8E4M3FN>
  %y = kerf.dot_general %x8, %w8, %n, %m {lhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_batching = array<i64>, rhs_contracting = array<i64: 0>} : (tensor<4x8xf8E4M3FN>, tensor<8x8xf8E4M3FN>, tensor<bf16>, tensor<bf16>) -> tensor<4x8xbf16>
  return %y : tensor<4x8xbf16>
}
func.func private @layer_backward(%g: tensor<4x8xf8E5M2>, %gm: tensor<bf16>, %w: tensor<8x8xbf16> {kerf.global_type = tensor<8x16xbf16>}) -> tensor<4x8xbf16> {
  %b = kerf.abs %w {kerf.backward} : (tensor<8x8xbf16>) -> tensor<8x8xbf16>
  %local = kerf.reduce %b {kind = #kerf<reduce_kind max>, dimensions = array<i64: 0, 1>, kerf.per_microbatch, kerf.backward} : (tensor<8x8xbf16>) -> tensor<bf16>
  %p = kerf.all_reduce %local {axes = array<i64: 0, 1, 2>, kind = #kerf<reduce_kind max>, stream = "collectives", cause = "d"} : (tensor<bf16>) -> !kerf.pending<tensor<bf16>>
  %m = kerf.wait %p : (!kerf.pending<tensor<bf16>>) -> tensor<bf16>
  %w8 = kerf.quantize %w, %m {kerf.backward} : (tensor<8x8xbf16>, tensor<bf16>) -> tensor<8x8xf8E4M3FN>
  %y = kerf.dot_general %g, %w8, %gm, %m {lhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_batching = array<i64>, rhs_contracting = array<i64: 1>} : (tensor<4x8xf8E5M2>, tensor<8x8xf8E4M3FN>, tensor<bf16>, tensor<bf16>) -> tensor<4x8xbf16>
  return %y : tensor<4x8xbf16>
}
func.func @main(%x: tensor<4x8xbf16> {kerf.kind = "input"}, %g: tensor<4x8xf8E5M2> {kerf.kind = "input"}, %gm: tensor<bf16> {kerf.kind = "input"}, %v: tensor<8x8xf32> {kerf.kind = "parameter"}, %w: tensor<8x8xf32> {kerf.kind = "parameter"}) -> (tensor<4x8xbf16>, tensor<4x8xbf16>, tensor<4x8xbf16>) {
  %v16 = kerf.convert %v : (tensor<8x8xf32>) -> tensor<8x8xbf16>
  %w16 = kerf.convert %w : (tensor<8x8xf32>) -> tensor<8x8xbf16>
  %y = kerf.call @layer(%x, %v16) : (tensor<4x8xbf16>, tensor<8x8xbf16>) -> tensor<4x8xbf16>
  %z = kerf.call @layer(%y, %w16) : (tensor<4x8xbf16>, tensor<8x8xbf16>) -> tensor<4x8xbf16>
  %d = kerf.call @layer_backward(%g, %gm, %w16) {kerf.backward} : (tensor<4x8xf8E5M2>, tensor<bf16>, tensor<8x8xbf16>) -> tensor<4x8xbf16>
  %e = kerf.call @layer_backward(%g, %gm, %v16) {kerf.backward} : (tensor<4x8xf8E5M2>, tensor<bf16>, tensor<8x8xbf16>) -> tensor<4x8xbf16>
  return %z, %d, %e : tensor<4x8xbf16>, tensor<4x8xbf16>, tensor<4x8xbf16>
}

// -----

// The layer gathers %w from equal shards: they are quantized in @main, with the magnitude of all of them, and the layer gathers 8-bit shards.
// The shards of %v have 3 and 2 rows, of which the layer cannot tell padding from numbers: it gathers and quantizes as before.

// CHECK-LABEL: func.func private @layer(
// CHECK-SAME: %[[X8:.*]]: tensor<4x8xf8E4M3FN>, %[[N:.*]]: tensor<bf16>, %[[V:.*]]: tensor<3x8xbf16>, %[[W8:.*]]: tensor<4x8xf8E4M3FN>, %[[M:.*]]: tensor<bf16>)
// CHECK-DAG: kerf.all_gather %[[W8]] {{.*}} : (tensor<4x8xf8E4M3FN>) -> !kerf.pending<tensor<8x8xf8E4M3FN>>
// CHECK-DAG: kerf.all_gather %[[V]] {{.*}} : (tensor<3x8xbf16>) -> !kerf.pending<tensor<5x8xbf16>>
// CHECK: kerf.quantize {{.*}} -> tensor<5x8xf8E4M3FN>
// CHECK-NOT: kerf.quantize
// CHECK-LABEL: func.func @main
// CHECK: %[[S:.*]] = kerf.convert %{{.*}} : (tensor<4x8xf32>)
// CHECK-NEXT: %[[A:.*]] = kerf.abs %[[S]]
// CHECK-NEXT: %[[L:.*]] = kerf.reduce %[[A]]
// CHECK: %[[P:.*]] = kerf.all_reduce %[[L]] {axes = array<i64: 0, 1, 2>, {{.*}}kind = #kerf<reduce_kind max>
// CHECK: %[[M:.*]] = kerf.wait %[[P]]
// CHECK: %[[W8:.*]] = kerf.quantize %[[S]], %[[M]] : (tensor<4x8xbf16>, tensor<bf16>) -> tensor<4x8xf8E4M3FN>
// CHECK: kerf.call @layer(%{{.*}}, %{{.*}}, %{{.*}}, %[[W8]], %[[M]])

func.func private @layer(%x8: tensor<4x8xf8E4M3FN>, %n: tensor<bf16>, %w: tensor<4x8xbf16>, %v: tensor<3x8xbf16>) -> (tensor<4x8xbf16>, tensor<4x5xbf16>) {
  %g = kerf.all_gather %w {axes = array<i64: 0, 1, 2>, dim = 0 : i64, stream = "collectives", cause = "g"} : (tensor<4x8xbf16>) -> !kerf.pending<tensor<8x8xbf16>>
  %whole = kerf.wait %g : (!kerf.pending<tensor<8x8xbf16>>) -> tensor<8x8xbf16>
  %a = kerf.abs %whole : (tensor<8x8xbf16>) -> tensor<8x8xbf16>
  %m = kerf.reduce %a {kind = #kerf<reduce_kind max>, dimensions = array<i64: 0, 1>, kerf.per_microbatch} : (tensor<8x8xbf16>) -> tensor<bf16>
  %w8 = kerf.quantize %whole, %m : (tensor<8x8xbf16>, tensor<bf16>) -> tensor<8x8xf8E4M3FN>
  %y = kerf.dot_general %x8, %w8, %n, %m {lhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_batching = array<i64>, rhs_contracting = array<i64: 0>} : (tensor<4x8xf8E4M3FN>, tensor<8x8xf8E4M3FN>, tensor<bf16>, tensor<bf16>) -> tensor<4x8xbf16>
  %h = kerf.all_gather %v {axes = array<i64: 0, 1, 2>, dim = 0 : i64, stream = "collectives", cause = "h"} : (tensor<3x8xbf16>) -> !kerf.pending<tensor<5x8xbf16>>
  %all = kerf.wait %h : (!kerf.pending<tensor<5x8xbf16>>) -> tensor<5x8xbf16>
  %b = kerf.abs %all : (tensor<5x8xbf16>) -> tensor<5x8xbf16>
  %k = kerf.reduce %b {kind = #kerf<reduce_kind max>, dimensions = array<i64: 0, 1>, kerf.per_microbatch} : (tensor<5x8xbf16>) -> tensor<bf16>
  %v8 = kerf.quantize %all, %k : (tensor<5x8xbf16>, tensor<bf16>) -> tensor<5x8xf8E4M3FN>
  %z = kerf.dot_general %x8, %v8, %n, %k {lhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_batching = array<i64>, rhs_contracting = array<i64: 1>} : (tensor<4x8xf8E4M3FN>, tensor<5x8xf8E4M3FN>, tensor<bf16>, tensor<bf16>) -> tensor<4x5xbf16>
  return %y, %z : tensor<4x8xbf16>, tensor<4x5xbf16>
}
func.func @main(%x8: tensor<4x8xf8E4M3FN> {kerf.kind = "input"}, %n: tensor<bf16> {kerf.kind = "input"}, %w: tensor<4x8xf32> {kerf.kind = "parameter"}, %v: tensor<3x8xf32> {kerf.kind = "parameter"}) -> (tensor<4x8xbf16>, tensor<4x5xbf16>) {
  %w16 = kerf.convert %w : (tensor<4x8xf32>) -> tensor<4x8xbf16>
  %v16 = kerf.convert %v : (tensor<3x8xf32>) -> tensor<3x8xbf16>
  %y, %z = kerf.call @layer(%x8, %n, %w16, %v16) : (tensor<4x8xf8E4M3FN>, tensor<bf16>, tensor<4x8xbf16>, tensor<3x8xbf16>) -> (tensor<4x8xbf16>, tensor<4x5xbf16>)
  return %y, %z : tensor<4x8xbf16>, tensor<4x5xbf16>
}
