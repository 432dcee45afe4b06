// RUN: kerf-opt --kerf-insert-reshards --split-input-file --verify-diagnostics %s

kerf.mesh @mesh #kerf.mesh<"data"=2>
func.func @axis_of_a_strategy_is_not_in_the_mesh(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{the mesh has no axis "model" of more than one rank; it has [data]}}
  %y = kerf.tanh %x {kerf.strategy = {model = "i"}} : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

kerf.mesh @mesh #kerf.mesh<"data"=2>
func.func @factor_of_a_strategy_is_not_in_the_rule(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{there is no factor "rows"; the rule is}}
  %y = kerf.tanh %x {kerf.strategy = {data = "rows"}} : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

kerf.mesh @mesh #kerf.mesh<"data"=2>
// expected-error @+1 {{the mesh has no axis "model"; name one of #kerf.mesh<"data"=2>}}
func.func @axis_of_an_argument_is_not_in_the_mesh(%x: tensor<4xf32> {kerf.sharding = #kerf.sharding<[{"model"}]>}) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

// Microbatches give sums over the whole batch, but no maxima.
kerf.mesh @mesh #kerf.mesh<"microbatch"=4>
func.func @main(%x: tensor<16x8xf32> {kerf.sharding = #kerf.sharding<[{"microbatch"}, {}]>}) -> tensor<8xf32> {
  %g = kerf.reduce %x {kind = #kerf<reduce_kind max>, dimensions = array<i64: 0>, kerf.strategy = {microbatch = "r"}} : (tensor<16x8xf32>) -> tensor<8xf32>
  // expected-error @+1 {{needs the largest value over the whole batch, so it can't be cut into microbatches; set microbatch to the samples of a model replica}}
  %m = kerf.negate %g {kerf.strategy = {}} : (tensor<8xf32>) -> tensor<8xf32>
  return %m : tensor<8xf32>
}
