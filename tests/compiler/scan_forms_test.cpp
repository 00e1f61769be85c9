#include <gtest/gtest.h>

#include "sim/base/error.h"
#include "tests/compiler/hlo_check.h"

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

TEST(ScanForms, WindowsMayLieInAnyDimension) {
  check_hlo(window("f32", "add", "0", "[9,300]", "[9,150]", "size=1x5 stride=1x2 pad=0_0x1_2"));
  check_hlo(window("f32", "maximum", "-inf", "[9,300]", "[9,281]", "size=1x20"));
  check_hlo(window("f32", "maximum", "-inf", "[4,20,40]", "[4,10,40]", "size=1x2x1 stride=1x2x1"));
  check_hlo(
      window("f32", "add", "0", "[2,6,6,6,9]", "[2,3,3,3,9]", "size=1x2x2x2x1 stride=1x2x2x2x1"));
  check_hlo(window("s32", "maximum", "-2147483648", "[2,9,9,20]", "[2,4,4,20]",
                   "size=1x3x3x1 stride=1x2x2x1"));
  check_hlo(window("f32", "minimum", "inf", "[2,9,9,20]", "[2,5,5,20]",
                   "size=1x3x3x1 stride=1x2x2x1 pad=0_0x1_1x1_1x0_0"));
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
