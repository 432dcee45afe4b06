// RUN: kerf-opt --kerf-insert-reshards --split-input-file %s | FileCheck %s

// A row-parallel product leaves a partial sum. The op after it determines the reshard: first the rank's
// shard, later everything.

kerf.mesh @mesh #kerf.mesh<"model"=2>
// CHECK-LABEL: func.func @partial_sum_is_reduced_where_it_is_needed
func.func @partial_sum_is_reduced_where_it_is_needed(
    %x: tensor<4x8xf32> {kerf.sharding = #kerf.sharding<[{}, {"model"}]>},
    %w: tensor<8x6xf32> {kerf.sharding = #kerf.sharding<[{"model"}, {}]>}) -> tensor<4x6xf32> {
  // CHECK: %[[Y:.*]] = kerf.dot_general
  %y = kerf.dot_general %x, %w {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 1>,
      rhs_contracting = array<i64: 0>, kerf.strategy = {model = "k"}} : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  // CHECK: %[[R:.*]] = kerf.reshard %[[Y]] {{.*}}from = #kerf.sharding<[{}, {}], partial = ["model"]>, to = #kerf.sharding<[{"model"}, {}]>
  // CHECK: kerf.tanh %[[R]]
  %z = kerf.tanh %y {kerf.strategy = {model = "i"}} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  return %z : tensor<4x6xf32>
}

// -----

// An op without a strategy follows its operands: no reshard, the same sharding.

kerf.mesh @mesh #kerf.mesh<"data"=4>
// CHECK-LABEL: func.func @ops_follow_their_operands
func.func @ops_follow_their_operands(%x: tensor<8x6xf32> {kerf.sharding = #kerf.sharding<[{"data"}, {}]>}) -> tensor<8x6xf32> {
  // CHECK-NOT: kerf.reshard
  // CHECK: kerf.exponential %{{.*}} {kerf.strategy = {data = "[[I:.*]]"}}
  // CHECK: kerf.negate %{{.*}} {kerf.strategy = {data = "[[I]]"}}
  %y = kerf.exponential %x : (tensor<8x6xf32>) -> tensor<8x6xf32>
  %z = kerf.negate %y : (tensor<8x6xf32>) -> tensor<8x6xf32>
  return %z : tensor<8x6xf32>
}

// -----

// Softmax over a sharded dimension is decomposed. The maximum and the sum are reduced over ranks, nothing
// else is moved.

kerf.mesh @mesh #kerf.mesh<"model"=2>
// CHECK-LABEL: func.func @cut_classes_decompose
func.func @cut_classes_decompose(%x: tensor<4x8xf32> {kerf.sharding = #kerf.sharding<[{}, {"model"}]>}) -> tensor<4x8xf32> {
  // CHECK-NOT: kerf.softmax
  // CHECK: kerf.reduce {{.*}}reduce_kind max
  // CHECK: kerf.reshard {{.*}}tensor<4xf32>
  // CHECK: kerf.reduce {{.*}}reduce_kind sum
  // CHECK: kerf.reshard {{.*}}tensor<4xf32>
  // CHECK-NOT: kerf.reshard
  // CHECK: return
  %y = kerf.softmax %x {dimension = 1 : i64, kerf.strategy = {model = "v"}} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

// The sync_gradient op gets attributes with the shardings of its operand and result.

kerf.mesh @mesh #kerf.mesh<"data"=2>
// CHECK-LABEL: func.func @gradients_stay_abstract
func.func @gradients_stay_abstract(%x: tensor<4x8xf32> {kerf.sharding = #kerf.sharding<[{"data"}, {}]>}) -> tensor<8xf32> {
  // CHECK: kerf.sync_gradient {{.*}}from = #kerf.sharding<[{}], partial = ["data"]>{{.*}}to = #kerf.sharding<[{}]>
  // CHECK-NOT: kerf.reshard
  %g = kerf.reduce %x {kind = #kerf<reduce_kind sum>, dimensions = array<i64: 0>, kerf.strategy = {data = "r"}} : (tensor<4x8xf32>) -> tensor<8xf32>
  %s = kerf.sync_gradient %g {parameter = "w", kerf.strategy = {}} : (tensor<8xf32>) -> tensor<8xf32>
  return %s : tensor<8xf32>
}

// -----

// Shards of a gradient that is scattered for each microbatch are added up before the ranks with the same
// shards sum them.

kerf.mesh @mesh #kerf.mesh<"data"=2, "data/2"=2, "microbatch"=4>
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<16x8xf32> {kerf.sharding = #kerf.sharding<[{"data", "data/2", "microbatch"}, {}]>}) -> tensor<8xf32> {
  // CHECK: %[[PIECE:.*]] = kerf.sync_gradient {{.*}}from = #kerf.sharding<[{}], partial = ["data", "data/2", "microbatch"]>{{.*}}to = #kerf.sharding<[{"data/2"}], partial = ["data", "microbatch"]>
  // CHECK-NEXT: %[[SUM:.*]] = kerf.accumulate %[[PIECE]]
  // CHECK-NEXT: kerf.sync_gradient %[[SUM]] {from = #kerf.sharding<[{"data/2"}], partial = ["data"]>{{.*}}to = #kerf.sharding<[{"data/2"}]>
  // CHECK-NOT: kerf.sync_gradient
  %g = kerf.reduce %x {kind = #kerf<reduce_kind sum>, dimensions = array<i64: 0>,
      kerf.strategy = {data = "r", "data/2" = "r", microbatch = "r"}} : (tensor<16x8xf32>) -> tensor<8xf32>
  %s = kerf.sync_gradient %g {parameter = "w", kerf.each_microbatch, kerf.strategy = {"data/2" = "i"}} : (tensor<8xf32>) -> tensor<8xf32>
  return %s : tensor<8xf32>
}

// -----

// Contributions that were each summed over microbatches are not summed again, with or without an axis of microbatches.

kerf.mesh @mesh #kerf.mesh<"stage"=2, "data"=2>
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<4x8xf32> {kerf.sharding = #kerf.sharding<[{"data"}, {}]>}) -> tensor<8xf32> {
  // CHECK-COUNT-2: kerf.accumulate
  // CHECK-NOT: kerf.accumulate
  // CHECK: kerf.sync_gradient {{.*}}from = #kerf.sharding<[{}], partial = ["data"]>{{.*}}to = #kerf.sharding<[{}]>
  %g = kerf.reduce %x {kind = #kerf<reduce_kind sum>, dimensions = array<i64: 0>, kerf.strategy = {data = "r"}} : (tensor<4x8xf32>) -> tensor<8xf32>
  %h = kerf.negate %g : (tensor<8xf32>) -> tensor<8xf32>
  %a = kerf.accumulate %g : (tensor<8xf32>) -> tensor<8xf32>
  %b = kerf.accumulate %h : (tensor<8xf32>) -> tensor<8xf32>
  %c = kerf.add %a, %b : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %s = kerf.sync_gradient %c {parameter = "w", kerf.strategy = {}} : (tensor<8xf32>) -> tensor<8xf32>
  return %s : tensor<8xf32>
}

// -----

// The result of a sum over microbatches is not sharded by them, and a sum that exists already is not taken
// a second time.

kerf.mesh @mesh #kerf.mesh<"microbatch"=2>
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<4x8xf32>) -> tensor<8xf32> {
  // CHECK: %[[G:.*]] = kerf.reduce
  // CHECK-NEXT: %[[SUM:.*]] = kerf.accumulate %[[G]]
  // CHECK-NEXT: %[[MINUS:.*]] = kerf.negate %[[SUM]] {kerf.strategy = {}}
  // CHECK-NEXT: return %[[MINUS]]
  %c = kerf.slice %x {start = array<i64: 0, 0>, limit = array<i64: 4, 8>, strides = array<i64: 1, 1>, kerf.strategy = {microbatch = "i"}}
      : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %g = kerf.reduce %c {kind = #kerf<reduce_kind sum>, dimensions = array<i64: 0>, kerf.strategy = {microbatch = "r"}} : (tensor<4x8xf32>) -> tensor<8xf32>
  %m = kerf.negate %g : (tensor<8xf32>) -> tensor<8xf32>
  %a = kerf.accumulate %m : (tensor<8xf32>) -> tensor<8xf32>
  return %a : tensor<8xf32>
}

// -----

// A layer's gradient stays a partial sum over microbatches, and over other axes where its strategy permits it: @main
// sums it.

kerf.mesh @mesh #kerf.mesh<"data"=2, "microbatch"=2>
// CHECK-LABEL: func.func @layer
// CHECK-SAME: -> (tensor<1x8xf32> {kerf.sharding = #kerf.sharding<[{}, {}], partial = ["data", "microbatch"]>})
func.func @layer(%x: tensor<4x8xf32> {kerf.sharding = #kerf.sharding<[{"data", "microbatch"}, {}]>}, %w: tensor<1x8xf32>) -> tensor<1x8xf32> {
  %g = kerf.reduce %x {kind = #kerf<reduce_kind sum>, dimensions = array<i64: 0>, kerf.strategy = {data = "r", microbatch = "r"}}
      : (tensor<4x8xf32>) -> tensor<8xf32>
  // CHECK: kerf.reshape %{{.*}} {kerf.strategy = {data = "sum0", microbatch = "sum0"}}
  // CHECK-NEXT: kerf.divide %{{.*}} {kerf.strategy = {data = "sum0", microbatch = "sum0"}}
  %r = kerf.reshape %g {kerf.strategy = {}} : (tensor<8xf32>) -> tensor<1x8xf32>
  %d = kerf.divide %r, %w {kerf.strategy = {}} : (tensor<1x8xf32>, tensor<1x8xf32>) -> tensor<1x8xf32>
  return %d : tensor<1x8xf32>
}
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<4x8xf32> {kerf.sharding = #kerf.sharding<[{"data"}, {}]>}, %w: tensor<1x8xf32>) -> tensor<1x8xf32> {
  // CHECK: %[[SHARE:.*]] = kerf.call @layer
  // CHECK-NEXT: %[[SUM:.*]] = kerf.accumulate %[[SHARE]]
  // CHECK-NEXT: kerf.reshard %[[SUM]] {{.*}}from = #kerf.sharding<[{}, {}], partial = ["data"]>
  %g = kerf.call @layer(%x, %w) : (tensor<4x8xf32>, tensor<1x8xf32>) -> tensor<1x8xf32>
  return %g : tensor<1x8xf32>
}

// -----

// The strategy promises the gradient of a norm's bias as a partial sum over "model" of shards by "data". The simpler
// ops keep this promise, although dy is available in a sharding whose columns both axes shard, from which no partial
// sum can be computed.

kerf.mesh @mesh #kerf.mesh<"data"=2, "model"=2>
// CHECK-LABEL: func.func @simpler_ops_leave_what_was_promised
func.func @simpler_ops_leave_what_was_promised(%x: tensor<4x8xf32>, %scale: tensor<8xf32>, %mean: tensor<4xf32>, %rstd: tensor<4xf32>,
    %dy: tensor<4x8xf32> {kerf.sharding = #kerf.sharding<[{}, {"data", "model"}]>}, %w: tensor<8xf32>) -> tensor<8xf32> {
  // CHECK-NOT: kerf.layer_norm_backward
  // CHECK: %[[B:.*]] = kerf.reduce %{{.*}} {dimensions = array<i64: 0>, kerf.strategy = {data = "p", model = "r"}, kind = #kerf<reduce_kind sum>}
  // CHECK: kerf.multiply %[[B]], %{{.*}} {kerf.strategy = {data = "i", model = "sum0"}}
  %dx, %ds, %db = kerf.layer_norm_backward %x, %scale, %mean, %rstd, %dy {kerf.strategy = {data = "d", model = "i0"}}
      : (tensor<4x8xf32>, tensor<8xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>)
  %y = kerf.multiply %db, %w {kerf.strategy = {data = "i", model = "sum0"}} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %y : tensor<8xf32>
}
