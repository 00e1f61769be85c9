module @jit_f attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4x9xf32>, %arg1: tensor<5xi32>, %arg2: tensor<5x9xf32>, %arg3: tensor<i32>) -> (tensor<4x9xf32> {jax.result_info = "result[0]"}, tensor<5x9xf32> {jax.result_info = "result[1]"}, tensor<4x9xf32> {jax.result_info = "result[2]"}, tensor<4x9xf32> {jax.result_info = "result[3]"}, tensor<4x5xf32> {jax.result_info = "result[4]"}, tensor<4x9xf32> {jax.result_info = "result[5]"}, tensor<5x18xf32> {jax.result_info = "result[6]"}, tensor<4x4xf32> {jax.result_info = "result[7]"}, tensor<4x9xf32> {jax.result_info = "result[8]"}, tensor<2x3xf32> {jax.result_info = "result[9]"}, tensor<8x9xf32> {jax.result_info = "result[10]"}, tensor<4x9xf32> {jax.result_info = "result[11]"}, tensor<4x9xi32> {jax.result_info = "result[12]"}, tensor<4x9xf32> {jax.result_info = "result[13]"}, tensor<5x3xf32> {jax.result_info = "result[14]"}) {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<5xi32>
    %1 = stablehlo.compare LT, %arg1, %0, SIGNED : (tensor<5xi32>, tensor<5xi32>) -> tensor<5xi1>
    %c_0 = stablehlo.constant dense<4> : tensor<i32>
    %2 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<5xi32>
    %3 = stablehlo.add %arg1, %2 : tensor<5xi32>
    %4 = stablehlo.select %1, %3, %arg1 : tensor<5xi1>, tensor<5xi32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0] : (tensor<5xi32>) -> tensor<5x1xi32>
    %6 = "stablehlo.scatter"(%arg0, %5, %arg2) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({
    ^bb0(%arg4: tensor<f32>, %arg5: tensor<f32>):
      %61 = stablehlo.add %arg4, %arg5 : tensor<f32>
      stablehlo.return %61 : tensor<f32>
    }) : (tensor<4x9xf32>, tensor<5x1xi32>, tensor<5x9xf32>) -> tensor<4x9xf32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %7 = stablehlo.broadcast_in_dim %c_1, dims = [] : (tensor<i32>) -> tensor<5xi32>
    %8 = stablehlo.compare LT, %arg1, %7, SIGNED : (tensor<5xi32>, tensor<5xi32>) -> tensor<5xi1>
    %c_2 = stablehlo.constant dense<4> : tensor<i32>
    %9 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<i32>) -> tensor<5xi32>
    %10 = stablehlo.add %arg1, %9 : tensor<5xi32>
    %11 = stablehlo.select %8, %10, %arg1 : tensor<5xi1>, tensor<5xi32>
    %12 = stablehlo.broadcast_in_dim %11, dims = [0] : (tensor<5xi32>) -> tensor<5x1xi32>
    %13 = "stablehlo.gather"(%arg0, %12) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 9>}> : (tensor<4x9xf32>, tensor<5x1xi32>) -> tensor<5x9xf32>
    %14 = call @sort(%arg0) : (tensor<4x9xf32>) -> tensor<4x9xf32>
    %15 = stablehlo.reduce_precision %arg0, format = e8m7 : tensor<4x9xf32>
    %cst = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %16 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<f32>
    %17 = "stablehlo.reduce_window"(%arg0, %16) <{base_dilations = array<i64: 1, 1>, padding = dense<[[0, 0], [1, 1]]> : tensor<2x2xi64>, window_dilations = array<i64: 1, 1>, window_dimensions = array<i64: 1, 3>, window_strides = array<i64: 1, 2>}> ({
    ^bb0(%arg4: tensor<f32>, %arg5: tensor<f32>):
      %61 = stablehlo.maximum %arg4, %arg5 : tensor<f32>
      stablehlo.return %61 : tensor<f32>
    }) : (tensor<4x9xf32>, tensor<f32>) -> tensor<4x5xf32>
    %c_3 = stablehlo.constant dense<0> : tensor<i32>
    %c_4 = stablehlo.constant dense<2> : tensor<i32>
    %18 = stablehlo.clamp %c_3, %arg3, %c_4 : tensor<i32>
    %19 = "stablehlo.case"(%18) ({
      %61 = stablehlo.sine %arg0 : tensor<4x9xf32>
      stablehlo.return %61 : tensor<4x9xf32>
    }, {
      %cst_18 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
      %61 = stablehlo.broadcast_in_dim %cst_18, dims = [] : (tensor<f32>) -> tensor<4x9xf32>
      %62 = stablehlo.multiply %arg0, %61 : tensor<4x9xf32>
      stablehlo.return %62 : tensor<4x9xf32>
    }, {
      %61 = stablehlo.abs %arg0 : tensor<4x9xf32>
      stablehlo.return %61 : tensor<4x9xf32>
    }) : (tensor<i32>) -> tensor<4x9xf32>
    %cst_5 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %20 = stablehlo.pad %arg0, %cst_5, low = [1, 0], high = [0, 1], interior = [0, 1] : (tensor<4x9xf32>, tensor<f32>) -> tensor<5x18xf32>
    %21 = stablehlo.dot_general %arg0, %arg0, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x9xf32>, tensor<4x9xf32>) -> tensor<4x4xf32>
    %c_6 = stablehlo.constant dense<1> : tensor<i32>
    %22 = stablehlo.compare GT, %arg3, %c_6, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %23 = stablehlo.convert %22 : (tensor<i1>) -> tensor<i32>
    %24 = "stablehlo.case"(%23) ({
      %61 = stablehlo.negate %arg0 : tensor<4x9xf32>
      stablehlo.return %61 : tensor<4x9xf32>
    }, {
      stablehlo.return %arg0 : tensor<4x9xf32>
    }) : (tensor<i32>) -> tensor<4x9xf32>
    %c_7 = stablehlo.constant dense<0> : tensor<i32>
    %25 = stablehlo.compare LT, %arg3, %c_7, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_8 = stablehlo.constant dense<4> : tensor<i32>
    %26 = stablehlo.add %arg3, %c_8 : tensor<i32>
    %27 = stablehlo.select %25, %26, %arg3 : tensor<i1>, tensor<i32>
    %c_9 = stablehlo.constant dense<0> : tensor<i32>
    %28 = stablehlo.compare LT, %arg3, %c_9, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_10 = stablehlo.constant dense<9> : tensor<i32>
    %29 = stablehlo.add %arg3, %c_10 : tensor<i32>
    %30 = stablehlo.select %28, %29, %arg3 : tensor<i1>, tensor<i32>
    %31 = stablehlo.dynamic_slice %arg0, %27, %30, sizes = [2, 3] : (tensor<4x9xf32>, tensor<i32>, tensor<i32>) -> tensor<2x3xf32>
    %32 = stablehlo.reverse %arg0, dims = [0] : tensor<4x9xf32>
    %33 = stablehlo.concatenate %arg0, %32, dim = 0 : (tensor<4x9xf32>, tensor<4x9xf32>) -> tensor<8x9xf32>
    %cst_11 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %cst_12 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %34 = stablehlo.broadcast_in_dim %cst_11, dims = [] : (tensor<f32>) -> tensor<4x9xf32>
    %35 = stablehlo.broadcast_in_dim %cst_12, dims = [] : (tensor<f32>) -> tensor<4x9xf32>
    %36 = stablehlo.clamp %34, %arg0, %35 : tensor<4x9xf32>
    %37 = stablehlo.bitcast_convert %arg0 : (tensor<4x9xf32>) -> tensor<4x9xi32>
    %38 = stablehlo.iota dim = 0 : tensor<4x4xi32>
    %39 = stablehlo.iota dim = 1 : tensor<4x4xi32>
    %c_13 = stablehlo.constant dense<0> : tensor<i32>
    %40 = stablehlo.broadcast_in_dim %c_13, dims = [] : (tensor<i32>) -> tensor<4x4xi32>
    %41 = stablehlo.add %38, %40 : tensor<4x4xi32>
    %42 = stablehlo.compare EQ, %41, %39, SIGNED : (tensor<4x4xi32>, tensor<4x4xi32>) -> tensor<4x4xi1>
    %43 = stablehlo.convert %42 : (tensor<4x4xi1>) -> tensor<4x4xf32>
    %cst_14 = stablehlo.constant dense<4.000000e+00> : tensor<f32>
    %44 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<f32>) -> tensor<4x4xf32>
    %45 = stablehlo.multiply %44, %43 : tensor<4x4xf32>
    %46 = stablehlo.add %21, %45 : tensor<4x4xf32>
    %47 = stablehlo.transpose %46, dims = [1, 0] : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %48 = stablehlo.add %46, %47 : tensor<4x4xf32>
    %cst_15 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %49 = stablehlo.broadcast_in_dim %cst_15, dims = [] : (tensor<f32>) -> tensor<4x4xf32>
    %50 = stablehlo.divide %48, %49 : tensor<4x4xf32>
    %51 = stablehlo.cholesky %50, lower = true : tensor<4x4xf32>
    %52 = stablehlo.iota dim = 0 : tensor<4x4xi32>
    %c_16 = stablehlo.constant dense<0> : tensor<i32>
    %53 = stablehlo.broadcast_in_dim %c_16, dims = [] : (tensor<i32>) -> tensor<4x4xi32>
    %54 = stablehlo.add %52, %53 : tensor<4x4xi32>
    %55 = stablehlo.iota dim = 1 : tensor<4x4xi32>
    %56 = stablehlo.compare GE, %54, %55, SIGNED : (tensor<4x4xi32>, tensor<4x4xi32>) -> tensor<4x4xi1>
    %cst_17 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %57 = stablehlo.broadcast_in_dim %cst_17, dims = [] : (tensor<f32>) -> tensor<4x4xf32>
    %58 = stablehlo.select %56, %51, %57 : tensor<4x4xi1>, tensor<4x4xf32>
    %59 = "stablehlo.triangular_solve"(%58, %arg0) <{left_side = true, lower = true, transpose_a = #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = false}> : (tensor<4x4xf32>, tensor<4x9xf32>) -> tensor<4x9xf32>
    %60 = call @_one_hot(%arg1) : (tensor<5xi32>) -> tensor<5x3xf32>
    return %6, %13, %14, %15, %17, %19, %20, %21, %24, %31, %33, %36, %37, %59, %60 : tensor<4x9xf32>, tensor<5x9xf32>, tensor<4x9xf32>, tensor<4x9xf32>, tensor<4x5xf32>, tensor<4x9xf32>, tensor<5x18xf32>, tensor<4x4xf32>, tensor<4x9xf32>, tensor<2x3xf32>, tensor<8x9xf32>, tensor<4x9xf32>, tensor<4x9xi32>, tensor<4x9xf32>, tensor<5x3xf32>
  }
  func.func private @sort(%arg0: tensor<4x9xf32>) -> tensor<4x9xf32> {
    %0 = "stablehlo.sort"(%arg0) <{dimension = 1 : i64, is_stable = true}> ({
    ^bb0(%arg1: tensor<f32>, %arg2: tensor<f32>):
      %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %1 = stablehlo.compare EQ, %arg1, %cst, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %2 = stablehlo.select %1, %cst_0, %arg1 : tensor<i1>, tensor<f32>
      %3 = stablehlo.compare NE, %arg1, %arg1, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %cst_1 = stablehlo.constant dense<0x7FC00000> : tensor<f32>
      %4 = stablehlo.select %3, %cst_1, %2 : tensor<i1>, tensor<f32>
      %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %5 = stablehlo.compare EQ, %arg2, %cst_2, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %6 = stablehlo.select %5, %cst_3, %arg2 : tensor<i1>, tensor<f32>
      %7 = stablehlo.compare NE, %arg2, %arg2, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %cst_4 = stablehlo.constant dense<0x7FC00000> : tensor<f32>
      %8 = stablehlo.select %7, %cst_4, %6 : tensor<i1>, tensor<f32>
      %9 = stablehlo.compare LT, %4, %8, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %9 : tensor<i1>
    }) : (tensor<4x9xf32>) -> tensor<4x9xf32>
    return %0 : tensor<4x9xf32>
  }
  func.func private @_one_hot(%arg0: tensor<5xi32>) -> tensor<5x3xf32> {
    %0 = stablehlo.broadcast_in_dim %arg0, dims = [0] : (tensor<5xi32>) -> tensor<5x1xi32>
    %1 = stablehlo.iota dim = 1 : tensor<1x3xi32>
    %2 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<5x1xi32>) -> tensor<5x3xi32>
    %3 = stablehlo.broadcast_in_dim %1, dims = [0, 1] : (tensor<1x3xi32>) -> tensor<5x3xi32>
    %4 = stablehlo.compare EQ, %2, %3, SIGNED : (tensor<5x3xi32>, tensor<5x3xi32>) -> tensor<5x3xi1>
    %5 = stablehlo.convert %4 : (tensor<5x3xi1>) -> tensor<5x3xf32>
    return %5 : tensor<5x3xf32>
  }
}
