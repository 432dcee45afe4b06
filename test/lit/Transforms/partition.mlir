// RUN: kerf-opt --kerf-insert-reshards --kerf-partition --split-input-file %s | FileCheck %s

// Megatron's pair of products on four ranks: sharded by columns, then by rows, with one all-reduce. Shapes are local,
// and the program names no rank.

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

// Seven rows over three ranks: three each. The last rank has one row and two of padding, which must not contribute to
// the sum.

kerf.mesh @mesh #kerf.mesh<"data"=3>
// CHECK-LABEL: func.func @padding_is_masked_before_a_sum
func.func @padding_is_masked_before_a_sum(%x: tensor<7x4xf32> {kerf.sharding = #kerf.sharding<[{"data"}, {}]>}) -> tensor<4xf32> {
  // CHECK: %[[M:.*]] = kerf.mask_padding %{{.*}} {axes = array<i64: 0, 1, 3>, dim = 0 : i64, fill = #kerf<reduce_kind sum>, size = 7 : i64} : (tensor<3x4xf32>)
  // CHECK: kerf.reduce %[[M]]
  %y = kerf.reduce %x {kind = #kerf<reduce_kind sum>, dimensions = array<i64: 0>, kerf.strategy = {data = "r"}} : (tensor<7x4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// Each rank looks up the rows of its own shard; the sum over ranks adds the others.

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

// A call gets the local types of its callee.

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

// -----

// Keys and values are sent around three ranks: the next block is sent while attention to the current one is computed.
// The sequence is first redistributed so that causal attention is equal work on every rank; the rank's own block is
// then ordinary causal attention.

kerf.mesh @mesh #kerf.mesh<"context"=3>
// CHECK-LABEL: func.func @causal_attention_round_a_ring
func.func @causal_attention_round_a_ring(
    %q: tensor<2x12x4x8xbf16> {kerf.sharding = #kerf.sharding<[{}, {"context"}, {}, {}]>},
    %k: tensor<2x12x2x8xbf16> {kerf.sharding = #kerf.sharding<[{}, {"context"}, {}, {}]>},
    %v: tensor<2x12x2x8xbf16> {kerf.sharding = #kerf.sharding<[{}, {"context"}, {}, {}]>}) -> tensor<2x12x4x8xbf16> {
  // CHECK: kerf.ring_balance {{.*}}dim = 1 : i64{{.*}} : (tensor<2x4x4x8xbf16>)
  // CHECK: %[[K0:.*]] = kerf.wait {{.*}} -> tensor<2x4x2x8xbf16>
  // CHECK: %[[P1:.*]] = kerf.ring_shift %[[K0]] {axes = array<i64: 0, 1, 3>, {{.*}}stream = "ring"}
  // CHECK: %[[O0:.*]], %[[L0:.*]] = kerf.attention %[[Q:.*]], %[[K0]], %{{.*}} {causal, scale = 2.500000e-01 : f64} : {{.*}} -> (tensor<2x4x4x8xf32>, tensor<2x4x4xf32>)
  // CHECK: %[[K1:.*]] = kerf.wait %[[P1]]
  // CHECK: %[[P2:.*]] = kerf.ring_shift %[[K1]]
  // CHECK: %[[O1:.*]], %[[L1:.*]] = kerf.attention_block %[[O0]], %[[L0]], %[[Q]], %[[K1]], %{{.*}} {axes = array<i64: 0, 1, 3>, balanced, causal, scale = 2.500000e-01 : f64, step = 1 : i64}
  // CHECK: %[[K2:.*]] = kerf.wait %[[P2]]
  // CHECK-NOT: kerf.ring_shift
  // CHECK: %[[O2:.*]], %[[L2:.*]] = kerf.attention_block %[[O1]], %[[L1]], %[[Q]], %[[K2]], {{.*}}step = 2 : i64
  // CHECK: %[[O:.*]] = kerf.convert %[[O2]] {{.*}} -> tensor<2x4x4x8xbf16>
  // CHECK: kerf.ring_balance %[[O]] {{.*}}dim = 1 : i64, inverse
  // CHECK: kerf.ring_balance %[[L2]] {{.*}}dim = 2 : i64, inverse
  %o, %l = kerf.attention %q, %k, %v {scale = 0.25 : f64, causal, kerf.ring, kerf.strategy = {context = "s"}}
      : (tensor<2x12x4x8xbf16>, tensor<2x12x2x8xbf16>, tensor<2x12x2x8xbf16>) -> (tensor<2x12x4x8xbf16>, tensor<2x4x12xf32>)
  %r = kerf.reshard %o {from = #kerf.sharding<[{}, {"context"}, {}, {}]>, to = #kerf.sharding<[{}, {}, {}, {}]>} : (tensor<2x12x4x8xbf16>) -> tensor<2x12x4x8xbf16>
  return %r : tensor<2x12x4x8xbf16>
}

// -----

// The gradients of keys and values follow their blocks, one shift later, and arrive where the blocks came from. A mask
// keeps all its columns; the rank's own block takes the columns of this rank.

kerf.mesh @mesh #kerf.mesh<"context"=3>
// CHECK-LABEL: func.func @gradients_follow_the_blocks
// CHECK-SAME: %[[Q:.*]]: tensor<1x3x2x8xf32>{{.*}}, %[[K:.*]]: tensor<1x3x2x8xf32>{{.*}}, %[[M:.*]]: tensor<1x1x3x9xf32>{{.*}}, %[[L:.*]]: tensor<1x2x3xf32>
func.func @gradients_follow_the_blocks(
    %q: tensor<1x9x2x8xf32> {kerf.sharding = #kerf.sharding<[{}, {"context"}, {}, {}]>},
    %k: tensor<1x9x2x8xf32> {kerf.sharding = #kerf.sharding<[{}, {"context"}, {}, {}]>},
    %m: tensor<1x1x9x9xf32> {kerf.sharding = #kerf.sharding<[{}, {}, {"context"}, {}]>},
    %l: tensor<1x2x9xf32> {kerf.sharding = #kerf.sharding<[{}, {}, {"context"}]>}) -> tensor<1x9x2x8xf32> {
  // CHECK-NOT: kerf.ring_balance
  // CHECK: %[[P1:.*]] = kerf.ring_shift %[[K]] {{.*}}cause = "keys and values
  // CHECK: %[[C:.*]] = kerf.local_slice %[[M]] {axes = array<i64: 0, 1, 3>, dim = 3 : i64} : (tensor<1x1x3x9xf32>) -> tensor<1x1x3x3xf32>
  // CHECK: %[[DQ0:.*]], %[[DK0:.*]], %{{.*}} = kerf.attention_backward %[[Q]], %[[K]], %{{.*}}, %[[C]],
  // CHECK: %[[K1:.*]] = kerf.wait %[[P1]]
  // CHECK: %[[P2:.*]] = kerf.ring_shift %[[K1]]
  // CHECK: %[[DQ1:.*]], %[[DK1:.*]], %{{.*}} = kerf.attention_block_backward %[[DQ0]], %[[Q]], %[[K1]], %{{.*}}, %[[M]], {{.*}}step = 1
  // CHECK: %[[F1:.*]] = kerf.ring_shift %[[DK1]] {{.*}}cause = "gradients of keys and values
  // CHECK: %[[K2:.*]] = kerf.wait %[[P2]]
  // CHECK: %[[DQ2:.*]], %[[DK2:.*]], %{{.*}} = kerf.attention_block_backward %[[DQ1]], %[[Q]], %[[K2]], {{.*}}step = 2
  // CHECK: %[[A1:.*]] = kerf.wait %[[F1]]
  // CHECK: %[[S1:.*]] = kerf.add %[[A1]], %[[DK2]]
  // CHECK: %[[F2:.*]] = kerf.ring_shift %[[S1]]
  // CHECK: %[[A2:.*]] = kerf.wait %[[F2]]
  // CHECK: %[[DK:.*]] = kerf.add %[[A2]], %[[DK0]]
  // CHECK: return %[[DK]]
  %dq, %dk, %dv = kerf.attention_backward %q, %k, %k, %m, %q, %l, %q {scale = 0.25 : f64, kerf.ring, kerf.strategy = {context = "s"}}
      : (tensor<1x9x2x8xf32>, tensor<1x9x2x8xf32>, tensor<1x9x2x8xf32>, tensor<1x1x9x9xf32>, tensor<1x9x2x8xf32>, tensor<1x2x9xf32>, tensor<1x9x2x8xf32>)
      -> (tensor<1x9x2x8xf32>, tensor<1x9x2x8xf32>, tensor<1x9x2x8xf32>)
  return %dk : tensor<1x9x2x8xf32>
}

// -----

// A slice of a broadcast along a dimension that the broadcast adds is a smaller broadcast. A slice along a dimension of
// the operand stays a slice.

kerf.mesh @mesh #kerf.mesh<"data"=2>
// CHECK-LABEL: func.func @slices_of_broadcasts
func.func @slices_of_broadcasts(%x: tensor<6xf32> {kerf.sharding = #kerf.sharding<[{}]>})
    -> (tensor<4x6xf32> {kerf.sharding = #kerf.sharding<[{"data"}, {}]>}, tensor<4x6xf32> {kerf.sharding = #kerf.sharding<[{}, {"data"}]>}) {
  // CHECK-DAG: %[[SMALL:.*]] = kerf.broadcast_in_dim %{{.*}} -> tensor<2x6xf32>
  // CHECK-DAG: %[[WHOLE:.*]] = kerf.broadcast_in_dim %{{.*}} -> tensor<4x6xf32>
  // CHECK-DAG: %[[SLICE:.*]] = kerf.local_slice %[[WHOLE]]
  // CHECK: return %[[SMALL]], %[[SLICE]]
  %b = kerf.broadcast_in_dim %x {broadcast_dimensions = array<i64: 1>, kerf.strategy = {}} : (tensor<6xf32>) -> tensor<4x6xf32>
  %0 = kerf.reshard %b {from = #kerf.sharding<[{}, {}]>, to = #kerf.sharding<[{"data"}, {}]>} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %1 = kerf.reshard %b {from = #kerf.sharding<[{}, {}]>, to = #kerf.sharding<[{}, {"data"}]>} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  return %0, %1 : tensor<4x6xf32>, tensor<4x6xf32>
}
