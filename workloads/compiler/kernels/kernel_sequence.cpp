#include "workloads/compiler/kernels/kernel_sequence.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>

#include "sim/base/ceil_divide.h"
#include "sim/base/contains.h"
#include "sim/base/error.h"
#include "workloads/compiler/ir/array_layout.h"
#include "workloads/compiler/kernels/elementwise/elementwise_kernel.h"
#include "workloads/compiler/kernels/sequence_member.h"

namespace tpu::compiler {

using hlo::Computation;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::InstructionId;

namespace {

/// Members that wait for operands of their own; later ones wait with the last of them.
constexpr std::size_t kMostLoadFlags = 16;
bool is_member(const HloInstruction& instruction) {
  switch (instruction.opcode) {
    case HloOpcode::kParameter:
    case HloOpcode::kConstant:
    case HloOpcode::kGetTupleElement:
    case HloOpcode::kBitcast:
    case HloOpcode::kTuple:
      return false;
    default:
      return true;
  }
}

/// Loads of a part of a tile's rows may begin before it.
constexpr std::uint64_t kRowsBefore = 8;
/// Addresses that stand in registers while the first loads are requested.
constexpr std::size_t kMostHeldAddresses = 16;
/// Registers that one trip of a copy from state to state moves.
constexpr std::uint64_t kCopiedAtOnce = 8;

/// An array that stands in VMEM: a value of the sequence, or the part of it that members read.
struct Array {
  VmemRegion region;
  std::uint64_t rows = 0;  ///< Of the region: what any member wants.
  hlo::Shape shape;
  int operand = -1;  ///< Comes from HBM: place among the addresses.
  ArrayPart part;
  std::int64_t row_granules = 0;  ///< Of a part: of each row tile.
  int whole = -1;                 ///< Of a part of a value: the array that has it.
  std::size_t first_member = 0;
  std::vector<int> results;  ///< Goes to HBM: places among the addresses.
  /// Where an operand of a loop's iteration waits that is a result of it, too, since its own place
  /// takes the state of the next one.
  VmemRegion handed_on;
  /// Where it comes to while the iteration before runs, and where it leaves from while the next one
  /// does.
  VmemRegion ahead, behind;
  /// A scalar that stands in all lanes of its first row: what reads it spreads nothing.
  bool is_everywhere = false;

  bool is_scalar() const { return shape.rank() == 0 && hlo::byte_size(shape.type) == 4; }
};

class SequenceKernel {
 public:
  SequenceKernel(const hlo::Module& module, const Computation& sequence, const std::string& name,
                 const Target& target, const SequenceLoop& loop,
                 const std::vector<MemberLimits>& limits)
      : module_(module), sequence_(sequence), loop_(loop), builder_(name, target) {
    builder_.allocate_vmem(kRowsBefore);
    for (const HloInstruction& instruction : sequence.instructions) {
      if (is_member(instruction)) add_member(instruction, limits);
    }
    find_results();
    find_scalars();
    for (Array& array : arrays_) array.region = builder_.allocate_vmem(array.rows);
  }

  /// Nothing when values find no register.
  std::optional<LoweredKernel> make(bool may_spill);
  /// Behind a try that found no registers: limits of the next one, a member each. False where there
  /// is no less.
  bool reduce(std::vector<MemberLimits>& limits) const;

 private:
  /// A value: the instruction and which of its results.
  using Value = std::pair<InstructionId, std::int64_t>;
  struct Member {
    std::unique_ptr<SequenceMember> kernel;
    std::vector<std::size_t> arrays;  ///< Of its inputs, then of its outputs.
  };

  void add_member(const HloInstruction& instruction, const std::vector<MemberLimits>& limits);
  Value value_of(InstructionId id) const;
  std::size_t array_of_input(const HloInstruction& instruction, const SequenceMember::Input& input);
  std::size_t array_of_operand(const HloInstruction& parameter);
  void find_results();
  void find_scalars();
  bool makes_everywhere(const Member& member, std::size_t output) const;
  bool begins_everywhere(std::size_t array) const;
  void spread_scalars(std::size_t member, bool moving);
  bool moves(int address) const {
    return !loop_.steps.empty() && loop_.steps[static_cast<std::size_t>(address)] != 0;
  }
  bool is_loop() const { return loop_.trips > 1; }
  bool leaves_moving(const Array& array) const {
    return std::any_of(array.results.begin(), array.results.end(),
                       [this](int result) { return moves(result); });
  }
  void prepare_loop();
  void begin_iteration(SReg iteration);
  void end_iteration(SReg iteration);
  void prepare();
  SReg address(int place, SReg iteration);
  void start_loads(bool moving, SReg iteration);
  void wait_for(std::size_t flag);
  void run_members();
  void start_stores(std::size_t member);
  void copy(VmemRegion from, VmemRegion to, std::uint64_t granules, std::int64_t from_row = 0,
            std::int64_t to_row = 0);
  void copy_part(VmemRegion whole, const Array& to);
  void pass_state_on();
  void finish_stores();

