#include <gtest/gtest.h>

#include <algorithm>

#include "models/machine.h"
#include "sim/base/error.h"
#include "tests/compiler/hlo_check.h"
#include "tests/compiler/machine_target.h"
#include "workloads/compiler/compiler.h"
#include "workloads/hlo/hlo_reader.h"

namespace tpu::test::scan_forms_test {
namespace {

std::string window(const std::string& type, const std::string& opcode, const std::string& initial,
                   const std::string& extents, const std::string& result,
                   const std::string& window) {
  return "HloModule w\nbody {\n  a = " + type + "[] parameter(0)\n  b = " + type +
         "[] parameter(1)\n  ROOT c = " + type + "[] " + opcode +
         "(a, b)\n}\nENTRY main {\n  x = " + type + extents + " parameter(0)\n  i = " + type +
         "[] constant(" + initial + ")\n  ROOT r = " + type + result +
         " reduce-window(x, i), window={" + window + "}, to_apply=body\n}\n";
}

TEST(ScanForms, ScansReachToTheBegin) {
  check_hlo(window("f32", "add", "0", "[5,300]", "[5,300]", "size=1x300 pad=0_0x299_0"));
  check_hlo(window("f32", "maximum", "-inf", "[3000]", "[3000]", "size=3000 pad=2999_0"));
  check_hlo(window("f32", "minimum", "inf", "[33,50]", "[33,50]", "size=33x1 pad=32_0x0_0"));
  check_hlo(window("s32", "add", "0", "[33,9]", "[33,9]", "size=33x1 pad=32_0x0_0"));
}

TEST(ScanForms, ScansReachToTheEnd) {
  check_hlo(window("f32", "add", "0", "[5,300]", "[5,300]", "size=1x300 pad=0_0x0_299"));
  HloCheck check;
  check.low = 0.9;
  check.high = 1.1;
  check_hlo(window("f32", "multiply", "1", "[5,90]", "[5,90]", "size=1x90 pad=0_0x0_89"), check);
}

/// Along rows, along lanes (turned), a vector in columns, another dimension; rows that fill no
/// tile; several matrices and lane tiles to a block, and several blocks.
TEST(ScanForms, LongScansHaveAKernel) {
  check_hlo(window("f32", "add", "0", "[1000,250]", "[1000,250]", "size=1000x1 pad=999_0x0_0"));
  check_hlo(window("f32", "maximum", "-inf", "[301,300]", "[301,300]", "size=301x1 pad=0_300x0_0"));
  check_hlo(window("s32", "add", "0", "[200,600]", "[200,600]", "size=1x600 pad=0_0x599_0"));
  check_hlo(
      window("s32", "minimum", "2147483647", "[5,1500]", "[5,1500]", "size=1x1500 pad=0_0x0_1499"));
  check_hlo(window("f32", "add", "0", "[6000]", "[6000]", "size=6000 pad=5999_0"));
  check_hlo(window("f32", "add", "0", "[6000]", "[6000]", "size=6000 pad=0_5999"));
  check_hlo(
      window("f32", "add", "0", "[40,60,130]", "[40,60,130]", "size=1x60x1 pad=0_0x59_0x0_0"));
  check_hlo(window("f32", "minimum", "inf", "[60,20,130]", "[60,20,130]",
                   "size=60x1x1 pad=0_59x0_0x0_0"));
  HloCheck near_one;
  near_one.low = 0.98;
  near_one.high = 1.02;
  check_hlo(window("f32", "multiply", "1", "[250,300]", "[250,300]", "size=1x300 pad=0_0x299_0"),
            near_one);
  HloCheck rounded;
  rounded.tolerance = 5e-3;
  check_hlo(window("bf16", "add", "0", "[500,200]", "[500,200]", "size=500x1 pad=499_0x0_0"),
            rounded);
}

/// A scan this short is a sum along the rows of matrices, and what follows from sums alone is
/// computed in their kernel. A result with the number of its lane is not, however many operations
/// stand between it and the sum.
TEST(ScanForms, WhatIsFarBehindAScanHasAKernel) {
  for (const int cosines : {1, 8, 20}) {
    std::string text =
        "HloModule far\nbody {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n"
        "  ROOT c = f32[] add(a, b)\n}\nENTRY main {\n  x = f32[3,22] parameter(0)\n"
        "  i = f32[] constant(0)\n"
        "  y0 = f32[3,22] reduce-window(x, i), window={size=1x22 pad=0_0x21_0}, to_apply=body\n";
    for (int n = 0; n < cosines; ++n) {
      text += "  y" + std::to_string(n + 1) + " = f32[3,22] cosine(y" + std::to_string(n) + ")\n";
    }
    text +=
        "  lane = f32[3,22] iota(), iota_dimension=1\n"
        "  ROOT r = f32[3,22] multiply(y" +
        std::to_string(cosines) + ", lane)\n}\n";
    check_hlo(text);
  }
}

/// One block: it comes, two passes over its registers with a load and a store a cycle, it leaves.
TEST(ScanForms, AScanTakesTwoPasses) {
  for (const MachineParams& machine : {v2_8(), MachineParams{}}) {
    const hlo::Module module = hlo::read_hlo_text(
        "s", window("f32", "add", "0", "[4096,128]", "[4096,128]", "size=4096x1 pad=4095_0x0_0"));
    const compiler::Target target = target_of(machine, 1);
    RunOptions options;
    options.cores = {0};
    const isa::Program program = compiler::compile(module, target);
    const auto found = static_cast<double>(Machine(machine, program).run(options).cycles);
    constexpr double kRegisters = 4096 * 128 / 1024.0;
    const double traffic = 2 * 4096 * kRegisters / target.hbm_bytes_per_cycle;
    EXPECT_GT(found, 2 * kRegisters + 0.9 * traffic) << machine.name;
    EXPECT_LT(found, 2.5 * kRegisters + traffic + 1500) << machine.name;
  }
}

/// Another dimension than the last one lies along the lanes where it fills them better, also of a
/// scan along the last one.
TEST(ScanForms, TheLanesAreADimensionThatFillsThem) {
  const auto cycles = [](const std::string& extents, const std::string& reach) {
    return check_hlo(window("f32", "add", "0", extents, extents, reach)).result.cycles;
  };
  const auto wide = cycles("[3,200,256]", "size=1x200x1 pad=0_0x199_0x0_0");
  EXPECT_EQ(cycles("[256,200,3]", "size=1x200x1 pad=0_0x199_0x0_0"), wide);
  EXPECT_EQ(cycles("[256,3,200]", "size=1x1x200 pad=0_0x0_0x199_0"), wide);
  EXPECT_EQ(cycles("[3,256,200]", "size=1x1x200 pad=0_0x0_0x199_0"), wide);
  EXPECT_EQ(cycles("[200,256,3]", "size=200x1x1 pad=199_0x0_0x0_0"), wide);
}

/// Of 197 matrices no number but one has all in equal blocks: the last block has fewer.
TEST(ScanForms, TheLastBlockHasTheMatricesThatAreLeft) {
  const auto cycles = [](int matrices) {
    const std::string extents = "[" + std::to_string(matrices) + ",7,256]";
    return static_cast<double>(
        check_hlo(window("f32", "add", "0", extents, extents, "size=1x7x1 pad=0_0x6_0x0_0"))
            .result.cycles);
  };
  const double before = cycles(196), found = cycles(197);
  EXPECT_GE(found, before);
  EXPECT_LT(found, 1.05 * before);
}

TEST(ScanForms, WindowsMayLieInAnyDimension) {
  check_hlo(window("f32", "add", "0", "[9,300]", "[9,150]", "size=1x5 stride=1x2 pad=0_0x1_2"));
  check_hlo(window("f32", "maximum", "-inf", "[9,300]", "[9,281]", "size=1x20"));
  check_hlo(window("f32", "add", "0", "[9,300]", "[9,289]", "size=1x12"));
  // One block; row after row, since all rows do not fit VMEM; the first dimension.
  check_hlo(window("f32", "add", "0", "[3,400,20]", "[3,199,20]", "size=1x4x1 stride=1x2x1"));
  check_hlo(window("f32", "add", "0", "[1,3000,20]", "[1,1499,20]", "size=1x4x1 stride=1x2x1"));
  check_hlo(window("f32", "add", "0", "[300,5,20]", "[149,5,20]", "size=4x1x1 stride=2x1x1"));
  check_hlo(window("f32", "maximum", "-inf", "[4,20,40]", "[4,10,40]", "size=1x2x1 stride=1x2x1"));
  check_hlo(
      window("f32", "add", "0", "[2,6,6,6,9]", "[2,3,3,3,9]", "size=1x2x2x2x1 stride=1x2x2x2x1"));
  check_hlo(window("s32", "maximum", "-2147483648", "[2,9,9,20]", "[2,4,4,20]",
                   "size=1x3x3x1 stride=1x2x2x1"));
  check_hlo(window("f32", "minimum", "inf", "[2,9,9,20]", "[2,5,5,20]",
                   "size=1x3x3x1 stride=1x2x2x1 pad=0_0x1_1x1_1x0_0"));
}

/// Pairs of which the greater first one stays, the left one of equals.
TEST(ScanForms, OfEqualPairsOfAWindowTheFirstStays) {
  check_hlo(
      "HloModule p\nbody {\n  a = f32[] parameter(0)\n  i = f32[] parameter(1)\n"
      "  b = f32[] parameter(2)\n  j = f32[] parameter(3)\n"
      "  g = pred[] compare(a, b), direction=GE\n  v = f32[] select(g, a, b)\n"
      "  k = f32[] select(g, i, j)\n  ROOT r = (f32[], f32[]) tuple(v, k)\n}\nENTRY main {\n"
      "  n = s32[2,9,8,40] parameter(0)\n  x = f32[2,9,8,40] convert(n)\n"
      "  y = f32[2,9,8,40] parameter(1)\n  f = f32[] constant(-inf)\n  z = f32[] constant(0)\n"
      "  ROOT r = (f32[1,9,3,13], f32[1,9,3,13]) reduce-window(x, y, f, z), "
      "window={size=2x1x2x4 stride=2x1x3x3 pad=0_0x0_0x1_0x0_1}, to_apply=body\n}\n",
      HloCheck());
}

/// What windows begin with counts once, whatever they have of it as padding; also where it is no
/// constant, or the operation has more than one step.
TEST(ScanForms, WhatWindowsBeginWithCountsOnce) {
  check_hlo(window("s32", "add", "3", "[9,9]", "[9,9]", "size=3x2 pad=1_1x0_1"));
  check_hlo(window("f32", "add", "3", "[9,90]", "[9,71]", "size=1x20"));
  check_hlo(window("f32", "maximum", "1.5", "[900]", "[831]", "size=70"));
  check_hlo(window("f32", "multiply", "2", "[9,9]", "[9,9]", "size=3x3 pad=1_1x1_1"));
  check_hlo(window("s32", "and", "5", "[9,9]", "[7,9]", "size=3x1"));
  std::string computed = window("f32", "add", "3", "[9,9]", "[9,9]", "size=3x2 pad=1_1x0_1");
  computed.replace(computed.find("constant(3)"), 11, "parameter(1)");
  check_hlo(computed);
  const auto steps = [](const std::string& begin, const std::string& window) {
    return "HloModule w\nbody {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n"
           "  m = f32[] maximum(a, b)\n  h = f32[] constant(0.5)\n"
           "  ROOT c = f32[] maximum(m, h)\n}\nENTRY main {\n  x = f32[9,90] parameter(0)\n"
           "  i = f32[] " +
           begin + "\n  ROOT r = f32" + window + ", to_apply=body\n}\n";
  };
  check_hlo(steps("constant(1.5)", "[9,71] reduce-window(x, i), window={size=1x20}"));
  check_hlo(steps("constant(1.5)", "[9,90] reduce-window(x, i), window={size=1x20 pad=0_0x9_10}"));
  check_hlo(steps("parameter(1)", "[9,71] reduce-window(x, i), window={size=1x20}"));
  EXPECT_THROW(check_hlo(steps("parameter(1)",
                               "[9,90] reduce-window(x, i), window={size=1x20 pad=0_0x9_10}")),
               WorkloadError);
}

TEST(ScanForms, WhatReductionsBeginWithMayBeComputed) {
  for (const std::string operation : {"add", "maximum"}) {
    check_hlo(
        "HloModule r\nbody {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n"
        "  ROOT c = f32[] " +
        operation +
        "(a, b)\n}\nENTRY main {\n  x = f32[9,9] parameter(0)\n  i = f32[] parameter(1)\n"
        "  ROOT r = f32[9] reduce(x, i), dimensions={1}, to_apply=body\n}\n");
  }
}

TEST(ScanForms, WindowsAndArraysMayBeDilated) {
  check_hlo(window("f32", "add", "0", "[9,100]", "[9,195]",
                   "size=1x3 pad=0_0x0_0 lhs_dilate=1x2 rhs_dilate=1x2"));
}

std::string scattering(const std::string& extents, const std::string& windows,
                       const std::string& window, const std::string& direction) {
  return "HloModule s\nsel {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n"
         "  ROOT c = pred[] compare(a, b), direction=" +
         direction +
         "\n}\nsum {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n"
         "  ROOT c = f32[] add(a, b)\n}\nENTRY main {\n  x = f32" +
         extents + " parameter(0)\n  y = f32" + windows +
         " parameter(1)\n  i = f32[] constant(0)\n  ROOT r = f32" + extents +
         " select-and-scatter(x, y, i), window={" + window + "}, select=sel, scatter=sum\n}\n";
}

TEST(ScanForms, GradientsOfPoolingGoToTheirPlaces) {
  check_hlo(scattering("[8,400]", "[8,100]", "size=1x4 stride=1x4", "GE"));
  check_hlo(scattering("[4,20,40]", "[4,10,40]", "size=1x2x1 stride=1x2x1", "GE"));
  check_hlo(scattering("[2,6,6,6,9]", "[2,3,3,3,9]", "size=1x2x2x2x1 stride=1x2x2x2x1", "GE"));
  check_hlo(scattering("[2,9,9,20]", "[2,5,5,20]",
                       "size=1x3x3x1 stride=1x2x2x1 pad=0_0x1_1x1_1x0_0", "LE"));
}

/// Halves of windows choose, then halves of halves: of any length, at any distance.
TEST(ScanForms, GradientsOfLargeWindowsGoToTheirPlaces) {
  check_hlo(scattering("[3,1000]", "[3,386]", "size=1x615", "GE"));
  check_hlo(scattering("[3,1000]", "[3,68]", "size=1x600 stride=1x7 pad=0_0x70_2", "LT"));
  check_hlo(
      scattering("[2,40,300]", "[2,13,46]", "size=1x18x256 stride=1x2x1 pad=0_0x2_1x1_0", "GT"));
  check_hlo(scattering("[3,1000]", "[3,3]", "size=1x1 stride=1x400", "LE"));
}

/// Integers that a byte tells apart are equal ones most of the time: the first of them, or the
/// last.
TEST(ScanForms, OfEqualElementsOfALargeWindowOneHasTheGradient) {
  for (const std::string direction : {"GE", "GT", "LE", "LT"}) {
    std::string text = scattering("[2,20,100]", "[2,5,21]", "size=1x16x80", direction);
    text.replace(text.find("x = f32"), 7, "n = f32");
    text.insert(text.find("  y = f32"),
                "  q = s32[2,20,100] convert(n)\n  x = f32[2,20,100] convert(q)\n");
    check_hlo(text);
  }
}

/// A slice, pad or reverse of one array.
std::string movement(const std::string& operation, const std::string& extents) {
  return "HloModule m\nENTRY main {\n  x = f32" + extents +
         " parameter(0)\n  z = f32[] constant(7)\n  ROOT r = " + operation + "\n}\n";
}

TEST(ScanForms, LanesAreSteppedThrough) {
  HloCheck exact;
  exact.tolerance = 0;
  check_hlo(movement("f32[9,100] slice(x), slice={[0:9], [1:300:3]}", "[9,300]"), exact);
  check_hlo(movement("f32[3,150] slice(x), slice={[0:9:3], [1:300:2]}", "[9,300]"), exact);
  check_hlo(movement("f32[1500] slice(x), slice={[1:3001:2]}", "[3001]"), exact);
  check_hlo(movement("f32[9,300] reverse(x), dimensions={1}", "[9,300]"), exact);
  check_hlo(movement("f32[9,300] reverse(x), dimensions={0,1}", "[9,300]"), exact);
  check_hlo(movement("f32[3000] reverse(x), dimensions={0}", "[3000]"), exact);
  check_hlo(movement("f32[9,602] pad(x, z), padding=0_0x1_2_1", "[9,300]"), exact);
  check_hlo(movement("f32[902] pad(x, z), padding=1_3_2", "[300]"), exact);
  check_hlo(movement("f32[4,1] slice(x), slice={[0:4], [1:3:2]}", "[4,3]"), exact);
}

}  // namespace
}  // namespace tpu::test::scan_forms_test
