#include "models/core/decoded_kernel.h"

#include <algorithm>
#include <map>
#include <sstream>
#include <tuple>

#include "isa/meaning.h"
#include "isa/opcode_table.h"
#include "models/core/liveness.h"
#include "sim/base/error.h"

namespace tpu {
namespace {

using isa::Opcode;
using isa::UnitKind;

std::string place(const isa::Kernel& kernel, std::size_t bundle) {
  std::ostringstream text;
  text << "kernel \"" << kernel.name << "\", bundle 0x" << std::hex << bundle;
  return text.str();
}

std::uint32_t registers_in_file(char file) {
  switch (file) {
    case 's':
      return isa::kScalarRegisters;
    case 'v':
      return isa::kVectorRegisters;
    case 'p':
      return isa::kPredicateRegisters;
    default:
      return isa::kMaskRegisters;
  }
}

/// What checking and decoding ask of an opcode, as tables: a large program has millions of
/// instructions, and nearly all of them are plain.
struct Shape {
  static constexpr std::uint16_t kNever = 0x100;  ///< A bit that no number of a register has.
  static constexpr std::size_t kOperands = std::tuple_size_v<decltype(isa::Instruction::operands)>;
  static constexpr std::size_t kKinds = 3;  ///< Of operands.

  bool plain = false;    ///< Registers of their files are all that it needs.
  bool address = false;  ///< It has one.
  bool queue = false;    ///< It pushes or pops, or is of an MXU.
  char dest_file = 0;
  std::uint8_t operand_count = 0;
  std::uint8_t slow_latency = 0;  ///< Of a result that the next bundle cannot see yet.
  std::uint16_t dest_bits = 0;    ///< That the number of its destination may not have.
  /// The same of an operand by its kind; kNever: it may not be of that kind.
  std::array<std::array<std::uint16_t, kKinds>, kOperands> bits{};
  std::array<std::uint8_t, kOperands> first_timed{};  ///< timed_register of the operand's file.
};

/// Bits that no number of a register of the file has; the files have a power of two of them.
std::uint16_t bits_beyond(char file) {
  return static_cast<std::uint16_t>(0xff & ~(registers_in_file(file) - 1));
}

Shape shape_of(Opcode opcode) {
  const isa::OpcodeInfo& row = isa::info(opcode);
  Shape shape;
  const bool rounds = opcode == Opcode::kScvtPrF32S32 || opcode == Opcode::kVcvtPrF32S32;
  const bool jumps = opcode == Opcode::kSbrRel || opcode == Opcode::kCall;
  const bool of_one_of = row.unit == UnitKind::kMxu || (row.unit == UnitKind::kXlu && row.has_unit);
  shape.plain = !rounds && !jumps && !of_one_of;
  shape.address = row.address != 0;
  shape.queue = row.queue != isa::Queue::kNone || row.unit == UnitKind::kMxu;
  shape.dest_file = row.dest_file;
  shape.operand_count = row.operand_count;
  if (row.dest_file != 0) {
    shape.dest_bits = bits_beyond(row.dest_file);
    const std::uint32_t latency = isa::is_interlocked(opcode) ? 0 : isa::result_latency(opcode);
    if (latency > 1) shape.slow_latency = static_cast<std::uint8_t>(latency);
  }
  for (std::size_t o = 0; o < Shape::kOperands; ++o) {
    const bool has = o < row.operand_count;
    const char file = has ? row.operand_files[o] : 0;
    const bool in_register = has && file != 'i' && file != 'L' && file != 'C';
    shape.bits[o] = {has ? Shape::kNever : std::uint16_t{0},
                     in_register ? bits_beyond(file) : Shape::kNever, 0};
    if (has) shape.first_timed[o] = timed_register::number(file, 0);
  }
  return shape;
}

/// By opcode.
const std::array<Shape, isa::kOpcodeCount> kShapes = [] {
  std::array<Shape, isa::kOpcodeCount> all;
  for (std::size_t o = 0; o < all.size(); ++o) all[o] = shape_of(static_cast<Opcode>(o));
  return all;
}();

const Shape& shape(const isa::Instruction& i) {
  return kShapes[static_cast<std::size_t>(i.opcode)];
}

/// Whether it is a register out of so many, or none.
std::uint32_t is_beyond(std::uint8_t reg, int registers) {
  static_assert(isa::kNoRegister == 0xff);
  return static_cast<std::uint8_t>(reg + 1) > registers ? 1 : 0;
}

/// What every machine can execute: ProgramCheck need not look closer.
bool is_plain(const isa::Instruction& i) {
  if (i.opcode >= Opcode::kCount) return false;
  const Shape& of = shape(i);
  // Without branches: what stands in an instruction changes from one to the next.
  std::uint32_t wrong = (i.dest & of.dest_bits) | (of.plain ? 0 : 1);
  wrong |= is_beyond(i.guard.predicate, isa::kPredicateRegisters);
  for (std::size_t o = 0; o < Shape::kOperands; ++o) {
    const isa::Operand& operand = i.operands[o];
    const auto kind = std::min(static_cast<std::size_t>(operand.kind), Shape::kKinds - 1);
    wrong |= (operand.reg | std::uint32_t{Shape::kNever}) & of.bits[o][kind];
  }
  if (!of.address) return wrong == 0;
  for (const std::uint8_t base : i.address.base) wrong |= is_beyond(base, isa::kScalarRegisters);
  return (wrong | is_beyond(i.address.mask_register, isa::kScalarRegisters)) == 0;
}

/// std::stable_sort for the few elements of a bundle, without memory of its own.
template <class Element, class Before>
void sort_stably(Element* begin, Element* end, Before&& before) {
  for (Element* next = begin; next != end; ++next) {
    Element* place = next;
    while (place != begin && before(*next, place[-1])) --place;
    std::rotate(place, next, next + 1);
  }
}

/// Refuses what no machine of these parameters can execute.
class ProgramCheck {
 public:
  ProgramCheck(const isa::Program& program, const MachineParams& params)
      : program_(program), params_(params) {}

