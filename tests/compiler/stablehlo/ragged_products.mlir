module @jit_ragged_products attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<12x8xf32>, %arg1: tensor<3x8x6xf32>, %arg2: tensor<3xi32>, %arg3: tensor<3x130xi32>, %arg4: tensor<3x130xi32>) -> (tensor<12x8xf32> {jax.result_info = "result[0][0]"}, tensor<3x8x6xf32> {jax.result_info = "result[0][1]"}, tensor<3x130xi32> {jax.result_info = "result[1]"}) {
    %0 = "chlo.ragged_dot"(%arg0, %arg1, %arg2) <{precision_config = [#chlo<precision DEFAULT>, #chlo<precision DEFAULT>], ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>}> : (tensor<12x8xf32>, tensor<3x8x6xf32>, tensor<3xi32>) -> tensor<12x6xf32>
    %cst = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<12x6xf32>
    %2 = stablehlo.multiply %1, %0 : tensor<12x6xf32>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %3 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<12x6xf32>
    %4 = stablehlo.multiply %3, %2 : tensor<12x6xf32>
    %5 = "chlo.ragged_dot"(%arg0, %4, %arg2) <{precision_config = [#chlo<precision DEFAULT>, #chlo<precision DEFAULT>], ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_contracting_dimensions = [0], rhs_contracting_dimensions = [0], lhs_ragged_dimensions = [0]>}> : (tensor<12x8xf32>, tensor<12x6xf32>, tensor<3xi32>) -> tensor<3x8x6xf32>
    %6 = "chlo.ragged_dot"(%4, %arg1, %arg2) <{precision_config = [#chlo<precision DEFAULT>, #chlo<precision DEFAULT>], ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [2], lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>}> : (tensor<12x6xf32>, tensor<3x8x6xf32>, tensor<3xi32>) -> tensor<12x8xf32>
    %7 = chlo.mulhi %arg3, %arg4 : tensor<3x130xi32>, tensor<3x130xi32> -> tensor<3x130xi32>
    return %6, %5, %7 : tensor<12x8xf32>, tensor<3x8x6xf32>, tensor<3x130xi32>
  }
}