  const hlo::Module& module_;
  const Computation& sequence_;
  const SequenceLoop& loop_;
  KernelBuilder builder_;
  std::vector<Member> members_;
  std::vector<Array> arrays_;
  std::map<Value, std::size_t> whole_;  ///< Arrays of values, whole.
  std::vector<std::uint32_t> load_flags_;
  std::uint32_t store_flag_ = 0, ahead_flag_ = 0, address_words_ = 0;
  std::map<std::size_t, BoxDma> dmas_;  ///< Of operands, by array.
  std::uint64_t storing_ = 0;           ///< Granules on their way to HBM.
};

SequenceKernel::Value SequenceKernel::value_of(InstructionId id) const {
  std::int64_t leaf = 0;
  for (;;) {
    const HloInstruction& instruction = sequence_.at(id);
    if (instruction.opcode == HloOpcode::kGetTupleElement) leaf = instruction.tuple_index;
    const bool is_name = instruction.opcode == HloOpcode::kGetTupleElement ||
                         instruction.opcode == HloOpcode::kBitcast;
    if (!is_name) return {id, leaf};
    id = instruction.operands[0];
  }
}

std::size_t SequenceKernel::array_of_input(const HloInstruction& instruction,
                                           const SequenceMember::Input& input) {
  const Value value = value_of(instruction.operands[static_cast<std::size_t>(input.operand)]);
  const HloInstruction& source = sequence_.at(value.first);
  const bool is_operand = source.opcode == HloOpcode::kParameter;
  const bool is_part = !(input.part == ArrayPart{});
  TPU_CHECK(is_operand || whole_.count(value) != 0, instruction.name);
  const int operand = is_operand ? static_cast<int>(source.parameter_number) : -1;
  for (std::size_t i = 0; i < arrays_.size(); ++i) {
    Array& known = arrays_[i];
    const bool is_same_part = known.part == input.part && known.row_granules == input.row_granules;
    const bool is_same = is_operand ? known.operand == operand && is_same_part
                         : is_part
                             ? known.whole == static_cast<int>(whole_.at(value)) && is_same_part
                             : i == whole_.at(value);
    if (!is_same || granules(input.shape) > granules(known.shape)) continue;
    known.rows = std::max(known.rows, input.rows);
    return i;
  }
  Array array;
  array.shape = input.shape;
  array.operand = operand;
  if (!is_operand) array.whole = static_cast<int>(whole_.at(value));
  array.part = input.part;
  array.first_member = members_.size();
  array.row_granules = input.row_granules;
  array.rows = input.rows;
  arrays_.push_back(std::move(array));
  return arrays_.size() - 1;
}

void SequenceKernel::add_member(const HloInstruction& instruction,
                                const std::vector<MemberLimits>& limits) {
  Member member;
  member.kernel =
      make_sequence_member(builder_, module_, sequence_, instruction,
                           limits.empty() ? MemberLimits() : limits.at(members_.size()));
  for (const SequenceMember::Input& input : member.kernel->inputs()) {
    member.arrays.push_back(array_of_input(instruction, input));
  }
  for (const SequenceMember::Output& output : member.kernel->outputs()) {
    Array array;
    array.shape = output.shape;
    array.first_member = members_.size();
    array.rows = output.rows;
    whole_[{instruction.id, output.leaf}] = arrays_.size();
    member.arrays.push_back(arrays_.size());
    arrays_.push_back(std::move(array));
  }
  members_.push_back(std::move(member));
}

bool SequenceKernel::reduce(std::vector<MemberLimits>& limits) const {
  limits.resize(members_.size());
  const std::optional<std::uint32_t> block = builder_.crowded_block();
  for (std::size_t i = 0; block && i < members_.size(); ++i) {
    if (members_[i].kernel->reduce(block, limits[i])) return true;
  }
  bool is_less = false;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    is_less |= members_[i].kernel->reduce({}, limits[i]);
  }
  return is_less;
}

void SequenceKernel::find_results() {
  const HloInstruction& root = sequence_.at(sequence_.root);
  const std::vector<InstructionId> results =
      root.opcode == HloOpcode::kTuple ? root.operands : std::vector<InstructionId>{root.id};
  const int operands = static_cast<int>(sequence_.parameters().size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    const Value value = value_of(results[i]);
    const HloInstruction& source = sequence_.at(value.first);
    const bool is_operand = source.opcode == HloOpcode::kParameter;
    Array& array = arrays_[is_operand ? array_of_operand(source) : whole_.at(value)];
    array.results.push_back(operands + static_cast<int>(i));
  }
}

bool SequenceKernel::makes_everywhere(const Member& member, std::size_t output) const {
  bool all = true;
  for (std::size_t i = 0; i < member.kernel->inputs().size(); ++i) {
    all = all && arrays_[member.arrays[i]].is_everywhere;
  }
  return member.kernel->makes_everywhere(output, all);
}

/// Operands are spread when they have come; state has to be so in every iteration.
bool SequenceKernel::begins_everywhere(std::size_t array) const {
  const Array& operand = arrays_[array];
  if (!is_loop() || moves(operand.operand)) return true;
  const int next = loop_.next[static_cast<std::size_t>(operand.operand)];
  if (next < 0) return true;
  const int result = static_cast<int>(sequence_.parameters().size()) + next;
  return std::all_of(arrays_.begin(), arrays_.end(), [result](const Array& each) {
    return !contains(each.results, result) || each.is_everywhere;
  });
}

/// Which scalars stand in all lanes: all of them, less those that something else is made of.
void SequenceKernel::find_scalars() {
  for (Array& array : arrays_) array.is_everywhere = array.is_scalar();
  for (const Member& member : members_) {
    const std::vector<SequenceMember::Input>& inputs = member.kernel->inputs();
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].shape.rank() > 0) arrays_[member.arrays[i]].is_everywhere = false;
    }
  }
  for (bool changed = true; changed;) {
    changed = false;
    const auto set = [&](Array& array, bool holds) {
      changed = changed || (array.is_everywhere && !holds);
      array.is_everywhere = array.is_everywhere && holds;
    };
    for (std::size_t i = 0; i < arrays_.size(); ++i) {
      if (arrays_[i].operand >= 0) set(arrays_[i], begins_everywhere(i));
    }
    for (const Member& member : members_) {
      const std::size_t inputs = member.kernel->inputs().size();
      for (std::size_t i = inputs; i < member.arrays.size(); ++i) {
        set(arrays_[member.arrays[i]], makes_everywhere(member, i - inputs));
      }
    }
  }
  for (Member& member : members_) {
    const std::vector<SequenceMember::Input>& inputs = member.kernel->inputs();
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const bool is_scalar = inputs[i].shape.rank() == 0;
      if (is_scalar && arrays_[member.arrays[i]].is_everywhere) member.kernel->set_everywhere(i);
    }
  }
}

