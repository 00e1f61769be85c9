#pragma once

#include <deque>
#include <optional>
#include <systemc>
#include <vector>

#include "models/core/matrix_port.h"
#include "models/core/systolic_cells.h"
#include "models/params.h"

namespace tpu {

/// A systolic array with its ports, cell by cell (`--detail mxu=array`): values and cycles come out
/// of the cells. Mxu and isa::MxuState are its fast form.
///
/// A push brings eight rows; the port rounds them to bf16 in one stage and lets one into the array
/// a cycle, so it is free again after eight. Every part of 128 rows has a port for operands, every
/// part of 128 columns one for weights. Behind the last level the sums of eight rows gather in
/// registers until the last of them has arrived, then pass the remaining stages into the result
/// queue. A result has its place in the queue from its push on. A swap takes effect with the first
/// row of the next matmul; when the port for weights still holds rows of the last push then, the
/// matmul has overtaken its weights, which is a fault of the program.
///
/// Left out: where the stages outside the cells lie (no listing can tell), the clock of idle cells.
class SystolicArray : public sc_core::sc_module, public MatrixPort {
 public:
  SystolicArray(const sc_core::sc_module_name& name, const MxuParams& params);

  Hazard issue(const QueueOp& op, std::uint64_t now) override;
  std::uint64_t busy_until() const override { return row_parts_[0].next_push; }
  void set_cycle(std::uint64_t now) override { data_cycle_ = now; }
  void push(const isa::Instruction& in, const isa::VectorRegister& operand) override;
  void pop(const isa::Instruction& in, isa::VectorRegister& result) override;

  const SystolicCells& cells() const { return cells_; }

 private:
  using EightRows = std::array<std::array<std::uint16_t, isa::kLanes>, isa::kSublanes>;
  /// Eight rows of results of one column part on their way into its queue.
  struct Result {
    std::uint64_t first_row = 0;  ///< The cycle in which the first of its operands entered.
    std::uint32_t missing = 0;    ///< Sums that have not left the cells.
    std::uint64_t ready = 0;      ///< When it can be popped; known when nothing is missing.
    isa::VectorRegister value;
  };
  struct ColumnPart {
    std::uint64_t next_push = 0;
    std::uint64_t next_pop = 0;
    std::uint64_t last_weights = 0;  ///< The cycle in which the last row of a push enters, + 1.
    std::deque<Result> results;
    std::optional<isa::VectorRegister> popped;
    std::uint64_t popped_at = 0;
  };
  struct RowPart {
    std::uint64_t next_push = 0;
    bool latched = false;
    EightRows rows;
  };
  /// What a block of cells is loading: the form of its pushes and how many of them.
  struct Loading {
    bool transposed = false;
    std::uint32_t pushes = 0;
  };
  /// The half of a push that came first waits here for the other.
  struct Halves {
    std::optional<QueueOp> issued;
    std::uint64_t issued_at = 0;
    std::optional<isa::Instruction> instruction;
    std::uint64_t data_at = 0;
    isa::VectorRegister operand;
  };

  Hazard issue_rows(const QueueOp& op, std::uint64_t now);
  Hazard issue_pop(const QueueOp& op, std::uint64_t now);
  Hazard take_port(std::uint64_t& next, Hazard::Kind early, std::uint64_t now) const;
  void bring_together();
  void enter(const isa::Instruction& in, std::uint64_t now);
  void enter_weights(const isa::Instruction& in, std::uint64_t now);
  void enter_rows(const isa::Instruction& in, std::uint64_t now);
  void check_swap() const;
  void run_to(std::uint64_t cycle);
  void gather(const SystolicCells::Output& output);

  static constexpr std::uint32_t kEntryStages = 1;  ///< Rounding; the others lie behind the cells.

  const MxuParams params_;
  SystolicCells cells_;
  std::uint32_t stages_behind_;
  bool swap_pending_ = true;
  std::vector<RowPart> row_parts_;
  std::vector<ColumnPart> column_parts_;
  std::vector<Loading> loading_;  ///< By row part and column part.
  Halves halves_;
  std::uint64_t data_cycle_ = 0;
};

}  // namespace tpu
