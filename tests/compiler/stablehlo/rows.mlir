module @jit_rows attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<6x9xf32>, %arg1: tensor<4xi32>, %arg2: tensor<4x9xf32>) -> (tensor<4x9xf32> {jax.result_info = "result[0]"}, tensor<6x9xf32> {jax.result_info = "result[1]"}, tensor<3x3xf32> {jax.result_info = "result[2]"}, tensor<7x11xf32> {jax.result_info = "result[3]"}, tensor<2x3xf32> {jax.result_info = "result[4]"}, tensor<6x9xf32> {jax.result_info = "result[5]"}) {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<4xi32>
    %1 = stablehlo.compare LT, %arg1, %0, SIGNED : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi1>
    %c_0 = stablehlo.constant dense<6> : tensor<i32>
    %2 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<4xi32>
    %3 = stablehlo.add %arg1, %2 : tensor<4xi32>
    %4 = stablehlo.select %1, %3, %arg1 : tensor<4xi1>, tensor<4xi32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0] : (tensor<4xi32>) -> tensor<4x1xi32>
    %6 = "stablehlo.gather"(%arg0, %5) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 9>}> : (tensor<6x9xf32>, tensor<4x1xi32>) -> tensor<4x9xf32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %7 = stablehlo.broadcast_in_dim %c_1, dims = [] : (tensor<i32>) -> tensor<4xi32>
    %8 = stablehlo.compare LT, %arg1, %7, SIGNED : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi1>
    %c_2 = stablehlo.constant dense<6> : tensor<i32>
    %9 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<i32>) -> tensor<4xi32>
    %10 = stablehlo.add %arg1, %9 : tensor<4xi32>
    %11 = stablehlo.select %8, %10, %arg1 : tensor<4xi1>, tensor<4xi32>
    %12 = stablehlo.broadcast_in_dim %11, dims = [0] : (tensor<4xi32>) -> tensor<4x1xi32>
    %13 = "stablehlo.scatter"(%arg0, %12, %arg2) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({
    ^bb0(%arg3: tensor<f32>, %arg4: tensor<f32>):
      %23 = stablehlo.add %arg3, %arg4 : tensor<f32>
      stablehlo.return %23 : tensor<f32>
    }) : (tensor<6x9xf32>, tensor<4x1xi32>, tensor<4x9xf32>) -> tensor<6x9xf32>
    %14 = stablehlo.slice %arg0 [0:6:2, 1:8:3] : (tensor<6x9xf32>) -> tensor<3x3xf32>
    %c_3 = stablehlo.constant dense<0> : tensor<i32>
    %15 = call @_pad(%arg0, %c_3) : (tensor<6x9xf32>, tensor<i32>) -> tensor<7x11xf32>
    %16 = stablehlo.slice %arg1 [0:1] : (tensor<4xi32>) -> tensor<1xi32>
    %17 = stablehlo.reshape %16 : (tensor<1xi32>) -> tensor<i32>
    %c_4 = stablehlo.constant dense<0> : tensor<i32>
    %18 = stablehlo.compare LT, %17, %c_4, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_5 = stablehlo.constant dense<6> : tensor<i32>
    %19 = stablehlo.add %17, %c_5 : tensor<i32>
    %20 = stablehlo.select %18, %19, %17 : tensor<i1>, tensor<i32>
    %c_6 = stablehlo.constant dense<2> : tensor<i32>
    %21 = stablehlo.dynamic_slice %arg0, %20, %c_6, sizes = [2, 3] : (tensor<6x9xf32>, tensor<i32>, tensor<i32>) -> tensor<2x3xf32>
    %22 = stablehlo.reverse %arg0, dims = [1] : tensor<6x9xf32>
    return %6, %13, %14, %15, %21, %22 : tensor<4x9xf32>, tensor<6x9xf32>, tensor<3x3xf32>, tensor<7x11xf32>, tensor<2x3xf32>, tensor<6x9xf32>
  }
  func.func private @_pad(%arg0: tensor<6x9xf32>, %arg1: tensor<i32>) -> tensor<7x11xf32> {
    %0 = stablehlo.convert %arg1 : (tensor<i32>) -> tensor<f32>
    %1 = stablehlo.pad %arg0, %0, low = [1, 0], high = [0, 2], interior = [0, 0] : (tensor<6x9xf32>, tensor<f32>) -> tensor<7x11xf32>
    return %1 : tensor<7x11xf32>
  }
}
