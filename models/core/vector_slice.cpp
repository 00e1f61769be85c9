#include "models/core/vector_slice.h"

#include <algorithm>

#include "isa/opcode_table.h"

namespace tpu {
namespace {

using isa::Opcode;
using isa::UnitKind;

/// A bit per vector register, mask, and each thing that orders what passes it: the MXUs, the XLU,
/// the transcendental unit, the generator of random numbers.
using Resources = std::uint64_t;

constexpr int kMasks = isa::kVectorRegisters;
constexpr int kMxus = kMasks + isa::kMaskRegisters;
constexpr int kXlu = kMxus + isa::kMaxUnits;
constexpr int kEup = kXlu + 1;
constexpr int kRandom = kEup + 1;
constexpr int kCmem = kRandom + 1;
static_assert(kCmem < 64, "a bit for each resource");

Resources bit(int number) { return Resources{1} << number; }

Resources register_bit(char file, std::uint8_t reg) {
  if (file == 'v') return bit(reg);
  if (file == 'm') return bit(kMasks + reg);
  return 0;
}

struct Use {
  Resources reads = 0;
  Resources writes = 0;
  Resources orders = 0;  ///< Passes through: comes before or after others there.
  bool overwrites = false;
};

bool in_vector_half(const isa::Instruction& instruction) {
  switch (isa::unit_of(instruction.opcode)) {
    case UnitKind::kVectorAlu:
      return instruction.opcode != Opcode::kVpush;
    case UnitKind::kVectorLoad:
    case UnitKind::kVectorStore:
    case UnitKind::kMxu:
    case UnitKind::kXlu:
    case UnitKind::kEup:
    case UnitKind::kCmem:
      return true;
    default:
      return false;
  }
}

Resources ordered_by(const isa::Instruction& in) {
  switch (isa::unit_of(in.opcode)) {
    case UnitKind::kMxu:
      return bit(kMxus + in.unit);
    case UnitKind::kXlu:
      return bit(kXlu);
    case UnitKind::kEup:
      return bit(kEup);
    case UnitKind::kCmem:
      return bit(kCmem);
    default:
      break;
  }
  const bool random = in.opcode == Opcode::kVrng || in.opcode == Opcode::kSetRngseed ||
                      in.opcode == Opcode::kGetrngseed;
  return random ? bit(kRandom) : 0;
}

Use use_of(const isa::Instruction& in) {
  const isa::OpcodeInfo& row = isa::info(in.opcode);
  Use use;
  for (std::uint8_t o = 0; o < row.operand_count; ++o) {
    if (in.operands[o].kind != isa::Operand::Kind::kRegister) continue;
    use.reads |= register_bit(row.operand_files[o], in.operands[o].reg);
  }
  use.orders = ordered_by(in);
  if (row.dest_file == 0) return use;
  use.writes = register_bit(row.dest_file, in.dest);
  // A load of some sublanes may leave the others.
  const bool partial = row.address != 0 && (in.address.sublane_mask != 0xff ||
                                            in.address.mask_register != isa::kNoRegister);
  use.overwrites = in.guard.predicate == isa::kNoRegister && !partial;
  return use;
}

class Slicer {
 public:
  Slicer(const isa::Kernel& kernel, const VectorDemand& demand);
  bool contains(std::size_t bundle, std::uint32_t instruction) const {
    return is_root_[instruction] || (uses_[instruction].orders & needed_) != 0 ||
           (uses_[instruction].writes & after_[bundle]) != 0;
  }

 private:
  void flow();
  Resources before(std::size_t bundle) const;
  bool need_more();

