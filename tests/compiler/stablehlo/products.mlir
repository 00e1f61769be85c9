module @jit_products attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4x8x16xf32>, %arg1: tensor<4x16x8xf32>, %arg2: tensor<8x8xf32>) -> (tensor<4x8x8xf32> {jax.result_info = "result[0]"}, tensor<4x8x8xf32> {jax.result_info = "result[1]"}, tensor<8x8xf32> {jax.result_info = "result[2]"}) {
    %0 = stablehlo.dot_general %arg0, %arg1, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [HIGHEST, HIGHEST] : (tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> tensor<4x8x8xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %1 = call @clip(%0, %cst, %cst_0) : (tensor<4x8x8xf32>, tensor<f32>, tensor<f32>) -> tensor<4x8x8xf32>
    %2 = stablehlo.reduce_precision %arg2, format = e5m10 : tensor<8x8xf32>
    return %0, %1, %2 : tensor<4x8x8xf32>, tensor<4x8x8xf32>, tensor<8x8xf32>
  }
  func.func private @clip(%arg0: tensor<4x8x8xf32>, %arg1: tensor<f32>, %arg2: tensor<f32>) -> tensor<4x8x8xf32> {
    %0 = stablehlo.convert %arg1 : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<4x8x8xf32>
    %2 = stablehlo.maximum %1, %arg0 : tensor<4x8x8xf32>
    %3 = stablehlo.convert %arg2 : tensor<f32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [] : (tensor<f32>) -> tensor<4x8x8xf32>
    %5 = stablehlo.minimum %4, %2 : tensor<4x8x8xf32>
    return %5 : tensor<4x8x8xf32>
  }
}