  /// Returns the brief form of each kernel, now that all its instructions pass by.
  std::vector<BriefCode> check() {
    if (program_.kernels.empty() || program_.kernels[0].bundles.empty()) {
      throw WorkloadError("program \"" + program_.name +
                          "\": expected a top-level kernel with bundles, found none");
    }
    if (!program_.chip.empty() && program_.chip != params_.chip) {
      throw WorkloadError("program \"" + program_.name + "\" is for TPU " + program_.chip +
                          ", the configuration \"" + params_.name + "\" is a TPU " + params_.chip +
                          ": compile it for this chip or choose another configuration");
    }
    for (const isa::CallSite& site : program_.call_sites) {
      if (site.kernel >= program_.kernels.size() || site.op >= program_.ops.size()) {
        throw WorkloadError("program \"" + program_.name +
                            "\": a call site names a kernel or an op that does not exist");
      }
    }
    std::vector<BriefCode> brief;
    for (const isa::Kernel& kernel : program_.kernels) brief.push_back(check_kernel(kernel));
    return brief;
  }

 private:
  BriefCode check_kernel(const isa::Kernel& kernel) {
    BriefCode brief;
    brief.instructions.resize(kernel.instructions.size());
    for (std::size_t b = 0; b < kernel.bundles.size(); ++b) {
      const isa::Bundle& bundle = kernel.bundles[b];
      const std::uint64_t end = std::uint64_t{bundle.first_instruction} + bundle.instruction_count;
      if (end > kernel.instructions.size()) {
        throw WorkloadError(place(kernel, b) + ": expected " + std::to_string(end) +
                            " instructions in the kernel, found " +
                            std::to_string(kernel.instructions.size()));
      }
      for (std::uint32_t k = bundle.first_instruction; k < end; ++k) {
        const isa::Instruction& i = kernel.instructions[k];
        if (!is_plain(i)) check_instruction(kernel, b, i);
        brief.instructions[k] = BriefInstruction(i);
      }
    }
    return brief;
  }