  const isa::Kernel& kernel_;
  std::vector<Use> uses_;
  std::vector<bool> is_root_;
  std::vector<std::int64_t> branch_;  ///< Target of a bundle's branch, or -1.
  std::vector<Resources> before_;     ///< Live before each bundle, and at the end.
  std::vector<Resources> after_;
  Resources needed_ = 0;  ///< Of what orders.
};

Slicer::Slicer(const isa::Kernel& kernel, const VectorDemand& demand) : kernel_(kernel) {
  const auto count = static_cast<std::uint32_t>(kernel.instructions.size());
  for (std::uint32_t i = 0; i < count; ++i) {
    const isa::Instruction& in = kernel.instructions[i];
    const bool vector = in_vector_half(in) || in.opcode == Opcode::kVpush;
    uses_.push_back(vector ? use_of(in) : Use());
    // Where an indexed access goes has to be known even if its data is not.
    is_root_.push_back(vector && (demand.contains(i) || in.opcode == Opcode::kVsetiarRaw));
  }
  branch_.assign(kernel.bundles.size(), -1);
  for (std::size_t b = 0; b < kernel.bundles.size(); ++b) {
    for (const isa::Instruction* in = kernel.begin(kernel.bundles[b]);
         in != kernel.end(kernel.bundles[b]); ++in) {
      if (in->opcode == Opcode::kSbrRel) branch_[b] = in->operands[0].immediate;
    }
  }
  before_.assign(kernel.bundles.size() + 1, 0);
  after_.assign(kernel.bundles.size(), 0);
  do {
    flow();
  } while (need_more());
}

Resources Slicer::before(std::size_t bundle) const {
  const isa::Bundle& code = kernel_.bundles[bundle];
  Resources overwritten = 0;
  Resources read = 0;
  for (std::uint32_t i = code.first_instruction;
       i < code.first_instruction + code.instruction_count; ++i) {
    if (!contains(bundle, i)) continue;
    read |= uses_[i].reads;
    if (uses_[i].overwrites) overwritten |= uses_[i].writes;
  }
  return (after_[bundle] & ~overwritten) | read;
}

/// Liveness; branches have one delay slot. The top-level program runs once per step: what its
/// beginning reads is live at its end.
void Slicer::flow() {
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t b = kernel_.bundles.size(); b-- > 0;) {
      after_[b] = before_[b + 1];
      if (b > 0 && branch_[b - 1] >= 0) {
        after_[b] |= before_[static_cast<std::size_t>(branch_[b - 1])];
      }
      const Resources live = before(b);
      changed = changed || live != before_[b];
      before_[b] = live;
    }
    changed = changed || before_.back() != before_.front();
    before_.back() = before_.front();
  }
}

bool Slicer::need_more() {
  const Resources had = needed_;
  for (std::size_t b = 0; b < kernel_.bundles.size(); ++b) {
    const isa::Bundle& code = kernel_.bundles[b];
    for (std::uint32_t i = code.first_instruction;
         i < code.first_instruction + code.instruction_count; ++i) {
      if (contains(b, i)) needed_ |= uses_[i].orders;
    }
  }
  return needed_ != had;
}

void add_bundle(isa::Kernel& kernel, const isa::Bundle& like) {
  isa::Bundle bundle = like;
  bundle.first_instruction = static_cast<std::uint32_t>(kernel.instructions.size());
  bundle.instruction_count = 0;
  kernel.bundles.push_back(bundle);
}

void add_instruction(isa::Kernel& kernel, const isa::Instruction& instruction) {
  kernel.instructions.push_back(instruction);
  ++kernel.bundles.back().instruction_count;
}

}  // namespace

VectorSlice slice_of(const isa::Kernel& kernel, const VectorDemand& demand) {
  const Slicer slicer(kernel, demand);
  VectorSlice slice;
  slice.code.name = slice.other_stores.name = kernel.name;
  for (std::size_t b = 0; b < kernel.bundles.size(); ++b) {
    const isa::Bundle& bundle = kernel.bundles[b];
    add_bundle(slice.code, bundle);
    add_bundle(slice.other_stores, bundle);
    for (std::uint32_t i = bundle.first_instruction;
         i < bundle.first_instruction + bundle.instruction_count; ++i) {
      const isa::Instruction& in = kernel.instructions[i];
      if (!in_vector_half(in)) continue;
      ++slice.instructions_of_kernel;
      if (slicer.contains(b, i)) {
        add_instruction(slice.code, in);
      } else if (isa::unit_of(in.opcode) == UnitKind::kVectorStore) {
        add_instruction(slice.other_stores, in);
        slice.store_numbers.push_back(i);
      }
    }
  }
  return slice;
}

}  // namespace tpu
