module @jit_loss attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4x1x2x2xf32>, %arg1: tensor<3x2x2x8xf32>, %arg2: tensor<4xf32>, %arg3: tensor<6x8x3x3xf32>, %arg4: tensor<6x4x2x2xf32>, %arg5: tensor<3x9x8x4xf32>, %arg6: tensor<3xf32>) -> (tensor<f32> {jax.result_info = "result"}) {
    %0 = stablehlo.convolution(%arg5, %arg1) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [2, 1], pad = [[1, 2], [0, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 2], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 2 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<3x9x8x4xf32>, tensor<3x2x2x8xf32>) -> tensor<3x5x7x8xf32>
    %1 = call @relu(%0) : (tensor<3x5x7x8xf32>) -> tensor<3x5x7x8xf32>
    %cst = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<f32>
    %3 = "stablehlo.reduce_window"(%1, %2) <{base_dilations = array<i64: 1, 1, 1, 1>, padding = dense<[[0, 0], [1, 1], [0, 1], [0, 0]]> : tensor<4x2xi64>, window_dilations = array<i64: 1, 1, 1, 1>, window_dimensions = array<i64: 1, 3, 2, 1>, window_strides = array<i64: 1, 2, 1, 1>}> ({
    ^bb0(%arg7: tensor<f32>, %arg8: tensor<f32>):
      %22 = stablehlo.maximum %arg7, %arg8 : tensor<f32>
      stablehlo.return %22 : tensor<f32>
    }) : (tensor<3x5x7x8xf32>, tensor<f32>) -> tensor<3x3x7x8xf32>
    %4 = stablehlo.transpose %3, dims = [0, 3, 1, 2] : (tensor<3x3x7x8xf32>) -> tensor<3x8x3x7xf32>
    %5 = stablehlo.convolution(%4, %arg3) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<3x8x3x7xf32>, tensor<6x8x3x3xf32>) -> tensor<3x6x3x7xf32>
    %6 = stablehlo.tanh %5 : tensor<3x6x3x7xf32>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %7 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<f32>
    %8 = "stablehlo.reduce_window"(%6, %7) <{base_dilations = array<i64: 1, 1, 1, 1>, padding = dense<0> : tensor<4x2xi64>, window_dilations = array<i64: 1, 1, 1, 1>, window_dimensions = array<i64: 1, 1, 2, 2>, window_strides = array<i64: 1, 1, 1, 2>}> ({
    ^bb0(%arg7: tensor<f32>, %arg8: tensor<f32>):
      %22 = stablehlo.add %arg7, %arg8 : tensor<f32>
      stablehlo.return %22 : tensor<f32>
    }) : (tensor<3x6x3x7xf32>, tensor<f32>) -> tensor<3x6x2x3xf32>
    %cst_1 = stablehlo.constant dense<4.000000e+00> : tensor<f32>
    %9 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<3x6x2x3xf32>
    %10 = stablehlo.divide %8, %9 : tensor<3x6x2x3xf32>
    %11 = stablehlo.convolution(%10, %arg4) dim_numbers = [b, f, 0, 1]x[i, o, 0, 1]->[b, f, 0, 1], window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [2, 2], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<3x6x2x3xf32>, tensor<6x4x2x2xf32>) -> tensor<3x4x4x6xf32>
    %12 = call @cumsum(%11) : (tensor<3x4x4x6xf32>) -> tensor<3x4x4x6xf32>
    %13 = stablehlo.convolution(%12, %arg0) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [1, 2], pad = [[-1, 1], [1, -1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 4 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<3x4x4x6xf32>, tensor<4x1x2x2xf32>) -> tensor<3x4x3x3xf32>
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %14 = stablehlo.reduce(%13 init: %cst_2) applies stablehlo.add across dimensions = [2, 3] : (tensor<3x4x3x3xf32>, tensor<f32>) -> tensor<3x4xf32>
    %cst_3 = stablehlo.constant dense<9.000000e+00> : tensor<f32>
    %15 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<3x4xf32>
    %16 = stablehlo.divide %14, %15 : tensor<3x4xf32>
    %17 = stablehlo.dot_general %16, %arg2, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<3x4xf32>, tensor<4xf32>) -> tensor<3xf32>
    %18 = stablehlo.subtract %17, %arg6 : tensor<3xf32>
    %19 = stablehlo.multiply %18, %18 : tensor<3xf32>
    %cst_4 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %20 = stablehlo.reduce(%19 init: %cst_4) applies stablehlo.add across dimensions = [0] : (tensor<3xf32>, tensor<f32>) -> tensor<f32>
    %cst_5 = stablehlo.constant dense<3.000000e+00> : tensor<f32>
    %21 = stablehlo.divide %20, %cst_5 : tensor<f32>
    return %21 : tensor<f32>
  }
  func.func private @relu(%arg0: tensor<3x5x7x8xf32>) -> tensor<3x5x7x8xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<3x5x7x8xf32>
    %1 = stablehlo.maximum %arg0, %0 : tensor<3x5x7x8xf32>
    return %1 : tensor<3x5x7x8xf32>
  }
  func.func private @cumsum(%arg0: tensor<3x4x4x6xf32>) -> tensor<3x4x4x6xf32> {
    %0 = call @cumsum_0(%arg0) : (tensor<3x4x4x6xf32>) -> tensor<3x4x4x6xf32>
    return %0 : tensor<3x4x4x6xf32>
  }
  func.func private @cumsum_0(%arg0: tensor<3x4x4x6xf32>) -> tensor<3x4x4x6xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<f32>
    %1 = "stablehlo.reduce_window"(%arg0, %0) <{base_dilations = array<i64: 1, 1, 1, 1>, padding = dense<[[0, 0], [0, 0], [0, 0], [5, 0]]> : tensor<4x2xi64>, window_dilations = array<i64: 1, 1, 1, 1>, window_dimensions = array<i64: 1, 1, 1, 6>, window_strides = array<i64: 1, 1, 1, 1>}> ({
    ^bb0(%arg1: tensor<f32>, %arg2: tensor<f32>):
      %2 = stablehlo.add %arg1, %arg2 : tensor<f32>
      stablehlo.return %2 : tensor<f32>
    }) : (tensor<3x4x4x6xf32>, tensor<f32>) -> tensor<3x4x4x6xf32>
    return %1 : tensor<3x4x4x6xf32>
  }
}
