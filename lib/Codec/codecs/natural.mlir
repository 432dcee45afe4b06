// natural: the power of two below or above the element, at random so that the mean is the element (Horvath et al.
// 2019). A code has the sign and the exponent relative to the block's largest element; what is 2^-126 times smaller
// counts as 0.
module @natural attributes {kerf.codec = {block = 512 : i64}} {
  func.func @encode(%x: tensor<512xf32>, %key: tensor<i32>) -> (tensor<512xi8>, tensor<f32>) {
    %abs = kerf.abs %x : (tensor<512xf32>) -> tensor<512xf32>
    %size = kerf.reduce %abs {kind = #kerf<reduce_kind max>, dimensions = array<i64: 0>} : (tensor<512xf32>) -> tensor<f32>
    %tiny = kerf.constant dense<1.0e-30> : tensor<f32>
    %any = kerf.constant dense<1.0> : tensor<f32>
    %base = kerf.constant dense<2.0> : tensor<f32>
    %log2_e = kerf.constant dense<1.4426950408889634> : tensor<f32>
    %none = kerf.compare %size, %tiny {direction = #kerf<comparison LT>} : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %some = kerf.select %none, %any, %size : (tensor<i1>, tensor<f32>, tensor<f32>) -> tensor<f32>
    %logarithm = kerf.log %some : (tensor<f32>) -> tensor<f32>
    %binary = kerf.multiply %logarithm, %log2_e : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %exponent = kerf.ceil %binary : (tensor<f32>) -> tensor<f32>
    %top = kerf.power %base, %exponent : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %tops = kerf.broadcast_in_dim %top {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<512xf32>
    %share = kerf.divide %abs, %tops : (tensor<512xf32>, tensor<512xf32>) -> tensor<512xf32>
    %least_one = kerf.constant dense<1.2e-38> : tensor<f32>
    %least = kerf.broadcast_in_dim %least_one {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<512xf32>
    %nothing_one = kerf.constant dense<0.0> : tensor<f32>
    %nothing = kerf.broadcast_in_dim %nothing_one {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<512xf32>
    %unit_one = kerf.constant dense<1.0> : tensor<f32>
    %unit = kerf.broadcast_in_dim %unit_one {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<512xf32>
    %two_one = kerf.constant dense<2.0> : tensor<f32>
    %two = kerf.broadcast_in_dim %two_one {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<512xf32>
    %log2_one = kerf.constant dense<1.4426950408889634> : tensor<f32>
    %log2 = kerf.broadcast_in_dim %log2_one {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<512xf32>
    %offset_one = kerf.constant dense<127.0> : tensor<f32>
    %offset = kerf.broadcast_in_dim %offset_one {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<512xf32>
    %sent = kerf.compare %share, %least {direction = #kerf<comparison GE>} : (tensor<512xf32>, tensor<512xf32>) -> tensor<512xi1>
    %kept = kerf.select %sent, %share, %unit : (tensor<512xi1>, tensor<512xf32>, tensor<512xf32>) -> tensor<512xf32>
    %ln = kerf.log %kept : (tensor<512xf32>) -> tensor<512xf32>
    %log2_kept = kerf.multiply %ln, %log2 : (tensor<512xf32>, tensor<512xf32>) -> tensor<512xf32>
    %lower = kerf.floor %log2_kept : (tensor<512xf32>) -> tensor<512xf32>
    %power = kerf.power %two, %lower : (tensor<512xf32>, tensor<512xf32>) -> tensor<512xf32>
    %ratio = kerf.divide %kept, %power : (tensor<512xf32>, tensor<512xf32>) -> tensor<512xf32>
    %chance = kerf.subtract %ratio, %unit : (tensor<512xf32>, tensor<512xf32>) -> tensor<512xf32>
    %keys = kerf.broadcast_in_dim %key {broadcast_dimensions = array<i64>} : (tensor<i32>) -> tensor<512xi32>
    %u = kerf.random %keys : (tensor<512xi32>) -> tensor<512xf32>
    %up = kerf.compare %u, %chance {direction = #kerf<comparison LT>} : (tensor<512xf32>, tensor<512xf32>) -> tensor<512xi1>
    %more = kerf.convert %up : (tensor<512xi1>) -> tensor<512xf32>
    %chosen = kerf.add %lower, %more : (tensor<512xf32>, tensor<512xf32>) -> tensor<512xf32>
    %moved = kerf.add %chosen, %offset : (tensor<512xf32>, tensor<512xf32>) -> tensor<512xf32>
    %magnitude = kerf.select %sent, %moved, %nothing : (tensor<512xi1>, tensor<512xf32>, tensor<512xf32>) -> tensor<512xf32>
    %sign = kerf.sign %x : (tensor<512xf32>) -> tensor<512xf32>
    %low_one = kerf.constant dense<0.0> : tensor<f32>
    %low = kerf.broadcast_in_dim %low_one {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<512xf32>
    %positive = kerf.maximum %magnitude, %low : (tensor<512xf32>, tensor<512xf32>) -> tensor<512xf32>
    %bounded = kerf.minimum %positive, %offset : (tensor<512xf32>, tensor<512xf32>) -> tensor<512xf32>
    %code = kerf.multiply %sign, %bounded : (tensor<512xf32>, tensor<512xf32>) -> tensor<512xf32>
    %codes = kerf.convert %code : (tensor<512xf32>) -> tensor<512xi8>
    return %codes, %top : tensor<512xi8>, tensor<f32>
  }
  func.func @decode(%codes: tensor<512xi8>, %top: tensor<f32>) -> tensor<512xf32> {
    %code = kerf.convert %codes : (tensor<512xi8>) -> tensor<512xf32>
    %magnitude = kerf.abs %code : (tensor<512xf32>) -> tensor<512xf32>
    %sign = kerf.sign %code : (tensor<512xf32>) -> tensor<512xf32>
    %two_one = kerf.constant dense<2.0> : tensor<f32>
    %two = kerf.broadcast_in_dim %two_one {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<512xf32>
    %offset_one = kerf.constant dense<127.0> : tensor<f32>
    %offset = kerf.broadcast_in_dim %offset_one {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<512xf32>
    %exponent = kerf.subtract %magnitude, %offset : (tensor<512xf32>, tensor<512xf32>) -> tensor<512xf32>
    %power = kerf.power %two, %exponent : (tensor<512xf32>, tensor<512xf32>) -> tensor<512xf32>
    %tops = kerf.broadcast_in_dim %top {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<512xf32>
    %size = kerf.multiply %power, %tops : (tensor<512xf32>, tensor<512xf32>) -> tensor<512xf32>
    %x = kerf.multiply %sign, %size : (tensor<512xf32>, tensor<512xf32>) -> tensor<512xf32>
    return %x : tensor<512xf32>
  }
}
