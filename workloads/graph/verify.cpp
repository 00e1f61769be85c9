#include <set>
#include <string>

#include "sim/base/error.h"
#include "workloads/graph/graph.h"
#include "workloads/graph/shape_inference.h"

namespace tpu::hlo {

namespace {

/// Checks a module from the outside in: computations and their calls, instructions, entry.
class Verifier {
 public:
  explicit Verifier(const Module& module) : module_(module) {}

  void run() {
    const std::int64_t count = static_cast<std::int64_t>(module_.computations.size());
    if (module_.entry < 0 || module_.entry >= count) {
      throw WorkloadError("module \"" + module_.name + "\": expected an entry computation among " +
                          std::to_string(count) + ", found number " +
                          std::to_string(module_.entry));
    }
    for (const Computation& computation : module_.computations) check_structure(computation);
    state_.assign(module_.computations.size(), State::kUnseen);
    for (ComputationId id = 0; id < static_cast<ComputationId>(count); ++id) check_calls(id);
    for (const Computation& computation : module_.computations) {
      for (const HloInstruction& instruction : computation.instructions) {
        check_shape(computation, instruction);
      }
    }
    check_entry();
  }

 private:
  enum class State { kUnseen, kOpen, kDone };

  [[noreturn]] void fail(const Computation& computation, const HloInstruction& instruction,
                         const std::string& what) const {
    throw WorkloadError("instruction \"" + instruction.name + "\" (" +
                        std::string(to_string(instruction.opcode)) + ") of computation \"" +
                        computation.name + "\": " + what);
  }
  [[noreturn]] void fail(const Computation& computation, const std::string& what) const {
    throw WorkloadError("computation \"" + computation.name + "\": " + what);
  }

  void check_structure(const Computation& computation) const {
    const InstructionId count = static_cast<InstructionId>(computation.instructions.size());
    if (computation.root < 0 || computation.root >= count) {
      fail(computation, "expected a root among " + std::to_string(count) +
                            " instructions, found number " + std::to_string(computation.root));
    }
    std::set<std::string_view> names;
    for (InstructionId id = 0; id < count; ++id) {
      const HloInstruction& instruction = computation.at(id);
      TPU_CHECK(instruction.id == id, instruction.name << " has id " << instruction.id);
      if (instruction.opcode >= HloOpcode::kCount) {
        fail(computation, instruction, "expected an opcode of HLO, found none");
      }
      if (instruction.name.empty() || !names.insert(instruction.name).second) {
        fail(computation, instruction, "expected a name that no other instruction has");
      }
      check_references(computation, instruction);
    }
    check_parameters(computation);
  }

  void check_references(const Computation& computation, const HloInstruction& instruction) const {
    for (InstructionId operand : instruction.operands) {
      if (operand < 0 || operand >= instruction.id) {
        fail(computation, instruction,
             "expected operands that stand before it, found number " + std::to_string(operand));
      }
    }
    for (InstructionId before : instruction.control_predecessors.get()) {
      if (before < 0 || before >= static_cast<InstructionId>(computation.instructions.size()) ||
          before == instruction.id) {
        fail(computation, instruction, "expected control predecessors in its computation");
      }
    }
    for (ComputationId called : instruction.called) {
      if (called < 0 || called >= static_cast<ComputationId>(module_.computations.size())) {
        fail(computation, instruction,
             "expected called computations of this module, found number " + std::to_string(called));
      }
    }
  }

  void check_parameters(const Computation& computation) const {
    const std::vector<InstructionId> parameters = computation.parameters();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const HloInstruction& parameter = computation.at(parameters[i]);
      if (parameter.parameter_number != static_cast<std::int64_t>(i)) {
        fail(computation, parameter,
             "expected parameter numbers 0 to " + std::to_string(parameters.size() - 1) +
                 " once each, found " + std::to_string(parameter.parameter_number) +
                 " in the place of " + std::to_string(i));
      }
    }
  }

  /// Refuses computations that call themselves, directly or through others.
  void check_calls(ComputationId start) {
    struct Frame {
      ComputationId id;
      std::vector<ComputationId> pending;
    };
    std::vector<Frame> stack;
    const auto open = [&](ComputationId id) {
      state_[static_cast<std::size_t>(id)] = State::kOpen;
      Frame frame{id, {}};
      for (const HloInstruction& instruction : module_.computation(id).instructions) {
        frame.pending.insert(frame.pending.end(), instruction.called.begin(),
                             instruction.called.end());
      }
      stack.push_back(std::move(frame));
    };
    if (state_[static_cast<std::size_t>(start)] == State::kUnseen) open(start);
    while (!stack.empty()) {
      Frame& frame = stack.back();
      if (frame.pending.empty()) {
        state_[static_cast<std::size_t>(frame.id)] = State::kDone;
        stack.pop_back();
        continue;
      }
      const ComputationId next = frame.pending.back();
      frame.pending.pop_back();
      const State state = state_[static_cast<std::size_t>(next)];
      if (state == State::kOpen) {
        fail(module_.computation(next), "expected calls without recursion, but it calls itself");
      }
      if (state == State::kUnseen) open(next);
    }
  }

