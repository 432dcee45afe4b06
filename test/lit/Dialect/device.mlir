// RUN: kerf-opt %s | kerf-opt | FileCheck %s
// The examples of the mesh, of reshard and of the ops of the device level.

// CHECK: kerf.mesh @mesh <"data"=2, "model"=4>
kerf.mesh @mesh #kerf.mesh<"data"=2, "model"=4>

// CHECK-LABEL: @planned
func.func @planned(%x: tensor<4x8xf32>) {
  // CHECK: kerf.reshard %{{.*}} {from = #kerf.sharding<[{}, {}], partial = ["model"]>, to = #kerf.sharding<[{"data"}, {}]>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = kerf.reshard %x {from = #kerf.sharding<[{}, {} ], partial = ["model"]>, to = #kerf.sharding<[{"data"}, {} ]>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: from = #kerf.sharding<[{"model":(1)2, "data"}/3, {"model":(2)2}], partial max = ["x"]>
  %z = kerf.reshard %x {from = #kerf.sharding<[{"model":(1)2, "data"}/3, {"model":(2)2}], partial max = ["x"]>, to = #kerf.sharding<[{}, {}]>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: @pieces
func.func @pieces(%x: tensor<3x8xf32>, %y: tensor<8x8xf32>) {
  // CHECK: kerf.shard_offset {axes = array<i64: 1, 1, 4>, chunk = 25 : i64} : () -> tensor<i64>
  %o = kerf.shard_offset {axes = array<i64: 1, 1, 4>, chunk = 25 : i64} : () -> tensor<i64>
  // CHECK: kerf.mask_padding %{{.*}} {axes = array<i64: 0, 1, 3>, dim = 0 : i64, fill = #kerf<reduce_kind sum>, size = 8 : i64} : (tensor<3x8xf32>) -> tensor<3x8xf32>
  %m = kerf.mask_padding %x {dim = 0 : i64, axes = array<i64: 0, 1, 3>, size = 8 : i64, fill = #kerf<reduce_kind sum>} : (tensor<3x8xf32>) -> tensor<3x8xf32>
  // CHECK: kerf.local_slice %{{.*}} {axes = array<i64: 0, 1, 4>, dim = 0 : i64} : (tensor<8x8xf32>) -> tensor<2x8xf32>
  %s = kerf.local_slice %y {dim = 0 : i64, axes = array<i64: 0, 1, 4>} : (tensor<8x8xf32>) -> tensor<2x8xf32>
  return
}

// CHECK-LABEL: @collectives
func.func @collectives(%x: tensor<4x8xf32>) {
  // CHECK: kerf.all_reduce %{{.*}} {axes = array<i64: 0, 1, 2>, cause = "reshard", kind = #kerf<reduce_kind sum>, stream = "comm"} : (tensor<4x8xf32>) -> !kerf.pending<tensor<4x8xf32>>
  %0 = kerf.all_reduce %x {axes = array<i64: 0, 1, 2>, kind = #kerf<reduce_kind sum>, stream = "comm", cause = "reshard"} : (tensor<4x8xf32>) -> !kerf.pending<tensor<4x8xf32>>
  // CHECK: kerf.wait %{{.*}} : (!kerf.pending<tensor<4x8xf32>>) -> tensor<4x8xf32>
  %y = kerf.wait %0 : (!kerf.pending<tensor<4x8xf32>>) -> tensor<4x8xf32>
  // The two shards hold 8 rows, of which the last is padding.
  // CHECK: kerf.all_gather {{.*}} -> !kerf.pending<tensor<7x8xf32>>
  %1 = kerf.all_gather %x {axes = array<i64: 0, 1, 2>, dim = 0 : i64, stream = "comm", cause = "reshard"} : (tensor<4x8xf32>) -> !kerf.pending<tensor<7x8xf32>>
  // CHECK: kerf.reduce_scatter {{.*}} -> !kerf.pending<tensor<4x3xf32>>
  %2 = kerf.reduce_scatter %x {axes = array<i64: 1, 2, 2, 0, 1, 2>, dim = 1 : i64, kind = #kerf<reduce_kind sum>, stream = "comm", cause = "reshard"} : (tensor<4x8xf32>) -> !kerf.pending<tensor<4x3xf32>>
  // CHECK: kerf.all_to_all {{.*}} {axes = array<i64: 1, 1, 4>, cause = "reshard", dim = 0 : i64, other_dim = 1 : i64, stream = "comm"} : (tensor<4x8xf32>) -> !kerf.pending<tensor<15x2xf32>>
  %3 = kerf.all_to_all %x {axes = array<i64: 1, 1, 4>, dim = 0 : i64, other_dim = 1 : i64, stream = "comm", cause = "reshard"} : (tensor<4x8xf32>) -> !kerf.pending<tensor<15x2xf32>>
  // CHECK: kerf.ring_shift {{.*}} -> !kerf.pending<tensor<4x8xf32>>
  %5 = kerf.ring_shift %x {axes = array<i64: 1, 1, 4>, stream = "ring", cause = "test"} : (tensor<4x8xf32>) -> !kerf.pending<tensor<4x8xf32>>
  // CHECK: kerf.ring_balance {{.*}} {axes = array<i64: 1, 1, 4>, cause = "test", dim = 1 : i64, inverse, stream = "ring"}
  %6 = kerf.ring_balance %x {axes = array<i64: 1, 1, 4>, dim = 1 : i64, inverse, stream = "ring", cause = "test"} : (tensor<4x8xf32>) -> !kerf.pending<tensor<4x8xf32>>
  // The rows are sharded by "data", and shall be sharded by one half of "model".
  // CHECK: kerf.collective_permute {{.*}} {after = array<i64: 2, 1, 1, 1, 2, 0>, axes = array<i64: 0, 1, 2, 1, 1, 2>, before = array<i64: 2, 1, 0, 1, 2, 0>
  %4 = kerf.collective_permute %x {axes = array<i64: 0, 1, 2, 1, 1, 2>, before = array<i64: 2, 1, 0, 1, 2, 0>, after = array<i64: 2, 1, 1, 1, 2, 0>, stream = "comm", cause = "reshard"} : (tensor<4x8xf32>) -> !kerf.pending<tensor<4x8xf32>>
  return
}
