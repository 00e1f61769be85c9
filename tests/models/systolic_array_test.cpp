#include "models/core/systolic_array.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <random>
#include <sstream>
#include <utility>

#include "isa/mxu_state.h"
#include "isa/opcode_table.h"
#include "models/core/mxu.h"
#include "sim/base/error.h"
#include "tests/models/test_program.h"

namespace tpu::systolic_array_test {
namespace {

using isa::Opcode;
using Kind = QueueOp::Kind;

/// An instruction of the MXU as the two halves of the core see it.
struct Action {
  QueueOp op;
  isa::Instruction in;
};

Action action(Opcode opcode, std::uint32_t a = 0, std::uint32_t b = 0) {
  Action result;
  result.in.opcode = opcode;
  const isa::OpcodeInfo& row = isa::info(opcode);
  const int first = row.pops ? 0 : 1;  // Behind the register that a push brings.
  result.in.operands[first].immediate = a;
  result.in.operands[first + 1].immediate = b;
  const isa::MxuParts parts = isa::parts_of(result.in);
  QueueOp& op = result.op;
  op.part = static_cast<std::uint8_t>(parts.column);
  if (row.queue == isa::Queue::kMxuResult) {
    op.kind = row.pops ? Kind::kMxuPop : Kind::kMxuRows;
    op.results = static_cast<std::uint16_t>(parts.columns);
    op.swaps = isa::swaps_weights(opcode);
  } else if (opcode == Opcode::kVdwg) {
    op.kind = Kind::kMxuSwap;
  } else {
    op.kind = opcode == Opcode::kVmatlatchPart ? Kind::kMxuLatch : Kind::kMxuWeights;
    if (op.kind == Kind::kMxuLatch) op.part = static_cast<std::uint8_t>(parts.row);
  }
  return result;
}

/// What an instruction did: a hazard, a fault, or the result that a pop took.
struct Outcome {
  Hazard hazard;
  std::string fault;
  std::vector<std::uint32_t> popped;
  bool ended() const { return hazard || !fault.empty(); }
};

/// A NaN is as good as another: which payload survives an addition is the host's business.
std::uint32_t comparable(std::uint32_t bits) {
  return (bits & 0x7fffffff) > 0x7f800000 ? 0x7fc00000 : bits;
}

std::vector<std::uint32_t> words_of(const isa::VectorRegister& value) {
  std::vector<std::uint32_t> words(value.word.begin(), value.word.end());
  for (std::uint32_t& word : words) word = comparable(word);
  return words;
}

/// The fast form: Mxu for the time, isa::MxuState for the values.
class Ports {
 public:
  explicit Ports(const MxuParams& params)
      : time(params), values_(params.rows, params.columns), results_(params.column_parts()) {}

  static Hazard issue(Mxu& time, const QueueOp& op, std::uint64_t now) {
    switch (op.kind) {
      case Kind::kMxuPop:
        return time.pop(op.part, now);
      case Kind::kMxuRows:
        return time.push_rows(op.results, op.swaps, now);
      case Kind::kMxuLatch:
        return time.latch_rows(op.part, now);
      case Kind::kMxuWeights:
        return time.push_weights(op.part, now);
      default:
        time.swap_at_next_rows();
        return {};
    }
  }

  Outcome act(const Action& action, const isa::VectorRegister& operand, std::uint64_t now) {
    Outcome outcome;
    outcome.hazard = issue(time, action.op, now);
    if (outcome.hazard) return outcome;
    try {
      compute(action, operand, outcome);
    } catch (const ProgramFault& fault) {
      outcome.fault = fault.what();
    }
    return outcome;
  }

  Mxu time;

 private:
  void compute(const Action& action, const isa::VectorRegister& operand, Outcome& outcome) {
    switch (action.op.kind) {
      case Kind::kMxuPop:
        outcome.popped = words_of(results_[action.op.part].front());
        results_[action.op.part].pop_front();
        return;
      case Kind::kMxuRows: {
        const std::uint32_t columns = values_.multiply(action.in, operand);
        for (std::uint32_t c = 0; c < columns; ++c) {
          values_.take_result(c, results_[c].emplace_back());
        }
        if (isa::swaps_weights(action.in.opcode)) values_.request_swap();
        return;
      }
      case Kind::kMxuLatch:
        return values_.latch(action.in, operand);
      case Kind::kMxuWeights:
        return values_.push_weights(action.in, operand);
      default:
        return values_.request_swap();
    }
  }

