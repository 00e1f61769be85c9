#include "isa/mxu_state.h"

#include <algorithm>

#include "isa/cpu_clones.h"
#include "isa/vector_arithmetic.h"
#include "sim/base/error.h"

namespace tpu::isa {
namespace {

enum class Part { kRounded, kHigh, kLow };

Part part_of(Opcode opcode) {
  switch (opcode) {
    case Opcode::kVmatpushHi:
    case Opcode::kVmatmulHi:
    case Opcode::kVmatmulHiDwg:
      return Part::kHigh;
    case Opcode::kVmatpushLow:
    case Opcode::kVmatmulLow:
    case Opcode::kVmatmulLowDwg:
      return Part::kLow;
    default:
      return Part::kRounded;
  }
}

constexpr std::uint32_t kHighHalf = 0xffff0000;

}  // namespace

/// The operand as the multipliers see it.
TPU_CPU_CLONES void take_part(int part, const std::uint32_t* from, float* to) {
  if (part == static_cast<int>(Part::kRounded)) {
    for (int i = 0; i < kSublanes * kLanes; ++i) to[i] = as_float(round_to_bf16(from[i]));
  } else if (part == static_cast<int>(Part::kHigh)) {
    for (int i = 0; i < kSublanes * kLanes; ++i) to[i] = as_float(from[i] & kHighHalf);
  } else {
    for (int i = 0; i < kSublanes * kLanes; ++i) {
      const float rest = as_float(from[i]) - as_float(from[i] & kHighHalf);
      to[i] = as_float(as_bits(rest) & kHighHalf);
    }
  }
}

/// Eight rows times 128x128 weights. One vector of eight columns of all eight rows stays in
/// registers while k runs.
TPU_CPU_CLONES void multiply_eight_rows(const float* operand, const float* weights, float* result) {
  using EightColumns = float __attribute__((vector_size(32), aligned(4), may_alias));
  for (int column = 0; column < kLanes; column += 8) {
    EightColumns sum[kSublanes] = {};
    for (int k = 0; k < kLanes; ++k) {
      const EightColumns w = *reinterpret_cast<const EightColumns*>(weights + kLanes * k + column);
      for (int row = 0; row < kSublanes; ++row) sum[row] += operand[kLanes * row + k] * w;
    }
    for (int row = 0; row < kSublanes; ++row) {
      *reinterpret_cast<EightColumns*>(result + kLanes * row + column) = sum[row];
    }
  }
}

MxuState::MxuState(std::uint32_t rows, std::uint32_t columns) : rows_(rows), columns_(columns) {
  const auto fits = [](std::uint32_t size) {
    return size >= 8 && size <= kLanes && size % kSublanes == 0;
  };
  if (!fits(rows) || !fits(columns)) {
    throw ConfigurationError(
        "core.mxu: values need an array of 8 to 128 rows and columns, multiples of 8 (a push "
        "carries eight rows of 128 lanes), found " +
        std::to_string(rows) + "x" + std::to_string(columns) + "; run it with values off");
  }
}

void MxuState::push_weights(Opcode opcode, const VectorRegister& weights) {
  const bool transposed = opcode == Opcode::kVmatpushXpose;
  // A whole tile that nobody swapped in is pushed out by the next one, whatever its form.
  const std::size_t whole = (staged_transposed_ ? columns_ : rows_) / kSublanes;
  if (transposed != staged_transposed_ && staged_.size() == whole) staged_.clear();
  if (!staged_.empty() && transposed != staged_transposed_) {
    throw ProgramFault("expected a push of the form that began the tile, found " +
                       std::string(transposed ? "a transposed push among plain ones"
                                              : "a plain push among transposed ones"));
  }
  staged_transposed_ = transposed;
  const std::size_t limit = (transposed ? columns_ : rows_) / kSublanes;
  if (staged_.size() == limit) staged_.pop_front();
  staged_.emplace_back();
  take_part(static_cast<int>(part_of(opcode)), weights.word.data(), &staged_.back().row[0][0]);
}

void MxuState::activate_staged() {
  if (staged_.empty()) {
    throw ProgramFault(
        "expected weights pushed since the last swap, found none: the array has nothing to "
        "multiply with");
  }
  weights_.assign(kLanes / kSublanes, EightRows{});
  float* active = &weights_[0].row[0][0];
  int newest = 0;
  for (auto push = staged_.rbegin(); push != staged_.rend(); ++push) {
    for (int row = kSublanes - 1; row >= 0; --row, ++newest) {
      const float* from = push->row[row];
      if (staged_transposed_) {
        const int used = static_cast<int>(rows_);
        for (int k = 0; k < used; ++k) active[kLanes * k + newest] = from[k];
      } else {
        std::copy(from, from + columns_, active + kLanes * newest);
      }
    }
  }
  staged_.clear();
  swap_requested_ = false;
}

void MxuState::multiply(Opcode opcode, const VectorRegister& operand, VectorRegister& result) {
  if (swap_requested_) activate_staged();
  EightRows taken;
  take_part(static_cast<int>(part_of(opcode)), operand.word.data(), &taken.row[0][0]);
  if (rows_ < kLanes) {
    for (auto& row : taken.row) std::fill(row + rows_, row + kLanes, 0.0f);
  }
  EightRows sums;
  multiply_eight_rows(&taken.row[0][0], &weights_[0].row[0][0], &sums.row[0][0]);
  std::memcpy(result.word.data(), &sums, sizeof(sums));
  if (opcode == Opcode::kVmatmulDwg || opcode == Opcode::kVmatmulHiDwg ||
      opcode == Opcode::kVmatmulLowDwg) {
    swap_requested_ = true;
  }
}

}  // namespace tpu::isa
