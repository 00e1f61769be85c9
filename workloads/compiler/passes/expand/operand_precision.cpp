#include "workloads/compiler/passes/expand/operand_precision.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "isa/vector_arithmetic.h"
#include "sim/base/ceil_divide.h"
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

/// Of the operands of all products of a dot that become one product: they stand in VMEM while they
/// are made.
constexpr std::int64_t kMostJoinedBytes = 256 << 10;
/// Contracted elements that a pass of an array takes.
constexpr std::int64_t kArrayRows = 128;

float rounded_to_bf16(float value) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  bits = isa::round_to_bf16(bits);
  std::memcpy(&value, &bits, sizeof bits);
  return value;
}

/// The value of an attribute in "a=b, c={d,e}"; empty where there is none.
std::string attribute(const std::string& text, const std::string& key) {
  const std::size_t at = text.find(key + "=");
  if (at == std::string::npos || (at > 0 && text[at - 1] != ' ')) return "";
  const std::size_t begin = at + key.size() + 1;
  const char last = text[begin] == '{' ? '}' : ',';
  return text.substr(begin, text.find(last, begin) - begin);
}

/// Parts of bf16 that a product asks for each f32 operand.
std::size_t parts_asked(const std::string& attributes) {
  const std::string precision = attribute(attributes, "operand_precision");
  const std::string algorithm = attribute(attributes, "algorithm");
  const auto has = [](const std::string& text, const char* word) {
    return text.find(word) != std::string::npos;
  };
  // Significands: bf16 8 bits, tf32 and f16 11, f32 24. Three products of tf32 are those of f32.
  const bool three_products = has(algorithm, "_x3"), of_tf32 = has(algorithm, "_tf32");
  if (has(precision, "highest") || has(algorithm, "_x6") || has(algorithm, "_x9") ||
      has(algorithm, "dot_f32_f32_f32") || (of_tf32 && three_products)) {
    return 3;
  }
  return has(precision, "high") || three_products || of_tf32 || has(algorithm, "dot_f16") ? 2 : 1;
}

class PreciseProducts {
 public:
  PreciseProducts(hlo::Module& module, const Target& target)
      : module_(module), target_(target), edit_(module), known_(module) {}

  void run() {
    const std::size_t count = module_.entry_computation().instructions.size();
    for (std::size_t i = 0; i < count; ++i) visit(static_cast<Id>(i));
    if (module_.entry_computation().instructions.size() > count) tidy(module_.entry_computation());
  }

 private:
  void visit(Id id) {
    const HloInstruction product = module_.entry_computation().at(id);
    if (product.opcode != HloOpcode::kDot && product.opcode != HloOpcode::kConvolution) return;
    const std::size_t asked = parts_asked(product.raw_attributes);
    const bool is_floating =
        product.shape.type == ElementType::kF32 || product.shape.type == ElementType::kBf16;
    if (asked == 1 || !is_floating) return;
    if (product.opcode == HloOpcode::kConvolution && is_depthwise(edit_, product)) return;
    edit_.stand_for(id);
    const std::vector<Id> left = parts_of(product, 0, asked);
    const std::vector<Id> right = parts_of(product, 1, asked);
    const Pairs pairs(left.size(), right.size());
    if (is_for_one_product(product, pairs)) {
      return edit_.finish(edit_.convert(joined(product, left, right, pairs), product.shape.type));
    }
    Id sum = -1;
    for (std::size_t k = 0; k < pairs.lefts.size(); ++k) {
      // The largest product is the last.
      if (k + 1 == pairs.lefts.size() && sum >= 0) sum = finite(sum);
      const Id part = product_of(product, left[pairs.lefts[k]], right[pairs.rights[k]]);
      sum = sum < 0 ? part : edit_.binary(HloOpcode::kAdd, sum, part);
    }
    edit_.finish(edit_.convert(sum, product.shape.type));
  }

  Id unary(HloOpcode opcode, Id value, ElementType type, const char* attributes = "") {
    HloInstruction made =
        edit_.start(opcode, {value}, hlo::array_shape(type, edit_.dimensions(value)));
    if (attributes[0] != 0) made.raw_attributes = std::string(attributes);
    return edit_.append_instruction(std::move(made));
  }

  /// What the smaller products of infinities make is no correction of the largest one.
  Id finite(Id value) {
    const Id is_finite = unary(HloOpcode::kIsFinite, value, ElementType::kPred);
    const Id nothing = edit_.splat(edit_.shape(value).type, edit_.dimensions(value), 0);
    return edit_.select(is_finite, value, nothing);
  }

