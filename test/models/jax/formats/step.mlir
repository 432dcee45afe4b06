module @jit_step attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<6xf32> {tf.aliasing_output = 0 : i32}, %arg1: tensor<10x6xf32> {tf.aliasing_output = 1 : i32}, %arg2: tensor<6x10xf32> {tf.aliasing_output = 2 : i32}, %arg3: tensor<i32> {tf.aliasing_output = 3 : i32}, %arg4: tensor<6xf32> {tf.aliasing_output = 4 : i32}, %arg5: tensor<10x6xf32> {tf.aliasing_output = 5 : i32}, %arg6: tensor<6x10xf32> {tf.aliasing_output = 6 : i32}, %arg7: tensor<5x6xf32>, %arg8: tensor<5x6xf32>) -> (tensor<6xf32> {jax.result_info = "result[0]['scale']"}, tensor<10x6xf32> {jax.result_info = "result[0]['v']"}, tensor<6x10xf32> {jax.result_info = "result[0]['w']"}, tensor<i32> {jax.result_info = "result[1]['count']"}, tensor<6xf32> {jax.result_info = "result[1]['velocity']['scale']"}, tensor<10x6xf32> {jax.result_info = "result[1]['velocity']['v']"}, tensor<6x10xf32> {jax.result_info = "result[1]['velocity']['w']"}, tensor<f32> {jax.result_info = "result[2]"}) {
    %0 = stablehlo.convert %arg7 : (tensor<5x6xf32>) -> tensor<5x6xf8E4M3FN>
    %1 = stablehlo.convert %arg2 : (tensor<6x10xf32>) -> tensor<6x10xf8E4M3FN>
    %2 = stablehlo.dot_general %0, %1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<5x6xf8E4M3FN>, tensor<6x10xf8E4M3FN>) -> tensor<5x10xf32>
    %3 = stablehlo.tanh %2 : tensor<5x10xf32>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %4 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<5x10xf32>
    %5 = stablehlo.subtract %4, %3 : tensor<5x10xf32>
    %6 = stablehlo.convert %3 : (tensor<5x10xf32>) -> tensor<5x10xf8E5M2>
    %7 = stablehlo.reshape %6 : (tensor<5x10xf8E5M2>) -> tensor<10x5xf8E5M2>
    %8 = stablehlo.transpose %7, dims = [1, 0] : (tensor<10x5xf8E5M2>) -> tensor<5x10xf8E5M2>
    %9 = stablehlo.convert %8 : (tensor<5x10xf8E5M2>) -> tensor<5x10xf32>
    %10 = stablehlo.dot_general %9, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<5x10xf32>, tensor<10x6xf32>) -> tensor<5x6xf32>
    %11 = stablehlo.reduce_precision %10, format = e8m3 : tensor<5x6xf32>
    %12 = stablehlo.broadcast_in_dim %arg0, dims = [1] : (tensor<6xf32>) -> tensor<1x6xf32>
    %13 = stablehlo.broadcast_in_dim %12, dims = [0, 1] : (tensor<1x6xf32>) -> tensor<5x6xf32>
    %14 = stablehlo.multiply %11, %13 : tensor<5x6xf32>
    %cst_0 = stablehlo.constant dense<9.99999974E-5> : tensor<f32>
    %15 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<5x6xf32>
    %16 = stablehlo.multiply %arg7, %15 : tensor<5x6xf32>
    %17 = stablehlo.reduce_precision %16, format = e5m2 : tensor<5x6xf32>
    %cst_1 = stablehlo.constant dense<1.000000e+04> : tensor<f32>
    %18 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<5x6xf32>
    %19 = stablehlo.multiply %17, %18 : tensor<5x6xf32>
    %cst_2 = stablehlo.constant dense<2.000000e-01> : tensor<f32>
    %20 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<5x6xf32>
    %21 = stablehlo.subtract %19, %20 : tensor<5x6xf32>
    %22 = stablehlo.atan2 %14, %21 : tensor<5x6xf32>
    %23 = chlo.square %14 : tensor<5x6xf32> -> tensor<5x6xf32>
    %24 = chlo.square %21 : tensor<5x6xf32> -> tensor<5x6xf32>
    %25 = stablehlo.add %23, %24 : tensor<5x6xf32>
    %26 = stablehlo.divide %21, %25 : tensor<5x6xf32>
    %27 = stablehlo.tanh %14 : tensor<5x6xf32>
    %cst_3 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %28 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<5x6xf32>
    %29 = stablehlo.subtract %28, %27 : tensor<5x6xf32>
    %cst_4 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %30 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<5x6xf32>
    %31 = stablehlo.multiply %30, %27 : tensor<5x6xf32>
    %32 = chlo.asin %31 : tensor<5x6xf32> -> tensor<5x6xf32>
    %33 = chlo.square %31 : tensor<5x6xf32> -> tensor<5x6xf32>
    %cst_5 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %34 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<5x6xf32>
    %35 = stablehlo.subtract %34, %33 : tensor<5x6xf32>
    %36 = stablehlo.rsqrt %35 : tensor<5x6xf32>
    %37 = stablehlo.cosine %arg8 : tensor<5x6xf32>
    %38 = chlo.acos %37 : tensor<5x6xf32> -> tensor<5x6xf32>
    %39 = stablehlo.multiply %32, %38 : tensor<5x6xf32>
    %40 = stablehlo.add %22, %39 : tensor<5x6xf32>
    %cst_6 = stablehlo.constant dense<3.000000e+00> : tensor<f32>
    %41 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<5x6xf32>
    %42 = stablehlo.multiply %41, %14 : tensor<5x6xf32>
    %43 = chlo.atan %42 : tensor<5x6xf32> -> tensor<5x6xf32>
    %44 = chlo.square %42 : tensor<5x6xf32> -> tensor<5x6xf32>
    %cst_7 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %45 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f32>) -> tensor<5x6xf32>
    %46 = stablehlo.add %45, %44 : tensor<5x6xf32>
    %47 = stablehlo.add %40, %43 : tensor<5x6xf32>
    %48 = stablehlo.subtract %47, %arg8 : tensor<5x6xf32>
    %49 = stablehlo.multiply %48, %48 : tensor<5x6xf32>
    %cst_8 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %50 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f32>) -> tensor<5x6xf32>
    %51 = stablehlo.multiply %50, %48 : tensor<5x6xf32>
    %cst_9 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %52 = stablehlo.reduce(%49 init: %cst_9) applies stablehlo.add across dimensions = [0, 1] : (tensor<5x6xf32>, tensor<f32>) -> tensor<f32>
    %cst_10 = stablehlo.constant dense<3.000000e+01> : tensor<f32>
    %53 = stablehlo.divide %52, %cst_10 : tensor<f32>
    %cst_11 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %54 = stablehlo.multiply %cst_11, %53 : tensor<f32>
    %cst_12 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %cst_13 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %55 = stablehlo.multiply %cst_12, %cst_13 : tensor<f32>
    %cst_14 = stablehlo.constant dense<3.000000e+01> : tensor<f32>
    %56 = stablehlo.divide %55, %cst_14 : tensor<f32>
    %57 = stablehlo.broadcast_in_dim %56, dims = [] : (tensor<f32>) -> tensor<5x6xf32>
    %58 = stablehlo.multiply %57, %51 : tensor<5x6xf32>
    %59 = stablehlo.divide %58, %46 : tensor<5x6xf32>
    %cst_15 = stablehlo.constant dense<3.000000e+00> : tensor<f32>
    %60 = stablehlo.broadcast_in_dim %cst_15, dims = [] : (tensor<f32>) -> tensor<5x6xf32>
    %61 = stablehlo.multiply %60, %59 : tensor<5x6xf32>
    %62 = stablehlo.multiply %58, %38 : tensor<5x6xf32>
    %63 = stablehlo.multiply %62, %36 : tensor<5x6xf32>
    %cst_16 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %64 = stablehlo.broadcast_in_dim %cst_16, dims = [] : (tensor<f32>) -> tensor<5x6xf32>
    %65 = stablehlo.multiply %64, %63 : tensor<5x6xf32>
    %66 = stablehlo.multiply %65, %29 : tensor<5x6xf32>
    %67 = stablehlo.add %61, %66 : tensor<5x6xf32>
    %68 = stablehlo.multiply %66, %27 : tensor<5x6xf32>
    %69 = stablehlo.add %67, %68 : tensor<5x6xf32>
    %70 = stablehlo.multiply %58, %26 : tensor<5x6xf32>
    %71 = stablehlo.add %69, %70 : tensor<5x6xf32>
    %72 = stablehlo.multiply %11, %71 : tensor<5x6xf32>
    %cst_17 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %73 = stablehlo.reduce(%72 init: %cst_17) applies stablehlo.add across dimensions = [0] : (tensor<5x6xf32>, tensor<f32>) -> tensor<6xf32>
    %74 = stablehlo.reshape %73 : (tensor<6xf32>) -> tensor<1x6xf32>
    %75 = stablehlo.broadcast_in_dim %12, dims = [0, 1] : (tensor<1x6xf32>) -> tensor<5x6xf32>
    %76 = stablehlo.multiply %71, %75 : tensor<5x6xf32>
    %cst_18 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %77 = stablehlo.reduce(%74 init: %cst_18) applies stablehlo.add across dimensions = [0] : (tensor<1x6xf32>, tensor<f32>) -> tensor<6xf32>
    %78 = stablehlo.reduce_precision %76, format = e8m3 : tensor<5x6xf32>
    %79 = stablehlo.dot_general %78, %9, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<5x6xf32>, tensor<5x10xf32>) -> tensor<6x10xf32>
    %80 = stablehlo.transpose %79, dims = [1, 0] : (tensor<6x10xf32>) -> tensor<10x6xf32>
    %81 = stablehlo.dot_general %78, %arg1, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<5x6xf32>, tensor<10x6xf32>) -> tensor<5x10xf32>
    %82 = stablehlo.convert %81 : (tensor<5x10xf32>) -> tensor<5x10xf8E5M2>
    %83 = stablehlo.transpose %82, dims = [1, 0] : (tensor<5x10xf8E5M2>) -> tensor<10x5xf8E5M2>
    %84 = stablehlo.reshape %83 : (tensor<10x5xf8E5M2>) -> tensor<5x10xf8E5M2>
    %85 = stablehlo.convert %84 : (tensor<5x10xf8E5M2>) -> tensor<5x10xf32>
    %86 = stablehlo.multiply %85, %5 : tensor<5x10xf32>
    %87 = stablehlo.multiply %86, %3 : tensor<5x10xf32>
    %88 = stablehlo.add %86, %87 : tensor<5x10xf32>
    %89 = stablehlo.convert %88 : tensor<5x10xf32>
    %90 = stablehlo.convert %0 : (tensor<5x6xf8E4M3FN>) -> tensor<5x6xf32>
    %91 = stablehlo.dot_general %89, %90, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<5x10xf32>, tensor<5x6xf32>) -> tensor<10x6xf32>
    %92 = stablehlo.transpose %91, dims = [1, 0] : (tensor<10x6xf32>) -> tensor<6x10xf32>
    %93 = stablehlo.convert %92 : (tensor<6x10xf32>) -> tensor<6x10xf8E4M3FN>
    %94 = stablehlo.convert %93 : (tensor<6x10xf8E4M3FN>) -> tensor<6x10xf32>
    %cst_19 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %95 = stablehlo.broadcast_in_dim %cst_19, dims = [] : (tensor<f32>) -> tensor<6xf32>
    %96 = stablehlo.multiply %95, %arg4 : tensor<6xf32>
    %97 = stablehlo.add %96, %77 : tensor<6xf32>
    %cst_20 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %98 = stablehlo.broadcast_in_dim %cst_20, dims = [] : (tensor<f32>) -> tensor<10x6xf32>
    %99 = stablehlo.multiply %98, %arg5 : tensor<10x6xf32>
    %100 = stablehlo.add %99, %80 : tensor<10x6xf32>
    %cst_21 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %101 = stablehlo.broadcast_in_dim %cst_21, dims = [] : (tensor<f32>) -> tensor<6x10xf32>
    %102 = stablehlo.multiply %101, %arg6 : tensor<6x10xf32>
    %103 = stablehlo.add %102, %94 : tensor<6x10xf32>
    %104 = stablehlo.convert %arg3 : (tensor<i32>) -> tensor<f32>
    %cst_22 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %105 = stablehlo.add %cst_22, %104 : tensor<f32>
    %cst_23 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %106 = stablehlo.divide %cst_23, %105 : tensor<f32>
    %107 = stablehlo.broadcast_in_dim %106, dims = [] : (tensor<f32>) -> tensor<6xf32>
    %108 = stablehlo.multiply %107, %97 : tensor<6xf32>
    %109 = stablehlo.subtract %arg0, %108 : tensor<6xf32>
    %110 = stablehlo.broadcast_in_dim %106, dims = [] : (tensor<f32>) -> tensor<10x6xf32>
    %111 = stablehlo.multiply %110, %100 : tensor<10x6xf32>
    %112 = stablehlo.subtract %arg1, %111 : tensor<10x6xf32>
    %113 = stablehlo.broadcast_in_dim %106, dims = [] : (tensor<f32>) -> tensor<6x10xf32>
    %114 = stablehlo.multiply %113, %103 : tensor<6x10xf32>
    %115 = stablehlo.subtract %arg2, %114 : tensor<6x10xf32>
    %c = stablehlo.constant dense<1> : tensor<i32>
    %116 = stablehlo.add %arg3, %c : tensor<i32>
    return %109, %112, %115, %116, %97, %100, %103, %54 : tensor<6xf32>, tensor<10x6xf32>, tensor<6x10xf32>, tensor<i32>, tensor<6xf32>, tensor<10x6xf32>, tensor<6x10xf32>, tensor<f32>
  }
}
