#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <vector>

#include "isa/opcode_table.h"
#include "workloads/compiler/codegen/block.h"
#include "workloads/compiler/target.h"

namespace tpu::compiler {

/// Latencies of the target as the opcode table takes them.
isa::Latencies latencies_of(const Target& target);

/// The MXUs, the transpose and reduce unit, the transcendental unit and the vector-to-scalar queue
/// of a core while a block is scheduled: from when on each takes its next instruction, and what its
/// queues hold. Instructions of one unit keep the order of the program.
class UnitState {
 public:
  UnitState(const Target& target, const std::string& kernel);

  /// Begins a block: all units ready; the results that MXUs hold became ready one by one, the last
  /// of them matmul latency less one interval from now at the latest.
  void begin_block();
  /// First cycle in which the node may issue, as far as its unit is concerned; 0 for nodes of no
  /// unit.
  std::int32_t earliest(const Node& node) const;
  /// The node issues.
  void issue(const Node& node, std::int32_t cycle);
  /// First cycle in which every unit is ready again. All queues but those of the MXUs must be
  /// empty.
  std::int32_t all_ready() const;

  /// Results that wait in the queues of each MXU, then transposed rows.
  std::vector<std::uint32_t> pending_results() const;
  /// A block has been scheduled that leaves so many.
  void leave_block(const std::vector<std::uint32_t>& pending_results);

  /// The units, and what waits in them between two blocks: all that a block's schedule depends on.
  template <class Put>
  void describe(const Put& put) const {
    const auto& [matmul, mxu_interval, xlu, xlu_interval, transpose, eup, cmem] = latencies_;
    for (const std::uint32_t word : {matmul, mxu_interval, xlu, xlu_interval, transpose, eup, cmem,
                                     mxu_entries_, xlu_entries_, eup_entries_}) {
      put(word);
    }
    put(static_cast<std::uint32_t>(mxus_.size()));
    for (const std::uint32_t results : pending_results()) put(results);
  }

 private:
  static constexpr std::int32_t kLongAgo = -1000000;
  struct Fifo {
    std::deque<std::int32_t> ready;        ///< Of results not yet popped.
    std::vector<std::int32_t> pop_cycles;  ///< Of this block's pops.
    std::uint64_t pushes = 0;              ///< In this block, carried results included.
    std::int32_t last_pop = kLongAgo;
  };
  struct Mxu {
    explicit Mxu(std::uint32_t column_parts) : results(column_parts) {}
    std::vector<Fifo> results;  ///< Per column part; each has a port for weights, too.
    std::array<std::int32_t, isa::kMaxMxuParts> last_weight_push{};
    std::array<std::int32_t, isa::kMaxMxuParts> last_latch{};  ///< Per row part.
    std::int32_t last_matmul = kLongAgo;
    std::int32_t last_swap = kLongAgo;
    std::int32_t first_use = kLongAgo;  ///< Matmul with which the latest swap acted.
    bool swapped = true;                ///< A swap may act with the next matmul.
  };

  std::int32_t room(const Fifo& fifo, std::uint32_t entries, const char* what) const;
  const Fifo& fifo(const Node& node) const;
  Fifo& fifo(const Node& node) {
    return const_cast<Fifo&>(static_cast<const UnitState*>(this)->fifo(node));
  }
  std::int32_t earliest_mxu(const Node& node) const;
  void issue_mxu(const Node& node, std::int32_t cycle);
  void issue_transpose(const Node& node, std::int32_t cycle);
  static bool is_matmul(isa::Opcode opcode);
  static isa::MxuParts parts(const Node& node);

  isa::Latencies latencies_;
  std::string kernel_;
  std::uint32_t mxu_entries_, xlu_entries_, eup_entries_;
  std::vector<Mxu> mxus_;
  Fifo xlu_, transpose_, eup_, scalar_;
  std::int32_t last_xlu_push_ = kLongAgo;
  std::int32_t last_eup_push_ = kLongAgo;
  std::int32_t last_scalar_push_ = kLongAgo;
};

}  // namespace tpu::compiler
