#include "models/core/counted_loop.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "isa/meaning.h"
#include "models/core/scalar_unit.h"
#include "tests/models/test_program.h"

namespace tpu::counted_loop_test {
namespace {

using Kind = MicroOp::Kind;
using Ops = std::vector<MicroOp>;

constexpr std::uint8_t kRegisters = 6;
constexpr std::uint8_t kPredicate = scalar_file::kPredicates + 1;
constexpr std::uint64_t kMostTrips = 300;

/// Bodies of loops: an addition to a counter, a comparison and a branch among other operations.
class RandomLoop {
 public:
  explicit RandomLoop(std::uint32_t seed) : random_(seed) {}

  std::uint32_t pick(std::uint32_t below) {
    return std::uniform_int_distribution<std::uint32_t>(0, below - 1)(random_);
  }
  Ops make() {
    Ops ops;
    const auto counter = static_cast<std::uint8_t>(pick(2));
    const MicroOp add = op(Kind::kAdd, counter, counter, scalar_file::kZero, 1 + pick(4));
    MicroOp less = op(Kind::kLess, kPredicate, counter, reg_or_zero(), pick(3));
    less.immediate[1] = pick(200);
    const bool adds_first = pick(2) == 0;
    others(ops);
    ops.push_back(adds_first ? add : less);
    others(ops);
    ops.push_back(adds_first ? less : add);
    others(ops);
    ops.push_back(op(Kind::kCopyBit, scalar_file::kBranchTaken, kPredicate, scalar_file::kZero, 0));
    if (pick(10) == 0) ops.back().immediate[0] = 1;
    others(ops);
    return ops;
  }
  /// Registers before the loop.
  Ops values() {
    Ops ops;
    for (std::uint8_t reg = 0; reg < kRegisters; ++reg) {
      const std::uint32_t value = pick(40) == 0 ? 0x7fffff00U + pick(512) : pick(300) - 100;
      ops.push_back(op(Kind::kCopy, reg, scalar_file::kZero, scalar_file::kZero, value));
    }
    return ops;
  }

