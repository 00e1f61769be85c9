#include "workloads/compiler/buffers.h"

#include <algorithm>
#include <optional>

#include "sim/base/error.h"
#include "workloads/compiler/passes/simplify/constant_folding.h"

namespace tpu::compiler {

using hlo::ElementType;
using hlo::Shape;

HostArray converted(const HostArray& array, ElementType type) {
  if (array.shape.type == type) return array;
  HostArray result;
  result.shape = hlo::array_shape(type, array.shape.dimensions);
  const std::size_t size = static_cast<std::size_t>(hlo::byte_size(array.shape.type));
  hlo::HloInstruction element;
  element.shape = hlo::array_shape(array.shape.type, {});
  for (std::size_t at = 0; at + size <= array.bytes.size(); at += size) {
    const auto begin = array.bytes.begin() + static_cast<std::ptrdiff_t>(at);
    element.literal.assign(begin, begin + static_cast<std::ptrdiff_t>(size));
    const std::optional<double> value = scalar_value(element);
    if (!value) {
      throw WorkloadError("expected f32, bf16, s32, u32 or pred, found " +
                          std::string(hlo::to_string(array.shape.type)) +
                          ": convert the array before it is loaded");
    }
    const std::vector<std::uint8_t> bytes = scalar_constant(type, *value).literal;
    result.bytes.insert(result.bytes.end(), bytes.begin(), bytes.end());
  }
  return result;
}

namespace {

/// What the two words are that the compiler makes of an element; none for other types.
std::optional<ElementType> word_of_pair(ElementType type) {
  if (type == ElementType::kU64) return ElementType::kU32;
  if (type == ElementType::kC64) return ElementType::kF32;
  return std::nullopt;
}

/// 64-bit integers and complex numbers as the pairs of words that the compiler makes of them.
HostArray in_words(const HostArray& array, const Shape& wanted) {
  const std::optional<ElementType> word = word_of_pair(array.shape.type);
  std::vector<std::int64_t> pairs = array.shape.dimensions;
  pairs.push_back(2);
  if (!word || wanted.dimensions != pairs) return array;
  return {hlo::array_shape(*word, pairs), array.bytes};
}

}  // namespace

std::vector<std::uint32_t> words_for(const isa::Buffer& buffer, const HostArray& given) {
  const Shape shape = hlo::parse_shape(buffer.shape);
  const HostArray array = in_words(given, shape);
  if (shape.dimensions != array.shape.dimensions) {
    throw WorkloadError(buffer.name + ": expected an array " + to_string(shape, false) +
                        ", found " + to_string(array.shape, false));
  }
  const HostArray stored = converted(array, shape.type);
  const auto expected = static_cast<std::size_t>(shape.unpadded_bytes());
  if (stored.bytes.size() != expected) {
    throw WorkloadError(buffer.name + ": expected " + std::to_string(expected) +
                        " bytes of data, found " + std::to_string(stored.bytes.size()));
  }
  return hlo::pack(shape, stored.bytes);
}

HostArray array_from(const isa::Buffer& buffer, const std::vector<std::uint32_t>& words) {
  HostArray array;
  array.shape = hlo::parse_shape(buffer.shape);
  array.bytes = hlo::unpack(array.shape, words);
  return array;
}

HostArray in_module_type(const HostArray& array, ElementType type) {
  const std::vector<std::int64_t>& extents = array.shape.dimensions;
  const bool is_pairs =
      word_of_pair(type) == array.shape.type && !extents.empty() && extents.back() == 2;
  if (!is_pairs) return converted(array, type);
  return {hlo::array_shape(type, {extents.begin(), extents.end() - 1}), array.bytes};
}

std::vector<std::string> constants_without_values(const isa::Program& program) {
  std::vector<std::string> names;
  for (const isa::Buffer& buffer : program.buffers) {
    if (buffer.role == isa::BufferRole::kConstant && buffer.data.empty() &&
        buffer.unpadded_bytes > 0) {
      names.push_back(buffer.name);
    }
  }
  return names;
}

std::string advice_on_values(const std::vector<std::string>& constants) {
  constexpr std::size_t kListed = 5;
  std::string text = std::to_string(constants.size()) +
                     (constants.size() == 1 ? " constant has" : " constants have") +
                     " no values in the module (\"{...}\"): ";
  for (std::size_t i = 0; i < std::min(kListed, constants.size()); ++i) {
    text += (i == 0 ? "" : ", ") + constants[i];
  }
  if (constants.size() > kListed) {
    text += " and " + std::to_string(constants.size() - kListed) + " more";
  }
  return text +
         "; print it with large constants (XLA_FLAGS=--xla_dump_large_constants, "
         "as_hlo_text(print_large_constants=True))";
}

const isa::Buffer* find_buffer(const isa::Program& program, isa::BufferRole role,
                               std::uint32_t index) {
  for (const isa::Buffer& buffer : program.buffers) {
    if (buffer.role == role && buffer.index == index) return &buffer;
  }
  return nullptr;
}

std::vector<std::uint32_t> infeed_batch(const isa::Program& program,
                                        const std::vector<HostArray>& leaves) {
  std::vector<std::uint32_t> words;
  for (std::size_t leaf = 0; leaf < leaves.size(); ++leaf) {
    const isa::Buffer* buffer =
        find_buffer(program, isa::BufferRole::kInfeed, static_cast<std::uint32_t>(leaf));
    if (buffer == nullptr) {
      throw WorkloadError(program.name + ": expected at most " + std::to_string(leaf) +
                          " infeed arrays, found " + std::to_string(leaves.size()));
    }
    std::vector<std::uint32_t> packed = words_for(*buffer, leaves[leaf]);
    packed.resize(buffer->bytes / sizeof(std::uint32_t), 0);
    words.insert(words.end(), packed.begin(), packed.end());
  }
  return words;
}

}  // namespace tpu::compiler
