#include "workloads/compiler/passes/edit.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "sim/base/error.h"

namespace tpu::compiler {

using hlo::Computation;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::InstructionId;

std::vector<std::vector<InstructionId>> users_of(const Computation& computation) {
  std::vector<std::vector<InstructionId>> users(computation.instructions.size());
  for (const HloInstruction& instruction : computation.instructions) {
    for (InstructionId operand : instruction.operands) {
      std::vector<InstructionId>& list = users[static_cast<std::size_t>(operand)];
      if (list.empty() || list.back() != instruction.id) list.push_back(instruction.id);
    }
  }
  return users;
}

InstructionId append(Computation& computation, HloInstruction instruction) {
  instruction.id = static_cast<InstructionId>(computation.instructions.size());
  computation.instructions.push_back(std::move(instruction));
  return computation.instructions.back().id;
}

namespace {

bool has_effect(HloOpcode opcode) {
  switch (opcode) {
    case HloOpcode::kParameter:
    case HloOpcode::kInfeed:
    case HloOpcode::kOutfeed:
    case HloOpcode::kSend:
    case HloOpcode::kSendDone:
    case HloOpcode::kRecv:
    case HloOpcode::kRecvDone:
      return true;
    default:
      return false;
  }
}

std::vector<char> reached(const Computation& computation) {
  std::vector<char> live(computation.instructions.size(), 0);
  std::vector<InstructionId> work{computation.root};
  for (const HloInstruction& instruction : computation.instructions) {
    if (has_effect(instruction.opcode)) work.push_back(instruction.id);
  }
  while (!work.empty()) {
    const InstructionId id = work.back();
    work.pop_back();
    char& seen = live[static_cast<std::size_t>(id)];
    if (seen) continue;
    seen = 1;
    const HloInstruction& instruction = computation.at(id);
    work.insert(work.end(), instruction.operands.begin(), instruction.operands.end());
    work.insert(work.end(), instruction.control_predecessors->begin(),
                instruction.control_predecessors->end());
  }
  return live;
}

/// Depth-first order over operands, starting from the instructions in their present order.
std::vector<InstructionId> operands_first(const Computation& computation,
                                          const std::vector<char>& live) {
  enum : char { kNew, kOpen, kDone };
  std::vector<char> state(computation.instructions.size(), kNew);
  std::vector<InstructionId> order, stack;
  for (const HloInstruction& start : computation.instructions) {
    if (live[static_cast<std::size_t>(start.id)]) stack.push_back(start.id);
    while (!stack.empty()) {
      const InstructionId id = stack.back();
      char& mark = state[static_cast<std::size_t>(id)];
      if (mark != kNew) {
        if (mark == kOpen) order.push_back(id);
        mark = kDone;
        stack.pop_back();
        continue;
      }
      mark = kOpen;
      const HloInstruction& instruction = computation.at(id);
      const auto push = [&](InstructionId operand) {
        const char seen = state[static_cast<std::size_t>(operand)];
        TPU_CHECK(seen != kOpen, "operands of " << instruction.name << " form a cycle");
        if (seen == kNew) stack.push_back(operand);
      };
      std::for_each(instruction.control_predecessors->rbegin(),
                    instruction.control_predecessors->rend(), push);
      std::for_each(instruction.operands.rbegin(), instruction.operands.rend(), push);
    }
  }
  return order;
}

}  // namespace

void tidy(Computation& computation) {
  const std::vector<InstructionId> order = operands_first(computation, reached(computation));
  std::vector<InstructionId> new_id(computation.instructions.size(), -1);
  std::vector<HloInstruction> kept;
  kept.reserve(order.size());
  for (InstructionId old : order) {
    new_id[static_cast<std::size_t>(old)] = static_cast<InstructionId>(kept.size());
    kept.push_back(std::move(computation.at(old)));
  }
  for (std::size_t i = 0; i < kept.size(); ++i) {
    kept[i].id = static_cast<InstructionId>(i);
    for (InstructionId& operand : kept[i].operands) {
      operand = new_id[static_cast<std::size_t>(operand)];
    }
    kept[i].renumber_predecessors(
        [&](InstructionId before) { return new_id[static_cast<std::size_t>(before)]; });
  }
  computation.instructions = std::move(kept);
  computation.root = new_id[static_cast<std::size_t>(computation.root)];
}

void remove_unused_computations(hlo::Module& module) {
  std::vector<char> live(module.computations.size(), 0);
  std::vector<hlo::ComputationId> work{module.entry};
  while (!work.empty()) {
    const hlo::ComputationId id = work.back();
    work.pop_back();
    char& seen = live[static_cast<std::size_t>(id)];
    if (seen) continue;
    seen = 1;
    for (const HloInstruction& instruction : module.computation(id).instructions) {
      work.insert(work.end(), instruction.called.begin(), instruction.called.end());
    }
  }
  std::vector<hlo::ComputationId> new_id(module.computations.size(), -1);
  std::vector<Computation> kept;
  for (std::size_t i = 0; i < live.size(); ++i) {
    if (!live[i]) continue;
    new_id[i] = static_cast<hlo::ComputationId>(kept.size());
    kept.push_back(std::move(module.computations[i]));
  }
  for (Computation& computation : kept) {
    for (HloInstruction& instruction : computation.instructions) {
      for (hlo::ComputationId& called : instruction.called) {
        called = new_id[static_cast<std::size_t>(called)];
      }
    }
  }
  module.computations = std::move(kept);
  module.entry = new_id[static_cast<std::size_t>(module.entry)];
}

namespace {

/// Writes values one after another, lists with their length.
class KeyWriter {
 public:
  template <class Integer>
  void number(Integer value) {
    const std::int64_t wide = static_cast<std::int64_t>(value);
    char bytes[sizeof wide];
    std::memcpy(bytes, &wide, sizeof wide);
    key_.append(bytes, sizeof wide);
  }
  template <class Integer>
  void list(const std::vector<Integer>& values) {
    number(values.size());
    for (Integer value : values) number(value);
  }
  void text(const std::string& value) {
    number(value.size());
    key_ += value;
  }
  void shape(const hlo::Shape& shape) {
    number(shape.type);
    list(shape.dimensions);
    list(shape.layout.minor_to_major);
    number(shape.elements.size());
    for (const hlo::Shape& element : shape.elements) this->shape(element);
  }
  std::string take() { return std::move(key_); }

