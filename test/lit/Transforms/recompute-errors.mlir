// RUN: kerf-opt %s --kerf-recompute --verify-diagnostics

func.func private @layer(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = kerf.tanh %x : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @layer_backward(%y: tensor<4xf32>) -> tensor<4xf32> {
  return %y : tensor<4xf32>
}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = kerf.call @layer(%x) : (tensor<4xf32>) -> tensor<4xf32>
  // expected-error @+1 {{kerf.recompute is "half"; there are "none", "selective", "pointwise", "except-attention" and "full"}}
  %d = kerf.call @layer_backward(%y) {kerf.recompute = "half"} : (tensor<4xf32>) -> tensor<4xf32>
  return %d : tensor<4xf32>
}
