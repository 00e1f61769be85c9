module @jit_functions_of_chlo attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<3x130xf32>, %arg1: tensor<3x130xf32>) -> (tensor<3x130xf32> {jax.result_info = "result[0]"}, tensor<3x130xf32> {jax.result_info = "result[1]"}, tensor<3x130xf32> {jax.result_info = "result[2]"}, tensor<3x130xf32> {jax.result_info = "result[3]"}, tensor<3x130xf32> {jax.result_info = "result[4]"}, tensor<3x130xf32> {jax.result_info = "result[5]"}, tensor<3x130xf32> {jax.result_info = "result[6]"}, tensor<3x130xbf16> {jax.result_info = "result[7]"}) {
    %0 = chlo.erf %arg0 : tensor<3x130xf32> -> tensor<3x130xf32>
    %1 = chlo.erfc %arg0 : tensor<3x130xf32> -> tensor<3x130xf32>
    %2 = chlo.lgamma %arg1 : tensor<3x130xf32> -> tensor<3x130xf32>
    %cst = stablehlo.constant dense<9.000000e+00> : tensor<f32>
    %3 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<3x130xf32>
    %4 = stablehlo.divide %arg0, %3 : tensor<3x130xf32>
    %5 = chlo.asin %4 : tensor<3x130xf32> -> tensor<3x130xf32>
    %6 = chlo.sinh %arg0 : tensor<3x130xf32> -> tensor<3x130xf32>
    %7 = chlo.square %arg0 : tensor<3x130xf32> -> tensor<3x130xf32>
    %8 = chlo.next_after %arg0, %arg1 : tensor<3x130xf32>, tensor<3x130xf32> -> tensor<3x130xf32>
    %9 = stablehlo.convert %arg0 : (tensor<3x130xf32>) -> tensor<3x130xbf16>
    %10 = stablehlo.multiply %9, %9 : tensor<3x130xbf16>
    %11 = stablehlo.multiply %10, %9 : tensor<3x130xbf16>
    %cst_0 = stablehlo.constant dense<4.467770e-02> : tensor<bf16>
    %12 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<bf16>) -> tensor<3x130xbf16>
    %13 = stablehlo.multiply %12, %11 : tensor<3x130xbf16>
    %14 = stablehlo.add %9, %13 : tensor<3x130xbf16>
    %cst_1 = stablehlo.constant dense<7.968750e-01> : tensor<bf16>
    %15 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<bf16>) -> tensor<3x130xbf16>
    %16 = stablehlo.multiply %15, %14 : tensor<3x130xbf16>
    %17 = stablehlo.tanh %16 : tensor<3x130xbf16>
    %cst_2 = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %18 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<bf16>) -> tensor<3x130xbf16>
    %19 = stablehlo.add %18, %17 : tensor<3x130xbf16>
    %cst_3 = stablehlo.constant dense<5.000000e-01> : tensor<bf16>
    %20 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<bf16>) -> tensor<3x130xbf16>
    %21 = stablehlo.multiply %20, %19 : tensor<3x130xbf16>
    %22 = stablehlo.multiply %9, %21 : tensor<3x130xbf16>
    return %0, %1, %2, %5, %6, %7, %8, %22 : tensor<3x130xf32>, tensor<3x130xf32>, tensor<3x130xf32>, tensor<3x130xf32>, tensor<3x130xf32>, tensor<3x130xf32>, tensor<3x130xf32>, tensor<3x130xbf16>
  }
}
