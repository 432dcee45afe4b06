// RUN: kerf-opt %s -split-input-file -kerf-mixed-precision="dtype=bf16" | FileCheck %s
// RUN: kerf-opt %s -split-input-file -kerf-mixed-precision="dtype=f16 loss-scale=dynamic" | FileCheck %s --check-prefix=F16

// Parameters stay f32 and are converted before they are broadcast. A product, gelu and the residual are 16-bit; norms
// read f32 scales and give f32 statistics; the loss is f32 from cross_entropy on. Rows of the table are looked up
// before they are converted.

// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[IDS:[a-z0-9]+]]: tensor<4xi64> {kerf.kind = "input"
// CHECK-SAME: %[[E:[a-z0-9]+]]: tensor<97x8xf32> {kerf.kind = "parameter"
// CHECK-SAME: %[[S:[a-z0-9]+]]: tensor<8xf32> {kerf.kind = "parameter"
// CHECK-SAME: %[[W:[a-z0-9]+]]: tensor<8x8xf32> {kerf.kind = "parameter"
// CHECK-SAME: %[[B:[a-z0-9]+]]: tensor<8xf32> {kerf.kind = "parameter"
// CHECK-SAME: -> tensor<f32>
// CHECK: %[[ROWS:.*]] = kerf.embedding %[[E]], %[[IDS]] {{.*}} -> tensor<4x8xf32>
// CHECK-NEXT: %[[X:.*]] = kerf.convert %[[ROWS]] : (tensor<4x8xf32>) -> tensor<4x8xbf16>
// CHECK-NEXT: %[[N:.*]], %{{.*}}, %{{.*}} = kerf.layer_norm %[[X]], %[[S]], %[[B]] {{.*}} : (tensor<4x8xbf16>, tensor<8xf32>, tensor<8xf32>) -> (tensor<4x8xbf16>, tensor<4xf32>, tensor<4xf32>)
// CHECK-NEXT: %[[W16:.*]] = kerf.convert %[[W]] : (tensor<8x8xf32>) -> tensor<8x8xbf16>
// CHECK-NEXT: %[[D:.*]] = kerf.dot_general %[[N]], %[[W16]] {{.*}} -> tensor<4x8xbf16>
// CHECK: %[[B16:.*]] = kerf.convert %[[B]] : (tensor<8xf32>) -> tensor<8xbf16>
// CHECK-NEXT: %[[BB:.*]] = kerf.broadcast_in_dim %[[B16]] {{.*}} -> tensor<4x8xbf16>
// CHECK-NEXT: %[[A:.*]] = kerf.add %[[D]], %[[BB]] : (tensor<4x8xbf16>
// CHECK-NEXT: %[[G:.*]] = kerf.gelu %[[A]]
// CHECK-NEXT: %[[R:.*]] = kerf.add %[[X]], %[[G]] : (tensor<4x8xbf16>
// CHECK-NEXT: %[[E16:.*]] = kerf.convert %[[E]] : (tensor<97x8xf32>) -> tensor<97x8xbf16>
// CHECK-NEXT: %[[L:.*]] = kerf.dot_general %[[R]], %[[E16]] {{.*}} -> tensor<4x97xbf16>
// CHECK: %[[NLL:.*]], %{{.*}} = kerf.cross_entropy %[[L]], {{.*}} -> (tensor<4xf32>, tensor<4xf32>)
// CHECK: %[[LOSS:.*]] = kerf.reduce %[[NLL]] {{.*}} -> tensor<f32>
// CHECK: return %[[LOSS]] : tensor<f32>

// The loss scale is the last argument.

