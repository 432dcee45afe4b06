// RUN: kerf-opt %s -kerf-quantize-products -split-input-file -verify-diagnostics

// expected-error @below {{no product of activations and a parameter that can be computed in 8 bits: its three sizes must be multiples of 16}}
module {
  func.func @main(%x: tensor<16x24xbf16> {kerf.kind = "input", kerf.name = "x"},
                  %w: tensor<24x48xbf16> {kerf.kind = "parameter", kerf.name = "w"}) -> tensor<16x48xbf16> {
    %y = kerf.dot_general %x, %w {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>} : (tensor<16x24xbf16>, tensor<24x48xbf16>) -> tensor<16x48xbf16>
    return %y : tensor<16x48xbf16>
  }
}
