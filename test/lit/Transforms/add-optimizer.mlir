// RUN: kerf-opt %s -kerf-add-optimizer="optimizer=sgd settings=momentum=0.9,weight-decay=0.1 no-decay=*.bias" | FileCheck %s --check-prefix=SGD
// RUN: kerf-opt %s -kerf-add-optimizer | FileCheck %s --check-prefix=PLAIN
// RUN: kerf-opt %s -kerf-add-optimizer="optimizer=adamw" | FileCheck %s --check-prefix=ADAMW
// RUN: kerf-opt %s -kerf-add-optimizer="clip-norm=1.0 gradient-norms" | FileCheck %s --check-prefix=CLIP

// SGD-LABEL: func.func @main(
// SGD-SAME: %[[I:[a-z0-9]+]]: tensor<4xf32> {kerf.kind = "input", kerf.name = "i"}
// SGD-SAME: %[[W:[a-z0-9]+]]: tensor<4xf32> {kerf.exported_shape = array<i64: 2, 2>, kerf.kind = "parameter", kerf.name = "a.weight", kerf.trainable, kerf.updated_by = 1 : i64}
// SGD-SAME: %[[F:[a-z0-9]+]]: tensor<4xf32> {kerf.kind = "parameter", kerf.name = "frozen"}
// SGD-SAME: %[[B:[a-z0-9]+]]: tensor<f32> {kerf.kind = "parameter", kerf.name = "a.bias", kerf.trainable, kerf.updated_by = 2 : i64}
// SGD-SAME: %[[VW:[a-z0-9]+]]: tensor<4xf32> {kerf.exported_shape = array<i64: 2, 2>, kerf.kind = "state", kerf.name = "momentum/a.weight", kerf.updated_by = 3 : i64}
// SGD-SAME: %[[VB:[a-z0-9]+]]: tensor<f32> {kerf.kind = "state", kerf.name = "momentum/a.bias", kerf.updated_by = 4 : i64}
// SGD-SAME: %[[LR:[a-z0-9]+]]: tensor<f32> {kerf.kind = "learning_rate", kerf.name = "learning_rate"}
// SGD-SAME: %[[STEP:[a-z0-9]+]]: tensor<i64> {kerf.kind = "step", kerf.name = "step"}
// SGD-SAME: -> (tensor<f32> {kerf.name = "loss"}, tensor<4xf32> {kerf.name = "a.weight"}, tensor<f32> {kerf.name = "a.bias"}, tensor<4xf32> {kerf.name = "momentum/a.weight"}, tensor<f32> {kerf.name = "momentum/a.bias"})
// SGD: kerf.negate
// SGD-NEXT: %[[GW:.*]] = kerf.sync_gradient %{{.*}} {parameter = "a.weight"}
// SGD: %[[GB:.*]] = kerf.sync_gradient %{{.*}} {parameter = "a.bias"}
// SGD-NEXT: %[[L:.*]] = kerf.exponential
// The learning rate is a scalar operand; the rule is in the body of the map. Biases have no weight decay.
// SGD: %[[RATE:.*]] = kerf.convert %{{.*}} : (tensor<f64>) -> tensor<f32>
// SGD-NEXT: %[[NW:.*]]:2 = kerf.map(%[[W]], %[[GW]], %[[VW]], %[[RATE]]) {kerf.update = "a.weight"} : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> (tensor<4xf32>, tensor<4xf32>)
// SGD-NEXT: ^bb0(%[[P:.*]]: tensor<f32>, %[[G:.*]]: tensor<f32>, %[[V:.*]]: tensor<f32>, %[[R:.*]]: tensor<f32>):
// SGD-NEXT: %[[DECAY:.*]] = kerf.constant dense<1.000000e-01>
// SGD-NEXT: %[[DECAYED:.*]] = kerf.multiply %[[DECAY]], %[[P]]
// SGD-NEXT: %[[SLOPE:.*]] = kerf.add %[[G]], %[[DECAYED]]
// SGD-NEXT: %[[SHARE:.*]] = kerf.constant dense<{{0.899999976|9.000000e-01}}>
// SGD-NEXT: %[[KEPT:.*]] = kerf.multiply %[[SHARE]], %[[V]]
// SGD-NEXT: %[[V1:.*]] = kerf.add %[[KEPT]], %[[SLOPE]]
// SGD-NEXT: %[[STEP:.*]] = kerf.multiply %[[R]], %[[V1]]
// SGD-NEXT: %[[P1:.*]] = kerf.subtract %[[P]], %[[STEP]]
// SGD-NEXT: kerf.yield %[[V1]], %[[P1]]
// SGD: %[[NB:.*]]:2 = kerf.map({{.*}}%[[GB]]{{.*}}) {kerf.update = "a.bias"}
// SGD-NOT: dense<1.000000e-01>
// SGD: return %[[L]], %[[NW]]#1, %[[NB]]#1, %[[NW]]#0, %[[NB]]#0

