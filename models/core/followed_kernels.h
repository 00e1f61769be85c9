#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "isa/program.h"
#include "models/machine.h"
#include "models/origin.h"

namespace tpu {

/// The kernels whose data is followed in a run with values off, because control depends on it: the
/// launch of a program of several cores, for one, passes its messages through the vector unit and
/// the HBM. Which they are turns out in the run: it begins again with one kernel more whenever
/// control meets a value that nobody knows. A kernel that costs too much is refused: where control
/// depends on its data, the path is assumed.
class FollowedKernels {
 public:
  explicit FollowedKernels(const isa::Program& program);

  /// Follows what the origin names; false when that is done already, so that nothing more can be
  /// known.
  bool add(Origin origin);

  /// The kernel is not followed, now and later.
  void refuse(std::uint32_t kernel);
  /// Nothing more is followed than now.
  void refuse_others() { others_refused_ = true; }
  /// Whether control goes on without this unknown value.
  bool refused(Origin origin) const;

  /// Whether a run that begins again may know the value.
  bool can_add(Origin origin) const;

  /// Something is followed: memories have to say where what they do not know comes from.
  bool any() const { return any_; }
  bool follows(std::uint32_t kernel) const { return vector_halves_.count(kernel) != 0; }
  /// A followed kernel with the instructions alone that read or write vector registers, their
  /// queues and VMEM. The scalar unit executes the rest.
  const isa::Kernel& vector_half(std::uint32_t kernel) const { return vector_halves_.at(kernel); }
  /// Whether a kernel changes index address registers, which keep their values across calls.
  bool sets_index_addresses(std::uint32_t kernel) const { return sets_index_addresses_[kernel]; }

  std::vector<std::string> names() const;

  /// Counts vector instructions and bytes of the present run; throws FollowLimit.
  void begin_run(const FollowLimits& limits) {
    limits_ = limits, spent_.clear(), used_ = {0, 0, 0};
  }
  void spend_instructions(std::uint32_t kernel, std::uint64_t count) const;
  void spend_bytes(std::uint32_t kernel, std::uint64_t count) const;

 private:
  const isa::Program& program_;
  bool any_ = false;
  bool others_refused_ = false;
  std::set<std::uint32_t> refused_;
  FollowLimits limits_;
  mutable FollowLimits used_{0, 0, 0};
  mutable std::map<std::uint32_t, std::uint64_t> spent_;  ///< Instructions by kernel.
  std::map<std::uint32_t, isa::Kernel> vector_halves_;
  std::vector<bool> sets_index_addresses_;
};

}  // namespace tpu
