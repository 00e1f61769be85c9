#pragma once

#include <map>
#include <vector>

#include "workloads/frontend/graph_builder.h"

namespace tpu::frontend {

/// The backward pass of one vector_jacobian_product(): what has been contributed to each
/// instruction's gradient so far, and the rules per opcode. autodiff.cpp has the walk and the
/// elementwise rules, contraction_gradients.cpp dot and convolution, array_gradients.cpp the rest.
class Differentiator {
 public:
  Differentiator(GraphBuilder& graph, const std::vector<Tensor>& of);

  std::vector<Tensor> run(Tensor y, Tensor seed);

 private:
  /// A part of a gradient that covers a range of one dimension: the gradient of a slice.
  struct Piece {
    std::int64_t dimension = 0;
    std::int64_t start = 0;
    Tensor gradient;
  };
  struct Accumulator {
    std::vector<Tensor> whole;
    std::vector<Piece> pieces;
  };

  /// The instruction by value: building invalidates references into the graph.
  using Node = hlo::HloInstruction;

  bool needs(hlo::InstructionId id) const { return needed_[static_cast<std::size_t>(id)]; }
  bool needs_operand(const Node& node, std::size_t i) const { return needs(node.operands[i]); }
  static Tensor operand(const Node& node, std::size_t i) { return Tensor{node.operands[i]}; }
  void contribute(const Node& node, std::size_t operand, Tensor gradient);
  Tensor total(hlo::InstructionId id);
  Tensor assemble(hlo::InstructionId id, std::vector<Piece> pieces);
  void mark_needed(hlo::InstructionId last);
  void visit(const Node& node, Tensor g);

  void elementwise(const Node& node, Tensor g);
  void product(const Node& node, Tensor g);
  void quotient(const Node& node, Tensor g);
  void extremum(const Node& node, Tensor g);
  void power(const Node& node, Tensor g);

  void broadcast(const Node& node, Tensor g);
  void slice(const Node& node, Tensor g);
  void concatenate(const Node& node, Tensor g);
  void pad(const Node& node, Tensor g);
  void reduce(const Node& node, Tensor g);
  void reduce_window(const Node& node, Tensor g);
  void gather(const Node& node, Tensor g);

  void dot(const Node& node, Tensor g);
  Tensor dot_operand_gradient(const Node& node, Tensor g, std::size_t side);
  void convolution(const Node& node, Tensor g);
  Tensor convolution_input_gradient(const Node& node, Tensor g);
  Tensor convolution_kernel_gradient(const Node& node, Tensor g);
  Tensor regroup_kernel(const Node& node);

  GraphBuilder& graph_;
  std::vector<Tensor> of_;
  std::vector<bool> needed_;
  std::map<hlo::InstructionId, Accumulator> gradients_;
};

/// Window of the transposed operation over one dimension: which elements of the output's gradient
/// an input element of extent `input` receives, for a window that gave `output` positions.
hlo::WindowDimension transposed_window(const hlo::WindowDimension& window, std::int64_t input,
                                       std::int64_t output);

}  // namespace tpu::frontend
