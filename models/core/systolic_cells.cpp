#include "models/core/systolic_cells.h"

#include <algorithm>
#include <cstring>

#include "isa/cpu_clones.h"
#include "isa/meaning.h"
#include "sim/base/error.h"

namespace tpu {
namespace {

std::uint32_t power_of_two_from(std::uint32_t least) {
  std::uint32_t power = 1;
  while (power < least) power *= 2;
  return power;
}

float from_bf16(std::uint16_t bits) { return isa::as_float(std::uint32_t{bits} << 16); }

/// Eight columns of one level over several cycles.
struct EightColumns {
  const float* operands;  ///< Of the first row, cycle and group; a cycle later stands one before.
  std::size_t row_pitch;
  std::uint32_t width;  ///< Columns of a group.
  const float* weights;
  std::size_t weight_pitch;
  const float* first_from;  ///< Sums from above, of the first cycle.
  const float* from;        ///< Of the others: that of the first has a place, too.
  float* to;
  float* last_to;  ///< Those of the last cycle once more; or null.
  std::size_t sum_pitch;
};

// In front of the "=": behind the type clang takes the vector's own alignment.
using EightSums __attribute__((vector_size(32), aligned(4), may_alias)) = float;

constexpr std::uint32_t kHalves = 16;  ///< Weights that move as one vector.
using ManyHalves __attribute__((vector_size(2 * kHalves))) = std::uint16_t;

}  // namespace

/// The operands of eight neighbouring columns out of those of their groups; `kWidth` 0: any.
template <std::uint32_t kWidth>
TPU_INLINE void spread(const float* groups, std::size_t column, std::size_t width,
                       EightSums& operands) {
  if constexpr (kWidth == 4) {
    // Both operands into both halves of the vector, then one of them all over each half.
    using TwoOperands __attribute__((aligned(4), may_alias)) = double;
    using FourTimesTwo __attribute__((vector_size(32))) = double;
    const double two = *reinterpret_cast<const TwoOperands*>(groups);
    const FourTimesTwo all = {two, two, two, two};
    const EightSums pairs = reinterpret_cast<EightSums>(all);
    operands = __builtin_shufflevector(pairs, pairs, 0, 0, 0, 0, 5, 5, 5, 5);
  } else {
    for (std::size_t i = 0; i < 8; ++i) operands[i] = groups[(column % width + i) / width];
  }
}

/// The multiply-adds of `count` neighbouring columns (a multiple of eight) over `kRows` rows of one
/// level in `cycles` cycles (`kCycles`, where that is not 0); the weights stay.
template <int kRows, std::uint32_t kWidth, std::uint32_t kCycles, std::uint32_t kSumPitch>
TPU_INLINE void multiply_rows(const EightColumns at, std::size_t cycles, std::size_t count) {
  const std::size_t pitch = kSumPitch == 0 ? at.sum_pitch : kSumPitch;
  const std::size_t width = kWidth == 0 ? at.width : kWidth;
  for (std::size_t c = 0; c < count; c += 8) {
    EightSums weights[kRows];
    const float* groups[kRows];
    for (int r = 0; r < kRows; ++r) {
      weights[r] = *reinterpret_cast<const EightSums*>(at.weights + r * at.weight_pitch + c);
      groups[r] = at.operands + r * at.row_pitch + c / width;
    }
    EightSums sum{};
#pragma GCC unroll 8
    for (std::size_t t = 0; t < (kCycles == 0 ? cycles : kCycles); ++t) {
      const float* from = t == 0 ? at.first_from : at.from + t * pitch;
      sum = *reinterpret_cast<const EightSums*>(from + c);
      for (int r = 0; r < kRows; ++r) {
        EightSums operands;
        spread<kWidth>(groups[r] - t, c, width, operands);
        sum += operands * weights[r];
      }
      *reinterpret_cast<EightSums*>(at.to + t * pitch + c) = sum;
    }
    if (at.last_to != nullptr) *reinterpret_cast<EightSums*>(at.last_to + c) = sum;
  }
}

/// The same for any number of rows.
template <std::uint32_t kWidth, std::uint32_t kCycles, std::uint32_t kSumPitch>
TPU_INLINE void multiply_all_rows(EightColumns at, std::uint32_t rows, std::uint32_t cycles,
                                  std::uint32_t count) {
  for (; rows >= 2; rows -= 2) {
    multiply_rows<2, kWidth, kCycles, kSumPitch>(at, cycles, count);
    at.operands += 2 * at.row_pitch;
    at.weights += 2 * at.weight_pitch;
    at.first_from = at.from = at.to;
  }
  if (rows == 1) multiply_rows<1, kWidth, kCycles, kSumPitch>(at, cycles, count);
}

/// Arrays of 128 columns in groups of four are those that were built.
TPU_CPU_CLONES void multiply_cells(const EightColumns& at, std::uint32_t rows, std::uint32_t cycles,
                                   std::uint32_t count) {
  if (at.width != 4) {
    multiply_all_rows<0, 0, 0>(at, rows, cycles, count);
  } else if (cycles == 8 && at.sum_pitch == 128 + SystolicCells::kPadding) {
    multiply_all_rows<4, 8, 128 + SystolicCells::kPadding>(at, rows, cycles, count);
  } else {
    multiply_all_rows<4, 0, 0>(at, rows, cycles, count);
  }
}

/// Rows of weights of one level through eight steps down: those that are in the level, the topmost
/// first, what comes from above in each cycle, and what leaves in each.
struct EightSteps {
  std::uint16_t* rows;
  const std::uint16_t* from;
  std::uint16_t* to;
  std::size_t pitch;  ///< From row to row, and from cycle to cycle.
};

/// `count` neighbouring columns, each step of each row a move by one row.
template <std::uint32_t kRows, std::size_t kPitch, class Halves>
TPU_INLINE void step_columns_down(const EightSteps at, std::size_t c) {
  const std::size_t pitch = kPitch == 0 ? at.pitch : kPitch;
  constexpr std::uint32_t kSteps = 8;
  Halves passing[kRows + kSteps];  // In the order in which they leave.
#pragma GCC unroll 16
  for (std::uint32_t r = 0; r < kRows; ++r) {
    std::memcpy(&passing[kRows - 1 - r], at.rows + r * pitch + c, sizeof(Halves));
  }
#pragma GCC unroll 16
  for (std::uint32_t t = 0; t < kSteps; ++t) {
    std::memcpy(&passing[kRows + t], at.from + t * pitch + c, sizeof(Halves));
  }
#pragma GCC unroll 16
  for (std::uint32_t t = 0; t < kSteps; ++t) {
    std::memcpy(at.to + t * pitch + c, &passing[t], sizeof(Halves));
  }
#pragma GCC unroll 16
  for (std::uint32_t r = 0; r < kRows; ++r) {
    std::memcpy(at.rows + r * pitch + c, &passing[kSteps + kRows - 1 - r], sizeof(Halves));
  }
}

template <std::uint32_t kRows, std::size_t kPitch>
TPU_INLINE void step_rows_down(const EightSteps at, std::size_t count) {
  std::size_t c = 0;
  for (; c + kHalves <= count; c += kHalves) step_columns_down<kRows, kPitch, ManyHalves>(at, c);
  for (; c < count; ++c) step_columns_down<kRows, kPitch, std::uint16_t>(at, c);
}

/// False for another number of rows than levels have in arrays that are looked at.
TPU_CPU_CLONES bool step_down(const EightSteps& at, std::uint32_t rows, std::size_t count) {
  if (rows == 1) step_rows_down<1, 0>(at, count);
  if (rows == 2 && at.pitch == 128) {
    step_rows_down<2, 128>(at, count);
  } else if (rows == 2) {
    step_rows_down<2, 0>(at, count);
  }
  if (rows == 4) step_rows_down<4, 0>(at, count);
  return rows == 1 || rows == 2 || rows == 4;
}

/// Steps the weights of `groups` neighbouring groups of a row by one column: each takes what was
/// handed to it and hands on its last.
TPU_CPU_CLONES void step_right(const std::uint64_t* __restrict handed,
                               std::uint64_t* __restrict out, std::uint16_t* __restrict cells,
                               std::uint32_t groups, std::uint32_t width) {
  if (width == 4) {
    using FourCells __attribute__((aligned(2), may_alias)) = std::uint64_t;
    FourCells* four = reinterpret_cast<FourCells*>(cells);
    for (std::uint32_t g = 0; g < groups; ++g) {
      const std::uint64_t old = four[g];
      out[g] = old >> 48;
      four[g] = old << 16 | handed[g];
    }
    return;
  }
  for (std::uint32_t g = 0; g < groups; ++g, cells += width) {
    out[g] = cells[width - 1];
    std::copy_backward(cells, cells + width - 1, cells + width);
    cells[0] = static_cast<std::uint16_t>(handed[g]);
  }
}

/// Eight steps of groups of four, the first of which takes `entering` (four weights a word, the
/// oldest highest). Eight steps move a weight by four cells, a register between groups and three or
/// four cells more: a group ends with the youngest of the group before, what was handed to that
/// one, and the two oldest of the group before it.
TPU_CPU_CLONES void step_right_eight(std::uint64_t* handed, std::uint16_t* cells,
                                     std::uint32_t groups, std::array<std::uint64_t, 2> entering) {
  using FourCells __attribute__((aligned(2), may_alias)) = std::uint64_t;
  constexpr std::uint32_t kMost = CellArray::kPart / 4;
  FourCells* four = reinterpret_cast<FourCells*>(cells);
  std::uint64_t before[kMost], handed_before[kMost];
  for (std::uint32_t g = 0; g < groups; ++g) before[g] = four[g];
  for (std::uint32_t g = 0; g < groups; ++g) handed_before[g] = handed[g];
  for (std::uint32_t g = 2; g < groups; ++g) {
    four[g] = before[g - 1] << 48 | handed_before[g - 1] << 32 | before[g - 2] >> 32;
  }
  for (std::uint32_t g = 2; g <= groups; ++g) handed[g] = before[g - 2] >> 16 & 0xffff;
  four[0] = entering[1];
  if (groups == 1) {
    handed[1] = entering[0] & 0xffff;
    return;
  }
  four[1] = before[0] << 48 | entering[0] >> 16;
  handed[1] = entering[0] & 0xffff;
}

SystolicCells::SystolicCells(const CellArray& shape)
    : shape_(shape),
      ring_(power_of_two_from(shape.levels() + shape.groups() + kAhead + kAtOnce)),
      ring_pitch_(kAtOnce + ring_ + shape.groups() + kPadding),
      part_levels_(shape.part_rows() / shape.sum_cells),
      part_groups_(shape.part_columns() / shape.operand_cells) {
  const std::size_t cells = std::size_t{shape.rows} * shape.columns;
  TPU_CHECK(
      shape.part_rows() % shape.sum_cells == 0 && shape.part_columns() % shape.operand_cells == 0,
      "cells of " << shape.rows << "x" << shape.columns << " in nodes of " << shape.sum_cells << "x"
                  << shape.operand_cells);
  entries_.resize(ring_);
  for (Entry& entry : entries_) {
    entry.weights.resize(std::size_t{CellArray::kPart} * shape.column_parts());
  }
  operands_.resize(std::size_t{ring_pitch_} * shape.rows);
  multiplying_.resize(cells + kPadding);
  loading_.resize(cells);
  handed_down_.resize(std::size_t{shape.levels() + 1} * shape.columns);
  for (auto& handed : handed_right_) handed.resize(std::size_t{shape.rows} * (shape.groups() + 1));
  for (auto& sums : sums_) sums.resize(sum_pitch() * shape.levels());
  zeros_.resize(sum_pitch() * (kAtOnce + 1));
  for (Passing* passing : {&from_above_, &to_below_}) {
    passing->sums.resize(sum_pitch() * (kAtOnce + 1));
    passing->weights.resize(std::size_t{kAtOnce + 1} * shape.columns);
  }
}

// ---- What enters

SystolicCells::Entry& SystolicCells::entry_at(std::uint64_t at) {
  TPU_CHECK(at >= cycle_ && at - cycle_ <= kAhead,
            "an entry in cycle " << at << " of an array in cycle " << cycle_);
  Entry& entry = entries_[at & (entries_.size() - 1)];
  entry.at = at;
  last_entry_ = std::max(last_entry_, at);
  return entry;
}

void SystolicCells::extend(std::deque<Run>& runs, const Run& run) {
  const auto continues = [&](const Run& before) {
    return before.end == run.first && before.block == run.block &&
           before.row_parts == run.row_parts && before.column_part == run.column_part;
  };
  const auto last = std::find_if(runs.rbegin(), runs.rend(), continues);
  if (last == runs.rend()) {
    runs.push_back(run);
  } else {
    last->end = run.end;
  }
}

void SystolicCells::enter_operands(std::uint64_t at, std::uint32_t row_parts,
                                   const std::vector<std::uint16_t>& row) {
  entry_at(at);
  const std::size_t place = operand_place(0, at);
  const auto put = [&](std::size_t first) {
    float* to = &operands_[first];
    for (std::uint32_t r = 0; r < shape_.rows; ++r, to += ring_pitch_) *to = from_bf16(row[r]);
  };
  put(place);
  if (place + ring_ < ring_pitch_) put(place + ring_);
  if (place >= ring_) put(place - ring_);
  extend(operand_runs_, {at, at + 1, row_parts, {}, 0});
}

void SystolicCells::enter_weights(std::uint64_t at, std::uint32_t row_part,
                                  std::uint32_t column_part, bool transposed, bool clears,
                                  const std::uint16_t* row) {
  Entry& entry = entry_at(at);
  Block block;
  block.step = transposed ? Step::kTransposed : Step::kPlain;
  block.clears = clears;
  block.row_part = row_part;
  std::copy(row, row + CellArray::kPart,
            entry.weights.begin() + std::size_t{CellArray::kPart} * column_part);
  extend(weight_runs_, {at, at + 1, 0, block, column_part});
}

void SystolicCells::enter_swap(std::uint64_t at) {
  entry_at(at);
  extend(swap_runs_, {at, at + 1, 0, {}, 0});
}

/// What the nodes on a diagonal see in a cycle; nullptr where nothing entered.
const SystolicCells::Entry* SystolicCells::seen_on(std::uint64_t cycle,
                                                   std::uint32_t diagonal) const {
  if (diagonal > cycle) return nullptr;
  const std::uint64_t at = cycle - diagonal;
  const Entry& entry = entries_[at & (entries_.size() - 1)];
  return entry.at == at ? &entry : nullptr;
}

// ---- Cycles

/// Runs that have left the array are forgotten.
void SystolicCells::forget_runs() {
  const std::uint64_t crossing = shape_.levels() + shape_.groups();
  for (std::deque<Run>* runs : {&operand_runs_, &weight_runs_, &swap_runs_}) {
    while (!runs->empty() && runs->front().end + crossing < cycle_) runs->pop_front();
  }
}

const std::vector<SystolicCells::Output>& SystolicCells::run(std::uint32_t cycles) {
  TPU_CHECK(cycles <= kAtOnce, cycles << " cycles at once");
  outputs_.clear();
  forget_runs();
  at_once_ = cycles;
  for (std::uint32_t level = 0; level < shape_.levels(); ++level) {
    run_level(level, cycles);
    std::swap(from_above_, to_below_);
  }
  const std::uint32_t last = shape_.levels() - 1;
  for (std::uint32_t t = 0; t < cycles; ++t) {
    for (const Run& run : operand_runs_) {
      const Groups groups = clip(run, last, cycle_ + t);
      if (groups.empty()) continue;
      const float* sums = &from_above_.sums[sum_pitch() * (t + 1)];
      std::size_t next = outputs_.size();
      outputs_.resize(next + groups.end - groups.first);
      for (std::uint32_t g = groups.first; g < groups.end; ++g, ++next) {
        const std::uint32_t column = g * shape_.operand_cells;
        outputs_[next] = {cycle_ + t, cycle_ + t - last - g, column, shape_.operand_cells,
                          sums + column};
      }
    }
  }
  cycle_ += cycles;
  sums_now_ = 1 - sums_now_;
  return outputs_;
}

/// The groups of a level that a stretch of the wave has reached in a cycle.
SystolicCells::Groups SystolicCells::clip(const Run& run, std::uint32_t level,
                                          std::uint64_t cycle) const {
  if (cycle < level + run.first) return {0, 0};
  const std::uint64_t in_first_group = cycle - level;
  const std::uint64_t first = in_first_group >= run.end ? in_first_group - run.end + 1 : 0;
  const std::uint64_t end = in_first_group - run.first + 1;
  return {static_cast<std::uint32_t>(std::min<std::uint64_t>(first, shape_.groups())),
          static_cast<std::uint32_t>(std::min<std::uint64_t>(end, shape_.groups()))};
}

SystolicCells::Seen SystolicCells::seen_by(std::uint32_t level, std::uint32_t group) const {
  const std::uint64_t cycle = cycle_ - 1;
  const auto reached = [&](const std::deque<Run>& runs) {
    return std::any_of(runs.begin(), runs.end(), [&](const Run& run) {
      const Groups groups = clip(run, level, cycle);
      return group >= groups.first && group < groups.end;
    });
  };
  return {reached(operand_runs_), reached(weight_runs_), reached(swap_runs_),
          cycle - level - group};
}

/// The groups of a level that a stretch reaches in the cycles from `begin` to `end`: it only goes
/// on, so the first of them is that of the first cycle.
SystolicCells::Groups SystolicCells::clip(const Run& run, std::uint32_t level, std::uint32_t begin,
                                          std::uint32_t end) const {
  return {clip(run, level, cycle_ + begin).first, clip(run, level, cycle_ + end - 1).end};
}

/// The same of any stretch.
SystolicCells::Groups SystolicCells::clip_all(const std::deque<Run>& runs, std::uint32_t level,
                                              std::uint32_t begin, std::uint32_t end) const {
  Groups all{shape_.groups(), 0};
  for (const Run& run : runs) {
    const Groups groups = clip(run, level, begin, end);
    if (groups.empty()) continue;
    all = {std::min(all.first, groups.first), std::max(all.end, groups.end)};
  }
  return all;
}

/// The groups of a level whose weights a stretch steps.
SystolicCells::Groups SystolicCells::weights_in(const Run& run, std::uint32_t level,
                                                std::uint32_t begin, std::uint32_t end) const {
  if (level / part_levels_ != run.block.row_part) return {0, 0};
  const Groups groups = clip(run, level, begin, end);
  return {std::max(groups.first, run.column_part * part_groups_),
          std::min(groups.end, (run.column_part + 1) * part_groups_)};
}

/// A level through the cycles that run at once. Where no swap passes, the weights that multiply
/// stay. Columns are multiplied by eight: what is computed beyond the end of a stretch is computed
/// again by the next one.
void SystolicCells::run_level(std::uint32_t level, std::uint32_t cycles) {
  const Groups swapped = clip_all(swap_runs_, level, 0, cycles);
  if (!swapped.empty()) multiply(level, 0, cycles, {0, swapped.first});
  if (!weight_runs_.empty() || !swapped.empty()) move_weights(level, cycles, swapped);
  multiply(level, 0, cycles, {swapped.empty() ? 0 : swapped.end, shape_.groups()});
}

/// Steps and swaps the weights of a level; multiplies where a swap passes.
void SystolicCells::move_weights(std::uint32_t level, std::uint32_t cycles, Groups swapped) {
  std::uint16_t* handed = &handed_down_[std::size_t{level + 1} * shape_.columns];
  const bool steps_down = std::any_of(weight_runs_.begin(), weight_runs_.end(), [](const Run& run) {
    return run.block.step == Step::kPlain;
  });
  if (steps_down) std::copy_n(handed, shape_.columns, to_below_.weights.begin());
  const Groups stepped = step_at_once(level, cycles, swapped);
  const bool all_stepped =
      std::all_of(weight_runs_.begin(), weight_runs_.end(),
                  [&](const Run& run) { return weights_in(run, level, 0, cycles).is_in(stepped); });
  std::uint32_t multiplied = 0;
  for (std::uint32_t t = 0; t < cycles && (!all_stepped || !swapped.empty()); ++t) {
    for (const Run& run : weight_runs_) step_weights(level, t, run, stepped);
    for (const Run& run : swap_runs_) {
      const Groups groups = clip(run, level, cycle_ + t);
      if (groups.empty()) continue;
      multiply(level, multiplied, t, swapped);
      multiplied = t;
      swap_nodes(level, groups);
    }
  }
  if (!swapped.empty()) multiply(level, multiplied, cycles, swapped);
  if (!steps_down) return;
  std::copy_n(&to_below_.weights[std::size_t{cycles} * shape_.columns], shape_.columns, handed);
}

/// Where a ring holds the operands of a row from the one that entered in a cycle on, older ones
/// behind it, those of the next cycles that run at once in front of it.
std::size_t SystolicCells::operand_place(std::uint32_t row, std::uint64_t entered) const {
  return std::size_t{ring_pitch_} * row + kAtOnce + ring_ - 1 - (entered & (ring_ - 1));
}

/// Steps weights through eight cycles where nothing else happens to them: groups that one stretch
/// crosses in all of them and no swap meets. Returns those.
SystolicCells::Groups SystolicCells::step_at_once(std::uint32_t level, std::uint32_t cycles,
                                                  Groups swapped) {
  constexpr Groups kNone{0, 0};
  if (cycles != kAtOnce) return kNone;
  for (const Run& run : weight_runs_) {
    if (run.block.clears) continue;
    Groups groups{weights_in(run, level, cycles - 1, cycles).first,
                  weights_in(run, level, 0, 1).end};
    if (!swapped.empty() && swapped.end > groups.first) groups.first = swapped.end;
    if (groups.empty()) continue;
    if (run.block.step == Step::kPlain) {
      if (step_plain_at_once(level, groups, run.column_part)) return groups;
      continue;
    }
    // What leaves a group in each single cycle is not known then: none may stand behind it.
    const bool whole =
        groups.first == run.column_part * part_groups_ && groups.end == groups.first + part_groups_;
    if (shape_.operand_cells != 4 || !whole) continue;
    step_transposed_at_once(level, groups, run.column_part);
    return groups;
  }
  return kNone;
}

bool SystolicCells::step_plain_at_once(std::uint32_t level, Groups groups,
                                       std::uint32_t column_part) {
  const std::uint32_t column = groups.first * shape_.operand_cells;
  const std::uint32_t row = level * shape_.sum_cells;
  if (row % shape_.part_rows() == 0) {
    for (std::uint32_t t = 0; t < kAtOnce; ++t) {
      take_weights(level, t, groups, column_part,
                   &from_above_.weights[std::size_t{t} * shape_.columns + column]);
    }
  }
  return step_down({loading(row, column), &from_above_.weights[column],
                    &to_below_.weights[shape_.columns + column], shape_.columns},
                   shape_.sum_cells, (groups.end - groups.first) * shape_.operand_cells);
}

void SystolicCells::step_transposed_at_once(std::uint32_t level, Groups groups,
                                            std::uint32_t column_part) {
  const std::size_t pitch = shape_.groups() + 1;
  std::array<const std::uint16_t*, kAtOnce> entering;
  for (std::uint32_t t = 0; t < kAtOnce; ++t) {
    entering[t] = &seen_on(cycle_ + t, level + groups.first)
                       ->weights[std::size_t{CellArray::kPart} * column_part];
  }
  for (std::uint32_t r = 0; r < shape_.sum_cells; ++r) {
    const std::uint32_t row = level * shape_.sum_cells + r;
    std::array<std::uint64_t, 2> words{};
    for (std::uint32_t t = 0; t < kAtOnce; ++t) {
      words[t / 4] = words[t / 4] << 16 | entering[t][row % shape_.part_rows()];
    }
    step_right_eight(&handed_right_[cycle_ % 2][pitch * row + groups.first],
                     loading(row, groups.first * shape_.operand_cells), groups.end - groups.first,
                     words);
  }
}

/// A stretch in one cycle, but for the groups that step_at_once() has stepped.
void SystolicCells::step_weights(std::uint32_t level, std::uint32_t t, const Run& run,
                                 Groups done) {
  const Groups groups = weights_in(run, level, t, t + 1);
  if (done.empty()) return step_groups(level, t, run, groups);
  step_groups(level, t, run, {groups.first, std::min(groups.end, done.first)});
  step_groups(level, t, run, {std::max(groups.first, done.end), groups.end});
}

void SystolicCells::step_groups(std::uint32_t level, std::uint32_t t, const Run& run,
                                Groups groups) {
  if (groups.empty()) return;
  const std::uint32_t row = level * shape_.sum_cells;
  if (run.block.clears) {
    for (std::uint32_t r = row; r < row + shape_.sum_cells; ++r) {
      std::fill_n(loading(r, groups.first * shape_.operand_cells),
                  (groups.end - groups.first) * shape_.operand_cells, std::uint16_t{0});
    }
  }
  if (run.block.step == Step::kPlain) {
    step_plain(level, t, groups, run.column_part);
  } else {
    step_transposed(level, cycle_ + t, groups, run.column_part);
  }
}

/// A row of weights as it enters the groups of a level in a cycle.
void SystolicCells::take_weights(std::uint32_t level, std::uint32_t t, Groups groups,
                                 std::uint32_t column_part, std::uint16_t* to) const {
  const std::uint32_t width = shape_.operand_cells;
  for (std::uint32_t g = groups.first; g < groups.end; ++g, to += width) {
    const std::uint32_t lane = g * width - column_part * shape_.part_columns();
    const Entry* entry = seen_on(cycle_ + t, level + g);
    std::copy_n(&entry->weights[std::size_t{CellArray::kPart} * column_part + lane], width, to);
  }
}

void SystolicCells::step_plain(std::uint32_t level, std::uint32_t t, Groups groups,
                               std::uint32_t column_part) {
  const std::uint32_t width = shape_.operand_cells;
  const std::uint32_t column = groups.first * width;
  const std::uint32_t count = (groups.end - groups.first) * width;
  const std::uint32_t row = level * shape_.sum_cells;
  const std::uint32_t last = row + shape_.sum_cells - 1;
  const std::uint16_t* handed = &from_above_.weights[std::size_t{t} * shape_.columns + column];
  std::copy_n(loading(last, column), count,
              &to_below_.weights[std::size_t{t + 1} * shape_.columns + column]);
  for (std::uint32_t r = last; r > row; --r) {
    std::copy_n(loading(r - 1, column), count, loading(r, column));
  }
  if (row % shape_.part_rows() != 0) {
    std::copy_n(handed, count, loading(row, column));
    return;
  }
  take_weights(level, t, groups, column_part, loading(row, column));
}

void SystolicCells::step_transposed(std::uint32_t level, std::uint64_t cycle, Groups groups,
                                    std::uint32_t column_part) {
  const std::uint32_t width = shape_.operand_cells;
  const std::size_t pitch = shape_.groups() + 1;
  const std::uint32_t edge = column_part * shape_.part_columns() / width;
  const std::uint32_t now = cycle % 2;
  for (std::uint32_t r = 0; r < shape_.sum_cells; ++r) {
    const std::uint32_t row = level * shape_.sum_cells + r;
    if (groups.first == edge) {
      handed_right_[now][pitch * row + edge] =
          seen_on(cycle, level + edge)
              ->weights[std::size_t{CellArray::kPart} * column_part + row % shape_.part_rows()];
    }
    step_right(&handed_right_[now][pitch * row + groups.first],
               &handed_right_[1 - now][pitch * row + groups.first + 1],
               loading(row, groups.first * width), groups.end - groups.first, width);
  }
}

void SystolicCells::swap_nodes(std::uint32_t level, Groups groups) {
  const std::uint32_t column = groups.first * shape_.operand_cells;
  const std::uint32_t count = (groups.end - groups.first) * shape_.operand_cells;
  for (std::uint32_t r = 0; r < shape_.sum_cells; ++r) {
    const std::uint32_t row = level * shape_.sum_cells + r;
    std::uint16_t* from = loading(row, column);
    std::transform(from, from + count, &multiplying_[std::size_t{row} * shape_.columns + column],
                   from_bf16);
    std::fill_n(from, count, std::uint16_t{0});
  }
}

/// The cycles from `begin` to `end`, all groups of a stretch that have operands in one of them.
void SystolicCells::multiply(std::uint32_t level, std::uint32_t begin, std::uint32_t end,
                             Groups within) {
  if (begin == end || within.empty()) return;
  const auto cut = [&](Groups groups) {
    return Groups{std::max(groups.first, within.first), std::min(groups.end, within.end)};
  };
  if (shape_.row_parts() > 1) {
    for (const Run& run : operand_runs_) {
      for (std::uint32_t t = begin; t < end; ++t) {
        const Groups groups = cut(clip(run, level, cycle_ + t));
        if (!groups.empty()) multiply_run(level, t, groups, run.row_parts);
      }
    }
    return;
  }
  const Groups all = cut(clip_all(operand_runs_, level, begin, end));
  if (all.empty()) return;
  const std::uint32_t width = shape_.operand_cells;
  const std::uint32_t column = all.first * width;
  const std::uint32_t count = ((all.end - all.first) * width + 7) / 8 * 8;
  const std::uint32_t row = level * shape_.sum_cells;
  const float* from = level == 0 ? zeros_.data() : from_above_.sums.data();
  multiply_cells({&operands_[operand_place(row, cycle_ + begin - level) + all.first], ring_pitch_,
                  width, &multiplying_[std::size_t{row} * shape_.columns + column], shape_.columns,
                  sums_above(level, begin) + column, from + sum_pitch() * begin + column,
                  &to_below_.sums[sum_pitch() * (begin + 1) + column],
                  end == at_once_ ? last_sums(level) + column : nullptr, sum_pitch()},
                 shape_.sum_cells, end - begin, count);
}

/// The sums that the level above left in the cycle before cycle `t` of those that run at once.
const float* SystolicCells::sums_above(std::uint32_t level, std::uint32_t t) const {
  if (level == 0) return &zeros_[sum_pitch() * t];
  return t == 0 ? &sums_[sums_now_][sum_pitch() * (level - 1)] : &from_above_.sums[sum_pitch() * t];
}

/// The same for one cycle of an array of several row parts, some of which may have no operands.
void SystolicCells::multiply_run(std::uint32_t level, std::uint32_t t, Groups groups,
                                 std::uint32_t row_parts) {
  const std::uint32_t width = shape_.operand_cells;
  const std::uint32_t column = groups.first * width;
  const std::uint32_t count = (groups.end - groups.first) * width;
  const std::uint32_t row = level * shape_.sum_cells;
  const float* from = sums_above(level, t) + column;
  float* to = &to_below_.sums[sum_pitch() * (t + 1) + column];
  const std::uint32_t rows = row / shape_.part_rows() < row_parts ? shape_.sum_cells : 0;
  for (std::uint32_t c = 0; c < count; ++c) {
    float sum = from[c];
    for (std::uint32_t r = 0; r < rows; ++r) {
      const std::size_t place =
          operand_place(row + r, cycle_ + t - level) + groups.first + c / width;
      const std::size_t cell = std::size_t{row + r} * shape_.columns + column + c;
      sum += operands_[place] * multiplying_[cell];
    }
    to[c] = sum;
  }
  if (t + 1 == at_once_) std::copy_n(to, count, last_sums(level) + column);
}

}  // namespace tpu
