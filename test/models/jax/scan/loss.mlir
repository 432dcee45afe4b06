module @jit_loss attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<3x6xf32>, %arg1: tensor<3x6xf32>, %arg2: tensor<3x8x6xf32>, %arg3: tensor<3x6x6xf32>, %arg4: tensor<3x6xf32>, %arg5: tensor<3x6xf32>, %arg6: tensor<3x6x6xf32>, %arg7: tensor<3x6x6xf32>, %arg8: tensor<3x6x8xf32>, %arg9: tensor<3x6x6xf32>, %arg10: tensor<6xf32>, %arg11: tensor<3x4x6xf32>, %arg12: tensor<3x4xf32>) -> (tensor<f32> {jax.result_info = "result"}) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<3xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1:13 = stablehlo.while(%iterArg = %arg0, %iterArg_7 = %arg1, %iterArg_8 = %arg2, %iterArg_9 = %arg3, %iterArg_10 = %arg4, %iterArg_11 = %arg5, %iterArg_12 = %arg6, %iterArg_13 = %arg7, %iterArg_14 = %arg8, %iterArg_15 = %arg9, %iterArg_16 = %c, %iterArg_17 = %arg11, %iterArg_18 = %0) : tensor<3x6xf32>, tensor<3x6xf32>, tensor<3x8x6xf32>, tensor<3x6x6xf32>, tensor<3x6xf32>, tensor<3x6xf32>, tensor<3x6x6xf32>, tensor<3x6x6xf32>, tensor<3x6x8xf32>, tensor<3x6x6xf32>, tensor<i32>, tensor<3x4x6xf32>, tensor<3xf32>
    cond {
      %c_19 = stablehlo.constant dense<3> : tensor<i32>
      %13 = stablehlo.compare LT, %iterArg_16, %c_19, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %13 : tensor<i1>
    } do {
      %13 = func.call @dynamic_index_in_dim(%iterArg, %iterArg_16) : (tensor<3x6xf32>, tensor<i32>) -> tensor<6xf32>
      %14 = func.call @dynamic_index_in_dim(%iterArg_7, %iterArg_16) : (tensor<3x6xf32>, tensor<i32>) -> tensor<6xf32>
      %15 = func.call @dynamic_index_in_dim_0(%iterArg_8, %iterArg_16) : (tensor<3x8x6xf32>, tensor<i32>) -> tensor<8x6xf32>
      %16 = func.call @dynamic_index_in_dim_1(%iterArg_9, %iterArg_16) : (tensor<3x6x6xf32>, tensor<i32>) -> tensor<6x6xf32>
      %17 = func.call @dynamic_index_in_dim(%iterArg_10, %iterArg_16) : (tensor<3x6xf32>, tensor<i32>) -> tensor<6xf32>
      %18 = func.call @dynamic_index_in_dim(%iterArg_11, %iterArg_16) : (tensor<3x6xf32>, tensor<i32>) -> tensor<6xf32>
      %19 = func.call @dynamic_index_in_dim_1(%iterArg_12, %iterArg_16) : (tensor<3x6x6xf32>, tensor<i32>) -> tensor<6x6xf32>
      %20 = func.call @dynamic_index_in_dim_1(%iterArg_13, %iterArg_16) : (tensor<3x6x6xf32>, tensor<i32>) -> tensor<6x6xf32>
      %21 = func.call @dynamic_index_in_dim_2(%iterArg_14, %iterArg_16) : (tensor<3x6x8xf32>, tensor<i32>) -> tensor<6x8xf32>
      %22 = func.call @dynamic_index_in_dim_1(%iterArg_15, %iterArg_16) : (tensor<3x6x6xf32>, tensor<i32>) -> tensor<6x6xf32>
      %23:2 = func.call @closed_call(%iterArg_17, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22) : (tensor<3x4x6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<8x6xf32>, tensor<6x6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6x6xf32>, tensor<6x6xf32>, tensor<6x8xf32>, tensor<6x6xf32>) -> (tensor<3x4x6xf32>, tensor<f32>)
      %24 = func.call @dynamic_update_index_in_dim(%iterArg_18, %23#1, %iterArg_16) : (tensor<3xf32>, tensor<f32>, tensor<i32>) -> tensor<3xf32>
      %c_19 = stablehlo.constant dense<1> : tensor<i32>
      %25 = stablehlo.add %iterArg_16, %c_19 : tensor<i32>
      stablehlo.return %iterArg, %iterArg_7, %iterArg_8, %iterArg_9, %iterArg_10, %iterArg_11, %iterArg_12, %iterArg_13, %iterArg_14, %iterArg_15, %25, %23#0, %24 : tensor<3x6xf32>, tensor<3x6xf32>, tensor<3x8x6xf32>, tensor<3x6x6xf32>, tensor<3x6xf32>, tensor<3x6xf32>, tensor<3x6x6xf32>, tensor<3x6x6xf32>, tensor<3x6x8xf32>, tensor<3x6x6xf32>, tensor<i32>, tensor<3x4x6xf32>, tensor<3xf32>
    }
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %cst_1 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %2:3 = stablehlo.while(%iterArg = %c_2, %iterArg_7 = %c_0, %iterArg_8 = %cst_1) : tensor<i32>, tensor<i32>, tensor<f32>
    cond {
      %c_9 = stablehlo.constant dense<3> : tensor<i32>
      %13 = stablehlo.compare LT, %iterArg, %c_9, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %13 : tensor<i1>
    } do {
      %13:2 = func.call @closed_call_3(%iterArg_7, %iterArg_8) : (tensor<i32>, tensor<f32>) -> (tensor<i32>, tensor<f32>)
      %c_9 = stablehlo.constant dense<1> : tensor<i32>
      %14 = stablehlo.add %iterArg, %c_9 : tensor<i32>
      stablehlo.return %14, %13#0, %13#1 : tensor<i32>, tensor<i32>, tensor<f32>
    }
    %3 = stablehlo.dot_general %1#11, %arg10, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<3x4x6xf32>, tensor<6xf32>) -> tensor<3x4xf32>
    %4 = stablehlo.subtract %3, %arg12 : tensor<3x4xf32>
    %5 = stablehlo.multiply %4, %4 : tensor<3x4xf32>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %6 = stablehlo.reduce(%5 init: %cst_3) applies stablehlo.add across dimensions = [0, 1] : (tensor<3x4xf32>, tensor<f32>) -> tensor<f32>
    %cst_4 = stablehlo.constant dense<1.200000e+01> : tensor<f32>
    %7 = stablehlo.divide %6, %cst_4 : tensor<f32>
    %cst_5 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %8 = stablehlo.multiply %cst_5, %2#2 : tensor<f32>
    %cst_6 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %9 = stablehlo.reduce(%1#12 init: %cst_6) applies stablehlo.add across dimensions = [0] : (tensor<3xf32>, tensor<f32>) -> tensor<f32>
    %10 = stablehlo.convert %8 : tensor<f32>
    %11 = stablehlo.multiply %10, %9 : tensor<f32>
    %12 = stablehlo.add %7, %11 : tensor<f32>
    return %12 : tensor<f32>
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
  func.func private @closed_call(%arg0: tensor<3x4x6xf32>, %arg1: tensor<6xf32>, %arg2: tensor<6xf32>, %arg3: tensor<8x6xf32>, %arg4: tensor<6x6xf32>, %arg5: tensor<6xf32>, %arg6: tensor<6xf32>, %arg7: tensor<6x6xf32>, %arg8: tensor<6x6xf32>, %arg9: tensor<6x8xf32>, %arg10: tensor<6x6xf32>) -> (tensor<3x4x6xf32>, tensor<f32>) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.reduce(%arg0 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<3x4x6xf32>, tensor<f32>) -> tensor<3x4xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<3x4xf32>) -> tensor<3x4x1xf32>
    %cst_0 = stablehlo.constant dense<6.000000e+00> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<3x4x1xf32>
    %3 = stablehlo.divide %1, %2 : tensor<3x4x1xf32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2] : (tensor<3x4x1xf32>) -> tensor<3x4x6xf32>
    %5 = stablehlo.subtract %arg0, %4 : tensor<3x4x6xf32>
    %6 = stablehlo.multiply %5, %5 : tensor<3x4x6xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %7 = stablehlo.reduce(%6 init: %cst_1) applies stablehlo.add across dimensions = [2] : (tensor<3x4x6xf32>, tensor<f32>) -> tensor<3x4xf32>
    %8 = stablehlo.broadcast_in_dim %7, dims = [0, 1] : (tensor<3x4xf32>) -> tensor<3x4x1xf32>
    %cst_2 = stablehlo.constant dense<6.000000e+00> : tensor<f32>
    %9 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<3x4x1xf32>
    %10 = stablehlo.divide %8, %9 : tensor<3x4x1xf32>
    %11 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2] : (tensor<3x4x1xf32>) -> tensor<3x4x6xf32>
    %12 = stablehlo.subtract %arg0, %11 : tensor<3x4x6xf32>
    %cst_3 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %13 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<3x4x1xf32>
    %14 = stablehlo.add %10, %13 : tensor<3x4x1xf32>
    %15 = stablehlo.sqrt %14 : tensor<3x4x1xf32>
    %16 = stablehlo.broadcast_in_dim %15, dims = [0, 1, 2] : (tensor<3x4x1xf32>) -> tensor<3x4x6xf32>
    %17 = stablehlo.divide %12, %16 : tensor<3x4x6xf32>
    %18 = stablehlo.broadcast_in_dim %arg5, dims = [2] : (tensor<6xf32>) -> tensor<1x1x6xf32>
    %19 = stablehlo.broadcast_in_dim %18, dims = [0, 1, 2] : (tensor<1x1x6xf32>) -> tensor<3x4x6xf32>
    %20 = stablehlo.multiply %17, %19 : tensor<3x4x6xf32>
    %21 = stablehlo.broadcast_in_dim %arg1, dims = [2] : (tensor<6xf32>) -> tensor<1x1x6xf32>
    %22 = stablehlo.broadcast_in_dim %21, dims = [0, 1, 2] : (tensor<1x1x6xf32>) -> tensor<3x4x6xf32>
    %23 = stablehlo.add %20, %22 : tensor<3x4x6xf32>
    %24 = stablehlo.dot_general %23, %arg8, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<3x4x6xf32>, tensor<6x6xf32>) -> tensor<3x4x6xf32>
    %25 = stablehlo.reshape %24 : (tensor<3x4x6xf32>) -> tensor<3x4x2x3xf32>
    %26 = stablehlo.iota dim = 0 : tensor<4xi32>
    %27 = stablehlo.broadcast_in_dim %26, dims = [0] : (tensor<4xi32>) -> tensor<4x1xi32>
    %28 = stablehlo.iota dim = 0 : tensor<1xi32>
    %29 = stablehlo.convert %28 : (tensor<1xi32>) -> tensor<1xf32>
    %cst_4 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %30 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<1xf32>
    %31 = stablehlo.divide %29, %30 : tensor<1xf32>
    %cst_5 = stablehlo.constant dense<1.000000e+02> : tensor<f32>
    %32 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<1xf32>
    %33 = stablehlo.power %32, %31 : tensor<1xf32>
    %cst_6 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %34 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<1xf32>
    %35 = stablehlo.divide %34, %33 : tensor<1xf32>
    %36 = stablehlo.convert %27 : (tensor<4x1xi32>) -> tensor<4x1xf32>
    %37 = stablehlo.broadcast_in_dim %35, dims = [1] : (tensor<1xf32>) -> tensor<1x1xf32>
    %38 = stablehlo.broadcast_in_dim %37, dims = [0, 1] : (tensor<1x1xf32>) -> tensor<4x1xf32>
    %39 = stablehlo.multiply %36, %38 : tensor<4x1xf32>
    %40 = stablehlo.sine %39 : tensor<4x1xf32>
    %41 = stablehlo.broadcast_in_dim %40, dims = [0, 2] : (tensor<4x1xf32>) -> tensor<4x1x1xf32>
    %42 = stablehlo.cosine %39 : tensor<4x1xf32>
    %43 = stablehlo.broadcast_in_dim %42, dims = [0, 2] : (tensor<4x1xf32>) -> tensor<4x1x1xf32>
    %44 = stablehlo.slice %25 [0:3, 0:4, 0:2, 0:1] : (tensor<3x4x2x3xf32>) -> tensor<3x4x2x1xf32>
    %45 = stablehlo.slice %25 [0:3, 0:4, 0:2, 1:3] : (tensor<3x4x2x3xf32>) -> tensor<3x4x2x2xf32>
    %46 = stablehlo.broadcast_in_dim %43, dims = [1, 2, 3] : (tensor<4x1x1xf32>) -> tensor<1x4x1x1xf32>
    %47 = stablehlo.broadcast_in_dim %46, dims = [0, 1, 2, 3] : (tensor<1x4x1x1xf32>) -> tensor<3x4x2x1xf32>
    %48 = stablehlo.multiply %44, %47 : tensor<3x4x2x1xf32>
    %49 = stablehlo.broadcast_in_dim %41, dims = [1, 2, 3] : (tensor<4x1x1xf32>) -> tensor<1x4x1x1xf32>
    %50 = stablehlo.broadcast_in_dim %49, dims = [0, 1, 2, 3] : (tensor<1x4x1x1xf32>) -> tensor<3x4x2x2xf32>
    %51 = stablehlo.multiply %45, %50 : tensor<3x4x2x2xf32>
    %52 = stablehlo.broadcast_in_dim %48, dims = [0, 1, 2, 3] : (tensor<3x4x2x1xf32>) -> tensor<3x4x2x2xf32>
    %53 = stablehlo.subtract %52, %51 : tensor<3x4x2x2xf32>
    %54 = stablehlo.broadcast_in_dim %41, dims = [1, 2, 3] : (tensor<4x1x1xf32>) -> tensor<1x4x1x1xf32>
    %55 = stablehlo.broadcast_in_dim %54, dims = [0, 1, 2, 3] : (tensor<1x4x1x1xf32>) -> tensor<3x4x2x1xf32>
    %56 = stablehlo.multiply %44, %55 : tensor<3x4x2x1xf32>
    %57 = stablehlo.broadcast_in_dim %43, dims = [1, 2, 3] : (tensor<4x1x1xf32>) -> tensor<1x4x1x1xf32>
    %58 = stablehlo.broadcast_in_dim %57, dims = [0, 1, 2, 3] : (tensor<1x4x1x1xf32>) -> tensor<3x4x2x2xf32>
    %59 = stablehlo.multiply %45, %58 : tensor<3x4x2x2xf32>
    %60 = stablehlo.broadcast_in_dim %56, dims = [0, 1, 2, 3] : (tensor<3x4x2x1xf32>) -> tensor<3x4x2x2xf32>
    %61 = stablehlo.add %60, %59 : tensor<3x4x2x2xf32>
    %62 = stablehlo.concatenate %53, %61, dim = 3 : (tensor<3x4x2x2xf32>, tensor<3x4x2x2xf32>) -> tensor<3x4x2x4xf32>
    %63 = stablehlo.dot_general %23, %arg4, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<3x4x6xf32>, tensor<6x6xf32>) -> tensor<3x4x6xf32>
    %64 = stablehlo.reshape %63 : (tensor<3x4x6xf32>) -> tensor<3x4x2x3xf32>
    %65 = stablehlo.iota dim = 0 : tensor<4xi32>
    %66 = stablehlo.broadcast_in_dim %65, dims = [0] : (tensor<4xi32>) -> tensor<4x1xi32>
    %67 = stablehlo.iota dim = 0 : tensor<1xi32>
    %68 = stablehlo.convert %67 : (tensor<1xi32>) -> tensor<1xf32>
    %cst_7 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %69 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f32>) -> tensor<1xf32>
    %70 = stablehlo.divide %68, %69 : tensor<1xf32>
    %cst_8 = stablehlo.constant dense<1.000000e+02> : tensor<f32>
    %71 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f32>) -> tensor<1xf32>
    %72 = stablehlo.power %71, %70 : tensor<1xf32>
    %cst_9 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %73 = stablehlo.broadcast_in_dim %cst_9, dims = [] : (tensor<f32>) -> tensor<1xf32>
    %74 = stablehlo.divide %73, %72 : tensor<1xf32>
    %75 = stablehlo.convert %66 : (tensor<4x1xi32>) -> tensor<4x1xf32>
    %76 = stablehlo.broadcast_in_dim %74, dims = [1] : (tensor<1xf32>) -> tensor<1x1xf32>
    %77 = stablehlo.broadcast_in_dim %76, dims = [0, 1] : (tensor<1x1xf32>) -> tensor<4x1xf32>
    %78 = stablehlo.multiply %75, %77 : tensor<4x1xf32>
    %79 = stablehlo.sine %78 : tensor<4x1xf32>
    %80 = stablehlo.broadcast_in_dim %79, dims = [0, 2] : (tensor<4x1xf32>) -> tensor<4x1x1xf32>
    %81 = stablehlo.cosine %78 : tensor<4x1xf32>
    %82 = stablehlo.broadcast_in_dim %81, dims = [0, 2] : (tensor<4x1xf32>) -> tensor<4x1x1xf32>
    %83 = stablehlo.slice %64 [0:3, 0:4, 0:2, 0:1] : (tensor<3x4x2x3xf32>) -> tensor<3x4x2x1xf32>
    %84 = stablehlo.slice %64 [0:3, 0:4, 0:2, 1:3] : (tensor<3x4x2x3xf32>) -> tensor<3x4x2x2xf32>
    %85 = stablehlo.broadcast_in_dim %82, dims = [1, 2, 3] : (tensor<4x1x1xf32>) -> tensor<1x4x1x1xf32>
    %86 = stablehlo.broadcast_in_dim %85, dims = [0, 1, 2, 3] : (tensor<1x4x1x1xf32>) -> tensor<3x4x2x1xf32>
    %87 = stablehlo.multiply %83, %86 : tensor<3x4x2x1xf32>
    %88 = stablehlo.broadcast_in_dim %80, dims = [1, 2, 3] : (tensor<4x1x1xf32>) -> tensor<1x4x1x1xf32>
    %89 = stablehlo.broadcast_in_dim %88, dims = [0, 1, 2, 3] : (tensor<1x4x1x1xf32>) -> tensor<3x4x2x2xf32>
    %90 = stablehlo.multiply %84, %89 : tensor<3x4x2x2xf32>
    %91 = stablehlo.broadcast_in_dim %87, dims = [0, 1, 2, 3] : (tensor<3x4x2x1xf32>) -> tensor<3x4x2x2xf32>
    %92 = stablehlo.subtract %91, %90 : tensor<3x4x2x2xf32>
    %93 = stablehlo.broadcast_in_dim %80, dims = [1, 2, 3] : (tensor<4x1x1xf32>) -> tensor<1x4x1x1xf32>
    %94 = stablehlo.broadcast_in_dim %93, dims = [0, 1, 2, 3] : (tensor<1x4x1x1xf32>) -> tensor<3x4x2x1xf32>
    %95 = stablehlo.multiply %83, %94 : tensor<3x4x2x1xf32>
    %96 = stablehlo.broadcast_in_dim %82, dims = [1, 2, 3] : (tensor<4x1x1xf32>) -> tensor<1x4x1x1xf32>
    %97 = stablehlo.broadcast_in_dim %96, dims = [0, 1, 2, 3] : (tensor<1x4x1x1xf32>) -> tensor<3x4x2x2xf32>
    %98 = stablehlo.multiply %84, %97 : tensor<3x4x2x2xf32>
    %99 = stablehlo.broadcast_in_dim %95, dims = [0, 1, 2, 3] : (tensor<3x4x2x1xf32>) -> tensor<3x4x2x2xf32>
    %100 = stablehlo.add %99, %98 : tensor<3x4x2x2xf32>
    %101 = stablehlo.concatenate %92, %100, dim = 3 : (tensor<3x4x2x2xf32>, tensor<3x4x2x2xf32>) -> tensor<3x4x2x4xf32>
    %102 = stablehlo.dot_general %23, %arg10, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<3x4x6xf32>, tensor<6x6xf32>) -> tensor<3x4x6xf32>
    %103 = stablehlo.reshape %102 : (tensor<3x4x6xf32>) -> tensor<3x4x2x3xf32>
    %104 = stablehlo.broadcast_in_dim %101, dims = [0, 1, 2, 4] : (tensor<3x4x2x4xf32>) -> tensor<3x4x2x1x4xf32>
    %105 = stablehlo.reshape %104 : (tensor<3x4x2x1x4xf32>) -> tensor<3x4x2x4xf32>
    %106 = stablehlo.broadcast_in_dim %103, dims = [0, 1, 2, 4] : (tensor<3x4x2x3xf32>) -> tensor<3x4x2x1x3xf32>
    %107 = stablehlo.reshape %106 : (tensor<3x4x2x1x3xf32>) -> tensor<3x4x2x3xf32>
    %108 = stablehlo.dot_general %62, %105, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<3x4x2x4xf32>, tensor<3x4x2x4xf32>) -> tensor<3x2x4x4xf32>
    %cst_10 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %109 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f32>) -> tensor<3x2x4x4xf32>
    %110 = stablehlo.divide %108, %109 : tensor<3x2x4x4xf32>
    %c = stablehlo.constant dense<true> : tensor<i1>
    %111 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i1>) -> tensor<4x4xi1>
    %112 = call @tril(%111) : (tensor<4x4xi1>) -> tensor<4x4xi1>
    %cst_11 = stablehlo.constant dense<-3.40282347E+38> : tensor<f32>
    %113 = call @_where(%112, %110, %cst_11) : (tensor<4x4xi1>, tensor<3x2x4x4xf32>, tensor<f32>) -> tensor<3x2x4x4xf32>
    %cst_12 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %114 = stablehlo.reduce(%113 init: %cst_12) applies stablehlo.maximum across dimensions = [3] : (tensor<3x2x4x4xf32>, tensor<f32>) -> tensor<3x2x4xf32>
    %cst_13 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %115 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<f32>) -> tensor<3x2x4xf32>
    %116 = stablehlo.maximum %115, %114 : tensor<3x2x4xf32>
    %117 = stablehlo.broadcast_in_dim %116, dims = [0, 1, 2] : (tensor<3x2x4xf32>) -> tensor<3x2x4x1xf32>
    %118 = stablehlo.broadcast_in_dim %117, dims = [0, 1, 2, 3] : (tensor<3x2x4x1xf32>) -> tensor<3x2x4x4xf32>
    %119 = stablehlo.subtract %113, %118 : tensor<3x2x4x4xf32>
    %120 = stablehlo.exponential %119 : tensor<3x2x4x4xf32>
    %cst_14 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %121 = stablehlo.reduce(%120 init: %cst_14) applies stablehlo.add across dimensions = [3] : (tensor<3x2x4x4xf32>, tensor<f32>) -> tensor<3x2x4xf32>
    %122 = stablehlo.broadcast_in_dim %121, dims = [0, 1, 2] : (tensor<3x2x4xf32>) -> tensor<3x2x4x1xf32>
    %123 = stablehlo.broadcast_in_dim %122, dims = [0, 1, 2, 3] : (tensor<3x2x4x1xf32>) -> tensor<3x2x4x4xf32>
    %124 = stablehlo.divide %120, %123 : tensor<3x2x4x4xf32>
    %125 = stablehlo.dot_general %107, %124, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3], precision = [DEFAULT, DEFAULT] : (tensor<3x4x2x3xf32>, tensor<3x2x4x4xf32>) -> tensor<3x2x3x4xf32>
    %126 = stablehlo.transpose %125, dims = [0, 3, 1, 2] : (tensor<3x2x3x4xf32>) -> tensor<3x4x2x3xf32>
    %127 = stablehlo.reshape %126 : (tensor<3x4x2x3xf32>) -> tensor<3x4x6xf32>
    %128 = stablehlo.dot_general %127, %arg7, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<3x4x6xf32>, tensor<6x6xf32>) -> tensor<3x4x6xf32>
    %129 = stablehlo.add %arg0, %128 : tensor<3x4x6xf32>
    %cst_15 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %130 = stablehlo.reduce(%129 init: %cst_15) applies stablehlo.add across dimensions = [2] : (tensor<3x4x6xf32>, tensor<f32>) -> tensor<3x4xf32>
    %131 = stablehlo.broadcast_in_dim %130, dims = [0, 1] : (tensor<3x4xf32>) -> tensor<3x4x1xf32>
    %cst_16 = stablehlo.constant dense<6.000000e+00> : tensor<f32>
    %132 = stablehlo.broadcast_in_dim %cst_16, dims = [] : (tensor<f32>) -> tensor<3x4x1xf32>
    %133 = stablehlo.divide %131, %132 : tensor<3x4x1xf32>
    %134 = stablehlo.broadcast_in_dim %133, dims = [0, 1, 2] : (tensor<3x4x1xf32>) -> tensor<3x4x6xf32>
    %135 = stablehlo.subtract %129, %134 : tensor<3x4x6xf32>
    %136 = stablehlo.multiply %135, %135 : tensor<3x4x6xf32>
    %cst_17 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %137 = stablehlo.reduce(%136 init: %cst_17) applies stablehlo.add across dimensions = [2] : (tensor<3x4x6xf32>, tensor<f32>) -> tensor<3x4xf32>
    %138 = stablehlo.broadcast_in_dim %137, dims = [0, 1] : (tensor<3x4xf32>) -> tensor<3x4x1xf32>
    %cst_18 = stablehlo.constant dense<6.000000e+00> : tensor<f32>
    %139 = stablehlo.broadcast_in_dim %cst_18, dims = [] : (tensor<f32>) -> tensor<3x4x1xf32>
    %140 = stablehlo.divide %138, %139 : tensor<3x4x1xf32>
    %141 = stablehlo.broadcast_in_dim %133, dims = [0, 1, 2] : (tensor<3x4x1xf32>) -> tensor<3x4x6xf32>
    %142 = stablehlo.subtract %129, %141 : tensor<3x4x6xf32>
    %cst_19 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %143 = stablehlo.broadcast_in_dim %cst_19, dims = [] : (tensor<f32>) -> tensor<3x4x1xf32>
    %144 = stablehlo.add %140, %143 : tensor<3x4x1xf32>
    %145 = stablehlo.sqrt %144 : tensor<3x4x1xf32>
    %146 = stablehlo.broadcast_in_dim %145, dims = [0, 1, 2] : (tensor<3x4x1xf32>) -> tensor<3x4x6xf32>
    %147 = stablehlo.divide %142, %146 : tensor<3x4x6xf32>
    %148 = stablehlo.broadcast_in_dim %arg6, dims = [2] : (tensor<6xf32>) -> tensor<1x1x6xf32>
    %149 = stablehlo.broadcast_in_dim %148, dims = [0, 1, 2] : (tensor<1x1x6xf32>) -> tensor<3x4x6xf32>
    %150 = stablehlo.multiply %147, %149 : tensor<3x4x6xf32>
    %151 = stablehlo.broadcast_in_dim %arg2, dims = [2] : (tensor<6xf32>) -> tensor<1x1x6xf32>
    %152 = stablehlo.broadcast_in_dim %151, dims = [0, 1, 2] : (tensor<1x1x6xf32>) -> tensor<3x4x6xf32>
    %153 = stablehlo.add %150, %152 : tensor<3x4x6xf32>
    %154 = stablehlo.dot_general %153, %arg9, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<3x4x6xf32>, tensor<6x8xf32>) -> tensor<3x4x8xf32>
    %cst_20 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %155 = stablehlo.broadcast_in_dim %cst_20, dims = [] : (tensor<f32>) -> tensor<3x4x8xf32>
    %156 = stablehlo.multiply %155, %154 : tensor<3x4x8xf32>
    %157 = stablehlo.negate %154 : tensor<3x4x8xf32>
    %cst_21 = stablehlo.constant dense<0.707106769> : tensor<f32>
    %158 = stablehlo.broadcast_in_dim %cst_21, dims = [] : (tensor<f32>) -> tensor<3x4x8xf32>
    %159 = stablehlo.multiply %157, %158 : tensor<3x4x8xf32>
    %160 = chlo.erfc %159 : tensor<3x4x8xf32> -> tensor<3x4x8xf32>
    %161 = stablehlo.multiply %156, %160 : tensor<3x4x8xf32>
    %162 = stablehlo.dot_general %161, %arg3, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<3x4x8xf32>, tensor<8x6xf32>) -> tensor<3x4x6xf32>
    %163 = stablehlo.add %129, %162 : tensor<3x4x6xf32>
    %164 = stablehlo.multiply %163, %163 : tensor<3x4x6xf32>
    %cst_22 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %165 = stablehlo.reduce(%164 init: %cst_22) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<3x4x6xf32>, tensor<f32>) -> tensor<f32>
    %cst_23 = stablehlo.constant dense<7.200000e+01> : tensor<f32>
    %166 = stablehlo.divide %165, %cst_23 : tensor<f32>
    return %163, %166 : tensor<3x4x6xf32>, tensor<f32>
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
  func.func private @_where(%arg0: tensor<4x4xi1>, %arg1: tensor<3x2x4x4xf32>, %arg2: tensor<f32>) -> tensor<3x2x4x4xf32> {
    %0 = stablehlo.broadcast_in_dim %arg0, dims = [2, 3] : (tensor<4x4xi1>) -> tensor<3x2x4x4xi1>
    %1 = stablehlo.broadcast_in_dim %arg2, dims = [] : (tensor<f32>) -> tensor<3x2x4x4xf32>
    %2 = stablehlo.select %0, %arg1, %1 : tensor<3x2x4x4xi1>, tensor<3x2x4x4xf32>
    return %2 : tensor<3x2x4x4xf32>
  }
  func.func private @dynamic_update_index_in_dim(%arg0: tensor<3xf32>, %arg1: tensor<f32>, %arg2: tensor<i32>) -> tensor<3xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<f32>) -> tensor<1xf32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2 : (tensor<3xf32>, tensor<1xf32>, tensor<i32>) -> tensor<3xf32>
    return %1 : tensor<3xf32>
  }
  func.func private @closed_call_3(%arg0: tensor<i32>, %arg1: tensor<f32>) -> (tensor<i32>, tensor<f32>) {
    %c = stablehlo.constant dense<1> : tensor<i32>
    %0 = stablehlo.add %arg0, %c : tensor<i32>
    %cst = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %1 = stablehlo.multiply %arg1, %cst : tensor<f32>
    %2 = stablehlo.convert %arg0 : (tensor<i32>) -> tensor<f32>
    %3 = stablehlo.add %1, %2 : tensor<f32>
    return %0, %3 : tensor<i32>, tensor<f32>
  }
}
