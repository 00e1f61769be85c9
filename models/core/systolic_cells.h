#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <vector>

namespace tpu {

/// What shapes a systolic array and its waves (MxuParams has the meaning and the sources).
struct CellArray {
  std::uint32_t rows = 128;         ///< Of cells: the contracted dimension.
  std::uint32_t columns = 128;      ///< Of cells: the results.
  std::uint32_t sum_cells = 2;      ///< Cells of a column that a partial sum passes in a cycle.
  std::uint32_t operand_cells = 4;  ///< Cells of a row that an operand passes in a cycle.
  static constexpr std::uint32_t kPart = 128;  ///< Rows and columns of a block with its own port.

  std::uint32_t levels() const { return rows / sum_cells; }
  std::uint32_t groups() const { return columns / operand_cells; }
  std::uint32_t part_rows() const { return rows < kPart ? rows : kPart; }
  std::uint32_t part_columns() const { return columns < kPart ? columns : kPart; }
  std::uint32_t row_parts() const { return rows / part_rows(); }
  std::uint32_t column_parts() const { return columns / part_columns(); }
};

/// The cells of a systolic array, register by register and cycle by cycle.
///
/// A cell holds a weight that multiplies and one that is being loaded. A node is the sum_cells x
/// operand_cells cells that a wave crosses in one cycle; it holds the operands that pass it and the
/// partial sums that leave it. Whatever enters the array in one cycle (a row of operands, a step of
/// the weights, the swap of the two sets) starts in the node of the top left corner and crosses one
/// node to the right and one down a cycle: the node in level j and group g acts j + g cycles later.
/// So every node sees what entered in the order in which it entered, whatever the skew, and the
/// next weights may follow the swap in the next cycle. In a cycle a node steps its weights, then
/// swaps, then multiplies: sum = (sum from above + x0 w0) + x1 w1 ..., each rounded to fp32.
///
/// Weights step by one cell: a plain row enters at the top of its block of 128 x 128 and pushes the
/// rows there down, a transposed one enters at the left as a column and pushes columns to the
/// right. Between nodes a step goes through a register, for the neighbour steps a cycle later.
///
/// Storage: operands are kept in one ring per row, the newest first, past which the nodes move in
/// place of the values; all else moves. Sums that no row of operands belongs to are of no meaning
/// and go nowhere.
class SystolicCells {
 public:
  enum class Step : std::uint8_t { kNone, kPlain, kTransposed };

  explicit SystolicCells(const CellArray& shape);

  const CellArray& shape() const { return shape_; }
  /// The cycle that runs next.
  std::uint64_t cycle() const { return cycle_; }

  // What enters the corner in cycle `at`, which has not run yet and is at most kAhead away.
  /// A row of operands, bf16: those of the first `row_parts` parts of rows; others add nothing.
  void enter_operands(std::uint64_t at, std::uint32_t row_parts,
                      const std::vector<std::uint16_t>& row);
  /// A row of 128 weights for a block. `clears`: what the block was loading is dropped before.
  void enter_weights(std::uint64_t at, std::uint32_t row_part, std::uint32_t column_part,
                     bool transposed, bool clears, const std::uint16_t* row);
  /// The weights that were loaded become those that multiply; cells without become 0.
  void enter_swap(std::uint64_t at);
  static constexpr std::uint32_t kAhead = 16;

  /// Sums that left the last level at the end of cycle `at`: of the row of operands that entered in
  /// cycle `entered`, the columns from `first` on.
  struct Output {
    std::uint64_t at;
    std::uint64_t entered;
    std::uint32_t first;
    std::uint32_t count;
    const float* sums;
  };
  /// Runs up to kAtOnce cycles; what comes out stays until the next call. The cells compute level
  /// by level, each through all those cycles, from what the level above left in the cycle before.
  const std::vector<Output>& run(std::uint32_t cycles);
  static constexpr std::uint32_t kAtOnce = 8;
  /// Vectors of eight columns may reach beyond the last.
  static constexpr std::uint32_t kPadding = 8;
  /// What a node did in the last cycle that ran, for pictures of the wave.
  struct Seen {
    bool multiplied, stepped, swapped;
    std::uint64_t entered;  ///< The cycle in which it entered the array.
  };
  Seen seen_by(std::uint32_t level, std::uint32_t group) const;
  /// Nothing is on its way through the array.
  bool quiet() const { return cycle_ > last_entry_ + shape_.levels() + shape_.groups(); }
  /// Jumps over cycles in which nothing would move; only when quiet().
  void skip_to(std::uint64_t cycle) { cycle_ = cycle; }

