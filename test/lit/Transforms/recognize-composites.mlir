// RUN: kerf-opt %s -split-input-file -kerf-recognize-composites | FileCheck %s

// GPT-2's eager attention: fused projection, scale on the scores, a causal mask from two indices.

// CHECK-LABEL: func.func @gpt2_eager_attention
// CHECK-NOT: kerf.softmax
// CHECK-NOT: kerf.iota
// CHECK: %[[Q0:.*]] = kerf.slice %[[V:.*]] {limit = array<i64: 8, 32, 64>
// CHECK: %[[K0:.*]] = kerf.slice %[[V]] {limit = array<i64: 8, 32, 128>
// CHECK: %[[V0:.*]] = kerf.slice %[[V]] {limit = array<i64: 8, 32, 192>
// CHECK: %[[K:.*]] = kerf.reshape %[[K0]]
// CHECK: %[[W:.*]] = kerf.reshape %[[V0]]
// CHECK: %[[Q:.*]] = kerf.reshape %[[Q0]]
// CHECK: kerf.attention %[[Q]], %[[K]], %[[W]] {causal, scale = 2.500000e-01 : f64}
// CHECK-SAME: -> (tensor<8x32x4x16xf32>, tensor<8x4x32xf32>)
func.func @gpt2_eager_attention(%x: tensor<8x32x64xf32>, %labels: tensor<8x32xi64>,
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

// LLaMA's export of scaled_dot_product_attention has the root of the scale on queries and on keys, keys and values
// repeated for groups of queries, keys transposed between reshapes, a mask from data, and the NaN guard. Its RMSNorm
// uses power, a mean by division, and 1 / sqrt.

// CHECK-LABEL: func.func @llama_sdpa_attention
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<8x32x64xf32>, %[[G:[a-z0-9]+]]: tensor<64xf32>
// CHECK-SAME: %[[MASK:[a-z0-9]+]]: tensor<8x1x32x32xf32> {kerf.kind = "constant", kerf.name = "mask"}
// CHECK: kerf.rms_norm %[[X]], %[[G]] {epsilon = 9.99{{.*}}E-7 : f64}
// CHECK-NOT: kerf.is_nan
// CHECK: kerf.attention %{{.*}}, %{{.*}}, %{{.*}}, %[[MASK]] {scale = 2.500000e-01 : f64}
// CHECK-SAME: (tensor<8x32x4x16xf32>, tensor<8x32x2x16xf32>, tensor<8x32x2x16xf32>, tensor<8x1x32x32xf32>)
func.func @llama_sdpa_attention(%x: tensor<8x32x64xf32>,
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

// Hugging Face's gelu_new is 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), with constants rounded to f32. Its x is
// itself a sum.

// CHECK-LABEL: func.func @gelu_by_power
// CHECK: %[[A:.*]] = kerf.add
// CHECK: %[[Y:.*]] = kerf.gelu %[[A]] {approximate}
// CHECK: return %[[Y]]
func.func @gelu_by_power(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %a = kerf.add %x, %x : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %half0 = kerf.constant dense<0.5> : tensor<f32>
  %half = kerf.broadcast_in_dim %half0 {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<4x8xf32>
  %three0 = kerf.constant dense<3.0> : tensor<f32>
  %three = kerf.broadcast_in_dim %three0 {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<4x8xf32>
  %c0 = kerf.constant dense<0.044714998> : tensor<f32>
  %c = kerf.broadcast_in_dim %c0 {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<4x8xf32>
  %s0 = kerf.constant dense<0.797884583> : tensor<f32>
  %s = kerf.broadcast_in_dim %s0 {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<4x8xf32>
  %one0 = kerf.constant dense<1.0> : tensor<f32>
  %one = kerf.broadcast_in_dim %one0 {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<4x8xf32>
  %h = kerf.multiply %a, %half : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %p = kerf.power %a, %three : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %pc = kerf.multiply %p, %c : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %i = kerf.add %a, %pc : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %si = kerf.multiply %i, %s : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %t = kerf.tanh %si : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %t1 = kerf.add %t, %one : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = kerf.multiply %h, %t1 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

// gelu_fast has sqrt(2/pi) x (1 + 0.044715 x x) inside of tanh, and its factors in another order.

// CHECK-LABEL: func.func @gelu_fast
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<4x8xf32>
// CHECK: kerf.gelu %[[X]] {approximate}
func.func @gelu_fast(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %half0 = kerf.constant dense<0.5> : tensor<f32>
  %half = kerf.broadcast_in_dim %half0 {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<4x8xf32>
  %c0 = kerf.constant dense<0.044715> : tensor<f32>
  %c = kerf.broadcast_in_dim %c0 {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<4x8xf32>
  %s0 = kerf.constant dense<0.7978845608> : tensor<f32>
  %s = kerf.broadcast_in_dim %s0 {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<4x8xf32>
  %one0 = kerf.constant dense<1.0> : tensor<f32>
  %one = kerf.broadcast_in_dim %one0 {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<4x8xf32>
  %xx = kerf.multiply %x, %x : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %cx = kerf.multiply %xx, %c : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %o = kerf.add %one, %cx : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %sx = kerf.multiply %x, %s : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %i = kerf.multiply %sx, %o : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %t = kerf.tanh %i : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %t1 = kerf.add %one, %t : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %tx = kerf.multiply %t1, %x : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = kerf.multiply %half, %tx : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

// x (1 + erf(x / sqrt(2))) / 2

// CHECK-LABEL: func.func @gelu_by_erf
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<4x8xf32>
// CHECK: kerf.gelu %[[X]] :
func.func @gelu_by_erf(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %r0 = kerf.constant dense<1.41421354> : tensor<f32>
  %r = kerf.broadcast_in_dim %r0 {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<4x8xf32>
  %one0 = kerf.constant dense<1.0> : tensor<f32>
  %one = kerf.broadcast_in_dim %one0 {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<4x8xf32>
  %half0 = kerf.constant dense<0.5> : tensor<f32>
  %half = kerf.broadcast_in_dim %half0 {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<4x8xf32>
  %d = kerf.divide %x, %r : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %e = kerf.erf %d : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %e1 = kerf.add %e, %one : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %xe = kerf.multiply %x, %e1 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = kerf.multiply %xe, %half : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

// With another cubic coefficient it is another function.

// CHECK-LABEL: func.func @no_gelu_with_another_constant
// CHECK-NOT: kerf.gelu
// CHECK: return
func.func @no_gelu_with_another_constant(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %half0 = kerf.constant dense<0.5> : tensor<f32>
  %half = kerf.broadcast_in_dim %half0 {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<4x8xf32>
  %c0 = kerf.constant dense<0.05> : tensor<f32>
  %c = kerf.broadcast_in_dim %c0 {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<4x8xf32>
  %s0 = kerf.constant dense<0.7978845608> : tensor<f32>
  %s = kerf.broadcast_in_dim %s0 {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<4x8xf32>
  %one0 = kerf.constant dense<1.0> : tensor<f32>
  %one = kerf.broadcast_in_dim %one0 {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<4x8xf32>
  %xx = kerf.multiply %x, %x : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %cx = kerf.multiply %xx, %c : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %o = kerf.add %one, %cx : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %sx = kerf.multiply %x, %s : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %i = kerf.multiply %sx, %o : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %t = kerf.tanh %i : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %t1 = kerf.add %one, %t : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %tx = kerf.multiply %t1, %x : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = kerf.multiply %half, %tx : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

// A layer_norm with the mean by multiplication with 1 / n, rsqrt, and scale and bias along the last dimension.

// CHECK-LABEL: func.func @layer_norm_by_rsqrt
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<4x8xf32>
// CHECK: %[[Y:.*]], %{{.*}}, %{{.*}} = kerf.layer_norm %[[X]], %[[W:.*]], %[[B:.*]] {epsilon = 9.99{{.*}}E-6 : f64}
// CHECK: return %[[Y]]
func.func @layer_norm_by_rsqrt(%x: tensor<4x8xf32>, %w: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<4x8xf32> {
  %n0 = kerf.constant dense<0.125> : tensor<f32>
  %n = kerf.broadcast_in_dim %n0 {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<4xf32>
  %s = kerf.reduce %x {kind = #kerf<reduce_kind sum>, dimensions = array<i64: 1>} : (tensor<4x8xf32>) -> tensor<4xf32>
  %m = kerf.multiply %s, %n : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %mb = kerf.broadcast_in_dim %m {broadcast_dimensions = array<i64: 0>} : (tensor<4xf32>) -> tensor<4x8xf32>
  %d = kerf.subtract %x, %mb : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %dd = kerf.multiply %d, %d : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %sd = kerf.reduce %dd {kind = #kerf<reduce_kind sum>, dimensions = array<i64: 1>} : (tensor<4x8xf32>) -> tensor<4xf32>
  %v = kerf.multiply %sd, %n : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %e0 = kerf.constant dense<1.0e-5> : tensor<f32>
  %e = kerf.broadcast_in_dim %e0 {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<4xf32>
  %ve = kerf.add %v, %e : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %r = kerf.rsqrt %ve : (tensor<4xf32>) -> tensor<4xf32>
  %rb = kerf.broadcast_in_dim %r {broadcast_dimensions = array<i64: 0>} : (tensor<4xf32>) -> tensor<4x8xf32>
  %nx = kerf.multiply %d, %rb : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %wb = kerf.broadcast_in_dim %w {broadcast_dimensions = array<i64: 1>} : (tensor<8xf32>) -> tensor<4x8xf32>
  %sc = kerf.multiply %nx, %wb : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %bb = kerf.broadcast_in_dim %b {broadcast_dimensions = array<i64: 1>} : (tensor<8xf32>) -> tensor<4x8xf32>
  %y = kerf.add %bb, %sc : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

// (x - mean) / sqrt(var + epsilon).

// CHECK-LABEL: func.func @layer_norm_by_divide
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<4x8xf32>
// CHECK: kerf.layer_norm %[[X]],
func.func @layer_norm_by_divide(%x: tensor<4x8xf32>, %w: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<4x8xf32> {
  %n0 = kerf.constant dense<0.125> : tensor<f32>
  %n = kerf.broadcast_in_dim %n0 {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<4xf32>
  %s = kerf.reduce %x {kind = #kerf<reduce_kind sum>, dimensions = array<i64: 1>} : (tensor<4x8xf32>) -> tensor<4xf32>
  %m = kerf.multiply %s, %n : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %mb = kerf.broadcast_in_dim %m {broadcast_dimensions = array<i64: 0>} : (tensor<4xf32>) -> tensor<4x8xf32>
  %d = kerf.subtract %x, %mb : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %dd = kerf.multiply %d, %d : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %sd = kerf.reduce %dd {kind = #kerf<reduce_kind sum>, dimensions = array<i64: 1>} : (tensor<4x8xf32>) -> tensor<4xf32>
  %v = kerf.multiply %sd, %n : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %e0 = kerf.constant dense<1.0e-5> : tensor<f32>
  %e = kerf.broadcast_in_dim %e0 {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<4xf32>
  %ve = kerf.add %v, %e : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %r = kerf.sqrt %ve : (tensor<4xf32>) -> tensor<4xf32>
  %rb = kerf.broadcast_in_dim %r {broadcast_dimensions = array<i64: 0>} : (tensor<4xf32>) -> tensor<4x8xf32>
  %nx = kerf.divide %d, %rb : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %wb = kerf.broadcast_in_dim %w {broadcast_dimensions = array<i64: 1>} : (tensor<8xf32>) -> tensor<4x8xf32>
  %sc = kerf.multiply %wb, %nx : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %bb = kerf.broadcast_in_dim %b {broadcast_dimensions = array<i64: 1>} : (tensor<8xf32>) -> tensor<4x8xf32>
  %y = kerf.add %sc, %bb : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

// A mean over fewer elements than the dimension has (n = 4 of 8) is no normalization.

// CHECK-LABEL: func.func @no_norm_of_another_mean
// CHECK-NOT: kerf.rms_norm
// CHECK: return
func.func @no_norm_of_another_mean(%x: tensor<4x8xf32>, %w: tensor<8xf32>) -> tensor<4x8xf32> {
  %n0 = kerf.constant dense<0.25> : tensor<f32>
  %n = kerf.broadcast_in_dim %n0 {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<4xf32>
  %xx = kerf.multiply %x, %x : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %s = kerf.reduce %xx {kind = #kerf<reduce_kind sum>, dimensions = array<i64: 1>} : (tensor<4x8xf32>) -> tensor<4xf32>
  %m = kerf.multiply %s, %n : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %e0 = kerf.constant dense<1.0e-5> : tensor<f32>
  %e = kerf.broadcast_in_dim %e0 {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<4xf32>
  %ve = kerf.add %m, %e : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %r = kerf.rsqrt %ve : (tensor<4xf32>) -> tensor<4xf32>
  %rb = kerf.broadcast_in_dim %r {broadcast_dimensions = array<i64: 0>} : (tensor<4xf32>) -> tensor<4x8xf32>
  %nx = kerf.multiply %x, %rb : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %wb = kerf.broadcast_in_dim %w {broadcast_dimensions = array<i64: 1>} : (tensor<8xf32>) -> tensor<4x8xf32>
  %y = kerf.multiply %nx, %wb : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

// Selected scores and keys that are not transposed, as a JAX model has them. The pass adds transposes around attention.

// CHECK-LABEL: func.func @causal_by_select
// CHECK-COUNT-3: kerf.transpose
// CHECK: kerf.attention %{{.*}}, %{{.*}}, %{{.*}} {causal, scale = 1.000000e+00 : f64}
func.func @causal_by_select(%q: tensor<2x2x4x8xf32>, %k: tensor<2x2x4x8xf32>, %v: tensor<2x2x4x8xf32>) -> tensor<2x2x4x8xf32> {
  %s = kerf.dot_general %q, %k {lhs_batching = array<i64: 0, 1>, rhs_batching = array<i64: 0, 1>, lhs_contracting = array<i64: 3>, rhs_contracting = array<i64: 3>} : (tensor<2x2x4x8xf32>, tensor<2x2x4x8xf32>) -> tensor<2x2x4x4xf32>
  %i = kerf.iota {dimension = 0 : i64} : () -> tensor<4x4xi64>
  %j = kerf.iota {dimension = 1 : i64} : () -> tensor<4x4xi64>
  %c = kerf.compare %i, %j {direction = #kerf<comparison GE>} : (tensor<4x4xi64>, tensor<4x4xi64>) -> tensor<4x4xi1>
  %cb = kerf.broadcast_in_dim %c {broadcast_dimensions = array<i64: 2, 3>} : (tensor<4x4xi1>) -> tensor<2x2x4x4xi1>
  %low = kerf.constant dense<0xFF800000> : tensor<f32>
  %lows = kerf.broadcast_in_dim %low {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<2x2x4x4xf32>
  %m = kerf.select %cb, %s, %lows : (tensor<2x2x4x4xi1>, tensor<2x2x4x4xf32>, tensor<2x2x4x4xf32>) -> tensor<2x2x4x4xf32>
  %p = kerf.softmax %m {dimension = 3 : i64} : (tensor<2x2x4x4xf32>) -> tensor<2x2x4x4xf32>
  %y = kerf.dot_general %p, %v {lhs_batching = array<i64: 0, 1>, rhs_batching = array<i64: 0, 1>, lhs_contracting = array<i64: 3>, rhs_contracting = array<i64: 2>} : (tensor<2x2x4x4xf32>, tensor<2x2x4x8xf32>) -> tensor<2x2x4x8xf32>
  return %y : tensor<2x2x4x8xf32>
}

// -----

// Where a query does not attend to itself, the mask stays an operand, with batch and head size 1 as
// before its broadcast.

// CHECK-LABEL: func.func @a_strict_mask_is_no_causal_one
// CHECK: %[[C:.*]] = kerf.compare
// CHECK: %[[M:.*]] = kerf.reshape %[[C]] : (tensor<4x4xi1>) -> tensor<1x1x4x4xi1>
// CHECK: kerf.attention %{{.*}}, %{{.*}}, %{{.*}}, %[[M]] {scale = 1.000000e+00 : f64}
func.func @a_strict_mask_is_no_causal_one(%q: tensor<2x2x4x8xf32>, %k: tensor<2x2x4x8xf32>, %v: tensor<2x2x4x8xf32>) -> tensor<2x2x4x8xf32> {
  %s = kerf.dot_general %q, %k {lhs_batching = array<i64: 0, 1>, rhs_batching = array<i64: 0, 1>, lhs_contracting = array<i64: 3>, rhs_contracting = array<i64: 3>} : (tensor<2x2x4x8xf32>, tensor<2x2x4x8xf32>) -> tensor<2x2x4x4xf32>
  %i = kerf.iota {dimension = 0 : i64} : () -> tensor<4x4xi64>
  %j = kerf.iota {dimension = 1 : i64} : () -> tensor<4x4xi64>
  %c = kerf.compare %i, %j {direction = #kerf<comparison GT>} : (tensor<4x4xi64>, tensor<4x4xi64>) -> tensor<4x4xi1>
  %cb = kerf.broadcast_in_dim %c {broadcast_dimensions = array<i64: 2, 3>} : (tensor<4x4xi1>) -> tensor<2x2x4x4xi1>
  %low = kerf.constant dense<0xFF800000> : tensor<f32>
  %lows = kerf.broadcast_in_dim %low {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<2x2x4x4xf32>
  %m = kerf.select %cb, %s, %lows : (tensor<2x2x4x4xi1>, tensor<2x2x4x4xf32>, tensor<2x2x4x4xf32>) -> tensor<2x2x4x4xf32>
  %p = kerf.softmax %m {dimension = 3 : i64} : (tensor<2x2x4x4xf32>) -> tensor<2x2x4x4xf32>
  %y = kerf.dot_general %p, %v {lhs_batching = array<i64: 0, 1>, rhs_batching = array<i64: 0, 1>, lhs_contracting = array<i64: 3>, rhs_contracting = array<i64: 2>} : (tensor<2x2x4x4xf32>, tensor<2x2x4x8xf32>) -> tensor<2x2x4x8xf32>
  return %y : tensor<2x2x4x8xf32>
}

// -----

// An attention that is already one op (ONNX opset 23), but has repeated keys and values for each group, and a causal
// mask as data.

// CHECK-LABEL: func.func @attention_with_repeated_keys
// CHECK-SAME: %[[Q:[a-z0-9]+]]: tensor<2x4x4x8xf32>, %[[K:[a-z0-9]+]]: tensor<2x2x4x8xf32>
// CHECK: %[[T:.*]] = kerf.transpose %[[K]] {permutation = array<i64: 0, 2, 1, 3>}
// CHECK: kerf.attention %[[Q]], %[[T]], %{{.*}} {causal, scale = 5.000000e-01 : f64} : (tensor<2x4x4x8xf32>, tensor<2x4x2x8xf32>, tensor<2x4x2x8xf32>)
func.func @attention_with_repeated_keys(%q: tensor<2x4x4x8xf32>, %k: tensor<2x2x4x8xf32>) -> tensor<2x4x4x8xf32> {
  %0 = kerf.broadcast_in_dim %k {broadcast_dimensions = array<i64: 0, 1, 3, 4>} : (tensor<2x2x4x8xf32>) -> tensor<2x2x2x4x8xf32>
  %1 = kerf.reshape %0 : (tensor<2x2x2x4x8xf32>) -> tensor<2x4x4x8xf32>
  %2 = kerf.transpose %1 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x4x4x8xf32>) -> tensor<2x4x4x8xf32>
  %mask = kerf.constant dense<[[[[true, false, false, false], [true, true, false, false], [true, true, true, false], [true, true, true, true]]]]> : tensor<1x1x4x4xi1>
  %y, %lse = kerf.attention %q, %2, %2, %mask {scale = 0.5 : f64} : (tensor<2x4x4x8xf32>, tensor<2x4x4x8xf32>, tensor<2x4x4x8xf32>, tensor<1x1x4x4xi1>) -> (tensor<2x4x4x8xf32>, tensor<2x4x4xf32>)
  return %y : tensor<2x4x4x8xf32>
}

// -----

// A trained mask (a relative position bias) needs a gradient, which the attention op would not compute.

// CHECK-LABEL: func.func @a_trained_mask
// CHECK-NOT: kerf.attention
// CHECK: kerf.softmax
func.func @a_trained_mask(%q: tensor<2x2x4x8xf32>, %bias: tensor<2x4x4xf32> {kerf.kind = "parameter", kerf.name = "relative_position", kerf.trainable}) -> tensor<2x2x4x8xf32> {
  %s = kerf.dot_general %q, %q {lhs_batching = array<i64: 0, 1>, rhs_batching = array<i64: 0, 1>, lhs_contracting = array<i64: 3>, rhs_contracting = array<i64: 3>} : (tensor<2x2x4x8xf32>, tensor<2x2x4x8xf32>) -> tensor<2x2x4x4xf32>
  %b = kerf.broadcast_in_dim %bias {broadcast_dimensions = array<i64: 1, 2, 3>} : (tensor<2x4x4xf32>) -> tensor<2x2x4x4xf32>
  %m = kerf.add %s, %b : (tensor<2x2x4x4xf32>, tensor<2x2x4x4xf32>) -> tensor<2x2x4x4xf32>
  %p = kerf.softmax %m {dimension = 3 : i64} : (tensor<2x2x4x4xf32>) -> tensor<2x2x4x4xf32>
  %y = kerf.dot_general %p, %q {lhs_batching = array<i64: 0, 1>, rhs_batching = array<i64: 0, 1>, lhs_contracting = array<i64: 3>, rhs_contracting = array<i64: 2>} : (tensor<2x2x4x4xf32>, tensor<2x2x4x8xf32>) -> tensor<2x2x4x8xf32>
  return %y : tensor<2x2x4x8xf32>
}

// -----

// A mask that a layer gets from @main may be trained.

// CHECK-LABEL: func.func private @a_mask_from_outside
// CHECK-NOT: kerf.attention
// CHECK: kerf.softmax
func.func private @a_mask_from_outside(%q: tensor<2x2x4x8xf32>, %bias: tensor<2x4x4xf32>) -> tensor<2x2x4x8xf32> {
  %s = kerf.dot_general %q, %q {lhs_batching = array<i64: 0, 1>, rhs_batching = array<i64: 0, 1>, lhs_contracting = array<i64: 3>, rhs_contracting = array<i64: 3>} : (tensor<2x2x4x8xf32>, tensor<2x2x4x8xf32>) -> tensor<2x2x4x4xf32>
  %b = kerf.broadcast_in_dim %bias {broadcast_dimensions = array<i64: 1, 2, 3>} : (tensor<2x4x4xf32>) -> tensor<2x2x4x4xf32>
  %m = kerf.add %s, %b : (tensor<2x2x4x4xf32>, tensor<2x2x4x4xf32>) -> tensor<2x2x4x4xf32>
  %p = kerf.softmax %m {dimension = 3 : i64} : (tensor<2x2x4x4xf32>) -> tensor<2x2x4x4xf32>
  %y = kerf.dot_general %p, %q {lhs_batching = array<i64: 0, 1>, rhs_batching = array<i64: 0, 1>, lhs_contracting = array<i64: 3>, rhs_contracting = array<i64: 2>} : (tensor<2x2x4x4xf32>, tensor<2x2x4x8xf32>) -> tensor<2x2x4x8xf32>
  return %y : tensor<2x2x4x8xf32>
}

// -----

// CHECK-LABEL: func.func @softmax_written_out
// CHECK: %[[Y:.*]] = kerf.softmax %arg0 {dimension = 1 : i64}
// CHECK: return %[[Y]]
func.func @softmax_written_out(%x: tensor<4x8x3xf32>) -> tensor<4x8x3xf32> {
  %lowest = kerf.constant dense<0xFF800000> : tensor<f32>
  %m = kerf.reduce %x {kind = #kerf<reduce_kind max>, dimensions = array<i64: 1>} : (tensor<4x8x3xf32>) -> tensor<4x3xf32>
  %l = kerf.broadcast_in_dim %lowest {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<4x3xf32>
  %m1 = kerf.maximum %l, %m : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  %m2 = kerf.reshape %m1 : (tensor<4x3xf32>) -> tensor<4x1x3xf32>
  %m3 = kerf.broadcast_in_dim %m2 {broadcast_dimensions = array<i64: 0, 1, 2>} : (tensor<4x1x3xf32>) -> tensor<4x8x3xf32>
  %d = kerf.subtract %x, %m3 : (tensor<4x8x3xf32>, tensor<4x8x3xf32>) -> tensor<4x8x3xf32>
  %e = kerf.exponential %d : (tensor<4x8x3xf32>) -> tensor<4x8x3xf32>
  %s = kerf.reduce %e {kind = #kerf<reduce_kind sum>, dimensions = array<i64: 1>} : (tensor<4x8x3xf32>) -> tensor<4x3xf32>
  %s1 = kerf.broadcast_in_dim %s {broadcast_dimensions = array<i64: 0, 2>} : (tensor<4x3xf32>) -> tensor<4x8x3xf32>
  %y = kerf.divide %e, %s1 : (tensor<4x8x3xf32>, tensor<4x8x3xf32>) -> tensor<4x8x3xf32>
  return %y : tensor<4x8x3xf32>
}

// -----

// The sum and the maximum run over different dimensions.
// CHECK-LABEL: func.func @no_softmax_of_two_dimensions
// CHECK-NOT: kerf.softmax
func.func @no_softmax_of_two_dimensions(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %m = kerf.reduce %x {kind = #kerf<reduce_kind max>, dimensions = array<i64: 1>} : (tensor<4x4xf32>) -> tensor<4xf32>
  %m1 = kerf.broadcast_in_dim %m {broadcast_dimensions = array<i64: 0>} : (tensor<4xf32>) -> tensor<4x4xf32>
  %d = kerf.subtract %x, %m1 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %e = kerf.exponential %d : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %s = kerf.reduce %e {kind = #kerf<reduce_kind sum>, dimensions = array<i64: 0>} : (tensor<4x4xf32>) -> tensor<4xf32>
  %s1 = kerf.broadcast_in_dim %s {broadcast_dimensions = array<i64: 1>} : (tensor<4xf32>) -> tensor<4x4xf32>
  %y = kerf.divide %e, %s1 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %y : tensor<4x4xf32>
}

// -----

// JAX: einsum("bqhd,bkhd->bhqk"), then values times probabilities.
// CHECK-LABEL: func.func @attention_with_values_first
// CHECK: %[[OUT:.*]], %{{.*}} = kerf.attention %arg0, %arg1, %arg2 {scale = 5.000000e-01 : f64}
// CHECK: kerf.transpose %[[OUT]] {permutation = array<i64: 0, 2, 3, 1>}
func.func @attention_with_values_first(%q: tensor<2x5x3x4xf32>, %k: tensor<2x6x3x4xf32>, %v: tensor<2x6x3x7xf32>) -> tensor<2x3x7x5xf32> {
  %two = kerf.constant dense<2.0> : tensor<f32>
  %s = kerf.dot_general %q, %k {lhs_batching = array<i64: 0, 2>, rhs_batching = array<i64: 0, 2>, lhs_contracting = array<i64: 3>, rhs_contracting = array<i64: 3>}
      : (tensor<2x5x3x4xf32>, tensor<2x6x3x4xf32>) -> tensor<2x3x5x6xf32>
  %t = kerf.broadcast_in_dim %two {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<2x3x5x6xf32>
  %d = kerf.divide %s, %t : (tensor<2x3x5x6xf32>, tensor<2x3x5x6xf32>) -> tensor<2x3x5x6xf32>
  %p = kerf.softmax %d {dimension = 3 : i64} : (tensor<2x3x5x6xf32>) -> tensor<2x3x5x6xf32>
  %o = kerf.dot_general %v, %p {lhs_batching = array<i64: 0, 2>, rhs_batching = array<i64: 0, 1>, lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 3>}
      : (tensor<2x6x3x7xf32>, tensor<2x3x5x6xf32>) -> tensor<2x3x7x5xf32>
  return %o : tensor<2x3x7x5xf32>
}

// -----

// CHECK-LABEL: func.func @gelu_by_erfc
// CHECK: %[[Y:.*]] = kerf.gelu %arg0 :
// CHECK: return %[[Y]]
func.func @gelu_by_erfc(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %half = kerf.constant dense<0.5> : tensor<4x8xf32>
  %one = kerf.constant dense<1.0> : tensor<4x8xf32>
  %root = kerf.constant dense<0.707106769> : tensor<4x8xf32>
  %h = kerf.multiply %half, %x : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %n = kerf.negate %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %i = kerf.multiply %n, %root : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %e = kerf.erf %i : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %c = kerf.subtract %one, %e : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = kerf.multiply %h, %c : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

// -log_softmax(x).gather(y), where a label may count from the end.

// CHECK-LABEL: func.func @gather_in_log_softmax
// CHECK-NOT: kerf.exponential
// CHECK: %[[Y:.*]] = kerf.reshape %arg1 : (tensor<8x1xi64>) -> tensor<8xi64>
// CHECK: %[[LABELS:.*]] = kerf.select
// CHECK: %[[NLL:.*]], %{{.*}} = kerf.cross_entropy %arg0, %[[LABELS]] {ignore_index = -100 : i64}
// CHECK: %[[PICKED:.*]] = kerf.negate %[[NLL]]
// CHECK: kerf.reshape %[[PICKED]] : (tensor<8xf32>) -> tensor<8x1xf32>
// CHECK-NOT: kerf.take_along
func.func @gather_in_log_softmax(%x: tensor<8x13xf32>, %y: tensor<8x1xi64>) -> tensor<8x1xf32> {
  %most = kerf.reduce %x {kind = #kerf<reduce_kind max>, dimensions = array<i64: 1>} : (tensor<8x13xf32>) -> tensor<8xf32>
  %most1 = kerf.reshape %most : (tensor<8xf32>) -> tensor<8x1xf32>
  %mosts = kerf.broadcast_in_dim %most1 {broadcast_dimensions = array<i64: 0, 1>} : (tensor<8x1xf32>) -> tensor<8x13xf32>
  %shifted = kerf.subtract %x, %mosts : (tensor<8x13xf32>, tensor<8x13xf32>) -> tensor<8x13xf32>
  %e = kerf.exponential %shifted : (tensor<8x13xf32>) -> tensor<8x13xf32>
  %sum = kerf.reduce %e {kind = #kerf<reduce_kind sum>, dimensions = array<i64: 1>} : (tensor<8x13xf32>) -> tensor<8xf32>
  %log = kerf.log %sum : (tensor<8xf32>) -> tensor<8xf32>
  %logs = kerf.broadcast_in_dim %log {broadcast_dimensions = array<i64: 0>} : (tensor<8xf32>) -> tensor<8x13xf32>
  %z = kerf.subtract %shifted, %logs : (tensor<8x13xf32>, tensor<8x13xf32>) -> tensor<8x13xf32>
  %picked = kerf.take_along %z, %y {batch_dims = 1 : i64, size = 13 : i64} : (tensor<8x13xf32>, tensor<8x1xi64>) -> tensor<8x1xf32>
  return %picked : tensor<8x1xf32>
}

// -----

// The classes are another dimension, only a part of the sequence is read, and log(softmax(x)) is used: the logits are
// moved in the same way.

// CHECK-LABEL: func.func @moved_log_softmax
// CHECK: %[[PART:.*]] = kerf.slice %arg0 {limit = array<i64: 2, 13, 3>
// CHECK: %[[LAST:.*]] = kerf.transpose %[[PART]] {permutation = array<i64: 0, 2, 1>}
// CHECK: kerf.cross_entropy %[[LAST]], %{{.*}} : (tensor<2x3x13xf32>, tensor<2x3xi64>)
// CHECK-NOT: kerf.softmax
func.func @moved_log_softmax(%x: tensor<2x13x4xf32>, %y: tensor<2x3x1xi64>) -> tensor<2x3x1xf32> {
  %p = kerf.softmax %x {dimension = 1 : i64} : (tensor<2x13x4xf32>) -> tensor<2x13x4xf32>
  %z = kerf.log %p : (tensor<2x13x4xf32>) -> tensor<2x13x4xf32>
  %n = kerf.negate %z : (tensor<2x13x4xf32>) -> tensor<2x13x4xf32>
  %part = kerf.slice %n {start = array<i64: 0, 0, 0>, limit = array<i64: 2, 13, 3>, strides = array<i64: 1, 1, 1>} : (tensor<2x13x4xf32>) -> tensor<2x13x3xf32>
  %last = kerf.transpose %part {permutation = array<i64: 0, 2, 1>} : (tensor<2x13x3xf32>) -> tensor<2x3x13xf32>
  %picked = kerf.take_along %last, %y {batch_dims = 2 : i64, size = 13 : i64} : (tensor<2x3x13xf32>, tensor<2x3x1xi64>) -> tensor<2x3x1xf32>
  return %picked : tensor<2x3x1xf32>
}

// -----

// The sum over a one-hot mask, and over all rows. A label that is no class has no 1 in its row.

// CHECK-LABEL: func.func @one_hot_mask
// CHECK: kerf.constant dense<-100> : tensor<i64>
// CHECK: %[[NLL:.*]], %{{.*}} = kerf.cross_entropy %arg0
// CHECK: %[[Z:.*]] = kerf.negate %[[NLL]]
// CHECK: kerf.reduce %[[Z]] {dimensions = array<i64: 0>, kind = #kerf<reduce_kind sum>} : (tensor<8xf32>) -> tensor<f32>
func.func @one_hot_mask(%x: tensor<8x13xf32>, %y: tensor<8xi64>) -> tensor<f32> {
  %p = kerf.softmax %x {dimension = 1 : i64} : (tensor<8x13xf32>) -> tensor<8x13xf32>
  %z = kerf.log %p : (tensor<8x13xf32>) -> tensor<8x13xf32>
  %classes = kerf.iota {dimension = 1 : i64} : () -> tensor<8x13xi64>
  %labels = kerf.broadcast_in_dim %y {broadcast_dimensions = array<i64: 0>} : (tensor<8xi64>) -> tensor<8x13xi64>
  %is = kerf.compare %labels, %classes {direction = #kerf<comparison EQ>} : (tensor<8x13xi64>, tensor<8x13xi64>) -> tensor<8x13xi1>
  %hot = kerf.convert %is : (tensor<8x13xi1>) -> tensor<8x13xf32>
  %terms = kerf.multiply %hot, %z : (tensor<8x13xf32>, tensor<8x13xf32>) -> tensor<8x13xf32>
  %sum = kerf.reduce %terms {kind = #kerf<reduce_kind sum>, dimensions = array<i64: 0, 1>} : (tensor<8x13xf32>) -> tensor<f32>
  return %sum : tensor<f32>
}

// -----

// logsumexp(x) - x.gather(y).

// CHECK-LABEL: func.func @difference
// CHECK: %[[NLL:.*]], %{{.*}} = kerf.cross_entropy %arg0
// CHECK-NEXT: return %[[NLL]]
func.func @difference(%x: tensor<8x13xf32>, %y: tensor<8x1xi32>) -> tensor<8xf32> {
  %most = kerf.reduce %x {kind = #kerf<reduce_kind max>, dimensions = array<i64: 1>} : (tensor<8x13xf32>) -> tensor<8xf32>
  %mosts = kerf.broadcast_in_dim %most {broadcast_dimensions = array<i64: 0>} : (tensor<8xf32>) -> tensor<8x13xf32>
  %shifted = kerf.subtract %x, %mosts : (tensor<8x13xf32>, tensor<8x13xf32>) -> tensor<8x13xf32>
  %e = kerf.exponential %shifted : (tensor<8x13xf32>) -> tensor<8x13xf32>
  %sum = kerf.reduce %e {kind = #kerf<reduce_kind sum>, dimensions = array<i64: 1>} : (tensor<8x13xf32>) -> tensor<8xf32>
  %log = kerf.log %sum : (tensor<8xf32>) -> tensor<8xf32>
  %lse = kerf.add %log, %most : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %picked = kerf.take_along %x, %y {batch_dims = 1 : i64, size = 13 : i64} : (tensor<8x13xf32>, tensor<8x1xi32>) -> tensor<8x1xf32>
  %row = kerf.reshape %picked : (tensor<8x1xf32>) -> tensor<8xf32>
  %nll = kerf.subtract %lse, %row : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %nll : tensor<8xf32>
}

// -----

// No cross entropy: two lookups for each row, a shift that differs from the one added afterwards, and
// log-sum-exp over rows.

// CHECK-LABEL: func.func @no_cross_entropy
// CHECK-NOT: kerf.cross_entropy
func.func @no_cross_entropy(%x: tensor<13x13xf32>, %y: tensor<13x2xi64>, %y1: tensor<13x1xi64>, %s: tensor<13xf32>) -> (tensor<13x2xf32>, tensor<13xf32>, tensor<13x1xf32>) {
  %p = kerf.softmax %x {dimension = 1 : i64} : (tensor<13x13xf32>) -> tensor<13x13xf32>
  %z = kerf.log %p : (tensor<13x13xf32>) -> tensor<13x13xf32>
  %two = kerf.take_along %z, %y {batch_dims = 1 : i64, size = 13 : i64} : (tensor<13x13xf32>, tensor<13x2xi64>) -> tensor<13x2xf32>
  %shifts = kerf.broadcast_in_dim %s {broadcast_dimensions = array<i64: 0>} : (tensor<13xf32>) -> tensor<13x13xf32>
  %shifted = kerf.subtract %x, %shifts : (tensor<13x13xf32>, tensor<13x13xf32>) -> tensor<13x13xf32>
  %e = kerf.exponential %shifted : (tensor<13x13xf32>) -> tensor<13x13xf32>
  %sum = kerf.reduce %e {kind = #kerf<reduce_kind sum>, dimensions = array<i64: 1>} : (tensor<13x13xf32>) -> tensor<13xf32>
  %log = kerf.log %sum : (tensor<13xf32>) -> tensor<13xf32>
  %picked = kerf.take_along %x, %y1 {batch_dims = 1 : i64, size = 13 : i64} : (tensor<13x13xf32>, tensor<13x1xi64>) -> tensor<13x1xf32>
  %row = kerf.reshape %picked : (tensor<13x1xf32>) -> tensor<13xf32>
  %unshifted = kerf.subtract %log, %row : (tensor<13xf32>, tensor<13xf32>) -> tensor<13xf32>
  %columns = kerf.softmax %x {dimension = 0 : i64} : (tensor<13x13xf32>) -> tensor<13x13xf32>
  %logs = kerf.log %columns : (tensor<13x13xf32>) -> tensor<13x13xf32>
  %other = kerf.take_along %logs, %y1 {batch_dims = 1 : i64, size = 13 : i64} : (tensor<13x13xf32>, tensor<13x1xi64>) -> tensor<13x1xf32>
  return %two, %unshifted, %other : tensor<13x2xf32>, tensor<13xf32>, tensor<13x1xf32>
}
