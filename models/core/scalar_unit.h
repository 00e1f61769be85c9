#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "isa/core_state.h"
#include "isa/meaning.h"
#include "models/core/decoded_kernel.h"
#include "models/core/scalar_lanes.h"
#include "models/origin.h"
#include "models/step_state.h"

namespace tpu {

class Knowledge;

/// The scalar unit as far as control needs it: registers, predicates, SMEM and the queue from the
/// vector unit. It executes the scalar slice of the kernels. With values off, what comes from the
/// vector unit is unknown but in kernels that are followed; what is computed from it is unknown,
/// too, and control cannot depend on it. An unknown value is computed with all the same, from a
/// placeholder: a small number out of a fixed sequence, so that an address that depends on it lies
/// where a known one would, behind the base of its buffer and spread as known indices are. Two
/// instructions a cycle issue in the sequencer's bundles; it has no time of its own.
class ScalarUnit {
 public:
  ScalarUnit(std::uint32_t smem_words, std::uint32_t chip, std::uint32_t core);

  /// The vector registers, when values are on; with `knowledge`, when some kernels are followed.
  void set_vectors(const isa::CoreState* vectors, const Knowledge* knowledge) {
    vectors_ = vectors;
    knowledge_ = knowledge;
  }
  /// Which unknown values control goes on without, with what their placeholders make of it.
  void set_followed(const FollowedKernels& followed) { followed_ = &followed; }
  /// This unit stands for those of all members of a class.
  void set_lanes(ScalarLanes* lanes) { lanes_ = lanes; }
  const ScalarLanes* lanes() const { return lanes_; }
  bool assumes(Origin origin) const { return followed_ != nullptr && followed_->refused(origin); }
  /// Whether a run that begins again may know the unknown value.
  bool can_follow(Origin origin) const {
    return followed_ != nullptr && !origin.known() && followed_->can_add(origin);
  }
  bool follows_in_vain() const { return followed_ != nullptr && followed_->in_vain(); }
  /// The kernel that runs now: what its vector unit pushes is its data.
  void enter(std::uint32_t kernel) { kernel_ = kernel; }

  /// Executes; returns the operation that failed (problem() says why), or nullptr.
  const MicroOp* run(const MicroOp* begin, const MicroOp* end);
  const std::string& problem() const { return problem_; }
  /// Of the unknown value that the operation failed for; known when it failed for another reason.
  Origin problem_origin() const { return problem_origin_; }
  /// Buffers of the program of whose assumed contents something was loaded or popped.
  const std::set<std::uint32_t>& assumed_buffers() const { return assumed_buffers_; }
  /// Whether rows that are taken for padding came from the vector unit with known ones.
  bool has_padding() const { return has_padding_; }

  Origin branch_origin() const { return origin(scalar_file::kBranchTaken); }
  bool branch_known() const { return !is_unknown(scalar_file::kBranchTaken); }
  bool branch_taken() const {
    require_alike(scalar_file::kBranchTaken);
    return registers_[scalar_file::kBranchTaken] != 0;
  }
  bool call_taken() const {
    require_alike(scalar_file::kCallTaken);
    return registers_[scalar_file::kCallTaken] != 0;
  }
  /// Whether the guard holds; nothing when it is unknown.
  std::optional<bool> holds(const DecodedGuard& guard) const;
  bool assumed_to_hold(const DecodedGuard& guard) const {
    return (registers_[guard.reg] != 0) == guard.holds_when;
  }
  std::uint32_t assumed_value(const ScalarOperand& operand) const {
    return registers_[operand.reg] + operand.immediate;
  }
  /// Of one core, and no register is unknown.
  bool registers_known() const { return unknown_ == 0 && lanes_ == nullptr; }
  /// No register is unknown, and each has one value.
  bool registers_plain() const {
    return unknown_ == 0 && (lanes_ == nullptr || !lanes_->any_register());
  }
  /// Nothing is to be said of so many words of SMEM.
  bool words_plain(std::uint32_t first, std::uint32_t count) const {
    if (marked_words_ == 0) return true;
    if (first >= smem_words() || count > smem_words() - first) return false;
    bool plain = true;
    for (std::uint32_t i = 0; i < count; ++i) plain &= smem_origins_[first + i].plain();
    return plain;
  }
  /// The value of an operand; nothing when it is unknown.
  std::optional<std::uint32_t> value(const ScalarOperand& operand) const;
  /// Why an entry of the scalar file is unknown.
  Origin origin(std::uint8_t reg) const { return is_unknown(reg) ? origins_[reg] : Origin(); }
  /// Why a word of SMEM is unknown.
  Origin smem_origin(std::uint32_t word) const {
    return marked_words_ == 0 || word >= smem_words() ? Origin() : smem_origins_[word];
  }

