"builtin.module"() <{sym_name = "jit_branches_and_loops"}> ({
  "func.func"() <{arg_attrs = [{}, {}, {}], function_type = (tensor<5x7xf32>, tensor<i32>, tensor<7xf32>) -> (tensor<f32>, tensor<5xf32>), res_attrs = [{jax.result_info = "result[0]"}, {jax.result_info = "result[1]"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg5: tensor<5x7xf32>, %arg6: tensor<i32>, %arg7: tensor<7xf32>):
    %19 = "stablehlo.constant"() <{value = dense<2> : tensor<i32>}> : () -> tensor<i32>
    %20 = "stablehlo.compare"(%arg6, %19) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction GT>}> : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %21 = "stablehlo.convert"(%20) : (tensor<i1>) -> tensor<i32>
    %22 = "stablehlo.case"(%21) ({
      %58 = "stablehlo.convert"(%arg6) : (tensor<i32>) -> tensor<f32>
      %59 = "stablehlo.broadcast_in_dim"(%58) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<5x7xf32>
      %60 = "stablehlo.add"(%arg5, %59) : (tensor<5x7xf32>, tensor<5x7xf32>) -> tensor<5x7xf32>
      "stablehlo.return"(%60) : (tensor<5x7xf32>) -> ()
    }, {
      %55 = "stablehlo.broadcast_in_dim"(%arg7) <{broadcast_dimensions = array<i64: 1>}> : (tensor<7xf32>) -> tensor<1x7xf32>
      %56 = "stablehlo.broadcast_in_dim"(%55) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<1x7xf32>) -> tensor<5x7xf32>
      %57 = "stablehlo.multiply"(%arg5, %56) : (tensor<5x7xf32>, tensor<5x7xf32>) -> tensor<5x7xf32>
      "stablehlo.return"(%57) : (tensor<5x7xf32>) -> ()
    }) : (tensor<i32>) -> tensor<5x7xf32>
    %23 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %24 = "stablehlo.constant"() <{value = dense<2> : tensor<i32>}> : () -> tensor<i32>
    %25 = "stablehlo.clamp"(%23, %arg6, %24) : (tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<i32>
    %26 = "stablehlo.case"(%25) ({
      "stablehlo.return"(%22) : (tensor<5x7xf32>) -> ()
    }, {
      %52 = "stablehlo.broadcast_in_dim"(%arg7) <{broadcast_dimensions = array<i64: 1>}> : (tensor<7xf32>) -> tensor<1x7xf32>
      %53 = "stablehlo.broadcast_in_dim"(%52) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<1x7xf32>) -> tensor<5x7xf32>
      %54 = "stablehlo.subtract"(%22, %53) : (tensor<5x7xf32>, tensor<5x7xf32>) -> tensor<5x7xf32>
      "stablehlo.return"(%54) : (tensor<5x7xf32>) -> ()
    }, {
      %51 = "stablehlo.sine"(%22) : (tensor<5x7xf32>) -> tensor<5x7xf32>
      "stablehlo.return"(%51) : (tensor<5x7xf32>) -> ()
    }) : (tensor<i32>) -> tensor<5x7xf32>
    %27 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %28 = "stablehlo.constant"() <{value = dense<1.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %29:3 = "stablehlo.while"(%26, %27, %28) ({
    ^bb0(%arg21: tensor<5x7xf32>, %arg22: tensor<i32>, %arg23: tensor<f32>):
      %49 = "stablehlo.constant"() <{value = dense<3> : tensor<i32>}> : () -> tensor<i32>
      %50 = "stablehlo.compare"(%arg22, %49) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<i32>, tensor<i32>) -> tensor<i1>
      "stablehlo.return"(%50) : (tensor<i1>) -> ()
    }, {
    ^bb0(%arg16: tensor<5x7xf32>, %arg17: tensor<i32>, %arg18: tensor<f32>):
      %40 = "stablehlo.constant"() <{value = dense<1> : tensor<i32>}> : () -> tensor<i32>
      %41 = "stablehlo.add"(%arg17, %40) : (tensor<i32>, tensor<i32>) -> tensor<i32>
      %42 = "stablehlo.constant"() <{value = dense<5.000000e-01> : tensor<f32>}> : () -> tensor<f32>
      %43 = "stablehlo.multiply"(%arg18, %42) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      %44 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
      %45 = "stablehlo.reduce"(%arg16, %44) <{dimensions = array<i64: 0, 1>}> ({
      ^bb0(%arg19: tensor<f32>, %arg20: tensor<f32>):
        %48 = "stablehlo.add"(%arg19, %arg20) : (tensor<f32>, tensor<f32>) -> tensor<f32>
        "stablehlo.return"(%48) : (tensor<f32>) -> ()
      }) : (tensor<5x7xf32>, tensor<f32>) -> tensor<f32>
      %46 = "stablehlo.convert"(%43) : (tensor<f32>) -> tensor<f32>
      %47 = "stablehlo.add"(%46, %45) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%arg16, %41, %47) : (tensor<5x7xf32>, tensor<i32>, tensor<f32>) -> ()
    }) : (tensor<5x7xf32>, tensor<i32>, tensor<f32>) -> (tensor<5x7xf32>, tensor<i32>, tensor<f32>)
    %30 = "stablehlo.slice"(%26) <{limit_indices = array<i64: 5, 1>, start_indices = array<i64: 0, 0>, strides = array<i64: 1, 1>}> : (tensor<5x7xf32>) -> tensor<5x1xf32>
    %31 = "stablehlo.reshape"(%30) : (tensor<5x1xf32>) -> tensor<5xf32>
    %32 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %33 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %34:4 = "stablehlo.while"(%arg7, %33, %32, %31) ({
    ^bb0(%arg12: tensor<7xf32>, %arg13: tensor<i32>, %arg14: tensor<i32>, %arg15: tensor<5xf32>):
      %38 = "stablehlo.constant"() <{value = dense<4> : tensor<i32>}> : () -> tensor<i32>
      %39 = "stablehlo.compare"(%arg13, %38) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<i32>, tensor<i32>) -> tensor<i1>
      "stablehlo.return"(%39) : (tensor<i1>) -> ()
    }, {
    ^bb0(%arg8: tensor<7xf32>, %arg9: tensor<i32>, %arg10: tensor<i32>, %arg11: tensor<5xf32>):
      %35:2 = "func.call"(%arg8, %arg10, %arg11) <{callee = @closed_call}> : (tensor<7xf32>, tensor<i32>, tensor<5xf32>) -> (tensor<i32>, tensor<5xf32>)
      %36 = "stablehlo.constant"() <{value = dense<1> : tensor<i32>}> : () -> tensor<i32>
      %37 = "stablehlo.add"(%arg9, %36) : (tensor<i32>, tensor<i32>) -> tensor<i32>
      "stablehlo.return"(%arg8, %37, %35#0, %35#1) : (tensor<7xf32>, tensor<i32>, tensor<i32>, tensor<5xf32>) -> ()
    }) : (tensor<7xf32>, tensor<i32>, tensor<i32>, tensor<5xf32>) -> (tensor<7xf32>, tensor<i32>, tensor<i32>, tensor<5xf32>)
    "func.return"(%29#2, %34#3) : (tensor<f32>, tensor<5xf32>) -> ()
  }) : () -> ()
  "func.func"() <{function_type = (tensor<7xf32>, tensor<i32>, tensor<5xf32>) -> (tensor<i32>, tensor<5xf32>), res_attrs = [{}, {}], sym_name = "closed_call", sym_visibility = "private"}> ({
  ^bb0(%arg0: tensor<7xf32>, %arg1: tensor<i32>, %arg2: tensor<5xf32>):
    %0 = "stablehlo.constant"() <{value = dense<1> : tensor<i32>}> : () -> tensor<i32>
    %1 = "stablehlo.add"(%arg1, %0) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    %2 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %3 = "stablehlo.compare"(%arg1, %2) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %4 = "stablehlo.convert"(%arg1) : (tensor<i32>) -> tensor<i32>
    %5 = "stablehlo.constant"() <{value = dense<7> : tensor<i32>}> : () -> tensor<i32>
    %6 = "stablehlo.add"(%4, %5) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    %7 = "stablehlo.select"(%3, %6, %arg1) : (tensor<i1>, tensor<i32>, tensor<i32>) -> tensor<i32>
    %8 = "stablehlo.dynamic_slice"(%arg0, %7) <{slice_sizes = array<i64: 1>}> : (tensor<7xf32>, tensor<i32>) -> tensor<1xf32>
    %9 = "stablehlo.reshape"(%8) : (tensor<1xf32>) -> tensor<f32>
    %10 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %11 = "stablehlo.compare"(%arg1, %10) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %12 = "stablehlo.constant"() <{value = dense<5> : tensor<i32>}> : () -> tensor<i32>
    %13 = "stablehlo.add"(%arg1, %12) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    %14 = "stablehlo.select"(%11, %13, %arg1) : (tensor<i1>, tensor<i32>, tensor<i32>) -> tensor<i32>
    %15 = "stablehlo.convert"(%14) : (tensor<i32>) -> tensor<i32>
    %16 = "stablehlo.broadcast_in_dim"(%15) <{broadcast_dimensions = array<i64>}> : (tensor<i32>) -> tensor<1xi32>
    %17 = "stablehlo.scatter"(%arg2, %16, %9) <{indices_are_sorted = true, scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0]>, unique_indices = true}> ({
    ^bb0(%arg3: tensor<f32>, %arg4: tensor<f32>):
      %18 = "stablehlo.add"(%arg3, %arg4) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%18) : (tensor<f32>) -> ()
    }) : (tensor<5xf32>, tensor<1xi32>, tensor<f32>) -> tensor<5xf32>
    "func.return"(%1, %17) : (tensor<i32>, tensor<5xf32>) -> ()
  }) : () -> ()
}) {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
