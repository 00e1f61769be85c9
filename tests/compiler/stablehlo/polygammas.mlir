module @jit_polygammas attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<3x130xf32>) -> (tensor<3x130xf32> {jax.result_info = "result[0]"}, tensor<3x130xf32> {jax.result_info = "result[1]"}, tensor<3x130xf32> {jax.result_info = "result[2]"}) {
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<3x130xf32>
    %1 = chlo.polygamma %0, %arg0 : tensor<3x130xf32>, tensor<3x130xf32> -> tensor<3x130xf32>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<3x130xf32>
    %3 = stablehlo.add %arg0, %2 : tensor<3x130xf32>
    %cst_1 = stablehlo.constant dense<3.000000e+00> : tensor<f32>
    %4 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<3x130xf32>
    %5 = chlo.polygamma %4, %3 : tensor<3x130xf32>, tensor<3x130xf32> -> tensor<3x130xf32>
    %cst_2 = stablehlo.constant dense<1.500000e+00> : tensor<f32>
    %6 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<3x130xf32>
    %7 = stablehlo.add %arg0, %6 : tensor<3x130xf32>
    %8 = chlo.zeta %7, %arg0 : tensor<3x130xf32>, tensor<3x130xf32> -> tensor<3x130xf32>
    return %1, %5, %8 : tensor<3x130xf32>, tensor<3x130xf32>, tensor<3x130xf32>
  }
}
