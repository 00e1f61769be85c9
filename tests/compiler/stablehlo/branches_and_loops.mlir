module @jit_branches_and_loops attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<5x7xf32>, %arg1: tensor<i32>, %arg2: tensor<7xf32>) -> (tensor<f32> {jax.result_info = "result[0]"}, tensor<5xf32> {jax.result_info = "result[1]"}) {
    %c = stablehlo.constant dense<2> : tensor<i32>
    %0 = stablehlo.compare GT, %arg1, %c, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %1 = stablehlo.convert %0 : (tensor<i1>) -> tensor<i32>
    %2 = "stablehlo.case"(%1) ({
      %9 = stablehlo.convert %arg1 : (tensor<i32>) -> tensor<f32>
      %10 = stablehlo.broadcast_in_dim %9, dims = [] : (tensor<f32>) -> tensor<5x7xf32>
      %11 = stablehlo.add %arg0, %10 : tensor<5x7xf32>
      stablehlo.return %11 : tensor<5x7xf32>
    }, {
      %9 = stablehlo.broadcast_in_dim %arg2, dims = [1] : (tensor<7xf32>) -> tensor<1x7xf32>
      %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1] : (tensor<1x7xf32>) -> tensor<5x7xf32>
      %11 = stablehlo.multiply %arg0, %10 : tensor<5x7xf32>
      stablehlo.return %11 : tensor<5x7xf32>
    }) : (tensor<i32>) -> tensor<5x7xf32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %c_1 = stablehlo.constant dense<2> : tensor<i32>
    %3 = stablehlo.clamp %c_0, %arg1, %c_1 : tensor<i32>
    %4 = "stablehlo.case"(%3) ({
      stablehlo.return %2 : tensor<5x7xf32>
    }, {
      %9 = stablehlo.broadcast_in_dim %arg2, dims = [1] : (tensor<7xf32>) -> tensor<1x7xf32>
      %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1] : (tensor<1x7xf32>) -> tensor<5x7xf32>
      %11 = stablehlo.subtract %2, %10 : tensor<5x7xf32>
      stablehlo.return %11 : tensor<5x7xf32>
    }, {
      %9 = stablehlo.sine %2 : tensor<5x7xf32>
      stablehlo.return %9 : tensor<5x7xf32>
    }) : (tensor<i32>) -> tensor<5x7xf32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %5:3 = stablehlo.while(%iterArg = %4, %iterArg_5 = %c_2, %iterArg_6 = %cst) : tensor<5x7xf32>, tensor<i32>, tensor<f32>
    cond {
      %c_7 = stablehlo.constant dense<3> : tensor<i32>
      %9 = stablehlo.compare LT, %iterArg_5, %c_7, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %9 : tensor<i1>
    } do {
      %c_7 = stablehlo.constant dense<1> : tensor<i32>
      %9 = stablehlo.add %iterArg_5, %c_7 : tensor<i32>
      %cst_8 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
      %10 = stablehlo.multiply %iterArg_6, %cst_8 : tensor<f32>
      %cst_9 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %11 = stablehlo.reduce(%iterArg init: %cst_9) applies stablehlo.add across dimensions = [0, 1] : (tensor<5x7xf32>, tensor<f32>) -> tensor<f32>
      %12 = stablehlo.convert %10 : tensor<f32>
      %13 = stablehlo.add %12, %11 : tensor<f32>
      stablehlo.return %iterArg, %9, %13 : tensor<5x7xf32>, tensor<i32>, tensor<f32>
    }
    %6 = stablehlo.slice %4 [0:5, 0:1] : (tensor<5x7xf32>) -> tensor<5x1xf32>
    %7 = stablehlo.reshape %6 : (tensor<5x1xf32>) -> tensor<5xf32>
    %c_3 = stablehlo.constant dense<0> : tensor<i32>
    %c_4 = stablehlo.constant dense<0> : tensor<i32>
    %8:4 = stablehlo.while(%iterArg = %arg2, %iterArg_5 = %c_4, %iterArg_6 = %c_3, %iterArg_7 = %7) : tensor<7xf32>, tensor<i32>, tensor<i32>, tensor<5xf32>
    cond {
      %c_8 = stablehlo.constant dense<4> : tensor<i32>
      %9 = stablehlo.compare LT, %iterArg_5, %c_8, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %9 : tensor<i1>
    } do {
      %9:2 = func.call @closed_call(%iterArg, %iterArg_6, %iterArg_7) : (tensor<7xf32>, tensor<i32>, tensor<5xf32>) -> (tensor<i32>, tensor<5xf32>)
      %c_8 = stablehlo.constant dense<1> : tensor<i32>
      %10 = stablehlo.add %iterArg_5, %c_8 : tensor<i32>
      stablehlo.return %iterArg, %10, %9#0, %9#1 : tensor<7xf32>, tensor<i32>, tensor<i32>, tensor<5xf32>
    }
    return %5#2, %8#3 : tensor<f32>, tensor<5xf32>
  }
  func.func private @closed_call(%arg0: tensor<7xf32>, %arg1: tensor<i32>, %arg2: tensor<5xf32>) -> (tensor<i32>, tensor<5xf32>) {
    %c = stablehlo.constant dense<1> : tensor<i32>
    %0 = stablehlo.add %arg1, %c : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.compare LT, %arg1, %c_0, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %2 = stablehlo.convert %arg1 : tensor<i32>
    %c_1 = stablehlo.constant dense<7> : tensor<i32>
    %3 = stablehlo.add %2, %c_1 : tensor<i32>
    %4 = stablehlo.select %1, %3, %arg1 : tensor<i1>, tensor<i32>
    %5 = stablehlo.dynamic_slice %arg0, %4, sizes = [1] : (tensor<7xf32>, tensor<i32>) -> tensor<1xf32>
    %6 = stablehlo.reshape %5 : (tensor<1xf32>) -> tensor<f32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %7 = stablehlo.compare LT, %arg1, %c_2, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_3 = stablehlo.constant dense<5> : tensor<i32>
    %8 = stablehlo.add %arg1, %c_3 : tensor<i32>
    %9 = stablehlo.select %7, %8, %arg1 : tensor<i1>, tensor<i32>
    %10 = stablehlo.convert %9 : tensor<i32>
    %11 = stablehlo.broadcast_in_dim %10, dims = [] : (tensor<i32>) -> tensor<1xi32>
    %12 = "stablehlo.scatter"(%arg2, %11, %6) <{indices_are_sorted = true, scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0]>, unique_indices = true}> ({
    ^bb0(%arg3: tensor<f32>, %arg4: tensor<f32>):
      %13 = stablehlo.add %arg3, %arg4 : tensor<f32>
      stablehlo.return %13 : tensor<f32>
    }) : (tensor<5xf32>, tensor<1xi32>, tensor<f32>) -> tensor<5xf32>
    return %0, %12 : tensor<i32>, tensor<5xf32>
  }
}
