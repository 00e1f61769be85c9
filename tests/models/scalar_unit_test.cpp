#include "models/core/scalar_unit.h"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <vector>

#include "isa/opcode_table.h"

namespace tpu::scalar_unit_test {
namespace {

using isa::Opcode;
using Kind = MicroOp::Kind;

constexpr std::uint8_t kA = 1, kB = 2, kResult = 3;

MicroOp copy_to(std::uint8_t reg, std::uint32_t value) {
  MicroOp op;
  op.dest = reg;
  op.immediate[0] = value;
  return op;
}

/// What an operation makes of two registers with immediates beside them.
std::uint32_t computed(Kind kind, Opcode opcode, const std::array<std::uint32_t, 4>& values) {
  MicroOp op;
  op.kind = kind;
  op.opcode = opcode;
  op.dest = kResult;
  op.reg[0] = kA;
  op.reg[1] = kB;
  op.immediate[0] = values[2];
  op.immediate[1] = values[3];
  const std::array<MicroOp, 3> ops = {copy_to(kA, values[0]), copy_to(kB, values[1]), op};
  ScalarUnit unit(16, 0, 0);
  EXPECT_EQ(unit.run(ops.data(), ops.data() + ops.size()), nullptr);
  return unit.scalar(kResult);
}

TEST(ScalarUnit, KindsOfFrequentOperationsComputeWhatTheirOpcodesDo) {
  struct Frequent {
    Kind kind, general;
    Opcode opcode;
  };
  constexpr Frequent kFrequent[] = {{Kind::kAdd, Kind::kCompute, Opcode::kSaddS32},
                                    {Kind::kAdd, Kind::kCompute, Opcode::kScalarLeaHbm},
                                    {Kind::kAdd, Kind::kCompute, Opcode::kScalarLeaVmem},
                                    {Kind::kOrWords, Kind::kCompute, Opcode::kSorU32},
                                    {Kind::kShift, Kind::kCompute, Opcode::kSshllU32},
                                    {Kind::kLess, Kind::kCompare, Opcode::kScmpLtS32}};
  std::mt19937 random(5);
  for (const Frequent& each : kFrequent) {
    for (int trial = 0; trial < 2000; ++trial) {
      std::array<std::uint32_t, 4> values{};
      for (std::uint32_t& value : values) value = random() >> (random() % 32);
      if (trial % 2 == 0) values[1] = values[3] = 0;  // As often as not, the other one is small.
      if (trial % 4 == 0) values[3] = random() % 40;
      ASSERT_EQ(computed(each.kind, each.opcode, values),
                computed(each.general, each.opcode, values))
          << isa::opcode_text(each.opcode) << " of " << values[0] << " + " << values[2] << " and "
          << values[1] << " + " << values[3];
    }
  }
}

/// Predicates are bits; an operand that is written with a ! is turned before the operation.
TEST(ScalarUnit, OperandsOfPredicatesAreTurnedBeforeTheyAreUsed) {
  for (std::uint32_t bits = 0; bits < 16; ++bits) {
    const std::array<std::uint32_t, 4> values = {bits & 1, bits >> 1 & 1, bits >> 2 & 1, bits >> 3};
    const bool a = values[0] != values[2], b = values[1] != values[3];
    EXPECT_EQ(computed(Kind::kNand, Opcode::kPnand, values), !(a && b) ? 1u : 0u) << bits;
    EXPECT_EQ(computed(Kind::kOr, Opcode::kPor, values), a || b ? 1u : 0u) << bits;
    EXPECT_EQ(computed(Kind::kNot, Opcode::kPneg, values), a ? 0u : 1u) << bits;
    EXPECT_EQ(computed(Kind::kCopyBit, Opcode::kPmov, values), a ? 1u : 0u) << bits;
  }
}

/// Both bases and the offset are added, whether or not some other word of SMEM is unknown.
TEST(ScalarUnit, LoadsAndStoresReachTheSumOfBasesAndOffset) {
  for (const bool is_marked : {false, true}) {
    ScalarUnit unit(16, 0, 0);
    for (std::uint32_t word = 0; word < 16; ++word) unit.write_smem(word, 100 + word);
    if (is_marked) unit.write_smem_unknown(15, Origin::nobody());
    MicroOp load;
    load.kind = Kind::kLoad;
    load.dest = kResult;
    load.reg = {kA, kB, scalar_file::kZero};
    load.immediate = {0, 4, 0};
    MicroOp store = load;
    store.kind = Kind::kStore;
    store.reg[2] = kResult;
    store.immediate = {0, 6, 5};
    const std::array<MicroOp, 4> ops = {copy_to(kA, 2), copy_to(kB, 3), load, store};
    ASSERT_EQ(unit.run(ops.data(), ops.data() + ops.size()), nullptr);
    EXPECT_EQ(unit.scalar(kResult), 109u) << is_marked;
    for (std::uint32_t word = 0; word < 15; ++word) {
      EXPECT_EQ(unit.smem(word), word == 11 ? 114u : 100 + word) << is_marked;
    }
  }
}

/// What lies in a word that nobody knows is unknown in the register, too.
TEST(ScalarUnit, ALoadOfAnUnknownWordGivesAnUnknownRegister) {
  ScalarUnit unit(16, 0, 0);
  unit.write_smem_unknown(9, Origin::nobody());
  MicroOp load;
  load.kind = Kind::kLoad;
  load.reg = {kA, kB, scalar_file::kZero};
  for (const std::uint32_t offset : {4u, 5u}) {
    load.dest = kResult;
    load.immediate[1] = offset;
    const std::array<MicroOp, 3> ops = {copy_to(kA, 2), copy_to(kB, 3), load};
    ASSERT_EQ(unit.run(ops.data(), ops.data() + ops.size()), nullptr);
    EXPECT_EQ(unit.origin(kResult).plain(), offset != 4) << offset;
  }
}

/// A unit for three members; word 0 of SMEM differs, and of the words `unknown` nobody knows
/// anything. Register kB is unknown, kA is what differs.
struct ThreeMembers {
  explicit ThreeMembers(std::vector<std::uint32_t> unknown) {
    unit.write_smem(0, 7);
    lanes.set_word(0, {7, 8, 0});
    unit.set_lanes(&lanes);
    for (const std::uint32_t word : unknown) unit.write_smem_unknown(word, Origin::nobody());
    MicroOp pop, load;
    pop.kind = Kind::kSpop;  // Of an empty queue: nobody knows what comes.
    pop.dest = kB;
    load.kind = Kind::kLoad;
    load.dest = kA;
    EXPECT_TRUE(agree(pop) && agree(load));
  }
  /// Whether the members remain together; else each is simulated by itself.
  bool agree(const MicroOp& op) {
    try {
      EXPECT_EQ(unit.run(&op, &op + 1), nullptr) << unit.problem();
    } catch (const MembersDiffer& differ) {
      EXPECT_EQ(differ.keys(), (std::vector<std::uint64_t>{0, 1, 2}));
      return false;
    }
    return true;
  }

