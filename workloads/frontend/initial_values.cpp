#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "sim/base/error.h"
#include "workloads/frontend/workload.h"

namespace tpu::frontend {

namespace {

using hlo::ElementType;

/// Mixes a 64-bit number (the finaliser of splitmix64).
std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

/// A stream of random numbers addressed by index: no state, the same everywhere.
class Stream {
 public:
  Stream(std::uint64_t seed, std::uint64_t a, std::uint64_t b = 0, std::uint64_t c = 0)
      : key_(mix(mix(mix(mix(seed) ^ a) ^ b) ^ c)) {}

  std::uint64_t bits(std::int64_t index) const {
    return mix(key_ + static_cast<std::uint64_t>(index));
  }
  std::int64_t below(std::int64_t index, std::int64_t limit) const {
    return static_cast<std::int64_t>(bits(index) % static_cast<std::uint64_t>(limit));
  }
  /// Sum of four uniform 16-bit numbers, centred, with standard deviation 1: near enough to normal
  /// and computed in integers, so that no library's logarithm decides its last bit.
  float normal(std::int64_t index) const {
    const std::uint64_t b = bits(index);
    const std::int64_t sum = static_cast<std::int64_t>((b & 0xffff) + (b >> 16 & 0xffff) +
                                                       (b >> 32 & 0xffff) + (b >> 48));
    const float centred = static_cast<float>(sum - 2 * 65535);
    return centred * kInverseDeviation;
  }

 private:
  /// 1 / (65536 * sqrt(4 / 12)).
  static constexpr float kInverseDeviation = 2.64290304e-05f;
  std::uint64_t key_;
};

/// Purposes of the streams, so that no two share numbers.
enum Purpose : std::uint64_t { kWeightStream = 1, kClassStream, kNoiseStream, kTokenStream };

/// One token in so many ignores the rule.
constexpr std::int64_t kRandomTokenOneIn = 8;
/// Weights of the class's pattern and of the noise in an image; their squares add up to 1.
constexpr float kPatternWeight = 0.6f;
constexpr float kNoiseWeight = 0.8f;

void store(ElementType type, double value, std::uint8_t* bytes) {
  switch (type) {
    case ElementType::kF32: {
      const float number = static_cast<float>(value);
      std::memcpy(bytes, &number, sizeof number);
      return;
    }
    case ElementType::kBf16: {
      const float number = static_cast<float>(value);
      std::uint32_t bits = 0;
      std::memcpy(&bits, &number, sizeof bits);
      const std::uint16_t rounded =
          static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
      std::memcpy(bytes, &rounded, sizeof rounded);
      return;
    }
    case ElementType::kS32: {
      const std::int32_t number = static_cast<std::int32_t>(value);
      std::memcpy(bytes, &number, sizeof number);
      return;
    }
    default:
      throw WorkloadError("initial values: expected parameters of type f32, bf16 or s32, found " +
                          std::string(hlo::to_string(type)));
  }
}

/// The examples of one step of one replica.
class Examples {
 public:
  Examples(std::uint64_t seed, std::int64_t step, std::int64_t replica)
      : seed_(seed),
        step_(static_cast<std::uint64_t>(step)),
        replica_(static_cast<std::uint64_t>(replica)) {}

  std::int64_t label(std::int64_t example, std::int64_t classes) const {
    return Stream(seed_, kClassStream, step_, replica_).below(example, classes);
  }
  float pixel(std::int64_t example, std::int64_t label, std::int64_t index,
              std::int64_t pixels) const {
    const float pattern =
        Stream(seed_, kClassStream, ~static_cast<std::uint64_t>(label)).normal(index);
    const float noise =
        Stream(seed_, kNoiseStream, step_, replica_).normal(example * pixels + index);
    return kPatternWeight * pattern + kNoiseWeight * noise;
  }
  /// The tokens of a sequence, one more than `length`: mostly the successor of the one before
  /// under a fixed rule.
  std::vector<std::int64_t> sequence(std::int64_t example, std::int64_t length,
                                     std::int64_t vocabulary) const {
    const Stream stream(seed_, kTokenStream, step_ << 32 | replica_,
                        static_cast<std::uint64_t>(example));
    const Stream rule(seed_, kTokenStream);
    std::vector<std::int64_t> tokens{stream.below(-1, vocabulary)};
    for (std::int64_t i = 0; i < length; ++i) {
      const bool random = stream.below(2 * i, kRandomTokenOneIn) == 0;
      tokens.push_back(random ? stream.below(2 * i + 1, vocabulary)
                              : rule.below(tokens.back(), vocabulary));
    }
    return tokens;
  }

