#include "tests/compiler/dot_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "workloads/compiler/ir/array_layout.h"

namespace tpu::test {

using compiler::Target;
using hlo::ElementType;
using hlo::Shape;

namespace {

using Extents = DotCase::Extents;

Shape in_layout(Shape shape, const Extents& layout) {
  if (!layout.empty()) shape.layout = compiler::tiled_layout(shape.type, layout);
  return shape;
}

Extents free_of(const Extents& extents, const Extents& batch, const Extents& contracting) {
  Extents free;
  for (std::size_t d = 0; d < extents.size(); ++d) {
    const auto has = [&](const Extents& list) {
      return std::find(list.begin(), list.end(), static_cast<std::int64_t>(d)) != list.end();
    };
    if (!has(batch) && !has(contracting)) free.push_back(static_cast<std::int64_t>(d));
  }
  return free;
}

/// Row-major position of indices.
std::size_t flat(const Extents& extents, const Extents& index) {
  std::size_t at = 0;
  for (std::size_t d = 0; d < extents.size(); ++d) {
    at = at * static_cast<std::size_t>(extents[d]) + static_cast<std::size_t>(index[d]);
  }
  return at;
}

}  // namespace

Target v2_target() {
  Target target;
  target.chip = "v2";
  target.mxu_count = 1;
  return target;
}

hlo::Module dot_module(const DotCase& test) {
  hlo::Module module;
  module.computations.emplace_back();
  hlo::Computation& computation = module.computations[0];
  module.entry = 0;
  const auto parameter = [&](std::int64_t number, ElementType type, const Extents& extents,
                             const Extents& layout) {
    hlo::HloInstruction instruction;
    instruction.id = static_cast<hlo::InstructionId>(computation.instructions.size());
    instruction.name = "p" + std::to_string(number);
    instruction.opcode = hlo::HloOpcode::kParameter;
    instruction.parameter_number = number;
    instruction.shape = in_layout(array_in_memory(type, extents), layout);
    computation.instructions.push_back(instruction);
  };
  parameter(0, test.lhs_type, test.lhs, test.lhs_layout);
  parameter(1, test.rhs_type, test.rhs, test.rhs_layout);
  hlo::HloInstruction dot;
  dot.id = 2;
  dot.name = test.name;
  dot.opcode = hlo::HloOpcode::kDot;
  dot.operands = {0, 1};
  dot.dot = test.dims;
  dot.raw_attributes = compiler::precision_of_parts(test.parts);
  Extents out;
  for (std::int64_t d : test.dims.lhs_batch) out.push_back(test.lhs[static_cast<std::size_t>(d)]);
  for (std::int64_t d : free_of(test.lhs, test.dims.lhs_batch, test.dims.lhs_contracting)) {
    out.push_back(test.lhs[static_cast<std::size_t>(d)]);
  }
  for (std::int64_t d : free_of(test.rhs, test.dims.rhs_batch, test.dims.rhs_contracting)) {
    out.push_back(test.rhs[static_cast<std::size_t>(d)]);
  }
  dot.shape = in_layout(array_in_memory(test.out_type, out), test.out_layout);
  computation.instructions.push_back(dot);
  computation.root = 2;
  return module;
}

double taken_in_parts(float value, std::uint32_t parts) {
  float rest = value;
  double taken = 0;
  for (std::uint32_t part = 0; part < parts; ++part) {
    const float rounded = rounded_to_bf16(rest);
    taken += double{rounded};
    rest -= rounded;
  }
  return taken;
}

double tolerance_of(hlo::ElementType type, const compiler::OperandParts& parts, double expected) {
  const double size = std::abs(expected);
  if (type == ElementType::kBf16) return 0.02 + 0.01 * size;
  return parts == compiler::OperandParts{3, 3} ? 4e-5 + 1e-6 * size : 2e-4;
}

std::vector<float> expected_dot(const DotCase& test, const std::vector<float>& lhs,
                                const std::vector<float>& rhs) {
  const Extents lhs_free = free_of(test.lhs, test.dims.lhs_batch, test.dims.lhs_contracting);
  const Extents rhs_free = free_of(test.rhs, test.dims.rhs_batch, test.dims.rhs_contracting);
  std::vector<std::pair<std::int64_t, std::int64_t>> digits;  // (dimension of lhs, of rhs)
  for (std::size_t i = 0; i < test.dims.lhs_batch.size(); ++i) {
    digits.emplace_back(test.dims.lhs_batch[i], test.dims.rhs_batch[i]);
  }
  for (std::int64_t d : lhs_free) digits.emplace_back(d, -1);
  for (std::int64_t d : rhs_free) digits.emplace_back(-1, d);
  Extents extents;
  for (const auto& [l, r] : digits) {
    extents.push_back(l >= 0 ? test.lhs[static_cast<std::size_t>(l)]
                             : test.rhs[static_cast<std::size_t>(r)]);
  }
  std::size_t count = 1;
  for (std::int64_t extent : extents) count *= static_cast<std::size_t>(extent);
  std::int64_t terms = 1;
  for (std::int64_t d : test.dims.lhs_contracting) terms *= test.lhs[static_cast<std::size_t>(d)];
  // How far each term's elements lie behind those of the first term.
  std::vector<std::size_t> left_of(static_cast<std::size_t>(terms)), right_of(left_of.size());
  for (std::size_t k = 0; k < left_of.size(); ++k) {
    Extents l(test.lhs.size()), r(test.rhs.size());
    auto left = static_cast<std::int64_t>(k);
    for (std::size_t j = 0; j < test.dims.lhs_contracting.size(); ++j) {
      const auto lk = static_cast<std::size_t>(test.dims.lhs_contracting[j]);
      l[lk] = r[static_cast<std::size_t>(test.dims.rhs_contracting[j])] = left % test.lhs[lk];
      left /= test.lhs[lk];
    }
    left_of[k] = flat(test.lhs, l);
    right_of[k] = flat(test.rhs, r);
  }
  std::vector<double> x(lhs.size()), y(rhs.size());
  const auto take = [&test](std::size_t side) {
    return [parts = test.parts[side]](float value) { return taken_in_parts(value, parts); };
  };
  std::transform(lhs.begin(), lhs.end(), x.begin(), take(0));
  std::transform(rhs.begin(), rhs.end(), y.begin(), take(1));
  std::vector<float> out(count);
  for (std::size_t i = 0; i < count; ++i) {
    Extents l(test.lhs.size()), r(test.rhs.size());
    std::size_t rest = i;
    for (std::size_t d = digits.size(); d-- > 0;) {
      const auto digit = static_cast<std::int64_t>(rest % static_cast<std::size_t>(extents[d]));
      rest /= static_cast<std::size_t>(extents[d]);
      if (digits[d].first >= 0) l[static_cast<std::size_t>(digits[d].first)] = digit;
      if (digits[d].second >= 0) r[static_cast<std::size_t>(digits[d].second)] = digit;
    }
    const std::size_t left = flat(test.lhs, l), right = flat(test.rhs, r);
    double sum = 0;
    for (std::size_t k = 0; k < left_of.size(); ++k) {
      sum += x[left + left_of[k]] * y[right + right_of[k]];
    }
    out[i] = static_cast<float>(sum);
  }
  return out;
}

void check_dot(const DotCase& test, const Target& target, std::vector<float>& expected) {
  SCOPED_TRACE(test.name + " on " + target.chip);
  const hlo::Module module = dot_module(test);
  const hlo::Computation& computation = module.computations[0];
  const compiler::LoweredKernel lowered =
      compiler::lower_dot(module, computation, computation.at(2), target);
  const PaddedArray lhs = random_array(computation.at(0).shape, 1);
  const PaddedArray rhs = random_array(computation.at(1).shape, 2);
  if (expected.empty()) expected = expected_dot(test, lhs.values, rhs.values);
  for (DmaTiming timing : {DmaTiming::kAtOnce, DmaTiming::kLate}) {
    KernelHarness harness(target);
    const std::uint32_t a = harness.place(lhs.words);
    const std::uint32_t b = harness.place(rhs.words);
    const Shape& shape = computation.at(2).shape;
    const std::uint32_t c = harness.reserve(compiler::granules(shape) * 1024);
    harness.run(lowered.kernel, {a, b, c}, timing);
    const std::vector<float> out =
        values_of(shape, harness.read(c, compiler::granules(shape) * 256));
    ASSERT_EQ(out.size(), expected.size());
    for (std::size_t i = 0; i < out.size(); ++i) {
      const double tolerance = tolerance_of(test.out_type, test.parts, expected[i]);
      ASSERT_NEAR(out[i], expected[i], tolerance) << "element " << i;
    }
  }
}

void check_dot(const DotCase& test, const Target& target) {
  std::vector<float> expected;
  check_dot(test, target, expected);
}

void check_dot(const DotCase& test) {
  std::vector<float> expected;
  check_dot(test, Target{}, expected);
  check_dot(test, v2_target(), expected);
}

CutDot::CutDot(const DotCase& test, bool keeps_matrices)
    : module_(dot_module(test)),
      computation_(module_.computations[0]),
      epilogue_(compiler::matmul_epilogue(module_, computation_, computation_.at(2))),
      problem_(compiler::dot_problem(computation_.at(2), epilogue_.lhs_shape, epilogue_.rhs_shape,
                                     epilogue_.out_shape, {keeps_matrices})),
      lhs_(random_array(computation_.at(0).shape, 1)),
      rhs_(random_array(computation_.at(1).shape, 2)),
      expected_(expected_dot(test, lhs_.values, rhs_.values)),
      parts_(test.parts) {}

void CutDot::take_lanes() {
  compiler::take_rows_in_lanes(problem_);
  compiler::take_k_in_lanes(problem_);
}

void CutDot::check(const compiler::DotTiling& tiling, const Target& target) const {
  const compiler::LoweredKernel lowered = compiler::dot_kernel(problem_, tiling, epilogue_, target);
  const Shape& shape = computation_.at(2).shape;
  KernelHarness harness(target);
  const std::uint32_t a = harness.place(lhs_.words);
  const std::uint32_t b = harness.place(rhs_.words);
  const std::uint32_t c = harness.reserve(compiler::granules(shape) * 1024);
  harness.run(lowered.kernel, {a, b, c});
  const std::vector<float> out = values_of(shape, harness.read(c, compiler::granules(shape) * 256));
  for (std::size_t i = 0; i < out.size(); ++i) {
    ASSERT_NEAR(out[i], expected_[i], tolerance_of(shape.type, parts_, expected_[i])) << i;
  }
}

}  // namespace tpu::test
