#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <map>
#include <vector>

#include "isa/dma_descriptor.h"
#include "isa/instruction.h"
#include "isa/program.h"

namespace tpu::isa {

/// Eight sublanes of 128 lanes of 32 bits: element (s, l) is word[128 s + l].
struct alignas(64) VectorRegister {
  std::array<std::uint32_t, kSublanes * kLanes> word{};
};

/// One bit per element of a vector register, in the same order.
struct VectorMask {
  std::array<std::uint64_t, kSublanes * kLanes / 64> bits{};
};

/// A model of a systolic array with time, which computes in place of MxuState.
class MatrixUnit {
 public:
  virtual ~MatrixUnit() = default;
  /// The operand of a push (vdwg has none: `operand` is empty).
  virtual void push(const Instruction& in, const VectorRegister& operand) = 0;
  /// The result that a pop takes.
  virtual void pop(const Instruction& in, VectorRegister& result) = 0;
};

/// What lies around a core, as its instructions see it: sync flags and DMA. The timed core
/// implements it with the machine's clock; a test may implement it at once. Waiting is the
/// sequencer's business: no function here waits.
class Surroundings {
 public:
  virtual ~Surroundings() = default;
  virtual void start_dma(const DmaDescriptor& descriptor) = 0;
  virtual void add_to_sync_flag(std::uint32_t flag, std::uint32_t value) = 0;
  virtual void add_to_remote_sync_flag(std::uint32_t remote_address, std::uint32_t value) = 0;
  virtual std::uint32_t sync_flag(std::uint32_t flag) = 0;
  /// Nothing: the core's own MxuState computes.
  virtual MatrixUnit* matrix_unit(std::uint8_t /*unit*/) { return nullptr; }
};

/// An element of the queue from the vector unit (vpush) and the sync flags (vsyncmov) to spop.
struct QueuedScalar {
  std::uint32_t value = 0;
  std::uint64_t name = 0;  ///< Of the push; see name_check.h.
};

/// The part of a core's state that control depends on: it exists with values off, too.
struct ScalarState {
  std::array<std::uint32_t, kScalarRegisters> s{};
  std::array<bool, kPredicateRegisters> p{};
  std::vector<std::uint32_t> smem;
  /// Program::parameter_addresses(), for scalar_parameter_address.
  std::map<std::uint32_t, std::uint32_t> parameter_addresses;
  std::uint32_t chip = 0;  ///< Of this core, for DMA descriptors of the simple forms.
  std::uint32_t core = 0;
  std::vector<QueuedScalar> from_vector;  ///< What spop pops, oldest first.
};

/// Result of a scalar instruction that computes (`s=` signatures but for loads): pure, no state.
std::uint32_t scalar_result(Opcode opcode, std::uint32_t a, std::uint32_t b);
/// Result of a scalar comparison (`p=ss`, `p=s`).
bool scalar_comparison(Opcode opcode, std::uint32_t a, std::uint32_t b);

/// The value of a scalar operand.
inline std::uint32_t evaluate(const Operand& operand, const ScalarState& state) {
  return operand.kind == Operand::Kind::kRegister ? state.s[operand.reg] : operand.immediate;
}
/// The value of a predicate operand.
inline bool evaluate_predicate(const Operand& operand, const ScalarState& state) {
  const bool value =
      operand.kind == Operand::Kind::kRegister ? state.p[operand.reg] : operand.immediate != 0;
  return value != operand.negated;
}
/// Whether an instruction acts.
inline bool guard_holds(const Guard& guard, const ScalarState& state) {
  return guard.predicate == kNoRegister || state.p[guard.predicate] != guard.negated;
}
/// The sum of an address's terms: rows of VMEM or words of SMEM, modulo 2^32.
inline std::uint32_t evaluate(const Address& address, const ScalarState& state) {
  std::uint32_t sum = static_cast<std::uint32_t>(address.offset);
  if (address.base[0] != kNoRegister) sum += state.s[address.base[0]];
  if (address.base[1] != kNoRegister) sum += state.s[address.base[1]];
  return sum;
}

/// What one scalar instruction changes. The instructions of a bundle all read before one writes:
/// evaluate them all, then apply.
struct ScalarWrite {
  enum class Kind : std::uint8_t { kNone, kScalar, kPredicate, kSmem, kPop };
  Kind kind = Kind::kNone;  ///< kPop: a scalar register, and the oldest queue element goes.
  std::uint32_t index = 0;  ///< Register or SMEM word.
  std::uint32_t value = 0;
};

/// The meaning of an instruction of the scalar unit (unit_of(opcode) == UnitKind::kScalar), its
/// guard included. Throws ProgramFault for SMEM addresses out of range, an unknown parameter and
/// spop without a push.
ScalarWrite evaluate_scalar(const Instruction& instruction, const ScalarState& state);

inline void apply(const ScalarWrite& write, ScalarState& state) {
  switch (write.kind) {
    case ScalarWrite::Kind::kNone:
      break;
    case ScalarWrite::Kind::kPop:
      state.from_vector.erase(state.from_vector.begin());
      [[fallthrough]];
    case ScalarWrite::Kind::kScalar:
      state.s[write.index] = write.value;
      break;
    case ScalarWrite::Kind::kPredicate:
      state.p[write.index] = write.value != 0;
      break;
    case ScalarWrite::Kind::kSmem:
      state.smem[write.index] = write.value;
      break;
  }
}

/// Words in SMEM that describe the runs of a dma.general.
constexpr std::uint32_t kStrideWords = 6;

/// The DMA that an instruction of UnitKind::kDma starts: the simple forms out of their operands,
/// `dma` out of its eight words in SMEM. The guard is the caller's business. Throws ProgramFault
/// for words that are no descriptor.
DmaDescriptor dma_of(const Instruction& instruction, const ScalarState& state);

/// What a bundle asks of the sequencer, evaluated on the state before the bundle (guards included).
struct ControlRequest {
  bool branches = false;     ///< After one delay slot.
  std::uint32_t target = 0;  ///< Bundle of the kernel.
  bool calls = false;
  std::uint32_t call_site = 0;  ///< Of Program::call_sites.
  bool waits = false;           ///< Until sync flag `flag` is at least `value`, as signed numbers.
  std::uint32_t flag = 0;
  std::uint32_t value = 0;
};
ControlRequest control_of(const Kernel& kernel, const Bundle& bundle, const ScalarState& state);

// ---- Inline definitions, for the loop of the timed core.

inline float as_float(std::uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}
inline std::uint32_t as_bits(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

/// The greater or smaller of two fp32 numbers; a NaN operand is the result.
inline float max_f32(float a, float b) { return a != a || a > b ? a : b; }
inline float min_f32(float a, float b) { return a != a || a < b ? a : b; }

/// The thresholds of the .pr conversions that XLA's programs use.
constexpr std::uint32_t kTruncation = 0xffffffff;
constexpr std::uint32_t kNearestAwayFromZero = 0x7fffffff;
inline bool is_known_rounding(std::uint32_t threshold) {
  return threshold == kTruncation || threshold == kNearestAwayFromZero;
}
/// fp32 to a signed integer: away from zero where the fraction, in units of 2^-32, is above the
/// threshold, else towards it. Beyond the range the nearest integer; NaN gives 0.
inline std::uint32_t convert_to_s32(std::uint32_t bits, std::uint32_t threshold) {
  const float value = as_float(bits);
  if (value != value) return 0;
  if (value >= 2147483648.0f) return 0x7fffffff;
  if (value <= -2147483648.0f) return 0x80000000;
  const auto whole = static_cast<std::int32_t>(value);
  const float fraction = value - static_cast<float>(whole);  // Exact: 0 from 2^23 on.
  const double magnitude = (fraction < 0 ? -fraction : fraction) * 4294967296.0;
  if (!(magnitude > threshold)) return static_cast<std::uint32_t>(whole);
  return static_cast<std::uint32_t>(value < 0 ? whole - 1 : whole + 1);
}

inline std::uint32_t leading_zeros(std::uint32_t word) {
  return word == 0 ? 32 : static_cast<std::uint32_t>(__builtin_clz(word));
}
/// Whether a sum leaves 32 bits.
inline bool carries(std::uint32_t a, std::uint32_t b) { return a + b < a; }
/// Infinite or no number.
inline bool is_weird(std::uint32_t bits) { return (bits >> 23 & 255) == 255; }

inline std::uint32_t scalar_result(Opcode opcode, std::uint32_t a, std::uint32_t b) {
  switch (opcode) {
    case Opcode::kSaddS32:
    case Opcode::kScalarLeaHbm:
    case Opcode::kScalarLeaVmem:
    case Opcode::kScalarLeaSmem:
    case Opcode::kScalarLeaSflag:
    case Opcode::kScalarLeaCmem:
      return a + b;
    case Opcode::kSsubS32:
      return a - b;
    case Opcode::kSandU32:
      return a & b;
    case Opcode::kSorU32:
      return a | b;
    case Opcode::kSxorU32:
      return a ^ b;
    case Opcode::kSshllU32:
      return b < 32 ? a << b : 0;
    case Opcode::kSshrlU32:
      return b < 32 ? a >> b : 0;
    case Opcode::kSshraS32:
      return static_cast<std::uint32_t>(static_cast<std::int32_t>(a) >> (b < 31 ? b : 31));
    case Opcode::kSmulU32:
      return a * b;
    case Opcode::kSmulU24:
      return (a & 0xffffff) * (b & 0xffffff);
    case Opcode::kSaddF32:
      return as_bits(as_float(a) + as_float(b));
    case Opcode::kSsubF32:
      return as_bits(as_float(a) - as_float(b));
    case Opcode::kSmulF32:
      return as_bits(as_float(a) * as_float(b));
    case Opcode::kSmaxF32:
      return as_bits(max_f32(as_float(a), as_float(b)));
    case Opcode::kSminF32:
      return as_bits(min_f32(as_float(a), as_float(b)));
    case Opcode::kScvtS32F32:
      return as_bits(static_cast<float>(static_cast<std::int32_t>(a)));
    case Opcode::kScvtPrF32S32:
      return convert_to_s32(a, b);
    case Opcode::kSclz:
      return leading_zeros(a);
    default:
      return a;  // smov
  }
}

inline bool scalar_comparison(Opcode opcode, std::uint32_t a, std::uint32_t b) {
  const auto x = static_cast<std::int32_t>(a);
  const auto y = static_cast<std::int32_t>(b);
  switch (opcode) {
    case Opcode::kScmpEqS32:
      return x == y;
    case Opcode::kScmpNeS32:
      return x != y;
    case Opcode::kScmpLtS32:
      return x < y;
    case Opcode::kScmpLeS32:
      return x <= y;
    case Opcode::kScmpGtS32:
      return x > y;
    case Opcode::kScmpEqF32:
      return as_float(a) == as_float(b);
    case Opcode::kScmpNeF32:
      return as_float(a) != as_float(b);
    case Opcode::kScmpLtF32:
      return as_float(a) < as_float(b);
    case Opcode::kScmpLeF32:
      return as_float(a) <= as_float(b);
    case Opcode::kScmpGtF32:
      return as_float(a) > as_float(b);
    case Opcode::kScmpGeF32:
      return as_float(a) >= as_float(b);
    case Opcode::kSweirdF32:
      return is_weird(a);
    case Opcode::kScU32:
      return carries(a, b);
    default:
      return x >= y;
  }
}

namespace meaning_detail {
[[noreturn]] void throw_smem_fault(const Instruction& instruction, std::uint32_t word,
                                   const ScalarState& state);
[[noreturn]] void throw_parameter_fault(const Instruction& instruction, const ScalarState& state);
[[noreturn]] void throw_empty_queue_fault(const Instruction& instruction);
[[noreturn]] void throw_rounding_fault(const Instruction& instruction);
[[noreturn]] void throw_not_scalar(const Instruction& instruction);
}  // namespace meaning_detail

inline ScalarWrite evaluate_scalar(const Instruction& in, const ScalarState& state) {
  using Kind = ScalarWrite::Kind;
  if (!guard_holds(in.guard, state)) return {};
  switch (in.opcode) {
    case Opcode::kSld: {
      const std::uint32_t word = evaluate(in.address, state);
      if (word >= state.smem.size()) meaning_detail::throw_smem_fault(in, word, state);
      return {Kind::kScalar, in.dest, state.smem[word]};
    }
    case Opcode::kSst: {
      const std::uint32_t word = evaluate(in.address, state);
      if (word >= state.smem.size()) meaning_detail::throw_smem_fault(in, word, state);
      return {Kind::kSmem, word, evaluate(in.operands[0], state)};
    }
    case Opcode::kScalarSelect:
      return {Kind::kScalar, in.dest,
              evaluate(in.operands[evaluate_predicate(in.operands[0], state) ? 1 : 2], state)};
    case Opcode::kPnand:
      return {Kind::kPredicate, in.dest,
              !(evaluate_predicate(in.operands[0], state) &&
                evaluate_predicate(in.operands[1], state))};
    case Opcode::kPor:
      return {
          Kind::kPredicate, in.dest,
          evaluate_predicate(in.operands[0], state) || evaluate_predicate(in.operands[1], state)};
    case Opcode::kPneg:
      return {Kind::kPredicate, in.dest, !evaluate_predicate(in.operands[0], state)};
    case Opcode::kPmov:
      return {Kind::kPredicate, in.dest, evaluate_predicate(in.operands[0], state)};
    case Opcode::kScalarParameterAddress: {
      const auto found = state.parameter_addresses.find(in.operands[0].immediate);
      if (found == state.parameter_addresses.end()) {
        meaning_detail::throw_parameter_fault(in, state);
      }
      return {Kind::kScalar, in.dest, found->second};
    }
    case Opcode::kSpop:
      if (state.from_vector.empty()) meaning_detail::throw_empty_queue_fault(in);
      return {Kind::kPop, in.dest, state.from_vector.front().value};
    case Opcode::kScvtPrF32S32:
      if (!is_known_rounding(in.operands[1].immediate)) meaning_detail::throw_rounding_fault(in);
      return {Kind::kScalar, in.dest,
              convert_to_s32(evaluate(in.operands[0], state), evaluate(in.operands[1], state))};
    default:
      if (compares_scalars(in.opcode)) {
        return {Kind::kPredicate, in.dest,
                scalar_comparison(in.opcode, evaluate(in.operands[0], state),
                                  evaluate(in.operands[1], state))};
      }
      if (unit_of(in.opcode) != UnitKind::kScalar) meaning_detail::throw_not_scalar(in);
      return {Kind::kScalar, in.dest,
              scalar_result(in.opcode, evaluate(in.operands[0], state),
                            evaluate(in.operands[1], state))};
  }
}

}  // namespace tpu::isa
