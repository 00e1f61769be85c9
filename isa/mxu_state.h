#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <vector>

#include "isa/meaning.h"
#include "isa/mxu_products.h"
#include "isa/opcode_table.h"

namespace tpu::isa {

/// The weights of one systolic array and what it computes with them; no time.
///
/// Weights are pushed eight rows at a time into a staging area that keeps the last `rows` of them
/// (`columns` for transposed pushes): the last pushed row becomes weight row 0
/// (in the code of v4 the first row of the last push), rows that were not
/// pushed are 0. A swap that vdwg, or a matmul with .dwg, asks for takes place at the next matmul
/// and empties the staging area; the first matmul of all swaps, too. Operands are rounded to bf16
/// (nearest even; the high and low parts of the .hi and .low forms are cut off instead), products
/// are exact in fp32 and added in the order of k = 0, 1, 2, ...: each output starts at 0 and is
/// rounded after each addition. The order of the real array is unknown.
///
/// Arrays up to 128x128: lanes beyond `rows` are ignored, results beyond `columns` are 0. A larger
/// one is a grid of blocks of 128x128, one for each pair of a row part and a column part, each with
/// a staging area of its own; a swap makes all of them active, and blocks for which nothing was
/// pushed become 0. The instructions that all arrays have mean row part 0 and column part 0.
class MxuState {
 public:
  /// Throws ConfigurationError unless each size is 8 to 128 and a multiple of 8, or up to 512 and a
  /// multiple of 128.
  MxuState(std::uint32_t rows, std::uint32_t columns, bool weights_in_order = false);

  std::uint32_t column_parts() const { return column_parts_; }
  /// The parts that an instruction names; throws ProgramFault when the array has fewer.
  MxuParts check(const Instruction& in) const;

  /// vmatpush and its forms. Throws ProgramFault when transposed and plain pushes mix.
  void push_weights(const Instruction& in, const VectorRegister& weights);
  void request_swap() { swap_requested_ = true; }
  /// vmatlatch.part: a part of the operand of the next matmul.
  void latch(const Instruction& in, const VectorRegister& operand);
  /// vmatmul and its forms, eight rows; who executes a .dwg form requests the swap afterwards.
  /// Returns how many column parts have a result to take. Throws ProgramFault when a swap is due
  /// and nothing was pushed, and when a row part was not latched since the matmul before.
  std::uint32_t multiply(const Instruction& in, const VectorRegister& operand);
  void take_result(std::uint32_t column_part, VectorRegister& result) const;

 private:
  struct alignas(64) EightRows {
    float row[kSublanes][kLanes];
  };
  struct Block {
    bool staged_transposed = false;
    std::deque<EightRows> staged;
    std::vector<EightRows> weights;  ///< 128 x 128, row k first.
    Magnitudes magnitudes;           ///< Of the weights.
  };
  struct OperandPart {
    bool latched = false;
    EightRows rows;
  };
  void activate_staged();
  void activate(Block& block) const;

  std::uint32_t rows_, columns_;  ///< Of a block.
  bool weights_in_order_;
  std::uint32_t row_parts_, column_parts_;
  bool swap_requested_ = true;
  std::vector<Block> blocks_;  ///< Row part times column parts plus column part.
  std::vector<OperandPart> operand_;
  std::vector<EightRows> sums_;  ///< Of the last matmul, by column part.
};

}  // namespace tpu::isa
