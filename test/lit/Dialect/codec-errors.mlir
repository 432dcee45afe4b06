// RUN: kerf-opt %s -split-input-file -verify-diagnostics

func.func @key_of_a_vector(%seed: tensor<2xi64>, %step: tensor<i64>) -> tensor<i32> {
  // expected-error @below {{all three must be scalars}}
  %k = kerf.random_key %seed, %step {stream = 0 : i64, axes = array<i64>} : (tensor<2xi64>, tensor<i64>) -> tensor<i32>
  return %k : tensor<i32>
}

// -----

func.func @half_an_axis(%seed: tensor<i64>, %step: tensor<i64>) -> tensor<i32> {
  // expected-error @below {{has 2 numbers for axes}}
  %k = kerf.random_key %seed, %step {stream = 0 : i64, axes = array<i64: 0, 1>} : (tensor<i64>, tensor<i64>) -> tensor<i32>
  return %k : tensor<i32>
}

// -----

func.func @three_bits(%x: tensor<8xi8>) -> tensor<3xi8> {
  // expected-error @below {{has bits = 3; it must be 1, 2 or 4}}
  %y = kerf.pack %x {bits = 3 : i64} : (tensor<8xi8>) -> tensor<3xi8>
  return %y : tensor<3xi8>
}

// -----

func.func @too_few_bytes(%x: tensor<4x8xi8>) -> tensor<4x2xi8> {
  // expected-error @below {{where a byte has 2 elements}}
  %y = kerf.pack %x {bits = 4 : i64} : (tensor<4x8xi8>) -> tensor<4x2xi8>
  return %y : tensor<4x2xi8>
}

// -----

func.func @other_rows(%y: tensor<4x2xi8>) -> tensor<3x16xi8> {
  // expected-error @below {{the shapes must agree except along the last dimension}}
  %x = kerf.unpack %y {bits = 1 : i64} : (tensor<4x2xi8>) -> tensor<3x16xi8>
  return %x : tensor<3x16xi8>
}
