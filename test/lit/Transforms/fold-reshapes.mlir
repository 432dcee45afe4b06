// RUN: kerf-opt %s -split-input-file -kerf-recognize-composites -kerf-fold-reshapes | FileCheck %s

// A GPT-2 block and its loss: batch and heads are dimensions of every op. The only remaining reshapes drop the
// dimension of size 3 of the fused q, k, v.

// CHECK-LABEL: func.func @main
// CHECK-SAME: tensor<64x3x4x16xf32> {kerf.exported_shape = array<i64: 64, 192>, kerf.kind = "parameter", kerf.name = "c_attn.weight"}
// CHECK-SAME: tensor<3x4x16xf32> {kerf.exported_shape = array<i64: 192>, kerf.kind = "parameter", kerf.name = "c_attn.bias"}
// CHECK-SAME: tensor<4x16x64xf32> {kerf.exported_shape = array<i64: 64, 64>, kerf.kind = "parameter", kerf.name = "c_proj.weight"}
// CHECK-SAME: tensor<64xf32> {kerf.kind = "parameter", kerf.name = "c_proj.bias"}
// CHECK-SAME: tensor<512x64xf32> {kerf.kind = "parameter", kerf.name = "lm_head.weight"}
// CHECK: kerf.layer_norm
// CHECK-NEXT: kerf.dot_general {{.*}} -> tensor<8x32x3x4x16xf32>
// CHECK-NEXT: kerf.broadcast_in_dim {{.*}} {broadcast_dimensions = array<i64: 2, 3, 4>}
// CHECK-NEXT: %[[QKV:.*]] = kerf.add
// CHECK-NEXT: %[[Q0:.*]] = kerf.slice %[[QKV]] {limit = array<i64: 8, 32, 1, 4, 16>, start = array<i64: 0, 0, 0, 0, 0>
// CHECK-NEXT: %[[K0:.*]] = kerf.slice %[[QKV]] {limit = array<i64: 8, 32, 2, 4, 16>, start = array<i64: 0, 0, 1, 0, 0>
// CHECK-NEXT: %[[V0:.*]] = kerf.slice %[[QKV]] {limit = array<i64: 8, 32, 3, 4, 16>, start = array<i64: 0, 0, 2, 0, 0>
// CHECK-DAG: %[[Q:.*]] = kerf.reshape %[[Q0]] : (tensor<8x32x1x4x16xf32>) -> tensor<8x32x4x16xf32>
// CHECK-DAG: %[[K:.*]] = kerf.reshape %[[K0]] : (tensor<8x32x1x4x16xf32>) -> tensor<8x32x4x16xf32>
// CHECK-DAG: %[[V:.*]] = kerf.reshape %[[V0]] : (tensor<8x32x1x4x16xf32>) -> tensor<8x32x4x16xf32>
// CHECK: %[[O:.*]], %{{.*}} = kerf.attention %[[Q]], %[[K]], %[[V]]
// CHECK-NEXT: kerf.dot_general %[[O]], %{{.*}} {lhs_batching = array<i64>, lhs_contracting = array<i64: 2, 3>, rhs_batching = array<i64>, rhs_contracting = array<i64: 0, 1>}
// CHECK-NOT: kerf.reshape
// CHECK-NOT: kerf.transpose
// CHECK: kerf.cross_entropy {{.*}} -> (tensor<8x32xf32>, tensor<8x32xf32>)
// CHECK: kerf.reduce %{{.*}} {dimensions = array<i64: 0, 1>
// CHECK: kerf.reduce %{{.*}} {dimensions = array<i64: 0, 1>
// CHECK: return
func.func @main(%x: tensor<8x32x64xf32>, %labels: tensor<8x32xi64>,
    %g: tensor<64xf32> {kerf.kind = "parameter", kerf.name = "ln.weight"}, %b: tensor<64xf32> {kerf.kind = "parameter", kerf.name = "ln.bias"},
    %w: tensor<64x192xf32> {kerf.kind = "parameter", kerf.name = "c_attn.weight"}, %wb: tensor<192xf32> {kerf.kind = "parameter", kerf.name = "c_attn.bias"},
    %p: tensor<64x64xf32> {kerf.kind = "parameter", kerf.name = "c_proj.weight"}, %pb: tensor<64xf32> {kerf.kind = "parameter", kerf.name = "c_proj.bias"},
    %head: tensor<512x64xf32> {kerf.kind = "parameter", kerf.name = "lm_head.weight"}) -> tensor<f32> {
  %y, %mean, %rstd = kerf.layer_norm %x, %g, %b {epsilon = 1.0e-5 : f64} : (tensor<8x32x64xf32>, tensor<64xf32>, tensor<64xf32>) -> (tensor<8x32x64xf32>, tensor<8x32xf32>, tensor<8x32xf32>)
  %0 = kerf.reshape %y : (tensor<8x32x64xf32>) -> tensor<256x64xf32>
  %1 = kerf.dot_general %0, %w {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>} : (tensor<256x64xf32>, tensor<64x192xf32>) -> tensor<256x192xf32>
  %2 = kerf.broadcast_in_dim %wb {broadcast_dimensions = array<i64: 1>} : (tensor<192xf32>) -> tensor<256x192xf32>
  %3 = kerf.add %1, %2 : (tensor<256x192xf32>, tensor<256x192xf32>) -> tensor<256x192xf32>
  %4 = kerf.reshape %3 : (tensor<256x192xf32>) -> tensor<8x32x192xf32>
  %q0 = kerf.slice %4 {start = array<i64: 0, 0, 0>, limit = array<i64: 8, 32, 64>, strides = array<i64: 1, 1, 1>} : (tensor<8x32x192xf32>) -> tensor<8x32x64xf32>
  %k0 = kerf.slice %4 {start = array<i64: 0, 0, 64>, limit = array<i64: 8, 32, 128>, strides = array<i64: 1, 1, 1>} : (tensor<8x32x192xf32>) -> tensor<8x32x64xf32>
  %v0 = kerf.slice %4 {start = array<i64: 0, 0, 128>, limit = array<i64: 8, 32, 192>, strides = array<i64: 1, 1, 1>} : (tensor<8x32x192xf32>) -> tensor<8x32x64xf32>
  %k1 = kerf.reshape %k0 : (tensor<8x32x64xf32>) -> tensor<8x32x4x16xf32>
  %v1 = kerf.reshape %v0 : (tensor<8x32x64xf32>) -> tensor<8x32x4x16xf32>
  %v = kerf.transpose %v1 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<8x32x4x16xf32>) -> tensor<8x4x32x16xf32>
  %q1 = kerf.reshape %q0 : (tensor<8x32x64xf32>) -> tensor<8x32x4x16xf32>
  %q = kerf.transpose %q1 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<8x32x4x16xf32>) -> tensor<8x4x32x16xf32>
  %k = kerf.transpose %k1 {permutation = array<i64: 0, 2, 3, 1>} : (tensor<8x32x4x16xf32>) -> tensor<8x4x16x32xf32>
  %s = kerf.dot_general %q, %k {lhs_batching = array<i64: 0, 1>, rhs_batching = array<i64: 0, 1>, lhs_contracting = array<i64: 3>, rhs_contracting = array<i64: 2>} : (tensor<8x4x32x16xf32>, tensor<8x4x16x32xf32>) -> tensor<8x4x32x32xf32>
  %quarter = kerf.constant dense<0.25> : tensor<f32>
  %quarters = kerf.broadcast_in_dim %quarter {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<8x4x32x32xf32>
  %scaled = kerf.multiply %s, %quarters : (tensor<8x4x32x32xf32>, tensor<8x4x32x32xf32>) -> tensor<8x4x32x32xf32>
  %row = kerf.iota {dimension = 0 : i64} : () -> tensor<32x32xi64>
  %column = kerf.iota {dimension = 1 : i64} : () -> tensor<32x32xi64>
  %sees = kerf.compare %column, %row {direction = #kerf<comparison LE>} : (tensor<32x32xi64>, tensor<32x32xi64>) -> tensor<32x32xi1>
  %zero = kerf.constant dense<0.0> : tensor<f32>
  %low = kerf.constant dense<-3.40282347E+38> : tensor<f32>
  %zeros = kerf.broadcast_in_dim %zero {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<32x32xf32>
  %lows = kerf.broadcast_in_dim %low {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<32x32xf32>
  %mask = kerf.select %sees, %zeros, %lows : (tensor<32x32xi1>, tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %masks = kerf.broadcast_in_dim %mask {broadcast_dimensions = array<i64: 2, 3>} : (tensor<32x32xf32>) -> tensor<8x4x32x32xf32>
  %masked = kerf.add %scaled, %masks : (tensor<8x4x32x32xf32>, tensor<8x4x32x32xf32>) -> tensor<8x4x32x32xf32>
  %probabilities = kerf.softmax %masked {dimension = 3 : i64} : (tensor<8x4x32x32xf32>) -> tensor<8x4x32x32xf32>
  %o = kerf.dot_general %probabilities, %v {lhs_batching = array<i64: 0, 1>, rhs_batching = array<i64: 0, 1>, lhs_contracting = array<i64: 3>, rhs_contracting = array<i64: 2>} : (tensor<8x4x32x32xf32>, tensor<8x4x32x16xf32>) -> tensor<8x4x32x16xf32>
  %o1 = kerf.transpose %o {permutation = array<i64: 0, 2, 1, 3>} : (tensor<8x4x32x16xf32>) -> tensor<8x32x4x16xf32>
  %o2 = kerf.reshape %o1 : (tensor<8x32x4x16xf32>) -> tensor<256x64xf32>
  %pr = kerf.dot_general %o2, %p {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>} : (tensor<256x64xf32>, tensor<64x64xf32>) -> tensor<256x64xf32>
  %pbs = kerf.broadcast_in_dim %pb {broadcast_dimensions = array<i64: 1>} : (tensor<64xf32>) -> tensor<256x64xf32>
  %pr1 = kerf.add %pr, %pbs : (tensor<256x64xf32>, tensor<256x64xf32>) -> tensor<256x64xf32>
  %pr2 = kerf.reshape %pr1 : (tensor<256x64xf32>) -> tensor<8x32x64xf32>
  %res = kerf.add %pr2, %x : (tensor<8x32x64xf32>, tensor<8x32x64xf32>) -> tensor<8x32x64xf32>
  %ht = kerf.transpose %head {permutation = array<i64: 1, 0>} : (tensor<512x64xf32>) -> tensor<64x512xf32>
  %logits = kerf.dot_general %res, %ht {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 2>, rhs_contracting = array<i64: 0>} : (tensor<8x32x64xf32>, tensor<64x512xf32>) -> tensor<8x32x512xf32>
  %l2 = kerf.reshape %logits : (tensor<8x32x512xf32>) -> tensor<256x512xf32>
  %lab = kerf.reshape %labels : (tensor<8x32xi64>) -> tensor<256xi64>
  %nll, %lse = kerf.cross_entropy %l2, %lab {ignore_index = -100 : i64} : (tensor<256x512xf32>, tensor<256xi64>) -> (tensor<256xf32>, tensor<256xf32>)
  %ig = kerf.constant dense<-100> : tensor<i64>
  %igs = kerf.broadcast_in_dim %ig {broadcast_dimensions = array<i64>} : (tensor<i64>) -> tensor<256xi64>
  %cnt = kerf.compare %lab, %igs {direction = #kerf<comparison NE>} : (tensor<256xi64>, tensor<256xi64>) -> tensor<256xi1>
  %cf = kerf.convert %cnt : (tensor<256xi1>) -> tensor<256xf32>
  %n = kerf.reduce %cf {kind = #kerf<reduce_kind sum>, dimensions = array<i64: 0>} : (tensor<256xf32>) -> tensor<f32>
  %t = kerf.reduce %nll {kind = #kerf<reduce_kind sum>, dimensions = array<i64: 0>} : (tensor<256xf32>) -> tensor<f32>
  %loss = kerf.divide %t, %n : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// LLaMA's attention with rotary positions: weights are [out, in]; transposes are folded into products and move through
// the rotation.

// CHECK-LABEL: func.func @main
// CHECK-SAME: tensor<4x16x64xf32> {kerf.exported_shape = array<i64: 64, 64>, kerf.kind = "parameter", kerf.name = "q"}
// CHECK-SAME: tensor<2x16x64xf32> {kerf.exported_shape = array<i64: 32, 64>, kerf.kind = "parameter", kerf.name = "k"}
// CHECK-SAME: tensor<64x4x16xf32> {kerf.exported_shape = array<i64: 64, 64>, kerf.kind = "parameter", kerf.name = "o"}
// CHECK-SAME: tensor<32x16xf32> {kerf.exported_shape = array<i64: 1, 1, 32, 16>, kerf.kind = "constant", kerf.name = "sin"}
// CHECK-NOT: kerf.reshape
// CHECK-NOT: kerf.transpose
// CHECK: kerf.concatenate {{.*}} {dimension = 3 : i64} : (tensor<8x32x4x8xf32>, tensor<8x32x4x8xf32>)
// CHECK: kerf.attention {{.*}} : (tensor<8x32x4x16xf32>, tensor<8x32x2x16xf32>, tensor<8x32x2x16xf32>, tensor<8x1x32x32xf32>)
// CHECK-NEXT: kerf.dot_general {{.*}} rhs_contracting = array<i64: 1, 2>} : (tensor<8x32x4x16xf32>, tensor<64x4x16xf32>) -> tensor<8x32x64xf32>
// CHECK-NEXT: return
func.func @main(%x: tensor<8x32x64xf32>,
    %g: tensor<64xf32> {kerf.kind = "parameter", kerf.name = "ln.weight"},
    %wq: tensor<64x64xf32> {kerf.kind = "parameter", kerf.name = "q"}, %wk: tensor<32x64xf32> {kerf.kind = "parameter", kerf.name = "k"},
    %wv: tensor<32x64xf32> {kerf.kind = "parameter", kerf.name = "v"}, %wo: tensor<64x64xf32> {kerf.kind = "parameter", kerf.name = "o"},
    %cos: tensor<32x16xf32> {kerf.kind = "constant", kerf.name = "cos"}, %sin: tensor<1x1x32x16xf32> {kerf.kind = "constant", kerf.name = "sin"},
    %mask: tensor<8x1x32x32xf32> {kerf.kind = "constant", kerf.name = "mask"}) -> tensor<8x32x64xf32> {
  %two = kerf.constant dense<2.0> : tensor<f32>
  %twos = kerf.broadcast_in_dim %two {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<8x32x64xf32>
  %sq = kerf.power %x, %twos : (tensor<8x32x64xf32>, tensor<8x32x64xf32>) -> tensor<8x32x64xf32>
  %sum = kerf.reduce %sq {kind = #kerf<reduce_kind sum>, dimensions = array<i64: 2>} : (tensor<8x32x64xf32>) -> tensor<8x32xf32>
  %n = kerf.constant dense<64.0> : tensor<f32>
  %ns = kerf.broadcast_in_dim %n {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<8x32xf32>
  %mean = kerf.divide %sum, %ns : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x32xf32>
  %mk = kerf.reshape %mean : (tensor<8x32xf32>) -> tensor<8x32x1xf32>
  %eps = kerf.constant dense<1.0e-6> : tensor<f32>
  %epss = kerf.broadcast_in_dim %eps {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<8x32x1xf32>
  %me = kerf.add %mk, %epss : (tensor<8x32x1xf32>, tensor<8x32x1xf32>) -> tensor<8x32x1xf32>
  %rt = kerf.sqrt %me : (tensor<8x32x1xf32>) -> tensor<8x32x1xf32>
  %one = kerf.constant dense<1.0> : tensor<f32>
  %ones = kerf.broadcast_in_dim %one {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<8x32x1xf32>
  %rs = kerf.divide %ones, %rt : (tensor<8x32x1xf32>, tensor<8x32x1xf32>) -> tensor<8x32x1xf32>
  %rb = kerf.broadcast_in_dim %rs {broadcast_dimensions = array<i64: 0, 1, 2>} : (tensor<8x32x1xf32>) -> tensor<8x32x64xf32>
  %nx = kerf.multiply %x, %rb : (tensor<8x32x64xf32>, tensor<8x32x64xf32>) -> tensor<8x32x64xf32>
  %gb = kerf.broadcast_in_dim %g {broadcast_dimensions = array<i64: 2>} : (tensor<64xf32>) -> tensor<8x32x64xf32>
  %h = kerf.multiply %gb, %nx : (tensor<8x32x64xf32>, tensor<8x32x64xf32>) -> tensor<8x32x64xf32>
  %wqt = kerf.transpose %wq {permutation = array<i64: 1, 0>} : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %wkt = kerf.transpose %wk {permutation = array<i64: 1, 0>} : (tensor<32x64xf32>) -> tensor<64x32xf32>
  %wvt = kerf.transpose %wv {permutation = array<i64: 1, 0>} : (tensor<32x64xf32>) -> tensor<64x32xf32>
  %wot = kerf.transpose %wo {permutation = array<i64: 1, 0>} : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %q0 = kerf.dot_general %h, %wqt {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 2>, rhs_contracting = array<i64: 0>} : (tensor<8x32x64xf32>, tensor<64x64xf32>) -> tensor<8x32x64xf32>
  %k0 = kerf.dot_general %h, %wkt {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 2>, rhs_contracting = array<i64: 0>} : (tensor<8x32x64xf32>, tensor<64x32xf32>) -> tensor<8x32x32xf32>
  %v0 = kerf.dot_general %h, %wvt {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 2>, rhs_contracting = array<i64: 0>} : (tensor<8x32x64xf32>, tensor<64x32xf32>) -> tensor<8x32x32xf32>
  %q1 = kerf.reshape %q0 : (tensor<8x32x64xf32>) -> tensor<8x32x4x16xf32>
  %k1 = kerf.reshape %k0 : (tensor<8x32x32xf32>) -> tensor<8x32x2x16xf32>
  %v1 = kerf.reshape %v0 : (tensor<8x32x32xf32>) -> tensor<8x32x2x16xf32>
  %q = kerf.transpose %q1 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<8x32x4x16xf32>) -> tensor<8x4x32x16xf32>
  %k = kerf.transpose %k1 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<8x32x2x16xf32>) -> tensor<8x2x32x16xf32>
  %v = kerf.transpose %v1 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<8x32x2x16xf32>) -> tensor<8x2x32x16xf32>
  %cq = kerf.broadcast_in_dim %cos {broadcast_dimensions = array<i64: 2, 3>} : (tensor<32x16xf32>) -> tensor<8x4x32x16xf32>
  %sqb = kerf.broadcast_in_dim %sin {broadcast_dimensions = array<i64: 0, 1, 2, 3>} : (tensor<1x1x32x16xf32>) -> tensor<8x4x32x16xf32>
  %ck = kerf.broadcast_in_dim %cos {broadcast_dimensions = array<i64: 2, 3>} : (tensor<32x16xf32>) -> tensor<8x2x32x16xf32>
  %sk = kerf.broadcast_in_dim %sin {broadcast_dimensions = array<i64: 0, 1, 2, 3>} : (tensor<1x1x32x16xf32>) -> tensor<8x2x32x16xf32>
  %qa = kerf.multiply %q, %cq : (tensor<8x4x32x16xf32>, tensor<8x4x32x16xf32>) -> tensor<8x4x32x16xf32>
  %ql = kerf.slice %q {start = array<i64: 0, 0, 0, 0>, limit = array<i64: 8, 4, 32, 8>, strides = array<i64: 1, 1, 1, 1>} : (tensor<8x4x32x16xf32>) -> tensor<8x4x32x8xf32>
  %qh = kerf.slice %q {start = array<i64: 0, 0, 0, 8>, limit = array<i64: 8, 4, 32, 16>, strides = array<i64: 1, 1, 1, 1>} : (tensor<8x4x32x16xf32>) -> tensor<8x4x32x8xf32>
  %qn = kerf.negate %qh : (tensor<8x4x32x8xf32>) -> tensor<8x4x32x8xf32>
  %qc = kerf.concatenate %qn, %ql {dimension = 3 : i64} : (tensor<8x4x32x8xf32>, tensor<8x4x32x8xf32>) -> tensor<8x4x32x16xf32>
  %qb = kerf.multiply %qc, %sqb : (tensor<8x4x32x16xf32>, tensor<8x4x32x16xf32>) -> tensor<8x4x32x16xf32>
  %qr = kerf.add %qa, %qb : (tensor<8x4x32x16xf32>, tensor<8x4x32x16xf32>) -> tensor<8x4x32x16xf32>
  %ka = kerf.multiply %k, %ck : (tensor<8x2x32x16xf32>, tensor<8x2x32x16xf32>) -> tensor<8x2x32x16xf32>
  %kl = kerf.slice %k {start = array<i64: 0, 0, 0, 0>, limit = array<i64: 8, 2, 32, 8>, strides = array<i64: 1, 1, 1, 1>} : (tensor<8x2x32x16xf32>) -> tensor<8x2x32x8xf32>
  %kh = kerf.slice %k {start = array<i64: 0, 0, 0, 8>, limit = array<i64: 8, 2, 32, 16>, strides = array<i64: 1, 1, 1, 1>} : (tensor<8x2x32x16xf32>) -> tensor<8x2x32x8xf32>
  %kn = kerf.negate %kh : (tensor<8x2x32x8xf32>) -> tensor<8x2x32x8xf32>
  %kc = kerf.concatenate %kn, %kl {dimension = 3 : i64} : (tensor<8x2x32x8xf32>, tensor<8x2x32x8xf32>) -> tensor<8x2x32x16xf32>
  %kb = kerf.multiply %kc, %sk : (tensor<8x2x32x16xf32>, tensor<8x2x32x16xf32>) -> tensor<8x2x32x16xf32>
  %kr = kerf.add %ka, %kb : (tensor<8x2x32x16xf32>, tensor<8x2x32x16xf32>) -> tensor<8x2x32x16xf32>
  %ku = kerf.reshape %kr : (tensor<8x2x32x16xf32>) -> tensor<8x2x1x32x16xf32>
  %ke = kerf.broadcast_in_dim %ku {broadcast_dimensions = array<i64: 0, 1, 2, 3, 4>} : (tensor<8x2x1x32x16xf32>) -> tensor<8x2x2x32x16xf32>
  %ve = kerf.broadcast_in_dim %v {broadcast_dimensions = array<i64: 0, 1, 3, 4>} : (tensor<8x2x32x16xf32>) -> tensor<8x2x2x32x16xf32>
  %vv = kerf.reshape %ve : (tensor<8x2x2x32x16xf32>) -> tensor<8x4x32x16xf32>
  %k3 = kerf.reshape %ke : (tensor<8x2x2x32x16xf32>) -> tensor<32x32x16xf32>
  %k4 = kerf.transpose %k3 {permutation = array<i64: 0, 2, 1>} : (tensor<32x32x16xf32>) -> tensor<32x16x32xf32>
  %k5 = kerf.reshape %k4 : (tensor<32x16x32xf32>) -> tensor<8x4x16x32xf32>
  %half = kerf.constant dense<0.5> : tensor<f32>
  %halfq = kerf.broadcast_in_dim %half {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<8x4x32x16xf32>
  %halfk = kerf.broadcast_in_dim %half {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<8x4x16x32xf32>
  %qs = kerf.multiply %qr, %halfq : (tensor<8x4x32x16xf32>, tensor<8x4x32x16xf32>) -> tensor<8x4x32x16xf32>
  %ks = kerf.multiply %k5, %halfk : (tensor<8x4x16x32xf32>, tensor<8x4x16x32xf32>) -> tensor<8x4x16x32xf32>
  %s = kerf.dot_general %qs, %ks {lhs_batching = array<i64: 0, 1>, rhs_batching = array<i64: 0, 1>, lhs_contracting = array<i64: 3>, rhs_contracting = array<i64: 2>} : (tensor<8x4x32x16xf32>, tensor<8x4x16x32xf32>) -> tensor<8x4x32x32xf32>
  %mb = kerf.broadcast_in_dim %mask {broadcast_dimensions = array<i64: 0, 1, 2, 3>} : (tensor<8x1x32x32xf32>) -> tensor<8x4x32x32xf32>
  %sm = kerf.add %s, %mb : (tensor<8x4x32x32xf32>, tensor<8x4x32x32xf32>) -> tensor<8x4x32x32xf32>
  %p = kerf.softmax %sm {dimension = 3 : i64} : (tensor<8x4x32x32xf32>) -> tensor<8x4x32x32xf32>
  %nan = kerf.is_nan %p : (tensor<8x4x32x32xf32>) -> tensor<8x4x32x32xi1>
  %zero = kerf.constant dense<0.0> : tensor<f32>
  %zeros = kerf.broadcast_in_dim %zero {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<8x4x32x32xf32>
  %pg = kerf.select %nan, %zeros, %p : (tensor<8x4x32x32xi1>, tensor<8x4x32x32xf32>, tensor<8x4x32x32xf32>) -> tensor<8x4x32x32xf32>
  %o = kerf.dot_general %pg, %vv {lhs_batching = array<i64: 0, 1>, rhs_batching = array<i64: 0, 1>, lhs_contracting = array<i64: 3>, rhs_contracting = array<i64: 2>} : (tensor<8x4x32x32xf32>, tensor<8x4x32x16xf32>) -> tensor<8x4x32x16xf32>
  %o1 = kerf.transpose %o {permutation = array<i64: 0, 2, 1, 3>} : (tensor<8x4x32x16xf32>) -> tensor<8x32x4x16xf32>
  %o2 = kerf.reshape %o1 : (tensor<8x32x4x16xf32>) -> tensor<8x32x64xf32>
  %pr = kerf.dot_general %o2, %wot {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 2>, rhs_contracting = array<i64: 0>} : (tensor<8x32x64xf32>, tensor<64x64xf32>) -> tensor<8x32x64xf32>
  return %pr : tensor<8x32x64xf32>
}

// -----

// A tied table keeps its shape: the embedding needs two dimensions, so the split stays at the table's other use.

// CHECK-LABEL: func.func @main
// CHECK-SAME: tensor<16x8xf32> {kerf.kind = "parameter", kerf.name = "tied"}
// CHECK: kerf.embedding
// CHECK: kerf.dot_general {{.*}} -> tensor<4x16xf32>
// CHECK: kerf.reshape {{.*}} -> tensor<4x2x8xf32>
func.func @main(%ids: tensor<4xi64>, %w: tensor<16x8xf32> {kerf.kind = "parameter", kerf.name = "tied"}) -> tensor<4x2x8xf32> {
  %x = kerf.embedding %w, %ids {rows = 16 : i64} : (tensor<16x8xf32>, tensor<4xi64>) -> tensor<4x8xf32>
  %y = kerf.dot_general %x, %w {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 1>} : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
  %z = kerf.reshape %y : (tensor<4x16xf32>) -> tensor<4x2x8xf32>
  return %z : tensor<4x2x8xf32>
}

// -----

// Inputs keep the shape in which the user gives them. Indices of a merged batch need not be merged.

// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[IDS:[a-z0-9]+]]: tensor<2x3xi64> {kerf.kind = "input", kerf.name = "ids"}
// CHECK: %[[Y:.*]] = kerf.embedding %{{.*}}, %[[IDS]] {{.*}} -> tensor<2x3x8xf32>
// CHECK-NEXT: return %[[Y]]
func.func @main(%ids: tensor<2x3xi64> {kerf.kind = "input", kerf.name = "ids"}, %w: tensor<16x8xf32> {kerf.kind = "parameter", kerf.name = "w"}) -> tensor<2x3x8xf32> {
  %i = kerf.reshape %ids : (tensor<2x3xi64>) -> tensor<6xi64>
  %x = kerf.embedding %w, %i {rows = 16 : i64} : (tensor<16x8xf32>, tensor<6xi64>) -> tensor<6x8xf32>
  %y = kerf.reshape %x : (tensor<6x8xf32>) -> tensor<2x3x8xf32>
  return %y : tensor<2x3x8xf32>
}

// -----

// Shapes whose parts share no border stay as they are.

// CHECK-LABEL: func.func @main
// CHECK: kerf.tanh %{{.*}} : (tensor<2x3xf32>)
// CHECK-NEXT: kerf.reshape {{.*}} -> tensor<3x2xf32>
func.func @main(%x: tensor<2x3xf32> {kerf.kind = "parameter", kerf.name = "x"}) -> tensor<3x2xf32> {
  %0 = kerf.tanh %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = kerf.reshape %0 : (tensor<2x3xf32>) -> tensor<3x2xf32>
  return %1 : tensor<3x2xf32>
}

// -----

// Dropout depends on an element's index in row-major order: merges move below it, splits move above it, and a transpose
// stays where it is.

// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[W:[a-z0-9]+]]: tensor<2x3x4xf32> {kerf.exported_shape = array<i64: 6, 4>, kerf.kind = "parameter", kerf.name = "w"}
// CHECK: %[[D:.*]] = kerf.dropout %{{.*}} {rate = 1.000000e-01 : f64} : (tensor<2x3x4xf32>, tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<2x3x4xf32>
// CHECK-NEXT: %[[E:.*]] = kerf.dropout %[[W]], {{.*}} -> tensor<2x3x4xf32>
// CHECK-NEXT: %[[S:.*]] = kerf.add %[[D]], %[[E]] : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
// CHECK-NEXT: %[[T:.*]] = kerf.transpose %[[S]]
// CHECK-NEXT: %[[F:.*]] = kerf.dropout %[[T]]
// CHECK-NEXT: kerf.transpose %[[F]]
func.func @main(%x: tensor<2x3x4xf32> {kerf.kind = "input", kerf.name = "x"}, %w: tensor<6x4xf32> {kerf.kind = "parameter", kerf.name = "w"}, %n: tensor<i64>) -> tensor<2x3x4xf32> {
  %0 = kerf.reshape %x : (tensor<2x3x4xf32>) -> tensor<6x4xf32>
  %1 = kerf.dropout %0, %n, %n, %n {rate = 0.1 : f64} : (tensor<6x4xf32>, tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<6x4xf32>
  %2 = kerf.dropout %w, %n, %n, %n {rate = 0.1 : f64} : (tensor<6x4xf32>, tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<6x4xf32>
  %3 = kerf.add %1, %2 : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32>
  %4 = kerf.reshape %3 : (tensor<6x4xf32>) -> tensor<2x3x4xf32>
  %5 = kerf.transpose %4 {permutation = array<i64: 0, 2, 1>} : (tensor<2x3x4xf32>) -> tensor<2x4x3xf32>
  %6 = kerf.dropout %5, %n, %n, %n {rate = 0.1 : f64} : (tensor<2x4x3xf32>, tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<2x4x3xf32>
  %7 = kerf.transpose %6 {permutation = array<i64: 0, 2, 1>} : (tensor<2x4x3xf32>) -> tensor<2x3x4xf32>
  return %7 : tensor<2x3x4xf32>
}

// -----

// Channels that a reshape merged from two dimensions become these two, also in a running mean and in the result that
// replaces it after the step.

// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[M:[a-z0-9]+]]: tensor<2x3xf32> {kerf.exported_shape = array<i64: 6>, kerf.kind = "buffer", kerf.name = "mean", kerf.updated_by = 1 : i64}
// CHECK-SAME: -> (tensor<f32>, tensor<2x3xf32>)
// CHECK-NOT: kerf.reshape
// CHECK: %[[N:.*]] = kerf.add %[[M]], %{{.*}} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
// CHECK: return %{{.*}}, %[[N]] : tensor<f32>, tensor<2x3xf32>
func.func @main(%x: tensor<4x2x3xf32> {kerf.kind = "input", kerf.name = "x"},
                %m: tensor<6xf32> {kerf.kind = "buffer", kerf.name = "mean", kerf.updated_by = 1 : i64}) -> (tensor<f32>, tensor<6xf32>) {
  %0 = kerf.reshape %x : (tensor<4x2x3xf32>) -> tensor<4x6xf32>
  %1 = kerf.reduce %0 {dimensions = array<i64: 0>, kind = #kerf<reduce_kind sum>} : (tensor<4x6xf32>) -> tensor<6xf32>
  %2 = kerf.add %m, %1 : (tensor<6xf32>, tensor<6xf32>) -> tensor<6xf32>
  %3 = kerf.reduce %1 {dimensions = array<i64: 0>, kind = #kerf<reduce_kind sum>} : (tensor<6xf32>) -> tensor<f32>
  return %3, %2 : tensor<f32>, tensor<6xf32>
}
