// tbq: plus or minus a threshold of twice the block's root mean square where the element is beyond the threshold, else
// 0 (Strom 2015).
module @tbq attributes {kerf.codec = {block = 1024 : i64, biased}} {
  func.func @encode(%x: tensor<1024xf32>) -> (tensor<256xi8>, tensor<f32>) {
    %square = kerf.multiply %x, %x : (tensor<1024xf32>, tensor<1024xf32>) -> tensor<1024xf32>
    %sum = kerf.reduce %square {kind = #kerf<reduce_kind sum>, dimensions = array<i64: 0>} : (tensor<1024xf32>) -> tensor<f32>
    %share = kerf.constant dense<256.0> : tensor<f32>
    %four = kerf.divide %sum, %share : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %threshold = kerf.sqrt %four : (tensor<f32>) -> tensor<f32>
    %bound = kerf.broadcast_in_dim %threshold {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<1024xf32>
    %abs = kerf.abs %x : (tensor<1024xf32>) -> tensor<1024xf32>
    %sent = kerf.compare %abs, %bound {direction = #kerf<comparison GE>} : (tensor<1024xf32>, tensor<1024xf32>) -> tensor<1024xi1>
    %magnitude = kerf.convert %sent : (tensor<1024xi1>) -> tensor<1024xf32>
    %sign = kerf.sign %x : (tensor<1024xf32>) -> tensor<1024xf32>
    %signed = kerf.multiply %sign, %magnitude : (tensor<1024xf32>, tensor<1024xf32>) -> tensor<1024xf32>
    %one_one = kerf.constant dense<1.0> : tensor<f32>
    %one = kerf.broadcast_in_dim %one_one {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<1024xf32>
    %moved = kerf.add %signed, %one : (tensor<1024xf32>, tensor<1024xf32>) -> tensor<1024xf32>
    %codes = kerf.convert %moved : (tensor<1024xf32>) -> tensor<1024xi8>
    %packed = kerf.pack %codes {bits = 2 : i64} : (tensor<1024xi8>) -> tensor<256xi8>
    return %packed, %threshold : tensor<256xi8>, tensor<f32>
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
