// RUN: kerf-opt %s -split-input-file -kerf-compress-gradients | FileCheck %s

// 0/1 Adam. The model reads the parameter less what this rank has moved, and the optimizer reads the parameter itself. Ranks
// sum what they have moved, and a sum sets the states of the rank to zero. Plain sums are in batches 0, 1 and 3, those of
// payloads in batches 2, 4, 6, 8, ...

// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[W:[^:]*]]: tensor<8xf32> {kerf.kind = "parameter"
// CHECK-SAME: %[[M:[^:]*]]: tensor<8xf32> {kerf.kind = "state", kerf.name = "exp_avg/w"}
// CHECK-SAME: %[[V:[^:]*]]: tensor<8xf32> {kerf.kind = "state", kerf.name = "exp_avg_sq/w"}
// CHECK-SAME: %[[RATES:[^:]*]]: tensor<f32> {kerf.kind = "state", kerf.name = "compression_rates/learning_rate"}
// CHECK-SAME: %[[MEAN:[^:]*]]: tensor<1x8xf32> {kerf.global_type = tensor<2x8xf32>, kerf.kind = "state", kerf.name = "compression_mean/w"{{.*}}kerf.updated_by = 1
// CHECK-SAME: %[[MOVES:[^:]*]]: tensor<1x8xf32> {kerf.global_type = tensor<2x8xf32>, kerf.kind = "state", kerf.name = "compression_moves/w"{{.*}}kerf.updated_by = 2
// CHECK: %[[U:.*]] = kerf.reshape %[[MOVES]]
// CHECK: kerf.floor
// CHECK: kerf.sqrt %[[V]]
// CHECK: kerf.multiply %{{.*}}, %[[U]] : (tensor<8xf32>, tensor<8xf32>)
// CHECK: kerf.divide
// CHECK: %[[LOST:.*]] = kerf.select
// CHECK: %[[READ:.*]] = kerf.subtract %[[W]], %[[LOST]]
// CHECK: %[[D:.*]] = kerf.reshape %[[MEAN]]
// CHECK: kerf.exponential %[[READ]]
// CHECK: %[[ALL:.*]] = kerf.add %{{.*}}, %{{.*}} : (tensor<f32>, tensor<f32>)
// CHECK: %[[IS_MOVING:.*]] = kerf.compare %[[ALL]]
// CHECK: kerf.or
// CHECK: %[[SUMS:.*]] = kerf.or %{{.*}}, %{{.*}} : (tensor<i1>, tensor<i1>)
// CHECK: kerf.add %[[M]], %[[D]]
// CHECK: %[[MOVED:.*]] = kerf.add %[[U]], %{{.*}} : (tensor<8xf32>, tensor<8xf32>)
// CHECK: %[[ALLS:.*]] = kerf.broadcast_in_dim %[[ALL]]
// CHECK: %[[PER_RATE:.*]] = kerf.divide %[[MOVED]], %[[ALLS]]
// CHECK: %[[MOVING:.*]] = kerf.broadcast_in_dim %[[IS_MOVING]]
// CHECK: kerf.select %[[MOVING]], %[[PER_RATE]]
// CHECK: %[[SUMMING:.*]] = kerf.broadcast_in_dim %[[SUMS]]
// CHECK: kerf.select %[[SUMMING]], %[[ZERO:.*]], %{{.*}} :
// CHECK: kerf.select %[[SUMMING]], %[[ZERO]], %[[MOVED]]
// CHECK: kerf.all_reduce {{.*}}kerf.batches = array<i64: 0, 1, 1, 1, 1, 3, 2, 1, 3, 4, 4, 1>
// CHECK: kerf.all_gather {{.*}}kerf.batches = array<i64: 2, 3, 2, 1, 4, 5, 1, 1, 6, 9223372036854775807, 2, 1>
// CHECK: kerf.subtract %[[W]], %{{.*}} {kerf.update = "w"}
kerf.mesh @mesh #kerf.mesh<"data"=2>
func.func @main(%x: tensor<4x8xf32> {kerf.kind = "input", kerf.name = "x", kerf.global_type = tensor<8x8xf32>, kerf.sharding = #kerf.sharding<[{"data"}, {}]>},
                %w: tensor<8xf32> {kerf.kind = "parameter", kerf.name = "w"},
                %m: tensor<8xf32> {kerf.kind = "state", kerf.name = "exp_avg/w"}, %v: tensor<8xf32> {kerf.kind = "state", kerf.name = "exp_avg_sq/w"},
                %rates: tensor<f32> {kerf.kind = "state", kerf.name = "compression_rates/learning_rate"},
                %rate: tensor<f32> {kerf.kind = "learning_rate", kerf.name = "learning_rate"}, %step: tensor<i64> {kerf.kind = "step", kerf.name = "step"}) -> tensor<8xf32> {
  %g = kerf.exponential %w : (tensor<8xf32>) -> tensor<8xf32>
  %p = kerf.all_reduce %g {axes = array<i64: 0, 1, 2>, kind = #kerf<reduce_kind sum>, stream = "gradients", cause = "gradient of w",
    kerf.compression = {codec = "bf16", parameter = "w", optimizer = "zero-one-adam", rate = "learning_rate",
      settings = {"beta1" = 0.75, "beta2" = 0.5, "eps" = 0.125, "freeze-step" = 4.0, "local-step-clipper" = 2.0, "local-step-scaler" = 1.0, "var-update-scaler" = 1.0, "weight-decay" = 0.0}}} : (tensor<8xf32>) -> !kerf.pending<tensor<8xf32>>
  %s = kerf.wait %p : (!kerf.pending<tensor<8xf32>>) -> tensor<8xf32>
  %new = kerf.subtract %w, %s {kerf.update = "w"} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %new : tensor<8xf32>
}

// -----

// A gradient that no rank sums: its parameter is updated in each step, by the rate of this step.

// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[LOCAL:[^:]*]]: tensor<i1>, %[[RATES:[^:]*]]: tensor<f32>, %[[RATE:[^:]*]]: tensor<f32>
// CHECK: %[[FALSE:.*]] = kerf.constant dense<false>
// CHECK: return %[[FALSE]], %[[RATE]]
kerf.mesh @mesh #kerf.mesh<"data"=2>
func.func @main(%sums: tensor<i1>, %rates: tensor<f32>, %rate: tensor<f32>) -> (tensor<i1>, tensor<f32>) {
  %skip = kerf.not %sums {kerf.local_steps = "w"} : (tensor<i1>) -> tensor<i1>
  %all = kerf.add %rates, %rate {kerf.local_steps = "w"} : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %skip, %all : tensor<i1>, tensor<f32>
}
