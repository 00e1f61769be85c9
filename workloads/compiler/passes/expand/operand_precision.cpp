#include "workloads/compiler/passes/expand/operand_precision.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "isa/vector_arithmetic.h"
#include "workloads/compiler/ir/operand_parts.h"
#include "workloads/compiler/passes/edit.h"
#include "workloads/compiler/passes/expand/convolution_arrays.h"
#include "workloads/compiler/passes/expand/convolution_steps.h"
#include "workloads/compiler/passes/graph_editor.h"
#include "workloads/compiler/passes/simplify/known_values.h"

namespace tpu::compiler {

using hlo::ElementType;
using hlo::HloInstruction;
using hlo::HloOpcode;

namespace {

using Id = GraphEditor::Id;

float rounded_to_bf16(float value) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  bits = isa::round_to_bf16(bits);
  std::memcpy(&value, &bits, sizeof bits);
  return value;
}

/// The algorithm that a dot states; empty where it states none.
std::string algorithm_of(const HloInstruction& product) {
  const std::string key = "algorithm=", &text = product.raw_attributes.get();
  const std::size_t at = text.find(key);
  if (at == std::string::npos || (at > 0 && text[at - 1] != ' ')) return "";
  const std::size_t begin = at + key.size();
  return text.substr(begin, text.find(',', begin) - begin);
}

/// Parts of bf16 that a product asks for each f32 operand.
std::uint32_t parts_asked(const HloInstruction& product) {
  const auto [left, right] = operand_parts(product);
  const std::string algorithm = algorithm_of(product);
  const auto has = [&algorithm](const char* word) {
    return algorithm.find(word) != std::string::npos;
  };
  // Significands: bf16 8 bits, tf32 and f16 11, f32 24. Three products of tf32 are those of f32.
  const bool three_products = has("_x3"), of_tf32 = has("_tf32");
  std::uint32_t of_algorithm = three_products || of_tf32 || has("dot_f16") ? 2 : 1;
  if (has("_x6") || has("_x9") || has("dot_f32_f32_f32") || (of_tf32 && three_products)) {
    of_algorithm = 3;
  }
  return std::max({left, right, of_algorithm});
}

/// Parts of numbers that are not all 0: numbers that are multiples of a quarter are one.
std::uint32_t parts_of(std::vector<float> rest) {
  std::uint32_t parts = 0;
  do {
    for (float& number : rest) {
      const float rounded = rounded_to_bf16(number);
      number = rounded == number ? 0 : number - rounded;
    }
    ++parts;
  } while (parts < kMostParts &&
           std::any_of(rest.begin(), rest.end(), [](float number) { return number != 0; }));
  return parts;
}

class PreciseProducts {
 public:
  explicit PreciseProducts(hlo::Module& module) : module_(module), edit_(module), known_(module) {}

  void run() {
    const std::size_t count = module_.entry_computation().instructions.size();
    for (std::size_t i = 0; i < count; ++i) visit(static_cast<Id>(i));
    if (changed_) tidy(module_.entry_computation());
  }

 private:
  void visit(Id id) {
    const HloInstruction product = module_.entry_computation().at(id);
    if (product.opcode != HloOpcode::kDot && product.opcode != HloOpcode::kConvolution) return;
    const std::uint32_t asked = parts_asked(product);
    const bool is_floating =
        product.shape.type == ElementType::kF32 || product.shape.type == ElementType::kBf16;
    if (asked == 1 || !is_floating) return;
    if (product.opcode == HloOpcode::kConvolution && is_depthwise(edit_, product)) return;
    edit_.stand_for(id);
    changed_ = true;
    OperandParts parts{1, 1};
    std::array<Id, 2> sides{};
    for (std::size_t side = 0; side < 2; ++side) {
      sides[side] = product.operands[side];
      if (!is_rounded(sides[side])) parts[side] = asked;
      if (const std::optional<std::vector<float>> numbers = numbers_of(sides[side])) {
        sides[side] = edit_.numbers(edit_.dimensions(sides[side]), *numbers);
        parts[side] = std::min(parts[side], parts_of(*numbers));
      }
    }
    HloInstruction& changed = module_.entry_computation().at(id);
    changed.operands = {sides[0], sides[1]};
    changed.raw_attributes = precision_of_parts(parts);
  }

  /// Whether an operand has the precision of bf16.
  bool is_rounded(Id value) {
    const HloInstruction& made = module_.entry_computation().at(value);
    const auto is_bf16 = [this](Id id) { return edit_.shape(id).type == ElementType::kBf16; };
    return is_bf16(value) || (made.opcode == HloOpcode::kConvert && is_bf16(made.operands[0]));
  }

  /// The numbers of what no parameter changes, as f32.
  std::optional<std::vector<float>> numbers_of(Id value) {
    const HloInstruction& array = module_.entry_computation().at(value);
    if (array.shape.type != ElementType::kF32) return std::nullopt;
    if (array.opcode == HloOpcode::kConstant && !array.literal.empty()) {
      std::vector<float> numbers(array.literal.size() / sizeof(float));
      std::memcpy(numbers.data(), array.literal.data(), array.literal.size());
      return numbers;
    }
    if (const KnownValues::Numbers& numbers = known_.of(value)) {
      return std::vector<float>(numbers->begin(), numbers->end());
    }
    return std::nullopt;
  }

  hlo::Module& module_;
  GraphEditor edit_;
  KnownValues known_;
  bool changed_ = false;
};

}  // namespace

bool asks_for_precision(const HloInstruction& product) { return parts_asked(product) > 1; }

void rewrite_precise_products(hlo::Module& module) { PreciseProducts(module).run(); }

}  // namespace tpu::compiler
