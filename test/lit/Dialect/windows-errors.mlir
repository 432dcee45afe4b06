// RUN: kerf-opt %s -verify-diagnostics -split-input-file

func.func @operand_kernel_and_result_are_of_one_rank(%x: tensor<4x6xf32>, %k: tensor<10x6xf32>) {
  // expected-error @+1 {{has ranks 2, 2 and 2 of operand, kernel and result; they must be equal, and at least 3}}
  %y = kerf.convolution %x, %k {strides = array<i64>, dilations = array<i64>, low = array<i64>, high = array<i64>} : (tensor<4x6xf32>, tensor<10x6xf32>) -> tensor<4x10xf32>
  return
}

// -----

func.func @element_types_agree(%x: tensor<4x6x8xf32>, %k: tensor<10x3x3xf32>) {
  // expected-error @+1 {{has elements of 'f32' in an operand and of 'f64' in the result; they must agree}}
  %y = kerf.convolution %x, %k {strides = array<i64: 2>, dilations = array<i64: 1>, low = array<i64: 1>, high = array<i64: 0>} : (tensor<4x6x8xf32>, tensor<10x3x3xf32>) -> tensor<4x10x4xf64>
  return
}

// -----

func.func @attributes_have_an_entry_for_each_dimension(%x: tensor<4x6x8xf32>, %k: tensor<10x3x3xf32>) {
  // expected-error @+1 {{strides has 2 entries for 1 dimensions that the window slides along}}
  %y = kerf.convolution %x, %k {strides = array<i64: 2, 1>, dilations = array<i64: 1>, low = array<i64: 1>, high = array<i64: 0>} : (tensor<4x6x8xf32>, tensor<10x3x3xf32>) -> tensor<4x10x4xf32>
  return
}

// -----

func.func @strides_are_at_least_1(%x: tensor<4x6x8xf32>, %k: tensor<10x3x3xf32>) {
  // expected-error @+1 {{strides has entry 0 for dimension 0; it is at least 1}}
  %y = kerf.convolution %x, %k {strides = array<i64: 0>, dilations = array<i64: 1>, low = array<i64: 1>, high = array<i64: 0>} : (tensor<4x6x8xf32>, tensor<10x3x3xf32>) -> tensor<4x10x4xf32>
  return
}

// -----

func.func @padding_is_not_negative(%x: tensor<4x6x8xf32>, %k: tensor<10x3x3xf32>) {
  // expected-error @+1 {{low has entry -1 for dimension 0; it is at least 0}}
  %y = kerf.convolution %x, %k {strides = array<i64: 2>, dilations = array<i64: 1>, low = array<i64: -1>, high = array<i64: 0>} : (tensor<4x6x8xf32>, tensor<10x3x3xf32>) -> tensor<4x10x4xf32>
  return
}

// -----

func.func @the_kernels_channels_divide_the_operands(%x: tensor<4x6x8xf32>, %k: tensor<10x4x3xf32>) {
  // expected-error @+1 {{the kernel has 4 channels and the operand 6; the second must be a multiple of the first}}
  %y = kerf.convolution %x, %k {strides = array<i64: 2>, dilations = array<i64: 1>, low = array<i64: 1>, high = array<i64: 0>} : (tensor<4x6x8xf32>, tensor<10x4x3xf32>) -> tensor<4x10x4xf32>
  return
}

// -----

func.func @the_groups_divide_the_results_channels(%x: tensor<4x6x8xf32>, %k: tensor<10x2x3xf32>) {
  // expected-error @+1 {{the result has 10 channels in 3 groups; the channels must be a multiple of the groups}}
  %y = kerf.convolution %x, %k {strides = array<i64: 2>, dilations = array<i64: 1>, low = array<i64: 1>, high = array<i64: 0>} : (tensor<4x6x8xf32>, tensor<10x2x3xf32>) -> tensor<4x10x4xf32>
  return
}

// -----

func.func @the_kernel_makes_the_results_channels(%x: tensor<4x6x8xf32>, %k: tensor<12x3x3xf32>) {
  // expected-error @+1 {{the kernel produces 12 channels, the result has 10}}
  %y = kerf.convolution %x, %k {strides = array<i64: 2>, dilations = array<i64: 1>, low = array<i64: 1>, high = array<i64: 0>} : (tensor<4x6x8xf32>, tensor<12x3x3xf32>) -> tensor<4x10x4xf32>
  return
}

// -----

func.func @samples_are_as_many(%x: tensor<4x6x8xf32>, %k: tensor<10x3x3xf32>) {
  // expected-error @+1 {{the operand has 4 samples, the result has 3}}
  %y = kerf.convolution %x, %k {strides = array<i64: 2>, dilations = array<i64: 1>, low = array<i64: 1>, high = array<i64: 0>} : (tensor<4x6x8xf32>, tensor<10x3x3xf32>) -> tensor<3x10x4xf32>
  return
}

// -----

func.func @the_operand_holds_the_kernel(%x: tensor<4x6x8xf32>, %k: tensor<10x3x6xf32>) {
  // expected-error @+1 {{dimension 2 of the operand has size 8, with its padding 9; with padding it must be at least 11, the span of the window}}
  %y = kerf.convolution %x, %k {strides = array<i64: 2>, dilations = array<i64: 2>, low = array<i64: 1>, high = array<i64: 0>} : (tensor<4x6x8xf32>, tensor<10x3x6xf32>) -> tensor<4x10x4xf32>
  return
}

