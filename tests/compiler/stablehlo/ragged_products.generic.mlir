"builtin.module"() <{sym_name = "jit_ragged_products"}> ({
  "func.func"() <{arg_attrs = [{}, {}, {}, {}, {}], function_type = (tensor<12x8xf32>, tensor<3x8x6xf32>, tensor<3xi32>, tensor<3x130xi32>, tensor<3x130xi32>) -> (tensor<12x8xf32>, tensor<3x8x6xf32>, tensor<3x130xi32>), res_attrs = [{jax.result_info = "result[0][0]"}, {jax.result_info = "result[0][1]"}, {jax.result_info = "result[1]"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg0: tensor<12x8xf32>, %arg1: tensor<3x8x6xf32>, %arg2: tensor<3xi32>, %arg3: tensor<3x130xi32>, %arg4: tensor<3x130xi32>):
    %0 = "chlo.ragged_dot"(%arg0, %arg1, %arg2) <{precision_config = [#chlo<precision DEFAULT>, #chlo<precision DEFAULT>], ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>}> : (tensor<12x8xf32>, tensor<3x8x6xf32>, tensor<3xi32>) -> tensor<12x6xf32>
    %1 = "stablehlo.constant"() <{value = dense<2.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %2 = "stablehlo.broadcast_in_dim"(%1) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<12x6xf32>
    %3 = "stablehlo.multiply"(%2, %0) : (tensor<12x6xf32>, tensor<12x6xf32>) -> tensor<12x6xf32>
    %4 = "stablehlo.constant"() <{value = dense<1.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %5 = "stablehlo.broadcast_in_dim"(%4) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<12x6xf32>
    %6 = "stablehlo.multiply"(%5, %3) : (tensor<12x6xf32>, tensor<12x6xf32>) -> tensor<12x6xf32>
    %7 = "chlo.ragged_dot"(%arg0, %6, %arg2) <{precision_config = [#chlo<precision DEFAULT>, #chlo<precision DEFAULT>], ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_contracting_dimensions = [0], rhs_contracting_dimensions = [0], lhs_ragged_dimensions = [0]>}> : (tensor<12x8xf32>, tensor<12x6xf32>, tensor<3xi32>) -> tensor<3x8x6xf32>
    %8 = "chlo.ragged_dot"(%6, %arg1, %arg2) <{precision_config = [#chlo<precision DEFAULT>, #chlo<precision DEFAULT>], ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [2], lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>}> : (tensor<12x6xf32>, tensor<3x8x6xf32>, tensor<3xi32>) -> tensor<12x8xf32>
    %9 = "chlo.mulhi"(%arg3, %arg4) : (tensor<3x130xi32>, tensor<3x130xi32>) -> tensor<3x130xi32>
    "func.return"(%8, %7, %9) : (tensor<12x8xf32>, tensor<3x8x6xf32>, tensor<3x130xi32>) -> ()
  }) : () -> ()
}) {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
