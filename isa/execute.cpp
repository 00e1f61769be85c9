#include "isa/execute.h"

#include <algorithm>
#include <sstream>

#include "isa/disassembler.h"
#include "isa/packed_rows.h"
#include "isa/vector_arithmetic.h"
#include "sim/base/error.h"

namespace tpu::isa {
namespace {

constexpr std::uint32_t kAllSublanes = 0xff;

void check_index_register(const Instruction& in) {
  if (in.unit < kMaxUnits) return;
  throw ProgramFault("expected one of the index registers 0 to " + std::to_string(kMaxUnits - 1) +
                     ", found number " + std::to_string(in.unit));
}

/// The execution of one bundle: first everything that gives a register its new value, computed
/// aside; then stores, pushes and what leaves the core, which still see the old registers; then the
/// registers change.
class BundleExecution {
 public:
  BundleExecution(const Kernel& kernel, std::uint32_t bundle, CoreState& state,
                  Surroundings& surroundings, const NameCheck* names)
      : kernel_(kernel),
        bundle_(kernel.bundles[bundle]),
        number_(bundle),
        state_(state),
        surroundings_(surroundings),
        names_(names != nullptr && names->active() ? names : nullptr) {}

  void run() {
    state_.pending.clear();
    state_.pending_odd_rows.clear();
    state_.immediates.begin_bundle();
    if (names_ != nullptr) names_->rename_before(number_, state_.names);
    for_each_acting([this](const Instruction& in, const OpcodeInfo& row) {
      if (row.dest_file != 0) compute(in, row);
    });
    for_each_acting([this](const Instruction& in, const OpcodeInfo& row) {
      if (row.dest_file == 0) act(in, row);
    });
    commit();
    if (names_ != nullptr) names_->rename_after(number_, state_.names);
  }

 private:
  template <class Function>
  void for_each_acting(Function function) {
    for (std::uint32_t i = 0; i < bundle_.instruction_count; ++i) {
      current_ = bundle_.first_instruction + i;
      const Instruction& in = kernel_.instructions[current_];
      const OpcodeInfo& row = info(in.opcode);
      try {
        if (names_ != nullptr) names_->check_guard(current_, state_.names);
        if (guard_holds(in.guard, state_.scalar)) function(in, row);
      } catch (const ProgramFault& fault) {
        const std::string text = format_instruction(in);
        if (std::string(fault.what()).rfind(text, 0) == 0) throw;
        throw ProgramFault(text + ": " + fault.what());
      }
    }
  }

  std::uint64_t written_name() const {
    return names_ != nullptr ? names_->written_name(current_, state_.names) : 0;
  }

  /// A vector operand: the register, or an immediate in all elements.
  const VectorRegister& vector(const Operand& operand) {
    if (operand.kind == Operand::Kind::kRegister) return state_.vector(operand.reg);
    return state_.immediates.get(operand.immediate);
  }

  bool has_odd_rows(const Operand& operand) const {
    return operand.kind == Operand::Kind::kRegister &&
           (state_.has_odd_rows >> operand.reg & 1) != 0;
  }

  /// A mask of packed rows, or one that is the same for both rows of each sublane.
  PackedMask rows_mask(const Operand& operand) const {
    if (!has_odd_rows(operand)) {
      const VectorMask both = mask(operand);
      return {both, both};
    }
    return {state_.masks[operand.reg], state_.odd_rows[operand.reg]};
  }

  /// The new mask of a register.
  void write_mask(std::uint8_t reg, const PackedMask& result) {
    state_.pending.masks.push_back({reg, result.even, written_name()});
    if (result.even.bits != result.odd.bits) {
      state_.pending_odd_rows.push_back({reg, result.odd, 0});
    }
  }

  VectorMask mask(const Operand& operand) const {
    if (has_odd_rows(operand)) {
      throw ProgramFault(
          "expected a mask that is the same for the two rows of each sublane, found one of single "
          "rows, which only selections, pushes of packed rows and logic of masks take");
    }
    if (operand.kind == Operand::Kind::kRegister) return state_.masks[operand.reg];
    VectorMask all;
    all.bits.fill(operand.immediate != 0 ? ~std::uint64_t{0} : 0);
    return all;
  }

  /// The place of a new vector value for `reg`.
  VectorRegister& new_vector(std::uint8_t reg) {
    const VectorPool::Index index = state_.pool.take();
    state_.pending.vectors.push_back({reg, index, written_name()});
    return state_.pool[index];
  }