// F16-LABEL: func.func @main(
// F16-SAME: %{{.*}}: tensor<f32> {kerf.kind = "state", kerf.name = "grad_scaler/scale"}) -> tensor<f32>
// F16: kerf.dot_general {{.*}} -> tensor<4x8xf16>
func.func @main(%ids: tensor<4xi64> {kerf.kind = "input", kerf.name = "ids"},
                %e: tensor<97x8xf32> {kerf.kind = "parameter", kerf.name = "e", kerf.trainable},
                %s: tensor<8xf32> {kerf.kind = "parameter", kerf.name = "s", kerf.trainable},
                %w: tensor<8x8xf32> {kerf.kind = "parameter", kerf.name = "w", kerf.trainable},
                %b: tensor<8xf32> {kerf.kind = "parameter", kerf.name = "b", kerf.trainable}) -> tensor<f32> {
  %x = kerf.embedding %e, %ids {rows = 97 : i64} : (tensor<97x8xf32>, tensor<4xi64>) -> tensor<4x8xf32>
  %n, %mean, %rstd = kerf.layer_norm %x, %s, %b {epsilon = 1.0e-5 : f64} : (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4xf32>, tensor<4xf32>)
  %d = kerf.dot_general %n, %w {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %bb = kerf.broadcast_in_dim %b {broadcast_dimensions = array<i64: 1>} : (tensor<8xf32>) -> tensor<4x8xf32>
  %a = kerf.add %d, %bb : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %g = kerf.gelu %a : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %r = kerf.add %x, %g : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %l = kerf.dot_general %r, %e {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 1>} : (tensor<4x8xf32>, tensor<97x8xf32>) -> tensor<4x97xf32>
  %nll, %lse = kerf.cross_entropy %l, %ids {ignore_index = -100 : i64} : (tensor<4x97xf32>, tensor<4xi64>) -> (tensor<4xf32>, tensor<4xf32>)
  %loss = kerf.reduce %nll {kind = #kerf<reduce_kind sum>, dimensions = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// Exponentials and sums that are not part of a composite are f32, and so are values computed from them up to the next
// product. Values from integers or from an input stay f32, and so do elementwise ops that read them; a constant adapts.
// The lowest f32 becomes the lowest f16, not -inf.

// CHECK-LABEL: func.func @main(
// CHECK: kerf.dot_general {{.*}} -> tensor<4x4xbf16>
// CHECK: %[[HALF:.*]] = kerf.constant dense<5.000000e-01> : tensor<bf16>
// CHECK: %[[SCALE:.*]] = kerf.broadcast_in_dim %[[HALF]]
// CHECK: %[[SCORES:.*]] = kerf.multiply %{{.*}}, %[[SCALE]] : (tensor<4x4xbf16>
// CHECK: %[[LOW:.*]] = kerf.constant dense<-3.389530e+38> : tensor<4x4xbf16>
// CHECK: %[[MASKED:.*]] = kerf.select %{{.*}}, %[[SCORES]], %[[LOW]]
// CHECK: %[[WIDE:.*]] = kerf.convert %[[MASKED]] : (tensor<4x4xbf16>) -> tensor<4x4xf32>
// CHECK: %[[EXP:.*]] = kerf.exponential %[[WIDE]] : (tensor<4x4xf32>)
// CHECK: %[[SUM:.*]] = kerf.reduce %[[EXP]] {{.*}} : (tensor<4x4xf32>) -> tensor<4xf32>
// CHECK: %[[P:.*]] = kerf.divide %[[EXP]], %{{.*}} : (tensor<4x4xf32>
// CHECK: %[[P16:.*]] = kerf.convert %[[P]] : (tensor<4x4xf32>) -> tensor<4x4xbf16>
// CHECK: %[[Y:.*]] = kerf.dot_general %[[P16]], %{{.*}} -> tensor<4x4xbf16>
// CHECK: %[[Y32:.*]] = kerf.convert %[[Y]] : (tensor<4x4xbf16>) -> tensor<4x4xf32>
// CHECK: %[[ERROR:.*]] = kerf.subtract %[[Y32]], %{{.*}} : (tensor<4x4xf32>
// CHECK: kerf.multiply %[[ERROR]], %[[ERROR]] : (tensor<4x4xf32>
// F16-LABEL: func.func @main(
// F16: kerf.constant dense<-6.550400e+04> : tensor<4x4xf16>
func.func @main(%x: tensor<4x4xf32> {kerf.kind = "input", kerf.name = "x"}, %p: tensor<4x4xi1> {kerf.kind = "input", kerf.name = "p"},
                %w: tensor<4x4xf32> {kerf.kind = "parameter", kerf.name = "w", kerf.trainable}) -> tensor<f32> {
  %s = kerf.dot_general %x, %w {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %half = kerf.constant dense<0.5> : tensor<f32>
  %halves = kerf.broadcast_in_dim %half {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<4x4xf32>
  %scores = kerf.multiply %s, %halves : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %low = kerf.constant dense<-3.40282347E+38> : tensor<4x4xf32>
  %masked = kerf.select %p, %scores, %low : (tensor<4x4xi1>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %e = kerf.exponential %masked : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %sum = kerf.reduce %e {kind = #kerf<reduce_kind sum>, dimensions = array<i64: 1>} : (tensor<4x4xf32>) -> tensor<4xf32>
  %sums = kerf.broadcast_in_dim %sum {broadcast_dimensions = array<i64: 0>} : (tensor<4xf32>) -> tensor<4x4xf32>
  %prob = kerf.divide %e, %sums : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %y = kerf.dot_general %prob, %w {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %error = kerf.subtract %y, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %square = kerf.multiply %error, %error : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %loss = kerf.reduce %square {kind = #kerf<reduce_kind sum>, dimensions = array<i64: 0, 1>} : (tensor<4x4xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// A layer's parameters are converted inside of the layer, so that its backward function gives f32 gradients. The first
// call determines the types of the layer's arguments; a table that layers share is converted before the calls.

// CHECK-LABEL: func.func private @layer(
// CHECK-SAME: %[[X:.*]]: tensor<4x8xbf16>, %[[W:.*]]: tensor<8x8xf32>, %[[T:.*]]: tensor<4x8xbf16>) -> tensor<4x8xbf16>
// CHECK: %[[W16:.*]] = kerf.convert %[[W]] : (tensor<8x8xf32>) -> tensor<8x8xbf16>
// CHECK: kerf.dot_general %[[X]], %[[W16]]
// CHECK-LABEL: func.func @main(
// CHECK: %[[T16:.*]] = kerf.convert %{{.*}} : (tensor<8xf32>) -> tensor<8xbf16>
// CHECK: %[[TABLE:.*]] = kerf.broadcast_in_dim %[[T16]] {{.*}} -> tensor<4x8xbf16>
// CHECK: kerf.call @layer(%{{.*}}, %{{.*}}, %[[TABLE]]) : (tensor<4x8xbf16>, tensor<8x8xf32>, tensor<4x8xbf16>) -> tensor<4x8xbf16>
// CHECK: kerf.call @layer(%{{.*}}, %{{.*}}, %[[TABLE]]) : (tensor<4x8xbf16>, tensor<8x8xf32>, tensor<4x8xbf16>) -> tensor<4x8xbf16>
// CHECK: kerf.reduce %{{.*}} : (tensor<4x8xbf16>) -> tensor<f32>
func.func private @layer(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %t: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = kerf.dot_general %x, %w {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %1 = kerf.multiply %0, %t : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}
func.func @main(%ids: tensor<4xi64> {kerf.kind = "input", kerf.name = "ids"}, %e: tensor<9x8xf32> {kerf.kind = "parameter", kerf.name = "e", kerf.trainable},
                %w0: tensor<8x8xf32> {kerf.kind = "parameter", kerf.name = "w0", kerf.trainable},
                %w1: tensor<8x8xf32> {kerf.kind = "parameter", kerf.name = "w1", kerf.trainable},
                %t: tensor<8xf32> {kerf.kind = "constant", kerf.name = "t"}) -> tensor<f32> {
  %tt = kerf.broadcast_in_dim %t {broadcast_dimensions = array<i64: 1>} : (tensor<8xf32>) -> tensor<4x8xf32>
  %x = kerf.gather %e, %ids {axis = 0 : i64} : (tensor<9x8xf32>, tensor<4xi64>) -> tensor<4x8xf32>
  %0 = kerf.call @layer(%x, %w0, %tt) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = kerf.call @layer(%0, %w1, %tt) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %loss = kerf.reduce %1 {kind = #kerf<reduce_kind sum>, dimensions = array<i64: 0, 1>} : (tensor<4x8xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// A convolution reads and gives 16 bits. A normalization that is written as elementary ops computes in f32, and the op at
// its end is rounded for all that follows.
// CHECK-LABEL: func.func @main
// CHECK: %[[Y:.*]] = kerf.convolution %{{.*}} : (tensor<2x3x8xbf16>, tensor<4x3x1xbf16>) -> tensor<2x4x8xbf16>
// CHECK: %[[N:.*]] = kerf.subtract %{{.*}}, %{{.*}} : (tensor<2x4x8xf32>, tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
// CHECK-NEXT: %[[H:.*]] = kerf.convert %[[N]] : (tensor<2x4x8xf32>) -> tensor<2x4x8xbf16>
// CHECK-NEXT: kerf.tanh %[[H]] : (tensor<2x4x8xbf16>) -> tensor<2x4x8xbf16>
func.func @main(%x: tensor<2x3x8xf32> {kerf.kind = "input", kerf.name = "x"},
                %k: tensor<4x3x1xf32> {kerf.kind = "parameter", kerf.name = "k", kerf.trainable}) -> tensor<f32> {
  %y = kerf.convolution %x, %k {strides = array<i64: 1>, dilations = array<i64: 1>, low = array<i64: 0>, high = array<i64: 0>}
      : (tensor<2x3x8xf32>, tensor<4x3x1xf32>) -> tensor<2x4x8xf32>
  %sum = kerf.reduce %y {dimensions = array<i64: 0, 2>, kind = #kerf<reduce_kind sum>} : (tensor<2x4x8xf32>) -> tensor<4xf32>
  %wide = kerf.broadcast_in_dim %sum {broadcast_dimensions = array<i64: 1>} : (tensor<4xf32>) -> tensor<2x4x8xf32>
  %n = kerf.subtract %y, %wide {kerf.normalized} : (tensor<2x4x8xf32>, tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
  %t = kerf.tanh %n : (tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
  %loss = kerf.reduce %t {dimensions = array<i64: 0, 1, 2>, kind = #kerf<reduce_kind sum>} : (tensor<2x4x8xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// A maximum over windows is one of the elements, so it stays in 16 bits; a sum over windows is computed in f32. Running
// statistics, to which each step gives new values, stay f32.
// CHECK-LABEL: func.func @main
// CHECK: kerf.reduce_window %{{.*}} {{.*}}reduce_kind max{{.*}} : (tensor<2x4x8xbf16>) -> tensor<2x4x4xbf16>
// CHECK: kerf.reduce_window %{{.*}} {{.*}}reduce_kind sum{{.*}} : (tensor<2x4x4xf32>) -> tensor<2x4x2xf32>
// CHECK: kerf.multiply %arg2, %{{.*}} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
func.func @main(%x: tensor<2x3x8xf32> {kerf.kind = "input", kerf.name = "x"},
                %k: tensor<4x3x1xf32> {kerf.kind = "parameter", kerf.name = "k", kerf.trainable},
                %r: tensor<4xf32> {kerf.kind = "buffer", kerf.name = "r", kerf.updated_by = 1 : i64}) -> (tensor<f32>, tensor<4xf32>) {
  %y = kerf.convolution %x, %k {strides = array<i64: 1>, dilations = array<i64: 1>, low = array<i64: 0>, high = array<i64: 0>}
      : (tensor<2x3x8xf32>, tensor<4x3x1xf32>) -> tensor<2x4x8xf32>
  %m = kerf.reduce_window %y {kind = #kerf<reduce_kind max>, window = array<i64: 1, 1, 2>, strides = array<i64: 1, 1, 2>,
      dilations = array<i64: 1, 1, 1>, low = array<i64: 0, 0, 0>, high = array<i64: 0, 0, 0>} : (tensor<2x4x8xf32>) -> tensor<2x4x4xf32>
  %s = kerf.reduce_window %m {kind = #kerf<reduce_kind sum>, window = array<i64: 1, 1, 2>, strides = array<i64: 1, 1, 2>,
      dilations = array<i64: 1, 1, 1>, low = array<i64: 0, 0, 0>, high = array<i64: 0, 0, 0>} : (tensor<2x4x4xf32>) -> tensor<2x4x2xf32>
  %most = kerf.constant dense<0.75> : tensor<4xf32>
  %old = kerf.multiply %r, %most : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %loss = kerf.reduce %s {dimensions = array<i64: 0, 1, 2>, kind = #kerf<reduce_kind sum>} : (tensor<2x4x2xf32>) -> tensor<f32>
  return %loss, %old : tensor<f32>, tensor<4xf32>
}
