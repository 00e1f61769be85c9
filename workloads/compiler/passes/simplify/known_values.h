#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Values of arrays of the entry that depend on no parameter, in row-major order: worked out when
/// compiling, of up to kMostElements, rounded as the program would.
class KnownValues {
 public:
  using Id = hlo::InstructionId;
  using Extents = std::vector<std::int64_t>;
  using Numbers = std::optional<std::vector<double>>;
  static constexpr std::int64_t kMostElements = 1 << 17;

  explicit KnownValues(const hlo::Module& module) : module_(module) {}

  /// None where they depend on a parameter, or by an operation that is not known here.
  const Numbers& of(Id id) {
    const auto found = known_.find(id);
    if (found != known_.end()) return found->second;
    Numbers values = compute(module_.entry_computation().at(id));
    return known_.emplace(id, std::move(values)).first->second;
  }

 private:
  Numbers compute(const hlo::HloInstruction& instruction);
  Numbers constant(const hlo::HloInstruction& instruction) const;
  Numbers elementwise(const hlo::HloInstruction& instruction);
  Numbers concatenated(const hlo::HloInstruction& instruction);
  Numbers reduced(const hlo::HloInstruction& instruction);
  /// Row-major numbers over some of an array's dimensions, all over it.
  static std::vector<double> spread(const std::vector<double>& values, const Extents& extents,
                                    const Extents& places);

  const hlo::Module& module_;  ///< Its computations may move.
  std::map<Id, Numbers> known_;
};

}  // namespace tpu::compiler
