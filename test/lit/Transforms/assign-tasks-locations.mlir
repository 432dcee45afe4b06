// RUN: kerf-opt %s --kerf-insert-reshards --kerf-partition --kerf-assign-tasks | FileCheck %s

// A gradient belongs to the part of the forward op with the same location. Where this is ambiguous (ops of another part
// have the location too), it belongs at the latest to the part that waits for it.
// CHECK-LABEL: func.func @main
// CHECK: kerf.call @layer({{.*}}phase = "forward", stage = 1
// CHECK: kerf.negate {{.*}}kerf.backward, kerf.task = {chunk = 0 : i64, phase = "backward", stage = 1 : i64}
// CHECK-NEXT: kerf.call @layer_backward({{.*}}phase = "backward", stage = 1

kerf.mesh @mesh #kerf.mesh<"stage"=2, "microbatch"=4>

func.func private @layer(%x: tensor<8x4xf32> {kerf.sharding = #kerf.sharding<[{"microbatch"}, {} ]>}, %w: tensor<4x4xf32>)
    -> tensor<8x4xf32> {
  %0 = kerf.dot_general %x, %w {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>, kerf.strategy = {microbatch = "m"}}
      : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}
func.func private @layer_backward(%x: tensor<8x4xf32> {kerf.sharding = #kerf.sharding<[{"microbatch"}, {} ]>}, %w: tensor<4x4xf32>,
    %dy: tensor<8x4xf32> {kerf.sharding = #kerf.sharding<[{"microbatch"}, {} ]>}) -> (tensor<8x4xf32>, tensor<4x4xf32>) {
  %dx = kerf.dot_general %dy, %w {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 1>, kerf.strategy = {microbatch = "m"}}
      : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %dw = kerf.dot_general %x, %dy {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 0>, rhs_contracting = array<i64: 0>, kerf.strategy = {microbatch = "k"}}
      : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  return %dx, %dw : tensor<8x4xf32>, tensor<4x4xf32>
}
func.func @main(%tokens: tensor<8x4xf32> {kerf.kind = "input", kerf.name = "tokens"},
    %w0: tensor<4x4xf32> {kerf.kind = "parameter", kerf.name = "w0", kerf.updated_by = 1 : i64},
    %w1: tensor<4x4xf32> {kerf.kind = "parameter", kerf.name = "w1", kerf.updated_by = 2 : i64},
    %lr: tensor<f32> {kerf.kind = "learning_rate", kerf.name = "learning_rate"})
    -> (tensor<f32> {kerf.name = "loss"}, tensor<4x4xf32> {kerf.name = "w0"}, tensor<4x4xf32> {kerf.name = "w1"}) {
  %h = kerf.negate %tokens {kerf.strategy = {microbatch = "i"}} : (tensor<8x4xf32>) -> tensor<8x4xf32> loc("sign")
  %h1 = kerf.call @layer(%h, %w0) {kerf.part = 0 : i64} : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32> loc("layer.0")
  %s = kerf.negate %h1 {kerf.strategy = {microbatch = "i"}} : (tensor<8x4xf32>) -> tensor<8x4xf32> loc("sign")
  %h2 = kerf.call @layer(%s, %w1) {kerf.part = 1 : i64} : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32> loc("layer.1")
  %loss = kerf.reduce %h2 {kind = #kerf<reduce_kind sum>, dimensions = array<i64: 0, 1>, kerf.strategy = {microbatch = "r0"}} : (tensor<8x4xf32>) -> tensor<f32> loc("loss")
  %dh2 = kerf.negate %h2 {kerf.backward, kerf.strategy = {microbatch = "i"}} : (tensor<8x4xf32>) -> tensor<8x4xf32> loc("sign")
  %ds, %dw1 = kerf.call @layer_backward(%s, %w1, %dh2) {kerf.backward, kerf.part = 1 : i64} : (tensor<8x4xf32>, tensor<4x4xf32>, tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<4x4xf32>) loc("layer.1")
  %dh, %dw0 = kerf.call @layer_backward(%h, %w0, %ds) {kerf.backward, kerf.part = 0 : i64} : (tensor<8x4xf32>, tensor<4x4xf32>, tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<4x4xf32>) loc("layer.0")
  %g0 = kerf.sync_gradient %dw0 {parameter = "w0", kerf.strategy = {}} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %g1 = kerf.sync_gradient %dw1 {parameter = "w1", kerf.strategy = {}} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %n0 = kerf.map(%w0, %g0, %lr) {kerf.update = "w0", kerf.strategy = {}} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32> {
  ^bb0(%p: tensor<f32>, %slope: tensor<f32>, %rate: tensor<f32>):
    %step = kerf.multiply %rate, %slope : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %q = kerf.subtract %p, %step : (tensor<f32>, tensor<f32>) -> tensor<f32>
    kerf.yield %q : tensor<f32>
  }
  %n1 = kerf.map(%w1, %g1, %lr) {kerf.update = "w1", kerf.strategy = {}} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32> {
  ^bb0(%p: tensor<f32>, %slope: tensor<f32>, %rate: tensor<f32>):
    %step = kerf.multiply %rate, %slope : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %q = kerf.subtract %p, %step : (tensor<f32>, tensor<f32>) -> tensor<f32>
    kerf.yield %q : tensor<f32>
  }
  return %loss, %n0, %n1 : tensor<f32>, tensor<4x4xf32>, tensor<4x4xf32>
}
