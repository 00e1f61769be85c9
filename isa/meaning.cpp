#include "isa/meaning.h"

#include <algorithm>
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
  text << format_instruction(instruction) << ": expected the number of one of "
       << state.parameter_addresses.size() << " parameters, found "
       << instruction.operands[0].immediate;
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

// The words of a DMA to another core, in v4's code. The TensorCores of a chip are 2 and 3.
constexpr std::uint32_t kFirstCore = 2;
constexpr std::uint32_t kOtherCore = 0x80008000;  ///< What each of the two bits is for: unknown.
constexpr std::uint32_t kOtherCoreMask = 0x83fff000;
constexpr std::uint32_t kFlagBits = 13;

/// A word that names another core, and one that names a flag of that core; false: they do not.
bool set_other_core(DmaDescriptor& dma, std::uint32_t other, std::uint32_t flag) {
  const std::uint32_t core = other >> 26 & 0x1f;
  if (core < kFirstCore || flag >> kFlagBits != core) return false;
  dma.remote = true;
  dma.destination.chip = other & 0xfff;
  dma.destination.core = core - kFirstCore;
  dma.destination_flag = flag & ((1U << kFlagBits) - 1);
  return true;
}

/// Where a DMA to another core goes, and its flag of this core.
void set_far_end(DmaDescriptor& dma, const Instruction& in, const ScalarState& state) {
  for (const std::uint8_t reg : in.address.base) {
    if (reg >= kScalarRegisters)
      throw ProgramFault("far end of a DMA: expected two scalar registers");
  }
  const std::uint32_t other = state.s[in.address.base[1]];
  const std::uint32_t flag = dma.destination_flag;
  if ((other & kOtherCoreMask) != kOtherCore || !set_other_core(dma, other, flag)) {
    std::ostringstream text;
    text << "dma.general: expected another core as 0x80008000 | core + 2 << 26 | chip and a flag "
            "of that core as flag | core + 2 << 13, found 0x"
         << std::hex << other << " and 0x" << flag;
    throw ProgramFault(text.str());
  }
  dma.source_flag = state.s[in.address.base[0]];
}

// v4's `dma` has fifteen words, of which one form is in listings: when a program of several cores
// starts, each sends each other one a word of SMEM.
//   0 0x81010000 | core + 2 << 26 | chip (bit 15: another chip)    1 flag of this core
//   2 flag of the other core | core + 2 << 13                      3 0x80000001
//   4 word of SMEM here   5 word of SMEM there                     6 to 14 1
constexpr std::uint32_t kWordToOtherCore = 0x81010000;
constexpr std::uint32_t kWordToOtherCoreMask = 0x83ff7000;

bool has_words_of_v4(std::uint32_t first, const ScalarState& state) {
  return state.smem.size() - first >= kDmaWordsOfV4 &&
         state.smem[first + kPlaceOfMarkOfV4] == kMarkOfV4;
}

DmaDescriptor decode_words_of_v4(const std::uint32_t* words) {
  DmaDescriptor dma;
  dma.source.space = dma.destination.space = MemorySpace::kSmem;
  dma.source_flag = words[1];
  dma.source.address = words[4];
  dma.destination.address = words[5];
  dma.granules = 1;
  const bool ones =
      std::all_of(words + 6, words + kDmaWordsOfV4, [](std::uint32_t word) { return word == 1; });
  const bool form = (words[0] & kWordToOtherCoreMask) == kWordToOtherCore;
  if (form && ones && set_other_core(dma, words[0], words[2])) return dma;
  std::ostringstream text;
  text << "dma: expected a word of SMEM for another core (0x81010000 | core + 2 << 26 | chip, its "
          "flag | core + 2 << 13 in word 2, 1 in words 6 to 14), found words"
       << std::hex;
  for (std::uint32_t i = 0; i < kDmaWordsOfV4; ++i) text << " 0x" << words[i];
  text << ", which is not modelled";
  throw ProgramFault(text.str());
}

}  // namespace

DmaDescriptor dma_of(const Instruction& in, const ScalarState& state) {
  if (in.opcode == Opcode::kDma) {
    const std::uint32_t first = evaluate(in.operands[0], state);
    DmaWords words{};
    if (first >= state.smem.size() || state.smem.size() - first < words.size()) {
      meaning_detail::throw_smem_fault(in, first, state);
    }
    if (has_words_of_v4(first, state)) {
      DmaDescriptor dma = decode_words_of_v4(state.smem.data() + first);
      dma.source.chip = state.chip;
      dma.source.core = state.core;
      return dma;
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
    case Opcode::kDmaGeneralVmemToVmem:
      source.space = destination.space = MemorySpace::kVmem;
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
  } else if (address == 'F') {
    set_far_end(descriptor, in, state);
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
