#include "models/core/knowledge.h"

#include <algorithm>

#include "isa/disassembler.h"
#include "isa/execute.h"
#include "isa/opcode_table.h"

namespace tpu {
namespace {

using isa::Opcode;
using isa::UnitKind;

constexpr const char* kUnknown = " is unknown with values off; run with --values on";

}  // namespace

Knowledge::Knowledge(const FollowedKernels& followed, const isa::CoreShape& shape)
    : followed_(followed), rows_(shape.vmem_rows) {}

void Knowledge::note_arrival(std::uint32_t kernel, std::uint32_t first, std::uint32_t count) {
  if (const std::optional<std::uint32_t> opened = followed_.opened_by(kernel)) {
    opened_.push_back({*opened, first, count});
  }
}

/// Nobody knows what a kernel that is not followed makes of VMEM, but for rows that another one was
/// opened with.
void Knowledge::leave_to_kernel(Origin origin) {
  const std::uint32_t before = epoch_;
  forget_rows(origin);
  for (const OpenedRows& rows : opened_) {
    for (std::uint32_t row = rows.first; row < rows.first + rows.count; ++row) {
      if (rows_[row].epoch == before) rows_[row].epoch = epoch_;
    }
  }
}

void Knowledge::enter(std::uint32_t kernel, std::uint32_t from) {
  weights_.fill({});
  const auto end = std::remove_if(opened_.begin(), opened_.end(),
                                  [&](const OpenedRows& rows) { return rows.kernel == from; });
  opened_.erase(end, opened_.end());
  if (!follows(kernel) || !follows(from)) {
    const std::uint32_t unfollowed = follows(kernel) ? from : kernel;
    const Origin origin = Origin::kernel(unfollowed);
    forget_registers(origin);
    leave_to_kernel(origin);
    if (followed_.sets_index_addresses(unfollowed)) index_addresses_.fill(origin);
    return;
  }
  // A slice keeps no register for another kernel.
  if (!followed_.demands_all(from)) return forget_registers(Origin::kernel(from));
  if (!followed_.demands_all(kernel)) forget_registers(Origin::kernel(kernel));
}

void Knowledge::forget_registers(Origin origin) {
  vectors_.fill(origin);
  masks_.fill(origin);
  for (auto& array : mxu_results_) {
    for (Queue& results : array) results.clear();
  }
  latched_.fill({});
  eup_.clear();
  cmem_.clear();
  for (Xlu& xlu : xlus_) {
    xlu.results.clear();
    xlu.transposed.clear();
    xlu.pattern = origin;
  }
}

void Knowledge::begin_step() {
  forget_registers({});
  index_addresses_.fill({});
  opened_.clear();
  forget_rows({});
}

void Knowledge::forget_rows(Origin origin) {
  ++epoch_;
  forgotten_ = origin;
}

Origin Knowledge::rows(std::uint32_t first, std::uint32_t count) const {
  Origin origin;
  for (std::uint32_t row = first; row < first + count; ++row) {
    origin = origin | (rows_[row].epoch == epoch_ ? rows_[row].origin : forgotten_);
  }
  return origin;
}

void Knowledge::set_rows(std::uint32_t first, std::uint32_t count, Origin origin) {
  for (std::uint32_t row = first; row < first + count; ++row) rows_[row] = {epoch_, origin};
}

void Knowledge::prepare(std::uint32_t kernel, std::uint32_t bundle, const isa::CoreState& state,
                        const ScalarUnit& scalar) {
  writes_.clear();
  const VectorSlice& slice = followed_.slice(kernel);
  const isa::Bundle& code = slice.code.bundles[bundle];
  for (const isa::Instruction* in = slice.code.begin(code); in != slice.code.end(code); ++in) {
    if (acts(*in, state, scalar)) note(*in, state, scalar);
  }
  const isa::Bundle& stores = slice.other_stores.bundles[bundle];
  for (std::uint32_t s = 0; s < stores.instruction_count; ++s) {
    const std::uint32_t index = stores.first_instruction + s;
    overwrite(slice.other_stores.instructions[index],
              followed_.made_by(kernel, slice.store_numbers[index]), state, scalar);
  }
}

/// Whether the guard of an instruction of the slice holds.
bool Knowledge::acts(const isa::Instruction& in, const isa::CoreState& state,
                     const ScalarUnit& scalar) const {
  if (in.guard.predicate != isa::kNoRegister) {
    const auto reg = static_cast<std::uint8_t>(scalar_file::kPredicates + in.guard.predicate);
    const Origin origin = scalar.origin(reg);
    if (!origin.known()) {
      throw UnknownControl("the guard of " + isa::format_instruction(in) + kUnknown, origin);
    }
  }
  return isa::guard_holds(in.guard, state.scalar);
}

/// A store whose data nobody has asked for. Where it goes may be unknown, and whether.
void Knowledge::overwrite(const isa::Instruction& in, Origin origin, const isa::CoreState& state,
                          const ScalarUnit& scalar) {
  const bool guarded = in.guard.predicate != isa::kNoRegister;
  const bool unsure =
      guarded &&
      !scalar.origin(static_cast<std::uint8_t>(scalar_file::kPredicates + in.guard.predicate))
           .known();
  if (!unsure && !isa::guard_holds(in.guard, state.scalar)) return;
  const Origin address = address_origin(in, index_addresses_.at(in.unit), scalar);
  if (!address.known()) return forget_rows(address);
  memory(in, state, scalar, origin);
}

void Knowledge::commit() {
  for (const Write& write : writes_) {
    (write.file == 'v' ? vectors_[write.reg] : masks_[write.reg]) = write.origin;
  }
}

void Knowledge::note(const isa::Instruction& in, const isa::CoreState& state,
                     const ScalarUnit& scalar) {
  const isa::OpcodeInfo& row = isa::info(in.opcode);
  Origin origin = operands(in, scalar);
  if (row.unit == UnitKind::kCmem && !row.pops) {
    // Nothing is known of CMEM.
    if (in.opcode == Opcode::kCld) cmem_.push_back(Origin::nobody());
  } else if (row.address != 0) {
    origin = memory(in, state, scalar, origin);
  } else if (row.pops) {
    Queue& from = queue(in);
    origin = from.empty() ? Origin::nobody() : from.front();
    if (!from.empty()) from.pop_front();
  } else if (in.opcode == Opcode::kVsetiarRaw) {
    index_addresses_.at(in.unit) = origin;
  } else if (row.dest_file == 0) {
    push(in, origin);
  }
  if (row.dest_file != 0) writes_.push_back({row.dest_file, in.dest, origin});
}

Origin Knowledge::operands(const isa::Instruction& in, const ScalarUnit& scalar) const {
  const isa::OpcodeInfo& row = isa::info(in.opcode);
  Origin origin;
  for (std::uint8_t o = 0; o < row.operand_count; ++o) {
    if (in.operands[o].kind != isa::Operand::Kind::kRegister) continue;
    const std::uint8_t reg = in.operands[o].reg;
    switch (row.operand_files[o]) {
      case 'v':
        origin = origin | vectors_[reg];
        break;
      case 'm':
        origin = origin | masks_[reg];
        break;
      case 's':
        origin = origin | scalar.origin(reg);
        break;
      default:
        break;
    }
  }
  return origin;
}

/// Why it is unknown where a load or store goes.
Origin Knowledge::address_origin(const isa::Instruction& in, Origin index_address,
                                 const ScalarUnit& scalar) {
  Origin origin;
  for (const std::uint8_t reg :
       {in.address.base[0], in.address.base[1], in.address.mask_register}) {
    if (reg != isa::kNoRegister && !scalar.origin(reg).known()) origin = scalar.origin(reg);
  }
  const bool indexed = in.opcode == Opcode::kVldEvenOdd || in.opcode == Opcode::kVstEvenOdd;
  return indexed ? origin | index_address : origin;
}

/// A load's origin, or a store of something with the origin `stored`.
Origin Knowledge::memory(const isa::Instruction& in, const isa::CoreState& state,
                         const ScalarUnit& scalar, Origin stored) {
  const Origin address = address_origin(in, index_addresses_.at(in.unit), scalar);
  if (!address.known()) {
    throw UnknownControl("the address of " + isa::format_instruction(in) + kUnknown, address);
  }
  const bool load = isa::info(in.opcode).loads;
  const bool masked = !load && in.opcode != Opcode::kVst;
  const std::uint32_t sublanes = isa::sublane_mask(in.address, state.scalar);
  // Rows that only a mask keeps inside VMEM are the data path's business.
  if (masked && sublanes == 0) return stored;
  const auto touched = isa::vmem_rows(in, state, masked ? 0 : sublanes);
  Origin origin = stored;
  bool has_unknown = false, is_behind = false;  // Padding stands behind what the rows hold.
  for (std::uint32_t i = 0; i < isa::kSublanes; ++i) {
    if ((sublanes >> i & 1) == 0 || touched[i] >= rows_.size()) continue;
    const Origin before = rows(touched[i], 1);
    if (load) {
      followed_.want(before);
      if (before == Origin::nobody()) {
        has_unknown = true;
      } else {
        is_behind = is_behind || !has_unknown;
        origin = origin | before;
      }
    } else {
      set_rows(touched[i], 1, masked ? stored | before : stored);
    }
  }
  if (has_unknown) origin = origin | (is_behind ? Origin::padding() : Origin::nobody());
  return origin;
}

Knowledge::Queue& Knowledge::queue(const isa::Instruction& in) {
  switch (isa::info(in.opcode).queue) {
    case isa::Queue::kMxuResult:
      return mxu_results_.at(in.unit).at(isa::parts_of(in).column);
    case isa::Queue::kXlu:
      return xlus_.at(in.unit).results;
    case isa::Queue::kTranspose:
      return xlus_.at(in.unit).transposed;
    case isa::Queue::kCmem:
      return cmem_;
    default:
      return eup_;
  }
}

void Knowledge::push(const isa::Instruction& in, Origin origin) {
  const isa::OpcodeInfo& row = isa::info(in.opcode);
  if (row.unit == UnitKind::kMxu) {
    if (row.queue != isa::Queue::kNone) {
      const Origin result = origin | latched_.at(in.unit) | weights_.at(in.unit);
      for (std::uint32_t c = 0; c < isa::parts_of(in).columns; ++c) {
        if (isa::takes_packed_rows(in.opcode)) mxu_results_.at(in.unit).at(c).push_back(result);
        mxu_results_.at(in.unit).at(c).push_back(result);
      }
      latched_.at(in.unit) = {};
    } else if (in.opcode == Opcode::kVmatlatchPart) {
      latched_.at(in.unit) = latched_.at(in.unit) | origin;
    } else if (row.operand_count > 0) {
      weights_.at(in.unit) = weights_.at(in.unit) | origin;
    }
    return;
  }
  if (in.opcode == Opcode::kVsetPatternPermute) {
    xlus_.at(in.unit).pattern = origin;
  } else if (row.queue == isa::Queue::kTranspose) {
    const std::uint32_t number = in.operands[2].immediate;
    Xlu& xlu = xlus_.at(in.unit);
    xlu.collected = number == 1 ? origin : xlu.collected | origin;
    if (number != in.operands[3].immediate) return;
    const std::uint32_t rows = isa::kSublanes * (isa::takes_packed_rows(in.opcode) ? 2 : 1);
    for (std::uint32_t block = 0; block < in.operands[1].immediate / rows; ++block) {
      xlu.transposed.push_back(xlu.collected);
    }
  } else if (row.queue != isa::Queue::kNone) {
    queue(in).push_back(in.opcode == Opcode::kVperm ? origin | xlus_.at(in.unit).pattern : origin);
  }
}

}  // namespace tpu