  /// Values whose roundings to bf16, which the MXU does, add up to the operand. Those of a
  /// convolution are rounded here: what becomes of it may be for the vector unit, in f32.
  std::vector<Id> parts_of(const HloInstruction& product, std::size_t operand, std::size_t count) {
    const Id value = product.operands[operand];
    std::vector<Id> parts{value};
    if (edit_.shape(value).type != ElementType::kF32) return parts;
    const HloInstruction& array = module_.entry_computation().at(value);
    if (array.opcode == HloOpcode::kConstant && !array.literal.empty()) {
      std::vector<float> numbers(array.literal.size() / sizeof(float));
      std::memcpy(numbers.data(), array.literal.data(), array.literal.size());
      return parts_of_known(std::move(numbers), edit_.dimensions(value), count);
    }
    if (const KnownValues::Numbers& numbers = known_.of(value)) {
      return parts_of_known({numbers->begin(), numbers->end()}, edit_.dimensions(value), count);
    }
    while (parts.size() < count) {
      const Id rounded = unary(HloOpcode::kReducePrecision, parts.back(), ElementType::kF32,
                               "exponent_bits=8, mantissa_bits=7");
      const Id rest = edit_.binary(HloOpcode::kSubtract, parts.back(), rounded);
      if (product.opcode == HloOpcode::kConvolution) parts.back() = rounded;
      parts.push_back(rest);
    }
    return parts;
  }

  /// Of what no parameter changes: constants, and of them those alone that are not all 0 (weights
  /// that are multiples of a quarter are one part).
  std::vector<Id> parts_of_known(std::vector<float> rest, const GraphEditor::Extents& extents,
                                 std::size_t count) {
    std::vector<Id> parts;
    do {
      std::vector<float> rounded(rest.size());
      std::transform(rest.begin(), rest.end(), rounded.begin(), rounded_to_bf16);
      parts.push_back(edit_.numbers(extents, rounded));
      std::transform(rest.begin(), rest.end(), rounded.begin(), rest.begin(),
                     [](float whole, float part) { return whole == part ? 0 : whole - part; });
    } while (parts.size() < count &&
             std::any_of(rest.begin(), rest.end(), [](float number) { return number != 0; }));
    return parts;
  }

  /// Which parts of the operands meet, the smallest products first.
  struct Pairs {
    std::vector<std::size_t> lefts, rights;

    Pairs(std::size_t left, std::size_t right) {
      for (std::size_t order = std::max(left, right); order-- > 0;) {
        for (std::size_t i = 0; i <= order; ++i) {
          if (i >= left || order - i >= right) continue;
          lefts.push_back(i);
          rights.push_back(order - i);
        }
      }
    }
    auto count() const { return static_cast<std::int64_t>(lefts.size()); }
  };

  /// A dot whose kernels would take their latency rather than the time of the MXUs, or leave so
  /// many rows of the arrays empty that one product takes half of the passes at most; or whose sums
  /// on their way to and from the HBM would take longer than its operands' parts side by side.
  bool is_for_one_product(const HloInstruction& product, const Pairs& pairs) const {
    if (product.opcode != HloOpcode::kDot || product.dot->lhs_contracting.empty()) return false;
    std::int64_t bytes = 0, terms = 1;
    for (const Id operand : product.operands) bytes += edit_.shape(operand).padded_bytes();
    for (const std::int64_t d : product.dot->lhs_contracting) {
      terms *= extent_of(edit_.shape(product.operands[0]), d);
    }
    const auto passes = [](std::int64_t rows) { return ceil_divide(rows, kArrayRows); };
    const bool is_short = 2 * passes(pairs.count() * terms) <= pairs.count() * passes(terms);
    return pairs.count() > 1 && (is_short || bytes * pairs.count() <= kMostJoinedBytes ||
                                 is_bound_by_sums(product, pairs.count(), terms));
  }