  [[noreturn]] void refuse(const isa::Kernel& kernel, std::size_t b, const std::string& what) {
    throw WorkloadError(place(kernel, b) + ": " + what);
  }

  void check_register(const isa::Kernel& kernel, std::size_t b, char file, std::uint8_t reg) {
    if (reg >= registers_in_file(file)) {
      refuse(kernel, b, std::string("no register ") + file + std::to_string(reg));
    }
  }

  void check_instruction(const isa::Kernel& kernel, std::size_t b, const isa::Instruction& i) {
    if (i.opcode >= Opcode::kCount) refuse(kernel, b, "no such opcode");
    const isa::OpcodeInfo& row = isa::info(i.opcode);
    const auto name = [&] { return isa::opcode_text(i.opcode, i.unit); };
    if (row.dest_file != 0) check_register(kernel, b, row.dest_file, i.dest);
    if (i.guard.predicate != isa::kNoRegister) check_register(kernel, b, 'p', i.guard.predicate);
    for (std::uint8_t o = 0; o < row.operand_count; ++o) {
      const isa::Operand& operand = i.operands[o];
      const char file = row.operand_files[o];
      const bool immediate_only = file == 'i' || file == 'L' || file == 'C';
      if (operand.kind == isa::Operand::Kind::kNone)
        refuse(kernel, b, name() + ": operand missing");
      if (operand.kind == isa::Operand::Kind::kRegister) {
        if (immediate_only) refuse(kernel, b, name() + ": expected an immediate operand");
        check_register(kernel, b, file, operand.reg);
      }
    }
    for (std::size_t o = row.operand_count; o < i.operands.size(); ++o) {
      if (i.operands[o].kind != isa::Operand::Kind::kRegister) continue;
      refuse(kernel, b, name() + ": a register where the instruction has no operand");
    }
    if (row.address != 0) {
      for (std::uint8_t base : i.address.base) {
        if (base != isa::kNoRegister) check_register(kernel, b, 's', base);
      }
      if (i.address.mask_register != isa::kNoRegister) {
        check_register(kernel, b, 's', i.address.mask_register);
      }
    }
    check_targets(kernel, b, i);
    const bool converts = i.opcode == Opcode::kScvtPrF32S32 || i.opcode == Opcode::kVcvtPrF32S32;
    if (converts && !isa::is_known_rounding(i.operands[1].immediate)) {
      refuse(kernel, b,
             name() + ": expected rounding mode -1 (truncation) or 2147483647 (nearest), found " +
                 std::to_string(static_cast<std::int32_t>(i.operands[1].immediate)));
    }
    if (row.unit == UnitKind::kMxu && i.unit >= params_.core.mxu.count) {
      refuse(kernel, b,
             name() + ": the core has " + std::to_string(params_.core.mxu.count) +
                 " MXU (core.mxu.count)");
    }
    if (row.unit == UnitKind::kMxu) check_parts(kernel, b, i);
    if (row.unit == UnitKind::kXlu && row.has_unit && i.unit >= program_.conventions.xlus) {
      refuse(kernel, b,
             name() + ": the core has " + std::to_string(program_.conventions.xlus) +
                 " XLU that its generation's instructions name");
    }
  }

