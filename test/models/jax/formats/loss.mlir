module @jit_loss attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<6xf32>, %arg1: tensor<10x6xf32>, %arg2: tensor<6x10xf32>, %arg3: tensor<5x6xf32>, %arg4: tensor<5x6xf32>) -> (tensor<f32> {jax.result_info = "result"}) {
    %0 = stablehlo.convert %arg3 : (tensor<5x6xf32>) -> tensor<5x6xf8E4M3FN>
    %1 = stablehlo.convert %arg2 : (tensor<6x10xf32>) -> tensor<6x10xf8E4M3FN>
    %2 = stablehlo.dot_general %0, %1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<5x6xf8E4M3FN>, tensor<6x10xf8E4M3FN>) -> tensor<5x10xf32>
    %3 = stablehlo.tanh %2 : tensor<5x10xf32>
    %4 = stablehlo.convert %3 : (tensor<5x10xf32>) -> tensor<5x10xf8E5M2>
    %5 = stablehlo.reshape %4 : (tensor<5x10xf8E5M2>) -> tensor<10x5xf8E5M2>
    %6 = stablehlo.transpose %5, dims = [1, 0] : (tensor<10x5xf8E5M2>) -> tensor<5x10xf8E5M2>
    %7 = stablehlo.convert %6 : (tensor<5x10xf8E5M2>) -> tensor<5x10xf32>
    %8 = stablehlo.dot_general %7, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<5x10xf32>, tensor<10x6xf32>) -> tensor<5x6xf32>
    %9 = stablehlo.reduce_precision %8, format = e8m3 : tensor<5x6xf32>
    %10 = stablehlo.broadcast_in_dim %arg0, dims = [1] : (tensor<6xf32>) -> tensor<1x6xf32>
    %11 = stablehlo.broadcast_in_dim %10, dims = [0, 1] : (tensor<1x6xf32>) -> tensor<5x6xf32>
    %12 = stablehlo.multiply %9, %11 : tensor<5x6xf32>
    %cst = stablehlo.constant dense<9.99999974E-5> : tensor<f32>
    %13 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<5x6xf32>
    %14 = stablehlo.multiply %arg3, %13 : tensor<5x6xf32>
    %15 = stablehlo.reduce_precision %14, format = e5m2 : tensor<5x6xf32>
    %cst_0 = stablehlo.constant dense<1.000000e+04> : tensor<f32>
    %16 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<5x6xf32>
    %17 = stablehlo.multiply %15, %16 : tensor<5x6xf32>
    %cst_1 = stablehlo.constant dense<2.000000e-01> : tensor<f32>
    %18 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<5x6xf32>
    %19 = stablehlo.subtract %17, %18 : tensor<5x6xf32>
    %20 = stablehlo.atan2 %12, %19 : tensor<5x6xf32>
    %21 = stablehlo.tanh %12 : tensor<5x6xf32>
    %cst_2 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %22 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<5x6xf32>
    %23 = stablehlo.multiply %22, %21 : tensor<5x6xf32>
    %24 = chlo.asin %23 : tensor<5x6xf32> -> tensor<5x6xf32>
    %25 = stablehlo.cosine %arg4 : tensor<5x6xf32>
    %26 = chlo.acos %25 : tensor<5x6xf32> -> tensor<5x6xf32>
    %27 = stablehlo.multiply %24, %26 : tensor<5x6xf32>
    %28 = stablehlo.add %20, %27 : tensor<5x6xf32>
    %cst_3 = stablehlo.constant dense<3.000000e+00> : tensor<f32>
    %29 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<5x6xf32>
    %30 = stablehlo.multiply %29, %12 : tensor<5x6xf32>
    %31 = chlo.atan %30 : tensor<5x6xf32> -> tensor<5x6xf32>
    %32 = stablehlo.add %28, %31 : tensor<5x6xf32>
    %33 = stablehlo.subtract %32, %arg4 : tensor<5x6xf32>
    %34 = stablehlo.multiply %33, %33 : tensor<5x6xf32>
    %cst_4 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %35 = stablehlo.reduce(%34 init: %cst_4) applies stablehlo.add across dimensions = [0, 1] : (tensor<5x6xf32>, tensor<f32>) -> tensor<f32>
    %cst_5 = stablehlo.constant dense<3.000000e+01> : tensor<f32>
    %36 = stablehlo.divide %35, %cst_5 : tensor<f32>
    %cst_6 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %37 = stablehlo.multiply %cst_6, %36 : tensor<f32>
    return %37 : tensor<f32>
  }
}
