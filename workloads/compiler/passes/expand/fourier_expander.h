#pragma once

#include "workloads/compiler/passes/expand/complex_arithmetic.h"

namespace tpu::compiler {

/// A Fourier transform (HLO's `fft`) in terms of products with tables of sines and cosines at
/// precision highest, as XLA's TPU compiler has it: short dimensions by one product; longer ones as
/// transforms of up to 16 pieces that meet element by element, or where no such number divides them
/// as two shorter transforms, with a rotation between them; long primes as a convolution by
/// transforms of a power of two (Bluestein). Of IRFFT the imaginary part is 0. Throws WorkloadError
/// where the attributes are not those of a transform.
ComplexParts fourier_transform(GraphEditor& edit, const hlo::HloInstruction& fft,
                               const ComplexParts& operand);

/// Dimensions up to this are always one product.
constexpr std::int64_t kDirectTransform = 256;

}  // namespace tpu::compiler
