#include "workloads/xla/address_uses.h"

#include <algorithm>
#include <optional>

namespace tpu::xla {
namespace {

using isa::Allocation;
using isa::Opcode;

constexpr std::int32_t kTableWords = isa::kHbmGranuleBytes / 4;

/// An allocation, or an output of the program.
struct Origin {
  bool output = false;
  std::uint32_t number = 0;
};

/// The first word of the only allocation of SMEM whose tag ends so.
std::optional<std::int32_t> word_of(const isa::PackedListing& packed, const std::string& tag) {
  for (const Allocation& allocation : packed.allocations()) {
    if (allocation.space != isa::ListingSpace::kSmem || !allocation.offset) continue;
    const std::string& text = allocation.tag;
    if (text.size() < tag.size() || text.substr(text.size() - tag.size()) != tag) continue;
    return static_cast<std::int32_t>(*allocation.offset / 4);
  }
  return std::nullopt;
}

class Tracer {
 public:
  Tracer(const isa::Listing& top_level, const isa::PackedListing& packed)
      : top_level_(top_level),
        table_(word_of(packed, "tuple transfer buffer")),
        pointer_(word_of(packed, "output ptr")) {
    for (const isa::HbmReference& reference : top_level.hbm_references) {
      of_instruction_[reference.instruction] = reference.allocation;
    }
  }

  AddressUses trace() {
    const isa::Kernel& kernel = top_level_.kernel;
    for (std::uint32_t k = 0; k < kernel.instructions.size(); ++k) {
      step(kernel.instructions[k], kernel.names[k], k);
    }
    return std::move(uses_);
  }

 private:
  void step(const isa::Instruction& instruction, const isa::VirtualNames& names, std::uint32_t k) {
    switch (instruction.opcode) {
      case Opcode::kSmov:
      case Opcode::kScalarLeaHbm:
        move(names, k);
        break;
      case Opcode::kSst:
        store(instruction, names);
        break;
      case Opcode::kSld:
        load(instruction, names);
        break;
      case Opcode::kCall:
        call(instruction.operands[0].immediate);
        break;
      default:
        break;
    }
  }

  void move(const isa::VirtualNames& names, std::uint32_t k) {
    const auto direct = of_instruction_.find(k);
    if (direct != of_instruction_.end()) {
      of_name_[names.dest] = {false, direct->second};
    } else if (const Origin* source = origin_of(names.operands[0])) {
      of_name_[names.dest] = *source;
    }
  }

  void store(const isa::Instruction& instruction, const isa::VirtualNames& names) {
    if (instruction.address.base[0] != isa::kNoRegister) return;
    if (const Origin* source = origin_of(names.operands[0])) {
      of_word_[instruction.address.offset] = *source;
    } else {
      of_word_.erase(instruction.address.offset);
    }
  }

  void load(const isa::Instruction& instruction, const isa::VirtualNames& names) {
    if (instruction.address.base[0] != isa::kNoRegister) return;
    const std::int32_t word = instruction.address.offset;
    const auto spilled = of_word_.find(word);
    if (spilled != of_word_.end()) {
      of_name_[names.dest] = spilled->second;
    } else if (table_ && word >= *table_ && word - *table_ < kTableWords) {
      of_name_[names.dest] = {true, static_cast<std::uint32_t>(word - *table_)};
    } else if (!table_ && word == pointer_) {
      of_name_[names.dest] = {true, 0};
    }
  }

  void call(std::uint32_t number) {
    const isa::ListingCall& call = top_level_.calls[number];
    for (std::uint32_t n = 0; n < call.operand_names.size(); ++n) {
      const Origin* origin = origin_of(call.operand_names[n].second);
      if (origin == nullptr) continue;
      auto& uses = origin->output ? uses_.of_output : uses_.of_allocation;
      uses[origin->number].push_back({number, n});
    }
  }

  const Origin* origin_of(std::uint32_t name) const {
    const auto found = name == 0 ? of_name_.end() : of_name_.find(name);
    return found == of_name_.end() ? nullptr : &found->second;
  }

  const isa::Listing& top_level_;
  std::optional<std::int32_t> table_;
  std::optional<std::int32_t> pointer_;
  std::unordered_map<std::uint32_t, std::uint32_t> of_instruction_;  ///< To its allocation.
  std::unordered_map<std::uint32_t, Origin> of_name_;
  std::unordered_map<std::int32_t, Origin> of_word_;
  AddressUses uses_;
};

}  // namespace

AddressUses address_uses(const isa::Listing& top_level, const isa::PackedListing& packed) {
  return Tracer(top_level, packed).trace();
}

}  // namespace tpu::xla
