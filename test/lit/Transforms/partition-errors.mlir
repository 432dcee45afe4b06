// RUN: kerf-opt --kerf-partition --split-input-file --verify-diagnostics %s

kerf.mesh @mesh #kerf.mesh<"data"=2>
func.func @op_is_not_planned(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{is not planned; run kerf-insert-reshards first}}
  %y = kerf.tanh %x : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

kerf.mesh @mesh #kerf.mesh<"data"=2>
func.func @reshard_names_an_axis_that_is_not_there(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{the mesh has no axis "model"; name one of #kerf.mesh<"data"=2>}}
  %y = kerf.reshard %x {from = #kerf.sharding<[{}]>, to = #kerf.sharding<[{"model"}]>} : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
