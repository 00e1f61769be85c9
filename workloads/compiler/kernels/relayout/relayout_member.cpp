#include "workloads/compiler/kernels/relayout/relayout_member.h"

#include "workloads/compiler/ir/array_layout.h"
#include "workloads/compiler/ir/kernel_forms.h"
#include "workloads/compiler/ir/tile_parts.h"
#include "workloads/compiler/kernels/elementwise/elementwise_kernel.h"
#include "workloads/compiler/kernels/relayout/relayout_form.h"
#include "workloads/compiler/kernels/relayout/relayout_mover.h"
#include "workloads/compiler/kernels/relayout/relayout_slabs.h"

namespace tpu::compiler {

using hlo::HloOpcode;

RelayoutMember::RelayoutMember(KernelBuilder& builder, const hlo::Computation& sequence,
                               const hlo::HloInstruction& instruction)
    : builder_(builder),
      source_(sequence.at(instruction.operands[0]).shape),
      target_(instruction.shape) {
  if (auto boxes = boxes_of(sequence, instruction)) {
    boxes_ = *std::move(boxes);
  } else if (moves_dimensions(sequence, instruction)) {
    permutation_ = permutation_of(sequence, instruction).value();
  } else if (const auto parts = tile_parts(source_, target_)) {
    if (parts->woven) {
      woven_ = parts;
    } else {
      boxes_ = boxes_of(*parts);
    }
    source_ = parts->from;
    target_ = parts->to;
  }
  inputs_.push_back({0, source_, {}, 0, rows_of_array(source_)});
  outputs_.push_back({0, target_, rows_of_array(target_)});
}

void RelayoutMember::emit(const std::vector<VmemRegion>& regions) {
  ElementMover mover(builder_);
  TileMemory memory(builder_, is_packed(source_), is_packed(target_));
  const auto view = [&](const hlo::Shape& shape, VmemRegion region) {
    TileArray array{region, {}, tiled_extents(shape)};
    if (is_packed(shape)) {
      array.region = builder_.allocate_vmem(8 * static_cast<std::uint64_t>(array.tiles()));
    }
    return array;
  };
  const TileArray source = view(source_, regions[0]), target = view(target_, regions[1]);
  builder_.new_block();
  if (is_packed(source_)) mover.unpack(memory, regions[0], {}, source);
  if (!boxes_.empty() && target_.rank() < 2) {
    const Box::Dimension& all = boxes_.front().dimensions.front();
    mover.move_linear(source, target, all.from, all.to, all.extent);
  } else if (!boxes_.empty()) {
    for (const Box& box : boxes_) mover.move_box(source, target, box);
  } else if (woven_) {
    mover.weave(source, target, *woven_);
  } else if (!permutation_.empty()) {
    mover.transpose(source, target, permutation_);
  } else {
    const std::int64_t scratch = ElementMover::reshape_scratch(source, target);
    if (scratch > 0) mover.use_scratch(builder_.allocate_vmem(static_cast<std::uint64_t>(scratch)));
    mover.reshape(source, target);
  }
  if (is_packed(target_)) mover.pack(memory, target, regions[1], {});
  builder_.new_block();
}

bool moves_in_vmem(const hlo::Computation& computation, const hlo::HloInstruction& instruction) {
  const bool moves = instruction.opcode == HloOpcode::kCopy ||
                     instruction.opcode == HloOpcode::kTranspose ||
                     instruction.opcode == HloOpcode::kReshape;
  if (!moves) return false;
  const hlo::Shape& from = computation.at(instruction.operands[0]).shape;
  const hlo::Shape& to = instruction.shape;
  if (from.type != to.type || from.rank() == 0 || to.rank() == 0) return false;
  const bool is_wide = hlo::byte_size(to.type) == 4;
  if (!is_wide && (to.type != hlo::ElementType::kBf16 || from.rank() < 2 || to.rank() < 2)) {
    return false;
  }
  if (boxes_of(computation, instruction)) return true;
  if (moves_dimensions(computation, instruction)) return from.rank() >= 2;
  return lie_in_same_order(from, to) || tile_parts(from, to);
}

}  // namespace tpu::compiler
