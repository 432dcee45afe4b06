// RUN: kerf-opt %s -verify-diagnostics -split-input-file

func.func @scores_have_a_dimension(%x: tensor<f32>) {
  // expected-error @+1 {{scores is a scalar, but should have a dimension}}
  %v, %i = kerf.top_k %x : (tensor<f32>) -> (tensor<1xf32>, tensor<1xi64>)
  return
}

// -----

func.func @values_are_of_the_rows_of_the_scores(%x: tensor<3x8xf32>) {
  // expected-error @+1 {{values is 4x2, but should be 3 and one more dimension}}
  %v, %i = kerf.top_k %x : (tensor<3x8xf32>) -> (tensor<4x2xf32>, tensor<4x2xi64>)
  return
}

// -----

func.func @no_more_are_picked_than_there_are(%x: tensor<3x8xf32>) {
  // expected-error @+1 {{picks 9 of 8 elements; it must pick at least 1 and at most all of them}}
  %v, %i = kerf.top_k %x : (tensor<3x8xf32>) -> (tensor<3x9xf32>, tensor<3x9xi64>)
  return
}

// -----

func.func @values_and_indices_are_of_one_shape(%x: tensor<3x8xf32>) {
  // expected-error @+1 {{indices is 3x1, but should be 3x2}}
  %v, %i = kerf.top_k %x : (tensor<3x8xf32>) -> (tensor<3x2xf32>, tensor<3x1xi64>)
  return
}

// -----

func.func @values_have_the_type_of_the_scores(%x: tensor<3x8xf32>) {
  // expected-error @+1 {{has elements of 'f32' in scores and of 'f64' in values}}
  %v, %i = kerf.top_k %x : (tensor<3x8xf32>) -> (tensor<3x2xf64>, tensor<3x2xi64>)
  return
}

// -----

func.func @a_gradient_has_the_shape_of_the_indices(%i: tensor<3x2xi64>, %g: tensor<3x1xf32>) {
  // expected-error @+1 {{indices is 3x2, but should be 3x1}}
  %y = kerf.top_k_backward %i, %g : (tensor<3x2xi64>, tensor<3x1xf32>) -> tensor<3x8xf32>
  return
}

// -----

func.func @slots_have_four_dimensions(%x: tensor<3x4x16xf32>, %i: tensor<3x4x2xi64>, %w: tensor<3x4x2xf32>) {
  // expected-error @+1 {{result has rank 3, but should have 4}}
  %y = kerf.dispatch %x, %i, %w {experts = 8 : i64} : (tensor<3x4x16xf32>, tensor<3x4x2xi64>, tensor<3x4x2xf32>) -> tensor<8x4x16xf32>
  return
}

// -----

func.func @choices_are_of_the_tokens(%x: tensor<3x4x16xf32>, %i: tensor<3x5x2xi64>, %w: tensor<3x5x2xf32>) {
  // expected-error @+1 {{indices is 3x5x2, but should be 3x4x2}}
  %y = kerf.dispatch %x, %i, %w {experts = 8 : i64} : (tensor<3x4x16xf32>, tensor<3x5x2xi64>, tensor<3x5x2xf32>) -> tensor<8x3x4x16xf32>
  return
}

// -----

func.func @each_choice_has_a_weight(%x: tensor<3x4x16xf32>, %i: tensor<3x4x2xi64>, %w: tensor<3x4x1xf32>) {
  // expected-error @+1 {{weights is 3x4x1, but should be 3x4x2}}
  %y = kerf.dispatch %x, %i, %w {experts = 8 : i64} : (tensor<3x4x16xf32>, tensor<3x4x2xi64>, tensor<3x4x1xf32>) -> tensor<8x3x4x16xf32>
  return
}

// -----

func.func @there_are_slots_of_every_expert(%x: tensor<7x3x4x16xf32>, %i: tensor<3x4x2xi64>, %w: tensor<3x4x2xf32>) {
  // expected-error @+1 {{operand is 7x3x4x16, but should be 8x3x4x16}}
  %y = kerf.combine %x, %i, %w {experts = 8 : i64} : (tensor<7x3x4x16xf32>, tensor<3x4x2xi64>, tensor<3x4x2xf32>) -> tensor<3x4x16xf32>
  return
}

// -----

func.func @tokens_and_slots_have_one_type(%x: tensor<8x3x4x16xf32>, %i: tensor<3x4x2xi64>, %t: tensor<3x4x16xf64>) {
  // expected-error @+1 {{has elements of 'f32' in operand and of 'f64' in tokens}}
  %y = kerf.combine_backward %x, %i, %t {experts = 8 : i64} : (tensor<8x3x4x16xf32>, tensor<3x4x2xi64>, tensor<3x4x16xf64>) -> tensor<3x4x2xf32>
  return
}

// -----

func.func @an_offset_is_an_i64(%x: tensor<4x3x4x16xf32>, %i: tensor<3x4x2xi64>, %w: tensor<3x4x2xf32>, %o: tensor<i32>) {
  // expected-error @+1 {{offset's element type is 'i32', but should be i64}}
  %y = kerf.combine %x, %i, %w, %o {experts = 8 : i64} : (tensor<4x3x4x16xf32>, tensor<3x4x2xi64>, tensor<3x4x2xf32>, tensor<i32>) -> tensor<3x4x16xf32>
  return
}
