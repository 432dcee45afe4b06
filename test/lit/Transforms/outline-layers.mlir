// RUN: kerf-opt %s -split-input-file -kerf-outline-layers -mlir-print-debuginfo -mlir-print-local-scope | FileCheck %s

// Two layers x + tanh(norm(x) w) u between ops that look like parts of them: an `add` before, a norm after. Only the
// residual stream crosses the borders of segments.

// CHECK-LABEL: func.func private @layer(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<4x8xf32>{{.*}}, %[[S:[a-z0-9]+]]: tensor<8xf32>{{.*}}, %[[W:[a-z0-9]+]]: tensor<8x8xf32>{{.*}}, %[[U:[a-z0-9]+]]: tensor<8x8xf32>
// CHECK-SAME: -> tensor<4x8xf32>
// CHECK: %[[N:.*]], %{{.*}} = kerf.rms_norm %[[X]], %[[S]]
// CHECK: %[[A:.*]] = kerf.dot_general %[[N]], %[[W]] {{.*}} loc(fused["h.0.up/mm", "h.1.up/mm"])
// CHECK: %[[T:.*]] = kerf.tanh %[[A]]
// CHECK: %[[D:.*]] = kerf.dot_general %[[T]], %[[U]]
// CHECK: %[[Y:.*]] = kerf.add %[[X]], %[[D]]
// CHECK: return %[[Y]]
// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[T0:[a-z0-9]+]]: tensor<4x8xf32> {kerf.kind = "parameter", kerf.name = "t"}
// CHECK: %[[E:.*]] = kerf.add %[[T0]], %{{.*}} loc("emb/add")
// CHECK: %[[L0:.*]] = kerf.call @layer(%[[E]], %[[S0:.*]], %[[W0:.*]], %[[U0:.*]]) : {{.*}} loc("h.0")
// CHECK: %[[L1:.*]] = kerf.call @layer(%[[L0]], %{{.*}}, %{{.*}}, %{{.*}}) : {{.*}} loc("h.1")
// CHECK-NEXT: kerf.rms_norm %[[L1]]
func.func @main(%t: tensor<4x8xf32> {kerf.kind = "parameter", kerf.name = "t"},
                %s0: tensor<8xf32> {kerf.kind = "parameter", kerf.name = "h.0.s"},
                %w0: tensor<8x8xf32> {kerf.kind = "parameter", kerf.name = "h.0.w"},
                %u0: tensor<8x8xf32> {kerf.kind = "parameter", kerf.name = "h.0.u"},
                %s1: tensor<8xf32> {kerf.kind = "parameter", kerf.name = "h.1.s"},
                %w1: tensor<8x8xf32> {kerf.kind = "parameter", kerf.name = "h.1.w"},
                %u1: tensor<8x8xf32> {kerf.kind = "parameter", kerf.name = "h.1.u"},
                %s2: tensor<8xf32> {kerf.kind = "parameter", kerf.name = "s"},
                %i: tensor<4x8xf32> {kerf.kind = "input", kerf.name = "i"}) -> tensor<4x8xf32> {
  %x0 = kerf.add %t, %i : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> loc("emb/add")
  %n0, %r0 = kerf.rms_norm %x0, %s0 {epsilon = 1.0e-6 : f64} : (tensor<4x8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4xf32>) loc("h.0.norm/n")
  %a0 = kerf.dot_general %n0, %w0 {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("h.0.up/mm")
  %b0 = kerf.tanh %a0 : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.0/tanh")
  %d0 = kerf.dot_general %b0, %u0 {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("h.0.down/mm")
  %x1 = kerf.add %x0, %d0 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.0/add")
  %n1, %r1 = kerf.rms_norm %x1, %s1 {epsilon = 1.0e-6 : f64} : (tensor<4x8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4xf32>) loc("h.1.norm/n")
  %a1 = kerf.dot_general %n1, %w1 {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("h.1.up/mm")
  %b1 = kerf.tanh %a1 : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.1/tanh")
  %d1 = kerf.dot_general %b1, %u1 {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("h.1.down/mm")
  %x2 = kerf.add %x1, %d1 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.1/add")
  %n2, %r2 = kerf.rms_norm %x2, %s2 {epsilon = 1.0e-6 : f64} : (tensor<4x8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4xf32>) loc("norm/n")
  return %n2 : tensor<4x8xf32>
}

// -----

// Two values are carried from layer to layer, a table is shared, and a mask is computed in the first layer and used in
// both. A constant, and a mask from the layer's own buffer, are cloned into the layer. A value inside of the last layer
// that is used outside becomes a result.

// CHECK-LABEL: func.func private @layer(
// CHECK-SAME: %[[A:[a-z0-9]+]]: tensor<4xf32>{{.*}}, %[[M:[a-z0-9]+]]: tensor<4xf32>{{.*}}, %[[B:[a-z0-9]+]]: tensor<4xf32>{{.*}}, %[[W:[a-z0-9]+]]: tensor<4xf32>{{.*}}, %[[K:[a-z0-9]+]]: tensor<4xi64>
// CHECK-SAME: -> (tensor<4xf32>{{.*}}, tensor<4xf32>{{.*}}, tensor<4xf32>
// CHECK: %[[P:.*]] = kerf.multiply %[[A]], %[[M]]
// CHECK: %[[Q:.*]] = kerf.multiply %[[B]], %[[W]]
// CHECK: %[[C:.*]] = kerf.constant dense<2.000000e+00>
// CHECK: %[[R:.*]] = kerf.maximum %[[Q]], %[[C]]
// CHECK: %[[KF:.*]] = kerf.convert %[[K]]
// CHECK: %[[S:.*]] = kerf.add %[[P]], %[[KF]]
// CHECK: return %[[Q]], %[[R]], %[[S]]
// CHECK-LABEL: func.func @main
// CHECK: %[[MASK:.*]] = kerf.exponential
// CHECK: %[[C0:.*]]:3 = kerf.call @layer(%{{.*}}, %[[MASK]], %{{.*}}, %[[W0:.*]], %{{.*}}) {{.*}} loc("block.0")
// CHECK: %[[C1:.*]]:3 = kerf.call @layer(%[[C0]]#1, %[[MASK]], %[[C0]]#2, %[[W1:.*]], %{{.*}}) {{.*}} loc("block.1")
// CHECK-NEXT: %[[E:.*]] = kerf.add %[[C1]]#1, %[[C1]]#2
// CHECK-NEXT: kerf.add %[[E]], %[[C1]]#0
func.func @main(%a: tensor<4xf32> {kerf.kind = "parameter", kerf.name = "a"}, %b: tensor<4xf32> {kerf.kind = "parameter", kerf.name = "b"},
                %i: tensor<4xf32> {kerf.kind = "input", kerf.name = "i"},
                %w0: tensor<4xf32> {kerf.kind = "parameter", kerf.name = "w0"}, %w1: tensor<4xf32> {kerf.kind = "parameter", kerf.name = "w1"},
                %k0: tensor<4xi64> {kerf.kind = "buffer", kerf.name = "k0"}, %k1: tensor<4xi64> {kerf.kind = "buffer", kerf.name = "k1"}) -> tensor<4xf32> {
  %two = kerf.constant dense<2.0> : tensor<4xf32>
  %a0 = kerf.tanh %a : (tensor<4xf32>) -> tensor<4xf32>
  %b0 = kerf.tanh %b : (tensor<4xf32>) -> tensor<4xf32>
  %mask = kerf.exponential %i : (tensor<4xf32>) -> tensor<4xf32> loc("block.0/mask")
  %p0 = kerf.multiply %a0, %mask : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("block.0/p")
  %q0 = kerf.multiply %b0, %w0 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("block.0/q")
  %r0 = kerf.maximum %q0, %two : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("block.0/r")
  %f0 = kerf.convert %k0 : (tensor<4xi64>) -> tensor<4xf32> loc("block.0/f")
  %s0 = kerf.add %p0, %f0 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("block.0/s")
  %p1 = kerf.multiply %r0, %mask : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("block.1/p")
  %q1 = kerf.multiply %s0, %w1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("block.1/q")
  %r1 = kerf.maximum %q1, %two : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("block.1/r")
  %f1 = kerf.convert %k1 : (tensor<4xi64>) -> tensor<4xf32> loc("block.1/f")
  %s1 = kerf.add %p1, %f1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("block.1/s")
  %e0 = kerf.add %r1, %s1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("tail/e0")
  %e1 = kerf.add %e0, %q1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("tail/e1")
  return %e1 : tensor<4xf32>
}

// -----

// Three equal branches of one value (queries, keys, values) are no layers, because none uses its predecessor. A frozen
// parameter where others have a trainable one, a different attribute, and segments of three ops are no repeat either.

// CHECK-LABEL: func.func @main
// CHECK-NOT: kerf.call
func.func @main(%x: tensor<4xf32> {kerf.kind = "parameter", kerf.name = "x"},
                %w0: tensor<4xf32> {kerf.kind = "parameter", kerf.name = "w0", kerf.trainable},
                %w1: tensor<4xf32> {kerf.kind = "parameter", kerf.name = "w1"}) -> tensor<4xf32> {
  %a0 = kerf.tanh %x : (tensor<4xf32>) -> tensor<4xf32>
  %a1 = kerf.exponential %a0 : (tensor<4xf32>) -> tensor<4xf32>
  %a2 = kerf.sine %a1 : (tensor<4xf32>) -> tensor<4xf32>
  %a3 = kerf.cosine %a2 : (tensor<4xf32>) -> tensor<4xf32>
  %b0 = kerf.tanh %x : (tensor<4xf32>) -> tensor<4xf32>
  %b1 = kerf.exponential %b0 : (tensor<4xf32>) -> tensor<4xf32>
  %b2 = kerf.sine %b1 : (tensor<4xf32>) -> tensor<4xf32>
  %b3 = kerf.cosine %b2 : (tensor<4xf32>) -> tensor<4xf32>
  %c = kerf.subtract %a3, %b3 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %c0 = kerf.multiply %c, %w0 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %c1 = kerf.abs %c0 : (tensor<4xf32>) -> tensor<4xf32>
  %c2 = kerf.erf %c1 : (tensor<4xf32>) -> tensor<4xf32>
  %c3 = kerf.logistic %c2 : (tensor<4xf32>) -> tensor<4xf32>
  %d0 = kerf.multiply %c3, %w1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %d1 = kerf.abs %d0 : (tensor<4xf32>) -> tensor<4xf32>
  %d2 = kerf.erf %d1 : (tensor<4xf32>) -> tensor<4xf32>
  %d3 = kerf.logistic %d2 : (tensor<4xf32>) -> tensor<4xf32>
  %e0 = kerf.negate %d3 : (tensor<4xf32>) -> tensor<4xf32>
  %e1 = kerf.sqrt %e0 : (tensor<4xf32>) -> tensor<4xf32>
  %e2 = kerf.log %e1 : (tensor<4xf32>) -> tensor<4xf32>
  %f0 = kerf.negate %e2 : (tensor<4xf32>) -> tensor<4xf32>
  %f1 = kerf.sqrt %f0 : (tensor<4xf32>) -> tensor<4xf32>
  %f2 = kerf.log %f1 : (tensor<4xf32>) -> tensor<4xf32>
  return %f2 : tensor<4xf32>
}

// -----

// Two repeats become two functions: an encoder, and a decoder that uses the encoder's result in each layer. Layers
// without a scope are numbered.

// CHECK-DAG: func.func private @layer(
// CHECK-DAG: func.func private @layer_{{[0-9]+}}(
// CHECK-LABEL: func.func @main(
// CHECK: kerf.call @[[F:layer[_0-9]*]]({{.*}} loc("[[F]].0")
// CHECK: %[[E:.*]] = kerf.call @[[F]]({{.*}} loc("[[F]].1")
// CHECK: kerf.subtract
// CHECK: %[[D:.*]] = kerf.call @[[G:layer[_0-9]*]](%{{.*}}, %[[E]])
// CHECK: kerf.call @[[G]](%[[D]], %[[E]])
func.func @main(%x: tensor<4xf32> {kerf.kind = "parameter", kerf.name = "x"}, %y: tensor<4xf32> {kerf.kind = "parameter", kerf.name = "y"}) -> tensor<4xf32> {
  %a0 = kerf.tanh %x : (tensor<4xf32>) -> tensor<4xf32>
  %a1 = kerf.exponential %a0 : (tensor<4xf32>) -> tensor<4xf32>
  %a2 = kerf.sine %a1 : (tensor<4xf32>) -> tensor<4xf32>
  %a3 = kerf.cosine %a2 : (tensor<4xf32>) -> tensor<4xf32>
  %b0 = kerf.tanh %a3 : (tensor<4xf32>) -> tensor<4xf32>
  %b1 = kerf.exponential %b0 : (tensor<4xf32>) -> tensor<4xf32>
  %b2 = kerf.sine %b1 : (tensor<4xf32>) -> tensor<4xf32>
  %b3 = kerf.cosine %b2 : (tensor<4xf32>) -> tensor<4xf32>
  %z = kerf.subtract %y, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %c0 = kerf.multiply %z, %b3 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %c1 = kerf.abs %c0 : (tensor<4xf32>) -> tensor<4xf32>
  %c2 = kerf.erf %c1 : (tensor<4xf32>) -> tensor<4xf32>
  %c3 = kerf.logistic %c2 : (tensor<4xf32>) -> tensor<4xf32>
  %d0 = kerf.multiply %c3, %b3 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %d1 = kerf.abs %d0 : (tensor<4xf32>) -> tensor<4xf32>
  %d2 = kerf.erf %d1 : (tensor<4xf32>) -> tensor<4xf32>
  %d3 = kerf.logistic %d2 : (tensor<4xf32>) -> tensor<4xf32>
  return %d3 : tensor<4xf32>
}

// -----

// Two layers x + dropout(x w): each has a stream number of its own, which the layer gets as an argument.

// CHECK-LABEL: func.func private @layer(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<4x8xf32>{{.*}}, %[[W:[a-z0-9]+]]: tensor<8x8xf32>{{.*}}, %[[SEED:[a-z0-9]+]]: tensor<i64>{{.*}}, %[[STEP:[a-z0-9]+]]: tensor<i64>{{.*}}, %[[STREAM:[a-z0-9]+]]: tensor<i64>
// CHECK: kerf.dropout %{{.*}}, %[[SEED]], %[[STEP]], %[[STREAM]] {rate = 1.000000e-01 : f64}
// CHECK-LABEL: func.func @main(
// CHECK-DAG: %[[S0:.*]] = kerf.constant dense<0> : tensor<i64>
// CHECK-DAG: %[[S1:.*]] = kerf.constant dense<1> : tensor<i64>
// CHECK: %[[L0:.*]] = kerf.call @layer(%{{.*}}, %{{.*}}, %[[SEED0:.*]], %[[STEP0:.*]], %[[S0]])
// CHECK: kerf.call @layer(%[[L0]], %{{.*}}, %[[SEED0]], %[[STEP0]], %[[S1]])
func.func @main(%x: tensor<4x8xf32> {kerf.kind = "parameter", kerf.name = "x"},
                %w0: tensor<8x8xf32> {kerf.kind = "parameter", kerf.name = "w0"}, %w1: tensor<8x8xf32> {kerf.kind = "parameter", kerf.name = "w1"},
                %seed: tensor<i64> {kerf.kind = "seed", kerf.name = "seed"}, %step: tensor<i64> {kerf.kind = "step", kerf.name = "step"}) -> tensor<4x8xf32> {
  %a0 = kerf.dot_general %x, %w0 {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %b0 = kerf.tanh %a0 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %c0 = kerf.constant dense<0> : tensor<i64>
  %d0 = kerf.dropout %b0, %seed, %step, %c0 {rate = 0.1 : f64} : (tensor<4x8xf32>, tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<4x8xf32>
  %x1 = kerf.add %x, %d0 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %a1 = kerf.dot_general %x1, %w1 {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %b1 = kerf.tanh %a1 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %c1 = kerf.constant dense<1> : tensor<i64>
  %d1 = kerf.dropout %b1, %seed, %step, %c1 {rate = 0.1 : f64} : (tensor<4x8xf32>, tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<4x8xf32>
  %x2 = kerf.add %x1, %d1 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %x2 : tensor<4x8xf32>
}

// -----

// The bound of relu is one value for all layers, but a constant, so each layer has its own. The segments could begin at
// relu or behind it, and one value would cross their borders. They begin behind it, because relu can then be one kernel
// with the addition before it.

// CHECK-LABEL: func.func private @layer(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<4x8xf32>{{.*}}, %[[W:[a-z0-9]+]]: tensor<8x8xf32>
// CHECK: %[[D:.*]] = kerf.dot_general %[[X]], %[[W]]
// CHECK: %[[T:.*]] = kerf.tanh %[[D]]
// CHECK: %[[S:.*]] = kerf.add %[[T]], %[[X]]
// CHECK: %[[ZERO:.*]] = kerf.constant dense<0.000000e+00>
// CHECK: %[[ZEROS:.*]] = kerf.broadcast_in_dim %[[ZERO]]
// CHECK: %[[Y:.*]] = kerf.maximum %[[S]], %[[ZEROS]]
// CHECK: return %[[Y]]
// CHECK-LABEL: func.func @main(
// CHECK-COUNT-3: kerf.call @layer
func.func @main(%i: tensor<4x8xf32> {kerf.kind = "input", kerf.name = "i"},
                %v: tensor<8x8xf32> {kerf.kind = "parameter", kerf.name = "v"},
                %w0: tensor<8x8xf32> {kerf.kind = "parameter", kerf.name = "w0"},
                %w1: tensor<8x8xf32> {kerf.kind = "parameter", kerf.name = "w1"},
                %w2: tensor<8x8xf32> {kerf.kind = "parameter", kerf.name = "w2"}) -> tensor<4x8xf32> {
  %0 = kerf.constant dense<0.0> : tensor<f32>
  %zeros = kerf.broadcast_in_dim %0 {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<4x8xf32>
  %e = kerf.dot_general %i, %v {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %r = kerf.maximum %e, %zeros : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %d0 = kerf.dot_general %r, %w0 {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %t0 = kerf.tanh %d0 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %s0 = kerf.add %t0, %r : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %r0 = kerf.maximum %s0, %zeros : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %d1 = kerf.dot_general %r0, %w1 {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %t1 = kerf.tanh %d1 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %s1 = kerf.add %t1, %r0 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %r1 = kerf.maximum %s1, %zeros : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %d2 = kerf.dot_general %r1, %w2 {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %t2 = kerf.tanh %d2 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %s2 = kerf.add %t2, %r1 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %r2 = kerf.maximum %s2, %zeros : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %r2 : tensor<4x8xf32>
}
