#include "workloads/compiler/codegen/kernel_builder.h"

#include <algorithm>
#include <utility>

#include "isa/dma_descriptor.h"
#include "isa/generation.h"
#include "isa/opcode_table.h"
#include "sim/base/ceil_divide.h"
#include "sim/base/error.h"
#include "workloads/compiler/codegen/dead_values.h"
#include "workloads/compiler/codegen/link.h"

namespace tpu::compiler {

using isa::Opcode;

namespace {

Source source(const ScalarOperand& operand) {
  return operand.reg ? Source::of_value(operand.reg.id) : Source::of_immediate(operand.immediate);
}
Source source(const VectorOperand& operand) {
  return operand.reg ? Source::of_value(operand.reg.id) : Source::of_immediate(operand.immediate);
}
Source source(const PredicateOperand& operand) {
  if (!operand.reg) return Source::of_immediate(operand.constant ? 1 : 0);
  return Source::of_value(operand.reg.id, operand.negated);
}
Source source(MReg mask) { return Source::of_value(mask.id); }

/// Codes of an endpoint word of a DMA descriptor.
constexpr std::uint32_t kHbmCode = 2;
constexpr std::uint32_t kVmemCode = 4;
constexpr std::uint32_t kDmaControl = 0x01400000;
constexpr std::uint32_t kNobodysFlag = 7U << 10;

Opcode multiplication(const Target& target) {
  return isa::generation(target.chip).multiplies_32_bits ? Opcode::kSmulU32 : Opcode::kSmulU24;
}

}  // namespace

KernelBuilder::KernelBuilder(std::string name, const Target& target)
    : target_(target), draft_(std::make_unique<KernelDraft>()) {
  next_flag_ = flags().begin;
  is_begin_ = target.place.caller_starts_loads;
  used_vmem_rows_ = rows_behind();
  draft_->name = std::move(name);
  draft_->values.emplace_back();
  draft_->blocks.emplace_back();
}

KernelBuilder::~KernelBuilder() = default;

std::uint32_t KernelBuilder::new_value(RegisterFile file) {
  ValueInfo info;
  info.file = file;
  info.block = static_cast<std::uint32_t>(draft_->blocks.size() - 1);
  draft_->values.push_back(info);
  return static_cast<std::uint32_t>(draft_->values.size() - 1);
}

SReg KernelBuilder::operand(int index) {
  TPU_CHECK(index >= 0 && index < static_cast<int>(kMostKernelAddresses),
            draft_->name << ": operand " << index << " of at most " << kMostKernelAddresses);
  const auto place = static_cast<std::size_t>(index);
  if (operands_.size() <= place) operands_.resize(place + 1);
  if (!operands_[place]) {
    operands_[place] = {new_value(RegisterFile::kScalar)};
    ValueInfo& info = draft_->values[operands_[place].id];
    info.block = kNowhere;
    info.fixed = static_cast<std::uint8_t>(index);
    draft_->operands.emplace_back(operands_[place].id, info.fixed);
    if (is_begin_) known_.set(operands_[place], KnownNumber{index, 0});
  }
  return operands_[place];
}

VmemRegion KernelBuilder::allocate_vmem(std::uint64_t rows, std::uint32_t alignment_rows) {
  const std::uint64_t all = target_.vmem_bytes / isa::kVmemRowBytes;
  std::uint64_t first = round_up(std::uint64_t{used_vmem_rows_}, alignment_rows);
  std::uint64_t used = first + rows;
  if (target_.place.is_high) {
    used = used_vmem_rows_ + rows;
    first = used > all ? 0 : (all - used) / alignment_rows * alignment_rows;
    if (used <= all) used = all - first;  // More says that it has no room (VmemUse).
  }
  TPU_CHECK(first + rows <= all,
            draft_->name << ": " << first + rows << " rows of VMEM of " << all);
  used_vmem_rows_ = static_cast<std::uint32_t>(used);
  const VmemRegion region{next_region_++, static_cast<std::uint32_t>(first),
                          static_cast<std::uint32_t>(rows)};
  if (is_begin_) regions_.emplace(region.id, region);
  return region;
}

void KernelBuilder::leave_rows_behind(std::uint64_t rows) {
  if (!target_.place.is_high || rows <= used_vmem_rows_) return;
  allocate_vmem(rows - used_vmem_rows_);
}

VmemRegion KernelBuilder::second_name(VmemRegion region) {
  region.id = next_region_++;
  if (is_begin_) regions_.emplace(region.id, region);
  return region;
}

std::uint32_t KernelBuilder::allocate_smem(std::uint32_t words) {
  const std::uint32_t first = next_smem_word_;
  next_smem_word_ += words;
  const std::uint32_t used = next_smem_word_ - kKernelSmemBegin;
  if (used > target_.kernel_smem_words()) {
    throw WorkloadError("no kernel for " + draft_->name + ": its tables take " +
                        std::to_string(used) + " words of SMEM or more, kernels have " +
                        std::to_string(target_.kernel_smem_words()));
  }
  return first;
}

std::uint32_t KernelBuilder::allocate_flag() {
  TPU_CHECK(next_flag_ < flags().end, draft_->name << ": out of sync flags for kernels");
  return next_flag_++;
}

void KernelBuilder::begin_anew() {
  new_block();
  is_begin_ = false;
  most_vmem_rows_ = std::max(most_vmem_rows_, used_vmem_rows_);
  used_vmem_rows_ = rows_behind();
  next_smem_word_ = kKernelSmemBegin;
  next_flag_ = flags().begin;
}

VmemUse KernelBuilder::vmem_use() const {
  const std::uint32_t rows = std::max(used_vmem_rows_, most_vmem_rows_);
  return target_.place.is_high ? VmemUse{waiting_rows_, rows} : VmemUse{rows + waiting_rows_, 0};
}

// Variables.

std::uint32_t KernelBuilder::new_variable(RegisterFile file) {
  VariableInfo info;
  info.file = file;
  info.block = static_cast<std::uint32_t>(draft_->blocks.size() - 1);
  draft_->variables.push_back(info);
  return static_cast<std::uint32_t>(draft_->variables.size() - 1);
}

std::uint32_t KernelBuilder::current_value(std::uint32_t variable) {
  Block& block = draft_->blocks.back();
  for (const auto& [index, value] : block.assigned) {
    if (index == variable) return value;
  }
  const auto [entry, added] = block.entry_values.try_emplace(variable, 0);
  if (added) {
    entry->second = new_value(draft_->variables[variable].file);
    draft_->values[entry->second].variable = variable;
  }
  return entry->second;
}

SVariable KernelBuilder::scalar_variable(ScalarOperand initial) {
  const SVariable variable{new_variable(RegisterFile::kScalar)};
  set(variable, initial);
  return variable;
}

VVariable KernelBuilder::vector_variable(VectorOperand initial) {
  const VVariable variable{new_variable(RegisterFile::kVector)};
  set(variable, initial);
  return variable;
}

SReg KernelBuilder::get(SVariable variable) { return {current_value(variable.index)}; }
VReg KernelBuilder::get(VVariable variable) { return {current_value(variable.index)}; }

namespace {

/// A value can become a variable's without a copy when its own block makes it and no other variable
/// has it.
bool can_own(const KernelDraft& draft, std::uint32_t value) {
  const ValueInfo& info = draft.values[value];
  if (info.block + 1 != draft.blocks.size() || info.variable != kNowhere) return false;
  for (const auto& [index, assigned] : draft.blocks.back().assigned) {
    if (assigned == value) return false;
  }
  return true;
}

void assign(KernelDraft& draft, std::uint32_t variable, std::uint32_t value) {
  for (auto& [index, assigned] : draft.blocks.back().assigned) {
    if (index == variable) {
      assigned = value;
      return;
    }
  }
  draft.blocks.back().assigned.emplace_back(variable, value);
}

}  // namespace

void KernelBuilder::set(SVariable variable, ScalarOperand value) {
  SReg reg = value.reg;
  if (!reg || !can_own(*draft_, reg.id)) {
    Node move = node(Opcode::kSmov);
    move.sources[0] = source(value);
    reg = result<RegisterFile::kScalar>(move);
    if (is_begin_) known_.set(reg, known_.of(value));
  }
  assign(*draft_, variable.index, reg.id);
}

void KernelBuilder::set(VVariable variable, VectorOperand value) {
  VReg reg = value.reg;
  if (!reg || !can_own(*draft_, reg.id)) reg = vector(Opcode::kVmov, value);
  assign(*draft_, variable.index, reg.id);
}

// Nodes.

Node KernelBuilder::node(Opcode opcode) const {
  Node made;
  made.opcode = opcode;
  return made;
}

void KernelBuilder::append(Node made) {
  if (made.dest == 0 && !acts_always()) {
    if (!guard_.reg) return;
    made.guard = source(guard_);
  }
  if (is_begin_ && made.region != 0) touched_.insert(made.region);
  draft_->blocks.back().nodes.push_back(made);
}

template <RegisterFile File>
Value<File> KernelBuilder::result(Node made) {
  made.dest = new_value(File);
  append(made);
  return {made.dest};
}

// Scalar unit.

SReg KernelBuilder::scalar(Opcode opcode, ScalarOperand a, ScalarOperand b) {
  if (known_block_ != draft_->blocks.size()) known_scalars_.clear();
  known_block_ = draft_->blocks.size();
  Node made = node(opcode);
  made.sources[0] = source(a);
  made.sources[1] = source(b);
  const auto key = [](const Source& from) {
    return std::uint64_t{from.payload} << 8 | static_cast<std::uint64_t>(from.kind);
  };
  SReg& known = known_scalars_[{opcode, key(made.sources[0]), key(made.sources[1])}];
  if (!known) {
    known = result<RegisterFile::kScalar>(made);
    if (is_begin_) known_.compute(known, opcode, a, b);
  }
  return known;
}

SReg KernelBuilder::constant(std::uint32_t value) {
  Node made = node(Opcode::kSmov);
  made.sources[0] = Source::of_immediate(value);
  const SReg made_of = result<RegisterFile::kScalar>(made);
  if (is_begin_) known_.set(made_of, KnownNumber{-1, value});
  return made_of;
}

SReg KernelBuilder::mul(SReg a, std::uint32_t factor) {
  if (factor == 0) return constant(0);
  if ((factor & (factor - 1)) == 0) {
    const int shift = __builtin_ctz(factor);
    return shift == 0 ? a : shift_left(a, shift);
  }
  return scalar(multiplication(target_), a, factor);
}

SReg KernelBuilder::multiply(SReg a, SReg b) { return scalar(multiplication(target_), a, b); }

SReg KernelBuilder::select(PredicateOperand condition, ScalarOperand if_true,
                           ScalarOperand if_false) {
  Node made = node(Opcode::kScalarSelect);
  made.sources = {source(condition), source(if_true), source(if_false), {}};
  const SReg chosen = result<RegisterFile::kScalar>(made);
  if (is_begin_) {
    const std::optional<bool> holds = known_.of(condition);
    if (holds) known_.set(chosen, known_.of(*holds ? if_true : if_false));
  }
  return chosen;
}

SReg KernelBuilder::min(ScalarOperand a, ScalarOperand b) { return select(less(a, b), a, b); }
SReg KernelBuilder::max(ScalarOperand a, ScalarOperand b) { return select(less(a, b), b, a); }

PReg KernelBuilder::compare(Opcode opcode, ScalarOperand a, ScalarOperand b) {
  Node made = node(opcode);
  made.sources[0] = source(a);
  made.sources[1] = source(b);
  const PReg compared = result<RegisterFile::kPredicate>(made);
  if (is_begin_) known_.compare(compared, opcode, a, b);
  return compared;
}

PReg KernelBuilder::or_(PredicateOperand a, PredicateOperand b) {
  Node made = node(Opcode::kPor);
  made.sources[0] = source(a);
  made.sources[1] = source(b);
  return result<RegisterFile::kPredicate>(made);
}

PReg KernelBuilder::and_(PredicateOperand a, PredicateOperand b) {
  Node nand = node(Opcode::kPnand);
  nand.sources[0] = source(a);
  nand.sources[1] = source(b);
  Node negation = node(Opcode::kPneg);
  negation.sources[0] = Source::of_value(result<RegisterFile::kPredicate>(nand).id);
  return result<RegisterFile::kPredicate>(negation);
}

SReg KernelBuilder::load_smem(std::uint32_t word, SReg base) {
  Node made = node(Opcode::kSld);
  made.address.offset = static_cast<std::int32_t>(word);
  made.base[0] = base.id;
  const SReg loaded = result<RegisterFile::kScalar>(made);
  if (is_begin_ && !base) known_.set(loaded, known_.load(word));
  return loaded;
}

void KernelBuilder::store_smem(std::uint32_t word, ScalarOperand value, SReg base) {
  Node made = node(Opcode::kSst);
  made.address.offset = static_cast<std::int32_t>(word);
  made.base[0] = base.id;
  made.sources[0] = source(value);
  append(made);
  if (is_begin_) known_.store(word, value, !base && acts_always());
}

// Vector unit.

VReg KernelBuilder::vector(Opcode opcode, VectorOperand a) {
  Node made = node(opcode);
  made.sources[0] = source(a);
  return result<RegisterFile::kVector>(made);
}

VReg KernelBuilder::vector(Opcode opcode, VectorOperand a, VectorOperand b) {
  Node made = node(opcode);
  made.sources[0] = source(a);
  made.sources[1] = source(b);
  return result<RegisterFile::kVector>(made);
}

MReg KernelBuilder::vector_compare(Opcode opcode, VectorOperand a, VectorOperand b) {
  Node made = node(opcode);
  made.sources[0] = source(a);
  made.sources[1] = source(b);
  return result<RegisterFile::kMask>(made);
}

MReg KernelBuilder::mask(Opcode opcode, MReg a) {
  Node made = node(opcode);
  made.sources[0] = source(a);
  return result<RegisterFile::kMask>(made);
}

MReg KernelBuilder::mask(Opcode opcode, MReg a, MReg b) {
  Node made = node(opcode);
  made.sources[0] = source(a);
  made.sources[1] = source(b);
  return result<RegisterFile::kMask>(made);
}

MReg KernelBuilder::weird(VReg a) {
  Node made = node(Opcode::kVweirdF32);
  made.sources[0] = source(VectorOperand(a));
  return result<RegisterFile::kMask>(made);
}

VReg KernelBuilder::select(MReg condition, VectorOperand if_true, VectorOperand if_false) {
  Node made = node(Opcode::kVsel);
  made.sources = {source(condition), source(if_true), source(if_false), {}};
  return result<RegisterFile::kVector>(made);
}

VReg KernelBuilder::splat(ScalarOperand a) {
  Node made = node(Opcode::kVstv);
  made.sources[0] = source(a);
  return result<RegisterFile::kVector>(made);
}

VReg KernelBuilder::lane_sequence() {
  return result<RegisterFile::kVector>(node(Opcode::kVlaneseq));
}

VReg KernelBuilder::truncate_to_s32(VReg a) {
  Node made = node(Opcode::kVcvtPrF32S32);
  made.sources[0] = source(VectorOperand(a));
  made.sources[1] = Source::of_immediate(0xffffffff);
  return result<RegisterFile::kVector>(made);
}

VReg KernelBuilder::transcendental(Opcode opcode, VectorOperand a) {
  Node push = node(opcode);
  push.sources[0] = source(a);
  append(push);
  return result<RegisterFile::kVector>(node(Opcode::kVpopEup));
}

// VMEM.

namespace {

void set_address(Node& made, const VmemAddress& address) {
  made.region = address.region.id;
  made.base = {address.base.id, address.base2.id};
  made.mask_register = address.mask_register.id;
  made.address.offset = static_cast<std::int32_t>(address.region.row) + address.offset;
  made.address.sublane_stride = address.sublane_stride;
  made.address.sublane_mask = address.sublane_mask;
}

}  // namespace

VReg KernelBuilder::load(const VmemAddress& address) {
  Node made = node(Opcode::kVld);
  set_address(made, address);
  return result<RegisterFile::kVector>(made);
}

VReg KernelBuilder::load_shuffled(const VmemAddress& address, std::uint32_t pattern) {
  Node made = node(Opcode::kVldSshfl);
  set_address(made, address);
  made.address.pattern = pattern;
  return result<RegisterFile::kVector>(made);
}

void KernelBuilder::store(const VmemAddress& address, VectorOperand value) {
  Node made = node(Opcode::kVst);
  set_address(made, address);
  made.sources[0] = source(value);
  append(made);
}

void KernelBuilder::store(const VmemAddress& address, MReg mask, VectorOperand value) {
  Node made = node(Opcode::kVstMsk);
  set_address(made, address);
  made.sources[0] = source(mask);
  made.sources[1] = source(value);
  append(made);
}

// Reduce, permute and transpose unit.

VReg KernelBuilder::lane_reduction(Opcode opcode, VReg a) {
  Node push = node(opcode);
  push.sources[0] = source(VectorOperand(a));
  append(push);
  return result<RegisterFile::kVector>(node(Opcode::kVpopXlane));
}

VReg KernelBuilder::lane_sum(VReg a) { return lane_reduction(Opcode::kVaddXlane, a); }
VReg KernelBuilder::lane_max(VReg a) { return lane_reduction(Opcode::kVmaxXlane, a); }
VReg KernelBuilder::lane_min(VReg a) { return lane_reduction(Opcode::kVminXlane, a); }

VReg KernelBuilder::rotate_lanes(VReg a, ScalarOperand lanes) {
  Node push = node(Opcode::kVrotLane);
  push.sources[0] = source(VectorOperand(a));
  push.sources[1] = source(lanes);
  append(push);
  return result<RegisterFile::kVector>(node(Opcode::kVpopPermute));
}

void KernelBuilder::set_lane_pattern(VReg pattern) {
  Node push = node(Opcode::kVsetPatternPermute);
  push.sources[0] = source(VectorOperand(pattern));
  append(push);
}

VReg KernelBuilder::permute_lanes(VReg a) {
  Node push = node(Opcode::kVperm);
  push.sources[0] = source(VectorOperand(a));
  append(push);
  return result<RegisterFile::kVector>(node(Opcode::kVpopPermute));
}

void KernelBuilder::transpose_push(VReg a, std::uint32_t width, std::uint32_t number,
                                   std::uint32_t count) {
  const Opcode opcode = number + 1 == count ? Opcode::kVxposeEnd
                        : number == 0       ? Opcode::kVxposeStart
                                            : Opcode::kVxposeCont;
  Node push = node(opcode);
  push.sources = {source(VectorOperand(a)), Source::of_immediate(width),
                  Source::of_immediate(number + 1), Source::of_immediate(count)};
  append(push);
}

VReg KernelBuilder::transpose_pop() {
  return result<RegisterFile::kVector>(node(Opcode::kVpopTrf));
}

SReg KernelBuilder::to_scalar(VReg a) {
  Node push = node(Opcode::kVpush);
  push.sources[0] = source(VectorOperand(a));
  append(push);
  return result<RegisterFile::kScalar>(node(Opcode::kSpop));
}

// MXUs.

Node KernelBuilder::mxu_push(Opcode opcode, std::uint32_t mxu, VectorOperand rows) const {
  TPU_CHECK(mxu < target_.mxu_count,
            draft_->name << ": MXU " << mxu << " of " << target_.mxu_count);
  Node push = node(opcode);
  push.unit = static_cast<std::uint8_t>(mxu);
  push.sources[0] = source(rows);
  return push;
}

void KernelBuilder::push_weights(const MxuBlock& block, VectorOperand rows, bool transposed) {
  if (block.row == 0 && block.column == 0) {
    append(mxu_push(transposed ? Opcode::kVmatpushXpose : Opcode::kVmatpush, block.mxu, rows));
    return;
  }
  Node push =
      mxu_push(transposed ? Opcode::kVmatpushXposeBlock : Opcode::kVmatpushBlock, block.mxu, rows);
  push.sources[1] = Source::of_immediate(block.row);
  push.sources[2] = Source::of_immediate(block.column);
  append(push);
}

void KernelBuilder::swap_weights(std::uint32_t mxu) {
  Node swap = node(Opcode::kVdwg);
  swap.unit = static_cast<std::uint8_t>(mxu);
  append(swap);
}

void KernelBuilder::latch_rows(std::uint32_t mxu, std::uint32_t row_part, VectorOperand rows) {
  Node latch = mxu_push(Opcode::kVmatlatchPart, mxu, rows);
  latch.sources[1] = Source::of_immediate(row_part);
  append(latch);
}

void KernelBuilder::matmul(std::uint32_t mxu, VectorOperand rows, bool swap_after,
                           const MxuUse& use) {
  const bool fused = swap_after && isa::generation(target_.chip).swaps_with_push;
  if (use.rows == 1 && use.columns == 1) {
    append(mxu_push(fused ? Opcode::kVmatmulDwg : Opcode::kVmatmul, mxu, rows));
  } else {
    Node push = mxu_push(fused ? Opcode::kVmatmulPartsDwg : Opcode::kVmatmulParts, mxu, rows);
    push.sources[1] = Source::of_immediate(use.rows);
    push.sources[2] = Source::of_immediate(use.columns);
    append(push);
  }
  if (swap_after && !fused) swap_weights(mxu);
}

VReg KernelBuilder::pop_result(std::uint32_t mxu, std::uint32_t column_part) {
  Node pop = node(column_part == 0 ? Opcode::kVpopMrf : Opcode::kVpopMrfPart);
  pop.unit = static_cast<std::uint8_t>(mxu);
  if (column_part > 0) pop.sources[0] = Source::of_immediate(column_part);
  return result<RegisterFile::kVector>(pop);
}

// DMA.

SReg KernelBuilder::vmem_row(const VmemAddress& address) {
  TPU_CHECK(address.sublane_stride == 1, draft_->name << ": a DMA has no sublane stride");
  SReg row = constant(address.region.row + static_cast<std::uint32_t>(address.offset));
  if (address.base)
    row = add(address.base, address.region.row + static_cast<std::uint32_t>(address.offset));
  if (address.base2) row = add(row, address.base2);
  return row;
}

void KernelBuilder::dma_in(ScalarOperand hbm, const VmemAddress& to, ScalarOperand granules,
                           ScalarOperand flag) {
  if (caller_starts({0, 0, known_.number(granules)}, hbm, to, flag)) return;
  Node dma = node(Opcode::kDmaHbmToVmem);
  dma.sources = {source(hbm), source(granules), source(ScalarOperand(vmem_row(to))), source(flag)};
  dma.region = to.region.id;
  append(dma);
}

void KernelBuilder::dma_out(const VmemAddress& from, ScalarOperand hbm, ScalarOperand granules,
                            ScalarOperand flag) {
  Node dma = node(Opcode::kDmaVmemToHbm);
  dma.sources = {source(ScalarOperand(vmem_row(from))), source(granules), source(hbm),
                 source(flag)};
  dma.region = from.region.id;
  append(dma);
}

SReg KernelBuilder::endpoint(std::uint32_t space_code) {
  if (!core_endpoint_) {
    TPU_CHECK(draft_->loops.empty() && depth_ == 0,
              draft_->name << ": the first descriptor is made outside of loops and branches");
    const SReg chip = shift_left(load_smem(kChipIdWord), 19);
    core_endpoint_ = or_(chip, shift_left(load_smem(kCoreIdWord), 16));
  }
  return or_(core_endpoint_, space_code << 8);
}

DmaDescriptorHandle KernelBuilder::descriptor(bool to_vmem, const StridedBox& box) {
  const auto side = [&](std::uint32_t stride) {
    std::uint32_t run = box.run;
    if (!box.has_gaps(stride)) stride = run = std::min<std::uint32_t>(box.granules(), 1U << 14);
    if (run >= 1U << 16 || stride >= 1U << 16) {
      throw WorkloadError(
          draft_->name + ": expected DMAs with runs and strides below 65536 KiB, found runs of " +
          std::to_string(run) + " and strides of " + std::to_string(stride) + " KiB");
    }
    return stride << 16 | run;
  };
  const std::uint32_t hbm = side(box.hbm_stride), vmem = side(box.vmem_stride);
  const DmaDescriptorHandle handle{allocate_smem(8), to_vmem};
  const SReg hbm_end = endpoint(kHbmCode);
  const SReg vmem_end = endpoint(kVmemCode);
  store_smem(handle.word + 1, to_vmem ? vmem_end : hbm_end);
  store_smem(handle.word + 2, to_vmem ? vmem : hbm);
  store_smem(handle.word + 4, to_vmem ? hbm_end : vmem_end);
  store_smem(handle.word + 5, to_vmem ? hbm : vmem);
  store_smem(handle.word + 6, kDmaControl | box.granules());
  if (is_begin_) descriptors_[handle.word] = {hbm, vmem, box.granules()};
  return handle;
}

bool KernelBuilder::caller_starts(const DescriptorWords& words, const ScalarOperand& hbm,
                                  const VmemAddress& to, const ScalarOperand& flag) {
  if (!is_begin_ || depth_ > 0 || !acts_always()) return false;
  const std::optional<KnownNumber> from = known_.of(hbm);
  const std::optional<std::uint32_t> raised = known_.number(flag);
  std::optional<std::uint32_t> row = to.region.row + static_cast<std::uint32_t>(to.offset);
  for (const SReg base : {to.base, to.base2}) {
    const std::optional<std::uint32_t> more = base ? known_.number(base) : 0;
    row = row && more ? std::optional<std::uint32_t>(*row + *more) : std::nullopt;
  }
  const bool is_known = from && from->operand >= 0 && raised && row && words.hbm && words.vmem &&
                        words.granules && *words.granules > 0;
  if (!is_known) return false;
  const FirstLoad load{from->operand, from->number, *words.granules, *words.hbm,
                       *words.vmem,   *row,         *raised};
  const auto meets = [&](std::uint32_t id) {
    const auto region = regions_.find(id);
    return region == regions_.end() || (region->second.row < load.end_row() &&
                                        load.row < region->second.row + region->second.rows);
  };
  if (std::any_of(touched_.begin(), touched_.end(), meets)) return false;
  first_loads_.push_back(load);
  return true;
}

void KernelBuilder::start_for_caller(const FirstLoad& load, int place) {
  const SReg address = operand(place);
  const ScalarOperand hbm = load.offset == 0 ? address : add(address, load.offset);
  const VmemRegion region{next_region_++, load.row, load.end_row() - load.row};
  if (load.is_contiguous()) return dma_in(hbm, region, load.granules, load.flag);
  // The endpoints last: the numbers of chip and core come from SMEM meanwhile.
  const std::uint32_t word = allocate_smem(8);
  const SReg vmem_end = endpoint(kVmemCode), hbm_end = endpoint(kHbmCode);
  store_smem(word, load.row);
  store_smem(word + 2, load.vmem_runs);
  store_smem(word + 3, hbm);
  store_smem(word + 5, load.hbm_runs);
  store_smem(word + 6, kDmaControl | load.granules);
  store_smem(word + 7, kNobodysFlag | load.flag);
  store_smem(word + 1, vmem_end);
  store_smem(word + 4, hbm_end);
  Node dma = node(Opcode::kDma);
  dma.sources[0] = Source::of_immediate(word);
  dma.region = region.id;
  append(dma);
}

void KernelBuilder::start(const DmaDescriptorHandle& descriptor, ScalarOperand hbm,
                          const VmemAddress& vmem, ScalarOperand flag) {
  if (descriptor.to_vmem && is_begin_ &&
      caller_starts(descriptors_[descriptor.word], hbm, vmem, flag)) {
    return;
  }
  const SReg row = vmem_row(vmem);
  store_smem(descriptor.word, descriptor.to_vmem ? ScalarOperand(row) : hbm);
  store_smem(descriptor.word + 3, descriptor.to_vmem ? hbm : ScalarOperand(row));
  store_smem(descriptor.word + 7, flag.reg ? ScalarOperand(or_(flag, kNobodysFlag))
                                           : ScalarOperand(flag.immediate | kNobodysFlag));
  Node dma = node(Opcode::kDma);
  dma.sources[0] = Source::of_immediate(descriptor.word);
  dma.region = vmem.region.id;
  dma.reads_vmem = !descriptor.to_vmem;
  append(dma);
}

void KernelBuilder::start(const DmaDescriptorHandle& descriptor, ScalarOperand hbm,
                          const VmemAddress& vmem, ScalarOperand flag, ScalarOperand granules) {
  store_smem(descriptor.word + 6, granules.reg ? ScalarOperand(or_(granules, kDmaControl))
                                               : ScalarOperand(granules.immediate | kDmaControl));
  if (is_begin_) descriptors_[descriptor.word].granules = known_.number(granules);
  start(descriptor, hbm, vmem, flag);
}

void KernelBuilder::set_runs(const DmaDescriptorHandle& descriptor, ScalarOperand hbm,
                             ScalarOperand vmem) {
  store_smem(descriptor.word + 2, descriptor.to_vmem ? vmem : hbm);
  store_smem(descriptor.word + 5, descriptor.to_vmem ? hbm : vmem);
  if (!is_begin_) return;
  descriptors_[descriptor.word].hbm = known_.number(hbm);
  descriptors_[descriptor.word].vmem = known_.number(vmem);
}

void KernelBuilder::wait(ScalarOperand flag, ScalarOperand granules) {
  is_begin_ = false;
  misc(Opcode::kDmaDoneWait, {flag, granules});
  const ScalarOperand negative =
      granules.reg ? ScalarOperand(sub(0, granules)) : ScalarOperand(0U - granules.immediate);
  misc(Opcode::kVsyncadd, {flag, negative});
}

void KernelBuilder::misc(Opcode opcode, const std::vector<ScalarOperand>& operands) {
  Node made = node(opcode);
  TPU_CHECK(operands.size() <= made.sources.size(), draft_->name << ": too many operands");
  for (std::size_t i = 0; i < operands.size(); ++i) made.sources[i] = source(operands[i]);
  append(made);
}

void KernelBuilder::guarded(PredicateOperand condition, const std::function<void()>& body) {
  const PredicateOperand outer = guard_;
  const bool outer_always = !outer.reg && outer.constant;
  const bool inner_always = !condition.reg && condition.constant;
  if (outer_always) {
    guard_ = condition;
  } else if (!inner_always) {
    guard_ = outer.reg && condition.reg ? PredicateOperand(and_(outer, condition))
                                        : PredicateOperand(false);
  }
  if (is_begin_ && guard_.reg) {
    if (const std::optional<bool> holds = known_.of(guard_)) guard_ = *holds;
  }
  body();
  guard_ = outer;
}

// Structure.

void KernelBuilder::new_block() {
  const Block& block = draft_->blocks.back();
  if (block.nodes.empty() && block.assigned.empty() && !block.branches) return;
  draft_->blocks.emplace_back();
}

void KernelBuilder::loop(std::uint64_t trips, const std::function<void(SReg index)>& body) {
  if (trips == 0) return;
  if (trips == 1) {
    body(constant(0));
    return;
  }
  const SVariable index = scalar_variable(0);
  new_block();
  known_.begin_region();
  const auto first = static_cast<std::uint32_t>(draft_->blocks.size() - 1);
  ++depth_;
  body(get(index));
  const SReg next = add(get(index), 1);
  set(index, next);
  const PReg again = less(next, trips);
  Block& last = draft_->blocks.back();
  last.branches = true;
  last.condition = Source::of_value(again.id);
  last.target = first;
  --depth_;
  known_.end_region();
  draft_->loops.push_back({first, static_cast<std::uint32_t>(draft_->blocks.size() - 1), trips});
  draft_->blocks.emplace_back();
}

void KernelBuilder::if_(PReg condition, const std::function<void()>& body) {
  const std::size_t from = draft_->blocks.size() - 1;
  draft_->blocks[from].branches = true;
  draft_->blocks[from].condition = Source::of_value(condition.id, true);
  draft_->blocks.emplace_back();
  ++depth_;
  known_.begin_region();
  body();
  known_.end_region();
  --depth_;
  draft_->blocks.emplace_back();
  draft_->blocks[from].target = static_cast<std::uint32_t>(draft_->blocks.size() - 1);
}

isa::Kernel KernelBuilder::finish() {
  TPU_CHECK(draft_ != nullptr, "a kernel is finished once");
  const std::uint64_t all = target_.vmem_bytes / isa::kVmemRowBytes;
  const std::uint64_t used = round_up(std::uint64_t{used_vmem_rows_}, 8);
  const std::uint64_t below = used > all ? all : all - used;  // Above is none, or the kernel's.
  SpillSpace space = target_.place.is_high ? SpillSpace{0, below, next_region_}
                                           : SpillSpace{used, all, next_region_};
  const std::uint64_t begin = space.next_row;
  remove_dead_scalars(*draft_);
  std::optional<isa::Kernel> kernel = link(*draft_, target_, &space);
  TPU_CHECK(kernel, draft_->name << ": too many live values");
  if (space.next_row > begin) {
    if (!target_.place.is_high) used_vmem_rows_ = static_cast<std::uint32_t>(begin);
    waiting_rows_ = static_cast<std::uint32_t>(space.next_row - begin);
  }
  cycles_ = draft_->cycles;
  draft_.reset();
  kernel->vmem_bytes = vmem_bytes();
  return std::move(*kernel);
}

std::uint32_t KernelBuilder::block_number() const {
  return static_cast<std::uint32_t>(draft_->blocks.size() - 1);
}

std::optional<isa::Kernel> KernelBuilder::try_finish() {
  TPU_CHECK(draft_ != nullptr, "a kernel is finished once");
  remove_dead_scalars(*draft_);
  std::optional<isa::Kernel> kernel = link(*draft_, target_, nullptr);
  crowded_block_ = draft_->crowded_block;
  cycles_ = draft_->cycles;
  draft_.reset();
  if (kernel) kernel->vmem_bytes = vmem_bytes();
  return kernel;
}

}  // namespace tpu::compiler
