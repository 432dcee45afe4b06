// fp16: elements rounded to nearest even in float16; numbers beyond 65504 become infinite.
module @fp16 attributes {kerf.codec = {block = 16 : i64}} {
  func.func @encode(%x: tensor<16xf32>) -> tensor<16xf16> {
    %y = kerf.convert %x : (tensor<16xf32>) -> tensor<16xf16>
    return %y : tensor<16xf16>
  }
  func.func @decode(%y: tensor<16xf16>) -> tensor<16xf32> {
    %x = kerf.convert %y : (tensor<16xf16>) -> tensor<16xf32>
    return %x : tensor<16xf32>
  }
}