  /// A sync flag's value enters the queue that spop pops.
  void push_known(std::uint32_t value) { from_vector_.push_back({value, {}}); }

  /// Guards of pushes and pops since the last take, first one in bit 0.
  std::uint64_t take_queue_guards() {
    const std::uint64_t bits = queue_guards_;
    queue_guards_ = 0;
    queue_guard_count_ = 0;
    return bits;
  }

  /// Registers, SMEM and what is on its way from the vector unit.
  void describe(StepState& state) const;

  /// SMEM contents.
  void write_smem(std::uint32_t word, std::uint32_t value, Origin origin = {});
  void write_smem_unknown(std::uint32_t word, Origin origin);
  std::uint32_t smem(std::uint32_t word) const { return state_.smem[word]; }
  std::uint32_t smem_words() const { return static_cast<std::uint32_t>(state_.smem.size()); }
  std::uint32_t scalar(std::uint8_t reg) const { return registers_[reg]; }
  /// What trips that are counted in place of executed have added to their counter.
  void add_to_scalar(std::uint8_t reg, std::uint32_t value) { registers_[reg] += value; }

  /// Registers and SMEM in the form that isa::dma_of reads.
  const isa::ScalarState& state();
  /// The same, to try what other values would mean; registers in it are copies.
  isa::ScalarState& mutable_state() {
    state();
    return state_;
  }

 private:
  struct FromVector {
    std::uint32_t value = 0;
    Origin origin;
  };

  template <bool kUnknowns>
  const MicroOp* execute(const MicroOp* begin, const MicroOp* end);
  const MicroOp* execute_with_lanes(const MicroOp* begin, const MicroOp* end);
  void execute_on_lanes(const MicroOp& op);
  bool lanes_meet_marked_word(const MicroOp& op) const;
  void require_alike(std::uint8_t reg) const {
    if (lanes_ != nullptr) lanes_->require_alike(reg);
  }
  bool store(const MicroOp& op);
  bool load(const MicroOp& op);
  bool execute_rare(const MicroOp& op);
  bool note_unknown(const MicroOp& op, bool& handled);
  bool note_unknown_store(const MicroOp& op, Origin guard, Origin address, bool& handled);
  bool fail(const std::string& what, Origin origin = {});
  FromVector element(std::uint8_t vector_register, std::uint32_t instruction);
  std::uint32_t placeholder();
  void note_origin(std::uint8_t reg, Origin origin);
  bool is_unknown(std::uint8_t reg) const { return (unknown_ >> reg & 1) != 0; }
  void note_word(std::uint32_t word, Origin origin);
  void take(std::uint8_t reg, Origin origin);

  std::array<std::uint32_t, scalar_file::kSize> registers_{};
  std::uint64_t unknown_ = 0;                         ///< A bit per entry of registers_.
  std::array<Origin, scalar_file::kSize> origins_{};  ///< Of those that are unknown.
  isa::ScalarState state_;  ///< Holds the SMEM; its registers are copies made by state().
  std::vector<Origin> smem_origins_;
  std::uint32_t marked_words_ = 0;  ///< Of SMEM, with another origin than plain.
  std::set<std::uint32_t> assumed_buffers_;
  bool has_padding_ = false;
  std::deque<FromVector> from_vector_;
  std::uint64_t placeholders_ = 0;  ///< That were given out.
  const isa::CoreState* vectors_ = nullptr;
  const Knowledge* knowledge_ = nullptr;
  const FollowedKernels* followed_ = nullptr;
  ScalarLanes* lanes_ = nullptr;  ///< Absent: the unit of one core.
  std::uint32_t kernel_ = 0;
  std::uint64_t queue_guards_ = 0;
  std::uint32_t queue_guard_count_ = 0;
  std::string problem_;
  Origin problem_origin_;
};

}  // namespace tpu
