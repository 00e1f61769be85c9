#include "workloads/compiler/kernels/sequence_member.h"

#include <algorithm>
#include <utility>

#include "workloads/compiler/ir/kernel_forms.h"
#include "workloads/compiler/kernels/contraction/dot_emitter.h"
#include "workloads/compiler/kernels/contraction/dot_kernel.h"
#include "workloads/compiler/kernels/elementwise/elementwise_kernel.h"
#include "workloads/compiler/kernels/relayout/relayout_member.h"

namespace tpu::compiler {

using hlo::Computation;
using hlo::HloInstruction;
using hlo::HloOpcode;

namespace {

class ElementwiseMember : public SequenceMember {
 public:
  ElementwiseMember(KernelBuilder& builder, const hlo::Module& module, const Computation& sequence,
                    const HloInstruction& instruction, const MemberLimits& limits)
      : fused_(computation_of(module, sequence, instruction)),
        graph_(module, fused_, instruction.name),
        kernel_(builder, graph_, instruction.operands.size(), whole(limits)) {
    const ElementwisePlan& plan = kernel_.plan();
    for (const ElementwisePlan::Input& read : plan.inputs) {
      Input input{read.operand, read.access.shape, read.part, 0, rows_of_array(read.access.shape)};
      if (!(read.part == ArrayPart{})) input.row_granules = plan.stream_granules(input.shape, 1);
      if (read.begin > 0) {  // A tile of which an element is read.
        input.part.granule = read.begin;
        input.row_granules = granules_of_tile(input.shape);
      }
      inputs_.push_back(std::move(input));
    }
    for (const ElementwisePlan::Output& made : plan.outputs) {
      const auto leaf = made.operand - static_cast<int>(instruction.operands.size());
      outputs_.push_back({leaf, made.shape, rows_of_array(made.shape)});
    }
  }

  void emit(const std::vector<VmemRegion>& regions) override { kernel_.emit(regions); }
  /// A sum over everything is in all lanes; what is made of scalars alone is where they are.
  bool makes_everywhere(std::size_t output, bool inputs) const override {
    const ElementwisePlan& plan = kernel_.plan();
    const ElementwisePlan::Output& made = plan.outputs[output];
    if (made.kind == ElementwisePlan::OutputKind::kAccumulated) return true;
    return made.kind == ElementwisePlan::OutputKind::kStream && plan.reductions.empty() && inputs;
  }
  void set_everywhere(std::size_t input) override {
    if (kernel_.plan().inputs[input].fixed) kernel_.set_everywhere(input);
  }
  bool reduce(std::optional<std::uint32_t> block, MemberLimits& limits) const override {
    if (!block) return limits.elementwise.reduce({});
    const std::optional<PassKind> pass = kernel_.pass_of(*block);
    return pass && limits.elementwise.reduce(pass);
  }

 private:
  static PlanLimits whole(const MemberLimits& limits) {
    PlanLimits whole = limits.elementwise;
    whole.whole_arrays = true;
    return whole;
  }

  Computation fused_;
  ExpressionGraph graph_;
  ElementwiseKernel kernel_;
};

class DotMember : public SequenceMember {
 public:
  DotMember(KernelBuilder& builder, const hlo::Module& module, const Computation& sequence,
            const HloInstruction& instruction, const MemberLimits& limits)
      : builder_(builder),
        limits_(limits),
        operands_(instruction.operands.size()),
        epilogue_(matmul_epilogue(module, sequence, instruction)),
        problem_(problem_of(epilogue_, true)),
        tiling_(find_whole_dot_tiling(problem_, builder.target()).value()) {
    if (problem_.sides_exchanged) epilogue_.exchange_sides();
    const DotSizes sizes(problem_, tiling_, builder.target());
    add_input(instruction, sequence, epilogue_.lhs, sizes.left.vmem_rows());
    add_input(instruction, sequence, epilogue_.rhs, sizes.right.vmem_rows());
    const auto rows_of = [&](const hlo::Shape& shape, bool in_blocks) {
      return std::max<std::uint64_t>(rows_of_array(shape),
                                     in_blocks ? sizes.result_shape(shape.type).vmem_rows() : 0);
    };
    for (const MatmulEpilogue::Operand& read : epilogue_.operands) {
      const bool in_blocks = read.kind == MatmulEpilogue::Operand::Kind::kBlocks;
      add_input(instruction, sequence, read.operand, rows_of(read.access.shape, in_blocks));
    }
    for (const MatmulEpilogue::Result& made : epilogue_.results) {
      const bool in_blocks = made.kind == MatmulEpilogue::Result::Kind::kBlocks;
      outputs_.push_back({made.operand - static_cast<std::int64_t>(operands_), made.shape,
                          rows_of(made.shape, in_blocks)});
    }
  }

