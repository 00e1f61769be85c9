#include "workloads/compiler/passes/layout/padded_images.h"

#include <algorithm>
#include <map>
#include <set>

#include "sim/base/contains.h"
#include "workloads/compiler/cost.h"
#include "workloads/compiler/ir/array_layout.h"
#include "workloads/compiler/ir/kernel_forms.h"
#include "workloads/compiler/passes/edit.h"
#include "workloads/compiler/passes/layout/convolution_layouts.h"
#include "workloads/compiler/passes/layout/orders_in_step.h"

namespace tpu::compiler {

using hlo::Computation;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::InstructionId;
using hlo::Shape;

namespace {

/// Padded bytes in the better order of convolutions, over those in the best order: less than this
/// many times, copies between two orders cost what they spare.
constexpr double kPaddingToLeave = 2.5;
/// Cycles of the vector unit for a tile of an image that the kernels of convolutions, which read
/// and make it, hide behind their products or the HBM.
constexpr double kHiddenCycles = 8;

/// Of an array, the better order of convolutions and the best of all, with the bytes in them.
struct PaddedBytes {
  DimensionOrder order_in_convolution, best_order;
  double in_convolution = 0, best = 0;
  double padding() const { return in_convolution - best; }
};

PaddedBytes padded_bytes_of(const Shape& shape, const ImageRoles& roles) {
  const auto bytes = [&](const DimensionOrder& order) {
    return padded_bytes(shape, order.back(), order[order.size() - 2]);
  };
  PaddedBytes found{order_of_images(shape.rank(), roles, false), densest_order(shape)};
  const DimensionOrder in_lanes = order_of_images(shape.rank(), roles, true);
  if (bytes(in_lanes) < bytes(found.order_in_convolution)) found.order_in_convolution = in_lanes;
  found.in_convolution = bytes(found.order_in_convolution);
  found.best = bytes(found.best_order);
  return found;
}

bool is_padded(const Shape& shape, const ImageRoles& roles) {
  if (shape.rank() != 4 || shape.element_count() == 0) return false;
  const PaddedBytes bytes = padded_bytes_of(shape, roles);
  return bytes.in_convolution >= kPaddingToLeave * bytes.best;
}

class PaddedImages {
 public:
  PaddedImages(Computation& computation, const std::vector<DimensionOrder>& asked,
               const Target& target)
      : computation_(computation), asked_(asked), target_(target), users_(users_of(computation)) {}

  std::vector<InstructionId> part() {
    find_images();
    std::vector<InstructionId> reshapes;
    for (const auto& [image, roles] : images_) {
      const bool is_result = computation_.at(image).opcode == HloOpcode::kConvolution;
      std::vector<InstructionId> behind;  // Users on the other side of the reshape.
      for (InstructionId user : users(image)) {
        const HloInstruction& instruction = computation_.at(user);
        const bool is_expression =
            hlo::is_elementwise(instruction.opcode) || is_box_move(instruction.opcode);
        if (is_result ? is_expression && is_free(user)
                      : instruction.opcode == HloOpcode::kConvolution && is_free(image)) {
          behind.push_back(user);
        }
      }
      if (!behind.empty()) reshapes.push_back(put_reshape(image, behind));
    }
    return reshapes;
  }

 private:
  const std::vector<InstructionId>& users(InstructionId id) const {
    return users_[static_cast<std::size_t>(id)];
  }

  void find_images() {
    for (const HloInstruction& instruction : computation_.instructions) {
      if (instruction.opcode != HloOpcode::kConvolution) continue;
      for (const ConvolutionImage& image : images_of(instruction)) {
        if (!is_padded(computation_.at(image.id).shape, image.roles)) continue;
        images_.emplace(image.id, image.roles);
      }
    }
  }

  /// Whether the array, with all that lies as it does without convolutions between, may lie in any
  /// order once reshapes stand in front of the convolutions that read it.
  bool is_free(InstructionId id) {
    const auto known = is_free_.find(id);
    if (known != is_free_.end()) return known->second;
    std::set<InstructionId> alike{id};
    std::vector<InstructionId> queue{id};
    std::set<InstructionId> ends;  // What copies would move.
    bool free = true;
    double traffic = 0, work = 0;  // Cycles that another order spares.
    const ImageRoles roles = roles_near(id);
    const auto add = [&](InstructionId next) {
      if (computation_.at(next).opcode == HloOpcode::kConvolution) {
        // Its result is on the other side of a reshape of its own.
        free = free && images_.count(next) != 0;
        ends.insert(next);
      } else if (alike.insert(next).second) {
        queue.push_back(next);
      }
    };
    while (!queue.empty()) {
      const InstructionId next = queue.back();
      queue.pop_back();
      const HloInstruction& instruction = computation_.at(next);
      const auto decided = is_free_.find(next);
      free = free && may_lie_anyhow(instruction) && (decided == is_free_.end() || decided->second);
      if (!free) break;
      if (images_.count(next) != 0) ends.insert(next);
      traffic += spared_traffic(instruction, roles);
      work += vector_cycles(instruction.opcode) * padding_tiles(instruction, roles);
      for (InstructionId operand : operands_in_step(computation_, instruction)) add(operand);
      for (InstructionId user : users(next)) {
        if (contains(operands_in_step(computation_, computation_.at(user)), next)) add(user);
      }
    }
    double copies = 0;
    for (InstructionId end : ends) {
      copies += copy_cycles(end, roles);
      work -= kHiddenCycles * padding_tiles(computation_.at(end), roles);
    }
    free = free && traffic + std::max(0.0, work) > copies;
    for (InstructionId each : alike) is_free_[each] = free;
    return free;
  }

