#include "models/core/scalar_unit.h"

#include <algorithm>

#include "models/core/knowledge.h"

namespace tpu {
namespace {

using Kind = MicroOp::Kind;

constexpr const char* kNeedsValues =
    " depends on a value that the vector unit computed, which is unknown with values off; run "
    "with --values on";

constexpr std::uint32_t kPlaceholders = 64;

}  // namespace

ScalarUnit::ScalarUnit(std::uint32_t smem_words, std::uint32_t chip, std::uint32_t core)
    : smem_origins_(smem_words) {
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
  require_alike(guard.reg);
  if (is_unknown(guard.reg)) return std::nullopt;
  return assumed_to_hold(guard);
}

std::optional<std::uint32_t> ScalarUnit::value(const ScalarOperand& operand) const {
  require_alike(operand.reg);
  if (is_unknown(operand.reg)) return std::nullopt;
  return assumed_value(operand);
}

void ScalarUnit::write_smem(std::uint32_t word, std::uint32_t value, Origin origin) {
  state_.smem[word] = value;
  if (lanes_ != nullptr) lanes_->set_word_alike(word);
  note_word(word, origin);
}

void ScalarUnit::write_smem_unknown(std::uint32_t word, Origin origin) {
  write_smem(word, placeholder(), origin);
}

void ScalarUnit::describe(StepState& state) const {
  for (const std::uint32_t value : registers_) state.add(value);
  state.add(unknown_);
  for (std::uint8_t reg = 0; reg < scalar_file::kSize; ++reg) state.add(origin(reg).code());
  std::vector<std::uint64_t> smem;
  for (std::uint32_t word = 0; word < smem_words(); ++word) {
    const Origin origin = smem_origin(word);
    if (state_.smem[word] == 0 && origin.plain()) continue;
    smem.push_back(word);
    smem.push_back(std::uint64_t{origin.code()} << 32 | state_.smem[word]);
  }
  state.add_list(smem);
  state.add(from_vector_.size());
  for (const FromVector& value : from_vector_) {
    state.add(std::uint64_t{value.origin.code()} << 32 | value.value);
  }
  state.add(placeholders_ % kPlaceholders);
  state.add(queue_guards_);
  if (lanes_ != nullptr) lanes_->describe(state);
}

std::uint32_t ScalarUnit::placeholder() {
  return static_cast<std::uint32_t>(placeholders_++ % kPlaceholders);
}

void ScalarUnit::note_word(std::uint32_t word, Origin origin) {
  Origin& noted = smem_origins_[word];
  if (noted.plain() != origin.plain()) marked_words_ += noted.plain() ? 1 : ~std::uint32_t{0};
  noted = origin;
}

void ScalarUnit::note_origin(std::uint8_t reg, Origin origin) {
  const std::uint64_t bit = std::uint64_t{1} << reg;
  unknown_ = origin.known() ? unknown_ & ~bit : unknown_ | bit;
  origins_[reg] = origin;
}

/// A register takes a value of another unit.
void ScalarUnit::take(std::uint8_t reg, Origin origin) {
  note_origin(reg, origin);
  if (origin.assumed()) assumed_buffers_.insert(*origin.assumed());
  has_padding_ = has_padding_ || origin == Origin::padding();
}

bool ScalarUnit::fail(const std::string& what, Origin origin) {
  problem_ = what;
  problem_origin_ = origin;
  return false;
}

/// What a push of the vector unit brings.
ScalarUnit::FromVector ScalarUnit::element(std::uint8_t vector_register,
                                           std::uint32_t instruction) {
  if (vectors_ != nullptr && knowledge_ == nullptr) {
    return {vectors_->vector(vector_register).word[0], {}};
  }
  const bool demanded = vectors_ != nullptr && knowledge_->follows(kernel_) &&
                        followed_->demands(kernel_, instruction);
  if (!demanded) {
    const Origin made =
        followed_ != nullptr ? followed_->made_by(kernel_, instruction) : Origin::kernel(kernel_);
    return {placeholder(), made};
  }
  const Origin origin = knowledge_->vector(vector_register);
  if (!origin.known()) return {placeholder(), origin};
  followed_->note_use();
  return {vectors_->vector(vector_register).word[0], origin};
}

template <bool kUnknowns>
const MicroOp* ScalarUnit::execute(const MicroOp* begin, const MicroOp* end) {
  auto& r = registers_;
  const std::uint32_t words = smem_words();
  std::uint32_t* const smem = state_.smem.data();
  // Nobody else has to hear of what is stored and loaded. Where all registers are known, a store
  // marks no word.
  const std::uint32_t of_one_core = lanes_ == nullptr ? words : 0;
  const std::uint32_t all_plain = !kUnknowns && marked_words_ == 0 ? of_one_core : 0;
  const Origin* const origins = smem_origins_.data();
  const auto plain = [&](std::uint32_t word) {
    return word < all_plain || (word < of_one_core && origins[word].plain());
  };
  for (const MicroOp* op = begin; op != end; ++op) {
    if constexpr (kUnknowns) {
      bool handled = false;
      if (!note_unknown(*op, handled)) return op;
      if (handled) continue;
    }
    // The guards of kQueueGuard are what it notes.
    if (!op->guard.always() && (r[op->guard.reg] != 0) != op->guard.holds_when &&
        op->kind != Kind::kQueueGuard) {
      continue;
    }
    const std::uint32_t a = r[op->reg[0]] + op->immediate[0];
    switch (op->kind) {
      case Kind::kCompute:
        r[op->dest] = isa::scalar_result(op->opcode, a, r[op->reg[1]] + op->immediate[1]);
        break;
      case Kind::kCompare:
        r[op->dest] = isa::scalar_comparison(op->opcode, a, r[op->reg[1]] + op->immediate[1]);
        break;
      case Kind::kAdd:
        r[op->dest] = a + r[op->reg[1]] + op->immediate[1];
        break;
      case Kind::kOrWords:
        r[op->dest] = a | (r[op->reg[1]] + op->immediate[1]);
        break;
      case Kind::kShift: {
        const std::uint32_t by = r[op->reg[1]] + op->immediate[1];
        r[op->dest] = by < 32 ? a << by : 0;
        break;
      }
      case Kind::kLess: {
        const std::uint32_t b = r[op->reg[1]] + op->immediate[1];
        r[op->dest] = static_cast<std::int32_t>(a) < static_cast<std::int32_t>(b) ? 1 : 0;
        break;
      }
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
      case Kind::kLoad: {
        const std::uint32_t word = a + r[op->reg[1]] + op->immediate[1];
        if (plain(word)) {
          r[op->dest] = smem[word];
          break;
        }
        if (!load(*op)) return op;
        if (lanes_ != nullptr && lanes_->any_register()) return execute_with_lanes(op + 1, end);
        if constexpr (!kUnknowns) {
          if (unknown_ != 0) return execute<true>(op + 1, end);
        }
        break;
      }
      case Kind::kStore: {
        const std::uint32_t word = a + r[op->reg[1]] + op->immediate[1];
        if (plain(word)) {
          smem[word] = r[op->reg[2]] + op->immediate[2];
        } else if (!store(*op)) {
          return op;
        }
        break;
      }
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
      default:
        __builtin_unreachable();
    }
  }
  return nullptr;
}

/// Operations one by one, on all members where registers vary.
const MicroOp* ScalarUnit::execute_with_lanes(const MicroOp* begin, const MicroOp* end) {
  for (const MicroOp* op = begin; op != end; ++op) {
    const bool computes = op->kind != Kind::kVpush && op->kind != Kind::kSpop &&
                          op->kind != Kind::kHalt && op->kind != Kind::kQueueGuard;
    if (!computes) require_alike(op->guard.reg);
    if (computes && lanes_->touches(*op)) {
      execute_on_lanes(*op);
      continue;
    }
    const bool acts =
        op->kind != Kind::kQueueGuard && (registers_[op->guard.reg] != 0) == op->guard.holds_when;
    if (acts) lanes_->set_alike(op->dest);
    const MicroOp* failed = unknown_ == 0 ? execute<false>(op, op + 1) : execute<true>(op, op + 1);
    if (failed != nullptr) return failed;
  }
  return nullptr;
}

/// What varies and what is unknown do not meet in one operation: each member goes by itself there.
/// What all members overwrite may be unknown.
void ScalarUnit::execute_on_lanes(const MicroOp& op) {
  const bool store = op.kind == Kind::kStore;
  const bool overwrites = !lanes_->varies(op.guard.reg);
  const bool reads_unknown = is_unknown(op.guard.reg) || is_unknown(op.reg[0]) ||
                             is_unknown(op.reg[1]) || is_unknown(op.reg[2]);
  const bool loads_unknown = op.kind == Kind::kLoad && lanes_meet_marked_word(op);
  const bool keeps_unknown =
      !overwrites && (store ? lanes_meet_marked_word(op) : is_unknown(op.dest));
  if (reads_unknown || loads_unknown || keeps_unknown) {
    lanes_->differ_all("a value that varies and one that is unknown");
  }
  const std::uint32_t word = registers_[op.reg[0]] + registers_[op.reg[1]] + op.immediate[1];
  const auto result = lanes_->execute(op, registers_, state_.smem);
  if (!result) return;
  if (store) {
    state_.smem[word] = *result;
    note_word(word, {});
  } else {
    registers_[op.dest] = *result;
    note_origin(op.dest, {});
  }
}

/// Some member loads from or stores into a word of SMEM of which something is to be said.
bool ScalarUnit::lanes_meet_marked_word(const MicroOp& op) const {
  if (marked_words_ == 0) return false;
  const ScalarLanes::Values words = lanes_->words(op, registers_);
  return std::any_of(words.begin(), words.end(),
                     [&](std::uint32_t word) { return !smem_origin(word).plain(); });
}

const MicroOp* ScalarUnit::run(const MicroOp* begin, const MicroOp* end) {
  if (lanes_ != nullptr && lanes_->any_register()) return execute_with_lanes(begin, end);
  return unknown_ == 0 ? execute<false>(begin, end) : execute<true>(begin, end);
}

bool ScalarUnit::load(const MicroOp& op) {
  const std::uint32_t word = registers_[op.reg[0]] + registers_[op.reg[1]] + op.immediate[1];
  if (word >= smem_words()) {
    return fail("sld: expected a word of SMEM below " + std::to_string(smem_words()) + ", found " +
                std::to_string(static_cast<std::int32_t>(word)));
  }
  registers_[op.dest] = state_.smem[word];
  if (lanes_ != nullptr && lanes_->word_varies(word)) lanes_->load(op.dest, word);
  if (marked_words_ != 0 && !smem_origins_[word].plain()) take(op.dest, smem_origins_[word]);
  return true;
}

bool ScalarUnit::store(const MicroOp& op) {
  const std::uint32_t word = registers_[op.reg[0]] + registers_[op.reg[1]] + op.immediate[1];
  if (word >= smem_words()) {
    return fail("sst: expected a word of SMEM below " + std::to_string(smem_words()) + ", found " +
                std::to_string(static_cast<std::int32_t>(word)));
  }
  state_.smem[word] = registers_[op.reg[2]] + op.immediate[2];
  if (lanes_ != nullptr) lanes_->set_word_alike(word);
  if (marked_words_ != 0) note_word(word, {});
  return true;
}

bool ScalarUnit::execute_rare(const MicroOp& op) {
  switch (op.kind) {
    case Kind::kVpush: {
      const bool immediate = op.reg[2] == scalar_file::kZero;
      from_vector_.push_back(immediate ? FromVector{op.immediate[2], {}}
                                       : element(op.reg[2], op.immediate[0]));
      return true;
    }
    case Kind::kSpop: {
      // An empty queue is the latency check's business, which comes after.
      FromVector popped{0, Origin::nobody()};
      if (!from_vector_.empty()) {
        popped = from_vector_.front();
        from_vector_.pop_front();
      }
      registers_[op.dest] = popped.value;
      take(op.dest, popped.origin);
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

/// What an operation that touches something unknown makes of the origins, before it computes with
/// the placeholders. False: a fault. `handled`: it computes nothing.
bool ScalarUnit::note_unknown(const MicroOp& op, bool& handled) {
  const Origin guard = origin(op.guard.reg);
  const bool guard_unknown = !guard.known();
  switch (op.kind) {
    case Kind::kHalt:
      handled = guard_unknown;
      return true;
    case Kind::kQueueGuard:
    case Kind::kVpush:
    case Kind::kSpop:
      if (guard.known() || assumes(guard)) return true;
      return fail(std::string("the guard of a push or pop") + kNeedsValues, guard);
    default:
      break;
  }
  if (!guard_unknown && (registers_[op.guard.reg] != 0) != op.guard.holds_when) {
    handled = true;
    return true;
  }
  const Origin address = origin(op.reg[0]) | origin(op.reg[1]);
  if (op.kind == Kind::kStore) return note_unknown_store(op, guard, address, handled);
  Origin result = guard | address | origin(op.reg[2]);
  if (op.kind == Kind::kSelect && !is_unknown(op.reg[0])) {
    const bool first = (registers_[op.reg[0]] ^ op.immediate[0]) != 0;
    result = guard | origin(op.reg[first ? 1 : 2]);
  }
  if (!result.known() && op.dest == scalar_file::kCallTaken && !assumes(result)) {
    return fail(std::string("a call") + kNeedsValues, result);
  }
  note_origin(op.dest, result);
  if (op.kind == Kind::kLoad && !result.known()) {
    registers_[op.dest] = placeholder();
    handled = true;
  }
  return true;
}

bool ScalarUnit::note_unknown_store(const MicroOp& op, Origin guard, Origin address,
                                    bool& handled) {
  if (!address.known()) {
    handled = true;
    return assumes(address) || fail(std::string("the address of sst") + kNeedsValues, address);
  }
  const Origin stored = guard | origin(op.reg[2]);
  if (stored.known()) return true;
  const std::uint32_t word = registers_[op.reg[0]] + registers_[op.reg[1]] + op.immediate[1];
  if (word >= smem_words()) return true;
  const bool acts = (registers_[op.guard.reg] != 0) == op.guard.holds_when;
  if (acts) state_.smem[word] = registers_[op.reg[2]] + op.immediate[2];
  if (acts && lanes_ != nullptr) lanes_->set_word_alike(word);
  note_word(word, stored);
  handled = true;
  return true;
}

}  // namespace tpu
