// RUN: kerf-opt %s -split-input-file -verify-diagnostics

func.func @a_dimension_outside_of_the_rank(%x: tensor<4x8xf32>) {
  // expected-error @below {{dimension 2 must be at least 0 and below the operand's rank 2}}
  %0 = kerf.softmax %x {dimension = 2 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @a_negative_dimension(%x: tensor<4x8xf32>) {
  // expected-error @below {{dimension -1 must be at least 0 and below the operand's rank 2}}
  %0 = kerf.softmax_backward %x, %x {dimension = -1 : i64} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @a_scale_of_another_size(%x: tensor<4x8xf32>, %s: tensor<4xf32>, %b: tensor<8xf32>) {
  // expected-error @below {{scale is 4, but should be 8}}
  %0, %1, %2 = kerf.layer_norm %x, %s, %b {epsilon = 1.0e-5 : f64} : (tensor<4x8xf32>, tensor<4xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4xf32>, tensor<4xf32>)
  return
}

// -----

func.func @a_mean_of_another_shape(%x: tensor<4x8xf32>, %s: tensor<8xf32>) {
  // expected-error @below {{mean is 8, but should be 4}}
  %0, %1, %2 = kerf.layer_norm %x, %s, %s {epsilon = 1.0e-5 : f64} : (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<8xf32>, tensor<4xf32>)
  return
}

// -----

func.func @a_norm_of_a_scalar(%x: tensor<f32>, %s: tensor<8xf32>) {
  // expected-error @below {{operand has rank 0, but should have at least 1}}
  %0, %1 = kerf.rms_norm %x, %s {epsilon = 1.0e-5 : f64} : (tensor<f32>, tensor<8xf32>) -> (tensor<f32>, tensor<f32>)
  return
}

// -----

func.func @a_gradient_of_another_shape(%x: tensor<4x8xf32>, %s: tensor<8xf32>, %r: tensor<4xf32>, %g: tensor<4x7xf32>) {
  // expected-error @below {{gradient is 4x7, but should be 4x8}}
  %0, %1 = kerf.rms_norm_backward %x, %s, %r, %g : (tensor<4x8xf32>, tensor<8xf32>, tensor<4xf32>, tensor<4x7xf32>) -> (tensor<4x8xf32>, tensor<8xf32>)
  return
}

// -----

func.func @heads_that_groups_do_not_divide(%q: tensor<2x8x4x16xf32>, %k: tensor<2x8x3x16xf32>) {
  // expected-error @below {{has 4 query heads and 3 key heads; the query heads must be a multiple of the key heads}}
  %0, %1 = kerf.attention %q, %k, %k {scale = 0.25 : f64} : (tensor<2x8x4x16xf32>, tensor<2x8x3x16xf32>, tensor<2x8x3x16xf32>) -> (tensor<2x8x4x16xf32>, tensor<2x4x8xf32>)
  return
}

// -----

func.func @a_key_of_another_batch(%q: tensor<2x8x4x16xf32>, %k: tensor<1x8x4x16xf32>) {
  // expected-error @below {{key is 1x8x4x16, but should be 2x8x4x16}}
  %0, %1 = kerf.attention %q, %k, %k {scale = 0.25 : f64} : (tensor<2x8x4x16xf32>, tensor<1x8x4x16xf32>, tensor<1x8x4x16xf32>) -> (tensor<2x8x4x16xf32>, tensor<2x4x8xf32>)
  return
}

// -----

func.func @a_query_of_rank_3(%q: tensor<8x4x16xf32>) {
  // expected-error @below {{query has rank 3, but should have 4 ([B, S, H, D])}}
  %0, %1 = kerf.attention %q, %q, %q {scale = 0.25 : f64} : (tensor<8x4x16xf32>, tensor<8x4x16xf32>, tensor<8x4x16xf32>) -> (tensor<8x4x16xf32>, tensor<4x8xf32>)
  return
}

// -----

func.func @causal_with_more_keys(%q: tensor<2x8x4x16xf32>, %k: tensor<2x9x4x16xf32>) {
  // expected-error @below {{causal attention needs as many queries as keys, but there are 8 and 9}}
  %0, %1 = kerf.attention %q, %k, %k {scale = 0.25 : f64, causal} : (tensor<2x8x4x16xf32>, tensor<2x9x4x16xf32>, tensor<2x9x4x16xf32>) -> (tensor<2x8x4x16xf32>, tensor<2x4x8xf32>)
  return
}

// -----

func.func @a_mask_of_other_heads(%q: tensor<2x8x4x16xf32>, %m: tensor<1x2x8x8xf32>) {
  // expected-error @below {{mask is 1x2x8x8, but should be 1x4x8x8}}
  %0, %1 = kerf.attention %q, %q, %q, %m {scale = 0.25 : f64} : (tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>, tensor<1x2x8x8xf32>) -> (tensor<2x8x4x16xf32>, tensor<2x4x8xf32>)
  return
}

// -----

func.func @a_mask_of_integers(%q: tensor<2x8x4x16xf32>, %m: tensor<1x1x8x8xi64>) {
  // expected-error @below {{mask's elements are 'i64', but should be floating-point numbers or i1}}
  %0, %1 = kerf.attention %q, %q, %q, %m {scale = 0.25 : f64} : (tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>, tensor<1x1x8x8xi64>) -> (tensor<2x8x4x16xf32>, tensor<2x4x8xf32>)
  return
}

// -----

func.func @lse_in_another_order(%q: tensor<2x8x4x16xf32>) {
  // expected-error @below {{lse is 2x8x4, but should be 2x4x8}}
  %0, %1 = kerf.attention %q, %q, %q {scale = 0.25 : f64} : (tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>) -> (tensor<2x8x4x16xf32>, tensor<2x8x4xf32>)
  return
}

// -----

func.func @labels_of_another_shape(%x: tensor<4x8x97xf32>, %l: tensor<4x9xi64>) {
  // expected-error @below {{labels is 4x9, but should be 4x8}}
  %0, %1 = kerf.cross_entropy %x, %l {ignore_index = -100 : i64} : (tensor<4x8x97xf32>, tensor<4x9xi64>) -> (tensor<4x8xf32>, tensor<4x8xf32>)
  return
}

// -----

func.func @a_table_of_rank_3(%t: tensor<97x8x2xf32>, %i: tensor<4xi64>) {
  // expected-error @below {{table has rank 3, but should have 2}}
  %0 = kerf.embedding %t, %i {rows = 97 : i64} : (tensor<97x8x2xf32>, tensor<4xi64>) -> tensor<4x8xf32>
  return
}

// -----

func.func @rows_that_the_table_lacks(%t: tensor<97x8xf32>, %i: tensor<4xi64>) {
  // expected-error @below {{rows is 96, but should be 97, the rows of the table}}
  %0 = kerf.embedding %t, %i {rows = 96 : i64} : (tensor<97x8xf32>, tensor<4xi64>) -> tensor<4x8xf32>
  return
}

// -----

func.func @rows_of_another_width(%i: tensor<4xi64>, %g: tensor<4x7xf32>) {
  // expected-error @below {{tensor of rows is 4x7, but should be 4x8}}
  %0 = kerf.embedding_backward %i, %g {rows = 97 : i64} : (tensor<4xi64>, tensor<4x7xf32>) -> tensor<97x8xf32>
  return
}
