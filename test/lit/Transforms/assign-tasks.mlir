// RUN: kerf-opt %s --kerf-insert-reshards --kerf-partition --kerf-assign-tasks | FileCheck %s
// RUN: kerf-opt %s --kerf-insert-reshards --kerf-partition --kerf-split-backward --kerf-assign-tasks=split-backward | FileCheck %s --check-prefix=SPLIT

// A parameter that two stages use resides on the first one, and is sent to the other once for each step.
// CHECK-LABEL: func.func @main
// CHECK-SAME: kerf.name = "e", kerf.stage = 0
// CHECK-SAME: kerf.name = "w1", kerf.stage = 1
// CHECK: %[[E:.*]] = kerf.transfer %arg1 {from = 0 : i64, kerf.task = {chunk = 0 : i64, phase = "prepare", stage = 0 : i64}, to = 1 : i64}
// CHECK: kerf.local_slice %arg0 {axes = array<i64: 1, 1, 4>, dim = 0 : i64, kerf.task = {chunk = 0 : i64, phase = "forward", stage = 0 : i64}}
// CHECK: %[[H1:.*]] = kerf.call @layer({{.*}}) {kerf.task = {chunk = 0 : i64, phase = "forward", stage = 0 : i64}}
// CHECK-NEXT: %[[T:.*]] = kerf.transfer %[[H1]] {from = 0 : i64, kerf.task = {chunk = 0 : i64, phase = "forward", stage = 0 : i64}, to = 1 : i64}
// CHECK-NEXT: kerf.call @layer(%[[T]], %arg3) {kerf.task = {chunk = 0 : i64, phase = "forward", stage = 1 : i64}}
// CHECK-NEXT: kerf.dot_general {{.*}}, %[[E]] {kerf.task = {chunk = 0 : i64, phase = "forward", stage = 1 : i64}
// A value that depends on no microbatch is computed once, on each stage that needs it.
// CHECK: kerf.constant {kerf.task = {chunk = 0 : i64, phase = "prepare", stage = 1 : i64}} dense<1.000000e+00>
// CHECK: %[[B1:.*]]:2 = kerf.call @layer_backward(%[[T]], {{.*}}) {kerf.backward, kerf.task = {chunk = 0 : i64, phase = "backward", stage = 1 : i64}}
// CHECK-NEXT: %[[D:.*]] = kerf.transfer %[[B1]]#0 {from = 1 : i64, kerf.task = {chunk = 0 : i64, phase = "backward", stage = 1 : i64}, to = 0 : i64}
// CHECK: kerf.call @layer_backward({{.*}}, %[[D]]) {kerf.backward, kerf.task = {chunk = 0 : i64, phase = "backward", stage = 0 : i64}}
// Each stage accumulates its own contribution to the embedding's gradient before the contributions are added.
// CHECK: %[[S1:.*]] = kerf.accumulate {{.*}} {kerf.task = {chunk = 0 : i64, phase = "backward", stage = 1 : i64}}
// CHECK-NEXT: %[[M1:.*]] = kerf.transfer %[[S1]] {from = 1 : i64, kerf.task = {chunk = 0 : i64, phase = "update", stage = 1 : i64}, to = 0 : i64}
// CHECK-NEXT: %[[S0:.*]] = kerf.accumulate {{.*}} {kerf.task = {chunk = 0 : i64, phase = "backward", stage = 0 : i64}}
// CHECK-NEXT: kerf.add %[[M1]], %[[S0]] {kerf.backward, kerf.task = {chunk = 0 : i64, phase = "update", stage = 0 : i64}}
// CHECK: kerf.map(%arg3, {{.*}}kerf.task = {chunk = 0 : i64, phase = "update", stage = 1 : i64}

// The weight gradients of both layers, of the head and of the embedding may run later.
// SPLIT: kerf.dot_general {{.*}} phase = "weight_gradient", stage = 1
// SPLIT: kerf.call @layer_backward_input({{.*}}) {{.*}} phase = "input_gradient", stage = 1
// SPLIT: kerf.transfer {{.*}} phase = "input_gradient", stage = 1
// SPLIT: kerf.call @layer_backward_weights({{.*}}) {{.*}} phase = "weight_gradient", stage = 1
// SPLIT: kerf.call @layer_backward_input({{.*}}) {{.*}} stage = 0
// SPLIT: kerf.call @layer_backward_weights({{.*}}) {{.*}} phase = "weight_gradient", stage = 0

