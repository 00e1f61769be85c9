#include "models/core/systolic_cells.h"

#include <algorithm>

#include "isa/cpu_clones.h"
#include "isa/meaning.h"
#include "sim/base/error.h"

namespace tpu {
namespace {

/// Vectors of eight columns may reach beyond the last.
constexpr std::size_t kPadding = 8;

std::uint32_t power_of_two_from(std::uint32_t least) {
  std::uint32_t power = 1;
  while (power < least) power *= 2;
  return power;
}

float from_bf16(std::uint16_t bits) { return isa::as_float(std::uint32_t{bits} << 16); }

/// Eight columns of one level over several cycles.
struct EightColumns {
  const float* operands;  ///< Of the first row and cycle.
  std::size_t row_pitch;
  std::ptrdiff_t cycle_pitch;
  const std::uint16_t* weights;
  std::size_t weight_pitch;
  const float* from;
  float* to;
  std::size_t sum_pitch;
};

}  // namespace

/// The multiply-adds of `count` neighbouring columns (a multiple of eight) over `kRows` rows of one
/// level in `cycles` cycles; the weights stay.
template <int kRows>
TPU_INLINE void multiply_rows(const EightColumns& at, std::uint32_t cycles, std::uint32_t count) {
  // In front of the "=": behind the type clang takes the vector's own alignment.
  using EightHalves __attribute__((vector_size(16), aligned(2), may_alias)) = std::uint16_t;
  using EightWords __attribute__((vector_size(32))) = std::uint32_t;
  using EightSums __attribute__((vector_size(32), aligned(4), may_alias)) = float;
  for (std::uint32_t c = 0; c < count; c += 8) {
    EightSums weights[kRows];
    for (int r = 0; r < kRows; ++r) {
      const EightWords halves = __builtin_convertvector(
          *reinterpret_cast<const EightHalves*>(at.weights + r * at.weight_pitch + c), EightWords);
      weights[r] = reinterpret_cast<EightSums>(halves << 16);
    }
    const float* from = at.from + c;
    const float* operands = at.operands + c;
    float* to = at.to + c;
    for (std::uint32_t t = 0; t < cycles; ++t) {
      EightSums sum = *reinterpret_cast<const EightSums*>(from);
      for (int r = 0; r < kRows; ++r) {
        sum += *reinterpret_cast<const EightSums*>(operands + r * at.row_pitch) * weights[r];
      }
      *reinterpret_cast<EightSums*>(to) = sum;
      from += at.sum_pitch;
      to += at.sum_pitch;
      operands += at.cycle_pitch;
    }
  }
}

/// The same for any number of rows.
TPU_CPU_CLONES void multiply_cells(EightColumns at, std::uint32_t rows, std::uint32_t cycles,
                                   std::uint32_t count) {
  for (; rows >= 2; rows -= 2) {
    multiply_rows<2>(at, cycles, count);
    at.operands += 2 * at.row_pitch;
    at.weights += 2 * at.weight_pitch;
    at.from = at.to;
  }
  if (rows == 1) multiply_rows<1>(at, cycles, count);
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

/// An operand for the columns of a group, in both copies of a ring.
void put_copies(float operand, float* place, float* again, std::uint32_t copies) {
  if (copies == 4) {
    using FourOperands __attribute__((vector_size(16), aligned(4), may_alias)) = float;
    const FourOperands four = {operand, operand, operand, operand};
    *reinterpret_cast<FourOperands*>(place) = four;
    *reinterpret_cast<FourOperands*>(again) = four;
    return;
  }
  for (std::uint32_t c = 0; c < copies; ++c) place[c] = again[c] = operand;
}

SystolicCells::SystolicCells(const CellArray& shape)
    : shape_(shape), ring_(power_of_two_from(shape.groups() + kAtOnce)) {
  const std::size_t cells = std::size_t{shape.rows} * shape.columns;
  TPU_CHECK(
      shape.part_rows() % shape.sum_cells == 0 && shape.part_columns() % shape.operand_cells == 0,
      "cells of " << shape.rows << "x" << shape.columns << " in nodes of " << shape.sum_cells << "x"
                  << shape.operand_cells);
  entries_.resize(power_of_two_from(shape.levels() + shape.groups() + kAhead + kAtOnce));
  for (Entry& entry : entries_) {
    entry.operands.resize(shape.rows);
    entry.weights.resize(std::size_t{CellArray::kPart} * shape.column_parts());
  }
  operands_.resize(std::size_t{2} * ring_ * shape.operand_cells * shape.rows + kPadding);
  multiplying_.resize(cells + kPadding);
  loading_.resize(cells);
  handed_down_.resize(std::size_t{shape.levels() + 1} * shape.columns);
  for (auto& handed : handed_right_) handed.resize(std::size_t{shape.rows} * (shape.groups() + 1));
  sums_.resize(std::size_t{shape.levels()} * shape.columns);
  for (Passing* passing : {&from_above_, &to_below_}) {
    passing->sums.resize(std::size_t{kAtOnce + 1} * shape.columns + kPadding);
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
  Entry& entry = entry_at(at);
  std::transform(row.begin(), row.begin() + shape_.rows, entry.operands.begin(), from_bf16);
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
  std::fill(from_above_.sums.begin(), from_above_.sums.end(), 0.0F);
  for (std::uint32_t level = 0; level < shape_.levels(); ++level) {
    run_level(level, cycles);
    std::swap(from_above_, to_below_);
  }
  const std::uint32_t last = shape_.levels() - 1;
  for (std::uint32_t t = 0; t < cycles; ++t) {
    for (const Run& run : operand_runs_) {
      const Groups groups = clip(run, last, cycle_ + t);
      for (std::uint32_t g = groups.first; g < groups.end; ++g) {
        const std::uint32_t column = g * shape_.operand_cells;
        outputs_.push_back({cycle_ + t, cycle_ + t - last - g, column, shape_.operand_cells,
                            &from_above_.sums[std::size_t{t + 1} * shape_.columns + column]});
      }
    }
  }
  cycle_ += cycles;
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

/// A level through the cycles that run at once. Between two swaps the weights that multiply stay.
void SystolicCells::run_level(std::uint32_t level, std::uint32_t cycles) {
  float* sums = &sums_[std::size_t{level} * shape_.columns];
  std::uint16_t* handed = &handed_down_[std::size_t{level + 1} * shape_.columns];
  std::copy_n(sums, shape_.columns, to_below_.sums.begin());
  std::copy_n(handed, shape_.columns, to_below_.weights.begin());
  take_operands(level, cycles);
  std::uint32_t multiplied = 0;
  for (std::uint32_t t = 0; t < cycles; ++t) {
    for (const Run& run : weight_runs_) step_weights(level, t, run);
    for (const Run& run : swap_runs_) {
      const Groups groups = clip(run, level, cycle_ + t);
      if (groups.empty()) continue;
      multiply(level, multiplied, t);
      multiplied = t;
      swap_nodes(level, groups);
    }
  }
  multiply(level, multiplied, cycles);
  std::copy_n(&to_below_.sums[std::size_t{cycles} * shape_.columns], shape_.columns, sums);
  std::copy_n(&to_below_.weights[std::size_t{cycles} * shape_.columns], shape_.columns, handed);
}

/// Where a ring holds the operands of a row from the one that entered in a cycle on, older ones
/// behind it.
std::size_t SystolicCells::operand_place(std::uint32_t row, std::uint64_t entered) const {
  const std::size_t head = ring_ - 1 - (entered & (ring_ - 1));
  return (std::size_t{2} * ring_ * row + head) * shape_.operand_cells;
}

/// The operands of a level's rows that reach its first group in the cycles that run at once. The
/// rings have places for those of the later cycles beside all that the earlier ones read.
void SystolicCells::take_operands(std::uint32_t level, std::uint32_t cycles) {
  const std::uint32_t copies = shape_.operand_cells;
  const std::uint32_t row = level * shape_.sum_cells;
  const std::size_t row_pitch = std::size_t{2} * ring_ * copies;
  for (std::uint32_t t = 0; t < cycles; ++t) {
    const Entry* entry = seen_on(cycle_ + t, level);
    if (entry == nullptr) continue;
    float* place = &operands_[operand_place(row, entry->at)];
    for (std::uint32_t r = 0; r < shape_.sum_cells; ++r, place += row_pitch) {
      put_copies(entry->operands[row + r], place, place + row_pitch / 2, copies);
    }
  }
}

void SystolicCells::step_weights(std::uint32_t level, std::uint32_t t, const Run& run) {
  Groups groups = clip(run, level, cycle_ + t);
  if (groups.empty()) return;
  const std::uint32_t row = level * shape_.sum_cells;
  if (row / shape_.part_rows() != run.block.row_part) return;
  const std::uint32_t part_groups = shape_.part_columns() / shape_.operand_cells;
  groups.first = std::max(groups.first, run.column_part * part_groups);
  groups.end = std::min(groups.end, (run.column_part + 1) * part_groups);
  if (groups.empty()) return;
  if (run.block.clears) {
    for (std::uint32_t r = row; r < row + shape_.sum_cells; ++r) {
      std::fill(loading(r, groups.first * shape_.operand_cells),
                loading(r, groups.end * shape_.operand_cells), std::uint16_t{0});
    }
  }
  if (run.block.step == Step::kPlain) {
    step_plain(level, t, groups, run.column_part);
  } else {
    step_transposed(level, cycle_ + t, groups, run.column_part);
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
  for (std::uint32_t g = groups.first; g < groups.end; ++g) {
    const std::uint32_t lane = g * width - column_part * shape_.part_columns();
    std::copy_n(&seen_on(cycle_ + t, level + g)
                     ->weights[std::size_t{CellArray::kPart} * column_part + lane],
                width, loading(row, g * width));
  }
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
    std::copy_n(from, count, &multiplying_[std::size_t{row} * shape_.columns + column]);
    std::fill_n(from, count, std::uint16_t{0});
  }
}

/// The cycles from `begin` to `end`, all groups that have operands in one of them.
void SystolicCells::multiply(std::uint32_t level, std::uint32_t begin, std::uint32_t end) {
  if (begin == end) return;
  Groups all{shape_.groups(), 0};
  for (const Run& run : operand_runs_) {
    if (shape_.row_parts() > 1) {
      for (std::uint32_t t = begin; t < end; ++t) {
        const Groups groups = clip(run, level, cycle_ + t);
        if (!groups.empty()) multiply_run(level, t, groups, run.row_parts);
      }
      continue;
    }
    // A stretch of the wave only goes on: the first of its groups is that of the first cycle.
    const std::uint32_t first = clip(run, level, cycle_ + begin).first;
    const std::uint32_t last = clip(run, level, cycle_ + end - 1).end;
    if (first < last) all = {std::min(all.first, first), std::max(all.end, last)};
  }
  if (all.empty()) return;
  const std::uint32_t width = shape_.operand_cells;
  const std::uint32_t column = all.first * width;
  const std::uint32_t count = ((all.end - all.first) * width + 7) / 8 * 8;
  const std::uint32_t row = level * shape_.sum_cells;
  for (std::uint32_t t = begin; t < end;) {
    // Until the heads of the rings come round.
    const std::uint64_t entered = cycle_ + t - level;
    const auto cycles =
        std::min(end - t, ring_ - static_cast<std::uint32_t>(entered & (ring_ - 1)));
    multiply_cells(
        {&operands_[operand_place(row, entered) + column], std::size_t{2} * ring_ * width,
         -std::ptrdiff_t{width}, &multiplying_[std::size_t{row} * shape_.columns + column],
         shape_.columns, &from_above_.sums[std::size_t{t} * shape_.columns + column],
         &to_below_.sums[std::size_t{t + 1} * shape_.columns + column], shape_.columns},
        shape_.sum_cells, cycles, count);
    t += cycles;
  }
}

/// The same for one cycle of an array of several row parts, some of which may have no operands.
void SystolicCells::multiply_run(std::uint32_t level, std::uint32_t t, Groups groups,
                                 std::uint32_t row_parts) {
  const std::uint32_t width = shape_.operand_cells;
  const std::uint32_t column = groups.first * width;
  const std::uint32_t row = level * shape_.sum_cells;
  const float* from = &from_above_.sums[std::size_t{t} * shape_.columns + column];
  float* to = &to_below_.sums[std::size_t{t + 1} * shape_.columns + column];
  const std::uint32_t rows = row / shape_.part_rows() < row_parts ? shape_.sum_cells : 0;
  for (std::uint32_t c = 0; c < (groups.end - groups.first) * width; ++c) {
    float sum = from[c];
    for (std::uint32_t r = 0; r < rows; ++r) {
      const std::size_t place = operand_place(row + r, cycle_ + t - level) + column + c;
      const std::size_t cell = std::size_t{row + r} * shape_.columns + column + c;
      sum += operands_[place] * from_bf16(multiplying_[cell]);
    }
    to[c] = sum;
  }
}

}  // namespace tpu