  void check_parts(const isa::Kernel& kernel, std::size_t b, const isa::Instruction& i) {
    const MxuParams& mxu = params_.core.mxu;
    const isa::MxuParts parts = isa::parts_of(i);
    const bool names_one = i.opcode == Opcode::kVmatlatchPart && parts.row == 0;
    if (parts.rows - 1 < mxu.row_parts() && parts.columns - 1 < mxu.column_parts() && !names_one) {
      return;
    }
    refuse(kernel, b,
           isa::opcode_text(i.opcode, i.unit) + ": expected parts of an array of " +
               std::to_string(mxu.row_parts()) + "x" + std::to_string(mxu.column_parts()) +
               " blocks of 128x128 (core.mxu.rows, core.mxu.columns), found parts of " +
               std::to_string(parts.rows) + "x" + std::to_string(parts.columns));
  }

  void check_targets(const isa::Kernel& kernel, std::size_t b, const isa::Instruction& i) {
    if (i.opcode == Opcode::kSbrRel && i.operands[0].immediate > kernel.bundles.size()) {
      refuse(kernel, b,
             "branch to bundle " + std::to_string(i.operands[0].immediate) + " of " +
                 std::to_string(kernel.bundles.size()));
    }
    if (i.opcode == Opcode::kCall && i.operands[0].immediate >= program_.call_sites.size()) {
      refuse(kernel, b,
             "call site " + std::to_string(i.operands[0].immediate) + " of " +
                 std::to_string(program_.call_sites.size()));
    }
  }

  const isa::Program& program_;
  const MachineParams& params_;
};

DecodedGuard decode_guard(const isa::Guard& guard) {
  if (guard.predicate == isa::kNoRegister) return {};
  return {static_cast<std::uint8_t>(scalar_file::kPredicates + guard.predicate), !guard.negated};
}

ScalarOperand scalar_operand(const isa::Operand& operand) {
  if (operand.kind == isa::Operand::Kind::kRegister) return {operand.reg, 0};
  return {scalar_file::kZero, operand.immediate};
}

ScalarOperand predicate_operand(const isa::Operand& operand) {
  if (operand.kind == isa::Operand::Kind::kRegister) {
    return {static_cast<std::uint8_t>(scalar_file::kPredicates + operand.reg),
            operand.negated ? 1U : 0U};
  }
  return {scalar_file::kZero, (operand.immediate != 0) != operand.negated ? 1U : 0U};
}

ScalarOperand base_register(std::uint8_t base) {
  return {base == isa::kNoRegister ? scalar_file::kZero : base, 0};
}

void set_operand(MicroOp& op, std::size_t index, ScalarOperand operand) {
  op.reg[index] = operand.reg;
  op.immediate[index] = operand.immediate;
}

class Decoder {
 public:
  Decoder(const isa::Program& program, const FollowedKernels& followed)
      : program_(program), followed_(followed), parameters_(program.parameter_addresses()) {}

  DecodedKernel decode(std::size_t kernel, const BriefCode& brief,
                       const std::vector<ScalarSet>& live_after);

 private:
  void decode_instruction(const isa::Instruction& i, std::uint32_t index, ScalarSet live_after);
  void decode_interaction(const isa::Instruction& i, std::uint32_t index);
  bool decode_control(const isa::Instruction& i);
  void decode_scalar(const isa::Instruction& i);
  MicroOp::Kind scalar_kind(const isa::Instruction& i) const;
  void decode_queue_op(const isa::Instruction& i, std::uint32_t index);
  void decode_timing(const isa::Instruction& i);
  void order_bundle();