  void compute(const Instruction& in, const OpcodeInfo& row) {
    if (names_ != nullptr) names_->check_reads(current_, state_.names);
    if (row.dest_file == 's' || row.dest_file == 'p') {
      if (in.opcode == Opcode::kSpop && names_ != nullptr && !state_.scalar.from_vector.empty()) {
        names_->check_queue(current_, state_.scalar.from_vector.front().name);
      }
      state_.pending.scalars.push_back({evaluate_scalar(in, state_.scalar), written_name()});
    } else if (row.dest_file == 'm') {
      compute_mask(in, row);
    } else if (row.pops) {
      pop(in, row);
    } else if (row.address != 0) {
      load(in, state_.vmem, new_vector(in.dest));
    } else {
      compute_vector(in);
    }
  }

  void compute_mask(const Instruction& in, const OpcodeInfo& row) {
    VectorMask result;
    if (row.operand_files[0] == 'm') {
      if (has_odd_rows(in.operands[0]) || has_odd_rows(in.operands[1])) {
        const PackedMask a = rows_mask(in.operands[0]), b = rows_mask(in.operands[1]);
        PackedMask rows;
        mask_logic(in.opcode, a.even, b.even, rows.even);
        mask_logic(in.opcode, a.odd, b.odd, rows.odd);
        return write_mask(in.dest, rows);
      }
      mask_logic(in.opcode, mask(in.operands[0]), mask(in.operands[1]), result);
    } else if (in.opcode == Opcode::kVsmaskF32) {
      const bool number = in.operands[0].kind == Operand::Kind::kImmediate;
      return write_mask(in.dest, number ? packed_mask_below(in.operands[0].immediate)
                                        : packed_mask(vector(in.operands[0])));
    } else {
      const VectorRegister& a = vector(in.operands[0]);
      vector_comparison(in.opcode, a, row.operand_count > 1 ? vector(in.operands[1]) : a, result);
    }
    state_.pending.masks.push_back({in.dest, result, written_name()});
  }

  void compute_vector(const Instruction& in) {
    switch (in.opcode) {
      case Opcode::kVstv: {
        const std::uint32_t value = evaluate(in.operands[0], state_.scalar);
        broadcast(value, new_vector(in.dest));
        return;
      }
      case Opcode::kVlaneseq: {
        VectorRegister& out = new_vector(in.dest);
        for (std::uint32_t i = 0; i < out.word.size(); ++i) out.word[i] = i;
        return;
      }
      case Opcode::kVrng:
        return state_.random.draw(new_vector(in.dest));
      case Opcode::kGetrngseed:
        return state_.random.get_state(new_vector(in.dest));
      case Opcode::kVsel: {
        const VectorRegister& a = vector(in.operands[1]);
        const VectorRegister& b = vector(in.operands[2]);
        if (has_odd_rows(in.operands[0])) {
          return select_packed(rows_mask(in.operands[0]), a, b, new_vector(in.dest));
        }
        const VectorMask selected = mask(in.operands[0]);
        vector_select(selected, a, b, new_vector(in.dest));
        return;
      }
      case Opcode::kVcvtPrF32S32:
        if (!is_known_rounding(in.operands[1].immediate)) meaning_detail::throw_rounding_fault(in);
        break;
      default:
        break;
    }
    const VectorRegister& a = vector(in.operands[0]);
    const bool two = in.operands[1].kind != Operand::Kind::kNone;
    const VectorRegister& b = two ? vector(in.operands[1]) : a;
    vector_arithmetic(in.opcode, a, b, new_vector(in.dest));
  }

  void load(const Instruction& in, const Vmem& memory, VectorRegister& out) {
    const std::uint32_t sublanes = sublane_mask(in.address, state_.scalar);
    const auto rows = vmem_rows(in, state_, sublanes);
    for (int i = 0; i < kSublanes; ++i) {
      std::uint32_t* to = out.word.data() + kLanes * i;
      if ((sublanes >> i & 1) == 0) {
        std::fill(to, to + kLanes, 0);
        continue;
      }
      if (!memory.is_written(rows[i])) {
        std::fill(to, to + kLanes, kUnwrittenWord);
        continue;
      }
      const std::uint32_t* from = memory.row(rows[i]);
      std::copy(from, from + kLanes, to);
    }
  }

  template <class Units>
  auto& unit(Units& units, const Instruction& in, const char* kind) {
    if (in.unit < units.size()) return units[in.unit];
    throw ProgramFault("expected a unit of this core (" + std::to_string(units.size()) + " " +
                       kind + "), found number " + std::to_string(in.unit));
  }

