"builtin.module"() <{sym_name = "jit_functions_of_chlo"}> ({
  "func.func"() <{arg_attrs = [{}, {}], function_type = (tensor<3x130xf32>, tensor<3x130xf32>) -> (tensor<3x130xf32>, tensor<3x130xf32>, tensor<3x130xf32>, tensor<3x130xf32>, tensor<3x130xf32>, tensor<3x130xf32>, tensor<3x130xf32>, tensor<3x130xbf16>), res_attrs = [{jax.result_info = "result[0]"}, {jax.result_info = "result[1]"}, {jax.result_info = "result[2]"}, {jax.result_info = "result[3]"}, {jax.result_info = "result[4]"}, {jax.result_info = "result[5]"}, {jax.result_info = "result[6]"}, {jax.result_info = "result[7]"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg0: tensor<3x130xf32>, %arg1: tensor<3x130xf32>):
    %0 = "chlo.erf"(%arg0) : (tensor<3x130xf32>) -> tensor<3x130xf32>
    %1 = "chlo.erfc"(%arg0) : (tensor<3x130xf32>) -> tensor<3x130xf32>
    %2 = "chlo.lgamma"(%arg1) : (tensor<3x130xf32>) -> tensor<3x130xf32>
    %3 = "stablehlo.constant"() <{value = dense<9.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %4 = "stablehlo.broadcast_in_dim"(%3) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<3x130xf32>
    %5 = "stablehlo.divide"(%arg0, %4) : (tensor<3x130xf32>, tensor<3x130xf32>) -> tensor<3x130xf32>
    %6 = "chlo.asin"(%5) : (tensor<3x130xf32>) -> tensor<3x130xf32>
    %7 = "chlo.sinh"(%arg0) : (tensor<3x130xf32>) -> tensor<3x130xf32>
    %8 = "chlo.square"(%arg0) : (tensor<3x130xf32>) -> tensor<3x130xf32>
    %9 = "chlo.next_after"(%arg0, %arg1) : (tensor<3x130xf32>, tensor<3x130xf32>) -> tensor<3x130xf32>
    %10 = "stablehlo.convert"(%arg0) : (tensor<3x130xf32>) -> tensor<3x130xbf16>
    %11 = "stablehlo.multiply"(%10, %10) : (tensor<3x130xbf16>, tensor<3x130xbf16>) -> tensor<3x130xbf16>
    %12 = "stablehlo.multiply"(%11, %10) : (tensor<3x130xbf16>, tensor<3x130xbf16>) -> tensor<3x130xbf16>
    %13 = "stablehlo.constant"() <{value = dense<4.467770e-02> : tensor<bf16>}> : () -> tensor<bf16>
    %14 = "stablehlo.broadcast_in_dim"(%13) <{broadcast_dimensions = array<i64>}> : (tensor<bf16>) -> tensor<3x130xbf16>
    %15 = "stablehlo.multiply"(%14, %12) : (tensor<3x130xbf16>, tensor<3x130xbf16>) -> tensor<3x130xbf16>
    %16 = "stablehlo.add"(%10, %15) : (tensor<3x130xbf16>, tensor<3x130xbf16>) -> tensor<3x130xbf16>
    %17 = "stablehlo.constant"() <{value = dense<7.968750e-01> : tensor<bf16>}> : () -> tensor<bf16>
    %18 = "stablehlo.broadcast_in_dim"(%17) <{broadcast_dimensions = array<i64>}> : (tensor<bf16>) -> tensor<3x130xbf16>
    %19 = "stablehlo.multiply"(%18, %16) : (tensor<3x130xbf16>, tensor<3x130xbf16>) -> tensor<3x130xbf16>
    %20 = "stablehlo.tanh"(%19) : (tensor<3x130xbf16>) -> tensor<3x130xbf16>
    %21 = "stablehlo.constant"() <{value = dense<1.000000e+00> : tensor<bf16>}> : () -> tensor<bf16>
    %22 = "stablehlo.broadcast_in_dim"(%21) <{broadcast_dimensions = array<i64>}> : (tensor<bf16>) -> tensor<3x130xbf16>
    %23 = "stablehlo.add"(%22, %20) : (tensor<3x130xbf16>, tensor<3x130xbf16>) -> tensor<3x130xbf16>
    %24 = "stablehlo.constant"() <{value = dense<5.000000e-01> : tensor<bf16>}> : () -> tensor<bf16>
    %25 = "stablehlo.broadcast_in_dim"(%24) <{broadcast_dimensions = array<i64>}> : (tensor<bf16>) -> tensor<3x130xbf16>
    %26 = "stablehlo.multiply"(%25, %23) : (tensor<3x130xbf16>, tensor<3x130xbf16>) -> tensor<3x130xbf16>
    %27 = "stablehlo.multiply"(%10, %26) : (tensor<3x130xbf16>, tensor<3x130xbf16>) -> tensor<3x130xbf16>
    "func.return"(%0, %1, %2, %6, %7, %8, %9, %27) : (tensor<3x130xf32>, tensor<3x130xf32>, tensor<3x130xf32>, tensor<3x130xf32>, tensor<3x130xf32>, tensor<3x130xf32>, tensor<3x130xf32>, tensor<3x130xbf16>) -> ()
  }) : () -> ()
}) {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
