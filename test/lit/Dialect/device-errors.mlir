// RUN: kerf-opt %s -verify-diagnostics -split-input-file

func.func @axes_are_triples() {
  // expected-error @+1 {{has 2 numbers for axes; these are triples (index, before, size)}}
  %0 = kerf.shard_offset {axes = array<i64: 1, 1>, chunk = 25 : i64} : () -> tensor<i64>
  return
}

// -----

func.func @an_axis_has_at_least_one_position() {
  // expected-error @+1 {{has axis (1, 1, 0); (index, before, size) are at least (0, 1, 1)}}
  %0 = kerf.shard_offset {axes = array<i64: 1, 1, 0>, chunk = 25 : i64} : () -> tensor<i64>
  return
}

// -----

func.func @an_offset_is_a_scalar() {
  // expected-error @+1 {{has a result of rank 1; it is a scalar, of rank 0}}
  %0 = kerf.shard_offset {axes = array<i64: 1, 1, 4>, chunk = 25 : i64} : () -> tensor<1xi64>
  return
}

// -----

func.func @a_chunk_is_not_negative() {
  // expected-error @+1 {{chunk is -1; it is at least 0}}
  %0 = kerf.shard_offset {axes = array<i64: 1, 1, 4>, chunk = -1 : i64} : () -> tensor<i64>
  return
}

// -----

func.func @padding_lies_along_a_dimension_of_the_tensor(%x: tensor<3x8xf32>) {
  // expected-error @+1 {{dim 2 must be at least 0 and below the rank 2}}
  %0 = kerf.mask_padding %x {dim = 2 : i64, axes = array<i64: 0, 1, 3>, size = 8 : i64, fill = #kerf<reduce_kind sum>} : (tensor<3x8xf32>) -> tensor<3x8xf32>
  return
}

// -----

func.func @the_pieces_hold_all_of_a_dimension(%x: tensor<3x8xf32>) {
  // expected-error @+1 {{size 10 must be at least 0 and at most the 3 pieces of 3 that the axes and dimension 0 hold}}
  %0 = kerf.mask_padding %x {dim = 0 : i64, axes = array<i64: 0, 1, 3>, size = 10 : i64, fill = #kerf<reduce_kind sum>} : (tensor<3x8xf32>) -> tensor<3x8xf32>
  return
}

// -----

func.func @a_local_slice_cuts_one_dimension_only(%x: tensor<8x8xf32>) {
  // expected-error @+1 {{has size 8 in the operand and 4 in the result along dimension 1}}
  %0 = kerf.local_slice %x {dim = 0 : i64, axes = array<i64: 0, 1, 4>} : (tensor<8x8xf32>) -> tensor<2x4xf32>
  return
}

// -----

func.func @what_is_combined_keeps_its_type(%x: tensor<8xf32>) {
  // expected-error @+1 {{has an operand of type 'tensor<8xf32>' and a result of type 'tensor<4xf32>'; they must be equal}}
  %0 = kerf.all_reduce %x {axes = array<i64: 0, 1, 2>, kind = #kerf<reduce_kind sum>, stream = "comm", cause = "test"} : (tensor<8xf32>) -> !kerf.pending<tensor<4xf32>>
  return
}

// -----

func.func @what_is_gathered_fits_into_the_pieces(%x: tensor<4xf32>) {
  // expected-error @+1 {{has size 9 in the result along dimension 0, but 2 pieces of the operand's size 4 hold only 8}}
  %0 = kerf.all_gather %x {axes = array<i64: 0, 1, 2>, dim = 0 : i64, stream = "comm", cause = "test"} : (tensor<4xf32>) -> !kerf.pending<tensor<9xf32>>
  return
}

// -----

func.func @what_is_scattered_fits_into_the_pieces(%x: tensor<9xf32>) {
  // expected-error @+1 {{has size 9 in the operand along dimension 0, but 2 pieces of the result's size 4 hold only 8}}
  %0 = kerf.reduce_scatter %x {axes = array<i64: 0, 1, 2>, dim = 0 : i64, kind = #kerf<reduce_kind sum>, stream = "comm", cause = "test"} : (tensor<9xf32>) -> !kerf.pending<tensor<4xf32>>
  return
}

// -----

func.func @pieces_are_exchanged_for_those_of_another_dimension(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{dim and other_dim are both 1; they must differ}}
  %0 = kerf.all_to_all %x {axes = array<i64: 0, 1, 2>, dim = 1 : i64, other_dim = 1 : i64, stream = "comm", cause = "test"} : (tensor<4x8xf32>) -> !kerf.pending<tensor<4x8xf32>>
  return
}

// -----

func.func @exchanged_pieces_hold_the_other_dimension(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{has size 8 in the operand along dimension 1, but 2 pieces of the result's size 3 hold only 6}}
  %0 = kerf.all_to_all %x {axes = array<i64: 0, 1, 2>, dim = 0 : i64, other_dim = 1 : i64, stream = "comm", cause = "test"} : (tensor<4x8xf32>) -> !kerf.pending<tensor<8x3xf32>>
  return
}

// -----

func.func @a_layout_is_of_the_operand_s_rank(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{before is of 1 dimensions, the operand of 2}}
  %0 = kerf.collective_permute %x {axes = array<i64: 0, 1, 2>, before = array<i64: 1, 0>, after = array<i64: 2, 0, 0>, stream = "comm", cause = "test"} : (tensor<4x8xf32>) -> !kerf.pending<tensor<4x8xf32>>
  return
}

// -----

func.func @a_layout_is_whole(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{after ends within dimension 1}}
  %0 = kerf.collective_permute %x {axes = array<i64: 0, 1, 2>, before = array<i64: 2, 0, 0>, after = array<i64: 2, 0, 1, 0, 1>, stream = "comm", cause = "test"} : (tensor<4x8xf32>) -> !kerf.pending<tensor<4x8xf32>>
  return
}

// -----

func.func @a_balanced_dimension_has_halves(%x: tensor<5x8xf32>) {
  // expected-error @+1 {{needs an even size along dimension 0, but the size is 5}}
  %0 = kerf.ring_balance %x {axes = array<i64: 0, 1, 2>, dim = 0 : i64, stream = "ring", cause = "test"} : (tensor<5x8xf32>) -> !kerf.pending<tensor<5x8xf32>>
  return
}

// -----

func.func @a_ring_shift_keeps_the_type(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{has an operand of type 'tensor<4x8xf32>' and a result of type 'tensor<8x8xf32>'; they must be equal}}
  %0 = kerf.ring_shift %x {axes = array<i64: 0, 1, 2>, stream = "ring", cause = "test"} : (tensor<4x8xf32>) -> !kerf.pending<tensor<8x8xf32>>
  return
}

// -----

func.func @a_copy_keeps_the_type(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{has an operand of type 'tensor<4x8xf32>' and a result of type 'tensor<4x8xf16>'; they must be equal}}
  %0 = kerf.offload %x {stream = "offload"} : (tensor<4x8xf32>) -> !kerf.pending<tensor<4x8xf16>>
  return
}

