module @jit_loss attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4x6x3xf32>, %arg1: tensor<7x5xf32>, %arg2: tensor<9xf32>, %arg3: tensor<i32>, %arg4: tensor<4xi32>, %arg5: tensor<4xi32>, %arg6: tensor<4x2xi32>) -> (tensor<f32> {jax.result_info = "result"}) {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<4xi32>
    %1 = stablehlo.compare LT, %arg4, %0, SIGNED : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi1>
    %c_0 = stablehlo.constant dense<4> : tensor<i32>
    %2 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<4xi32>
    %3 = stablehlo.add %arg4, %2 : tensor<4xi32>
    %4 = stablehlo.select %1, %3, %arg4 : tensor<4xi1>, tensor<4xi32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %5 = stablehlo.broadcast_in_dim %c_1, dims = [] : (tensor<i32>) -> tensor<4xi32>
    %6 = stablehlo.compare LT, %arg5, %5, SIGNED : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi1>
    %c_2 = stablehlo.constant dense<6> : tensor<i32>
    %7 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<i32>) -> tensor<4xi32>
    %8 = stablehlo.add %arg5, %7 : tensor<4xi32>
    %9 = stablehlo.select %6, %8, %arg5 : tensor<4xi1>, tensor<4xi32>
    %10 = stablehlo.broadcast_in_dim %4, dims = [0] : (tensor<4xi32>) -> tensor<4x1xi32>
    %11 = stablehlo.broadcast_in_dim %9, dims = [0] : (tensor<4xi32>) -> tensor<4x1xi32>
    %12 = stablehlo.concatenate %10, %11, dim = 1 : (tensor<4x1xi32>, tensor<4x1xi32>) -> tensor<4x2xi32>
    %13 = "stablehlo.gather"(%arg0, %12) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0, 1], start_index_map = [0, 1], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1, 3>}> : (tensor<4x6x3xf32>, tensor<4x2xi32>) -> tensor<4x3xf32>
    %14 = stablehlo.multiply %13, %13 : tensor<4x3xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %15 = stablehlo.reduce(%14 init: %cst) applies stablehlo.add across dimensions = [0, 1] : (tensor<4x3xf32>, tensor<f32>) -> tensor<f32>
    %c_3 = stablehlo.constant dense<0> : tensor<i32>
    %16 = stablehlo.broadcast_in_dim %c_3, dims = [] : (tensor<i32>) -> tensor<4xi32>
    %17 = stablehlo.compare LT, %arg4, %16, SIGNED : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi1>
    %c_4 = stablehlo.constant dense<4> : tensor<i32>
    %18 = stablehlo.broadcast_in_dim %c_4, dims = [] : (tensor<i32>) -> tensor<4xi32>
    %19 = stablehlo.add %arg4, %18 : tensor<4xi32>
    %20 = stablehlo.select %17, %19, %arg4 : tensor<4xi1>, tensor<4xi32>
    %c_5 = stablehlo.constant dense<1> : tensor<i32>
    %21 = stablehlo.broadcast_in_dim %c_5, dims = [] : (tensor<i32>) -> tensor<4xi32>
    %22 = stablehlo.convert %21 : tensor<4xi32>
    %23 = stablehlo.broadcast_in_dim %20, dims = [0] : (tensor<4xi32>) -> tensor<4x1xi32>
    %24 = stablehlo.broadcast_in_dim %22, dims = [0] : (tensor<4xi32>) -> tensor<4x1xi32>
    %25 = stablehlo.concatenate %23, %24, dim = 1 : (tensor<4x1xi32>, tensor<4x1xi32>) -> tensor<4x2xi32>
    %26 = "stablehlo.gather"(%arg0, %25) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0, 2], start_index_map = [0, 2], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 6, 1>}> : (tensor<4x6x3xf32>, tensor<4x2xi32>) -> tensor<4x6xf32>
    %27 = stablehlo.iota dim = 0 : tensor<6xi32>
    %28 = stablehlo.convert %27 : (tensor<6xi32>) -> tensor<6xf32>
    %29 = stablehlo.broadcast_in_dim %28, dims = [1] : (tensor<6xf32>) -> tensor<1x6xf32>
    %30 = stablehlo.broadcast_in_dim %29, dims = [0, 1] : (tensor<1x6xf32>) -> tensor<4x6xf32>
    %31 = stablehlo.multiply %26, %30 : tensor<4x6xf32>
    %cst_6 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %32 = stablehlo.reduce(%31 init: %cst_6) applies stablehlo.add across dimensions = [0, 1] : (tensor<4x6xf32>, tensor<f32>) -> tensor<f32>
    %33 = stablehlo.add %15, %32 : tensor<f32>
    %c_7 = stablehlo.constant dense<0> : tensor<i32>
    %34 = stablehlo.broadcast_in_dim %c_7, dims = [] : (tensor<i32>) -> tensor<4xi32>
    %35 = stablehlo.compare LT, %arg5, %34, SIGNED : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi1>
    %c_8 = stablehlo.constant dense<6> : tensor<i32>
    %36 = stablehlo.broadcast_in_dim %c_8, dims = [] : (tensor<i32>) -> tensor<4xi32>
    %37 = stablehlo.add %arg5, %36 : tensor<4xi32>
    %38 = stablehlo.select %35, %37, %arg5 : tensor<4xi1>, tensor<4xi32>
    %39 = stablehlo.broadcast_in_dim %38, dims = [0] : (tensor<4xi32>) -> tensor<4x1xi32>
    %40 = "stablehlo.gather"(%arg0, %39) <{dimension_numbers = #stablehlo.gather<offset_dims = [0, 2], collapsed_slice_dims = [1], start_index_map = [1], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 4, 1, 3>}> : (tensor<4x6x3xf32>, tensor<4x1xi32>) -> tensor<4x4x3xf32>
    %41 = stablehlo.sine %40 : tensor<4x4x3xf32>
    %cst_9 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %42 = stablehlo.reduce(%41 init: %cst_9) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<4x4x3xf32>, tensor<f32>) -> tensor<f32>
    %cst_10 = stablehlo.constant dense<4.800000e+01> : tensor<f32>
    %43 = stablehlo.divide %42, %cst_10 : tensor<f32>
    %44 = stablehlo.add %33, %43 : tensor<f32>
    %c_11 = stablehlo.constant dense<0> : tensor<i32>
    %45 = stablehlo.broadcast_in_dim %c_11, dims = [] : (tensor<i32>) -> tensor<4x2xi32>
    %46 = stablehlo.compare LT, %arg6, %45, SIGNED : (tensor<4x2xi32>, tensor<4x2xi32>) -> tensor<4x2xi1>
    %c_12 = stablehlo.constant dense<7> : tensor<i32>
    %47 = stablehlo.broadcast_in_dim %c_12, dims = [] : (tensor<i32>) -> tensor<4x2xi32>
    %48 = stablehlo.add %arg6, %47 : tensor<4x2xi32>
    %49 = stablehlo.select %46, %48, %arg6 : tensor<4x2xi1>, tensor<4x2xi32>
    %50 = stablehlo.broadcast_in_dim %49, dims = [0, 1] : (tensor<4x2xi32>) -> tensor<4x2x1xi32>
    %51 = "stablehlo.gather"(%arg1, %50) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 5>}> : (tensor<7x5xf32>, tensor<4x2x1xi32>) -> tensor<4x2x5xf32>
    %52 = stablehlo.reverse %arg6, dims = [1] : tensor<4x2xi32>
    %c_13 = stablehlo.constant dense<0> : tensor<i32>
    %53 = stablehlo.broadcast_in_dim %c_13, dims = [] : (tensor<i32>) -> tensor<4x2xi32>
    %54 = stablehlo.compare LT, %52, %53, SIGNED : (tensor<4x2xi32>, tensor<4x2xi32>) -> tensor<4x2xi1>
    %c_14 = stablehlo.constant dense<7> : tensor<i32>
    %55 = stablehlo.broadcast_in_dim %c_14, dims = [] : (tensor<i32>) -> tensor<4x2xi32>
    %56 = stablehlo.add %52, %55 : tensor<4x2xi32>
    %57 = stablehlo.select %54, %56, %52 : tensor<4x2xi1>, tensor<4x2xi32>
    %58 = stablehlo.broadcast_in_dim %57, dims = [0, 1] : (tensor<4x2xi32>) -> tensor<4x2x1xi32>
    %59 = "stablehlo.gather"(%arg1, %58) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 5>}> : (tensor<7x5xf32>, tensor<4x2x1xi32>) -> tensor<4x2x5xf32>
    %60 = stablehlo.multiply %51, %59 : tensor<4x2x5xf32>
    %cst_15 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %61 = stablehlo.reduce(%60 init: %cst_15) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<4x2x5xf32>, tensor<f32>) -> tensor<f32>
    %cst_16 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %62 = stablehlo.multiply %61, %cst_16 : tensor<f32>
    %63 = stablehlo.add %44, %62 : tensor<f32>
    %c_17 = stablehlo.constant dense<3> : tensor<i32>
    %64 = stablehlo.broadcast_in_dim %c_17, dims = [] : (tensor<i32>) -> tensor<4x2xi32>
    %65 = stablehlo.subtract %arg6, %64 : tensor<4x2xi32>
    %66 = call @_take(%arg1, %65) : (tensor<7x5xf32>, tensor<4x2xi32>) -> tensor<4x2x5xf32>
    %cst_18 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %67 = stablehlo.reduce(%66 init: %cst_18) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<4x2x5xf32>, tensor<f32>) -> tensor<f32>
    %68 = stablehlo.add %63, %67 : tensor<f32>
    %c_19 = stablehlo.constant dense<2> : tensor<i32>
    %69 = stablehlo.broadcast_in_dim %c_19, dims = [] : (tensor<i32>) -> tensor<4x2xi32>
    %70 = stablehlo.multiply %arg6, %69 : tensor<4x2xi32>
    %71 = call @_take_0(%arg2, %70) : (tensor<9xf32>, tensor<4x2xi32>) -> tensor<4x2xf32>
    %cst_20 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %72 = stablehlo.reduce(%71 init: %cst_20) applies stablehlo.add across dimensions = [0, 1] : (tensor<4x2xf32>, tensor<f32>) -> tensor<f32>
    %cst_21 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %73 = stablehlo.multiply %72, %cst_21 : tensor<f32>
    %74 = stablehlo.add %68, %73 : tensor<f32>
    %75 = call @dynamic_index_in_dim(%arg2, %arg3) : (tensor<9xf32>, tensor<i32>) -> tensor<f32>
    %76 = stablehlo.multiply %75, %75 : tensor<f32>
    %77 = stablehlo.add %74, %76 : tensor<f32>
    %c_22 = stablehlo.constant dense<1> : tensor<i32>
    %78 = stablehlo.broadcast_in_dim %c_22, dims = [] : (tensor<i32>) -> tensor<1xi32>
    %cst_23 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %79 = stablehlo.broadcast_in_dim %cst_23, dims = [] : (tensor<f32>) -> tensor<2xf32>
    %80 = "stablehlo.scatter"(%arg2, %78, %79) <{indices_are_sorted = true, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0], scatter_dims_to_operand_dims = [0]>, unique_indices = true}> ({
    ^bb0(%arg7: tensor<f32>, %arg8: tensor<f32>):
      %131 = stablehlo.multiply %arg7, %arg8 : tensor<f32>
      stablehlo.return %131 : tensor<f32>
    }) : (tensor<9xf32>, tensor<1xi32>, tensor<2xf32>) -> tensor<9xf32>
    %c_24 = stablehlo.constant dense<8> : tensor<i32>
    %81 = stablehlo.broadcast_in_dim %c_24, dims = [] : (tensor<i32>) -> tensor<1xi32>
    %cst_25 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %82 = "stablehlo.scatter"(%80, %81, %cst_25) <{indices_are_sorted = true, scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0]>, unique_indices = true}> ({
    ^bb0(%arg7: tensor<f32>, %arg8: tensor<f32>):
      stablehlo.return %arg8 : tensor<f32>
    }) : (tensor<9xf32>, tensor<1xi32>, tensor<f32>) -> tensor<9xf32>
    %83 = stablehlo.multiply %82, %82 : tensor<9xf32>
    %84 = stablehlo.multiply %83, %82 : tensor<9xf32>
    %cst_26 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %85 = stablehlo.reduce(%84 init: %cst_26) applies stablehlo.add across dimensions = [0] : (tensor<9xf32>, tensor<f32>) -> tensor<f32>
    %86 = stablehlo.add %77, %85 : tensor<f32>
    %87 = stablehlo.slice %arg2 [0:1] : (tensor<9xf32>) -> tensor<1xf32>
    %cst_27 = stablehlo.constant dense<3.000000e+00> : tensor<f32>
    %88 = stablehlo.broadcast_in_dim %cst_27, dims = [] : (tensor<f32>) -> tensor<1xf32>
    %89 = stablehlo.multiply %87, %88 : tensor<1xf32>
    %c_28 = stablehlo.constant dense<0> : tensor<i32>
    %90 = stablehlo.compare LT, %arg3, %c_28, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_29 = stablehlo.constant dense<9> : tensor<i32>
    %91 = stablehlo.add %arg3, %c_29 : tensor<i32>
    %92 = stablehlo.select %90, %91, %arg3 : tensor<i1>, tensor<i32>
    %93 = stablehlo.dynamic_update_slice %arg2, %89, %92 : (tensor<9xf32>, tensor<1xf32>, tensor<i32>) -> tensor<9xf32>
    %94 = stablehlo.multiply %93, %93 : tensor<9xf32>
    %cst_30 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %95 = stablehlo.reduce(%94 init: %cst_30) applies stablehlo.add across dimensions = [0] : (tensor<9xf32>, tensor<f32>) -> tensor<f32>
    %96 = stablehlo.add %86, %95 : tensor<f32>
    %cst_31 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %97 = stablehlo.broadcast_in_dim %cst_31, dims = [] : (tensor<f32>) -> tensor<4x6xf32>
    %c_32 = stablehlo.constant dense<0> : tensor<i32>
    %98 = stablehlo.broadcast_in_dim %c_32, dims = [] : (tensor<i32>) -> tensor<4xi32>
    %99 = stablehlo.compare LT, %arg4, %98, SIGNED : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi1>
    %c_33 = stablehlo.constant dense<4> : tensor<i32>
    %100 = stablehlo.broadcast_in_dim %c_33, dims = [] : (tensor<i32>) -> tensor<4xi32>
    %101 = stablehlo.add %arg4, %100 : tensor<4xi32>
    %102 = stablehlo.select %99, %101, %arg4 : tensor<4xi1>, tensor<4xi32>
    %c_34 = stablehlo.constant dense<0> : tensor<i32>
    %103 = stablehlo.broadcast_in_dim %c_34, dims = [] : (tensor<i32>) -> tensor<4xi32>
    %104 = stablehlo.compare LT, %arg5, %103, SIGNED : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi1>
    %c_35 = stablehlo.constant dense<6> : tensor<i32>
    %105 = stablehlo.broadcast_in_dim %c_35, dims = [] : (tensor<i32>) -> tensor<4xi32>
    %106 = stablehlo.add %arg5, %105 : tensor<4xi32>
    %107 = stablehlo.select %104, %106, %arg5 : tensor<4xi1>, tensor<4xi32>
    %108 = stablehlo.broadcast_in_dim %102, dims = [0] : (tensor<4xi32>) -> tensor<4x1xi32>
    %109 = stablehlo.broadcast_in_dim %107, dims = [0] : (tensor<4xi32>) -> tensor<4x1xi32>
    %110 = stablehlo.concatenate %108, %109, dim = 1 : (tensor<4x1xi32>, tensor<4x1xi32>) -> tensor<4x2xi32>
    %cst_36 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %111 = stablehlo.broadcast_in_dim %cst_36, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %112 = "stablehlo.scatter"(%97, %110, %111) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 1>, unique_indices = false}> ({
    ^bb0(%arg7: tensor<f32>, %arg8: tensor<f32>):
      %131 = stablehlo.add %arg7, %arg8 : tensor<f32>
      stablehlo.return %131 : tensor<f32>
    }) : (tensor<4x6xf32>, tensor<4x2xi32>, tensor<4xf32>) -> tensor<4x6xf32>
    %113 = stablehlo.slice %arg0 [0:4, 0:6, 2:3] : (tensor<4x6x3xf32>) -> tensor<4x6x1xf32>
    %114 = stablehlo.reshape %113 : (tensor<4x6x1xf32>) -> tensor<4x6xf32>
    %115 = stablehlo.multiply %112, %114 : tensor<4x6xf32>
    %cst_37 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %116 = stablehlo.reduce(%115 init: %cst_37) applies stablehlo.add across dimensions = [0, 1] : (tensor<4x6xf32>, tensor<f32>) -> tensor<f32>
    %117 = stablehlo.add %96, %116 : tensor<f32>
    %118 = call @_roll_static(%arg1) : (tensor<7x5xf32>) -> tensor<7x5xf32>
    %119 = stablehlo.slice %118 [0:7:2, 0:5] : (tensor<7x5xf32>) -> tensor<4x5xf32>
    %120 = call @_flip(%arg1) : (tensor<7x5xf32>) -> tensor<7x5xf32>
    %121 = stablehlo.slice %120 [1:7:2, 0:5] : (tensor<7x5xf32>) -> tensor<3x5xf32>
    %cst_38 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %122 = stablehlo.reduce(%121 init: %cst_38) applies stablehlo.add across dimensions = [0, 1] : (tensor<3x5xf32>, tensor<f32>) -> tensor<f32>
    %123 = stablehlo.broadcast_in_dim %122, dims = [] : (tensor<f32>) -> tensor<4x5xf32>
    %124 = stablehlo.multiply %119, %123 : tensor<4x5xf32>
    %cst_39 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %125 = stablehlo.reduce(%124 init: %cst_39) applies stablehlo.add across dimensions = [0, 1] : (tensor<4x5xf32>, tensor<f32>) -> tensor<f32>
    %cst_40 = stablehlo.constant dense<2.000000e+01> : tensor<f32>
    %126 = stablehlo.divide %125, %cst_40 : tensor<f32>
    %127 = stablehlo.add %117, %126 : tensor<f32>
    %cst_41 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %128 = stablehlo.pad %arg2, %cst_41, low = [2], high = [-1], interior = [1] : (tensor<9xf32>, tensor<f32>) -> tensor<18xf32>
    %c_42 = stablehlo.constant dense<0> : tensor<i32>
    %129 = call @_std(%128, %c_42) : (tensor<18xf32>, tensor<i32>) -> tensor<f32>
    %130 = stablehlo.add %127, %129 : tensor<f32>
    return %130 : tensor<f32>
  }
  func.func private @_take(%arg0: tensor<7x5xf32>, %arg1: tensor<4x2xi32>) -> tensor<4x2x5xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [0, 1] : (tensor<4x2xi32>) -> tensor<4x2x1xi32>
    %1 = "stablehlo.gather"(%arg0, %0) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 5>}> : (tensor<7x5xf32>, tensor<4x2x1xi32>) -> tensor<4x2x5xf32>
    return %1 : tensor<4x2x5xf32>
  }
  func.func private @_take_0(%arg0: tensor<9xf32>, %arg1: tensor<4x2xi32>) -> tensor<4x2xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<4x2xi32>
    %1 = stablehlo.compare LT, %arg1, %0, SIGNED : (tensor<4x2xi32>, tensor<4x2xi32>) -> tensor<4x2xi1>
    %c_0 = stablehlo.constant dense<9> : tensor<i32>
    %2 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<4x2xi32>
    %3 = stablehlo.add %arg1, %2 : tensor<4x2xi32>
    %4 = call @_where(%1, %3, %arg1) : (tensor<4x2xi1>, tensor<4x2xi32>, tensor<4x2xi32>) -> tensor<4x2xi32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0, 1] : (tensor<4x2xi32>) -> tensor<4x2x1xi32>
    %c_1 = stablehlo.constant dense<8> : tensor<1xi32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %6 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<i32>) -> tensor<4x2x1xi32>
    %7 = stablehlo.compare GE, %5, %6, SIGNED : (tensor<4x2x1xi32>, tensor<4x2x1xi32>) -> tensor<4x2x1xi1>
    %8 = stablehlo.broadcast_in_dim %c_1, dims = [2] : (tensor<1xi32>) -> tensor<1x1x1xi32>
    %9 = stablehlo.broadcast_in_dim %8, dims = [0, 1, 2] : (tensor<1x1x1xi32>) -> tensor<4x2x1xi32>
    %10 = stablehlo.compare LE, %5, %9, SIGNED : (tensor<4x2x1xi32>, tensor<4x2x1xi32>) -> tensor<4x2x1xi1>
    %11 = stablehlo.and %7, %10 : tensor<4x2x1xi1>
    %c_3 = stablehlo.constant dense<true> : tensor<i1>
    %12 = stablehlo.reduce(%11 init: %c_3) applies stablehlo.and across dimensions = [2] : (tensor<4x2x1xi1>, tensor<i1>) -> tensor<4x2xi1>
    %13 = "stablehlo.gather"(%arg0, %5) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1>}> : (tensor<9xf32>, tensor<4x2x1xi32>) -> tensor<4x2xf32>
    %cst = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %14 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<4x2xf32>
    %15 = stablehlo.select %12, %13, %14 : tensor<4x2xi1>, tensor<4x2xf32>
    return %15 : tensor<4x2xf32>
  }
  func.func private @_where(%arg0: tensor<4x2xi1>, %arg1: tensor<4x2xi32>, %arg2: tensor<4x2xi32>) -> tensor<4x2xi32> {
    %0 = stablehlo.select %arg0, %arg1, %arg2 : tensor<4x2xi1>, tensor<4x2xi32>
    return %0 : tensor<4x2xi32>
  }
  func.func private @dynamic_index_in_dim(%arg0: tensor<9xf32>, %arg1: tensor<i32>) -> tensor<f32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.compare LT, %arg1, %c, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_0 = stablehlo.constant dense<9> : tensor<i32>
    %1 = stablehlo.add %arg1, %c_0 : tensor<i32>
    %2 = stablehlo.select %0, %1, %arg1 : tensor<i1>, tensor<i32>
    %3 = stablehlo.dynamic_slice %arg0, %2, sizes = [1] : (tensor<9xf32>, tensor<i32>) -> tensor<1xf32>
    %4 = stablehlo.reshape %3 : (tensor<1xf32>) -> tensor<f32>
    return %4 : tensor<f32>
  }
  func.func private @_roll_static(%arg0: tensor<7x5xf32>) -> tensor<7x5xf32> {
    %0 = stablehlo.slice %arg0 [0:7, 3:5] : (tensor<7x5xf32>) -> tensor<7x2xf32>
    %1 = stablehlo.slice %arg0 [0:7, 0:3] : (tensor<7x5xf32>) -> tensor<7x3xf32>
    %2 = stablehlo.concatenate %0, %1, dim = 1 : (tensor<7x2xf32>, tensor<7x3xf32>) -> tensor<7x5xf32>
    return %2 : tensor<7x5xf32>
  }
  func.func private @_flip(%arg0: tensor<7x5xf32>) -> tensor<7x5xf32> {
    %0 = stablehlo.reverse %arg0, dims = [0] : tensor<7x5xf32>
    return %0 : tensor<7x5xf32>
  }
  func.func private @_std(%arg0: tensor<18xf32>, %arg1: tensor<i32>) -> tensor<f32> {
    %0 = call @_var(%arg0, %arg1) : (tensor<18xf32>, tensor<i32>) -> tensor<f32>
    %1 = stablehlo.sqrt %0 : tensor<f32>
    return %1 : tensor<f32>
  }
  func.func private @_var(%arg0: tensor<18xf32>, %arg1: tensor<i32>) -> tensor<f32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.reduce(%arg0 init: %cst) applies stablehlo.add across dimensions = [0] : (tensor<18xf32>, tensor<f32>) -> tensor<f32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<1xf32>
    %cst_0 = stablehlo.constant dense<1.800000e+01> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<1xf32>
    %3 = stablehlo.divide %1, %2 : tensor<1xf32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0] : (tensor<1xf32>) -> tensor<18xf32>
    %5 = stablehlo.subtract %arg0, %4 : tensor<18xf32>
    %6 = chlo.square %5 : tensor<18xf32> -> tensor<18xf32>
    %7 = stablehlo.convert %arg1 : (tensor<i32>) -> tensor<f32>
    %cst_1 = stablehlo.constant dense<1.800000e+01> : tensor<f32>
    %8 = stablehlo.subtract %cst_1, %7 : tensor<f32>
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %9 = stablehlo.reduce(%6 init: %cst_2) applies stablehlo.add across dimensions = [0] : (tensor<18xf32>, tensor<f32>) -> tensor<f32>
    %10 = stablehlo.divide %9, %8 : tensor<f32>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %11 = stablehlo.compare GT, %8, %cst_3, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %cst_4 = stablehlo.constant dense<0x7FC00000> : tensor<f32>
    %12 = call @_where_1(%11, %10, %cst_4) : (tensor<i1>, tensor<f32>, tensor<f32>) -> tensor<f32>
    return %12 : tensor<f32>
  }
  func.func private @_where_1(%arg0: tensor<i1>, %arg1: tensor<f32>, %arg2: tensor<f32>) -> tensor<f32> {
    %0 = stablehlo.convert %arg2 : tensor<f32>
    %1 = stablehlo.select %arg0, %arg1, %0 : tensor<i1>, tensor<f32>
    return %1 : tensor<f32>
  }
}
