// RUN: kerf-opt %s -split-input-file -kerf-differentiate -verify-diagnostics

// A gradient that a composite's backward op cannot compute is an error at the composite that names the value.

func.func @main(%x: tensor<4x8xf32> {kerf.kind = "parameter", kerf.name = "x", kerf.trainable}, %s: tensor<8xf32>) -> tensor<f32> {
  // expected-error @below {{a gradient flows into 'mean', which only the backward op may read; compute this value by separate ops}}
  %y, %mean, %rstd = kerf.layer_norm %x, %s, %s {epsilon = 1.0e-5 : f64} : (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4xf32>, tensor<4xf32>)
  %loss = kerf.reduce %mean {kind = #kerf<reduce_kind sum>, dimensions = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

func.func @main(%q: tensor<2x8x4x16xf32> {kerf.kind = "parameter", kerf.name = "q", kerf.trainable}) -> tensor<f32> {
  // expected-error @below {{a gradient flows into 'lse'}}
  %y, %lse = kerf.attention %q, %q, %q {scale = 0.25 : f64} : (tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>) -> (tensor<2x8x4x16xf32>, tensor<2x4x8xf32>)
  %loss = kerf.reduce %lse {kind = #kerf<reduce_kind sum>, dimensions = array<i64: 0, 1, 2>} : (tensor<2x4x8xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

func.func @main(%q: tensor<2x8x4x16xf32>, %bias: tensor<1x4x8x8xf32> {kerf.kind = "parameter", kerf.name = "relative_position", kerf.trainable}) -> tensor<f32> {
  // expected-error @below {{the mask depends on a trained parameter, but attention computes no gradient of its mask; give <no-recognition>}}
  %y, %lse = kerf.attention %q, %q, %q, %bias {scale = 0.25 : f64} : (tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>, tensor<1x4x8x8xf32>) -> (tensor<2x8x4x16xf32>, tensor<2x4x8xf32>)
  %loss = kerf.reduce %y {kind = #kerf<reduce_kind sum>, dimensions = array<i64: 0, 1, 2, 3>} : (tensor<2x8x4x16xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}
