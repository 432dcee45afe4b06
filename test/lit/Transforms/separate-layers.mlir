// RUN: kerf-opt %s "-kerf-separate-layers=patterns=h.1.up/dot_general" -mlir-print-debuginfo -mlir-print-local-scope | FileCheck %s --check-prefix=ONE
// RUN: kerf-opt %s "-kerf-separate-layers=patterns=h.0*,h.2.down/*" -mlir-print-debuginfo -mlir-print-local-scope | FileCheck %s --check-prefix=TWO
// RUN: kerf-opt %s "-kerf-separate-layers=patterns=h.2.up/dot_general@backward#1" | FileCheck %s --check-prefix=BACKWARD
// RUN: kerf-opt %s "-kerf-separate-layers=patterns=h.*.up/dot_general,norm/*,no/op" | FileCheck %s --check-prefix=ALIKE
// RUN: kerf-opt %s "-kerf-separate-layers=patterns=h.*,h.1.up/dot_general" "-kerf-cut-stages=until=h.1/tanh" | FileCheck %s --check-prefix=CUT

// A pattern that selects an op of the second layer gives this layer a function with the layer's own op names. The other
// layers share the old function, with the names of the first remaining layer.

// ONE-LABEL: func.func private @layer(
// ONE: kerf.dot_general {{.*}} loc(fused["h.0.up/mm", "h.2.up/mm"])
// ONE-LABEL: func.func private @layer_0(
// ONE: kerf.dot_general {{.*}} loc("h.1.up/mm")
// ONE: kerf.tanh {{.*}} loc("h.1/tanh")
// ONE-LABEL: func.func @main(
// ONE: kerf.call @layer({{.*}} loc("h.0")
// ONE: kerf.call @layer_0({{.*}} loc("h.1")
// ONE: kerf.call @layer({{.*}} loc("h.2")

// Three layers that are all treated differently: the first one keeps the function.

// TWO: kerf.dot_general {{.*}} loc("h.0.up/mm")
// TWO-LABEL: func.func @main(
// TWO: kerf.call @layer({{.*}} loc("h.0")
// TWO: kerf.call @[[B:layer_[0-9]]]({{.*}} loc("h.1")
// TWO-NOT: kerf.call @[[B]](
// TWO: kerf.call @layer_{{[0-9]}}({{.*}} loc("h.2")

// The backward op does not exist yet, so its scope determines the layer.

// BACKWARD: kerf.call @layer(
// BACKWARD: kerf.call @layer(
// BACKWARD: kerf.call @layer_0(

// Patterns that select the same ops in all layers, or none, change nothing.

// ALIKE-NOT: @layer_

// The copy can be divided like any other layer.

// CUT: kerf.call @layer({{.*}}kerf.part = 0
// CUT: kerf.call @layer_0_piece({{.*}}kerf.part = 0
// CUT: kerf.call @layer_0_piece_{{[0-9]}}({{.*}}kerf.part = 1
// CUT: kerf.call @layer({{.*}}kerf.part = 1
func.func private @layer(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %m: tensor<4x8xf32>, %u: tensor<8x8xf32>) -> tensor<4x8xf32> {
  %a = kerf.dot_general %x, %w {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("h.0.up/mm")
  %b = kerf.add %a, %m : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.0/masked")
  %t = kerf.tanh %b : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.0/tanh")
  %d = kerf.dot_general %t, %u {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("h.0.down/mm")
  %y = kerf.add %x, %d : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.0/sum")
  return %y : tensor<4x8xf32>
}
func.func @main(%t: tensor<4x8xf32> {kerf.kind = "parameter", kerf.name = "t", kerf.trainable},
                %w0: tensor<8x8xf32> {kerf.kind = "parameter", kerf.name = "h.0.w", kerf.trainable},
                %u0: tensor<8x8xf32> {kerf.kind = "parameter", kerf.name = "h.0.u", kerf.trainable},
                %w1: tensor<8x8xf32> {kerf.kind = "parameter", kerf.name = "h.1.w", kerf.trainable},
                %u1: tensor<8x8xf32> {kerf.kind = "parameter", kerf.name = "h.1.u", kerf.trainable},
                %w2: tensor<8x8xf32> {kerf.kind = "parameter", kerf.name = "h.2.w", kerf.trainable},
                %u2: tensor<8x8xf32> {kerf.kind = "parameter", kerf.name = "h.2.u", kerf.trainable},
                %s: tensor<8xf32> {kerf.kind = "parameter", kerf.name = "s", kerf.trainable},
                %i: tensor<4x8xf32> {kerf.kind = "input", kerf.name = "i"}) -> tensor<f32> {
  %x0 = kerf.add %t, %i : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> loc("emb/add")
  %m = kerf.add %i, %i : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> loc("mask/add")
  %x1 = kerf.call @layer(%x0, %w0, %m, %u0) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("h.0")
  %x2 = kerf.call @layer(%x1, %w1, %m, %u1) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("h.1")
  %x3 = kerf.call @layer(%x2, %w2, %m, %u2) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("h.2")
  %n, %r = kerf.rms_norm %x3, %s {epsilon = 1.0e-6 : f64} : (tensor<4x8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4xf32>) loc("norm/n")
  %l = kerf.reduce %n {kind = #kerf<reduce_kind sum>, dimensions = array<i64: 0, 1>} : (tensor<4x8xf32>) -> tensor<f32> loc("sum")
  return %l : tensor<f32>
}
