#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// A row of the tiles of an array, along all of its lanes: a vector whose elements of eight lane
/// tiles a load or store with a distance between sublanes moves.
struct TileRow {
  hlo::Shape tiles;          ///< The row tile that has it, as an array of its own.
  std::int64_t granule = 0;  ///< Where that begins.
  int row = 0;
};

/// The row that a slice takes; none where it takes other elements, or of types without tiles of
/// their own.
std::optional<TileRow> tile_row_of(const hlo::Shape& array, const hlo::HloInstruction& slice);
/// The row that the array is.
std::optional<TileRow> tile_row_of(const hlo::Shape& array);

/// What a reshape to a vector reads in place, of a parameter of its computation or a slice of one.
struct VectorInRows {
  hlo::InstructionId array = -1;
  TileRow place;
};
std::optional<VectorInRows> vector_in_rows(const hlo::Computation& computation,
                                           const hlo::HloInstruction& reshape);

/// A vector that is a row of an array, or a scalar that is an element of one, by way of a slice.
struct PartInTiles {
  hlo::InstructionId array = -1;
  std::optional<hlo::HloInstruction> slice;  ///< None: the array is the row.
};
/// Of a reshape to a vector of 32 bits, or to a scalar; between it and the slice may be bitcasts.
std::optional<PartInTiles> row_of_array(const hlo::Computation& computation,
                                        const hlo::HloInstruction& reshape);
std::optional<PartInTiles> element_of_array(const hlo::Computation& computation,
                                            const hlo::HloInstruction& reshape);

/// An element in its tile.
struct TileElement {
  hlo::Shape tile;
  std::int64_t granule = 0;  ///< Where the tile begins.
  int row = 0, lane = 0;
};
/// The element that a slice takes, where it is one.
std::optional<TileElement> tile_element_of(const hlo::Shape& array,
                                           const hlo::HloInstruction& slice);

/// Whether an array is the rows of one row tile, each a vector that was reshaped: a concatenation
/// of such, or a reshape.
bool is_stack_of_vectors(const hlo::Computation& computation, const hlo::HloInstruction& stack);
/// Its rows.
std::vector<hlo::InstructionId> stacked_vectors(const hlo::Computation& computation,
                                                const hlo::HloInstruction& stack);

}  // namespace tpu::compiler
