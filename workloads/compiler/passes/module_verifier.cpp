#include "workloads/compiler/passes/module_verifier.h"

#include <algorithm>
#include <cstdlib>
#include <set>
#include <vector>

#include "sim/base/error.h"
#include "workloads/compiler/ir/array_layout.h"
#include "workloads/compiler/ir/combining_operation.h"
#include "workloads/compiler/ir/iteration_place.h"
#include "workloads/compiler/passes/expand/rings.h"
#include "workloads/compiler/passes/expand/widen.h"
#include "workloads/compiler/passes/memory/storage.h"

namespace tpu::compiler {

using hlo::Computation;
using hlo::ElementType;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::InstructionId;
using hlo::Shape;

namespace {

bool is_placed_by_iteration(const HloInstruction& instruction) {
  return is_slice_of_iteration(instruction) || is_update_of_iteration(instruction);
}

/// Whether a slice stands as a bitcast, since it is one range of its operand (`find_bitcasts`).
bool is_slice_by_bitcast(const Computation& computation, const HloInstruction& instruction) {
  return instruction.opcode == HloOpcode::kBitcast && instruction.operands.size() == 1 &&
         instruction.operands[0] >= 0 && instruction.operands[0] < instruction.id &&
         instruction.shape.element_count() <
             computation.at(instruction.operands[0]).shape.element_count();
}

/// Whether XLA has no such instruction.
bool is_ours_only(const Computation& computation, const HloInstruction& instruction) {
  return is_placed_by_iteration(instruction) || runs_region(instruction) ||
         is_slice_by_bitcast(computation, instruction);
}

/// True when the test holds for the shape or, of a tuple, for one of its arrays.
template <class Test>
bool any_array(const Shape& shape, const Test& test) {
  if (!shape.is_tuple()) return test(shape);
  return std::any_of(shape.elements.begin(), shape.elements.end(),
                     [&](const Shape& element) { return any_array(element, test); });
}

class ModuleVerifier {
 public:
  ModuleVerifier(const ScheduledModule& scheduled, const Facts& facts, const std::string& pass)
      : scheduled_(scheduled),
        module_(scheduled.module),
        entry_(scheduled.module.entry_computation()),
        facts_(facts),
        pass_(pass) {}

  void run() {
    check_plain();
    check_no_cycle();
    for (const Computation& computation : module_.computations) {
      for (const HloInstruction& instruction : computation.instructions) {
        check_anywhere(instruction);
      }
    }
    for (const HloInstruction& instruction : entry_.instructions) {
      if (is_placed_by_iteration(instruction)) check_place(instruction);
      if (runs_region(instruction)) check_region(instruction);
      check_of_entry(instruction);
    }
    if (facts_.has(Fact::kPlanned)) check_plan();
  }

 private:
  [[noreturn]] void fail(const HloInstruction& instruction, const std::string& what) const {
    throw SimulatorBug("behind pass " + pass_ + ": instruction \"" + instruction.name + "\" (" +
                       std::string(to_string(instruction.opcode)) + "): " + what);
  }
  void expect(bool holds, const HloInstruction& instruction, const char* what) const {
    if (!holds) fail(instruction, std::string("expected ") + what);
  }

  void check_plain() const {
    try {
      hlo::verify(as_plain_hlo(module_));
    } catch (const WorkloadError& error) {
      throw SimulatorBug("behind pass " + pass_ + ": " + error.what());
    }
  }

  /// Operands stand before their users; what control predecessors add must leave an order.
  void check_no_cycle() const {
    std::vector<char> state(entry_.instructions.size(), 0);  // 1: open, 2: done.
    std::vector<InstructionId> open;
    for (const HloInstruction& start : entry_.instructions) {
      open.push_back(start.id);
      while (!open.empty()) {
        const HloInstruction& instruction = entry_.at(open.back());
        char& mine = state[static_cast<std::size_t>(instruction.id)];
        if (mine != 0) {
          mine = 2;
          open.pop_back();
          continue;
        }
        mine = 1;
        for (const auto* before :
             {&instruction.operands, &instruction.control_predecessors.get()}) {
          for (InstructionId id : *before) {
            const char other = state[static_cast<std::size_t>(id)];
            if (other == 1) fail(instruction, "expected an order, but it waits for itself");
            if (other == 0) open.push_back(id);
          }
        }
      }
    }
  }