/// The scalars among the operands that a member is the first to read, in all lanes.
void SequenceKernel::spread_scalars(std::size_t member, bool moving) {
  for (const Array& array : arrays_) {
    if (!array.is_everywhere || array.operand < 0 || array.first_member != member) continue;
    if (moves(array.operand) != moving) continue;
    const VReg lane = builder_.and_(builder_.lane_sequence(), 127);
    const MReg chosen = builder_.vector_compare(isa::Opcode::kVcmpEqS32, lane, 0);
    const VReg value =
        spread_chosen(builder_, builder_.load(VmemAddress(array.region)), chosen, array.shape.type);
    builder_.store(VmemAddress(array.region).mask(0x1), value);
  }
}

/// That of an operand which is a result, too.
std::size_t SequenceKernel::array_of_operand(const HloInstruction& parameter) {
  const int operand = static_cast<int>(parameter.parameter_number);
  for (std::size_t i = 0; i < arrays_.size(); ++i) {
    const Array& known = arrays_[i];
    const bool is_same = known.operand == operand && known.part == ArrayPart{};
    if (is_same && granules(known.shape) == granules(parameter.shape)) return i;
  }
  Array array;
  array.shape = parameter.shape;
  array.operand = operand;
  array.rows = rows_of_array(array.shape);
  arrays_.push_back(std::move(array));
  return arrays_.size() - 1;
}

