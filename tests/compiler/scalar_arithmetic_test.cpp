#include "workloads/compiler/passes/simplify/scalar_arithmetic.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "workloads/hlo/hlo_reader.h"
#include "workloads/reference/scalar.h"

namespace tpu::compiler::scalar_arithmetic_test {
namespace {

using hlo::ElementType;

bool is_floating(ElementType type) {
  return type == ElementType::kF32 || type == ElementType::kBf16;
}

std::vector<double> numbers_of(ElementType type) {
  switch (type) {
    case ElementType::kPred:
      return {0, 1};
    case ElementType::kS8:
      return {0, 1, -1, 3, 7, 100, 127, -128};
    case ElementType::kU8:
      return {0, 1, 3, 7, 100, 128, 255};
    case ElementType::kS32:
      return {0, 1, -1, 5, 31, 32, 65536, 2147483647, -2147483648.0};
    case ElementType::kU32:
      return {0, 1, 5, 31, 32, 65536, 2147483648.0, 4294967295.0};
    case ElementType::kS64:
      return {0, 1, -1, 5, 4294967296.0, -4294967297.0};
    default:
      return {0, 1, -1, 0.5, -2.25, 3, 65504, 1e30, -1e-30, INFINITY, -INFINITY, NAN};
  }
}

reference::Scalar scalar_of(ElementType type, double value) {
  reference::Scalar scalar;
  if (is_floating(type)) {
    scalar.number = value;
  } else {
    scalar.integer = static_cast<std::int64_t>(value);
  }
  return scalar;
}

/// A module whose entry is one operation of scalars.
hlo::Module operation(const std::string& result, const std::string& opcode, const std::string& from,
                      std::size_t operands, const std::string& attributes = "") {
  const std::string names = operands == 1 ? "a" : "a, b";
  return hlo::read_hlo_text("m.hlo", "HloModule m\nENTRY e {\n a = " + from +
                                         "[] parameter(0)\n b = " + from +
                                         "[] parameter(1)\n ROOT c = " + result + "[] " + opcode +
                                         "(" + names + ")" + attributes + "\n}\n");
}

/// All pairs of numbers; how many of them have a known result. Those are the reference's.
int known_results(const hlo::Module& module) {
  const hlo::Computation& entry = module.entry_computation();
  const hlo::HloInstruction& root = entry.at(entry.root);
  const ElementType from = entry.at(root.operands[0]).shape.type, to = root.shape.type;
  reference::ScalarComputation reference(module, module.entry);
  int known = 0;
  for (double a : numbers_of(from)) {
    for (double b : numbers_of(from)) {
      std::vector<double> operands{a, b};
      operands.resize(root.operands.size());
      const std::optional<double> found = scalar_result(root, from, operands);
      if (!found) continue;
      ++known;
      const reference::Scalar scalar =
          reference.run({scalar_of(from, a), scalar_of(from, b)}).front();
      const double expected = is_floating(to) ? scalar.number : static_cast<double>(scalar.integer);
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(*found)) << hlo::to_string(module) << a << " " << b;
      } else if (std::isinf(expected) || !is_floating(to)) {
        EXPECT_EQ(*found, expected) << hlo::to_string(module) << a << " " << b;
      } else {
        EXPECT_NEAR(*found, expected, 1e-6 * std::fabs(expected))
            << hlo::to_string(module) << a << " " << b;
      }
    }
  }
  return known;
}

TEST(ScalarArithmetic, ResultsAreThoseOfTheReference) {
  for (const std::string type : {"f32", "s32", "u32", "s8", "u8", "s64"}) {
    for (const char* opcode : {"add", "subtract", "multiply", "divide", "maximum", "minimum"}) {
      EXPECT_GT(known_results(operation(type, opcode, type, 2)), 20) << opcode << type;
    }
    for (const char* opcode : {"negate", "abs"}) {
      EXPECT_GT(known_results(operation(type, opcode, type, 1)), 20) << opcode << type;
    }
  }
  for (const std::string type : {"pred", "s32", "u32", "s8", "u8"}) {
    for (const char* opcode : {"and", "or", "xor"}) {
      EXPECT_GT(known_results(operation(type, opcode, type, 2)), 3) << opcode << type;
    }
    EXPECT_GT(known_results(operation(type, "not", type, 1)), 3) << type;
  }
  for (const std::string type : {"s32", "u32", "s8", "u8"}) {
    EXPECT_GT(known_results(operation(type, "shift-left", type, 2)), 20) << type;
    known_results(operation(type, "shift-right-arithmetic", type, 2));
  }
  for (const char* opcode : {"exponential", "log", "sqrt", "rsqrt", "tanh", "floor", "ceil"}) {
    EXPECT_EQ(known_results(operation("f32", opcode, "f32", 1)), 144) << opcode;
  }
  EXPECT_EQ(known_results(operation("f32", "power", "f32", 2)), 144);
}

TEST(ScalarArithmetic, ComparisonsAndConversionsAreThoseOfTheReference) {
  for (const std::string type : {"f32", "s32", "u32", "s8", "u8", "s64", "pred"}) {
    for (const char* direction : {"EQ", "NE", "LT", "LE", "GT", "GE"}) {
      const hlo::Module compare =
          operation("pred", "compare", type, 2, std::string(", direction=") + direction);
      EXPECT_GE(known_results(compare), 4) << direction << type;
    }
    for (const std::string to : {"f32", "s32", "u32", "s8", "u8", "s64", "pred"}) {
      EXPECT_GE(known_results(operation(to, "convert", type, 1)), 4) << type << to;
    }
  }
  const hlo::Module module = operation("pred", "is-finite", "f32", 1);
  const hlo::HloInstruction& is_finite = module.entry_computation().at(2);
  for (double value : numbers_of(ElementType::kF32)) {
    EXPECT_EQ(scalar_result(is_finite, ElementType::kF32, {value}), std::isfinite(value) ? 1 : 0);
  }
}

TEST(ScalarArithmetic, WhatHasNoValueOrNoExactOneIsUnknown) {
  const hlo::HloInstruction divide = operation("s32", "divide", "s32", 2).entry_computation().at(2);
  EXPECT_EQ(scalar_result(divide, ElementType::kS32, {7, 0}), std::nullopt);
  EXPECT_EQ(scalar_result(divide, ElementType::kS32, {-7, 2}), -3);
  const hlo::HloInstruction add = operation("s64", "add", "s64", 2).entry_computation().at(2);
  EXPECT_EQ(scalar_result(add, ElementType::kS64, {9007199254740991.0, 1}), std::nullopt);
  const hlo::HloInstruction narrow =
      operation("s32", "convert", "f32", 1).entry_computation().at(2);
  EXPECT_EQ(scalar_result(narrow, ElementType::kF32, {-3.5}), -3);
  EXPECT_EQ(scalar_result(narrow, ElementType::kF32, {3e9}), std::nullopt);
  EXPECT_EQ(scalar_result(narrow, ElementType::kF32, {NAN}), std::nullopt);
}

}  // namespace
}  // namespace tpu::compiler::scalar_arithmetic_test
