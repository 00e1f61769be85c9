"builtin.module"() <{sym_name = "jit_polygammas"}> ({
  "func.func"() <{arg_attrs = [{}], function_type = (tensor<3x130xf32>) -> (tensor<3x130xf32>, tensor<3x130xf32>, tensor<3x130xf32>), res_attrs = [{jax.result_info = "result[0]"}, {jax.result_info = "result[1]"}, {jax.result_info = "result[2]"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg0: tensor<3x130xf32>):
    %0 = "stablehlo.constant"() <{value = dense<1.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %1 = "stablehlo.broadcast_in_dim"(%0) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<3x130xf32>
    %2 = "chlo.polygamma"(%1, %arg0) : (tensor<3x130xf32>, tensor<3x130xf32>) -> tensor<3x130xf32>
    %3 = "stablehlo.constant"() <{value = dense<1.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %4 = "stablehlo.broadcast_in_dim"(%3) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<3x130xf32>
    %5 = "stablehlo.add"(%arg0, %4) : (tensor<3x130xf32>, tensor<3x130xf32>) -> tensor<3x130xf32>
    %6 = "stablehlo.constant"() <{value = dense<3.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %7 = "stablehlo.broadcast_in_dim"(%6) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<3x130xf32>
    %8 = "chlo.polygamma"(%7, %5) : (tensor<3x130xf32>, tensor<3x130xf32>) -> tensor<3x130xf32>
    %9 = "stablehlo.constant"() <{value = dense<1.500000e+00> : tensor<f32>}> : () -> tensor<f32>
    %10 = "stablehlo.broadcast_in_dim"(%9) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<3x130xf32>
    %11 = "stablehlo.add"(%arg0, %10) : (tensor<3x130xf32>, tensor<3x130xf32>) -> tensor<3x130xf32>
    %12 = "chlo.zeta"(%11, %arg0) : (tensor<3x130xf32>, tensor<3x130xf32>) -> tensor<3x130xf32>
    "func.return"(%2, %8, %12) : (tensor<3x130xf32>, tensor<3x130xf32>, tensor<3x130xf32>) -> ()
  }) : () -> ()
}) {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