  void check_dimensions(const Computation& computation, const HloInstruction& instruction,
                        const Shape& shape) const {
    for (std::int64_t dimension : shape.dimensions) {
      if (dimension < 0) {
        fail(computation, instruction,
             "expected dimensions of at least 0, found " + to_string(shape, false));
      }
    }
    for (const Shape& element : shape.elements) {
      check_dimensions(computation, instruction, element);
    }
  }

  /// Both shapes, leaving open which floating type an instruction computes in.
  static bool agrees(const Shape& stated, const Shape& implied) {
    if (stated.is_tuple() != implied.is_tuple() ||
        stated.elements.size() != implied.elements.size() ||
        stated.dimensions != implied.dimensions) {
      return false;
    }
    const auto floating = [](ElementType type) {
      return type >= ElementType::kF16 && type <= ElementType::kF64;
    };
    if (stated.type != implied.type && !(floating(stated.type) && floating(implied.type))) {
      return false;
    }
    for (std::size_t i = 0; i < stated.elements.size(); ++i) {
      if (!agrees(stated.elements[i], implied.elements[i])) return false;
    }
    return true;
  }

  void check_shape(const Computation& computation, const HloInstruction& instruction) const {
    check_dimensions(computation, instruction, instruction.shape);
    std::optional<Shape> implied;
    try {
      (void)instruction.shape.unpadded_bytes();
      implied = infer_shape(module_, computation, instruction);
    } catch (const WorkloadError& error) {
      fail(computation, instruction, error.what());
    }
    if (implied && !agrees(instruction.shape, *implied)) {
      fail(computation, instruction,
           "expected " + to_string(*implied, false) + ", which its operands imply, found " +
               to_string(instruction.shape, false));
    }
    if (instruction.opcode == HloOpcode::kConstant && !instruction.literal.empty() &&
        static_cast<std::int64_t>(instruction.literal.size()) !=
            instruction.shape.unpadded_bytes()) {
      fail(computation, instruction,
           "expected a literal of " + std::to_string(instruction.shape.unpadded_bytes()) +
               " bytes for " + to_string(instruction.shape, false) + ", found " +
               std::to_string(instruction.literal.size()));
    }
    if (instruction.opcode == HloOpcode::kIota &&
        (instruction.dimensions.size() != 1 || instruction.dimensions[0] < 0 ||
         instruction.dimensions[0] >= instruction.shape.rank())) {
      fail(computation, instruction,
           "expected one iota_dimension within " + to_string(instruction.shape, false));
    }
  }

  void check_entry() const {
    const Computation& entry = module_.entry_computation();
    const std::vector<InstructionId> parameters = entry.parameters();
    const Shape& result = entry.at(entry.root).shape;
    const std::int64_t outputs =
        result.is_tuple() ? static_cast<std::int64_t>(result.elements.size()) : 1;
    const auto parameter_exists = [&](std::int64_t number) {
      return number >= 0 && number < static_cast<std::int64_t>(parameters.size());
    };
    for (const Alias& alias : module_.aliases) {
      if (!parameter_exists(alias.parameter_number) || alias.output_index < 0 ||
          alias.output_index >= outputs) {
        fail(entry, "expected an alias of one of " + std::to_string(outputs) +
                        " outputs with one of " + std::to_string(parameters.size()) +
                        " parameters, found output " + std::to_string(alias.output_index) +
                        " and parameter " + std::to_string(alias.parameter_number));
      }
      const Shape& output = result.is_tuple()
                                ? result.elements[static_cast<std::size_t>(alias.output_index)]
                                : result;
      const Shape& parameter =
          entry.at(parameters[static_cast<std::size_t>(alias.parameter_number)]).shape;
      if (!same_extent(output, parameter)) {
        fail(entry, "expected output " + std::to_string(alias.output_index) +
                        " to have the shape of parameter " +
                        std::to_string(alias.parameter_number) + ", " +
                        to_string(parameter, false) + ", found " + to_string(output, false));
      }
    }
    for (std::int64_t number : module_.infeed_parameters) {
      if (!parameter_exists(number)) {
        fail(entry, "expected infeed parameters among " + std::to_string(parameters.size()) +
                        ", found number " + std::to_string(number));
      }
    }
  }

  const Module& module_;
  std::vector<State> state_;
};

}  // namespace

void verify(const Module& module) { Verifier(module).run(); }

}  // namespace tpu::hlo
