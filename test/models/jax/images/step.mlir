module @jit_step attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4x1x2x2xf32> {tf.aliasing_output = 0 : i32}, %arg1: tensor<3x2x2x8xf32> {tf.aliasing_output = 1 : i32}, %arg2: tensor<4xf32> {tf.aliasing_output = 2 : i32}, %arg3: tensor<6x8x3x3xf32> {tf.aliasing_output = 3 : i32}, %arg4: tensor<6x4x2x2xf32> {tf.aliasing_output = 4 : i32}, %arg5: tensor<i32> {tf.aliasing_output = 5 : i32}, %arg6: tensor<4x1x2x2xf32> {tf.aliasing_output = 6 : i32}, %arg7: tensor<3x2x2x8xf32> {tf.aliasing_output = 7 : i32}, %arg8: tensor<4xf32> {tf.aliasing_output = 8 : i32}, %arg9: tensor<6x8x3x3xf32> {tf.aliasing_output = 9 : i32}, %arg10: tensor<6x4x2x2xf32> {tf.aliasing_output = 10 : i32}, %arg11: tensor<3x9x8x4xf32>, %arg12: tensor<3xf32>) -> (tensor<4x1x2x2xf32> {jax.result_info = "result[0]['depth']"}, tensor<3x2x2x8xf32> {jax.result_info = "result[0]['first']"}, tensor<4xf32> {jax.result_info = "result[0]['out']"}, tensor<6x8x3x3xf32> {jax.result_info = "result[0]['second']"}, tensor<6x4x2x2xf32> {jax.result_info = "result[0]['up']"}, tensor<i32> {jax.result_info = "result[1]['count']"}, tensor<4x1x2x2xf32> {jax.result_info = "result[1]['velocity']['depth']"}, tensor<3x2x2x8xf32> {jax.result_info = "result[1]['velocity']['first']"}, tensor<4xf32> {jax.result_info = "result[1]['velocity']['out']"}, tensor<6x8x3x3xf32> {jax.result_info = "result[1]['velocity']['second']"}, tensor<6x4x2x2xf32> {jax.result_info = "result[1]['velocity']['up']"}, tensor<f32> {jax.result_info = "result[2]"}) {
    %0 = stablehlo.convolution(%arg11, %arg1) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [2, 1], pad = [[1, 2], [0, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 2], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 2 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<3x9x8x4xf32>, tensor<3x2x2x8xf32>) -> tensor<3x5x7x8xf32>
    %1 = call @relu(%0) : (tensor<3x5x7x8xf32>) -> tensor<3x5x7x8xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<3x5x7x8xf32>
    %3 = stablehlo.compare GT, %0, %2, FLOAT : (tensor<3x5x7x8xf32>, tensor<3x5x7x8xf32>) -> tensor<3x5x7x8xi1>
    %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %4 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<f32>
    %5 = "stablehlo.reduce_window"(%1, %4) <{base_dilations = array<i64: 1, 1, 1, 1>, padding = dense<[[0, 0], [1, 1], [0, 1], [0, 0]]> : tensor<4x2xi64>, window_dilations = array<i64: 1, 1, 1, 1>, window_dimensions = array<i64: 1, 3, 2, 1>, window_strides = array<i64: 1, 2, 1, 1>}> ({
    ^bb0(%arg13: tensor<f32>, %arg14: tensor<f32>):
      %98 = stablehlo.maximum %arg13, %arg14 : tensor<f32>
      stablehlo.return %98 : tensor<f32>
    }) : (tensor<3x5x7x8xf32>, tensor<f32>) -> tensor<3x3x7x8xf32>
    %6 = stablehlo.transpose %5, dims = [0, 3, 1, 2] : (tensor<3x3x7x8xf32>) -> tensor<3x8x3x7xf32>
    %7 = stablehlo.convolution(%6, %arg3) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<3x8x3x7xf32>, tensor<6x8x3x3xf32>) -> tensor<3x6x3x7xf32>
    %8 = stablehlo.tanh %7 : tensor<3x6x3x7xf32>
    %cst_1 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %9 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<3x6x3x7xf32>
    %10 = stablehlo.subtract %9, %8 : tensor<3x6x3x7xf32>
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %11 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<f32>
    %12 = "stablehlo.reduce_window"(%8, %11) <{base_dilations = array<i64: 1, 1, 1, 1>, padding = dense<0> : tensor<4x2xi64>, window_dilations = array<i64: 1, 1, 1, 1>, window_dimensions = array<i64: 1, 1, 2, 2>, window_strides = array<i64: 1, 1, 1, 2>}> ({
    ^bb0(%arg13: tensor<f32>, %arg14: tensor<f32>):
      %98 = stablehlo.add %arg13, %arg14 : tensor<f32>
      stablehlo.return %98 : tensor<f32>
    }) : (tensor<3x6x3x7xf32>, tensor<f32>) -> tensor<3x6x2x3xf32>
    %cst_3 = stablehlo.constant dense<4.000000e+00> : tensor<f32>
    %13 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<3x6x2x3xf32>
    %14 = stablehlo.divide %12, %13 : tensor<3x6x2x3xf32>
    %15 = stablehlo.convolution(%14, %arg4) dim_numbers = [b, f, 0, 1]x[i, o, 0, 1]->[b, f, 0, 1], window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [2, 2], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<3x6x2x3xf32>, tensor<6x4x2x2xf32>) -> tensor<3x4x4x6xf32>
    %16 = call @cumsum(%15) : (tensor<3x4x4x6xf32>) -> tensor<3x4x4x6xf32>
    %17 = stablehlo.convolution(%16, %arg0) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [1, 2], pad = [[-1, 1], [1, -1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 4 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<3x4x4x6xf32>, tensor<4x1x2x2xf32>) -> tensor<3x4x3x3xf32>
    %cst_4 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %18 = stablehlo.reduce(%17 init: %cst_4) applies stablehlo.add across dimensions = [2, 3] : (tensor<3x4x3x3xf32>, tensor<f32>) -> tensor<3x4xf32>
    %cst_5 = stablehlo.constant dense<9.000000e+00> : tensor<f32>
    %19 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<3x4xf32>
    %20 = stablehlo.divide %18, %19 : tensor<3x4xf32>
    %21 = stablehlo.dot_general %20, %arg2, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<3x4xf32>, tensor<4xf32>) -> tensor<3xf32>
    %22 = stablehlo.subtract %21, %arg12 : tensor<3xf32>
    %23 = stablehlo.multiply %22, %22 : tensor<3xf32>
    %cst_6 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %24 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<3xf32>
    %25 = stablehlo.multiply %24, %22 : tensor<3xf32>
    %cst_7 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %26 = stablehlo.reduce(%23 init: %cst_7) applies stablehlo.add across dimensions = [0] : (tensor<3xf32>, tensor<f32>) -> tensor<f32>
    %cst_8 = stablehlo.constant dense<3.000000e+00> : tensor<f32>
    %27 = stablehlo.divide %26, %cst_8 : tensor<f32>
    %cst_9 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %cst_10 = stablehlo.constant dense<3.000000e+00> : tensor<f32>
    %28 = stablehlo.divide %cst_9, %cst_10 : tensor<f32>
    %29 = stablehlo.broadcast_in_dim %28, dims = [] : (tensor<f32>) -> tensor<3xf32>
    %30 = stablehlo.multiply %29, %25 : tensor<3xf32>
    %31 = stablehlo.dot_general %30, %20, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<3xf32>, tensor<3x4xf32>) -> tensor<4xf32>
    %32 = stablehlo.dot_general %30, %arg2, contracting_dims = [] x [], precision = [DEFAULT, DEFAULT] : (tensor<3xf32>, tensor<4xf32>) -> tensor<3x4xf32>
    %cst_11 = stablehlo.constant dense<9.000000e+00> : tensor<f32>
    %33 = stablehlo.broadcast_in_dim %cst_11, dims = [] : (tensor<f32>) -> tensor<3x4xf32>
    %34 = stablehlo.divide %32, %33 : tensor<3x4xf32>
    %35 = stablehlo.broadcast_in_dim %34, dims = [0, 1] : (tensor<3x4xf32>) -> tensor<3x4x3x3xf32>
    %36 = stablehlo.convolution(%16, %35) dim_numbers = [f, b, 0, 1]x[i, o, 0, 1]->[f, b, 0, 1], window = {stride = [1, 1], pad = [[-1, 1], [1, -1]], lhs_dilate = [1, 1], rhs_dilate = [1, 2], reverse = [false, false]} {batch_group_count = 4 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<3x4x4x6xf32>, tensor<3x4x3x3xf32>) -> tensor<4x1x2x2xf32>
    %37 = stablehlo.reshape %arg0 : (tensor<4x1x2x2xf32>) -> tensor<4x1x1x2x2xf32>
    %38 = stablehlo.transpose %37, dims = [1, 0, 2, 3, 4] : (tensor<4x1x1x2x2xf32>) -> tensor<1x4x1x2x2xf32>
    %39 = stablehlo.reshape %38 : (tensor<1x4x1x2x2xf32>) -> tensor<1x4x2x2xf32>
    %40 = stablehlo.reverse %39, dims = [2, 3] : tensor<1x4x2x2xf32>
    %41 = stablehlo.convolution(%35, %40) dim_numbers = [b, f, 0, 1]x[i, o, 0, 1]->[b, f, 0, 1], window = {stride = [1, 1], pad = [[2, 0], [0, 2]], lhs_dilate = [1, 2], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 4 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<3x4x3x3xf32>, tensor<1x4x2x2xf32>) -> tensor<3x4x4x6xf32>
    %42 = call @cumsum_1(%41) : (tensor<3x4x4x6xf32>) -> tensor<3x4x4x6xf32>
    %43 = stablehlo.convolution(%14, %42) dim_numbers = [f, b, 0, 1]x[i, o, 0, 1]->[b, f, 0, 1], window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [2, 2], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<3x6x2x3xf32>, tensor<3x4x4x6xf32>) -> tensor<6x4x2x2xf32>
    %44 = stablehlo.reverse %arg4, dims = [2, 3] : tensor<6x4x2x2xf32>
    %45 = stablehlo.convolution(%42, %44) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [2, 2], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<3x4x4x6xf32>, tensor<6x4x2x2xf32>) -> tensor<3x6x2x3xf32>
    %cst_12 = stablehlo.constant dense<4.000000e+00> : tensor<f32>
    %46 = stablehlo.broadcast_in_dim %cst_12, dims = [] : (tensor<f32>) -> tensor<3x6x2x3xf32>
    %47 = stablehlo.divide %45, %46 : tensor<3x6x2x3xf32>
    %cst_13 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %48 = stablehlo.pad %47, %cst_13, low = [0, 0, 1, 1], high = [0, 0, 1, 2], interior = [0, 0, 0, 1] : (tensor<3x6x2x3xf32>, tensor<f32>) -> tensor<3x6x4x8xf32>
    %cst_14 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %49 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<f32>) -> tensor<f32>
    %50 = "stablehlo.reduce_window"(%48, %49) <{base_dilations = array<i64: 1, 1, 1, 1>, padding = dense<0> : tensor<4x2xi64>, window_dilations = array<i64: 1, 1, 1, 1>, window_dimensions = array<i64: 1, 1, 2, 2>, window_strides = array<i64: 1, 1, 1, 1>}> ({
    ^bb0(%arg13: tensor<f32>, %arg14: tensor<f32>):
      %98 = stablehlo.add %arg13, %arg14 : tensor<f32>
      stablehlo.return %98 : tensor<f32>
    }) : (tensor<3x6x4x8xf32>, tensor<f32>) -> tensor<3x6x3x7xf32>
    %51 = stablehlo.multiply %50, %10 : tensor<3x6x3x7xf32>
    %52 = stablehlo.multiply %51, %8 : tensor<3x6x3x7xf32>
    %53 = stablehlo.add %51, %52 : tensor<3x6x3x7xf32>
    %54 = stablehlo.convolution(%6, %53) dim_numbers = [f, b, 0, 1]x[i, o, 0, 1]->[f, b, 0, 1], window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<3x8x3x7xf32>, tensor<3x6x3x7xf32>) -> tensor<6x8x3x3xf32>
    %55 = stablehlo.reverse %arg3, dims = [2, 3] : tensor<6x8x3x3xf32>
    %56 = stablehlo.convolution(%53, %55) dim_numbers = [b, f, 0, 1]x[i, o, 0, 1]->[b, f, 0, 1], window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<3x6x3x7xf32>, tensor<6x8x3x3xf32>) -> tensor<3x8x3x7xf32>
    %57 = stablehlo.transpose %56, dims = [0, 2, 3, 1] : (tensor<3x8x3x7xf32>) -> tensor<3x3x7x8xf32>
    %cst_15 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %58 = stablehlo.pad %1, %cst_15, low = [0, 1, 0, 0], high = [0, 1, 1, 0], interior = [0, 0, 0, 0] : (tensor<3x5x7x8xf32>, tensor<f32>) -> tensor<3x7x8x8xf32>
    %cst_16 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %59 = "stablehlo.select_and_scatter"(%58, %57, %cst_16) <{padding = dense<0> : tensor<4x2xi64>, window_dimensions = array<i64: 1, 3, 2, 1>, window_strides = array<i64: 1, 2, 1, 1>}> ({
    ^bb0(%arg13: tensor<f32>, %arg14: tensor<f32>):
      %98 = stablehlo.compare GE, %arg13, %arg14, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %98 : tensor<i1>
    }, {
    ^bb0(%arg13: tensor<f32>, %arg14: tensor<f32>):
      %98 = stablehlo.add %arg13, %arg14 : tensor<f32>
      stablehlo.return %98 : tensor<f32>
    }) : (tensor<3x7x8x8xf32>, tensor<3x3x7x8xf32>, tensor<f32>) -> tensor<3x7x8x8xf32>
    %60 = stablehlo.slice %59 [0:3, 1:6, 0:7, 0:8] : (tensor<3x7x8x8xf32>) -> tensor<3x5x7x8xf32>
    %cst_17 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %61 = stablehlo.broadcast_in_dim %cst_17, dims = [] : (tensor<f32>) -> tensor<3x5x7x8xf32>
    %62 = stablehlo.select %3, %60, %61 : tensor<3x5x7x8xi1>, tensor<3x5x7x8xf32>
    %63 = stablehlo.convolution(%arg11, %62) dim_numbers = [f, 0, 1, b]x[i, 0, 1, o]->[0, 1, b, f], window = {stride = [1, 2], pad = [[1, 1], [0, 1]], lhs_dilate = [1, 1], rhs_dilate = [2, 1], reverse = [false, false]} {batch_group_count = 2 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<3x9x8x4xf32>, tensor<3x5x7x8xf32>) -> tensor<3x2x2x8xf32>
    %cst_18 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %64 = stablehlo.broadcast_in_dim %cst_18, dims = [] : (tensor<f32>) -> tensor<4x1x2x2xf32>
    %65 = stablehlo.multiply %64, %arg6 : tensor<4x1x2x2xf32>
    %66 = stablehlo.add %65, %36 : tensor<4x1x2x2xf32>
    %cst_19 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %67 = stablehlo.broadcast_in_dim %cst_19, dims = [] : (tensor<f32>) -> tensor<3x2x2x8xf32>
    %68 = stablehlo.multiply %67, %arg7 : tensor<3x2x2x8xf32>
    %69 = stablehlo.add %68, %63 : tensor<3x2x2x8xf32>
    %cst_20 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %70 = stablehlo.broadcast_in_dim %cst_20, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %71 = stablehlo.multiply %70, %arg8 : tensor<4xf32>
    %72 = stablehlo.add %71, %31 : tensor<4xf32>
    %cst_21 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %73 = stablehlo.broadcast_in_dim %cst_21, dims = [] : (tensor<f32>) -> tensor<6x8x3x3xf32>
    %74 = stablehlo.multiply %73, %arg9 : tensor<6x8x3x3xf32>
    %75 = stablehlo.add %74, %54 : tensor<6x8x3x3xf32>
    %cst_22 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %76 = stablehlo.broadcast_in_dim %cst_22, dims = [] : (tensor<f32>) -> tensor<6x4x2x2xf32>
    %77 = stablehlo.multiply %76, %arg10 : tensor<6x4x2x2xf32>
    %78 = stablehlo.add %77, %43 : tensor<6x4x2x2xf32>
    %79 = stablehlo.convert %arg5 : (tensor<i32>) -> tensor<f32>
    %cst_23 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %80 = stablehlo.add %cst_23, %79 : tensor<f32>
    %cst_24 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %81 = stablehlo.divide %cst_24, %80 : tensor<f32>
    %82 = stablehlo.broadcast_in_dim %81, dims = [] : (tensor<f32>) -> tensor<4x1x2x2xf32>
    %83 = stablehlo.multiply %82, %66 : tensor<4x1x2x2xf32>
    %84 = stablehlo.subtract %arg0, %83 : tensor<4x1x2x2xf32>
    %85 = stablehlo.broadcast_in_dim %81, dims = [] : (tensor<f32>) -> tensor<3x2x2x8xf32>
    %86 = stablehlo.multiply %85, %69 : tensor<3x2x2x8xf32>
    %87 = stablehlo.subtract %arg1, %86 : tensor<3x2x2x8xf32>
    %88 = stablehlo.broadcast_in_dim %81, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %89 = stablehlo.multiply %88, %72 : tensor<4xf32>
    %90 = stablehlo.subtract %arg2, %89 : tensor<4xf32>
    %91 = stablehlo.broadcast_in_dim %81, dims = [] : (tensor<f32>) -> tensor<6x8x3x3xf32>
    %92 = stablehlo.multiply %91, %75 : tensor<6x8x3x3xf32>
    %93 = stablehlo.subtract %arg3, %92 : tensor<6x8x3x3xf32>
    %94 = stablehlo.broadcast_in_dim %81, dims = [] : (tensor<f32>) -> tensor<6x4x2x2xf32>
    %95 = stablehlo.multiply %94, %78 : tensor<6x4x2x2xf32>
    %96 = stablehlo.subtract %arg4, %95 : tensor<6x4x2x2xf32>
    %c = stablehlo.constant dense<1> : tensor<i32>
    %97 = stablehlo.add %arg5, %c : tensor<i32>
    return %84, %87, %90, %93, %96, %97, %66, %69, %72, %75, %78, %27 : tensor<4x1x2x2xf32>, tensor<3x2x2x8xf32>, tensor<4xf32>, tensor<6x8x3x3xf32>, tensor<6x4x2x2xf32>, tensor<i32>, tensor<4x1x2x2xf32>, tensor<3x2x2x8xf32>, tensor<4xf32>, tensor<6x8x3x3xf32>, tensor<6x4x2x2xf32>, tensor<f32>
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
  func.func private @cumsum_1(%arg0: tensor<3x4x4x6xf32>) -> tensor<3x4x4x6xf32> {
    %0 = call @cumsum_2(%arg0) : (tensor<3x4x4x6xf32>) -> tensor<3x4x4x6xf32>
    return %0 : tensor<3x4x4x6xf32>
  }
  func.func private @cumsum_2(%arg0: tensor<3x4x4x6xf32>) -> tensor<3x4x4x6xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<f32>
    %1 = "stablehlo.reduce_window"(%arg0, %0) <{base_dilations = array<i64: 1, 1, 1, 1>, padding = dense<[[0, 0], [0, 0], [0, 0], [0, 5]]> : tensor<4x2xi64>, window_dilations = array<i64: 1, 1, 1, 1>, window_dimensions = array<i64: 1, 1, 1, 6>, window_strides = array<i64: 1, 1, 1, 1>}> ({
    ^bb0(%arg1: tensor<f32>, %arg2: tensor<f32>):
      %2 = stablehlo.add %arg1, %arg2 : tensor<f32>
      stablehlo.return %2 : tensor<f32>
    }) : (tensor<3x4x4x6xf32>, tensor<f32>) -> tensor<3x4x4x6xf32>
    return %1 : tensor<3x4x4x6xf32>
  }
}
