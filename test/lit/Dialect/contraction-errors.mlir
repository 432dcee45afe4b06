// RUN: kerf-opt %s -verify-diagnostics -split-input-file

func.func @contracted_dimensions_have_equal_sizes(%x: tensor<4x8xf32>, %y: tensor<9x16xf32>) {
  // expected-error @+1 {{dimension 1 of lhs contracts with dimension 0 of rhs: sizes 8 != 9}}
  %0 = kerf.dot_general %x, %y {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>}
      : (tensor<4x8xf32>, tensor<9x16xf32>) -> tensor<4x16xf32>
  return
}

// -----

func.func @batching_dimensions_have_equal_sizes(%x: tensor<2x4x8xf32>, %y: tensor<3x8x5xf32>) {
  // expected-error @+1 {{dimension 0 of lhs batches with dimension 0 of rhs: sizes 2 != 3}}
  %0 = kerf.dot_general %x, %y {lhs_batching = array<i64: 0>, rhs_batching = array<i64: 0>, lhs_contracting = array<i64: 2>, rhs_contracting = array<i64: 1>}
      : (tensor<2x4x8xf32>, tensor<3x8x5xf32>) -> tensor<2x4x5xf32>
  return
}

// -----

func.func @as_many_dimensions_contract_on_either_side(%x: tensor<4x8xf32>, %y: tensor<8x16xf32>) {
  // expected-error @+1 {{contracts 1 dimensions of lhs with 0 of rhs; both need the same number}}
  %0 = kerf.dot_general %x, %y {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64>}
      : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  return
}

// -----

func.func @no_dimension_is_named_twice(%x: tensor<4x8xf32>, %y: tensor<8x16xf32>) {
  // expected-error @+1 {{names dimension 1 of lhs twice}}
  %0 = kerf.dot_general %x, %y {lhs_batching = array<i64: 1>, rhs_batching = array<i64: 0>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>}
      : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<8x4x16xf32>
  return
}

// -----

func.func @a_named_dimension_exists(%x: tensor<4x8xf32>, %y: tensor<8x16xf32>) {
  // expected-error @+1 {{names dimension 2 of rhs, which must be at least 0 and below the rank 2}}
  %0 = kerf.dot_general %x, %y {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 2>}
      : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  return
}

// -----

func.func @a_product_has_batch_rows_and_columns(%x: tensor<4x8xf32>, %y: tensor<8x16xf32>) {
  // expected-error @+1 {{result is 16x4, but should be 4x16}}
  %0 = kerf.dot_general %x, %y {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>}
      : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<16x4xf32>
  return
}

// -----

func.func @a_product_s_element_types_agree(%x: tensor<4x8xf32>, %y: tensor<8x16xf64>) {
  // expected-error @+1 {{has elements of 'f32' in lhs, 'f64' in rhs and 'f32' in the result}}
  %0 = kerf.dot_general %x, %y {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>}
      : (tensor<4x8xf32>, tensor<8x16xf64>) -> tensor<4x16xf32>
  return
}

// -----

func.func @reduced_dimensions_increase(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{dimensions has entry 0 after 1; entries must increase}}
  %0 = kerf.reduce %x {kind = #kerf<reduce_kind sum>, dimensions = array<i64: 1, 0>} : (tensor<4x8xf32>) -> tensor<f32>
  return
}

// -----

func.func @a_reduced_dimension_exists(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{dimensions has entry 2, which must be at least 0 and below the operand's rank 2}}
  %0 = kerf.reduce %x {kind = #kerf<reduce_kind sum>, dimensions = array<i64: 2>} : (tensor<4x8xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @reduced_dimensions_are_gone(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{result is 4x1, but should be 4}}
  %0 = kerf.reduce %x {kind = #kerf<reduce_kind sum>, dimensions = array<i64: 1>} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  return
}

// -----

func.func @a_gather_s_axis_exists(%x: tensor<9x8xf32>, %i: tensor<4xi64>) {
  // expected-error @+1 {{axis 2 must be at least 0 and below the rank 2 of the operand}}
  %0 = kerf.gather %x, %i {axis = 2 : i64} : (tensor<9x8xf32>, tensor<4xi64>) -> tensor<9x4xf32>
  return
}

// -----

func.func @indices_take_the_place_of_the_axis(%x: tensor<9x8xf32>, %i: tensor<4xi64>) {
  // expected-error @+1 {{result is 4x9, but should be 4x8}}
  %0 = kerf.gather %x, %i {axis = 0 : i64} : (tensor<9x8xf32>, tensor<4xi64>) -> tensor<4x9xf32>
  return
}

// -----

func.func @updates_have_the_shape_of_what_is_gathered(%i: tensor<4xi64>, %u: tensor<5x8xf32>) {
  // expected-error @+1 {{updates is 5x8, but should be 4x8}}
  %0 = kerf.scatter_add %i, %u {axis = 0 : i64} : (tensor<4xi64>, tensor<5x8xf32>) -> tensor<9x8xf32>
  return
}

// -----

func.func @only_16_bit_sums_have_a_wider_type(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{has operand elements of 'f32' and result elements of 'f64'}}
  %0 = kerf.reduce %x {kind = #kerf<reduce_kind sum>, dimensions = array<i64: 1>} : (tensor<4x8xf32>) -> tensor<4xf64>
  return
}

// -----

func.func @a_maximum_keeps_its_type(%x: tensor<4x8xbf16>) {
  // expected-error @+1 {{has operand elements of 'bf16' and result elements of 'f32'; they must agree, but a sum of 16-bit floats may be f32}}
  %0 = kerf.reduce %x {kind = #kerf<reduce_kind max>, dimensions = array<i64: 1>} : (tensor<4x8xbf16>) -> tensor<4xf32>
  return
}

// -----

func.func @a_lookup_has_a_dimension_behind_the_batch(%x: tensor<9x8xf32>, %i: tensor<9x8xi64>) {
  // expected-error @+1 {{has 2 batch dimensions, but 2 dimensions of the operand and 2 of the indices; the first number must be below the second and at most the third}}
  %0 = kerf.take_along %x, %i {batch_dims = 2 : i64, size = 8 : i64} : (tensor<9x8xf32>, tensor<9x8xi64>) -> tensor<9x8xf32>
  return
}

// -----

func.func @indices_have_the_batch_of_the_operand(%x: tensor<9x8xf32>, %i: tensor<7x4xi64>) {
  // expected-error @+1 {{indices are 7x4 and the operand 9x8, but should agree in the first 1 dimensions}}
  %0 = kerf.take_along %x, %i {batch_dims = 1 : i64, size = 8 : i64} : (tensor<9x8xf32>, tensor<7x4xi64>) -> tensor<7x4xf32>
  return
}

// -----

func.func @the_whole_dimension_has_the_size(%x: tensor<9x8xf32>, %i: tensor<9x4xi64>) {
  // expected-error @+1 {{size is 7, but should be 8, the size of dimension 1 of the operand}}
  %0 = kerf.take_along %x, %i {batch_dims = 1 : i64, size = 7 : i64} : (tensor<9x8xf32>, tensor<9x4xi64>) -> tensor<9x4xf32>
  return
}

// -----

func.func @an_offset_is_a_scalar(%x: tensor<9x4xf32>, %i: tensor<9x2xi64>, %o: tensor<1xi64>) {
  // expected-error @+1 {{offset is 1, but should be a scalar}}
  %0 = kerf.take_along %x, %i, %o {batch_dims = 1 : i64, size = 8 : i64} : (tensor<9x4xf32>, tensor<9x2xi64>, tensor<1xi64>) -> tensor<9x2xf32>
  return
}
