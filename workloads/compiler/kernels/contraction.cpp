#include "workloads/compiler/kernels/contraction.h"

#include <memory>
#include <utility>

namespace tpu::compiler {

void emit_steps(KernelBuilder& builder, MatmulStream& stream, const Contraction& contraction) {
  StepCounter counter(builder, contraction.extents);
  MatmulStream::Step step;
  step.pushes = contraction.pushes;
  step.transposed = contraction.transposed;
  step.next_weights = contraction.stationary({}, Digits(contraction.extents.size()));
  stream.begin(step);
  const auto emit_step = [&](SReg index, bool is_first, bool has_other_work) {
    const Digits digits = counter.present();
    const Digits next = counter.next();
    step.rows = contraction.moving(digits);
    step.consume = contraction.sums(digits, is_first ? builder.less(0, index) : PReg());
    step.next_weights = contraction.stationary(digits, next);
    Contraction::Meanwhile meanwhile;
    if (has_other_work) meanwhile = contraction.meanwhile(digits, next, index);
    step.meanwhile = meanwhile.push;
    stream.step(step);
    if (meanwhile.end) meanwhile.end();
    contraction.advance();
    counter.advance(next);
  };
  const std::uint64_t all = counter.steps();
  const std::uint64_t before = contraction.meanwhile ? contraction.steps_before : all;
  const std::uint64_t until = contraction.meanwhile ? contraction.steps_until.value_or(all) : all;
  loop_over_steps(builder, before, contraction.steps_at_once,
                  [&](SReg index) { emit_step(index, true, false); });
  loop_over_steps(builder, until - before, contraction.steps_at_once,
                  [&](SReg index) { emit_step(index, before == 0, true); });
  loop_over_steps(builder, all - until, contraction.steps_at_once,
                  [&](SReg index) { emit_step(index, false, false); });
  step.meanwhile = {};
  step.consume = contraction.sums({}, {});
  stream.end(step);
  builder.new_block();
}

SReg table_word(KernelBuilder& builder, std::uint32_t word, std::uint32_t words, SReg digit) {
  return digit ? builder.load_smem(word, builder.mul(digit, words)) : builder.load_smem(word);
}

Contraction::Tiles loaded_once(
    std::function<std::uint32_t(std::uint32_t unit, std::uint32_t i, std::uint32_t part)> place,
    std::function<VReg(std::uint32_t place, std::uint32_t part)> load) {
  auto loaded = std::make_shared<std::map<std::uint32_t, VReg>>();
  return [=](std::uint32_t unit, std::uint32_t i, std::uint32_t part) {
    const std::uint32_t at = place(unit, i, part);
    const auto [found, is_new] = loaded->try_emplace(at);
    if (is_new) found->second = load(at, part);
    return found->second;
  };
}

RunningSums::RunningSums(KernelBuilder& builder, const MatmulUnits& units, const VmemAddress& sums,
                         Form form)
    : builder_(builder), units_(units), region_(sums.region), form_(std::move(form)) {
  previous_row_ = builder.scalar_variable(sums.base ? ScalarOperand(sums.base) : ScalarOperand(0));
  if (form_.has_masks) previous_mask_ = builder.scalar_variable(0);
}

Contraction::Results RunningSums::at(const Place& place, PReg started) {
  present_ = place;
  if (!present_.row) present_.row = builder_.constant(0);
  return results(present_, started);
}

Contraction::Results RunningSums::results(const Place& place, PReg started) {
  Place before{builder_.get(previous_row_), {}};
  if (form_.has_masks) before.mask = builder_.get(previous_mask_);
  auto groups = std::make_shared<GroupSums>(builder_, units_);
  return [=](std::uint32_t unit, std::uint32_t i, bool previous, VReg result) {
    if (form_.adds_groups && !groups->add(unit, result)) return;
    const Place& here = previous ? before : place;
    const VmemAddress address(region_, form_.offset(unit, i), here.row);
    VmemAddress source = address;
    source.mask_register = here.mask;
    const VReg sum = form_.is_only_step ? result : builder_.add(builder_.load(source), result);
    const auto guard = previous && started ? PredicateOperand(started) : PredicateOperand(true);
    builder_.guarded(guard, [&] { builder_.store(address, sum); });
  };
}

void RunningSums::advance() {
  builder_.set(previous_row_, present_.row);
  if (form_.has_masks) builder_.set(previous_mask_, present_.mask);
}

bool GroupSums::add(std::uint32_t unit, VReg& result) {
  VReg& sum = sums_[units_.column_of(unit)];
  if (units_.group_of(unit) > 0) result = builder_.add(sum, result);
  sum = result;
  return units_.group_of(unit) + 1 == units_.groups();
}

}  // namespace tpu::compiler
