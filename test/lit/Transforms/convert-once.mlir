// RUN: kerf-opt %s --kerf-convert-once | FileCheck %s

// The weight is converted for each call of the layer, and the copy is saved for the backward. Afterwards each weight is
// converted once. Shards are converted before they are gathered. The scale is also read in f32, and %h is no parameter:
// they stay as they are.

// CHECK-LABEL: func.func private @layer(
// CHECK-SAME: %arg0: tensor<4x8xbf16>, %arg1: tensor<8x8xbf16> {kerf.global_type = tensor<8x8xbf16>}, %arg2: tensor<4x8xbf16>, %arg3: tensor<8xf32>, %arg4: tensor<4x8xf32>)
// CHECK-SAME: -> (tensor<4x8xbf16>, tensor<8x8xbf16>)
// CHECK-NEXT: kerf.dot_general %arg0, %arg1
// CHECK-NEXT: %[[G:.*]] = kerf.all_gather %arg2 {{.*}} : (tensor<4x8xbf16>) -> !kerf.pending<tensor<8x8xbf16>>
// CHECK-NEXT: %[[W:.*]] = kerf.wait %[[G]]
// CHECK-NEXT: kerf.dot_general %{{.*}}, %[[W]]
// CHECK-NEXT: kerf.convert %arg3
// CHECK: kerf.convert %arg4
// CHECK: return %{{.*}}, %[[W]]

// CHECK-LABEL: func.func @main
// CHECK-DAG: %[[A:.*]] = kerf.convert %arg1 : (tensor<8x8xf32>) -> tensor<8x8xbf16>
// CHECK-DAG: %[[S:.*]] = kerf.convert %arg2 : (tensor<4x8xf32>) -> tensor<4x8xbf16>
// CHECK-NOT: kerf.convert
// CHECK: %[[Y:.*]]:2 = kerf.call @layer(%arg0, %[[A]], %[[S]], %arg3, %[[H:.*]])
// CHECK-NEXT: %[[Z:.*]]:2 = kerf.call @layer(%[[Y]]#0, %[[A]], %[[S]], %arg3, %[[H]])
// CHECK-NEXT: kerf.call @layer_backward(%[[A]], %[[Z]]#1, %[[Z]]#0) {kerf.backward}
// CHECK-NEXT: kerf.call @layer_backward(%[[A]], %[[Y]]#1, %{{.*}}) {kerf.backward}

func.func private @layer(%x: tensor<4x8xbf16>, %w: tensor<8x8xf32> {kerf.global_type = tensor<8x8xf32>}, %v: tensor<4x8xf32>, %scale: tensor<8xf32>, %h: tensor<4x8xf32>) -> (tensor<4x8xbf16>, tensor<8x8xbf16>, tensor<8x8xbf16>) {
  %w16 = kerf.convert %w : (tensor<8x8xf32>) -> tensor<8x8xbf16>
  %a = kerf.dot_general %x, %w16 {lhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_batching = array<i64>, rhs_contracting = array<i64: 0>} : (tensor<4x8xbf16>, tensor<8x8xbf16>) -> tensor<4x8xbf16>
  %g = kerf.all_gather %v {axes = array<i64: 0, 1, 2>, dim = 0 : i64, stream = "collectives", cause = ""} : (tensor<4x8xf32>) -> !kerf.pending<tensor<8x8xf32>>
  %whole = kerf.wait %g : (!kerf.pending<tensor<8x8xf32>>) -> tensor<8x8xf32>
  %v16 = kerf.convert %whole : (tensor<8x8xf32>) -> tensor<8x8xbf16>
  %b = kerf.dot_general %a, %v16 {lhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_batching = array<i64>, rhs_contracting = array<i64: 0>} : (tensor<4x8xbf16>, tensor<8x8xbf16>) -> tensor<4x8xbf16>
  %scale16 = kerf.convert %scale : (tensor<8xf32>) -> tensor<8xbf16>
  %root = kerf.sqrt %scale : (tensor<8xf32>) -> tensor<8xf32>
  %root16 = kerf.convert %root : (tensor<8xf32>) -> tensor<8xbf16>
  %sum = kerf.add %scale16, %root16 : (tensor<8xbf16>, tensor<8xbf16>) -> tensor<8xbf16>
  %spread = kerf.broadcast_in_dim %sum {broadcast_dimensions = array<i64: 1>} : (tensor<8xbf16>) -> tensor<4x8xbf16>
  %h16 = kerf.convert %h : (tensor<4x8xf32>) -> tensor<4x8xbf16>
  %c = kerf.multiply %b, %spread : (tensor<4x8xbf16>, tensor<4x8xbf16>) -> tensor<4x8xbf16>
  %y = kerf.add %c, %h16 : (tensor<4x8xbf16>, tensor<4x8xbf16>) -> tensor<4x8xbf16>
  return %y, %w16, %v16 : tensor<4x8xbf16>, tensor<8x8xbf16>, tensor<8x8xbf16>
}
func.func private @layer_backward(%w: tensor<8x8xbf16>, %v: tensor<8x8xbf16>, %dy: tensor<4x8xbf16>) -> tensor<4x8xbf16> {
  %0 = kerf.dot_general %dy, %v {lhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_batching = array<i64>, rhs_contracting = array<i64: 1>} : (tensor<4x8xbf16>, tensor<8x8xbf16>) -> tensor<4x8xbf16>
  %1 = kerf.dot_general %0, %w {lhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_batching = array<i64>, rhs_contracting = array<i64: 1>} : (tensor<4x8xbf16>, tensor<8x8xbf16>) -> tensor<4x8xbf16>
  return %1 : tensor<4x8xbf16>
}
func.func @main(%x: tensor<4x8xbf16> {kerf.kind = "input"}, %w: tensor<8x8xf32> {kerf.kind = "parameter"}, %v: tensor<4x8xf32> {kerf.kind = "parameter"}, %scale: tensor<8xf32> {kerf.kind = "parameter"}, %h: tensor<4x8xf32> {kerf.kind = "input"}) -> tensor<4x8xbf16> {
  %n = kerf.negate %h : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %y0, %w0, %v0 = kerf.call @layer(%x, %w, %v, %scale, %n) : (tensor<4x8xbf16>, tensor<8x8xf32>, tensor<4x8xf32>, tensor<8xf32>, tensor<4x8xf32>) -> (tensor<4x8xbf16>, tensor<8x8xbf16>, tensor<8x8xbf16>)
  %y1, %w1, %v1 = kerf.call @layer(%y0, %w, %v, %scale, %n) : (tensor<4x8xbf16>, tensor<8x8xf32>, tensor<4x8xf32>, tensor<8xf32>, tensor<4x8xf32>) -> (tensor<4x8xbf16>, tensor<8x8xbf16>, tensor<8x8xbf16>)
  %d1 = kerf.call @layer_backward(%w1, %v1, %y1) {kerf.backward} : (tensor<8x8xbf16>, tensor<8x8xbf16>, tensor<4x8xbf16>) -> tensor<4x8xbf16>
  %d0 = kerf.call @layer_backward(%w0, %v0, %d1) {kerf.backward} : (tensor<8x8xbf16>, tensor<8x8xbf16>, tensor<4x8xbf16>) -> tensor<4x8xbf16>
  return %d0 : tensor<4x8xbf16>
}
