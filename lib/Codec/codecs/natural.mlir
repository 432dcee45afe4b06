// natural: the power of two below or above the element, at random so that the mean is the element (Horvath et al.
// 2019). A code has the sign and the exponent relative to the block's largest element; what is 2^-126 times smaller
// counts as 0. Exponents are found and applied in seven steps, by 64, 32, 16, 8, 4, 2 and 1: all numbers but the random
// ones are powers of two or products with them, so that nothing is rounded.
module @natural attributes {kerf.codec = {block = 512 : i64}} {
  func.func @encode(%x: tensor<512xf32>, %key: tensor<i32>) -> (tensor<512xi8>, tensor<f32>) {
    %abs = kerf.abs %x : (tensor<512xf32>) -> tensor<512xf32>
    %size = kerf.reduce %abs {kind = #kerf<reduce_kind max>, dimensions = array<i64: 0>} : (tensor<512xf32>) -> tensor<f32>
    %tiny = kerf.constant dense<1.0e-30> : tensor<f32>
    %any = kerf.constant dense<1.0> : tensor<f32>
    %none = kerf.compare %size, %tiny {direction = #kerf<comparison LT>} : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %some = kerf.select %none, %any, %size : (tensor<i1>, tensor<f32>, tensor<f32>) -> tensor<f32>
    %near = kerf.reduce_precision %some {mantissa_bits = 0 : i64, min_exponent = -126 : i64} : (tensor<f32>) -> tensor<f32>
    %below = kerf.compare %near, %some {direction = #kerf<comparison LT>} : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %twice = kerf.add %near, %near : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %top = kerf.select %below, %twice, %near : (tensor<i1>, tensor<f32>, tensor<f32>) -> tensor<f32>
    %inverse = kerf.divide %any, %top : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %inverses = kerf.broadcast_in_dim %inverse {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<512xf32>
    %share = kerf.multiply %abs, %inverses : (tensor<512xf32>, tensor<512xf32>) -> tensor<512xf32>
    %unit_one = kerf.constant dense<1.0> : tensor<f32>
    %unit = kerf.broadcast_in_dim %unit_one {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<512xf32>
    %nothing_one = kerf.constant dense<0.0> : tensor<f32>
    %nothing = kerf.broadcast_in_dim %nothing_one {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<512xf32>
    %least_one = kerf.constant dense<1.2e-38> : tensor<f32>
    %least = kerf.broadcast_in_dim %least_one {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<512xf32>
    %sent = kerf.compare %share, %least {direction = #kerf<comparison GE>} : (tensor<512xf32>, tensor<512xf32>) -> tensor<512xi1>
    %all_one = kerf.constant dense<127.0> : tensor<f32>
    %all = kerf.broadcast_in_dim %all_one {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<512xf32>
    %bound64_one = kerf.constant dense<0x20000000> : tensor<f32>
    %bound64 = kerf.broadcast_in_dim %bound64_one {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<512xf32>
    %factor64_one = kerf.constant dense<0x5F800000> : tensor<f32>
    %factor64 = kerf.broadcast_in_dim %factor64_one {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<512xf32>
    %step64_one = kerf.constant dense<64.0> : tensor<f32>
    %step64 = kerf.broadcast_in_dim %step64_one {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<512xf32>
    %small64 = kerf.compare %share, %bound64 {direction = #kerf<comparison LT>} : (tensor<512xf32>, tensor<512xf32>) -> tensor<512xi1>
    %scaled64 = kerf.multiply %share, %factor64 : (tensor<512xf32>, tensor<512xf32>) -> tensor<512xf32>
    %share64 = kerf.select %small64, %scaled64, %share : (tensor<512xi1>, tensor<512xf32>, tensor<512xf32>) -> tensor<512xf32>
    %lower64 = kerf.subtract %all, %step64 : (tensor<512xf32>, tensor<512xf32>) -> tensor<512xf32>
    %exponent64 = kerf.select %small64, %lower64, %all : (tensor<512xi1>, tensor<512xf32>, tensor<512xf32>) -> tensor<512xf32>
    %bound32_one = kerf.constant dense<0x30000000> : tensor<f32>
    %bound32 = kerf.broadcast_in_dim %bound32_one {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<512xf32>
    %factor32_one = kerf.constant dense<0x4F800000> : tensor<f32>
    %factor32 = kerf.broadcast_in_dim %factor32_one {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<512xf32>
    %step32_one = kerf.constant dense<32.0> : tensor<f32>
    %step32 = kerf.broadcast_in_dim %step32_one {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<512xf32>
    %small32 = kerf.compare %share64, %bound32 {direction = #kerf<comparison LT>} : (tensor<512xf32>, tensor<512xf32>) -> tensor<512xi1>
    %scaled32 = kerf.multiply %share64, %factor32 : (tensor<512xf32>, tensor<512xf32>) -> tensor<512xf32>
    %share32 = kerf.select %small32, %scaled32, %share64 : (tensor<512xi1>, tensor<512xf32>, tensor<512xf32>) -> tensor<512xf32>
    %lower32 = kerf.subtract %exponent64, %step32 : (tensor<512xf32>, tensor<512xf32>) -> tensor<512xf32>
    %exponent32 = kerf.select %small32, %lower32, %exponent64 : (tensor<512xi1>, tensor<512xf32>, tensor<512xf32>) -> tensor<512xf32>
    %bound16_one = kerf.constant dense<0x38000000> : tensor<f32>
    %bound16 = kerf.broadcast_in_dim %bound16_one {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<512xf32>
    %factor16_one = kerf.constant dense<0x47800000> : tensor<f32>
    %factor16 = kerf.broadcast_in_dim %factor16_one {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<512xf32>
    %step16_one = kerf.constant dense<16.0> : tensor<f32>
    %step16 = kerf.broadcast_in_dim %step16_one {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<512xf32>
    %small16 = kerf.compare %share32, %bound16 {direction = #kerf<comparison LT>} : (tensor<512xf32>, tensor<512xf32>) -> tensor<512xi1>
    %scaled16 = kerf.multiply %share32, %factor16 : (tensor<512xf32>, tensor<512xf32>) -> tensor<512xf32>
    %share16 = kerf.select %small16, %scaled16, %share32 : (tensor<512xi1>, tensor<512xf32>, tensor<512xf32>) -> tensor<512xf32>
    %lower16 = kerf.subtract %exponent32, %step16 : (tensor<512xf32>, tensor<512xf32>) -> tensor<512xf32>
    %exponent16 = kerf.select %small16, %lower16, %exponent32 : (tensor<512xi1>, tensor<512xf32>, tensor<512xf32>) -> tensor<512xf32>
    %bound8_one = kerf.constant dense<0x3C000000> : tensor<f32>
    %bound8 = kerf.broadcast_in_dim %bound8_one {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<512xf32>
    %factor8_one = kerf.constant dense<0x43800000> : tensor<f32>
    %factor8 = kerf.broadcast_in_dim %factor8_one {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<512xf32>
    %step8_one = kerf.constant dense<8.0> : tensor<f32>
    %step8 = kerf.broadcast_in_dim %step8_one {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<512xf32>
    %small8 = kerf.compare %share16, %bound8 {direction = #kerf<comparison LT>} : (tensor<512xf32>, tensor<512xf32>) -> tensor<512xi1>
    %scaled8 = kerf.multiply %share16, %factor8 : (tensor<512xf32>, tensor<512xf32>) -> tensor<512xf32>
    %share8 = kerf.select %small8, %scaled8, %share16 : (tensor<512xi1>, tensor<512xf32>, tensor<512xf32>) -> tensor<512xf32>
    %lower8 = kerf.subtract %exponent16, %step8 : (tensor<512xf32>, tensor<512xf32>) -> tensor<512xf32>
    %exponent8 = kerf.select %small8, %lower8, %exponent16 : (tensor<512xi1>, tensor<512xf32>, tensor<512xf32>) -> tensor<512xf32>
    %bound4_one = kerf.constant dense<0x3E000000> : tensor<f32>
    %bound4 = kerf.broadcast_in_dim %bound4_one {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<512xf32>
    %factor4_one = kerf.constant dense<0x41800000> : tensor<f32>
    %factor4 = kerf.broadcast_in_dim %factor4_one {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<512xf32>
    %step4_one = kerf.constant dense<4.0> : tensor<f32>
    %step4 = kerf.broadcast_in_dim %step4_one {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<512xf32>
    %small4 = kerf.compare %share8, %bound4 {direction = #kerf<comparison LT>} : (tensor<512xf32>, tensor<512xf32>) -> tensor<512xi1>
    %scaled4 = kerf.multiply %share8, %factor4 : (tensor<512xf32>, tensor<512xf32>) -> tensor<512xf32>
    %share4 = kerf.select %small4, %scaled4, %share8 : (tensor<512xi1>, tensor<512xf32>, tensor<512xf32>) -> tensor<512xf32>
    %lower4 = kerf.subtract %exponent8, %step4 : (tensor<512xf32>, tensor<512xf32>) -> tensor<512xf32>
    %exponent4 = kerf.select %small4, %lower4, %exponent8 : (tensor<512xi1>, tensor<512xf32>, tensor<512xf32>) -> tensor<512xf32>
    %bound2_one = kerf.constant dense<0x3F000000> : tensor<f32>
    %bound2 = kerf.broadcast_in_dim %bound2_one {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<512xf32>
    %factor2_one = kerf.constant dense<0x40800000> : tensor<f32>
    %factor2 = kerf.broadcast_in_dim %factor2_one {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<512xf32>
    %step2_one = kerf.constant dense<2.0> : tensor<f32>
    %step2 = kerf.broadcast_in_dim %step2_one {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<512xf32>
    %small2 = kerf.compare %share4, %bound2 {direction = #kerf<comparison LT>} : (tensor<512xf32>, tensor<512xf32>) -> tensor<512xi1>
    %scaled2 = kerf.multiply %share4, %factor2 : (tensor<512xf32>, tensor<512xf32>) -> tensor<512xf32>
    %share2 = kerf.select %small2, %scaled2, %share4 : (tensor<512xi1>, tensor<512xf32>, tensor<512xf32>) -> tensor<512xf32>
    %lower2 = kerf.subtract %exponent4, %step2 : (tensor<512xf32>, tensor<512xf32>) -> tensor<512xf32>
    %exponent2 = kerf.select %small2, %lower2, %exponent4 : (tensor<512xi1>, tensor<512xf32>, tensor<512xf32>) -> tensor<512xf32>
    %bound1_one = kerf.constant dense<0x3F800000> : tensor<f32>
    %bound1 = kerf.broadcast_in_dim %bound1_one {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<512xf32>
    %factor1_one = kerf.constant dense<0x40000000> : tensor<f32>
    %factor1 = kerf.broadcast_in_dim %factor1_one {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<512xf32>
    %step1_one = kerf.constant dense<1.0> : tensor<f32>
    %step1 = kerf.broadcast_in_dim %step1_one {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<512xf32>
    %small1 = kerf.compare %share2, %bound1 {direction = #kerf<comparison LT>} : (tensor<512xf32>, tensor<512xf32>) -> tensor<512xi1>
    %scaled1 = kerf.multiply %share2, %factor1 : (tensor<512xf32>, tensor<512xf32>) -> tensor<512xf32>
    %share1 = kerf.select %small1, %scaled1, %share2 : (tensor<512xi1>, tensor<512xf32>, tensor<512xf32>) -> tensor<512xf32>
    %lower1 = kerf.subtract %exponent2, %step1 : (tensor<512xf32>, tensor<512xf32>) -> tensor<512xf32>
    %exponent1 = kerf.select %small1, %lower1, %exponent2 : (tensor<512xi1>, tensor<512xf32>, tensor<512xf32>) -> tensor<512xf32>
    %chance = kerf.subtract %share1, %unit : (tensor<512xf32>, tensor<512xf32>) -> tensor<512xf32>
    %keys = kerf.broadcast_in_dim %key {broadcast_dimensions = array<i64>} : (tensor<i32>) -> tensor<512xi32>
    %u = kerf.random %keys : (tensor<512xi32>) -> tensor<512xf32>
    %up = kerf.compare %u, %chance {direction = #kerf<comparison LT>} : (tensor<512xf32>, tensor<512xf32>) -> tensor<512xi1>
    %more = kerf.convert %up : (tensor<512xi1>) -> tensor<512xf32>
    %chosen = kerf.add %exponent1, %more : (tensor<512xf32>, tensor<512xf32>) -> tensor<512xf32>
    %magnitude = kerf.select %sent, %chosen, %nothing : (tensor<512xi1>, tensor<512xf32>, tensor<512xf32>) -> tensor<512xf32>
    %sign = kerf.sign %x : (tensor<512xf32>) -> tensor<512xf32>
    %code = kerf.multiply %sign, %magnitude : (tensor<512xf32>, tensor<512xf32>) -> tensor<512xf32>
    %codes = kerf.convert %code : (tensor<512xf32>) -> tensor<512xi8>
    return %codes, %top : tensor<512xi8>, tensor<f32>
  }
  func.func @decode(%codes: tensor<512xi8>, %top: tensor<f32>) -> tensor<512xf32> {
    %code = kerf.convert %codes : (tensor<512xi8>) -> tensor<512xf32>
    %magnitude = kerf.abs %code : (tensor<512xf32>) -> tensor<512xf32>
    %sign = kerf.sign %code : (tensor<512xf32>) -> tensor<512xf32>
    %all_one = kerf.constant dense<127.0> : tensor<f32>
    %all = kerf.broadcast_in_dim %all_one {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<512xf32>
    %unit_one = kerf.constant dense<1.0> : tensor<f32>
    %unit = kerf.broadcast_in_dim %unit_one {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<512xf32>
    %away = kerf.subtract %all, %magnitude : (tensor<512xf32>, tensor<512xf32>) -> tensor<512xf32>
    %used = kerf.abs %sign : (tensor<512xf32>) -> tensor<512xf32>
    %down = kerf.multiply %away, %used : (tensor<512xf32>, tensor<512xf32>) -> tensor<512xf32>
    %factor64_one = kerf.constant dense<0x1F800000> : tensor<f32>
    %factor64 = kerf.broadcast_in_dim %factor64_one {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<512xf32>
    %step64_one = kerf.constant dense<64.0> : tensor<f32>
    %step64 = kerf.broadcast_in_dim %step64_one {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<512xf32>
    %far64 = kerf.compare %down, %step64 {direction = #kerf<comparison GE>} : (tensor<512xf32>, tensor<512xf32>) -> tensor<512xi1>
    %scale64 = kerf.select %far64, %factor64, %unit : (tensor<512xi1>, tensor<512xf32>, tensor<512xf32>) -> tensor<512xf32>
    %power64 = kerf.multiply %unit, %scale64 : (tensor<512xf32>, tensor<512xf32>) -> tensor<512xf32>
    %less64 = kerf.subtract %down, %step64 : (tensor<512xf32>, tensor<512xf32>) -> tensor<512xf32>
    %down64 = kerf.select %far64, %less64, %down : (tensor<512xi1>, tensor<512xf32>, tensor<512xf32>) -> tensor<512xf32>
    %factor32_one = kerf.constant dense<0x2F800000> : tensor<f32>
    %factor32 = kerf.broadcast_in_dim %factor32_one {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<512xf32>
    %step32_one = kerf.constant dense<32.0> : tensor<f32>
    %step32 = kerf.broadcast_in_dim %step32_one {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<512xf32>
    %far32 = kerf.compare %down64, %step32 {direction = #kerf<comparison GE>} : (tensor<512xf32>, tensor<512xf32>) -> tensor<512xi1>
    %scale32 = kerf.select %far32, %factor32, %unit : (tensor<512xi1>, tensor<512xf32>, tensor<512xf32>) -> tensor<512xf32>
    %power32 = kerf.multiply %power64, %scale32 : (tensor<512xf32>, tensor<512xf32>) -> tensor<512xf32>
    %less32 = kerf.subtract %down64, %step32 : (tensor<512xf32>, tensor<512xf32>) -> tensor<512xf32>
    %down32 = kerf.select %far32, %less32, %down64 : (tensor<512xi1>, tensor<512xf32>, tensor<512xf32>) -> tensor<512xf32>
    %factor16_one = kerf.constant dense<0x37800000> : tensor<f32>
    %factor16 = kerf.broadcast_in_dim %factor16_one {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<512xf32>
    %step16_one = kerf.constant dense<16.0> : tensor<f32>
    %step16 = kerf.broadcast_in_dim %step16_one {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<512xf32>
    %far16 = kerf.compare %down32, %step16 {direction = #kerf<comparison GE>} : (tensor<512xf32>, tensor<512xf32>) -> tensor<512xi1>
    %scale16 = kerf.select %far16, %factor16, %unit : (tensor<512xi1>, tensor<512xf32>, tensor<512xf32>) -> tensor<512xf32>
    %power16 = kerf.multiply %power32, %scale16 : (tensor<512xf32>, tensor<512xf32>) -> tensor<512xf32>
    %less16 = kerf.subtract %down32, %step16 : (tensor<512xf32>, tensor<512xf32>) -> tensor<512xf32>
    %down16 = kerf.select %far16, %less16, %down32 : (tensor<512xi1>, tensor<512xf32>, tensor<512xf32>) -> tensor<512xf32>
    %factor8_one = kerf.constant dense<0x3B800000> : tensor<f32>
    %factor8 = kerf.broadcast_in_dim %factor8_one {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<512xf32>
    %step8_one = kerf.constant dense<8.0> : tensor<f32>
    %step8 = kerf.broadcast_in_dim %step8_one {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<512xf32>
    %far8 = kerf.compare %down16, %step8 {direction = #kerf<comparison GE>} : (tensor<512xf32>, tensor<512xf32>) -> tensor<512xi1>
    %scale8 = kerf.select %far8, %factor8, %unit : (tensor<512xi1>, tensor<512xf32>, tensor<512xf32>) -> tensor<512xf32>
    %power8 = kerf.multiply %power16, %scale8 : (tensor<512xf32>, tensor<512xf32>) -> tensor<512xf32>
    %less8 = kerf.subtract %down16, %step8 : (tensor<512xf32>, tensor<512xf32>) -> tensor<512xf32>
    %down8 = kerf.select %far8, %less8, %down16 : (tensor<512xi1>, tensor<512xf32>, tensor<512xf32>) -> tensor<512xf32>
    %factor4_one = kerf.constant dense<0x3D800000> : tensor<f32>
    %factor4 = kerf.broadcast_in_dim %factor4_one {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<512xf32>
    %step4_one = kerf.constant dense<4.0> : tensor<f32>
    %step4 = kerf.broadcast_in_dim %step4_one {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<512xf32>
    %far4 = kerf.compare %down8, %step4 {direction = #kerf<comparison GE>} : (tensor<512xf32>, tensor<512xf32>) -> tensor<512xi1>
    %scale4 = kerf.select %far4, %factor4, %unit : (tensor<512xi1>, tensor<512xf32>, tensor<512xf32>) -> tensor<512xf32>
    %power4 = kerf.multiply %power8, %scale4 : (tensor<512xf32>, tensor<512xf32>) -> tensor<512xf32>
    %less4 = kerf.subtract %down8, %step4 : (tensor<512xf32>, tensor<512xf32>) -> tensor<512xf32>
    %down4 = kerf.select %far4, %less4, %down8 : (tensor<512xi1>, tensor<512xf32>, tensor<512xf32>) -> tensor<512xf32>
    %factor2_one = kerf.constant dense<0x3E800000> : tensor<f32>
    %factor2 = kerf.broadcast_in_dim %factor2_one {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<512xf32>
    %step2_one = kerf.constant dense<2.0> : tensor<f32>
    %step2 = kerf.broadcast_in_dim %step2_one {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<512xf32>
    %far2 = kerf.compare %down4, %step2 {direction = #kerf<comparison GE>} : (tensor<512xf32>, tensor<512xf32>) -> tensor<512xi1>
    %scale2 = kerf.select %far2, %factor2, %unit : (tensor<512xi1>, tensor<512xf32>, tensor<512xf32>) -> tensor<512xf32>
    %power2 = kerf.multiply %power4, %scale2 : (tensor<512xf32>, tensor<512xf32>) -> tensor<512xf32>
    %less2 = kerf.subtract %down4, %step2 : (tensor<512xf32>, tensor<512xf32>) -> tensor<512xf32>
    %down2 = kerf.select %far2, %less2, %down4 : (tensor<512xi1>, tensor<512xf32>, tensor<512xf32>) -> tensor<512xf32>
    %factor1_one = kerf.constant dense<0x3F000000> : tensor<f32>
    %factor1 = kerf.broadcast_in_dim %factor1_one {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<512xf32>
    %step1_one = kerf.constant dense<1.0> : tensor<f32>
    %step1 = kerf.broadcast_in_dim %step1_one {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<512xf32>
    %far1 = kerf.compare %down2, %step1 {direction = #kerf<comparison GE>} : (tensor<512xf32>, tensor<512xf32>) -> tensor<512xi1>
    %scale1 = kerf.select %far1, %factor1, %unit : (tensor<512xi1>, tensor<512xf32>, tensor<512xf32>) -> tensor<512xf32>
    %power1 = kerf.multiply %power2, %scale1 : (tensor<512xf32>, tensor<512xf32>) -> tensor<512xf32>
    %tops = kerf.broadcast_in_dim %top {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<512xf32>
    %size = kerf.multiply %power1, %tops : (tensor<512xf32>, tensor<512xf32>) -> tensor<512xf32>
    %x = kerf.multiply %sign, %size : (tensor<512xf32>, tensor<512xf32>) -> tensor<512xf32>
    return %x : tensor<512xf32>
  }
}
