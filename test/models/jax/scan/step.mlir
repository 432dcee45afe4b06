module @jit_step attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<3x6xf32> {tf.aliasing_output = 0 : i32}, %arg1: tensor<3x6xf32> {tf.aliasing_output = 1 : i32}, %arg2: tensor<3x8x6xf32> {tf.aliasing_output = 2 : i32}, %arg3: tensor<3x6x6xf32> {tf.aliasing_output = 3 : i32}, %arg4: tensor<3x6xf32> {tf.aliasing_output = 4 : i32}, %arg5: tensor<3x6xf32> {tf.aliasing_output = 5 : i32}, %arg6: tensor<3x6x6xf32> {tf.aliasing_output = 6 : i32}, %arg7: tensor<3x6x6xf32> {tf.aliasing_output = 7 : i32}, %arg8: tensor<3x6x8xf32> {tf.aliasing_output = 8 : i32}, %arg9: tensor<3x6x6xf32> {tf.aliasing_output = 9 : i32}, %arg10: tensor<6xf32> {tf.aliasing_output = 10 : i32}, %arg11: tensor<i32> {tf.aliasing_output = 11 : i32}, %arg12: tensor<3x6xf32> {tf.aliasing_output = 12 : i32}, %arg13: tensor<3x6xf32> {tf.aliasing_output = 13 : i32}, %arg14: tensor<3x8x6xf32> {tf.aliasing_output = 14 : i32}, %arg15: tensor<3x6x6xf32> {tf.aliasing_output = 15 : i32}, %arg16: tensor<3x6xf32> {tf.aliasing_output = 16 : i32}, %arg17: tensor<3x6xf32> {tf.aliasing_output = 17 : i32}, %arg18: tensor<3x6x6xf32> {tf.aliasing_output = 18 : i32}, %arg19: tensor<3x6x6xf32> {tf.aliasing_output = 19 : i32}, %arg20: tensor<3x6x8xf32> {tf.aliasing_output = 20 : i32}, %arg21: tensor<3x6x6xf32> {tf.aliasing_output = 21 : i32}, %arg22: tensor<6xf32> {tf.aliasing_output = 22 : i32}, %arg23: tensor<3x4x6xf32>, %arg24: tensor<3x4xf32>) -> (tensor<3x6xf32> {jax.result_info = "result[0]['layers']['b1']"}, tensor<3x6xf32> {jax.result_info = "result[0]['layers']['b2']"}, tensor<3x8x6xf32> {jax.result_info = "result[0]['layers']['down']"}, tensor<3x6x6xf32> {jax.result_info = "result[0]['layers']['k']"}, tensor<3x6xf32> {jax.result_info = "result[0]['layers']['n1']"}, tensor<3x6xf32> {jax.result_info = "result[0]['layers']['n2']"}, tensor<3x6x6xf32> {jax.result_info = "result[0]['layers']['o']"}, tensor<3x6x6xf32> {jax.result_info = "result[0]['layers']['q']"}, tensor<3x6x8xf32> {jax.result_info = "result[0]['layers']['up']"}, tensor<3x6x6xf32> {jax.result_info = "result[0]['layers']['v']"}, tensor<6xf32> {jax.result_info = "result[0]['out']"}, tensor<i32> {jax.result_info = "result[1]['count']"}, tensor<3x6xf32> {jax.result_info = "result[1]['velocity']['layers']['b1']"}, tensor<3x6xf32> {jax.result_info = "result[1]['velocity']['layers']['b2']"}, tensor<3x8x6xf32> {jax.result_info = "result[1]['velocity']['layers']['down']"}, tensor<3x6x6xf32> {jax.result_info = "result[1]['velocity']['layers']['k']"}, tensor<3x6xf32> {jax.result_info = "result[1]['velocity']['layers']['n1']"}, tensor<3x6xf32> {jax.result_info = "result[1]['velocity']['layers']['n2']"}, tensor<3x6x6xf32> {jax.result_info = "result[1]['velocity']['layers']['o']"}, tensor<3x6x6xf32> {jax.result_info = "result[1]['velocity']['layers']['q']"}, tensor<3x6x8xf32> {jax.result_info = "result[1]['velocity']['layers']['up']"}, tensor<3x6x6xf32> {jax.result_info = "result[1]['velocity']['layers']['v']"}, tensor<6xf32> {jax.result_info = "result[1]['velocity']['out']"}, tensor<f32> {jax.result_info = "result[2]"}) {
    %0 = stablehlo.iota dim = 0 : tensor<4xi32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0] : (tensor<4xi32>) -> tensor<4x1xi32>
    %2 = stablehlo.iota dim = 0 : tensor<1xi32>
    %3 = stablehlo.convert %2 : (tensor<1xi32>) -> tensor<1xf32>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %4 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<1xf32>
    %5 = stablehlo.divide %3, %4 : tensor<1xf32>
    %cst_0 = stablehlo.constant dense<1.000000e+02> : tensor<f32>
    %6 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<1xf32>
    %7 = stablehlo.power %6, %5 : tensor<1xf32>
    %cst_1 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %8 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<1xf32>
    %9 = stablehlo.divide %8, %7 : tensor<1xf32>
    %10 = stablehlo.convert %1 : (tensor<4x1xi32>) -> tensor<4x1xf32>
    %11 = stablehlo.broadcast_in_dim %9, dims = [1] : (tensor<1xf32>) -> tensor<1x1xf32>
    %12 = stablehlo.broadcast_in_dim %11, dims = [0, 1] : (tensor<1x1xf32>) -> tensor<4x1xf32>
    %13 = stablehlo.multiply %10, %12 : tensor<4x1xf32>
    %14 = stablehlo.sine %13 : tensor<4x1xf32>
    %15 = stablehlo.broadcast_in_dim %14, dims = [0, 2] : (tensor<4x1xf32>) -> tensor<4x1x1xf32>
    %16 = stablehlo.cosine %13 : tensor<4x1xf32>
    %17 = stablehlo.broadcast_in_dim %16, dims = [0, 2] : (tensor<4x1xf32>) -> tensor<4x1x1xf32>
    %18 = stablehlo.broadcast_in_dim %17, dims = [1, 2, 3] : (tensor<4x1x1xf32>) -> tensor<1x4x1x1xf32>
    %19 = stablehlo.broadcast_in_dim %15, dims = [1, 2, 3] : (tensor<4x1x1xf32>) -> tensor<1x4x1x1xf32>
    %20 = stablehlo.broadcast_in_dim %15, dims = [1, 2, 3] : (tensor<4x1x1xf32>) -> tensor<1x4x1x1xf32>
    %21 = stablehlo.broadcast_in_dim %17, dims = [1, 2, 3] : (tensor<4x1x1xf32>) -> tensor<1x4x1x1xf32>
    %22 = stablehlo.iota dim = 0 : tensor<4xi32>
    %23 = stablehlo.broadcast_in_dim %22, dims = [0] : (tensor<4xi32>) -> tensor<4x1xi32>
    %24 = stablehlo.iota dim = 0 : tensor<1xi32>
    %25 = stablehlo.convert %24 : (tensor<1xi32>) -> tensor<1xf32>
    %cst_2 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %26 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<1xf32>
    %27 = stablehlo.divide %25, %26 : tensor<1xf32>
    %cst_3 = stablehlo.constant dense<1.000000e+02> : tensor<f32>
    %28 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<1xf32>
    %29 = stablehlo.power %28, %27 : tensor<1xf32>
    %cst_4 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %30 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<1xf32>
    %31 = stablehlo.divide %30, %29 : tensor<1xf32>
    %32 = stablehlo.convert %23 : (tensor<4x1xi32>) -> tensor<4x1xf32>
    %33 = stablehlo.broadcast_in_dim %31, dims = [1] : (tensor<1xf32>) -> tensor<1x1xf32>
    %34 = stablehlo.broadcast_in_dim %33, dims = [0, 1] : (tensor<1x1xf32>) -> tensor<4x1xf32>
    %35 = stablehlo.multiply %32, %34 : tensor<4x1xf32>
    %36 = stablehlo.sine %35 : tensor<4x1xf32>
    %37 = stablehlo.broadcast_in_dim %36, dims = [0, 2] : (tensor<4x1xf32>) -> tensor<4x1x1xf32>
    %38 = stablehlo.cosine %35 : tensor<4x1xf32>
    %39 = stablehlo.broadcast_in_dim %38, dims = [0, 2] : (tensor<4x1xf32>) -> tensor<4x1x1xf32>
    %40 = stablehlo.broadcast_in_dim %39, dims = [1, 2, 3] : (tensor<4x1x1xf32>) -> tensor<1x4x1x1xf32>
    %41 = stablehlo.broadcast_in_dim %37, dims = [1, 2, 3] : (tensor<4x1x1xf32>) -> tensor<1x4x1x1xf32>
    %42 = stablehlo.broadcast_in_dim %37, dims = [1, 2, 3] : (tensor<4x1x1xf32>) -> tensor<1x4x1x1xf32>
    %43 = stablehlo.broadcast_in_dim %39, dims = [1, 2, 3] : (tensor<4x1x1xf32>) -> tensor<1x4x1x1xf32>
    %c = stablehlo.constant dense<true> : tensor<i1>
    %44 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i1>) -> tensor<4x4xi1>
    %45 = call @tril(%44) : (tensor<4x4xi1>) -> tensor<4x4xi1>
    %cst_5 = stablehlo.constant dense<-3.40282347E+38> : tensor<f32>
    %46:2 = call @_where(%45, %cst_5) : (tensor<4x4xi1>, tensor<f32>) -> (tensor<3x2x4x4xi1>, tensor<3x2x4x4xf32>)
    %cst_6 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %47 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<3xf32>
    %cst_7 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %48 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f32>) -> tensor<3x3x4x6xf32>
    %cst_8 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %49 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f32>) -> tensor<3x3x4x1xf32>
    %cst_9 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %50 = stablehlo.broadcast_in_dim %cst_9, dims = [] : (tensor<f32>) -> tensor<3x3x4x1xf32>
    %cst_10 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %51 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f32>) -> tensor<3x3x4x6xf32>
    %cst_11 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %52 = stablehlo.broadcast_in_dim %cst_11, dims = [] : (tensor<f32>) -> tensor<3x3x4x1xf32>
    %cst_12 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %53 = stablehlo.broadcast_in_dim %cst_12, dims = [] : (tensor<f32>) -> tensor<3x1x1x6xf32>
    %cst_13 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %54 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<f32>) -> tensor<3x3x4x6xf32>
    %cst_14 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %55 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<f32>) -> tensor<3x3x4x6xf32>
    %cst_15 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %56 = stablehlo.broadcast_in_dim %cst_15, dims = [] : (tensor<f32>) -> tensor<3x3x4x2x4xf32>
    %cst_16 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %57 = stablehlo.broadcast_in_dim %cst_16, dims = [] : (tensor<f32>) -> tensor<3x3x4x2x4xf32>
    %cst_17 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %58 = stablehlo.broadcast_in_dim %cst_17, dims = [] : (tensor<f32>) -> tensor<3x3x2x4x4xf32>
    %cst_18 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %59 = stablehlo.broadcast_in_dim %cst_18, dims = [] : (tensor<f32>) -> tensor<3x3x2x4x1xf32>
    %cst_19 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %60 = stablehlo.broadcast_in_dim %cst_19, dims = [] : (tensor<f32>) -> tensor<3x3x2x4x1xf32>
    %cst_20 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %61 = stablehlo.broadcast_in_dim %cst_20, dims = [] : (tensor<f32>) -> tensor<3x3x2x4x4xf32>
    %cst_21 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %62 = stablehlo.broadcast_in_dim %cst_21, dims = [] : (tensor<f32>) -> tensor<3x3x4x2x3xf32>
    %cst_22 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %63 = stablehlo.broadcast_in_dim %cst_22, dims = [] : (tensor<f32>) -> tensor<3x3x4x6xf32>
    %cst_23 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %64 = stablehlo.broadcast_in_dim %cst_23, dims = [] : (tensor<f32>) -> tensor<3x3x4x6xf32>
    %cst_24 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %65 = stablehlo.broadcast_in_dim %cst_24, dims = [] : (tensor<f32>) -> tensor<3x3x4x1xf32>
    %cst_25 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %66 = stablehlo.broadcast_in_dim %cst_25, dims = [] : (tensor<f32>) -> tensor<3x3x4x1xf32>
    %cst_26 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %67 = stablehlo.broadcast_in_dim %cst_26, dims = [] : (tensor<f32>) -> tensor<3x3x4x6xf32>
    %cst_27 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %68 = stablehlo.broadcast_in_dim %cst_27, dims = [] : (tensor<f32>) -> tensor<3x3x4x1xf32>
    %cst_28 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %69 = stablehlo.broadcast_in_dim %cst_28, dims = [] : (tensor<f32>) -> tensor<3x1x1x6xf32>
    %cst_29 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %70 = stablehlo.broadcast_in_dim %cst_29, dims = [] : (tensor<f32>) -> tensor<3x3x4x6xf32>
    %cst_30 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %71 = stablehlo.broadcast_in_dim %cst_30, dims = [] : (tensor<f32>) -> tensor<3x3x4x6xf32>
    %cst_31 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %72 = stablehlo.broadcast_in_dim %cst_31, dims = [] : (tensor<f32>) -> tensor<3x3x4x8xf32>
    %cst_32 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %73 = stablehlo.broadcast_in_dim %cst_32, dims = [] : (tensor<f32>) -> tensor<3x3x4x8xf32>
    %cst_33 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %74 = stablehlo.broadcast_in_dim %cst_33, dims = [] : (tensor<f32>) -> tensor<3x3x4x8xf32>
    %cst_34 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %75 = stablehlo.broadcast_in_dim %cst_34, dims = [] : (tensor<f32>) -> tensor<3x3x4x8xf32>
    %cst_35 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %76 = stablehlo.broadcast_in_dim %cst_35, dims = [] : (tensor<f32>) -> tensor<3x3x4x6xf32>
    %c_36 = stablehlo.constant dense<0> : tensor<i32>
    %77:52 = stablehlo.while(%iterArg = %arg0, %iterArg_73 = %arg1, %iterArg_74 = %arg2, %iterArg_75 = %arg3, %iterArg_76 = %arg4, %iterArg_77 = %arg5, %iterArg_78 = %arg6, %iterArg_79 = %arg7, %iterArg_80 = %arg8, %iterArg_81 = %arg9, %iterArg_82 = %18, %iterArg_83 = %19, %iterArg_84 = %20, %iterArg_85 = %21, %iterArg_86 = %40, %iterArg_87 = %41, %iterArg_88 = %42, %iterArg_89 = %43, %iterArg_90 = %46#0, %iterArg_91 = %46#1, %iterArg_92 = %c_36, %iterArg_93 = %arg23, %iterArg_94 = %47, %iterArg_95 = %48, %iterArg_96 = %49, %iterArg_97 = %50, %iterArg_98 = %51, %iterArg_99 = %52, %iterArg_100 = %53, %iterArg_101 = %54, %iterArg_102 = %55, %iterArg_103 = %56, %iterArg_104 = %57, %iterArg_105 = %58, %iterArg_106 = %59, %iterArg_107 = %60, %iterArg_108 = %61, %iterArg_109 = %62, %iterArg_110 = %63, %iterArg_111 = %64, %iterArg_112 = %65, %iterArg_113 = %66, %iterArg_114 = %67, %iterArg_115 = %68, %iterArg_116 = %69, %iterArg_117 = %70, %iterArg_118 = %71, %iterArg_119 = %72, %iterArg_120 = %73, %iterArg_121 = %74, %iterArg_122 = %75, %iterArg_123 = %76) : tensor<3x6xf32>, tensor<3x6xf32>, tensor<3x8x6xf32>, tensor<3x6x6xf32>, tensor<3x6xf32>, tensor<3x6xf32>, tensor<3x6x6xf32>, tensor<3x6x6xf32>, tensor<3x6x8xf32>, tensor<3x6x6xf32>, tensor<1x4x1x1xf32>, tensor<1x4x1x1xf32>, tensor<1x4x1x1xf32>, tensor<1x4x1x1xf32>, tensor<1x4x1x1xf32>, tensor<1x4x1x1xf32>, tensor<1x4x1x1xf32>, tensor<1x4x1x1xf32>, tensor<3x2x4x4xi1>, tensor<3x2x4x4xf32>, tensor<i32>, tensor<3x4x6xf32>, tensor<3xf32>, tensor<3x3x4x6xf32>, tensor<3x3x4x1xf32>, tensor<3x3x4x1xf32>, tensor<3x3x4x6xf32>, tensor<3x3x4x1xf32>, tensor<3x1x1x6xf32>, tensor<3x3x4x6xf32>, tensor<3x3x4x6xf32>, tensor<3x3x4x2x4xf32>, tensor<3x3x4x2x4xf32>, tensor<3x3x2x4x4xf32>, tensor<3x3x2x4x1xf32>, tensor<3x3x2x4x1xf32>, tensor<3x3x2x4x4xf32>, tensor<3x3x4x2x3xf32>, tensor<3x3x4x6xf32>, tensor<3x3x4x6xf32>, tensor<3x3x4x1xf32>, tensor<3x3x4x1xf32>, tensor<3x3x4x6xf32>, tensor<3x3x4x1xf32>, tensor<3x1x1x6xf32>, tensor<3x3x4x6xf32>, tensor<3x3x4x6xf32>, tensor<3x3x4x8xf32>, tensor<3x3x4x8xf32>, tensor<3x3x4x8xf32>, tensor<3x3x4x8xf32>, tensor<3x3x4x6xf32>
    cond {
      %c_124 = stablehlo.constant dense<3> : tensor<i32>
      %179 = stablehlo.compare LT, %iterArg_92, %c_124, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %179 : tensor<i1>
    } do {
      %179 = func.call @dynamic_index_in_dim(%iterArg, %iterArg_92) : (tensor<3x6xf32>, tensor<i32>) -> tensor<6xf32>
      %180 = func.call @dynamic_index_in_dim(%iterArg_73, %iterArg_92) : (tensor<3x6xf32>, tensor<i32>) -> tensor<6xf32>
      %181 = func.call @dynamic_index_in_dim_0(%iterArg_74, %iterArg_92) : (tensor<3x8x6xf32>, tensor<i32>) -> tensor<8x6xf32>
      %182 = func.call @dynamic_index_in_dim_1(%iterArg_75, %iterArg_92) : (tensor<3x6x6xf32>, tensor<i32>) -> tensor<6x6xf32>
      %183 = func.call @dynamic_index_in_dim(%iterArg_76, %iterArg_92) : (tensor<3x6xf32>, tensor<i32>) -> tensor<6xf32>
      %184 = func.call @dynamic_index_in_dim(%iterArg_77, %iterArg_92) : (tensor<3x6xf32>, tensor<i32>) -> tensor<6xf32>
      %185 = func.call @dynamic_index_in_dim_1(%iterArg_78, %iterArg_92) : (tensor<3x6x6xf32>, tensor<i32>) -> tensor<6x6xf32>
      %186 = func.call @dynamic_index_in_dim_1(%iterArg_79, %iterArg_92) : (tensor<3x6x6xf32>, tensor<i32>) -> tensor<6x6xf32>
      %187 = func.call @dynamic_index_in_dim_2(%iterArg_80, %iterArg_92) : (tensor<3x6x8xf32>, tensor<i32>) -> tensor<6x8xf32>
      %188 = func.call @dynamic_index_in_dim_1(%iterArg_81, %iterArg_92) : (tensor<3x6x6xf32>, tensor<i32>) -> tensor<6x6xf32>
      %189:31 = func.call @closed_call(%iterArg_82, %iterArg_83, %iterArg_84, %iterArg_85, %iterArg_86, %iterArg_87, %iterArg_88, %iterArg_89, %iterArg_90, %iterArg_91, %iterArg_93, %179, %180, %181, %182, %183, %184, %185, %186, %187, %188) : (tensor<1x4x1x1xf32>, tensor<1x4x1x1xf32>, tensor<1x4x1x1xf32>, tensor<1x4x1x1xf32>, tensor<1x4x1x1xf32>, tensor<1x4x1x1xf32>, tensor<1x4x1x1xf32>, tensor<1x4x1x1xf32>, tensor<3x2x4x4xi1>, tensor<3x2x4x4xf32>, tensor<3x4x6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<8x6xf32>, tensor<6x6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6x6xf32>, tensor<6x6xf32>, tensor<6x8xf32>, tensor<6x6xf32>) -> (tensor<3x4x6xf32>, tensor<f32>, tensor<3x4x6xf32>, tensor<3x4x1xf32>, tensor<3x4x1xf32>, tensor<3x4x6xf32>, tensor<3x4x1xf32>, tensor<1x1x6xf32>, tensor<3x4x6xf32>, tensor<3x4x6xf32>, tensor<3x4x2x4xf32>, tensor<3x4x2x4xf32>, tensor<3x2x4x4xf32>, tensor<3x2x4x1xf32>, tensor<3x2x4x1xf32>, tensor<3x2x4x4xf32>, tensor<3x4x2x3xf32>, tensor<3x4x6xf32>, tensor<3x4x6xf32>, tensor<3x4x1xf32>, tensor<3x4x1xf32>, tensor<3x4x6xf32>, tensor<3x4x1xf32>, tensor<1x1x6xf32>, tensor<3x4x6xf32>, tensor<3x4x6xf32>, tensor<3x4x8xf32>, tensor<3x4x8xf32>, tensor<3x4x8xf32>, tensor<3x4x8xf32>, tensor<3x4x6xf32>)
      %190 = func.call @dynamic_update_index_in_dim(%iterArg_94, %189#1, %iterArg_92) : (tensor<3xf32>, tensor<f32>, tensor<i32>) -> tensor<3xf32>
      %191 = func.call @dynamic_update_index_in_dim_4(%iterArg_95, %189#2, %iterArg_92) : (tensor<3x3x4x6xf32>, tensor<3x4x6xf32>, tensor<i32>) -> tensor<3x3x4x6xf32>
      %192 = func.call @dynamic_update_index_in_dim_5(%iterArg_96, %189#3, %iterArg_92) : (tensor<3x3x4x1xf32>, tensor<3x4x1xf32>, tensor<i32>) -> tensor<3x3x4x1xf32>
      %193 = func.call @dynamic_update_index_in_dim_5(%iterArg_97, %189#4, %iterArg_92) : (tensor<3x3x4x1xf32>, tensor<3x4x1xf32>, tensor<i32>) -> tensor<3x3x4x1xf32>
      %194 = func.call @dynamic_update_index_in_dim_4(%iterArg_98, %189#5, %iterArg_92) : (tensor<3x3x4x6xf32>, tensor<3x4x6xf32>, tensor<i32>) -> tensor<3x3x4x6xf32>
      %195 = func.call @dynamic_update_index_in_dim_5(%iterArg_99, %189#6, %iterArg_92) : (tensor<3x3x4x1xf32>, tensor<3x4x1xf32>, tensor<i32>) -> tensor<3x3x4x1xf32>
      %196 = func.call @dynamic_update_index_in_dim_6(%iterArg_100, %189#7, %iterArg_92) : (tensor<3x1x1x6xf32>, tensor<1x1x6xf32>, tensor<i32>) -> tensor<3x1x1x6xf32>
      %197 = func.call @dynamic_update_index_in_dim_4(%iterArg_101, %189#8, %iterArg_92) : (tensor<3x3x4x6xf32>, tensor<3x4x6xf32>, tensor<i32>) -> tensor<3x3x4x6xf32>
      %198 = func.call @dynamic_update_index_in_dim_4(%iterArg_102, %189#9, %iterArg_92) : (tensor<3x3x4x6xf32>, tensor<3x4x6xf32>, tensor<i32>) -> tensor<3x3x4x6xf32>
      %199 = func.call @dynamic_update_index_in_dim_7(%iterArg_103, %189#10, %iterArg_92) : (tensor<3x3x4x2x4xf32>, tensor<3x4x2x4xf32>, tensor<i32>) -> tensor<3x3x4x2x4xf32>
      %200 = func.call @dynamic_update_index_in_dim_7(%iterArg_104, %189#11, %iterArg_92) : (tensor<3x3x4x2x4xf32>, tensor<3x4x2x4xf32>, tensor<i32>) -> tensor<3x3x4x2x4xf32>
      %201 = func.call @dynamic_update_index_in_dim_8(%iterArg_105, %189#12, %iterArg_92) : (tensor<3x3x2x4x4xf32>, tensor<3x2x4x4xf32>, tensor<i32>) -> tensor<3x3x2x4x4xf32>
      %202 = func.call @dynamic_update_index_in_dim_9(%iterArg_106, %189#13, %iterArg_92) : (tensor<3x3x2x4x1xf32>, tensor<3x2x4x1xf32>, tensor<i32>) -> tensor<3x3x2x4x1xf32>
      %203 = func.call @dynamic_update_index_in_dim_9(%iterArg_107, %189#14, %iterArg_92) : (tensor<3x3x2x4x1xf32>, tensor<3x2x4x1xf32>, tensor<i32>) -> tensor<3x3x2x4x1xf32>
      %204 = func.call @dynamic_update_index_in_dim_8(%iterArg_108, %189#15, %iterArg_92) : (tensor<3x3x2x4x4xf32>, tensor<3x2x4x4xf32>, tensor<i32>) -> tensor<3x3x2x4x4xf32>
      %205 = func.call @dynamic_update_index_in_dim_10(%iterArg_109, %189#16, %iterArg_92) : (tensor<3x3x4x2x3xf32>, tensor<3x4x2x3xf32>, tensor<i32>) -> tensor<3x3x4x2x3xf32>
      %206 = func.call @dynamic_update_index_in_dim_4(%iterArg_110, %189#17, %iterArg_92) : (tensor<3x3x4x6xf32>, tensor<3x4x6xf32>, tensor<i32>) -> tensor<3x3x4x6xf32>
      %207 = func.call @dynamic_update_index_in_dim_4(%iterArg_111, %189#18, %iterArg_92) : (tensor<3x3x4x6xf32>, tensor<3x4x6xf32>, tensor<i32>) -> tensor<3x3x4x6xf32>
      %208 = func.call @dynamic_update_index_in_dim_5(%iterArg_112, %189#19, %iterArg_92) : (tensor<3x3x4x1xf32>, tensor<3x4x1xf32>, tensor<i32>) -> tensor<3x3x4x1xf32>
      %209 = func.call @dynamic_update_index_in_dim_5(%iterArg_113, %189#20, %iterArg_92) : (tensor<3x3x4x1xf32>, tensor<3x4x1xf32>, tensor<i32>) -> tensor<3x3x4x1xf32>
      %210 = func.call @dynamic_update_index_in_dim_4(%iterArg_114, %189#21, %iterArg_92) : (tensor<3x3x4x6xf32>, tensor<3x4x6xf32>, tensor<i32>) -> tensor<3x3x4x6xf32>
      %211 = func.call @dynamic_update_index_in_dim_5(%iterArg_115, %189#22, %iterArg_92) : (tensor<3x3x4x1xf32>, tensor<3x4x1xf32>, tensor<i32>) -> tensor<3x3x4x1xf32>
      %212 = func.call @dynamic_update_index_in_dim_6(%iterArg_116, %189#23, %iterArg_92) : (tensor<3x1x1x6xf32>, tensor<1x1x6xf32>, tensor<i32>) -> tensor<3x1x1x6xf32>
      %213 = func.call @dynamic_update_index_in_dim_4(%iterArg_117, %189#24, %iterArg_92) : (tensor<3x3x4x6xf32>, tensor<3x4x6xf32>, tensor<i32>) -> tensor<3x3x4x6xf32>
      %214 = func.call @dynamic_update_index_in_dim_4(%iterArg_118, %189#25, %iterArg_92) : (tensor<3x3x4x6xf32>, tensor<3x4x6xf32>, tensor<i32>) -> tensor<3x3x4x6xf32>
      %215 = func.call @dynamic_update_index_in_dim_11(%iterArg_119, %189#26, %iterArg_92) : (tensor<3x3x4x8xf32>, tensor<3x4x8xf32>, tensor<i32>) -> tensor<3x3x4x8xf32>
      %216 = func.call @dynamic_update_index_in_dim_11(%iterArg_120, %189#27, %iterArg_92) : (tensor<3x3x4x8xf32>, tensor<3x4x8xf32>, tensor<i32>) -> tensor<3x3x4x8xf32>
      %217 = func.call @dynamic_update_index_in_dim_11(%iterArg_121, %189#28, %iterArg_92) : (tensor<3x3x4x8xf32>, tensor<3x4x8xf32>, tensor<i32>) -> tensor<3x3x4x8xf32>
      %218 = func.call @dynamic_update_index_in_dim_11(%iterArg_122, %189#29, %iterArg_92) : (tensor<3x3x4x8xf32>, tensor<3x4x8xf32>, tensor<i32>) -> tensor<3x3x4x8xf32>
      %219 = func.call @dynamic_update_index_in_dim_4(%iterArg_123, %189#30, %iterArg_92) : (tensor<3x3x4x6xf32>, tensor<3x4x6xf32>, tensor<i32>) -> tensor<3x3x4x6xf32>
      %c_124 = stablehlo.constant dense<1> : tensor<i32>
      %220 = stablehlo.add %iterArg_92, %c_124 : tensor<i32>
      stablehlo.return %iterArg, %iterArg_73, %iterArg_74, %iterArg_75, %iterArg_76, %iterArg_77, %iterArg_78, %iterArg_79, %iterArg_80, %iterArg_81, %iterArg_82, %iterArg_83, %iterArg_84, %iterArg_85, %iterArg_86, %iterArg_87, %iterArg_88, %iterArg_89, %iterArg_90, %iterArg_91, %220, %189#0, %190, %191, %192, %193, %194, %195, %196, %197, %198, %199, %200, %201, %202, %203, %204, %205, %206, %207, %208, %209, %210, %211, %212, %213, %214, %215, %216, %217, %218, %219 : tensor<3x6xf32>, tensor<3x6xf32>, tensor<3x8x6xf32>, tensor<3x6x6xf32>, tensor<3x6xf32>, tensor<3x6xf32>, tensor<3x6x6xf32>, tensor<3x6x6xf32>, tensor<3x6x8xf32>, tensor<3x6x6xf32>, tensor<1x4x1x1xf32>, tensor<1x4x1x1xf32>, tensor<1x4x1x1xf32>, tensor<1x4x1x1xf32>, tensor<1x4x1x1xf32>, tensor<1x4x1x1xf32>, tensor<1x4x1x1xf32>, tensor<1x4x1x1xf32>, tensor<3x2x4x4xi1>, tensor<3x2x4x4xf32>, tensor<i32>, tensor<3x4x6xf32>, tensor<3xf32>, tensor<3x3x4x6xf32>, tensor<3x3x4x1xf32>, tensor<3x3x4x1xf32>, tensor<3x3x4x6xf32>, tensor<3x3x4x1xf32>, tensor<3x1x1x6xf32>, tensor<3x3x4x6xf32>, tensor<3x3x4x6xf32>, tensor<3x3x4x2x4xf32>, tensor<3x3x4x2x4xf32>, tensor<3x3x2x4x4xf32>, tensor<3x3x2x4x1xf32>, tensor<3x3x2x4x1xf32>, tensor<3x3x2x4x4xf32>, tensor<3x3x4x2x3xf32>, tensor<3x3x4x6xf32>, tensor<3x3x4x6xf32>, tensor<3x3x4x1xf32>, tensor<3x3x4x1xf32>, tensor<3x3x4x6xf32>, tensor<3x3x4x1xf32>, tensor<3x1x1x6xf32>, tensor<3x3x4x6xf32>, tensor<3x3x4x6xf32>, tensor<3x3x4x8xf32>, tensor<3x3x4x8xf32>, tensor<3x3x4x8xf32>, tensor<3x3x4x8xf32>, tensor<3x3x4x6xf32>
    }
    %c_37 = stablehlo.constant dense<0> : tensor<i32>
    %cst_38 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %c_39 = stablehlo.constant dense<0> : tensor<i32>
    %78:3 = stablehlo.while(%iterArg = %c_39, %iterArg_73 = %c_37, %iterArg_74 = %cst_38) : tensor<i32>, tensor<i32>, tensor<f32>
    cond {
      %c_75 = stablehlo.constant dense<3> : tensor<i32>
      %179 = stablehlo.compare LT, %iterArg, %c_75, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %179 : tensor<i1>
    } do {
      %179:2 = func.call @closed_call_12(%iterArg_73, %iterArg_74) : (tensor<i32>, tensor<f32>) -> (tensor<i32>, tensor<f32>)
      %c_75 = stablehlo.constant dense<1> : tensor<i32>
      %180 = stablehlo.add %iterArg, %c_75 : tensor<i32>
      stablehlo.return %180, %179#0, %179#1 : tensor<i32>, tensor<i32>, tensor<f32>
    }
    %79 = stablehlo.dot_general %77#21, %arg10, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<3x4x6xf32>, tensor<6xf32>) -> tensor<3x4xf32>
    %80 = stablehlo.subtract %79, %arg24 : tensor<3x4xf32>
    %81 = stablehlo.multiply %80, %80 : tensor<3x4xf32>
    %cst_40 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %82 = stablehlo.broadcast_in_dim %cst_40, dims = [] : (tensor<f32>) -> tensor<3x4xf32>
    %83 = stablehlo.multiply %82, %80 : tensor<3x4xf32>
    %cst_41 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %84 = stablehlo.reduce(%81 init: %cst_41) applies stablehlo.add across dimensions = [0, 1] : (tensor<3x4xf32>, tensor<f32>) -> tensor<f32>
    %cst_42 = stablehlo.constant dense<1.200000e+01> : tensor<f32>
    %85 = stablehlo.divide %84, %cst_42 : tensor<f32>
    %cst_43 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %86 = stablehlo.multiply %cst_43, %78#2 : tensor<f32>
    %cst_44 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %87 = stablehlo.reduce(%77#22 init: %cst_44) applies stablehlo.add across dimensions = [0] : (tensor<3xf32>, tensor<f32>) -> tensor<f32>
    %88 = stablehlo.convert %86 : tensor<f32>
    %89 = stablehlo.multiply %88, %87 : tensor<f32>
    %90 = stablehlo.add %85, %89 : tensor<f32>
    %cst_45 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %91 = stablehlo.multiply %88, %cst_45 : tensor<f32>
    %92 = stablehlo.broadcast_in_dim %91, dims = [] : (tensor<f32>) -> tensor<3xf32>
    %cst_46 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %cst_47 = stablehlo.constant dense<1.200000e+01> : tensor<f32>
    %93 = stablehlo.divide %cst_46, %cst_47 : tensor<f32>
    %94 = stablehlo.broadcast_in_dim %93, dims = [] : (tensor<f32>) -> tensor<3x4xf32>
    %95 = stablehlo.multiply %94, %83 : tensor<3x4xf32>
    %96 = stablehlo.dot_general %95, %77#21, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<3x4xf32>, tensor<3x4x6xf32>) -> tensor<6xf32>
    %97 = stablehlo.dot_general %95, %arg10, contracting_dims = [] x [], precision = [DEFAULT, DEFAULT] : (tensor<3x4xf32>, tensor<6xf32>) -> tensor<3x4x6xf32>
    %cst_48 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %98 = stablehlo.broadcast_in_dim %cst_48, dims = [] : (tensor<f32>) -> tensor<3x6xf32>
    %cst_49 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %99 = stablehlo.broadcast_in_dim %cst_49, dims = [] : (tensor<f32>) -> tensor<3x6xf32>
    %cst_50 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %100 = stablehlo.broadcast_in_dim %cst_50, dims = [] : (tensor<f32>) -> tensor<3x8x6xf32>
    %cst_51 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %101 = stablehlo.broadcast_in_dim %cst_51, dims = [] : (tensor<f32>) -> tensor<3x6x6xf32>
    %cst_52 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %102 = stablehlo.broadcast_in_dim %cst_52, dims = [] : (tensor<f32>) -> tensor<3x6xf32>
    %cst_53 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %103 = stablehlo.broadcast_in_dim %cst_53, dims = [] : (tensor<f32>) -> tensor<3x6xf32>
    %cst_54 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %104 = stablehlo.broadcast_in_dim %cst_54, dims = [] : (tensor<f32>) -> tensor<3x6x6xf32>
    %cst_55 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %105 = stablehlo.broadcast_in_dim %cst_55, dims = [] : (tensor<f32>) -> tensor<3x6x6xf32>
    %cst_56 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %106 = stablehlo.broadcast_in_dim %cst_56, dims = [] : (tensor<f32>) -> tensor<3x6x8xf32>
    %cst_57 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %107 = stablehlo.broadcast_in_dim %cst_57, dims = [] : (tensor<f32>) -> tensor<3x6x6xf32>
    %c_58 = stablehlo.constant dense<0> : tensor<i32>
    %108:57 = stablehlo.while(%iterArg = %92, %iterArg_73 = %77#23, %iterArg_74 = %77#24, %iterArg_75 = %77#25, %iterArg_76 = %77#26, %iterArg_77 = %77#27, %iterArg_78 = %77#28, %iterArg_79 = %77#29, %iterArg_80 = %arg7, %iterArg_81 = %77#30, %iterArg_82 = %arg3, %iterArg_83 = %arg9, %iterArg_84 = %77#31, %iterArg_85 = %77#32, %iterArg_86 = %77#33, %iterArg_87 = %77#34, %iterArg_88 = %77#35, %iterArg_89 = %77#36, %iterArg_90 = %77#37, %iterArg_91 = %arg6, %iterArg_92 = %77#38, %iterArg_93 = %77#39, %iterArg_94 = %77#40, %iterArg_95 = %77#41, %iterArg_96 = %77#42, %iterArg_97 = %77#43, %iterArg_98 = %77#44, %iterArg_99 = %77#45, %iterArg_100 = %arg8, %iterArg_101 = %77#46, %iterArg_102 = %77#47, %iterArg_103 = %77#48, %iterArg_104 = %77#49, %iterArg_105 = %arg2, %iterArg_106 = %77#50, %iterArg_107 = %77#51, %iterArg_108 = %18, %iterArg_109 = %19, %iterArg_110 = %20, %iterArg_111 = %21, %iterArg_112 = %40, %iterArg_113 = %41, %iterArg_114 = %42, %iterArg_115 = %43, %iterArg_116 = %46#0, %iterArg_117 = %c_58, %iterArg_118 = %97, %iterArg_119 = %98, %iterArg_120 = %99, %iterArg_121 = %100, %iterArg_122 = %101, %iterArg_123 = %102, %iterArg_124 = %103, %iterArg_125 = %104, %iterArg_126 = %105, %iterArg_127 = %106, %iterArg_128 = %107) : tensor<3xf32>, tensor<3x3x4x6xf32>, tensor<3x3x4x1xf32>, tensor<3x3x4x1xf32>, tensor<3x3x4x6xf32>, tensor<3x3x4x1xf32>, tensor<3x1x1x6xf32>, tensor<3x3x4x6xf32>, tensor<3x6x6xf32>, tensor<3x3x4x6xf32>, tensor<3x6x6xf32>, tensor<3x6x6xf32>, tensor<3x3x4x2x4xf32>, tensor<3x3x4x2x4xf32>, tensor<3x3x2x4x4xf32>, tensor<3x3x2x4x1xf32>, tensor<3x3x2x4x1xf32>, tensor<3x3x2x4x4xf32>, tensor<3x3x4x2x3xf32>, tensor<3x6x6xf32>, tensor<3x3x4x6xf32>, tensor<3x3x4x6xf32>, tensor<3x3x4x1xf32>, tensor<3x3x4x1xf32>, tensor<3x3x4x6xf32>, tensor<3x3x4x1xf32>, tensor<3x1x1x6xf32>, tensor<3x3x4x6xf32>, tensor<3x6x8xf32>, tensor<3x3x4x6xf32>, tensor<3x3x4x8xf32>, tensor<3x3x4x8xf32>, tensor<3x3x4x8xf32>, tensor<3x8x6xf32>, tensor<3x3x4x8xf32>, tensor<3x3x4x6xf32>, tensor<1x4x1x1xf32>, tensor<1x4x1x1xf32>, tensor<1x4x1x1xf32>, tensor<1x4x1x1xf32>, tensor<1x4x1x1xf32>, tensor<1x4x1x1xf32>, tensor<1x4x1x1xf32>, tensor<1x4x1x1xf32>, tensor<3x2x4x4xi1>, tensor<i32>, tensor<3x4x6xf32>, tensor<3x6xf32>, tensor<3x6xf32>, tensor<3x8x6xf32>, tensor<3x6x6xf32>, tensor<3x6xf32>, tensor<3x6xf32>, tensor<3x6x6xf32>, tensor<3x6x6xf32>, tensor<3x6x8xf32>, tensor<3x6x6xf32>
    cond {
      %c_129 = stablehlo.constant dense<3> : tensor<i32>
      %179 = stablehlo.compare LT, %iterArg_117, %c_129, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %179 : tensor<i1>
    } do {
      %c_129 = stablehlo.constant dense<3> : tensor<i32>
      %179 = stablehlo.subtract %c_129, %iterArg_117 : tensor<i32>
      %c_130 = stablehlo.constant dense<1> : tensor<i32>
      %180 = stablehlo.subtract %179, %c_130 : tensor<i32>
      %181 = func.call @dynamic_index_in_dim_13(%iterArg, %180) : (tensor<3xf32>, tensor<i32>) -> tensor<f32>
      %182 = func.call @dynamic_index_in_dim_14(%iterArg_73, %180) : (tensor<3x3x4x6xf32>, tensor<i32>) -> tensor<3x4x6xf32>
      %183 = func.call @dynamic_index_in_dim_15(%iterArg_74, %180) : (tensor<3x3x4x1xf32>, tensor<i32>) -> tensor<3x4x1xf32>
      %184 = func.call @dynamic_index_in_dim_15(%iterArg_75, %180) : (tensor<3x3x4x1xf32>, tensor<i32>) -> tensor<3x4x1xf32>
      %185 = func.call @dynamic_index_in_dim_14(%iterArg_76, %180) : (tensor<3x3x4x6xf32>, tensor<i32>) -> tensor<3x4x6xf32>
      %186 = func.call @dynamic_index_in_dim_15(%iterArg_77, %180) : (tensor<3x3x4x1xf32>, tensor<i32>) -> tensor<3x4x1xf32>
      %187 = func.call @dynamic_index_in_dim_16(%iterArg_78, %180) : (tensor<3x1x1x6xf32>, tensor<i32>) -> tensor<1x1x6xf32>
      %188 = func.call @dynamic_index_in_dim_14(%iterArg_79, %180) : (tensor<3x3x4x6xf32>, tensor<i32>) -> tensor<3x4x6xf32>
      %189 = func.call @dynamic_index_in_dim_1(%iterArg_80, %180) : (tensor<3x6x6xf32>, tensor<i32>) -> tensor<6x6xf32>
      %190 = func.call @dynamic_index_in_dim_14(%iterArg_81, %180) : (tensor<3x3x4x6xf32>, tensor<i32>) -> tensor<3x4x6xf32>
      %191 = func.call @dynamic_index_in_dim_1(%iterArg_82, %180) : (tensor<3x6x6xf32>, tensor<i32>) -> tensor<6x6xf32>
      %192 = func.call @dynamic_index_in_dim_1(%iterArg_83, %180) : (tensor<3x6x6xf32>, tensor<i32>) -> tensor<6x6xf32>
      %193 = func.call @dynamic_index_in_dim_17(%iterArg_84, %180) : (tensor<3x3x4x2x4xf32>, tensor<i32>) -> tensor<3x4x2x4xf32>
      %194 = func.call @dynamic_index_in_dim_17(%iterArg_85, %180) : (tensor<3x3x4x2x4xf32>, tensor<i32>) -> tensor<3x4x2x4xf32>
      %195 = func.call @dynamic_index_in_dim_18(%iterArg_86, %180) : (tensor<3x3x2x4x4xf32>, tensor<i32>) -> tensor<3x2x4x4xf32>
      %196 = func.call @dynamic_index_in_dim_19(%iterArg_87, %180) : (tensor<3x3x2x4x1xf32>, tensor<i32>) -> tensor<3x2x4x1xf32>
      %197 = func.call @dynamic_index_in_dim_19(%iterArg_88, %180) : (tensor<3x3x2x4x1xf32>, tensor<i32>) -> tensor<3x2x4x1xf32>
      %198 = func.call @dynamic_index_in_dim_18(%iterArg_89, %180) : (tensor<3x3x2x4x4xf32>, tensor<i32>) -> tensor<3x2x4x4xf32>
      %199 = func.call @dynamic_index_in_dim_20(%iterArg_90, %180) : (tensor<3x3x4x2x3xf32>, tensor<i32>) -> tensor<3x4x2x3xf32>
      %200 = func.call @dynamic_index_in_dim_1(%iterArg_91, %180) : (tensor<3x6x6xf32>, tensor<i32>) -> tensor<6x6xf32>
      %201 = func.call @dynamic_index_in_dim_14(%iterArg_92, %180) : (tensor<3x3x4x6xf32>, tensor<i32>) -> tensor<3x4x6xf32>
      %202 = func.call @dynamic_index_in_dim_14(%iterArg_93, %180) : (tensor<3x3x4x6xf32>, tensor<i32>) -> tensor<3x4x6xf32>
      %203 = func.call @dynamic_index_in_dim_15(%iterArg_94, %180) : (tensor<3x3x4x1xf32>, tensor<i32>) -> tensor<3x4x1xf32>
      %204 = func.call @dynamic_index_in_dim_15(%iterArg_95, %180) : (tensor<3x3x4x1xf32>, tensor<i32>) -> tensor<3x4x1xf32>
      %205 = func.call @dynamic_index_in_dim_14(%iterArg_96, %180) : (tensor<3x3x4x6xf32>, tensor<i32>) -> tensor<3x4x6xf32>
      %206 = func.call @dynamic_index_in_dim_15(%iterArg_97, %180) : (tensor<3x3x4x1xf32>, tensor<i32>) -> tensor<3x4x1xf32>
      %207 = func.call @dynamic_index_in_dim_16(%iterArg_98, %180) : (tensor<3x1x1x6xf32>, tensor<i32>) -> tensor<1x1x6xf32>
      %208 = func.call @dynamic_index_in_dim_14(%iterArg_99, %180) : (tensor<3x3x4x6xf32>, tensor<i32>) -> tensor<3x4x6xf32>
      %209 = func.call @dynamic_index_in_dim_2(%iterArg_100, %180) : (tensor<3x6x8xf32>, tensor<i32>) -> tensor<6x8xf32>
      %210 = func.call @dynamic_index_in_dim_14(%iterArg_101, %180) : (tensor<3x3x4x6xf32>, tensor<i32>) -> tensor<3x4x6xf32>
      %211 = func.call @dynamic_index_in_dim_21(%iterArg_102, %180) : (tensor<3x3x4x8xf32>, tensor<i32>) -> tensor<3x4x8xf32>
      %212 = func.call @dynamic_index_in_dim_21(%iterArg_103, %180) : (tensor<3x3x4x8xf32>, tensor<i32>) -> tensor<3x4x8xf32>
      %213 = func.call @dynamic_index_in_dim_21(%iterArg_104, %180) : (tensor<3x3x4x8xf32>, tensor<i32>) -> tensor<3x4x8xf32>
      %214 = func.call @dynamic_index_in_dim_0(%iterArg_105, %180) : (tensor<3x8x6xf32>, tensor<i32>) -> tensor<8x6xf32>
      %215 = func.call @dynamic_index_in_dim_21(%iterArg_106, %180) : (tensor<3x3x4x8xf32>, tensor<i32>) -> tensor<3x4x8xf32>
      %216 = func.call @dynamic_index_in_dim_14(%iterArg_107, %180) : (tensor<3x3x4x6xf32>, tensor<i32>) -> tensor<3x4x6xf32>
      %217:11 = func.call @closed_call_22(%iterArg_108, %iterArg_109, %iterArg_110, %iterArg_111, %iterArg_112, %iterArg_113, %iterArg_114, %iterArg_115, %iterArg_116, %iterArg_118, %181, %182, %183, %184, %185, %186, %187, %188, %189, %190, %191, %192, %193, %194, %195, %196, %197, %198, %199, %200, %201, %202, %203, %204, %205, %206, %207, %208, %209, %210, %211, %212, %213, %214, %215, %216) : (tensor<1x4x1x1xf32>, tensor<1x4x1x1xf32>, tensor<1x4x1x1xf32>, tensor<1x4x1x1xf32>, tensor<1x4x1x1xf32>, tensor<1x4x1x1xf32>, tensor<1x4x1x1xf32>, tensor<1x4x1x1xf32>, tensor<3x2x4x4xi1>, tensor<3x4x6xf32>, tensor<f32>, tensor<3x4x6xf32>, tensor<3x4x1xf32>, tensor<3x4x1xf32>, tensor<3x4x6xf32>, tensor<3x4x1xf32>, tensor<1x1x6xf32>, tensor<3x4x6xf32>, tensor<6x6xf32>, tensor<3x4x6xf32>, tensor<6x6xf32>, tensor<6x6xf32>, tensor<3x4x2x4xf32>, tensor<3x4x2x4xf32>, tensor<3x2x4x4xf32>, tensor<3x2x4x1xf32>, tensor<3x2x4x1xf32>, tensor<3x2x4x4xf32>, tensor<3x4x2x3xf32>, tensor<6x6xf32>, tensor<3x4x6xf32>, tensor<3x4x6xf32>, tensor<3x4x1xf32>, tensor<3x4x1xf32>, tensor<3x4x6xf32>, tensor<3x4x1xf32>, tensor<1x1x6xf32>, tensor<3x4x6xf32>, tensor<6x8xf32>, tensor<3x4x6xf32>, tensor<3x4x8xf32>, tensor<3x4x8xf32>, tensor<3x4x8xf32>, tensor<8x6xf32>, tensor<3x4x8xf32>, tensor<3x4x6xf32>) -> (tensor<3x4x6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<8x6xf32>, tensor<6x6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6x6xf32>, tensor<6x6xf32>, tensor<6x8xf32>, tensor<6x6xf32>)
      %218 = func.call @dynamic_update_index_in_dim_24(%iterArg_119, %217#1, %180) : (tensor<3x6xf32>, tensor<6xf32>, tensor<i32>) -> tensor<3x6xf32>
      %219 = func.call @dynamic_update_index_in_dim_24(%iterArg_120, %217#2, %180) : (tensor<3x6xf32>, tensor<6xf32>, tensor<i32>) -> tensor<3x6xf32>
      %220 = func.call @dynamic_update_index_in_dim_25(%iterArg_121, %217#3, %180) : (tensor<3x8x6xf32>, tensor<8x6xf32>, tensor<i32>) -> tensor<3x8x6xf32>
      %221 = func.call @dynamic_update_index_in_dim_26(%iterArg_122, %217#4, %180) : (tensor<3x6x6xf32>, tensor<6x6xf32>, tensor<i32>) -> tensor<3x6x6xf32>
      %222 = func.call @dynamic_update_index_in_dim_24(%iterArg_123, %217#5, %180) : (tensor<3x6xf32>, tensor<6xf32>, tensor<i32>) -> tensor<3x6xf32>
      %223 = func.call @dynamic_update_index_in_dim_24(%iterArg_124, %217#6, %180) : (tensor<3x6xf32>, tensor<6xf32>, tensor<i32>) -> tensor<3x6xf32>
      %224 = func.call @dynamic_update_index_in_dim_26(%iterArg_125, %217#7, %180) : (tensor<3x6x6xf32>, tensor<6x6xf32>, tensor<i32>) -> tensor<3x6x6xf32>
      %225 = func.call @dynamic_update_index_in_dim_26(%iterArg_126, %217#8, %180) : (tensor<3x6x6xf32>, tensor<6x6xf32>, tensor<i32>) -> tensor<3x6x6xf32>
      %226 = func.call @dynamic_update_index_in_dim_27(%iterArg_127, %217#9, %180) : (tensor<3x6x8xf32>, tensor<6x8xf32>, tensor<i32>) -> tensor<3x6x8xf32>
      %227 = func.call @dynamic_update_index_in_dim_26(%iterArg_128, %217#10, %180) : (tensor<3x6x6xf32>, tensor<6x6xf32>, tensor<i32>) -> tensor<3x6x6xf32>
      %c_131 = stablehlo.constant dense<1> : tensor<i32>
      %228 = stablehlo.add %iterArg_117, %c_131 : tensor<i32>
      stablehlo.return %iterArg, %iterArg_73, %iterArg_74, %iterArg_75, %iterArg_76, %iterArg_77, %iterArg_78, %iterArg_79, %iterArg_80, %iterArg_81, %iterArg_82, %iterArg_83, %iterArg_84, %iterArg_85, %iterArg_86, %iterArg_87, %iterArg_88, %iterArg_89, %iterArg_90, %iterArg_91, %iterArg_92, %iterArg_93, %iterArg_94, %iterArg_95, %iterArg_96, %iterArg_97, %iterArg_98, %iterArg_99, %iterArg_100, %iterArg_101, %iterArg_102, %iterArg_103, %iterArg_104, %iterArg_105, %iterArg_106, %iterArg_107, %iterArg_108, %iterArg_109, %iterArg_110, %iterArg_111, %iterArg_112, %iterArg_113, %iterArg_114, %iterArg_115, %iterArg_116, %228, %217#0, %218, %219, %220, %221, %222, %223, %224, %225, %226, %227 : tensor<3xf32>, tensor<3x3x4x6xf32>, tensor<3x3x4x1xf32>, tensor<3x3x4x1xf32>, tensor<3x3x4x6xf32>, tensor<3x3x4x1xf32>, tensor<3x1x1x6xf32>, tensor<3x3x4x6xf32>, tensor<3x6x6xf32>, tensor<3x3x4x6xf32>, tensor<3x6x6xf32>, tensor<3x6x6xf32>, tensor<3x3x4x2x4xf32>, tensor<3x3x4x2x4xf32>, tensor<3x3x2x4x4xf32>, tensor<3x3x2x4x1xf32>, tensor<3x3x2x4x1xf32>, tensor<3x3x2x4x4xf32>, tensor<3x3x4x2x3xf32>, tensor<3x6x6xf32>, tensor<3x3x4x6xf32>, tensor<3x3x4x6xf32>, tensor<3x3x4x1xf32>, tensor<3x3x4x1xf32>, tensor<3x3x4x6xf32>, tensor<3x3x4x1xf32>, tensor<3x1x1x6xf32>, tensor<3x3x4x6xf32>, tensor<3x6x8xf32>, tensor<3x3x4x6xf32>, tensor<3x3x4x8xf32>, tensor<3x3x4x8xf32>, tensor<3x3x4x8xf32>, tensor<3x8x6xf32>, tensor<3x3x4x8xf32>, tensor<3x3x4x6xf32>, tensor<1x4x1x1xf32>, tensor<1x4x1x1xf32>, tensor<1x4x1x1xf32>, tensor<1x4x1x1xf32>, tensor<1x4x1x1xf32>, tensor<1x4x1x1xf32>, tensor<1x4x1x1xf32>, tensor<1x4x1x1xf32>, tensor<3x2x4x4xi1>, tensor<i32>, tensor<3x4x6xf32>, tensor<3x6xf32>, tensor<3x6xf32>, tensor<3x8x6xf32>, tensor<3x6x6xf32>, tensor<3x6xf32>, tensor<3x6xf32>, tensor<3x6x6xf32>, tensor<3x6x6xf32>, tensor<3x6x8xf32>, tensor<3x6x6xf32>
    }
    %cst_59 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %109 = stablehlo.broadcast_in_dim %cst_59, dims = [] : (tensor<f32>) -> tensor<3x6xf32>
    %110 = stablehlo.multiply %109, %arg12 : tensor<3x6xf32>
    %111 = stablehlo.add %110, %108#47 : tensor<3x6xf32>
    %cst_60 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %112 = stablehlo.broadcast_in_dim %cst_60, dims = [] : (tensor<f32>) -> tensor<3x6xf32>
    %113 = stablehlo.multiply %112, %arg13 : tensor<3x6xf32>
    %114 = stablehlo.add %113, %108#48 : tensor<3x6xf32>
    %cst_61 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %115 = stablehlo.broadcast_in_dim %cst_61, dims = [] : (tensor<f32>) -> tensor<3x8x6xf32>
    %116 = stablehlo.multiply %115, %arg14 : tensor<3x8x6xf32>
    %117 = stablehlo.add %116, %108#49 : tensor<3x8x6xf32>
    %cst_62 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %118 = stablehlo.broadcast_in_dim %cst_62, dims = [] : (tensor<f32>) -> tensor<3x6x6xf32>
    %119 = stablehlo.multiply %118, %arg15 : tensor<3x6x6xf32>
    %120 = stablehlo.add %119, %108#50 : tensor<3x6x6xf32>
    %cst_63 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %121 = stablehlo.broadcast_in_dim %cst_63, dims = [] : (tensor<f32>) -> tensor<3x6xf32>
    %122 = stablehlo.multiply %121, %arg16 : tensor<3x6xf32>
    %123 = stablehlo.add %122, %108#51 : tensor<3x6xf32>
    %cst_64 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %124 = stablehlo.broadcast_in_dim %cst_64, dims = [] : (tensor<f32>) -> tensor<3x6xf32>
    %125 = stablehlo.multiply %124, %arg17 : tensor<3x6xf32>
    %126 = stablehlo.add %125, %108#52 : tensor<3x6xf32>
    %cst_65 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %127 = stablehlo.broadcast_in_dim %cst_65, dims = [] : (tensor<f32>) -> tensor<3x6x6xf32>
    %128 = stablehlo.multiply %127, %arg18 : tensor<3x6x6xf32>
    %129 = stablehlo.add %128, %108#53 : tensor<3x6x6xf32>
    %cst_66 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %130 = stablehlo.broadcast_in_dim %cst_66, dims = [] : (tensor<f32>) -> tensor<3x6x6xf32>
    %131 = stablehlo.multiply %130, %arg19 : tensor<3x6x6xf32>
    %132 = stablehlo.add %131, %108#54 : tensor<3x6x6xf32>
    %cst_67 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %133 = stablehlo.broadcast_in_dim %cst_67, dims = [] : (tensor<f32>) -> tensor<3x6x8xf32>
    %134 = stablehlo.multiply %133, %arg20 : tensor<3x6x8xf32>
    %135 = stablehlo.add %134, %108#55 : tensor<3x6x8xf32>
    %cst_68 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %136 = stablehlo.broadcast_in_dim %cst_68, dims = [] : (tensor<f32>) -> tensor<3x6x6xf32>
    %137 = stablehlo.multiply %136, %arg21 : tensor<3x6x6xf32>
    %138 = stablehlo.add %137, %108#56 : tensor<3x6x6xf32>
    %cst_69 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %139 = stablehlo.broadcast_in_dim %cst_69, dims = [] : (tensor<f32>) -> tensor<6xf32>
    %140 = stablehlo.multiply %139, %arg22 : tensor<6xf32>
    %141 = stablehlo.add %140, %96 : tensor<6xf32>
    %142 = stablehlo.convert %arg11 : (tensor<i32>) -> tensor<f32>
    %cst_70 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %143 = stablehlo.add %cst_70, %142 : tensor<f32>
    %cst_71 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %144 = stablehlo.divide %cst_71, %143 : tensor<f32>
    %145 = stablehlo.broadcast_in_dim %144, dims = [] : (tensor<f32>) -> tensor<3x6xf32>
    %146 = stablehlo.multiply %145, %111 : tensor<3x6xf32>
    %147 = stablehlo.subtract %arg0, %146 : tensor<3x6xf32>
    %148 = stablehlo.broadcast_in_dim %144, dims = [] : (tensor<f32>) -> tensor<3x6xf32>
    %149 = stablehlo.multiply %148, %114 : tensor<3x6xf32>
    %150 = stablehlo.subtract %arg1, %149 : tensor<3x6xf32>
    %151 = stablehlo.broadcast_in_dim %144, dims = [] : (tensor<f32>) -> tensor<3x8x6xf32>
    %152 = stablehlo.multiply %151, %117 : tensor<3x8x6xf32>
    %153 = stablehlo.subtract %arg2, %152 : tensor<3x8x6xf32>
    %154 = stablehlo.broadcast_in_dim %144, dims = [] : (tensor<f32>) -> tensor<3x6x6xf32>
    %155 = stablehlo.multiply %154, %120 : tensor<3x6x6xf32>
    %156 = stablehlo.subtract %arg3, %155 : tensor<3x6x6xf32>
    %157 = stablehlo.broadcast_in_dim %144, dims = [] : (tensor<f32>) -> tensor<3x6xf32>
    %158 = stablehlo.multiply %157, %123 : tensor<3x6xf32>
    %159 = stablehlo.subtract %arg4, %158 : tensor<3x6xf32>
    %160 = stablehlo.broadcast_in_dim %144, dims = [] : (tensor<f32>) -> tensor<3x6xf32>
    %161 = stablehlo.multiply %160, %126 : tensor<3x6xf32>
    %162 = stablehlo.subtract %arg5, %161 : tensor<3x6xf32>
    %163 = stablehlo.broadcast_in_dim %144, dims = [] : (tensor<f32>) -> tensor<3x6x6xf32>
    %164 = stablehlo.multiply %163, %129 : tensor<3x6x6xf32>
    %165 = stablehlo.subtract %arg6, %164 : tensor<3x6x6xf32>
    %166 = stablehlo.broadcast_in_dim %144, dims = [] : (tensor<f32>) -> tensor<3x6x6xf32>
    %167 = stablehlo.multiply %166, %132 : tensor<3x6x6xf32>
    %168 = stablehlo.subtract %arg7, %167 : tensor<3x6x6xf32>
    %169 = stablehlo.broadcast_in_dim %144, dims = [] : (tensor<f32>) -> tensor<3x6x8xf32>
    %170 = stablehlo.multiply %169, %135 : tensor<3x6x8xf32>
    %171 = stablehlo.subtract %arg8, %170 : tensor<3x6x8xf32>
    %172 = stablehlo.broadcast_in_dim %144, dims = [] : (tensor<f32>) -> tensor<3x6x6xf32>
    %173 = stablehlo.multiply %172, %138 : tensor<3x6x6xf32>
    %174 = stablehlo.subtract %arg9, %173 : tensor<3x6x6xf32>
    %175 = stablehlo.broadcast_in_dim %144, dims = [] : (tensor<f32>) -> tensor<6xf32>
    %176 = stablehlo.multiply %175, %141 : tensor<6xf32>
    %177 = stablehlo.subtract %arg10, %176 : tensor<6xf32>
    %c_72 = stablehlo.constant dense<1> : tensor<i32>
    %178 = stablehlo.add %arg11, %c_72 : tensor<i32>
    return %147, %150, %153, %156, %159, %162, %165, %168, %171, %174, %177, %178, %111, %114, %117, %120, %123, %126, %129, %132, %135, %138, %141, %90 : tensor<3x6xf32>, tensor<3x6xf32>, tensor<3x8x6xf32>, tensor<3x6x6xf32>, tensor<3x6xf32>, tensor<3x6xf32>, tensor<3x6x6xf32>, tensor<3x6x6xf32>, tensor<3x6x8xf32>, tensor<3x6x6xf32>, tensor<6xf32>, tensor<i32>, tensor<3x6xf32>, tensor<3x6xf32>, tensor<3x8x6xf32>, tensor<3x6x6xf32>, tensor<3x6xf32>, tensor<3x6xf32>, tensor<3x6x6xf32>, tensor<3x6x6xf32>, tensor<3x6x8xf32>, tensor<3x6x6xf32>, tensor<6xf32>, tensor<f32>
  }
  func.func private @tril(%arg0: tensor<4x4xi1>) -> tensor<4x4xi1> {
    %0 = stablehlo.iota dim = 0 : tensor<4x4xi32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<4x4xi32>
    %2 = stablehlo.add %0, %1 : tensor<4x4xi32>
    %3 = stablehlo.iota dim = 1 : tensor<4x4xi32>
    %4 = stablehlo.compare GE, %2, %3, SIGNED : (tensor<4x4xi32>, tensor<4x4xi32>) -> tensor<4x4xi1>
    %c_0 = stablehlo.constant dense<false> : tensor<i1>
    %5 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i1>) -> tensor<4x4xi1>
    %6 = stablehlo.select %4, %arg0, %5 : tensor<4x4xi1>, tensor<4x4xi1>
    return %6 : tensor<4x4xi1>
  }
  func.func private @_where(%arg0: tensor<4x4xi1>, %arg1: tensor<f32>) -> (tensor<3x2x4x4xi1>, tensor<3x2x4x4xf32>) {
    %0 = stablehlo.broadcast_in_dim %arg0, dims = [2, 3] : (tensor<4x4xi1>) -> tensor<3x2x4x4xi1>
    %1 = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<f32>) -> tensor<3x2x4x4xf32>
    return %0, %1 : tensor<3x2x4x4xi1>, tensor<3x2x4x4xf32>
  }
  func.func private @dynamic_index_in_dim(%arg0: tensor<3x6xf32>, %arg1: tensor<i32>) -> tensor<6xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, sizes = [1, 6] : (tensor<3x6xf32>, tensor<i32>, tensor<i32>) -> tensor<1x6xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x6xf32>) -> tensor<6xf32>
    return %1 : tensor<6xf32>
  }
  func.func private @dynamic_index_in_dim_0(%arg0: tensor<3x8x6xf32>, %arg1: tensor<i32>) -> tensor<8x6xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, sizes = [1, 8, 6] : (tensor<3x8x6xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x8x6xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x8x6xf32>) -> tensor<8x6xf32>
    return %1 : tensor<8x6xf32>
  }
  func.func private @dynamic_index_in_dim_1(%arg0: tensor<3x6x6xf32>, %arg1: tensor<i32>) -> tensor<6x6xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, sizes = [1, 6, 6] : (tensor<3x6x6xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x6x6xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x6x6xf32>) -> tensor<6x6xf32>
    return %1 : tensor<6x6xf32>
  }
  func.func private @dynamic_index_in_dim_2(%arg0: tensor<3x6x8xf32>, %arg1: tensor<i32>) -> tensor<6x8xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, sizes = [1, 6, 8] : (tensor<3x6x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x6x8xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x6x8xf32>) -> tensor<6x8xf32>
    return %1 : tensor<6x8xf32>
  }
  func.func private @closed_call(%arg0: tensor<1x4x1x1xf32>, %arg1: tensor<1x4x1x1xf32>, %arg2: tensor<1x4x1x1xf32>, %arg3: tensor<1x4x1x1xf32>, %arg4: tensor<1x4x1x1xf32>, %arg5: tensor<1x4x1x1xf32>, %arg6: tensor<1x4x1x1xf32>, %arg7: tensor<1x4x1x1xf32>, %arg8: tensor<3x2x4x4xi1>, %arg9: tensor<3x2x4x4xf32>, %arg10: tensor<3x4x6xf32>, %arg11: tensor<6xf32>, %arg12: tensor<6xf32>, %arg13: tensor<8x6xf32>, %arg14: tensor<6x6xf32>, %arg15: tensor<6xf32>, %arg16: tensor<6xf32>, %arg17: tensor<6x6xf32>, %arg18: tensor<6x6xf32>, %arg19: tensor<6x8xf32>, %arg20: tensor<6x6xf32>) -> (tensor<3x4x6xf32>, tensor<f32>, tensor<3x4x6xf32>, tensor<3x4x1xf32>, tensor<3x4x1xf32>, tensor<3x4x6xf32>, tensor<3x4x1xf32>, tensor<1x1x6xf32>, tensor<3x4x6xf32>, tensor<3x4x6xf32>, tensor<3x4x2x4xf32>, tensor<3x4x2x4xf32>, tensor<3x2x4x4xf32>, tensor<3x2x4x1xf32>, tensor<3x2x4x1xf32>, tensor<3x2x4x4xf32>, tensor<3x4x2x3xf32>, tensor<3x4x6xf32>, tensor<3x4x6xf32>, tensor<3x4x1xf32>, tensor<3x4x1xf32>, tensor<3x4x6xf32>, tensor<3x4x1xf32>, tensor<1x1x6xf32>, tensor<3x4x6xf32>, tensor<3x4x6xf32>, tensor<3x4x8xf32>, tensor<3x4x8xf32>, tensor<3x4x8xf32>, tensor<3x4x8xf32>, tensor<3x4x6xf32>) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.reduce(%arg10 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<3x4x6xf32>, tensor<f32>) -> tensor<3x4xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<3x4xf32>) -> tensor<3x4x1xf32>
    %cst_0 = stablehlo.constant dense<6.000000e+00> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<3x4x1xf32>
    %3 = stablehlo.divide %1, %2 : tensor<3x4x1xf32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2] : (tensor<3x4x1xf32>) -> tensor<3x4x6xf32>
    %5 = stablehlo.subtract %arg10, %4 : tensor<3x4x6xf32>
    %6 = stablehlo.multiply %5, %5 : tensor<3x4x6xf32>
    %cst_1 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %7 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<3x4x6xf32>
    %8 = stablehlo.multiply %7, %5 : tensor<3x4x6xf32>
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %9 = stablehlo.reduce(%6 init: %cst_2) applies stablehlo.add across dimensions = [2] : (tensor<3x4x6xf32>, tensor<f32>) -> tensor<3x4xf32>
    %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1] : (tensor<3x4xf32>) -> tensor<3x4x1xf32>
    %cst_3 = stablehlo.constant dense<6.000000e+00> : tensor<f32>
    %11 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<3x4x1xf32>
    %12 = stablehlo.divide %10, %11 : tensor<3x4x1xf32>
    %13 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2] : (tensor<3x4x1xf32>) -> tensor<3x4x6xf32>
    %14 = stablehlo.subtract %arg10, %13 : tensor<3x4x6xf32>
    %cst_4 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %15 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<3x4x1xf32>
    %16 = stablehlo.add %12, %15 : tensor<3x4x1xf32>
    %17 = stablehlo.sqrt %16 : tensor<3x4x1xf32>
    %cst_5 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %18 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<3x4x1xf32>
    %19 = stablehlo.divide %18, %17 : tensor<3x4x1xf32>
    %20 = stablehlo.broadcast_in_dim %17, dims = [0, 1, 2] : (tensor<3x4x1xf32>) -> tensor<3x4x6xf32>
    %21 = stablehlo.divide %14, %20 : tensor<3x4x6xf32>
    %22 = stablehlo.multiply %17, %17 : tensor<3x4x1xf32>
    %cst_6 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %23 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<3x4x1xf32>
    %24 = stablehlo.divide %23, %22 : tensor<3x4x1xf32>
    %25 = stablehlo.broadcast_in_dim %arg15, dims = [2] : (tensor<6xf32>) -> tensor<1x1x6xf32>
    %26 = stablehlo.broadcast_in_dim %25, dims = [0, 1, 2] : (tensor<1x1x6xf32>) -> tensor<3x4x6xf32>
    %27 = stablehlo.multiply %21, %26 : tensor<3x4x6xf32>
    %28 = stablehlo.broadcast_in_dim %arg11, dims = [2] : (tensor<6xf32>) -> tensor<1x1x6xf32>
    %29 = stablehlo.broadcast_in_dim %28, dims = [0, 1, 2] : (tensor<1x1x6xf32>) -> tensor<3x4x6xf32>
    %30 = stablehlo.add %27, %29 : tensor<3x4x6xf32>
    %31 = stablehlo.dot_general %30, %arg18, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<3x4x6xf32>, tensor<6x6xf32>) -> tensor<3x4x6xf32>
    %32 = stablehlo.reshape %31 : (tensor<3x4x6xf32>) -> tensor<3x4x2x3xf32>
    %33 = stablehlo.slice %32 [0:3, 0:4, 0:2, 0:1] : (tensor<3x4x2x3xf32>) -> tensor<3x4x2x1xf32>
    %34 = stablehlo.slice %32 [0:3, 0:4, 0:2, 1:3] : (tensor<3x4x2x3xf32>) -> tensor<3x4x2x2xf32>
    %35 = stablehlo.broadcast_in_dim %arg0, dims = [0, 1, 2, 3] : (tensor<1x4x1x1xf32>) -> tensor<3x4x2x1xf32>
    %36 = stablehlo.multiply %33, %35 : tensor<3x4x2x1xf32>
    %37 = stablehlo.broadcast_in_dim %arg1, dims = [0, 1, 2, 3] : (tensor<1x4x1x1xf32>) -> tensor<3x4x2x2xf32>
    %38 = stablehlo.multiply %34, %37 : tensor<3x4x2x2xf32>
    %39 = stablehlo.broadcast_in_dim %36, dims = [0, 1, 2, 3] : (tensor<3x4x2x1xf32>) -> tensor<3x4x2x2xf32>
    %40 = stablehlo.subtract %39, %38 : tensor<3x4x2x2xf32>
    %41 = stablehlo.broadcast_in_dim %arg2, dims = [0, 1, 2, 3] : (tensor<1x4x1x1xf32>) -> tensor<3x4x2x1xf32>
    %42 = stablehlo.multiply %33, %41 : tensor<3x4x2x1xf32>
    %43 = stablehlo.broadcast_in_dim %arg3, dims = [0, 1, 2, 3] : (tensor<1x4x1x1xf32>) -> tensor<3x4x2x2xf32>
    %44 = stablehlo.multiply %34, %43 : tensor<3x4x2x2xf32>
    %45 = stablehlo.broadcast_in_dim %42, dims = [0, 1, 2, 3] : (tensor<3x4x2x1xf32>) -> tensor<3x4x2x2xf32>
    %46 = stablehlo.add %45, %44 : tensor<3x4x2x2xf32>
    %47 = stablehlo.concatenate %40, %46, dim = 3 : (tensor<3x4x2x2xf32>, tensor<3x4x2x2xf32>) -> tensor<3x4x2x4xf32>
    %48 = stablehlo.dot_general %30, %arg14, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<3x4x6xf32>, tensor<6x6xf32>) -> tensor<3x4x6xf32>
    %49 = stablehlo.reshape %48 : (tensor<3x4x6xf32>) -> tensor<3x4x2x3xf32>
    %50 = stablehlo.slice %49 [0:3, 0:4, 0:2, 0:1] : (tensor<3x4x2x3xf32>) -> tensor<3x4x2x1xf32>
    %51 = stablehlo.slice %49 [0:3, 0:4, 0:2, 1:3] : (tensor<3x4x2x3xf32>) -> tensor<3x4x2x2xf32>
    %52 = stablehlo.broadcast_in_dim %arg4, dims = [0, 1, 2, 3] : (tensor<1x4x1x1xf32>) -> tensor<3x4x2x1xf32>
    %53 = stablehlo.multiply %50, %52 : tensor<3x4x2x1xf32>
    %54 = stablehlo.broadcast_in_dim %arg5, dims = [0, 1, 2, 3] : (tensor<1x4x1x1xf32>) -> tensor<3x4x2x2xf32>
    %55 = stablehlo.multiply %51, %54 : tensor<3x4x2x2xf32>
    %56 = stablehlo.broadcast_in_dim %53, dims = [0, 1, 2, 3] : (tensor<3x4x2x1xf32>) -> tensor<3x4x2x2xf32>
    %57 = stablehlo.subtract %56, %55 : tensor<3x4x2x2xf32>
    %58 = stablehlo.broadcast_in_dim %arg6, dims = [0, 1, 2, 3] : (tensor<1x4x1x1xf32>) -> tensor<3x4x2x1xf32>
    %59 = stablehlo.multiply %50, %58 : tensor<3x4x2x1xf32>
    %60 = stablehlo.broadcast_in_dim %arg7, dims = [0, 1, 2, 3] : (tensor<1x4x1x1xf32>) -> tensor<3x4x2x2xf32>
    %61 = stablehlo.multiply %51, %60 : tensor<3x4x2x2xf32>
    %62 = stablehlo.broadcast_in_dim %59, dims = [0, 1, 2, 3] : (tensor<3x4x2x1xf32>) -> tensor<3x4x2x2xf32>
    %63 = stablehlo.add %62, %61 : tensor<3x4x2x2xf32>
    %64 = stablehlo.concatenate %57, %63, dim = 3 : (tensor<3x4x2x2xf32>, tensor<3x4x2x2xf32>) -> tensor<3x4x2x4xf32>
    %65 = stablehlo.dot_general %30, %arg20, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<3x4x6xf32>, tensor<6x6xf32>) -> tensor<3x4x6xf32>
    %66 = stablehlo.reshape %65 : (tensor<3x4x6xf32>) -> tensor<3x4x2x3xf32>
    %67 = stablehlo.broadcast_in_dim %64, dims = [0, 1, 2, 4] : (tensor<3x4x2x4xf32>) -> tensor<3x4x2x1x4xf32>
    %68 = stablehlo.reshape %67 : (tensor<3x4x2x1x4xf32>) -> tensor<3x4x2x4xf32>
    %69 = stablehlo.broadcast_in_dim %66, dims = [0, 1, 2, 4] : (tensor<3x4x2x3xf32>) -> tensor<3x4x2x1x3xf32>
    %70 = stablehlo.reshape %69 : (tensor<3x4x2x1x3xf32>) -> tensor<3x4x2x3xf32>
    %71 = stablehlo.dot_general %47, %68, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<3x4x2x4xf32>, tensor<3x4x2x4xf32>) -> tensor<3x2x4x4xf32>
    %cst_7 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %72 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f32>) -> tensor<3x2x4x4xf32>
    %73 = stablehlo.divide %71, %72 : tensor<3x2x4x4xf32>
    %74 = call @_where_3(%73, %arg8, %arg9) : (tensor<3x2x4x4xf32>, tensor<3x2x4x4xi1>, tensor<3x2x4x4xf32>) -> tensor<3x2x4x4xf32>
    %cst_8 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %75 = stablehlo.reduce(%74 init: %cst_8) applies stablehlo.maximum across dimensions = [3] : (tensor<3x2x4x4xf32>, tensor<f32>) -> tensor<3x2x4xf32>
    %cst_9 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %76 = stablehlo.broadcast_in_dim %cst_9, dims = [] : (tensor<f32>) -> tensor<3x2x4xf32>
    %77 = stablehlo.maximum %76, %75 : tensor<3x2x4xf32>
    %78 = stablehlo.broadcast_in_dim %77, dims = [0, 1, 2] : (tensor<3x2x4xf32>) -> tensor<3x2x4x1xf32>
    %79 = stablehlo.broadcast_in_dim %78, dims = [0, 1, 2, 3] : (tensor<3x2x4x1xf32>) -> tensor<3x2x4x4xf32>
    %80 = stablehlo.subtract %74, %79 : tensor<3x2x4x4xf32>
    %81 = stablehlo.exponential %80 : tensor<3x2x4x4xf32>
    %cst_10 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %82 = stablehlo.reduce(%81 init: %cst_10) applies stablehlo.add across dimensions = [3] : (tensor<3x2x4x4xf32>, tensor<f32>) -> tensor<3x2x4xf32>
    %83 = stablehlo.broadcast_in_dim %82, dims = [0, 1, 2] : (tensor<3x2x4xf32>) -> tensor<3x2x4x1xf32>
    %84 = stablehlo.broadcast_in_dim %83, dims = [0, 1, 2, 3] : (tensor<3x2x4x1xf32>) -> tensor<3x2x4x4xf32>
    %85 = stablehlo.divide %81, %84 : tensor<3x2x4x4xf32>
    %86 = stablehlo.multiply %83, %83 : tensor<3x2x4x1xf32>
    %cst_11 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %87 = stablehlo.broadcast_in_dim %cst_11, dims = [] : (tensor<f32>) -> tensor<3x2x4x1xf32>
    %88 = stablehlo.divide %87, %86 : tensor<3x2x4x1xf32>
    %89 = stablehlo.dot_general %70, %85, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3], precision = [DEFAULT, DEFAULT] : (tensor<3x4x2x3xf32>, tensor<3x2x4x4xf32>) -> tensor<3x2x3x4xf32>
    %90 = stablehlo.transpose %89, dims = [0, 3, 1, 2] : (tensor<3x2x3x4xf32>) -> tensor<3x4x2x3xf32>
    %91 = stablehlo.reshape %90 : (tensor<3x4x2x3xf32>) -> tensor<3x4x6xf32>
    %92 = stablehlo.dot_general %91, %arg17, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<3x4x6xf32>, tensor<6x6xf32>) -> tensor<3x4x6xf32>
    %93 = stablehlo.add %arg10, %92 : tensor<3x4x6xf32>
    %cst_12 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %94 = stablehlo.reduce(%93 init: %cst_12) applies stablehlo.add across dimensions = [2] : (tensor<3x4x6xf32>, tensor<f32>) -> tensor<3x4xf32>
    %95 = stablehlo.broadcast_in_dim %94, dims = [0, 1] : (tensor<3x4xf32>) -> tensor<3x4x1xf32>
    %cst_13 = stablehlo.constant dense<6.000000e+00> : tensor<f32>
    %96 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<f32>) -> tensor<3x4x1xf32>
    %97 = stablehlo.divide %95, %96 : tensor<3x4x1xf32>
    %98 = stablehlo.broadcast_in_dim %97, dims = [0, 1, 2] : (tensor<3x4x1xf32>) -> tensor<3x4x6xf32>
    %99 = stablehlo.subtract %93, %98 : tensor<3x4x6xf32>
    %100 = stablehlo.multiply %99, %99 : tensor<3x4x6xf32>
    %cst_14 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %101 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<f32>) -> tensor<3x4x6xf32>
    %102 = stablehlo.multiply %101, %99 : tensor<3x4x6xf32>
    %cst_15 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %103 = stablehlo.reduce(%100 init: %cst_15) applies stablehlo.add across dimensions = [2] : (tensor<3x4x6xf32>, tensor<f32>) -> tensor<3x4xf32>
    %104 = stablehlo.broadcast_in_dim %103, dims = [0, 1] : (tensor<3x4xf32>) -> tensor<3x4x1xf32>
    %cst_16 = stablehlo.constant dense<6.000000e+00> : tensor<f32>
    %105 = stablehlo.broadcast_in_dim %cst_16, dims = [] : (tensor<f32>) -> tensor<3x4x1xf32>
    %106 = stablehlo.divide %104, %105 : tensor<3x4x1xf32>
    %107 = stablehlo.broadcast_in_dim %97, dims = [0, 1, 2] : (tensor<3x4x1xf32>) -> tensor<3x4x6xf32>
    %108 = stablehlo.subtract %93, %107 : tensor<3x4x6xf32>
    %cst_17 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %109 = stablehlo.broadcast_in_dim %cst_17, dims = [] : (tensor<f32>) -> tensor<3x4x1xf32>
    %110 = stablehlo.add %106, %109 : tensor<3x4x1xf32>
    %111 = stablehlo.sqrt %110 : tensor<3x4x1xf32>
    %cst_18 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %112 = stablehlo.broadcast_in_dim %cst_18, dims = [] : (tensor<f32>) -> tensor<3x4x1xf32>
    %113 = stablehlo.divide %112, %111 : tensor<3x4x1xf32>
    %114 = stablehlo.broadcast_in_dim %111, dims = [0, 1, 2] : (tensor<3x4x1xf32>) -> tensor<3x4x6xf32>
    %115 = stablehlo.divide %108, %114 : tensor<3x4x6xf32>
    %116 = stablehlo.multiply %111, %111 : tensor<3x4x1xf32>
    %cst_19 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %117 = stablehlo.broadcast_in_dim %cst_19, dims = [] : (tensor<f32>) -> tensor<3x4x1xf32>
    %118 = stablehlo.divide %117, %116 : tensor<3x4x1xf32>
    %119 = stablehlo.broadcast_in_dim %arg16, dims = [2] : (tensor<6xf32>) -> tensor<1x1x6xf32>
    %120 = stablehlo.broadcast_in_dim %119, dims = [0, 1, 2] : (tensor<1x1x6xf32>) -> tensor<3x4x6xf32>
    %121 = stablehlo.multiply %115, %120 : tensor<3x4x6xf32>
    %122 = stablehlo.broadcast_in_dim %arg12, dims = [2] : (tensor<6xf32>) -> tensor<1x1x6xf32>
    %123 = stablehlo.broadcast_in_dim %122, dims = [0, 1, 2] : (tensor<1x1x6xf32>) -> tensor<3x4x6xf32>
    %124 = stablehlo.add %121, %123 : tensor<3x4x6xf32>
    %125 = stablehlo.dot_general %124, %arg19, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<3x4x6xf32>, tensor<6x8xf32>) -> tensor<3x4x8xf32>
    %cst_20 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %126 = stablehlo.broadcast_in_dim %cst_20, dims = [] : (tensor<f32>) -> tensor<3x4x8xf32>
    %127 = stablehlo.multiply %126, %125 : tensor<3x4x8xf32>
    %128 = stablehlo.negate %125 : tensor<3x4x8xf32>
    %cst_21 = stablehlo.constant dense<0.707106769> : tensor<f32>
    %129 = stablehlo.broadcast_in_dim %cst_21, dims = [] : (tensor<f32>) -> tensor<3x4x8xf32>
    %130 = stablehlo.multiply %128, %129 : tensor<3x4x8xf32>
    %131 = chlo.erfc %130 : tensor<3x4x8xf32> -> tensor<3x4x8xf32>
    %132 = chlo.square %130 : tensor<3x4x8xf32> -> tensor<3x4x8xf32>
    %133 = stablehlo.negate %132 : tensor<3x4x8xf32>
    %134 = stablehlo.exponential %133 : tensor<3x4x8xf32>
    %135 = stablehlo.multiply %127, %131 : tensor<3x4x8xf32>
    %136 = stablehlo.dot_general %135, %arg13, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<3x4x8xf32>, tensor<8x6xf32>) -> tensor<3x4x6xf32>
    %137 = stablehlo.add %93, %136 : tensor<3x4x6xf32>
    %138 = stablehlo.multiply %137, %137 : tensor<3x4x6xf32>
    %cst_22 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %139 = stablehlo.broadcast_in_dim %cst_22, dims = [] : (tensor<f32>) -> tensor<3x4x6xf32>
    %140 = stablehlo.multiply %139, %137 : tensor<3x4x6xf32>
    %cst_23 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %141 = stablehlo.reduce(%138 init: %cst_23) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<3x4x6xf32>, tensor<f32>) -> tensor<f32>
    %cst_24 = stablehlo.constant dense<7.200000e+01> : tensor<f32>
    %142 = stablehlo.divide %141, %cst_24 : tensor<f32>
    return %137, %142, %8, %19, %17, %14, %24, %25, %21, %30, %68, %47, %81, %83, %88, %85, %70, %91, %102, %113, %111, %108, %118, %119, %115, %124, %134, %131, %127, %135, %140 : tensor<3x4x6xf32>, tensor<f32>, tensor<3x4x6xf32>, tensor<3x4x1xf32>, tensor<3x4x1xf32>, tensor<3x4x6xf32>, tensor<3x4x1xf32>, tensor<1x1x6xf32>, tensor<3x4x6xf32>, tensor<3x4x6xf32>, tensor<3x4x2x4xf32>, tensor<3x4x2x4xf32>, tensor<3x2x4x4xf32>, tensor<3x2x4x1xf32>, tensor<3x2x4x1xf32>, tensor<3x2x4x4xf32>, tensor<3x4x2x3xf32>, tensor<3x4x6xf32>, tensor<3x4x6xf32>, tensor<3x4x1xf32>, tensor<3x4x1xf32>, tensor<3x4x6xf32>, tensor<3x4x1xf32>, tensor<1x1x6xf32>, tensor<3x4x6xf32>, tensor<3x4x6xf32>, tensor<3x4x8xf32>, tensor<3x4x8xf32>, tensor<3x4x8xf32>, tensor<3x4x8xf32>, tensor<3x4x6xf32>
  }
  func.func private @_where_3(%arg0: tensor<3x2x4x4xf32>, %arg1: tensor<3x2x4x4xi1>, %arg2: tensor<3x2x4x4xf32>) -> tensor<3x2x4x4xf32> {
    %0 = stablehlo.select %arg1, %arg0, %arg2 : tensor<3x2x4x4xi1>, tensor<3x2x4x4xf32>
    return %0 : tensor<3x2x4x4xf32>
  }
  func.func private @dynamic_update_index_in_dim(%arg0: tensor<3xf32>, %arg1: tensor<f32>, %arg2: tensor<i32>) -> tensor<3xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<f32>) -> tensor<1xf32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2 : (tensor<3xf32>, tensor<1xf32>, tensor<i32>) -> tensor<3xf32>
    return %1 : tensor<3xf32>
  }
  func.func private @dynamic_update_index_in_dim_4(%arg0: tensor<3x3x4x6xf32>, %arg1: tensor<3x4x6xf32>, %arg2: tensor<i32>) -> tensor<3x3x4x6xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2, 3] : (tensor<3x4x6xf32>) -> tensor<1x3x4x6xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c, %c_0, %c_1 : (tensor<3x3x4x6xf32>, tensor<1x3x4x6xf32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<3x3x4x6xf32>
    return %1 : tensor<3x3x4x6xf32>
  }
  func.func private @dynamic_update_index_in_dim_5(%arg0: tensor<3x3x4x1xf32>, %arg1: tensor<3x4x1xf32>, %arg2: tensor<i32>) -> tensor<3x3x4x1xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2, 3] : (tensor<3x4x1xf32>) -> tensor<1x3x4x1xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c, %c_0, %c_1 : (tensor<3x3x4x1xf32>, tensor<1x3x4x1xf32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<3x3x4x1xf32>
    return %1 : tensor<3x3x4x1xf32>
  }
  func.func private @dynamic_update_index_in_dim_6(%arg0: tensor<3x1x1x6xf32>, %arg1: tensor<1x1x6xf32>, %arg2: tensor<i32>) -> tensor<3x1x1x6xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2, 3] : (tensor<1x1x6xf32>) -> tensor<1x1x1x6xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c, %c_0, %c_1 : (tensor<3x1x1x6xf32>, tensor<1x1x1x6xf32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<3x1x1x6xf32>
    return %1 : tensor<3x1x1x6xf32>
  }
  func.func private @dynamic_update_index_in_dim_7(%arg0: tensor<3x3x4x2x4xf32>, %arg1: tensor<3x4x2x4xf32>, %arg2: tensor<i32>) -> tensor<3x3x4x2x4xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2, 3, 4] : (tensor<3x4x2x4xf32>) -> tensor<1x3x4x2x4xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c, %c_0, %c_1, %c_2 : (tensor<3x3x4x2x4xf32>, tensor<1x3x4x2x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<3x3x4x2x4xf32>
    return %1 : tensor<3x3x4x2x4xf32>
  }
  func.func private @dynamic_update_index_in_dim_8(%arg0: tensor<3x3x2x4x4xf32>, %arg1: tensor<3x2x4x4xf32>, %arg2: tensor<i32>) -> tensor<3x3x2x4x4xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2, 3, 4] : (tensor<3x2x4x4xf32>) -> tensor<1x3x2x4x4xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c, %c_0, %c_1, %c_2 : (tensor<3x3x2x4x4xf32>, tensor<1x3x2x4x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<3x3x2x4x4xf32>
    return %1 : tensor<3x3x2x4x4xf32>
  }
  func.func private @dynamic_update_index_in_dim_9(%arg0: tensor<3x3x2x4x1xf32>, %arg1: tensor<3x2x4x1xf32>, %arg2: tensor<i32>) -> tensor<3x3x2x4x1xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2, 3, 4] : (tensor<3x2x4x1xf32>) -> tensor<1x3x2x4x1xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c, %c_0, %c_1, %c_2 : (tensor<3x3x2x4x1xf32>, tensor<1x3x2x4x1xf32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<3x3x2x4x1xf32>
    return %1 : tensor<3x3x2x4x1xf32>
  }
  func.func private @dynamic_update_index_in_dim_10(%arg0: tensor<3x3x4x2x3xf32>, %arg1: tensor<3x4x2x3xf32>, %arg2: tensor<i32>) -> tensor<3x3x4x2x3xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2, 3, 4] : (tensor<3x4x2x3xf32>) -> tensor<1x3x4x2x3xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c, %c_0, %c_1, %c_2 : (tensor<3x3x4x2x3xf32>, tensor<1x3x4x2x3xf32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<3x3x4x2x3xf32>
    return %1 : tensor<3x3x4x2x3xf32>
  }
  func.func private @dynamic_update_index_in_dim_11(%arg0: tensor<3x3x4x8xf32>, %arg1: tensor<3x4x8xf32>, %arg2: tensor<i32>) -> tensor<3x3x4x8xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2, 3] : (tensor<3x4x8xf32>) -> tensor<1x3x4x8xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c, %c_0, %c_1 : (tensor<3x3x4x8xf32>, tensor<1x3x4x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<3x3x4x8xf32>
    return %1 : tensor<3x3x4x8xf32>
  }
  func.func private @closed_call_12(%arg0: tensor<i32>, %arg1: tensor<f32>) -> (tensor<i32>, tensor<f32>) {
    %c = stablehlo.constant dense<1> : tensor<i32>
    %0 = stablehlo.add %arg0, %c : tensor<i32>
    %cst = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %1 = stablehlo.multiply %arg1, %cst : tensor<f32>
    %2 = stablehlo.convert %arg0 : (tensor<i32>) -> tensor<f32>
    %3 = stablehlo.add %1, %2 : tensor<f32>
    return %0, %3 : tensor<i32>, tensor<f32>
  }
  func.func private @dynamic_index_in_dim_13(%arg0: tensor<3xf32>, %arg1: tensor<i32>) -> tensor<f32> {
    %0 = stablehlo.dynamic_slice %arg0, %arg1, sizes = [1] : (tensor<3xf32>, tensor<i32>) -> tensor<1xf32>
    %1 = stablehlo.reshape %0 : (tensor<1xf32>) -> tensor<f32>
    return %1 : tensor<f32>
  }
  func.func private @dynamic_index_in_dim_14(%arg0: tensor<3x3x4x6xf32>, %arg1: tensor<i32>) -> tensor<3x4x6xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, %c_1, sizes = [1, 3, 4, 6] : (tensor<3x3x4x6xf32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x3x4x6xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x3x4x6xf32>) -> tensor<3x4x6xf32>
    return %1 : tensor<3x4x6xf32>
  }
  func.func private @dynamic_index_in_dim_15(%arg0: tensor<3x3x4x1xf32>, %arg1: tensor<i32>) -> tensor<3x4x1xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, %c_1, sizes = [1, 3, 4, 1] : (tensor<3x3x4x1xf32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x3x4x1xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x3x4x1xf32>) -> tensor<3x4x1xf32>
    return %1 : tensor<3x4x1xf32>
  }
  func.func private @dynamic_index_in_dim_16(%arg0: tensor<3x1x1x6xf32>, %arg1: tensor<i32>) -> tensor<1x1x6xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, %c_1, sizes = [1, 1, 1, 6] : (tensor<3x1x1x6xf32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x1x1x6xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x1x1x6xf32>) -> tensor<1x1x6xf32>
    return %1 : tensor<1x1x6xf32>
  }
  func.func private @dynamic_index_in_dim_17(%arg0: tensor<3x3x4x2x4xf32>, %arg1: tensor<i32>) -> tensor<3x4x2x4xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, %c_1, %c_2, sizes = [1, 3, 4, 2, 4] : (tensor<3x3x4x2x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x3x4x2x4xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x3x4x2x4xf32>) -> tensor<3x4x2x4xf32>
    return %1 : tensor<3x4x2x4xf32>
  }
  func.func private @dynamic_index_in_dim_18(%arg0: tensor<3x3x2x4x4xf32>, %arg1: tensor<i32>) -> tensor<3x2x4x4xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, %c_1, %c_2, sizes = [1, 3, 2, 4, 4] : (tensor<3x3x2x4x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x3x2x4x4xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x3x2x4x4xf32>) -> tensor<3x2x4x4xf32>
    return %1 : tensor<3x2x4x4xf32>
  }
  func.func private @dynamic_index_in_dim_19(%arg0: tensor<3x3x2x4x1xf32>, %arg1: tensor<i32>) -> tensor<3x2x4x1xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, %c_1, %c_2, sizes = [1, 3, 2, 4, 1] : (tensor<3x3x2x4x1xf32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x3x2x4x1xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x3x2x4x1xf32>) -> tensor<3x2x4x1xf32>
    return %1 : tensor<3x2x4x1xf32>
  }
  func.func private @dynamic_index_in_dim_20(%arg0: tensor<3x3x4x2x3xf32>, %arg1: tensor<i32>) -> tensor<3x4x2x3xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, %c_1, %c_2, sizes = [1, 3, 4, 2, 3] : (tensor<3x3x4x2x3xf32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x3x4x2x3xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x3x4x2x3xf32>) -> tensor<3x4x2x3xf32>
    return %1 : tensor<3x4x2x3xf32>
  }
  func.func private @dynamic_index_in_dim_21(%arg0: tensor<3x3x4x8xf32>, %arg1: tensor<i32>) -> tensor<3x4x8xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, %c_1, sizes = [1, 3, 4, 8] : (tensor<3x3x4x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x3x4x8xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x3x4x8xf32>) -> tensor<3x4x8xf32>
    return %1 : tensor<3x4x8xf32>
  }
  func.func private @closed_call_22(%arg0: tensor<1x4x1x1xf32>, %arg1: tensor<1x4x1x1xf32>, %arg2: tensor<1x4x1x1xf32>, %arg3: tensor<1x4x1x1xf32>, %arg4: tensor<1x4x1x1xf32>, %arg5: tensor<1x4x1x1xf32>, %arg6: tensor<1x4x1x1xf32>, %arg7: tensor<1x4x1x1xf32>, %arg8: tensor<3x2x4x4xi1>, %arg9: tensor<3x4x6xf32>, %arg10: tensor<f32>, %arg11: tensor<3x4x6xf32>, %arg12: tensor<3x4x1xf32>, %arg13: tensor<3x4x1xf32>, %arg14: tensor<3x4x6xf32>, %arg15: tensor<3x4x1xf32>, %arg16: tensor<1x1x6xf32>, %arg17: tensor<3x4x6xf32>, %arg18: tensor<6x6xf32>, %arg19: tensor<3x4x6xf32>, %arg20: tensor<6x6xf32>, %arg21: tensor<6x6xf32>, %arg22: tensor<3x4x2x4xf32>, %arg23: tensor<3x4x2x4xf32>, %arg24: tensor<3x2x4x4xf32>, %arg25: tensor<3x2x4x1xf32>, %arg26: tensor<3x2x4x1xf32>, %arg27: tensor<3x2x4x4xf32>, %arg28: tensor<3x4x2x3xf32>, %arg29: tensor<6x6xf32>, %arg30: tensor<3x4x6xf32>, %arg31: tensor<3x4x6xf32>, %arg32: tensor<3x4x1xf32>, %arg33: tensor<3x4x1xf32>, %arg34: tensor<3x4x6xf32>, %arg35: tensor<3x4x1xf32>, %arg36: tensor<1x1x6xf32>, %arg37: tensor<3x4x6xf32>, %arg38: tensor<6x8xf32>, %arg39: tensor<3x4x6xf32>, %arg40: tensor<3x4x8xf32>, %arg41: tensor<3x4x8xf32>, %arg42: tensor<3x4x8xf32>, %arg43: tensor<8x6xf32>, %arg44: tensor<3x4x8xf32>, %arg45: tensor<3x4x6xf32>) -> (tensor<3x4x6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<8x6xf32>, tensor<6x6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6x6xf32>, tensor<6x6xf32>, tensor<6x8xf32>, tensor<6x6xf32>) {
    %cst = stablehlo.constant dense<7.200000e+01> : tensor<f32>
    %0 = stablehlo.divide %arg10, %cst : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<3x4x6xf32>
    %2 = stablehlo.multiply %1, %arg45 : tensor<3x4x6xf32>
    %3 = stablehlo.add %arg9, %2 : tensor<3x4x6xf32>
    %4 = stablehlo.dot_general %3, %arg44, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<3x4x6xf32>, tensor<3x4x8xf32>) -> tensor<6x8xf32>
    %5 = stablehlo.transpose %4, dims = [1, 0] : (tensor<6x8xf32>) -> tensor<8x6xf32>
    %6 = stablehlo.dot_general %3, %arg43, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<3x4x6xf32>, tensor<8x6xf32>) -> tensor<3x4x8xf32>
    %7 = stablehlo.multiply %arg42, %6 : tensor<3x4x8xf32>
    %8 = stablehlo.multiply %6, %arg41 : tensor<3x4x8xf32>
    %cst_0 = stablehlo.constant dense<-1.12837923> : tensor<f32>
    %9 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<3x4x8xf32>
    %10 = stablehlo.multiply %9, %7 : tensor<3x4x8xf32>
    %11 = stablehlo.multiply %10, %arg40 : tensor<3x4x8xf32>
    %cst_1 = stablehlo.constant dense<0.707106769> : tensor<f32>
    %12 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<3x4x8xf32>
    %13 = stablehlo.multiply %11, %12 : tensor<3x4x8xf32>
    %14 = stablehlo.negate %13 : tensor<3x4x8xf32>
    %cst_2 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %15 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<3x4x8xf32>
    %16 = stablehlo.multiply %15, %8 : tensor<3x4x8xf32>
    %17 = stablehlo.add %14, %16 : tensor<3x4x8xf32>
    %18 = stablehlo.dot_general %17, %arg39, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<3x4x8xf32>, tensor<3x4x6xf32>) -> tensor<8x6xf32>
    %19 = stablehlo.transpose %18, dims = [1, 0] : (tensor<8x6xf32>) -> tensor<6x8xf32>
    %20 = stablehlo.dot_general %17, %arg38, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<3x4x8xf32>, tensor<6x8xf32>) -> tensor<3x4x6xf32>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %21 = stablehlo.reduce(%20 init: %cst_3) applies stablehlo.add across dimensions = [0, 1] : (tensor<3x4x6xf32>, tensor<f32>) -> tensor<6xf32>
    %22 = stablehlo.reshape %21 : (tensor<6xf32>) -> tensor<1x1x6xf32>
    %cst_4 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %23 = stablehlo.reduce(%22 init: %cst_4) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x6xf32>, tensor<f32>) -> tensor<6xf32>
    %24 = stablehlo.multiply %arg37, %20 : tensor<3x4x6xf32>
    %cst_5 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %25 = stablehlo.reduce(%24 init: %cst_5) applies stablehlo.add across dimensions = [0, 1] : (tensor<3x4x6xf32>, tensor<f32>) -> tensor<6xf32>
    %26 = stablehlo.reshape %25 : (tensor<6xf32>) -> tensor<1x1x6xf32>
    %27 = stablehlo.broadcast_in_dim %arg36, dims = [0, 1, 2] : (tensor<1x1x6xf32>) -> tensor<3x4x6xf32>
    %28 = stablehlo.multiply %20, %27 : tensor<3x4x6xf32>
    %cst_6 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %29 = stablehlo.reduce(%26 init: %cst_6) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x6xf32>, tensor<f32>) -> tensor<6xf32>
    %30 = stablehlo.broadcast_in_dim %arg35, dims = [0, 1, 2] : (tensor<3x4x1xf32>) -> tensor<3x4x6xf32>
    %31 = stablehlo.multiply %28, %30 : tensor<3x4x6xf32>
    %32 = stablehlo.multiply %31, %arg34 : tensor<3x4x6xf32>
    %cst_7 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %33 = stablehlo.reduce(%32 init: %cst_7) applies stablehlo.add across dimensions = [2] : (tensor<3x4x6xf32>, tensor<f32>) -> tensor<3x4xf32>
    %34 = stablehlo.reshape %33 : (tensor<3x4xf32>) -> tensor<3x4x1xf32>
    %35 = stablehlo.negate %34 : tensor<3x4x1xf32>
    %36 = stablehlo.broadcast_in_dim %arg33, dims = [0, 1, 2] : (tensor<3x4x1xf32>) -> tensor<3x4x6xf32>
    %37 = stablehlo.divide %28, %36 : tensor<3x4x6xf32>
    %38 = stablehlo.multiply %35, %arg32 : tensor<3x4x1xf32>
    %39 = stablehlo.negate %37 : tensor<3x4x6xf32>
    %cst_8 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %40 = stablehlo.reduce(%39 init: %cst_8) applies stablehlo.add across dimensions = [2] : (tensor<3x4x6xf32>, tensor<f32>) -> tensor<3x4xf32>
    %41 = stablehlo.reshape %40 : (tensor<3x4xf32>) -> tensor<3x4x1xf32>
    %42 = stablehlo.add %3, %37 : tensor<3x4x6xf32>
    %cst_9 = stablehlo.constant dense<6.000000e+00> : tensor<f32>
    %43 = stablehlo.broadcast_in_dim %cst_9, dims = [] : (tensor<f32>) -> tensor<3x4x1xf32>
    %44 = stablehlo.divide %38, %43 : tensor<3x4x1xf32>
    %cst_10 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %45 = stablehlo.reduce(%44 init: %cst_10) applies stablehlo.add across dimensions = [2] : (tensor<3x4x1xf32>, tensor<f32>) -> tensor<3x4xf32>
    %46 = stablehlo.broadcast_in_dim %45, dims = [0, 1] : (tensor<3x4xf32>) -> tensor<3x4x6xf32>
    %47 = stablehlo.multiply %46, %arg31 : tensor<3x4x6xf32>
    %48 = stablehlo.negate %47 : tensor<3x4x6xf32>
    %cst_11 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %49 = stablehlo.reduce(%48 init: %cst_11) applies stablehlo.add across dimensions = [2] : (tensor<3x4x6xf32>, tensor<f32>) -> tensor<3x4xf32>
    %50 = stablehlo.reshape %49 : (tensor<3x4xf32>) -> tensor<3x4x1xf32>
    %51 = stablehlo.add %42, %47 : tensor<3x4x6xf32>
    %52 = stablehlo.add %41, %50 : tensor<3x4x1xf32>
    %cst_12 = stablehlo.constant dense<6.000000e+00> : tensor<f32>
    %53 = stablehlo.broadcast_in_dim %cst_12, dims = [] : (tensor<f32>) -> tensor<3x4x1xf32>
    %54 = stablehlo.divide %52, %53 : tensor<3x4x1xf32>
    %cst_13 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %55 = stablehlo.reduce(%54 init: %cst_13) applies stablehlo.add across dimensions = [2] : (tensor<3x4x1xf32>, tensor<f32>) -> tensor<3x4xf32>
    %56 = stablehlo.broadcast_in_dim %55, dims = [0, 1] : (tensor<3x4xf32>) -> tensor<3x4x6xf32>
    %57 = stablehlo.add %51, %56 : tensor<3x4x6xf32>
    %58 = stablehlo.dot_general %57, %arg30, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<3x4x6xf32>, tensor<3x4x6xf32>) -> tensor<6x6xf32>
    %59 = stablehlo.transpose %58, dims = [1, 0] : (tensor<6x6xf32>) -> tensor<6x6xf32>
    %60 = stablehlo.dot_general %57, %arg29, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<3x4x6xf32>, tensor<6x6xf32>) -> tensor<3x4x6xf32>
    %61 = stablehlo.reshape %60 : (tensor<3x4x6xf32>) -> tensor<3x4x2x3xf32>
    %62 = stablehlo.transpose %61, dims = [0, 2, 3, 1] : (tensor<3x4x2x3xf32>) -> tensor<3x2x3x4xf32>
    %63 = stablehlo.dot_general %62, %arg28, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [3], precision = [DEFAULT, DEFAULT] : (tensor<3x2x3x4xf32>, tensor<3x4x2x3xf32>) -> tensor<3x2x4x4xf32>
    %64 = stablehlo.dot_general %62, %arg27, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<3x2x3x4xf32>, tensor<3x2x4x4xf32>) -> tensor<3x2x3x4xf32>
    %65 = stablehlo.transpose %64, dims = [0, 3, 1, 2] : (tensor<3x2x3x4xf32>) -> tensor<3x4x2x3xf32>
    %66 = stablehlo.broadcast_in_dim %arg26, dims = [0, 1, 2, 3] : (tensor<3x2x4x1xf32>) -> tensor<3x2x4x4xf32>
    %67 = stablehlo.multiply %63, %66 : tensor<3x2x4x4xf32>
    %68 = stablehlo.multiply %67, %arg24 : tensor<3x2x4x4xf32>
    %cst_14 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %69 = stablehlo.reduce(%68 init: %cst_14) applies stablehlo.add across dimensions = [3] : (tensor<3x2x4x4xf32>, tensor<f32>) -> tensor<3x2x4xf32>
    %70 = stablehlo.reshape %69 : (tensor<3x2x4xf32>) -> tensor<3x2x4x1xf32>
    %71 = stablehlo.negate %70 : tensor<3x2x4x1xf32>
    %72 = stablehlo.broadcast_in_dim %arg25, dims = [0, 1, 2, 3] : (tensor<3x2x4x1xf32>) -> tensor<3x2x4x4xf32>
    %73 = stablehlo.divide %63, %72 : tensor<3x2x4x4xf32>
    %cst_15 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %74 = stablehlo.reduce(%71 init: %cst_15) applies stablehlo.add across dimensions = [3] : (tensor<3x2x4x1xf32>, tensor<f32>) -> tensor<3x2x4xf32>
    %75 = stablehlo.broadcast_in_dim %74, dims = [0, 1, 2] : (tensor<3x2x4xf32>) -> tensor<3x2x4x4xf32>
    %76 = stablehlo.add %73, %75 : tensor<3x2x4x4xf32>
    %77 = stablehlo.multiply %76, %arg24 : tensor<3x2x4x4xf32>
    %78 = call @_where_23(%arg8, %77) : (tensor<3x2x4x4xi1>, tensor<3x2x4x4xf32>) -> tensor<3x2x4x4xf32>
    %cst_16 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %79 = stablehlo.broadcast_in_dim %cst_16, dims = [] : (tensor<f32>) -> tensor<3x2x4x4xf32>
    %80 = stablehlo.divide %78, %79 : tensor<3x2x4x4xf32>
    %81 = stablehlo.dot_general %80, %arg23, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<3x2x4x4xf32>, tensor<3x4x2x4xf32>) -> tensor<3x2x4x4xf32>
    %82 = stablehlo.transpose %81, dims = [0, 2, 1, 3] : (tensor<3x2x4x4xf32>) -> tensor<3x4x2x4xf32>
    %83 = stablehlo.dot_general %80, %arg22, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1], precision = [DEFAULT, DEFAULT] : (tensor<3x2x4x4xf32>, tensor<3x4x2x4xf32>) -> tensor<3x2x4x4xf32>
    %84 = stablehlo.transpose %83, dims = [0, 2, 1, 3] : (tensor<3x2x4x4xf32>) -> tensor<3x4x2x4xf32>
    %85 = stablehlo.reshape %65 : (tensor<3x4x2x3xf32>) -> tensor<3x4x2x1x3xf32>
    %cst_17 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %86 = stablehlo.reduce(%85 init: %cst_17) applies stablehlo.add across dimensions = [3] : (tensor<3x4x2x1x3xf32>, tensor<f32>) -> tensor<3x4x2x3xf32>
    %87 = stablehlo.reshape %82 : (tensor<3x4x2x4xf32>) -> tensor<3x4x2x1x4xf32>
    %cst_18 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %88 = stablehlo.reduce(%87 init: %cst_18) applies stablehlo.add across dimensions = [3] : (tensor<3x4x2x1x4xf32>, tensor<f32>) -> tensor<3x4x2x4xf32>
    %89 = stablehlo.reshape %86 : (tensor<3x4x2x3xf32>) -> tensor<3x4x6xf32>
    %90 = stablehlo.dot_general %89, %arg19, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<3x4x6xf32>, tensor<3x4x6xf32>) -> tensor<6x6xf32>
    %91 = stablehlo.transpose %90, dims = [1, 0] : (tensor<6x6xf32>) -> tensor<6x6xf32>
    %92 = stablehlo.dot_general %89, %arg21, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<3x4x6xf32>, tensor<6x6xf32>) -> tensor<3x4x6xf32>
    %93 = stablehlo.slice %88 [0:3, 0:4, 0:2, 0:2] : (tensor<3x4x2x4xf32>) -> tensor<3x4x2x2xf32>
    %94 = stablehlo.slice %88 [0:3, 0:4, 0:2, 2:4] : (tensor<3x4x2x4xf32>) -> tensor<3x4x2x2xf32>
    %cst_19 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %95 = stablehlo.reduce(%94 init: %cst_19) applies stablehlo.add across dimensions = [3] : (tensor<3x4x2x2xf32>, tensor<f32>) -> tensor<3x4x2xf32>
    %96 = stablehlo.reshape %95 : (tensor<3x4x2xf32>) -> tensor<3x4x2x1xf32>
    %97 = stablehlo.broadcast_in_dim %arg7, dims = [0, 1, 2, 3] : (tensor<1x4x1x1xf32>) -> tensor<3x4x2x2xf32>
    %98 = stablehlo.multiply %94, %97 : tensor<3x4x2x2xf32>
    %99 = stablehlo.broadcast_in_dim %arg6, dims = [0, 1, 2, 3] : (tensor<1x4x1x1xf32>) -> tensor<3x4x2x1xf32>
    %100 = stablehlo.multiply %96, %99 : tensor<3x4x2x1xf32>
    %cst_20 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %101 = stablehlo.reduce(%93 init: %cst_20) applies stablehlo.add across dimensions = [3] : (tensor<3x4x2x2xf32>, tensor<f32>) -> tensor<3x4x2xf32>
    %102 = stablehlo.reshape %101 : (tensor<3x4x2xf32>) -> tensor<3x4x2x1xf32>
    %103 = stablehlo.negate %93 : tensor<3x4x2x2xf32>
    %104 = stablehlo.broadcast_in_dim %arg5, dims = [0, 1, 2, 3] : (tensor<1x4x1x1xf32>) -> tensor<3x4x2x2xf32>
    %105 = stablehlo.multiply %103, %104 : tensor<3x4x2x2xf32>
    %106 = stablehlo.add %98, %105 : tensor<3x4x2x2xf32>
    %107 = stablehlo.broadcast_in_dim %arg4, dims = [0, 1, 2, 3] : (tensor<1x4x1x1xf32>) -> tensor<3x4x2x1xf32>
    %108 = stablehlo.multiply %102, %107 : tensor<3x4x2x1xf32>
    %109 = stablehlo.add %100, %108 : tensor<3x4x2x1xf32>
    %cst_21 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %110 = stablehlo.pad %106, %cst_21, low = [0, 0, 0, 1], high = [0, 0, 0, 0], interior = [0, 0, 0, 0] : (tensor<3x4x2x2xf32>, tensor<f32>) -> tensor<3x4x2x3xf32>
    %cst_22 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %111 = stablehlo.pad %109, %cst_22, low = [0, 0, 0, 0], high = [0, 0, 0, 2], interior = [0, 0, 0, 0] : (tensor<3x4x2x1xf32>, tensor<f32>) -> tensor<3x4x2x3xf32>
    %112 = stablehlo.add %110, %111 : tensor<3x4x2x3xf32>
    %113 = stablehlo.reshape %112 : (tensor<3x4x2x3xf32>) -> tensor<3x4x6xf32>
    %114 = stablehlo.dot_general %113, %arg19, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<3x4x6xf32>, tensor<3x4x6xf32>) -> tensor<6x6xf32>
    %115 = stablehlo.transpose %114, dims = [1, 0] : (tensor<6x6xf32>) -> tensor<6x6xf32>
    %116 = stablehlo.dot_general %113, %arg20, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<3x4x6xf32>, tensor<6x6xf32>) -> tensor<3x4x6xf32>
    %117 = stablehlo.add %92, %116 : tensor<3x4x6xf32>
    %118 = stablehlo.slice %84 [0:3, 0:4, 0:2, 0:2] : (tensor<3x4x2x4xf32>) -> tensor<3x4x2x2xf32>
    %119 = stablehlo.slice %84 [0:3, 0:4, 0:2, 2:4] : (tensor<3x4x2x4xf32>) -> tensor<3x4x2x2xf32>
    %cst_23 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %120 = stablehlo.reduce(%119 init: %cst_23) applies stablehlo.add across dimensions = [3] : (tensor<3x4x2x2xf32>, tensor<f32>) -> tensor<3x4x2xf32>
    %121 = stablehlo.reshape %120 : (tensor<3x4x2xf32>) -> tensor<3x4x2x1xf32>
    %122 = stablehlo.broadcast_in_dim %arg3, dims = [0, 1, 2, 3] : (tensor<1x4x1x1xf32>) -> tensor<3x4x2x2xf32>
    %123 = stablehlo.multiply %119, %122 : tensor<3x4x2x2xf32>
    %124 = stablehlo.broadcast_in_dim %arg2, dims = [0, 1, 2, 3] : (tensor<1x4x1x1xf32>) -> tensor<3x4x2x1xf32>
    %125 = stablehlo.multiply %121, %124 : tensor<3x4x2x1xf32>
    %cst_24 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %126 = stablehlo.reduce(%118 init: %cst_24) applies stablehlo.add across dimensions = [3] : (tensor<3x4x2x2xf32>, tensor<f32>) -> tensor<3x4x2xf32>
    %127 = stablehlo.reshape %126 : (tensor<3x4x2xf32>) -> tensor<3x4x2x1xf32>
    %128 = stablehlo.negate %118 : tensor<3x4x2x2xf32>
    %129 = stablehlo.broadcast_in_dim %arg1, dims = [0, 1, 2, 3] : (tensor<1x4x1x1xf32>) -> tensor<3x4x2x2xf32>
    %130 = stablehlo.multiply %128, %129 : tensor<3x4x2x2xf32>
    %131 = stablehlo.add %123, %130 : tensor<3x4x2x2xf32>
    %132 = stablehlo.broadcast_in_dim %arg0, dims = [0, 1, 2, 3] : (tensor<1x4x1x1xf32>) -> tensor<3x4x2x1xf32>
    %133 = stablehlo.multiply %127, %132 : tensor<3x4x2x1xf32>
    %134 = stablehlo.add %125, %133 : tensor<3x4x2x1xf32>
    %cst_25 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %135 = stablehlo.pad %131, %cst_25, low = [0, 0, 0, 1], high = [0, 0, 0, 0], interior = [0, 0, 0, 0] : (tensor<3x4x2x2xf32>, tensor<f32>) -> tensor<3x4x2x3xf32>
    %cst_26 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %136 = stablehlo.pad %134, %cst_26, low = [0, 0, 0, 0], high = [0, 0, 0, 2], interior = [0, 0, 0, 0] : (tensor<3x4x2x1xf32>, tensor<f32>) -> tensor<3x4x2x3xf32>
    %137 = stablehlo.add %135, %136 : tensor<3x4x2x3xf32>
    %138 = stablehlo.reshape %137 : (tensor<3x4x2x3xf32>) -> tensor<3x4x6xf32>
    %139 = stablehlo.dot_general %138, %arg19, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<3x4x6xf32>, tensor<3x4x6xf32>) -> tensor<6x6xf32>
    %140 = stablehlo.transpose %139, dims = [1, 0] : (tensor<6x6xf32>) -> tensor<6x6xf32>
    %141 = stablehlo.dot_general %138, %arg18, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<3x4x6xf32>, tensor<6x6xf32>) -> tensor<3x4x6xf32>
    %142 = stablehlo.add %117, %141 : tensor<3x4x6xf32>
    %cst_27 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %143 = stablehlo.reduce(%142 init: %cst_27) applies stablehlo.add across dimensions = [0, 1] : (tensor<3x4x6xf32>, tensor<f32>) -> tensor<6xf32>
    %144 = stablehlo.reshape %143 : (tensor<6xf32>) -> tensor<1x1x6xf32>
    %cst_28 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %145 = stablehlo.reduce(%144 init: %cst_28) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x6xf32>, tensor<f32>) -> tensor<6xf32>
    %146 = stablehlo.multiply %arg17, %142 : tensor<3x4x6xf32>
    %cst_29 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %147 = stablehlo.reduce(%146 init: %cst_29) applies stablehlo.add across dimensions = [0, 1] : (tensor<3x4x6xf32>, tensor<f32>) -> tensor<6xf32>
    %148 = stablehlo.reshape %147 : (tensor<6xf32>) -> tensor<1x1x6xf32>
    %149 = stablehlo.broadcast_in_dim %arg16, dims = [0, 1, 2] : (tensor<1x1x6xf32>) -> tensor<3x4x6xf32>
    %150 = stablehlo.multiply %142, %149 : tensor<3x4x6xf32>
    %cst_30 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %151 = stablehlo.reduce(%148 init: %cst_30) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x6xf32>, tensor<f32>) -> tensor<6xf32>
    %152 = stablehlo.broadcast_in_dim %arg15, dims = [0, 1, 2] : (tensor<3x4x1xf32>) -> tensor<3x4x6xf32>
    %153 = stablehlo.multiply %150, %152 : tensor<3x4x6xf32>
    %154 = stablehlo.multiply %153, %arg14 : tensor<3x4x6xf32>
    %cst_31 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %155 = stablehlo.reduce(%154 init: %cst_31) applies stablehlo.add across dimensions = [2] : (tensor<3x4x6xf32>, tensor<f32>) -> tensor<3x4xf32>
    %156 = stablehlo.reshape %155 : (tensor<3x4xf32>) -> tensor<3x4x1xf32>
    %157 = stablehlo.negate %156 : tensor<3x4x1xf32>
    %158 = stablehlo.broadcast_in_dim %arg13, dims = [0, 1, 2] : (tensor<3x4x1xf32>) -> tensor<3x4x6xf32>
    %159 = stablehlo.divide %150, %158 : tensor<3x4x6xf32>
    %160 = stablehlo.multiply %157, %arg12 : tensor<3x4x1xf32>
    %161 = stablehlo.negate %159 : tensor<3x4x6xf32>
    %cst_32 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %162 = stablehlo.reduce(%161 init: %cst_32) applies stablehlo.add across dimensions = [2] : (tensor<3x4x6xf32>, tensor<f32>) -> tensor<3x4xf32>
    %163 = stablehlo.reshape %162 : (tensor<3x4xf32>) -> tensor<3x4x1xf32>
    %164 = stablehlo.add %57, %159 : tensor<3x4x6xf32>
    %cst_33 = stablehlo.constant dense<6.000000e+00> : tensor<f32>
    %165 = stablehlo.broadcast_in_dim %cst_33, dims = [] : (tensor<f32>) -> tensor<3x4x1xf32>
    %166 = stablehlo.divide %160, %165 : tensor<3x4x1xf32>
    %cst_34 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %167 = stablehlo.reduce(%166 init: %cst_34) applies stablehlo.add across dimensions = [2] : (tensor<3x4x1xf32>, tensor<f32>) -> tensor<3x4xf32>
    %168 = stablehlo.broadcast_in_dim %167, dims = [0, 1] : (tensor<3x4xf32>) -> tensor<3x4x6xf32>
    %169 = stablehlo.multiply %168, %arg11 : tensor<3x4x6xf32>
    %170 = stablehlo.negate %169 : tensor<3x4x6xf32>
    %cst_35 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %171 = stablehlo.reduce(%170 init: %cst_35) applies stablehlo.add across dimensions = [2] : (tensor<3x4x6xf32>, tensor<f32>) -> tensor<3x4xf32>
    %172 = stablehlo.reshape %171 : (tensor<3x4xf32>) -> tensor<3x4x1xf32>
    %173 = stablehlo.add %164, %169 : tensor<3x4x6xf32>
    %174 = stablehlo.add %163, %172 : tensor<3x4x1xf32>
    %cst_36 = stablehlo.constant dense<6.000000e+00> : tensor<f32>
    %175 = stablehlo.broadcast_in_dim %cst_36, dims = [] : (tensor<f32>) -> tensor<3x4x1xf32>
    %176 = stablehlo.divide %174, %175 : tensor<3x4x1xf32>
    %cst_37 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %177 = stablehlo.reduce(%176 init: %cst_37) applies stablehlo.add across dimensions = [2] : (tensor<3x4x1xf32>, tensor<f32>) -> tensor<3x4xf32>
    %178 = stablehlo.broadcast_in_dim %177, dims = [0, 1] : (tensor<3x4xf32>) -> tensor<3x4x6xf32>
    %179 = stablehlo.add %173, %178 : tensor<3x4x6xf32>
    return %179, %145, %23, %5, %115, %151, %29, %59, %140, %19, %91 : tensor<3x4x6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<8x6xf32>, tensor<6x6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6x6xf32>, tensor<6x6xf32>, tensor<6x8xf32>, tensor<6x6xf32>
  }
  func.func private @_where_23(%arg0: tensor<3x2x4x4xi1>, %arg1: tensor<3x2x4x4xf32>) -> tensor<3x2x4x4xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<3x2x4x4xf32>
    %1 = stablehlo.select %arg0, %arg1, %0 : tensor<3x2x4x4xi1>, tensor<3x2x4x4xf32>
    return %1 : tensor<3x2x4x4xf32>
  }
  func.func private @dynamic_update_index_in_dim_24(%arg0: tensor<3x6xf32>, %arg1: tensor<6xf32>, %arg2: tensor<i32>) -> tensor<3x6xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1] : (tensor<6xf32>) -> tensor<1x6xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c : (tensor<3x6xf32>, tensor<1x6xf32>, tensor<i32>, tensor<i32>) -> tensor<3x6xf32>
    return %1 : tensor<3x6xf32>
  }
  func.func private @dynamic_update_index_in_dim_25(%arg0: tensor<3x8x6xf32>, %arg1: tensor<8x6xf32>, %arg2: tensor<i32>) -> tensor<3x8x6xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2] : (tensor<8x6xf32>) -> tensor<1x8x6xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c, %c_0 : (tensor<3x8x6xf32>, tensor<1x8x6xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<3x8x6xf32>
    return %1 : tensor<3x8x6xf32>
  }
  func.func private @dynamic_update_index_in_dim_26(%arg0: tensor<3x6x6xf32>, %arg1: tensor<6x6xf32>, %arg2: tensor<i32>) -> tensor<3x6x6xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2] : (tensor<6x6xf32>) -> tensor<1x6x6xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c, %c_0 : (tensor<3x6x6xf32>, tensor<1x6x6xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<3x6x6xf32>
    return %1 : tensor<3x6x6xf32>
  }
  func.func private @dynamic_update_index_in_dim_27(%arg0: tensor<3x6x8xf32>, %arg1: tensor<6x8xf32>, %arg2: tensor<i32>) -> tensor<3x6x8xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2] : (tensor<6x8xf32>) -> tensor<1x6x8xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c, %c_0 : (tensor<3x6x8xf32>, tensor<1x6x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<3x6x8xf32>
    return %1 : tensor<3x6x8xf32>
  }
}
