module @jit_loss attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4x6x5xf32>, %arg1: tensor<5x4xf32>, %arg2: tensor<4x5x6xf32>, %arg3: tensor<i32>, %arg4: tensor<6x5xf32>) -> (tensor<f32> {jax.result_info = "result"}) {
    %0 = stablehlo.dot_general %arg4, %arg2, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<6x5xf32>, tensor<4x5x6xf32>) -> tensor<6x4x6xf32>
    %1 = stablehlo.tanh %0 : tensor<6x4x6xf32>
    %2 = stablehlo.dot_general %1, %arg0, batching_dims = [1] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<6x4x6xf32>, tensor<4x6x5xf32>) -> tensor<4x6x5xf32>
    %3 = stablehlo.dot_general %arg4, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<6x5xf32>, tensor<5x4xf32>) -> tensor<6x4xf32>
    %values, %indices = chlo.top_k(%3, k = 2) : tensor<6x4xf32> -> (tensor<6x2xf32>, tensor<6x2xi32>)
    %cst = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %4 = stablehlo.reduce(%values init: %cst) applies stablehlo.maximum across dimensions = [1] : (tensor<6x2xf32>, tensor<f32>) -> tensor<6xf32>
    %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %5 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<6xf32>
    %6 = stablehlo.maximum %5, %4 : tensor<6xf32>
    %7 = stablehlo.broadcast_in_dim %6, dims = [0] : (tensor<6xf32>) -> tensor<6x1xf32>
    %8 = stablehlo.broadcast_in_dim %7, dims = [0, 1] : (tensor<6x1xf32>) -> tensor<6x2xf32>
    %9 = stablehlo.subtract %values, %8 : tensor<6x2xf32>
    %10 = stablehlo.exponential %9 : tensor<6x2xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %11 = stablehlo.reduce(%10 init: %cst_1) applies stablehlo.add across dimensions = [1] : (tensor<6x2xf32>, tensor<f32>) -> tensor<6xf32>
    %12 = stablehlo.broadcast_in_dim %11, dims = [0] : (tensor<6xf32>) -> tensor<6x1xf32>
    %13 = stablehlo.broadcast_in_dim %12, dims = [0, 1] : (tensor<6x1xf32>) -> tensor<6x2xf32>
    %14 = stablehlo.divide %10, %13 : tensor<6x2xf32>
    %15 = stablehlo.transpose %2, dims = [1, 0, 2] : (tensor<4x6x5xf32>) -> tensor<6x4x5xf32>
    %16 = stablehlo.broadcast_in_dim %indices, dims = [0, 1] : (tensor<6x2xi32>) -> tensor<6x2x1xi32>
    %17 = call @take_along_axis(%15, %16) : (tensor<6x4x5xf32>, tensor<6x2x1xi32>) -> tensor<6x2x5xf32>
    %18 = stablehlo.broadcast_in_dim %14, dims = [0, 1] : (tensor<6x2xf32>) -> tensor<6x2x1xf32>
    %19 = stablehlo.broadcast_in_dim %18, dims = [0, 1, 2] : (tensor<6x2x1xf32>) -> tensor<6x2x5xf32>
    %20 = stablehlo.multiply %17, %19 : tensor<6x2x5xf32>
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %21 = stablehlo.reduce(%20 init: %cst_2) applies stablehlo.add across dimensions = [1] : (tensor<6x2x5xf32>, tensor<f32>) -> tensor<6x5xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_3 = stablehlo.constant dense<2> : tensor<i32>
    %22 = stablehlo.clamp %c, %arg3, %c_3 : tensor<i32>
    %23 = "stablehlo.case"(%22) ({
      %cst_14 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
      %46 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<f32>) -> tensor<6x5xf32>
      %47 = stablehlo.multiply %21, %46 : tensor<6x5xf32>
      stablehlo.return %47 : tensor<6x5xf32>
    }, {
      %cst_14 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
      %46 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<f32>) -> tensor<6x5xf32>
      %47 = stablehlo.add %21, %46 : tensor<6x5xf32>
      stablehlo.return %47 : tensor<6x5xf32>
    }, {
      %46 = stablehlo.multiply %21, %21 : tensor<6x5xf32>
      stablehlo.return %46 : tensor<6x5xf32>
    }) : (tensor<i32>) -> tensor<6x5xf32>
    %24 = stablehlo.tanh %23 : tensor<6x5xf32>
    %cst_4 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %25 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<6x5xf32>
    %26 = stablehlo.multiply %25, %24 : tensor<6x5xf32>
    %cst_5 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %27 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<6x5xf32>
    %28 = stablehlo.add %27, %26 : tensor<6x5xf32>
    %cst_6 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %29 = stablehlo.reduce(%28 init: %cst_6) applies stablehlo.multiply across dimensions = [1] : (tensor<6x5xf32>, tensor<f32>) -> tensor<6xf32>
    %cst_7 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %30 = stablehlo.reduce(%23 init: %cst_7) applies stablehlo.minimum across dimensions = [1] : (tensor<6x5xf32>, tensor<f32>) -> tensor<6xf32>
    %31 = stablehlo.add %29, %30 : tensor<6xf32>
    %cst_8 = stablehlo.constant dense<1.500000e+00> : tensor<f32>
    %32 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f32>) -> tensor<6x5xf32>
    %33 = stablehlo.compare GT, %23, %32, FLOAT : (tensor<6x5xf32>, tensor<6x5xf32>) -> tensor<6x5xi1>
    %c_9 = stablehlo.constant dense<false> : tensor<i1>
    %34 = stablehlo.reduce(%33 init: %c_9) applies stablehlo.or across dimensions = [1] : (tensor<6x5xi1>, tensor<i1>) -> tensor<6xi1>
    %35 = call @softplus(%23) : (tensor<6x5xf32>) -> tensor<6x5xf32>
    %cst_10 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %36 = stablehlo.reduce(%35 init: %cst_10) applies stablehlo.add across dimensions = [1] : (tensor<6x5xf32>, tensor<f32>) -> tensor<6xf32>
    %37 = call @_where(%34, %31, %36) : (tensor<6xi1>, tensor<6xf32>, tensor<6xf32>) -> tensor<6xf32>
    %38 = stablehlo.slice %23 [0:6, 0:1] : (tensor<6x5xf32>) -> tensor<6x1xf32>
    %39 = stablehlo.reshape %38 : (tensor<6x1xf32>) -> tensor<6xf32>
    %cst_11 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %40 = stablehlo.broadcast_in_dim %cst_11, dims = [] : (tensor<f32>) -> tensor<6xf32>
    %41 = stablehlo.multiply %40, %39 : tensor<6xf32>
    %42 = stablehlo.exponential_minus_one %41 : tensor<6xf32>
    %43 = stablehlo.add %37, %42 : tensor<6xf32>
    %cst_12 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %44 = stablehlo.reduce(%43 init: %cst_12) applies stablehlo.add across dimensions = [0] : (tensor<6xf32>, tensor<f32>) -> tensor<f32>
    %cst_13 = stablehlo.constant dense<6.000000e+00> : tensor<f32>
    %45 = stablehlo.divide %44, %cst_13 : tensor<f32>
    return %45 : tensor<f32>
  }
  func.func private @take_along_axis(%arg0: tensor<6x4x5xf32>, %arg1: tensor<6x2x1xi32>) -> tensor<6x2x5xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<6x2x1xi32>
    %1 = stablehlo.compare LT, %arg1, %0, SIGNED : (tensor<6x2x1xi32>, tensor<6x2x1xi32>) -> tensor<6x2x1xi1>
    %c_0 = stablehlo.constant dense<4> : tensor<i32>
    %2 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<6x2x1xi32>
    %3 = stablehlo.add %arg1, %2 : tensor<6x2x1xi32>
    %4 = stablehlo.select %1, %3, %arg1 : tensor<6x2x1xi1>, tensor<6x2x1xi32>
    %c_1 = stablehlo.constant dense<3> : tensor<1xi32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %5 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<i32>) -> tensor<6x2x1xi32>
    %6 = stablehlo.compare GE, %4, %5, SIGNED : (tensor<6x2x1xi32>, tensor<6x2x1xi32>) -> tensor<6x2x1xi1>
    %7 = stablehlo.broadcast_in_dim %c_1, dims = [2] : (tensor<1xi32>) -> tensor<1x1x1xi32>
    %8 = stablehlo.broadcast_in_dim %7, dims = [0, 1, 2] : (tensor<1x1x1xi32>) -> tensor<6x2x1xi32>
    %9 = stablehlo.compare LE, %4, %8, SIGNED : (tensor<6x2x1xi32>, tensor<6x2x1xi32>) -> tensor<6x2x1xi1>
    %10 = stablehlo.and %6, %9 : tensor<6x2x1xi1>
    %c_3 = stablehlo.constant dense<true> : tensor<i1>
    %11 = stablehlo.reduce(%10 init: %c_3) applies stablehlo.and across dimensions = [2] : (tensor<6x2x1xi1>, tensor<i1>) -> tensor<6x2xi1>
    %12 = "stablehlo.gather"(%arg0, %4) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1, 5>}> : (tensor<6x4x5xf32>, tensor<6x2x1xi32>) -> tensor<6x2x5xf32>
    %13 = stablehlo.broadcast_in_dim %11, dims = [0, 1] : (tensor<6x2xi1>) -> tensor<6x2x5xi1>
    %cst = stablehlo.constant dense<0x7FC00000> : tensor<f32>
    %14 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<6x2x5xf32>
    %15 = stablehlo.select %13, %12, %14 : tensor<6x2x5xi1>, tensor<6x2x5xf32>
    return %15 : tensor<6x2x5xf32>
  }
  func.func private @softplus(%arg0: tensor<6x5xf32>) -> tensor<6x5xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<6x5xf32>
    %1 = stablehlo.maximum %arg0, %0 : tensor<6x5xf32>
    %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<6x5xf32>
    %3 = stablehlo.subtract %arg0, %2 : tensor<6x5xf32>
    %4 = stablehlo.compare NE, %3, %3, FLOAT : (tensor<6x5xf32>, tensor<6x5xf32>) -> tensor<6x5xi1>
    %5 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<6x5xf32>
    %6 = stablehlo.add %arg0, %5 : tensor<6x5xf32>
    %7 = stablehlo.abs %3 : tensor<6x5xf32>
    %8 = stablehlo.negate %7 : tensor<6x5xf32>
    %9 = stablehlo.exponential %8 : tensor<6x5xf32>
    %10 = stablehlo.log_plus_one %9 : tensor<6x5xf32>
    %11 = stablehlo.add %1, %10 : tensor<6x5xf32>
    %12 = stablehlo.select %4, %6, %11 : tensor<6x5xi1>, tensor<6x5xf32>
    return %12 : tensor<6x5xf32>
  }
  func.func private @_where(%arg0: tensor<6xi1>, %arg1: tensor<6xf32>, %arg2: tensor<6xf32>) -> tensor<6xf32> {
    %0 = stablehlo.select %arg0, %arg1, %arg2 : tensor<6xi1>, tensor<6xf32>
    return %0 : tensor<6xf32>
  }
}
