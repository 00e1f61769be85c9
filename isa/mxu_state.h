#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "isa/meaning.h"

namespace tpu::isa {

/// The weights of one systolic array and what it computes with them; no time.
///
/// Weights are pushed eight rows at a time into a staging area that keeps the last `rows` of them
/// (`columns` for transposed pushes): the last pushed row becomes weight row 0, rows that were not
/// pushed are 0. A swap that vdwg, or a matmul with .dwg, asks for takes place at the next matmul
/// and empties the staging area; the first matmul of all swaps, too. Operands are rounded to bf16
/// (nearest even; the high and low parts of the .hi and .low forms are cut off instead), products
/// are exact in fp32 and added in the order of k = 0, 1, 2, ...: each output starts at 0 and is
/// rounded after each addition. The order of the real array is unknown.
///
/// Arrays up to 128x128 work; lanes beyond `rows` are ignored, results beyond `columns` are 0. A
/// larger array would need operands of more than one vector register, which the instructions do not
/// name: the constructor refuses it.
class MxuState {
 public:
  MxuState(std::uint32_t rows, std::uint32_t columns);

  /// vmatpush and its forms. Throws ProgramFault when transposed and plain pushes mix.
  void push_weights(Opcode opcode, const VectorRegister& weights);
  void request_swap() { swap_requested_ = true; }
  /// vmatmul and its forms; a .dwg form requests the swap afterwards. Throws ProgramFault when a
  /// swap is due and nothing was pushed.
  void multiply(Opcode opcode, const VectorRegister& operand, VectorRegister& result);

 private:
  struct alignas(64) EightRows {
    float row[kSublanes][kLanes];
  };
  void activate_staged();

  std::uint32_t rows_;
  std::uint32_t columns_;
  bool swap_requested_ = true;
  bool staged_transposed_ = false;
  std::deque<EightRows> staged_;
  std::vector<EightRows> weights_;  ///< 128 x 128, row k first.
};

}  // namespace tpu::isa
