// topk: the 40 elements of 4096 (1 %) with the largest absolute values, and their positions in the block.
module @topk attributes {kerf.codec = {block = 4096 : i64, biased, gathers}} {
  func.func @encode(%x: tensor<4096xf32>) -> (tensor<40xf32>, tensor<40xi16>) {
    %abs = kerf.abs %x : (tensor<4096xf32>) -> tensor<4096xf32>
    %infinite_one = kerf.constant dense<0x7F800000> : tensor<f32>
    %infinite = kerf.broadcast_in_dim %infinite_one {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<4096xf32>
    %unknown = kerf.is_nan %x : (tensor<4096xf32>) -> tensor<4096xi1>
    %size = kerf.select %unknown, %infinite, %abs : (tensor<4096xi1>, tensor<4096xf32>, tensor<4096xf32>) -> tensor<4096xf32>
    %largest, %indices = kerf.top_k %size : (tensor<4096xf32>) -> (tensor<40xf32>, tensor<40xi32>)
    %values = kerf.take_along %x, %indices {batch_dims = 0 : i64, size = 4096 : i64} : (tensor<4096xf32>, tensor<40xi32>) -> tensor<40xf32>
    %places = kerf.convert %indices : (tensor<40xi32>) -> tensor<40xi16>
    return %values, %places : tensor<40xf32>, tensor<40xi16>
  }
  func.func @decode(%values: tensor<40xf32>, %places: tensor<40xi16>) -> tensor<4096xf32> {
    %indices = kerf.convert %places : (tensor<40xi16>) -> tensor<40xi32>
    %x = kerf.take_along_backward %indices, %values {batch_dims = 0 : i64, size = 4096 : i64} : (tensor<40xi32>, tensor<40xf32>) -> tensor<4096xf32>
    return %x : tensor<4096xf32>
  }
}