 private:
  std::uint64_t seed_, step_, replica_;
};

/// Values of one parameter; `element(i)` gives each.
template <class Element>
std::vector<std::uint8_t> fill(const hlo::Shape& shape, Element&& element) {
  const std::size_t size = static_cast<std::size_t>(hlo::byte_size(shape.type));
  const std::int64_t count = shape.element_count();
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(count) * size);
  for (std::int64_t i = 0; i < count; ++i) {
    store(shape.type, element(i), bytes.data() + static_cast<std::size_t>(i) * size);
  }
  return bytes;
}

std::vector<std::uint8_t> images(const hlo::Shape& shape, const Initializer& initializer,
                                 const Examples& examples) {
  const std::int64_t pixels =
      shape.element_count() / std::max<std::int64_t>(shape.dimensions[0], 1);
  std::int64_t label = 0;
  return fill(shape, [&](std::int64_t i) {
    const std::int64_t example = i / pixels;
    if (i % pixels == 0) label = examples.label(example, initializer.count);
    return examples.pixel(example, label, i % pixels, pixels);
  });
}

std::vector<std::uint8_t> tokens(const hlo::Shape& shape, const Initializer& initializer,
                                 const Examples& examples) {
  const std::int64_t next = initializer.fill == Fill::kNextTokens ? 1 : 0;
  std::vector<std::int64_t> sequence;
  return fill(shape, [&](std::int64_t i) {
    const std::int64_t place = i % initializer.length;
    if (place == 0) {
      sequence = examples.sequence(i / initializer.length, initializer.length, initializer.count);
    }
    return static_cast<double>(sequence[static_cast<std::size_t>(place + next)]);
  });
}

std::vector<std::uint8_t> values_of(const hlo::Shape& shape, const Initializer& initializer,
                                    std::int64_t number, std::uint64_t seed,
                                    const Examples& examples) {
  switch (initializer.fill) {
    case Fill::kConstant:
      return fill(shape, [&](std::int64_t) { return initializer.value; });
    case Fill::kNormal: {
      const Stream stream(seed, kWeightStream, static_cast<std::uint64_t>(number));
      const float deviation = static_cast<float>(initializer.value);
      return fill(shape, [&](std::int64_t i) { return stream.normal(i) * deviation; });
    }
    case Fill::kImages:
      return images(shape, initializer, examples);
    case Fill::kLabels:
      return fill(shape, [&](std::int64_t i) {
        return static_cast<double>(examples.label(i, initializer.count));
      });
    case Fill::kTokens:
    case Fill::kNextTokens:
      return tokens(shape, initializer, examples);
  }
  return {};
}

std::vector<std::vector<std::uint8_t>> values_from(const Workload& workload, std::int64_t first,
                                                   std::uint64_t seed, const Examples& examples) {
  const hlo::Computation& entry = workload.module.entry_computation();
  const std::vector<hlo::InstructionId> parameters = entry.parameters();
  TPU_CHECK(parameters.size() == workload.initializers.size(), workload.module.name);
  std::vector<std::vector<std::uint8_t>> values;
  for (std::size_t i = static_cast<std::size_t>(first); i < parameters.size(); ++i) {
    values.push_back(values_of(entry.at(parameters[i]).shape, workload.initializers[i],
                               static_cast<std::int64_t>(i), seed, examples));
  }
  return values;
}

}  // namespace

std::vector<std::vector<std::uint8_t>> initial_values(const Workload& workload, std::uint64_t seed,
                                                      std::int64_t replica) {
  return values_from(workload, 0, seed, Examples(seed, 0, replica));
}

std::vector<std::vector<std::uint8_t>> step_inputs(const Workload& workload, std::uint64_t seed,
                                                   std::int64_t step, std::int64_t replica) {
  return values_from(workload, workload.state_tensors, seed, Examples(seed, step, replica));
}

std::vector<std::uint8_t> parameter_value(const Workload& workload, std::int64_t number,
                                          std::uint64_t seed, std::int64_t step,
                                          std::int64_t replica) {
  const hlo::Computation& entry = workload.module.entry_computation();
  const std::size_t at = static_cast<std::size_t>(number);
  return values_of(entry.at(entry.parameters().at(at)).shape, workload.initializers.at(at), number,
                   seed, Examples(seed, step, replica));
}

}  // namespace tpu::frontend
