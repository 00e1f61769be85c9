#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "workloads/graph/graph.h"

namespace tpu::frontend {

/// A value in the graph that a GraphBuilder builds.
struct Tensor {
  hlo::InstructionId id = -1;
};

/// Windows of a convolution or pooling: one number per spatial dimension.
using Extents = std::vector<std::int64_t>;

/// Builds the entry computation of an HLO module, one instruction per call.
///
/// Shapes are inferred; a call whose operands do not fit throws WorkloadError with the scope and
/// the opcode. Scopes give each instruction its metadata.op_name ("resnet50/stage1/block0/conv1/
/// convolution"). Equal constants, their broadcasts and equal conversions are made once. Sums of
/// bf16 tensors are computed in f32 and rounded at the end.
class GraphBuilder {
 public:
  explicit GraphBuilder(const std::string& module_name);

  /// Adds a path component to the names of all instructions made while it lives.
  class Scope {
   public:
    Scope(GraphBuilder& graph, const std::string& name);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    GraphBuilder& graph_;
    std::string outer_;
  };
  const std::string& scope() const { return scope_; }
  /// Replaces the whole path; for autodiff, which returns to the places of the forward pass.
  void set_scope(const std::string& path) { scope_ = path; }

  /// By value: building invalidates references into the graph.
  hlo::Shape shape(Tensor x) const { return entry().at(x.id).shape; }
  hlo::ElementType type(Tensor x) const { return entry().at(x.id).shape.type; }
  const hlo::Computation& entry() const { return module_.entry_computation(); }
  const hlo::Module& module() const { return module_; }

  /// A parameter with the next number, named after the scope.
  Tensor parameter(const std::string& name, const hlo::Shape& shape);
  Tensor constant(hlo::ElementType type, double value);
  /// A scalar constant broadcast to all elements.
  Tensor splat(hlo::ElementType type, const Extents& dimensions, double value);
  Tensor splat_like(Tensor x, double value) { return splat(type(x), shape(x).dimensions, value); }
  Tensor iota(hlo::ElementType type, const Extents& dimensions, std::int64_t dimension);

  /// Of a broadcast: computed before it is broadcast.
  Tensor unary(hlo::HloOpcode opcode, Tensor x);
  Tensor binary(hlo::HloOpcode opcode, Tensor a, Tensor b);
  Tensor add(Tensor a, Tensor b) { return binary(hlo::HloOpcode::kAdd, a, b); }
  Tensor subtract(Tensor a, Tensor b) { return binary(hlo::HloOpcode::kSubtract, a, b); }
  Tensor multiply(Tensor a, Tensor b) { return binary(hlo::HloOpcode::kMultiply, a, b); }
  Tensor divide(Tensor a, Tensor b) { return binary(hlo::HloOpcode::kDivide, a, b); }
  /// Product with a constant; that of a broadcast is made before it is broadcast.
  Tensor scale(Tensor x, double factor);
  /// Sum with a constant.
  Tensor offset(Tensor x, double term) { return add(x, splat_like(x, term)); }
  Tensor compare(Tensor a, Tensor b, hlo::ComparisonDirection direction);
  Tensor select(Tensor condition, Tensor on_true, Tensor on_false);
  /// From bf16 to f32 and back: the value itself.
  Tensor convert(Tensor x, hlo::ElementType type);

  /// `dimensions[i]` is the dimension of the result that dimension i of x becomes.
  Tensor broadcast(Tensor x, const Extents& result, const Extents& dimensions);
  /// Broadcasts a vector along one dimension of the shape of `like`.
  Tensor broadcast_vector(Tensor x, Tensor like, std::int64_t dimension) {
    return broadcast(x, shape(like).dimensions, {dimension});
  }
  Tensor reshape(Tensor x, const Extents& dimensions);
  Tensor transpose(Tensor x, const Extents& permutation);
  Tensor slice(Tensor x, const Extents& starts, const Extents& limits, const Extents& strides = {});
  Tensor concatenate(const std::vector<Tensor>& parts, std::int64_t dimension);
  Tensor pad(Tensor x, const std::vector<hlo::PaddingDimension>& padding, double value = 0);
  Tensor reverse(Tensor x, const Extents& dimensions);