  VectorQueue& queue(const Instruction& in, const OpcodeInfo& row) {
    switch (row.queue) {
      case Queue::kMxuResult:
        return unit(state_.mxu_results, in, "MXU")[unit(state_.mxus, in, "MXU").check(in).column];
      case Queue::kXlu:
        return unit(state_.xlus, in, "XLU").results;
      case Queue::kTranspose:
        return unit(state_.xlus, in, "XLU").transposed;
      case Queue::kCmem:
        return state_.cmem_loads;
      default:
        return state_.eup;
    }
  }

  void pop(const Instruction& in, const OpcodeInfo& row) {
    VectorQueue& from = queue(in, row);
    if (from.empty()) {
      throw ProgramFault("expected a result in the queue of " + std::string(to_string(row.queue)) +
                         ", found it empty: nothing was pushed that this could pop");
    }
    if (names_ != nullptr) names_->check_queue(current_, from.front().name);
    if (row.queue == Queue::kMxuResult) {
      MatrixUnit* timed = surroundings_.matrix_unit(in.unit);
      if (timed != nullptr) timed->pop(in, state_.pool[from.front().index]);
    }
    state_.pending.vectors.push_back({in.dest, from.front().index, written_name()});
    from.pop_front();
  }

  /// The place of a new element at the end of a queue.
  VectorRegister& push(VectorQueue& to) {
    const VectorPool::Index index = state_.pool.take();
    to.push_back({index, written_name()});
    return state_.pool[index];
  }

  void act(const Instruction& in, const OpcodeInfo& row) {
    if (names_ != nullptr) names_->check_reads(current_, state_.names);
    switch (row.unit) {
      case UnitKind::kScalar:
        state_.pending.scalars.push_back({evaluate_scalar(in, state_.scalar), 0});
        return;
      case UnitKind::kVectorStore:
        return store(in, state_.vmem);
      case UnitKind::kCmem:
        if (in.opcode == Opcode::kCst) return store(in, state_.cmem);
        return load(in, state_.cmem, push(state_.cmem_loads));
      case UnitKind::kMxu:
        return act_mxu(in, row);
      case UnitKind::kXlu:
        return act_xlu(in);
      case UnitKind::kEup: {
        const VectorRegister& a = vector(in.operands[0]);
        vector_arithmetic(in.opcode, a, a, push(state_.eup));
        return;
      }
      case UnitKind::kVectorAlu:
        return act_vector(in);
      case UnitKind::kDma:
        surroundings_.start_dma(dma_of(in, state_.scalar));
        return;
      case UnitKind::kSync:
        return act_sync(in);
      case UnitKind::kControl:
        if (in.opcode == Opcode::kShaltErr) {
          throw ProgramFault("the program's own bounds check stops the core");
        }
        return;
      case UnitKind::kTrace:
      case UnitKind::kVectorLoad:
      case UnitKind::kCount:
        return;
    }
  }

  void store(const Instruction& in, Vmem& memory) {
    std::uint32_t sublanes = sublane_mask(in.address, state_.scalar);
    const bool masked = in.opcode == Opcode::kVstMsk || in.opcode == Opcode::kVstEvenOdd;
    VectorMask selected;
    if (masked) {
      selected = mask(in.operands[0]);
      for (int i = 0; i < kSublanes; ++i) {
        if ((selected.bits[2 * i] | selected.bits[2 * i + 1]) == 0) sublanes &= ~(1u << i);
      }
    }
    const auto rows = vmem_rows(in, state_, sublanes);
    const VectorRegister& source = vector(in.operands[masked ? 1 : 0]);
    for (int i = 0; i < kSublanes; ++i) {
      if ((sublanes >> i & 1) == 0) continue;
      const std::uint32_t* from = source.word.data() + kLanes * i;
      std::uint32_t* to = memory.row(rows[i]);
      if (masked) {
        store_masked_sublane(selected, i, from, to);
      } else {
        std::copy(from, from + kLanes, to);
      }
      memory.mark_written(rows[i], 1);
    }
  }