  ImageRoles roles_near(InstructionId id) const {
    const auto image = images_.find(id);
    if (image != images_.end()) return image->second;
    for (InstructionId operand : computation_.at(id).operands) {
      const auto of = images_.find(operand);
      if (of != images_.end()) return of->second;
    }
    return {0, 3};
  }

  /// Of a copy between the two orders. Without it an expression would write what a convolution
  /// reads in the convolution's order.
  double copy_cycles(InstructionId end, const ImageRoles& roles) const {
    const Shape& shape = computation_.at(end).shape;
    const PaddedBytes bytes = padded_bytes_of(shape, roles);
    const Shape image = in_order(shape, bytes.order_in_convolution);
    const Shape dense = in_order(shape, bytes.best_order);
    const HloOpcode made_by = computation_.at(end).opcode;
    if (made_by == HloOpcode::kConvolution) return move_cycles(image, dense, target_);
    const double written =
        made_by == HloOpcode::kParameter ? 0 : bytes.padding() / target_.hbm_bytes_per_cycle;
    return move_cycles(dense, image, target_) - written;
  }

  /// Of the memory, by the padding that passes where no convolution's kernel reads or makes the
  /// array: parameters, what sums read, what has kernels of its own.
  double spared_traffic(const HloInstruction& instruction, const ImageRoles& roles) const {
    if (instruction.shape.rank() != 4) return 0;
    bool is_read = false;
    double passes = 0;
    for (InstructionId user : users(instruction.id)) {
      const HloOpcode opcode = computation_.at(user).opcode;
      passes += opcode == HloOpcode::kReduce ? 1 : 0;
      is_read |= opcode != HloOpcode::kConvolution;
    }
    if (instruction.opcode == HloOpcode::kParameter && is_read) passes += 1;
    const bool has_own_kernel =
        is_box_move(instruction.opcode) && instruction.opcode != HloOpcode::kSlice;
    if (has_own_kernel) passes += 2;
    return passes * padded_bytes_of(instruction.shape, roles).padding() /
           target_.hbm_bytes_per_cycle;
  }

  /// Tiles that another order spares.
  static double padding_tiles(const HloInstruction& instruction, const ImageRoles& roles) {
    const Shape& shape = instruction.shape;
    if (shape.rank() != 4) return 0;
    return padded_bytes_of(shape, roles).padding() / (1024.0 * hlo::byte_size(shape.type));
  }

  bool may_lie_anyhow(const HloInstruction& instruction) const {
    const auto i = static_cast<std::size_t>(instruction.id);
    if (i < asked_.size() && !asked_[i].empty()) return false;
    if (!chooses_order(instruction)) return false;
    return std::all_of(users(instruction.id).begin(), users(instruction.id).end(),
                       [&](InstructionId user) {
                         const HloInstruction& reader = computation_.at(user);
                         if (reader.opcode == HloOpcode::kConvolution)
                           return images_.count(instruction.id) != 0;
                         return chooses_order(reader) || user == computation_.root;
                       });
  }

  InstructionId put_reshape(InstructionId image, const std::vector<InstructionId>& behind) {
    HloInstruction reshape;
    reshape.opcode = HloOpcode::kReshape;
    reshape.name = computation_.at(image).name + ".parted";
    reshape.shape = computation_.at(image).shape;
    reshape.metadata = computation_.at(image).metadata;
    reshape.operands = {image};
    const InstructionId id = append(computation_, std::move(reshape));
    for (InstructionId user : behind) {
      std::vector<InstructionId>& operands = computation_.at(user).operands;
      std::replace(operands.begin(), operands.end(), image, id);
    }
    return id;
  }

  Computation& computation_;
  const std::vector<DimensionOrder>& asked_;
  const Target& target_;
  std::vector<std::vector<InstructionId>> users_;
  std::map<InstructionId, ImageRoles> images_;  ///< Those that are mostly padding.
  std::map<InstructionId, bool> is_free_;
};

}  // namespace

std::vector<InstructionId> part_padded_images(Computation& computation,
                                              const std::vector<DimensionOrder>& asked,
                                              const Target& target) {
  return PaddedImages(computation, asked, target).part();
}

void join_parted_images(Computation& computation, const std::vector<InstructionId>& reshapes) {
  std::map<InstructionId, InstructionId> same;
  for (InstructionId id : reshapes) {
    HloInstruction& reshape = computation.at(id);
    if (computation.at(reshape.operands[0]).shape.layout == reshape.shape.layout) {
      same[id] = reshape.operands[0];
    } else {
      reshape.opcode = HloOpcode::kCopy;
    }
  }
  for (HloInstruction& instruction : computation.instructions) {
    for (InstructionId& operand : instruction.operands) {
      for (auto found = same.find(operand); found != same.end(); found = same.find(operand)) {
        operand = found->second;
      }
    }
  }
}

}  // namespace tpu::compiler
