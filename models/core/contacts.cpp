// Contacts of the sequencer with the outside: DMAs, sync flags, waits for them.
#include <algorithm>
#include <string>

#include "isa/opcode_table.h"
#include "models/core/member_dmas.h"
#include "models/core/sequencer.h"
#include "sim/base/error.h"

namespace tpu {
namespace {

using isa::Opcode;

/// Others than the core and its half of the HBM have a part in the DMA.
bool is_noticed_outside(const isa::DmaDescriptor& descriptor) {
  return descriptor.remote || descriptor.source.space == isa::MemorySpace::kInfeed ||
         descriptor.destination.space == isa::MemorySpace::kOutfeed;
}

}  // namespace

Sequencer::Contact Sequencer::interact() {
  const DecodedKernel& kernel = blocks_.kernel(block_->kernel);
  const std::uint32_t end = kernel.bundles[block_->first + 1].first_interaction;
  while (next_interaction_ < end) {
    const Contact contact = act(kernel.interactions[next_interaction_]);
    if (contact != Contact::kDone) return contact;
    ++next_interaction_;
  }
  next_interaction_ = DecodedBundle::kNone;
  last_contact_ = now_;
  return Contact::kDone;
}

Sequencer::Contact Sequencer::act(const Interaction& interaction) {
  if (!scalar_.holds(interaction.guard)) {
    require(scalar_.origin(interaction.guard.reg),
            "the guard of " + isa::opcode_text(interaction.opcode));
  }
  if (!scalar_.assumed_to_hold(interaction.guard)) return Contact::kDone;
  if (looking_ahead_) {
    note_addition(interaction);
    return Contact::kDone;
  }
  switch (interaction.opcode) {
    case Opcode::kDmaDoneWait:
    case Opcode::kVwaitGeTrace:
      return wait_for(checked_flag(known(interaction.operands[0], "the flag")),
                      known(interaction.operands[1], "the awaited value"));
    case Opcode::kVsyncadd:
      flags_.add(checked_flag(known(interaction.operands[0], "the flag")),
                 known(interaction.operands[1], "the added value"), {});
      return Contact::kDone;
    case Opcode::kVsyncaddRemote: {
      if (ahead_) return Contact::kLater;
      const std::string problem = add_to_remote_flag(interaction);
      if (!problem.empty()) fault(problem);
      return Contact::kDone;
    }
    case Opcode::kVsyncmov: {
      if (ahead_) return Contact::kLater;
      if (settled_ != now_) {
        settled_ = now_;
        return Contact::kSettle;
      }
      outside_.catch_up(now_);
      const std::uint32_t value =
          flags_.value(checked_flag(known(interaction.operands[0], "the flag")));
      scalar_.push_known(value);
      if (data_ != nullptr) data_->set_sync_flag(value);
      return Contact::kDone;
    }
    default:
      return start_dma(interaction);
  }
}

std::string Sequencer::add_to_remote_flag(const Interaction& interaction) {
  const ScalarOperand& to = interaction.operands[0];
  const std::uint32_t value = known(interaction.operands[1], "the added value");
  MemberDestinations destinations;
  if (scalar_.origin(to.reg).known()) {
    destinations = check_member_additions(scalar_, to, params_, blocks_.program().conventions);
  } else {
    require(scalar_.origin(to.reg), "the remote flag");
  }
  graph_.at(position());
  return outside_.add_to_remote_flag(scalar_.assumed_value(to), value, destinations, now_);
}

std::uint32_t Sequencer::known(const ScalarOperand& operand, const char* what) const {
  if (!scalar_.value(operand)) require(scalar_.origin(operand.reg), what);
  return scalar_.assumed_value(operand);
}

/// Control needs an unknown value: a fault, unless it goes on without.
void Sequencer::require(Origin origin, const std::string& what) const {
  if (scalar_.assumes(origin)) {
    assumed_ = true;
    return;
  }
  throw UnknownControl(where() + ": " + what +
                           " is unknown with values off (it depends on data that nobody gave or "
                           "wrote); run with --values on\n  " +
                           code(),
                       origin);
}

std::uint32_t Sequencer::checked_flag(std::uint32_t flag) const {
  if (flag >= flags_.count()) {
    fault("expected a sync flag below " + std::to_string(flags_.count()) + ", found " +
          std::to_string(static_cast<std::int32_t>(flag)));
  }
  return flag;
}

Sequencer::Contact Sequencer::wait_for(std::uint32_t flag, std::uint32_t wanted) {
  outside_.catch_up(now_);
  if (flags_.at_least(flag, wanted)) {
    graph_.met(position(), flags_.reached_by(flag, wanted));
    return Contact::kDone;
  }
  graph_.at(position());
  flags_.begin_wait(flag, wanted, now_);
  causes_.begin_wait(place_.number, now_);
  return Contact::kWait;
}

void Sequencer::end_wait(std::uint64_t now) {
  const SyncFlags::Wait wait = flags_.wait();
  flags_.end_wait();
  graph_.released(place_.number, now, wait.raiser.transfer);
  for (const WaitCauses::Piece& piece : causes_.end_wait(place_.number, wait, now)) {
    const std::uint64_t cycles = piece.end - piece.begin;
    if (piece.reason == CoreState::kInfeedWait || piece.reason == CoreState::kPeerHostWait) {
      step_limit_ += std::min(cycles, ~std::uint64_t{0} - step_limit_);
    }
    count_idle(piece.reason, cycles);
    dynamic_.core.add(piece.reason, cycles);
    outside_.waited(piece.reason, piece.begin, piece.end);
    count_late_core(piece);
    const std::uint64_t before = edges();
    now_ = piece.end;
    state_ = blocks_.aged(state_, edges() - before);
    if (observer() != nullptr) {
      observer()->on_wait(place_.number, piece.reason, piece.begin, piece.end);
    }
  }
  hold(place_.clock.next_edge(now_) - now_, ScheduleCause::kSlowClock);
}

/// Where the core is, in the record of what waits wait for.
WaitGraph::Position Sequencer::position() {
  note_executions();
  WaitGraph::Position position;
  position.core = place_.number;
  if (!frames_.empty()) position.op = frames_.back().op;
  position.cycle = now_;
  for (std::size_t r = 0; r < kCoreResources; ++r) {
    position.ran[r] = counts_[BlockCounters::kRan + r];
  }
  return position;
}

void Sequencer::count_late_core(const WaitCauses::Piece& piece) {
  if (piece.reason != CoreState::kPeerWait && piece.reason != CoreState::kPeerHostWait) return;
  result_.waited_for[piece.late_core] += piece.end - piece.begin;
}

/// Which addresses are unknown; anything else of a DMA has to be known.
UnknownAddresses Sequencer::unknown_addresses(const Interaction& interaction) const {
  UnknownAddresses unknown;
  if (scalar_.registers_known() &&
      (interaction.opcode != Opcode::kDma ||
       scalar_.words_plain(scalar_.assumed_value(interaction.operands[0]),
                           static_cast<std::uint32_t>(isa::DmaWords().size())))) {
    return unknown;
  }
  if (interaction.opcode == Opcode::kDma) {
    constexpr std::uint32_t kDestinationAddress = 0;
    constexpr std::uint32_t kSourceAddress = 3;
    const std::uint32_t first = known(interaction.operands[0], "the place of the descriptor");
    // Of v4's form no word may be unknown.
    const bool of_v4 = first + isa::kDmaWordsOfV4 <= scalar_.smem_words() &&
                       scalar_.smem_origin(first + isa::kPlaceOfMarkOfV4).known() &&
                       scalar_.smem(first + isa::kPlaceOfMarkOfV4) == isa::kMarkOfV4;
    const std::uint32_t words = of_v4 ? isa::kDmaWordsOfV4 : isa::DmaWords().size();
    for (std::uint32_t i = 0; i < words; ++i) {
      const Origin origin = scalar_.smem_origin(first + i);
      if (origin.known()) continue;
      if (!of_v4 && i == kDestinationAddress) {
        unknown.destination = origin;
      } else if (!of_v4 && i == kSourceAddress) {
        unknown.source = origin;
      } else {
        require(origin, "word " + std::to_string(i) + " of the DMA's descriptor");
      }
    }
    return unknown;
  }
  // Operands: source address (not of the infeed), granules, destination address (not of the
  // outfeed), flag. Where a DMA into SMEM goes has to be known.
  const bool infeed = interaction.opcode == Opcode::kDmaInfeedToHbm;
  const bool outfeed = interaction.opcode == Opcode::kDmaHbmToOutfeed;
  std::size_t next = 0;
  if (!infeed) unknown.source = scalar_.origin(interaction.operands[next++].reg);
  known(interaction.operands[next++], "the size of the DMA");
  if (!outfeed) {
    const ScalarOperand& to = interaction.operands[next++];
    if (interaction.opcode == Opcode::kDmaHbmToSmem) known(to, "the destination of the DMA");
    unknown.destination = scalar_.origin(to.reg);
  }
  known(interaction.operands[next], "the sync flag of the DMA");
  return unknown;
}

/// Strides in SMEM have to be known, as has the other core.
void Sequencer::require_strides(const isa::Instruction& instruction) const {
  const char address = isa::info(instruction.opcode).address;
  if (address == 'F') {
    for (const std::uint8_t reg : instruction.address.base) {
      const Origin origin = scalar_.origin(reg);
      if (!origin.known()) require(origin, "the far end of the DMA");
    }
  }
  if (address != 'a') return;
  const std::uint32_t first = isa::evaluate(instruction.address, scalar_.state());
  for (std::uint32_t i = 0; i < isa::kStrideWords && first + i < scalar_.state().smem.size(); ++i) {
    const Origin origin = scalar_.smem_origin(first + i);
    if (!origin.known()) require(origin, "word " + std::to_string(i) + " of the DMA's strides");
  }
}

isa::DmaDescriptor Sequencer::descriptor_of(const Interaction& interaction,
                                            UnknownAddresses& unknown) {
  unknown = unknown_addresses(interaction);
  const isa::Kernel& code = blocks_.program().kernels[block_->kernel];
  const isa::Instruction& instruction =
      code.begin(code.bundles[block_->first])[interaction.instruction];
  require_strides(instruction);
  isa::DmaDescriptor descriptor;
  try {
    descriptor = isa::dma_of(instruction, scalar_.state());
  } catch (const ProgramFault& problem) {
    fault(problem.what());
  }
  return descriptor;
}

Sequencer::Contact Sequencer::start_dma(const Interaction& interaction) {
  UnknownAddresses unknown;
  const isa::DmaDescriptor descriptor = descriptor_of(interaction, unknown);
  if (ahead_ && is_noticed_outside(descriptor)) return Contact::kLater;
  if (unknown.any()) {
    follow_address(unknown.source);
    follow_address(unknown.destination);
  }
  const isa::Kernel& code = blocks_.program().kernels[block_->kernel];
  const MemberDestinations destinations =
      check_member_dmas(scalar_, code.begin(code.bundles[block_->first])[interaction.instruction],
                        interaction, descriptor, params_);
  graph_.at(position());
  const std::string problem =
      outside_.start_dma(descriptor, unknown, {block_->kernel, block_->first}, destinations, now_);
  if (!problem.empty()) fault(problem);
  count_dma(descriptor);
  if (unknown.any()) ++unknown_dmas_;
  return Contact::kDone;
}

/// Where a DMA goes decides about time as a branch does: an unknown address is followed as far as
/// data may be. A placeholder stands for what is left.
void Sequencer::follow_address(Origin origin) const {
  if (origin.known()) return;
  if (!scalar_.can_follow(origin)) {
    if (scalar_.follows_in_vain()) throw FollowedInVain(where());
    return;
  }
  throw UnknownControl(where() + ": an address of a DMA is unknown with values off\n  " + code(),
                       origin);
}

void Sequencer::count_dma(const isa::DmaDescriptor& descriptor) {
  const std::uint64_t bytes =
      is_word_for_other_core(descriptor)
          ? isa::kSmemWordBytes
          : std::uint64_t{descriptor.granules} * blocks_.program().conventions.granule_bytes;
  ++dynamic_.dmas;
  if (descriptor.source.space == isa::MemorySpace::kHbm) dynamic_.hbm_read_bytes += bytes;
  if (descriptor.remote) {
    dynamic_.ici_bytes += bytes;
  } else if (descriptor.destination.space == isa::MemorySpace::kHbm) {
    dynamic_.hbm_write_bytes += bytes;
  }
}

// ---- Looking ahead

void Sequencer::note_addition(const Interaction& interaction) {
  FlagAddition addition;
  addition.where = where();
  switch (interaction.opcode) {
    case Opcode::kDmaDoneWait:
    case Opcode::kVwaitGeTrace:
      return;
    case Opcode::kVsyncmov:
      scalar_.push_known(flags_.value(checked_flag(known(interaction.operands[0], "the flag"))));
      return;
    case Opcode::kVsyncadd:
      addition.chip = place_.chip;
      addition.core = place_.core;
      addition.flag = known(interaction.operands[0], "the flag");
      if (static_cast<std::int32_t>(known(interaction.operands[1], "the added value")) <= 0) return;
      break;
    case Opcode::kVsyncaddRemote: {
      const RemoteFlag flag = remote_flag(known(interaction.operands[0], "the remote flag"),
                                          blocks_.program().conventions);
      addition.chip = flag.chip;
      addition.core = flag.core;
      addition.flag = flag.flag;
      break;
    }
    default: {
      UnknownAddresses unknown;
      const isa::DmaDescriptor descriptor = descriptor_of(interaction, unknown);
      addition.chip = descriptor.remote ? descriptor.destination.chip : place_.chip;
      addition.core = descriptor.remote ? descriptor.destination.core : place_.core;
      addition.flag = descriptor.destination_flag;
    }
  }
  additions_.push_back(addition);
}

}  // namespace tpu