  const isa::Program& program_;
  const FollowedKernels& followed_;
  std::map<std::uint32_t, std::uint32_t> parameters_;
  const isa::Kernel* kernel_ = nullptr;
  bool follow_ = false;
  std::size_t bundle_number_ = 0;
  DecodedKernel out_;
  DecodedBundle bundle_;
  std::vector<MicroOp> bundle_ops_;
};

bool is_interaction(Opcode opcode) {
  switch (isa::info(opcode).unit) {
    case UnitKind::kDma:
      return true;
    case UnitKind::kSync:
      return opcode != Opcode::kSfence && opcode != Opcode::kCfence && opcode != Opcode::kVsyncpa;
    default:
      return false;
  }
}

DecodedKernel Decoder::decode(std::size_t kernel, const BriefCode& brief,
                              const std::vector<ScalarSet>& live_after) {
  kernel_ = &program_.kernels[kernel];
  follow_ = followed_.follows(static_cast<std::uint32_t>(kernel));
  out_ = {};
  out_.bundles.reserve(kernel_->bundles.size() + 1);
  for (std::size_t b = 0; b <= kernel_->bundles.size(); ++b) {
    bundle_number_ = b;
    bundle_ = {};
    bundle_.first_op = static_cast<std::uint32_t>(out_.ops.size());
    bundle_.first_interaction = static_cast<std::uint32_t>(out_.interactions.size());
    bundle_.first_queue_op = static_cast<std::uint32_t>(out_.queue_ops.size());
    bundle_.first_slow_write = static_cast<std::uint32_t>(out_.slow_writes.size());
    if (b < kernel_->bundles.size()) {
      const isa::Bundle& bundle = kernel_->bundles[b];
      bundle_.delay = bundle.delay;
      bundle_ops_.clear();
      for (std::uint32_t i = 0; i < bundle.instruction_count; ++i) {
        const isa::Instruction& instruction = kernel_->begin(bundle)[i];
        if (follow_ || may_matter(brief.begin(bundle)[i])) {
          decode_instruction(instruction, i, live_after[b]);
        }
        if (shape(instruction).queue) decode_queue_op(instruction, i);
        decode_timing(instruction);
      }
      order_bundle();
      // Pops take what was there before the bundle.
      QueueOp* queue_ops = out_.queue_ops.data();
      sort_stably(queue_ops + bundle_.first_queue_op, queue_ops + out_.queue_ops.size(),
                  [](const QueueOp& a, const QueueOp& b) {
                    return (a.kind <= QueueOp::Kind::kScalarPop) >
                           (b.kind <= QueueOp::Kind::kScalarPop);
                  });
      for (std::size_t q = bundle_.first_queue_op; q < out_.queue_ops.size(); ++q) {
        const QueueOp& op = out_.queue_ops[q];
        if (!op.guarded) continue;
        ++bundle_.guarded_queue_ops;
        MicroOp guard;
        guard.kind = MicroOp::Kind::kQueueGuard;
        guard.guard = decode_guard(kernel_->begin(bundle)[op.instruction].guard);
        // Guards are read before the bundle writes.
        const std::size_t place = bundle_.first_op + bundle_.guarded_queue_ops - 1;
        out_.ops.insert(out_.ops.begin() + static_cast<std::ptrdiff_t>(place), guard);
      }
    }
    out_.bundles.push_back(bundle_);
  }
  return std::move(out_);
}

void Decoder::decode_instruction(const isa::Instruction& i, std::uint32_t index,
                                 ScalarSet live_after) {
  if (!follow_) {
    const ScalarUse use = scalar_use(i);
    if (!use.root && (use.write & live_after) == 0) return;
  }
  if (is_interaction(i.opcode)) {
    decode_interaction(i, index);
  } else if (!decode_control(i)) {
    decode_scalar(i);
  }
}

void Decoder::decode_interaction(const isa::Instruction& i, std::uint32_t index) {
  Interaction interaction;
  interaction.instruction = index;
  interaction.opcode = i.opcode;
  interaction.guard = decode_guard(i.guard);
  for (std::uint8_t o = 0; o < isa::info(i.opcode).operand_count; ++o) {
    interaction.operands[o] = scalar_operand(i.operands[o]);
  }
  out_.interactions.push_back(interaction);
}

bool Decoder::decode_control(const isa::Instruction& i) {
  MicroOp op;
  if (i.opcode == Opcode::kSbrRel || i.opcode == Opcode::kCall) {
    const bool branch = i.opcode == Opcode::kSbrRel;
    std::uint32_t& target = branch ? bundle_.branch_target : bundle_.call_site;
    if (target != DecodedBundle::kNone) {
      throw WorkloadError(place(*kernel_, bundle_number_) + ": two branches or calls in a bundle");
    }
    target = i.operands[0].immediate;
    op.kind = MicroOp::Kind::kCopyBit;
    op.dest = branch ? scalar_file::kBranchTaken : scalar_file::kCallTaken;
    const DecodedGuard guard = decode_guard(i.guard);
    set_operand(op, 0, {guard.reg, guard.holds_when ? 0U : 1U});
    bundle_ops_.push_back(op);
    return true;
  }
  if (i.opcode == Opcode::kShaltErr) {
    op.kind = MicroOp::Kind::kHalt;
    op.guard = decode_guard(i.guard);
    bundle_ops_.push_back(op);
    return true;
  }
  return false;
}

MicroOp::Kind Decoder::scalar_kind(const isa::Instruction& i) const {
  switch (i.opcode) {
    case Opcode::kSmov:
    case Opcode::kScalarParameterAddress:
      return MicroOp::Kind::kCopy;
    case Opcode::kPmov:
      return MicroOp::Kind::kCopyBit;
    case Opcode::kScalarSelect:
      return MicroOp::Kind::kSelect;
    case Opcode::kPnand:
      return MicroOp::Kind::kNand;
    case Opcode::kPor:
      return MicroOp::Kind::kOr;
    case Opcode::kPneg:
      return MicroOp::Kind::kNot;
    case Opcode::kSld:
      return MicroOp::Kind::kLoad;
    case Opcode::kSst:
      return MicroOp::Kind::kStore;
    case Opcode::kVpush:
      return MicroOp::Kind::kVpush;
    case Opcode::kSpop:
      return MicroOp::Kind::kSpop;
    case Opcode::kSaddS32:
    case Opcode::kScalarLeaHbm:
    case Opcode::kScalarLeaVmem:
      return MicroOp::Kind::kAdd;
    case Opcode::kSorU32:
      return MicroOp::Kind::kOrWords;
    case Opcode::kSshllU32:
      return MicroOp::Kind::kShift;
    case Opcode::kScmpLtS32:
      return MicroOp::Kind::kLess;
    default:
      return isa::info(i.opcode).dest_file == 'p' ? MicroOp::Kind::kCompare
                                                  : MicroOp::Kind::kCompute;
  }
}

void Decoder::decode_scalar(const isa::Instruction& i) {
  const isa::OpcodeInfo& row = isa::info(i.opcode);
  if (row.unit != UnitKind::kScalar && i.opcode != Opcode::kVpush) return;
  MicroOp op;
  op.kind = scalar_kind(i);
  op.opcode = i.opcode;
  op.guard = decode_guard(i.guard);
  if (row.dest_file == 's') op.dest = i.dest;
  if (row.dest_file == 'p') {
    op.dest = static_cast<std::uint8_t>(scalar_file::kPredicates + i.dest);
  }
  if (row.address == 'a') {
    set_operand(op, 0, base_register(i.address.base[0]));
    set_operand(op, 1, base_register(i.address.base[1]));
    op.immediate[1] = static_cast<std::uint32_t>(i.address.offset);
    if (i.opcode == Opcode::kSst) set_operand(op, 2, scalar_operand(i.operands[0]));
  } else if (i.opcode == Opcode::kScalarParameterAddress) {
    const auto found = parameters_.find(i.operands[0].immediate);
    if (found == parameters_.end()) {
      throw WorkloadError(place(*kernel_, bundle_number_) + ": scalar_parameter_address " +
                          std::to_string(i.operands[0].immediate) + ": the program has " +
                          std::to_string(parameters_.size()) + " parameter buffers");
    }
    op.immediate[0] = found->second;
  } else if (i.opcode == Opcode::kVpush) {
    set_operand(op, 2, scalar_operand(i.operands[0]));
    op.immediate[0] = static_cast<std::uint32_t>(&i - kernel_->instructions.data());
  } else {
    for (std::uint8_t o = 0; o < row.operand_count && o < 3; ++o) {
      set_operand(op, o,
                  row.operand_files[o] == 'p' ? predicate_operand(i.operands[o])
                                              : scalar_operand(i.operands[o]));
    }
  }
  bundle_ops_.push_back(op);
}

/// All instructions of a bundle read the state before it. Loads go first and stores last; a result
/// whose old value a later one still needs goes to scratch and is copied at the end.
void Decoder::order_bundle() {
  if (bundle_ops_.empty()) return;
  const auto rank = [](const MicroOp& op) {
    switch (op.kind) {
      case MicroOp::Kind::kLoad:
        return 0;
      case MicroOp::Kind::kStore:
      case MicroOp::Kind::kVpush:
        return 2;
      default:
        return 1;
    }
  };
  sort_stably(bundle_ops_.data(), bundle_ops_.data() + bundle_ops_.size(),
              [&](const MicroOp& a, const MicroOp& b) { return rank(a) < rank(b); });
  std::vector<MicroOp> copies_in;
  std::vector<MicroOp> copies_out;
  for (std::size_t k = 0; k < bundle_ops_.size(); ++k) {
    MicroOp& op = bundle_ops_[k];
    if (op.dest == scalar_file::kZero) continue;
    const bool needed = std::any_of(bundle_ops_.begin() + static_cast<std::ptrdiff_t>(k) + 1,
                                    bundle_ops_.end(), [&](const MicroOp& later) {
                                      return later.guard.reg == op.dest ||
                                             std::find(later.reg.begin(), later.reg.end(),
                                                       op.dest) != later.reg.end();
                                    });
    if (!needed) continue;
    const auto scratch = static_cast<std::uint8_t>(scalar_file::kScratch + copies_out.size());
    TPU_CHECK(scratch < scalar_file::kScratchEnd, place(*kernel_, bundle_number_));
    MicroOp copy;
    copy.kind = op.dest < scalar_file::kPredicates ? MicroOp::Kind::kCopy : MicroOp::Kind::kCopyBit;
    copy.dest = op.dest;
    set_operand(copy, 0, {scratch, 0});
    copies_out.push_back(copy);
    if (!op.guard.always()) {
      std::swap(copy.dest, copy.reg[0]);
      copies_in.push_back(copy);
    }
    op.dest = scratch;
  }
  out_.ops.insert(out_.ops.end(), copies_in.begin(), copies_in.end());
  out_.ops.insert(out_.ops.end(), bundle_ops_.begin(), bundle_ops_.end());
  out_.ops.insert(out_.ops.end(), copies_out.begin(), copies_out.end());
}

void Decoder::decode_queue_op(const isa::Instruction& i, std::uint32_t index) {
  const isa::OpcodeInfo& row = isa::info(i.opcode);
  QueueOp op;
  op.unit = i.unit;
  op.guarded = i.guard.predicate != isa::kNoRegister;
  op.instruction = index;
  using Kind = QueueOp::Kind;
  switch (row.queue) {
    case isa::Queue::kMxuResult: {
      const isa::MxuParts parts = isa::parts_of(i);
      op.kind = row.pops ? Kind::kMxuPop : Kind::kMxuRows;
      op.part = static_cast<std::uint8_t>(parts.column);
      op.results = static_cast<std::uint16_t>(parts.columns);
      op.blocks = static_cast<std::uint16_t>(parts.rows * parts.columns);
      op.swaps = isa::swaps_weights(i.opcode);
      op.packed = isa::takes_packed_rows(i.opcode);
      break;
    }
    case isa::Queue::kXlu:
      op.kind = row.pops ? Kind::kXluPop : Kind::kXluPush;
      break;
    case isa::Queue::kTranspose:
      op.kind = row.pops ? Kind::kTransposePop : Kind::kTransposePush;
      if (!row.pops &&
          (i.opcode == Opcode::kVxposeEnd || i.operands[2].immediate == i.operands[3].immediate)) {
        const std::uint32_t width = std::min<std::uint32_t>(i.operands[1].immediate, isa::kLanes);
        const std::uint32_t rows = isa::kSublanes * (isa::takes_packed_rows(i.opcode) ? 2 : 1);
        op.results = static_cast<std::uint16_t>((width + rows - 1) / rows);
      }
      break;
    case isa::Queue::kEup:
      op.kind = row.pops ? Kind::kEupPop : Kind::kEupPush;
      break;
    case isa::Queue::kCmem:
      op.kind = row.pops ? Kind::kCmemPop : Kind::kCmemPush;
      break;
    case isa::Queue::kVectorToScalar:
      op.kind = row.pops ? Kind::kScalarPop : Kind::kScalarPush;
      break;
    case isa::Queue::kNone:
    case isa::Queue::kCount: {
      if (i.opcode == Opcode::kVdwg) {
        op.kind = Kind::kMxuSwap;
        break;
      }
      const isa::MxuParts parts = isa::parts_of(i);
      const bool latches = i.opcode == Opcode::kVmatlatchPart;
      op.kind = latches ? Kind::kMxuLatch : Kind::kMxuWeights;
      op.part = static_cast<std::uint8_t>(latches ? parts.row : parts.column);
      break;
    }
  }
  out_.queue_ops.push_back(op);
}

void add_read(ReadSet& set, std::uint8_t reg) { set[reg / 32] |= 1U << (reg % 32); }

void Decoder::decode_timing(const isa::Instruction& i) {
  const Shape& of = shape(i);
  ReadSet& reads = bundle_.reads;
  if (i.guard.predicate != isa::kNoRegister) {
    add_read(reads, timed_register::number('p', i.guard.predicate));
  }
  for (std::uint8_t o = 0; o < of.operand_count; ++o) {
    if (i.operands[o].kind == isa::Operand::Kind::kRegister) {
      add_read(reads, static_cast<std::uint8_t>(of.first_timed[o] + i.operands[o].reg));
    }
  }
  if (of.address) {
    for (std::uint8_t base : i.address.base) {
      if (base != isa::kNoRegister) add_read(reads, timed_register::number('s', base));
    }
    if (i.address.mask_register != isa::kNoRegister) {
      add_read(reads, timed_register::number('s', i.address.mask_register));
    }
  }
  if (of.slow_latency != 0) {
    out_.slow_writes.push_back({timed_register::number(of.dest_file, i.dest), of.slow_latency});
  }
}

}  // namespace

const std::array<SlotCounts, isa::kOpcodeCount> kSlotCounts = [] {
  static_assert(static_cast<std::size_t>(isa::Slot::kCount) <= sizeof(SlotCounts));
  std::array<SlotCounts, isa::kOpcodeCount> all;
  for (std::size_t o = 0; o < all.size(); ++o) {
    const isa::Slot slot = isa::info(static_cast<Opcode>(o)).slot;
    all[o] = SlotCounts{1} << (8 * static_cast<unsigned>(slot));
  }
  return all;
}();

std::vector<DecodedKernel> decode(const isa::Program& program, const MachineParams& params,
                                  const FollowedKernels& followed) {
  std::vector<BriefCode> brief = ProgramCheck(program, params).check();
  const std::vector<std::vector<ScalarSet>> live_after =
      live_after_bundles(program, brief, followed);
  Decoder decoder(program, followed);
  std::vector<DecodedKernel> kernels;
  kernels.reserve(program.kernels.size());
  for (std::size_t k = 0; k < program.kernels.size(); ++k) {
    kernels.push_back(decoder.decode(k, brief[k], live_after[k]));
    kernels.back().brief = std::move(brief[k]);
  }
  return kernels;
}

}  // namespace tpu
