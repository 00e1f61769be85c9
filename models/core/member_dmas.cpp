#include "models/core/member_dmas.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "isa/dma_descriptor.h"
#include "models/code_place.h"
#include "sim/base/error.h"

namespace tpu {
namespace {

using isa::DmaDescriptor;
using isa::DmaEndpoint;
using isa::MemorySpace;

/// What of an endpoint counts: VMEM has no addresses that cost time, but an end.
auto endpoint_key(const DmaEndpoint& end, std::uint32_t granules, const MachineParams& params) {
  const bool vmem = end.space == MemorySpace::kVmem;
  const std::uint64_t further_runs =
      end.granules_per_run == 0 || granules == 0 ? 0 : (granules - 1) / end.granules_per_run;
  const std::uint64_t extent =
      further_runs * end.stride + (further_runs == 0 ? granules : end.granules_per_run);
  const std::uint64_t rows = std::uint64_t{params.core.vmem_mib} << 20 >> 9;
  const bool inside = !vmem || end.address + 2 * extent <= rows;
  return std::make_tuple(end.space, vmem && inside ? 0 : end.address, end.stride,
                         end.granules_per_run);
}

auto key(const DmaDescriptor& dma, const MachineParams& params) {
  return std::make_tuple(endpoint_key(dma.source, dma.granules, params),
                         endpoint_key(dma.destination, dma.granules, params), dma.granules,
                         dma.source_flag, dma.destination_flag, dma.remote);
}

/// Number of a core in the slice; one that no core has for what is outside.
std::uint32_t core_number(std::uint32_t chip, std::uint32_t core, const MachineParams& params) {
  if (chip >= params.chips() || core >= params.cores_per_chip) return ~std::uint32_t{0};
  return chip * params.cores_per_chip + core;
}
std::uint32_t core_number(const DmaEndpoint& end, const MachineParams& params) {
  return core_number(end.chip, end.core, params);
}

/// Calls visit(state) for each member with the unit's state as that member has it where operands or
/// words of the descriptor vary; false: none does.
template <class Visit>
bool for_each_member(ScalarUnit& scalar, const isa::Instruction& instruction,
                     const Interaction& interaction, const Visit& visit) {
  const ScalarLanes& lanes = *scalar.lanes();
  isa::ScalarState& state = scalar.mutable_state();
  std::vector<std::pair<std::uint32_t*, const ScalarLanes::Values*>> varying;
  std::set<std::uint8_t> registers(instruction.address.base.begin(),
                                   instruction.address.base.end());
  for (const ScalarOperand& operand : interaction.operands) registers.insert(operand.reg);
  for (const std::uint8_t reg : registers) {
    if (reg < state.s.size() && lanes.varies(reg)) {
      varying.emplace_back(&state.s[reg], &lanes.of(reg));
    }
  }
  if (interaction.opcode == isa::Opcode::kDma) {
    const std::uint32_t first = scalar.assumed_value(interaction.operands[0]);
    for (std::uint32_t i = 0; i < isa::DmaWords().size(); ++i) {
      if (lanes.word_varies(first + i)) {
        varying.emplace_back(&state.smem[first + i], &lanes.of_word(first + i));
      }
    }
  }
  if (varying.empty()) return false;
  for (std::size_t member = 0; member < lanes.members(); ++member) {
    for (auto& [value, values] : varying) *value = (*values)[member];
    visit(state);
  }
  for (auto& [value, values] : varying) *value = values->front();
  return true;
}

}  // namespace

MemberDestinations check_member_dmas(ScalarUnit& scalar, const isa::Instruction& instruction,
                                     const Interaction& interaction,
                                     const DmaDescriptor& representative,
                                     const MachineParams& params) {
  if (scalar.lanes() == nullptr) return nullptr;
  const ScalarLanes& lanes = *scalar.lanes();
  const auto expected = key(representative, params);
  auto destinations = std::make_shared<std::vector<std::uint32_t>>();
  bool alike = true;
  bool readable = true;
  std::map<decltype(key(representative, params)), std::uint64_t> different;
  std::vector<std::uint64_t> keys;
  const bool varies =
      for_each_member(scalar, instruction, interaction, [&](const isa::ScalarState& state) {
        DmaDescriptor dma;
        try {
          dma = isa::dma_of(instruction, state);
        } catch (const ProgramFault&) {
          readable = false;  // The member's own fault.
          return;
        }
        destinations->push_back(core_number(dma.destination, params));
        const auto found = key(dma, params);
        if (found == expected && alike) return;
        alike = false;
        keys.resize(destinations->size() - 1, 0);
        keys.push_back(found == expected
                           ? 0
                           : 1 + different.try_emplace(found, different.size()).first->second);
      });
  if (!readable) lanes.differ_all("a DMA that is no DMA");
  if (!alike) throw MembersDiffer("a DMA", lanes.of_class(), keys);
  if (representative.source.space == MemorySpace::kSmem && lanes.any_word()) {
    lanes.differ_all("a DMA out of SMEM");
  }
  if (!representative.remote) return nullptr;
  if (!varies) {
    destinations->assign(lanes.members(), core_number(representative.destination, params));
  }
  return destinations;
}

MemberDestinations check_member_additions(const ScalarUnit& scalar, const ScalarOperand& address,
                                          const MachineParams& params,
                                          const isa::CodeConventions& conventions) {
  if (scalar.lanes() == nullptr) return nullptr;
  const ScalarLanes& lanes = *scalar.lanes();
  const std::uint32_t representative = scalar.assumed_value(address);
  auto destinations = std::make_shared<std::vector<std::uint32_t>>();
  std::vector<std::uint64_t> keys;
  for (const std::uint32_t value : lanes.values(address, representative - address.immediate)) {
    const RemoteFlag to = remote_flag(value, conventions);
    destinations->push_back(core_number(to.chip, to.core, params));
    keys.push_back(std::uint64_t{to.flag} << 1 | (to.is_one ? 1 : 0));
  }
  require_alike("a remote flag", lanes.of_class(), keys);
  return destinations;
}

}  // namespace tpu