  /// Rules of facts about all computations.
  void check_anywhere(const HloInstruction& instruction) const {
    if (facts_.has(Fact::kWhole)) {
      expect(instruction.opcode != HloOpcode::kAsyncStart &&
                 instruction.opcode != HloOpcode::kAllReduceStart &&
                 instruction.opcode != HloOpcode::kAllGatherStart &&
                 instruction.opcode != HloOpcode::kCopyStart,
             instruction, "no start of an operation");
    }
    if (facts_.has(Fact::kInWords)) {
      expect(!any_array(instruction.shape,
                        [](const Shape& shape) {
                          switch (shape.type) {
                            case ElementType::kS8:
                            case ElementType::kS16:
                            case ElementType::kS64:
                            case ElementType::kU8:
                            case ElementType::kU16:
                            case ElementType::kU64:
                            case ElementType::kF16:
                            case ElementType::kF64:
                            case ElementType::kC64:
                              return true;
                            default:
                              return false;
                          }
                        }),
             instruction, "a type that the lanes hold");
    }
    if (facts_.has(Fact::kGroupsNumbered) && !instruction.replica_groups->empty()) {
      expect(ring_of(instruction).number > 0, instruction, "a number of its groups");
    }
  }

  bool is_start_of_scatters(InstructionId broadcast) const {
    return std::all_of(
        entry_.instructions.begin(), entry_.instructions.end(), [&](const HloInstruction& user) {
          const std::vector<InstructionId>& read = user.operands;
          const auto times = std::count(read.begin(), read.end(), broadcast);
          return times == 0 ||
                 (times == 1 && read[0] == broadcast && uniform_start(entry_, user) != nullptr);
        });
  }

  void check_of_entry(const HloInstruction& instruction) const {
    const HloOpcode opcode = instruction.opcode;
    if (facts_.has(Fact::kFlat)) {
      expect(opcode != HloOpcode::kCall && opcode != HloOpcode::kFusion, instruction,
             "no call in the entry");
    }
    if (facts_.has(Fact::kOutlined)) {
      expect((opcode != HloOpcode::kWhile && opcode != HloOpcode::kConditional) ||
                 runs_region(instruction),
             instruction, "a region in the place of computations");
    }
    if (facts_.has(Fact::kLayouts)) check_layout(instruction, instruction.shape);
    if (facts_.has(Fact::kFused)) {
      expect(!hlo::is_elementwise(opcode) && opcode != HloOpcode::kIota, instruction,
             "a fusion around it");
      expect(opcode != HloOpcode::kBroadcast || is_start_of_scatters(instruction.id), instruction,
             "a fusion around it, or scatters that start from it");
    }
    if (facts_.has(Fact::kStoredTypes) && !is_bookkeeping(instruction)) {
      expect(!any_array(instruction.shape,
                        [](const Shape& shape) { return stored_shape(shape).type != shape.type; }),
             instruction, "a type that memory holds");
    }
    if (facts_.has(Fact::kScheduled)) {
      for (InstructionId before : instruction.control_predecessors.get()) {
        expect(before < instruction.id, instruction,
               "control predecessors in front of it, for the order is the schedule");
      }
    }
  }

  void check_layout(const HloInstruction& instruction, const Shape& shape) const {
    for (const Shape& element : shape.elements) check_layout(instruction, element);
    if (shape.is_tuple()) return;
    std::vector<std::int64_t> order = shape.layout.minor_to_major;
    std::sort(order.begin(), order.end());
    bool is_permutation = static_cast<std::int64_t>(order.size()) == shape.rank();
    for (std::size_t i = 0; i < order.size(); ++i) {
      is_permutation = is_permutation && order[i] == static_cast<std::int64_t>(i);
    }
    if (is_permutation) return;
    fail(instruction, "expected a layout with each of " + std::to_string(shape.rank()) +
                          " dimensions once, found " + hlo::to_string(shape));
  }

  /// Every place of the loop's iterations lies inside of the array.
  void check_place(const HloInstruction& instruction) const {
    expect(scheduled_.counter.has_value(), instruction, "a counted loop around its place");
    const Shape& array = entry_.at(instruction.operands[0]).shape;
    const Shape& part = is_update_of_iteration(instruction)
                            ? entry_.at(instruction.operands[1]).shape
                            : instruction.shape;
    const hlo::SliceBounds& place = *instruction.slice.operator->();
    const std::size_t rank = array.dimensions.size();
    expect(place.starts.size() == rank && place.strides.size() == rank &&
               part.dimensions.size() == rank,
           instruction, "a first place and a step in each dimension");
    const auto last = static_cast<std::int64_t>(scheduled_.counter->trips) - 1;
    for (std::size_t d = 0; d < rank; ++d) {
      const std::int64_t room = array.dimensions[d] - part.dimensions[d];
      for (const std::int64_t at : {place.starts[d], place.starts[d] + place.strides[d] * last}) {
        expect(at >= 0 && at <= room, instruction, "places inside of its array");
      }
    }
  }