// Two layers on two stages, four microbatches of two samples; the embedding @e is used by both ends.
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
    %e: tensor<4x4xf32> {kerf.kind = "parameter", kerf.name = "e", kerf.updated_by = 1 : i64},
    %w0: tensor<4x4xf32> {kerf.kind = "parameter", kerf.name = "w0", kerf.updated_by = 2 : i64},
    %w1: tensor<4x4xf32> {kerf.kind = "parameter", kerf.name = "w1", kerf.updated_by = 3 : i64},
    %lr: tensor<f32> {kerf.kind = "learning_rate", kerf.name = "learning_rate"})
    -> (tensor<f32> {kerf.name = "loss"}, tensor<4x4xf32> {kerf.name = "e"}, tensor<4x4xf32> {kerf.name = "w0"}, tensor<4x4xf32> {kerf.name = "w1"}) {
  %h = kerf.dot_general %tokens, %e {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>, kerf.strategy = {microbatch = "m"}}
      : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32> loc("embedding")
  %h1 = kerf.call @layer(%h, %w0) {kerf.part = 0 : i64} : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32> loc("layer.0")
  %h2 = kerf.call @layer(%h1, %w1) {kerf.part = 1 : i64} : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32> loc("layer.1")
  %y = kerf.dot_general %h2, %e {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 1>, kerf.strategy = {microbatch = "m"}}
      : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32> loc("head")
  %loss = kerf.reduce %y {kind = #kerf<reduce_kind sum>, dimensions = array<i64: 0, 1>, kerf.strategy = {microbatch = "r0"}} : (tensor<8x4xf32>) -> tensor<f32> loc("loss")
  %one = kerf.constant {kerf.backward} dense<1.0> : tensor<f32>
  %dy = kerf.broadcast_in_dim %one {broadcast_dimensions = array<i64>, kerf.backward} : (tensor<f32>) -> tensor<8x4xf32> loc("loss")
  %de1 = kerf.dot_general %dy, %h2 {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 0>, rhs_contracting = array<i64: 0>, kerf.backward, kerf.strategy = {microbatch = "k"}}
      : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32> loc("head")
  %dh2 = kerf.dot_general %dy, %e {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>, kerf.backward, kerf.strategy = {microbatch = "m"}}
      : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32> loc("head")
  %dh1, %dw1 = kerf.call @layer_backward(%h1, %w1, %dh2) {kerf.backward, kerf.part = 1 : i64} : (tensor<8x4xf32>, tensor<4x4xf32>, tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<4x4xf32>) loc("layer.1")
  %dh, %dw0 = kerf.call @layer_backward(%h, %w0, %dh1) {kerf.backward, kerf.part = 0 : i64} : (tensor<8x4xf32>, tensor<4x4xf32>, tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<4x4xf32>) loc("layer.0")
  %de0 = kerf.dot_general %tokens, %dh {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 0>, rhs_contracting = array<i64: 0>, kerf.backward, kerf.strategy = {microbatch = "k"}}
      : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32> loc("embedding")
  %de = kerf.add %de1, %de0 {kerf.backward, kerf.strategy = {microbatch = "sum0"}} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("embedding")
  %ge = kerf.sync_gradient %de {parameter = "e", kerf.strategy = {}} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %g0 = kerf.sync_gradient %dw0 {parameter = "w0", kerf.strategy = {}} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %g1 = kerf.sync_gradient %dw1 {parameter = "w1", kerf.strategy = {}} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %ne = kerf.map(%e, %ge, %lr) {kerf.update = "e", kerf.strategy = {}} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32> {
  ^bb0(%p: tensor<f32>, %slope: tensor<f32>, %rate: tensor<f32>):
    %step = kerf.multiply %rate, %slope : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %q = kerf.subtract %p, %step : (tensor<f32>, tensor<f32>) -> tensor<f32>
    kerf.yield %q : tensor<f32>
  }
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
  return %loss, %ne, %n0, %n1 : tensor<f32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
}
