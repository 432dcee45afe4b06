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
