#include <gtest/gtest.h>

#include <random>
#include <string>

#include "tests/compiler/graph_check.h"
#include "workloads/hlo/hlo_reader.h"

namespace tpu::test::pixels_in_rows_test {
namespace {

using Random = std::mt19937;

std::int64_t draw(Random& engine, std::int64_t least, std::int64_t most) {
  return std::uniform_int_distribution<std::int64_t>(least, most)(engine);
}

std::string array(const std::string& type, std::initializer_list<std::int64_t> extents) {
  std::string text = type + "[";
  for (const std::int64_t extent : extents) text += std::to_string(extent) + ",";
  text.back() = ']';
  return text;
}

/// A parameter, or what is computed of it: what stands behind the pixels of a row in its last tile
/// is not 0 then.
std::string side(const std::string& name, const std::string& type, int number, bool is_computed) {
  const std::string parameter = type + " parameter(" + std::to_string(number) + ")\n";
  if (!is_computed) return "  " + name + " = " + parameter;
  return "  " + name + "0 = " + parameter + "  " + name + " = " + type + " exponential(" + name +
         "0)\n";
}

/// A convolution of three spatial dimensions, one position of the window along the first.
struct Drawn {
  std::string text;
  bool has_results = false;
};

Drawn draw_convolution(Random& engine) {
  const std::int64_t n = draw(engine, 1, 3), d = draw(engine, 1, 2), h = draw(engine, 1, 9),
                     w = draw(engine, 1, 37),
                     ci = draw(engine, 0, 3) == 0 ? 200 : draw(engine, 1, 40),
                     co = draw(engine, 0, 3) == 0 ? 150 : draw(engine, 1, 40);
  // A window of one position is a product of matrices.
  const bool is_product = draw(engine, 0, 3) == 0;
  const auto unless_product = [&](std::int64_t least, std::int64_t most) {
    return is_product ? least : draw(engine, least, most);
  };
  const std::int64_t kh = unless_product(1, 4), kw = unless_product(1, 5),
                     sy = unless_product(1, 2), sx = unless_product(1, 3),
                     dy = unless_product(1, 2), dx = unless_product(1, 3);
  const std::int64_t top = unless_product(0, 3), bottom = unless_product(0, 3),
                     left = unless_product(0, 9), right = unless_product(0, 9);
  const auto results = [](std::int64_t pixels, std::int64_t pads, std::int64_t size,
                          std::int64_t dilation, std::int64_t step) {
    const std::int64_t rest = pixels + pads - (size - 1) * dilation - 1;
    return rest < 0 ? 0 : rest / step + 1;
  };
  // Zeros between pixels, which the kernel does not have, go with steps of one.
  const bool has_zeros = !is_product && sy == 1 && sx == 1 && draw(engine, 0, 1) == 0;
  const std::int64_t zy = has_zeros ? draw(engine, 1, 2) : 1,
                     zx = has_zeros ? draw(engine, 1, 2) : 1;
  const std::int64_t oh = results((h - 1) * zy + 1, top + bottom, kh, dy, sy),
                     ow = results((w - 1) * zx + 1, left + right, kw, dx, sx);
  const std::string type = draw(engine, 0, 1) == 0 ? "f32" : "bf16";
  const bool by_groups = co > 1 && draw(engine, 0, 2) == 0;  // One feature in each.
  const bool is_turned = !by_groups && draw(engine, 0, 2) == 0;
  const std::string result = array(type, {n, d, oh, ow, co});
  const auto number = [](std::int64_t value) { return std::to_string(value); };
  const std::string window =
      "{size=1x" + number(kh) + "x" + number(kw) + " stride=1x" + number(sy) + "x" + number(sx) +
      " pad=0_0x" + number(top) + "_" + number(bottom) + "x" + number(left) + "_" + number(right) +
      " lhs_dilate=1x" + number(zy) + "x" + number(zx) + " rhs_dilate=1x" + number(dy) + "x" +
      number(dx) + (draw(engine, 0, 1) == 0 ? " rhs_reversal=0x1x1" : "") + "}";
  const std::string precision =
      draw(engine, 0, 3) == 0 ? ", operand_precision={highest,highest}" : "";
  std::string text =
      "HloModule m\nsum {\n  p = f32[] parameter(0)\n  q = f32[] parameter(1)\n  ROOT s = f32[] "
      "add(p, q)\n}\nENTRY main {\n" +
      side("x", array(type, {n, d, h, w, by_groups ? co : ci}), 0, draw(engine, 0, 1) == 0) +
      "  k = " +
      (is_turned ? array(type, {1, kh, kw, co, ci})
                 : array(type, {1, kh, kw, by_groups ? 1 : ci, co})) +
      " parameter(1)\n  c = " + result + " convolution(x, k), window=" + window +
      ", dim_labels=b012f_012" + (is_turned ? "oi" : "io") + "->b012f" + precision +
      (by_groups ? ", feature_group_count=" + number(co) : std::string()) + "\n";
  const bool has_matrix = draw(engine, 0, 1) == 0;  // The same for all rows of pixels.
  const std::string same = has_matrix ? array(type, {ow, co}) : array(type, {ow}),
                    along = has_matrix ? "{3,4}" : "{3}";
  const std::string sums = has_matrix ? array("f32", {ow, co}) : array("f32", {co}),
                    over = has_matrix ? "{0,1,2}" : "{0,1,2,3}";
  switch (draw(engine, 0, 3)) {
    case 0:  // By itself.
      text += "  ROOT r = " + result + " negate(c)\n}\n";
      break;
    case 1:  // An array, a vector along the features, and what is the same for all rows behind it.
      text += "  a = " + result + " parameter(2)\n  v = " + array(type, {co}) +
              " parameter(3)\n  u = " + same + " parameter(4)\n  b = " + result +
              " broadcast(v), dimensions={4}\n  e = " + result +
              " broadcast(u), dimensions=" + along + "\n  s0 = " + result +
              " add(c, a)\n  s1 = " + result + " multiply(s0, b)\n  ROOT r = " + result +
              " add(s1, e)\n}\n";
      break;
    default: {  // Sums to the features, or to those of each pixel of a row.
      const std::string whole = array("f32", {n, d, oh, ow, co});
      text += "  f = " + whole + " convert(c)\n  z = f32[] constant(0)\n  m = " + whole +
              " multiply(f, f)\n  t = " + sums + " reduce(m, z), dimensions=" + over +
              ", to_apply=sum\n  ROOT r = (" + result + ", " + sums + ") tuple(c, t)\n}\n";
    }
  }
  return {text, oh > 0 && ow > 0};
}

/// The gradient of a kernel of such a convolution.
Drawn draw_gradient(Random& engine) {
  const std::int64_t n = draw(engine, 1, 3), h = draw(engine, 1, 9), w = draw(engine, 1, 37),
                     ci = draw(engine, 0, 3) == 0 ? 200 : draw(engine, 1, 40),
                     co = draw(engine, 0, 3) == 0 ? 150 : draw(engine, 1, 40);
  // A window of one position is a product of matrices.
  const bool is_product = draw(engine, 0, 3) == 0;
  const auto unless_product = [&](std::int64_t least, std::int64_t most, std::int64_t otherwise) {
    return is_product ? otherwise : draw(engine, least, most);
  };
  const std::int64_t oh = unless_product(1, h, h), ow = unless_product(1, w, w),
                     sy = unless_product(1, 2, 1), sx = unless_product(1, 3, 1),
                     dy = unless_product(1, 2, 1), dx = unless_product(1, 2, 1);
  const std::int64_t top = unless_product(0, 2, 0), bottom = unless_product(0, 2, 0),
                     left = unless_product(0, 9, 0), right = unless_product(0, 3, 0);
  const auto results = [](std::int64_t pixels, std::int64_t size, std::int64_t dilation,
                          std::int64_t step) {
    const std::int64_t rest = pixels - (size - 1) * dilation - 1;
    return rest < 0 ? 0 : rest / step + 1;
  };
  const std::int64_t kh = results(h + top + bottom, oh, sy, dy),
                     kw = results(w + left + right, ow, sx, dx);
  const std::string type = draw(engine, 0, 1) == 0 ? "f32" : "bf16";
  const auto number = [](std::int64_t value) { return std::to_string(value); };
  const bool by_groups = co > 1 && draw(engine, 0, 2) == 0;
  const std::string result =
      array(draw(engine, 0, 1) == 0 ? "f32" : type, {1, kh, kw, by_groups ? 1 : ci, co});
  const std::string text =
      "HloModule m\nENTRY main {\n" +
      side("x", array(type, {n, 1, h, w, by_groups ? co : ci}), 0, draw(engine, 0, 1) == 0) +
      side("g", array(type, {n, 1, oh, ow, co}), 1, draw(engine, 0, 1) == 0) + "  c = " + result +
      " convolution(x, g), window={size=1x" + number(oh) + "x" + number(ow) + " stride=1x" +
      number(dy) + "x" + number(dx) + " pad=0_0x" + number(top) + "_" + number(bottom) + "x" +
      number(left) + "_" + number(right) + " rhs_dilate=1x" + number(sy) + "x" + number(sx) +
      "}, dim_labels=f012b_i012o->012bf" +
      (draw(engine, 0, 3) == 0 ? ", operand_precision={highest,highest}" : "") +
      (by_groups ? ", batch_group_count=" + number(co) : std::string()) + "\n  ROOT r = " + result +
      " negate(c)\n}\n";
  return {text, kh > 0 && kw > 0 && kh * kw <= 60};
}

void expect_values(Random& engine, int count, Drawn (*draw_one)(Random&)) {
  while (count > 0) {
    const Drawn drawn = draw_one(engine);
    if (!drawn.has_results) continue;
    --count;
    const Verdict verdict = check_graph(case_of(hlo::read_hlo_text("rows.hlo", drawn.text), 3));
    ASSERT_EQ(verdict.kind, Verdict::Kind::kEqual) << drawn.text << verdict.message;
  }
}

/// Windows over pixels that stand in the rows of tiles, with what is fused behind them.
TEST(PixelsInRows, RandomConvolutionsHaveTheirValues) {
  Random engine(11);
  expect_values(engine, 120, draw_convolution);
}

/// Gradients of their kernels.
TEST(PixelsInRows, RandomGradientsHaveTheirValues) {
  Random engine(12);
  expect_values(engine, 120, draw_gradient);
}

/// A gradient whose images are several deep, one result for each, is none of the kernel's.
TEST(PixelsInRows, AGradientOfDeepImagesHasItsValues) {
  const Verdict verdict = check_graph(
      case_of(hlo::read_hlo_text(
                  "deep.hlo",
                  "HloModule m\nENTRY main {\n  x = f32[2,3,6,16,8] parameter(0)\n  g = "
                  "f32[2,1,4,14,8] parameter(1)\n  ROOT c = f32[3,3,3,8,8] convolution(x, g), "
                  "window={size=1x4x14}, dim_labels=f012b_i012o->012bf\n}\n"),
              3));
  EXPECT_EQ(verdict.kind, Verdict::Kind::kEqual) << verdict.message;
}

/// Images of several blocks: rows of pixels of one come with those around them.
TEST(PixelsInRows, BlocksMeetTheRowsAroundThem) {
  const auto check = [](const std::string& operands, const std::string& result,
                        const std::string& convolution) {
    GraphCase graph = case_of(
        hlo::read_hlo_text("rows.hlo", "HloModule m\nENTRY main {\n" + operands + "  ROOT c = " +
                                           result + " convolution(x, k), " + convolution + "\n}\n"),
        3);
    graph.machine.core.vmem_mib = 2;
    const Verdict verdict = check_graph(graph);
    EXPECT_EQ(verdict.kind, Verdict::Kind::kEqual) << convolution << verdict.message;
  };
  for (const std::string type : {"f32", "bf16"}) {
    const std::string image = type + "[2,1,33,37,130]", x = "  x = " + image + " parameter(0)\n";
    const std::string pads = " pad=0_0x2_1x1_1}, dim_labels=", one = ",130] parameter(1)\n";
    check(x + "  k = " + type + "[1,4,3,130" + one, image,
          "window={size=1x4x3" + pads + "b012f_012io->b012f");
    check(x + "  k = " + type + "[1,4,3,130" + one, type + "[2,1,17,37,130]",
          "window={size=1x4x3 stride=1x2x1" + pads + "b012f_012io->b012f");
    check(x + "  k = " + type + "[1,4,3,1" + one, image,
          "window={size=1x4x3" + pads + "b012f_012io->b012f, feature_group_count=130");
    const std::string gradient = "  k = " + image + " parameter(1)\n",
                      window = "window={size=1x33x37";
    check(x + gradient, type + "[1,4,3,130,130]", window + pads + "f012b_i012o->012bf");
    check(x + gradient, type + "[1,4,3,1,130]",
          window + pads + "f012b_i012o->012bf, batch_group_count=130");
  }
}

}  // namespace
}  // namespace tpu::test::pixels_in_rows_test
