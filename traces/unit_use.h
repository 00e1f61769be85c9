#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <tuple>

#include "isa/opcode_table.h"
#include "isa/program.h"
#include "models/params.h"

namespace tpu::traces {

/// What of a unit an instruction keeps busy: pops and pushes of weights go beside its pushes.
enum class UnitPort : std::uint8_t { kInstructions, kPops, kWeights };

/// A unit of a core, or a slot of one: the first, the second of a bundle.
struct UnitSlot {
  isa::UnitKind unit = isa::UnitKind::kControl;
  std::uint8_t number = 0;
  UnitPort port = UnitPort::kInstructions;
  friend bool operator<(const UnitSlot& a, const UnitSlot& b) {
    return std::tie(a.unit, a.number, a.port) < std::tie(b.unit, b.number, b.port);
  }
};

/// "MXU", "VALU", as their instructions are called in traces.
const char* unit_name(isa::UnitKind unit);
/// How long units are busy with an instruction: until they take the next one of its kind.
isa::Latencies unit_latencies(const MachineParams& params);

/// Calls `visit(slot, instruction, cycles)` for each instruction of a bundle.
template <class Visitor>
void visit_unit_uses(const isa::Kernel& kernel, const isa::Bundle& bundle,
                     const isa::Latencies& latencies, Visitor&& visit) {
  // Slots of one kind have no numbers in the code.
  std::array<std::uint8_t, static_cast<std::size_t>(isa::UnitKind::kCount)> slots{};
  for (const isa::Instruction* i = kernel.begin(bundle); i != kernel.end(bundle); ++i) {
    const isa::OpcodeInfo& row = isa::info(i->opcode);
    const bool is_numbered = row.unit == isa::UnitKind::kMxu || row.unit == isa::UnitKind::kXlu;
    const bool loads_weights = row.unit == isa::UnitKind::kMxu && row.queue == isa::Queue::kNone;
    UnitSlot slot;
    slot.unit = row.unit;
    slot.number = is_numbered ? i->unit : slots[static_cast<std::size_t>(row.unit)]++;
    slot.port = row.pops        ? UnitPort::kPops
                : loads_weights ? UnitPort::kWeights
                                : UnitPort::kInstructions;
    visit(slot, *i, std::max(1U, isa::issue_interval(i->opcode, latencies)));
  }
}

}  // namespace tpu::traces
