module @jit_loss attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<6xf32>, %arg1: tensor<10x6xf32>, %arg2: tensor<6x10xf32>, %arg3: tensor<5x6xf32>, %arg4: tensor<5x6xf32>) -> (tensor<f32> {jax.result_info = "result"}) {
    %0 = stablehlo.convert %arg3 : (tensor<5x6xf32>) -> tensor<5x6xbf16>
    %1 = stablehlo.convert %arg2 : (tensor<6x10xf32>) -> tensor<6x10xbf16>
    %2 = stablehlo.dot_general %0, %1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<5x6xbf16>, tensor<6x10xbf16>) -> tensor<5x10xbf16>
    %3 = call @silu(%2) : (tensor<5x10xbf16>) -> tensor<5x10xbf16>
    %4 = stablehlo.convert %arg1 : (tensor<10x6xf32>) -> tensor<10x6xbf16>
    %5 = stablehlo.dot_general %3, %4, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<5x10xbf16>, tensor<10x6xbf16>) -> tensor<5x6xf32>
    %6 = stablehlo.convert %5 : (tensor<5x6xf32>) -> tensor<5x6xf16>
    %7 = stablehlo.convert %arg0 : (tensor<6xf32>) -> tensor<6xf16>
    %8 = stablehlo.broadcast_in_dim %7, dims = [1] : (tensor<6xf16>) -> tensor<1x6xf16>
    %9 = stablehlo.broadcast_in_dim %8, dims = [0, 1] : (tensor<1x6xf16>) -> tensor<5x6xf16>
    %10 = stablehlo.multiply %6, %9 : tensor<5x6xf16>
    %cst = stablehlo.constant dense<5.000000e-01> : tensor<f16>
    %11 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f16>) -> tensor<5x6xf16>
    %12 = stablehlo.multiply %10, %11 : tensor<5x6xf16>
    %13 = stablehlo.convert %12 : (tensor<5x6xf16>) -> tensor<5x6xbf16>
    %cst_0 = stablehlo.constant dense<0xFF80> : tensor<bf16>
    %14 = stablehlo.reduce(%13 init: %cst_0) applies stablehlo.maximum across dimensions = [1] : (tensor<5x6xbf16>, tensor<bf16>) -> tensor<5xbf16>
    %cst_1 = stablehlo.constant dense<0xFF80> : tensor<bf16>
    %15 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<bf16>) -> tensor<5xbf16>
    %16 = stablehlo.maximum %15, %14 : tensor<5xbf16>
    %17 = stablehlo.broadcast_in_dim %16, dims = [0] : (tensor<5xbf16>) -> tensor<5x1xbf16>
    %18 = stablehlo.broadcast_in_dim %17, dims = [0, 1] : (tensor<5x1xbf16>) -> tensor<5x6xbf16>
    %19 = stablehlo.subtract %13, %18 : tensor<5x6xbf16>
    %20 = stablehlo.exponential %19 : tensor<5x6xbf16>
    %21 = stablehlo.convert %20 : (tensor<5x6xbf16>) -> tensor<5x6xf32>
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %22 = stablehlo.reduce(%21 init: %cst_2) applies stablehlo.add across dimensions = [1] : (tensor<5x6xf32>, tensor<f32>) -> tensor<5xf32>
    %23 = stablehlo.broadcast_in_dim %22, dims = [0] : (tensor<5xf32>) -> tensor<5x1xf32>
    %24 = stablehlo.convert %23 : (tensor<5x1xf32>) -> tensor<5x1xbf16>
    %25 = stablehlo.broadcast_in_dim %24, dims = [0, 1] : (tensor<5x1xbf16>) -> tensor<5x6xbf16>
    %26 = stablehlo.divide %20, %25 : tensor<5x6xbf16>
    %27 = stablehlo.convert %26 : (tensor<5x6xbf16>) -> tensor<5x6xf32>
    %28 = stablehlo.subtract %27, %arg4 : tensor<5x6xf32>
    %29 = stablehlo.multiply %28, %28 : tensor<5x6xf32>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %30 = stablehlo.reduce(%29 init: %cst_3) applies stablehlo.add across dimensions = [0, 1] : (tensor<5x6xf32>, tensor<f32>) -> tensor<f32>
    %cst_4 = stablehlo.constant dense<3.000000e+01> : tensor<f32>
    %31 = stablehlo.divide %30, %cst_4 : tensor<f32>
    return %31 : tensor<f32>
  }
  func.func private @silu(%arg0: tensor<5x10xbf16>) -> tensor<5x10xbf16> {
    %0 = stablehlo.negate %arg0 : tensor<5x10xbf16>
    %1 = stablehlo.exponential %0 : tensor<5x10xbf16>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<bf16>) -> tensor<5x10xbf16>
    %3 = stablehlo.add %2, %1 : tensor<5x10xbf16>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %4 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<bf16>) -> tensor<5x10xbf16>
    %5 = stablehlo.divide %4, %3 : tensor<5x10xbf16>
    %6 = stablehlo.multiply %arg0, %5 : tensor<5x10xbf16>
    return %6 : tensor<5x10xbf16>
  }
}