  const CoreClasses classes{{0, 1, 2}, 3, true};
  ScalarLanes lanes{classes, 0};
  ScalarUnit unit{16, 0, 0};
};

MicroOp sum_into(std::uint8_t dest, std::uint8_t first, std::uint8_t second) {
  MicroOp add;
  add.kind = Kind::kCompute;
  add.opcode = Opcode::kSaddS32;
  add.dest = dest;
  add.reg[0] = first;
  add.reg[1] = second;
  return add;
}

/// What differs among the members of a class cannot be worked out with what nobody knows.
TEST(ScalarUnit, AClassSplitsWhereWhatVariesMeetsWhatIsUnknown) {
  EXPECT_FALSE(ThreeMembers({}).agree(sum_into(kResult, kB, kA)));
  EXPECT_FALSE(ThreeMembers({}).agree(sum_into(kResult, kA, kB)));
  MicroOp third = sum_into(kResult, kA, kA), guarded = third;
  third.reg[2] = kB;
  EXPECT_FALSE(ThreeMembers({}).agree(third));
  guarded.guard.reg = kB;
  EXPECT_FALSE(ThreeMembers({}).agree(guarded));
  // Word 7, 8 or 0.
  MicroOp load = sum_into(kResult, kA, scalar_file::kZero);
  load.kind = Kind::kLoad;
  EXPECT_FALSE(ThreeMembers({8}).agree(load));
  EXPECT_TRUE(ThreeMembers({1, 6, 9}).agree(load));
}

/// What all members overwrite may be unknown; what only some do stays so in the others.
TEST(ScalarUnit, WhatVariesMayOverwriteWhatIsUnknown) {
  ThreeMembers into_register({9});
  EXPECT_TRUE(into_register.agree(sum_into(kB, kA, kA)));
  EXPECT_EQ(into_register.lanes.of(kB), ScalarLanes::Values({14, 16, 0}));
  EXPECT_TRUE(into_register.unit.origin(kB).known());
  EXPECT_FALSE(into_register.unit.smem_origin(9).plain());

  MicroOp store;
  store.kind = Kind::kStore;
  store.reg[2] = kA;
  store.immediate[1] = 9;
  ThreeMembers into_word({9});
  EXPECT_TRUE(into_word.agree(store));
  EXPECT_EQ(into_word.lanes.of_word(9), ScalarLanes::Values({7, 8, 0}));
  EXPECT_TRUE(into_word.unit.smem_origin(9).plain());

  MicroOp sum = sum_into(kB, kA, kA);
  sum.guard.reg = store.guard.reg = kA;  // Of the third member it does not hold.
  sum.guard.holds_when = store.guard.holds_when = true;
  EXPECT_FALSE(ThreeMembers({9}).agree(sum));
  EXPECT_FALSE(ThreeMembers({9}).agree(store));
  EXPECT_TRUE(ThreeMembers({8}).agree(store));
}

}  // namespace
}  // namespace tpu::scalar_unit_test