 private:
  struct Block {
    Step step = Step::kNone;
    bool clears = false;
    std::uint32_t row_part = 0;
    bool operator==(const Block& other) const {
      return step == other.step && clears == other.clears && row_part == other.row_part;
    }
  };
  /// What entered in one cycle, kept until the last node has seen it.
  struct Entry {
    std::uint64_t at = ~std::uint64_t{0};
    std::vector<std::uint16_t> weights;  ///< 128 per column part.
  };
  /// What entered alike in neighbouring cycles: a stretch of the wave.
  struct Run {
    std::uint64_t first, end;     ///< Cycles of entry.
    std::uint32_t row_parts = 0;  ///< Of operands.
    Block block;                  ///< Of weights.
    std::uint32_t column_part = 0;
  };
  /// A stretch of groups of one level.
  struct Groups {
    std::uint32_t first, end;
    bool empty() const { return first >= end; }
    bool is_in(Groups others) const {
      return empty() || (first >= others.first && end <= others.end);
    }
  };

  Entry& entry_at(std::uint64_t at);
  const Entry* seen_on(std::uint64_t cycle, std::uint32_t diagonal) const;
  void extend(std::deque<Run>& runs, const Run& run);
  void forget_runs();
  Groups clip(const Run& run, std::uint32_t level, std::uint64_t cycle) const;
  Groups clip_all(const std::deque<Run>& runs, std::uint32_t level, std::uint32_t begin,
                  std::uint32_t end) const;
  Groups clip(const Run& run, std::uint32_t level, std::uint32_t begin, std::uint32_t end) const;
  Groups weights_in(const Run& run, std::uint32_t level, std::uint32_t begin,
                    std::uint32_t end) const;
  void run_level(std::uint32_t level, std::uint32_t cycles);
  void move_weights(std::uint32_t level, std::uint32_t cycles, Groups swapped);
  Groups step_at_once(std::uint32_t level, std::uint32_t cycles, Groups swapped);
  bool step_plain_at_once(std::uint32_t level, Groups groups, std::uint32_t column_part);
  void step_transposed_at_once(std::uint32_t level, Groups groups, std::uint32_t column_part);
  void step_weights(std::uint32_t level, std::uint32_t t, const Run& run, Groups done);
  void step_groups(std::uint32_t level, std::uint32_t t, const Run& run, Groups groups);
  void take_weights(std::uint32_t level, std::uint32_t t, Groups groups, std::uint32_t column_part,
                    std::uint16_t* to) const;
  void step_plain(std::uint32_t level, std::uint32_t t, Groups groups, std::uint32_t column_part);
  void step_transposed(std::uint32_t level, std::uint64_t cycle, Groups groups,
                       std::uint32_t column_part);
  void swap_nodes(std::uint32_t level, Groups groups);
  void multiply(std::uint32_t level, std::uint32_t begin, std::uint32_t end, Groups within);
  const float* sums_above(std::uint32_t level, std::uint32_t t) const;
  float* last_sums(std::uint32_t level) { return &sums_[1 - sums_now_][sum_pitch() * level]; }
  void multiply_run(std::uint32_t level, std::uint32_t t, Groups groups, std::uint32_t row_parts);
  std::size_t sum_pitch() const { return shape_.columns + kPadding; }
  std::size_t operand_place(std::uint32_t row, std::uint64_t entered) const;
  std::uint16_t* loading(std::uint32_t row, std::uint32_t column) {
    return &loading_[std::size_t{row} * shape_.columns + column];
  }

  CellArray shape_;
  std::uint64_t cycle_ = 0;
  std::uint64_t last_entry_ = 0;
  std::vector<Entry> entries_;  ///< A ring over cycles of entry.
  std::deque<Run> operand_runs_, weight_runs_, swap_runs_;

  std::uint32_t ring_ = 1;        ///< Places of an operand ring.
  std::uint32_t ring_pitch_ = 1;  ///< With its last places again before, its first behind it.
  std::uint32_t part_levels_ = 1;
  std::uint32_t part_groups_ = 1;
  std::vector<float> operands_;     ///< Row by row; bf16 values.
  std::vector<float> multiplying_;  ///< Weights, row by row; bf16 values.
  std::vector<std::uint16_t> loading_;
  std::vector<std::uint16_t> handed_down_;  ///< Weights on their way into each level.
  /// Weights of each row on their way into a group, a word each: one set is read in a cycle, the
  /// other written.
  std::array<std::vector<std::uint64_t>, 2> handed_right_;
  /// That left each level in the cycle before those that run at once, and in the last of those.
  std::array<std::vector<float>, 2> sums_;
  std::uint32_t sums_now_ = 0;  ///< Which of the two are those of the cycle before.
  std::uint32_t at_once_ = 0;   ///< Cycles that run now.
  std::vector<float> zeros_;    ///< What the first level gets.
  /// What a level gets from the one above (weights and sums), and what it hands down itself: a row
  /// of columns per cycle, the first from the cycle before (of sums, see above).
  struct Passing {
    std::vector<float> sums;
    std::vector<std::uint16_t> weights;
  };
  Passing from_above_, to_below_;
  std::vector<Output> outputs_;
};

}  // namespace tpu
