#include "workloads/compiler/passes/fuse/sums_in_kernels.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <vector>

#include "sim/base/ceil_divide.h"
#include "sim/base/contains.h"
#include "workloads/compiler/ir/array_layout.h"
#include "workloads/compiler/ir/lane_moves.h"
#include "workloads/compiler/passes/expand/widen.h"

namespace tpu::compiler {

using hlo::Computation;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::InstructionId;
using hlo::Shape;

namespace {

/// VMEM rows that a row of a sum along rows takes while the kernel runs.
constexpr std::uint64_t kRowsOfSum = 8;

/// Of a matrix of the two minor dimensions, as it is stored.
std::uint64_t matrix_bytes(const Shape& shape) {
  const std::vector<std::int64_t> extents = physical_extents(shape);
  const std::int64_t rows = extents[extents.size() - 2], lanes = extents.back();
  const auto tiles = static_cast<std::uint64_t>(ceil_divide(rows, 8) * ceil_divide(lanes, 128));
  return tiles * 1024 * static_cast<std::uint64_t>(hlo::byte_size(stored_shape(shape).type));
}

/// Of a sum, what stands in VMEM until the dimensions outside of the reduced ones have passed.
std::uint64_t bytes_kept(const Shape& sum, const Shape& input,
                         const std::vector<std::int64_t>& reduced) {
  std::uint64_t bytes = granules(stored_shape(sum)) * 1024;
  const std::vector<std::int64_t>& order = input.layout.minor_to_major;
  for (std::size_t i = order.size(); i-- > 2;) {
    if (contains(reduced, order[i])) break;
    bytes /= static_cast<std::uint64_t>(
        std::max<std::int64_t>(1, input.dimensions[static_cast<std::size_t>(order[i])]));
  }
  return bytes;
}

/// Parts of which one stands in VMEM at a time: a kernel goes through the outermost dimension above
/// the matrices part by part where all of it does not fit.
std::uint64_t most_parts(const Shape& shape) {
  const std::vector<std::int64_t> extents = physical_extents(shape);
  for (std::size_t i = 0; i + 2 < extents.size(); ++i) {
    if (extents[i] > 1) return static_cast<std::uint64_t>(extents[i]);
  }
  return 1;
}

}  // namespace

/// That a sum along rows, or what is made of it, takes while the kernel runs, part by part.
std::uint64_t SumsInKernels::bytes_of_sum(InstructionId id) const {
  const Shape sum = stored_shape(at(id).shape);
  return kRowsOfSum * 1024 * granules(sum) / most_parts(sum);
}

SumsInKernels::SumsInKernels(const Computation& entry, const SteppedExtents& extents,
                             std::uint64_t row_bytes)
    : entry_(entry), extents_(extents), row_bytes_(row_bytes) {
  for (const HloInstruction& instruction : entry.instructions) {
    lanes_.push_back(is_along_lanes(instruction));
    rows_.push_back(is_along_rows(instruction));
  }
}

bool SumsInKernels::is_along_lanes(const HloInstruction& reduce) const {
  if (!is_plain_reduce(reduce)) return false;
  const Shape& input = at(reduce.operands[0]).shape;
  return input.rank() >= 2 && reduce.dimensions.size() == 1 &&
         reduce.dimensions[0] == input.layout.minor_to_major[0];
}

bool SumsInKernels::is_along_rows(const HloInstruction& reduce) const {
  if (!is_plain_reduce(reduce) || reduce.shape.type != hlo::ElementType::kF32) return false;
  const Shape& input = at(reduce.operands[0]).shape;
  if (input.rank() < 3 || reduce.dimensions.size() != 1 ||
      reduce.dimensions[0] != input.layout.minor_to_major[1]) {
    return false;
  }
  // Matrices of three arrays, twice.
  return 6 * matrix_bytes(input) <= row_bytes_ && bytes_of_sum(reduce.id) <= row_bytes_ / 2;
}

/// Whether a result that has an element for each sum along rows is made of such sums and of arrays
/// that lie like them.
bool SumsInKernels::is_column_value(InstructionId root, const FusionDraft& draft) const {
  const Shape& shape = at(root).shape;
  const std::set<InstructionId> inside(draft.inside.begin(), draft.inside.end());
  std::set<InstructionId> seen{root};
  std::vector<InstructionId> work{root};
  bool has_sum = false;
  while (!work.empty()) {
    const InstructionId id = work.back();
    work.pop_back();
    const bool is_sum = reduces_rows_only(id);
    has_sum |= is_sum && inside.count(id) != 0;
    if (at(id).shape.rank() == 0) continue;
    if (at(id).shape.dimensions != shape.dimensions ||
        at(id).shape.layout.minor_to_major != shape.layout.minor_to_major) {
      return false;
    }
    if (is_sum || inside.count(id) == 0) continue;
    if (!hlo::is_elementwise(at(id).opcode) && at(id).opcode != HloOpcode::kBroadcast) return false;
    for (InstructionId operand : at(id).operands) {
      if (seen.insert(operand).second) work.push_back(operand);
    }
  }
  return has_sum;
}

std::vector<InstructionId> SumsInKernels::column_results(const FusionDraft& draft) const {
  std::set<InstructionId> made_of_sums;
  for (InstructionId id : draft.inside) {
    const std::vector<InstructionId>& operands = at(id).operands;
    const bool reads_one =
        hlo::is_elementwise(at(id).opcode) &&
        std::any_of(operands.begin(), operands.end(),
                    [&](InstructionId operand) { return made_of_sums.count(operand) != 0; });
    if (reduces_rows_only(id) || reads_one) made_of_sums.insert(id);
  }
  std::vector<InstructionId> found;
  std::copy_if(draft.roots.begin(), draft.roots.end(), std::back_inserter(found),
               [&](InstructionId root) {
                 return !is_plain_reduce(at(root)) && extents_.of(root) != draft.extent &&
                        made_of_sums.count(root) != 0;
               });
  return found;
}

bool SumsInKernels::makes_results_of_sums(const FusionDraft& draft) const {
  const std::vector<InstructionId> results = column_results(draft);
  return std::all_of(results.begin(), results.end(),
                     [&](InstructionId root) { return is_column_value(root, draft); });
}

/// Whether what is made of the draft's own sums is broadcast along the dimensions that they were
/// reduced from: a kernel has a sum only where it stands.
bool SumsInKernels::spreads_sums_back(const FusionDraft& draft) const {
  for (InstructionId reduce : draft.inside) {
    if (!is_known_in_kernel(reduce)) continue;
    const Shape& input = at(at(reduce).operands[0]).shape;
    std::vector<std::int64_t> kept;
    for (std::int64_t d = 0; d < input.rank(); ++d) {
      if (d != at(reduce).dimensions[0]) kept.push_back(d);
    }
    std::set<InstructionId> made_of_it{reduce};
    for (InstructionId id : draft.inside) {
      const std::vector<InstructionId>& operands = at(id).operands;
      const bool reads = std::any_of(operands.begin(), operands.end(), [&](InstructionId operand) {
        return made_of_it.count(operand) != 0;
      });
      if (!reads) continue;
      if (at(id).opcode == HloOpcode::kBroadcast) {
        if (at(id).dimensions != kept || at(id).shape.dimensions != input.dimensions) return false;
      } else if (!is_plain_reduce(at(id))) {
        made_of_it.insert(id);
      }
    }
  }
  return true;
}

std::set<InstructionId> SumsInKernels::used_in(const FusionDraft& draft) const {
  const std::set<InstructionId> inside(draft.inside.begin(), draft.inside.end());
  std::set<InstructionId> used;
  for (InstructionId id : draft.inside) {
    for (InstructionId operand : at(id).operands) {
      if (inside.count(operand) != 0 && is_known_in_kernel(operand)) used.insert(operand);
    }
  }
  return used;
}

/// Whether eight rows of each array leave room for more, twice; where sums along rows are used,
/// whole matrices and what adds up to the sums.
bool SumsInKernels::fits_rows(const FusionDraft& draft) const {
  std::uint64_t row_bytes = 0, sums = 0;
  for (InstructionId sum : used_in(draft)) {
    if (reduces_rows_only(sum)) sums += bytes_of_sum(sum);
  }
  if (sums > 0) {
    for (InstructionId result : column_results(draft)) sums += bytes_of_sum(result);
  }
  const auto add = [&](InstructionId id) {
    const Shape& shape = at(id).shape;
    if (shape.rank() < 2) return;
    const std::int64_t minor = physical_extents(shape).back();
    row_bytes +=
        sums > 0 ? matrix_bytes(shape) : static_cast<std::uint64_t>(ceil_divide(minor, 128)) * 4096;
  };
  std::for_each(draft.leaves.begin(), draft.leaves.end(), add);
  std::for_each(draft.roots.begin(), draft.roots.end(), add);
  return 2 * row_bytes + sums <= row_bytes_;
}

/// Whether the sums that the kernel keeps until dimensions outside have passed stand in VMEM
/// together, as added, as results and on their way out. A single one has an order in which it does.
bool SumsInKernels::keeps_few_sums(const FusionDraft& draft) const {
  constexpr std::uint64_t kCopies = 3;
  std::uint64_t bytes = 0;
  std::size_t sums = 0;
  for (InstructionId id : draft.inside) {
    if (!is_plain_reduce(at(id)) || is_known_in_kernel(id)) continue;
    bytes += kCopies * bytes_kept(at(id).shape, at(at(id).operands[0]).shape, at(id).dimensions);
    ++sums;
  }
  return sums < 2 || bytes <= 2 * row_bytes_ * 3 / 4;
}

/// Whether the value has an element for each sum along the rows of matrices and follows from one:
/// kernels that spread it compute it, and may be those that make the sum. Lanes are moved over all
/// of a kernel's extent alone.
bool SumsInKernels::is_made_of_column_sum(InstructionId id) const {
  constexpr std::size_t kFarthest = 16;
  std::vector<InstructionId> work{id};
  bool found = false;
  for (std::size_t next = 0; next < work.size() && next < kFarthest; ++next) {
    const HloInstruction& instruction = at(work[next]);
    if (work[next] != id && reduces_rows_only(work[next])) {
      found = true;
      continue;
    }
    if (moves_lanes(entry_, instruction)) return false;
    if (!hlo::is_elementwise(instruction.opcode)) continue;
    for (InstructionId operand : instruction.operands) {
      if (at(operand).shape.dimensions == at(id).shape.dimensions) work.push_back(operand);
    }
  }
  return found;
}

}  // namespace tpu::compiler