/// Flags, descriptors and the addresses in SMEM, so that they take no registers.
void SequenceKernel::prepare() {
  const HloInstruction& root = sequence_.at(sequence_.root);
  const std::size_t results = root.opcode == HloOpcode::kTuple ? root.operands.size() : 1;
  const std::size_t addresses = sequence_.parameters().size() + results;
  address_words_ = builder_.allocate_smem(static_cast<std::uint32_t>(addresses));
  for (std::size_t i = 0; i < addresses; ++i) {
    builder_.store_smem(address_words_ + static_cast<std::uint32_t>(i),
                        builder_.operand(static_cast<int>(i)));
  }
  // Many addresses take most registers until they are in SMEM.
  if (addresses > kMostHeldAddresses) builder_.new_block();
  for (std::size_t i = 0; i < std::min(members_.size(), kMostLoadFlags); ++i) {
    load_flags_.push_back(builder_.allocate_flag());
  }
  store_flag_ = builder_.allocate_flag();
  for (std::size_t i = 0; i < arrays_.size(); ++i) {
    const Array& array = arrays_[i];
    if (array.operand < 0) continue;
    StridedBox box{static_cast<std::uint32_t>(granules(array.shape))};
    if (!array.part.is_one_range()) {
      box.run = static_cast<std::uint32_t>(array.part.run * array.row_granules);
      box.runs = static_cast<std::uint32_t>(granules(array.shape)) / box.run;
      box.hbm_stride = static_cast<std::uint32_t>(array.part.pitch);
    }
    dmas_[i] = BoxDma(builder_, true, box);
  }
}

SReg SequenceKernel::address(int place, SReg iteration) {
  const SReg first = builder_.load_smem(address_words_ + static_cast<std::uint32_t>(place));
  if (!moves(place)) return first;
  const std::int64_t step = loop_.steps[static_cast<std::size_t>(place)];
  const SReg way = builder_.mul(iteration, static_cast<std::uint32_t>(step < 0 ? -step : step));
  return step < 0 ? builder_.sub(first, way) : builder_.add(first, way);
}

/// Starts the loads of the operands whose addresses stay, or those of an iteration.
void SequenceKernel::start_loads(bool moving, SReg iteration) {
  for (std::size_t i = 0; i < arrays_.size(); ++i) {
    const Array& array = arrays_[i];
    if (array.operand < 0 || moves(array.operand) != moving) continue;
    SReg from = address(array.operand, iteration);
    if (array.part.granule != 0) from = builder_.add(from, array.part.granule);
    const std::uint32_t flag =
        moving ? ahead_flag_ : load_flags_[std::min(array.first_member, load_flags_.size() - 1)];
    dmas_.at(i).start(from, moving ? array.ahead : array.region, flag);
  }
}

/// Waits for what loads bring whose addresses stay; the last flag's are those of all later members.
void SequenceKernel::wait_for(std::size_t flag) {
  std::uint64_t coming = 0;
  for (const Array& array : arrays_) {
    if (array.operand < 0 || moves(array.operand)) continue;
    if (std::min(array.first_member, load_flags_.size() - 1) != flag) continue;
    coming += granules(array.shape);
  }
  if (coming > 0) builder_.wait(load_flags_[flag], coming);
}

/// Writes what members up to this one have made, once all operands have come.
void SequenceKernel::start_stores(std::size_t member) {
  const std::size_t last_load = load_flags_.size() - 1;
  for (const Array& array : arrays_) {
    if (std::max(array.first_member, last_load) != member) continue;
    for (int result : array.results) {
      builder_.dma_out(array.region, address(result, {}), granules(array.shape), store_flag_);
      storing_ += granules(array.shape);
    }
  }
}

void SequenceKernel::finish_stores() {
  if (storing_ > 0) builder_.wait(store_flag_, storing_);
  storing_ = 0;
}

void SequenceKernel::run_members() {
  for (std::size_t i = 0; i < members_.size(); ++i) {
    if (!is_loop() && i < load_flags_.size()) wait_for(i);
    spread_scalars(i, is_loop());
    for (const Array& array : arrays_) {
      if (array.whole < 0 || array.first_member != i) continue;
      copy_part(arrays_[static_cast<std::size_t>(array.whole)].region, array);
    }
    std::vector<VmemRegion> regions;
    for (std::size_t array : members_[i].arrays) regions.push_back(arrays_[array].region);
    members_[i].kernel->emit(regions);
    builder_.new_block();
    if (!is_loop()) start_stores(i);
  }
  if (!is_loop()) finish_stores();
}

