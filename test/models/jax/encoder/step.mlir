module @jit_step attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<20x8xf32> {tf.aliasing_output = 0 : i32}, %arg1: tensor<8x20xf32> {tf.aliasing_output = 1 : i32}, %arg2: tensor<8xf32> {tf.aliasing_output = 2 : i32}, %arg3: tensor<8xf32> {tf.aliasing_output = 3 : i32}, %arg4: tensor<12x8xf32> {tf.aliasing_output = 4 : i32}, %arg5: tensor<8x4xf32> {tf.aliasing_output = 5 : i32}, %arg6: tensor<8xf32> {tf.aliasing_output = 6 : i32}, %arg7: tensor<8xf32> {tf.aliasing_output = 7 : i32}, %arg8: tensor<8x8xf32> {tf.aliasing_output = 8 : i32}, %arg9: tensor<8x8xf32> {tf.aliasing_output = 9 : i32}, %arg10: tensor<8x12xf32> {tf.aliasing_output = 10 : i32}, %arg11: tensor<8x4xf32> {tf.aliasing_output = 11 : i32}, %arg12: tensor<8xf32> {tf.aliasing_output = 12 : i32}, %arg13: tensor<8xf32> {tf.aliasing_output = 13 : i32}, %arg14: tensor<12x8xf32> {tf.aliasing_output = 14 : i32}, %arg15: tensor<8x4xf32> {tf.aliasing_output = 15 : i32}, %arg16: tensor<8xf32> {tf.aliasing_output = 16 : i32}, %arg17: tensor<8xf32> {tf.aliasing_output = 17 : i32}, %arg18: tensor<8x8xf32> {tf.aliasing_output = 18 : i32}, %arg19: tensor<8x8xf32> {tf.aliasing_output = 19 : i32}, %arg20: tensor<8x12xf32> {tf.aliasing_output = 20 : i32}, %arg21: tensor<8x4xf32> {tf.aliasing_output = 21 : i32}, %arg22: tensor<i32> {tf.aliasing_output = 22 : i32}, %arg23: tensor<20x8xf32> {tf.aliasing_output = 23 : i32}, %arg24: tensor<8x20xf32> {tf.aliasing_output = 24 : i32}, %arg25: tensor<8xf32> {tf.aliasing_output = 25 : i32}, %arg26: tensor<8xf32> {tf.aliasing_output = 26 : i32}, %arg27: tensor<12x8xf32> {tf.aliasing_output = 27 : i32}, %arg28: tensor<8x4xf32> {tf.aliasing_output = 28 : i32}, %arg29: tensor<8xf32> {tf.aliasing_output = 29 : i32}, %arg30: tensor<8xf32> {tf.aliasing_output = 30 : i32}, %arg31: tensor<8x8xf32> {tf.aliasing_output = 31 : i32}, %arg32: tensor<8x8xf32> {tf.aliasing_output = 32 : i32}, %arg33: tensor<8x12xf32> {tf.aliasing_output = 33 : i32}, %arg34: tensor<8x4xf32> {tf.aliasing_output = 34 : i32}, %arg35: tensor<8xf32> {tf.aliasing_output = 35 : i32}, %arg36: tensor<8xf32> {tf.aliasing_output = 36 : i32}, %arg37: tensor<12x8xf32> {tf.aliasing_output = 37 : i32}, %arg38: tensor<8x4xf32> {tf.aliasing_output = 38 : i32}, %arg39: tensor<8xf32> {tf.aliasing_output = 39 : i32}, %arg40: tensor<8xf32> {tf.aliasing_output = 40 : i32}, %arg41: tensor<8x8xf32> {tf.aliasing_output = 41 : i32}, %arg42: tensor<8x8xf32> {tf.aliasing_output = 42 : i32}, %arg43: tensor<8x12xf32> {tf.aliasing_output = 43 : i32}, %arg44: tensor<8x4xf32> {tf.aliasing_output = 44 : i32}, %arg45: tensor<3x6xi32>, %arg46: tensor<3x6xi32>) -> (tensor<20x8xf32> {jax.result_info = "result[0]['embed']"}, tensor<8x20xf32> {jax.result_info = "result[0]['head']"}, tensor<8xf32> {jax.result_info = "result[0]['layers'][0]['b1']"}, tensor<8xf32> {jax.result_info = "result[0]['layers'][0]['b2']"}, tensor<12x8xf32> {jax.result_info = "result[0]['layers'][0]['down']"}, tensor<8x4xf32> {jax.result_info = "result[0]['layers'][0]['k']"}, tensor<8xf32> {jax.result_info = "result[0]['layers'][0]['n1']"}, tensor<8xf32> {jax.result_info = "result[0]['layers'][0]['n2']"}, tensor<8x8xf32> {jax.result_info = "result[0]['layers'][0]['o']"}, tensor<8x8xf32> {jax.result_info = "result[0]['layers'][0]['q']"}, tensor<8x12xf32> {jax.result_info = "result[0]['layers'][0]['up']"}, tensor<8x4xf32> {jax.result_info = "result[0]['layers'][0]['v']"}, tensor<8xf32> {jax.result_info = "result[0]['layers'][1]['b1']"}, tensor<8xf32> {jax.result_info = "result[0]['layers'][1]['b2']"}, tensor<12x8xf32> {jax.result_info = "result[0]['layers'][1]['down']"}, tensor<8x4xf32> {jax.result_info = "result[0]['layers'][1]['k']"}, tensor<8xf32> {jax.result_info = "result[0]['layers'][1]['n1']"}, tensor<8xf32> {jax.result_info = "result[0]['layers'][1]['n2']"}, tensor<8x8xf32> {jax.result_info = "result[0]['layers'][1]['o']"}, tensor<8x8xf32> {jax.result_info = "result[0]['layers'][1]['q']"}, tensor<8x12xf32> {jax.result_info = "result[0]['layers'][1]['up']"}, tensor<8x4xf32> {jax.result_info = "result[0]['layers'][1]['v']"}, tensor<i32> {jax.result_info = "result[1]['count']"}, tensor<20x8xf32> {jax.result_info = "result[1]['velocity']['embed']"}, tensor<8x20xf32> {jax.result_info = "result[1]['velocity']['head']"}, tensor<8xf32> {jax.result_info = "result[1]['velocity']['layers'][0]['b1']"}, tensor<8xf32> {jax.result_info = "result[1]['velocity']['layers'][0]['b2']"}, tensor<12x8xf32> {jax.result_info = "result[1]['velocity']['layers'][0]['down']"}, tensor<8x4xf32> {jax.result_info = "result[1]['velocity']['layers'][0]['k']"}, tensor<8xf32> {jax.result_info = "result[1]['velocity']['layers'][0]['n1']"}, tensor<8xf32> {jax.result_info = "result[1]['velocity']['layers'][0]['n2']"}, tensor<8x8xf32> {jax.result_info = "result[1]['velocity']['layers'][0]['o']"}, tensor<8x8xf32> {jax.result_info = "result[1]['velocity']['layers'][0]['q']"}, tensor<8x12xf32> {jax.result_info = "result[1]['velocity']['layers'][0]['up']"}, tensor<8x4xf32> {jax.result_info = "result[1]['velocity']['layers'][0]['v']"}, tensor<8xf32> {jax.result_info = "result[1]['velocity']['layers'][1]['b1']"}, tensor<8xf32> {jax.result_info = "result[1]['velocity']['layers'][1]['b2']"}, tensor<12x8xf32> {jax.result_info = "result[1]['velocity']['layers'][1]['down']"}, tensor<8x4xf32> {jax.result_info = "result[1]['velocity']['layers'][1]['k']"}, tensor<8xf32> {jax.result_info = "result[1]['velocity']['layers'][1]['n1']"}, tensor<8xf32> {jax.result_info = "result[1]['velocity']['layers'][1]['n2']"}, tensor<8x8xf32> {jax.result_info = "result[1]['velocity']['layers'][1]['o']"}, tensor<8x8xf32> {jax.result_info = "result[1]['velocity']['layers'][1]['q']"}, tensor<8x12xf32> {jax.result_info = "result[1]['velocity']['layers'][1]['up']"}, tensor<8x4xf32> {jax.result_info = "result[1]['velocity']['layers'][1]['v']"}, tensor<f32> {jax.result_info = "result[2]"}) {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<3x6xi32>
    %1 = stablehlo.compare LT, %arg45, %0, SIGNED : (tensor<3x6xi32>, tensor<3x6xi32>) -> tensor<3x6xi1>
    %c_0 = stablehlo.constant dense<20> : tensor<i32>
    %2 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<3x6xi32>
    %3 = stablehlo.add %arg45, %2 : tensor<3x6xi32>
    %4 = stablehlo.select %1, %3, %arg45 : tensor<3x6xi1>, tensor<3x6xi32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0, 1] : (tensor<3x6xi32>) -> tensor<3x6x1xi32>
    %6 = "stablehlo.gather"(%arg0, %5) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 8>}> : (tensor<20x8xf32>, tensor<3x6x1xi32>) -> tensor<3x6x8xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %7 = stablehlo.reduce(%6 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<3x6x8xf32>, tensor<f32>) -> tensor<3x6xf32>
    %8 = stablehlo.broadcast_in_dim %7, dims = [0, 1] : (tensor<3x6xf32>) -> tensor<3x6x1xf32>
    %cst_1 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %9 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<3x6x1xf32>
    %10 = stablehlo.divide %8, %9 : tensor<3x6x1xf32>
    %11 = stablehlo.broadcast_in_dim %10, dims = [0, 1, 2] : (tensor<3x6x1xf32>) -> tensor<3x6x8xf32>
    %12 = stablehlo.subtract %6, %11 : tensor<3x6x8xf32>
    %13 = stablehlo.multiply %12, %12 : tensor<3x6x8xf32>
    %cst_2 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %14 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<3x6x8xf32>
    %15 = stablehlo.multiply %14, %12 : tensor<3x6x8xf32>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %16 = stablehlo.reduce(%13 init: %cst_3) applies stablehlo.add across dimensions = [2] : (tensor<3x6x8xf32>, tensor<f32>) -> tensor<3x6xf32>
    %17 = stablehlo.broadcast_in_dim %16, dims = [0, 1] : (tensor<3x6xf32>) -> tensor<3x6x1xf32>
    %cst_4 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %18 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<3x6x1xf32>
    %19 = stablehlo.divide %17, %18 : tensor<3x6x1xf32>
    %20 = stablehlo.broadcast_in_dim %10, dims = [0, 1, 2] : (tensor<3x6x1xf32>) -> tensor<3x6x8xf32>
    %21 = stablehlo.subtract %6, %20 : tensor<3x6x8xf32>
    %cst_5 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %22 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<3x6x1xf32>
    %23 = stablehlo.add %19, %22 : tensor<3x6x1xf32>
    %24 = stablehlo.sqrt %23 : tensor<3x6x1xf32>
    %cst_6 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %25 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<3x6x1xf32>
    %26 = stablehlo.divide %25, %24 : tensor<3x6x1xf32>
    %27 = stablehlo.broadcast_in_dim %24, dims = [0, 1, 2] : (tensor<3x6x1xf32>) -> tensor<3x6x8xf32>
    %28 = stablehlo.divide %21, %27 : tensor<3x6x8xf32>
    %29 = stablehlo.multiply %24, %24 : tensor<3x6x1xf32>
    %cst_7 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %30 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f32>) -> tensor<3x6x1xf32>
    %31 = stablehlo.divide %30, %29 : tensor<3x6x1xf32>
    %32 = stablehlo.broadcast_in_dim %arg6, dims = [2] : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %33 = stablehlo.broadcast_in_dim %32, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<3x6x8xf32>
    %34 = stablehlo.multiply %28, %33 : tensor<3x6x8xf32>
    %35 = stablehlo.broadcast_in_dim %arg2, dims = [2] : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %36 = stablehlo.broadcast_in_dim %35, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<3x6x8xf32>
    %37 = stablehlo.add %34, %36 : tensor<3x6x8xf32>
    %38 = stablehlo.dot_general %37, %arg9, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<3x6x8xf32>, tensor<8x8xf32>) -> tensor<3x6x8xf32>
    %39 = stablehlo.reshape %38 : (tensor<3x6x8xf32>) -> tensor<3x6x2x4xf32>
    %40 = stablehlo.iota dim = 0 : tensor<6xi32>
    %41 = stablehlo.broadcast_in_dim %40, dims = [0] : (tensor<6xi32>) -> tensor<6x1xi32>
    %42 = stablehlo.iota dim = 0 : tensor<2xi32>
    %43 = stablehlo.convert %42 : (tensor<2xi32>) -> tensor<2xf32>
    %cst_8 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %44 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f32>) -> tensor<2xf32>
    %45 = stablehlo.divide %43, %44 : tensor<2xf32>
    %cst_9 = stablehlo.constant dense<1.000000e+02> : tensor<f32>
    %46 = stablehlo.broadcast_in_dim %cst_9, dims = [] : (tensor<f32>) -> tensor<2xf32>
    %47 = stablehlo.power %46, %45 : tensor<2xf32>
    %cst_10 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %48 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f32>) -> tensor<2xf32>
    %49 = stablehlo.divide %48, %47 : tensor<2xf32>
    %50 = stablehlo.convert %41 : (tensor<6x1xi32>) -> tensor<6x1xf32>
    %51 = stablehlo.broadcast_in_dim %49, dims = [1] : (tensor<2xf32>) -> tensor<1x2xf32>
    %52 = stablehlo.broadcast_in_dim %50, dims = [0, 1] : (tensor<6x1xf32>) -> tensor<6x2xf32>
    %53 = stablehlo.broadcast_in_dim %51, dims = [0, 1] : (tensor<1x2xf32>) -> tensor<6x2xf32>
    %54 = stablehlo.multiply %52, %53 : tensor<6x2xf32>
    %55 = stablehlo.sine %54 : tensor<6x2xf32>
    %56 = stablehlo.broadcast_in_dim %55, dims = [0, 2] : (tensor<6x2xf32>) -> tensor<6x1x2xf32>
    %57 = stablehlo.cosine %54 : tensor<6x2xf32>
    %58 = stablehlo.broadcast_in_dim %57, dims = [0, 2] : (tensor<6x2xf32>) -> tensor<6x1x2xf32>
    %59 = stablehlo.slice %39 [0:3, 0:6, 0:2, 0:2] : (tensor<3x6x2x4xf32>) -> tensor<3x6x2x2xf32>
    %60 = stablehlo.slice %39 [0:3, 0:6, 0:2, 2:4] : (tensor<3x6x2x4xf32>) -> tensor<3x6x2x2xf32>
    %61 = stablehlo.broadcast_in_dim %58, dims = [1, 2, 3] : (tensor<6x1x2xf32>) -> tensor<1x6x1x2xf32>
    %62 = stablehlo.broadcast_in_dim %61, dims = [0, 1, 2, 3] : (tensor<1x6x1x2xf32>) -> tensor<3x6x2x2xf32>
    %63 = stablehlo.multiply %59, %62 : tensor<3x6x2x2xf32>
    %64 = stablehlo.broadcast_in_dim %56, dims = [1, 2, 3] : (tensor<6x1x2xf32>) -> tensor<1x6x1x2xf32>
    %65 = stablehlo.broadcast_in_dim %64, dims = [0, 1, 2, 3] : (tensor<1x6x1x2xf32>) -> tensor<3x6x2x2xf32>
    %66 = stablehlo.multiply %60, %65 : tensor<3x6x2x2xf32>
    %67 = stablehlo.subtract %63, %66 : tensor<3x6x2x2xf32>
    %68 = stablehlo.broadcast_in_dim %56, dims = [1, 2, 3] : (tensor<6x1x2xf32>) -> tensor<1x6x1x2xf32>
    %69 = stablehlo.broadcast_in_dim %68, dims = [0, 1, 2, 3] : (tensor<1x6x1x2xf32>) -> tensor<3x6x2x2xf32>
    %70 = stablehlo.multiply %59, %69 : tensor<3x6x2x2xf32>
    %71 = stablehlo.broadcast_in_dim %58, dims = [1, 2, 3] : (tensor<6x1x2xf32>) -> tensor<1x6x1x2xf32>
    %72 = stablehlo.broadcast_in_dim %71, dims = [0, 1, 2, 3] : (tensor<1x6x1x2xf32>) -> tensor<3x6x2x2xf32>
    %73 = stablehlo.multiply %60, %72 : tensor<3x6x2x2xf32>
    %74 = stablehlo.add %70, %73 : tensor<3x6x2x2xf32>
    %75 = stablehlo.concatenate %67, %74, dim = 3 : (tensor<3x6x2x2xf32>, tensor<3x6x2x2xf32>) -> tensor<3x6x2x4xf32>
    %76 = stablehlo.dot_general %37, %arg5, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<3x6x8xf32>, tensor<8x4xf32>) -> tensor<3x6x4xf32>
    %77 = stablehlo.reshape %76 : (tensor<3x6x4xf32>) -> tensor<3x6x1x4xf32>
    %78 = stablehlo.iota dim = 0 : tensor<6xi32>
    %79 = stablehlo.broadcast_in_dim %78, dims = [0] : (tensor<6xi32>) -> tensor<6x1xi32>
    %80 = stablehlo.iota dim = 0 : tensor<2xi32>
    %81 = stablehlo.convert %80 : (tensor<2xi32>) -> tensor<2xf32>
    %cst_11 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %82 = stablehlo.broadcast_in_dim %cst_11, dims = [] : (tensor<f32>) -> tensor<2xf32>
    %83 = stablehlo.divide %81, %82 : tensor<2xf32>
    %cst_12 = stablehlo.constant dense<1.000000e+02> : tensor<f32>
    %84 = stablehlo.broadcast_in_dim %cst_12, dims = [] : (tensor<f32>) -> tensor<2xf32>
    %85 = stablehlo.power %84, %83 : tensor<2xf32>
    %cst_13 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %86 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<f32>) -> tensor<2xf32>
    %87 = stablehlo.divide %86, %85 : tensor<2xf32>
    %88 = stablehlo.convert %79 : (tensor<6x1xi32>) -> tensor<6x1xf32>
    %89 = stablehlo.broadcast_in_dim %87, dims = [1] : (tensor<2xf32>) -> tensor<1x2xf32>
    %90 = stablehlo.broadcast_in_dim %88, dims = [0, 1] : (tensor<6x1xf32>) -> tensor<6x2xf32>
    %91 = stablehlo.broadcast_in_dim %89, dims = [0, 1] : (tensor<1x2xf32>) -> tensor<6x2xf32>
    %92 = stablehlo.multiply %90, %91 : tensor<6x2xf32>
    %93 = stablehlo.sine %92 : tensor<6x2xf32>
    %94 = stablehlo.broadcast_in_dim %93, dims = [0, 2] : (tensor<6x2xf32>) -> tensor<6x1x2xf32>
    %95 = stablehlo.cosine %92 : tensor<6x2xf32>
    %96 = stablehlo.broadcast_in_dim %95, dims = [0, 2] : (tensor<6x2xf32>) -> tensor<6x1x2xf32>
    %97 = stablehlo.slice %77 [0:3, 0:6, 0:1, 0:2] : (tensor<3x6x1x4xf32>) -> tensor<3x6x1x2xf32>
    %98 = stablehlo.slice %77 [0:3, 0:6, 0:1, 2:4] : (tensor<3x6x1x4xf32>) -> tensor<3x6x1x2xf32>
    %99 = stablehlo.broadcast_in_dim %96, dims = [1, 2, 3] : (tensor<6x1x2xf32>) -> tensor<1x6x1x2xf32>
    %100 = stablehlo.broadcast_in_dim %99, dims = [0, 1, 2, 3] : (tensor<1x6x1x2xf32>) -> tensor<3x6x1x2xf32>
    %101 = stablehlo.multiply %97, %100 : tensor<3x6x1x2xf32>
    %102 = stablehlo.broadcast_in_dim %94, dims = [1, 2, 3] : (tensor<6x1x2xf32>) -> tensor<1x6x1x2xf32>
    %103 = stablehlo.broadcast_in_dim %102, dims = [0, 1, 2, 3] : (tensor<1x6x1x2xf32>) -> tensor<3x6x1x2xf32>
    %104 = stablehlo.multiply %98, %103 : tensor<3x6x1x2xf32>
    %105 = stablehlo.subtract %101, %104 : tensor<3x6x1x2xf32>
    %106 = stablehlo.broadcast_in_dim %94, dims = [1, 2, 3] : (tensor<6x1x2xf32>) -> tensor<1x6x1x2xf32>
    %107 = stablehlo.broadcast_in_dim %106, dims = [0, 1, 2, 3] : (tensor<1x6x1x2xf32>) -> tensor<3x6x1x2xf32>
    %108 = stablehlo.multiply %97, %107 : tensor<3x6x1x2xf32>
    %109 = stablehlo.broadcast_in_dim %96, dims = [1, 2, 3] : (tensor<6x1x2xf32>) -> tensor<1x6x1x2xf32>
    %110 = stablehlo.broadcast_in_dim %109, dims = [0, 1, 2, 3] : (tensor<1x6x1x2xf32>) -> tensor<3x6x1x2xf32>
    %111 = stablehlo.multiply %98, %110 : tensor<3x6x1x2xf32>
    %112 = stablehlo.add %108, %111 : tensor<3x6x1x2xf32>
    %113 = stablehlo.concatenate %105, %112, dim = 3 : (tensor<3x6x1x2xf32>, tensor<3x6x1x2xf32>) -> tensor<3x6x1x4xf32>
    %114 = stablehlo.dot_general %37, %arg11, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<3x6x8xf32>, tensor<8x4xf32>) -> tensor<3x6x4xf32>
    %115 = stablehlo.reshape %114 : (tensor<3x6x4xf32>) -> tensor<3x6x1x4xf32>
    %116 = stablehlo.broadcast_in_dim %113, dims = [0, 1, 2, 4] : (tensor<3x6x1x4xf32>) -> tensor<3x6x1x2x4xf32>
    %117 = stablehlo.reshape %116 : (tensor<3x6x1x2x4xf32>) -> tensor<3x6x2x4xf32>
    %118 = stablehlo.broadcast_in_dim %115, dims = [0, 1, 2, 4] : (tensor<3x6x1x4xf32>) -> tensor<3x6x1x2x4xf32>
    %119 = stablehlo.reshape %118 : (tensor<3x6x1x2x4xf32>) -> tensor<3x6x2x4xf32>
    %120 = stablehlo.dot_general %75, %117, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<3x6x2x4xf32>, tensor<3x6x2x4xf32>) -> tensor<3x2x6x6xf32>
    %cst_14 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %121 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<f32>) -> tensor<3x2x6x6xf32>
    %122 = stablehlo.divide %120, %121 : tensor<3x2x6x6xf32>
    %c_15 = stablehlo.constant dense<true> : tensor<i1>
    %123 = stablehlo.broadcast_in_dim %c_15, dims = [] : (tensor<i1>) -> tensor<6x6xi1>
    %124 = call @tril(%123) : (tensor<6x6xi1>) -> tensor<6x6xi1>
    %cst_16 = stablehlo.constant dense<-3.40282347E+38> : tensor<f32>
    %125:2 = call @_where(%124, %122, %cst_16) : (tensor<6x6xi1>, tensor<3x2x6x6xf32>, tensor<f32>) -> (tensor<3x2x6x6xf32>, tensor<3x2x6x6xi1>)
    %cst_17 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %126 = stablehlo.reduce(%125#0 init: %cst_17) applies stablehlo.maximum across dimensions = [3] : (tensor<3x2x6x6xf32>, tensor<f32>) -> tensor<3x2x6xf32>
    %cst_18 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %127 = stablehlo.broadcast_in_dim %cst_18, dims = [] : (tensor<f32>) -> tensor<3x2x6xf32>
    %128 = stablehlo.maximum %127, %126 : tensor<3x2x6xf32>
    %129 = stablehlo.broadcast_in_dim %128, dims = [0, 1, 2] : (tensor<3x2x6xf32>) -> tensor<3x2x6x1xf32>
    %130 = stablehlo.broadcast_in_dim %129, dims = [0, 1, 2, 3] : (tensor<3x2x6x1xf32>) -> tensor<3x2x6x6xf32>
    %131 = stablehlo.subtract %125#0, %130 : tensor<3x2x6x6xf32>
    %132 = stablehlo.exponential %131 : tensor<3x2x6x6xf32>
    %cst_19 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %133 = stablehlo.reduce(%132 init: %cst_19) applies stablehlo.add across dimensions = [3] : (tensor<3x2x6x6xf32>, tensor<f32>) -> tensor<3x2x6xf32>
    %134 = stablehlo.broadcast_in_dim %133, dims = [0, 1, 2] : (tensor<3x2x6xf32>) -> tensor<3x2x6x1xf32>
    %135 = stablehlo.broadcast_in_dim %134, dims = [0, 1, 2, 3] : (tensor<3x2x6x1xf32>) -> tensor<3x2x6x6xf32>
    %136 = stablehlo.divide %132, %135 : tensor<3x2x6x6xf32>
    %137 = stablehlo.multiply %134, %134 : tensor<3x2x6x1xf32>
    %cst_20 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %138 = stablehlo.broadcast_in_dim %cst_20, dims = [] : (tensor<f32>) -> tensor<3x2x6x1xf32>
    %139 = stablehlo.divide %138, %137 : tensor<3x2x6x1xf32>
    %140 = stablehlo.dot_general %119, %136, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3], precision = [DEFAULT, DEFAULT] : (tensor<3x6x2x4xf32>, tensor<3x2x6x6xf32>) -> tensor<3x2x4x6xf32>
    %141 = stablehlo.transpose %140, dims = [0, 3, 1, 2] : (tensor<3x2x4x6xf32>) -> tensor<3x6x2x4xf32>
    %142 = stablehlo.reshape %141 : (tensor<3x6x2x4xf32>) -> tensor<3x6x8xf32>
    %143 = stablehlo.dot_general %142, %arg8, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<3x6x8xf32>, tensor<8x8xf32>) -> tensor<3x6x8xf32>
    %144 = stablehlo.add %6, %143 : tensor<3x6x8xf32>
    %cst_21 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %145 = stablehlo.reduce(%144 init: %cst_21) applies stablehlo.add across dimensions = [2] : (tensor<3x6x8xf32>, tensor<f32>) -> tensor<3x6xf32>
    %146 = stablehlo.broadcast_in_dim %145, dims = [0, 1] : (tensor<3x6xf32>) -> tensor<3x6x1xf32>
    %cst_22 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %147 = stablehlo.broadcast_in_dim %cst_22, dims = [] : (tensor<f32>) -> tensor<3x6x1xf32>
    %148 = stablehlo.divide %146, %147 : tensor<3x6x1xf32>
    %149 = stablehlo.broadcast_in_dim %148, dims = [0, 1, 2] : (tensor<3x6x1xf32>) -> tensor<3x6x8xf32>
    %150 = stablehlo.subtract %144, %149 : tensor<3x6x8xf32>
    %151 = stablehlo.multiply %150, %150 : tensor<3x6x8xf32>
    %cst_23 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %152 = stablehlo.broadcast_in_dim %cst_23, dims = [] : (tensor<f32>) -> tensor<3x6x8xf32>
    %153 = stablehlo.multiply %152, %150 : tensor<3x6x8xf32>
    %cst_24 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %154 = stablehlo.reduce(%151 init: %cst_24) applies stablehlo.add across dimensions = [2] : (tensor<3x6x8xf32>, tensor<f32>) -> tensor<3x6xf32>
    %155 = stablehlo.broadcast_in_dim %154, dims = [0, 1] : (tensor<3x6xf32>) -> tensor<3x6x1xf32>
    %cst_25 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %156 = stablehlo.broadcast_in_dim %cst_25, dims = [] : (tensor<f32>) -> tensor<3x6x1xf32>
    %157 = stablehlo.divide %155, %156 : tensor<3x6x1xf32>
    %158 = stablehlo.broadcast_in_dim %148, dims = [0, 1, 2] : (tensor<3x6x1xf32>) -> tensor<3x6x8xf32>
    %159 = stablehlo.subtract %144, %158 : tensor<3x6x8xf32>
    %cst_26 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %160 = stablehlo.broadcast_in_dim %cst_26, dims = [] : (tensor<f32>) -> tensor<3x6x1xf32>
    %161 = stablehlo.add %157, %160 : tensor<3x6x1xf32>
    %162 = stablehlo.sqrt %161 : tensor<3x6x1xf32>
    %cst_27 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %163 = stablehlo.broadcast_in_dim %cst_27, dims = [] : (tensor<f32>) -> tensor<3x6x1xf32>
    %164 = stablehlo.divide %163, %162 : tensor<3x6x1xf32>
    %165 = stablehlo.broadcast_in_dim %162, dims = [0, 1, 2] : (tensor<3x6x1xf32>) -> tensor<3x6x8xf32>
    %166 = stablehlo.divide %159, %165 : tensor<3x6x8xf32>
    %167 = stablehlo.multiply %162, %162 : tensor<3x6x1xf32>
    %cst_28 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %168 = stablehlo.broadcast_in_dim %cst_28, dims = [] : (tensor<f32>) -> tensor<3x6x1xf32>
    %169 = stablehlo.divide %168, %167 : tensor<3x6x1xf32>
    %170 = stablehlo.broadcast_in_dim %arg7, dims = [2] : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %171 = stablehlo.broadcast_in_dim %170, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<3x6x8xf32>
    %172 = stablehlo.multiply %166, %171 : tensor<3x6x8xf32>
    %173 = stablehlo.broadcast_in_dim %arg3, dims = [2] : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %174 = stablehlo.broadcast_in_dim %173, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<3x6x8xf32>
    %175 = stablehlo.add %172, %174 : tensor<3x6x8xf32>
    %176 = stablehlo.dot_general %175, %arg10, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<3x6x8xf32>, tensor<8x12xf32>) -> tensor<3x6x12xf32>
    %cst_29 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %177 = stablehlo.broadcast_in_dim %cst_29, dims = [] : (tensor<f32>) -> tensor<3x6x12xf32>
    %178 = stablehlo.multiply %177, %176 : tensor<3x6x12xf32>
    %179 = stablehlo.negate %176 : tensor<3x6x12xf32>
    %cst_30 = stablehlo.constant dense<0.707106769> : tensor<f32>
    %180 = stablehlo.broadcast_in_dim %cst_30, dims = [] : (tensor<f32>) -> tensor<3x6x12xf32>
    %181 = stablehlo.multiply %179, %180 : tensor<3x6x12xf32>
    %182 = chlo.erfc %181 : tensor<3x6x12xf32> -> tensor<3x6x12xf32>
    %183 = chlo.square %181 : tensor<3x6x12xf32> -> tensor<3x6x12xf32>
    %184 = stablehlo.negate %183 : tensor<3x6x12xf32>
    %185 = stablehlo.exponential %184 : tensor<3x6x12xf32>
    %186 = stablehlo.multiply %178, %182 : tensor<3x6x12xf32>
    %187 = stablehlo.dot_general %186, %arg4, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<3x6x12xf32>, tensor<12x8xf32>) -> tensor<3x6x8xf32>
    %188 = stablehlo.add %144, %187 : tensor<3x6x8xf32>
    %cst_31 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %189 = stablehlo.reduce(%188 init: %cst_31) applies stablehlo.add across dimensions = [2] : (tensor<3x6x8xf32>, tensor<f32>) -> tensor<3x6xf32>
    %190 = stablehlo.broadcast_in_dim %189, dims = [0, 1] : (tensor<3x6xf32>) -> tensor<3x6x1xf32>
    %cst_32 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %191 = stablehlo.broadcast_in_dim %cst_32, dims = [] : (tensor<f32>) -> tensor<3x6x1xf32>
    %192 = stablehlo.divide %190, %191 : tensor<3x6x1xf32>
    %193 = stablehlo.broadcast_in_dim %192, dims = [0, 1, 2] : (tensor<3x6x1xf32>) -> tensor<3x6x8xf32>
    %194 = stablehlo.subtract %188, %193 : tensor<3x6x8xf32>
    %195 = stablehlo.multiply %194, %194 : tensor<3x6x8xf32>
    %cst_33 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %196 = stablehlo.broadcast_in_dim %cst_33, dims = [] : (tensor<f32>) -> tensor<3x6x8xf32>
    %197 = stablehlo.multiply %196, %194 : tensor<3x6x8xf32>
    %cst_34 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %198 = stablehlo.reduce(%195 init: %cst_34) applies stablehlo.add across dimensions = [2] : (tensor<3x6x8xf32>, tensor<f32>) -> tensor<3x6xf32>
    %199 = stablehlo.broadcast_in_dim %198, dims = [0, 1] : (tensor<3x6xf32>) -> tensor<3x6x1xf32>
    %cst_35 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %200 = stablehlo.broadcast_in_dim %cst_35, dims = [] : (tensor<f32>) -> tensor<3x6x1xf32>
    %201 = stablehlo.divide %199, %200 : tensor<3x6x1xf32>
    %202 = stablehlo.broadcast_in_dim %192, dims = [0, 1, 2] : (tensor<3x6x1xf32>) -> tensor<3x6x8xf32>
    %203 = stablehlo.subtract %188, %202 : tensor<3x6x8xf32>
    %cst_36 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %204 = stablehlo.broadcast_in_dim %cst_36, dims = [] : (tensor<f32>) -> tensor<3x6x1xf32>
    %205 = stablehlo.add %201, %204 : tensor<3x6x1xf32>
    %206 = stablehlo.sqrt %205 : tensor<3x6x1xf32>
    %cst_37 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %207 = stablehlo.broadcast_in_dim %cst_37, dims = [] : (tensor<f32>) -> tensor<3x6x1xf32>
    %208 = stablehlo.divide %207, %206 : tensor<3x6x1xf32>
    %209 = stablehlo.broadcast_in_dim %206, dims = [0, 1, 2] : (tensor<3x6x1xf32>) -> tensor<3x6x8xf32>
    %210 = stablehlo.divide %203, %209 : tensor<3x6x8xf32>
    %211 = stablehlo.multiply %206, %206 : tensor<3x6x1xf32>
    %cst_38 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %212 = stablehlo.broadcast_in_dim %cst_38, dims = [] : (tensor<f32>) -> tensor<3x6x1xf32>
    %213 = stablehlo.divide %212, %211 : tensor<3x6x1xf32>
    %214 = stablehlo.broadcast_in_dim %arg16, dims = [2] : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %215 = stablehlo.broadcast_in_dim %214, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<3x6x8xf32>
    %216 = stablehlo.multiply %210, %215 : tensor<3x6x8xf32>
    %217 = stablehlo.broadcast_in_dim %arg12, dims = [2] : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %218 = stablehlo.broadcast_in_dim %217, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<3x6x8xf32>
    %219 = stablehlo.add %216, %218 : tensor<3x6x8xf32>
    %220 = stablehlo.dot_general %219, %arg19, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<3x6x8xf32>, tensor<8x8xf32>) -> tensor<3x6x8xf32>
    %221 = stablehlo.reshape %220 : (tensor<3x6x8xf32>) -> tensor<3x6x2x4xf32>
    %222 = stablehlo.iota dim = 0 : tensor<6xi32>
    %223 = stablehlo.broadcast_in_dim %222, dims = [0] : (tensor<6xi32>) -> tensor<6x1xi32>
    %224 = stablehlo.iota dim = 0 : tensor<2xi32>
    %225 = stablehlo.convert %224 : (tensor<2xi32>) -> tensor<2xf32>
    %cst_39 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %226 = stablehlo.broadcast_in_dim %cst_39, dims = [] : (tensor<f32>) -> tensor<2xf32>
    %227 = stablehlo.divide %225, %226 : tensor<2xf32>
    %cst_40 = stablehlo.constant dense<1.000000e+02> : tensor<f32>
    %228 = stablehlo.broadcast_in_dim %cst_40, dims = [] : (tensor<f32>) -> tensor<2xf32>
    %229 = stablehlo.power %228, %227 : tensor<2xf32>
    %cst_41 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %230 = stablehlo.broadcast_in_dim %cst_41, dims = [] : (tensor<f32>) -> tensor<2xf32>
    %231 = stablehlo.divide %230, %229 : tensor<2xf32>
    %232 = stablehlo.convert %223 : (tensor<6x1xi32>) -> tensor<6x1xf32>
    %233 = stablehlo.broadcast_in_dim %231, dims = [1] : (tensor<2xf32>) -> tensor<1x2xf32>
    %234 = stablehlo.broadcast_in_dim %232, dims = [0, 1] : (tensor<6x1xf32>) -> tensor<6x2xf32>
    %235 = stablehlo.broadcast_in_dim %233, dims = [0, 1] : (tensor<1x2xf32>) -> tensor<6x2xf32>
    %236 = stablehlo.multiply %234, %235 : tensor<6x2xf32>
    %237 = stablehlo.sine %236 : tensor<6x2xf32>
    %238 = stablehlo.broadcast_in_dim %237, dims = [0, 2] : (tensor<6x2xf32>) -> tensor<6x1x2xf32>
    %239 = stablehlo.cosine %236 : tensor<6x2xf32>
    %240 = stablehlo.broadcast_in_dim %239, dims = [0, 2] : (tensor<6x2xf32>) -> tensor<6x1x2xf32>
    %241 = stablehlo.slice %221 [0:3, 0:6, 0:2, 0:2] : (tensor<3x6x2x4xf32>) -> tensor<3x6x2x2xf32>
    %242 = stablehlo.slice %221 [0:3, 0:6, 0:2, 2:4] : (tensor<3x6x2x4xf32>) -> tensor<3x6x2x2xf32>
    %243 = stablehlo.broadcast_in_dim %240, dims = [1, 2, 3] : (tensor<6x1x2xf32>) -> tensor<1x6x1x2xf32>
    %244 = stablehlo.broadcast_in_dim %243, dims = [0, 1, 2, 3] : (tensor<1x6x1x2xf32>) -> tensor<3x6x2x2xf32>
    %245 = stablehlo.multiply %241, %244 : tensor<3x6x2x2xf32>
    %246 = stablehlo.broadcast_in_dim %238, dims = [1, 2, 3] : (tensor<6x1x2xf32>) -> tensor<1x6x1x2xf32>
    %247 = stablehlo.broadcast_in_dim %246, dims = [0, 1, 2, 3] : (tensor<1x6x1x2xf32>) -> tensor<3x6x2x2xf32>
    %248 = stablehlo.multiply %242, %247 : tensor<3x6x2x2xf32>
    %249 = stablehlo.subtract %245, %248 : tensor<3x6x2x2xf32>
    %250 = stablehlo.broadcast_in_dim %238, dims = [1, 2, 3] : (tensor<6x1x2xf32>) -> tensor<1x6x1x2xf32>
    %251 = stablehlo.broadcast_in_dim %250, dims = [0, 1, 2, 3] : (tensor<1x6x1x2xf32>) -> tensor<3x6x2x2xf32>
    %252 = stablehlo.multiply %241, %251 : tensor<3x6x2x2xf32>
    %253 = stablehlo.broadcast_in_dim %240, dims = [1, 2, 3] : (tensor<6x1x2xf32>) -> tensor<1x6x1x2xf32>
    %254 = stablehlo.broadcast_in_dim %253, dims = [0, 1, 2, 3] : (tensor<1x6x1x2xf32>) -> tensor<3x6x2x2xf32>
    %255 = stablehlo.multiply %242, %254 : tensor<3x6x2x2xf32>
    %256 = stablehlo.add %252, %255 : tensor<3x6x2x2xf32>
    %257 = stablehlo.concatenate %249, %256, dim = 3 : (tensor<3x6x2x2xf32>, tensor<3x6x2x2xf32>) -> tensor<3x6x2x4xf32>
    %258 = stablehlo.dot_general %219, %arg15, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<3x6x8xf32>, tensor<8x4xf32>) -> tensor<3x6x4xf32>
    %259 = stablehlo.reshape %258 : (tensor<3x6x4xf32>) -> tensor<3x6x1x4xf32>
    %260 = stablehlo.iota dim = 0 : tensor<6xi32>
    %261 = stablehlo.broadcast_in_dim %260, dims = [0] : (tensor<6xi32>) -> tensor<6x1xi32>
    %262 = stablehlo.iota dim = 0 : tensor<2xi32>
    %263 = stablehlo.convert %262 : (tensor<2xi32>) -> tensor<2xf32>
    %cst_42 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %264 = stablehlo.broadcast_in_dim %cst_42, dims = [] : (tensor<f32>) -> tensor<2xf32>
    %265 = stablehlo.divide %263, %264 : tensor<2xf32>
    %cst_43 = stablehlo.constant dense<1.000000e+02> : tensor<f32>
    %266 = stablehlo.broadcast_in_dim %cst_43, dims = [] : (tensor<f32>) -> tensor<2xf32>
    %267 = stablehlo.power %266, %265 : tensor<2xf32>
    %cst_44 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %268 = stablehlo.broadcast_in_dim %cst_44, dims = [] : (tensor<f32>) -> tensor<2xf32>
    %269 = stablehlo.divide %268, %267 : tensor<2xf32>
    %270 = stablehlo.convert %261 : (tensor<6x1xi32>) -> tensor<6x1xf32>
    %271 = stablehlo.broadcast_in_dim %269, dims = [1] : (tensor<2xf32>) -> tensor<1x2xf32>
    %272 = stablehlo.broadcast_in_dim %270, dims = [0, 1] : (tensor<6x1xf32>) -> tensor<6x2xf32>
    %273 = stablehlo.broadcast_in_dim %271, dims = [0, 1] : (tensor<1x2xf32>) -> tensor<6x2xf32>
    %274 = stablehlo.multiply %272, %273 : tensor<6x2xf32>
    %275 = stablehlo.sine %274 : tensor<6x2xf32>
    %276 = stablehlo.broadcast_in_dim %275, dims = [0, 2] : (tensor<6x2xf32>) -> tensor<6x1x2xf32>
    %277 = stablehlo.cosine %274 : tensor<6x2xf32>
    %278 = stablehlo.broadcast_in_dim %277, dims = [0, 2] : (tensor<6x2xf32>) -> tensor<6x1x2xf32>
    %279 = stablehlo.slice %259 [0:3, 0:6, 0:1, 0:2] : (tensor<3x6x1x4xf32>) -> tensor<3x6x1x2xf32>
    %280 = stablehlo.slice %259 [0:3, 0:6, 0:1, 2:4] : (tensor<3x6x1x4xf32>) -> tensor<3x6x1x2xf32>
    %281 = stablehlo.broadcast_in_dim %278, dims = [1, 2, 3] : (tensor<6x1x2xf32>) -> tensor<1x6x1x2xf32>
    %282 = stablehlo.broadcast_in_dim %281, dims = [0, 1, 2, 3] : (tensor<1x6x1x2xf32>) -> tensor<3x6x1x2xf32>
    %283 = stablehlo.multiply %279, %282 : tensor<3x6x1x2xf32>
    %284 = stablehlo.broadcast_in_dim %276, dims = [1, 2, 3] : (tensor<6x1x2xf32>) -> tensor<1x6x1x2xf32>
    %285 = stablehlo.broadcast_in_dim %284, dims = [0, 1, 2, 3] : (tensor<1x6x1x2xf32>) -> tensor<3x6x1x2xf32>
    %286 = stablehlo.multiply %280, %285 : tensor<3x6x1x2xf32>
    %287 = stablehlo.subtract %283, %286 : tensor<3x6x1x2xf32>
    %288 = stablehlo.broadcast_in_dim %276, dims = [1, 2, 3] : (tensor<6x1x2xf32>) -> tensor<1x6x1x2xf32>
    %289 = stablehlo.broadcast_in_dim %288, dims = [0, 1, 2, 3] : (tensor<1x6x1x2xf32>) -> tensor<3x6x1x2xf32>
    %290 = stablehlo.multiply %279, %289 : tensor<3x6x1x2xf32>
    %291 = stablehlo.broadcast_in_dim %278, dims = [1, 2, 3] : (tensor<6x1x2xf32>) -> tensor<1x6x1x2xf32>
    %292 = stablehlo.broadcast_in_dim %291, dims = [0, 1, 2, 3] : (tensor<1x6x1x2xf32>) -> tensor<3x6x1x2xf32>
    %293 = stablehlo.multiply %280, %292 : tensor<3x6x1x2xf32>
    %294 = stablehlo.add %290, %293 : tensor<3x6x1x2xf32>
    %295 = stablehlo.concatenate %287, %294, dim = 3 : (tensor<3x6x1x2xf32>, tensor<3x6x1x2xf32>) -> tensor<3x6x1x4xf32>
    %296 = stablehlo.dot_general %219, %arg21, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<3x6x8xf32>, tensor<8x4xf32>) -> tensor<3x6x4xf32>
    %297 = stablehlo.reshape %296 : (tensor<3x6x4xf32>) -> tensor<3x6x1x4xf32>
    %298 = stablehlo.broadcast_in_dim %295, dims = [0, 1, 2, 4] : (tensor<3x6x1x4xf32>) -> tensor<3x6x1x2x4xf32>
    %299 = stablehlo.reshape %298 : (tensor<3x6x1x2x4xf32>) -> tensor<3x6x2x4xf32>
    %300 = stablehlo.broadcast_in_dim %297, dims = [0, 1, 2, 4] : (tensor<3x6x1x4xf32>) -> tensor<3x6x1x2x4xf32>
    %301 = stablehlo.reshape %300 : (tensor<3x6x1x2x4xf32>) -> tensor<3x6x2x4xf32>
    %302 = stablehlo.dot_general %257, %299, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<3x6x2x4xf32>, tensor<3x6x2x4xf32>) -> tensor<3x2x6x6xf32>
    %cst_45 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %303 = stablehlo.broadcast_in_dim %cst_45, dims = [] : (tensor<f32>) -> tensor<3x2x6x6xf32>
    %304 = stablehlo.divide %302, %303 : tensor<3x2x6x6xf32>
    %c_46 = stablehlo.constant dense<true> : tensor<i1>
    %305 = stablehlo.broadcast_in_dim %c_46, dims = [] : (tensor<i1>) -> tensor<6x6xi1>
    %306 = call @tril(%305) : (tensor<6x6xi1>) -> tensor<6x6xi1>
    %cst_47 = stablehlo.constant dense<-3.40282347E+38> : tensor<f32>
    %307:2 = call @_where(%306, %304, %cst_47) : (tensor<6x6xi1>, tensor<3x2x6x6xf32>, tensor<f32>) -> (tensor<3x2x6x6xf32>, tensor<3x2x6x6xi1>)
    %cst_48 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %308 = stablehlo.reduce(%307#0 init: %cst_48) applies stablehlo.maximum across dimensions = [3] : (tensor<3x2x6x6xf32>, tensor<f32>) -> tensor<3x2x6xf32>
    %cst_49 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %309 = stablehlo.broadcast_in_dim %cst_49, dims = [] : (tensor<f32>) -> tensor<3x2x6xf32>
    %310 = stablehlo.maximum %309, %308 : tensor<3x2x6xf32>
    %311 = stablehlo.broadcast_in_dim %310, dims = [0, 1, 2] : (tensor<3x2x6xf32>) -> tensor<3x2x6x1xf32>
    %312 = stablehlo.broadcast_in_dim %311, dims = [0, 1, 2, 3] : (tensor<3x2x6x1xf32>) -> tensor<3x2x6x6xf32>
    %313 = stablehlo.subtract %307#0, %312 : tensor<3x2x6x6xf32>
    %314 = stablehlo.exponential %313 : tensor<3x2x6x6xf32>
    %cst_50 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %315 = stablehlo.reduce(%314 init: %cst_50) applies stablehlo.add across dimensions = [3] : (tensor<3x2x6x6xf32>, tensor<f32>) -> tensor<3x2x6xf32>
    %316 = stablehlo.broadcast_in_dim %315, dims = [0, 1, 2] : (tensor<3x2x6xf32>) -> tensor<3x2x6x1xf32>
    %317 = stablehlo.broadcast_in_dim %316, dims = [0, 1, 2, 3] : (tensor<3x2x6x1xf32>) -> tensor<3x2x6x6xf32>
    %318 = stablehlo.divide %314, %317 : tensor<3x2x6x6xf32>
    %319 = stablehlo.multiply %316, %316 : tensor<3x2x6x1xf32>
    %cst_51 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %320 = stablehlo.broadcast_in_dim %cst_51, dims = [] : (tensor<f32>) -> tensor<3x2x6x1xf32>
    %321 = stablehlo.divide %320, %319 : tensor<3x2x6x1xf32>
    %322 = stablehlo.dot_general %301, %318, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3], precision = [DEFAULT, DEFAULT] : (tensor<3x6x2x4xf32>, tensor<3x2x6x6xf32>) -> tensor<3x2x4x6xf32>
    %323 = stablehlo.transpose %322, dims = [0, 3, 1, 2] : (tensor<3x2x4x6xf32>) -> tensor<3x6x2x4xf32>
    %324 = stablehlo.reshape %323 : (tensor<3x6x2x4xf32>) -> tensor<3x6x8xf32>
    %325 = stablehlo.dot_general %324, %arg18, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<3x6x8xf32>, tensor<8x8xf32>) -> tensor<3x6x8xf32>
    %326 = stablehlo.add %188, %325 : tensor<3x6x8xf32>
    %cst_52 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %327 = stablehlo.reduce(%326 init: %cst_52) applies stablehlo.add across dimensions = [2] : (tensor<3x6x8xf32>, tensor<f32>) -> tensor<3x6xf32>
    %328 = stablehlo.broadcast_in_dim %327, dims = [0, 1] : (tensor<3x6xf32>) -> tensor<3x6x1xf32>
    %cst_53 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %329 = stablehlo.broadcast_in_dim %cst_53, dims = [] : (tensor<f32>) -> tensor<3x6x1xf32>
    %330 = stablehlo.divide %328, %329 : tensor<3x6x1xf32>
    %331 = stablehlo.broadcast_in_dim %330, dims = [0, 1, 2] : (tensor<3x6x1xf32>) -> tensor<3x6x8xf32>
    %332 = stablehlo.subtract %326, %331 : tensor<3x6x8xf32>
    %333 = stablehlo.multiply %332, %332 : tensor<3x6x8xf32>
    %cst_54 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %334 = stablehlo.broadcast_in_dim %cst_54, dims = [] : (tensor<f32>) -> tensor<3x6x8xf32>
    %335 = stablehlo.multiply %334, %332 : tensor<3x6x8xf32>
    %cst_55 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %336 = stablehlo.reduce(%333 init: %cst_55) applies stablehlo.add across dimensions = [2] : (tensor<3x6x8xf32>, tensor<f32>) -> tensor<3x6xf32>
    %337 = stablehlo.broadcast_in_dim %336, dims = [0, 1] : (tensor<3x6xf32>) -> tensor<3x6x1xf32>
    %cst_56 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %338 = stablehlo.broadcast_in_dim %cst_56, dims = [] : (tensor<f32>) -> tensor<3x6x1xf32>
    %339 = stablehlo.divide %337, %338 : tensor<3x6x1xf32>
    %340 = stablehlo.broadcast_in_dim %330, dims = [0, 1, 2] : (tensor<3x6x1xf32>) -> tensor<3x6x8xf32>
    %341 = stablehlo.subtract %326, %340 : tensor<3x6x8xf32>
    %cst_57 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %342 = stablehlo.broadcast_in_dim %cst_57, dims = [] : (tensor<f32>) -> tensor<3x6x1xf32>
    %343 = stablehlo.add %339, %342 : tensor<3x6x1xf32>
    %344 = stablehlo.sqrt %343 : tensor<3x6x1xf32>
    %cst_58 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %345 = stablehlo.broadcast_in_dim %cst_58, dims = [] : (tensor<f32>) -> tensor<3x6x1xf32>
    %346 = stablehlo.divide %345, %344 : tensor<3x6x1xf32>
    %347 = stablehlo.broadcast_in_dim %344, dims = [0, 1, 2] : (tensor<3x6x1xf32>) -> tensor<3x6x8xf32>
    %348 = stablehlo.divide %341, %347 : tensor<3x6x8xf32>
    %349 = stablehlo.multiply %344, %344 : tensor<3x6x1xf32>
    %cst_59 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %350 = stablehlo.broadcast_in_dim %cst_59, dims = [] : (tensor<f32>) -> tensor<3x6x1xf32>
    %351 = stablehlo.divide %350, %349 : tensor<3x6x1xf32>
    %352 = stablehlo.broadcast_in_dim %arg17, dims = [2] : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %353 = stablehlo.broadcast_in_dim %352, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<3x6x8xf32>
    %354 = stablehlo.multiply %348, %353 : tensor<3x6x8xf32>
    %355 = stablehlo.broadcast_in_dim %arg13, dims = [2] : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %356 = stablehlo.broadcast_in_dim %355, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<3x6x8xf32>
    %357 = stablehlo.add %354, %356 : tensor<3x6x8xf32>
    %358 = stablehlo.dot_general %357, %arg20, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<3x6x8xf32>, tensor<8x12xf32>) -> tensor<3x6x12xf32>
    %cst_60 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %359 = stablehlo.broadcast_in_dim %cst_60, dims = [] : (tensor<f32>) -> tensor<3x6x12xf32>
    %360 = stablehlo.multiply %359, %358 : tensor<3x6x12xf32>
    %361 = stablehlo.negate %358 : tensor<3x6x12xf32>
    %cst_61 = stablehlo.constant dense<0.707106769> : tensor<f32>
    %362 = stablehlo.broadcast_in_dim %cst_61, dims = [] : (tensor<f32>) -> tensor<3x6x12xf32>
    %363 = stablehlo.multiply %361, %362 : tensor<3x6x12xf32>
    %364 = chlo.erfc %363 : tensor<3x6x12xf32> -> tensor<3x6x12xf32>
    %365 = chlo.square %363 : tensor<3x6x12xf32> -> tensor<3x6x12xf32>
    %366 = stablehlo.negate %365 : tensor<3x6x12xf32>
    %367 = stablehlo.exponential %366 : tensor<3x6x12xf32>
    %368 = stablehlo.multiply %360, %364 : tensor<3x6x12xf32>
    %369 = stablehlo.dot_general %368, %arg14, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<3x6x12xf32>, tensor<12x8xf32>) -> tensor<3x6x8xf32>
    %370 = stablehlo.add %326, %369 : tensor<3x6x8xf32>
    %371 = stablehlo.dot_general %370, %arg1, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<3x6x8xf32>, tensor<8x20xf32>) -> tensor<3x6x20xf32>
    %372:3 = call @log_softmax(%371) : (tensor<3x6x20xf32>) -> (tensor<3x6x20xf32>, tensor<3x6x20xf32>, tensor<3x6x1xf32>)
    %373 = call @_one_hot(%arg46) : (tensor<3x6xi32>) -> tensor<3x6x20xf32>
    %374 = stablehlo.multiply %373, %372#0 : tensor<3x6x20xf32>
    %cst_62 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %375 = stablehlo.reduce(%374 init: %cst_62) applies stablehlo.add across dimensions = [2] : (tensor<3x6x20xf32>, tensor<f32>) -> tensor<3x6xf32>
    %cst_63 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %376 = stablehlo.reduce(%375 init: %cst_63) applies stablehlo.add across dimensions = [0, 1] : (tensor<3x6xf32>, tensor<f32>) -> tensor<f32>
    %cst_64 = stablehlo.constant dense<1.800000e+01> : tensor<f32>
    %377 = stablehlo.divide %376, %cst_64 : tensor<f32>
    %378 = stablehlo.negate %377 : tensor<f32>
    %cst_65 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %379 = stablehlo.negate %cst_65 : tensor<f32>
    %cst_66 = stablehlo.constant dense<1.800000e+01> : tensor<f32>
    %380 = stablehlo.divide %379, %cst_66 : tensor<f32>
    %381 = stablehlo.broadcast_in_dim %380, dims = [] : (tensor<f32>) -> tensor<3x6xf32>
    %382 = stablehlo.broadcast_in_dim %381, dims = [0, 1] : (tensor<3x6xf32>) -> tensor<3x6x20xf32>
    %383 = stablehlo.multiply %373, %382 : tensor<3x6x20xf32>
    %384 = call @log_softmax_0(%372#1, %372#2, %383) : (tensor<3x6x20xf32>, tensor<3x6x1xf32>, tensor<3x6x20xf32>) -> tensor<3x6x20xf32>
    %385 = stablehlo.dot_general %384, %370, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<3x6x20xf32>, tensor<3x6x8xf32>) -> tensor<20x8xf32>
    %386 = stablehlo.transpose %385, dims = [1, 0] : (tensor<20x8xf32>) -> tensor<8x20xf32>
    %387 = stablehlo.dot_general %384, %arg1, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<3x6x20xf32>, tensor<8x20xf32>) -> tensor<3x6x8xf32>
    %388 = stablehlo.dot_general %387, %368, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<3x6x8xf32>, tensor<3x6x12xf32>) -> tensor<8x12xf32>
    %389 = stablehlo.transpose %388, dims = [1, 0] : (tensor<8x12xf32>) -> tensor<12x8xf32>
    %390 = stablehlo.dot_general %387, %arg14, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<3x6x8xf32>, tensor<12x8xf32>) -> tensor<3x6x12xf32>
    %391 = stablehlo.multiply %360, %390 : tensor<3x6x12xf32>
    %392 = stablehlo.multiply %390, %364 : tensor<3x6x12xf32>
    %cst_67 = stablehlo.constant dense<-1.12837923> : tensor<f32>
    %393 = stablehlo.broadcast_in_dim %cst_67, dims = [] : (tensor<f32>) -> tensor<3x6x12xf32>
    %394 = stablehlo.multiply %393, %391 : tensor<3x6x12xf32>
    %395 = stablehlo.multiply %394, %367 : tensor<3x6x12xf32>
    %cst_68 = stablehlo.constant dense<0.707106769> : tensor<f32>
    %396 = stablehlo.broadcast_in_dim %cst_68, dims = [] : (tensor<f32>) -> tensor<3x6x12xf32>
    %397 = stablehlo.multiply %395, %396 : tensor<3x6x12xf32>
    %398 = stablehlo.negate %397 : tensor<3x6x12xf32>
    %cst_69 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %399 = stablehlo.broadcast_in_dim %cst_69, dims = [] : (tensor<f32>) -> tensor<3x6x12xf32>
    %400 = stablehlo.multiply %399, %392 : tensor<3x6x12xf32>
    %401 = stablehlo.add %398, %400 : tensor<3x6x12xf32>
    %402 = stablehlo.dot_general %401, %357, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<3x6x12xf32>, tensor<3x6x8xf32>) -> tensor<12x8xf32>
    %403 = stablehlo.transpose %402, dims = [1, 0] : (tensor<12x8xf32>) -> tensor<8x12xf32>
    %404 = stablehlo.dot_general %401, %arg20, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<3x6x12xf32>, tensor<8x12xf32>) -> tensor<3x6x8xf32>
    %cst_70 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %405 = stablehlo.reduce(%404 init: %cst_70) applies stablehlo.add across dimensions = [0, 1] : (tensor<3x6x8xf32>, tensor<f32>) -> tensor<8xf32>
    %406 = stablehlo.reshape %405 : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %cst_71 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %407 = stablehlo.reduce(%406 init: %cst_71) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x8xf32>, tensor<f32>) -> tensor<8xf32>
    %408 = stablehlo.multiply %348, %404 : tensor<3x6x8xf32>
    %cst_72 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %409 = stablehlo.reduce(%408 init: %cst_72) applies stablehlo.add across dimensions = [0, 1] : (tensor<3x6x8xf32>, tensor<f32>) -> tensor<8xf32>
    %410 = stablehlo.reshape %409 : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %411 = stablehlo.broadcast_in_dim %352, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<3x6x8xf32>
    %412 = stablehlo.multiply %404, %411 : tensor<3x6x8xf32>
    %cst_73 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %413 = stablehlo.reduce(%410 init: %cst_73) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x8xf32>, tensor<f32>) -> tensor<8xf32>
    %414 = stablehlo.broadcast_in_dim %351, dims = [0, 1, 2] : (tensor<3x6x1xf32>) -> tensor<3x6x8xf32>
    %415 = stablehlo.multiply %412, %414 : tensor<3x6x8xf32>
    %416 = stablehlo.multiply %415, %341 : tensor<3x6x8xf32>
    %cst_74 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %417 = stablehlo.reduce(%416 init: %cst_74) applies stablehlo.add across dimensions = [2] : (tensor<3x6x8xf32>, tensor<f32>) -> tensor<3x6xf32>
    %418 = stablehlo.reshape %417 : (tensor<3x6xf32>) -> tensor<3x6x1xf32>
    %419 = stablehlo.negate %418 : tensor<3x6x1xf32>
    %420 = stablehlo.broadcast_in_dim %344, dims = [0, 1, 2] : (tensor<3x6x1xf32>) -> tensor<3x6x8xf32>
    %421 = stablehlo.divide %412, %420 : tensor<3x6x8xf32>
    %422 = stablehlo.multiply %419, %346 : tensor<3x6x1xf32>
    %423 = stablehlo.negate %421 : tensor<3x6x8xf32>
    %cst_75 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %424 = stablehlo.reduce(%423 init: %cst_75) applies stablehlo.add across dimensions = [2] : (tensor<3x6x8xf32>, tensor<f32>) -> tensor<3x6xf32>
    %425 = stablehlo.reshape %424 : (tensor<3x6xf32>) -> tensor<3x6x1xf32>
    %426 = stablehlo.add %387, %421 : tensor<3x6x8xf32>
    %cst_76 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %427 = stablehlo.broadcast_in_dim %cst_76, dims = [] : (tensor<f32>) -> tensor<3x6x1xf32>
    %428 = stablehlo.divide %422, %427 : tensor<3x6x1xf32>
    %cst_77 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %429 = stablehlo.reduce(%428 init: %cst_77) applies stablehlo.add across dimensions = [2] : (tensor<3x6x1xf32>, tensor<f32>) -> tensor<3x6xf32>
    %430 = stablehlo.broadcast_in_dim %429, dims = [0, 1] : (tensor<3x6xf32>) -> tensor<3x6x8xf32>
    %431 = stablehlo.multiply %430, %335 : tensor<3x6x8xf32>
    %432 = stablehlo.negate %431 : tensor<3x6x8xf32>
    %cst_78 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %433 = stablehlo.reduce(%432 init: %cst_78) applies stablehlo.add across dimensions = [2] : (tensor<3x6x8xf32>, tensor<f32>) -> tensor<3x6xf32>
    %434 = stablehlo.reshape %433 : (tensor<3x6xf32>) -> tensor<3x6x1xf32>
    %435 = stablehlo.add %426, %431 : tensor<3x6x8xf32>
    %436 = stablehlo.add %425, %434 : tensor<3x6x1xf32>
    %cst_79 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %437 = stablehlo.broadcast_in_dim %cst_79, dims = [] : (tensor<f32>) -> tensor<3x6x1xf32>
    %438 = stablehlo.divide %436, %437 : tensor<3x6x1xf32>
    %cst_80 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %439 = stablehlo.reduce(%438 init: %cst_80) applies stablehlo.add across dimensions = [2] : (tensor<3x6x1xf32>, tensor<f32>) -> tensor<3x6xf32>
    %440 = stablehlo.broadcast_in_dim %439, dims = [0, 1] : (tensor<3x6xf32>) -> tensor<3x6x8xf32>
    %441 = stablehlo.add %435, %440 : tensor<3x6x8xf32>
    %442 = stablehlo.dot_general %441, %324, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<3x6x8xf32>, tensor<3x6x8xf32>) -> tensor<8x8xf32>
    %443 = stablehlo.transpose %442, dims = [1, 0] : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %444 = stablehlo.dot_general %441, %arg18, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<3x6x8xf32>, tensor<8x8xf32>) -> tensor<3x6x8xf32>
    %445 = stablehlo.reshape %444 : (tensor<3x6x8xf32>) -> tensor<3x6x2x4xf32>
    %446 = stablehlo.transpose %445, dims = [0, 2, 3, 1] : (tensor<3x6x2x4xf32>) -> tensor<3x2x4x6xf32>
    %447 = stablehlo.dot_general %446, %301, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [3], precision = [DEFAULT, DEFAULT] : (tensor<3x2x4x6xf32>, tensor<3x6x2x4xf32>) -> tensor<3x2x6x6xf32>
    %448 = stablehlo.dot_general %446, %318, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<3x2x4x6xf32>, tensor<3x2x6x6xf32>) -> tensor<3x2x4x6xf32>
    %449 = stablehlo.transpose %448, dims = [0, 3, 1, 2] : (tensor<3x2x4x6xf32>) -> tensor<3x6x2x4xf32>
    %450 = stablehlo.broadcast_in_dim %321, dims = [0, 1, 2, 3] : (tensor<3x2x6x1xf32>) -> tensor<3x2x6x6xf32>
    %451 = stablehlo.multiply %447, %450 : tensor<3x2x6x6xf32>
    %452 = stablehlo.multiply %451, %314 : tensor<3x2x6x6xf32>
    %cst_81 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %453 = stablehlo.reduce(%452 init: %cst_81) applies stablehlo.add across dimensions = [3] : (tensor<3x2x6x6xf32>, tensor<f32>) -> tensor<3x2x6xf32>
    %454 = stablehlo.reshape %453 : (tensor<3x2x6xf32>) -> tensor<3x2x6x1xf32>
    %455 = stablehlo.negate %454 : tensor<3x2x6x1xf32>
    %456 = stablehlo.broadcast_in_dim %316, dims = [0, 1, 2, 3] : (tensor<3x2x6x1xf32>) -> tensor<3x2x6x6xf32>
    %457 = stablehlo.divide %447, %456 : tensor<3x2x6x6xf32>
    %cst_82 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %458 = stablehlo.reduce(%455 init: %cst_82) applies stablehlo.add across dimensions = [3] : (tensor<3x2x6x1xf32>, tensor<f32>) -> tensor<3x2x6xf32>
    %459 = stablehlo.broadcast_in_dim %458, dims = [0, 1, 2] : (tensor<3x2x6xf32>) -> tensor<3x2x6x6xf32>
    %460 = stablehlo.add %457, %459 : tensor<3x2x6x6xf32>
    %461 = stablehlo.multiply %460, %314 : tensor<3x2x6x6xf32>
    %462 = call @_where_1(%307#1, %461) : (tensor<3x2x6x6xi1>, tensor<3x2x6x6xf32>) -> tensor<3x2x6x6xf32>
    %cst_83 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %463 = stablehlo.broadcast_in_dim %cst_83, dims = [] : (tensor<f32>) -> tensor<3x2x6x6xf32>
    %464 = stablehlo.divide %462, %463 : tensor<3x2x6x6xf32>
    %465 = stablehlo.dot_general %464, %257, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<3x2x6x6xf32>, tensor<3x6x2x4xf32>) -> tensor<3x2x6x4xf32>
    %466 = stablehlo.transpose %465, dims = [0, 2, 1, 3] : (tensor<3x2x6x4xf32>) -> tensor<3x6x2x4xf32>
    %467 = stablehlo.dot_general %464, %299, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1], precision = [DEFAULT, DEFAULT] : (tensor<3x2x6x6xf32>, tensor<3x6x2x4xf32>) -> tensor<3x2x6x4xf32>
    %468 = stablehlo.transpose %467, dims = [0, 2, 1, 3] : (tensor<3x2x6x4xf32>) -> tensor<3x6x2x4xf32>
    %469 = stablehlo.reshape %449 : (tensor<3x6x2x4xf32>) -> tensor<3x6x1x2x4xf32>
    %cst_84 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %470 = stablehlo.reduce(%469 init: %cst_84) applies stablehlo.add across dimensions = [2, 3] : (tensor<3x6x1x2x4xf32>, tensor<f32>) -> tensor<3x6x4xf32>
    %471 = stablehlo.broadcast_in_dim %470, dims = [0, 1, 3] : (tensor<3x6x4xf32>) -> tensor<3x6x1x4xf32>
    %472 = stablehlo.reshape %466 : (tensor<3x6x2x4xf32>) -> tensor<3x6x1x2x4xf32>
    %cst_85 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %473 = stablehlo.reduce(%472 init: %cst_85) applies stablehlo.add across dimensions = [2, 3] : (tensor<3x6x1x2x4xf32>, tensor<f32>) -> tensor<3x6x4xf32>
    %474 = stablehlo.broadcast_in_dim %473, dims = [0, 1, 3] : (tensor<3x6x4xf32>) -> tensor<3x6x1x4xf32>
    %475 = stablehlo.reshape %471 : (tensor<3x6x1x4xf32>) -> tensor<3x6x4xf32>
    %476 = stablehlo.dot_general %475, %219, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<3x6x4xf32>, tensor<3x6x8xf32>) -> tensor<4x8xf32>
    %477 = stablehlo.transpose %476, dims = [1, 0] : (tensor<4x8xf32>) -> tensor<8x4xf32>
    %478 = stablehlo.dot_general %475, %arg21, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<3x6x4xf32>, tensor<8x4xf32>) -> tensor<3x6x8xf32>
    %479 = stablehlo.slice %474 [0:3, 0:6, 0:1, 0:2] : (tensor<3x6x1x4xf32>) -> tensor<3x6x1x2xf32>
    %480 = stablehlo.slice %474 [0:3, 0:6, 0:1, 2:4] : (tensor<3x6x1x4xf32>) -> tensor<3x6x1x2xf32>
    %481 = stablehlo.broadcast_in_dim %291, dims = [0, 1, 2, 3] : (tensor<1x6x1x2xf32>) -> tensor<3x6x1x2xf32>
    %482 = stablehlo.multiply %480, %481 : tensor<3x6x1x2xf32>
    %483 = stablehlo.broadcast_in_dim %288, dims = [0, 1, 2, 3] : (tensor<1x6x1x2xf32>) -> tensor<3x6x1x2xf32>
    %484 = stablehlo.multiply %480, %483 : tensor<3x6x1x2xf32>
    %485 = stablehlo.negate %479 : tensor<3x6x1x2xf32>
    %486 = stablehlo.broadcast_in_dim %284, dims = [0, 1, 2, 3] : (tensor<1x6x1x2xf32>) -> tensor<3x6x1x2xf32>
    %487 = stablehlo.multiply %485, %486 : tensor<3x6x1x2xf32>
    %488 = stablehlo.add %482, %487 : tensor<3x6x1x2xf32>
    %489 = stablehlo.broadcast_in_dim %281, dims = [0, 1, 2, 3] : (tensor<1x6x1x2xf32>) -> tensor<3x6x1x2xf32>
    %490 = stablehlo.multiply %479, %489 : tensor<3x6x1x2xf32>
    %491 = stablehlo.add %484, %490 : tensor<3x6x1x2xf32>
    %cst_86 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %492 = stablehlo.pad %488, %cst_86, low = [0, 0, 0, 2], high = [0, 0, 0, 0], interior = [0, 0, 0, 0] : (tensor<3x6x1x2xf32>, tensor<f32>) -> tensor<3x6x1x4xf32>
    %cst_87 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %493 = stablehlo.pad %491, %cst_87, low = [0, 0, 0, 0], high = [0, 0, 0, 2], interior = [0, 0, 0, 0] : (tensor<3x6x1x2xf32>, tensor<f32>) -> tensor<3x6x1x4xf32>
    %494 = stablehlo.add %492, %493 : tensor<3x6x1x4xf32>
    %495 = stablehlo.reshape %494 : (tensor<3x6x1x4xf32>) -> tensor<3x6x4xf32>
    %496 = stablehlo.dot_general %495, %219, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<3x6x4xf32>, tensor<3x6x8xf32>) -> tensor<4x8xf32>
    %497 = stablehlo.transpose %496, dims = [1, 0] : (tensor<4x8xf32>) -> tensor<8x4xf32>
    %498 = stablehlo.dot_general %495, %arg15, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<3x6x4xf32>, tensor<8x4xf32>) -> tensor<3x6x8xf32>
    %499 = stablehlo.add %478, %498 : tensor<3x6x8xf32>
    %500 = stablehlo.slice %468 [0:3, 0:6, 0:2, 0:2] : (tensor<3x6x2x4xf32>) -> tensor<3x6x2x2xf32>
    %501 = stablehlo.slice %468 [0:3, 0:6, 0:2, 2:4] : (tensor<3x6x2x4xf32>) -> tensor<3x6x2x2xf32>
    %502 = stablehlo.broadcast_in_dim %253, dims = [0, 1, 2, 3] : (tensor<1x6x1x2xf32>) -> tensor<3x6x2x2xf32>
    %503 = stablehlo.multiply %501, %502 : tensor<3x6x2x2xf32>
    %504 = stablehlo.broadcast_in_dim %250, dims = [0, 1, 2, 3] : (tensor<1x6x1x2xf32>) -> tensor<3x6x2x2xf32>
    %505 = stablehlo.multiply %501, %504 : tensor<3x6x2x2xf32>
    %506 = stablehlo.negate %500 : tensor<3x6x2x2xf32>
    %507 = stablehlo.broadcast_in_dim %246, dims = [0, 1, 2, 3] : (tensor<1x6x1x2xf32>) -> tensor<3x6x2x2xf32>
    %508 = stablehlo.multiply %506, %507 : tensor<3x6x2x2xf32>
    %509 = stablehlo.add %503, %508 : tensor<3x6x2x2xf32>
    %510 = stablehlo.broadcast_in_dim %243, dims = [0, 1, 2, 3] : (tensor<1x6x1x2xf32>) -> tensor<3x6x2x2xf32>
    %511 = stablehlo.multiply %500, %510 : tensor<3x6x2x2xf32>
    %512 = stablehlo.add %505, %511 : tensor<3x6x2x2xf32>
    %cst_88 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %513 = stablehlo.pad %509, %cst_88, low = [0, 0, 0, 2], high = [0, 0, 0, 0], interior = [0, 0, 0, 0] : (tensor<3x6x2x2xf32>, tensor<f32>) -> tensor<3x6x2x4xf32>
    %cst_89 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %514 = stablehlo.pad %512, %cst_89, low = [0, 0, 0, 0], high = [0, 0, 0, 2], interior = [0, 0, 0, 0] : (tensor<3x6x2x2xf32>, tensor<f32>) -> tensor<3x6x2x4xf32>
    %515 = stablehlo.add %513, %514 : tensor<3x6x2x4xf32>
    %516 = stablehlo.reshape %515 : (tensor<3x6x2x4xf32>) -> tensor<3x6x8xf32>
    %517 = stablehlo.dot_general %516, %219, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<3x6x8xf32>, tensor<3x6x8xf32>) -> tensor<8x8xf32>
    %518 = stablehlo.transpose %517, dims = [1, 0] : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %519 = stablehlo.dot_general %516, %arg19, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<3x6x8xf32>, tensor<8x8xf32>) -> tensor<3x6x8xf32>
    %520 = stablehlo.add %499, %519 : tensor<3x6x8xf32>
    %cst_90 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %521 = stablehlo.reduce(%520 init: %cst_90) applies stablehlo.add across dimensions = [0, 1] : (tensor<3x6x8xf32>, tensor<f32>) -> tensor<8xf32>
    %522 = stablehlo.reshape %521 : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %cst_91 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %523 = stablehlo.reduce(%522 init: %cst_91) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x8xf32>, tensor<f32>) -> tensor<8xf32>
    %524 = stablehlo.multiply %210, %520 : tensor<3x6x8xf32>
    %cst_92 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %525 = stablehlo.reduce(%524 init: %cst_92) applies stablehlo.add across dimensions = [0, 1] : (tensor<3x6x8xf32>, tensor<f32>) -> tensor<8xf32>
    %526 = stablehlo.reshape %525 : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %527 = stablehlo.broadcast_in_dim %214, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<3x6x8xf32>
    %528 = stablehlo.multiply %520, %527 : tensor<3x6x8xf32>
    %cst_93 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %529 = stablehlo.reduce(%526 init: %cst_93) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x8xf32>, tensor<f32>) -> tensor<8xf32>
    %530 = stablehlo.broadcast_in_dim %213, dims = [0, 1, 2] : (tensor<3x6x1xf32>) -> tensor<3x6x8xf32>
    %531 = stablehlo.multiply %528, %530 : tensor<3x6x8xf32>
    %532 = stablehlo.multiply %531, %203 : tensor<3x6x8xf32>
    %cst_94 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %533 = stablehlo.reduce(%532 init: %cst_94) applies stablehlo.add across dimensions = [2] : (tensor<3x6x8xf32>, tensor<f32>) -> tensor<3x6xf32>
    %534 = stablehlo.reshape %533 : (tensor<3x6xf32>) -> tensor<3x6x1xf32>
    %535 = stablehlo.negate %534 : tensor<3x6x1xf32>
    %536 = stablehlo.broadcast_in_dim %206, dims = [0, 1, 2] : (tensor<3x6x1xf32>) -> tensor<3x6x8xf32>
    %537 = stablehlo.divide %528, %536 : tensor<3x6x8xf32>
    %538 = stablehlo.multiply %535, %208 : tensor<3x6x1xf32>
    %539 = stablehlo.negate %537 : tensor<3x6x8xf32>
    %cst_95 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %540 = stablehlo.reduce(%539 init: %cst_95) applies stablehlo.add across dimensions = [2] : (tensor<3x6x8xf32>, tensor<f32>) -> tensor<3x6xf32>
    %541 = stablehlo.reshape %540 : (tensor<3x6xf32>) -> tensor<3x6x1xf32>
    %542 = stablehlo.add %441, %537 : tensor<3x6x8xf32>
    %cst_96 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %543 = stablehlo.broadcast_in_dim %cst_96, dims = [] : (tensor<f32>) -> tensor<3x6x1xf32>
    %544 = stablehlo.divide %538, %543 : tensor<3x6x1xf32>
    %cst_97 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %545 = stablehlo.reduce(%544 init: %cst_97) applies stablehlo.add across dimensions = [2] : (tensor<3x6x1xf32>, tensor<f32>) -> tensor<3x6xf32>
    %546 = stablehlo.broadcast_in_dim %545, dims = [0, 1] : (tensor<3x6xf32>) -> tensor<3x6x8xf32>
    %547 = stablehlo.multiply %546, %197 : tensor<3x6x8xf32>
    %548 = stablehlo.negate %547 : tensor<3x6x8xf32>
    %cst_98 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %549 = stablehlo.reduce(%548 init: %cst_98) applies stablehlo.add across dimensions = [2] : (tensor<3x6x8xf32>, tensor<f32>) -> tensor<3x6xf32>
    %550 = stablehlo.reshape %549 : (tensor<3x6xf32>) -> tensor<3x6x1xf32>
    %551 = stablehlo.add %542, %547 : tensor<3x6x8xf32>
    %552 = stablehlo.add %541, %550 : tensor<3x6x1xf32>
    %cst_99 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %553 = stablehlo.broadcast_in_dim %cst_99, dims = [] : (tensor<f32>) -> tensor<3x6x1xf32>
    %554 = stablehlo.divide %552, %553 : tensor<3x6x1xf32>
    %cst_100 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %555 = stablehlo.reduce(%554 init: %cst_100) applies stablehlo.add across dimensions = [2] : (tensor<3x6x1xf32>, tensor<f32>) -> tensor<3x6xf32>
    %556 = stablehlo.broadcast_in_dim %555, dims = [0, 1] : (tensor<3x6xf32>) -> tensor<3x6x8xf32>
    %557 = stablehlo.add %551, %556 : tensor<3x6x8xf32>
    %558 = stablehlo.dot_general %557, %186, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<3x6x8xf32>, tensor<3x6x12xf32>) -> tensor<8x12xf32>
    %559 = stablehlo.transpose %558, dims = [1, 0] : (tensor<8x12xf32>) -> tensor<12x8xf32>
    %560 = stablehlo.dot_general %557, %arg4, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<3x6x8xf32>, tensor<12x8xf32>) -> tensor<3x6x12xf32>
    %561 = stablehlo.multiply %178, %560 : tensor<3x6x12xf32>
    %562 = stablehlo.multiply %560, %182 : tensor<3x6x12xf32>
    %cst_101 = stablehlo.constant dense<-1.12837923> : tensor<f32>
    %563 = stablehlo.broadcast_in_dim %cst_101, dims = [] : (tensor<f32>) -> tensor<3x6x12xf32>
    %564 = stablehlo.multiply %563, %561 : tensor<3x6x12xf32>
    %565 = stablehlo.multiply %564, %185 : tensor<3x6x12xf32>
    %cst_102 = stablehlo.constant dense<0.707106769> : tensor<f32>
    %566 = stablehlo.broadcast_in_dim %cst_102, dims = [] : (tensor<f32>) -> tensor<3x6x12xf32>
    %567 = stablehlo.multiply %565, %566 : tensor<3x6x12xf32>
    %568 = stablehlo.negate %567 : tensor<3x6x12xf32>
    %cst_103 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %569 = stablehlo.broadcast_in_dim %cst_103, dims = [] : (tensor<f32>) -> tensor<3x6x12xf32>
    %570 = stablehlo.multiply %569, %562 : tensor<3x6x12xf32>
    %571 = stablehlo.add %568, %570 : tensor<3x6x12xf32>
    %572 = stablehlo.dot_general %571, %175, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<3x6x12xf32>, tensor<3x6x8xf32>) -> tensor<12x8xf32>
    %573 = stablehlo.transpose %572, dims = [1, 0] : (tensor<12x8xf32>) -> tensor<8x12xf32>
    %574 = stablehlo.dot_general %571, %arg10, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<3x6x12xf32>, tensor<8x12xf32>) -> tensor<3x6x8xf32>
    %cst_104 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %575 = stablehlo.reduce(%574 init: %cst_104) applies stablehlo.add across dimensions = [0, 1] : (tensor<3x6x8xf32>, tensor<f32>) -> tensor<8xf32>
    %576 = stablehlo.reshape %575 : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %cst_105 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %577 = stablehlo.reduce(%576 init: %cst_105) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x8xf32>, tensor<f32>) -> tensor<8xf32>
    %578 = stablehlo.multiply %166, %574 : tensor<3x6x8xf32>
    %cst_106 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %579 = stablehlo.reduce(%578 init: %cst_106) applies stablehlo.add across dimensions = [0, 1] : (tensor<3x6x8xf32>, tensor<f32>) -> tensor<8xf32>
    %580 = stablehlo.reshape %579 : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %581 = stablehlo.broadcast_in_dim %170, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<3x6x8xf32>
    %582 = stablehlo.multiply %574, %581 : tensor<3x6x8xf32>
    %cst_107 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %583 = stablehlo.reduce(%580 init: %cst_107) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x8xf32>, tensor<f32>) -> tensor<8xf32>
    %584 = stablehlo.broadcast_in_dim %169, dims = [0, 1, 2] : (tensor<3x6x1xf32>) -> tensor<3x6x8xf32>
    %585 = stablehlo.multiply %582, %584 : tensor<3x6x8xf32>
    %586 = stablehlo.multiply %585, %159 : tensor<3x6x8xf32>
    %cst_108 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %587 = stablehlo.reduce(%586 init: %cst_108) applies stablehlo.add across dimensions = [2] : (tensor<3x6x8xf32>, tensor<f32>) -> tensor<3x6xf32>
    %588 = stablehlo.reshape %587 : (tensor<3x6xf32>) -> tensor<3x6x1xf32>
    %589 = stablehlo.negate %588 : tensor<3x6x1xf32>
    %590 = stablehlo.broadcast_in_dim %162, dims = [0, 1, 2] : (tensor<3x6x1xf32>) -> tensor<3x6x8xf32>
    %591 = stablehlo.divide %582, %590 : tensor<3x6x8xf32>
    %592 = stablehlo.multiply %589, %164 : tensor<3x6x1xf32>
    %593 = stablehlo.negate %591 : tensor<3x6x8xf32>
    %cst_109 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %594 = stablehlo.reduce(%593 init: %cst_109) applies stablehlo.add across dimensions = [2] : (tensor<3x6x8xf32>, tensor<f32>) -> tensor<3x6xf32>
    %595 = stablehlo.reshape %594 : (tensor<3x6xf32>) -> tensor<3x6x1xf32>
    %596 = stablehlo.add %557, %591 : tensor<3x6x8xf32>
    %cst_110 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %597 = stablehlo.broadcast_in_dim %cst_110, dims = [] : (tensor<f32>) -> tensor<3x6x1xf32>
    %598 = stablehlo.divide %592, %597 : tensor<3x6x1xf32>
    %cst_111 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %599 = stablehlo.reduce(%598 init: %cst_111) applies stablehlo.add across dimensions = [2] : (tensor<3x6x1xf32>, tensor<f32>) -> tensor<3x6xf32>
    %600 = stablehlo.broadcast_in_dim %599, dims = [0, 1] : (tensor<3x6xf32>) -> tensor<3x6x8xf32>
    %601 = stablehlo.multiply %600, %153 : tensor<3x6x8xf32>
    %602 = stablehlo.negate %601 : tensor<3x6x8xf32>
    %cst_112 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %603 = stablehlo.reduce(%602 init: %cst_112) applies stablehlo.add across dimensions = [2] : (tensor<3x6x8xf32>, tensor<f32>) -> tensor<3x6xf32>
    %604 = stablehlo.reshape %603 : (tensor<3x6xf32>) -> tensor<3x6x1xf32>
    %605 = stablehlo.add %596, %601 : tensor<3x6x8xf32>
    %606 = stablehlo.add %595, %604 : tensor<3x6x1xf32>
    %cst_113 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %607 = stablehlo.broadcast_in_dim %cst_113, dims = [] : (tensor<f32>) -> tensor<3x6x1xf32>
    %608 = stablehlo.divide %606, %607 : tensor<3x6x1xf32>
    %cst_114 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %609 = stablehlo.reduce(%608 init: %cst_114) applies stablehlo.add across dimensions = [2] : (tensor<3x6x1xf32>, tensor<f32>) -> tensor<3x6xf32>
    %610 = stablehlo.broadcast_in_dim %609, dims = [0, 1] : (tensor<3x6xf32>) -> tensor<3x6x8xf32>
    %611 = stablehlo.add %605, %610 : tensor<3x6x8xf32>
    %612 = stablehlo.dot_general %611, %142, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<3x6x8xf32>, tensor<3x6x8xf32>) -> tensor<8x8xf32>
    %613 = stablehlo.transpose %612, dims = [1, 0] : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %614 = stablehlo.dot_general %611, %arg8, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<3x6x8xf32>, tensor<8x8xf32>) -> tensor<3x6x8xf32>
    %615 = stablehlo.reshape %614 : (tensor<3x6x8xf32>) -> tensor<3x6x2x4xf32>
    %616 = stablehlo.transpose %615, dims = [0, 2, 3, 1] : (tensor<3x6x2x4xf32>) -> tensor<3x2x4x6xf32>
    %617 = stablehlo.dot_general %616, %119, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [3], precision = [DEFAULT, DEFAULT] : (tensor<3x2x4x6xf32>, tensor<3x6x2x4xf32>) -> tensor<3x2x6x6xf32>
    %618 = stablehlo.dot_general %616, %136, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<3x2x4x6xf32>, tensor<3x2x6x6xf32>) -> tensor<3x2x4x6xf32>
    %619 = stablehlo.transpose %618, dims = [0, 3, 1, 2] : (tensor<3x2x4x6xf32>) -> tensor<3x6x2x4xf32>
    %620 = stablehlo.broadcast_in_dim %139, dims = [0, 1, 2, 3] : (tensor<3x2x6x1xf32>) -> tensor<3x2x6x6xf32>
    %621 = stablehlo.multiply %617, %620 : tensor<3x2x6x6xf32>
    %622 = stablehlo.multiply %621, %132 : tensor<3x2x6x6xf32>
    %cst_115 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %623 = stablehlo.reduce(%622 init: %cst_115) applies stablehlo.add across dimensions = [3] : (tensor<3x2x6x6xf32>, tensor<f32>) -> tensor<3x2x6xf32>
    %624 = stablehlo.reshape %623 : (tensor<3x2x6xf32>) -> tensor<3x2x6x1xf32>
    %625 = stablehlo.negate %624 : tensor<3x2x6x1xf32>
    %626 = stablehlo.broadcast_in_dim %134, dims = [0, 1, 2, 3] : (tensor<3x2x6x1xf32>) -> tensor<3x2x6x6xf32>
    %627 = stablehlo.divide %617, %626 : tensor<3x2x6x6xf32>
    %cst_116 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %628 = stablehlo.reduce(%625 init: %cst_116) applies stablehlo.add across dimensions = [3] : (tensor<3x2x6x1xf32>, tensor<f32>) -> tensor<3x2x6xf32>
    %629 = stablehlo.broadcast_in_dim %628, dims = [0, 1, 2] : (tensor<3x2x6xf32>) -> tensor<3x2x6x6xf32>
    %630 = stablehlo.add %627, %629 : tensor<3x2x6x6xf32>
    %631 = stablehlo.multiply %630, %132 : tensor<3x2x6x6xf32>
    %632 = call @_where_1(%125#1, %631) : (tensor<3x2x6x6xi1>, tensor<3x2x6x6xf32>) -> tensor<3x2x6x6xf32>
    %cst_117 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %633 = stablehlo.broadcast_in_dim %cst_117, dims = [] : (tensor<f32>) -> tensor<3x2x6x6xf32>
    %634 = stablehlo.divide %632, %633 : tensor<3x2x6x6xf32>
    %635 = stablehlo.dot_general %634, %75, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<3x2x6x6xf32>, tensor<3x6x2x4xf32>) -> tensor<3x2x6x4xf32>
    %636 = stablehlo.transpose %635, dims = [0, 2, 1, 3] : (tensor<3x2x6x4xf32>) -> tensor<3x6x2x4xf32>
    %637 = stablehlo.dot_general %634, %117, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1], precision = [DEFAULT, DEFAULT] : (tensor<3x2x6x6xf32>, tensor<3x6x2x4xf32>) -> tensor<3x2x6x4xf32>
    %638 = stablehlo.transpose %637, dims = [0, 2, 1, 3] : (tensor<3x2x6x4xf32>) -> tensor<3x6x2x4xf32>
    %639 = stablehlo.reshape %619 : (tensor<3x6x2x4xf32>) -> tensor<3x6x1x2x4xf32>
    %cst_118 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %640 = stablehlo.reduce(%639 init: %cst_118) applies stablehlo.add across dimensions = [2, 3] : (tensor<3x6x1x2x4xf32>, tensor<f32>) -> tensor<3x6x4xf32>
    %641 = stablehlo.broadcast_in_dim %640, dims = [0, 1, 3] : (tensor<3x6x4xf32>) -> tensor<3x6x1x4xf32>
    %642 = stablehlo.reshape %636 : (tensor<3x6x2x4xf32>) -> tensor<3x6x1x2x4xf32>
    %cst_119 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %643 = stablehlo.reduce(%642 init: %cst_119) applies stablehlo.add across dimensions = [2, 3] : (tensor<3x6x1x2x4xf32>, tensor<f32>) -> tensor<3x6x4xf32>
    %644 = stablehlo.broadcast_in_dim %643, dims = [0, 1, 3] : (tensor<3x6x4xf32>) -> tensor<3x6x1x4xf32>
    %645 = stablehlo.reshape %641 : (tensor<3x6x1x4xf32>) -> tensor<3x6x4xf32>
    %646 = stablehlo.dot_general %645, %37, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<3x6x4xf32>, tensor<3x6x8xf32>) -> tensor<4x8xf32>
    %647 = stablehlo.transpose %646, dims = [1, 0] : (tensor<4x8xf32>) -> tensor<8x4xf32>
    %648 = stablehlo.dot_general %645, %arg11, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<3x6x4xf32>, tensor<8x4xf32>) -> tensor<3x6x8xf32>
    %649 = stablehlo.slice %644 [0:3, 0:6, 0:1, 0:2] : (tensor<3x6x1x4xf32>) -> tensor<3x6x1x2xf32>
    %650 = stablehlo.slice %644 [0:3, 0:6, 0:1, 2:4] : (tensor<3x6x1x4xf32>) -> tensor<3x6x1x2xf32>
    %651 = stablehlo.broadcast_in_dim %109, dims = [0, 1, 2, 3] : (tensor<1x6x1x2xf32>) -> tensor<3x6x1x2xf32>
    %652 = stablehlo.multiply %650, %651 : tensor<3x6x1x2xf32>
    %653 = stablehlo.broadcast_in_dim %106, dims = [0, 1, 2, 3] : (tensor<1x6x1x2xf32>) -> tensor<3x6x1x2xf32>
    %654 = stablehlo.multiply %650, %653 : tensor<3x6x1x2xf32>
    %655 = stablehlo.negate %649 : tensor<3x6x1x2xf32>
    %656 = stablehlo.broadcast_in_dim %102, dims = [0, 1, 2, 3] : (tensor<1x6x1x2xf32>) -> tensor<3x6x1x2xf32>
    %657 = stablehlo.multiply %655, %656 : tensor<3x6x1x2xf32>
    %658 = stablehlo.add %652, %657 : tensor<3x6x1x2xf32>
    %659 = stablehlo.broadcast_in_dim %99, dims = [0, 1, 2, 3] : (tensor<1x6x1x2xf32>) -> tensor<3x6x1x2xf32>
    %660 = stablehlo.multiply %649, %659 : tensor<3x6x1x2xf32>
    %661 = stablehlo.add %654, %660 : tensor<3x6x1x2xf32>
    %cst_120 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %662 = stablehlo.pad %658, %cst_120, low = [0, 0, 0, 2], high = [0, 0, 0, 0], interior = [0, 0, 0, 0] : (tensor<3x6x1x2xf32>, tensor<f32>) -> tensor<3x6x1x4xf32>
    %cst_121 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %663 = stablehlo.pad %661, %cst_121, low = [0, 0, 0, 0], high = [0, 0, 0, 2], interior = [0, 0, 0, 0] : (tensor<3x6x1x2xf32>, tensor<f32>) -> tensor<3x6x1x4xf32>
    %664 = stablehlo.add %662, %663 : tensor<3x6x1x4xf32>
    %665 = stablehlo.reshape %664 : (tensor<3x6x1x4xf32>) -> tensor<3x6x4xf32>
    %666 = stablehlo.dot_general %665, %37, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<3x6x4xf32>, tensor<3x6x8xf32>) -> tensor<4x8xf32>
    %667 = stablehlo.transpose %666, dims = [1, 0] : (tensor<4x8xf32>) -> tensor<8x4xf32>
    %668 = stablehlo.dot_general %665, %arg5, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<3x6x4xf32>, tensor<8x4xf32>) -> tensor<3x6x8xf32>
    %669 = stablehlo.add %648, %668 : tensor<3x6x8xf32>
    %670 = stablehlo.slice %638 [0:3, 0:6, 0:2, 0:2] : (tensor<3x6x2x4xf32>) -> tensor<3x6x2x2xf32>
    %671 = stablehlo.slice %638 [0:3, 0:6, 0:2, 2:4] : (tensor<3x6x2x4xf32>) -> tensor<3x6x2x2xf32>
    %672 = stablehlo.broadcast_in_dim %71, dims = [0, 1, 2, 3] : (tensor<1x6x1x2xf32>) -> tensor<3x6x2x2xf32>
    %673 = stablehlo.multiply %671, %672 : tensor<3x6x2x2xf32>
    %674 = stablehlo.broadcast_in_dim %68, dims = [0, 1, 2, 3] : (tensor<1x6x1x2xf32>) -> tensor<3x6x2x2xf32>
    %675 = stablehlo.multiply %671, %674 : tensor<3x6x2x2xf32>
    %676 = stablehlo.negate %670 : tensor<3x6x2x2xf32>
    %677 = stablehlo.broadcast_in_dim %64, dims = [0, 1, 2, 3] : (tensor<1x6x1x2xf32>) -> tensor<3x6x2x2xf32>
    %678 = stablehlo.multiply %676, %677 : tensor<3x6x2x2xf32>
    %679 = stablehlo.add %673, %678 : tensor<3x6x2x2xf32>
    %680 = stablehlo.broadcast_in_dim %61, dims = [0, 1, 2, 3] : (tensor<1x6x1x2xf32>) -> tensor<3x6x2x2xf32>
    %681 = stablehlo.multiply %670, %680 : tensor<3x6x2x2xf32>
    %682 = stablehlo.add %675, %681 : tensor<3x6x2x2xf32>
    %cst_122 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %683 = stablehlo.pad %679, %cst_122, low = [0, 0, 0, 2], high = [0, 0, 0, 0], interior = [0, 0, 0, 0] : (tensor<3x6x2x2xf32>, tensor<f32>) -> tensor<3x6x2x4xf32>
    %cst_123 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %684 = stablehlo.pad %682, %cst_123, low = [0, 0, 0, 0], high = [0, 0, 0, 2], interior = [0, 0, 0, 0] : (tensor<3x6x2x2xf32>, tensor<f32>) -> tensor<3x6x2x4xf32>
    %685 = stablehlo.add %683, %684 : tensor<3x6x2x4xf32>
    %686 = stablehlo.reshape %685 : (tensor<3x6x2x4xf32>) -> tensor<3x6x8xf32>
    %687 = stablehlo.dot_general %686, %37, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<3x6x8xf32>, tensor<3x6x8xf32>) -> tensor<8x8xf32>
    %688 = stablehlo.transpose %687, dims = [1, 0] : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %689 = stablehlo.dot_general %686, %arg9, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<3x6x8xf32>, tensor<8x8xf32>) -> tensor<3x6x8xf32>
    %690 = stablehlo.add %669, %689 : tensor<3x6x8xf32>
    %cst_124 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %691 = stablehlo.reduce(%690 init: %cst_124) applies stablehlo.add across dimensions = [0, 1] : (tensor<3x6x8xf32>, tensor<f32>) -> tensor<8xf32>
    %692 = stablehlo.reshape %691 : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %cst_125 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %693 = stablehlo.reduce(%692 init: %cst_125) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x8xf32>, tensor<f32>) -> tensor<8xf32>
    %694 = stablehlo.multiply %28, %690 : tensor<3x6x8xf32>
    %cst_126 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %695 = stablehlo.reduce(%694 init: %cst_126) applies stablehlo.add across dimensions = [0, 1] : (tensor<3x6x8xf32>, tensor<f32>) -> tensor<8xf32>
    %696 = stablehlo.reshape %695 : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %697 = stablehlo.broadcast_in_dim %32, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<3x6x8xf32>
    %698 = stablehlo.multiply %690, %697 : tensor<3x6x8xf32>
    %cst_127 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %699 = stablehlo.reduce(%696 init: %cst_127) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x8xf32>, tensor<f32>) -> tensor<8xf32>
    %700 = stablehlo.broadcast_in_dim %31, dims = [0, 1, 2] : (tensor<3x6x1xf32>) -> tensor<3x6x8xf32>
    %701 = stablehlo.multiply %698, %700 : tensor<3x6x8xf32>
    %702 = stablehlo.multiply %701, %21 : tensor<3x6x8xf32>
    %cst_128 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %703 = stablehlo.reduce(%702 init: %cst_128) applies stablehlo.add across dimensions = [2] : (tensor<3x6x8xf32>, tensor<f32>) -> tensor<3x6xf32>
    %704 = stablehlo.reshape %703 : (tensor<3x6xf32>) -> tensor<3x6x1xf32>
    %705 = stablehlo.negate %704 : tensor<3x6x1xf32>
    %706 = stablehlo.broadcast_in_dim %24, dims = [0, 1, 2] : (tensor<3x6x1xf32>) -> tensor<3x6x8xf32>
    %707 = stablehlo.divide %698, %706 : tensor<3x6x8xf32>
    %708 = stablehlo.multiply %705, %26 : tensor<3x6x1xf32>
    %709 = stablehlo.negate %707 : tensor<3x6x8xf32>
    %cst_129 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %710 = stablehlo.reduce(%709 init: %cst_129) applies stablehlo.add across dimensions = [2] : (tensor<3x6x8xf32>, tensor<f32>) -> tensor<3x6xf32>
    %711 = stablehlo.reshape %710 : (tensor<3x6xf32>) -> tensor<3x6x1xf32>
    %712 = stablehlo.add %611, %707 : tensor<3x6x8xf32>
    %cst_130 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %713 = stablehlo.broadcast_in_dim %cst_130, dims = [] : (tensor<f32>) -> tensor<3x6x1xf32>
    %714 = stablehlo.divide %708, %713 : tensor<3x6x1xf32>
    %cst_131 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %715 = stablehlo.reduce(%714 init: %cst_131) applies stablehlo.add across dimensions = [2] : (tensor<3x6x1xf32>, tensor<f32>) -> tensor<3x6xf32>
    %716 = stablehlo.broadcast_in_dim %715, dims = [0, 1] : (tensor<3x6xf32>) -> tensor<3x6x8xf32>
    %717 = stablehlo.multiply %716, %15 : tensor<3x6x8xf32>
    %718 = stablehlo.negate %717 : tensor<3x6x8xf32>
    %cst_132 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %719 = stablehlo.reduce(%718 init: %cst_132) applies stablehlo.add across dimensions = [2] : (tensor<3x6x8xf32>, tensor<f32>) -> tensor<3x6xf32>
    %720 = stablehlo.reshape %719 : (tensor<3x6xf32>) -> tensor<3x6x1xf32>
    %721 = stablehlo.add %712, %717 : tensor<3x6x8xf32>
    %722 = stablehlo.add %711, %720 : tensor<3x6x1xf32>
    %cst_133 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %723 = stablehlo.broadcast_in_dim %cst_133, dims = [] : (tensor<f32>) -> tensor<3x6x1xf32>
    %724 = stablehlo.divide %722, %723 : tensor<3x6x1xf32>
    %cst_134 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %725 = stablehlo.reduce(%724 init: %cst_134) applies stablehlo.add across dimensions = [2] : (tensor<3x6x1xf32>, tensor<f32>) -> tensor<3x6xf32>
    %726 = stablehlo.broadcast_in_dim %725, dims = [0, 1] : (tensor<3x6xf32>) -> tensor<3x6x8xf32>
    %727 = stablehlo.add %721, %726 : tensor<3x6x8xf32>
    %cst_135 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %728 = stablehlo.broadcast_in_dim %cst_135, dims = [] : (tensor<f32>) -> tensor<20x8xf32>
    %729 = "stablehlo.scatter"(%728, %5, %727) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 2>, unique_indices = false}> ({
    ^bb0(%arg47: tensor<f32>, %arg48: tensor<f32>):
      %866 = stablehlo.add %arg47, %arg48 : tensor<f32>
      stablehlo.return %866 : tensor<f32>
    }) : (tensor<20x8xf32>, tensor<3x6x1xi32>, tensor<3x6x8xf32>) -> tensor<20x8xf32>
    %cst_136 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %730 = stablehlo.broadcast_in_dim %cst_136, dims = [] : (tensor<f32>) -> tensor<20x8xf32>
    %731 = stablehlo.multiply %730, %arg23 : tensor<20x8xf32>
    %732 = stablehlo.add %731, %729 : tensor<20x8xf32>
    %cst_137 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %733 = stablehlo.broadcast_in_dim %cst_137, dims = [] : (tensor<f32>) -> tensor<8x20xf32>
    %734 = stablehlo.multiply %733, %arg24 : tensor<8x20xf32>
    %735 = stablehlo.add %734, %386 : tensor<8x20xf32>
    %cst_138 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %736 = stablehlo.broadcast_in_dim %cst_138, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %737 = stablehlo.multiply %736, %arg25 : tensor<8xf32>
    %738 = stablehlo.add %737, %693 : tensor<8xf32>
    %cst_139 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %739 = stablehlo.broadcast_in_dim %cst_139, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %740 = stablehlo.multiply %739, %arg26 : tensor<8xf32>
    %741 = stablehlo.add %740, %577 : tensor<8xf32>
    %cst_140 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %742 = stablehlo.broadcast_in_dim %cst_140, dims = [] : (tensor<f32>) -> tensor<12x8xf32>
    %743 = stablehlo.multiply %742, %arg27 : tensor<12x8xf32>
    %744 = stablehlo.add %743, %559 : tensor<12x8xf32>
    %cst_141 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %745 = stablehlo.broadcast_in_dim %cst_141, dims = [] : (tensor<f32>) -> tensor<8x4xf32>
    %746 = stablehlo.multiply %745, %arg28 : tensor<8x4xf32>
    %747 = stablehlo.add %746, %667 : tensor<8x4xf32>
    %cst_142 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %748 = stablehlo.broadcast_in_dim %cst_142, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %749 = stablehlo.multiply %748, %arg29 : tensor<8xf32>
    %750 = stablehlo.add %749, %699 : tensor<8xf32>
    %cst_143 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %751 = stablehlo.broadcast_in_dim %cst_143, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %752 = stablehlo.multiply %751, %arg30 : tensor<8xf32>
    %753 = stablehlo.add %752, %583 : tensor<8xf32>
    %cst_144 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %754 = stablehlo.broadcast_in_dim %cst_144, dims = [] : (tensor<f32>) -> tensor<8x8xf32>
    %755 = stablehlo.multiply %754, %arg31 : tensor<8x8xf32>
    %756 = stablehlo.add %755, %613 : tensor<8x8xf32>
    %cst_145 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %757 = stablehlo.broadcast_in_dim %cst_145, dims = [] : (tensor<f32>) -> tensor<8x8xf32>
    %758 = stablehlo.multiply %757, %arg32 : tensor<8x8xf32>
    %759 = stablehlo.add %758, %688 : tensor<8x8xf32>
    %cst_146 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %760 = stablehlo.broadcast_in_dim %cst_146, dims = [] : (tensor<f32>) -> tensor<8x12xf32>
    %761 = stablehlo.multiply %760, %arg33 : tensor<8x12xf32>
    %762 = stablehlo.add %761, %573 : tensor<8x12xf32>
    %cst_147 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %763 = stablehlo.broadcast_in_dim %cst_147, dims = [] : (tensor<f32>) -> tensor<8x4xf32>
    %764 = stablehlo.multiply %763, %arg34 : tensor<8x4xf32>
    %765 = stablehlo.add %764, %647 : tensor<8x4xf32>
    %cst_148 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %766 = stablehlo.broadcast_in_dim %cst_148, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %767 = stablehlo.multiply %766, %arg35 : tensor<8xf32>
    %768 = stablehlo.add %767, %523 : tensor<8xf32>
    %cst_149 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %769 = stablehlo.broadcast_in_dim %cst_149, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %770 = stablehlo.multiply %769, %arg36 : tensor<8xf32>
    %771 = stablehlo.add %770, %407 : tensor<8xf32>
    %cst_150 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %772 = stablehlo.broadcast_in_dim %cst_150, dims = [] : (tensor<f32>) -> tensor<12x8xf32>
    %773 = stablehlo.multiply %772, %arg37 : tensor<12x8xf32>
    %774 = stablehlo.add %773, %389 : tensor<12x8xf32>
    %cst_151 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %775 = stablehlo.broadcast_in_dim %cst_151, dims = [] : (tensor<f32>) -> tensor<8x4xf32>
    %776 = stablehlo.multiply %775, %arg38 : tensor<8x4xf32>
    %777 = stablehlo.add %776, %497 : tensor<8x4xf32>
    %cst_152 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %778 = stablehlo.broadcast_in_dim %cst_152, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %779 = stablehlo.multiply %778, %arg39 : tensor<8xf32>
    %780 = stablehlo.add %779, %529 : tensor<8xf32>
    %cst_153 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %781 = stablehlo.broadcast_in_dim %cst_153, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %782 = stablehlo.multiply %781, %arg40 : tensor<8xf32>
    %783 = stablehlo.add %782, %413 : tensor<8xf32>
    %cst_154 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %784 = stablehlo.broadcast_in_dim %cst_154, dims = [] : (tensor<f32>) -> tensor<8x8xf32>
    %785 = stablehlo.multiply %784, %arg41 : tensor<8x8xf32>
    %786 = stablehlo.add %785, %443 : tensor<8x8xf32>
    %cst_155 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %787 = stablehlo.broadcast_in_dim %cst_155, dims = [] : (tensor<f32>) -> tensor<8x8xf32>
    %788 = stablehlo.multiply %787, %arg42 : tensor<8x8xf32>
    %789 = stablehlo.add %788, %518 : tensor<8x8xf32>
    %cst_156 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %790 = stablehlo.broadcast_in_dim %cst_156, dims = [] : (tensor<f32>) -> tensor<8x12xf32>
    %791 = stablehlo.multiply %790, %arg43 : tensor<8x12xf32>
    %792 = stablehlo.add %791, %403 : tensor<8x12xf32>
    %cst_157 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %793 = stablehlo.broadcast_in_dim %cst_157, dims = [] : (tensor<f32>) -> tensor<8x4xf32>
    %794 = stablehlo.multiply %793, %arg44 : tensor<8x4xf32>
    %795 = stablehlo.add %794, %477 : tensor<8x4xf32>
    %796 = stablehlo.convert %arg22 : (tensor<i32>) -> tensor<f32>
    %cst_158 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %797 = stablehlo.add %cst_158, %796 : tensor<f32>
    %cst_159 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %798 = stablehlo.divide %cst_159, %797 : tensor<f32>
    %799 = stablehlo.broadcast_in_dim %798, dims = [] : (tensor<f32>) -> tensor<20x8xf32>
    %800 = stablehlo.multiply %799, %732 : tensor<20x8xf32>
    %801 = stablehlo.subtract %arg0, %800 : tensor<20x8xf32>
    %802 = stablehlo.broadcast_in_dim %798, dims = [] : (tensor<f32>) -> tensor<8x20xf32>
    %803 = stablehlo.multiply %802, %735 : tensor<8x20xf32>
    %804 = stablehlo.subtract %arg1, %803 : tensor<8x20xf32>
    %805 = stablehlo.broadcast_in_dim %798, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %806 = stablehlo.multiply %805, %738 : tensor<8xf32>
    %807 = stablehlo.subtract %arg2, %806 : tensor<8xf32>
    %808 = stablehlo.broadcast_in_dim %798, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %809 = stablehlo.multiply %808, %741 : tensor<8xf32>
    %810 = stablehlo.subtract %arg3, %809 : tensor<8xf32>
    %811 = stablehlo.broadcast_in_dim %798, dims = [] : (tensor<f32>) -> tensor<12x8xf32>
    %812 = stablehlo.multiply %811, %744 : tensor<12x8xf32>
    %813 = stablehlo.subtract %arg4, %812 : tensor<12x8xf32>
    %814 = stablehlo.broadcast_in_dim %798, dims = [] : (tensor<f32>) -> tensor<8x4xf32>
    %815 = stablehlo.multiply %814, %747 : tensor<8x4xf32>
    %816 = stablehlo.subtract %arg5, %815 : tensor<8x4xf32>
    %817 = stablehlo.broadcast_in_dim %798, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %818 = stablehlo.multiply %817, %750 : tensor<8xf32>
    %819 = stablehlo.subtract %arg6, %818 : tensor<8xf32>
    %820 = stablehlo.broadcast_in_dim %798, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %821 = stablehlo.multiply %820, %753 : tensor<8xf32>
    %822 = stablehlo.subtract %arg7, %821 : tensor<8xf32>
    %823 = stablehlo.broadcast_in_dim %798, dims = [] : (tensor<f32>) -> tensor<8x8xf32>
    %824 = stablehlo.multiply %823, %756 : tensor<8x8xf32>
    %825 = stablehlo.subtract %arg8, %824 : tensor<8x8xf32>
    %826 = stablehlo.broadcast_in_dim %798, dims = [] : (tensor<f32>) -> tensor<8x8xf32>
    %827 = stablehlo.multiply %826, %759 : tensor<8x8xf32>
    %828 = stablehlo.subtract %arg9, %827 : tensor<8x8xf32>
    %829 = stablehlo.broadcast_in_dim %798, dims = [] : (tensor<f32>) -> tensor<8x12xf32>
    %830 = stablehlo.multiply %829, %762 : tensor<8x12xf32>
    %831 = stablehlo.subtract %arg10, %830 : tensor<8x12xf32>
    %832 = stablehlo.broadcast_in_dim %798, dims = [] : (tensor<f32>) -> tensor<8x4xf32>
    %833 = stablehlo.multiply %832, %765 : tensor<8x4xf32>
    %834 = stablehlo.subtract %arg11, %833 : tensor<8x4xf32>
    %835 = stablehlo.broadcast_in_dim %798, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %836 = stablehlo.multiply %835, %768 : tensor<8xf32>
    %837 = stablehlo.subtract %arg12, %836 : tensor<8xf32>
    %838 = stablehlo.broadcast_in_dim %798, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %839 = stablehlo.multiply %838, %771 : tensor<8xf32>
    %840 = stablehlo.subtract %arg13, %839 : tensor<8xf32>
    %841 = stablehlo.broadcast_in_dim %798, dims = [] : (tensor<f32>) -> tensor<12x8xf32>
    %842 = stablehlo.multiply %841, %774 : tensor<12x8xf32>
    %843 = stablehlo.subtract %arg14, %842 : tensor<12x8xf32>
    %844 = stablehlo.broadcast_in_dim %798, dims = [] : (tensor<f32>) -> tensor<8x4xf32>
    %845 = stablehlo.multiply %844, %777 : tensor<8x4xf32>
    %846 = stablehlo.subtract %arg15, %845 : tensor<8x4xf32>
    %847 = stablehlo.broadcast_in_dim %798, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %848 = stablehlo.multiply %847, %780 : tensor<8xf32>
    %849 = stablehlo.subtract %arg16, %848 : tensor<8xf32>
    %850 = stablehlo.broadcast_in_dim %798, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %851 = stablehlo.multiply %850, %783 : tensor<8xf32>
    %852 = stablehlo.subtract %arg17, %851 : tensor<8xf32>
    %853 = stablehlo.broadcast_in_dim %798, dims = [] : (tensor<f32>) -> tensor<8x8xf32>
    %854 = stablehlo.multiply %853, %786 : tensor<8x8xf32>
    %855 = stablehlo.subtract %arg18, %854 : tensor<8x8xf32>
    %856 = stablehlo.broadcast_in_dim %798, dims = [] : (tensor<f32>) -> tensor<8x8xf32>
    %857 = stablehlo.multiply %856, %789 : tensor<8x8xf32>
    %858 = stablehlo.subtract %arg19, %857 : tensor<8x8xf32>
    %859 = stablehlo.broadcast_in_dim %798, dims = [] : (tensor<f32>) -> tensor<8x12xf32>
    %860 = stablehlo.multiply %859, %792 : tensor<8x12xf32>
    %861 = stablehlo.subtract %arg20, %860 : tensor<8x12xf32>
    %862 = stablehlo.broadcast_in_dim %798, dims = [] : (tensor<f32>) -> tensor<8x4xf32>
    %863 = stablehlo.multiply %862, %795 : tensor<8x4xf32>
    %864 = stablehlo.subtract %arg21, %863 : tensor<8x4xf32>
    %c_160 = stablehlo.constant dense<1> : tensor<i32>
    %865 = stablehlo.add %arg22, %c_160 : tensor<i32>
    return %801, %804, %807, %810, %813, %816, %819, %822, %825, %828, %831, %834, %837, %840, %843, %846, %849, %852, %855, %858, %861, %864, %865, %732, %735, %738, %741, %744, %747, %750, %753, %756, %759, %762, %765, %768, %771, %774, %777, %780, %783, %786, %789, %792, %795, %378 : tensor<20x8xf32>, tensor<8x20xf32>, tensor<8xf32>, tensor<8xf32>, tensor<12x8xf32>, tensor<8x4xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x12xf32>, tensor<8x4xf32>, tensor<8xf32>, tensor<8xf32>, tensor<12x8xf32>, tensor<8x4xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x12xf32>, tensor<8x4xf32>, tensor<i32>, tensor<20x8xf32>, tensor<8x20xf32>, tensor<8xf32>, tensor<8xf32>, tensor<12x8xf32>, tensor<8x4xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x12xf32>, tensor<8x4xf32>, tensor<8xf32>, tensor<8xf32>, tensor<12x8xf32>, tensor<8x4xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x12xf32>, tensor<8x4xf32>, tensor<f32>
  }
  func.func private @tril(%arg0: tensor<6x6xi1>) -> tensor<6x6xi1> {
    %0 = stablehlo.iota dim = 0 : tensor<6x6xi32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<6x6xi32>
    %2 = stablehlo.add %0, %1 : tensor<6x6xi32>
    %3 = stablehlo.iota dim = 1 : tensor<6x6xi32>
    %4 = stablehlo.compare GE, %2, %3, SIGNED : (tensor<6x6xi32>, tensor<6x6xi32>) -> tensor<6x6xi1>
    %c_0 = stablehlo.constant dense<false> : tensor<i1>
    %5 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i1>) -> tensor<6x6xi1>
    %6 = stablehlo.select %4, %arg0, %5 : tensor<6x6xi1>, tensor<6x6xi1>
    return %6 : tensor<6x6xi1>
  }
  func.func private @_where(%arg0: tensor<6x6xi1>, %arg1: tensor<3x2x6x6xf32>, %arg2: tensor<f32>) -> (tensor<3x2x6x6xf32>, tensor<3x2x6x6xi1>) {
    %0 = stablehlo.broadcast_in_dim %arg0, dims = [2, 3] : (tensor<6x6xi1>) -> tensor<3x2x6x6xi1>
    %1 = stablehlo.broadcast_in_dim %arg2, dims = [] : (tensor<f32>) -> tensor<3x2x6x6xf32>
    %2 = stablehlo.select %0, %arg1, %1 : tensor<3x2x6x6xi1>, tensor<3x2x6x6xf32>
    return %2, %0 : tensor<3x2x6x6xf32>, tensor<3x2x6x6xi1>
  }
  func.func private @log_softmax(%arg0: tensor<3x6x20xf32>) -> (tensor<3x6x20xf32>, tensor<3x6x20xf32>, tensor<3x6x1xf32>) {
    %cst = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %0 = stablehlo.reduce(%arg0 init: %cst) applies stablehlo.maximum across dimensions = [2] : (tensor<3x6x20xf32>, tensor<f32>) -> tensor<3x6xf32>
    %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<3x6xf32>
    %2 = stablehlo.maximum %1, %0 : tensor<3x6xf32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [0, 1] : (tensor<3x6xf32>) -> tensor<3x6x1xf32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2] : (tensor<3x6x1xf32>) -> tensor<3x6x20xf32>
    %5 = stablehlo.subtract %arg0, %4 : tensor<3x6x20xf32>
    %6 = stablehlo.exponential %5 : tensor<3x6x20xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %7 = stablehlo.reduce(%6 init: %cst_1) applies stablehlo.add across dimensions = [2] : (tensor<3x6x20xf32>, tensor<f32>) -> tensor<3x6xf32>
    %8 = stablehlo.broadcast_in_dim %7, dims = [0, 1] : (tensor<3x6xf32>) -> tensor<3x6x1xf32>
    %9 = stablehlo.log %8 : tensor<3x6x1xf32>
    %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1, 2] : (tensor<3x6x1xf32>) -> tensor<3x6x20xf32>
    %11 = stablehlo.subtract %5, %10 : tensor<3x6x20xf32>
    return %11, %6, %8 : tensor<3x6x20xf32>, tensor<3x6x20xf32>, tensor<3x6x1xf32>
  }
  func.func private @_one_hot(%arg0: tensor<3x6xi32>) -> tensor<3x6x20xf32> {
    %0 = stablehlo.broadcast_in_dim %arg0, dims = [0, 1] : (tensor<3x6xi32>) -> tensor<3x6x1xi32>
    %1 = stablehlo.iota dim = 2 : tensor<1x1x20xi32>
    %2 = stablehlo.broadcast_in_dim %0, dims = [0, 1, 2] : (tensor<3x6x1xi32>) -> tensor<3x6x20xi32>
    %3 = stablehlo.broadcast_in_dim %1, dims = [0, 1, 2] : (tensor<1x1x20xi32>) -> tensor<3x6x20xi32>
    %4 = stablehlo.compare EQ, %2, %3, SIGNED : (tensor<3x6x20xi32>, tensor<3x6x20xi32>) -> tensor<3x6x20xi1>
    %5 = stablehlo.convert %4 : (tensor<3x6x20xi1>) -> tensor<3x6x20xf32>
    return %5 : tensor<3x6x20xf32>
  }
  func.func private @log_softmax_0(%arg0: tensor<3x6x20xf32>, %arg1: tensor<3x6x1xf32>, %arg2: tensor<3x6x20xf32>) -> tensor<3x6x20xf32> {
    %0 = stablehlo.negate %arg2 : tensor<3x6x20xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1 = stablehlo.reduce(%0 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<3x6x20xf32>, tensor<f32>) -> tensor<3x6xf32>
    %2 = stablehlo.reshape %1 : (tensor<3x6xf32>) -> tensor<3x6x1xf32>
    %3 = stablehlo.divide %2, %arg1 : tensor<3x6x1xf32>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %4 = stablehlo.reduce(%3 init: %cst_0) applies stablehlo.add across dimensions = [2] : (tensor<3x6x1xf32>, tensor<f32>) -> tensor<3x6xf32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0, 1] : (tensor<3x6xf32>) -> tensor<3x6x20xf32>
    %6 = stablehlo.multiply %5, %arg0 : tensor<3x6x20xf32>
    %7 = stablehlo.add %arg2, %6 : tensor<3x6x20xf32>
    return %7 : tensor<3x6x20xf32>
  }
  func.func private @_where_1(%arg0: tensor<3x2x6x6xi1>, %arg1: tensor<3x2x6x6xf32>) -> tensor<3x2x6x6xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<3x2x6x6xf32>
    %1 = stablehlo.select %arg0, %arg1, %0 : tensor<3x2x6x6xi1>, tensor<3x2x6x6xf32>
    return %1 : tensor<3x2x6x6xf32>
  }
}
