// int4: whole multiples of 1/7 of the block's largest absolute value, rounded up or down at random so that the mean is
// the element; two in a byte. A block whose elements are all below 1e-30 counts as zeros.
module @int4 attributes {kerf.codec = {block = 256 : i64}} {
  func.func @encode(%x: tensor<256xf32>, %key: tensor<i32>) -> (tensor<128xi8>, tensor<f32>) {
    %abs = kerf.abs %x : (tensor<256xf32>) -> tensor<256xf32>
    %size = kerf.reduce %abs {kind = #kerf<reduce_kind max>, dimensions = array<i64: 0>} : (tensor<256xf32>) -> tensor<f32>
    %levels = kerf.constant dense<7.0> : tensor<f32>
    %tiny = kerf.constant dense<1.0e-30> : tensor<f32>
    %zero = kerf.constant dense<0.0> : tensor<f32>
    %none = kerf.compare %size, %tiny {direction = #kerf<comparison LT>} : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %quotient = kerf.divide %levels, %size : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %factor = kerf.select %none, %zero, %quotient : (tensor<i1>, tensor<f32>, tensor<f32>) -> tensor<f32>
    %unit = kerf.divide %size, %levels : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %step = kerf.select %none, %zero, %unit : (tensor<i1>, tensor<f32>, tensor<f32>) -> tensor<f32>
    %factors = kerf.broadcast_in_dim %factor {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<256xf32>
    %scaled = kerf.multiply %x, %factors : (tensor<256xf32>, tensor<256xf32>) -> tensor<256xf32>
    %keys = kerf.broadcast_in_dim %key {broadcast_dimensions = array<i64>} : (tensor<i32>) -> tensor<256xi32>
    %u = kerf.random %keys : (tensor<256xi32>) -> tensor<256xf32>
    %less = kerf.subtract %scaled, %u : (tensor<256xf32>, tensor<256xf32>) -> tensor<256xf32>
    %rounded = kerf.ceil %less : (tensor<256xf32>) -> tensor<256xf32>
    %low_one = kerf.constant dense<-7.0> : tensor<f32>
    %low = kerf.broadcast_in_dim %low_one {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<256xf32>
    %high_one = kerf.constant dense<7.0> : tensor<f32>
    %high = kerf.broadcast_in_dim %high_one {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<256xf32>
    %not_above = kerf.minimum %rounded, %high : (tensor<256xf32>, tensor<256xf32>) -> tensor<256xf32>
    %code = kerf.maximum %not_above, %low : (tensor<256xf32>, tensor<256xf32>) -> tensor<256xf32>
    %offset_one = kerf.constant dense<8.0> : tensor<f32>
    %offset = kerf.broadcast_in_dim %offset_one {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<256xf32>
    %moved = kerf.add %code, %offset : (tensor<256xf32>, tensor<256xf32>) -> tensor<256xf32>
    %codes = kerf.convert %moved : (tensor<256xf32>) -> tensor<256xi8>
    %packed = kerf.pack %codes {bits = 4 : i64} : (tensor<256xi8>) -> tensor<128xi8>
    return %packed, %step : tensor<128xi8>, tensor<f32>
  }
  func.func @decode(%packed: tensor<128xi8>, %step: tensor<f32>) -> tensor<256xf32> {
    %codes = kerf.unpack %packed {bits = 4 : i64} : (tensor<128xi8>) -> tensor<256xi8>
    %moved = kerf.convert %codes : (tensor<256xi8>) -> tensor<256xf32>
    %offset_one = kerf.constant dense<8.0> : tensor<f32>
    %offset = kerf.broadcast_in_dim %offset_one {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<256xf32>
    %code = kerf.subtract %moved, %offset : (tensor<256xf32>, tensor<256xf32>) -> tensor<256xf32>
    %steps = kerf.broadcast_in_dim %step {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<256xf32>
    %x = kerf.multiply %code, %steps : (tensor<256xf32>, tensor<256xf32>) -> tensor<256xf32>
    return %x : tensor<256xf32>
  }
}
