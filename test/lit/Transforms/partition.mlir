// RUN: kerf-opt --kerf-insert-reshards --kerf-partition --split-input-file %s | FileCheck %s

// Megatron's pair of products on four ranks: columns, then rows, one all-reduce. Shapes are local; the program does not name a rank.

kerf.mesh @mesh #kerf.mesh<"model"=4>
// CHECK-LABEL: func.func @two_products_one_all_reduce
// CHECK-SAME: tensor<2x8xf32>{{.*}}, %{{.*}}: tensor<8x4xf32>{{.*}}, %{{.*}}: tensor<4x8xf32>
func.func @two_products_one_all_reduce(
    %x: tensor<2x8xf32> {kerf.sharding = #kerf.sharding<[{}, {}]>},
    %a: tensor<8x16xf32> {kerf.sharding = #kerf.sharding<[{}, {"model"}]>},
    %b: tensor<16x8xf32> {kerf.sharding = #kerf.sharding<[{"model"}, {}]>}) -> tensor<2x8xf32> {
  // CHECK: kerf.dot_general {{.*}} -> tensor<2x4xf32>
  // CHECK: kerf.gelu {{.*}} -> tensor<2x4xf32>
  // CHECK: %[[P:.*]] = kerf.dot_general {{.*}} -> tensor<2x8xf32>
  // CHECK: %[[S:.*]] = kerf.all_reduce %[[P]] {axes = array<i64: 0, 1, 4>, {{.*}}kind = #kerf<reduce_kind sum>
  // CHECK: kerf.wait %[[S]] : (!kerf.pending<tensor<2x8xf32>>) -> tensor<2x8xf32>
  // CHECK-NOT: kerf.all_
  %0 = kerf.dot_general %x, %a {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 1>,
      rhs_contracting = array<i64: 0>, kerf.strategy = {model = "n"}} : (tensor<2x8xf32>, tensor<8x16xf32>) -> tensor<2x16xf32>
  %1 = kerf.gelu %0 {approximate} : (tensor<2x16xf32>) -> tensor<2x16xf32>
  %2 = kerf.dot_general %1, %b {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 1>,
      rhs_contracting = array<i64: 0>, kerf.strategy = {model = "k"}} : (tensor<2x16xf32>, tensor<16x8xf32>) -> tensor<2x8xf32>
  %3 = kerf.reshard %2 {from = #kerf.sharding<[{}, {}], partial = ["model"]>, to = #kerf.sharding<[{}, {}]>} : (tensor<2x8xf32>) -> tensor<2x8xf32>
  return %3 : tensor<2x8xf32>
}

// -----

// Seven rows over three ranks: three each, the last rank has one and two of padding, which must not reach the sum.

kerf.mesh @mesh #kerf.mesh<"data"=3>
// CHECK-LABEL: func.func @padding_is_masked_before_a_sum
func.func @padding_is_masked_before_a_sum(%x: tensor<7x4xf32> {kerf.sharding = #kerf.sharding<[{"data"}, {}]>}) -> tensor<4xf32> {
  // CHECK: %[[M:.*]] = kerf.mask_padding %{{.*}} {axes = array<i64: 0, 1, 3>, dim = 0 : i64, fill = #kerf<reduce_kind sum>, size = 7 : i64} : (tensor<3x4xf32>)
  // CHECK: kerf.reduce %[[M]]
  %y = kerf.reduce %x {kind = #kerf<reduce_kind sum>, dimensions = array<i64: 0>, kerf.strategy = {data = "r"}} : (tensor<7x4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// Each rank looks up the rows that it has; the others' come by the sum.

kerf.mesh @mesh #kerf.mesh<"model"=2>
// CHECK-LABEL: func.func @rows_of_a_table_are_cut
func.func @rows_of_a_table_are_cut(
    %t: tensor<10x4xf32> {kerf.sharding = #kerf.sharding<[{"model"}, {}]>},
    %i: tensor<3xi64> {kerf.sharding = #kerf.sharding<[{}]>}) -> tensor<3x4xf32> {
  // CHECK: %[[O:.*]] = kerf.shard_offset {axes = array<i64: 0, 1, 2>, chunk = 5 : i64}
  // CHECK: kerf.embedding %{{.*}}, %{{.*}}, %[[O]] {rows = 10 : i64} : (tensor<5x4xf32>
  %y = kerf.embedding %t, %i {rows = 10 : i64, kerf.strategy = {model = "v"}} : (tensor<10x4xf32>, tensor<3xi64>) -> tensor<3x4xf32>
  return %y : tensor<3x4xf32>
}

// -----

// A call takes the local types of its callee.

kerf.mesh @mesh #kerf.mesh<"data"=2>
// CHECK-LABEL: func.func private @layer
// CHECK-SAME: tensor<2x4xf32>
func.func private @layer(%x: tensor<4x4xf32> {kerf.sharding = #kerf.sharding<[{"data"}, {}]>}) -> tensor<4x4xf32> {
  %y = kerf.tanh %x : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %y : tensor<4x4xf32>
}
// CHECK-LABEL: func.func @calls_are_local
func.func @calls_are_local(%x: tensor<4x4xf32> {kerf.sharding = #kerf.sharding<[{}, {}]>}) -> tensor<4x4xf32> {
  // CHECK: %[[L:.*]] = kerf.local_slice %{{.*}} {axes = array<i64: 0, 1, 2>, dim = 0 : i64}
  // CHECK: kerf.call @layer(%[[L]]) : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %y = kerf.call @layer(%x) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %y : tensor<4x4xf32>
}
