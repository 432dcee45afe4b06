// qsgd: whole multiples of 1/127 of the block's Euclidean norm, rounded up or down at random so that the mean is the
// element (Alistarh et al. 2017).
module @qsgd attributes {kerf.codec = {block = 128 : i64}} {
  func.func @encode(%x: tensor<128xf32>, %key: tensor<i32>) -> (tensor<128xi8>, tensor<f32>) {
    %square = kerf.multiply %x, %x : (tensor<128xf32>, tensor<128xf32>) -> tensor<128xf32>
    %sum = kerf.reduce %square {kind = #kerf<reduce_kind sum>, dimensions = array<i64: 0>} : (tensor<128xf32>) -> tensor<f32>
    %size = kerf.sqrt %sum : (tensor<f32>) -> tensor<f32>
    %levels = kerf.constant dense<127.0> : tensor<f32>
    %tiny = kerf.constant dense<1.0e-30> : tensor<f32>
    %zero = kerf.constant dense<0.0> : tensor<f32>
    %none = kerf.compare %size, %tiny {direction = #kerf<comparison LT>} : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %quotient = kerf.divide %levels, %size : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %factor = kerf.select %none, %zero, %quotient : (tensor<i1>, tensor<f32>, tensor<f32>) -> tensor<f32>
    %unit = kerf.divide %size, %levels : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %step = kerf.select %none, %zero, %unit : (tensor<i1>, tensor<f32>, tensor<f32>) -> tensor<f32>
    %factors = kerf.broadcast_in_dim %factor {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<128xf32>
    %scaled = kerf.multiply %x, %factors : (tensor<128xf32>, tensor<128xf32>) -> tensor<128xf32>
    %keys = kerf.broadcast_in_dim %key {broadcast_dimensions = array<i64>} : (tensor<i32>) -> tensor<128xi32>
    %u = kerf.random %keys : (tensor<128xi32>) -> tensor<128xf32>
    %less = kerf.subtract %scaled, %u : (tensor<128xf32>, tensor<128xf32>) -> tensor<128xf32>
    %rounded = kerf.ceil %less : (tensor<128xf32>) -> tensor<128xf32>
    %low_one = kerf.constant dense<-127.0> : tensor<f32>
    %low = kerf.broadcast_in_dim %low_one {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<128xf32>
    %high_one = kerf.constant dense<127.0> : tensor<f32>
    %high = kerf.broadcast_in_dim %high_one {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<128xf32>
    %not_above = kerf.minimum %rounded, %high : (tensor<128xf32>, tensor<128xf32>) -> tensor<128xf32>
    %code = kerf.maximum %not_above, %low : (tensor<128xf32>, tensor<128xf32>) -> tensor<128xf32>
    %codes = kerf.convert %code : (tensor<128xf32>) -> tensor<128xi8>
    return %codes, %step : tensor<128xi8>, tensor<f32>
  }
  func.func @decode(%codes: tensor<128xi8>, %step: tensor<f32>) -> tensor<128xf32> {
    %code = kerf.convert %codes : (tensor<128xi8>) -> tensor<128xf32>
    %steps = kerf.broadcast_in_dim %step {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<128xf32>
    %x = kerf.multiply %code, %steps : (tensor<128xf32>, tensor<128xf32>) -> tensor<128xf32>
    return %x : tensor<128xf32>
  }
}