// -----

func.func @a_block_is_of_another_rank(%o: tensor<1x4x2x8xf32>, %l: tensor<1x2x4xf32>, %q: tensor<1x4x2x8xf32>, %k: tensor<1x4x1x8xf32>) {
  // expected-error @+1 {{step is 2, but should be 1 to 1 for 2 ranks}}
  %0, %1 = kerf.attention_block %o, %l, %q, %k, %k {scale = 1.0 : f64, axes = array<i64: 0, 1, 2>, step = 2 : i64}
      : (tensor<1x4x2x8xf32>, tensor<1x2x4xf32>, tensor<1x4x2x8xf32>, tensor<1x4x1x8xf32>, tensor<1x4x1x8xf32>) -> (tensor<1x4x2x8xf32>, tensor<1x2x4xf32>)
  return
}

// -----

func.func @only_causal_work_is_balanced(%o: tensor<1x4x2x8xf32>, %l: tensor<1x2x4xf32>, %q: tensor<1x4x2x8xf32>, %k: tensor<1x4x1x8xf32>) {
  // expected-error @+1 {{is balanced, which requires causal, no mask and an even number of queries (here 4)}}
  %0, %1 = kerf.attention_block %o, %l, %q, %k, %k {scale = 1.0 : f64, balanced, axes = array<i64: 0, 1, 2>, step = 1 : i64}
      : (tensor<1x4x2x8xf32>, tensor<1x2x4xf32>, tensor<1x4x2x8xf32>, tensor<1x4x1x8xf32>, tensor<1x4x1x8xf32>) -> (tensor<1x4x2x8xf32>, tensor<1x2x4xf32>)
  return
}

// -----

func.func @a_block_has_as_many_keys_as_queries(%g: tensor<1x4x2x8xf32>, %l: tensor<1x2x4xf32>, %k: tensor<1x8x1x8xf32>) {
  // expected-error @+1 {{key is 1x8x1x8, but should be 1x4x1x8}}
  %0, %1, %2 = kerf.attention_block_backward %g, %g, %k, %k, %g, %l, %g {scale = 1.0 : f64, axes = array<i64: 0, 1, 2>, step = 1 : i64}
      : (tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>, tensor<1x8x1x8xf32>, tensor<1x8x1x8xf32>, tensor<1x4x2x8xf32>, tensor<1x2x4xf32>, tensor<1x4x2x8xf32>)
      -> (tensor<1x4x2x8xf32>, tensor<1x8x1x8xf32>, tensor<1x8x1x8xf32>)
  return
}

// -----

func.func @a_wait_gives_what_was_promised(%x: !kerf.pending<tensor<4xf32>>) {
  // expected-error @+1 {{has an operand of type 'tensor<4xf32>' and a result of type 'tensor<5xf32>'; they must be equal}}
  %0 = kerf.wait %x : (!kerf.pending<tensor<4xf32>>) -> tensor<5xf32>
  return
}

// -----

// expected-error @+1 {{axis "data" is named twice in the mesh; each axis needs its own name}}
kerf.mesh @the_axes_of_a_mesh_have_different_names #kerf.mesh<"data"=2, "data"=4>

// -----

// expected-error @+1 {{axis "data" has size 0; a size is at least 1}}
kerf.mesh @an_axis_of_a_mesh_has_ranks #kerf.mesh<"data"=0>
