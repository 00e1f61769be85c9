#include "isa/meaning.h"

#include <sstream>

#include "isa/disassembler.h"
#include "isa/opcode_table.h"
#include "sim/base/error.h"

namespace tpu::isa {
namespace meaning_detail {

void throw_smem_fault(const Instruction& instruction, std::uint32_t word,
                      const ScalarState& state) {
  std::ostringstream text;
  text << format_instruction(instruction) << ": expected a word of SMEM below " << state.smem.size()
       << ", found " << static_cast<std::int32_t>(word);
  throw ProgramFault(text.str());
}

void throw_parameter_fault(const Instruction& instruction, const ScalarState& state) {
  std::ostringstream text;
  text << format_instruction(instruction) << ": expected a parameter below "
       << state.parameter_granules.size() << ", found " << instruction.operands[0].immediate;
  throw ProgramFault(text.str());
}

void throw_empty_queue_fault(const Instruction& instruction) {
  throw ProgramFault(format_instruction(instruction) + ": expected a result in the queue of " +
                     to_string(info(instruction.opcode).queue) +
                     ", found it empty: nothing was pushed that this could pop");
}

void throw_rounding_fault(const Instruction& instruction) {
  throw ProgramFault(format_instruction(instruction) +
                     ": expected rounding mode -1 (truncation) or 2147483647 (nearest), found " +
                     std::to_string(static_cast<std::int32_t>(instruction.operands[1].immediate)) +
                     ", whose meaning is unknown");
}

void throw_not_scalar(const Instruction& instruction) {
  throw SimulatorBug(format_instruction(instruction) + ": not an instruction of the scalar unit");
}

}  // namespace meaning_detail

namespace {

/// Runs of granules, so many in a row, with the strides from run to run and from row to row.
struct Runs {
  std::uint32_t granules = 0, stride = 0, in_a_row = 0, row_stride = 0;
};

/// Runs without gaps in a row are one, as a single one is; rows that go on with the stride of the
/// runs are one. False: two strides are left, which no engine here takes.
bool set_runs(DmaEndpoint& end, const Runs& runs, std::uint32_t granules) {
  if (runs.stride == runs.granules || runs.in_a_row == 1) {
    end.granules_per_run = runs.in_a_row * runs.granules;
    end.stride = runs.row_stride;
    return true;
  }
  end.granules_per_run = runs.granules;
  end.stride = runs.stride;
  return granules <= runs.in_a_row * runs.granules ||
         runs.row_stride == runs.in_a_row * runs.stride;
}

/// The six words of a dma.general: strides of source and destination from row to row, runs in a
/// row, strides of source and destination from run to run, granules of a run.
void set_described_runs(DmaDescriptor& dma, const Instruction& in, const ScalarState& state) {
  const std::uint32_t first = evaluate(in.address, state);
  if (first >= state.smem.size() || state.smem.size() - first < kStrideWords) {
    meaning_detail::throw_smem_fault(in, first, state);
  }
  const std::uint32_t* words = state.smem.data() + first;
  const bool fit =
      set_runs(dma.source, {words[5], words[3], words[2], words[0]}, dma.granules) &&
      set_runs(dma.destination, {words[5], words[4], words[2], words[1]}, dma.granules);
  if (fit) return;
  std::string found;
  for (std::uint32_t i = 0; i < kStrideWords; ++i) {
    found += (i > 0 ? ", " : "") + std::to_string(words[i]);
  }
  throw ProgramFault(
      "dma.general: expected runs without gaps in a row, or rows that go on with their stride, "
      "found both (strides " +
      found + "), which is not modelled");
}

}  // namespace

DmaDescriptor dma_of(const Instruction& in, const ScalarState& state) {
  if (in.opcode == Opcode::kDma) {
    const std::uint32_t first = evaluate(in.operands[0], state);
    DmaWords words{};
    if (first >= state.smem.size() || state.smem.size() - first < words.size()) {
      meaning_detail::throw_smem_fault(in, first, state);
    }
    for (std::size_t i = 0; i < words.size(); ++i) words[i] = state.smem[first + i];
    return decode(words);
  }
  DmaDescriptor descriptor;
  DmaEndpoint& source = descriptor.source;
  DmaEndpoint& destination = descriptor.destination;
  source.chip = destination.chip = state.chip;
  source.core = destination.core = state.core;
  std::size_t next = 0;
  const auto operand = [&] { return evaluate(in.operands[next++], state); };
  switch (in.opcode) {
    case Opcode::kDmaHbmToVmem:
    case Opcode::kDmaHbmToVmemStrided:
    case Opcode::kDmaGeneralHbmToVmem:
      destination.space = MemorySpace::kVmem;
      break;
    case Opcode::kDmaVmemToHbm:
    case Opcode::kDmaVmemToHbmStrided:
    case Opcode::kDmaGeneralVmemToHbm:
      source.space = MemorySpace::kVmem;
      break;
    case Opcode::kDmaSmemToHbm:
      source.space = MemorySpace::kSmem;
      break;
    case Opcode::kDmaHbmToSmem:
      destination.space = MemorySpace::kSmem;
      break;
    case Opcode::kDmaHbmToCmem:
    case Opcode::kDmaHbmToCmemStrided:
    case Opcode::kDmaGeneralHbmToCmem:
      destination.space = MemorySpace::kCmem;
      break;
    case Opcode::kDmaCmemToHbm:
    case Opcode::kDmaCmemToHbmStrided:
    case Opcode::kDmaGeneralCmemToHbm:
      source.space = MemorySpace::kCmem;
      break;
    case Opcode::kDmaCmemToVmem:
    case Opcode::kDmaCmemToVmemStrided:
    case Opcode::kDmaGeneralCmemToVmem:
      source.space = MemorySpace::kCmem;
      destination.space = MemorySpace::kVmem;
      break;
    case Opcode::kDmaVmemToCmem:
    case Opcode::kDmaVmemToCmemStrided:
    case Opcode::kDmaGeneralVmemToCmem:
      source.space = MemorySpace::kVmem;
      destination.space = MemorySpace::kCmem;
      break;
    case Opcode::kDmaInfeedToHbm:
      source.space = MemorySpace::kInfeed;
      break;
    case Opcode::kDmaHbmToOutfeed:
      destination.space = MemorySpace::kOutfeed;
      break;
    default:
      throw SimulatorBug(format_instruction(in) + ": starts no DMA");
  }
  if (source.space != MemorySpace::kInfeed) source.address = operand();
  descriptor.granules = operand();
  if (destination.space != MemorySpace::kOutfeed) destination.address = operand();
  descriptor.destination_flag = operand();
  const char address = info(in.opcode).address;
  if (address == 'D') {
    source.stride = static_cast<std::uint32_t>(in.address.offset);
    destination.stride = static_cast<std::uint32_t>(in.address.sublane_stride);
    source.granules_per_run = destination.granules_per_run = in.address.pattern;
  } else if (address == 'a') {
    set_described_runs(descriptor, in, state);
  }
  return descriptor;
}

ControlRequest control_of(const Kernel& kernel, const Bundle& bundle, const ScalarState& state) {
  ControlRequest request;
  for (const Instruction* in = kernel.begin(bundle); in != kernel.end(bundle); ++in) {
    switch (in->opcode) {
      case Opcode::kSbrRel:
        if (!guard_holds(in->guard, state)) break;
        request.branches = true;
        request.target = in->operands[0].immediate;
        break;
      case Opcode::kCall:
        if (!guard_holds(in->guard, state)) break;
        request.calls = true;
        request.call_site = in->operands[0].immediate;
        break;
      case Opcode::kDmaDoneWait:
      case Opcode::kVwaitGeTrace:
        if (!guard_holds(in->guard, state)) break;
        request.waits = true;
        request.flag = evaluate(in->operands[0], state);
        request.value = evaluate(in->operands[1], state);
        break;
      default:
        break;
    }
  }
  return request;
}

}  // namespace tpu::isa