// -----

func.func @the_result_has_the_windows_places(%x: tensor<4x6x8xf32>, %k: tensor<10x3x3xf32>) {
  // expected-error @+1 {{dimension 2 of the result has size 5, but should be 4, the number of positions of the window}}
  %y = kerf.convolution %x, %k {strides = array<i64: 2>, dilations = array<i64: 1>, low = array<i64: 1>, high = array<i64: 0>} : (tensor<4x6x8xf32>, tensor<10x3x3xf32>) -> tensor<4x10x5xf32>
  return
}

// -----

func.func @a_transpose_has_operand_and_result_exchanged(%x: tensor<4x10x4xf32>, %k: tensor<10x3x3xf32>) {
  // expected-error @+1 {{dimension 2 of the operand has size 4, but should be 5, the number of positions of the window}}
  %y = kerf.convolution_transpose %x, %k {strides = array<i64: 2>, dilations = array<i64: 1>, low = array<i64: 1>, high = array<i64: 0>} : (tensor<4x10x4xf32>, tensor<10x3x3xf32>) -> tensor<4x6x10xf32>
  return
}

// -----

func.func @a_kernels_gradient_has_the_kernels_shape(%x: tensor<4x6x8xf32>, %k: tensor<4x10x4xf32>) {
  // expected-error @+1 {{the result produces 12 channels, the gradient has 10}}
  %y = kerf.convolution_kernel %x, %k {strides = array<i64: 2>, dilations = array<i64: 1>, low = array<i64: 1>, high = array<i64: 0>} : (tensor<4x6x8xf32>, tensor<4x10x4xf32>) -> tensor<12x3x3xf32>
  return
}

// -----

func.func @a_pools_attributes_have_an_entry_for_each_dimension(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{window has 1 entries for an operand of rank 2}}
  %y = kerf.reduce_window %x {kind = #kerf<reduce_kind max>, window = array<i64: 3>, strides = array<i64: 1, 2>, dilations = array<i64: 1, 1>, low = array<i64: 0, 1>, high = array<i64: 0, 0>} : (tensor<4x8xf32>) -> tensor<4x4xf32>
  return
}

// -----

func.func @a_pools_window_is_at_least_1(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{window has entry 0 for dimension 0; it is at least 1}}
  %y = kerf.reduce_window %x {kind = #kerf<reduce_kind max>, window = array<i64: 0, 3>, strides = array<i64: 1, 2>, dilations = array<i64: 1, 1>, low = array<i64: 0, 1>, high = array<i64: 0, 0>} : (tensor<4x8xf32>) -> tensor<4x4xf32>
  return
}

// -----

func.func @a_pools_element_types_agree(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{has elements of 'f32' in an operand and of 'f64' in the result; they must agree}}
  %y = kerf.reduce_window %x {kind = #kerf<reduce_kind max>, window = array<i64: 1, 3>, strides = array<i64: 1, 2>, dilations = array<i64: 1, 1>, low = array<i64: 0, 1>, high = array<i64: 0, 0>} : (tensor<4x8xf32>) -> tensor<4x4xf64>
  return
}

// -----

func.func @a_pool_keeps_the_rank(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{the operand has rank 2, the result rank 1}}
  %y = kerf.reduce_window %x {kind = #kerf<reduce_kind max>, window = array<i64: 1, 3>, strides = array<i64: 1, 2>, dilations = array<i64: 1, 1>, low = array<i64: 0, 1>, high = array<i64: 0, 0>} : (tensor<4x8xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @a_pool_has_the_windows_places(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{dimension 1 of the result has size 3, but should be 4, the number of positions of the window}}
  %y = kerf.reduce_window %x {kind = #kerf<reduce_kind max>, window = array<i64: 1, 3>, strides = array<i64: 1, 2>, dilations = array<i64: 1, 1>, low = array<i64: 0, 1>, high = array<i64: 0, 0>} : (tensor<4x8xf32>) -> tensor<4x3xf32>
  return
}

// -----

func.func @a_sum_selects_nothing(%x: tensor<4x8xf32>, %dy: tensor<4x4xf32>) {
  // expected-error @+1 {{kind is sum, but should be max or min}}
  %y = kerf.select_and_scatter %x, %dy {kind = #kerf<reduce_kind sum>, window = array<i64: 1, 3>, strides = array<i64: 1, 2>, dilations = array<i64: 1, 1>, low = array<i64: 0, 1>, high = array<i64: 0, 0>} : (tensor<4x8xf32>, tensor<4x4xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @the_selected_gradient_has_the_operands_shape(%x: tensor<4x8xf32>, %dy: tensor<4x4xf32>) {
  // expected-error @+1 {{result is 4x4, but should be 4x8}}
  %y = kerf.select_and_scatter %x, %dy {kind = #kerf<reduce_kind max>, window = array<i64: 1, 3>, strides = array<i64: 1, 2>, dilations = array<i64: 1, 1>, low = array<i64: 0, 1>, high = array<i64: 0, 0>} : (tensor<4x8xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return
}
