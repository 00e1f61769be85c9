#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "workloads/graph/boxed.h"
#include "workloads/graph/shape.h"

namespace tpu::hlo {

/// The opcodes of HLO, by XLA's names ('-' becomes a new word).
enum class HloOpcode : std::uint8_t {
#define TPU_HLO_OPCODE(enumerator, text, operands, cycles, instructions) enumerator,
#include "workloads/graph/hlo_opcodes.def"
#undef TPU_HLO_OPCODE
  kCount
};
std::string_view to_string(HloOpcode opcode);
/// Finds an opcode by its HLO name, new or old spelling; kCount when there is none.
HloOpcode hlo_opcode(std::string_view text);
/// Operands of an operation that computes each element of its result from the same element of its
/// operands (arithmetic, comparison, selection, conversion; not copies); 0 for others.
int elementwise_operands(HloOpcode opcode);
inline bool is_elementwise(HloOpcode opcode) { return elementwise_operands(opcode) > 0; }

/// What an elementwise operation on a register of 1024 f32 elements takes of the vector unit; 0 for
/// what is no such operation, or takes no time.
struct VectorCost {
  double cycles = 0;        ///< Among other such operations, what they wait for included.
  double instructions = 0;  ///< Of the vector ALUs, two a cycle: all that counts beside products.

  VectorCost& operator+=(const VectorCost& other) {
    cycles += other.cycles;
    instructions += other.instructions;
    return *this;
  }
};
VectorCost vector_cost(HloOpcode opcode);

enum class ComparisonDirection : std::uint8_t { kEq, kNe, kLt, kLe, kGt, kGe };
/// "EQ", "NE", ...
std::string_view to_string(ComparisonDirection direction);

/// One spatial dimension of a convolution or reduce-window.
struct WindowDimension {
  std::int64_t size = 1;
  std::int64_t stride = 1;
  std::int64_t padding_low = 0;
  std::int64_t padding_high = 0;
  std::int64_t base_dilation = 1;
  std::int64_t window_dilation = 1;
  bool reversal = false;
};

/// Which dimension of each array of a convolution is what (HLO's dim_labels).
struct ConvolutionDimensions {
  std::int64_t input_batch = 0, input_feature = 0;
  std::vector<std::int64_t> input_spatial;
  std::int64_t kernel_input_feature = 0, kernel_output_feature = 0;
  std::vector<std::int64_t> kernel_spatial;
  std::int64_t output_batch = 0, output_feature = 0;
  std::vector<std::int64_t> output_spatial;
};

/// Dimensions of a dot; of a ragged one those of the left side that groups cut, and those of the
/// right side that count groups.
struct DotDimensions {
  std::vector<std::int64_t> lhs_batch, rhs_batch, lhs_contracting, rhs_contracting;
  std::vector<std::int64_t> lhs_ragged = {}, rhs_group = {};
};

/// One dimension of a pad.
struct PaddingDimension {
  std::int64_t low = 0, high = 0, interior = 0;
};

/// From where, to where and in what steps a slice takes each dimension.
struct SliceBounds {
  std::vector<std::int64_t> starts, limits, strides;
};

/// Dimensions of a gather or scatter (names as in XLA; the scatter's own names in comments).
struct GatherDimensions {
  std::vector<std::int64_t> offset_dims;           ///< scatter: update_window_dims
  std::vector<std::int64_t> collapsed_slice_dims;  ///< scatter: inserted_window_dims
  std::vector<std::int64_t> start_index_map;       ///< scatter: scatter_dims_to_operand_dims
  std::int64_t index_vector_dim = 0;
  std::vector<std::int64_t> slice_sizes;            ///< gather only
  std::vector<std::int64_t> operand_batching_dims;  ///< scatter: input_batching_dims
  std::vector<std::int64_t>
      start_indices_batching_dims;  ///< scatter: scatter_indices_batching_dims
  /// gather only, of our passes: no index needs clamping. HLO has no attribute for it.
  bool indices_in_range = false;
};

/// Where an instruction comes from in the user's program. Strings are as HLO text has them between
/// its quotes, escapes included.
struct Metadata {
  Boxed<std::string> op_name;
  Boxed<std::string> op_type;
  Boxed<std::string> source_file;  ///< Empty where the stack frame has it.
  Boxed<std::string> other;        ///< Fields that are kept as text only.
  int source_line = 0;
  int stack_frame_id = 0;  ///< From 1, in Module::stack_frames; 0: none.
};

using InstructionId = std::int32_t;
using ComputationId = std::int32_t;

/// One HLO instruction. Only the attributes of its opcode are set.
struct HloInstruction {
  InstructionId id = -1;  ///< Index into its computation.
  HloOpcode opcode = HloOpcode::kCount;
  ComparisonDirection direction = ComparisonDirection::kEq;
  std::string name;
  Shape shape;
  std::vector<InstructionId> operands;
  std::vector<ComputationId>
      called;  ///< to_apply, calls, body and condition (in this order), select and scatter.
  Boxed<std::vector<InstructionId>> control_predecessors;

