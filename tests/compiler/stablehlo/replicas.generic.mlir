"builtin.module"() <{sym_name = "jit__fun"}> ({
  "sdy.mesh"() <{mesh = #sdy.mesh<["i"=8]>, sym_name = "mesh"}> {stablehlo.mesh = {axes = [{name = "i", size = 8 : i64}]}} : () -> ()
  "func.func"() <{arg_attrs = [{sdy.sharding = #sdy.sharding<@mesh, [{"i"}, {}, {}]>}], function_type = (tensor<8x16x24xf32>) -> tensor<8x16x16xf32>, res_attrs = [{jax.result_info = "result", sdy.sharding = #sdy.sharding<@mesh, [{"i"}, {}, {}]>}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg0: tensor<8x16x24xf32>):
    %0 = "sdy.manual_computation"(%arg0) <{in_shardings = #sdy.sharding_per_value<[<@mesh, [{"i"}, {}, {}]>]>, manual_axes = #sdy<manual_axes{"i"}>, out_shardings = #sdy.sharding_per_value<[<@mesh, [{"i"}, {}, {}]>]>}> ({
    ^bb0(%arg1: tensor<1x16x24xf32>):
      %1 = "stablehlo.reshape"(%arg1) : (tensor<1x16x24xf32>) -> tensor<16x24xf32>
      %2 = "stablehlo.transpose"(%1) <{permutation = array<i64: 1, 0>}> : (tensor<16x24xf32>) -> tensor<24x16xf32>
      %3 = "stablehlo.dot_general"(%1, %2) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]}> : (tensor<16x24xf32>, tensor<24x16xf32>) -> tensor<16x16xf32>
      %4 = "stablehlo.all_reduce"(%3) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>, use_global_device_ids}> ({
      ^bb0(%arg2: tensor<f32>, %arg3: tensor<f32>):
        %9 = "stablehlo.add"(%arg2, %arg3) : (tensor<f32>, tensor<f32>) -> tensor<f32>
        "stablehlo.return"(%9) : (tensor<f32>) -> ()
      }) : (tensor<16x16xf32>) -> tensor<16x16xf32>
      %5 = "stablehlo.constant"() <{value = dense<8.000000e+00> : tensor<f32>}> : () -> tensor<f32>
      %6 = "stablehlo.broadcast_in_dim"(%5) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<16x16xf32>
      %7 = "stablehlo.divide"(%4, %6) : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
      %8 = "stablehlo.broadcast_in_dim"(%7) <{broadcast_dimensions = array<i64: 1, 2>}> : (tensor<16x16xf32>) -> tensor<1x16x16xf32>
      "sdy.return"(%8) : (tensor<1x16x16xf32>) -> ()
    }) : (tensor<8x16x24xf32>) -> tensor<8x16x16xf32>
    "func.return"(%0) : (tensor<8x16x16xf32>) -> ()
  }) : () -> ()
}) {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
