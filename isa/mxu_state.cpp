#include "isa/mxu_state.h"

#include <algorithm>

#include "isa/cpu_clones.h"
#include "isa/mxu_products.h"
#include "isa/vector_arithmetic.h"
#include "sim/base/error.h"

namespace tpu::isa {
namespace {

constexpr std::uint32_t kHighHalf = 0xffff0000;

/// The size of an array along a side, in parts of 128; 1 for smaller arrays.
std::uint32_t parts_along(std::uint32_t size) {
  const bool fits = size >= 8 && size <= kLanes * kMaxMxuParts &&
                    size % (size < kLanes ? kSublanes : kLanes) == 0;
  if (!fits) {
    throw ConfigurationError(
        "core.mxu: expected an array of 8 to 128 rows and columns, multiples of 8, or of up to " +
        std::to_string(kLanes * kMaxMxuParts) +
        ", multiples of 128 (a push carries eight rows of 128 lanes), found " +
        std::to_string(size));
  }
  return std::max<std::uint32_t>(size / kLanes, 1);
}

}  // namespace

/// The operand as the multipliers see it.
TPU_CPU_CLONES void take_part(int part, const std::uint32_t* from, float* to) {
  if (part == static_cast<int>(MultipliedPart::kRounded)) {
    for (int i = 0; i < kSublanes * kLanes; ++i) to[i] = as_float(round_to_bf16(from[i]));
  } else if (part == static_cast<int>(MultipliedPart::kHigh)) {
    for (int i = 0; i < kSublanes * kLanes; ++i) to[i] = as_float(from[i] & kHighHalf);
  } else {
    for (int i = 0; i < kSublanes * kLanes; ++i) {
      const float rest = as_float(from[i]) - as_float(from[i] & kHighHalf);
      to[i] = as_float(as_bits(rest) & kHighHalf);
    }
  }
}

MxuState::MxuState(std::uint32_t rows, std::uint32_t columns, bool weights_in_order)
    : rows_(std::min<std::uint32_t>(rows, kLanes)),
      columns_(std::min<std::uint32_t>(columns, kLanes)),
      weights_in_order_(weights_in_order),
      row_parts_(parts_along(rows)),
      column_parts_(parts_along(columns)),
      blocks_(row_parts_ * column_parts_),
      operand_(row_parts_),
      sums_(column_parts_) {}

MxuParts MxuState::check(const Instruction& in) const {
  const MxuParts parts = parts_of(in);
  if (parts.rows - 1 >= row_parts_ || parts.columns - 1 >= column_parts_) {
    throw ProgramFault("expected parts that the array of " + std::to_string(row_parts_) + "x" +
                       std::to_string(column_parts_) + " blocks of 128x128 has, found " +
                       std::to_string(parts.rows) + "x" + std::to_string(parts.columns));
  }
  return parts;
}

void MxuState::push_weights(const Instruction& in, const VectorRegister& weights) {
  const MxuParts parts = check(in);
  Block& block = blocks_[parts.row * column_parts_ + parts.column];
  const bool transposed = pushes_transposed(in.opcode);
  // A whole tile that nobody swapped in is pushed out by the next one, whatever its form.
  const std::size_t whole = (block.staged_transposed ? columns_ : rows_) / kSublanes;
  if (transposed != block.staged_transposed && block.staged.size() == whole) block.staged.clear();
  if (!block.staged.empty() && transposed != block.staged_transposed) {
    throw ProgramFault("expected a push of the form that began the tile, found " +
                       std::string(transposed ? "a transposed push among plain ones"
                                              : "a plain push among transposed ones"));
  }
  block.staged_transposed = transposed;
  const std::size_t limit = (transposed ? columns_ : rows_) / kSublanes;
  if (block.staged.size() == limit) block.staged.pop_front();
  block.staged.emplace_back();
  take_part(static_cast<int>(multiplied_part(in.opcode)), weights.word.data(),
            &block.staged.back().row[0][0]);
}

void MxuState::activate_staged() {
  if (std::all_of(blocks_.begin(), blocks_.end(),
                  [](const Block& b) { return b.staged.empty(); })) {
    throw ProgramFault(
        "expected weights pushed since the last swap, found none: the array has nothing to "
        "multiply with");
  }
  for (Block& block : blocks_) {
    activate(block);
  }
  swap_requested_ = false;
}

void MxuState::activate(Block& block) const {
  block.weights.assign(kLanes / kSublanes, EightRows{});
  float* active = &block.weights[0].row[0][0];
  int newest = 0;
  for (auto push = block.staged.rbegin(); push != block.staged.rend(); ++push) {
    for (int row = 0; row < kSublanes; ++row, ++newest) {
      const float* from = push->row[weights_in_order_ ? row : kSublanes - 1 - row];
      if (block.staged_transposed) {
        const int used = static_cast<int>(rows_);
        for (int k = 0; k < used; ++k) active[kLanes * k + newest] = from[k];
      } else {
        std::copy(from, from + columns_, active + kLanes * newest);
      }
    }
  }
  block.staged.clear();
  block.magnitudes = magnitudes_of(active, std::size_t{kLanes} * kLanes);
}

void MxuState::latch(const Instruction& in, const VectorRegister& operand) {
  const MxuParts parts = check(in);
  if (parts.row == 0) {
    throw ProgramFault("expected row part 1 or above, found 0: that is the matmul's own operand");
  }
  OperandPart& part = operand_[parts.row];
  take_part(static_cast<int>(MultipliedPart::kRounded), operand.word.data(), &part.rows.row[0][0]);
  part.latched = true;
}

std::uint32_t MxuState::multiply(const Instruction& in, const VectorRegister& operand) {
  const MxuParts parts = check(in);
  if (swap_requested_) activate_staged();
  EightRows& first = operand_[0].rows;
  take_part(static_cast<int>(multiplied_part(in.opcode)), operand.word.data(), &first.row[0][0]);
  if (rows_ < kLanes) {
    for (auto& row : first.row) std::fill(row + rows_, row + kLanes, 0.0f);
  }
  operand_[0].latched = true;
  for (std::uint32_t c = 0; c < parts.columns; ++c) sums_[c] = {};
  for (std::uint32_t r = 0; r < parts.rows; ++r) {
    if (!operand_[r].latched) {
      throw ProgramFault("expected row part " + std::to_string(r) +
                         " latched since the matmul before, found nothing");
    }
    const float* const rows = &operand_[r].rows.row[0][0];
    const Magnitudes magnitudes = magnitudes_of(rows, std::size_t{kSublanes} * kLanes);
    for (std::uint32_t c = 0; c < parts.columns; ++c) {
      const Block& block = blocks_[r * column_parts_ + c];
      const bool exact = products_are_exact(magnitudes, block.magnitudes);
      const auto multiply_rows = exact ? multiply_exact_products : multiply_eight_rows;
      multiply_rows(rows, &block.weights[0].row[0][0], &sums_[c].row[0][0]);
    }
  }
  if (columns_ < kLanes) {  // There are no cells: neither does 0 times infinity show.
    for (auto& row : sums_[0].row) std::fill(row + columns_, row + kLanes, 0.0f);
  }
  for (OperandPart& part : operand_) part.latched = false;
  return parts.columns;
}

void MxuState::take_result(std::uint32_t column_part, VectorRegister& result) const {
  std::memcpy(result.word.data(), &sums_[column_part], sizeof(EightRows));
}

}  // namespace tpu::isa