 private:
  std::string key_;
};

void write_windows(KeyWriter& key, const HloInstruction& instruction) {
  key.number(instruction.window.size());
  for (const hlo::WindowDimension& d : instruction.window) {
    key.list(std::vector<std::int64_t>{d.size, d.stride, d.padding_low, d.padding_high,
                                       d.base_dilation, d.window_dilation, d.reversal});
  }
  const hlo::ConvolutionDimensions& c = instruction.convolution;
  key.list(std::vector<std::int64_t>{c.input_batch, c.input_feature, c.kernel_input_feature,
                                     c.kernel_output_feature, c.output_batch, c.output_feature});
  key.list(c.input_spatial);
  key.list(c.kernel_spatial);
  key.list(c.output_spatial);
  key.number(instruction.padding.size());
  for (const hlo::PaddingDimension& d : instruction.padding) {
    key.list(std::vector<std::int64_t>{d.low, d.high, d.interior});
  }
}

void write_own(KeyWriter& key, const HloInstruction& instruction) {
  key.number(instruction.opcode);
  key.shape(instruction.shape);
  key.list(instruction.operands);
  key.number(instruction.parameter_number);
  key.number(instruction.tuple_index);
  key.list(instruction.dimensions);
  key.number(instruction.direction);
  key.list(instruction.dot->lhs_batch);
  key.list(instruction.dot->rhs_batch);
  key.list(instruction.dot->lhs_contracting);
  key.list(instruction.dot->rhs_contracting);
  write_windows(key, instruction);
  key.number(instruction.feature_group_count);
  key.number(instruction.batch_group_count);
  key.list(instruction.slice->starts);
  key.list(instruction.slice->limits);
  key.list(instruction.slice->strides);
  key.list(instruction.dynamic_slice_sizes.get());
  key.list(instruction.gather->offset_dims);
  key.list(instruction.gather->collapsed_slice_dims);
  key.list(instruction.gather->start_index_map);
  key.number(instruction.gather->index_vector_dim);
  key.list(instruction.gather->slice_sizes);
  for (const std::vector<std::int64_t>& group : instruction.replica_groups.get()) key.list(group);
  key.list(instruction.literal);
  key.text(instruction.custom_call_target);
  key.text(instruction.fusion_kind);
  key.text(instruction.raw_attributes);
}

void write(KeyWriter& key, const hlo::Module& module, const HloInstruction& instruction) {
  write_own(key, instruction);
  for (hlo::ComputationId id : instruction.called) {
    const Computation& called = module.computation(id);
    key.number(called.root);
    for (const HloInstruction& inner : called.instructions) write(key, module, inner);
  }
}

}  // namespace

std::string value_key(const hlo::Module& module, const HloInstruction& instruction) {
  KeyWriter key;
  write(key, module, instruction);
  return key.take();
}

std::string value_key(const HloInstruction& instruction) {
  if (!instruction.called.empty()) throw SimulatorBug("value_key: calls need their module");
  KeyWriter key;
  write_own(key, instruction);
  return key.take();
}

}  // namespace tpu::compiler
