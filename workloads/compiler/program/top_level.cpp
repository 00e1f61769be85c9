#include "workloads/compiler/program/top_level.h"

#include "isa/opcode_table.h"
#include "sim/base/error.h"
#include "workloads/compiler/codegen/kernel_builder.h"

namespace tpu::compiler {

namespace {

using isa::Opcode;
using isa::Operand;

/// SMEM words below those of the kernels: the trips of loops, then a granule for words from HBM.
constexpr std::uint32_t kTripWords = 64;
constexpr std::uint32_t kMostLoops = 64;
constexpr std::uint32_t kFetchedWords = 256;
constexpr std::uint32_t kFetchFlag = kKernelFlags.begin;  // No kernel runs meanwhile.
static_assert(kFetchedWords + isa::kHbmGranuleBytes / isa::kSmemWordBytes <= kKernelSmemBegin);

isa::Address smem_word(std::uint32_t word) {
  isa::Address address;
  address.offset = static_cast<std::int32_t>(word);
  return address;
}

}  // namespace

void TopLevel::begin_bundle() {
  isa::Bundle bundle;
  bundle.first_instruction = static_cast<std::uint32_t>(kernel_.instructions.size());
  kernel_.bundles.push_back(bundle);
  is_target_ = false;
}

isa::Instruction& TopLevel::add(Opcode opcode) {
  kernel_.instructions.emplace_back();
  kernel_.instructions.back().opcode = opcode;
  ++kernel_.bundles.back().instruction_count;
  return kernel_.instructions.back();
}

void TopLevel::move_with_iterations(const std::vector<CallOperand>& operands) {
  TPU_CHECK(!trips_.empty(), "an address moves with the iterations of no loop");
  const auto left = static_cast<std::uint8_t>(operands.size());
  begin_bundle();
  isa::Instruction& load = add(Opcode::kSld);
  load.dest = left;
  load.address = smem_word(kTripWords + static_cast<std::uint32_t>(trips_.size()) - 1);
  begin_bundle();  // The load takes two cycles.
  const Opcode multiply =
      isa::generation_has(chip_, Opcode::kSmulU32, 0) ? Opcode::kSmulU32 : Opcode::kSmulU24;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const std::int64_t step = operands[i].step;
    if (step == 0) continue;
    begin_bundle();
    isa::Instruction& product = add(multiply);
    product.dest = static_cast<std::uint8_t>(i);
    product.operands[0] = Operand::register_(left);
    product.operands[1] = Operand::immediate_(static_cast<std::uint32_t>(step > 0 ? step : -step));
    begin_bundle();
    isa::Instruction& sum = add(step > 0 ? Opcode::kSsubS32 : Opcode::kSaddS32);
    const std::int64_t end = operands[i].number + step * static_cast<std::int64_t>(trips_.back());
    sum.dest = static_cast<std::uint8_t>(i);
    sum.operands[0] = Operand::immediate_(static_cast<std::uint32_t>(end));
    sum.operands[1] = Operand::register_(static_cast<std::uint8_t>(i));
  }
}

void TopLevel::call(std::uint32_t call_site, const std::vector<CallOperand>& operands) {
  std::size_t fixed = 0;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].step != 0) continue;
    if (fixed++ % 2 == 0) begin_bundle();
    isa::Instruction& move = add(Opcode::kSmov);
    move.dest = static_cast<std::uint8_t>(i);
    move.operands[0] = Operand::immediate_(operands[i].number);
  }
  if (fixed < operands.size()) move_with_iterations(operands);
  begin_bundle();
  add(Opcode::kCall).operands[0] = Operand::immediate_(call_site);
}

void TopLevel::fetch_word(std::uint32_t granule) {
  begin_bundle();
  isa::Instruction& dma = add(Opcode::kDmaHbmToSmem);
  dma.operands = {Operand::immediate_(granule), Operand::immediate_(1),
                  Operand::immediate_(kFetchedWords), Operand::immediate_(kFetchFlag)};
  begin_bundle();
  isa::Instruction& wait = add(Opcode::kDmaDoneWait);
  wait.operands[0] = Operand::immediate_(kFetchFlag);
  wait.operands[1] = Operand::immediate_(1);
  begin_bundle();
  isa::Instruction& clear = add(Opcode::kVsyncadd);
  clear.operands[0] = Operand::immediate_(kFetchFlag);
  clear.operands[1] = Operand::immediate_(~std::uint32_t{0});
  begin_bundle();
  isa::Instruction& load = add(Opcode::kSld);
  load.dest = 0;
  load.address = smem_word(kFetchedWords);
  begin_bundle();  // The load takes two cycles.
}