  void check_region(const HloInstruction& instruction) {
    const auto number = static_cast<std::size_t>(instruction.tuple_index);
    expect(number < scheduled_.regions.size(), instruction, "a region of its module");
    expect(seen_regions_.insert(number).second, instruction, "a region of its own");
    const ScheduledRegion& region = scheduled_.regions[number];
    const std::size_t results = instruction.shape.elements.size();
    std::size_t operand = region.is_loop ? 0 : 1;
    for (std::size_t i = 0; i < region.bodies.size(); ++i) {
      const Computation& body = region.bodies[i].module.entry_computation();
      const std::vector<InstructionId> parameters = body.parameters();
      // A loop's bodies take all operands, the one that tests the predicate's place, too; a branch
      // takes its own operands and the places of the results.
      const std::size_t more = region.is_loop ? i : results;
      expect(parameters.size() >= more, instruction, "bodies that take the places of results");
      if (region.is_loop) operand = 0;
      for (std::size_t p = 0; p + more < parameters.size(); ++p, ++operand) {
        expect(operand < instruction.operands.size() &&
                   entry_.at(instruction.operands[operand]).shape.dimensions ==
                       body.at(parameters[p]).shape.dimensions,
               instruction, "operands that its bodies' parameters take");
      }
      if (region.is_loop) check_all_taken(instruction, operand);
    }
    check_all_taken(instruction, operand);
  }
  void check_all_taken(const HloInstruction& instruction, std::size_t taken) const {
    expect(taken == instruction.operands.size(), instruction,
           "bodies that take all of its operands");
  }

  void check_plan() const {
    const HbmPlan& plan = scheduled_.plan;
    TPU_CHECK(plan.granules_of.size() == entry_.instructions.size(),
              "behind pass " << pass_ << ": places of " << plan.granules_of.size()
                             << " instructions, of " << entry_.instructions.size());
    for (InstructionId id : plan.written_in_place) {
      TPU_CHECK(id >= 0 && id < static_cast<InstructionId>(entry_.instructions.size()),
                "behind pass " << pass_ << ": instruction " << id << " is written in place");
    }
    for (const HloInstruction& instruction : entry_.instructions) {
      const std::vector<std::uint64_t>& places =
          plan.granules_of[static_cast<std::size_t>(instruction.id)];
      if (instruction.shape.is_tuple() || places.empty()) continue;
      expect(places.size() == 1, instruction, "one place for its array");
      expect(places[0] + granules(instruction.shape) <= plan.peak_granules ||
                 is_placed_by_iteration(instruction),
             instruction, "a place below the peak of the plan");
    }
  }

  const ScheduledModule& scheduled_;
  const hlo::Module& module_;
  const Computation& entry_;
  const Facts& facts_;
  const std::string& pass_;
  std::set<std::size_t> seen_regions_;
};

std::string list_text(const std::vector<std::int64_t>& values) {
  std::string text = "{";
  for (std::int64_t value : values) text += (text.size() > 1 ? "," : "") + std::to_string(value);
  return text + "}";
}

/// The opcode and what only we know become the target and its configuration.
void make_custom_call(HloInstruction& instruction) {
  std::string target = "tpusim." + std::string(to_string(instruction.opcode));
  if (instruction.opcode == HloOpcode::kBitcast) {
    target += ".of_part";
  } else if (is_placed_by_iteration(instruction)) {
    target += ".by_iteration";
    instruction.raw_attributes = "backend_config=\"first=" + list_text(instruction.slice->starts) +
                                 " step=" + list_text(instruction.slice->strides) + "\"";
    instruction.slice.reset();
    instruction.dynamic_slice_sizes.reset();
  } else {
    target += ".region" + std::to_string(instruction.tuple_index);
    instruction.tuple_index = 0;
  }
  instruction.opcode = HloOpcode::kCustomCall;
  instruction.custom_call_target = std::move(target);
}

}  // namespace

void verify_between_passes(const ScheduledModule& scheduled, const Facts& facts,
                           const std::string& pass) {
  ModuleVerifier(scheduled, facts, pass).run();
}

bool verifies_passes() {
  static const bool kVerifies = [] {
    const char* text = std::getenv("TPUSIM_VERIFY_PASSES");
#ifdef NDEBUG
    return text != nullptr && std::string(text) == "1";
#else
    return text == nullptr || std::string(text) != "0";
#endif
  }();
  return kVerifies;
}

bool is_plain_hlo(const hlo::Module& module) {
  for (const Computation& computation : module.computations) {
    for (const HloInstruction& instruction : computation.instructions) {
      if (is_ours_only(computation, instruction)) return false;
    }
  }
  return true;
}

hlo::Module as_plain_hlo(const hlo::Module& module) {
  hlo::Module plain = module;
  for (std::size_t c = 0; c < plain.computations.size(); ++c) {
    for (HloInstruction& instruction : plain.computations[c].instructions) {
      if (is_ours_only(module.computations[c], instruction)) make_custom_call(instruction);
    }
  }
  return plain;
}

}  // namespace tpu::compiler
