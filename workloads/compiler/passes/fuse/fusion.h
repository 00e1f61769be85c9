#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "workloads/compiler/ir/around_product.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// What a fusion may grow to: the streams of a kernel share VMEM, its addresses the scalar
/// registers.
struct FusionLimits {
  std::size_t arrays = 14;           ///< Operands and results together.
  std::size_t instructions = 512;    ///< Of a fused computation: a Threefry and what reads it.
  std::size_t epilogue_arrays = 12;  ///< Behind a product.
  std::size_t epilogue_results = 6;
  /// Behind a convolution, of its extent, and elements of vectors: eight take a register that
  /// stays.
  std::size_t convolution_images = 6;
  std::int64_t convolution_vectors = 10240;
  /// Of matrices behind it, which stay in VMEM, in granules.
  std::uint64_t convolution_matrices = 1024;
  /// Of a dot or convolution with this around it that makes a result of this shape; absent: no
  /// kernel.
  std::function<std::optional<double>(const hlo::Computation&, const hlo::HloInstruction&,
                                      const hlo::Shape& result, const AroundProduct&)>
      product_cycles;
  std::uint64_t row_bytes = std::uint64_t{8}
                            << 20;  ///< Of two buffers of eight rows of each array.
  double hbm_bytes_per_cycle = 440;
};

/// Pass: elementwise operations go into the kernels that read or make their operands, as HLO
/// `fusion` instructions with a computation of their own:
///
/// - kLoop: elementwise operations over one extent, one or several results;
/// - kInput: reductions over the same dimensions of operands of one extent, with the elementwise
///   operations that make the operands; along the minor dimension also with those that use the
///   result, as in a softmax;
/// - kOutput: a dot or convolution and the kernels over its extent that read it or each other's
///   results: elementwise ones and, but behind gradients of kernels, sums to a vector; behind
///   convolutions also sums for each example and feature. Behind the gradient of a kernel (an
///   optimiser's arrays) only where that takes less than a kernel of their own: the blocks of what
///   is read and made leave less of VMEM for those of the product. In front of it the elementwise
///   operations that make its sides, where nobody else reads these and the kernels together take
///   less than with one that writes them.
///
/// A value is written to HBM when something other than such a kernel needs it, or when that moves
/// fewer bytes than computing it again in each kernel that uses it. Kernels over the same extent
/// that read a common array become one. Broadcasts of scalars and iotas are always computed where
/// they are used.
///
/// Needs: layouts; no call or fusion in the entry.
/// Leaves: every elementwise operation, broadcast, iota and reduction with one operand inside a
/// fusion, but for the broadcasts of scalar constants that scatters start from; scalar constants
/// inside fusions or beside the operation that takes them as initial or padding value; a fusion
/// with several results is a tuple, read by get-tuple-element.
void fuse(hlo::Module& module, const FusionLimits& limits = {});

/// True for the initial and padding values that a kernel takes as an immediate: when constant, they
/// stand in no buffer.
bool takes_immediate(const hlo::HloInstruction& user, std::size_t operand);

/// True for scalar constants, broadcasts of them and iotas: values that read nothing.
bool reads_nothing(const hlo::Computation& computation, hlo::InstructionId id);

}  // namespace tpu::compiler
