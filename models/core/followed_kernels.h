#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "isa/program.h"
#include "models/core/vector_slice.h"
#include "models/machine.h"
#include "models/origin.h"

namespace tpu {

/// The kernels whose data is followed in a run with values off, because control depends on it: the
/// launch of a program of several cores, for one, passes its messages through the vector unit and
/// the HBM. Of each only the slice is executed that reaches what is demanded: what it pushes to the
/// scalar unit, and stores whose rows somebody followed reads. What is demanded turns out in the
/// run: it begins again with more whenever control, or the address of a DMA, meets a value that
/// nobody knows. A kernel that costs too much is refused: where control depends on its data, the
/// path is assumed. Where it is memory that it takes too much of, what its DMAs copy from HBM to
/// HBM is unknown, too.
class FollowedKernels {
 public:
  explicit FollowedKernels(const isa::Program& program);

  /// Follows what the origin names, and all that was wanted since begin_run(); false when that is
  /// done already, so that nothing more can be known.
  bool add(Origin origin);
  /// The followed code reads something unknown: to be followed when the run begins again.
  void want(Origin origin) const {
    if (!origin.known()) wanted_.insert(origin);
  }

  /// The kernel is not followed, now and later.
  void refuse(std::uint32_t kernel);
  /// Nor is anything that it writes to HBM, though it had it from HBM.
  void refuse_copies(std::uint32_t kernel) { copies_refused_.insert(kernel); }
  bool copies_refused(std::uint32_t kernel) const { return copies_refused_.count(kernel) != 0; }
  /// None of those that are followed now is, from now on.
  void refuse_all();
  /// Nothing more is followed than now.
  void refuse_others() { others_refused_ = true; }
  /// Whether control goes on without this unknown value.
  bool refused(Origin origin) const;
  /// Whether a run that begins again may know the value.
  bool can_add(Origin origin) const;

  /// Something is followed: memories have to say where what they do not know comes from.
  bool any() const { return any_; }
  bool any_kernel() const { return !kernels_.empty(); }
  bool follows(std::uint32_t kernel) const { return kernels_.count(kernel) != 0; }
  /// The kernel that another one opens (isa::CallSite::opens). Both are followed together.
  std::optional<std::uint32_t> opened_by(std::uint32_t kernel) const {
    const auto found = opened_.find(kernel);
    return found == opened_.end() ? std::nullopt : std::optional<std::uint32_t>(found->second);
  }
  /// Whether an instruction of a followed kernel is in its slice for its own sake.
  bool demands(std::uint32_t kernel, std::uint32_t instruction) const {
    return kernels_.at(kernel).demand.contains(instruction);
  }
  bool demands_all(std::uint32_t kernel) const { return kernels_.at(kernel).demand.whole; }
  /// What of a followed kernel is executed; the scalar unit executes its scalar code.
  const VectorSlice& slice(std::uint32_t kernel) const { return kernels_.at(kernel).slice; }
  /// The data that an instruction of a kernel makes.
  Origin made_by(std::uint32_t kernel, std::uint32_t instruction) const {
    return Origin::instruction(first_instruction_[kernel] + instruction);
  }
  /// Whether a kernel changes index address registers, which keep their values across calls.
  bool sets_index_addresses(std::uint32_t kernel) const;

  /// `name (3 of 12 vector instructions)`.
  std::vector<std::string> names() const;

  void begin_run(const FollowLimits& limits);
  /// Known data reaches the scalar unit.
  void note_use() const { used_ = true; }
  /// Since begin_run() none did, though kernels are followed.
  bool in_vain() const { return any_kernel() && !used_; }
  /// Counts what the present steps of all cores cost; throws FollowLimit.
  void spend_instructions(std::uint32_t kernel, std::uint64_t count) const;
  /// The memory of a core holds so many bytes more, or less.
  void spend_bytes(std::uint32_t kernel, std::int64_t more) const;
  /// A core begins another step: how many steps a run has changes nothing in what is followed.
  void give_back(std::uint64_t instructions) const { spent_instructions_ -= instructions; }

 private:
  struct Followed {
    VectorDemand demand;
    VectorSlice slice;
    bool changed = true;  ///< The demand, since it was sliced.
  };
  std::optional<std::uint32_t> kernel_of(Origin origin) const;
  bool add_one(Origin origin);
  std::vector<std::uint32_t> openings_of(std::uint32_t kernel) const;

  const isa::Program& program_;
  bool any_ = false;
  bool others_refused_ = false;
  std::set<std::uint32_t> refused_;
  std::set<std::uint32_t> copies_refused_;
  FollowLimits limits_;
  mutable bool used_ = false;  ///< Data that is known.
  mutable std::uint64_t spent_instructions_ = 0;
  mutable std::int64_t spent_bytes_ = 0;
  mutable std::map<std::uint32_t, std::int64_t> spent_bytes_by_;  ///< By kernel.
  mutable std::map<std::uint32_t, std::uint64_t> spent_;          ///< Instructions by kernel.
  mutable std::set<Origin> wanted_;
  std::map<std::uint32_t, Followed> kernels_;
  std::map<std::uint32_t, std::uint32_t> opened_;  ///< By the kernel that opens it.
  std::vector<std::uint32_t> first_instruction_;   ///< Of each kernel, in the whole program.
  mutable std::vector<std::optional<bool>> sets_index_addresses_;  ///< That were asked for.
};

}  // namespace tpu
