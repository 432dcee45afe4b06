// RUN: kerf-opt %s --kerf-assign-tasks --split-input-file --verify-diagnostics

// A kerf.part that the pipeline does not have.
kerf.mesh @mesh #kerf.mesh<"stage"=2>
func.func @main(%x: tensor<4xf32> {kerf.kind = "input", kerf.name = "x"}) -> tensor<4xf32> {
  // expected-error @+1 {{kerf.part is 2; 2 stages of 1 chunks have parts 0 to 1}}
  %0 = kerf.negate %x {kerf.part = 2 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

kerf.mesh @mesh #kerf.mesh<"microbatch"=2>
func.func @main(%x: tensor<4xf32> {kerf.kind = "input", kerf.name = "x"}) -> tensor<2xf32> {
  %0 = kerf.local_slice %x {dim = 0 : i64, axes = array<i64: 0, 1, 2>} : (tensor<4xf32>) -> tensor<2xf32>
  %1 = kerf.accumulate %0 : (tensor<2xf32>) -> tensor<2xf32>
  // expected-error @+1 {{needs a sum over all microbatches before the last one is done}}
  %2 = kerf.multiply %0, %1 : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %2 : tensor<2xf32>
}
