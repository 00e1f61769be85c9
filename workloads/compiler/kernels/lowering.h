#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "isa/program.h"
#include "workloads/compiler/codegen/first_load.h"
#include "workloads/compiler/ir/kernel_forms.h"
#include "workloads/compiler/target.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

class KernelBuilder;

/// A kernel for one instruction of the entry computation. It finds the HBM addresses (granules) of
/// the instruction's operands in s0, s1, ... in operand order, then those of its results (a tuple's
/// elements in order). It leaves sync flags and the queues of the units as it found them and keeps
/// nothing in VMEM, SMEM or registers. What it loads first its caller may have to start.
struct LoweredKernel {
  isa::Kernel kernel;
  std::uint64_t vmem_bytes = 0;
  VmemUse vmem_use;
  std::uint64_t cycles = 0;            ///< KernelBuilder::cycles().
  std::vector<FirstLoad> first_loads;  ///< That Target::place leaves to the caller.
};

/// What the builder was told to make; values that find no register wait in VMEM.
LoweredKernel lowered_kernel(KernelBuilder& builder);
/// The same; without `may_spill` nothing where values find no register.
std::optional<LoweredKernel> lowered_kernel(KernelBuilder& builder, bool may_spill);

/// Lowers a dot, or an output fusion around one (the fused computation holds one dot, the
/// elementwise operations behind it, parameters and constants; one result).
///
/// Operands f32 or bf16 of rank >= 2; each side has its contracting dimension among its two minor
/// ones. Sums are fp32; operands are rounded to bf16 by the MXU. Throws WorkloadError with name and
/// shapes for other dots.
LoweredKernel lower_dot(const hlo::Module& module, const hlo::Computation& computation,
                        const hlo::HloInstruction& instruction, const Target& target);

/// Lowers a convolution, or an output fusion around one: two spatial dimensions, forward, input
/// gradient (base dilation, reversed or swapped kernel) and weight gradient (feature and batch
/// swapped, the kernel's window as output). Throws WorkloadError with name and window for others.
LoweredKernel lower_convolution(const hlo::Module& module, const hlo::Computation& computation,
                                const hlo::HloInstruction& instruction, const Target& target);

/// Lowers an elementwise operation, a broadcast, an iota or a reduction, or a loop or input fusion
/// of them, with one or several results. A result may lie in the memory of an operand of the same
/// shape that is read element by element. Throws WorkloadError with opcode, shapes and layouts for
/// what has no kernel.
LoweredKernel lower_elementwise(const hlo::Module& module, const hlo::Computation& computation,
                                const hlo::HloInstruction& instruction, const Target& target);

/// Lowers a reduce-window by add or maximum, or a select-and-scatter that selects by ge and adds,
/// over the major dimensions of the layout.
LoweredKernel lower_pooling(const hlo::Module& module, const hlo::Computation& computation,
                            const hlo::HloInstruction& instruction, const Target& target);

/// Lowers an operation that moves elements: copy, reshape, transpose, slice, pad, concatenate,
/// reverse.
LoweredKernel lower_relayout(const hlo::Module& module, const hlo::Computation& computation,
                             const hlo::HloInstruction& instruction, const Target& target);

/// Lowers a dynamic-slice or dynamic-update-slice that takes its slice whole along the two minor
/// dimensions of the layout. An update works in place: its result is its first operand's memory.
LoweredKernel lower_dynamic_slice(const hlo::Module& module, const hlo::Computation& computation,
                                  const hlo::HloInstruction& instruction, const Target& target);

/// Lowers a gather of whole rows, or blocks of rows, of a table by s32 indices, or a scatter that
/// adds rows.
LoweredKernel lower_embedding(const hlo::Module& module, const hlo::Computation& computation,
                              const hlo::HloInstruction& instruction, const Target& target);

/// Lowers a gather of blocks: of an array of rank 3 or more what stands at numbers of its first
/// dimension.
LoweredKernel lower_block_gather(const hlo::Module& module, const hlo::Computation& computation,
                                 const hlo::HloInstruction& instruction, const Target& target);

/// Lowers the custom calls of `ir/elimination.h`.
LoweredKernel lower_elimination(const hlo::Module& module, const hlo::Computation& computation,
                                const hlo::HloInstruction& instruction, const Target& target);
LoweredKernel lower_pivoted_elimination(const hlo::Module& module,
                                        const hlo::Computation& computation,
                                        const hlo::HloInstruction& instruction,
                                        const Target& target);
LoweredKernel lower_reflections(const hlo::Module& module, const hlo::Computation& computation,
                                const hlo::HloInstruction& instruction, const Target& target);

/// Lowers the custom call of `ir/rotations.h`.
LoweredKernel lower_rotations(const hlo::Module& module, const hlo::Computation& computation,
                              const hlo::HloInstruction& instruction, const Target& target);

/// Lowers a scatter of blocks into an array of rank 3 or more, where it stands, by a vector of s32
/// numbers of its first dimension; those outside of it have no effect.
LoweredKernel lower_block_scatter(const hlo::Module& module, const hlo::Computation& computation,
                                  const hlo::HloInstruction& instruction, const Target& target);

/// Lowers a scatter of single elements into a vector by a vector of s32 indices; those outside of
/// it have no effect.
LoweredKernel lower_element_scatter(const hlo::Module& module, const hlo::Computation& computation,
                                    const hlo::HloInstruction& instruction, const Target& target);

/// Lowers a cumulative operation that has the form of `ir/scan_form.h`. Throws WorkloadError for
/// others.
LoweredKernel lower_scan(const hlo::Module& module, const hlo::Computation& computation,
                         const hlo::HloInstruction& instruction, const Target& target);

/// Lowers a sort that has the form of `ir/sort_form.h`. Throws WorkloadError for others.
LoweredKernel lower_sort(const hlo::Module& module, const hlo::Computation& computation,
                         const hlo::HloInstruction& instruction, const Target& target);

}  // namespace tpu::compiler
