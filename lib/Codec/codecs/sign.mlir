// sign: the sign of each element alone. The owner of a chunk takes the sign of the sum, which is the vote of the
// majority (Bernstein et al. 2018).
module @sign attributes {kerf.codec = {block = 1024 : i64, biased, no_feedback, momentum_first}} {
  func.func @encode(%x: tensor<1024xf32>) -> tensor<128xi8> {
    %nothing_one = kerf.constant dense<0.0> : tensor<f32>
    %nothing = kerf.broadcast_in_dim %nothing_one {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<1024xf32>
    %positive = kerf.compare %x, %nothing {direction = #kerf<comparison GE>} : (tensor<1024xf32>, tensor<1024xf32>) -> tensor<1024xi1>
    %codes = kerf.convert %positive : (tensor<1024xi1>) -> tensor<1024xi8>
    %packed = kerf.pack %codes {bits = 1 : i64} : (tensor<1024xi8>) -> tensor<128xi8>
    return %packed : tensor<128xi8>
  }
  func.func @decode(%packed: tensor<128xi8>) -> tensor<1024xf32> {
    %codes = kerf.unpack %packed {bits = 1 : i64} : (tensor<128xi8>) -> tensor<1024xi8>
    %bit = kerf.convert %codes : (tensor<1024xi8>) -> tensor<1024xf32>
    %two_one = kerf.constant dense<2.0> : tensor<f32>
    %two = kerf.broadcast_in_dim %two_one {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<1024xf32>
    %one_one = kerf.constant dense<1.0> : tensor<f32>
    %one = kerf.broadcast_in_dim %one_one {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<1024xf32>
    %twice = kerf.multiply %bit, %two : (tensor<1024xf32>, tensor<1024xf32>) -> tensor<1024xf32>
    %sign = kerf.subtract %twice, %one : (tensor<1024xf32>, tensor<1024xf32>) -> tensor<1024xf32>
    return %sign : tensor<1024xf32>
  }
}
