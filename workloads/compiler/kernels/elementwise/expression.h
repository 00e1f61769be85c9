#pragma once

#include <functional>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "workloads/compiler/codegen/kernel_builder.h"
#include "workloads/compiler/ir/kernel_forms.h"
#include "workloads/compiler/kernels/elementwise/expression_graph.h"
#include "workloads/compiler/kernels/tiles/index.h"

namespace tpu::compiler {

/// Where a vector register's worth of points lies in the iteration space.
struct Place {
  /// Position along each axis, for the row axis in tiles of 8, for the lane axis in tiles of 128;
  /// of a linear space in registers of 1024.
  std::vector<Index> digits;
  Index rows32;            ///< VMEM rows from a block's begin, in streamed arrays of 32-bit types.
  Index rows16;            ///< The same in packed arrays.
  Index lines32, lines16;  ///< Both in arrays whose rows are vectors.
  Index row_in_block;      ///< Number of the row tile in the block.
  Index slot_rows;         ///< VMEM rows from the begin of what a block keeps per row tile.
  int lane_key = -1;       ///< Equal keys, equal lane tile (within one straight piece of code).
  int row_key = -1;        ///< Equal keys, equal row tile and major indices.
  int major_key = 0;       ///< Equal keys, equal major indices.
};

/// A value of an expression on registers: a vector, a mask (pred), or a constant.
struct ExpressionValue {
  enum class Kind : std::uint8_t { kVector, kMask, kConstant };
  Kind kind = Kind::kConstant;
  VReg vector;
  MReg mask;
  std::uint32_t bits = 0;

  static ExpressionValue of(VReg value) { return {Kind::kVector, value, {}, 0}; }
  static ExpressionValue of(MReg value) { return {Kind::kMask, {}, value, 0}; }
  static ExpressionValue of_bits(std::uint32_t value) { return {Kind::kConstant, {}, {}, value}; }
};

/// Emits the instructions that compute values of an ExpressionGraph for places.
///
/// bf16 values are fp32 in registers and rounded where they are stored, as XLA does on chips
/// without bf16 arithmetic (excess precision); where a program converts to bf16 or from it they are
/// rounded as it says, and so is what steps depend on (comparisons, floors, conversions to
/// integers), which may see the stored value elsewhere. A result that other operations of the
/// kernel use, too, is rounded for them: other kernels make the same of what is stored. pred values
/// are masks. Values are remembered within a place; what is computed from values that do not depend
/// on rows also from one row tile to the next, within a straight piece of code.
class ExpressionEmitter {
 public:
  /// Gives the value of a parameter or of a reduction at a place.
  using Source = std::function<ExpressionValue(int node, const Place& place)>;
  /// What a node depends on.
  struct Dependence {
    bool lanes = false;
    bool rows = false;    ///< Where not set, the value stays in a register from row to row,
    bool majors = false;  ///< of a matrix.
    /// A source that costs more than a load: it stays, too.
    bool is_kept = false;
  };

  ExpressionEmitter(KernelBuilder& builder, const ExpressionGraph& graph, Source source);

  void set_dependence(int node, Dependence dependence);  ///< Of sources; before infer().
  void infer();
  /// From now on the source gives the node's value, as it does those of parameters.
  void set_given(int node, bool is_given);
  /// The same of the reciprocal of the node's value; the source is asked for ~node.
  void set_reciprocal_given(int node, bool is_given);
  const Dependence& dependence(int node) const {
    return dependence_[static_cast<std::size_t>(node)];
  }

  ExpressionValue value(int node, const Place& place);
  /// The value as a vector register (or an immediate); a mask becomes 1 or 0 of the type.
  VectorOperand operand(int node, const Place& place);
  VReg vector(int node, const Place& place);
  VReg reciprocal_of(int node, const Place& place);
  /// Begins a new straight piece of code.
  void forget();

  VReg lane_index();     ///< Lane of each element.
  VReg sublane_index();  ///< Sublane of each element.
  VReg element_index();  ///< 128 sublane + lane.

 private:
  ExpressionValue emit(const ExpressionNode& node, const Place& place);
  ExpressionValue emit_turned_lanes(const ExpressionNode& node, const Place& place);
  ExpressionValue emit_joined_lane_tiles(const ExpressionNode& node, const Place& place);
  ExpressionValue emit_combined_rows(const ExpressionNode& node, const Place& place);
  ExpressionValue emit_iota(const ExpressionNode& node, const Place& place);
  ExpressionValue emit_binary(const ExpressionNode& node, const Place& place);
  ExpressionValue emit_integer(const ExpressionNode& node, VectorOperand a, VectorOperand b);
  ExpressionValue emit_logical(const ExpressionNode& node, const Place& place);
  std::optional<bool> test_of_lanes(const ExpressionNode& test, const Place& place) const;
  ExpressionValue emit_compare(const ExpressionNode& node, const Place& place);
  ExpressionValue emit_select(const ExpressionNode& node, const Place& place);
  ExpressionValue emit_unary(const ExpressionNode& node, const Place& place);
  ExpressionValue emit_convert(const ExpressionNode& node, const Place& place);
  ExpressionValue emit_reduced_precision(const ExpressionNode& node, const Place& place);
  std::size_t index_of(const ExpressionNode& node) const {
    return static_cast<std::size_t>(&node - graph_.nodes().data());
  }
  bool is_rounded(int node) const;
  VectorOperand as_stored(int node, const Place& place);
  ExpressionValue emit_integer_unary(const ExpressionNode& node, VReg x);
  ExpressionValue emit_power(const ExpressionNode& node, const Place& place);
  VReg integer_extreme(bool maximum, bool is_signed, VectorOperand a, VectorOperand b);
  MReg mask(int node, const Place& place);
  VReg in_register(VectorOperand operand);
  [[noreturn]] void refuse(const ExpressionNode& node, const std::string& why) const;

  KernelBuilder& builder_;
  const ExpressionGraph& graph_;
  Source source_;
  std::vector<Dependence> dependence_;
  std::vector<bool> is_given_, is_reciprocal_given_;  ///< Of each node.
  /// Whether other operations use it: what is only a result is rounded when it is stored.
  std::vector<bool> is_read_;
  std::vector<bool> is_read_back_;  ///< Results of bf16 that are read.
  /// Node, lane tile and rows. Of ~node: the reciprocal of its value.
  using ValueKey = std::tuple<int, int, int>;
  ValueKey key_of(int node, const Place& place, bool is_kept) const;
  std::map<ValueKey, ExpressionValue> known_;
  VReg lane_index_, sublane_index_, element_index_;
};

bool is_floating(hlo::ElementType type);

}  // namespace tpu::compiler
