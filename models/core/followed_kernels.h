#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "isa/program.h"
#include "models/origin.h"

namespace tpu {

/// The kernels whose data is followed in a run with values off, because control depends on it: the
/// launch of a program of several cores, for one, passes its messages through the vector unit and
/// the HBM. Which they are turns out in the run: it begins again with one kernel more whenever
/// control meets a value that nobody knows.
class FollowedKernels {
 public:
  explicit FollowedKernels(const isa::Program& program);

  /// Follows what the origin names; false when that is done already, so that nothing more can be
  /// known.
  bool add(Origin origin);

  /// Something is followed: memories have to say where what they do not know comes from.
  bool any() const { return any_; }
  bool follows(std::uint32_t kernel) const { return vector_halves_.count(kernel) != 0; }
  /// A followed kernel with the instructions alone that read or write vector registers, their
  /// queues and VMEM. The scalar unit executes the rest.
  const isa::Kernel& vector_half(std::uint32_t kernel) const { return vector_halves_.at(kernel); }
  /// Whether a kernel changes index address registers, which keep their values across calls.
  bool sets_index_addresses(std::uint32_t kernel) const { return sets_index_addresses_[kernel]; }

  std::vector<std::string> names() const;

 private:
  const isa::Program& program_;
  bool any_ = false;
  std::map<std::uint32_t, isa::Kernel> vector_halves_;
  std::vector<bool> sets_index_addresses_;
};

}  // namespace tpu
