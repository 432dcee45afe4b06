// terngrad: -1, 0 or 1 times the block's largest absolute value, at random so that the mean is the element, after
// elements beyond 2.5 root mean squares are cut (Wen et al. 2017).
module @terngrad attributes {kerf.codec = {block = 1024 : i64}} {
  func.func @encode(%x: tensor<1024xf32>, %key: tensor<i32>) -> (tensor<256xi8>, tensor<f32>) {
    %square = kerf.multiply %x, %x : (tensor<1024xf32>, tensor<1024xf32>) -> tensor<1024xf32>
    %sum = kerf.reduce %square {kind = #kerf<reduce_kind sum>, dimensions = array<i64: 0>} : (tensor<1024xf32>) -> tensor<f32>
    %count = kerf.constant dense<1024.0> : tensor<f32>
    %variance = kerf.divide %sum, %count : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %rms = kerf.sqrt %variance : (tensor<f32>) -> tensor<f32>
    %times = kerf.constant dense<2.5> : tensor<f32>
    %bound = kerf.multiply %rms, %times : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %highest = kerf.broadcast_in_dim %bound {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<1024xf32>
    %abs = kerf.abs %x : (tensor<1024xf32>) -> tensor<1024xf32>
    %cut = kerf.minimum %abs, %highest : (tensor<1024xf32>, tensor<1024xf32>) -> tensor<1024xf32>
    %size = kerf.reduce %cut {kind = #kerf<reduce_kind max>, dimensions = array<i64: 0>} : (tensor<1024xf32>) -> tensor<f32>
    %tiny = kerf.constant dense<1.0e-30> : tensor<f32>
    %zero = kerf.constant dense<0.0> : tensor<f32>
    %none = kerf.compare %size, %tiny {direction = #kerf<comparison LT>} : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %one_only = kerf.constant dense<1.0> : tensor<f32>
    %inverse = kerf.divide %one_only, %size : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %factor = kerf.select %none, %zero, %inverse : (tensor<i1>, tensor<f32>, tensor<f32>) -> tensor<f32>
    %factors = kerf.broadcast_in_dim %factor {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<1024xf32>
    %chance = kerf.multiply %cut, %factors : (tensor<1024xf32>, tensor<1024xf32>) -> tensor<1024xf32>
    %keys = kerf.broadcast_in_dim %key {broadcast_dimensions = array<i64>} : (tensor<i32>) -> tensor<1024xi32>
    %u = kerf.random %keys : (tensor<1024xi32>) -> tensor<1024xf32>
    %sent = kerf.compare %u, %chance {direction = #kerf<comparison LT>} : (tensor<1024xf32>, tensor<1024xf32>) -> tensor<1024xi1>
    %magnitude = kerf.convert %sent : (tensor<1024xi1>) -> tensor<1024xf32>
    %sign = kerf.sign %x : (tensor<1024xf32>) -> tensor<1024xf32>
    %signed = kerf.multiply %sign, %magnitude : (tensor<1024xf32>, tensor<1024xf32>) -> tensor<1024xf32>
    %one_one = kerf.constant dense<1.0> : tensor<f32>
    %one = kerf.broadcast_in_dim %one_one {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<1024xf32>
    %moved = kerf.add %signed, %one : (tensor<1024xf32>, tensor<1024xf32>) -> tensor<1024xf32>
    %codes = kerf.convert %moved : (tensor<1024xf32>) -> tensor<1024xi8>
    %packed = kerf.pack %codes {bits = 2 : i64} : (tensor<1024xi8>) -> tensor<256xi8>
    %step = kerf.select %none, %zero, %size : (tensor<i1>, tensor<f32>, tensor<f32>) -> tensor<f32>
    return %packed, %step : tensor<256xi8>, tensor<f32>
  }
  func.func @decode(%packed: tensor<256xi8>, %step: tensor<f32>) -> tensor<1024xf32> {
    %codes = kerf.unpack %packed {bits = 2 : i64} : (tensor<256xi8>) -> tensor<1024xi8>
    %moved = kerf.convert %codes : (tensor<1024xi8>) -> tensor<1024xf32>
    %one_one = kerf.constant dense<1.0> : tensor<f32>
    %one = kerf.broadcast_in_dim %one_one {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<1024xf32>
    %code = kerf.subtract %moved, %one : (tensor<1024xf32>, tensor<1024xf32>) -> tensor<1024xf32>
    %steps = kerf.broadcast_in_dim %step {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<1024xf32>
    %x = kerf.multiply %code, %steps : (tensor<1024xf32>, tensor<1024xf32>) -> tensor<1024xf32>
    return %x : tensor<1024xf32>
  }
}
