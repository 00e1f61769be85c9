#include "models/core/scalar_lanes.h"

#include <map>

#include "isa/meaning.h"
#include "sim/base/error.h"

namespace tpu {
namespace {

using Kind = MicroOp::Kind;
using Values = ScalarLanes::Values;

/// An operand of an operation: register + immediate, or register xor immediate, member by member.
class Operand {
 public:
  Operand(const Values* varying, std::uint32_t alike) : varying_(varying), alike_(alike) {}
  std::uint32_t operator[](std::size_t member) const {
    return varying_ != nullptr ? (*varying_)[member] : alike_;
  }
  bool varies() const { return varying_ != nullptr; }
  std::uint32_t alike() const { return alike_; }
  const Values& values() const { return *varying_; }

 private:
  const Values* varying_;
  std::uint32_t alike_;
};

/// result[i] = function(a[i], b[i]), with the cases apart so that each loop is a plain one.
template <class Function>
void for_each(const Operand& a, std::uint32_t add_a, const Operand& b, std::uint32_t add_b,
              Values& result, const Function& function) {
  const std::size_t members = result.size();
  if (a.varies() && b.varies()) {
    const std::uint32_t* x = a.values().data();
    const std::uint32_t* y = b.values().data();
    for (std::size_t i = 0; i < members; ++i) result[i] = function(x[i] + add_a, y[i] + add_b);
  } else if (a.varies()) {
    const std::uint32_t* x = a.values().data();
    const std::uint32_t y = b.alike() + add_b;
    for (std::size_t i = 0; i < members; ++i) result[i] = function(x[i] + add_a, y);
  } else {
    const std::uint32_t x = a.alike() + add_a;
    for (std::size_t i = 0; i < members; ++i) result[i] = function(x, b[i] + add_b);
  }
}

}  // namespace

void ScalarLanes::set(std::uint8_t reg, Values values) {
  const std::uint64_t bit = std::uint64_t{1} << reg;
  bool varies = false;
  for (const std::uint32_t value : values) varies = varies || value != values.front();
  varying_ = varies ? varying_ | bit : varying_ & ~bit;
  registers_[reg] = std::move(values);
}

void ScalarLanes::set_alike(std::uint8_t reg) { varying_ &= ~(std::uint64_t{1} << reg); }

void ScalarLanes::describe(StepState& state) const {
  const auto add = [&](const Values& values) {
    for (const std::uint32_t value : values) state.add(value);
  };
  state.add(varying_);
  for (std::uint8_t reg = 0; reg < scalar_file::kSize; ++reg) {
    if (varies(reg)) add(registers_[reg]);
  }
  const std::map<std::uint32_t, Values> words(words_.begin(), words_.end());
  state.add(words.size());
  for (const auto& [word, values] : words) {
    state.add(word);
    add(values);
  }
}

void ScalarLanes::set_word(std::uint32_t word, Values values) {
  for (const std::uint32_t value : values) {
    if (value == values.front()) continue;
    words_[word] = std::move(values);
    return;
  }
  set_word_alike(word);
}

void ScalarLanes::compute(const MicroOp& op, const Registers& registers, Values& result) const {
  const auto operand = [&](int i) {
    return Operand(varies(op.reg[i]) ? &registers_[op.reg[i]] : nullptr, registers[op.reg[i]]);
  };
  const Operand a = operand(0), b = operand(1), c = operand(2);
  const std::uint32_t ia = op.immediate[0], ib = op.immediate[1], ic = op.immediate[2];
  const auto with = [&](const auto& function) { for_each(a, ia, b, ib, result, function); };
  switch (op.kind) {
    case Kind::kAdd:
      return with([](std::uint32_t x, std::uint32_t y) { return x + y; });
    case Kind::kCompute:
    case Kind::kOrWords:
    case Kind::kShift:
      switch (op.opcode) {
        case isa::Opcode::kSsubS32:
          return with([](std::uint32_t x, std::uint32_t y) { return x - y; });
        case isa::Opcode::kSandU32:
          return with([](std::uint32_t x, std::uint32_t y) { return x & y; });
        case isa::Opcode::kSmulU32:
          return with([](std::uint32_t x, std::uint32_t y) { return x * y; });
        default:
          return with([&op](std::uint32_t x, std::uint32_t y) {
            return isa::scalar_result(op.opcode, x, y);
          });
      }
    case Kind::kCompare:
    case Kind::kLess:
      return with([&op](std::uint32_t x, std::uint32_t y) {
        return std::uint32_t{isa::scalar_comparison(op.opcode, x, y)};
      });
    case Kind::kCopy:
      for (std::size_t i = 0; i < members_; ++i) result[i] = a[i] + ia;
      return;
    case Kind::kCopyBit:
      for (std::size_t i = 0; i < members_; ++i) result[i] = a[i] ^ ia;
      return;
    case Kind::kSelect:
      for (std::size_t i = 0; i < members_; ++i) {
        result[i] = (a[i] ^ ia) != 0 ? b[i] + ib : c[i] + ic;
      }
      return;
    case Kind::kNand:
      for (std::size_t i = 0; i < members_; ++i) result[i] = ((a[i] ^ ia) & (b[i] ^ ib)) ^ 1U;
      return;
    case Kind::kOr:
      for (std::size_t i = 0; i < members_; ++i) result[i] = (a[i] ^ ia) | (b[i] ^ ib);
      return;
    case Kind::kNot:
      for (std::size_t i = 0; i < members_; ++i) result[i] = a[i] ^ ia ^ 1U;
      return;
    default:
      TPU_CHECK(false, "an operation of kind " << static_cast<int>(op.kind) << " on members");
  }
}

ScalarLanes::Values ScalarLanes::words(const MicroOp& op, const Registers& registers) const {
  Values result = values({op.reg[0], 0}, registers[op.reg[0]]);
  const Values second = values({op.reg[1], op.immediate[1]}, registers[op.reg[1]]);
  for (std::size_t i = 0; i < members_; ++i) result[i] += second[i];
  return result;
}

void ScalarLanes::load(const MicroOp& op, const Registers& registers,
                       const std::vector<std::uint32_t>& smem, Values& result) const {
  const Values read = words(op, registers);
  for (std::size_t i = 0; i < members_; ++i) {
    const std::uint32_t word = read[i];
    if (word >= smem.size()) differ_all("an address in SMEM beyond it");
    result[i] = smem[word];
    if (const auto found = words_.find(word); found != words_.end()) result[i] = found->second[i];
  }
}

std::uint32_t ScalarLanes::store(const MicroOp& op, const Registers& registers,
                                 const std::vector<std::uint32_t>& smem) {
  require_alike(op.reg[0]);
  require_alike(op.reg[1]);
  const std::uint32_t word = registers[op.reg[0]] + registers[op.reg[1]] + op.immediate[1];
  if (word >= smem.size()) differ_all("an address in SMEM beyond it");
  Values stored = values({op.reg[2], op.immediate[2]}, registers[op.reg[2]]);
  const auto found = words_.find(word);
  const Values before = found != words_.end() ? found->second : Values(members_, smem[word]);
  apply_guard(op, before, stored);
  const std::uint32_t representative = stored.front();
  set_word(word, std::move(stored));
  return representative;
}

/// Members whose guard does not hold keep what was there.
void ScalarLanes::apply_guard(const MicroOp& op, const Values& before, Values& result) const {
  if (!varies(op.guard.reg)) return;
  const Values& guard = registers_[op.guard.reg];
  for (std::size_t i = 0; i < members_; ++i) {
    if ((guard[i] != 0) != op.guard.holds_when) result[i] = before[i];
  }
}

std::optional<std::uint32_t> ScalarLanes::execute(const MicroOp& op, const Registers& registers,
                                                  const std::vector<std::uint32_t>& smem) {
  if (!varies(op.guard.reg) && (registers[op.guard.reg] != 0) != op.guard.holds_when) return {};
  if (op.kind == Kind::kStore) return store(op, registers, smem);
  Values result(members_);
  if (op.kind == Kind::kLoad) {
    load(op, registers, smem, result);
  } else {
    compute(op, registers, result);
  }
  if (varies(op.guard.reg)) apply_guard(op, values({op.dest, 0}, registers[op.dest]), result);
  const std::uint32_t representative = result.front();
  set(op.dest, std::move(result));
  return representative;
}

ScalarLanes::Values ScalarLanes::values(const ScalarOperand& operand,
                                        std::uint32_t representative) const {
  if (!varies(operand.reg)) return Values(members_, representative + operand.immediate);
  Values result = registers_[operand.reg];
  for (std::uint32_t& value : result) value += operand.immediate;
  return result;
}

void ScalarLanes::differ(const char* in_what, const Values& values) const {
  throw MembersDiffer(in_what, of_class_, {values.begin(), values.end()});
}

void ScalarLanes::differ_all(const char* in_what) const {
  std::vector<std::uint64_t> keys(members_);
  for (std::size_t i = 0; i < members_; ++i) keys[i] = i;
  throw MembersDiffer(in_what, of_class_, keys);
}

}  // namespace tpu
