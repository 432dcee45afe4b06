// RUN: kerf-opt %s -verify-diagnostics -split-input-file

func.func @shapes_of_a_sum_are_equal(%x: tensor<4xf32>, %y: tensor<5xf32>) {
  // expected-error @+1 {{requires the same type for all operands and results}}
  %0 = kerf.add %x, %y : (tensor<4xf32>, tensor<5xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @an_exponential_is_of_floats(%x: tensor<4xi32>) {
  // expected-error @+1 {{operand #0 must be statically shaped tensor of floating-point number values}}
  %0 = kerf.exponential %x : (tensor<4xi32>) -> tensor<4xi32>
  return
}

// -----

func.func @a_conversion_keeps_the_shape(%x: tensor<4xi32>) {
  // expected-error @+1 {{requires the same shape for all operands and results}}
  %0 = kerf.convert %x : (tensor<4xi32>) -> tensor<5xf32>
  return
}

// -----

func.func @what_is_compared_is_of_one_type(%x: tensor<4xf32>, %y: tensor<4xf64>) {
  // expected-error @+1 {{requires all operands to have the same type}}
  %0 = kerf.compare %x, %y {direction = #kerf<comparison LT>} : (tensor<4xf32>, tensor<4xf64>) -> tensor<4xi1>
  return
}

// -----

func.func @a_predicate_is_boolean(%p: tensor<4xi32>, %x: tensor<4xf32>) {
  // expected-error @+1 {{operand #0 must be statically shaped tensor of 1-bit signless integer values}}
  %0 = kerf.select %p, %x, %x : (tensor<4xi32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @shapes_are_static(%x: tensor<?xf32>) {
  // expected-error @+1 {{operand #0 must be statically shaped tensor}}
  %0 = kerf.negate %x : (tensor<?xf32>) -> tensor<?xf32>
  return
}

// -----

func.func @a_narrower_format_has_no_more_bits(%x: tensor<4xf32>) {
  // expected-error @+1 {{mantissa_bits is 24, but must be 0 to 23 in 'f32'}}
  %0 = kerf.reduce_precision %x {mantissa_bits = 24 : i64, min_exponent = -6 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @nor_smaller_numbers(%x: tensor<4xbf16>) {
  // expected-error @+1 {{min_exponent is -127, but must be -126 to 0 in 'bf16'}}
  %0 = kerf.reduce_precision %x {mantissa_bits = 3 : i64, min_exponent = -127 : i64} : (tensor<4xbf16>) -> tensor<4xbf16>
  return
}

// -----

func.func @one_is_a_number_of_it(%x: tensor<4xf64>) {
  // expected-error @+1 {{min_exponent is 1, but must be -1022 to 0 in 'f64'}}
  %0 = kerf.reduce_precision %x {mantissa_bits = 52 : i64, min_exponent = 1 : i64} : (tensor<4xf64>) -> tensor<4xf64>
  return
}
