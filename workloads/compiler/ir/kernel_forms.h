#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "workloads/compiler/ir/dot_problem.h"
#include "workloads/compiler/target.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// What passes ask of kernels: which forms of an operation one takes. Kernels answer.

/// Whether there is a kernel for a convolution whose arrays lie like this and an expression behind
/// it that makes `result` and reads one more array of the same extent, or those of the types
/// `read`.
bool has_convolution_kernel(const hlo::HloInstruction& convolution, const hlo::Shape& input,
                            const hlo::Shape& window, const hlo::Shape& result,
                            const std::vector<hlo::ElementType>& read, const Target& target);
bool has_convolution_kernel(const hlo::HloInstruction& convolution, const hlo::Shape& input,
                            const hlo::Shape& window, const Target& target);

/// What the search for that kernel expects of the product by itself; absent where there is none. Of
/// a depthwise convolution no more than what its arrays take to and from HBM.
std::optional<double> convolution_cycles(const hlo::HloInstruction& convolution,
                                         const hlo::Shape& input, const hlo::Shape& window,
                                         const Target& target);

/// The dot or convolution that an instruction is, or that its fusion holds; none: neither.
const hlo::HloInstruction* product_in(const hlo::Module& module,
                                      const hlo::HloInstruction& instruction);

/// What the search for the kernel of a dot expects of the product by itself; HUGE_VAL where it
/// finds none.
double product_cycles(DotProblem problem, const Target& target);

/// VMEM granules that the kernel of a dot, or of a fusion around one, takes where its arrays stand
/// in VMEM, whole: sums, what is prepared, and the arrays with the rows that steps reach beyond
/// them. None: it has no kernel for that.
std::optional<std::uint64_t> granules_of_dot_in_vmem(const hlo::Module& module,
                                                     const hlo::Computation& computation,
                                                     const hlo::HloInstruction& instruction,
                                                     const Target& target);

/// Cycles that a gather of `count` rows of a table of 32-bit words takes, and a scatter into it.
/// Both count what their kernels do: rows of `lane_tiles` tiles, and the table's way through VMEM.
double gathered_rows_cycles(std::int64_t table_rows, std::int64_t lane_tiles, std::int64_t count,
                            const Target& target);
double scattered_rows_cycles(std::int64_t table_rows, std::int64_t lane_tiles, std::int64_t count,
                             const Target& target);

/// Cycles that a gather of `count` blocks takes: a block is an array of these extents.
double gathered_blocks_cycles(const std::vector<std::int64_t>& block, hlo::ElementType type,
                              std::int64_t count, const Target& target);
/// The same of a scatter into a table of 32-bit words, where it stands.
double scattered_blocks_cycles(const std::vector<std::int64_t>& block, std::int64_t count,
                               const Target& target);

/// Cycles that an elimination (`ir/elimination.h`) of an array of these extents takes.
double elimination_cycles(const std::vector<std::int64_t>& extents, const Target& target);
/// The same of one with pivots, and of reflections, of what is given.
double pivoted_elimination_cycles(const std::vector<std::int64_t>& extents, const Target& target);
double reflections_cycles(const std::vector<std::int64_t>& extents, const Target& target);

/// Whether there is a kernel for an operation that moves elements between arrays that lie like
/// this.
bool has_relayout_kernel(const hlo::Module& module, const hlo::Computation& computation,
                         const hlo::HloInstruction& instruction, const Target& target);

/// Whether VMEM has room for the kernel of a fusion of elementwise operations and sums.
bool has_elementwise_kernel(const hlo::Module& module, const hlo::Computation& computation,
                            const hlo::HloInstruction& instruction, const Target& target);

/// Cycles that the kernel of elementwise operations and sums takes whose arrays come block by
/// block: what registers take beside the transfers. None where it has no kernel, or one of parts.
std::optional<double> elementwise_cycles(const hlo::Module& module, const hlo::Computation& fused,
                                         std::size_t operands, const Target& target);

/// Slices, pads, concatenations and reversals, which move boxes of elements.
bool is_box_move(hlo::HloOpcode opcode);

/// Whether a fusion is one kernel of such moves, of which one moves what another makes.
bool joins_moves(const hlo::Module& module, const hlo::HloInstruction& instruction);

/// Cycles that such a kernel takes, between its parameters and its root; none where there is none.
std::optional<double> moves_cycles(const hlo::Computation& moves, const Target& target);

/// Cycles that the kernel of a reshape takes between arrays in row-major order, by its own counts
/// and by the bytes that pass; 0 where nothing moves.
double reshape_cycles(const hlo::Shape& from, const hlo::Shape& to, const Target& target);

/// The same of a copy between two orders of the same dimensions, or of a reshape between arrays
/// whose elements follow each other alike; HUGE_VAL for others.
double move_cycles(const hlo::Shape& from, const hlo::Shape& to, const Target& target);

/// Whether there is one for a reduce-window or select-and-scatter of arrays that lie like this.
bool has_pooling_kernel(const hlo::Module& module, const hlo::Computation& computation,
                        const hlo::HloInstruction& instruction, const Target& target);

/// Whether a dimension of a window takes each element by itself.
bool is_trivial(const hlo::WindowDimension& window);

/// Whether the instruction is a sequence of small kernels: a custom fusion whose computation holds
/// fusions of elementwise operations and reductions, pads, slices, concatenations, copies,
/// transposes, reshapes and dots, one after the other.
bool is_kernel_sequence(const hlo::HloInstruction& instruction);

/// Whether a kernel whose arrays stand in VMEM can compute a pad, slice or concatenation.
bool moves_by_shifts(const hlo::Computation& computation, const hlo::HloInstruction& instruction);

/// Whether a kernel whose arrays come block by block can compute a slice, which may take every few
/// elements of all dimensions but the lanes.
bool takes_steps(const hlo::Computation& computation, const hlo::HloInstruction& instruction);

/// Whether a fused computation reads elements of its operands from elsewhere, so that the arrays of
/// its kernel stand in VMEM, whole or with what stands around each block: pads, slices and
/// concatenations in it that neither move lanes of a tile nor are read or written in place.
bool reads_elsewhere(const hlo::Computation& fused);

/// The same of a copy, transpose or reshape between arrays that lie like this.
bool moves_in_vmem(const hlo::Computation& computation, const hlo::HloInstruction& instruction);

/// Whether kernels can take numbers up to `most` modulo a divisor.
bool has_modulo(std::int64_t divisor, std::int64_t most);

/// Elements of the longest vector along the rows of a product that its kernel takes: a register per
/// eight.
constexpr std::uint64_t kLongestRowVector = 4096;

}  // namespace tpu::compiler
