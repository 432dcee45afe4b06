"builtin.module"() <{sym_name = "jit_loss"}> ({
  "func.func"() <{arg_attrs = [{}, {}, {}, {}, {}], function_type = (tensor<4x6x5xf32>, tensor<5x4xf32>, tensor<4x5x6xf32>, tensor<i32>, tensor<6x5xf32>) -> tensor<f32>, res_attrs = [{jax.result_info = "result"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg8: tensor<4x6x5xf32>, %arg9: tensor<5x4xf32>, %arg10: tensor<4x5x6xf32>, %arg11: tensor<i32>, %arg12: tensor<6x5xf32>):
    %38 = "stablehlo.dot_general"(%arg12, %arg10) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1]>, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]}> : (tensor<6x5xf32>, tensor<4x5x6xf32>) -> tensor<6x4x6xf32>
    %39 = "stablehlo.tanh"(%38) : (tensor<6x4x6xf32>) -> tensor<6x4x6xf32>
    %40 = "stablehlo.dot_general"(%39, %arg8) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [1], rhs_batching_dimensions = [0], lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [1]>, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]}> : (tensor<6x4x6xf32>, tensor<4x6x5xf32>) -> tensor<4x6x5xf32>
    %41 = "stablehlo.dot_general"(%arg12, %arg9) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]}> : (tensor<6x5xf32>, tensor<5x4xf32>) -> tensor<6x4xf32>
    %42:2 = "chlo.top_k"(%41) <{k = 2 : i64}> : (tensor<6x4xf32>) -> (tensor<6x2xf32>, tensor<6x2xi32>)
    %43 = "stablehlo.constant"() <{value = dense<0xFF800000> : tensor<f32>}> : () -> tensor<f32>
    %44 = "stablehlo.reduce"(%42#0, %43) <{dimensions = array<i64: 1>}> ({
    ^bb0(%arg27: tensor<f32>, %arg28: tensor<f32>):
      %115 = "stablehlo.maximum"(%arg27, %arg28) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%115) : (tensor<f32>) -> ()
    }) : (tensor<6x2xf32>, tensor<f32>) -> tensor<6xf32>
    %45 = "stablehlo.constant"() <{value = dense<0xFF800000> : tensor<f32>}> : () -> tensor<f32>
    %46 = "stablehlo.broadcast_in_dim"(%45) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<6xf32>
    %47 = "stablehlo.maximum"(%46, %44) : (tensor<6xf32>, tensor<6xf32>) -> tensor<6xf32>
    %48 = "stablehlo.broadcast_in_dim"(%47) <{broadcast_dimensions = array<i64: 0>}> : (tensor<6xf32>) -> tensor<6x1xf32>
    %49 = "stablehlo.broadcast_in_dim"(%48) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<6x1xf32>) -> tensor<6x2xf32>
    %50 = "stablehlo.subtract"(%42#0, %49) : (tensor<6x2xf32>, tensor<6x2xf32>) -> tensor<6x2xf32>
    %51 = "stablehlo.exponential"(%50) : (tensor<6x2xf32>) -> tensor<6x2xf32>
    %52 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %53 = "stablehlo.reduce"(%51, %52) <{dimensions = array<i64: 1>}> ({
    ^bb0(%arg25: tensor<f32>, %arg26: tensor<f32>):
      %114 = "stablehlo.add"(%arg25, %arg26) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%114) : (tensor<f32>) -> ()
    }) : (tensor<6x2xf32>, tensor<f32>) -> tensor<6xf32>
    %54 = "stablehlo.broadcast_in_dim"(%53) <{broadcast_dimensions = array<i64: 0>}> : (tensor<6xf32>) -> tensor<6x1xf32>
    %55 = "stablehlo.broadcast_in_dim"(%54) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<6x1xf32>) -> tensor<6x2xf32>
    %56 = "stablehlo.divide"(%51, %55) : (tensor<6x2xf32>, tensor<6x2xf32>) -> tensor<6x2xf32>
    %57 = "stablehlo.transpose"(%40) <{permutation = array<i64: 1, 0, 2>}> : (tensor<4x6x5xf32>) -> tensor<6x4x5xf32>
    %58 = "stablehlo.broadcast_in_dim"(%42#1) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<6x2xi32>) -> tensor<6x2x1xi32>
    %59 = "func.call"(%57, %58) <{callee = @take_along_axis}> : (tensor<6x4x5xf32>, tensor<6x2x1xi32>) -> tensor<6x2x5xf32>
    %60 = "stablehlo.broadcast_in_dim"(%56) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<6x2xf32>) -> tensor<6x2x1xf32>
    %61 = "stablehlo.broadcast_in_dim"(%60) <{broadcast_dimensions = array<i64: 0, 1, 2>}> : (tensor<6x2x1xf32>) -> tensor<6x2x5xf32>
    %62 = "stablehlo.multiply"(%59, %61) : (tensor<6x2x5xf32>, tensor<6x2x5xf32>) -> tensor<6x2x5xf32>
    %63 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %64 = "stablehlo.reduce"(%62, %63) <{dimensions = array<i64: 1>}> ({
    ^bb0(%arg23: tensor<f32>, %arg24: tensor<f32>):
      %113 = "stablehlo.add"(%arg23, %arg24) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%113) : (tensor<f32>) -> ()
    }) : (tensor<6x2x5xf32>, tensor<f32>) -> tensor<6x5xf32>
    %65 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %66 = "stablehlo.constant"() <{value = dense<2> : tensor<i32>}> : () -> tensor<i32>
    %67 = "stablehlo.clamp"(%65, %arg11, %66) : (tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<i32>
    %68 = "stablehlo.case"(%67) ({
      %110 = "stablehlo.constant"() <{value = dense<2.000000e+00> : tensor<f32>}> : () -> tensor<f32>
      %111 = "stablehlo.broadcast_in_dim"(%110) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<6x5xf32>
      %112 = "stablehlo.multiply"(%64, %111) : (tensor<6x5xf32>, tensor<6x5xf32>) -> tensor<6x5xf32>
      "stablehlo.return"(%112) : (tensor<6x5xf32>) -> ()
    }, {
      %107 = "stablehlo.constant"() <{value = dense<1.000000e+00> : tensor<f32>}> : () -> tensor<f32>
      %108 = "stablehlo.broadcast_in_dim"(%107) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<6x5xf32>
      %109 = "stablehlo.add"(%64, %108) : (tensor<6x5xf32>, tensor<6x5xf32>) -> tensor<6x5xf32>
      "stablehlo.return"(%109) : (tensor<6x5xf32>) -> ()
    }, {
      %106 = "stablehlo.multiply"(%64, %64) : (tensor<6x5xf32>, tensor<6x5xf32>) -> tensor<6x5xf32>
      "stablehlo.return"(%106) : (tensor<6x5xf32>) -> ()
    }) : (tensor<i32>) -> tensor<6x5xf32>
    %69 = "stablehlo.tanh"(%68) : (tensor<6x5xf32>) -> tensor<6x5xf32>
    %70 = "stablehlo.constant"() <{value = dense<1.000000e-01> : tensor<f32>}> : () -> tensor<f32>
    %71 = "stablehlo.broadcast_in_dim"(%70) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<6x5xf32>
    %72 = "stablehlo.multiply"(%71, %69) : (tensor<6x5xf32>, tensor<6x5xf32>) -> tensor<6x5xf32>
    %73 = "stablehlo.constant"() <{value = dense<1.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %74 = "stablehlo.broadcast_in_dim"(%73) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<6x5xf32>
    %75 = "stablehlo.add"(%74, %72) : (tensor<6x5xf32>, tensor<6x5xf32>) -> tensor<6x5xf32>
    %76 = "stablehlo.constant"() <{value = dense<1.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %77 = "stablehlo.reduce"(%75, %76) <{dimensions = array<i64: 1>}> ({
    ^bb0(%arg21: tensor<f32>, %arg22: tensor<f32>):
      %105 = "stablehlo.multiply"(%arg21, %arg22) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%105) : (tensor<f32>) -> ()
    }) : (tensor<6x5xf32>, tensor<f32>) -> tensor<6xf32>
    %78 = "stablehlo.constant"() <{value = dense<0x7F800000> : tensor<f32>}> : () -> tensor<f32>
    %79 = "stablehlo.reduce"(%68, %78) <{dimensions = array<i64: 1>}> ({
    ^bb0(%arg19: tensor<f32>, %arg20: tensor<f32>):
      %104 = "stablehlo.minimum"(%arg19, %arg20) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%104) : (tensor<f32>) -> ()
    }) : (tensor<6x5xf32>, tensor<f32>) -> tensor<6xf32>
    %80 = "stablehlo.add"(%77, %79) : (tensor<6xf32>, tensor<6xf32>) -> tensor<6xf32>
    %81 = "stablehlo.constant"() <{value = dense<1.500000e+00> : tensor<f32>}> : () -> tensor<f32>
    %82 = "stablehlo.broadcast_in_dim"(%81) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<6x5xf32>
    %83 = "stablehlo.compare"(%68, %82) <{compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction GT>}> : (tensor<6x5xf32>, tensor<6x5xf32>) -> tensor<6x5xi1>
    %84 = "stablehlo.constant"() <{value = dense<false> : tensor<i1>}> : () -> tensor<i1>
    %85 = "stablehlo.reduce"(%83, %84) <{dimensions = array<i64: 1>}> ({
    ^bb0(%arg17: tensor<i1>, %arg18: tensor<i1>):
      %103 = "stablehlo.or"(%arg17, %arg18) : (tensor<i1>, tensor<i1>) -> tensor<i1>
      "stablehlo.return"(%103) : (tensor<i1>) -> ()
    }) : (tensor<6x5xi1>, tensor<i1>) -> tensor<6xi1>
    %86 = "func.call"(%68) <{callee = @softplus}> : (tensor<6x5xf32>) -> tensor<6x5xf32>
    %87 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %88 = "stablehlo.reduce"(%86, %87) <{dimensions = array<i64: 1>}> ({
    ^bb0(%arg15: tensor<f32>, %arg16: tensor<f32>):
      %102 = "stablehlo.add"(%arg15, %arg16) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%102) : (tensor<f32>) -> ()
    }) : (tensor<6x5xf32>, tensor<f32>) -> tensor<6xf32>
    %89 = "func.call"(%85, %80, %88) <{callee = @_where}> : (tensor<6xi1>, tensor<6xf32>, tensor<6xf32>) -> tensor<6xf32>
    %90 = "stablehlo.slice"(%68) <{limit_indices = array<i64: 6, 1>, start_indices = array<i64: 0, 0>, strides = array<i64: 1, 1>}> : (tensor<6x5xf32>) -> tensor<6x1xf32>
    %91 = "stablehlo.reshape"(%90) : (tensor<6x1xf32>) -> tensor<6xf32>
    %92 = "stablehlo.constant"() <{value = dense<1.000000e-01> : tensor<f32>}> : () -> tensor<f32>
    %93 = "stablehlo.broadcast_in_dim"(%92) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<6xf32>
    %94 = "stablehlo.multiply"(%93, %91) : (tensor<6xf32>, tensor<6xf32>) -> tensor<6xf32>
    %95 = "stablehlo.exponential_minus_one"(%94) : (tensor<6xf32>) -> tensor<6xf32>
    %96 = "stablehlo.add"(%89, %95) : (tensor<6xf32>, tensor<6xf32>) -> tensor<6xf32>
    %97 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %98 = "stablehlo.reduce"(%96, %97) <{dimensions = array<i64: 0>}> ({
    ^bb0(%arg13: tensor<f32>, %arg14: tensor<f32>):
      %101 = "stablehlo.add"(%arg13, %arg14) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%101) : (tensor<f32>) -> ()
    }) : (tensor<6xf32>, tensor<f32>) -> tensor<f32>
    %99 = "stablehlo.constant"() <{value = dense<6.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %100 = "stablehlo.divide"(%98, %99) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "func.return"(%100) : (tensor<f32>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{}, {}], function_type = (tensor<6x4x5xf32>, tensor<6x2x1xi32>) -> tensor<6x2x5xf32>, res_attrs = [{}], sym_name = "take_along_axis", sym_visibility = "private"}> ({
  ^bb0(%arg4: tensor<6x4x5xf32>, %arg5: tensor<6x2x1xi32>):
    %15 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %16 = "stablehlo.broadcast_in_dim"(%15) <{broadcast_dimensions = array<i64>}> : (tensor<i32>) -> tensor<6x2x1xi32>
    %17 = "stablehlo.compare"(%arg5, %16) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<6x2x1xi32>, tensor<6x2x1xi32>) -> tensor<6x2x1xi1>
    %18 = "stablehlo.constant"() <{value = dense<4> : tensor<i32>}> : () -> tensor<i32>
    %19 = "stablehlo.broadcast_in_dim"(%18) <{broadcast_dimensions = array<i64>}> : (tensor<i32>) -> tensor<6x2x1xi32>
    %20 = "stablehlo.add"(%arg5, %19) : (tensor<6x2x1xi32>, tensor<6x2x1xi32>) -> tensor<6x2x1xi32>
    %21 = "stablehlo.select"(%17, %20, %arg5) : (tensor<6x2x1xi1>, tensor<6x2x1xi32>, tensor<6x2x1xi32>) -> tensor<6x2x1xi32>
    %22 = "stablehlo.constant"() <{value = dense<3> : tensor<1xi32>}> : () -> tensor<1xi32>
    %23 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %24 = "stablehlo.broadcast_in_dim"(%23) <{broadcast_dimensions = array<i64>}> : (tensor<i32>) -> tensor<6x2x1xi32>
    %25 = "stablehlo.compare"(%21, %24) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction GE>}> : (tensor<6x2x1xi32>, tensor<6x2x1xi32>) -> tensor<6x2x1xi1>
    %26 = "stablehlo.broadcast_in_dim"(%22) <{broadcast_dimensions = array<i64: 2>}> : (tensor<1xi32>) -> tensor<1x1x1xi32>
    %27 = "stablehlo.broadcast_in_dim"(%26) <{broadcast_dimensions = array<i64: 0, 1, 2>}> : (tensor<1x1x1xi32>) -> tensor<6x2x1xi32>
    %28 = "stablehlo.compare"(%21, %27) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction LE>}> : (tensor<6x2x1xi32>, tensor<6x2x1xi32>) -> tensor<6x2x1xi1>
    %29 = "stablehlo.and"(%25, %28) : (tensor<6x2x1xi1>, tensor<6x2x1xi1>) -> tensor<6x2x1xi1>
    %30 = "stablehlo.constant"() <{value = dense<true> : tensor<i1>}> : () -> tensor<i1>
    %31 = "stablehlo.reduce"(%29, %30) <{dimensions = array<i64: 2>}> ({
    ^bb0(%arg6: tensor<i1>, %arg7: tensor<i1>):
      %37 = "stablehlo.and"(%arg6, %arg7) : (tensor<i1>, tensor<i1>) -> tensor<i1>
      "stablehlo.return"(%37) : (tensor<i1>) -> ()
    }) : (tensor<6x2x1xi1>, tensor<i1>) -> tensor<6x2xi1>
    %32 = "stablehlo.gather"(%arg4, %21) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1, 5>}> : (tensor<6x4x5xf32>, tensor<6x2x1xi32>) -> tensor<6x2x5xf32>
    %33 = "stablehlo.broadcast_in_dim"(%31) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<6x2xi1>) -> tensor<6x2x5xi1>
    %34 = "stablehlo.constant"() <{value = dense<0x7FC00000> : tensor<f32>}> : () -> tensor<f32>
    %35 = "stablehlo.broadcast_in_dim"(%34) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<6x2x5xf32>
    %36 = "stablehlo.select"(%33, %32, %35) : (tensor<6x2x5xi1>, tensor<6x2x5xf32>, tensor<6x2x5xf32>) -> tensor<6x2x5xf32>
    "func.return"(%36) : (tensor<6x2x5xf32>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{}], function_type = (tensor<6x5xf32>) -> tensor<6x5xf32>, res_attrs = [{}], sym_name = "softplus", sym_visibility = "private"}> ({
  ^bb0(%arg3: tensor<6x5xf32>):
    %1 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %2 = "stablehlo.broadcast_in_dim"(%1) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<6x5xf32>
    %3 = "stablehlo.maximum"(%arg3, %2) : (tensor<6x5xf32>, tensor<6x5xf32>) -> tensor<6x5xf32>
    %4 = "stablehlo.broadcast_in_dim"(%1) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<6x5xf32>
    %5 = "stablehlo.subtract"(%arg3, %4) : (tensor<6x5xf32>, tensor<6x5xf32>) -> tensor<6x5xf32>
    %6 = "stablehlo.compare"(%5, %5) <{compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction NE>}> : (tensor<6x5xf32>, tensor<6x5xf32>) -> tensor<6x5xi1>
    %7 = "stablehlo.broadcast_in_dim"(%1) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<6x5xf32>
    %8 = "stablehlo.add"(%arg3, %7) : (tensor<6x5xf32>, tensor<6x5xf32>) -> tensor<6x5xf32>
    %9 = "stablehlo.abs"(%5) : (tensor<6x5xf32>) -> tensor<6x5xf32>
    %10 = "stablehlo.negate"(%9) : (tensor<6x5xf32>) -> tensor<6x5xf32>
    %11 = "stablehlo.exponential"(%10) : (tensor<6x5xf32>) -> tensor<6x5xf32>
    %12 = "stablehlo.log_plus_one"(%11) : (tensor<6x5xf32>) -> tensor<6x5xf32>
    %13 = "stablehlo.add"(%3, %12) : (tensor<6x5xf32>, tensor<6x5xf32>) -> tensor<6x5xf32>
    %14 = "stablehlo.select"(%6, %8, %13) : (tensor<6x5xi1>, tensor<6x5xf32>, tensor<6x5xf32>) -> tensor<6x5xf32>
    "func.return"(%14) : (tensor<6x5xf32>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{}, {}, {}], function_type = (tensor<6xi1>, tensor<6xf32>, tensor<6xf32>) -> tensor<6xf32>, res_attrs = [{}], sym_name = "_where", sym_visibility = "private"}> ({
  ^bb0(%arg0: tensor<6xi1>, %arg1: tensor<6xf32>, %arg2: tensor<6xf32>):
    %0 = "stablehlo.select"(%arg0, %arg1, %arg2) : (tensor<6xi1>, tensor<6xf32>, tensor<6xf32>) -> tensor<6xf32>
    "func.return"(%0) : (tensor<6xf32>) -> ()
  }) : () -> ()
}) {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
