#include "workloads/compiler/passes/program_assembly.h"

#include <map>
#include <unordered_map>

#include "sim/base/error.h"
#include "workloads/compiler/kernels/infeed.h"
#include "workloads/compiler/passes/edit.h"
#include "workloads/compiler/passes/op_info.h"
#include "workloads/compiler/passes/storage.h"

namespace tpu::compiler {

using hlo::Computation;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::InstructionId;

namespace {

/// The top-level kernel, bundle by bundle.
class TopLevel {
 public:
  explicit TopLevel(const std::string& name) { kernel_.name = name; }

  /// Moves the numbers into s0, s1, ..., two a bundle, then calls.
  void call(std::uint32_t call_site, const std::vector<std::uint32_t>& operands) {
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (i % 2 == 0) begin_bundle();
      isa::Instruction move;
      move.opcode = isa::Opcode::kSmov;
      move.dest = static_cast<std::uint8_t>(i);
      move.operands[0] = isa::Operand::immediate_(operands[i]);
      add(move);
    }
    begin_bundle();
    isa::Instruction call;
    call.opcode = isa::Opcode::kCall;
    call.operands[0] = isa::Operand::immediate_(call_site);
    add(call);
  }

  isa::Kernel take() {
    if (kernel_.bundles.empty()) begin_bundle();
    return std::move(kernel_);
  }

 private:
  void begin_bundle() {
    isa::Bundle bundle;
    bundle.first_instruction = static_cast<std::uint32_t>(kernel_.instructions.size());
    kernel_.bundles.push_back(bundle);
  }
  void add(const isa::Instruction& instruction) {
    kernel_.instructions.push_back(instruction);
    ++kernel_.bundles.back().instruction_count;
  }

  isa::Kernel kernel_;
};

/// An operation without a kernel.
struct Refusal {
  std::string why;  ///< Of the first instruction of its kind.
  std::size_t count = 0;
};

class Assembly {
 public:
  Assembly(const hlo::Module& module, const HbmPlan& plan, const Target& target,
           const KernelMaker& make_kernel)
      : module_(module),
        entry_(module.entry_computation()),
        plan_(plan),
        target_(target),
        make_kernel_(make_kernel),
        top_(module.name) {
    program_.kernels.emplace_back();
  }

  isa::Program run() {
    if (plan_.infeed_granules > 0) add_infeed();
    for (const HloInstruction& instruction : entry_.instructions) {
      if (!is_bookkeeping(instruction.opcode)) add_op(instruction);
    }
    refuse_if_needed();
    program_.kernels[0] = top_.take();
    program_.buffers = plan_.buffers;
    program_.hbm_peak_bytes = plan_.peak_granules * isa::kHbmGranuleBytes;
    return std::move(program_);
  }

 private:
  void add_infeed();
  void add_op(const HloInstruction& instruction);
  void add_call(std::uint32_t kernel, isa::OpInfo info, const std::vector<std::uint32_t>& operands);
  std::vector<std::uint32_t> addresses(const HloInstruction& instruction) const;
  void refuse(const HloInstruction& instruction, const std::string& why);
  void refuse_if_needed() const;

