// Sorts by the network in VMEM: values beside the reference interpreter, and cycles.

#include "workloads/compiler/passes/expand/sort_forms.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "models/machine.h"
#include "tests/compiler/graph_check.h"
#include "tests/compiler/hlo_check.h"
#include "tests/compiler/machine_target.h"
#include "workloads/compiler/compiler.h"
#include "workloads/compiler/ir/sort_form.h"
#include "workloads/compiler/kernels/sort/sort_network.h"
#include "workloads/compiler/passes/expand/approximate_top_k.h"
#include "workloads/compiler/passes/expand/comparators.h"
#include "workloads/hlo/hlo_reader.h"

namespace tpu::test::sort_forms_test {
namespace {

using compiler::SortPass;
using compiler::SortStep;

std::string extents_text(const std::vector<std::int64_t>& extents) {
  std::string text = "[";
  for (std::size_t d = 0; d < extents.size(); ++d) {
    text += (d == 0 ? "" : ",") + std::to_string(extents[d]);
  }
  return text + "]";
}

/// As jax.lax.sort writes it: zeros are equal, NaNs equal and behind all others.
std::string jax_comparator(const std::string& direction, const std::string& payload) {
  const auto canonical = [](const std::string& x) {
    return "n" + x + " = pred[] compare(" + x + ", " + x + "), direction=NE\nz" + x +
           " = pred[] compare(" + x + ", zero), direction=EQ\ns" + x + " = f32[] select(z" + x +
           ", zero, " + x + ")\nc" + x + " = f32[] select(n" + x + ", nan, s" + x + ")\n";
  };
  std::string text = "a = f32[] parameter(0)\nb = f32[] parameter(1)\n";
  if (!payload.empty()) {
    text += "v = " + payload + "[] parameter(2)\nw = " + payload + "[] parameter(3)\n";
  }
  return text + "nan = f32[] constant(nan)\nzero = f32[] constant(0)\n" + canonical("a") +
         canonical("b") + "ROOT r = pred[] compare(ca, cb), direction=" + direction +
         ", type=TOTALORDER\n";
}

/// A sort of numbers among which there are zeros of both signs, infinities and NaNs, and many equal
/// ones. The results are their bits.
std::string special_numbers(const std::vector<std::int64_t>& extents, std::int64_t dimension,
                            const std::string& direction, bool has_payload) {
  const std::string e = extents_text(extents);
  const auto splat = [&](const std::string& name, const std::string& value) {
    return "  " + name + "0 = f32[] constant(" + value + ")\n  " + name + " = f32" + e +
           " broadcast(" + name + "0), dimensions={}\n";
  };
  std::string text = "HloModule s\norder {\n" +
                     jax_comparator(direction, has_payload ? "s32" : "") + "}\nENTRY main {\n" +
                     "  i = s32" + e + " parameter(0)\n  y = s32" + e + " parameter(1)\n" +
                     "  f = f32" + e + " convert(i)\n";
  const std::vector<std::string> values{"-0.0", "inf", "-inf", "nan", "0.0"};
  text += splat("half", "0.5") + "  x0 = f32" + e + " multiply(f, half)\n";
  for (std::size_t k = 0; k < values.size(); ++k) {
    const std::string n = std::to_string(k);
    text += splat("v" + n, values[k]) + splat("w" + n, std::to_string(k + 1)) + "  p" + n +
            " = pred" + e + " compare(f, w" + n + "), direction=EQ\n  x" + std::to_string(k + 1) +
            " = f32" + e + " select(p" + n + ", v" + n + ", x" + n + ")\n";
  }
  const std::string along = "dimensions={" + std::to_string(dimension) + "}, is_stable=true, ";
  if (!has_payload) {
    return text + "  s = f32" + e + " sort(x5), " + along + "to_apply=order\n  ROOT b = s32" + e +
           " bitcast-convert(s)\n}\n";
  }
  return text + "  s = (f32" + e + ", s32" + e + ") sort(x5, y), " + along +
         "to_apply=order\n  k = f32" + e + " get-tuple-element(s), index=0\n  g = s32" + e +
         " get-tuple-element(s), index=1\n  b = s32" + e + " bitcast-convert(k)\n  ROOT t = (s32" +
         e + ", s32" + e + ") tuple(b, g)\n}\n";
}

TEST(SortForms, ZerosInfinitiesAndNansStandWhereTheComparatorSays) {
  check_hlo(special_numbers({3, 600}, 1, "LT", false));
  check_hlo(special_numbers({3, 600}, 1, "GT", true));
  check_hlo(special_numbers({333, 5}, 0, "LT", true));
  check_hlo(special_numbers({3000}, 0, "LT", true));
}

/// A sort of one array of a type, of which every second comparison is in total order.
std::string plain(const std::string& type, const std::vector<std::int64_t>& extents,
                  std::int64_t dimension, const std::string& direction) {
  const std::string array = type + extents_text(extents);
  const bool is_total = (type == "f32" || type == "bf16") && extents.size() % 2 == 0;
  return "HloModule s\norder {\n  a = " + type + "[] parameter(0)\n  b = " + type +
         "[] parameter(1)\n  ROOT r = pred[] compare(a, b), direction=" + direction +
         (is_total ? ", type=TOTALORDER" : "") + "\n}\nENTRY main {\n  x = " + array +
         " parameter(0)\n  ROOT s = " + array + " sort(x), dimensions={" +
         std::to_string(dimension) + "}, to_apply=order\n}\n";
}

/// Keys that are often equal, with what goes along and the place each came from.
std::string with_payloads(const std::string& key, const std::string& payload,
                          const std::vector<std::int64_t>& extents, std::int64_t dimension,
                          const std::string& direction) {
  const std::string e = extents_text(extents);
  return "HloModule s\norder {\n  a = " + key + "[] parameter(0)\n  b = " + key +
         "[] parameter(1)\n  c = " + payload + "[] parameter(2)\n  d = " + payload +
         "[] parameter(3)\n  g = s32[] parameter(4)\n  h = s32[] parameter(5)\n" +
         "  ROOT r = pred[] compare(a, b), direction=" + direction +
         "\n}\nENTRY main {\n  x = " + key + e + " parameter(0)\n  y = " + payload + e +
         " parameter(1)\n  i = s32" + e + " iota(), iota_dimension=" + std::to_string(dimension) +
         "\n  ROOT s = (" + key + e + ", " + payload + e + ", s32" + e +
         ") sort(x, y, i), dimensions={" + std::to_string(dimension) +
         "}, is_stable=true, to_apply=order\n}\n";
}

TEST(SortForms, ArraysOfAnyTypeAndExtentAreSorted) {
  HloCheck check;
  check.least = -40;
  check.most = 40;
  std::mt19937 engine(3);
  const auto between = [&](int low, int high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(engine);
  };
  const std::vector<std::string> types{"f32", "bf16", "s32", "u32", "pred"};
  for (int i = 0; i < 15; ++i) {
    std::vector<std::int64_t> extents{between(1, 150), between(1, 300)};
    if (i % 3 == 0) extents.insert(extents.begin() + between(0, 2), between(1, 5));
    if (i % 5 == 4) extents = {between(1, 5000)};
    const auto dimension = between(0, static_cast<int>(extents.size()) - 1);
    const std::string& type = types[static_cast<std::size_t>(i) % types.size()];
    const std::string direction = i % 2 == 0 ? "LT" : "GT";
    SCOPED_TRACE(type + extents_text(extents) + " " + std::to_string(dimension) + direction);
    check_hlo(plain(type, extents, dimension, direction), check);
    const std::string& payload = types[static_cast<std::size_t>(i / 2) % types.size()];
    check_hlo(with_payloads(type, payload, extents, dimension, direction), check);
  }
}

/// With so many MiB of VMEM.
void check_in_small_vmem(const std::string& text, std::uint32_t vmem_mib,
                         const MachineParams& machine = {}) {
  GraphCase graph = case_of(hlo::read_hlo_text("sort.hlo", text), 5);
  graph.machine = machine;
  graph.machine.core.vmem_mib = vmem_mib;
  const Verdict verdict = check_graph(graph);
  EXPECT_EQ(verdict.kind, Verdict::Kind::kEqual) << verdict.message;
}

TEST(SortForms, SequencesOfSeveralLaneTilesGoThroughVmemInTurns) {
  check_hlo(plain("f32", {600, 1025}, 0, "LT"));
  check_hlo(with_payloads("s32", "f32", {70, 2000}, 0, "GT"));
  check_hlo(plain("s32", {2000, 9}, 1, "LT"));
  check_hlo(special_numbers({40, 900}, 1, "GT",
                            false));  // Three lane tiles of sixteen registers at once.
  check_in_small_vmem(special_numbers({70, 1100}, 1, "GT", true), 16, v2_8());
}

/// As a row of a matrix it would take 16 MiB, eight times its bytes.
TEST(SortForms, AVectorOfHalfAMillionIsSorted) { check_hlo(plain("f32", {300000}, 0, "GT")); }

TEST(SortForms, SeveralKeysInAnyOrderOfComparisons) {
  check_hlo(
      "HloModule s\norder {\n  a = s32[] parameter(0)\n  b = s32[] parameter(1)\n"
      "  c = f32[] parameter(2)\n  d = f32[] parameter(3)\n  e5 = s32[] parameter(4)\n"
      "  e6 = s32[] parameter(5)\n  k = s32[] constant(3)\n  ka = s32[] and(a, k)\n"
      "  kb = s32[] and(b, k)\n  e = pred[] compare(ka, kb), direction=EQ\n"
      "  f = pred[] compare(kb, ka), direction=GT\n  g = pred[] compare(c, d), direction=GT\n"
      "  ROOT r = pred[] select(e, g, f)\n}\nENTRY main {\n  x = s32[3,290] parameter(0)\n"
      "  y = f32[3,290] parameter(1)\n  z = s32[3,290] parameter(2)\n"
      "  ROOT s = (s32[3,290], f32[3,290], s32[3,290]) sort(x, y, z), dimensions={1}, "
      "is_stable=true, to_apply=order\n}\n");
}

/// A MiB is 2^18 words. What does not fit is sorted in lane tiles of 2^17, 2^16 or fewer elements,
/// which are merged through HBM: two, four, eight of one sequence, and those of several.
TEST(SortForms, WhatDoesNotFitVmemIsMergedThroughHbm) {
  check_in_small_vmem(plain("s32", {1 << 18}, 0, "LT"), 1);
  check_in_small_vmem(plain("s32", {(1 << 18) + 1}, 0, "LT"), 1);
  check_in_small_vmem(special_numbers({150000}, 0, "GT", false), 1);
  check_in_small_vmem(special_numbers({300000}, 0, "LT", true), 1);
  check_in_small_vmem(with_payloads("u32", "f32", {3, 140000}, 1, "GT"), 1);
  check_in_small_vmem(with_payloads("s32", "f32", {70000, 5}, 0, "LT"), 1);
}

hlo::Computation comparator(const std::string& body) {
  const hlo::Module module = hlo::read_hlo_text(
      "c", "HloModule c\norder {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n" + body +
               "}\nENTRY main {\n  x = f32[8] parameter(0)\n  ROOT s = f32[8] sort(x), "
               "dimensions={0}, to_apply=order\n}\n");
  return module.computations.at(0);
}

TEST(SortForms, WhatIsNoOrderOfSingleElementsHasNoTerms) {
  EXPECT_TRUE(
      compiler::ordering_terms(comparator("  ROOT r = pred[] compare(a, b), direction=LT\n")));
  const auto turned =
      compiler::ordering_terms(comparator("  ROOT r = pred[] compare(b, a), direction=LT\n"));
  ASSERT_TRUE(turned);
  EXPECT_TRUE(turned->at(0).descends);
  // Equal elements before each other; a difference; two sides that are computed differently.
  EXPECT_FALSE(
      compiler::ordering_terms(comparator("  ROOT r = pred[] compare(a, b), direction=LE\n")));
  EXPECT_FALSE(
      compiler::ordering_terms(comparator("  d = f32[] subtract(a, b)\n  z = f32[] constant(0)\n"
                                          "  ROOT r = pred[] compare(d, z), direction=LT\n")));
  EXPECT_FALSE(compiler::ordering_terms(
      comparator("  n = f32[] negate(b)\n  ROOT r = pred[] compare(a, n), direction=LT\n")));
}

/// Bits of positions that are compared, in the numbers that they have at the beginning.
std::vector<int> compared_bits(const compiler::SortNetwork& network, std::vector<int>* turned) {
  std::vector<int> compared;
  for (const compiler::SortRound& round : compiler::sort_rounds(network)) {
    bool is_turned = false;
    for (const SortPass& pass : round.passes) {
      EXPECT_LE(pass.count, network.most);
      is_turned = is_turned != pass.turns;
      for (const SortStep& step : pass.steps) {
        if (step.kind == SortStep::Kind::kComplement) continue;
        EXPECT_GE(step.bit, pass.low);
        EXPECT_LT(step.bit, pass.low + pass.count);
        int bit = step.bit;
        if (pass.is_strided) {
          EXPECT_LT(bit, 3);
          bit += network.register_bits;
        }
        if (round.tile_bits > 0) {
          EXPECT_GE(bit, round.part_bits);
          bit += network.column_bits() - round.part_bits;
        } else if (is_turned) {
          bit -= network.register_bits;
          bit = network.register_bits + 3 + (bit >= 0 ? bit : step.bit + 3);
          turned->push_back(bit);
        }
        compared.push_back(bit);
      }
    }
    EXPECT_FALSE(is_turned);
  }
  return compared;
}

/// Every stage of the network once, in its order, whatever stands in registers together, in the
/// lanes or in lane tiles.
TEST(SortForms, PassesTakeTheStagesOfTheNetworkInOrder) {
  for (const bool may_turn : {false, true}) {
    for (int bits = 3; bits <= 20; ++bits) {
      for (int most = 1; most <= 4; ++most) {
        compiler::SortNetwork network;
        network.register_bits = std::max(0, bits - 14);
        network.lane_bits = std::min(7, bits - network.register_bits - 3);
        if (may_turn && network.register_bits < 4) continue;
        network.tile_bits = bits - network.column_bits();
        network.part_bits = network.tile_bits > 0 ? 2 : 0;
        network.kept = bits;
        network.most = most;
        network.may_turn = may_turn;
        std::vector<int> wanted, turned;
        for (int phase = 1; phase <= bits; ++phase) {
          for (int bit = phase; bit-- > 0;) wanted.push_back(bit);
        }
        EXPECT_EQ(compared_bits(network, &turned), wanted) << bits << " " << most;
        EXPECT_EQ(turned.empty(), !may_turn);
        for (const int bit : turned) EXPECT_GE(bit, network.register_bits + 3);
      }
    }
  }
}

std::string top(const std::string& type, const std::vector<std::int64_t>& extents,
                std::int64_t count, bool largest) {
  std::vector<std::int64_t> result = extents;
  result.back() = count;
  const std::string r = extents_text(result);
  return "HloModule t\nENTRY main {\n  x = " + type + extents_text(extents) +
         " parameter(0)\n  ROOT t = (" + type + r + ", s32" + r +
         ") topk(x), k=" + std::to_string(count) + ", largest=" + (largest ? "true" : "false") +
         "\n}\n";
}

/// Few of many are kept through the last phases; one column of a sequence or several, rows that
/// fill no power of two, and so many that all are sorted.
TEST(SortForms, TheFirstElementsAreThoseOfTheSort) {
  HloCheck check;
  check.least = -30;
  check.most = 30;
  for (const bool largest : {true, false}) {
    check_hlo(top("f32", {300, 1000}, 5, largest), check);
    check_hlo(top("s32", {20, 5000}, 40, largest), check);
    check_hlo(top("f32", {3, 20001}, 16, largest), check);
    check_hlo(top("s32", {9000}, 3, largest), check);
    check_hlo(top("f32", {150, 400}, 300, largest), check);
  }
}

/// A kernel that reads all of what the sort gives, because it does something else besides, reads
/// nothing behind the first elements.
TEST(SortForms, OfTheFirstElementsThereIsNothingElse) {
  check_hlo(R"(HloModule t
ENTRY main {
  x = f32[2,125,125] parameter(0)
  y = f32[3,32] parameter(1)
  t = (f32[2,125,8], s32[2,125,8]) topk(x), k=8, largest=true
  places = s32[2,125,8] get-tuple-element(t), index=1
  sum = f32[3,32] add(y, y)
  ROOT r = (s32[2,125,8], f32[3,32]) tuple(places, sum)
})");
}

/// Of blocks that are kept in part every comparison is with what is still there.
TEST(SortForms, KeptElementsAreComparedInFewerRegisters) {
  for (int kept = 1; kept < 6; ++kept) {
    std::vector<int> compared;
    compiler::SortNetwork network;
    network.register_bits = 8;
    network.lane_bits = 1;
    network.kept = kept;
    network.most = 3;
    const std::vector<compiler::SortRound> rounds = compiler::sort_rounds(network);
    ASSERT_EQ(rounds.size(), 1U);
    for (const SortPass& pass : rounds[0].passes) {
      for (const SortStep& step : pass.steps) {
        if (step.kind == SortStep::Kind::kComplement) continue;
        compared.push_back(step.bit);
        const int dead_end = pass.dead_low + pass.dead_count;
        EXPECT_TRUE(step.bit < pass.dead_low || step.bit >= dead_end || pass.dead_count == 0);
        const bool merges = compared.size() > static_cast<std::size_t>(kept * (kept + 1) / 2);
        if (merges && step.bit < kept) {
          EXPECT_GT(pass.dead_count, 0);
        }
      }
    }
    EXPECT_EQ(compared.size(),
              static_cast<std::size_t>(kept * (kept + 1) / 2 + (12 - kept) * (kept + 1)));
  }
}

/// Cycles of a program that sorts s32[rows, 128] along its rows.
double cycles_of_sort(std::int64_t rows, const MachineParams& machine) {
  const hlo::Module module = hlo::read_hlo_text("s", plain("s32", {rows, 128}, 0, "LT"));
  const isa::Program program = compiler::compile(module, target_of(machine, 1));
  RunOptions options;
  options.cores = {0};
  return static_cast<double>(Machine(machine, program).run(options).cycles);
}

/// Stages times registers times three instructions for a pair, two a cycle. What comes on top: what
/// a piece of code begins and ends with, complements, the six stages within registers, and the
/// words on their way from the HBM and back, for there is nothing to do meanwhile.
TEST(SortForms, ASortTakesAsLongAsItsStages) {
  for (const MachineParams& machine : {v2_8(), MachineParams{}}) {
    for (const std::int64_t rows : {1024, 4096}) {
      compiler::SortForm form;
      form.rows = rows;
      form.lanes = 128;
      const auto registers = static_cast<double>(form.registers());
      const double least = 0.75 * static_cast<double>(form.stages()) * registers;
      const compiler::Target target = target_of(machine, 1);
      const double traffic = 2 * 4096 * registers / target.hbm_bytes_per_cycle;
      const double found = cycles_of_sort(rows, machine);
      EXPECT_GT(found, least + traffic) << machine.name << " " << rows;
      EXPECT_LT(found, 1.6 * least + traffic + 1500) << machine.name << " " << rows;
      EXPECT_NEAR(found / compiler::sort_cycles(form, target), 1, 0.1) << machine.name << rows;
    }
  }
}

/// Cycles of a program that sorts each row of an array, with what goes along.
double cycles_of_rows(std::int64_t rows, std::int64_t length) {
  const MachineParams machine;
  const hlo::Module module =
      hlo::read_hlo_text("s", with_payloads("f32", "s32", {rows, length}, 1, "LT"));
  const isa::Program program = compiler::compile(module, target_of(machine, 1));
  RunOptions options;
  options.cores = {0};
  return static_cast<double>(Machine(machine, program).run(options).cycles);
}

/// Comparisons of all with all are 13 registers for each row of 100, and as many for each word that
/// is gathered by them: of one row they take less than the network, of several rows more.
TEST(SortForms, ShortRowsAreRankedWhereThatTakesLess) {
  EXPECT_LT(cycles_of_rows(1, 100), 3000);   // Ranks 2108, the network 4291.
  EXPECT_LT(cycles_of_rows(4, 100), 6000);   // 7487, 4936.
  EXPECT_LT(cycles_of_rows(16, 100), 7000);  // 29017, 5160.
  EXPECT_LT(cycles_of_rows(64, 70), 7000);   // 24811, 5202.
}

/// Cycles of the sorts of a program.
double cycles_of_sorts(const hlo::Module& module, const MachineParams& machine) {
  const isa::Program program = compiler::compile(module, target_of(machine, 1));
  RunOptions options;
  options.cores = {0};
  const RunResult result = Machine(machine, program).run(options);
  double cycles = 0;
  for (std::size_t i = 0; i < program.ops.size(); ++i) {
    if (program.ops[i].category == "sort") {
      cycles += static_cast<double>(result.cores.at(0).ops[i].cycles);
    }
  }
  return cycles;
}

/// Lane tiles of one sequence: each phase between them brings all words to VMEM and back twice, for
/// the stages between lane tiles and for those within. Seven bits of lanes are compared on the
/// transposes, of which each register enters the unit once in eight cycles.
TEST(SortForms, LaneTilesOfASequenceAreMergedAtTheRateOfTheirStages) {
  MachineParams machine;
  machine.core.vmem_mib = 1;
  const compiler::Target target = target_of(machine, 1);
  for (const std::int64_t columns : {256, 512}) {
    compiler::SortForm form;
    form.rows = (std::int64_t{1} << 19) / columns;
    form.lanes = form.columns = columns;
    const std::int64_t lane_tiles = columns / 128;
    EXPECT_EQ(form.tile_bits(), lane_tiles == 2 ? 1 : 2);
    EXPECT_EQ(compiler::sort_blocks(form, target).buffers, lane_tiles == 2 ? 1 : 2);
    const auto registers = static_cast<double>(lane_tiles * form.registers());
    EXPECT_EQ(registers, 512);
    // Of 19 bits: the first 16 or 15 phases of each lane tile turn their lanes from two bits on.
    const double turned_phases = 6 + form.tile_bits();
    const double turns = 2 * 8 * turned_phases, traffic = 2 * 4096 / target.hbm_bytes_per_cycle;
    const double least = 0.75 * static_cast<double>(form.stages()) + turns;
    // With two buffers the first and the last one of four lane tiles alone are waited for.
    const double share = lane_tiles == 2 ? 1 : 0.25;
    const double all = least + (share + form.tile_bits() * (1 + share)) * traffic;
    EXPECT_GT(compiler::sort_cycles(form, target), registers * all);
    EXPECT_LT(compiler::sort_cycles(form, target), 1.5 * registers * all);
  }
  const hlo::Module module = hlo::read_hlo_text("s", plain("s32", {(1 << 18) + 1}, 0, "LT"));
  double best = 1e12;
  for (const std::int64_t columns : {256, 512, 1024}) {
    compiler::SortForm form;
    form.rows = (std::int64_t{1} << 19) / columns;
    form.lanes = form.columns = columns;
    if (compiler::sort_blocks(form, target).width == 0) continue;
    best = std::min(best, compiler::sort_cycles(form, target));
  }
  EXPECT_NEAR(cycles_of_sorts(module, machine) / best, 1, 0.15);
}

/// A sort whose places say where the elements of another array go.
std::string scattered_by_sort(const std::vector<std::int64_t>& extents, std::int64_t sorted,
                              std::int64_t scattered, const std::string& type,
                              const std::string& combined) {
  const std::string e = extents_text(extents), d = std::to_string(sorted);
  const std::string n = std::to_string(scattered);
  std::vector<std::int64_t> with_number = extents;
  with_number.push_back(1);
  std::string batching;
  if (extents.size() == 2) {
    const std::string other = std::to_string(1 - scattered);
    batching =
        ", input_batching_dims={" + other + "}, scatter_indices_batching_dims={" + other + "}";
  }
  return "HloModule s\norder {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  c = u32[] "
         "parameter(2)\n  d = u32[] parameter(3)\n  ROOT r = pred[] compare(a, b), "
         "direction=LT\n}\ncombined {\n  a = " +
         type + "[] parameter(0)\n  b = " + type + "[] parameter(1)\n  ROOT r = " + type + "[] " +
         combined + "(a, b)\n}\nENTRY main {\n  x = f32" + e + " parameter(0)\n  y = " + type + e +
         " parameter(1)\n  z = " + type + e + " parameter(2)\n  i = u32" + e +
         " iota(), iota_dimension=" + d + "\n  s = (f32" + e + ", u32" + e +
         ") sort(x, i), dimensions={" + d + "}, is_stable=true, to_apply=order\n  k = f32" + e +
         " get-tuple-element(s), index=0\n  p = u32" + e +
         " get-tuple-element(s), index=1\n  q = u32" + extents_text(with_number) +
         " reshape(p)\n  g = " + type + e +
         " scatter(z, q, y), update_window_dims={}, inserted_window_dims={" + n +
         "}, scatter_dims_to_operand_dims={" + n + "}" + batching +
         ", index_vector_dim=" + std::to_string(extents.size()) +
         ", to_apply=combined\n  ROOT t = (f32" + e + ", " + type + e + ") tuple(k, g)\n}\n";
}

/// The gradient of a sort: by elements it would take eight cycles each.
TEST(SortForms, WhatIsScatteredToThePlacesOfASortIsSortedByThem) {
  check_hlo(scattered_by_sort({40, 900}, 1, 1, "f32", "add"));
  check_hlo(scattered_by_sort({900, 40}, 0, 0, "f32", "maximum"));
  check_hlo(scattered_by_sort({5000}, 0, 0, "f32", "add"));
  check_hlo(scattered_by_sort({700}, 0, 0, "s32", "multiply"));
  // Along another dimension than the sort's they are no permutations.
  check_hlo(scattered_by_sort({150, 150}, 0, 1, "f32", "add"));
  const MachineParams machine;
  for (const auto& extents : {std::vector<std::int64_t>{40, 900}, {36000}}) {
    const std::int64_t along = static_cast<std::int64_t>(extents.size()) - 1;
    const hlo::Module module =
        hlo::read_hlo_text("s", scattered_by_sort(extents, along, along, "f32", "add"));
    const isa::Program program = compiler::compile(module, target_of(machine, 1));
    std::size_t sorts = 0;
    for (const isa::OpInfo& op : program.ops) {
      sorts += op.category == "sort" ? 1 : 0;
      EXPECT_NE(op.category, "scatter");
    }
    EXPECT_EQ(sorts, 2U);
    RunOptions options;
    options.cores = {0};
    EXPECT_LT(static_cast<double>(Machine(machine, program).run(options).cycles), 8 * 36000);
  }
}

/// Numbers of JAX 0.10.2 (jaxlib's approx_top_k_reduction_output_size).
TEST(SortForms, ApproximateTopKHalvesAsOftenAsXla) {
  using compiler::halvings_for_top_k;
  EXPECT_EQ(halvings_for_top_k(100, 2, 3, 0.95, 100), 0);
  EXPECT_EQ(halvings_for_top_k(1000, 2, 3, 0.95, 1000), 2);
  EXPECT_EQ(halvings_for_top_k(5000, 2, 10, 0.95, 5000), 4);
  EXPECT_EQ(halvings_for_top_k(2923, 3, 1, 1.0, 5846), 6);
  EXPECT_EQ(halvings_for_top_k(2374, 1, 1, 0.999, 4748), 3);
  EXPECT_EQ(halvings_for_top_k(4663, 2, 61, 0.5, 32641), 6);
  EXPECT_EQ(halvings_for_top_k(222, 2, 184, 0.5, 1554), 0);
  EXPECT_EQ(halvings_for_top_k(2242, 1, 47, 0.95, 15694), 1);
  EXPECT_EQ(halvings_for_top_k(4012, 2, 23, 0.999, 28084), 0);
}

}  // namespace
}  // namespace tpu::test::sort_forms_test
