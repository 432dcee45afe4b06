// graddrop: the elements above a threshold and their positions in the block, at most 52 of 4096. The threshold is the 10th
// largest absolute value of every fourth element, so that about 99 % are dropped (Aji and Heafield 2017).
module @graddrop attributes {kerf.codec = {block = 4096 : i64, biased, gathers}} {
  func.func @encode(%x: tensor<4096xf32>) -> (tensor<52xf32>, tensor<52xi16>) {
    %abs = kerf.abs %x : (tensor<4096xf32>) -> tensor<4096xf32>
    %infinite_one = kerf.constant dense<0x7F800000> : tensor<f32>
    %infinite = kerf.broadcast_in_dim %infinite_one {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<4096xf32>
    %unknown = kerf.is_nan %x : (tensor<4096xf32>) -> tensor<4096xi1>
    %size = kerf.select %unknown, %infinite, %abs : (tensor<4096xi1>, tensor<4096xf32>, tensor<4096xf32>) -> tensor<4096xf32>
    %sample = kerf.slice %size {start = array<i64: 0>, limit = array<i64: 4096>, strides = array<i64: 4>} : (tensor<4096xf32>) -> tensor<1024xf32>
    %largest, %unused = kerf.top_k %sample : (tensor<1024xf32>) -> (tensor<24xf32>, tensor<24xi32>)
    %threshold_one = kerf.slice %largest {start = array<i64: 9>, limit = array<i64: 10>, strides = array<i64: 1>} : (tensor<24xf32>) -> tensor<1xf32>
    %threshold = kerf.reshape %threshold_one : (tensor<1xf32>) -> tensor<f32>
    %thresholds = kerf.broadcast_in_dim %threshold {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<4096xf32>
    %zero_one = kerf.constant dense<0.0> : tensor<f32>
    %zero = kerf.broadcast_in_dim %zero_one {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<4096xf32>
    %above = kerf.compare %size, %thresholds {direction = #kerf<comparison GE>} : (tensor<4096xf32>, tensor<4096xf32>) -> tensor<4096xi1>
    %kept = kerf.select %above, %size, %zero : (tensor<4096xi1>, tensor<4096xf32>, tensor<4096xf32>) -> tensor<4096xf32>
    %sizes, %indices = kerf.top_k %kept : (tensor<4096xf32>) -> (tensor<52xf32>, tensor<52xi32>)
    %elements = kerf.take_along %x, %indices {batch_dims = 0 : i64, size = 4096 : i64} : (tensor<4096xf32>, tensor<52xi32>) -> tensor<52xf32>
    %bounds = kerf.broadcast_in_dim %threshold {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<52xf32>
    %nothing = kerf.broadcast_in_dim %zero_one {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<52xf32>
    %sent = kerf.compare %sizes, %bounds {direction = #kerf<comparison GE>} : (tensor<52xf32>, tensor<52xf32>) -> tensor<52xi1>
    %values = kerf.select %sent, %elements, %nothing : (tensor<52xi1>, tensor<52xf32>, tensor<52xf32>) -> tensor<52xf32>
    %places = kerf.convert %indices : (tensor<52xi32>) -> tensor<52xi16>
    return %values, %places : tensor<52xf32>, tensor<52xi16>
  }
  func.func @decode(%values: tensor<52xf32>, %places: tensor<52xi16>) -> tensor<4096xf32> {
    %indices = kerf.convert %places : (tensor<52xi16>) -> tensor<52xi32>
    %x = kerf.take_along_backward %indices, %values {batch_dims = 0 : i64, size = 4096 : i64} : (tensor<52xi32>, tensor<52xf32>) -> tensor<4096xf32>
    return %x : tensor<4096xf32>
  }
}
