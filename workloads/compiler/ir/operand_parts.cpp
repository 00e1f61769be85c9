#include "workloads/compiler/ir/operand_parts.h"

#include <algorithm>
#include <string_view>

namespace tpu::compiler {

namespace {

constexpr std::string_view kAttribute = "operand_precision={";
constexpr std::array<std::string_view, kMostParts> kWords{"default", "high", "highest"};

}  // namespace

OperandParts operand_parts(const hlo::HloInstruction& product) {
  OperandParts parts{1, 1};
  const std::string& attributes = product.raw_attributes.get();
  std::size_t at = attributes.find(kAttribute);
  if (at == std::string::npos) return parts;
  at += kAttribute.size();
  for (std::uint32_t& part : parts) {
    const std::size_t end = attributes.find_first_of(",}", at);
    const auto word =
        std::find(kWords.begin(), kWords.end(), attributes.substr(at, end - at)) - kWords.begin();
    part = word < kMostParts ? static_cast<std::uint32_t>(word) + 1 : 1;
    if (end == std::string::npos || attributes[end] == '}') break;
    at = end + 1;
  }
  return parts;
}

OperandParts operand_parts(const hlo::HloInstruction& product, hlo::ElementType lhs,
                           hlo::ElementType rhs) {
  OperandParts parts = operand_parts(product);
  if (lhs != hlo::ElementType::kF32) parts[0] = 1;
  if (rhs != hlo::ElementType::kF32) parts[1] = 1;
  return parts;
}

std::string precision_of_parts(const OperandParts& parts) {
  if (!are_several(parts)) return "";
  return std::string(kAttribute) + std::string(kWords[parts[0] - 1]) + "," +
         std::string(kWords[parts[1] - 1]) + "}";
}

void exchange_precisions(hlo::HloInstruction& product) {
  const OperandParts parts = operand_parts(product);
  if (parts[0] == parts[1]) return;
  std::string& attributes = product.raw_attributes.edit();
  const std::size_t begin = attributes.find(kAttribute);
  attributes.replace(begin, attributes.find('}', begin) + 1 - begin,
                     precision_of_parts({parts[1], parts[0]}));
}

PartPairs::PartPairs(const OperandParts& count) {
  for (std::uint32_t order = std::max(count[0], count[1]); order-- > 0;) {
    for (std::uint32_t left = 0; left <= order; ++left) {
      if (left < count[0] && order - left < count[1]) pairs_[size_++] = {left, order - left};
    }
  }
}

}  // namespace tpu::compiler
