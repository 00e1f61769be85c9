#include "models/core/followed_kernels.h"

#include <algorithm>

#include "isa/opcode_table.h"

namespace tpu {
namespace {

using isa::Opcode;
using isa::UnitKind;

bool in_vector_half(const isa::Instruction& instruction) {
  switch (isa::unit_of(instruction.opcode)) {
    case UnitKind::kVectorAlu:
      return instruction.opcode != Opcode::kVpush;
    case UnitKind::kVectorLoad:
    case UnitKind::kVectorStore:
    case UnitKind::kMxu:
    case UnitKind::kXlu:
    case UnitKind::kEup:
      return true;
    default:
      return false;
  }
}

isa::Kernel make_vector_half(const isa::Kernel& kernel) {
  isa::Kernel half;
  half.name = kernel.name;
  half.bundles.reserve(kernel.bundles.size());
  for (const isa::Bundle& bundle : kernel.bundles) {
    isa::Bundle part = bundle;
    part.first_instruction = static_cast<std::uint32_t>(half.instructions.size());
    std::copy_if(kernel.begin(bundle), kernel.end(bundle), std::back_inserter(half.instructions),
                 in_vector_half);
    part.instruction_count = static_cast<decltype(part.instruction_count)>(
        half.instructions.size() - part.first_instruction);
    half.bundles.push_back(part);
  }
  return half;
}

}  // namespace

FollowedKernels::FollowedKernels(const isa::Program& program) : program_(program) {
  for (const isa::Kernel& kernel : program.kernels) {
    sets_index_addresses_.push_back(
        std::any_of(kernel.instructions.begin(), kernel.instructions.end(),
                    [](const isa::Instruction& i) { return i.opcode == Opcode::kVsetiarRaw; }));
  }
}

bool FollowedKernels::add(Origin origin) {
  if (!can_add(origin)) return false;
  any_ = true;
  if (const std::optional<std::uint32_t> kernel = origin.kernel()) {
    vector_halves_.emplace(*kernel, make_vector_half(program_.kernels[*kernel]));
  }
  return true;
}

bool FollowedKernels::can_add(Origin origin) const {
  const std::optional<std::uint32_t> kernel = origin.kernel();
  if (!kernel) return !any_ && !others_refused_;
  return !follows(*kernel) && !refused(origin);
}

void FollowedKernels::refuse(std::uint32_t kernel) {
  refused_.insert(kernel);
  vector_halves_.erase(kernel);
}

bool FollowedKernels::refused(Origin origin) const {
  const std::optional<std::uint32_t> kernel = origin.kernel();
  if (!kernel) return others_refused_;
  return refused_.count(*kernel) != 0 || (others_refused_ && !follows(*kernel));
}

void FollowedKernels::spend_instructions(std::uint32_t kernel, std::uint64_t count) const {
  spent_[kernel] += count;
  used_.instructions += count;
  if (used_.instructions <= limits_.instructions) return;
  const auto most = std::max_element(spent_.begin(), spent_.end(),
                                     [](auto& a, auto& b) { return a.second < b.second; });
  throw FollowLimit("more instructions than may be followed", most->first);
}

void FollowedKernels::spend_bytes(std::uint32_t kernel, std::uint64_t count) const {
  used_.bytes += count;
  if (used_.bytes > limits_.bytes) {
    throw FollowLimit("more bytes than may be remembered", kernel);
  }
}

std::vector<std::string> FollowedKernels::names() const {
  std::vector<std::string> names;
  for (const auto& [index, half] : vector_halves_) names.push_back(half.name);
  return names;
}

}  // namespace tpu