  const hlo::Module& module_;
  const Computation& entry_;
  const HbmPlan& plan_;
  const Target& target_;
  const KernelMaker& make_kernel_;
  TopLevel top_;
  isa::Program program_;
  std::unordered_map<std::string, std::uint32_t> kernel_of_;
  std::map<std::string, Refusal> refusals_;  ///< By opcode and shapes.
};

void Assembly::add_call(std::uint32_t kernel, isa::OpInfo info,
                        const std::vector<std::uint32_t>& operands) {
  isa::CallSite site;
  site.kernel = kernel;
  site.op = static_cast<std::uint32_t>(program_.ops.size());
  program_.ops.push_back(std::move(info));
  top_.call(static_cast<std::uint32_t>(program_.call_sites.size()), operands);
  program_.call_sites.push_back(std::move(site));
}

void Assembly::add_infeed() {
  const auto granules = static_cast<std::uint32_t>(plan_.infeed_granules);
  isa::OpInfo info;
  info.name = "infeed";
  info.category = "infeed";
  const std::vector<InstructionId> parameters = entry_.parameters();
  for (std::int64_t number : module_.infeed_parameters) {
    const hlo::Shape& shape = entry_.at(parameters.at(static_cast<std::size_t>(number))).shape;
    info.hbm_bytes += static_cast<std::uint64_t>(shape.unpadded_bytes());
    info.shape += (info.shape.empty() ? "" : ", ") + to_string(shape);
  }
  program_.infeed_bytes = plan_.infeed_granules * isa::kHbmGranuleBytes;
  program_.infeed_host_bytes = info.hbm_bytes;
  const auto kernel = static_cast<std::uint32_t>(program_.kernels.size());
  program_.kernels.push_back(infeed_kernel(granules, target_));
  add_call(kernel, std::move(info), {static_cast<std::uint32_t>(plan_.infeed_granule)});
}

std::vector<std::uint32_t> Assembly::addresses(const HloInstruction& instruction) const {
  std::vector<std::uint32_t> all;
  const auto add = [&](InstructionId id) {
    const std::vector<std::uint64_t>& granules = plan_.granules_of[static_cast<std::size_t>(id)];
    if (granules.empty()) all.push_back(0);
    for (std::uint64_t granule : granules) all.push_back(static_cast<std::uint32_t>(granule));
  };
  if (instruction.opcode == HloOpcode::kAllReduce) {
    return {static_cast<std::uint32_t>(
        plan_.granules_of[static_cast<std::size_t>(instruction.id)].at(0))};
  }
  for (InstructionId operand : instruction.operands) add(operand);
  add(instruction.id);
  return all;
}

void Assembly::add_op(const HloInstruction& instruction) {
  const std::vector<std::uint32_t> operands = addresses(instruction);
  if (operands.size() >= isa::kScalarRegisters) {
    refuse(instruction, "expected fewer than " + std::to_string(isa::kScalarRegisters) +
                            " operands and results, found " + std::to_string(operands.size()));
    return;
  }
  const std::string key = kernel_fingerprint(module_, instruction);
  auto found = kernel_of_.find(key);
  if (found == kernel_of_.end()) {
    try {
      isa::Kernel kernel = make_kernel_(instruction);
      found = kernel_of_.emplace(key, static_cast<std::uint32_t>(program_.kernels.size())).first;
      program_.kernels.push_back(std::move(kernel));
    } catch (const WorkloadError& error) {
      refuse(instruction, error.what());
      return;
    }
  }
  add_call(found->second, op_info(module_, instruction, target_), operands);
}

void Assembly::refuse(const HloInstruction& instruction, const std::string& why) {
  std::string text = std::string(hlo::to_string(instruction.opcode)) + "(";
  for (std::size_t i = 0; i < instruction.operands.size(); ++i) {
    if (i > 0) text += ", ";
    text += to_string(entry_.at(instruction.operands[i]).shape, false);
  }
  text += ") -> " + to_string(instruction.shape, false);
  Refusal& refusal = refusals_[text];
  if (refusal.count++ == 0) refusal.why = instruction.name + ": " + why;
}

void Assembly::refuse_if_needed() const {
  constexpr std::size_t kListed = 20;
  if (refusals_.empty()) return;
  std::string text = module_.name + ": " + std::to_string(refusals_.size()) +
                     (refusals_.size() == 1 ? " operation has" : " operations have") +
                     " no kernel; change the model or run it elsewhere:";
  std::size_t listed = 0;
  for (const auto& [operation, refusal] : refusals_) {
    if (listed++ == kListed) {
      text += "\n  and " + std::to_string(refusals_.size() - kListed) + " more";
      break;
    }
    text += "\n  " + operation +
            (refusal.count == 1 ? "" : ", " + std::to_string(refusal.count) + " times") + " (" +
            refusal.why + ")";
  }
  throw WorkloadError(text);
}

}  // namespace

std::string kernel_fingerprint(const hlo::Module& module, const HloInstruction& instruction) {
  const Computation& entry = module.entry_computation();
  HloInstruction anonymous = instruction;
  std::string operands;
  for (std::size_t i = 0; i < anonymous.operands.size(); ++i) {
    HloInstruction operand = entry.at(anonymous.operands[i]);
    if (operand.opcode != HloOpcode::kConstant || operand.shape.rank() != 0) {
      HloInstruction array;
      array.opcode = HloOpcode::kParameter;
      array.shape = operand.shape;
      operand = std::move(array);
    }
    operands += value_key(module, operand);
    anonymous.operands[i] = static_cast<InstructionId>(i);
  }
  return value_key(module, anonymous) + operands;
}

isa::Program assemble_program(const hlo::Module& module, const HbmPlan& plan, const Target& target,
                              const KernelMaker& make_kernel) {
  return Assembly(module, plan, target, make_kernel).run();
}

}  // namespace tpu::compiler