void SequenceKernel::prepare_loop() {
  for (Array& array : arrays_) {
    const std::uint64_t rows = rows_of_array(array.shape);
    if (array.operand >= 0 && moves(array.operand)) array.ahead = builder_.allocate_vmem(rows);
    if (leaves_moving(array)) array.behind = builder_.allocate_vmem(rows);
  }
  ahead_flag_ = builder_.allocate_flag();
}

/// The operands that have come take their places; those of the next iteration are requested.
void SequenceKernel::begin_iteration(SReg iteration) {
  std::uint64_t coming = 0;
  for (const Array& array : arrays_) {
    if (array.ahead.rows > 0) coming += granules(array.shape);
  }
  if (coming == 0) return;
  builder_.wait(ahead_flag_, coming);
  builder_.new_block();
  for (const Array& array : arrays_) {
    if (array.ahead.rows > 0) copy(array.ahead, array.region, granules(array.shape));
  }
  builder_.new_block();
  builder_.if_(builder_.less(iteration, loop_.trips - 1),
               [&] { start_loads(true, builder_.add(iteration, 1)); });
}

/// The results take their places when those of the iteration before have left them, and leave.
void SequenceKernel::end_iteration(SReg iteration) {
  std::uint64_t leaving = 0;
  for (const Array& array : arrays_) {
    for (int result : array.results) leaving += moves(result) ? granules(array.shape) : 0;
  }
  if (leaving == 0) return;
  builder_.if_(builder_.less(0, iteration), [&] { builder_.wait(store_flag_, leaving); });
  builder_.new_block();
  for (const Array& array : arrays_) {
    if (array.behind.rows > 0) copy(array.region, array.behind, granules(array.shape));
  }
  builder_.new_block();
  for (const Array& array : arrays_) {
    for (int result : array.results) {
      if (!moves(result)) continue;
      builder_.dma_out(array.behind, address(result, iteration), granules(array.shape),
                       store_flag_);
    }
  }
  storing_ = leaving;  // By the last iteration.
}

void SequenceKernel::copy(VmemRegion from, VmemRegion to, std::uint64_t granules,
                          std::int64_t from_row, std::int64_t to_row) {
  const std::uint64_t registers = ceil_divide(kRowsPerGranule * granules, 8);
  const auto copy_register = [&](std::uint64_t index, SReg base) {
    const auto row = static_cast<std::int64_t>(8 * index);
    builder_.store(VmemAddress(to, to_row + row, base),
                   builder_.load(VmemAddress(from, from_row + row, base)));
  };
  const std::uint64_t trips = registers / kCopiedAtOnce;
  builder_.loop(trips, [&](SReg index) {
    const SReg base = builder_.mul(index, 8 * kCopiedAtOnce);
    for (std::uint64_t i = 0; i < kCopiedAtOnce; ++i) copy_register(i, base);
  });
  for (std::uint64_t i = trips * kCopiedAtOnce; i < registers; ++i) copy_register(i, {});
}

/// Ranges of a part come one after the other, so what the last register of one takes too much the
/// next one mends.
void SequenceKernel::copy_part(VmemRegion whole, const Array& to) {
  const std::uint64_t all = granules(to.shape);
  const std::uint64_t run =
      to.part.is_one_range() ? all : static_cast<std::uint64_t>(to.part.run * to.row_granules);
  std::int64_t from_granule = to.part.granule;
  for (std::uint64_t done = 0; done < all; done += run, from_granule += to.part.pitch) {
    copy(whole, to.region, run, std::int64_t{kRowsPerGranule} * from_granule,
         static_cast<std::int64_t>(kRowsPerGranule * done));
  }
}

