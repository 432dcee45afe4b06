// RUN: kerf-opt %s -split-input-file -kerf-compress-gradients | FileCheck %s

// Two ranks gather each other's payloads and add them in the order of the ranks.

// CHECK-LABEL: func.func @main(%arg0: tensor<32xf32>
// CHECK: %[[Y:.*]] = kerf.convert %{{.*}} : (tensor<2x16xf32>) -> tensor<2x16xbf16>
// CHECK: %[[FLAT:.*]] = kerf.reshape %[[Y]] : (tensor<2x16xbf16>) -> tensor<32xbf16>
// CHECK: %[[SENT:.*]] = kerf.all_gather %[[FLAT]] {axes = array<i64: 0, 1, 2>, {{.*}}stream = "gradients"}
// CHECK: %[[ALL:.*]] = kerf.wait %[[SENT]]
// CHECK: %[[ROWS:.*]] = kerf.reshape %[[ALL]] : (tensor<64xbf16>) -> tensor<4x16xbf16>
// CHECK: %[[FIRST:.*]] = kerf.slice %[[ROWS]] {limit = array<i64: 2, 16>
// CHECK: %[[A:.*]] = kerf.convert %[[FIRST]]
// CHECK: %[[SECOND:.*]] = kerf.slice %[[ROWS]] {limit = array<i64: 4, 16>
// CHECK: %[[B:.*]] = kerf.convert %[[SECOND]]
// CHECK: kerf.add %[[A]], %[[B]]
// CHECK-NOT: kerf.all_reduce
kerf.mesh @mesh #kerf.mesh<"data"=2>
func.func @main(%g: tensor<32xf32>) -> tensor<32xf32> {
  %p = kerf.all_reduce %g {axes = array<i64: 0, 1, 2>, kind = #kerf<reduce_kind sum>, stream = "gradients", cause = "gradient of w", kerf.compression = {codec = "bf16", parameter = "w"}} : (tensor<32xf32>) -> !kerf.pending<tensor<32xf32>>
  %s = kerf.wait %p : (!kerf.pending<tensor<32xf32>>) -> tensor<32xf32>
  return %s : tensor<32xf32>
}

// -----

// Four ranks: each encodes its gradient, decodes and adds its own part, encodes the sum, and all gather the parts. Error
// feedback is a state of each rank, for both encodings.

// CHECK-LABEL: func.func @main(%arg0: tensor<64x100xf32>
// CHECK-SAME: %[[ERROR:[^:]*]]: tensor<1x8x1024xf32> {kerf.global_type = tensor<4x8x1024xf32>, kerf.kind = "state", kerf.name = "compression_error/w", kerf.sharding = #kerf.sharding<[{"data"}, {}, {}]>, kerf.updated_by = 1 : i64}
// CHECK-SAME: %[[OWNER:[^:]*]]: tensor<1x2x1024xf32> {kerf.global_type = tensor<4x2x1024xf32>, kerf.kind = "state", kerf.name = "compression_owner_error/w"
// CHECK: %[[X:.*]] = kerf.add %{{.*}}, %{{.*}} : (tensor<8x1024xf32>, tensor<8x1024xf32>)
// CHECK: kerf.pack %{{.*}} {bits = 1 : i64} : (tensor<8x1024xi8>) -> tensor<8x128xi8>
// CHECK: kerf.subtract %[[X]]
// CHECK-DAG: kerf.all_to_all %{{.*}} : (tensor<1x1024xi8>) -> !kerf.pending<tensor<4x256xi8>>
// CHECK-DAG: kerf.all_to_all %{{.*}} : (tensor<1x8xf32>) -> !kerf.pending<tensor<4x2xf32>>
// CHECK: kerf.pack %{{.*}} {bits = 1 : i64} : (tensor<2x1024xi8>) -> tensor<2x128xi8>
// CHECK-DAG: kerf.all_gather %{{.*}} : (tensor<256xi8>) -> !kerf.pending<tensor<1024xi8>>
// CHECK-DAG: kerf.all_gather %{{.*}} : (tensor<2xf32>) -> !kerf.pending<tensor<8xf32>>
// CHECK: kerf.slice %{{.*}} : (tensor<8192xf32>) -> tensor<6400xf32>
// CHECK: return %{{.*}}, %{{.*}}, %{{.*}} : tensor<64x100xf32>, tensor<1x8x1024xf32>, tensor<1x2x1024xf32>
kerf.mesh @mesh #kerf.mesh<"data"=4>
func.func @main(%g: tensor<64x100xf32>) -> tensor<64x100xf32> {
  %p = kerf.all_reduce %g {axes = array<i64: 0, 1, 4>, kind = #kerf<reduce_kind sum>, stream = "gradients", cause = "gradient of w", kerf.compression = {codec = "onebit", parameter = "w", error_feedback = true}} : (tensor<64x100xf32>) -> !kerf.pending<tensor<64x100xf32>>
  %s = kerf.wait %p : (!kerf.pending<tensor<64x100xf32>>) -> tensor<64x100xf32>
  return %s : tensor<64x100xf32>
}

// -----

// A reduce-scatter along the second dimension: the elements of an owner stand together before they are encoded.

// CHECK-LABEL: func.func @main(%arg0: tensor<64x8xf32>
// CHECK-DAG: kerf.transpose %{{.*}} {permutation = array<i64: 1, 0, 2>} : (tensor<64x2x4xf32>) -> tensor<2x64x4xf32>
// CHECK-DAG: %[[KEY:.*]] = kerf.random_key %{{.*}}, %{{.*}} {axes = array<i64: 0, 1, 2>, stream = 0 : i64}
// CHECK: kerf.all_to_all %{{.*}} : (tensor<1x512xi8>) -> !kerf.pending<tensor<2x256xi8>>
// CHECK-NOT: kerf.all_gather
// CHECK: kerf.reshape %{{.*}} : (tensor<256xf32>) -> tensor<64x4xf32>
kerf.mesh @mesh #kerf.mesh<"data"=2>
func.func @main(%g: tensor<64x8xf32>, %seed: tensor<i64> {kerf.kind = "seed", kerf.name = "seed"}, %step: tensor<i64> {kerf.kind = "step", kerf.name = "step"}) -> tensor<64x4xf32> {
  %p = kerf.reduce_scatter %g {axes = array<i64: 0, 1, 2>, dim = 1 : i64, kind = #kerf<reduce_kind sum>, stream = "gradients", cause = "gradient of w", kerf.compression = {codec = "int8", parameter = "w"}} : (tensor<64x8xf32>) -> !kerf.pending<tensor<64x4xf32>>
  %s = kerf.wait %p : (!kerf.pending<tensor<64x4xf32>>) -> tensor<64x4xf32>
  return %s : tensor<64x4xf32>
}

// -----

// PowerSGD sends two factors, one after the other. The first is made orthogonal in between.

// CHECK-LABEL: func.func @main(%arg0: tensor<64x32xf32>
// CHECK-SAME: kerf.name = "compression_error/w"
// CHECK-SAME: tensor<1x2x32xf32> {kerf.global_type = tensor<4x2x32xf32>, kerf.kind = "state", kerf.name = "compression_factor/w"
// CHECK: kerf.random %
// CHECK: kerf.all_reduce %{{.*}} : (tensor<2x64xf32>) -> !kerf.pending<tensor<2x64xf32>>
// CHECK: kerf.sqrt
// CHECK: kerf.concatenate
// CHECK: kerf.all_reduce %{{.*}} : (tensor<2x32xf32>) -> !kerf.pending<tensor<2x32xf32>>
// CHECK: %[[P:.*]] = kerf.broadcast_in_dim %{{.*}} {broadcast_dimensions = array<i64: 0>} : (tensor<64xf32>) -> tensor<64x32xf32>
// CHECK: %[[Q:.*]] = kerf.broadcast_in_dim %{{.*}} {broadcast_dimensions = array<i64: 1>} : (tensor<32xf32>) -> tensor<64x32xf32>
// CHECK: kerf.multiply %[[P]], %[[Q]]
kerf.mesh @mesh #kerf.mesh<"data"=4>
func.func @main(%g: tensor<64x32xf32>) -> tensor<64x32xf32> {
  %p = kerf.all_reduce %g {axes = array<i64: 0, 1, 4>, kind = #kerf<reduce_kind sum>, stream = "gradients", cause = "gradient of w", kerf.compression = {codec = "powersgd-2", parameter = "w", error_feedback = true}} : (tensor<64x32xf32>) -> !kerf.pending<tensor<64x32xf32>>
  %s = kerf.wait %p : (!kerf.pending<tensor<64x32xf32>>) -> tensor<64x32xf32>
  return %s : tensor<64x32xf32>
}

// -----

// Two pieces: the second one is under way before the first one is waited for.

// CHECK-LABEL: func.func @main(%arg0: tensor<64xf32>
// CHECK: kerf.slice %{{.*}} {limit = array<i64: 32>, start = array<i64: 0>
// CHECK: %[[P0:.*]] = kerf.all_gather %{{.*}} {{{.*}}stream = "gradient_pieces"} : (tensor<32xbf16>)
// CHECK: kerf.slice %{{.*}} {limit = array<i64: 64>, start = array<i64: 32>
// CHECK: %[[P1:.*]] = kerf.all_gather %{{.*}} {{{.*}}stream = "gradient_pieces"} : (tensor<32xbf16>)
// CHECK: kerf.wait %[[P0]]
// CHECK: kerf.wait %[[P1]]
// CHECK: kerf.concatenate %{{.*}}, %{{.*}} {dimension = 0 : i64}
kerf.mesh @mesh #kerf.mesh<"data"=2>
func.func @main(%g: tensor<64xf32>) -> tensor<64xf32> {
  %p = kerf.all_reduce %g {axes = array<i64: 0, 1, 2>, kind = #kerf<reduce_kind sum>, stream = "gradients", cause = "gradient of w", kerf.compression = {codec = "bf16", parameter = "w", pieces = 2 : i64}} : (tensor<64xf32>) -> !kerf.pending<tensor<64xf32>>
  %s = kerf.wait %p : (!kerf.pending<tensor<64xf32>>) -> tensor<64xf32>
  return %s : tensor<64xf32>
}

// -----

// Four pieces: the first one is decoded while later ones are under way.

// CHECK-LABEL: func.func @main(%arg0: tensor<128xf32>
// CHECK: %[[P0:.*]] = kerf.all_gather
// CHECK: %[[P1:.*]] = kerf.all_gather
// CHECK-NOT: kerf.wait
// CHECK: %[[P2:.*]] = kerf.all_gather
// CHECK: kerf.wait %[[P0]]
// CHECK: %[[P3:.*]] = kerf.all_gather
// CHECK: kerf.wait %[[P1]]
// CHECK: kerf.wait %[[P2]]
// CHECK: kerf.wait %[[P3]]
// CHECK: kerf.concatenate
kerf.mesh @mesh #kerf.mesh<"data"=2>
func.func @main(%g: tensor<128xf32>) -> tensor<128xf32> {
  %p = kerf.all_reduce %g {axes = array<i64: 0, 1, 2>, kind = #kerf<reduce_kind sum>, stream = "gradients", cause = "gradient of w", kerf.compression = {codec = "bf16", parameter = "w", pieces = 4 : i64}} : (tensor<128xf32>) -> !kerf.pending<tensor<128xf32>>
  %s = kerf.wait %p : (!kerf.pending<tensor<128xf32>>) -> tensor<128xf32>
  return %s : tensor<128xf32>
}

// -----

// Before batch 5 the plain sum runs, then that of payloads, and the number of the batch selects the result.

// CHECK-LABEL: func.func @main(%arg0: tensor<32xf32>
// CHECK-SAME: %[[STEP:[^:]*]]: tensor<i64> {{{.*}}kerf.kind = "step"
// CHECK: %[[PLAIN:.*]] = kerf.all_reduce %{{.*}} {{{.*}}kerf.batches = array<i64: 0, 5, 1, 1>{{.*}}} : (tensor<2x16xf32>)
// CHECK: kerf.all_gather %{{.*}} {{{.*}}kerf.batches = array<i64: 5, 9223372036854775807, 1, 1>
// CHECK: %[[SUM:.*]] = kerf.wait %[[PLAIN]]
// CHECK: kerf.select %{{.*}}, %[[SUM]], %{{.*}}
kerf.mesh @mesh #kerf.mesh<"data"=2>
func.func @main(%g: tensor<32xf32>) -> tensor<32xf32> {
  %p = kerf.all_reduce %g {axes = array<i64: 0, 1, 2>, kind = #kerf<reduce_kind sum>, stream = "gradients", cause = "gradient of w", kerf.compression = {codec = "bf16", parameter = "w", first_batch = 5 : i64}} : (tensor<32xf32>) -> !kerf.pending<tensor<32xf32>>
  %s = kerf.wait %p : (!kerf.pending<tensor<32xf32>>) -> tensor<32xf32>
  return %s : tensor<32xf32>
}

// -----

// Small gradients are encoded and sent before the owners wait for any of them, so that their payloads share messages. The
// payload of a gradient stands for the bytes of the gradient. A gradient of 1 MiB is a group of its own.

// CHECK-LABEL: func.func @main
// CHECK: %[[A:.*]] = kerf.all_to_all {{.*}}cause = "gradient of a"{{.*}}kerf.gradient_bytes = 256 : i64
// CHECK: %[[B:.*]] = kerf.all_to_all {{.*}}cause = "gradient of b"{{.*}}kerf.gradient_bytes = 1048576 : i64
// CHECK: %[[C:.*]] = kerf.all_to_all {{.*}}cause = "gradient of c"{{.*}}kerf.gradient_bytes = 128 : i64
// CHECK: kerf.wait %[[A]]
// CHECK: kerf.all_gather {{.*}}cause = "gradient of a"
// CHECK: kerf.wait %[[B]]
// CHECK: kerf.all_gather {{.*}}cause = "gradient of b"
// CHECK: kerf.wait %[[C]]
// CHECK: kerf.all_gather {{.*}}cause = "gradient of c"
kerf.mesh @mesh #kerf.mesh<"data"=4>
func.func @main(%a: tensor<64xf32>, %b: tensor<262144xf32>, %c: tensor<32xf32>) -> (tensor<64xf32>, tensor<262144xf32>, tensor<32xf32>) {
  %pa = kerf.all_reduce %a {axes = array<i64: 0, 1, 4>, kind = #kerf<reduce_kind sum>, stream = "gradients", cause = "gradient of a", kerf.compression = {codec = "bf16", parameter = "a"}} : (tensor<64xf32>) -> !kerf.pending<tensor<64xf32>>
  %pb = kerf.all_reduce %b {axes = array<i64: 0, 1, 4>, kind = #kerf<reduce_kind sum>, stream = "gradients", cause = "gradient of b", kerf.compression = {codec = "bf16", parameter = "b"}} : (tensor<262144xf32>) -> !kerf.pending<tensor<262144xf32>>
  %pc = kerf.all_reduce %c {axes = array<i64: 0, 1, 4>, kind = #kerf<reduce_kind sum>, stream = "gradients", cause = "gradient of c", kerf.compression = {codec = "bf16", parameter = "c"}} : (tensor<32xf32>) -> !kerf.pending<tensor<32xf32>>
  %sa = kerf.wait %pa : (!kerf.pending<tensor<64xf32>>) -> tensor<64xf32>
  %sb = kerf.wait %pb : (!kerf.pending<tensor<262144xf32>>) -> tensor<262144xf32>
  %sc = kerf.wait %pc : (!kerf.pending<tensor<32xf32>>) -> tensor<32xf32>
  return %sa, %sb, %sc : tensor<64xf32>, tensor<262144xf32>, tensor<32xf32>
}

// -----

// A sum that is used before the next gradient exists does not wait for that gradient.

// CHECK-LABEL: func.func @main
// CHECK: kerf.all_to_all {{.*}}cause = "gradient of a"
// CHECK: kerf.all_gather {{.*}}cause = "gradient of a"
// CHECK: kerf.negate
// CHECK: kerf.all_to_all {{.*}}cause = "gradient of b"
kerf.mesh @mesh #kerf.mesh<"data"=4>
func.func @main(%a: tensor<64xf32>) -> tensor<64xf32> {
  %pa = kerf.all_reduce %a {axes = array<i64: 0, 1, 4>, kind = #kerf<reduce_kind sum>, stream = "gradients", cause = "gradient of a", kerf.compression = {codec = "bf16", parameter = "a"}} : (tensor<64xf32>) -> !kerf.pending<tensor<64xf32>>
  %sa = kerf.wait %pa : (!kerf.pending<tensor<64xf32>>) -> tensor<64xf32>
  %b = kerf.negate %sa : (tensor<64xf32>) -> tensor<64xf32>
  %pb = kerf.all_reduce %b {axes = array<i64: 0, 1, 4>, kind = #kerf<reduce_kind sum>, stream = "gradients", cause = "gradient of b", kerf.compression = {codec = "bf16", parameter = "b"}} : (tensor<64xf32>) -> !kerf.pending<tensor<64xf32>>
  %sb = kerf.wait %pb : (!kerf.pending<tensor<64xf32>>) -> tensor<64xf32>
  return %sb : tensor<64xf32>
}

// -----

// Ranks along "model" hold copies of the sum of the replicated gradient, which stay equal: they have one key. The parts of the cut one have
// keys of their own.

// CHECK-LABEL: func.func @main(%arg0: tensor<512xf32>
// CHECK: kerf.random_key %{{.*}}, %{{.*}} {axes = array<i64: 0, 1, 2>, stream = 0 : i64}
// CHECK: kerf.random_key %{{.*}}, %{{.*}} {axes = array<i64: 0, 1, 2, 1, 1, 2>, stream = 2 : i64}
kerf.mesh @mesh #kerf.mesh<"data"=2, "model"=2>
func.func @main(%w: tensor<512xf32> {kerf.kind = "parameter", kerf.name = "w", kerf.global_type = tensor<512xf32>, kerf.sharding = #kerf.sharding<[{}]>}, %v: tensor<512xf32> {kerf.kind = "parameter", kerf.name = "v", kerf.global_type = tensor<1024xf32>, kerf.sharding = #kerf.sharding<[{"model"}]>}, %seed: tensor<i64> {kerf.kind = "seed", kerf.name = "seed"}, %step: tensor<i64> {kerf.kind = "step", kerf.name = "step"}) -> (tensor<512xf32>, tensor<512xf32>) {
  %p = kerf.all_reduce %w {axes = array<i64: 0, 1, 2>, kind = #kerf<reduce_kind sum>, stream = "gradients", cause = "gradient of w", kerf.compression = {codec = "int8", parameter = "w"}} : (tensor<512xf32>) -> !kerf.pending<tensor<512xf32>>
  %s = kerf.wait %p : (!kerf.pending<tensor<512xf32>>) -> tensor<512xf32>
  %q = kerf.all_reduce %v {axes = array<i64: 0, 1, 2>, kind = #kerf<reduce_kind sum>, stream = "gradients", cause = "gradient of v", kerf.compression = {codec = "int8", parameter = "v"}} : (tensor<512xf32>) -> !kerf.pending<tensor<512xf32>>
  %t = kerf.wait %q : (!kerf.pending<tensor<512xf32>>) -> tensor<512xf32>
  return %s, %t : tensor<512xf32>, tensor<512xf32>
}

// -----

// With momentum, ranks sum the gradient plus their share of the optimizer's state, and the optimizer adds the momentum to what is left.

// CHECK-LABEL: func.func @main(%arg0: tensor<1024xf32>
// CHECK-SAME: %[[STATE:[^:]*]]: tensor<1024xf32> {kerf.kind = "state", kerf.name = "momentum/w"}
// CHECK-NOT: compression_momentum
// CHECK-DAG: %[[OLD:.*]] = kerf.multiply %[[STATE]]
// CHECK: %[[SHARE:.*]] = kerf.multiply %[[OLD]]
// CHECK: kerf.add %arg0, %[[SHARE]]
// CHECK: kerf.all_gather
// CHECK: %[[NEW:.*]] = kerf.subtract %{{.*}}, %[[OLD]]
// CHECK: return %[[NEW]]
kerf.mesh @mesh #kerf.mesh<"data"=2>
func.func @main(%g: tensor<1024xf32>, %state: tensor<1024xf32> {kerf.kind = "state", kerf.name = "momentum/w"}) -> tensor<1024xf32> {
  %p = kerf.all_reduce %g {axes = array<i64: 0, 1, 2>, kind = #kerf<reduce_kind sum>, stream = "gradients", cause = "gradient of w", kerf.compression = {codec = "onebit", parameter = "w", error_feedback = true, momentum = 0.9 : f64, momentum_state = "momentum"}} : (tensor<1024xf32>) -> !kerf.pending<tensor<1024xf32>>
  %s = kerf.wait %p : (!kerf.pending<tensor<1024xf32>>) -> tensor<1024xf32>
  return %s : tensor<1024xf32>
}
