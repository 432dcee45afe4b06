// RUN: kerf-opt %s -verify-diagnostics -split-input-file

func.func @a_constant_has_its_value_s_type() {
  // expected-error @+1 {{failed to verify that all of {value, result} have same type}}
  %0 = "kerf.constant"() {value = dense<1.0> : tensor<2xf32>} : () -> tensor<3xf32>
  return
}

// -----

func.func @an_iota_counts_along_a_dimension_it_has() {
  // expected-error @+1 {{dimension 2 must be at least 0 and below the result's rank 2}}
  %0 = kerf.iota {dimension = 2 : i64} : () -> tensor<4x8xi32>
  return
}

// -----

func.func @an_iota_counts_along_no_negative_dimension() {
  // expected-error @+1 {{dimension -1 must be at least 0 and below the result's rank 2}}
  %0 = kerf.iota {dimension = -1 : i64} : () -> tensor<4x8xi32>
  return
}

// -----

func.func @an_iota_s_offset_is_a_scalar_of_its_type(%offset: tensor<i64>) {
  // expected-error @+1 {{offset is a 'tensor<i64>', but should be a scalar of 'i32'}}
  %0 = kerf.iota %offset {dimension = 0 : i64} : (tensor<i64>) -> tensor<4x8xi32>
  return
}

// -----