  void act_mxu(const Instruction& in, const OpcodeInfo& row) {
    MxuState& mxu = unit(state_.mxus, in, "MXU");
    if (MatrixUnit* timed = surroundings_.matrix_unit(in.unit)) {
      const std::uint32_t columns = mxu.check(in).columns;
      if (row.operand_files[0] == 'm' || takes_packed_rows(in.opcode)) {
        throw ProgramFault(
            "expected an instruction of TPU v2 or v3, which alone the array of single cells "
            "executes; leave out --detail mxu=array");
      }
      timed->push(in, in.opcode == Opcode::kVdwg ? VectorRegister() : vector(in.operands[0]));
      if (row.queue == Queue::kNone) return;
      for (std::uint32_t c = 0; c < columns; ++c) push(state_.mxu_results[in.unit][c]).word.fill(0);
      return;
    }
    if (row.operand_files[0] == 'm' || takes_packed_rows(in.opcode)) {
      act_masked_or_packed(in, row, mxu);
    } else if (in.opcode == Opcode::kVdwg) {
      mxu.request_swap();
    } else if (in.opcode == Opcode::kVmatlatchPart) {
      mxu.latch(in, vector(in.operands[0]));
    } else if (row.queue == Queue::kNone) {
      mxu.push_weights(in, vector(in.operands[0]));
    } else {
      const std::uint32_t columns = mxu.multiply(in, vector(in.operands[0]));
      for (std::uint32_t c = 0; c < columns; ++c) {
        mxu.take_result(c, push(state_.mxu_results[in.unit][c]));
      }
      if (swaps_weights(in.opcode)) mxu.request_swap();
    }
  }

  /// Sixteen rows are pushed as twice eight: of weights the upper ones first.
  void act_masked_or_packed(const Instruction& in, const OpcodeInfo& row, MxuState& mxu) {
    const bool masked = row.operand_files[0] == 'm';
    VectorRegister operand = vector(in.operands[masked ? 1 : 0]);
    if (masked) {
      const VectorRegister all = operand;
      const VectorRegister& zeros = state_.immediates.get(0);
      if (takes_packed_rows(in.opcode) && has_odd_rows(in.operands[0])) {
        select_packed(rows_mask(in.operands[0]), all, zeros, operand);
      } else {
        vector_select(mask(in.operands[0]), all, zeros, operand);
      }
    }
    const bool weights = row.queue == Queue::kNone;
    const bool packed = takes_packed_rows(in.opcode);
    VectorRegister eight_rows;
    for (int part = 0; part < (packed ? 2 : 1); ++part) {
      if (packed) unpack_rows(operand, weights == (part == 0), eight_rows);
      const VectorRegister& rows = packed ? eight_rows : operand;
      if (weights) {
        mxu.push_weights(in, rows);
      } else {
        mxu.multiply(in, rows);
        mxu.take_result(0, push(state_.mxu_results[in.unit][0]));
      }
    }
    // Both halves of sixteen rows meet the same weights.
    if (swaps_weights(in.opcode)) mxu.request_swap();
  }

  void act_xlu(const Instruction& in) {
    XluState& xlu = unit(state_.xlus, in, "XLU");
    const VectorRegister& a = vector(in.operands[0]);
    switch (in.opcode) {
      case Opcode::kVsetPatternPermute:
        xlu.pattern = a;
        xlu.pattern_name = written_name();
        return;
      case Opcode::kVperm:
        if (names_ != nullptr) names_->check_queue(current_, xlu.pattern_name);
        return permute_lanes(a, xlu.pattern, push(xlu.results));
      case Opcode::kVrotLane:
        return rotate_lanes(a, evaluate(in.operands[1], state_.scalar), push(xlu.results));
      case Opcode::kVxposeStart:
      case Opcode::kVxposeCont:
      case Opcode::kVxposeEnd:
      case Opcode::kVxposeStartEnd:
      case Opcode::kVxposeB16Start:
      case Opcode::kVxposeB16Cont:
      case Opcode::kVxposeB16End:
      case Opcode::kVxposeB16StartEnd:
        return transpose(in, a, xlu);
      default:
        return reduce_lanes(in.opcode, a, push(xlu.results));
    }
  }

  void transpose(const Instruction& in, const VectorRegister& a, XluState& xlu) {
    const std::uint32_t width = in.operands[1].immediate;
    const std::uint32_t number = in.operands[2].immediate;
    const std::uint32_t count = in.operands[3].immediate;
    const bool packed = takes_packed_rows(in.opcode);
    const std::uint32_t rows = packed ? kPackedRows : kSublanes;
    if (width == 0 || width > kLanes || count == 0 || count > kLanes / rows) {
      throw ProgramFault("expected a transpose of up to " + std::to_string(kLanes / rows) +
                         " pushes and 128 lanes, found " + std::to_string(count) +
                         " pushes of width " + std::to_string(width));
    }
    if (number == 1) xlu.collected.clear();
    if (number != xlu.collected.size() + 1) {
      throw ProgramFault("expected push " + std::to_string(xlu.collected.size() + 1) +
                         " of the transpose, found push " + std::to_string(number));
    }
    xlu.collected.push_back(a);
    if (number != count) return;
    for (std::uint32_t block = 0; block < width / rows; ++block) {
      const auto transposed = packed ? transpose_packed : transpose_rows;
      transposed(xlu.collected.data(), count, block, push(xlu.transposed));
    }
    xlu.collected.clear();
  }

