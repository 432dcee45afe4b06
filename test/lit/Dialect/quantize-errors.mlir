// RUN: kerf-opt %s -split-input-file -verify-diagnostics

func.func @magnitude_of_another_type(%x: tensor<4x8xbf16>, %m: tensor<f32>) -> tensor<4x8xf8E4M3FN> {
  // expected-error @below {{it must be a scalar with the same element type}}
  %y = kerf.quantize %x, %m : (tensor<4x8xbf16>, tensor<f32>) -> tensor<4x8xf8E4M3FN>
  return %y : tensor<4x8xf8E4M3FN>
}

// -----

func.func @magnitude_of_rows(%x: tensor<4x8xbf16>, %m: tensor<4xbf16>) -> tensor<4x8xf8E4M3FN> {
  // expected-error @below {{it must be a scalar with the same element type}}
  %y = kerf.quantize %x, %m : (tensor<4x8xbf16>, tensor<4xbf16>) -> tensor<4x8xf8E4M3FN>
  return %y : tensor<4x8xf8E4M3FN>
}

// -----

func.func @another_shape(%x: tensor<4x8xbf16>, %m: tensor<bf16>) -> tensor<8x4xf8E4M3FN> {
  // expected-error @below {{their shapes must agree}}
  %y = kerf.quantize %x, %m : (tensor<4x8xbf16>, tensor<bf16>) -> tensor<8x4xf8E4M3FN>
  return %y : tensor<8x4xf8E4M3FN>
}

// -----

func.func @product_without_magnitudes(%x: tensor<4x8xf8E4M3FN>, %y: tensor<8x4xf8E4M3FN>) -> tensor<4x4xbf16> {
  // expected-error @below {{has 0 magnitudes for factors of 'f8E4M3FN' and 'f8E4M3FN'; 8-bit factors need 2}}
  %z = kerf.dot_general %x, %y {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>} : (tensor<4x8xf8E4M3FN>, tensor<8x4xf8E4M3FN>) -> tensor<4x4xbf16>
  return %z : tensor<4x4xbf16>
}

// -----

func.func @product_of_two_gradients(%x: tensor<4x8xf8E5M2>, %y: tensor<8x4xf8E5M2>, %m: tensor<bf16>) -> tensor<4x4xbf16> {
  // expected-error @below {{has two factors of f8E5M2; at least one must be f8E4M3FN}}
  %z = kerf.dot_general %x, %y, %m, %m {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>} : (tensor<4x8xf8E5M2>, tensor<8x4xf8E5M2>, tensor<bf16>, tensor<bf16>) -> tensor<4x4xbf16>
  return %z : tensor<4x4xbf16>
}

// -----

func.func @product_of_different_widths(%x: tensor<4x8xf8E4M3FN>, %y: tensor<8x4xbf16>, %m: tensor<bf16>) -> tensor<4x4xbf16> {
  // expected-error @below {{has elements of 'f8E4M3FN' in lhs, 'bf16' in rhs}}
  %z = kerf.dot_general %x, %y, %m, %m {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>} : (tensor<4x8xf8E4M3FN>, tensor<8x4xbf16>, tensor<bf16>, tensor<bf16>) -> tensor<4x4xbf16>
  return %z : tensor<4x4xbf16>
}
