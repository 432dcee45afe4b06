// RUN: kerf-opt %s -split-input-file -kerf-cut-stages=until=h.1/tanh -mlir-print-debuginfo -mlir-print-local-scope | FileCheck %s --check-prefix=LAYER
// RUN: kerf-opt %s -split-input-file -kerf-cut-stages=until=h.1* -mlir-print-debuginfo -mlir-print-local-scope | FileCheck %s --check-prefix=WHOLE
// RUN: kerf-opt %s -split-input-file "-kerf-cut-stages=until=h.0/tanh,h.0/add#1,norm/n" -mlir-print-debuginfo -mlir-print-local-scope | FileCheck %s --check-prefix=FOUR

// There are three layers x + tanh(x w + m) u; @main computes the mask m from inputs alone. A cut after the second
// layer's tanh leaves the second product and the residual's sum, which reads the stream from before the cut, to the
// next part. The third layer stays complete, and ops before and after the layers become no function.

// LAYER-LABEL: func.func private @layer(
// LAYER-LABEL: func.func private @layer_piece(
// LAYER-SAME: %[[X:[a-z0-9]+]]: tensor<4x8xf32>{{.*}}, %[[W:[a-z0-9]+]]: tensor<8x8xf32>{{.*}}, %[[M:[a-z0-9]+]]: tensor<4x8xf32>
// LAYER: %[[A:.*]] = kerf.dot_general %[[X]], %[[W]] {{.*}} loc("h.1.up/mm")
// LAYER: %[[B:.*]] = kerf.add %[[A]], %[[M]]
// LAYER: %[[T:.*]] = kerf.tanh %[[B]] {{.*}} loc("h.1/tanh")
// LAYER: return %[[T]] : tensor<4x8xf32>
// LAYER-LABEL: func.func private @layer_piece_0(
// LAYER-SAME: %[[T:[a-z0-9]+]]: tensor<4x8xf32>{{.*}}, %[[U:[a-z0-9]+]]: tensor<8x8xf32>{{.*}}, %[[X:[a-z0-9]+]]: tensor<4x8xf32>
// LAYER: %[[D:.*]] = kerf.dot_general %[[T]], %[[U]] {{.*}} loc("h.1.down/mm")
// LAYER: kerf.add %[[X]], %[[D]]
// LAYER-LABEL: func.func @main(
// LAYER: %[[MASK:.*]] = kerf.add %[[I:[a-z0-9]+]], %[[I]]
// LAYER: %[[E:.*]] = kerf.add {{.*}} loc("emb/add")
// LAYER: %[[L0:.*]] = kerf.call @layer(%[[E]], {{.*}}) {kerf.part = 0 : i64} : {{.*}} loc("h.0")
// LAYER: %[[P:.*]] = kerf.call @layer_piece(%[[L0]], %{{.*}}, %[[MASK]]) {kerf.part = 0 : i64} : {{.*}} loc("h.1")
// LAYER: %[[L1:.*]] = kerf.call @layer_piece_0(%[[P]], %{{.*}}, %[[L0]]) {kerf.part = 1 : i64} : {{.*}} loc("h.1")
// LAYER: %[[L2:.*]] = kerf.call @layer(%[[L1]], {{.*}}) {kerf.part = 1 : i64} : {{.*}} loc("h.2")
// LAYER: kerf.rms_norm %[[L2]]

// A cut after all ops of a layer leaves the layer as it is.

// WHOLE-NOT: layer_piece
// WHOLE: kerf.call @layer({{.*}}) {kerf.part = 0 : i64} : {{.*}} loc("h.0")
// WHOLE: kerf.call @layer({{.*}}) {kerf.part = 0 : i64} : {{.*}} loc("h.1")
// WHOLE: kerf.call @layer({{.*}}) {kerf.part = 1 : i64} : {{.*}} loc("h.2")

// There are four parts: three cuts in the first layer and after the norm. The other layers belong to the part that ends
// with the norm. The position of the norm does not determine its part, so it becomes a function. The last part is the
// sum after it.

// FOUR-LABEL: func.func private @part(
// FOUR: kerf.rms_norm
// FOUR-LABEL: func.func @main(
// FOUR: kerf.add {{.*}} loc("emb/add")
// FOUR: kerf.call @layer_piece({{.*}}) {kerf.part = 0 : i64} : {{.*}} loc("h.0")
// FOUR: kerf.call @layer_piece_0({{.*}}) {kerf.part = 1 : i64} : {{.*}} loc("h.0")
// FOUR: kerf.call @layer({{.*}}) {kerf.part = 2 : i64} : {{.*}} loc("h.1")
// FOUR: %[[L2:.*]] = kerf.call @layer({{.*}}) {kerf.part = 2 : i64} : {{.*}} loc("h.2")
// FOUR: %[[N:.*]] = kerf.call @part(%[[L2]], {{.*}}) {kerf.part = 2 : i64} : {{.*}} loc("part 2")
// FOUR: kerf.reduce %[[N]]
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
