// RUN: kerf-opt %s -verify-diagnostics -split-input-file

func.func @what_is_called_exists(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{callee @layer is no function of this module; define it, or call one that is defined}}
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

func.func @a_map_has_operands_of_one_shape(%p: tensor<8xf32>, %g: tensor<4xf32>) {
  // expected-error @+1 {{operand 1 is 'tensor<4xf32>', the results have the shape of 'tensor<8xf32>'; an operand has that shape or rank 0}}
  %0 = kerf.map(%p, %g) : (tensor<8xf32>, tensor<4xf32>) -> tensor<8xf32> {
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    kerf.yield %a : tensor<f32>
  }
  return
}

// -----

func.func @a_map_has_results_of_one_shape(%p: tensor<8xf32>) {
  // expected-error @+1 {{result 1 is 'tensor<4xf32>', result 0 is 'tensor<8xf32>'; they have one shape}}
  %0:2 = kerf.map(%p) : (tensor<8xf32>) -> (tensor<8xf32>, tensor<4xf32>) {
  ^bb0(%a: tensor<f32>):
    kerf.yield %a, %a : tensor<f32>, tensor<f32>
  }
  return
}

// -----

func.func @a_body_has_an_argument_for_each_operand(%p: tensor<8xf32>) {
  // expected-error @+1 {{has 1 operands, its body 2 arguments; there is one argument for each operand}}
  %0 = kerf.map(%p) : (tensor<8xf32>) -> tensor<8xf32> {
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    kerf.yield %a : tensor<f32>
  }
  return
}

// -----

func.func @a_body_works_on_scalars(%p: tensor<8xf32>) {
  // expected-error @+1 {{argument 0 of the body is 'tensor<8xf32>'; for operand 0 it is 'tensor<f32>'}}
  %0 = kerf.map(%p) : (tensor<8xf32>) -> tensor<8xf32> {
  ^bb0(%a: tensor<8xf32>):
    kerf.yield %a : tensor<8xf32>
  }
  return
}

// -----

func.func @a_body_yields_each_result(%p: tensor<8xf32>) {
  // expected-error @+1 {{has 1 results; its body ends with kerf.yield of as many values}}
  %0 = kerf.map(%p) : (tensor<8xf32>) -> tensor<8xf32> {
  ^bb0(%a: tensor<f32>):
    kerf.yield %a, %a : tensor<f32>, tensor<f32>
  }
  return
}

// -----

func.func @a_body_yields_scalars_of_the_results(%p: tensor<8xf32>) {
  // expected-error @+1 {{yields 'tensor<f32>' as value 0; for result 0 it is 'tensor<f64>'}}
  %0 = kerf.map(%p) : (tensor<8xf32>) -> tensor<8xf64> {
  ^bb0(%a: tensor<f32>):
    kerf.yield %a : tensor<f32>
  }
  return
}

// -----

func.func @a_body_works_on_each_element_apart(%p: tensor<8xf32>) {
  %0 = kerf.map(%p) : (tensor<8xf32>) -> tensor<8xf32> {
  ^bb0(%a: tensor<f32>):
    // expected-error @+1 {{is not elementwise; the body of a map may hold elementwise ops only}}
    %b = kerf.sync_gradient %a {parameter = "w"} : (tensor<f32>) -> tensor<f32>
    kerf.yield %b : tensor<f32>
  }
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
  // expected-error @+1 {{has an offset and no sizes; an op on a shard has both, an op on a whole tensor neither}}
  %0 = kerf.dropout %x, %n, %n, %n, %n {rate = 0.1 : f64} : (tensor<4x8xf32>, tensor<i64>, tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<4x8xf32>
  return
}

// -----

func.func @the_whole_is_no_piece(%x: tensor<4x8xf32>, %n: tensor<i64>) {
  // expected-error @+1 {{has sizes and no offset; an op on a shard has both, an op on a whole tensor neither}}
  %0 = kerf.dropout %x, %n, %n, %n {rate = 0.1 : f64, sizes = array<i64: 8, 8>} : (tensor<4x8xf32>, tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<4x8xf32>
  return
}

// -----

func.func @the_whole_has_the_rank_of_a_piece(%x: tensor<4x8xf32>, %n: tensor<i64>) {
  // expected-error @+1 {{sizes has 1 entries for an operand of rank 2}}
  %0 = kerf.dropout %x, %n, %n, %n, %n {rate = 0.1 : f64, sizes = array<i64: 64>} : (tensor<4x8xf32>, tensor<i64>, tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<4x8xf32>
  return
}
