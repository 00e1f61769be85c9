"builtin.module"() <{sym_name = "jit_products"}> ({
  "func.func"() <{arg_attrs = [{}, {}, {}], function_type = (tensor<4x8x16xf32>, tensor<4x16x8xf32>, tensor<8x8xf32>) -> (tensor<4x8x8xf32>, tensor<4x8x8xf32>, tensor<8x8xf32>), res_attrs = [{jax.result_info = "result[0]"}, {jax.result_info = "result[1]"}, {jax.result_info = "result[2]"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg3: tensor<4x8x16xf32>, %arg4: tensor<4x16x8xf32>, %arg5: tensor<8x8xf32>):
    %6 = "stablehlo.dot_general"(%arg3, %arg4) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [1]>, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]}> : (tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> tensor<4x8x8xf32>
    %7 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %8 = "stablehlo.constant"() <{value = dense<1.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %9 = "func.call"(%6, %7, %8) <{callee = @clip}> : (tensor<4x8x8xf32>, tensor<f32>, tensor<f32>) -> tensor<4x8x8xf32>
    %10 = "stablehlo.reduce_precision"(%arg5) <{exponent_bits = 5 : i32, mantissa_bits = 10 : i32}> : (tensor<8x8xf32>) -> tensor<8x8xf32>
    "func.return"(%6, %9, %10) : (tensor<4x8x8xf32>, tensor<4x8x8xf32>, tensor<8x8xf32>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{}, {}, {}], function_type = (tensor<4x8x8xf32>, tensor<f32>, tensor<f32>) -> tensor<4x8x8xf32>, res_attrs = [{}], sym_name = "clip", sym_visibility = "private"}> ({
  ^bb0(%arg0: tensor<4x8x8xf32>, %arg1: tensor<f32>, %arg2: tensor<f32>):
    %0 = "stablehlo.convert"(%arg1) : (tensor<f32>) -> tensor<f32>
    %1 = "stablehlo.broadcast_in_dim"(%0) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<4x8x8xf32>
    %2 = "stablehlo.maximum"(%1, %arg0) : (tensor<4x8x8xf32>, tensor<4x8x8xf32>) -> tensor<4x8x8xf32>
    %3 = "stablehlo.convert"(%arg2) : (tensor<f32>) -> tensor<f32>
    %4 = "stablehlo.broadcast_in_dim"(%3) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<4x8x8xf32>
    %5 = "stablehlo.minimum"(%4, %2) : (tensor<4x8x8xf32>, tensor<4x8x8xf32>) -> tensor<4x8x8xf32>
    "func.return"(%5) : (tensor<4x8x8xf32>) -> ()
  }) : () -> ()
}) {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
