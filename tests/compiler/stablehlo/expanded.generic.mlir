"builtin.module"() <{sym_name = "jit_expanded"}> ({
  "func.func"() <{arg_attrs = [{}, {}], function_type = (tensor<4x12xf32>, tensor<8x8xf32>) -> (tensor<4x3xf32>, tensor<4x3xi32>, tensor<8x8xf32>, tensor<8x8xf32>), res_attrs = [{jax.result_info = "result[0][0]"}, {jax.result_info = "result[0][1]"}, {jax.result_info = "result[1]"}, {jax.result_info = "result[2]"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg0: tensor<4x12xf32>, %arg1: tensor<8x8xf32>):
    %0:2 = "chlo.top_k"(%arg0) <{k = 3 : i64}> : (tensor<4x12xf32>) -> (tensor<4x3xf32>, tensor<4x3xi32>)
    %1 = "stablehlo.cholesky"(%arg1) <{lower = true}> : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %2 = "stablehlo.iota"() <{iota_dimension = 0 : i64}> : () -> tensor<8x8xi32>
    %3 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %4 = "stablehlo.broadcast_in_dim"(%3) <{broadcast_dimensions = array<i64>}> : (tensor<i32>) -> tensor<8x8xi32>
    %5 = "stablehlo.add"(%2, %4) : (tensor<8x8xi32>, tensor<8x8xi32>) -> tensor<8x8xi32>
    %6 = "stablehlo.iota"() <{iota_dimension = 1 : i64}> : () -> tensor<8x8xi32>
    %7 = "stablehlo.compare"(%5, %6) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction GE>}> : (tensor<8x8xi32>, tensor<8x8xi32>) -> tensor<8x8xi1>
    %8 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %9 = "stablehlo.broadcast_in_dim"(%8) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<8x8xf32>
    %10 = "stablehlo.select"(%7, %1, %9) : (tensor<8x8xi1>, tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %11 = "stablehlo.triangular_solve"(%arg1, %arg1) <{left_side = false, lower = true, transpose_a = #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = false}> : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    "func.return"(%0#0, %0#1, %10, %11) : (tensor<4x3xf32>, tensor<4x3xi32>, tensor<8x8xf32>, tensor<8x8xf32>) -> ()
  }) : () -> ()
}) {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
