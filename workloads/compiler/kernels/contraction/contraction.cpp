#include "workloads/compiler/kernels/contraction/contraction.h"

#include <array>
#include <memory>
#include <optional>
#include <utility>

#include "workloads/compiler/kernels/contraction/matmul_parts.h"

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

/// The tiles of a side as lots take them: each its part of them. They are loaded for each lot anew,
/// for they would keep their registers from the first one to the last.
class TilesInParts {
 public:
  /// Makes the tiles of a lot, which it counts from 0.
  using OfLot = std::function<Contraction::Tiles(std::uint32_t lot)>;

  /// Of the moving (0) or the stationary (1) side, with `pushes` in each lot.
  TilesInParts(MatmulParts& parts, std::size_t side, std::uint32_t pushes)
      : parts_(parts), side_(side), pushes_(pushes) {}

  std::uint32_t pushes() const { return pushes_; }
  /// From push `first` on.
  Contraction::Tiles tiles(const OfLot& of_lot, std::uint32_t first = 0) const {
    struct Lot {
      Contraction::Tiles tiles;
      std::map<std::uint32_t, VReg> made;  ///< By the register that the part is made of.
    };
    auto lots = std::make_shared<std::map<std::uint32_t, Lot>>();
    return [=, &parts = parts_, side = side_, pushes = pushes_](std::uint32_t unit, std::uint32_t i,
                                                                std::uint32_t part) {
      const std::uint32_t number = (first + i) / pushes % parts.lots();
      Lot& lot = (*lots)[number];
      if (!lot.tiles) lot.tiles = of_lot(number);
      const VReg rows = lot.tiles(unit, (first + i) % pushes, part);
      const auto [found, is_new] = lot.made.try_emplace(rows.id);
      if (is_new) found->second = parts.take(side, number, rows);
      return found->second;
    };
  }

 private:
  MatmulParts& parts_;
  std::size_t side_;
  std::uint32_t pushes_;
};

/// What a step streams and loads, and where it finds that: of a step that begins, and of the one
/// behind, whose weights it loads.
class StepSides {
 public:
  StepSides(KernelBuilder& builder, const MatmulStream& stream, const Contraction& contraction,
            const std::array<Digits, 3>& first)
      : contraction_(contraction),
        parts_(builder, contraction.parts),
        moving_in_parts_(parts_, 0, contraction.pushes),
        stationary_in_parts_(parts_, 1, stream.weight_pushes()),
        begin_(contraction.stationary.places(first[0])) {
    const Contraction::Walk &moving = contraction.moving, &stationary = contraction.stationary;
    const std::vector<SReg> second = stationary.places(first[1]);
    rows_.emplace(builder, moving.places(first[0]), moving.places(first[1]));
    if (is_in_parts()) present_.emplace(builder, begin_, second);
    weights_.emplace(builder, second, stationary.places(first[2]));
  }

  /// The weights of the first lot of the first step.
  Contraction::Tiles first_weights() const {
    const auto tiles = [this](std::uint32_t) { return contraction_.stationary.tiles({}, begin_); };
    return is_in_parts() ? stationary_in_parts_.tiles(tiles) : tiles(0);
  }
  Contraction::Tiles rows(const Digits& digits) const {
    const auto tiles = [=, places = rows_->get()](std::uint32_t) {
      return contraction_.moving.tiles(digits, places);
    };
    return is_in_parts() ? moving_in_parts_.tiles(tiles) : tiles(0);
  }
  /// Those of the lots but the first, then of the next step's first.
  Contraction::Tiles next_weights(const Digits& digits) const {
    const std::vector<SReg> behind = weights_->get();
    if (!is_in_parts()) return contraction_.stationary.tiles(digits, behind);
    const std::vector<SReg> present = present_->get();
    return stationary_in_parts_.tiles(
        [=](std::uint32_t lot) {
          return contraction_.stationary.tiles(digits, lot == 0 ? behind : present);
        },
        stationary_in_parts_.pushes());
  }
  void advance(const std::vector<SReg>& rows, const std::vector<SReg>& weights) {
    rows_->set(rows);
    if (present_) present_->set(weights_->get());
    weights_->set(weights);
  }

 private:
  bool is_in_parts() const { return parts_.lots() > 1; }

  const Contraction& contraction_;
  MatmulParts parts_;
  TilesInParts moving_in_parts_, stationary_in_parts_;
  std::vector<SReg> begin_;
  std::optional<PlacesAhead> rows_, present_, weights_;
};

}  // namespace

void emit_steps(KernelBuilder& builder, MatmulStream& stream, const Contraction& contraction) {
  StepCounter counter(builder, contraction.extents);
  const Digits first = counter.present(), second = counter.next(), third = counter.behind(second);
  const auto &moving = contraction.moving, &stationary = contraction.stationary;
  StepSides sides(builder, stream, contraction, {first, second, third});
  MatmulStream::Step step;
  step.pushes = contraction.pushes;
  step.transposed = contraction.transposed;
  step.next_weights = sides.first_weights();
  stream.begin(step);
  const auto emit_step = [&](SReg index, bool is_first, bool has_other_work) {
    const Digits digits = counter.present();
    // What the units wait for comes first: codegen places instructions in the order of the program.
    step.rows = sides.rows(digits);
    step.next_weights = sides.next_weights(digits);
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
    sides.advance(next_rows, next_weights);
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
    const VmemAddress address(region_, form_.offset(unit, i % form_.lot), here.row);
    const bool may_begin = i < form_.lot;
    VmemAddress source = address;
    if (may_begin) source.mask_register = here.mask;
    const bool is_sum = form_.is_only_step && may_begin;
    const VReg sum = is_sum ? result : builder_.add(builder_.load(source), result);
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
