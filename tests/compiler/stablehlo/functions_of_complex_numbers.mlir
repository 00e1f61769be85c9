module @jit_functions_of_complex_numbers attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<3x130xf32>, %arg1: tensor<3x130xf32>) -> (tensor<3x130xf32> {jax.result_info = "result[0][0]"}, tensor<3x130xf32> {jax.result_info = "result[0][1]"}, tensor<3x130xf32> {jax.result_info = "result[0][2]"}, tensor<3x130xf32> {jax.result_info = "result[0][3]"}, tensor<3x130xf32> {jax.result_info = "result[0][4]"}, tensor<3x130xf32> {jax.result_info = "result[0][5]"}, tensor<3x130xf32> {jax.result_info = "result[0][6]"}, tensor<3x130xf32> {jax.result_info = "result[0][7]"}, tensor<3x130xf32> {jax.result_info = "result[0][8]"}, tensor<3x130xf32> {jax.result_info = "result[1][0]"}, tensor<3x130xf32> {jax.result_info = "result[1][1]"}, tensor<3x130xf32> {jax.result_info = "result[1][2]"}, tensor<3x130xf32> {jax.result_info = "result[1][3]"}, tensor<3x130xf32> {jax.result_info = "result[1][4]"}, tensor<3x130xf32> {jax.result_info = "result[1][5]"}, tensor<3x130xf32> {jax.result_info = "result[1][6]"}, tensor<3x130xf32> {jax.result_info = "result[1][7]"}, tensor<3x130xf32> {jax.result_info = "result[1][8]"}) {
    %0 = stablehlo.complex %arg0, %arg1 : tensor<3x130xcomplex<f32>>
    %1 = chlo.sinh %0 : tensor<3x130xcomplex<f32>> -> tensor<3x130xcomplex<f32>>
    %2 = chlo.cosh %0 : tensor<3x130xcomplex<f32>> -> tensor<3x130xcomplex<f32>>
    %3 = chlo.asin %0 : tensor<3x130xcomplex<f32>> -> tensor<3x130xcomplex<f32>>
    %4 = chlo.acos %0 : tensor<3x130xcomplex<f32>> -> tensor<3x130xcomplex<f32>>
    %5 = chlo.atan %0 : tensor<3x130xcomplex<f32>> -> tensor<3x130xcomplex<f32>>
    %6 = chlo.asinh %0 : tensor<3x130xcomplex<f32>> -> tensor<3x130xcomplex<f32>>
    %cst = stablehlo.constant dense<(2.000000e+00,0.000000e+00)> : tensor<complex<f32>>
    %7 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<complex<f32>>) -> tensor<3x130xcomplex<f32>>
    %8 = stablehlo.add %0, %7 : tensor<3x130xcomplex<f32>>
    %9 = chlo.acosh %8 : tensor<3x130xcomplex<f32>> -> tensor<3x130xcomplex<f32>>
    %10 = chlo.atanh %0 : tensor<3x130xcomplex<f32>> -> tensor<3x130xcomplex<f32>>
    %11 = chlo.square %0 : tensor<3x130xcomplex<f32>> -> tensor<3x130xcomplex<f32>>
    %12 = stablehlo.real %1 : (tensor<3x130xcomplex<f32>>) -> tensor<3x130xf32>
    %13 = stablehlo.real %2 : (tensor<3x130xcomplex<f32>>) -> tensor<3x130xf32>
    %14 = stablehlo.real %3 : (tensor<3x130xcomplex<f32>>) -> tensor<3x130xf32>
    %15 = stablehlo.real %4 : (tensor<3x130xcomplex<f32>>) -> tensor<3x130xf32>
    %16 = stablehlo.real %5 : (tensor<3x130xcomplex<f32>>) -> tensor<3x130xf32>
    %17 = stablehlo.real %6 : (tensor<3x130xcomplex<f32>>) -> tensor<3x130xf32>
    %18 = stablehlo.real %9 : (tensor<3x130xcomplex<f32>>) -> tensor<3x130xf32>
    %19 = stablehlo.real %10 : (tensor<3x130xcomplex<f32>>) -> tensor<3x130xf32>
    %20 = stablehlo.real %11 : (tensor<3x130xcomplex<f32>>) -> tensor<3x130xf32>
    %21 = stablehlo.imag %1 : (tensor<3x130xcomplex<f32>>) -> tensor<3x130xf32>
    %22 = stablehlo.imag %2 : (tensor<3x130xcomplex<f32>>) -> tensor<3x130xf32>
    %23 = stablehlo.imag %3 : (tensor<3x130xcomplex<f32>>) -> tensor<3x130xf32>
    %24 = stablehlo.imag %4 : (tensor<3x130xcomplex<f32>>) -> tensor<3x130xf32>
    %25 = stablehlo.imag %5 : (tensor<3x130xcomplex<f32>>) -> tensor<3x130xf32>
    %26 = stablehlo.imag %6 : (tensor<3x130xcomplex<f32>>) -> tensor<3x130xf32>
    %27 = stablehlo.imag %9 : (tensor<3x130xcomplex<f32>>) -> tensor<3x130xf32>
    %28 = stablehlo.imag %10 : (tensor<3x130xcomplex<f32>>) -> tensor<3x130xf32>
    %29 = stablehlo.imag %11 : (tensor<3x130xcomplex<f32>>) -> tensor<3x130xf32>
    return %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29 : tensor<3x130xf32>, tensor<3x130xf32>, tensor<3x130xf32>, tensor<3x130xf32>, tensor<3x130xf32>, tensor<3x130xf32>, tensor<3x130xf32>, tensor<3x130xf32>, tensor<3x130xf32>, tensor<3x130xf32>, tensor<3x130xf32>, tensor<3x130xf32>, tensor<3x130xf32>, tensor<3x130xf32>, tensor<3x130xf32>, tensor<3x130xf32>, tensor<3x130xf32>, tensor<3x130xf32>
  }
}