/// The results of an iteration become operands of the next one. Operands that change places go by
/// a place between.
void SequenceKernel::pass_state_on() {
  struct Move {
    VmemRegion from;
    const Array* to = nullptr;
  };
  const int operands = static_cast<int>(sequence_.parameters().size());
  for (Array& array : arrays_) {
    // What moves has left already; the rest is state, or leaves behind the last iteration.
    const bool stays = std::any_of(array.results.begin(), array.results.end(),
                                   [this](int result) { return !moves(result); });
    if (array.operand < 0 || !stays) continue;
    array.handed_on = builder_.allocate_vmem(rows_of_array(array.shape));
    copy(array.region, array.handed_on, granules(array.shape));
  }
  std::vector<Move> moves;
  for (const Array& to : arrays_) {
    if (to.operand < 0 || loop_.next[static_cast<std::size_t>(to.operand)] < 0) continue;
    const int result = operands + loop_.next[static_cast<std::size_t>(to.operand)];
    const auto from = std::find_if(arrays_.begin(), arrays_.end(), [result](const Array& each) {
      return contains(each.results, result);
    });
    TPU_CHECK(from != arrays_.end(), "state without a value");
    moves.push_back({from->operand >= 0 ? from->handed_on : from->region, &to});
  }
  for (const Move& move : moves) copy_part(move.from, *move.to);
}

std::optional<LoweredKernel> SequenceKernel::make(bool may_spill) {
  prepare();
  start_loads(false, {});
  if (!is_loop()) {
    run_members();
  } else {
    for (std::size_t i = 0; i < load_flags_.size(); ++i) wait_for(i);
    for (std::size_t i = 0; i <= members_.size(); ++i) spread_scalars(i, false);
    builder_.new_block();
    prepare_loop();
    start_loads(true, builder_.constant(0));
    builder_.new_block();
    builder_.loop(loop_.trips, [this](SReg iteration) {
      begin_iteration(iteration);
      run_members();
      end_iteration(iteration);
      pass_state_on();
    });
    for (const Array& array : arrays_) {
      const VmemRegion& last = array.handed_on.rows > 0 ? array.handed_on : array.region;
      for (int result : array.results) {
        if (moves(result)) continue;
        builder_.dma_out(last, address(result, {}), granules(array.shape), store_flag_);
        storing_ += granules(array.shape);
      }
    }
    finish_stores();
  }
  return lowered_kernel(builder_, may_spill);
}

}  // namespace

bool is_kernel_sequence(const HloInstruction& instruction) {
  return instruction.opcode == HloOpcode::kFusion && instruction.fusion_kind.get() == "kCustom";
}

namespace {

/// Without members each result is an operand: all come, then all leave.
LoweredKernel lower_copies(const Computation& sequence, const std::string& name,
                           const Target& target) {
  KernelBuilder builder(name, target);
  const std::uint32_t come = builder.allocate_flag(), leave = builder.allocate_flag();
  const auto operands = static_cast<int>(sequence.parameters().size());
  std::vector<VmemRegion> regions;
  std::uint64_t coming = 0, leaving = 0;
  for (int i = 0; i < operands; ++i) {
    const hlo::Shape& shape =
        sequence.at(sequence.parameters().at(static_cast<std::size_t>(i))).shape;
    regions.push_back(builder.allocate_vmem(rows_of_array(shape)));
    builder.dma_in(builder.operand(i), VmemAddress(regions.back()), granules(shape), come);
    coming += granules(shape);
  }
  builder.wait(come, coming);
  const std::vector<InstructionId>& results = sequence.at(sequence.root).operands;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const HloInstruction& operand = sequence.at(results[i]);
    builder.dma_out(VmemAddress(regions.at(static_cast<std::size_t>(operand.parameter_number))),
                    builder.operand(operands + static_cast<int>(i)), granules(operand.shape),
                    leave);
    leaving += granules(operand.shape);
  }
  builder.wait(leave, leaving);
  return lowered_kernel(builder);
}

}  // namespace

LoweredKernel lower_sequence(const hlo::Module& module, const HloInstruction& instruction,
                             const Target& target, const SequenceLoop& loop) {
  const Computation& sequence = module.computation(instruction.called[0]);
  if (std::none_of(sequence.instructions.begin(), sequence.instructions.end(), is_member)) {
    TPU_CHECK(loop.trips == 1, instruction.name << ": a loop of copies");
    return lower_copies(sequence, instruction.name, target);
  }
  // Members that need more registers than there are get less code that overlaps.
  std::vector<MemberLimits> limits;
  for (bool may_spill = false;;) {
    SequenceKernel kernel(module, sequence, instruction.name, target, loop, limits);
    if (std::optional<LoweredKernel> made = kernel.make(may_spill)) return std::move(*made);
    may_spill = !kernel.reduce(limits);
  }
}

}  // namespace tpu::compiler
