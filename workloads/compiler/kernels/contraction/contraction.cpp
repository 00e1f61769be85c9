#include "workloads/compiler/kernels/contraction/contraction.h"

#include <memory>
#include <optional>
#include <utility>

namespace tpu::compiler {

namespace {

/// Places of a walk, which the step before has computed.
class PlacesAhead {
 public:
  /// `first`: of the step that begins; `second` tells which change from step to step.
  PlacesAhead(KernelBuilder& builder, std::vector<SReg> first, const std::vector<SReg>& second)
      : builder_(builder), places_(std::move(first)), variables_(places_.size()) {
    for (std::size_t i = 0; i < places_.size(); ++i) {
      if (places_[i] != second[i]) variables_[i] = builder.scalar_variable(places_[i]);
    }
  }

  std::vector<SReg> get() const {
    std::vector<SReg> places = places_;
    for (std::size_t i = 0; i < places.size(); ++i) {
      if (variables_[i]) places[i] = builder_.get(*variables_[i]);
    }
    return places;
  }

  void set(const std::vector<SReg>& places) {
    for (std::size_t i = 0; i < places.size(); ++i) {
      if (variables_[i]) builder_.set(*variables_[i], places[i]);
    }
  }

 private:
  KernelBuilder& builder_;
  std::vector<SReg> places_;
  std::vector<std::optional<SVariable>> variables_;
};

}  // namespace

void emit_steps(KernelBuilder& builder, MatmulStream& stream, const Contraction& contraction) {
  StepCounter counter(builder, contraction.extents);
  const Digits first = counter.present(), second = counter.next(), third = counter.behind(second);
  const auto &moving = contraction.moving, &stationary = contraction.stationary;
  const std::vector<SReg> begin = stationary.places(first), behind = stationary.places(second);
  PlacesAhead rows(builder, moving.places(first), moving.places(second));
  PlacesAhead weights(builder, behind, stationary.places(third));
  MatmulStream::Step step;
  step.pushes = contraction.pushes;
  step.transposed = contraction.transposed;
  step.next_weights = stationary.tiles({}, begin);
  stream.begin(step);
  const auto emit_step = [&](SReg index, bool is_first, bool has_other_work) {
    const Digits digits = counter.present();
    // What the units wait for comes first: codegen places instructions in the order of the program.
    step.rows = moving.tiles(digits, rows.get());
    step.next_weights = stationary.tiles(digits, weights.get());
    step.consume = contraction.sums(digits, is_first ? builder.less(0, index) : PReg());
    Digits next;
    const auto make_next = [&] { return next.empty() ? next = counter.next() : next; };
    Contraction::Meanwhile meanwhile;
    if (has_other_work) meanwhile = contraction.meanwhile(digits, make_next, index);
    step.meanwhile = meanwhile.push;
    stream.step(step);
    make_next();
    const std::vector<SReg> next_rows = moving.places(next);
    const std::vector<SReg> next_weights = stationary.places(counter.behind(next));
    if (meanwhile.end) meanwhile.end();
    contraction.advance();
    rows.set(next_rows);
    weights.set(next_weights);
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
    const std::function<std::uint32_t(std::uint32_t unit, std::uint32_t i, std::uint32_t part)>&
        place,
    const std::function<VReg(std::uint32_t place, std::uint32_t part)>& load) {
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
    if (i < form_.beginning) source.mask_register = here.mask;
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
