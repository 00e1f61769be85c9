#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "workloads/compiler/ir/dimension_order.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Granules from one range of a DMA to the next: 16 bits of its descriptor.
constexpr std::uint32_t kLargestStride = 0xffff;

/// Where the tiles of a slice stand in the array that it is cut from: row tiles of the slice, one
/// after the other. They are one range of HBM, or ranges of one row tile each (lanes are cut), or
/// ranges of several (rows or a dimension outside of them is cut).
struct ArrayPart {
  std::int64_t granule = 0;  ///< Where the first row tile begins.
  std::int64_t run = 0;      ///< Row tiles of a range; 0: all.
  std::int64_t pitch = 0;    ///< Granules from the begin of a range to that of the next.
  int lanes = 0;             ///< Of the one lane tile of the slice, or the first tile of a vector,
                             ///< those in front of it.
  bool goes_on = false;      ///< Of a vector: whether the array has a tile behind those.

  bool is_one_range() const { return run == 0; }
  friend bool operator==(const ArrayPart& a, const ArrayPart& b) {
    return a.granule == b.granule && a.run == b.run && a.pitch == b.pitch && a.lanes == b.lanes &&
           a.goes_on == b.goes_on;
  }
};

/// Of slices of arrays of 32 bits or bf16 in their own order of dimensions that begin with a row
/// tile: lanes are cut in whole tiles or, of 32 bits, inside of one; other dimensions where what is
/// left are ranges at one distance; those outside of the tiles also in steps.
/// Of long vectors of 32 bits what begins inside of a row of lanes. None for others.
std::optional<ArrayPart> part_of_slice(const hlo::Shape& array, const hlo::HloInstruction& slice);

/// Whether a bitcast is the name of a part of its operand, a slice that moves nothing.
inline bool is_named_part(const hlo::HloInstruction& instruction) {
  return instruction.opcode == hlo::HloOpcode::kBitcast && instruction.slice.is_set();
}

/// Whether a kernel that computes the operands of a concatenation writes this one to its place;
/// arrays and slices of them are moved by shifts.
inline bool is_computed_part(const hlo::HloInstruction& operand) {
  return hlo::is_elementwise(operand.opcode);
}

/// Where the operands of a concatenation stand in it: parts of one shape that are made of whole row
/// tiles, as those of slices are. Empty where they are not.
std::vector<ArrayPart> parts_of_concatenation(const hlo::Computation& computation,
                                              const hlo::HloInstruction& concatenate);
/// The same of a concatenation whose operands a kernel computes, and writes to their places; none
/// for other results.
std::vector<ArrayPart> computed_parts(const hlo::Computation& computation,
                                      const hlo::HloInstruction& result);

/// Where in an order the innermost dimension stands of which a part takes less than the array has;
/// -1: none.
int innermost_cut(const hlo::Shape& array, const hlo::Shape& part, const DimensionOrder& order);

/// Whether a part takes the two minor dimensions of an order whole: it is made of whole tiles.
bool takes_whole_tiles(const hlo::Shape& array, const hlo::Shape& part,
                       const DimensionOrder& order);

/// A gather of blocks, or a scatter: of all that stands at numbers of a table's first dimension,
/// behind which there are two or more.
bool moves_blocks(const hlo::HloInstruction& instruction);

/// A dynamic slice and its array, what an update writes and the array that it changes, or one of
/// the blocks that are gathered or scattered and their table.
struct PartOfArray {
  hlo::Shape array;
  hlo::Shape part;
};
bool is_dynamic_part(const hlo::HloInstruction& instruction);
PartOfArray part_of_array(const hlo::Computation& computation,
                          const hlo::HloInstruction& dynamic_part);

/// Whether a part is one range of its array in an order: dimensions outside of the innermost cut
/// have one index in it.
bool is_one_range(const hlo::Shape& array, const hlo::Shape& part, const DimensionOrder& order);

/// Whether a dynamic part finds its array in an order: it takes whole tiles, and a block is one
/// range.
bool lies_for_parts(const hlo::Computation& computation, const hlo::HloInstruction& dynamic_part,
                    const DimensionOrder& order);

}  // namespace tpu::compiler