func.func @a_broadcast_names_each_dimension_of_its_operand(%x: tensor<8xf32>) {
  // expected-error @+1 {{broadcast_dimensions has 2 entries for an operand of rank 1}}
  %0 = kerf.broadcast_in_dim %x {broadcast_dimensions = array<i64: 0, 1>} : (tensor<8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @a_broadcast_s_dimensions_increase(%x: tensor<8x4xf32>) {
  // expected-error @+1 {{broadcast_dimensions has entry 0 after 1; entries must increase}}
  %0 = kerf.broadcast_in_dim %x {broadcast_dimensions = array<i64: 1, 0>} : (tensor<8x4xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @a_broadcast_s_dimensions_are_the_result_s(%x: tensor<8xf32>) {
  // expected-error @+1 {{broadcast_dimensions has entry 2, which must be at least 0 and below the result's rank 2}}
  %0 = kerf.broadcast_in_dim %x {broadcast_dimensions = array<i64: 2>} : (tensor<8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @a_broadcast_copies_only_dimensions_of_size_1(%x: tensor<2xf32>) {
  // expected-error @+1 {{dimension 0 of the operand has size 2, but dimension 1 of the result has size 8}}
  %0 = kerf.broadcast_in_dim %x {broadcast_dimensions = array<i64: 1>} : (tensor<2xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @a_reshape_keeps_the_number_of_elements(%x: tensor<8x4xf32>) {
  // expected-error @+1 {{has 32 elements in the operand and 30 in the result; both need the same number}}
  %0 = kerf.reshape %x : (tensor<8x4xf32>) -> tensor<2x15xf32>
  return
}

// -----

func.func @a_reshape_keeps_the_element_type(%x: tensor<8x4xf32>) {
  // expected-error @+1 {{has operand elements of 'f32' and result elements of 'f64'}}
  %0 = kerf.reshape %x : (tensor<8x4xf32>) -> tensor<2x16xf64>
  return
}

// -----

func.func @a_permutation_names_each_dimension_once(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{permutation names dimension 0 twice}}
  %0 = kerf.transpose %x {permutation = array<i64: 0, 0>} : (tensor<4x8xf32>) -> tensor<4x4xf32>
  return
}

// -----

func.func @a_permutation_is_of_the_operand_s_dimensions(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{permutation has entry 2, which must be at least 0 and below the operand's rank 2}}
  %0 = kerf.transpose %x {permutation = array<i64: 0, 2>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @a_transpose_has_the_permuted_shape(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{result is 4x8, but should be 8x4}}
  %0 = kerf.transpose %x {permutation = array<i64: 1, 0>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @a_slice_stays_inside(%x: tensor<8xf32>) {
  // expected-error @+1 {{takes 2 to 9 of dimension 0, whose size is 8}}
  %0 = kerf.slice %x {start = array<i64: 2>, limit = array<i64: 9>, strides = array<i64: 1>} : (tensor<8xf32>) -> tensor<7xf32>
  return
}

// -----

func.func @a_slice_does_not_run_backwards(%x: tensor<8xf32>) {
  // expected-error @+1 {{takes 5 to 3 of dimension 0, whose size is 8}}
  %0 = kerf.slice %x {start = array<i64: 5>, limit = array<i64: 3>, strides = array<i64: 1>} : (tensor<8xf32>) -> tensor<0xf32>
  return
}

// -----

func.func @a_stride_is_positive(%x: tensor<8xf32>) {
  // expected-error @+1 {{has stride 0 along dimension 0; a stride is at least 1}}
  %0 = kerf.slice %x {start = array<i64: 2>, limit = array<i64: 8>, strides = array<i64: 0>} : (tensor<8xf32>) -> tensor<6xf32>
  return
}

// -----

func.func @a_slice_has_as_many_elements_as_it_takes(%x: tensor<8xf32>) {
  // expected-error @+1 {{result is 2, but should be 3}}
  %0 = kerf.slice %x {start = array<i64: 3>, limit = array<i64: 8>, strides = array<i64: 2>} : (tensor<8xf32>) -> tensor<2xf32>
  return
}

// -----

func.func @a_border_is_not_negative(%x: tensor<4xf32>, %zero: tensor<f32>) {
  // expected-error @+1 {{pads dimension 0 by -1, 0 and 0 (low, high, interior); none may be negative}}
  %0 = kerf.pad %x, %zero {low = array<i64: -1>, high = array<i64: 0>, interior = array<i64: 0>} : (tensor<4xf32>, tensor<f32>) -> tensor<3xf32>
  return
}

// -----

func.func @what_is_padded_with_is_a_scalar(%x: tensor<4xf32>, %zero: tensor<1xf32>) {
  // expected-error @+1 {{padding_value is a 'tensor<1xf32>', but should be a scalar of 'f32'}}
  %0 = kerf.pad %x, %zero {low = array<i64: 1>, high = array<i64: 0>, interior = array<i64: 0>} : (tensor<4xf32>, tensor<1xf32>) -> tensor<5xf32>
  return
}

// -----

func.func @a_padded_tensor_has_its_border(%x: tensor<4xf32>, %zero: tensor<f32>) {
  // expected-error @+1 {{result is 5, but should be 8}}
  %0 = kerf.pad %x, %zero {low = array<i64: 1>, high = array<i64: 0>, interior = array<i64: 1>} : (tensor<4xf32>, tensor<f32>) -> tensor<5xf32>
  return
}

// -----

func.func @nothing_is_not_concatenated() {
  // expected-error @+1 {{has 0 operands; it needs at least 1}}
  %0 = kerf.concatenate {dimension = 0 : i64} : () -> tensor<5x8xf32>
  return
}

// -----

func.func @concatenation_is_along_a_dimension_of_the_operands(%x: tensor<2x8xf32>) {
  // expected-error @+1 {{dimension 2 must be at least 0 and below the operands' rank 2}}
  %0 = kerf.concatenate %x {dimension = 2 : i64} : (tensor<2x8xf32>) -> tensor<2x8xf32>
  return
}

// -----

func.func @concatenated_tensors_agree_elsewhere(%x: tensor<2x8xf32>, %y: tensor<3x9xf32>) {
  // expected-error @+1 {{dimension 1 of operand 1 has size 9, of operand 0 size 8}}
  %0 = kerf.concatenate %x, %y {dimension = 0 : i64} : (tensor<2x8xf32>, tensor<3x9xf32>) -> tensor<5x8xf32>
  return
}

// -----

func.func @concatenated_tensors_have_one_rank(%x: tensor<2x8xf32>, %y: tensor<3xf32>) {
  // expected-error @+1 {{operand 1 has rank 1, operand 0 has rank 2}}
  %0 = kerf.concatenate %x, %y {dimension = 0 : i64} : (tensor<2x8xf32>, tensor<3xf32>) -> tensor<5x8xf32>
  return
}

// -----

func.func @sizes_add_up_along_the_dimension(%x: tensor<2x8xf32>, %y: tensor<3x8xf32>) {
  // expected-error @+1 {{result is 6x8, but should be 5x8}}
  %0 = kerf.concatenate %x, %y {dimension = 0 : i64} : (tensor<2x8xf32>, tensor<3x8xf32>) -> tensor<6x8xf32>
  return
}
