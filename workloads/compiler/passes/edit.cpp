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
  const bool is_tidy =
      order.size() == computation.instructions.size() && std::is_sorted(order.begin(), order.end());
  if (is_tidy) return;
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
  void bytes(const std::vector<std::uint8_t>& values) {
    number(values.size());
    key_.append(values.begin(), values.end());
  }
  void shape(const hlo::Shape& shape) {
    number(shape.type);
    list(shape.dimensions);
    list(shape.layout.minor_to_major);
    number(shape.elements.size());
    for (const hlo::Shape& element : shape.elements) this->shape(element);
  }
  /// What `write` writes of a value that few instructions have.
  template <class Boxed, class Write>
  void boxed(const Boxed& value, Write write) {
    key_ += value.is_set() ? '\1' : '\0';
    if (value.is_set()) write(value.get());
  }
  std::string take() { return std::move(key_); }

 private:
  std::string key_;
};

void write_windows(KeyWriter& key, const HloInstruction& instruction) {
  key.number(instruction.window.size());
  for (const hlo::WindowDimension& d : instruction.window) {
    for (std::int64_t value : {d.size, d.stride, d.padding_low, d.padding_high, d.base_dilation,
                               d.window_dilation, std::int64_t{d.reversal}}) {
      key.number(value);
    }
  }
  key.boxed(instruction.convolution, [&key](const hlo::ConvolutionDimensions& c) {
    for (std::int64_t value : {c.input_batch, c.input_feature, c.kernel_input_feature,
                               c.kernel_output_feature, c.output_batch, c.output_feature}) {
      key.number(value);
    }
    key.list(c.input_spatial);
    key.list(c.kernel_spatial);
    key.list(c.output_spatial);
  });
  key.number(instruction.padding.size());
  for (const hlo::PaddingDimension& d : instruction.padding) {
    for (std::int64_t value : {d.low, d.high, d.interior}) key.number(value);
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
  key.boxed(instruction.dot, [&key](const hlo::DotDimensions& dot) {
    key.list(dot.lhs_batch);
    key.list(dot.rhs_batch);
    key.list(dot.lhs_contracting);
    key.list(dot.rhs_contracting);
  });
  write_windows(key, instruction);
  key.number(instruction.feature_group_count);
  key.number(instruction.batch_group_count);
  key.boxed(instruction.slice, [&key](const hlo::SliceBounds& slice) {
    key.list(slice.starts);
    key.list(slice.limits);
    key.list(slice.strides);
  });
  key.boxed(instruction.dynamic_slice_sizes, [&key](const auto& sizes) { key.list(sizes); });
  key.boxed(instruction.gather, [&key](const hlo::GatherDimensions& gather) {
    key.list(gather.offset_dims);
    key.list(gather.collapsed_slice_dims);
    key.list(gather.start_index_map);
    key.number(gather.index_vector_dim);
    key.list(gather.slice_sizes);
  });
  key.boxed(instruction.replica_groups, [&key](const auto& groups) {
    for (const std::vector<std::int64_t>& group : groups) key.list(group);
  });
  key.bytes(instruction.literal);
  const auto text = [&key](const std::string& value) { key.text(value); };
  key.boxed(instruction.custom_call_target, text);
  key.boxed(instruction.fusion_kind, text);
  key.boxed(instruction.raw_attributes, text);
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
