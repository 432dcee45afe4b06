// bf16: elements rounded to nearest even in bfloat16.
module @bf16 attributes {kerf.codec = {block = 16 : i64}} {
  func.func @encode(%x: tensor<16xf32>) -> tensor<16xbf16> {
    %y = kerf.convert %x : (tensor<16xf32>) -> tensor<16xbf16>
    return %y : tensor<16xbf16>
  }
  func.func @decode(%y: tensor<16xbf16>) -> tensor<16xf32> {
    %x = kerf.convert %y : (tensor<16xbf16>) -> tensor<16xf32>
    return %x : tensor<16xf32>
  }
}
