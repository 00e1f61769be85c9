"builtin.module"() <{sym_name = "jit_sharded_step"}> ({
  "sdy.mesh"() <{mesh = #sdy.mesh<["data"=4, "model"=2]>, sym_name = "mesh"}> {stablehlo.mesh = {axes = [{name = "data", size = 4 : i64}, {name = "model", size = 2 : i64}]}} : () -> ()
  "func.func"() <{arg_attrs = [{sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>}, {sdy.sharding = #sdy.sharding<@mesh, [{"model"}, {}]>}, {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}], function_type = (tensor<16x32xf32>, tensor<32x8xf32>, tensor<32x16xf32>, tensor<32x8xf32>) -> (tensor<16x32xf32>, tensor<32x8xf32>, tensor<f32>), res_attrs = [{jax.result_info = "result[0]"}, {jax.result_info = "result[1]"}, {jax.result_info = "result[2]"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg0: tensor<16x32xf32>, %arg1: tensor<32x8xf32>, %arg2: tensor<32x16xf32>, %arg3: tensor<32x8xf32>):
    %0 = "stablehlo.dot_general"(%arg2, %arg0) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]}> : (tensor<32x16xf32>, tensor<16x32xf32>) -> tensor<32x32xf32>
    %1 = "stablehlo.tanh"(%0) : (tensor<32x32xf32>) -> tensor<32x32xf32>
    %2 = "stablehlo.constant"() <{value = dense<1.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %3 = "stablehlo.broadcast_in_dim"(%2) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<32x32xf32>
    %4 = "stablehlo.subtract"(%3, %1) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %5 = "sdy.sharding_constraint"(%1) <{sharding = #sdy.sharding<@mesh, [{"data"}, {"model"}]>}> : (tensor<32x32xf32>) -> tensor<32x32xf32>
    %6 = "stablehlo.dot_general"(%5, %arg1) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]}> : (tensor<32x32xf32>, tensor<32x8xf32>) -> tensor<32x8xf32>
    %7 = "stablehlo.subtract"(%6, %arg3) : (tensor<32x8xf32>, tensor<32x8xf32>) -> tensor<32x8xf32>
    %8 = "stablehlo.multiply"(%7, %7) : (tensor<32x8xf32>, tensor<32x8xf32>) -> tensor<32x8xf32>
    %9 = "stablehlo.constant"() <{value = dense<2.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %10 = "stablehlo.broadcast_in_dim"(%9) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<32x8xf32>
    %11 = "stablehlo.multiply"(%10, %7) : (tensor<32x8xf32>, tensor<32x8xf32>) -> tensor<32x8xf32>
    %12 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %13 = "stablehlo.reduce"(%8, %12) <{dimensions = array<i64: 0, 1>}> ({
    ^bb0(%arg4: tensor<f32>, %arg5: tensor<f32>):
      %38 = "stablehlo.add"(%arg4, %arg5) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%38) : (tensor<f32>) -> ()
    }) : (tensor<32x8xf32>, tensor<f32>) -> tensor<f32>
    %14 = "stablehlo.constant"() <{value = dense<2.560000e+02> : tensor<f32>}> : () -> tensor<f32>
    %15 = "stablehlo.divide"(%13, %14) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %16 = "stablehlo.constant"() <{value = dense<1.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %17 = "stablehlo.constant"() <{value = dense<2.560000e+02> : tensor<f32>}> : () -> tensor<f32>
    %18 = "stablehlo.divide"(%16, %17) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %19 = "stablehlo.broadcast_in_dim"(%18) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<32x8xf32>
    %20 = "stablehlo.multiply"(%19, %11) : (tensor<32x8xf32>, tensor<32x8xf32>) -> tensor<32x8xf32>
    %21 = "stablehlo.dot_general"(%20, %5) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [0], rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]}> : (tensor<32x8xf32>, tensor<32x32xf32>) -> tensor<8x32xf32>
    %22 = "stablehlo.transpose"(%21) <{permutation = array<i64: 1, 0>}> : (tensor<8x32xf32>) -> tensor<32x8xf32>
    %23 = "stablehlo.dot_general"(%20, %arg1) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1]>, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]}> : (tensor<32x8xf32>, tensor<32x8xf32>) -> tensor<32x32xf32>
    %24 = "sdy.sharding_constraint"(%23) <{sharding = #sdy.sharding<@mesh, [{"data"}, {"model"}]>}> : (tensor<32x32xf32>) -> tensor<32x32xf32>
    %25 = "stablehlo.multiply"(%24, %4) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %26 = "stablehlo.multiply"(%25, %1) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %27 = "stablehlo.add"(%25, %26) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %28 = "stablehlo.dot_general"(%27, %arg2) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [0], rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]}> : (tensor<32x32xf32>, tensor<32x16xf32>) -> tensor<32x16xf32>
    %29 = "stablehlo.transpose"(%28) <{permutation = array<i64: 1, 0>}> : (tensor<32x16xf32>) -> tensor<16x32xf32>
    %30 = "stablehlo.constant"() <{value = dense<1.000000e-01> : tensor<f32>}> : () -> tensor<f32>
    %31 = "stablehlo.broadcast_in_dim"(%30) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<16x32xf32>
    %32 = "stablehlo.multiply"(%31, %29) : (tensor<16x32xf32>, tensor<16x32xf32>) -> tensor<16x32xf32>
    %33 = "stablehlo.subtract"(%arg0, %32) : (tensor<16x32xf32>, tensor<16x32xf32>) -> tensor<16x32xf32>
    %34 = "stablehlo.constant"() <{value = dense<1.000000e-01> : tensor<f32>}> : () -> tensor<f32>
    %35 = "stablehlo.broadcast_in_dim"(%34) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<32x8xf32>
    %36 = "stablehlo.multiply"(%35, %22) : (tensor<32x8xf32>, tensor<32x8xf32>) -> tensor<32x8xf32>
    %37 = "stablehlo.subtract"(%arg1, %36) : (tensor<32x8xf32>, tensor<32x8xf32>) -> tensor<32x8xf32>
    "func.return"(%33, %37, %15) : (tensor<16x32xf32>, tensor<32x8xf32>, tensor<f32>) -> ()
  }) : () -> ()
}) {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