  void emit(const std::vector<VmemRegion>& regions) override {
    ArraysInVmem arrays(operands_ + outputs_.size());
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      arrays[static_cast<std::size_t>(inputs_[i].operand)] = regions[i];
    }
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      arrays[operands_ + static_cast<std::size_t>(outputs_[i].leaf)] = regions[inputs_.size() + i];
    }
    first_block_ = builder_.block_number();
    DotKernel(builder_, problem_, tiling_, epilogue_, limits_.epilogue_tiles, arrays).emit();
    end_block_ = builder_.block_number() + 1;
  }
  bool makes_everywhere(std::size_t, bool) const override { return false; }
  /// Scalars behind a product are spread by whoever reads them.
  void set_everywhere(std::size_t) override {}
  bool reduce(std::optional<std::uint32_t> block, MemberLimits& limits) const override {
    if (block && (*block < first_block_ || *block >= end_block_)) return false;
    if (limits.epilogue_tiles == 1) return false;
    limits.epilogue_tiles /= 2;
    return true;
  }

 private:
  void add_input(const HloInstruction& instruction, const Computation& sequence, int operand,
                 std::uint64_t rows) {
    const hlo::Shape& shape =
        sequence.at(instruction.operands[static_cast<std::size_t>(operand)]).shape;
    for (Input& known : inputs_) {
      if (known.operand != operand) continue;
      known.rows = std::max(known.rows, rows);
      return;
    }
    inputs_.push_back({operand, shape, {}, 0, std::max(rows, rows_of_array(shape))});
  }

  KernelBuilder& builder_;
  MemberLimits limits_;
  std::size_t operands_;
  MatmulEpilogue epilogue_;
  DotProblem problem_;
  DotTiling tiling_;
  std::uint32_t first_block_ = 0, end_block_ = 0;
};

}  // namespace

std::optional<std::uint64_t> granules_of_dot_in_vmem(const hlo::Module& module,
                                                     const Computation& computation,
                                                     const HloInstruction& instruction,
                                                     const Target& target) {
  const HloInstruction* product = product_in(module, instruction);
  if (product == nullptr || product->opcode != HloOpcode::kDot) return std::nullopt;
  const MatmulEpilogue epilogue = matmul_epilogue(module, computation, instruction);
  // A side would be made in the place of an array that stays.
  if (epilogue.prologues[0] || epilogue.prologues[1]) return std::nullopt;
  if (!find_dot_problem(*product, epilogue.lhs_shape, epilogue.rhs_shape, epilogue.out_shape)) {
    return std::nullopt;
  }
  DotProblem problem = problem_of(epilogue, true);
  const std::optional<DotTiling> tiling = find_whole_dot_tiling(problem, target);
  if (!tiling) return std::nullopt;
  return DotSizes(problem, *tiling, target).plan.array_rows() / kRowsPerGranule;
}

std::unique_ptr<SequenceMember> make_sequence_member(KernelBuilder& builder,
                                                     const hlo::Module& module,
                                                     const Computation& sequence,
                                                     const HloInstruction& instruction,
                                                     const MemberLimits& limits) {
  if (product_in(module, instruction) != nullptr) {
    return std::make_unique<DotMember>(builder, module, sequence, instruction, limits);
  }
  if (moves_in_vmem(sequence, instruction)) {
    return std::make_unique<RelayoutMember>(builder, sequence, instruction);
  }
  return std::make_unique<ElementwiseMember>(builder, module, sequence, instruction, limits);
}

}  // namespace tpu::compiler
