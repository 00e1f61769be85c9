#include "workloads/compiler/passes/simplify/product_operands.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "workloads/compiler/cost.h"
#include "workloads/compiler/ir/dimension_order.h"
#include "workloads/compiler/passes/edit.h"
#include "workloads/compiler/passes/layout/convolution_layouts.h"

namespace tpu::compiler {

using hlo::Computation;
using hlo::ElementType;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::InstructionId;
using hlo::Shape;

namespace {

/// Products that may read the rounded value as often as they do now and still move fewer bytes.
constexpr std::size_t kMostReaders = 2;

bool is_rounded_parameter(const Computation& entry, const HloInstruction& instruction) {
  if (instruction.opcode != HloOpcode::kConvert || instruction.shape.type != ElementType::kBf16) {
    return false;
  }
  const HloInstruction* source = &entry.at(instruction.operands[0]);
  if (source->opcode == HloOpcode::kReshape) source = &entry.at(source->operands[0]);
  return source->opcode == HloOpcode::kParameter && source->shape.type == ElementType::kF32;
}

/// Decides by what the kernels' searches expect.
class UnroundedParameters {
 public:
  UnroundedParameters(Computation& entry, ConvolutionKernels& kernels)
      : entry_(entry), kernels_(kernels), users_(users_of(entry)) {}

  void run() {
    round_behind_reshapes();
    for (const HloInstruction& rounded : entry_.instructions) {
      if (!is_rounded_parameter(entry_, rounded) || rounded.id == entry_.root) continue;
      const std::vector<InstructionId>& readers = users_[static_cast<std::size_t>(rounded.id)];
      if (readers.size() > kMostReaders || !is_cheaper(rounded, readers)) continue;
      const InstructionId parameter = rounded.operands[0];
      for (InstructionId reader : readers) {
        std::vector<InstructionId>& sides = entry_.at(reader).operands;
        std::replace(sides.begin(), sides.end(), rounded.id, parameter);
      }
    }
  }

 private:
  /// A line's kernel becomes that of an image by a dimension of extent 1: it is rounded as such.
  void round_behind_reshapes() {
    const std::size_t count = entry_.instructions.size();
    for (std::size_t i = 0; i < count; ++i) {
      const InstructionId id = static_cast<InstructionId>(i);
      if (entry_.at(id).opcode != HloOpcode::kReshape) continue;
      const InstructionId rounded = entry_.at(id).operands[0];
      if (!is_rounded_parameter(entry_, entry_.at(rounded)) ||
          users_[static_cast<std::size_t>(rounded)].size() != 1 ||
          long_extents(entry_.at(id).shape.dimensions) !=
              long_extents(entry_.at(rounded).shape.dimensions)) {
        continue;
      }
      HloInstruction reshape = entry_.at(id);
      reshape.name += ".unrounded";
      reshape.operands = entry_.at(rounded).operands;
      reshape.shape.type = ElementType::kF32;
      const InstructionId wide = append(entry_, std::move(reshape));
      entry_.at(id).opcode = HloOpcode::kConvert;
      entry_.at(id).operands = {wide};
    }
    tidy(entry_);
    users_ = users_of(entry_);
  }

  /// What convolutions take on a side with the kernel that rounds before, and without.
  struct Cycles {
    double present = kKernelCycles, unrounded = 0;
  };

  /// Dots always; convolutions where all have kernels on each side, by the side where they take
  /// less now.
  bool is_cheaper(const HloInstruction& rounded, const std::vector<InstructionId>& readers) {
    std::vector<InstructionId> convolutions;
    for (InstructionId reader : readers) {
      const HloOpcode opcode = entry_.at(reader).opcode;
      if (opcode == HloOpcode::kConvolution) convolutions.push_back(reader);
      if (opcode != HloOpcode::kConvolution && opcode != HloOpcode::kDot) return false;
    }
    if (convolutions.empty()) return true;
    const Cycles rows = cycles_on(rounded, convolutions, false);
    const Cycles lanes = cycles_on(rounded, convolutions, true);
    const Cycles& better = rows.present <= lanes.present ? rows : lanes;
    return better.unrounded <= better.present && std::isfinite(rows.unrounded) &&
           std::isfinite(lanes.unrounded);
  }

  Cycles cycles_on(const HloInstruction& rounded, const std::vector<InstructionId>& convolutions,
                   bool batch_in_lanes) {
    const Shape& wide = entry_.at(rounded.operands[0]).shape;
    Cycles cycles;
    for (InstructionId id : convolutions) {
      const HloInstruction& convolution = entry_.at(id);
      const auto takes = [&](const Shape& of) {
        const auto operand = [&](std::size_t side) {
          const InstructionId read = convolution.operands[side];
          return read == rounded.id ? of : entry_.at(read).shape;
        };
        return kernels_.has_kernel(convolution, operand(0), operand(1), batch_in_lanes)
                   ? kernels_.cycles(convolution, operand(0), operand(1), batch_in_lanes)
                   : std::nullopt;
      };
      const std::optional<double> before = takes(rounded.shape);
      if (!before) continue;
      cycles.present += *before;
      cycles.unrounded += takes(wide).value_or(HUGE_VAL);
    }
    const ConvolutionOrders orders = convolution_orders(entry_.at(convolutions[0]), batch_in_lanes);
    const bool is_input = entry_.at(convolutions[0]).operands[0] == rounded.id;
    const DimensionOrder& order = is_input ? orders.input : orders.window;
    const std::int64_t bytes = in_order(wide, densest_order(wide)).padded_bytes() +
                               in_order(rounded.shape, order).padded_bytes();
    cycles.present += double(bytes) / kernels_.target().hbm_bytes_per_cycle;
    return cycles;
  }

  Computation& entry_;
  ConvolutionKernels& kernels_;
  std::vector<std::vector<InstructionId>> users_;
};

}  // namespace

void read_parameters_unrounded(hlo::Module& module, ConvolutionKernels& kernels) {
  Computation& entry = module.entry_computation();
  UnroundedParameters(entry, kernels).run();
  tidy(entry);
}

}  // namespace tpu::compiler