  void act_vector(const Instruction& in) {
    const VectorRegister& a = vector(in.operands[0]);
    switch (in.opcode) {
      case Opcode::kVsetiarRaw:
        check_index_register(in);
        for (int i = 0; i < kSublanes; ++i) {
          state_.index_offsets[in.unit][i] = static_cast<std::int32_t>(a.word[kLanes * i]);
        }
        return;
      case Opcode::kVpush:
        state_.scalar.from_vector.push_back({a.word[0], written_name()});
        return;
      case Opcode::kSetRngseed:
        return state_.random.set_state(a);
      default:
        throw SimulatorBug("no meaning for " + format_instruction(in));
    }
  }

  void act_sync(const Instruction& in) {
    const auto operand = [&](int i) { return evaluate(in.operands[i], state_.scalar); };
    switch (in.opcode) {
      case Opcode::kVsyncadd:
        return surroundings_.add_to_sync_flag(operand(0), operand(1));
      case Opcode::kVsyncaddRemote:
        return surroundings_.add_to_remote_sync_flag(operand(0), operand(1));
      case Opcode::kVsyncmov:
        state_.scalar.from_vector.push_back({surroundings_.sync_flag(operand(0)), written_name()});
        return;
      default:
        return;  // waits are the sequencer's, sfence has no effect on values
    }
  }

  void commit() {
    for (const PendingWrites::Scalar& result : state_.pending.scalars) {
      const ScalarWrite& write = result.write;
      apply(write, state_.scalar);
      if (write.kind == ScalarWrite::Kind::kScalar || write.kind == ScalarWrite::Kind::kPop) {
        state_.names.s[write.index] = result.name;
      } else if (write.kind == ScalarWrite::Kind::kPredicate) {
        state_.names.p[write.index] = result.name;
      }
    }
    for (const PendingWrites::Mask& result : state_.pending.masks) {
      state_.masks[result.reg] = result.mask;
      state_.names.m[result.reg] = result.name;
      state_.has_odd_rows &= ~(1u << result.reg);
    }
    for (const PendingWrites::Mask& result : state_.pending_odd_rows) {
      state_.odd_rows[result.reg] = result.mask;
      state_.has_odd_rows |= 1u << result.reg;
    }
    for (const PendingWrites::Vector& result : state_.pending.vectors) {
      state_.pool.give_back(state_.vectors[result.reg]);
      state_.vectors[result.reg] = result.index;
      state_.names.v[result.reg] = result.name;
    }
  }

  const Kernel& kernel_;
  const Bundle& bundle_;
  std::uint32_t number_;
  CoreState& state_;
  Surroundings& surroundings_;
  const NameCheck* names_;
  std::uint32_t current_ = 0;
};

}  // namespace

std::uint32_t sublane_mask(const Address& address, const ScalarState& state) {
  if (address.mask_register == kNoRegister) return address.sublane_mask;
  return state.s[address.mask_register] & kAllSublanes;
}

std::array<std::uint32_t, kSublanes> vmem_rows(const Instruction& in, const CoreState& state,
                                               std::uint32_t sublanes) {
  const std::uint32_t first = evaluate(in.address, state.scalar);
  std::array<std::uint32_t, kSublanes> rows{};
  for (std::uint32_t i = 0; i < kSublanes; ++i) {
    std::uint32_t row = first;
    switch (in.opcode) {
      case Opcode::kVldSshfl:
        row += in.address.pattern >> 3 * i & 7;
        break;
      case Opcode::kVldEvenOdd:
      case Opcode::kVstEvenOdd:
        check_index_register(in);
        row += i + static_cast<std::uint32_t>(state.index_offsets[in.unit][i]);
        break;
      default:
        row += static_cast<std::uint32_t>(in.address.sublane_stride) * i;
    }
    rows[i] = row;
    const bool cmem = unit_of(in.opcode) == UnitKind::kCmem;
    const std::uint32_t limit = (cmem ? state.cmem : state.vmem).rows();
    if ((sublanes >> i & 1) != 0 && row >= limit) {
      std::ostringstream text;
      text << "expected rows of " << (cmem ? "CMEM" : "VMEM") << " below " << limit
           << ", found row " << static_cast<std::int32_t>(row) << " for sublane " << i;
      throw ProgramFault(text.str());
    }
  }
  return rows;
}

void execute_bundle(const Kernel& kernel, std::uint32_t bundle, CoreState& state,
                    Surroundings& surroundings, const NameCheck* names) {
  BundleExecution(kernel, bundle, state, surroundings, names).run();
}

}  // namespace tpu::isa
