#include "sim/app/what_if.h"

#include <gtest/gtest.h>

#include "sim/app/arguments.h"

/// Variants in processes of their own say what they say in this one.

namespace tpu::app::what_if_test {
namespace {

std::vector<traces::WhatIf> asked(const std::vector<std::string>& words, std::uint32_t jobs) {
  const std::optional<Arguments> arguments = parse_arguments(words);
  EXPECT_TRUE(arguments.has_value());
  const std::string& name = arguments->configs[0];
  ProgramCache programs(kWhatIfPrograms);
  const Simulation simulation =
      simulate(*arguments, effective_configuration(*arguments, name), name, programs);
  return what_if(*arguments, name, simulation.record, programs, jobs);
}

TEST(WhatIf, ProcessesFindWhatOneFinds) {
  // Wider layers do not fit this HBM: that is an answer, too.
  const std::vector<std::string> words{"run",     "mlp", "--cores", "1",
                                       "--batch", "96",  "--set",   "hbm.reserved_mib=16368"};
  const std::vector<traces::WhatIf> one = asked(words, 1);
  bool is_refused = false;
  for (const std::uint32_t jobs : {2U, 8U}) {
    const std::vector<traces::WhatIf> many = asked(words, jobs);
    ASSERT_EQ(many.size(), one.size());
    for (std::size_t i = 0; i < one.size(); ++i) {
      EXPECT_EQ(many[i].name, one[i].name);
      EXPECT_EQ(many[i].settings, one[i].settings) << one[i].name;
      EXPECT_EQ(many[i].step_ms, one[i].step_ms) << one[i].name;
      EXPECT_EQ(many[i].examples_per_s, one[i].examples_per_s) << one[i].name;
      EXPECT_EQ(many[i].model_flops, one[i].model_flops) << one[i].name;
      EXPECT_EQ(many[i].problem, one[i].problem) << one[i].name;
      is_refused = is_refused || !one[i].problem.empty();
    }
  }
  EXPECT_EQ(one.size(), 6u);
  EXPECT_TRUE(is_refused);
  EXPECT_GT(one[0].step_ms, 0);
}

}  // namespace
}  // namespace tpu::app::what_if_test
