#include "models/core/systolic_array.h"

#include <algorithm>
#include <cstring>

#include "isa/opcode_table.h"
#include "sim/base/error.h"

namespace tpu {
namespace {

using isa::Opcode;

/// The upper half of a word: fp32 cut off to bf16.
std::uint16_t upper_half(std::uint32_t bits) { return static_cast<std::uint16_t>(bits >> 16); }

/// To the nearest bf16, ties to even; a NaN stays one.
std::uint16_t nearest_bf16(std::uint32_t bits) {
  const bool nan = (bits & 0x7fffffff) > 0x7f800000;
  if (nan) return upper_half(bits) | 0x40;
  const std::uint32_t odd = bits >> 16 & 1;
  return upper_half(bits + 0x7fff + odd);
}

std::uint16_t operand_of(isa::MultipliedPart part, std::uint32_t bits) {
  switch (part) {
    case isa::MultipliedPart::kHigh:
      return upper_half(bits);
    case isa::MultipliedPart::kLow:
      return upper_half(isa::as_bits(isa::as_float(bits) - isa::as_float(bits & 0xffff0000)));
    case isa::MultipliedPart::kRounded:
      break;
  }
  return nearest_bf16(bits);
}

/// A row of the register as the multipliers see it.
template <class Row>
void take_row(Opcode opcode, const isa::VectorRegister& operand, int sublane, Row& row) {
  const isa::MultipliedPart part = isa::multiplied_part(opcode);
  for (int l = 0; l < isa::kLanes; ++l) {
    row[l] = operand_of(part, operand.word[isa::kLanes * sublane + l]);
  }
}

CellArray cells_of(const MxuParams& params) {
  CellArray cells;
  cells.rows = params.rows;
  cells.columns = params.columns;
  cells.sum_cells = params.sum_cells_per_cycle;
  cells.operand_cells = params.operand_cells_per_cycle;
  return cells;
}

}  // namespace

SystolicArray::SystolicArray(const sc_core::sc_module_name& name, const MxuParams& params)
    : sc_core::sc_module(name),
      params_(params),
      cells_(cells_of(params)),
      stages_behind_(params.pipeline_stages - kEntryStages),
      row_parts_(params.row_parts()),
      column_parts_(params.column_parts()),
      loading_(std::size_t{params.row_parts()} * params.column_parts()) {}

// ---- The sequencer's half

Hazard SystolicArray::issue(const QueueOp& op, std::uint64_t now) {
  using Kind = QueueOp::Kind;
  Hazard hazard;
  switch (op.kind) {
    case Kind::kMxuPop:
      return issue_pop(op, now);
    case Kind::kMxuSwap:
      swap_pending_ = true;
      return {};
    case Kind::kMxuRows:
      hazard = issue_rows(op, now);
      break;
    case Kind::kMxuLatch:
      hazard = take_port(row_parts_[op.part].next_push, Hazard::Kind::kPushEarly, now);
      break;
    default:
      hazard = take_port(column_parts_[op.part].next_push, Hazard::Kind::kPushEarly, now);
  }
  if (hazard) return hazard;
  halves_.issued = op;
  halves_.issued_at = now;
  bring_together();
  return {};
}

Hazard SystolicArray::take_port(std::uint64_t& next, Hazard::Kind early, std::uint64_t now) const {
  if (now < next) return {early, next};
  next = now + isa::kSublanes;
  return {};
}

Hazard SystolicArray::issue_rows(const QueueOp& op, std::uint64_t now) {
  if (const auto early = take_port(row_parts_[0].next_push, Hazard::Kind::kPushEarly, now)) {
    return early;
  }
  if (swap_pending_) {
    std::uint64_t loaded = 0;
    for (const ColumnPart& part : column_parts_) loaded = std::max(loaded, part.last_weights);
    const std::uint64_t first_row = now + kEntryStages;
    if (loaded > first_row + 1) {
      return {Hazard::Kind::kWeightsEarly, loaded - 1 - kEntryStages};
    }
  }
  for (std::uint32_t c = 0; c < op.results; ++c) {
    if (column_parts_[c].results.size() == params_.result_queue_entries) {
      return {Hazard::Kind::kQueueFull, params_.result_queue_entries};
    }
  }
  return {};
}

Hazard SystolicArray::issue_pop(const QueueOp& op, std::uint64_t now) {
  ColumnPart& part = column_parts_[op.part];
  if (const auto early = take_port(part.next_pop, Hazard::Kind::kPopEarly, now)) return early;
  if (part.results.empty()) return {Hazard::Kind::kQueueEmpty, 0};
  run_to(now);
  while (part.results.front().missing != 0) run_to(cells_.cycle() + 1);
  if (part.results.front().ready > now) {
    return {Hazard::Kind::kResultEarly, part.results.front().ready};
  }
  part.popped = part.results.front().value;
  part.popped_at = now;
  part.results.pop_front();
  return {};
}

// ---- The data path's half

void SystolicArray::push(const isa::Instruction& in, const isa::VectorRegister& operand) {
  if (in.opcode == Opcode::kVdwg) return;
  halves_.instruction = in;
  halves_.data_at = data_cycle_;
  halves_.operand = operand;
  bring_together();
}

void SystolicArray::pop(const isa::Instruction& in, isa::VectorRegister& result) {
  ColumnPart& part = column_parts_[isa::parts_of(in).column];
  if (part.popped && part.popped_at == data_cycle_) {
    result = *part.popped;
    part.popped.reset();
    return;
  }
  run_to(data_cycle_);
  if (!part.results.empty()) result = part.results.front().value;
}

void SystolicArray::bring_together() {
  if (!halves_.issued || !halves_.instruction) return;
  TPU_CHECK(halves_.issued_at == halves_.data_at,
            "a push issued in cycle " << halves_.issued_at << " with registers of cycle "
                                      << halves_.data_at);
  const isa::Instruction in = *halves_.instruction;
  halves_.issued.reset();
  halves_.instruction.reset();
  enter(in, halves_.issued_at);
}

// ---- What enters the cells

void SystolicArray::enter(const isa::Instruction& in, std::uint64_t now) {
  run_to(now);
  const isa::OpcodeInfo& row = isa::info(in.opcode);
  if (row.queue == isa::Queue::kMxuResult) return enter_rows(in, now);
  if (in.opcode != Opcode::kVmatlatchPart) return enter_weights(in, now);
  RowPart& part = row_parts_[isa::parts_of(in).row];
  for (int s = 0; s < isa::kSublanes; ++s) {
    take_row(in.opcode, halves_.operand, s, part.rows[s]);
  }
  part.latched = true;
}

void SystolicArray::enter_weights(const isa::Instruction& in, std::uint64_t now) {
  const isa::MxuParts parts = isa::parts_of(in);
  const bool transposed = isa::pushes_transposed(in.opcode);
  Loading& loading = loading_[parts.row * column_parts_.size() + parts.column];
  const auto whole = [&](bool by_columns) {
    const CellArray& shape = cells_.shape();
    return (by_columns ? shape.part_columns() : shape.part_rows()) / isa::kSublanes;
  };
  const bool drops =
      transposed != loading.transposed && loading.pushes == whole(loading.transposed);
  if (drops) loading.pushes = 0;
  if (loading.pushes != 0 && transposed != loading.transposed) {
    throw ProgramFault("expected a push of the form that began the tile, found " +
                       std::string(transposed ? "a transposed push among plain ones"
                                              : "a plain push among transposed ones"));
  }
  loading.transposed = transposed;
  loading.pushes = std::min<std::uint32_t>(loading.pushes + 1, whole(transposed));
  std::array<std::uint16_t, isa::kLanes> row;
  const std::uint64_t first = now + kEntryStages;
  for (int s = 0; s < isa::kSublanes; ++s) {
    take_row(in.opcode, halves_.operand, s, row);
    cells_.enter_weights(first + s, parts.row, parts.column, transposed, drops && s == 0,
                         row.data());
  }
  column_parts_[parts.column].last_weights = first + isa::kSublanes;
}

void SystolicArray::check_swap() const {
  const auto pushed = [](const Loading& loading) { return loading.pushes != 0; };
  if (std::any_of(loading_.begin(), loading_.end(), pushed)) return;
  throw ProgramFault(
      "expected weights pushed since the last swap, found none: the array has nothing to "
      "multiply with");
}

void SystolicArray::enter_rows(const isa::Instruction& in, std::uint64_t now) {
  const isa::MxuParts parts = isa::parts_of(in);
  const std::uint64_t first = now + kEntryStages;
  if (swap_pending_) {
    check_swap();
    cells_.enter_swap(first);
    std::fill(loading_.begin(), loading_.end(), Loading());
    swap_pending_ = false;
  }
  std::vector<std::uint16_t> row(std::max<std::size_t>(params_.rows, isa::kLanes));
  for (std::uint32_t r = 1; r < parts.rows; ++r) {
    if (row_parts_[r].latched) continue;
    throw ProgramFault("expected row part " + std::to_string(r) +
                       " latched since the matmul before, found nothing");
  }
  for (int s = 0; s < isa::kSublanes; ++s) {
    take_row(in.opcode, halves_.operand, s, row);
    for (std::uint32_t r = 1; r < parts.rows; ++r) {
      std::copy(row_parts_[r].rows[s].begin(), row_parts_[r].rows[s].end(),
                row.begin() + std::size_t{isa::kLanes} * r);
    }
    cells_.enter_operands(first + s, parts.rows, row);
  }
  for (RowPart& part : row_parts_) part.latched = false;
  const std::uint32_t sums = isa::kSublanes * cells_.shape().part_columns();
  for (std::uint32_t c = 0; c < parts.columns; ++c) {
    Result& result = column_parts_[c].results.emplace_back();
    result.first_row = first;
    result.missing = sums;
  }
  if (isa::swaps_weights(in.opcode)) swap_pending_ = true;
}

// ---- Time

void SystolicArray::run_to(std::uint64_t cycle) {
  while (cells_.cycle() < cycle) {
    if (cells_.quiet()) return cells_.skip_to(cycle);
    const std::uint64_t left = cycle - cells_.cycle();
    const auto cycles = std::min<std::uint64_t>(left, SystolicCells::kAtOnce);
    for (const auto& output : cells_.run(static_cast<std::uint32_t>(cycles))) gather(output);
  }
}

/// Takes sums that left the cells.
void SystolicArray::gather(const SystolicCells::Output& output) {
  const std::uint32_t width = cells_.shape().part_columns();
  for (Result& result : column_parts_[output.first / width].results) {
    if (output.entered < result.first_row || output.entered >= result.first_row + isa::kSublanes) {
      continue;
    }
    const std::uint64_t place =
        isa::kLanes * (output.entered - result.first_row) + output.first % width;
    std::memcpy(&result.value.word[place], output.sums, sizeof(float) * output.count);
    result.missing -= output.count;
    if (result.missing == 0) result.ready = output.at + 1 + stages_behind_;
    return;
  }
}

}  // namespace tpu
