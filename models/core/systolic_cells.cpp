#include "models/core/systolic_cells.h"

#include <algorithm>
#include <cstring>

#include "isa/cpu_clones.h"
#include "sim/base/error.h"

namespace tpu {
namespace {

std::uint32_t power_of_two_from(std::uint32_t least) {
  std::uint32_t power = 1;
  while (power < least) power *= 2;
  return power;
}

TPU_INLINE float from_bf16(std::uint16_t bits) {
  const std::uint32_t word = std::uint32_t{bits} << 16;
  float value;
  std::memcpy(&value, &word, sizeof value);
  return value;
}

}  // namespace

/// The multiply-adds of `count` neighbouring columns over the rows of one level: row r of operands
/// and weights stands `operand_pitch` and `weight_pitch` behind row r - 1.
TPU_CPU_CLONES void multiply_cells(const std::uint16_t* operands, std::size_t operand_pitch,
                                   const std::uint16_t* weights, std::size_t weight_pitch,
                                   std::uint32_t rows, const float* from, float* to,
                                   std::uint32_t count) {
  using EightHalves = std::uint16_t __attribute__((vector_size(16), aligned(2), may_alias));
  using EightWords = std::uint32_t __attribute__((vector_size(32)));
  using EightSums = float __attribute__((vector_size(32), aligned(4), may_alias));
  std::uint32_t c = 0;
  for (; c + 8 <= count; c += 8) {
    EightSums sum = *reinterpret_cast<const EightSums*>(from + c);
    for (std::uint32_t r = 0; r < rows; ++r) {
      const EightWords x = __builtin_convertvector(
          *reinterpret_cast<const EightHalves*>(operands + r * operand_pitch + c), EightWords);
      const EightWords w = __builtin_convertvector(
          *reinterpret_cast<const EightHalves*>(weights + r * weight_pitch + c), EightWords);
      sum += reinterpret_cast<EightSums>(x << 16) * reinterpret_cast<EightSums>(w << 16);
    }
    *reinterpret_cast<EightSums*>(to + c) = sum;
  }
  for (; c < count; ++c) {
    float sum = from[c];
    for (std::uint32_t r = 0; r < rows; ++r) {
      sum += from_bf16(operands[r * operand_pitch + c]) * from_bf16(weights[r * weight_pitch + c]);
    }
    to[c] = sum;
  }
}

/// Steps the weights of `groups` neighbouring groups of a row by one column: each takes what was
/// handed to it and hands on its last.
TPU_CPU_CLONES void step_right(const std::uint64_t* __restrict handed, std::uint64_t* __restrict out,
                               std::uint16_t* __restrict cells, std::uint32_t groups,
                               std::uint32_t width) {
  if (width == 4) {
    using FourCells = std::uint64_t __attribute__((aligned(2), may_alias));
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

SystolicCells::SystolicCells(const CellArray& shape)
    : shape_(shape), ring_(power_of_two_from(shape.groups())) {
  const std::size_t cells = std::size_t{shape.rows} * shape.columns;
  TPU_CHECK(shape.part_rows() % shape.sum_cells == 0 &&
                shape.part_columns() % shape.operand_cells == 0,
            "cells of " << shape.rows << "x" << shape.columns << " in nodes of " << shape.sum_cells
                        << "x" << shape.operand_cells);
  entries_.resize(power_of_two_from(shape.levels() + shape.groups() + kAhead + 1));
  for (Entry& entry : entries_) {
    entry.blocks.resize(shape.column_parts());
    entry.operands.resize(shape.rows);
    entry.weights.resize(std::size_t{CellArray::kPart} * shape.column_parts());
  }
  operands_.resize(std::size_t{2} * ring_ * shape.operand_cells * shape.rows);
  multiplying_.resize(cells);
  loading_.resize(cells);
  handed_down_.resize(std::size_t{shape.levels() + 1} * shape.columns);
  for (auto& handed : handed_right_) handed.resize(std::size_t{shape.rows} * (shape.groups() + 1));
  sums_.resize(std::size_t{shape.levels()} * shape.columns);
  zeros_.resize(shape.columns);
}

// ---- What enters

SystolicCells::Entry& SystolicCells::entry_at(std::uint64_t at) {
  TPU_CHECK(at >= cycle_ && at - cycle_ <= kAhead,
            "an entry in cycle " << at << " of an array in cycle " << cycle_);
  Entry& entry = entries_[at % entries_.size()];
  if (entry.at != at) {
    entry.at = at;
    entry.row_parts = 0;
    entry.swaps = false;
    std::fill(entry.blocks.begin(), entry.blocks.end(), Block());
  }
  last_entry_ = std::max(last_entry_, at);
  return entry;
}

void SystolicCells::enter_operands(std::uint64_t at, std::uint32_t row_parts,
                                   const std::vector<std::uint16_t>& row) {
  Entry& entry = entry_at(at);
  entry.row_parts = row_parts;
  std::copy(row.begin(), row.begin() + shape_.rows, entry.operands.begin());
}

void SystolicCells::enter_weights(std::uint64_t at, std::uint32_t row_part,
                                  std::uint32_t column_part, bool transposed, bool clears,
                                  const std::uint16_t* row) {
  Entry& entry = entry_at(at);
  Block& block = entry.blocks[column_part];
  block.step = transposed ? Step::kTransposed : Step::kPlain;
  block.clears = clears;
  block.row_part = row_part;
  std::copy(row, row + CellArray::kPart,
            entry.weights.begin() + std::size_t{CellArray::kPart} * column_part);
}

void SystolicCells::enter_swap(std::uint64_t at) { entry_at(at).swaps = true; }

/// What the nodes on a diagonal see in this cycle; nullptr where nothing entered.
const SystolicCells::Entry* SystolicCells::seen_on(std::uint32_t diagonal) const {
  if (diagonal > cycle_) return nullptr;
  const std::uint64_t at = cycle_ - diagonal;
  const Entry& entry = entries_[at % entries_.size()];
  return entry.at == at ? &entry : nullptr;
}

// ---- A cycle

const std::vector<SystolicCells::Output>& SystolicCells::run_cycle() {
  outputs_.clear();
  find_runs();
  for (std::uint32_t level = shape_.levels(); level-- > 0;) run_level(level);
  const std::uint32_t last = shape_.levels() - 1;
  for (const Run& run : operand_runs_) {
    const Groups groups = clip(run, last);
    for (std::uint32_t g = groups.first; g < groups.end; ++g) {
      outputs_.push_back({cycle_ - last - g, g * shape_.operand_cells, shape_.operand_cells,
                          &sums_[std::size_t{last} * shape_.columns + g * shape_.operand_cells]});
    }
  }
  ++cycle_;
  return outputs_;
}

/// Which diagonals multiply, step weights and swap in this cycle.
void SystolicCells::find_runs() {
  operand_runs_.clear();
  weight_runs_.clear();
  swap_runs_.clear();
  const auto extend = [](std::vector<Run>& runs, const Run& run) {
    if (!runs.empty() && runs.back().end == run.first && runs.back().block == run.block &&
        runs.back().row_parts == run.row_parts && runs.back().column_part == run.column_part) {
      ++runs.back().end;
    } else {
      runs.push_back(run);
    }
  };
  const std::uint32_t diagonals = shape_.levels() + shape_.groups() - 1;
  for (std::uint32_t d = 0; d < diagonals; ++d) {
    const Entry* entry = seen_on(d);
    if (entry == nullptr) continue;
    if (entry->row_parts != 0) extend(operand_runs_, {d, d + 1, entry->row_parts, {}, 0});
    if (entry->swaps) extend(swap_runs_, {d, d + 1, 0, {}, 0});
  }
  for (std::uint32_t part = 0; part < shape_.column_parts(); ++part) {
    for (std::uint32_t d = 0; d < diagonals; ++d) {
      const Entry* entry = seen_on(d);
      if (entry == nullptr || entry->blocks[part].step == Step::kNone) continue;
      extend(weight_runs_, {d, d + 1, 0, entry->blocks[part], part});
    }
  }
}

SystolicCells::Groups SystolicCells::clip(const Run& run, std::uint32_t level) const {
  if (run.end <= level) return {0, 0};
  return {run.first > level ? run.first - level : 0,
          std::min(run.end - level, shape_.groups())};
}

/// Levels run from the last to the first: each reads what the one above left a cycle ago.
void SystolicCells::run_level(std::uint32_t level) {
  for (const Run& run : weight_runs_) step_weights(level, run);
  for (const Run& run : swap_runs_) swap_nodes(level, run);
  take_operands(level);
  for (const Run& run : operand_runs_) multiply(level, run);
}

/// The operands of a level's rows that reach its first group in this cycle. The ring of a row holds
/// the operand that entered `t` cycles ago t places behind its head.
void SystolicCells::take_operands(std::uint32_t level) {
  const Entry* entry = seen_on(level);
  if (entry == nullptr || entry->row_parts == 0) return;
  const std::uint32_t copies = shape_.operand_cells;
  const std::size_t head = ring_ - 1 - (cycle_ - level) % ring_;
  for (std::uint32_t r = 0; r < shape_.sum_cells; ++r) {
    const std::uint32_t row = level * shape_.sum_cells + r;
    std::uint16_t* ring = &operands_[std::size_t{2} * ring_ * copies * row];
    std::fill_n(ring + head * copies, copies, entry->operands[row]);
    std::fill_n(ring + (head + ring_) * copies, copies, entry->operands[row]);
  }
}

void SystolicCells::step_weights(std::uint32_t level, const Run& run) {
  const std::uint32_t row = level * shape_.sum_cells;
  if (row / shape_.part_rows() != run.block.row_part) return;
  const std::uint32_t part_groups = shape_.part_columns() / shape_.operand_cells;
  Groups groups = clip(run, level);
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
    step_plain(level, groups, run.column_part);
  } else {
    step_transposed(level, groups, run.column_part);
  }
}

void SystolicCells::step_plain(std::uint32_t level, Groups groups, std::uint32_t column_part) {
  const std::uint32_t width = shape_.operand_cells;
  const std::uint32_t column = groups.first * width;
  const std::uint32_t count = (groups.end - groups.first) * width;
  const std::uint32_t row = level * shape_.sum_cells;
  const std::uint32_t last = row + shape_.sum_cells - 1;
  std::uint16_t* handed = &handed_down_[std::size_t{level} * shape_.columns + column];
  std::copy_n(loading(last, column), count, handed + shape_.columns);
  for (std::uint32_t r = last; r > row; --r) {
    std::copy_n(loading(r - 1, column), count, loading(r, column));
  }
  if (row % shape_.part_rows() != 0) {
    std::copy_n(handed, count, loading(row, column));
    return;
  }
  for (std::uint32_t g = groups.first; g < groups.end; ++g) {
    const std::uint32_t lane = g * width - column_part * shape_.part_columns();
    std::copy_n(&seen_on(level + g)->weights[std::size_t{CellArray::kPart} * column_part + lane],
                width, loading(row, g * width));
  }
}

void SystolicCells::step_transposed(std::uint32_t level, Groups groups,
                                    std::uint32_t column_part) {
  const std::uint32_t width = shape_.operand_cells;
  const std::size_t pitch = shape_.groups() + 1;
  const std::uint32_t edge = column_part * shape_.part_columns() / width;
  const std::uint32_t now = cycle_ % 2;
  for (std::uint32_t r = 0; r < shape_.sum_cells; ++r) {
    const std::uint32_t row = level * shape_.sum_cells + r;
    if (groups.first == edge) {
      handed_right_[now][pitch * row + edge] =
          seen_on(level + edge)
              ->weights[std::size_t{CellArray::kPart} * column_part + row % shape_.part_rows()];
    }
    step_right(&handed_right_[now][pitch * row + groups.first],
               &handed_right_[1 - now][pitch * row + groups.first + 1],
               loading(row, groups.first * width), groups.end - groups.first, width);
  }
}

void SystolicCells::swap_nodes(std::uint32_t level, const Run& run) {
  const Groups groups = clip(run, level);
  if (groups.empty()) return;
  const std::uint32_t column = groups.first * shape_.operand_cells;
  const std::uint32_t count = (groups.end - groups.first) * shape_.operand_cells;
  for (std::uint32_t r = 0; r < shape_.sum_cells; ++r) {
    const std::uint32_t row = level * shape_.sum_cells + r;
    std::uint16_t* from = loading(row, column);
    std::copy_n(from, count, &multiplying_[std::size_t{row} * shape_.columns + column]);
    std::fill_n(from, count, std::uint16_t{0});
  }
}

void SystolicCells::multiply(std::uint32_t level, const Run& run) {
  const Groups groups = clip(run, level);
  if (groups.empty()) return;
  const std::uint32_t copies = shape_.operand_cells;
  const std::uint32_t column = groups.first * copies;
  const std::uint32_t count = (groups.end - groups.first) * copies;
  const std::uint32_t row = level * shape_.sum_cells;
  const float* from =
      (level == 0 ? zeros_.data() : &sums_[std::size_t{level - 1} * shape_.columns]) + column;
  float* to = &sums_[std::size_t{level} * shape_.columns + column];
  if (row / shape_.part_rows() >= run.row_parts) {
    std::copy_n(from, count, to);
    return;
  }
  // Modulo a power of two, so that diagonals before cycle 0 do no harm.
  const std::size_t head = ring_ - 1 - (cycle_ - level) % ring_;
  const std::size_t pitch = std::size_t{2} * ring_ * copies;
  multiply_cells(&operands_[pitch * row + (head + groups.first) * copies], pitch,
                 &multiplying_[std::size_t{row} * shape_.columns + column], shape_.columns,
                 shape_.sum_cells, from, to, count);
}

}  // namespace tpu
