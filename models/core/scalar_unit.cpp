#include "models/core/scalar_unit.h"

namespace tpu {
namespace {

using Kind = MicroOp::Kind;

constexpr const char* kNeedsValues =
    " depends on a value that the vector unit computed, which is unknown with values off; run "
    "with --values on";

}  // namespace

ScalarUnit::ScalarUnit(std::uint32_t smem_words, std::uint32_t chip, std::uint32_t core)
    : smem_unknown_((smem_words + 63) / 64) {
  state_.smem.resize(smem_words);
  state_.chip = chip;
  state_.core = core;
}

const isa::ScalarState& ScalarUnit::state() {
  for (std::size_t i = 0; i < state_.s.size(); ++i) state_.s[i] = registers_[i];
  for (std::size_t i = 0; i < state_.p.size(); ++i) {
    state_.p[i] = registers_[scalar_file::kPredicates + i] != 0;
  }
  return state_;
}

std::optional<bool> ScalarUnit::holds(const DecodedGuard& guard) const {
  if (is_unknown(guard.reg)) return std::nullopt;
  return (registers_[guard.reg] != 0) == guard.holds_when;
}

std::optional<std::uint32_t> ScalarUnit::value(const ScalarOperand& operand) const {
  if (is_unknown(operand.reg)) return std::nullopt;
  return registers_[operand.reg] + operand.immediate;
}

void ScalarUnit::write_smem(std::uint32_t word, std::uint32_t value, bool known) {
  state_.smem[word] = value;
  note_word(word, !known);
}

void ScalarUnit::note_word(std::uint32_t word, bool unknown) {
  const std::uint64_t bit = std::uint64_t{1} << (word % 64);
  std::uint64_t& bits = smem_unknown_[word / 64];
  if (((bits & bit) != 0) == unknown) return;
  bits ^= bit;
  unknown_words_ += unknown ? 1 : ~std::uint32_t{0};
}

void ScalarUnit::note_unknown(std::uint8_t reg, bool unknown) {
  const std::uint64_t bit = std::uint64_t{1} << reg;
  unknown_ = unknown ? unknown_ | bit : unknown_ & ~bit;
}

bool ScalarUnit::fail(const std::string& what) {
  problem_ = what;
  return false;
}

template <bool kUnknowns>
const MicroOp* ScalarUnit::execute(const MicroOp* begin, const MicroOp* end) {
  auto& r = registers_;
  for (const MicroOp* op = begin; op != end; ++op) {
    if constexpr (kUnknowns) {
      bool handled = false;
      if (!execute_unknown(*op, handled)) return op;
      if (handled) continue;
    }
    // The guards of kQueueGuard are what it notes.
    if (op->kind != Kind::kQueueGuard && (r[op->guard.reg] != 0) != op->guard.holds_when) continue;
    const std::uint32_t a = r[op->reg[0]] + op->immediate[0];
    switch (op->kind) {
      case Kind::kCompute:
        r[op->dest] = isa::scalar_result(op->opcode, a, r[op->reg[1]] + op->immediate[1]);
        break;
      case Kind::kCompare:
        r[op->dest] = isa::scalar_comparison(op->opcode, a, r[op->reg[1]] + op->immediate[1]);
        break;
      case Kind::kCopy:
        r[op->dest] = a;
        break;
      case Kind::kCopyBit:
        r[op->dest] = r[op->reg[0]] ^ op->immediate[0];
        break;
      case Kind::kSelect:
        r[op->dest] = (r[op->reg[0]] ^ op->immediate[0]) != 0 ? r[op->reg[1]] + op->immediate[1]
                                                              : r[op->reg[2]] + op->immediate[2];
        break;
      case Kind::kNand:
        r[op->dest] =
            ((r[op->reg[0]] ^ op->immediate[0]) & (r[op->reg[1]] ^ op->immediate[1])) ^ 1U;
        break;
      case Kind::kOr:
        r[op->dest] = (r[op->reg[0]] ^ op->immediate[0]) | (r[op->reg[1]] ^ op->immediate[1]);
        break;
      case Kind::kNot:
        r[op->dest] = r[op->reg[0]] ^ op->immediate[0] ^ 1U;
        break;
      case Kind::kLoad:
        if (!load(*op)) return op;
        if constexpr (!kUnknowns) {
          if (unknown_ != 0) return execute<true>(op + 1, end);
        }
        break;
      case Kind::kStore:
        if (!store(*op)) return op;
        break;
      case Kind::kVpush:
      case Kind::kSpop:
      case Kind::kHalt:
      case Kind::kQueueGuard:
        if (!execute_rare(*op)) return op;
        // A pop can make a register unknown: the rest runs with that in mind.
        if constexpr (!kUnknowns) {
          if (unknown_ != 0) return execute<true>(op + 1, end);
        }
        break;
    }
  }
  return nullptr;
}

const MicroOp* ScalarUnit::run(const MicroOp* begin, const MicroOp* end) {
  return unknown_ == 0 ? execute<false>(begin, end) : execute<true>(begin, end);
}

bool ScalarUnit::load(const MicroOp& op) {
  const std::uint32_t word = registers_[op.reg[0]] + registers_[op.reg[1]] + op.immediate[1];
  if (word >= smem_words()) {
    return fail("sld: expected a word of SMEM below " + std::to_string(smem_words()) + ", found " +
                std::to_string(static_cast<std::int32_t>(word)));
  }
  registers_[op.dest] = state_.smem[word];
  if (unknown_words_ != 0 && word_unknown(word)) note_unknown(op.dest, true);
  return true;
}

bool ScalarUnit::store(const MicroOp& op) {
  const std::uint32_t word = registers_[op.reg[0]] + registers_[op.reg[1]] + op.immediate[1];
  if (word >= smem_words()) {
    return fail("sst: expected a word of SMEM below " + std::to_string(smem_words()) + ", found " +
                std::to_string(static_cast<std::int32_t>(word)));
  }
  state_.smem[word] = registers_[op.reg[2]] + op.immediate[2];
  if (unknown_words_ != 0) note_word(word, false);
  return true;
}

bool ScalarUnit::execute_rare(const MicroOp& op) {
  switch (op.kind) {
    case Kind::kVpush: {
      std::uint32_t value = op.immediate[2];
      if (vectors_ != nullptr && op.reg[2] != scalar_file::kZero) {
        value = vectors_->vector(op.reg[2]).word[0];
      }
      from_vector_.push_back({value, vectors_ != nullptr || op.reg[2] == scalar_file::kZero});
      return true;
    }
    case Kind::kSpop: {
      // An empty queue is the latency check's business, which comes after.
      FromVector popped;
      if (!from_vector_.empty()) {
        popped = from_vector_.front();
        from_vector_.pop_front();
      }
      registers_[op.dest] = popped.value;
      note_unknown(op.dest, !popped.known);
      return true;
    }
    case Kind::kHalt:
      return fail("shalt.err: the program stops the core, its bounds check has failed");
    case Kind::kQueueGuard: {
      const bool acts = (registers_[op.guard.reg] != 0) == op.guard.holds_when;
      queue_guards_ |= std::uint64_t{acts} << queue_guard_count_;
      ++queue_guard_count_;
      return true;
    }
    default:
      return true;
  }
}

/// The operations that touch something unknown. False: a fault. `handled`: nothing more to do.
bool ScalarUnit::execute_unknown(const MicroOp& op, bool& handled) {
  const bool guard_unknown = is_unknown(op.guard.reg);
  if (guard_unknown && op.kind == Kind::kHalt) {
    handled = true;
    return true;
  }
  if (guard_unknown &&
      (op.kind == Kind::kQueueGuard || op.kind == Kind::kVpush || op.kind == Kind::kSpop)) {
    return fail(std::string("the guard of a push or pop") + kNeedsValues);
  }
  if (op.kind == Kind::kQueueGuard || op.kind == Kind::kVpush || op.kind == Kind::kSpop ||
      op.kind == Kind::kHalt) {
    return true;
  }
  if (!guard_unknown && (registers_[op.guard.reg] != 0) != op.guard.holds_when) {
    handled = true;
    return true;
  }
  const bool address_unknown = is_unknown(op.reg[0]) || is_unknown(op.reg[1]);
  if (op.kind == Kind::kStore) {
    if (address_unknown) return fail(std::string("the address of sst") + kNeedsValues);
    if (!guard_unknown && !is_unknown(op.reg[2])) return true;
    const std::uint32_t word = registers_[op.reg[0]] + registers_[op.reg[1]] + op.immediate[1];
    if (word >= smem_words()) return true;
    note_word(word, true);
    handled = true;
    return true;
  }
  bool unknown = guard_unknown || address_unknown || is_unknown(op.reg[2]);
  if (op.kind == Kind::kSelect && !is_unknown(op.reg[0])) {
    const bool first = (registers_[op.reg[0]] ^ op.immediate[0]) != 0;
    unknown = guard_unknown || is_unknown(op.reg[first ? 1 : 2]);
  }
  if (unknown && op.dest == scalar_file::kBranchTaken) {
    return fail(std::string("a branch") + kNeedsValues);
  }
  if (unknown && op.dest == scalar_file::kCallTaken) {
    return fail(std::string("a call") + kNeedsValues);
  }
  note_unknown(op.dest, unknown);
  handled = unknown;
  return true;
}

}  // namespace tpu
