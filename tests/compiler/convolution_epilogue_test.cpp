#include <gtest/gtest.h>

#include <random>
#include <sstream>
#include <string>

#include "sim/config/compiler_target.h"
#include "tests/compiler/hlo_check.h"
#include "workloads/compiler/kernels/contraction/convolution_lanes_tiling.h"
#include "workloads/compiler/passes/pipeline.h"
#include "workloads/hlo/hlo_reader.h"

namespace tpu::convolution_epilogue_test {

namespace {

/// A convolution of images whose batch lies in the lanes, and what stands behind it in the backward
/// step of a residual network: an image is added, the gradient of an activation, a factor for each
/// feature, or for each example and feature; sums to the same of the result and of its product with
/// an image.
struct BackwardStep {
  int batch = 128, height = 4, width = 4, features = 16, results = 16, window = 1;
  std::string type = "bf16";  ///< Of images.
  bool sums = true;
  bool by_example = false;

  std::string text() const;
};

std::string BackwardStep::text() const {
  const auto image = [&](const std::string& of, int count) {
    return of + "[" + std::to_string(batch) + "," + std::to_string(height) + "," +
           std::to_string(width) + "," + std::to_string(count) + "]";
  };
  const std::string out = image(type, results), f32 = image("f32", results);
  const std::string vector =
      "f32[" + (by_example ? std::to_string(batch) + "," : "") + std::to_string(results) + "]";
  const std::string side = std::to_string(window), pad = std::to_string(window / 2);
  // A line of pixels has a window of lines.
  const std::string across = width == 1 ? "1" : side;
  const std::string pads = pad + "_" + pad + "x" + (width == 1 ? "0_0" : pad + "_" + pad);
  std::ostringstream text;
  text << "HloModule backward\nadd {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n"
       << " ROOT s = f32[] add(a, b)\n}\nENTRY step {\n"
       << " x = " << image(type, features) << " parameter(0)\n"
       << " w = " << type << "[" << side << "," << across << "," << features << "," << results
       << "] parameter(1)\n r = " << out << " parameter(2)\n g = " << out << " parameter(3)\n"
       << " v = " << vector << " parameter(4)\n"
       << " c = " << out << " convolution(x, w), window={size=" << side << "x" << across
       << " pad=" << pads << "}, dim_labels=b01f_01io->b01f\n"
       << " s = " << out << " add(c, r)\n zero = " << type << "[] constant(0)\n"
       << " zeros = " << out << " broadcast(zero), dimensions={}\n"
       << " p = " << image("pred", results) << " compare(g, zeros), direction=GT\n"
       << " q = " << out << " select(p, s, zeros)\n f = " << f32 << " convert(q)\n"
       << " vs = " << f32 << " broadcast(v), dimensions={" << (by_example ? "0,3" : "3") << "}\n"
       << " t = " << f32 << " multiply(f, vs)\n u = " << out << " convert(t)\n";
  if (!sums) {
    text << " ROOT all = (" << out << ") tuple(u)\n}\n";
    return text.str();
  }
  const std::string summed = by_example ? "1,2" : "0,1,2";
  text << " h = " << f32 << " convert(g)\n m = " << f32 << " multiply(t, h)\n"
       << " none = f32[] constant(0)\n"
       << " s1 = " << vector << " reduce(m, none), dimensions={" << summed << "}, to_apply=add\n"
       << " s2 = " << vector << " reduce(t, none), dimensions={" << summed << "}, to_apply=add\n"
       << " ROOT all = (" << out << ", " << vector << ", " << vector << ") tuple(u, s1, s2)\n}\n";
  return text.str();
}

void expect_values(const BackwardStep& step) {
  SCOPED_TRACE(step.text());
  test::HloCheck check;
  check.tolerance = step.type == "bf16" ? 1e-2 : 1e-4;
  test::check_hlo(step.text(), check);
}

/// Results of the kernel with the convolution in it.
std::size_t results_of_product(const std::string& text) {
  const hlo::Module module = hlo::read_hlo_text("step", text);
  const compiler::ScheduledModule scheduled =
      compiler::schedule(module, config::target_of(MachineParams{}, 1), nullptr);
  for (const hlo::HloInstruction& instruction : scheduled.module.entry_computation().instructions) {
    if (instruction.fusion_kind.get() != "kOutput") continue;
    return instruction.shape.is_tuple() ? instruction.shape.elements.size() : 1;
  }
  return 0;
}

/// A layer with a bias, a mask of what so many operations make of its image, and the sum of that.
std::string layer_and_mask(int operations) {
  const std::string image = "f32[128,8,8,16]";
  std::ostringstream text;
  text << "HloModule loss\nadd {\n p = f32[] parameter(0)\n q = f32[] parameter(1)\n"
       << " ROOT s = f32[] add(p, q)\n}\n\nENTRY e {\n x = bf16[128,8,8,32] parameter(0)\n"
       << " w = bf16[3,3,32,16] parameter(1)\n b = f32[16] parameter(2)\n c = " << image
       << " convolution(x, w), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f\n bs = "
       << image << " broadcast(b), dimensions={3}\n y0 = " << image << " add(c, bs)\n";
  for (int i = 0; i < operations; ++i) {
    text << " y" << i + 1 << " = " << image << " logistic(y" << i << ")\n";
  }
  text << " zero = f32[] constant(0)\n zeros = " << image << " broadcast(zero), dimensions={}\n"
       << " g = pred[128,8,8,16] compare(y" << operations << ", zeros), direction=GT\n"
       << " s = f32[16] reduce(y" << operations << ", zero), dimensions={0,1,2}, to_apply=add\n"
       << " ROOT all = (" << image << ", pred[128,8,8,16], f32[16]) tuple(y0, g, s)\n}\n";
  return text.str();
}

/// A residual of a net in f32: the activation that the next residual adds to, rounded for the next
/// convolution, and the same of its product with another image.
std::string residual(int batch, int results, int window) {
  const auto image = [&](const std::string& type, int count) {
    return type + "[" + std::to_string(batch) + ",6,5," + std::to_string(count) + "]";
  };
  const std::string f32 = image("f32", results), bf16 = image("bf16", results);
  const std::string side = std::to_string(window), pad = std::to_string(window / 2);
  const std::string pads = pad + "_" + pad;
  std::ostringstream text;
  text << "HloModule residual\nENTRY e {\n x = " << image("bf16", 24) << " parameter(0)\n w = bf16["
       << side << "," << side << ",24," << results << "] parameter(1)\n r = " << f32
       << " parameter(2)\n g = " << f32 << " parameter(3)\n c = " << f32
       << " convolution(x, w), window={size=" << side << "x" << side << " pad=" << pads << "x"
       << pads << "}, dim_labels=b01f_01io->b01f\n a = " << f32
       << " add(c, r)\n zero = f32[] constant(0)\n"
       << " zeros = " << f32 << " broadcast(zero), dimensions={}\n y = " << f32
       << " maximum(a, zeros)\n z = " << bf16 << " convert(y)\n m = " << f32
       << " multiply(y, g)\n q = " << bf16 << " convert(m)\n ROOT all = (" << f32 << ", " << bf16
       << ", " << bf16 << ") tuple(y, z, q)\n}\n";
  return text.str();
}

/// The gradient of a kernel and what an optimiser with two moments makes of it: both and the
/// weights, in f32 or rounded.
struct UpdatedKernel {
  int batch, size, features, results, window;
  std::string type = "bf16";  ///< Of both images.
  bool is_rounded = false;