  isa::MxuState values_;
  std::vector<std::deque<isa::VectorRegister>> results_;
};

/// The cells behind their ports, with the two halves of an instruction in either order.
class Cells {
 public:
  explicit Cells(const MxuParams& params) : array("array", params) {}

  Outcome act(const Action& action, const isa::VectorRegister& operand, std::uint64_t now,
              bool data_first) {
    Outcome outcome;
    const bool pops = action.op.kind == Kind::kMxuPop;
    isa::VectorRegister result;
    array.set_cycle(now);
    const auto data = [&] { pops ? array.pop(action.in, result) : array.push(action.in, operand); };
    try {
      if (data_first) data();
      outcome.hazard = array.issue(action.op, now);
      if (!data_first && !outcome.hazard) data();
    } catch (const ProgramFault& fault) {
      outcome.fault = fault.what();
    }
    if (pops && !outcome.hazard) outcome.popped = words_of(result);
    return outcome;
  }

  SystolicArray array;
};

/// Sizes of arrays whose cells a test can afford, powers of two per cycle.
MxuParams random_array(std::mt19937& random) {
  const std::uint32_t sizes[] = {8, 16, 24, 32, 64, 128, 256};
  const auto power = [&](std::uint32_t size) {
    const std::uint32_t part = std::min<std::uint32_t>(size, 128);
    std::uint32_t cells = 1U << random() % 4;
    while (part % cells != 0) cells /= 2;
    return cells;
  };
  MxuParams params;
  params.rows = sizes[random() % 7];
  params.columns = sizes[random() % 7];
  if (std::max(params.rows, params.columns) > 128) {  // Larger arrays are made of whole blocks.
    params.rows = std::max<std::uint32_t>(params.rows, 128);
    params.columns = std::max<std::uint32_t>(params.columns, 128);
  }
  if (random() % 4 != 0) {
    params.sum_cells_per_cycle = power(params.rows);
    params.operand_cells_per_cycle = power(params.columns);
  }
  params.pipeline_stages = 1 + random() % 5;
  params.result_queue_entries = 1 + random() % 32;
  return params;
}

/// Mostly numbers of a like size, some that round, cancel or have no end.
std::uint32_t random_word(std::mt19937& random) {
  const std::uint32_t special[] = {0x7f800000, 0xff800000, 0x7fc00000, 0x80000000,
                                   0x00000001, 0x3f808000, 0x3f818000, 0x7f7fffff};
  if (random() % 4096 == 0) return special[random() % 8];
  if (random() % 8 == 0) return 0;
  const float value = static_cast<float>(static_cast<std::int32_t>(random())) * 0x1p-29F;
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

/// A program that keeps the ports busy: runs of weights, matmuls of any form, pops.
class RandomProgram {
 public:
  explicit RandomProgram(std::uint32_t seed)
      : random_(seed), params_(random_array(random_)), ports_(params_), cells_(params_) {}

  /// Runs until something ends it; empty when both forms agreed all the way.
  std::string run(int actions) {
    for (int i = 0; i < actions; ++i) {
      const Action next = choose();
      const Hazard hazard = move_to_issue(next.op);
      for (std::uint32_t& word : operand_.word) word = random_word(random_);
      const Outcome fast = ports_.act(next, operand_, now_);
      const Outcome slow = cells_.act(next, operand_, now_, random_() % 2 == 0);
      const std::string difference = compare(fast, slow);
      if (!difference.empty()) return difference + " at " + isa::opcode_text(next.in.opcode);
      if (fast.ended()) return hazard || !fast.fault.empty() ? "" : "an end that was not tried";
      now_ += 1;
    }
    return {};
  }
  int pops() const { return pops_; }
  const MxuParams& params() const { return params_; }

 private:
  /// The next cycle in which the ports allow it, now and then one less; what never becomes right
  /// is tried at once.
  Hazard move_to_issue(const QueueOp& op) {
    if (random_() % 4 == 0) now_ += random_() % 40;
    Mxu tried = ports_.time;
    Hazard hazard = Ports::issue(tried, op, now_);
    const bool early = hazard && hazard.kind != Hazard::Kind::kQueueEmpty &&
                       hazard.kind != Hazard::Kind::kQueueFull;
    if (!early) return hazard;
    if (random_() % 64 == 0) {
      now_ = std::max(now_, hazard.ready - 1);
      return hazard;
    }
    now_ = hazard.ready;
    return move_to_issue_again(op);
  }
  Hazard move_to_issue_again(const QueueOp& op) {
    Mxu tried = ports_.time;
    const Hazard hazard = Ports::issue(tried, op, now_);
    if (!hazard || hazard.ready <= now_) return hazard;
    now_ = hazard.ready;
    return move_to_issue_again(op);
  }

  Action choose() {
    const bool blocks = params_.row_parts() * params_.column_parts() > 1;
    if (weights_left_ == 0 && random_() % 8 == 0) {
      weights_left_ = 1 + random_() % 18;
      // Among pushes of the other form that were not swapped in it is a fault.
      if (!pushed_ || random_() % 40 == 0) transposed_ = random_() % 3 == 0;
      part_form_ = random_() % 6;
    }
    if (weights_left_ > 0 && random_() % 2 == 0) {
      --weights_left_;
      return weights(blocks);
    }
    if (in_flight_ > 0 && random_() % 2 == 0) {
      --in_flight_;
      ++pops_;
      return action(Opcode::kVpopMrf);
    }
    const bool nothing_to_swap_in = swap_pending_ && !pushed_;
    const bool full = in_flight_ >= static_cast<int>(params_.result_queue_entries);
    if ((nothing_to_swap_in || full) && random_() % 40 != 0) return weights(blocks);
    return matmul(blocks);
  }

  Action weights(bool blocks) {
    pushed_ = true;
    if (blocks && random_() % 2 == 0) {
      return action(transposed_ ? Opcode::kVmatpushXposeBlock : Opcode::kVmatpushBlock,
                    random_() % params_.row_parts(), random_() % params_.column_parts());
    }
    static constexpr Opcode forms[2][3] = {
        {Opcode::kVmatpush, Opcode::kVmatpushHi, Opcode::kVmatpushLow},
        {Opcode::kVmatpushXpose, Opcode::kVmatpushHiXpose, Opcode::kVmatpushLowXpose}};
    return action(forms[transposed_ ? 1 : 0][part_form_ % 3]);
  }

  Action matmul(bool blocks) {
    if (random_() % 24 == 0) {
      swap_pending_ = true;
      return action(Opcode::kVdwg);
    }
    if (blocks && params_.row_parts() > 1 && random_() % 6 == 0) {
      latched_ = true;
      return action(Opcode::kVmatlatchPart, 1);
    }
    ++in_flight_;
    const bool latched = std::exchange(latched_, false);
    if (swap_pending_) pushed_ = false;
    swap_pending_ = random_() % 6 == 0;
    if (blocks && random_() % 3 == 0) {
      // A part that is not latched is a fault.
      const bool all = params_.row_parts() == 2 && (latched || random_() % 40 == 0);
      return action(swap_pending_ ? Opcode::kVmatmulPartsDwg : Opcode::kVmatmulParts, all ? 2 : 1,
                    1 + random_() % params_.column_parts());
    }
    static constexpr Opcode forms[2][3] = {
        {Opcode::kVmatmul, Opcode::kVmatmulHi, Opcode::kVmatmulLow},
        {Opcode::kVmatmulDwg, Opcode::kVmatmulHiDwg, Opcode::kVmatmulLowDwg}};
    return action(forms[swap_pending_ ? 1 : 0][random_() % 3]);
  }

  static std::string compare(const Outcome& fast, const Outcome& slow) {
    if (fast.hazard.kind != slow.hazard.kind || fast.hazard.ready != slow.hazard.ready) {
      return "hazards " + std::to_string(static_cast<int>(fast.hazard.kind)) + " until " +
             std::to_string(fast.hazard.ready) + " and " +
             std::to_string(static_cast<int>(slow.hazard.kind)) + " until " +
             std::to_string(slow.hazard.ready);
    }
    if (fast.fault != slow.fault) return "faults '" + fast.fault + "' and '" + slow.fault + "'";
    for (std::size_t i = 0; i < fast.popped.size(); ++i) {
      if (fast.popped[i] == slow.popped[i]) continue;
      std::ostringstream text;
      text << "element " << i << ": " << std::hex << fast.popped[i] << " and " << slow.popped[i];
      return text.str();
    }
    return {};
  }

  std::mt19937 random_;
  MxuParams params_;
  Ports ports_;
  Cells cells_;
  isa::VectorRegister operand_;
  std::uint64_t now_ = 0;
  std::uint32_t weights_left_ = 0;
  bool transposed_ = false;
  std::uint32_t part_form_ = 0;
  int in_flight_ = 0;
  int pops_ = 0;
  bool pushed_ = false;  ///< Weights, since the last swap.
  bool swap_pending_ = true;
  bool latched_ = false;  ///< Row part 1, since the last matmul.
};

/// TPUSIM_ARRAY_PROGRAMS: how many; the default is a sample.
int programs() {
  const char* count = std::getenv("TPUSIM_ARRAY_PROGRAMS");
  return count == nullptr ? 200 : std::atoi(count);
}

/// A part of the rows that is latched ahead serves one matmul: the next one lacks it.
TEST(SystolicArray, ALatchedPartServesOneMatmul) {
  MxuParams params;
  params.rows = params.columns = 256;
  Ports ports(params);
  Cells cells(params);
  std::mt19937 random(1);
  isa::VectorRegister operand;
  std::uint64_t now = 0;
  const auto act = [&](const Action& next) {
    for (std::uint32_t& word : operand.word) word = random_word(random);
    now += 1000;  // Nothing is in the way.
    Outcome fast = ports.act(next, operand, now);
    const Outcome slow = cells.act(next, operand, now, false);
    EXPECT_FALSE(fast.hazard);
    EXPECT_EQ(fast.fault, slow.fault);
    EXPECT_EQ(fast.popped, slow.popped);
    return fast;
  };
  for (int pushes = 0; pushes < 16; ++pushes) {
    for (std::uint32_t row = 0; row < 2; ++row) act(action(Opcode::kVmatpushBlock, row, 0));
  }
  act(action(Opcode::kVdwg));
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(act(action(Opcode::kVmatlatchPart, 1)).fault, "");
    EXPECT_EQ(act(action(Opcode::kVmatmulParts, 2, 1)).fault, "");
    EXPECT_FALSE(act(action(Opcode::kVpopMrf)).popped.empty());
  }
  EXPECT_EQ(act(action(Opcode::kVmatmulParts, 2, 1)).fault,
            "expected row part 1 latched since the matmul before, found nothing");
}

TEST(SystolicArray, RandomProgramsTakeTheCyclesAndGiveTheBitsOfThePorts) {
  int pops = 0;
  for (int seed = 0; seed < programs(); ++seed) {
    RandomProgram program(static_cast<std::uint32_t>(seed));
    ASSERT_EQ(program.run(160), "")
        << "seed " << seed << ", " << program.params().rows << "x" << program.params().columns;
    pops += program.pops();
  }
  EXPECT_GT(pops, 10 * programs());
}

/// A result of ones times ones in an array, popped at `distance` from its matmul.
Hazard pop_after(const MxuParams& params, std::uint64_t distance, std::uint32_t column_part = 0) {
  Cells cells(params);
  isa::VectorRegister ones;
  ones.word.fill(0x3f800000);
  EXPECT_FALSE(cells.act(action(Opcode::kVmatpush), ones, 100, false).ended());
  EXPECT_FALSE(
      cells.act(action(Opcode::kVmatmulParts, 1, column_part + 1), ones, 107, false).ended());
  return cells.act(action(Opcode::kVpopMrfPart, column_part), ones, 107 + distance, false).hazard;
}

TEST(SystolicArray, AnArrayOf128GivesItsResultsAfter105Cycles) {
  EXPECT_EQ(pop_after(MxuParams(), 104).kind, Hazard::Kind::kResultEarly);
  EXPECT_FALSE(pop_after(MxuParams(), 105));
}

TEST(SystolicArray, OtherSizesFollowFromWhatAValuePassesInACycle) {
  // 7 rows behind the first + levels - 1 + groups - 1 + the sum's own cycle + 3 stages.
  for (const auto& [rows, columns, part, cycles] : {std::tuple(64U, 64U, 0U, 7U + 31 + 15 + 4),
                                                    {64U, 128U, 0U, 7U + 31 + 31 + 4},
                                                    {256U, 256U, 0U, 7U + 127 + 31 + 4},
                                                    {256U, 256U, 1U, 7U + 127 + 63 + 4},
                                                    {512U, 512U, 3U, 7U + 255 + 127 + 4}}) {
    MxuParams params;
    params.rows = rows;
    params.columns = columns;
    EXPECT_EQ(params.latency_cycles(part), cycles);
    EXPECT_EQ(pop_after(params, cycles - 1, part).kind, Hazard::Kind::kResultEarly);
    EXPECT_FALSE(pop_after(params, cycles, part));
  }
}

TEST(SystolicArray, AMatmulMayNotOvertakeTheWeightsThatItSwapsIn) {
  isa::VectorRegister ones;
  for (const std::uint64_t distance : {1, 6, 7}) {
    Cells cells{MxuParams()};
    Mxu ports{MxuParams()};
    ASSERT_FALSE(cells.act(action(Opcode::kVmatpush), ones, 50, false).ended());
    ASSERT_FALSE(ports.push_weights(0, 50));
    for (const Hazard& hazard :
         {cells.act(action(Opcode::kVmatmul), ones, 50 + distance, false).hazard,
          ports.push_rows(1, false, 50 + distance)}) {
      EXPECT_EQ(static_cast<bool>(hazard), distance < 7);
      if (!hazard) continue;
      EXPECT_EQ(hazard.kind, Hazard::Kind::kWeightsEarly);
      EXPECT_EQ(hazard.ready, 57U);
    }
  }
}

TEST(SystolicArray, TheNextWeightsMayFollowTheSwapInTheNextCycle) {
  // Ones are swapped in while twos are pushed behind them: 128 products of one.
  Cells cells{MxuParams()};
  isa::VectorRegister ones, twos;
  ones.word.fill(0x3f800000);
  twos.word.fill(0x40000000);
  for (std::uint64_t push = 0; push < 16; ++push) {
    ASSERT_FALSE(cells.act(action(Opcode::kVmatpush), ones, 8 * push, false).ended());
  }
  ASSERT_FALSE(cells.act(action(Opcode::kVmatmul), ones, 127, false).ended());
  for (std::uint64_t push = 0; push < 8; ++push) {
    ASSERT_FALSE(cells.act(action(Opcode::kVmatpush), twos, 128 + 8 * push, false).ended());
  }
  const Outcome outcome = cells.act(action(Opcode::kVpopMrf), ones, 127 + 105, false);
  ASSERT_FALSE(outcome.ended());
  for (const std::uint32_t word : outcome.popped) ASSERT_EQ(word, 0x43000000U);  // 128
}

TEST(SystolicArray, AWholeTileThatNobodySwappedInIsDroppedByAPushOfTheOtherForm) {
  MxuParams params;
  params.rows = params.columns = 16;
  Ports ports(params);
  Cells cells(params);
  isa::VectorRegister ones, twos;
  ones.word.fill(0x3f800000);
  twos.word.fill(0x40000000);
  const auto both = [&](Opcode opcode, const isa::VectorRegister& operand, std::uint64_t now) {
    const Outcome fast = ports.act(action(opcode), operand, now);
    const Outcome slow = cells.act(action(opcode), operand, now, false);
    EXPECT_FALSE(fast.ended() || slow.ended());
    EXPECT_EQ(fast.popped, slow.popped);
    return slow.popped;
  };
  both(Opcode::kVmatpush, ones, 0);
  both(Opcode::kVmatpush, ones, 8);
  both(Opcode::kVmatpushXpose, twos, 16);
  both(Opcode::kVmatmul, ones, 23);
  const std::vector<std::uint32_t> sums = both(Opcode::kVpopMrf, ones, 23 + 21);
  // Eight columns of sixteen twos, the others empty.
  EXPECT_EQ(sums[7], 0x42000000U);
  EXPECT_EQ(sums[8], 0U);
}

/// The nodes of an array of 32x64 after some cycles: a digit for the row of a push that multiplies,
/// capital for the row that swaps, w where weights step, a dot where nothing moves.
std::string picture(const SystolicCells& cells, std::uint64_t first_row, std::uint32_t level) {
  std::string line;
  for (std::uint32_t g = 0; g < cells.shape().groups(); ++g) {
    const SystolicCells::Seen seen = cells.seen_by(level, g);
    const char row = static_cast<char>('0' + seen.entered - first_row);
    line += seen.swapped ? 's' : seen.multiplied ? row : seen.stepped ? 'w' : '.';
  }
  return line;
}

/// A tile is pushed in one form: another one begins the next, when all 16 pushes of this one came.
TEST(SystolicArray, PushesOfATileHaveOneForm) {
  RunOptions options = test::on_core(0);
  options.values = options.interpret = true;
  for (const bool array : {false, true}) {
    options.mxu_array = array;
    for (int pushes = 1; pushes <= 16; ++pushes) {
      std::string text = "kernel top\n{ %v1 = vmov 1.0 }\n";
      for (int push = 0; push < pushes; ++push) text += "{ vmatpush.msra.mxu0 %v1 ;; vdelay 7 }\n";
      text += "{ vmatpush.xpose.msra.mxu0 %v1 ;; vdelay 200 }\n";
      const std::string fault = test::fault_of(test::program_of(text), options);
      EXPECT_EQ(fault.find("a transposed push among plain ones") == std::string::npos, pushes == 16)
          << pushes << " pushes, array " << array << ": " << fault;
    }
  }
}

/// 128 ones times ones; the branch sees the value that came out, the pop when it may be taken.
TEST(SystolicArray, TakesThePlaceOfTheMxuInTheMachine) {
  const auto program = [](int delay) {
    std::string text = "kernel top\n{ %v1 = vmov 1.0 }\n";
    for (int push = 0; push < 16; ++push) text += "{ vmatpush.msra.mxu0 %v1 ;; vdelay 7 }\n";
    text += "{ vdwg.mxu0 ;; vdelay 200 }\n{ vmatmul.f32.gmra.mxu0 %v1 ;; vdelay " +
            std::to_string(delay) + R"( }
  { %v2 = vpop.f32.mrf.mxu0 }
  { vpush %v2 ;; vdelay 9 }
  { %s2 = spop }
  { %p1 = scmp.eq.s32.totalorder %s2, 1124073472 }
  { sbr.rel (%p1) target = end }
  { %s3 = smov 0 }
  { vdelay 5000 }
end:
  { %s3 = smov 0 }
)";
    return test::program_of(text);
  };
  RunOptions options = test::on_core(0);
  options.values = options.interpret = true;
  const std::uint64_t cycles = test::run(program(104), options).cycles;
  EXPECT_LT(cycles, 5000u);  // It is 128.
  options.mxu_array = true;
  EXPECT_EQ(test::run(program(104), options).cycles, cycles);
  EXPECT_NE(test::fault_of(program(103), options).find("1 cycles too early"), std::string::npos)
      << test::fault_of(program(103), options);
}

TEST(SystolicArray, TheReadmeShowsAWave) {
  MxuParams params;
  params.rows = 32;
  params.columns = 64;
  std::vector<std::string> lines(16);
  for (const std::uint64_t after : {6U, 12U, 20U}) {
    Cells cells(params);
    isa::VectorRegister ones;
    ASSERT_FALSE(cells.act(action(Opcode::kVmatpush), ones, 0, false).ended());
    ASSERT_FALSE(cells.act(action(Opcode::kVmatmul), ones, 7, false).ended());
    cells.act(action(Opcode::kVdwg), ones, 8 + after, false);
    isa::VectorRegister unused;
    cells.array.set_cycle(8 + after);
    cells.array.pop(action(Opcode::kVpopMrf).in, unused);  // Runs the cells to this cycle.
    for (std::uint32_t level = 0; level < 16; ++level) {
      lines[level] +=
          (lines[level].empty() ? "    " : "   ") + picture(cells.array.cells(), 8, level);
    }
  }
  std::string wave;
  for (const std::string& line : lines) wave += line + "\n";
  std::ifstream file(std::string(TPUSIM_SOURCE_DIR) + "/models/README.md");
  const std::string readme{std::istreambuf_iterator<char>(file), {}};
  EXPECT_NE(readme.find(wave), std::string::npos) << "models/README.md should show\n" << wave;
}

}  // namespace
}  // namespace tpu::systolic_array_test