// Without momentum there is no state.
// PLAIN-LABEL: func.func @main(
// PLAIN-NOT: kerf.kind = "state"
// PLAIN: -> (tensor<f32> {kerf.name = "loss"}, tensor<4xf32> {kerf.name = "a.weight"}, tensor<f32> {kerf.name = "a.bias"})
// PLAIN: %[[GW:.*]] = kerf.sync_gradient
// PLAIN: kerf.map({{.*}}%[[GW]]{{.*}}) {kerf.update = "a.weight"} : {{.*}} -> tensor<4xf32> {

// ADAMW-LABEL: func.func @main(
// ADAMW-SAME: %[[M:[a-z0-9]+]]: tensor<4xf32> {kerf.exported_shape = array<i64: 2, 2>, kerf.kind = "state", kerf.name = "exp_avg/a.weight", kerf.updated_by = 3 : i64}
// ADAMW-SAME: %[[V:[a-z0-9]+]]: tensor<4xf32> {kerf.exported_shape = array<i64: 2, 2>, kerf.kind = "state", kerf.name = "exp_avg_sq/a.weight", kerf.updated_by = 4 : i64}
// ADAMW-SAME: kerf.name = "exp_avg/a.bias", kerf.updated_by = 5 : i64
// ADAMW-SAME: %[[LR:[a-z0-9]+]]: tensor<f32> {kerf.kind = "learning_rate"
// ADAMW-SAME: %[[STEP:[a-z0-9]+]]: tensor<i64> {kerf.kind = "step"
// The corrections by the number of the step are computed once for all elements, in f64.
// ADAMW: kerf.convert %[[STEP]] : (tensor<i64>) -> tensor<f64>
// ADAMW: kerf.power {{.*}} : (tensor<f64>, tensor<f64>) -> tensor<f64>
// ADAMW: kerf.map({{.*}}%[[M]], %[[V]]{{.*}}) {kerf.update = "a.weight"} : {{.*}} -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
// ADAMW: kerf.sqrt {{.*}} -> tensor<f32>
// ADAMW: kerf.divide {{.*}} -> tensor<f32>

// The returned norms are those before clipping.
// CLIP-LABEL: func.func @main(
// CLIP-SAME: tensor<f32> {kerf.name = "gradient_norm_squared/a.weight"}, tensor<f32> {kerf.name = "gradient_norm_squared/a.bias"})
// CLIP: %[[GW:.*]] = kerf.sync_gradient %{{.*}} {parameter = "a.weight"}
// CLIP: %[[GB:.*]] = kerf.sync_gradient %{{.*}} {parameter = "a.bias"}
// CLIP: %[[QW:.*]] = kerf.multiply %[[GW]], %[[GW]]
// CLIP: %[[NW:.*]] = kerf.reduce %[[QW]]
// CLIP: %[[NB:.*]] = kerf.multiply %[[GB]], %[[GB]]
// CLIP: %[[SUM:.*]] = kerf.add %[[NW]], %[[NB]]
// CLIP: %[[ROOT:.*]] = kerf.sqrt %[[SUM]]
// CLIP: %[[EPS:.*]] = kerf.constant dense<{{9.99999997E-7|1.000000e-06}}>
// CLIP: %[[NORM:.*]] = kerf.add %[[ROOT]], %[[EPS]]
// CLIP: %[[MAX:.*]] = kerf.constant dense<1.000000e+00>
// CLIP: %[[RATIO:.*]] = kerf.divide %[[MAX]], %[[NORM]]
// CLIP: %[[ONE:.*]] = kerf.constant dense<1.000000e+00>
// CLIP: %[[FACTOR:.*]] = kerf.minimum %[[RATIO]], %[[ONE]]
// CLIP: %[[WIDE:.*]] = kerf.broadcast_in_dim %[[FACTOR]]
// CLIP: %[[CW:.*]] = kerf.multiply %[[GW]], %[[WIDE]]
// CLIP: %[[CB:.*]] = kerf.multiply %[[GB]], %[[FACTOR]]
// CLIP: kerf.map({{.*}}%[[CW]]{{.*}}) {kerf.update = "a.weight"}
// CLIP: return %{{.*}}, %{{.*}}, %{{.*}}, %[[NW]], %[[NB]]
func.func @main(%i: tensor<4xf32> {kerf.kind = "input", kerf.name = "i"},
                %w: tensor<4xf32> {kerf.kind = "parameter", kerf.name = "a.weight", kerf.trainable, kerf.exported_shape = array<i64: 2, 2>},
                %f: tensor<4xf32> {kerf.kind = "parameter", kerf.name = "frozen"},
                %b: tensor<f32> {kerf.kind = "parameter", kerf.name = "a.bias", kerf.trainable})
    -> (tensor<f32> {kerf.name = "loss"}, tensor<4xf32> {kerf.name = "gradient/a.weight"}, tensor<f32> {kerf.name = "gradient/a.bias"}) {
  %0 = kerf.multiply %w, %i : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %loss = kerf.reduce %0 {kind = #kerf<reduce_kind sum>, dimensions = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
  %g = kerf.negate %i : (tensor<4xf32>) -> tensor<4xf32>
  %h = kerf.tanh %b : (tensor<f32>) -> tensor<f32>
  %late = kerf.exponential %loss : (tensor<f32>) -> tensor<f32>
  return %late, %g, %h : tensor<f32>, tensor<4xf32>, tensor<f32>
}