  std::string text() const;
};

std::string UpdatedKernel::text() const {
  const auto image = [&](int count) {
    const std::string side = std::to_string(size) + ",";
    return type + "[" + std::to_string(batch) + "," + side + side + std::to_string(count) + "]";
  };
  const std::string side = std::to_string(window), pad = std::to_string(window / 2);
  const std::string kernel = "[" + side + "," + side + "," + std::to_string(features) + "," +
                             std::to_string(results) + "]";
  const std::string f32 = "f32" + kernel, bf16 = "bf16" + kernel, pads = pad + "_" + pad;
  std::ostringstream text;
  text << "HloModule update\nENTRY e {\n x = " << image(features)
       << " parameter(0)\n d = " << image(results) << " parameter(1)\n w = " << f32
       << " parameter(2)\n m = " << f32 << " parameter(3)\n v = " << f32
       << " parameter(4)\n g = " << f32 << " convolution(x, d), window={size=" << size << "x"
       << size << " pad=" << pads << "x" << pads << "}, dim_labels=f01b_i01o->01bf\n";
  const auto scaled = [&](const char* name, const char* of, double by) {
    text << " k" << name << " = f32[] constant(" << by << ")\n ks" << name << " = " << f32
         << " broadcast(k" << name << "), dimensions={}\n " << name << " = " << f32 << " multiply("
         << of << ", ks" << name << ")\n";
  };
  scaled("m9", "m", 0.9);
  scaled("g1", "g", 0.1);
  text << " m1 = " << f32 << " add(m9, g1)\n gg = " << f32 << " multiply(g, g)\n";
  scaled("v9", "v", 0.8);
  scaled("g2", "gg", 0.2);
  text << " v1 = " << f32 << " add(v9, g2)\n s = " << f32 << " multiply(m1, v1)\n w1 = " << f32
       << " subtract(w, s)\n b1 = " << bf16 << " convert(w1)\n ROOT all = (" << f32 << ", "
       << (is_rounded ? bf16 : f32) << ", " << f32 << ") tuple(m1, " << (is_rounded ? "b1" : "w1")
       << ", v1)\n}\n";
  return text.str();
}

}  // namespace

/// Features in the lanes; the batch there; products of matrices. Packed results stand behind
/// others.
TEST(ConvolutionEpilogue, AnOptimisersArraysComeFromTheKernelOfTheGradient) {
  for (const UpdatedKernel& update :
       {UpdatedKernel{8, 9, 32, 40, 3}, UpdatedKernel{8, 9, 136, 130, 3, "f32"},
        UpdatedKernel{128, 5, 24, 40, 3}, UpdatedKernel{130, 4, 16, 136, 3, "f32"},
        UpdatedKernel{8, 6, 32, 48, 1}, UpdatedKernel{1, 9, 24, 16, 5},
        UpdatedKernel{12, 7, 3, 8, 3, "f32"}}) {
    for (const bool is_rounded : {false, true}) {
      UpdatedKernel each = update;
      each.is_rounded = is_rounded;
      SCOPED_TRACE(each.text());
      EXPECT_EQ(results_of_product(each.text()), 3U);
      test::HloCheck check;
      check.tolerance = 4e-3;
      test::check_hlo(each.text(), check);
    }
  }
}

/// Their blocks leave less of VMEM for those of the product: a kernel of their own takes less than
/// more and smaller blocks.
TEST(ConvolutionEpilogue, AnOptimisersArraysStandApartWhereTheGradientNeedsTheRoom) {
  EXPECT_EQ(results_of_product(UpdatedKernel{8, 64, 64, 32, 7, "f32"}.text()), 0U);
}

TEST(ConvolutionEpilogue, SumsForEachExampleAndFeatureComeFromItsKernel) {
  // Batch in the lanes, some of them padding, and two tiles of it; features in the lanes, whole
  // tiles of eight examples and not.
  for (const int batch : {128, 100, 140, 16, 12}) {
    for (const int window : {1, 3}) {
      BackwardStep step{batch, 5, 7, 64, 32, window, "f32"};
      step.by_example = true;
      SCOPED_TRACE(step.text());
      EXPECT_EQ(results_of_product(step.text()), 3U);
      expect_values(step);
    }
  }
}

/// Features in the lanes; the batch there, in pairs of tiles of features and in single ones;
/// products of matrices among them.
TEST(ConvolutionEpilogue, SeveralImagesComeFromItsKernel) {
  for (const int batch : {4, 20, 128, 140}) {
    for (const int results : {8, 24, 32, 200}) {
      for (const int window : {1, 3}) {
        const std::string text = residual(batch, results, window);
        SCOPED_TRACE(text);
        EXPECT_EQ(results_of_product(text), 3U);
        test::HloCheck check;
        check.tolerance = 4e-3;
        test::check_hlo(text, check);
      }
    }
  }
}

TEST(ConvolutionEpilogue, WhatIsMuchIsComputedOnceBesideTheProduct) {
  // The kernel of a convolution writes no masks, so that another one writes the mask: the sum goes
  // with it where both would compute much.
  EXPECT_EQ(results_of_product(layer_and_mask(0)), 2U);
  EXPECT_EQ(results_of_product(layer_and_mask(6)), 1U);
  test::HloCheck check;
  check.tolerance = 1e-2;
  test::check_hlo(layer_and_mask(6), check);
}

TEST(ConvolutionEpilogue, SumsForEachExampleAndFeatureOfPackedImages) {
  for (const BackwardStep& step : {BackwardStep{140, 5, 5, 16, 48, 3, "bf16", true, true},
                                   BackwardStep{128, 3, 7, 64, 24, 3, "bf16", true, true},
                                   BackwardStep{20, 6, 6, 40, 200, 3, "bf16", true, true},
                                   BackwardStep{24, 6, 6, 40, 136, 1, "bf16", true, true},
                                   BackwardStep{4, 9, 5, 32, 130, 1, "f32", true, true}}) {
    expect_values(step);
  }
}

TEST(ConvolutionEpilogue, ReadsImagesAndSumsToFeatures) {
  for (const char* type : {"bf16", "f32"}) {
    expect_values({128, 4, 6, 64, 32, 1, type});
    expect_values({128, 4, 4, 16, 32, 3, type});
  }
}

/// Lines of single pixels, some of the last block beyond the image; positions of the window joined.
TEST(ConvolutionEpilogue, GoesAlongAColumnOfPixels) {
  for (const char* type : {"bf16", "f32"}) {
    for (const int window : {1, 3, 7}) {
      expect_values({8, 331, 1, 32, 48, window, type});
      expect_values({12, 97, 1, 16, 130, window, type, true, true});
      expect_values({16, 45, 1, 140, 24, window, type, false});
    }
  }
}

/// Mean and variance over the pixels and features of each example, or of all: the kernel makes sums
/// for each feature and example, another one adds those up. A line is an image without its width.
TEST(ConvolutionEpilogue, SumsOverFeaturesAreSumsOverPixelsFirst) {
  struct Form {
    std::string image, line, kept, reduced;
    std::size_t results;
  };
  for (const Form& form :
       {Form{"16,32,32", "16,32,32", "16", "1,2,3", 3},
        Form{"16,32,32", "16,32,32", "", "0,1,2,3", 3}, Form{"16,640,1", "16,640", "16", "1,2", 3},
        Form{"16,640,1", "16,640", "64", "0,1", 3}, Form{"16,640,1", "16,640", "16,64", "1", 3},
        Form{"128,16,16", "128,16,16", "", "0,1,2,3", 3},
        Form{"128,16,16", "128,16,16", "128", "1,2,3", 0},  // Lanes are the batch.
        Form{"8,4,4", "8,4,4", "8", "1,2,3", 0}}) {         // Too small.
    const std::string images = "f32[" + form.image + ",64]", lines = "f32[" + form.line + ",64]";
    const std::string sum = "f32[" + form.kept + "]";
    const std::string text =
        "HloModule norm\nadd {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n"
        " ROOT s = f32[] add(a, b)\n}\nENTRY e {\n x = bf16[" +
        form.image +
        ",64] parameter(0)\n"
        " w = bf16[3,1,64,64] parameter(1)\n c = " +
        images +
        " convolution(x, w), window={size=3x1 pad=1_1x0_0}, dim_labels=b01f_01io->b01f\n y = " +
        lines + " reshape(c)\n q = " + lines +
        " multiply(y, y)\n none = f32[] constant(0)\n s1 = " + sum +
        " reduce(y, none), dimensions={" + form.reduced + "}, to_apply=add\n s2 = " + sum +
        " reduce(q, none), dimensions={" + form.reduced + "}, to_apply=add\n ROOT all = (" + lines +
        ", " + sum + ", " + sum + ") tuple(y, s1, s2)\n}\n";
    SCOPED_TRACE(text);
    EXPECT_EQ(results_of_product(text), form.results);
    test::HloCheck check;
    check.tolerance = 1e-2;
    test::check_hlo(text, check);
  }
}

TEST(ConvolutionEpilogue, OfAnOddNumberOfTilesOfFeatures) {
  expect_values({128, 3, 4, 16, 24, 3, "bf16"});
  expect_values({128, 3, 4, 16, 24, 1, "f32", false});
}

TEST(ConvolutionEpilogue, PixelsAndExamplesBeyondTheImageAddNothing) {
  expect_values({100, 3, 7, 64, 32, 1, "bf16"});
  expect_values({140, 5, 5, 64, 16, 3, "f32"});
}

TEST(ConvolutionEpilogue, OfSumsOverSeveralStepsOfTheMxus) {
  expect_values({128, 2, 4, 256, 64, 1, "bf16"});
  expect_values({128, 2, 4, 384, 64, 1, "bf16", false});
  expect_values({128, 4, 4, 128, 128, 3, "bf16"});
}

TEST(ConvolutionEpilogue, WhereMxusTakePartsOfTheFeatures) {
  expect_values({128, 3, 3, 64, 256, 1, "bf16"});
  expect_values({128, 3, 3, 160, 512, 1, "bf16"});
}

TEST(ConvolutionEpilogue, OfRandomGeometries) {
  std::mt19937 engine(11);
  const auto draw = [&](int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(engine);
  };
  for (int i = 0; i < 5; ++i) {
    BackwardStep step;
    step.batch = draw(0, 1) == 0 ? 128 : draw(90, 150);
    step.height = draw(1, 5);
    step.width = draw(1, 9);
    step.features = 8 * draw(1, 20) - (draw(0, 3) == 0 ? 3 : 0);
    step.results = 8 * draw(1, 10);
    step.window = draw(0, 1) == 0 ? 1 : 3;
    step.type = draw(0, 2) == 0 ? "f32" : "bf16";
    step.sums = draw(0, 3) > 0;
    expect_values(step);
  }
}

/// Windows of few features fit one unit of the patch: of two steps in one block of code the second
/// may finish nothing whose sums the first one takes.
TEST(ConvolutionEpilogue, StepsOfOneUnitFinishSumsOfBlocksBefore) {
  for (const bool is_in_parts : {false, true}) {
    test::HloCheck check;
    check.round_matmul_operands = !is_in_parts;
    if (is_in_parts) check.tolerance = 1e-6;
    const std::string precision = is_in_parts ? ", operand_precision={highest,highest}" : "";
    for (const int extent : {4, 5, 6, 8, 12}) {
      const std::string image = "[128," + std::to_string(extent) + "," + std::to_string(extent);
      test::check_hlo("HloModule relu\nENTRY step {\n x = f32" + image +
                          ",8] parameter(0)\n w = f32[3,3,8,16] parameter(1)\n y = f32" + image +
                          ",16] convolution(x, w), window={size=3x3 pad=1_1x1_1}, " +
                          "dim_labels=b01f_01io->b01f" + precision +
                          "\n z = f32[] constant(0)\n zs = f32" + image +
                          ",16] broadcast(z), dimensions={}\n ROOT r = f32" + image +
                          ",16] maximum(y, zs)\n}\n",
                      check);
    }
  }
}

/// Input gradients of strided convolutions, rectified and summed to their features: the pixels of
/// all phases are finished beside the products. Some strides leave pixels without products.
TEST(ConvolutionEpilogue, StepsFinishThePixelsOfAllPhases) {
  struct Form {
    int stride, window, extent, features, results;
  };
  for (const Form& form : {Form{2, 3, 4, 64, 128}, Form{2, 2, 5, 128, 64}, Form{3, 3, 3, 16, 32},
                           Form{2, 1, 4, 64, 64}, Form{2, 4, 3, 32, 16}}) {
    const int result = form.extent * form.stride;
    const int high = result - 1 - (form.extent - 1) * form.stride;
    const auto image = [](int extent, int features) {
      const std::string side = std::to_string(extent);
      return "[128," + side + "," + side + "," + std::to_string(features) + "]";
    };
    const std::string side = std::to_string(form.window);
    const std::string pad = std::to_string(form.window - 1) + "_" + std::to_string(high);
    const std::string step = std::to_string(form.stride);
    const std::string results = std::to_string(form.results);
    test::check_hlo(
        "HloModule phases\nadd {\n p = f32[] parameter(0)\n q = f32[] parameter(1)\n"
        " ROOT r = f32[] add(p, q)\n}\nENTRY step {\n g = f32" +
        image(form.extent, form.features) + " parameter(0)\n w = f32[" + side + "," + side + "," +
        std::to_string(form.features) + "," + results + "] parameter(1)\n y = f32" +
        image(result, form.results) + " convolution(g, w), window={size=" + side + "x" + side +
        " pad=" + pad + "x" + pad + " lhs_dilate=" + step + "x" + step +
        "}, dim_labels=b01f_01io->b01f\n z = f32[] constant(0)\n zs = f32" +
        image(result, form.results) + " broadcast(z), dimensions={}\n m = f32" +
        image(result, form.results) + " maximum(y, zs)\n s = f32[" + results +
        "] reduce(m, z), dimensions={0,1,2}, to_apply=add\n ROOT t = (f32" +
        image(result, form.results) + ", f32[" + results + "]) tuple(m, s)\n}\n");
  }
}

/// Of a convolution in parts all lots share the work on the sums before: a rectifier behind it
/// hides in them.
TEST(ConvolutionEpilogue, LotsOfAStepShareTheWorkBeside) {
  const std::string image = "f32[128,8,8,64]";
  const std::string convolution =
      "HloModule relu\nENTRY step {\n x = " + image +
      " parameter(0)\n w = f32[3,3,64,64] parameter(1)\n y = " + image +
      " convolution(x, w), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f, "
      "operand_precision={highest,highest}\n";
  test::HloCheck check;
  check.round_matmul_operands = false;
  const auto cycles = [&](const std::string& behind) {
    return static_cast<double>(test::check_hlo(convolution + behind + "}\n", check).result.cycles);
  };
  const double alone = cycles(" ROOT r = " + image + " copy(y)\n");
  const double rectified =
      cycles(" z = f32[] constant(0)\n zs = " + image +
             " broadcast(z), dimensions={}\n ROOT r = " + image + " maximum(y, zs)\n");
  EXPECT_LT(rectified, 1.02 * alone);
}

TEST(ConvolutionEpilogue, StepsFinishWholeDigitsOfTheProductsBefore) {
  compiler::ConvolutionProblem problem;
  problem.has_epilogue = true;
  compiler::LanesTiling tiling;
  tiling.split = compiler::LanesTiling::Split::kGroups;
  tiling.group = 3;
  tiling.chunk = tiling.block_columns = 4;
  problem.contracted = 64;
  const compiler::Target target;
  // 3 pixels of two MXUs, 2 pairs each: 12. In 2 units of the patch: all pixels of one column.
  problem.spatial[1] = {8, 1, 8};
  compiler::Patches patches(problem, 3, 1);
  ASSERT_EQ(patches.units.size(), 2U);
  EXPECT_EQ(compiler::pairs_of_units(problem, tiling, target), 12U);
  EXPECT_EQ(compiler::pairs_to_finish(problem, tiling, patches, target), 6U);
  EXPECT_EQ(compiler::pair_place(problem, tiling, target, 5).x, 5U);
  EXPECT_EQ(compiler::pair_place(problem, tiling, target, 6).column, 2U);
  // 5 units: 3 of 12 would do, and are a part of the six pixels.
  patches.units.resize(5);
  EXPECT_EQ(compiler::pairs_to_finish(problem, tiling, patches, target), 3U);
  // Three phases of the columns and two of the rows: 72 in 5 units, all of one column's 6 x 3 (15
  // would do, and are no part), or 12 units: 6.
  problem.spatial[0].base_dilation = 2;
  problem.spatial[1].base_dilation = 3;
  EXPECT_EQ(compiler::pairs_of_units(problem, tiling, target), 72U);
  EXPECT_EQ(compiler::pairs_to_finish(problem, tiling, patches, target), 18U);
  patches.units.resize(12);
  EXPECT_EQ(compiler::pairs_to_finish(problem, tiling, patches, target), 6U);
  for (std::uint32_t pair = 0; pair < 72; ++pair) {
    const compiler::PairPlace place = compiler::pair_place(problem, tiling, target, pair);
    // Pixels of a phase stand 3 apart.
    EXPECT_EQ(place.x, pair % 6 * 3 + pair / 6 % 3);
    EXPECT_EQ(place.row, pair / 18 % 2);
    EXPECT_EQ(place.column, pair / 36 * 2);
  }
  // Odd numbers of tiles, and blocks of contracted features, come behind the last step.
  tiling.chunk = 3;
  EXPECT_EQ(compiler::pairs_to_finish(problem, tiling, patches, target), 0U);
}

}  // namespace tpu::convolution_epilogue_test
