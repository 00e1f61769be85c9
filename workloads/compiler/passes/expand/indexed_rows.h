#pragma once

#include <cstdint>
#include <vector>

#include "workloads/compiler/passes/graph_editor.h"
#include "workloads/compiler/target.h"

namespace tpu::compiler {

/// An array seen as [batch, outer, indexed, inner]: `order` brings its dimensions there. Selections
/// keep the extents that batch, outer, inner and shared picks are products of: joining those that
/// fill no tiles would move the whole array.
struct IndexedView {
  GraphEditor::Extents order;
  std::int64_t batch = 1, outer = 1, indexed = 1, inner = 1;
  GraphEditor::Extents batches, outers, inners;
  GraphEditor::Extents picks;  ///< Of each batch.
};

/// Cycles of a selection: of a vector register of it about 4, measured on kernels of this compiler.
double selection_cycles(const IndexedView& view, std::int64_t picks);

/// What the kernels of rows say of themselves.
using RowsCycles = double (*)(std::int64_t table_rows, std::int64_t lane_tiles, std::int64_t count,
                              const Target& target);

/// Cycles of picks by rows; what is no matrix becomes one first, and rows have their dimensions
/// again behind it.
double cycles_by_rows(RowsCycles of_kernel, const IndexedView& view, std::int64_t picks,
                      bool is_matrix, const Target& target);

/// A row of a table in VMEM that a kernel copies, or adds to, by its width in tiles.
constexpr double kCopiedRowCycles = 7, kAddedRowCycles = 11;

/// Whether a table that all picks share has so few elements that each pick compares itself with all
/// its rows in less time than a row takes. A selection has registers full of picks and of elements
/// of rows, or of the latter alone: for each row a compare, a select and a sum in memory.
bool is_short_table(std::int64_t rows, std::int64_t width, double row_cycles);

/// Picks rows of an array by their numbers along its indexed dimension, and updates them: by the
/// kernels of rows, or by a selection, which compares each number with each row. The way that takes
/// fewer cycles is chosen.
class IndexedRows {
 public:
  using Id = GraphEditor::Id;

  /// `edit` edits the module's entry.
  IndexedRows(hlo::Module& module, GraphEditor& edit, const Target& target)
      : module_(module), edit_(edit), target_(target) {}

  Id clamp(Id value, std::int64_t last);
  /// Gives a gather that stays indices in range: the vector unit clamps a register of them where
  /// the scalar unit takes four operations for each. A kernel for this alone would have to be for
  /// many.
  void clamp_indices(Id gather);

  /// Cycles of pick(), by the way that it takes; `is_word`: elements of 32 bits.
  double pick_cycles(const IndexedView& view, std::int64_t picks, bool is_matrix,
                     bool is_word) const;
  /// [batch, outer, indexed, inner] by numbers [batch, picks] -> [batch, outer, picks, inner], the
  /// latter in that order but with any extents.
  Id pick(Id array, const IndexedView& view, Id numbers, std::int64_t picks, bool is_matrix);
  /// Cycles of a gather of blocks of what the dimensions without numbers have, and of turning the
  /// array for it where these stand around the others and it is not given so. Without end for what
  /// is no block of two dimensions that has a kernel.
  double gathered_blocks_cycles(const IndexedView& view, hlo::ElementType type, std::int64_t picks,
                                bool turns) const;
  /// What stands at the numbers (a vector, in range) of a table's first dimension: a kernel's rows
  /// of a matrix, or blocks of more dimensions.
  Id append_gather(Id table, Id numbers);
  /// The array with one dimension replaced by what the numbers (a vector, in range) pick of it.
  Id take(Id array, std::int64_t dimension, Id numbers);

  /// What a scatter does, seen as [batch, outer, indexed or picks, inner].
  struct Scattering {
    hlo::HloOpcode opcode = hlo::HloOpcode::kAdd;  ///< kParameter: the update alone.
    Id array = -1, updates = -1, numbers = -1;
    IndexedView view;
    std::int64_t picks = 1;
  };
  Id scatter(const Scattering& scattering, bool is_matrix);
  Id scatter_rows(const Scattering& scattering);

 private:
  const hlo::HloInstruction& at(Id id) const { return module_.entry_computation().at(id); }

  Id pick_by_rows(Id array, const IndexedView& view, Id numbers, std::int64_t picks);
  Id gather_lanes(Id array, const IndexedView& view, Id numbers, std::int64_t picks);
  Id pick_by_selection(Id array, const IndexedView& view, Id numbers);
  Id select_floats(Id array, const IndexedView& view, Id numbers);
  Id scatter_elements(const Scattering& scattering);
  Id scatter_selected(const Scattering& scattering);
  Id scatter_last(const Scattering& scattering);
  Id scatter_blocks(const Scattering& scattering);
  double passing_cycles(const IndexedView& view) const;
  double blocks_cycles(const Scattering& scattering) const;
  double last_cycles(const Scattering& scattering) const;
  Id rows_or_none(const Scattering& scattering);
  Id append_scatter(const Scattering& scattering, Id table, Id numbers, Id rows);

  hlo::Module& module_;
  GraphEditor& edit_;
  const Target& target_;
};

}  // namespace tpu::compiler
