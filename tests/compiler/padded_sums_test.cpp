#include "workloads/compiler/passes/simplify/padded_sums.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include "tests/compiler/hlo_check.h"
#include "workloads/graph/graph.h"
#include "workloads/hlo/hlo_reader.h"
#include "workloads/reference/value.h"

namespace tpu::test::padded_sums_test {
namespace {

hlo::Module joined(const std::string& text) {
  hlo::Module module = hlo::read_hlo_text("test.hlo", text);
  hlo::verify(module);
  compiler::join_padded_sums(module);
  hlo::verify(module);
  return module;
}

std::size_t count_of(const hlo::Module& module, hlo::HloOpcode opcode) {
  const auto& all = module.entry_computation().instructions;
  return static_cast<std::size_t>(std::count_if(
      all.begin(), all.end(), [opcode](const auto& each) { return each.opcode == opcode; }));
}

/// The gradient of an image whose rows go on at its other end, `more` of them: from rows of so many
/// pixels, every `step`th of an array.
std::string wrapped(std::int64_t rows, std::int64_t more, std::int64_t pixels,
                    std::int64_t step = 1) {
  const auto array = [pixels](std::int64_t count) {
    return "f32[" + std::to_string(count) + "," + std::to_string(pixels) + "]";
  };
  const auto slice = [&](const std::string& name, std::int64_t begin, std::int64_t count) {
    return "  " + name + " = " + array(count) + " slice(g), slice={[" +
           std::to_string(step * begin) + ":" + std::to_string(step * (begin + count)) + ":" +
           std::to_string(step) + "], [0:" + std::to_string(pixels) + "]}\n";
  };
  const std::string rest = std::to_string(rows - more);
  return "HloModule wrapped\nENTRY main {\n  g = " + array(step * (rows + 2 * more)) +
         " parameter(0)\n  z = f32[] constant(0)\n" + slice("middle", more, rows) +
         slice("behind", rows + more, more) + slice("before", 0, more) +
         "  first = " + array(rows) + " pad(behind, z), padding=0_" + rest +
         "x0_0\n  last = " + array(rows) + " pad(before, z), padding=" + rest +
         "_0x0_0\n  one = " + array(rows) + " add(middle, first)\n  ROOT all = " + array(rows) +
         " add(one, last)\n}\n";
}

/// Only the rows at both ends are sums; nothing is padded.
void check_ends(const std::string& text) {
  const hlo::Module module = joined(text);
  EXPECT_EQ(count_of(module, hlo::HloOpcode::kPad), 0U);
  const hlo::Computation& entry = module.entry_computation();
  EXPECT_EQ(entry.at(entry.root).opcode, hlo::HloOpcode::kConcatenate);
  for (const hlo::HloInstruction& each : entry.instructions) {
    if (each.opcode == hlo::HloOpcode::kAdd) {
      EXPECT_EQ(each.shape.dimensions[0], 2);
    }
  }
  std::mt19937 engine(3);
  const hlo::Module before = hlo::read_hlo_text("test.hlo", text);
  const std::vector<reference::Value> arguments{
      random_value(before.entry_computation().at(0).shape, engine, {})};
  EXPECT_EQ(reference::Interpreter(module).run(arguments).numbers,
            reference::Interpreter(before).run(arguments).numbers);
}

TEST(PaddedSums, EndsThatMeetAreSumsOfTheEnds) {
  check_ends(wrapped(64, 2, 20000));
  check_ends(wrapped(64, 2, 20000, 3));
}

/// A kernel reads the pads of a small array where they stand, and ends that are most of it are no
/// ends.
TEST(PaddedSums, OfSmallArraysAndOfLargeEndsPadsAreLeft) {
  EXPECT_EQ(count_of(joined(wrapped(64, 2, 10000)), hlo::HloOpcode::kPad), 2U);
  EXPECT_EQ(count_of(joined(wrapped(64, 20, 20000)), hlo::HloOpcode::kPad), 2U);
}

}  // namespace
}  // namespace tpu::test::padded_sums_test
