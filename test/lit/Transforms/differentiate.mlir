// RUN: kerf-opt %s -split-input-file -kerf-differentiate -verify-diagnostics | FileCheck %s

// Gradients come in argument order. The gradients of a value with two users (x, a tied parameter) are added. Arguments
// that are not trained get no gradient, and ops that do not lead to the loss get no backward op.

// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[F:[a-z0-9]+]]: {{[^,]*}}, kerf.name = "frozen"}, %[[W:[a-z0-9]+]]: {{[^,]*}}, kerf.name = "w", kerf.trainable}
// CHECK-SAME: -> (tensor<f32> {kerf.name = "loss"}, tensor<4xf32> {kerf.name = "gradient/w"})
// CHECK: %[[X:.*]] = kerf.multiply %[[W]], %[[F]] :
// CHECK: %[[T:.*]] = kerf.tanh %[[X]] :
// CHECK: %[[Y:.*]] = kerf.multiply %[[T]], %[[W]] :
// CHECK: %[[LOSS:.*]] = kerf.reduce %[[Y]]
// CHECK: %[[ONE:.*]] = kerf.constant {kerf.backward} dense<1.000000e+00> : tensor<f32>
// CHECK: %[[DY:.*]] = kerf.broadcast_in_dim %[[ONE]] {{.*}}kerf.backward
// CHECK-DAG: %[[DT:.*]] = kerf.multiply %[[DY]], %[[W]] {kerf.backward}
// CHECK-DAG: %[[DW1:.*]] = kerf.multiply %[[DY]], %[[T]] {kerf.backward}
// CHECK: %[[DW2:.*]] = kerf.multiply %{{.*}}, %[[F]] {kerf.backward}
// CHECK-NEXT: %[[DW:.*]] = kerf.add %[[DW1]], %[[DW2]] {kerf.backward}
// CHECK-NEXT: return %[[LOSS]], %[[DW]]
func.func @main(%f: tensor<4xf32> {kerf.kind = "parameter", kerf.name = "frozen"},
                %w: tensor<4xf32> {kerf.kind = "parameter", kerf.name = "w", kerf.trainable}) -> (tensor<f32> {kerf.name = "loss"}, tensor<4xf32> {kerf.name = "y"}) {
  %x = kerf.multiply %w, %f : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %t = kerf.tanh %x : (tensor<4xf32>) -> tensor<4xf32>
  %dead = kerf.exponential %t : (tensor<4xf32>) -> tensor<4xf32>
  %y = kerf.multiply %t, %w : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %loss = kerf.reduce %y {kind = #kerf<reduce_kind sum>, dimensions = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
  return %loss, %y : tensor<f32>, tensor<4xf32>
}

// -----

// A parameter on which the loss does not depend is left out, with a warning. Ops without a gradient are allowed where
// no gradient flows.

// CHECK-LABEL: func.func @main(
// CHECK-SAME: kerf.name = "unused"}
// CHECK-SAME: -> (tensor<f32>, tensor<f32> {kerf.name = "gradient/w"})
// expected-warning @below {{parameter 'unused' is not trained, because the loss does not depend on it; freeze it with <frozen> if this is intended}}
func.func @main(%u: tensor<f32> {kerf.kind = "parameter", kerf.name = "unused", kerf.trainable},
                %w: tensor<f32> {kerf.kind = "parameter", kerf.name = "w", kerf.trainable}) -> tensor<f32> {
  %s = kerf.sign %u : (tensor<f32>) -> tensor<f32>
  %z = kerf.compare %w, %s {direction = #kerf<comparison LT>} : (tensor<f32>, tensor<f32>) -> tensor<i1>
  %0 = kerf.constant dense<0.0> : tensor<f32>
  %y = kerf.select %z, %0, %w : (tensor<i1>, tensor<f32>, tensor<f32>) -> tensor<f32>
  return %y : tensor<f32>
}

// -----

// Two layers, one function: the forward function also returns the values that the backward function reads (the result
// of tanh; not the broadcast bias, and not the product). The first layer's input needs no gradient, the second's does.
// One backward function computes it for both, and the first call ignores it.

// CHECK-LABEL: func.func private @layer(
// CHECK-SAME: -> (tensor<4x8xf32>, tensor<4x8xf32>)
// CHECK: %[[T:.*]] = kerf.tanh
// CHECK: %[[Y:.*]] = kerf.multiply %[[T]]
// CHECK: return %[[Y]], %[[T]]
// CHECK-LABEL: func.func private @layer_backward(
// CHECK-SAME: %[[T:[a-z0-9]+]]: tensor<4x8xf32>, %[[X:[a-z0-9]+]]: tensor<4x8xf32>, %[[W:[a-z0-9]+]]: tensor<8x8xf32>, %[[G:[a-z0-9]+]]: tensor<8xf32>, %[[DY:[a-z0-9]+]]: tensor<4x8xf32>)
// CHECK-SAME: -> (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xf32>)
// CHECK: kerf.broadcast_in_dim %[[G]] {{.*}}kerf.backward
// CHECK-NOT: kerf.tanh
// CHECK: return
// CHECK-LABEL: func.func @main(
// CHECK-SAME: -> (tensor<f32>, tensor<8x8xf32> {kerf.name = "gradient/w0"}, tensor<8xf32> {kerf.name = "gradient/g"}, tensor<8x8xf32> {kerf.name = "gradient/w1"})
// CHECK: %[[C0:.*]]:2 = kerf.call @layer(%[[IN:.*]], %[[W0:.*]], %[[GAIN:.*]]) :
// CHECK: %[[C1:.*]]:2 = kerf.call @layer(%[[C0]]#0, %[[W1:.*]], %[[GAIN]]) :
// CHECK: %[[B1:.*]]:3 = kerf.call @layer_backward(%[[C1]]#1, %[[C0]]#0, %[[W1]], %[[GAIN]], %{{.*}}) {kerf.backward}
// CHECK: %[[B0:.*]]:3 = kerf.call @layer_backward(%[[C0]]#1, %[[IN]], %[[W0]], %[[GAIN]], %[[B1]]#0) {kerf.backward}
// CHECK: %[[DG:.*]] = kerf.add %[[B1]]#2, %[[B0]]#2 {kerf.backward}
// CHECK: return %{{.*}}, %[[B0]]#1, %[[DG]], %[[B1]]#1
func.func private @layer(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %g: tensor<8xf32>) -> tensor<4x8xf32> {
  %a = kerf.dot_general %x, %w {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %t = kerf.tanh %a : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %b = kerf.broadcast_in_dim %g {broadcast_dimensions = array<i64: 1>} : (tensor<8xf32>) -> tensor<4x8xf32>
  %y = kerf.multiply %t, %b : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}
func.func @main(%x: tensor<4x8xf32> {kerf.kind = "input", kerf.name = "x"},
                %w0: tensor<8x8xf32> {kerf.kind = "parameter", kerf.name = "w0", kerf.trainable},
                %g: tensor<8xf32> {kerf.kind = "parameter", kerf.name = "g", kerf.trainable},
                %w1: tensor<8x8xf32> {kerf.kind = "parameter", kerf.name = "w1", kerf.trainable}) -> tensor<f32> {
  %x1 = kerf.call @layer(%x, %w0, %g) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %x2 = kerf.call @layer(%x1, %w1, %g) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %loss = kerf.reduce %x2 {kind = #kerf<reduce_kind sum>, dimensions = array<i64: 0, 1>} : (tensor<4x8xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// Two carried values and a shared table. The second result of the last call has no use, so its gradient is zeros there.
// The table has no gradient, and the backward function does not take arguments that it does not read.

// CHECK-LABEL: func.func private @layer_backward(
// CHECK-SAME: -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
// CHECK-LABEL: func.func @main(
// CHECK: %[[C0:.*]]:{{[0-9]}} = kerf.call @layer(%{{.*}}, %{{.*}}, %[[W0:.*]], %[[TABLE:.*]]) :
// CHECK: %[[C1:.*]]:{{[0-9]}} = kerf.call @layer(%[[C0]]#0, %[[C0]]#1, %[[W1:.*]], %[[TABLE]]) :
// CHECK: %[[ZERO:.*]] = kerf.constant {kerf.backward} dense<0.000000e+00> : tensor<4xf32>
// CHECK: %[[B1:.*]]:3 = kerf.call @layer_backward({{.*}}%[[ZERO]])
// CHECK: %[[B0:.*]]:3 = kerf.call @layer_backward({{.*}}%[[B1]]#0, %[[B1]]#1)
// CHECK: return %{{.*}}, %{{.*}}, %[[B0]]#2, %[[B1]]#2
func.func private @layer(%a: tensor<4xf32>, %b: tensor<4xf32>, %w: tensor<4xf32>, %t: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = kerf.multiply %a, %t : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = kerf.multiply %b, %w : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %2 = kerf.add %0, %1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %3 = kerf.multiply %2, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %2, %3 : tensor<4xf32>, tensor<4xf32>
}
func.func @main(%a: tensor<4xf32> {kerf.kind = "parameter", kerf.name = "a", kerf.trainable},
                %t: tensor<4xf32> {kerf.kind = "constant", kerf.name = "t"},
                %w0: tensor<4xf32> {kerf.kind = "parameter", kerf.name = "w0", kerf.trainable},
                %w1: tensor<4xf32> {kerf.kind = "parameter", kerf.name = "w1", kerf.trainable}) -> tensor<f32> {
  %a1, %b1 = kerf.call @layer(%a, %a, %w0, %t) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  %a2, %b2 = kerf.call @layer(%a1, %b1, %w1, %t) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  %loss = kerf.reduce %a2 {kind = #kerf<reduce_kind sum>, dimensions = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// The backward op of a dropout drops the elements that the forward op dropped: it gets the same seed, step and stream,
// and no mask is saved.

// CHECK-LABEL: func.func private @layer(
// CHECK-SAME: -> tensor<4xf32>
// CHECK-LABEL: func.func private @layer_backward(
// CHECK-SAME: %[[SEED:[a-z0-9]+]]: tensor<i64>, %[[STEP:[a-z0-9]+]]: tensor<i64>, %[[STREAM:[a-z0-9]+]]: tensor<i64>, %[[G:[a-z0-9]+]]: tensor<4xf32>
// CHECK: kerf.dropout %[[G]], %[[SEED]], %[[STEP]], %[[STREAM]] {kerf.backward, rate = 1.000000e-01 : f64}
func.func private @layer(%x: tensor<4xf32>, %w: tensor<4xf32>, %seed: tensor<i64>, %step: tensor<i64>, %stream: tensor<i64>) -> tensor<4xf32> {
  %0 = kerf.add %x, %w : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = kerf.dropout %0, %seed, %step, %stream {rate = 0.1 : f64} : (tensor<4xf32>, tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
func.func @main(%x: tensor<4xf32> {kerf.kind = "input", kerf.name = "x"}, %w: tensor<4xf32> {kerf.kind = "parameter", kerf.name = "w", kerf.trainable},
                %seed: tensor<i64> {kerf.kind = "seed", kerf.name = "seed"}, %step: tensor<i64> {kerf.kind = "step", kerf.name = "step"}) -> tensor<f32> {
  %stream = kerf.constant dense<0> : tensor<i64>
  %y = kerf.call @layer(%x, %w, %seed, %step, %stream) : (tensor<4xf32>, tensor<4xf32>, tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<4xf32>
  %loss = kerf.reduce %y {kind = #kerf<reduce_kind sum>, dimensions = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// SwiGLU: the layer saves gate and up (products), and the gated value, which a product of the backward reads. Only
// pointwise ops of the backward read logistic and silu, so the backward computes them again. Only a pointwise op reads
// the shifted value, too, but it is saved: to compute it again, the backward would have to run the reduction again.

// CHECK-LABEL: func.func private @layer(
// CHECK: %[[GATE:.*]] = kerf.dot_general %arg0, %arg1
// CHECK: %[[UP:.*]] = kerf.dot_general %arg0, %arg2
// CHECK: %[[GATED:.*]] = kerf.multiply %{{.*}}, %[[UP]]
// CHECK: %[[DOWN:.*]] = kerf.dot_general %[[GATED]], %arg3
// CHECK: %[[E:.*]] = kerf.exponential %[[DOWN]]
// CHECK: %[[SHIFTED:.*]] = kerf.add %[[DOWN]], %{{.*}}
// CHECK: %[[Y:.*]] = kerf.gelu %[[SHIFTED]]
// CHECK: return %[[Y]], %[[SHIFTED]], %[[E]], %[[GATED]], %[[UP]], %[[GATE]] :
// CHECK-LABEL: func.func private @layer_backward(
// CHECK: kerf.logistic %{{.*}} {kerf.backward}
// CHECK-LABEL: func.func @main(
func.func private @layer(%x: tensor<4x8xf32>, %wg: tensor<8x8xf32>, %wu: tensor<8x8xf32>, %wd: tensor<8x8xf32>) -> tensor<4x8xf32> {
  %gate = kerf.dot_general %x, %wg {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %up = kerf.dot_general %x, %wu {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %s = kerf.logistic %gate : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %silu = kerf.multiply %gate, %s : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %gated = kerf.multiply %silu, %up : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %down = kerf.dot_general %gated, %wd {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %e = kerf.exponential %down : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %rows = kerf.reduce %e {kind = #kerf<reduce_kind sum>, dimensions = array<i64: 1>} : (tensor<4x8xf32>) -> tensor<4xf32>
  %spread = kerf.broadcast_in_dim %rows {broadcast_dimensions = array<i64: 0>} : (tensor<4xf32>) -> tensor<4x8xf32>
  %shifted = kerf.add %down, %spread : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = kerf.gelu %shifted {approximate} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}
func.func @main(%x: tensor<4x8xf32> {kerf.kind = "input", kerf.name = "x"}, %wg: tensor<8x8xf32> {kerf.kind = "parameter", kerf.name = "wg", kerf.trainable},
                %wu: tensor<8x8xf32> {kerf.kind = "parameter", kerf.name = "wu", kerf.trainable},
                %wd: tensor<8x8xf32> {kerf.kind = "parameter", kerf.name = "wd", kerf.trainable}) -> tensor<f32> {
  %y = kerf.call @layer(%x, %wg, %wu, %wd) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %loss = kerf.reduce %y {kind = #kerf<reduce_kind sum>, dimensions = array<i64: 0, 1>} : (tensor<4x8xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// The gradient of relu asks whether the result is above the bound, so that its operand need not be kept.

// CHECK-LABEL: func.func @main(
// CHECK: %[[Y:.*]] = kerf.maximum
// CHECK: %[[WINS:.*]] = kerf.compare %[[Y]], %{{.*}} {direction = #kerf<comparison GT>, kerf.backward}
// CHECK-NOT: #kerf<comparison EQ>
// CHECK: kerf.select %[[WINS]],
func.func @main(%w: tensor<4xf32> {kerf.kind = "parameter", kerf.name = "w", kerf.trainable}) -> tensor<f32> {
  %0 = kerf.constant dense<0.0> : tensor<f32>
  %zeros = kerf.broadcast_in_dim %0 {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<4xf32>
  %x = kerf.exponential %w : (tensor<4xf32>) -> tensor<4xf32>
  %y = kerf.maximum %x, %zeros : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %loss = kerf.reduce %y {kind = #kerf<reduce_kind sum>, dimensions = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// The mean's gradient in (x - mean(x)) * f + b, where the result is multiplied by t. The sum of the result's gradient is
// known, because it is the gradient of b, so the sum of the mean's gradient is computed from it. The second factor's
// gradient flows through a difference to the mean, whose sum is zero. Two sums over the tensor remain.

// CHECK-LABEL: func.func @main(
// CHECK: kerf.constant {kerf.backward}
// CHECK: %[[G:.*]] = kerf.multiply %{{.*}}, %arg3 {kerf.backward} : (tensor<6x4xf32>
// CHECK: %[[DB:.*]] = kerf.reduce %[[G]] {{.*}} : (tensor<6x4xf32>) -> tensor<4xf32>
// CHECK: %[[DF:.*]] = kerf.reduce %{{.*}} {{.*}} : (tensor<6x4xf32>) -> tensor<4xf32>
// CHECK-NOT: kerf.reduce
// CHECK: %[[SUM:.*]] = kerf.multiply %[[DB]], %{{.*}} {kerf.backward} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
// CHECK: %[[DMEAN:.*]] = kerf.negate %[[SUM]] {kerf.backward}
// CHECK: kerf.divide %[[DMEAN]], %{{.*}} {kerf.backward} : (tensor<4xf32>
// CHECK-NOT: kerf.reduce
// CHECK: return
func.func @main(%x: tensor<6x4xf32> {kerf.kind = "parameter", kerf.name = "x", kerf.trainable},
                %f: tensor<4xf32> {kerf.kind = "parameter", kerf.name = "f", kerf.trainable},
                %b: tensor<4xf32> {kerf.kind = "parameter", kerf.name = "b", kerf.trainable},
                %t: tensor<6x4xf32> {kerf.kind = "input", kerf.name = "t"}) -> tensor<f32> {
  %six = kerf.constant dense<6.0> : tensor<4xf32>
  %sum = kerf.reduce %x {kind = #kerf<reduce_kind sum>, dimensions = array<i64: 0>} : (tensor<6x4xf32>) -> tensor<4xf32>
  %mean = kerf.divide %sum, %six : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %means = kerf.broadcast_in_dim %mean {broadcast_dimensions = array<i64: 1>} : (tensor<4xf32>) -> tensor<6x4xf32>
  %d = kerf.subtract %x, %means : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32>
  %square = kerf.multiply %d, %d : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32>
  %variance = kerf.reduce %square {kind = #kerf<reduce_kind sum>, dimensions = array<i64: 0>} : (tensor<6x4xf32>) -> tensor<4xf32>
  %scale = kerf.multiply %f, %variance : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %scales = kerf.broadcast_in_dim %scale {broadcast_dimensions = array<i64: 1>} : (tensor<4xf32>) -> tensor<6x4xf32>
  %n = kerf.multiply %d, %scales : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32>
  %biases = kerf.broadcast_in_dim %b {broadcast_dimensions = array<i64: 1>} : (tensor<4xf32>) -> tensor<6x4xf32>
  %y = kerf.add %n, %biases : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32>
  %z = kerf.multiply %y, %t : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32>
  %loss = kerf.reduce %z {kind = #kerf<reduce_kind sum>, dimensions = array<i64: 0, 1>} : (tensor<6x4xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// The divisor of the sum is not the number of its elements, so the difference does not sum to zero. All sums over the
// tensor are computed.

// CHECK-LABEL: func.func @main(
// CHECK: kerf.constant {kerf.backward}
// CHECK-COUNT-3: kerf.reduce %{{.*}} : (tensor<6x4xf32>) -> tensor<4xf32>
// CHECK: return
func.func @main(%x: tensor<6x4xf32> {kerf.kind = "parameter", kerf.name = "x", kerf.trainable},
                %b: tensor<4xf32> {kerf.kind = "parameter", kerf.name = "b", kerf.trainable},
                %t: tensor<6x4xf32> {kerf.kind = "input", kerf.name = "t"}) -> tensor<f32> {
  %five = kerf.constant dense<5.0> : tensor<4xf32>
  %sum = kerf.reduce %x {kind = #kerf<reduce_kind sum>, dimensions = array<i64: 0>} : (tensor<6x4xf32>) -> tensor<4xf32>
  %mean = kerf.divide %sum, %five : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %means = kerf.broadcast_in_dim %mean {broadcast_dimensions = array<i64: 1>} : (tensor<4xf32>) -> tensor<6x4xf32>
  %d = kerf.subtract %x, %means : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32>
  %square = kerf.multiply %d, %d : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32>
  %scale = kerf.reduce %square {kind = #kerf<reduce_kind sum>, dimensions = array<i64: 0>} : (tensor<6x4xf32>) -> tensor<4xf32>
  %scales = kerf.broadcast_in_dim %scale {broadcast_dimensions = array<i64: 1>} : (tensor<4xf32>) -> tensor<6x4xf32>
  %n = kerf.multiply %d, %scales : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32>
  %biases = kerf.broadcast_in_dim %b {broadcast_dimensions = array<i64: 1>} : (tensor<4xf32>) -> tensor<6x4xf32>
  %y = kerf.add %n, %biases : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32>
  %z = kerf.multiply %y, %t : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32>
  %loss = kerf.reduce %z {kind = #kerf<reduce_kind sum>, dimensions = array<i64: 0, 1>} : (tensor<6x4xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}
