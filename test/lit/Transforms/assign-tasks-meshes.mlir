// RUN: kerf-opt %s --kerf-insert-reshards --kerf-partition --kerf-assign-tasks | FileCheck %s

// Stage 0 shards a microbatch over both of its ranks, stage 1 replicates it. Stages send each other the smaller shards:
// stage 1 gathers what it receives, and sends back only the receiver's shard of the gradient.
// CHECK-LABEL: func.func @main
// CHECK: %[[H:.*]] = kerf.call @layer({{.*}}) {kerf.task = {chunk = 0 : i64, phase = "forward", stage = 0 : i64}}
// CHECK-NEXT: %[[T:.*]] = kerf.transfer %[[H]] {{.*}}phase = "forward", stage = 0 : i64}, to = 1 : i64} : (tensor<2x4xf32>)
// CHECK-NEXT: kerf.all_gather %[[T]] {{.*}}phase = "forward", stage = 1 : i64}
// CHECK-NEXT: kerf.wait {{.*}}phase = "forward", stage = 1 : i64}
// CHECK-NEXT: kerf.call @layer_mesh1({{.*}}phase = "forward", stage = 1 : i64}
// CHECK: %[[D:.*]]:2 = kerf.call @layer_mesh1_backward({{.*}}phase = "backward", stage = 1 : i64}
// CHECK: %[[P:.*]] = kerf.local_slice %[[D]]#0 {{.*}}phase = "backward", stage = 1 : i64}
// CHECK-NEXT: kerf.transfer %[[P]] {{.*}}phase = "backward", stage = 1 : i64}, to = 0 : i64} : (tensor<2x4xf32>)
// CHECK: kerf.call @layer_backward({{.*}}phase = "backward", stage = 0 : i64}

kerf.mesh @mesh #kerf.mesh<"microbatch"=2, "stage"=2, "data|model"=2>

func.func private @layer(%x: tensor<8x4xf32> {kerf.sharding = #kerf.sharding<[{"microbatch", "data|model"}, {}]>}, %w: tensor<4x4xf32>) -> tensor<8x4xf32> {
  %0 = kerf.dot_general %x, %w {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>,
      kerf.strategy = {microbatch = "m", "data|model" = "m"}} : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}
func.func private @layer_mesh1(%x: tensor<8x4xf32> {kerf.sharding = #kerf.sharding<[{"microbatch"}, {}]>}, %w: tensor<4x4xf32>) -> tensor<8x4xf32> {
  %0 = kerf.dot_general %x, %w {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>,
      kerf.strategy = {microbatch = "m"}} : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}
func.func private @layer_mesh1_backward(%x: tensor<8x4xf32> {kerf.sharding = #kerf.sharding<[{"microbatch"}, {}]>}, %w: tensor<4x4xf32>,
    %dy: tensor<8x4xf32> {kerf.sharding = #kerf.sharding<[{"microbatch"}, {}]>}) -> (tensor<8x4xf32>, tensor<4x4xf32>) {
  %dx = kerf.dot_general %dy, %w {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 1>,
      kerf.strategy = {microbatch = "m"}} : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %dw = kerf.dot_general %x, %dy {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 0>, rhs_contracting = array<i64: 0>,
      kerf.strategy = {microbatch = "k"}} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  return %dx, %dw : tensor<8x4xf32>, tensor<4x4xf32>
}
func.func private @layer_backward(%x: tensor<8x4xf32> {kerf.sharding = #kerf.sharding<[{"microbatch", "data|model"}, {}]>},
    %dy: tensor<8x4xf32> {kerf.sharding = #kerf.sharding<[{"microbatch", "data|model"}, {}]>}) -> tensor<4x4xf32> {
  %dw = kerf.dot_general %x, %dy {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 0>, rhs_contracting = array<i64: 0>,
      kerf.strategy = {microbatch = "k", "data|model" = "k"}} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  return %dw : tensor<4x4xf32>
}
func.func @main(%x: tensor<8x4xf32> {kerf.kind = "input", kerf.name = "x"},
    %w0: tensor<4x4xf32> {kerf.kind = "parameter", kerf.name = "w0", kerf.updated_by = 1 : i64},
    %w1: tensor<4x4xf32> {kerf.kind = "parameter", kerf.name = "w1", kerf.updated_by = 2 : i64})
    -> (tensor<f32> {kerf.name = "loss"}, tensor<4x4xf32> {kerf.name = "w0"}, tensor<4x4xf32> {kerf.name = "w1"}) {
  %h = kerf.call @layer(%x, %w0) {kerf.part = 0 : i64} : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32> loc("layer.0")
  %y = kerf.call @layer_mesh1(%h, %w1) {kerf.part = 1 : i64} : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32> loc("layer.1")
  %loss = kerf.reduce %y {kind = #kerf<reduce_kind sum>, dimensions = array<i64: 0, 1>, kerf.strategy = {microbatch = "r0"}} : (tensor<8x4xf32>) -> tensor<f32>
  %one = kerf.constant {kerf.backward} dense<1.0> : tensor<f32>
  %dy = kerf.broadcast_in_dim %one {broadcast_dimensions = array<i64>, kerf.backward} : (tensor<f32>) -> tensor<8x4xf32>
  %dh, %dw1 = kerf.call @layer_mesh1_backward(%h, %w1, %dy) {kerf.backward, kerf.part = 1 : i64}
      : (tensor<8x4xf32>, tensor<4x4xf32>, tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<4x4xf32>) loc("layer.1")
  %dw0 = kerf.call @layer_backward(%x, %dh) {kerf.backward, kerf.part = 0 : i64} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32> loc("layer.0")
  %g0 = kerf.sync_gradient %dw0 {parameter = "w0", kerf.strategy = {}} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %g1 = kerf.sync_gradient %dw1 {parameter = "w1", kerf.strategy = {}} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %loss, %g0, %g1 : tensor<f32>, tensor<4x4xf32>, tensor<4x4xf32>
}
