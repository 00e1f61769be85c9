#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Appends instructions to a computation for a pass that writes one operation in terms of others.
/// Shapes have no layouts. Every instruction takes its name and metadata from the operation that is
/// replaced.
class GraphEditor {
 public:
  using Extents = std::vector<std::int64_t>;
  using Id = hlo::InstructionId;

  /// Edits the module's entry.
  explicit GraphEditor(hlo::Module& module) : GraphEditor(module, module.entry) {}
  GraphEditor(hlo::Module& module, hlo::ComputationId computation)
      : module_(module), computation_(computation) {}

  /// What follows stands for this instruction.
  void stand_for(Id id);

  /// By value: appending invalidates references into the graph.
  hlo::Shape shape(Id id) const { return entry().at(id).shape; }
  Extents dimensions(Id id) const { return shape(id).dimensions; }

  Id scalar(hlo::ElementType type, double value);
  Id splat(hlo::ElementType type, const Extents& extents, double value);
  /// An array of f32 constants, row-major.
  Id numbers(const Extents& extents, const std::vector<float>& values);
  /// Whether all elements are one constant of this value, however it was spread and moved.
  bool is_splat(Id value, double number) const;
  Id iota(hlo::ElementType type, const Extents& extents, std::int64_t dimension);
  /// `places[i]`: dimension of the result that dimension i of the value becomes.
  Id broadcast(Id value, const Extents& extents, const Extents& places);
  Id reshape(Id value, const Extents& extents);
  Id transpose(Id value, const Extents& permutation);
  Id slice(Id value, const Extents& starts, const Extents& limits);
  Id slice(Id value, const Extents& starts, const Extents& limits, const Extents& strides);
  Id pad_high(Id value, const Extents& high);
  /// Pads with a number (negative: cuts).
  Id pad(Id value, const std::vector<hlo::PaddingDimension>& padding, double fill = 0);
  /// `count` elements along a dimension, `step` apart from `start` on; `fill` where there is none.
  Id take(Id value, std::int64_t dimension, std::int64_t start, std::int64_t count,
          std::int64_t step, double fill = 0);
  Id reverse(Id value, std::int64_t dimension);
  Id reverse(Id value, const Extents& along);
  Id pad(Id value, Id filling, const std::vector<hlo::PaddingDimension>& padding);
  Id concatenate(const std::vector<Id>& parts, std::int64_t dimension);
  Id convert(Id value, hlo::ElementType type);
  /// Between s32 and u32: the same bits.
  Id reinterpret(Id value, hlo::ElementType type) { return convert(value, type); }
  Id unary(hlo::HloOpcode opcode, Id value);
  Id binary(hlo::HloOpcode opcode, Id a, Id b);
  /// With a number as the second operand.
  Id binary_with(hlo::HloOpcode opcode, Id a, double b);
  /// The bits of a value as another type of the same width.
  Id bitcast_convert(Id value, hlo::ElementType type);
  /// A computation of scalars (a reducer, a comparator) on arrays of one extent, element by
  /// element: the values of its root. Throws WorkloadError for operations on anything but scalars.
  std::vector<Id> apply(hlo::ComputationId computation, const std::vector<Id>& arguments);
  Id compare(Id a, Id b, hlo::ComparisonDirection direction);
  Id select(Id condition, Id yes, Id no);
  /// Reduces f32 by add, maximum or minimum from a constant.
  Id reduce(Id value, hlo::HloOpcode opcode, const Extents& dimensions, double initial);
  Id append_instruction(hlo::HloInstruction instruction);
  /// The same operation on other operands.
  Id apply_again(const hlo::HloInstruction& operation, const std::vector<Id>& operands,
                 const Extents& extents);
  /// The same reduction, from the same initial value, of another array along these dimensions.
  Id reduce_again(const hlo::HloInstruction& reduction, Id value, const Extents& dimensions);
  /// An instruction with the name and metadata of what it stands for, not appended yet.
  hlo::HloInstruction start(hlo::HloOpcode opcode, const std::vector<Id>& operands,
                            hlo::Shape shape) const;
  /// A computation that combines two scalars; kParameter: the second one.
  hlo::ComputationId scalar_computation(hlo::HloOpcode opcode, hlo::ElementType type);

  /// The replaced instruction becomes another name for the value.
  void finish(Id value);
  /// The replaced instruction becomes the tuple of the values.
  void finish_tuple(const std::vector<Id>& values);

 private:
  const hlo::Computation& entry() const { return module_.computation(computation_); }
  hlo::Computation& entry() { return module_.computations[static_cast<std::size_t>(computation_)]; }

  hlo::Module& module_;
  hlo::ComputationId computation_;
  Id replaced_ = -1;
};

/// What a pass does that rewrites single operations wherever they stand: in each computation that
/// the module has before, `rewrite` makes what stands for each instruction that it `takes`; those
/// that changed are put in order. True when there are such.
bool rewrite_everywhere(
    hlo::Module& module,
    const std::function<bool(const hlo::Computation&, const hlo::HloInstruction&)>& takes,
    const std::function<void(GraphEditor&, const hlo::HloInstruction&)>& rewrite);

}  // namespace tpu::compiler
