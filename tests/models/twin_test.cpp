#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <random>
#include <sstream>

#include "sim/base/error.h"
#include "tests/models/random_program.h"
#include "tests/models/test_program.h"

namespace tpu::twin_test {
namespace {

using test::RandomProgram;

void append(const Counters& c, std::ostringstream& out) {
  out << c.bundles << ' ' << c.scalar_ops << ' ' << c.vector_alu_ops << ' ' << c.vector_loads << ' '
      << c.vector_stores << ' ' << c.matmul_pushes << ' ' << c.weight_pushes << ' ' << c.xlu_pushes
      << ' ' << c.eup_pushes << ' ' << c.dmas << ' ' << c.hbm_read_bytes << ' ' << c.hbm_write_bytes
      << ' ' << c.ici_bytes;
  for (std::uint64_t busy : c.busy_cycles) out << ' ' << busy;
  for (std::uint64_t cycles : c.schedule) out << ' ' << cycles;
  for (std::size_t s = 0; s < static_cast<std::size_t>(CoreState::kCount); ++s) {
    out << ' ' << c.core[static_cast<CoreState>(s)];
    for (const auto& unit : c.idle) out << '/' << unit[static_cast<CoreState>(s)];
  }
  out << '\n';
}

void append(const CriticalPath& path, std::ostringstream& out) {
  out << "\npath " << path.cycles;
  for (std::uint64_t cycles : path.path) out << ' ' << cycles;
  for (std::uint64_t cycles : path.without) out << ' ' << cycles;
  out << ' ' << path.twice_the_mxus << ' ' << path.cuts;
  for (const CriticalPath::Op& op : path.ops) {
    for (std::uint64_t cycles : op.path) out << ' ' << cycles;
    for (std::int64_t cycles : op.gain) out << ' ' << cycles;
    for (double cycles : op.cycles) out << ' ' << cycles;
  }
}

std::string text_of(const RunResult& result) {
  std::ostringstream out;
  out << result.cycles << '\n';
  for (const CoreResult& core : result.cores) {
    out << core.end_cycle << ": ";
    append(core.total, out);
    for (const StepSpan& step : core.steps) out << step.begin << '-' << step.end << ' ';
    for (const OpResult& op : core.ops) {
      out << op.count << ' ' << op.cycles << ' ';
      append(op.counters, out);
    }
    for (const auto& [late, cycles] : core.waited_for) out << late << ':' << cycles << ' ';
  }
  append(result.critical_path, out);
  for (const PartAccount& part : result.parts) {
    out << '\n' << part.part;
    for (const auto& [cause, cycles] : part.cycles) out << ' ' << cycles;
  }
  return out.str();
}

struct Mode {
  bool interpret = false;
  bool values = false;
  std::size_t most_remembered = std::size_t{1} << 20;
  std::uint32_t warmup_steps = 0;
};

std::string outcome(const isa::Program& program, Mode mode, const std::vector<std::uint32_t>& cores,
                    const MachineParams& params = MachineParams()) {
  RunOptions options;
  options.cores = cores;
  options.steps = 2;
  options.interpret = mode.interpret;
  options.values = mode.values;
  options.most_remembered = mode.most_remembered;
  options.warmup_steps = mode.warmup_steps;
  try {
    Machine machine(params, program);
    CoreLoad load;
    load.hbm.push_back({0, std::vector<std::uint32_t>(512 * 256, 0x3f800000)});
    if (mode.values) {
      for (std::uint32_t core : cores) machine.load(core, load);
    }
    return text_of(machine.run(options));
  } catch (const ProgramFault& fault) {
    return fault.what();
  }
}

void expect_accounts_add_up(const RunResult& result) {
  for (const CoreResult& core : result.cores) {
    EXPECT_EQ(core.total.core.total(), result.cycles);
    const ScheduleCauseCycles& schedule = core.total.schedule;
    EXPECT_EQ(std::accumulate(schedule.begin(), schedule.end(), std::uint64_t{0}),
              core.total.core[CoreState::kIssue] + core.total.core[CoreState::kDelay]);
    for (std::size_t u = 0; u < kUnits; ++u) {
      EXPECT_EQ(unit_account(core.total, static_cast<Unit>(u)).total(), result.cycles);
      EXPECT_LE(unit_account(core.total, static_cast<Unit>(u)).busy, result.cycles);
    }
  }
}

TEST(Twins, InterpreterAndBlocksAgreeOnRandomPrograms) {
  const char* const stated = std::getenv("TPUSIM_TWIN_PROGRAMS");
  const std::uint32_t programs =
      stated == nullptr ? 400 : static_cast<std::uint32_t>(std::strtoul(stated, nullptr, 10));
  std::uint32_t ended_well = 0;
  for (std::uint32_t seed = 1; seed <= programs; ++seed) {
    RandomProgram random(seed);
    isa::Program program;
    ASSERT_NO_THROW(program = random.make()) << random.text();
    const std::string expected = outcome(program, {true, false}, {0});
    ASSERT_EQ(outcome(program, {false, false}, {0}), expected) << "seed " << seed << random.text();
    if (expected.find("early") == std::string::npos) ++ended_well;
  }
  // The generator is worth nothing when most of its programs fault.
  RecordProperty("ended_well", static_cast<int>(ended_well));
  EXPECT_GT(ended_well, programs * 5 / 8);
}

TEST(Twins, ForgettingWhatBlocksDoChangesNothing) {
  for (std::uint32_t seed = 1; seed <= 60; ++seed) {
    RandomProgram random(seed);
    const isa::Program program = random.make();
    const std::string expected = outcome(program, {}, {0, 1});
    EXPECT_EQ(outcome(program, {false, false, 3}, {0, 1}), expected) << "seed " << seed;
  }
}

TEST(Twins, AgreeBehindAWarmUp) {
  for (std::uint32_t seed = 1; seed <= 100; ++seed) {
    const isa::Program program = RandomProgram(seed).make();
    Mode fast, slow;
    fast.warmup_steps = slow.warmup_steps = 1;
    slow.interpret = true;
    for (const std::vector<std::uint32_t>& cores : {std::vector<std::uint32_t>{0}, {0, 1, 5}}) {
      ASSERT_EQ(outcome(program, fast, cores), outcome(program, slow, cores)) << "seed " << seed;
    }
  }
}

TEST(Twins, ValuesDoNotChangeTheCycles) {
  for (std::uint32_t seed = 1; seed <= 30; ++seed) {
    RandomProgram random(seed);
    const isa::Program program = random.make();
    const std::string expected = outcome(program, {false, false}, {0});
    ASSERT_EQ(outcome(program, {false, true}, {0}), expected) << "seed " << seed << random.text();
    ASSERT_EQ(outcome(program, {true, true}, {0}), expected) << "seed " << seed;
  }
}

TEST(Twins, AgreeOnArraysOfSeveralBlocks) {
  MachineParams params;
  params.core.mxu.rows = params.core.mxu.columns = 256;
  int ended_well = 0;
  for (std::uint32_t seed = 1; seed <= 150; ++seed) {
    RandomProgram random = RandomProgram::for_large_arrays(seed);
    isa::Program program;
    ASSERT_NO_THROW(program = random.make()) << random.text();
    const std::string expected = outcome(program, {true, false}, {0}, params);
    const bool values = seed % 10 == 0;
    ASSERT_EQ(outcome(program, {false, values}, {0}, params), expected)
        << "seed " << seed << random.text();
    if (expected.find("early") == std::string::npos) ++ended_well;
  }
  EXPECT_GT(ended_well, 75);
}

TEST(Twins, AgreeWhereInterlocksHoldWhatComesTooEarly) {
  std::uint64_t held = 0;
  for (std::uint32_t seed = 1; seed <= 150; ++seed) {
    RandomProgram random = RandomProgram::for_interlocks(seed);
    isa::Program program = random.make();
    const std::string expected = outcome(program, {true, false}, {0});
    ASSERT_EQ(outcome(program, {false, false}, {0}), expected) << "seed " << seed << random.text();
    ASSERT_EQ(outcome(program, {false, false, 3}, {0}), expected) << "seed " << seed;
    program.conventions.interlocked = false;
    if (outcome(program, {false, false}, {0}).find("too early") != std::string::npos) ++held;
  }
  EXPECT_GT(held, 75u);
}

TEST(Twins, DamagedProgramsAreRefusedOrFault) {
  int refused = 0;
  for (std::uint32_t seed = 1; seed <= 300; ++seed) {
    isa::Program program = RandomProgram(seed).make();
    std::mt19937 random(seed);
    test::damage(program, random);
    RunOptions options = test::on_core(0);
    options.runaway_cycles = 1 << 20;
    options.interpret = seed % 2 == 0;
    options.values = seed % 3 == 0;
    try {
      test::run(program, options);
    } catch (const UserError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 100);
}

TEST(Twins, AgreeOnSeveralCores) {
  for (std::uint32_t seed = 1; seed <= 20; ++seed) {
    const isa::Program program = RandomProgram(seed).make();
    ASSERT_EQ(outcome(program, {false, false}, {0, 1, 5}),
              outcome(program, {true, false}, {0, 1, 5}))
        << "seed " << seed;
  }
}

TEST(Twins, AccountsAddUpOnRandomPrograms) {
  for (std::uint32_t seed = 1; seed <= 100; ++seed) {
    const isa::Program program = RandomProgram(seed).make();
    try {
      Machine machine(MachineParams(), program);
      RunOptions options;
      options.cores = {0, 3};
      expect_accounts_add_up(machine.run(options));
    } catch (const ProgramFault&) {
      continue;
    }
  }
}

}  // namespace
}  // namespace tpu::twin_test
