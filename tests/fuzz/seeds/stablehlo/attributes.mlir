#loc1 = loc("model.py":12:4 to :8)
module @jit_f attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<2x6x6x3xf32> loc("x"), %arg1: tensor<3x3x3x8xf32> {tf.aliasing_output = 1 : i32}, %arg2: tensor<i32>, %arg3: tensor<4x9xf32>, %arg4: tensor<5x1xi32>, %arg5: tensor<5x9xf32>) -> (tensor<2x3x6x8xf32> {jax.result_info = "result[0]"}, tensor<3x3x3x8xf32>) {
    %0 = stablehlo.convolution(%arg0, %arg1) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [2, 1], pad = [[0, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, true]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision DEFAULT>]} : (tensor<2x6x6x3xf32>, tensor<3x3x3x8xf32>) -> tensor<2x3x6x8xf32> loc(#loc2)
    %cst = stablehlo.constant dense<[0x7F800000, -1.5, 2.000000e+00]> : tensor<3xf32>
    %c = stablehlo.constant dense<2> : tensor<i32>
    %cst_1 = stablehlo.constant dense<0.5> : tensor<f32>
    %1:2 = stablehlo.while(%iterArg = %cst, %iterArg_0 = %arg2) : tensor<3xf32>, tensor<i32>
    cond {
      %4 = stablehlo.compare LT, %iterArg_0, %c, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %4 : tensor<i1>
    } do {
      %4 = stablehlo.add %iterArg_0, %c : tensor<i32>
      %5 = stablehlo.slice %iterArg [0:3:2] : (tensor<3xf32>) -> tensor<2xf32>
      %6 = stablehlo.reduce(%5 init: %cst_1) applies stablehlo.maximum across dimensions = [0] : (tensor<2xf32>, tensor<f32>) -> tensor<f32>
      stablehlo.return %iterArg, %4 : tensor<3xf32>, tensor<i32>
    }
    %2 = call @scaled(%arg1, %cst_1) : (tensor<3x3x3x8xf32>, tensor<f32>) -> tensor<3x3x3x8xf32>
    return %0, %2 : tensor<2x3x6x8xf32>, tensor<3x3x3x8xf32>
  }
  func.func private @scaled(%arg0: tensor<3x3x3x8xf32>, %arg1: tensor<f32>) -> tensor<3x3x3x8xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<f32>) -> tensor<3x3x3x8xf32>
    %1 = stablehlo.multiply %arg0, %0 : tensor<3x3x3x8xf32>
    return %1 : tensor<3x3x3x8xf32>
  }
}
#loc2 = loc("jit(f)/conv"(#loc1))
