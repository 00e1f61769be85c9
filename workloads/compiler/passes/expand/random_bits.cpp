#include "workloads/compiler/passes/expand/random_bits.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "sim/base/ceil_divide.h"
#include "sim/base/error.h"
#include "workloads/compiler/passes/graph_editor.h"
#include "workloads/compiler/passes/refusal_list.h"
#include "workloads/graph/op_info.h"

namespace tpu::compiler {

using hlo::ComparisonDirection;
using hlo::ElementType;
using hlo::HloInstruction;
using hlo::HloOpcode;

namespace {

using Id = GraphEditor::Id;
using Extents = GraphEditor::Extents;

constexpr ElementType kWord = ElementType::kU32;

/// A 64-bit number in two words.
struct Words {
  Id low = -1, high = -1;
};

class RandomBits {
 public:
  explicit RandomBits(hlo::Module& module) : module_(module), edit_(module) {}

  void run(Refusals& refusals) {
    rewrite_each(module_, refusals, [this](Id id) { visit(id); });
  }

 private:
  const HloInstruction& at(Id id) const { return module_.entry_computation().at(id); }
  void visit(Id id);
  void visit_bit_generator(Id id);
  void visit_rng(Id id);

  Id add(Id a, Id b) { return edit_.binary(HloOpcode::kAdd, a, b); }
  Id exclusive_or(Id a, Id b) { return edit_.binary(HloOpcode::kXor, a, b); }
  Id spread(Id scalar, const Extents& extents) { return edit_.broadcast(scalar, extents, {}); }
  Words sum(const Words& a, Id low);
  Id rotated(Id x, int distance);
  Words threefry(const Words& key, Words counter);
  Id linear_index(const Extents& extents);
  Words product(Id a, std::uint32_t factor);
  std::array<Id, 4> philox(Words key, std::array<Id, 4> counter);
  Words state_word(Id state, std::int64_t number);
  Id state_of(const std::vector<Words>& words);
  Id threefry_bits(const Words& key, const Words& begin, const Extents& extents, Words& next);
  Id philox_bits(const Words& key, const Words& low, const Words& high, const Extents& extents,
                 Words& next);
  Words words_of(std::uint32_t low, std::uint32_t high) {
    return {edit_.scalar(kWord, low), edit_.scalar(kWord, high)};
  }
  /// fp32 in [0, 1) of the upper 23 bits.
  Id fraction(Id bits);

