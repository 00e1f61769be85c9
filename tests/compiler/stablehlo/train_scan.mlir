module @jit_train_scan attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<6x16x16xf32>, %arg1: tensor<4x16xf32>) -> (tensor<6x16x16xf32> {jax.result_info = "result"}) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<6x4x16xf32>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<6x4x16xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<6x4x16xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %3:6 = stablehlo.while(%iterArg = %arg0, %iterArg_6 = %c, %iterArg_7 = %arg1, %iterArg_8 = %0, %iterArg_9 = %1, %iterArg_10 = %2) : tensor<6x16x16xf32>, tensor<i32>, tensor<4x16xf32>, tensor<6x4x16xf32>, tensor<6x4x16xf32>, tensor<6x4x16xf32>
    cond {
      %c_11 = stablehlo.constant dense<6> : tensor<i32>
      %10 = stablehlo.compare LT, %iterArg_6, %c_11, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %10 : tensor<i1>
    } do {
      %10 = func.call @dynamic_index_in_dim(%iterArg, %iterArg_6) : (tensor<6x16x16xf32>, tensor<i32>) -> tensor<16x16xf32>
      %11:4 = func.call @closed_call(%iterArg_7, %10) : (tensor<4x16xf32>, tensor<16x16xf32>) -> (tensor<4x16xf32>, tensor<4x16xf32>, tensor<4x16xf32>, tensor<4x16xf32>)
      %12 = func.call @dynamic_update_index_in_dim(%iterArg_8, %11#1, %iterArg_6) : (tensor<6x4x16xf32>, tensor<4x16xf32>, tensor<i32>) -> tensor<6x4x16xf32>
      %13 = func.call @dynamic_update_index_in_dim(%iterArg_9, %11#2, %iterArg_6) : (tensor<6x4x16xf32>, tensor<4x16xf32>, tensor<i32>) -> tensor<6x4x16xf32>
      %14 = func.call @dynamic_update_index_in_dim(%iterArg_10, %11#3, %iterArg_6) : (tensor<6x4x16xf32>, tensor<4x16xf32>, tensor<i32>) -> tensor<6x4x16xf32>
      %c_11 = stablehlo.constant dense<1> : tensor<i32>
      %15 = stablehlo.add %iterArg_6, %c_11 : tensor<i32>
      stablehlo.return %iterArg, %15, %11#0, %12, %13, %14 : tensor<6x16x16xf32>, tensor<i32>, tensor<4x16xf32>, tensor<6x4x16xf32>, tensor<6x4x16xf32>, tensor<6x4x16xf32>
    }
    %cst_2 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %4 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<4x16xf32>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %5 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<6x16x16xf32>
    %c_4 = stablehlo.constant dense<0> : tensor<i32>
    %6:7 = stablehlo.while(%iterArg = %arg0, %iterArg_6 = %3#3, %iterArg_7 = %3#4, %iterArg_8 = %3#5, %iterArg_9 = %c_4, %iterArg_10 = %4, %iterArg_11 = %5) : tensor<6x16x16xf32>, tensor<6x4x16xf32>, tensor<6x4x16xf32>, tensor<6x4x16xf32>, tensor<i32>, tensor<4x16xf32>, tensor<6x16x16xf32>
    cond {
      %c_12 = stablehlo.constant dense<6> : tensor<i32>
      %10 = stablehlo.compare LT, %iterArg_9, %c_12, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %10 : tensor<i1>
    } do {
      %c_12 = stablehlo.constant dense<6> : tensor<i32>
      %10 = stablehlo.subtract %c_12, %iterArg_9 : tensor<i32>
      %c_13 = stablehlo.constant dense<1> : tensor<i32>
      %11 = stablehlo.subtract %10, %c_13 : tensor<i32>
      %12 = func.call @dynamic_index_in_dim(%iterArg, %11) : (tensor<6x16x16xf32>, tensor<i32>) -> tensor<16x16xf32>
      %13 = func.call @dynamic_index_in_dim_0(%iterArg_6, %11) : (tensor<6x4x16xf32>, tensor<i32>) -> tensor<4x16xf32>
      %14 = func.call @dynamic_index_in_dim_0(%iterArg_7, %11) : (tensor<6x4x16xf32>, tensor<i32>) -> tensor<4x16xf32>
      %15 = func.call @dynamic_index_in_dim_0(%iterArg_8, %11) : (tensor<6x4x16xf32>, tensor<i32>) -> tensor<4x16xf32>
      %16:2 = func.call @closed_call_1(%iterArg_10, %12, %13, %14, %15) : (tensor<4x16xf32>, tensor<16x16xf32>, tensor<4x16xf32>, tensor<4x16xf32>, tensor<4x16xf32>) -> (tensor<4x16xf32>, tensor<16x16xf32>)
      %17 = func.call @dynamic_update_index_in_dim_2(%iterArg_11, %16#1, %11) : (tensor<6x16x16xf32>, tensor<16x16xf32>, tensor<i32>) -> tensor<6x16x16xf32>
      %c_14 = stablehlo.constant dense<1> : tensor<i32>
      %18 = stablehlo.add %iterArg_9, %c_14 : tensor<i32>
      stablehlo.return %iterArg, %iterArg_6, %iterArg_7, %iterArg_8, %18, %16#0, %17 : tensor<6x16x16xf32>, tensor<6x4x16xf32>, tensor<6x4x16xf32>, tensor<6x4x16xf32>, tensor<i32>, tensor<4x16xf32>, tensor<6x16x16xf32>
    }
    %cst_5 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %7 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<6x16x16xf32>
    %8 = stablehlo.multiply %7, %6#6 : tensor<6x16x16xf32>
    %9 = stablehlo.subtract %arg0, %8 : tensor<6x16x16xf32>
    return %9 : tensor<6x16x16xf32>
  }
  func.func private @dynamic_index_in_dim(%arg0: tensor<6x16x16xf32>, %arg1: tensor<i32>) -> tensor<16x16xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, sizes = [1, 16, 16] : (tensor<6x16x16xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x16x16xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x16x16xf32>) -> tensor<16x16xf32>
    return %1 : tensor<16x16xf32>
  }
  func.func private @closed_call(%arg0: tensor<4x16xf32>, %arg1: tensor<16x16xf32>) -> (tensor<4x16xf32>, tensor<4x16xf32>, tensor<4x16xf32>, tensor<4x16xf32>) {
    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x16xf32>, tensor<16x16xf32>) -> tensor<4x16xf32>
    %1 = stablehlo.tanh %0 : tensor<4x16xf32>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<4x16xf32>
    %3 = stablehlo.subtract %2, %1 : tensor<4x16xf32>
    return %1, %arg0, %1, %3 : tensor<4x16xf32>, tensor<4x16xf32>, tensor<4x16xf32>, tensor<4x16xf32>
  }
  func.func private @dynamic_update_index_in_dim(%arg0: tensor<6x4x16xf32>, %arg1: tensor<4x16xf32>, %arg2: tensor<i32>) -> tensor<6x4x16xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2] : (tensor<4x16xf32>) -> tensor<1x4x16xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c, %c_0 : (tensor<6x4x16xf32>, tensor<1x4x16xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<6x4x16xf32>
    return %1 : tensor<6x4x16xf32>
  }
  func.func private @dynamic_index_in_dim_0(%arg0: tensor<6x4x16xf32>, %arg1: tensor<i32>) -> tensor<4x16xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, sizes = [1, 4, 16] : (tensor<6x4x16xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x4x16xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x4x16xf32>) -> tensor<4x16xf32>
    return %1 : tensor<4x16xf32>
  }
  func.func private @closed_call_1(%arg0: tensor<4x16xf32>, %arg1: tensor<16x16xf32>, %arg2: tensor<4x16xf32>, %arg3: tensor<4x16xf32>, %arg4: tensor<4x16xf32>) -> (tensor<4x16xf32>, tensor<16x16xf32>) {
    %0 = stablehlo.multiply %arg0, %arg4 : tensor<4x16xf32>
    %1 = stablehlo.multiply %0, %arg3 : tensor<4x16xf32>
    %2 = stablehlo.add %0, %1 : tensor<4x16xf32>
    %3 = stablehlo.dot_general %2, %arg2, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<16x16xf32>
    %4 = stablehlo.transpose %3, dims = [1, 0] : (tensor<16x16xf32>) -> tensor<16x16xf32>
    %5 = stablehlo.dot_general %2, %arg1, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x16xf32>, tensor<16x16xf32>) -> tensor<4x16xf32>
    return %5, %4 : tensor<4x16xf32>, tensor<16x16xf32>
  }
  func.func private @dynamic_update_index_in_dim_2(%arg0: tensor<6x16x16xf32>, %arg1: tensor<16x16xf32>, %arg2: tensor<i32>) -> tensor<6x16x16xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2] : (tensor<16x16xf32>) -> tensor<1x16x16xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c, %c_0 : (tensor<6x16x16xf32>, tensor<1x16x16xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<6x16x16xf32>
    return %1 : tensor<6x16x16xf32>
  }
}
