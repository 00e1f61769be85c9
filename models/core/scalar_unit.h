#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "isa/core_state.h"
#include "isa/meaning.h"
#include "models/core/decoded_kernel.h"

namespace tpu {

/// The scalar unit as far as control needs it: registers, predicates, SMEM and the queue from the
/// vector unit. It executes the scalar slice of the kernels. With values off, what comes from the
/// vector unit is unknown; what is computed from it is unknown, too, and control that depends on
/// it is a fault. Two instructions a cycle issue in the sequencer's bundles; it has no time of its
/// own.
class ScalarUnit {
 public:
  ScalarUnit(std::uint32_t smem_words, std::uint32_t chip, std::uint32_t core);

  /// The vector registers, when values are on.
  void set_vectors(const isa::CoreState* vectors) { vectors_ = vectors; }

  /// Executes; returns the operation that failed (problem() says why), or nullptr.
  const MicroOp* run(const MicroOp* begin, const MicroOp* end);
  const std::string& problem() const { return problem_; }

  bool branch_taken() const { return registers_[scalar_file::kBranchTaken] != 0; }
  bool call_taken() const { return registers_[scalar_file::kCallTaken] != 0; }
  /// Whether the guard holds; nothing when it is unknown.
  std::optional<bool> holds(const DecodedGuard& guard) const;
  /// The value of an operand; nothing when it is unknown.
  std::optional<std::uint32_t> value(const ScalarOperand& operand) const;
  /// False when a word of SMEM is unknown.
  bool smem_known(std::uint32_t word) const {
    return unknown_words_ == 0 || word >= smem_words() || !word_unknown(word);
  }

  /// A sync flag's value enters the queue that spop pops.
  void push_known(std::uint32_t value) { from_vector_.push_back({value, true}); }

  /// Guards of pushes and pops since the last take, first one in bit 0.
  std::uint64_t take_queue_guards() {
    const std::uint64_t bits = queue_guards_;
    queue_guards_ = 0;
    queue_guard_count_ = 0;
    return bits;
  }

  /// SMEM contents.
  void write_smem(std::uint32_t word, std::uint32_t value, bool known = true);
  std::uint32_t smem(std::uint32_t word) const { return state_.smem[word]; }
  std::uint32_t smem_words() const { return static_cast<std::uint32_t>(state_.smem.size()); }
  std::uint32_t scalar(std::uint8_t reg) const { return registers_[reg]; }

  /// Registers and SMEM in the form that isa::dma_of reads.
  const isa::ScalarState& state();

 private:
  struct FromVector {
    std::uint32_t value = 0;
    bool known = false;
  };

  template <bool kUnknowns>
  const MicroOp* execute(const MicroOp* begin, const MicroOp* end);
  bool store(const MicroOp& op);
  bool load(const MicroOp& op);
  bool execute_rare(const MicroOp& op);
  bool execute_unknown(const MicroOp& op, bool& handled);
  bool fail(const std::string& what);
  void note_unknown(std::uint8_t reg, bool unknown);
  bool is_unknown(std::uint8_t reg) const { return (unknown_ >> reg & 1) != 0; }
  bool word_unknown(std::uint32_t word) const {
    return (smem_unknown_[word / 64] >> (word % 64) & 1) != 0;
  }
  void note_word(std::uint32_t word, bool unknown);

  std::array<std::uint32_t, scalar_file::kSize> registers_{};
  std::uint64_t unknown_ = 0;  ///< A bit per entry of registers_.
  isa::ScalarState state_;     ///< Holds the SMEM; its registers are copies made by state().
  std::vector<std::uint64_t> smem_unknown_;
  std::uint32_t unknown_words_ = 0;
  std::deque<FromVector> from_vector_;
  const isa::CoreState* vectors_ = nullptr;
  std::uint64_t queue_guards_ = 0;
  std::uint32_t queue_guard_count_ = 0;
  std::string problem_;
};

}  // namespace tpu
