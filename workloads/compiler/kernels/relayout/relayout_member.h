#pragma once

#include <optional>
#include <vector>

#include "workloads/compiler/ir/tile_parts.h"
#include "workloads/compiler/kernels/relayout/relayout_boxes.h"
#include "workloads/compiler/kernels/sequence_member.h"

namespace tpu::compiler {

/// A copy, transpose or reshape between arrays that stand in VMEM: rows of lanes are moved, shifted
/// or turned by the transpose unit (ElementMover). Packed arrays are 32 bits wide meanwhile.
class RelayoutMember : public SequenceMember {
 public:
  RelayoutMember(KernelBuilder& builder, const hlo::Computation& sequence,
                 const hlo::HloInstruction& instruction);

  void emit(const std::vector<VmemRegion>& regions) override;
  bool makes_everywhere(std::size_t, bool) const override { return false; }
  /// It takes the first lane of a scalar.
  void set_everywhere(std::size_t) override {}
  /// Nothing of it overlaps.
  bool reduce(std::optional<std::uint32_t>, MemberLimits&) const override { return false; }

 private:
  KernelBuilder& builder_;
  hlo::Shape source_, target_;
  std::vector<Box> boxes_;                ///< Of what keeps its places; else
  std::vector<std::size_t> permutation_;  ///< of what moves dimensions; else
  std::optional<TileParts> woven_;        ///< of parts in turns; else a reshape.
};

}  // namespace tpu::compiler