  Tensor reduce_sum(Tensor x, const Extents& dimensions);
  Tensor reduce_max(Tensor x, const Extents& dimensions);
  Tensor reduce_window_sum(Tensor x, const std::vector<hlo::WindowDimension>& window);
  Tensor reduce_window_max(Tensor x, const std::vector<hlo::WindowDimension>& window);
  /// Adds `source` to the places of each window's first greatest element of x.
  Tensor select_and_scatter(Tensor x, Tensor source,
                            const std::vector<hlo::WindowDimension>& window);

  Tensor dot(Tensor a, Tensor b, const hlo::DotDimensions& dimensions, hlo::ElementType type);
  /// Rows of a times columns of b, in a's type.
  Tensor matmul(Tensor a, Tensor b) { return dot(a, b, {{}, {}, {1}, {0}}, type(a)); }
  Tensor convolution(Tensor input, Tensor kernel, const hlo::ConvolutionDimensions& dimensions,
                     const std::vector<hlo::WindowDimension>& window,
                     std::int64_t feature_groups = 1, std::int64_t batch_groups = 1);
  Tensor gather(Tensor from, Tensor indices, const hlo::GatherDimensions& dimensions);
  Tensor scatter_add(Tensor into, Tensor indices, Tensor updates,
                     const hlo::GatherDimensions& dimensions);
  /// Sums of the values over all replicas, by one all-reduce of as many operands.
  std::vector<Tensor> all_reduce_sum(const std::vector<Tensor>& values);
  Tensor tuple(const std::vector<Tensor>& elements);

  /// Any other instruction of HLO: its shape follows from operands and attributes, or is the one
  /// that it states. No gradient passes through it.
  Tensor instruction(hlo::HloInstruction instruction) { return append(std::move(instruction)); }
  /// Adds the computations of a module, to be called by an instruction; the number of its entry.
  hlo::ComputationId adopt(hlo::Module module);

  /// No gradient passes through this value.
  Tensor stop_gradient(Tensor x);
  bool stops_gradient(Tensor x) const;

  /// The module with `root` as result and the given parameters, in their order, without
  /// instructions that it does not need. The builder is empty afterwards.
  hlo::Module finish(Tensor root, const std::vector<Tensor>& parameters);

 private:
  hlo::HloInstruction make(hlo::HloOpcode opcode, const std::vector<Tensor>& operands) const;
  Tensor append(hlo::HloInstruction instruction);
  hlo::Shape shape_of(const hlo::HloInstruction& instruction) const;
  /// A computation of two scalars, made once per opcode and type.
  hlo::ComputationId scalar_computation(hlo::HloOpcode opcode, hlo::ElementType type);
  Tensor reduce(Tensor x, const Extents& dimensions, hlo::HloOpcode opcode, double initial);
  Tensor reduce_window(Tensor x, const std::vector<hlo::WindowDimension>& window,
                       hlo::HloOpcode opcode, double initial);
  void remove_unused(const std::vector<Tensor>& parameters);

  hlo::Module module_;
  std::string scope_;
  std::int64_t parameters_ = 0;
  std::map<std::pair<hlo::HloOpcode, hlo::ElementType>, hlo::ComputationId> scalar_computations_;
  std::map<std::pair<hlo::ElementType, double>, Tensor> constants_;
  std::map<std::tuple<hlo::InstructionId, Extents, Extents>, Tensor> broadcasts_;
  std::map<std::pair<hlo::InstructionId, hlo::ElementType>, Tensor> conversions_;
  std::vector<hlo::InstructionId> stopped_;
};

/// dim_labels=b01f_01io->b01f: NHWC images, HWIO kernels.
hlo::ConvolutionDimensions nhwc_dimensions();

}  // namespace tpu::frontend
