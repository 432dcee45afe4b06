// RUN: kerf-opt %s -split-input-file -verify-diagnostics -kerf-compress-gradients

// Ranks along the axis "model" have parts of the same samples.

kerf.mesh @mesh #kerf.mesh<"data"=2, "model"=2>
func.func @main(%x: tensor<4x8xf32> {kerf.kind = "input", kerf.name = "x", kerf.global_type = tensor<8x8xf32>, kerf.sharding = #kerf.sharding<[{"data"}, {}]>},
                %w: tensor<8xf32> {kerf.kind = "parameter", kerf.name = "w"},
                %m: tensor<8xf32> {kerf.kind = "state", kerf.name = "exp_avg/w"}, %v: tensor<8xf32> {kerf.kind = "state", kerf.name = "exp_avg_sq/w"},
                %rates: tensor<f32> {kerf.kind = "state", kerf.name = "compression_rates/learning_rate"},
                %rate: tensor<f32> {kerf.kind = "learning_rate", kerf.name = "learning_rate"}, %step: tensor<i64> {kerf.kind = "step", kerf.name = "step"}) -> tensor<8xf32> {
  %g = kerf.exponential %w : (tensor<8xf32>) -> tensor<8xf32>
  // expected-error @+1 {{the gradient of 'w' is summed over ranks that have parts of the same samples, but optimizer zero-one-adam lets each rank take steps by its own gradient; compress this gradient with codec none, or give <local-step-clipper=1>}}
  %p = kerf.all_reduce %g {axes = array<i64: 0, 1, 2, 1, 1, 2>, kind = #kerf<reduce_kind sum>, stream = "gradients", cause = "gradient of w",
    kerf.compression = {codec = "bf16", parameter = "w", optimizer = "zero-one-adam", rate = "learning_rate",
      settings = {"beta1" = 0.75, "beta2" = 0.5, "eps" = 0.125, "freeze-step" = 4.0, "local-step-clipper" = 2.0, "local-step-scaler" = 1.0, "var-update-scaler" = 1.0, "weight-decay" = 0.0}}} : (tensor<8xf32>) -> !kerf.pending<tensor<8xf32>>
  %s = kerf.wait %p : (!kerf.pending<tensor<8xf32>>) -> tensor<8xf32>
  %new = kerf.subtract %w, %s {kerf.update = "w"} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %new : tensor<8xf32>
}

// -----

// The mean lies in parts.

kerf.mesh @mesh #kerf.mesh<"data"=2>
func.func @main(%x: tensor<4x8xf32> {kerf.kind = "input", kerf.name = "x", kerf.global_type = tensor<8x8xf32>, kerf.sharding = #kerf.sharding<[{"data"}, {}]>},
                %w: tensor<8xf32> {kerf.kind = "parameter", kerf.name = "w"},
                %m: tensor<4xf32> {kerf.kind = "state", kerf.name = "exp_avg/w"}, %v: tensor<8xf32> {kerf.kind = "state", kerf.name = "exp_avg_sq/w"},
                %rates: tensor<f32> {kerf.kind = "state", kerf.name = "compression_rates/learning_rate"},
                %rate: tensor<f32> {kerf.kind = "learning_rate", kerf.name = "learning_rate"}, %step: tensor<i64> {kerf.kind = "step", kerf.name = "step"}) -> tensor<8xf32> {
  %g = kerf.exponential %w : (tensor<8xf32>) -> tensor<8xf32>
  // expected-error @+1 {{the gradient of 'w' is summed as the mean 'exp_avg' of gradients, which optimizer sharding cuts over ranks; use optimizer sharding 0}}
  %p = kerf.all_reduce %g {axes = array<i64: 0, 1, 2>, kind = #kerf<reduce_kind sum>, stream = "gradients", cause = "gradient of w",
    kerf.compression = {codec = "bf16", parameter = "w", optimizer = "zero-one-adam", rate = "learning_rate",
      settings = {"beta1" = 0.75, "beta2" = 0.5, "eps" = 0.125, "freeze-step" = 4.0, "local-step-clipper" = 2.0, "local-step-scaler" = 1.0, "var-update-scaler" = 1.0, "weight-decay" = 0.0}}} : (tensor<8xf32>) -> !kerf.pending<tensor<8xf32>>
  %s = kerf.wait %p : (!kerf.pending<tensor<8xf32>>) -> tensor<8xf32>
  %new = kerf.subtract %w, %s {kerf.update = "w"} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %new : tensor<8xf32>
}

// -----

// Each rank has the whole sum, but a half of the optimizer's momentum.

kerf.mesh @mesh #kerf.mesh<"data"=2>
func.func @main(%g: tensor<8xf32>, %m: tensor<4xf32> {kerf.kind = "state", kerf.name = "momentum/w"}) -> tensor<8xf32> {
  // expected-error @+1 {{the gradient of 'w' is encoded with its momentum, but a rank has a sum of type 'tensor<8xf32>' and a state 'momentum' of type 'tensor<4xf32>'; use another codec, or optimizer sharding 0}}
  %p = kerf.all_reduce %g {axes = array<i64: 0, 1, 2>, kind = #kerf<reduce_kind sum>, stream = "gradients", cause = "gradient of w",
    kerf.compression = {codec = "onebit", parameter = "w", error_feedback = true, momentum = 0.9 : f64, momentum_state = "momentum"}} : (tensor<8xf32>) -> !kerf.pending<tensor<8xf32>>
  %s = kerf.wait %p : (!kerf.pending<tensor<8xf32>>) -> tensor<8xf32>
  return %s : tensor<8xf32>
}
