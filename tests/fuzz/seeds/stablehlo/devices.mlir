module @jit_f attributes {mhlo.num_partitions = 8 : i32} {
  sdy.mesh @maximal_mesh_0 = <[], device_ids=[0]>
  sdy.mesh @mesh = <["data"=4, "model"=2]> {stablehlo.mesh = {axes = []}}
  sdy.mesh @line = <["x"=8]> loc("a.py":1:2)
  func.func public @main(%arg0: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> (tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>}) {
    %0 = sdy.sharding_constraint %arg0 <@mesh, [{"data", "model"}, {}]> : tensor<8x4xf32> loc("b.py":3:4)
    %1:2 = sdy.manual_computation(%0, %arg0) in_shardings=[<@mesh, [{"data"}, {}]>, <@mesh, [{}, {}]>] out_shardings=[<@mesh, [{"data"}, {}]>, <@mesh, []>] manual_axes={"data", "model"} (%arg1: tensor<2x4xf32>, %arg2: tensor<8x4xf32>) {
      %cst = stablehlo.constant dense<0.0> : tensor<f32>
      %2 = stablehlo.reduce(%arg2 init: %cst) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x4xf32>, tensor<f32>) -> tensor<f32>
      %3 = "stablehlo.collective_permute"(%arg1) <{channel_handle = #stablehlo.channel_handle<handle = 7, type = 1>, source_target_pairs = dense<[[0, 2], [2, 0]]> : tensor<2x2xi64>}> : (tensor<2x4xf32>) -> tensor<2x4xf32>
      %4 = "stablehlo.all_gather"(%3) <{all_gather_dim = 1 : i64, replica_groups = dense<[[0, 1, 2], [3, -1, -1]]> : tensor<2x3xi64>, use_global_device_ids}> : (tensor<2x4xf32>) -> tensor<2x4xf32>
      sdy.return %4, %2 : tensor<2x4xf32>, tensor<f32>
    } : (tensor<8x4xf32>, tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<f32>)
    return %1#0 : tensor<8x4xf32>
  }
}