  std::int64_t parameter_number = 0;
  std::int64_t tuple_index = 0;
  std::vector<std::int64_t> dimensions;  ///< broadcast, transpose, reduce, concatenate, reverse,
                                         ///< iota (one), sort, all-gather.
  Boxed<DotDimensions> dot;
  std::vector<WindowDimension> window;
  Boxed<ConvolutionDimensions> convolution;
  std::int64_t feature_group_count = 1;
  std::int64_t batch_group_count = 1;
  std::vector<PaddingDimension> padding;
  Boxed<SliceBounds> slice;
  Boxed<std::vector<std::int64_t>> dynamic_slice_sizes;
  Boxed<GatherDimensions> gather;
  Boxed<std::vector<std::vector<std::int64_t>>> replica_groups;  ///< Empty: all replicas.
  /// How the file states replica_groups where it lists no members ("[2,4]<=[8]"); what
  /// expand_replica_groups() makes of it. Ignored when replica_groups is something else.
  Boxed<std::string> replica_groups_text;
  std::vector<std::uint8_t>
      literal;  ///< kConstant: row-major bytes of the elements (a tuple's: of its arrays one after
                ///< another); empty when the file elides them.
  Boxed<std::string> custom_call_target;
  Boxed<std::string> fusion_kind;
  Boxed<std::string> raw_attributes;  ///< Attributes that are kept as text only.
  Metadata metadata;

  /// Gives the control predecessors the numbers that `renumbered` has for them.
  template <class Function>
  void renumber_predecessors(const Function& renumbered) {
    if (!control_predecessors.is_set()) return;
    for (InstructionId& before : control_predecessors.edit()) before = renumbered(before);
  }
};

/// Whether the instruction is memory that holds nothing yet, a custom-call of XLA's name for it.
inline constexpr std::string_view kAllocateBuffer = "AllocateBuffer";
bool is_allocation(const HloInstruction& instruction);

/// A computation: instructions in an order in which operands stand before their users.
struct Computation {
  std::string name;
  std::vector<HloInstruction> instructions;
  InstructionId root = -1;
  std::string raw_attributes;  ///< Behind its '}', such as execution_thread="host".

  const HloInstruction& at(InstructionId id) const {
    return instructions[static_cast<std::size_t>(id)];
  }
  HloInstruction& at(InstructionId id) { return instructions[static_cast<std::size_t>(id)]; }
  std::vector<InstructionId> parameters() const;  ///< In order of parameter number.
};

/// An output that shares its buffer with a parameter (donation).
struct Alias {
  std::int64_t output_index = 0;
  std::int64_t parameter_number = 0;
  std::vector<std::int64_t> within_output = {};     ///< Where the output is a tuple itself.
  std::vector<std::int64_t> within_parameter = {};  ///< Where the parameter is a tuple.
  bool must = false;                                ///< must-alias.
};

/// The tables of source files, functions and frames in front of a module. Everything is numbered
/// from 1; 0 is none.
struct StackFrames {
  struct Location {
    int file = 0, function = 0, line = 0, end_line = 0, column = 0, end_column = 0;
  };
  struct Frame {
    int location = 0;
    int parent = 0;  ///< As HLO text has it: one more than the caller's number; 1: no caller.
  };
  std::vector<std::string> files, functions;
  std::vector<Location> locations;
  std::vector<Frame> frames;
};

/// Shapes with the layouts in which a module's caller passes parameters and takes the result.
struct EntryLayout {
  std::vector<Shape> parameters;
  Shape result;
};

/// A program as a graph in HLO's opcodes: what the frontend builds, HLO files become, and the
/// compiler takes.
///
/// Of a training step the entry's parameters are the state (weights, optimiser state), then the
/// inputs of the step; its result is a tuple of the new state (aliased with the parameters) and the
/// loss last. Inputs that the host feeds are `infeed_parameters`.
struct Module {
  std::string name;
  std::vector<Computation> computations;
  ComputationId entry = -1;
  std::vector<Alias> aliases;
  std::vector<std::int64_t>
      infeed_parameters;  ///< Parameter numbers that arrive through the infeed queue each step.
  std::int64_t examples_per_step = 0;  ///< Per replica.
  std::int64_t replicas = 1;           ///< Devices that run it: replica_count * num_partitions.
  std::int64_t partitions = 1;         ///< num_partitions, a divisor of replicas.

  StackFrames stack_frames;
  Boxed<EntryLayout> entry_layout;  ///< entry_computation_layout, where the file has it.
  std::string frontend_attributes;  ///< "name=value,name=value" but examples and infeed above.
  std::string raw_attributes;       ///< Other attributes of the header, as text.

  const Computation& entry_computation() const {
    return computations[static_cast<std::size_t>(entry)];
  }
  Computation& entry_computation() { return computations[static_cast<std::size_t>(entry)]; }
  const Computation& computation(ComputationId id) const {
    return computations[static_cast<std::size_t>(id)];
  }
};

/// Useful FLOPs of an instruction, as HloCostAnalysis counts them (`hlo_cost_analysis.h`).
std::int64_t flops(const Module& module, const Computation& computation,
                   const HloInstruction& instruction);
/// Only those of dots and convolutions, over the whole module.
std::int64_t matmul_flops(const Module& module);

/// Checks shapes, operands, order and attributes; throws WorkloadError naming the instruction and
/// what was expected.
void verify(const Module& module);

/// The module as HLO text: reading it gives an equal module.
std::string to_string(const Module& module);

/// "file.py:12", where the metadata or its stack frame says so.
std::string source_of(const Module& module, const Metadata& metadata);

}  // namespace tpu::hlo
