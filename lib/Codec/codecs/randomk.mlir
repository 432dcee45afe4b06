// randomk: 410 elements of 4096 (10 %) at positions that seed and step choose, the same in each block and on each
// rank, so that payloads have no positions.
module @randomk attributes {kerf.codec = {block = 4096 : i64, biased, shared_key}} {
  func.func @encode(%x: tensor<4096xf32>, %key: tensor<i32>) -> tensor<410xf32> {
    %keys = kerf.broadcast_in_dim %key {broadcast_dimensions = array<i64>} : (tensor<i32>) -> tensor<4096xi32>
    %u = kerf.random %keys : (tensor<4096xi32>) -> tensor<4096xf32>
    %drawn, %indices = kerf.top_k %u : (tensor<4096xf32>) -> (tensor<410xf32>, tensor<410xi32>)
    %values = kerf.take_along %x, %indices {batch_dims = 0 : i64, size = 4096 : i64} : (tensor<4096xf32>, tensor<410xi32>) -> tensor<410xf32>
    return %values : tensor<410xf32>
  }
  func.func @decode(%values: tensor<410xf32>, %key: tensor<i32>) -> tensor<4096xf32> {
    %keys = kerf.broadcast_in_dim %key {broadcast_dimensions = array<i64>} : (tensor<i32>) -> tensor<4096xi32>
    %u = kerf.random %keys : (tensor<4096xi32>) -> tensor<4096xf32>
    %drawn, %indices = kerf.top_k %u : (tensor<4096xf32>) -> (tensor<410xf32>, tensor<410xi32>)
    %x = kerf.take_along_backward %indices, %values {batch_dims = 0 : i64, size = 4096 : i64} : (tensor<410xi32>, tensor<410xf32>) -> tensor<4096xf32>
    return %x : tensor<4096xf32>
  }
}
