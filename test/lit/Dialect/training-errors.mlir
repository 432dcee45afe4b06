// RUN: kerf-opt %s -verify-diagnostics -split-input-file

func.func @what_is_called_exists(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{callee @layer is no function of this module}}
  %0 = kerf.call @layer(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func private @layer(tensor<4x8xf32>) -> tensor<4x8xf32>

func.func @a_call_has_the_type_of_the_callee(%x: tensor<2x8xf32>) {
  // expected-error @+1 {{has type '(tensor<2x8xf32>) -> tensor<4x8xf32>', but @layer has type '(tensor<4x8xf32>) -> tensor<4x8xf32>'}}
  %0 = kerf.call @layer(%x) : (tensor<2x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @a_whole_gradient_has_the_type_of_the_pieces(%x: tensor<8x8xf32>) {
  // expected-error @+1 {{requires the same type for all operands and results}}
  %0 = kerf.sync_gradient %x {parameter = "w"} : (tensor<8x8xf32>) -> tensor<8x4xf32>
  return
}

// -----

func.func @the_learning_rate_is_a_scalar(%p: tensor<8xf32>, %lr: tensor<1xf32>) {
  // expected-error @+1 {{lr has rank 1; it is a scalar, of rank 0}}
  %p1, %v1 = kerf.sgd %p, %p, %p, %lr {momentum = 0.9 : f64, weight_decay = 0.0 : f64}
      : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<1xf32>) -> (tensor<8xf32>, tensor<8xf32>)
  return
}

// -----

func.func @the_step_is_a_scalar(%p: tensor<8xf32>, %lr: tensor<f32>, %step: tensor<1xi64>) {
  // expected-error @+1 {{step has rank 1; it is a scalar, of rank 0}}
  %p1, %m1, %v1 = kerf.adamw %p, %p, %p, %p, %lr, %step {beta1 = 0.9 : f64, beta2 = 0.999 : f64, epsilon = 1.0e-8 : f64, weight_decay = 0.01 : f64}
      : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<1xi64>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
  return
}

// -----

func.func @a_gradient_has_the_parameter_s_type(%p: tensor<8xf32>, %g: tensor<4xf32>, %lr: tensor<f32>) {
  // expected-error @+1 {{failed to verify that all of {parameter, velocity, gradient, new_parameter, new_velocity} have same type}}
  %p1, %v1 = kerf.sgd %p, %p, %g, %lr {momentum = 0.9 : f64, weight_decay = 0.0 : f64}
      : (tensor<8xf32>, tensor<8xf32>, tensor<4xf32>, tensor<f32>) -> (tensor<8xf32>, tensor<8xf32>)
  return
}

// -----

func.func @what_skips_is_a_scalar(%p: tensor<8xf32>, %lr: tensor<f32>, %skip: tensor<8xi1>) {
  // expected-error @+1 {{skip has rank 1; it is a scalar, of rank 0}}
  %p1, %v1 = kerf.sgd %p, %p, %p, %lr, %skip {momentum = 0.9 : f64, weight_decay = 0.0 : f64}
      : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<8xi1>) -> (tensor<8xf32>, tensor<8xf32>)
  return
}

// -----

func.func @a_count_is_a_scalar(%g: tensor<8xf32>) {
  // expected-error @+1 {{result has rank 1; it is a scalar, of rank 0}}
  %0 = kerf.count_nonfinite %g : (tensor<8xf32>) -> tensor<8xi64>
  return
}

// -----

func.func @what_dropout_draws_from_is_scalar(%x: tensor<4x8xf32>, %n: tensor<i64>, %s: tensor<1xi64>) {
  // expected-error @+1 {{stream has rank 1; it is a scalar, of rank 0}}
  %0 = kerf.dropout %x, %n, %n, %s {rate = 0.1 : f64} : (tensor<4x8xf32>, tensor<i64>, tensor<i64>, tensor<1xi64>) -> tensor<4x8xf32>
  return
}

// -----

func.func @not_everything_is_dropped(%x: tensor<4x8xf32>, %n: tensor<i64>) {
  // expected-error @+1 {{rate is 1.000000e+00; it is in [0, 1)}}
  %0 = kerf.dropout %x, %n, %n, %n {rate = 1.0 : f64} : (tensor<4x8xf32>, tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<4x8xf32>
  return
}

// -----

func.func @a_piece_has_the_sizes_of_the_whole(%x: tensor<4x8xf32>, %n: tensor<i64>) {
  // expected-error @+1 {{has an offset and no sizes; a piece of a tensor has both}}
  %0 = kerf.dropout %x, %n, %n, %n, %n {rate = 0.1 : f64} : (tensor<4x8xf32>, tensor<i64>, tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<4x8xf32>
  return
}

// -----

func.func @the_whole_is_no_piece(%x: tensor<4x8xf32>, %n: tensor<i64>) {
  // expected-error @+1 {{has sizes and no offset; a piece of a tensor has both}}
  %0 = kerf.dropout %x, %n, %n, %n {rate = 0.1 : f64, sizes = array<i64: 8, 8>} : (tensor<4x8xf32>, tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<4x8xf32>
  return
}

// -----

func.func @the_whole_has_the_rank_of_a_piece(%x: tensor<4x8xf32>, %n: tensor<i64>) {
  // expected-error @+1 {{sizes has 1 entries for an operand of rank 2}}
  %0 = kerf.dropout %x, %n, %n, %n, %n {rate = 0.1 : f64, sizes = array<i64: 64>} : (tensor<4x8xf32>, tensor<i64>, tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<4x8xf32>
  return
}