  /// The parts of one operand lie side by side in whole rows of lanes; each is read and written
  /// twice. A constant's lie so from the beginning.
  bool is_bound_by_sums(const HloInstruction& product, std::int64_t products,
                        std::int64_t terms) const {
    if (terms % kArrayRows != 0) return false;
    const auto elements = [](const hlo::Shape& shape) {
      return static_cast<double>(shape.padded_bytes()) / hlo::byte_size(shape.type);
    };
    const auto count = static_cast<double>(products), contracted = static_cast<double>(terms);
    const double result = elements(product.shape);
    double given = 0, moved = 0;
    for (const Id operand : product.operands) {
      const double bytes = 2 * elements(edit_.shape(operand));
      const HloInstruction& array = module_.entry_computation().at(operand);
      given += bytes;
      moved += array.opcode == HloOpcode::kConstant ? 0 : bytes;
    }
    const double rate = target_.hbm_bytes_per_cycle;
    const double passes =
        result * contracted / (target_.mxu_rows * target_.mxu_columns) / target_.mxu_count;
    const double apart = count * std::max(passes, (given + 8 * result) / rate);
    const double together =
        std::max(count * passes, (count * given + 4 * result) / rate) + 2 * count * moved / rate;
    return together < apart;
  }

  /// All products as one: their parts stand one behind the other along a contracted dimension, the
  /// smallest products first. Only the largest product has infinities: the others would make NaN
  /// of them.
  Id joined(const HloInstruction& product, const std::vector<Id>& left,
            const std::vector<Id>& right, const Pairs& pairs) {
    return product_of(product, in_a_row(left, pairs.lefts, product.dot->lhs_contracting[0]),
                      in_a_row(right, pairs.rights, product.dot->rhs_contracting[0]));
  }

  /// Parts by their numbers, one behind the other; all but the last one without infinities.
  Id in_a_row(const std::vector<Id>& parts, const std::vector<std::size_t>& numbers,
              std::int64_t dimension) {
    const bool are_constants = std::all_of(parts.begin(), parts.end(), [this](Id part) {
      return !module_.entry_computation().at(part).literal.empty();
    });
    if (are_constants && edit_.shape(parts[0]).type == ElementType::kF32) {
      return constants_in_a_row(parts, numbers, static_cast<std::size_t>(dimension));
    }
    std::vector<Id> finite_parts, row;
    for (const Id part : parts) finite_parts.push_back(finite(part));
    for (const std::size_t number : numbers) row.push_back(finite_parts[number]);
    row.back() = parts[numbers.back()];
    // The MXUs round them: before they are written, half as many bytes.
    for (Id& part : row) part = edit_.convert(part, ElementType::kBf16);
    return edit_.concatenate(row, dimension);
  }

  /// The same of parts that are constants, as a constant.
  Id constants_in_a_row(const std::vector<Id>& parts, const std::vector<std::size_t>& numbers,
                        std::size_t dimension) {
    std::vector<std::vector<float>> values;
    for (const Id part : parts) {
      const std::vector<std::uint8_t>& literal = module_.entry_computation().at(part).literal;
      std::memcpy(values.emplace_back(literal.size() / sizeof(float)).data(), literal.data(),
                  literal.size());
    }
    GraphEditor::Extents extents = edit_.dimensions(parts[0]);
    std::size_t inner = 1;
    for (std::size_t d = dimension; d < extents.size(); ++d) {
      inner *= static_cast<std::size_t>(extents[d]);
    }
    std::vector<float> row;
    for (std::size_t begin = 0; begin < values[0].size(); begin += inner) {
      for (std::size_t place = 0; place < numbers.size(); ++place) {
        for (std::size_t i = 0; i < inner; ++i) {
          const float part = values[numbers[place]][begin + i];
          const bool is_last = place + 1 == numbers.size();
          row.push_back(is_last || std::isfinite(part) ? part : 0);
        }
      }
    }
    extents[dimension] *= static_cast<std::int64_t>(numbers.size());
    return edit_.numbers(extents, row);
  }

  Id product_of(const HloInstruction& product, Id left, Id right) {
    HloInstruction part = product;
    part.name += ".part." + std::to_string(module_.entry_computation().instructions.size());
    part.operands = {left, right};
    part.shape = hlo::array_shape(ElementType::kF32, product.shape.dimensions);
    part.raw_attributes.reset();
    part.control_predecessors.reset();
    return edit_.append_instruction(std::move(part));
  }

  hlo::Module& module_;
  const Target& target_;
  GraphEditor edit_;
  KnownValues known_;
};

}  // namespace

bool asks_for_precision(const HloInstruction& product) {
  return parts_asked(product.raw_attributes) > 1;
}

void rewrite_precise_products(hlo::Module& module, const Target& target) {
  PreciseProducts(module, target).run();
}

}  // namespace tpu::compiler