void TopLevel::compare(Opcode opcode, std::uint32_t number) {
  begin_bundle();
  isa::Instruction& test = add(opcode);
  test.dest = 0;
  test.operands[0] = Operand::register_(0);
  test.operands[1] = Operand::immediate_(number);
}

std::size_t TopLevel::branch_if(bool holds, std::uint32_t target) {
  begin_bundle();
  isa::Instruction& jump = add(Opcode::kSbrRel);
  jump.guard = {0, !holds};
  jump.operands[0] = Operand::immediate_(target);
  const std::size_t branch = kernel_.instructions.size() - 1;
  begin_bundle();  // The delay slot.
  is_target_ = true;
  return branch;
}

void TopLevel::counted_loop(std::uint64_t trips, const std::function<void()>& body) {
  TPU_CHECK(trips > 0 && trips < (std::uint64_t{1} << 31), "a loop of " << trips << " trips");
  if (trips_.size() == kMostLoops) {
    throw WorkloadError("expected at most " + std::to_string(kMostLoops) +
                        " loops inside each other, found more");
  }
  const isa::Address word = smem_word(kTripWords + static_cast<std::uint32_t>(trips_.size()));
  begin_bundle();
  isa::Instruction& store = add(Opcode::kSst);
  store.address = word;
  store.operands[0] = Operand::immediate_(static_cast<std::uint32_t>(trips));
  const std::uint32_t begin = here();
  trips_.push_back(trips);
  body();
  trips_.pop_back();
  begin_bundle();
  isa::Instruction& load = add(Opcode::kSld);
  load.dest = 0;
  load.address = word;
  begin_bundle();
  begin_bundle();
  isa::Instruction& count = add(Opcode::kSsubS32);
  count.dest = 0;
  count.operands[0] = Operand::register_(0);
  count.operands[1] = Operand::immediate_(1);
  compare(Opcode::kScmpGtS32, 0);
  isa::Instruction& keep = add(Opcode::kSst);
  keep.address = word;
  keep.operands[0] = Operand::register_(0);
  branch_if(true, begin);
}

isa::ControlPoint TopLevel::tested_loop(std::uint32_t granule, const std::function<void()>& test,
                                        const std::function<void()>& body) {
  const std::uint32_t begin = here();
  test();
  fetch_word(granule);
  compare(Opcode::kScmpEqS32, 0);
  const std::size_t leave = branch_if(true, 0);
  isa::ControlPoint point;
  point.bundle = branch_bundle();
  body();
  begin_bundle();
  isa::Instruction& again = add(Opcode::kSbrRel);
  again.operands[0] = Operand::immediate_(begin);
  begin_bundle();
  aim(leave);
  is_target_ = true;
  return point;
}

std::vector<isa::ControlPoint> TopLevel::branches(std::uint32_t granule, bool by_predicate,
                                                  std::size_t count,
                                                  const std::function<void(std::size_t)>& branch) {
  std::vector<isa::ControlPoint> points;
  std::vector<std::size_t> leaves;
  for (std::size_t i = 0; i < count; ++i) {
    std::size_t skip = 0;
    const bool is_last = i + 1 == count;
    if (!is_last) {
      fetch_word(granule);
      compare(Opcode::kScmpEqS32, by_predicate ? 0 : static_cast<std::uint32_t>(i));
      skip = branch_if(by_predicate, 0);
      isa::ControlPoint point;
      point.bundle = branch_bundle();
      point.first_branch = static_cast<std::uint32_t>(i);
      point.end_branch = point.first_branch + 1;
      points.push_back(point);
    }
    branch(i);
    if (is_last) break;
    begin_bundle();
    isa::Instruction& leave = add(Opcode::kSbrRel);
    leave.operands[0] = Operand::immediate_(0);
    leaves.push_back(kernel_.instructions.size() - 1);
    begin_bundle();
    aim(skip);
  }
  for (std::size_t leave : leaves) aim(leave);
  is_target_ = true;
  return points;
}

isa::Kernel TopLevel::take() {
  if (kernel_.bundles.empty() || is_target_) begin_bundle();
  return std::move(kernel_);
}

}  // namespace tpu::compiler
