#include <gtest/gtest.h>

#include <string>

#include "tests/compiler/graph_check.h"
#include "workloads/hlo/hlo_reader.h"

namespace tpu::test::small_vmem_test {
namespace {

const std::string kRegions =
    "HloModule small\nadd {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT s = f32[] "
    "add(a, b)\n}\nmost {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT m = f32[] "
    "maximum(a, b)\n}\nless {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  c = s32[] "
    "parameter(2)\n  d = s32[] parameter(3)\n  ROOT l = pred[] compare(a, b), direction=LT\n}\n";

/// Compiled for a machine with so many MiB of VMEM, and run.
Verdict check(const std::string& entry, std::uint32_t vmem_mib) {
  GraphCase graph =
      case_of(hlo::read_hlo_text("small.hlo", kRegions + "ENTRY main {\n" + entry + "}\n"), 5);
  graph.machine.core.vmem_mib = vmem_mib;
  return check_graph(graph);
}

void expect_right(const std::string& entry, std::uint32_t vmem_mib = 1) {
  const Verdict verdict = check(entry, vmem_mib);
  EXPECT_EQ(verdict.kind, Verdict::Kind::kEqual) << verdict.message;
}

/// Probabilities of 20,000 words: eight rows of two arrays take 2.5 MB twice. The words are the
/// rows.
TEST(SmallVmem, RowsThatAreTooLongLieAlongTheSublanes) {
  expect_right(
      "  x = f32[64,20000] parameter(0)\n  low = f32[] constant(-inf)\n  zero = f32[] constant(0)\n"
      "  m = f32[64] reduce(x, low), dimensions={1}, to_apply=most\n"
      "  w = f32[64,20000] broadcast(m), dimensions={0}\n  d = f32[64,20000] subtract(x, w)\n"
      "  e = f32[64,20000] exponential(d)\n"
      "  s = f32[64] reduce(e, zero), dimensions={1}, to_apply=add\n"
      "  b = f32[64,20000] broadcast(s), dimensions={0}\n  ROOT p = f32[64,20000] divide(e, b)\n");
}

/// The numbers of five rows are the same in all tiles of a row tile. What is sorted by columns lies
/// so.
TEST(SmallVmem, NumbersOfFewRowsAreWrittenTileByTile) {
  expect_right(
      "  x = f32[5,40000] parameter(0)\n  i = s32[5,40000] iota(), iota_dimension=0\n"
      "  s = (f32[5,40000], s32[5,40000]) sort(x, i), dimensions={0}, is_stable=true, "
      "to_apply=less\n  ROOT r = s32[5,40000] get-tuple-element(s), index=1\n");
}

/// Eight rows of 40,000 numbers take 1.3 MB: of each row tile the kernel reads and writes a range
/// of the lanes, then the next one.
TEST(SmallVmem, RowsThatAreTooLongGoInRangesOfLanes) {
  expect_right(
      "  x = s32[10,40000] parameter(0)\n  i = s32[10,40000] iota(), iota_dimension=0\n  j = "
      "s32[10,40000] iota(), iota_dimension=1\n  a = s32[10,40000] add(i, j)\n  ROOT r = "
      "s32[10,40000] xor(x, a)\n");
  // Of matrices, too; packed rows lie nearer to each other than those of results.
  expect_right(
      "  x = bf16[3,10,30000] parameter(0)\n  y = f32[3,10,30000] parameter(1)\n  v = f32[30000] "
      "parameter(2)\n  w = f32[3,10,30000] broadcast(v), dimensions={2}\n  c = f32[3,10,30000] "
      "convert(x)\n  p = f32[3,10,30000] multiply(c, y)\n  s = f32[3,10,30000] add(p, w)\n  t = "
      "bf16[3,10,30000] convert(p)\n  ROOT r = (f32[3,10,30000], bf16[3,10,30000]) tuple(s, t)\n");
}

/// Probabilities over the rows, of several tiles, are made in ranges of the lanes; one kernel has
/// the rows' sums, another reads them.
TEST(SmallVmem, SumsOfManyLongRowsGoInRangesOfLanes) {
  const auto softmax = [](const std::string& type, const std::string& all, const std::string& kept,
                          const std::string& reduced, const std::string& places) {
    const std::string array = type + all, sums = type + kept;
    const std::string back = " broadcast(m), dimensions={" + places + "}\n";
    return "  x = " + array + " parameter(0)\n  low = " + type +
           "[] constant(-inf)\n  zero = " + type + "[] constant(0)\n  m = " + sums +
           " reduce(x, low), dimensions={" + reduced + "}, to_apply=most\n  w = " + array + back +
           "  d = " + array + " subtract(x, w)\n  e = " + array + " exponential(d)\n  s = " + sums +
           " reduce(e, zero), dimensions={" + reduced + "}, to_apply=add\n  b = " + array +
           " broadcast(s), dimensions={" + places + "}\n  ROOT p = " + array + " divide(e, b)\n";
  };
  expect_right(softmax("f32", "[11,20001]", "[20001]", "0", "1"));
  expect_right(softmax("f32", "[40,9001]", "[9001]", "0", "1"));
  expect_right(softmax("f32", "[3,16,9001]", "[3,9001]", "1", "0,2"));
  expect_right(softmax("f32", "[2,9,9001]", "[9001]", "0,1", "2"));
}

/// Of nine rows that a vector becomes, seven of the second tile are padding, which kernels read
/// with it: it is written, too.
TEST(SmallVmem, RowsOfAVectorHaveTheirPadding) {
  expect_right(
      "  x = f32[270009] parameter(0)\n  m = f32[9,30001] reshape(x)\n  e = f32[9,30001] "
      "tanh(m)\n  zero = f32[] constant(0)\n  s = f32[9] reduce(m, zero), dimensions={1}, "
      "to_apply=add\n  ROOT r = (f32[9,30001], f32[9]) tuple(e, s)\n");
}

/// Slices of longer rows are read where they stand: their row tiles are further apart than those of
/// the result.
TEST(SmallVmem, SlicesOfLongRowsAreReadInRangesOfLanes) {
  expect_right(
      "  x = f32[16,20001] parameter(0)\n  y = f32[16,20300] parameter(1)\n  z = f32[16,20000] "
      "parameter(2)\n  a = f32[16,20000] slice(x), slice={[0:16],[0:20000]}\n  b = f32[16,20000] "
      "slice(y), slice={[0:16],[256:20256]}\n  m = f32[16,20000] maximum(a, b)\n  e = "
      "f32[16,20000] exponential(z)\n  ROOT r = f32[16,20000] multiply(m, e)\n");
}

/// What is made of places and a vector of 1.2 MB stands nowhere: bins lie in the rows, the numbers
/// that are counted in the lanes, which are cut. The counts become integers in a kernel of their
/// own.
TEST(SmallVmem, ALongVectorIsCountedInParts) {
  // 2,341 tiles of lanes, a prime number: most of them, then the rest.
  const std::string counted =
      "  x = s32[299600] parameter(0)\n  k = s32[] constant(31)\n  m = s32[299600] broadcast(k), "
      "dimensions={}\n  n = s32[299600] and(x, m)\n  i = s32[24,299600] iota(), "
      "iota_dimension=0\n  w = s32[24,299600] broadcast(n), dimensions={1}\n  p = pred[24,299600] "
      "compare(i, w), direction=EQ\n  f = f32[24,299600] convert(p)\n  zero = f32[] "
      "constant(0)\n  c = f32[24] reduce(f, zero), dimensions={1}, to_apply=add\n";
  expect_right(counted + "  ROOT r = s32[24] convert(c)\n");
}

/// What two features share takes 480 KiB of each of a few volumes: it comes volume by volume. The
/// sums of all volumes and features are one tile, which is complete with the last.
TEST(SmallVmem, SumsOfPartsThatShareATileAreKeptToTheEnd) {
  for (const std::string n : {"4", "5"}) {
    const std::string all = "f32[" + n + ",30,2,30,30]", shared = "f32[" + n + ",30,30,30]";
    expect_right("  x = " + all + " parameter(0)\n  m = " + shared +
                 " parameter(1)\n  zero = f32[] constant(0)\n  b = " + all +
                 " broadcast(m), dimensions={0,1,3,4}\n  d = " + all +
                 " subtract(x, b)\n  e = " + all + " multiply(d, x)\n  ROOT s = f32[" + n +
                 ",2] reduce(e, zero), dimensions={1,3,4}, to_apply=add\n");
  }
}

/// Sums of three rows with 60 matrices outside, which are no multiple of eight: no kernel makes
/// them part by part, so they lie otherwise.
TEST(SmallVmem, SumsThatCannotBeCutLieOtherwise) {
  for (const int matrices : {60, 64}) {
    const std::string n = std::to_string(matrices);
    expect_right(
        "  i = s32[4096,3] parameter(0)\n  x = f32[4096,3] parameter(1)\n  zero = f32[] "
        "constant(0)\n  n = s32[4096," +
            n + ",3] iota(), iota_dimension=1\n  j = s32[4096," + n +
            ",3] broadcast(i), dimensions={0,2}\n  e = pred[4096," + n +
            ",3] compare(n, j), direction=EQ\n  b = f32[4096," + n +
            ",3] broadcast(x), dimensions={0,2}\n  z = f32[4096," + n +
            ",3] broadcast(zero), dimensions={}\n  s = f32[4096," + n +
            ",3] select(e, b, z)\n  ROOT r = f32[4096," + n +
            "] reduce(s, zero), dimensions={2}, to_apply=add\n",
        4);
  }
}

/// Two matrices outside of three rows become two of the eight rows of the result: sums of all eight
/// stand in VMEM.
TEST(SmallVmem, FewMatricesOfSumsTakeWholeRowTiles) {
  for (const std::string n : {"3528", "7056"}) {
    const std::string all = "f32[" + n + ",2,3]", pair = "f32[" + n + ",2]";
    expect_right("  x = " + pair +
                 " parameter(0)\n  v = f32[3] parameter(1)\n  zero = f32[] constant(0)\n  a = " +
                 all + " broadcast(x), dimensions={0,1}\n  b = " + all +
                 " broadcast(v), dimensions={2}\n  m = " + all + " multiply(a, b)\n  t = " + all +
                 " tanh(m)\n  r = " + pair + " reduce(t, zero), dimensions={2}, to_apply=add\n" +
                 "  s = f32[3] reduce(t, zero), dimensions={0,1}, to_apply=add\n  ROOT q = (" +
                 pair + ", f32[3]) tuple(r, s)\n");
  }
}

/// The gradient of a maximum over the lanes: each is divided by how many there are. What is padded
/// is what the kernel has of each row.
TEST(SmallVmem, LanesAreNotMovedInWhatIsKnownOfRows) {
  expect_right(
      "  x = f32[77,2,50] parameter(0)\n  m = f32[2,50] parameter(1)\n  g = f32[2,11] "
      "parameter(2)\n  zero = f32[] constant(0)\n  p = f32[2,50] pad(g, zero), padding=0_0x36_3\n"
      "  w = f32[77,2,50] broadcast(m), dimensions={1,2}\n"
      "  c = pred[77,2,50] compare(x, w), direction=GE\n  o = f32[77,2,50] convert(c)\n"
      "  s = f32[2,50] reduce(o, zero), dimensions={0}, to_apply=add\n"
      "  one = f32[] constant(1)\n  ones = f32[2,50] broadcast(one), dimensions={}\n"
      "  k = f32[2,50] maximum(s, ones)\n  d = f32[2,50] divide(p, k)\n"
      "  b = f32[77,2,50] broadcast(d), dimensions={1,2}\n  ROOT r = f32[77,2,50] multiply(b, o)\n",
      16);
}

}  // namespace
}  // namespace tpu::test::small_vmem_test