 private:
  static MicroOp op(Kind kind, std::uint8_t dest, std::uint8_t a, std::uint8_t b,
                    std::uint32_t immediate) {
    MicroOp made;
    made.kind = kind;
    made.opcode = isa::Opcode::kSaddS32;
    made.dest = dest;
    made.reg = {a, b, scalar_file::kZero};
    made.immediate[0] = immediate;
    return made;
  }
  std::uint8_t reg_or_zero() {
    return pick(2) == 0 ? scalar_file::kZero : static_cast<std::uint8_t>(pick(kRegisters));
  }
  void others(Ops& ops) {
    for (std::uint32_t left = pick(3); left > 0; --left) {
      const Kind kinds[] = {Kind::kAdd, Kind::kCopy, Kind::kOrWords, Kind::kSelect};
      MicroOp other = op(kinds[pick(4)], static_cast<std::uint8_t>(pick(kRegisters)), reg_or_zero(),
                         reg_or_zero(), pick(5));
      if (pick(12) == 0) other.guard = {kPredicate, true};
      if (pick(12) == 0) other.reg[2] = static_cast<std::uint8_t>(pick(kRegisters));
      if (pick(16) == 0) other.kind = Kind::kStore;
      if (pick(16) == 0) other.kind = Kind::kLoad;
      ops.push_back(other);
    }
  }
  std::mt19937 random_;
};

void run(ScalarUnit& unit, const Ops& ops) {
  ASSERT_EQ(unit.run(ops.data(), ops.data() + ops.size()), nullptr);
}

/// Trips that are counted leave every register as trips that are executed do.
TEST(CountedLoops, CountedTripsAreExecutedTrips) {
  std::uint32_t counted = 0, with_trips = 0;
  for (std::uint32_t seed = 0; seed < 20000; ++seed) {
    RandomLoop random(seed);
    const Ops ops = random.make(), values = random.values();
    const CountedLoop loop = counted_loop(ops.data(), ops.data() + ops.size());
    if (!loop.counts()) continue;
    ++counted;
    ScalarUnit executed(1024, 0, 0), fast(1024, 0, 0);
    for (ScalarUnit* unit : {&executed, &fast}) run(*unit, values);
    const std::uint64_t trips =
        loop.trips(fast.scalar(loop.counter), fast.assumed_value(loop.bound));
    if (trips > kMostTrips) continue;
    with_trips += trips > 1 ? 1 : 0;
    for (std::uint64_t trip = 0; trip < trips; ++trip) {
      run(executed, ops);
      ASSERT_TRUE(executed.branch_taken()) << "seed " << seed << ", trip " << trip;
    }
    fast.add_to_scalar(loop.counter, static_cast<std::uint32_t>(trips) * loop.step);
    for (ScalarUnit* unit : {&executed, &fast}) run(*unit, ops);
    for (std::uint8_t reg = 0; reg < scalar_file::kSize; ++reg) {
      ASSERT_EQ(fast.scalar(reg), executed.scalar(reg)) << "seed " << seed << ", " << int{reg};
    }
    // Where the counter would begin again at the lowest number no trip is counted.
    const std::int64_t end = static_cast<std::int32_t>(fast.assumed_value(loop.bound));
    EXPECT_TRUE(!executed.branch_taken() || end + loop.step > 0x7fffffff) << "seed " << seed;
  }
  EXPECT_GT(counted, 1000U);
  EXPECT_GT(with_trips, 1000U);
}

std::string counts_of(const RunResult& result) {
  const Counters& total = result.cores[0].total;
  std::string text = std::to_string(result.cycles) + " " + std::to_string(total.bundles) + " " +
                     std::to_string(total.scalar_ops) + " " + std::to_string(total.dmas);
  for (const std::uint64_t busy : total.busy_cycles) text += " " + std::to_string(busy);
  for (const auto& idle : total.idle) text += " " + std::to_string(idle[CoreState::kIssue]);
  for (const std::uint64_t cycles : total.schedule) text += " " + std::to_string(cycles);
  return text;
}

/// Where a DMA goes depends on what loops have counted; so does what it takes.
TEST(CountedLoops, BlocksAndTheInterpreterAgree) {
  std::mt19937 random(1);
  const auto pick = [&](int below) {
    return std::to_string(std::uniform_int_distribution<int>(0, below - 1)(random));
  };
  for (int program = 0; program < 200; ++program) {
    std::string text = "kernel top\n{ %s1 = smov " + pick(9) + " }{ %s3 = smov " + pick(90) + " }";
    for (const char* label : {"a", "b"}) {
      const std::string unit = pick(2) == "0" ? "{ vmatmul.f32.gmra.mxu0 %v1 ;; vdelay 119 }"
                                                "{ %v2 = vpop.f32.mrf.mxu0 ;; vdelay 7 }"
                                              : "{ %v2 = vmov 1.0 }";
      const std::string bound = pick(2) == "0" ? "%s3" : pick(2000);
      text += std::string(label) + ":\n{ %s1 = sadd.s32 %s1, 1" + pick(9) +
              " ;; %v1 = vld [vmem:$0x" + pick(4) + "] }{ %s2 = sadd.s32 %s1, " + pick(9) + " }" +
              unit + "{ %p1 = scmp.lt.s32.totalorder %s1, " + bound +
              " }{ sbr.rel (%p1) target = " + label + " }{ %s4 = smov 0 ;; vdelay " + pick(3) +
              " }{ dma.hbm_to_vmem %s2, 1" + pick(4) + ", 0, 1 }";
    }
    isa::Program made;
    try {
      made = test::program_of(text);
    } catch (const std::exception& problem) {
      FAIL() << problem.what() << "\n" << text;
    }
    RunOptions interpreted = test::on_core(0);
    interpreted.interpret = true;
    const std::string fault = test::fault_of(made);
    ASSERT_EQ(fault, test::fault_of(made, interpreted)) << text;
    if (!fault.empty()) continue;
    ASSERT_EQ(counts_of(test::run(made)), counts_of(test::run(made, interpreted))) << text;
  }
}

/// A block of five cycles and then one of four again and again: the first end behind the limit.
TEST(CountedLoops, EndAtTheTripThatTakesTooLong) {
  const isa::Program program = test::program_of(
      "kernel top\n{ %s1 = smov 0 }loop:\n{ %s1 = sadd.s32 %s1, 1 }"
      "{ %p1 = scmp.lt.s32.totalorder %s1, 2000000 }{ sbr.rel (%p1) target = loop }{ %s2 = smov 0 "
      "}");
  EXPECT_EQ(test::fault_of(program), "");
  RunOptions options = test::on_core(0);
  options.runaway_cycles = 100000;
  EXPECT_NE(test::fault_of(program, options).find("cycle 100001,"), std::string::npos);
  EXPECT_NE(test::fault_of(program, options).find("has run for 100001 cycles"), std::string::npos);
  options.runaway_cycles = std::uint64_t{1} << 28;
  options.max_step_cycles = 200003;
  EXPECT_NE(test::fault_of(program, options).find("cycle 200005,"), std::string::npos);
}

}  // namespace
}  // namespace tpu::counted_loop_test