  hlo::Module& module_;
  GraphEditor edit_;
};

/// A number plus a word.
Words RandomBits::sum(const Words& a, Id low) {
  const Id sum = add(a.low, low);
  const Id carry = edit_.convert(edit_.compare(sum, low, ComparisonDirection::kLt), kWord);
  return {sum, add(a.high, carry)};
}

Id RandomBits::rotated(Id x, int distance) {
  return edit_.binary(HloOpcode::kOr, edit_.binary_with(HloOpcode::kShiftLeft, x, distance),
                      edit_.binary_with(HloOpcode::kShiftRightLogical, x, 32 - distance));
}

/// Threefry-2x32: five groups of four rounds, a part of the key after each.
Words RandomBits::threefry(const Words& key, Words counter) {
  constexpr int kRotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  constexpr std::uint32_t kParity = 0x1BD11BDA;
  const Extents extents = edit_.dimensions(counter.low);
  const Id last = edit_.binary_with(HloOpcode::kXor, exclusive_or(key.low, key.high), kParity);
  const std::array<Id, 3> keys{key.low, key.high, last};
  Id x = add(counter.low, spread(keys[0], extents)),
     y = add(counter.high, spread(keys[1], extents));
  for (std::size_t group = 0; group < 5; ++group) {
    for (const int distance : kRotations[group % 2]) {
      x = add(x, y);
      y = exclusive_or(rotated(y, distance), x);
    }
    const Id number = edit_.scalar(kWord, static_cast<double>(group + 1));
    x = add(x, spread(keys[(group + 1) % 3], extents));
    y = add(y, spread(add(keys[(group + 2) % 3], number), extents));
  }
  return {x, y};
}

/// Row-major number of each element.
Id RandomBits::linear_index(const Extents& extents) {
  std::int64_t trailing = 1;
  Id index = -1;
  for (std::size_t d = extents.size(); d-- > 0;) {
    if (extents[d] > 1) {
      const Id along = edit_.iota(kWord, extents, static_cast<std::int64_t>(d));
      const Id scaled =
          edit_.binary_with(HloOpcode::kMultiply, along, static_cast<double>(trailing));
      index = index < 0 ? scaled : add(index, scaled);
    }
    trailing *= extents[d];
  }
  return index < 0 ? edit_.splat(kWord, extents, 0) : index;
}

/// Both words of a product, from products of halves.
Words RandomBits::product(Id a, std::uint32_t factor) {
  const double low = factor & 0xffff, high = factor >> 16;
  const auto times = [&](Id x, double y) { return edit_.binary_with(HloOpcode::kMultiply, x, y); };
  const auto upper = [&](Id x) { return edit_.binary_with(HloOpcode::kShiftRightLogical, x, 16); };
  const auto lower = [&](Id x) { return edit_.binary_with(HloOpcode::kAnd, x, 0xffff); };
  const Id a_low = lower(a), a_high = upper(a);
  const Id first = add(times(a_high, low), upper(times(a_low, low)));
  const Id second = add(times(a_low, high), lower(first));
  return {times(a, factor), add(times(a_high, high), add(upper(first), upper(second)))};
}

/// Philox-4x32 of ten rounds.
std::array<Id, 4> RandomBits::philox(Words key, std::array<Id, 4> counter) {
  constexpr std::uint32_t kFactors[2] = {0xD2511F53, 0xCD9E8D57};
  constexpr std::uint32_t kSteps[2] = {0x9E3779B9, 0xBB67AE85};
  const Extents extents = edit_.dimensions(counter[0]);
  std::array<Id, 4> x = counter;
  for (int round = 0; round < 10; ++round) {
    const Words a = product(x[0], kFactors[0]), b = product(x[2], kFactors[1]);
    x = {exclusive_or(exclusive_or(b.high, x[1]), spread(key.low, extents)), b.low,
         exclusive_or(exclusive_or(a.high, x[3]), spread(key.high, extents)), a.low};
    key = Words{edit_.binary_with(HloOpcode::kAdd, key.low, kSteps[0]),
                edit_.binary_with(HloOpcode::kAdd, key.high, kSteps[1])};
  }
  return x;
}

Words RandomBits::state_word(Id state, std::int64_t number) {
  const auto part = [&](std::int64_t which) {
    return edit_.reshape(edit_.slice(state, {which, number}, {which + 1, number + 1}), {});
  };
  return {part(0), part(1)};
}

Id RandomBits::state_of(const std::vector<Words>& words) {
  std::vector<Id> lows, highs;
  for (const Words& word : words) {
    lows.push_back(edit_.reshape(word.low, {1, 1}));
    highs.push_back(edit_.reshape(word.high, {1, 1}));
  }
  return edit_.concatenate({edit_.concatenate(lows, 1), edit_.concatenate(highs, 1)}, 0);
}

/// The array is made in two halves along its first even dimension (else its longest), the words of
/// each Threefry block next to each other.
Id RandomBits::threefry_bits(const Words& key, const Words& begin, const Extents& extents,
                             Words& next) {
  const Extents all = extents.empty() ? Extents{1} : extents;
  auto split = std::find_if(all.begin(), all.end(), [](std::int64_t n) { return n % 2 == 0; });
  if (split == all.end()) split = std::max_element(all.begin(), all.end());
  const auto dimension = static_cast<std::size_t>(split - all.begin());
  Extents half = all, whole = all;
  half[dimension] = ceil_divide(all[dimension], 2);
  whole[dimension] = 2 * half[dimension];
  std::int64_t blocks = 1;
  for (const std::int64_t extent : half) blocks *= extent;
  const Id index = linear_index(half);
  const Words counter = sum({spread(begin.low, half), spread(begin.high, half)}, index);
  const Words bits = threefry(key, counter);
  next = sum(begin, edit_.scalar(kWord, static_cast<double>(blocks)));
  Extents apart = half;
  const auto place = static_cast<std::int64_t>(dimension) + 1;
  apart.insert(apart.begin() + place, 1);
  const Id joined =
      edit_.concatenate({edit_.reshape(bits.low, apart), edit_.reshape(bits.high, apart)}, place);
  const Id made = edit_.slice(edit_.reshape(joined, whole), Extents(all.size(), 0), all);
  return edit_.reshape(made, extents);
}

/// Blocks of four words, in row-major order of the array. Every element computes its block and
/// takes its word of it: a quarter of the arithmetic would do, but words of a block are neighbours
/// in the lanes, where nothing brings them together as cheaply.
Id RandomBits::philox_bits(const Words& key, const Words& low, const Words& high,
                           const Extents& extents, Words& next) {
  std::int64_t count = 1;
  for (const std::int64_t extent : extents) count *= extent;
  const Id element = linear_index(extents);
  const Id block = edit_.binary_with(HloOpcode::kShiftRightLogical, element, 2);
  const Words below = sum({spread(low.low, extents), spread(low.high, extents)}, block);
  const Id low_high = spread(low.high, extents);
  const Id is_carried = edit_.binary(
      HloOpcode::kOr, edit_.compare(below.high, low_high, ComparisonDirection::kLt),
      edit_.binary(HloOpcode::kAnd, edit_.compare(below.high, low_high, ComparisonDirection::kEq),
                   edit_.compare(below.low, spread(low.low, extents), ComparisonDirection::kLt)));
  const Words above = sum({spread(high.low, extents), spread(high.high, extents)},
                          edit_.convert(is_carried, kWord));
  const std::array<Id, 4> bits = philox(key, {below.low, below.high, above.low, above.high});
  next = sum(low, edit_.scalar(kWord, static_cast<double>(ceil_divide(count, 4))));
  const Id number = edit_.binary_with(HloOpcode::kAnd, element, 3);
  Id chosen = bits[3];
  for (int word = 2; word >= 0; --word) {
    const Id is_it =
        edit_.compare(number, edit_.splat(kWord, extents, word), ComparisonDirection::kEq);
    chosen = edit_.select(is_it, bits[static_cast<std::size_t>(word)], chosen);
  }
  return chosen;
}

void RandomBits::visit_bit_generator(Id id) {
  const HloInstruction generator = at(id);
  const Extents state = edit_.dimensions(generator.operands.at(0));
  const bool has_pair = generator.shape.is_tuple() && generator.shape.elements.size() == 2;
  if (!has_pair || state.size() != 2 || state[0] != 2 || state[1] < 2 ||
      edit_.shape(generator.operands[0]).type != kWord) {
    refuse("expected a state of two or three u64 numbers");
  }
  const hlo::Shape& wanted = generator.shape.elements[1];
  if (hlo::byte_size(wanted.type) != 4) refuse("expected random bits of at most 32 bits each");
  edit_.stand_for(id);
  std::vector<Words> words;
  for (std::int64_t i = 0; i < state[1]; ++i) words.push_back(state_word(generator.operands[0], i));
  Id bits = -1;
  if (generator.raw_attributes->find("three_fry") != std::string::npos) {
    bits = threefry_bits(words[0], words[1], wanted.dimensions, words[1]);
  } else {
    // A state of two numbers counts above the key.
    const Words high = words.size() > 2 ? words[2] : words[0];
    bits = philox_bits(words[0], words[1], high, wanted.dimensions, words[1]);
  }
  edit_.finish_tuple({state_of(words), edit_.bitcast_convert(bits, wanted.type)});
}

Id RandomBits::fraction(Id bits) {
  const Id mantissa = edit_.binary_with(HloOpcode::kShiftRightLogical, bits, 9);
  const Id one_to_two = edit_.binary_with(HloOpcode::kOr, mantissa, 0x3f800000);
  return edit_.binary_with(HloOpcode::kSubtract,
                           edit_.bitcast_convert(one_to_two, ElementType::kF32), 1);
}

void RandomBits::visit_rng(Id id) {
  const HloInstruction rng = at(id);
  const Extents extents = rng.shape.dimensions;
  const ElementType type = rng.shape.type;
  const bool is_floating = type == ElementType::kF32 || type == ElementType::kBf16;
  const bool is_uniform = rng.raw_attributes->find("rng_uniform") != std::string::npos;
  const bool is_normal = rng.raw_attributes->find("rng_normal") != std::string::npos;
  if (rng.operands.size() != 2 || !(is_uniform || (is_normal && is_floating)) ||
      (!is_floating && hlo::byte_size(type) != 4)) {
    refuse(
        "expected a uniform or normal distribution of floating values or a uniform one of words");
  }
  edit_.stand_for(id);
  const Words key = words_of(static_cast<std::uint32_t>(id), 0x7470);
  const Id zero = edit_.splat(kWord, extents, 0);
  const Words bits = threefry(key, {linear_index(extents), zero});
  const auto parameter = [&](std::size_t i, ElementType as) {
    return spread(edit_.convert(rng.operands[i], as), extents);
  };
  if (!is_floating) {
    const Id low = parameter(0, type),
             range = edit_.binary(HloOpcode::kSubtract, parameter(1, type), low);
    const Id rest =
        edit_.binary(HloOpcode::kRemainder, bits.low, edit_.bitcast_convert(range, kWord));
    return edit_.finish(add(low, edit_.bitcast_convert(rest, type)));
  }
  const Id first = parameter(0, ElementType::kF32), second = parameter(1, ElementType::kF32);
  Id value = fraction(bits.low);
  if (is_uniform) {
    value = edit_.binary(HloOpcode::kMultiply, value,
                         edit_.binary(HloOpcode::kSubtract, second, first));
  } else {
    // Box and Muller: 1 - u is in (0, 1], so that its logarithm is finite.
    const Id radius = edit_.unary(
        HloOpcode::kSqrt,
        edit_.binary_with(
            HloOpcode::kMultiply,
            edit_.unary(HloOpcode::kLog,
                        edit_.binary(HloOpcode::kSubtract,
                                     edit_.splat(ElementType::kF32, extents, 1), value)),
            -2));
    const Id angle = edit_.binary_with(HloOpcode::kMultiply, fraction(bits.high), 2 * M_PI);
    value = edit_.binary(
        HloOpcode::kMultiply,
        edit_.binary(HloOpcode::kMultiply, radius, edit_.unary(HloOpcode::kCosine, angle)), second);
  }
  edit_.finish(edit_.convert(edit_.binary(HloOpcode::kAdd, value, first), type));
}

void RandomBits::visit(Id id) {
  switch (at(id).opcode) {
    case HloOpcode::kRngBitGenerator:
      return visit_bit_generator(id);
    case HloOpcode::kRng:
      return visit_rng(id);
    case HloOpcode::kRngGetAndUpdateState: {
      const Extents state = at(id).shape.dimensions;
      edit_.stand_for(id);
      return edit_.finish(
          edit_.binary_with(HloOpcode::kAdd, linear_index(state), static_cast<double>(id)));
    }
    default:
      return;
  }
}

}  // namespace

void rewrite_random_bits(hlo::Module& module, Refusals& refusals) {
  RandomBits(module).run(refusals);
}

std::vector<std::string> notes_on_random_bits(const hlo::Module& module) {
  std::vector<std::string> notes;
  const auto note = [&](const std::string& text, const hlo::OperationKind& kind) {
    const std::string found = hlo::where_found(module, kind);
    if (!found.empty()) notes.push_back(text + ": " + found);
  };
  note("random bits of no stated algorithm are Philox's, those of the chip are not public",
       [](const HloInstruction& each) {
         return each.opcode == HloOpcode::kRngBitGenerator &&
                each.raw_attributes->find("three_fry") == std::string::npos &&
                each.raw_attributes->find("philox") == std::string::npos;
       });
  note("random numbers of a hidden state are the same in every step",
       [](const HloInstruction& each) {
         return each.opcode == HloOpcode::kRng || each.opcode == HloOpcode::kRngGetAndUpdateState;
       });
  return notes;
}

}  // namespace tpu::compiler
