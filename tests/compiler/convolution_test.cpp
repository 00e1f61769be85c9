#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <vector>

#include "tests/compiler/dot_check.h"
#include "tests/compiler/graph_check.h"
#include "tests/compiler/kernel_harness.h"
#include "tests/compiler/padded_array.h"
#include "workloads/compiler/ir/array_layout.h"
#include "workloads/compiler/kernels/contraction/convolution_lanes_tiling.h"
#include "workloads/compiler/kernels/contraction/convolution_lanes_weights_tiling.h"
#include "workloads/compiler/kernels/contraction/convolution_tiling.h"
#include "workloads/compiler/kernels/contraction/convolution_weights_tiling.h"
#include "workloads/compiler/kernels/contraction/image_rows.h"
#include "workloads/compiler/kernels/lowering.h"
#include "workloads/hlo/hlo_reader.h"

namespace tpu::test::convolution_test {
namespace {

using compiler::Target;
using hlo::ElementType;
using hlo::Shape;
using Extents = std::vector<std::int64_t>;

Target v2_target() {
  Target target;
  target.chip = "v2";
  target.mxu_count = 1;
  return target;
}

/// What a convolution does to a batch of images [n, h, w, ci], a kernel [kh, kw, ci, co] and
/// results or their gradients [n, oh, ow, co].
struct Geometry {
  std::string name;
  std::int64_t n = 1, h = 1, w = 1, ci = 1, co = 1, kh = 1, kw = 1;
  std::int64_t stride = 1, pad_low = 0, pad_high = 0;
  ElementType type = ElementType::kF32;         ///< Of images and results.
  ElementType kernel_type = ElementType::kF32;  ///< Of the kernel and its gradient.
  bool batch_in_lanes = false;
  bool depthwise = false;                 ///< As many groups as features: ci is co.
  std::int64_t dilation = 1;              ///< Of the kernel.
  compiler::OperandParts parts = {1, 1};  ///< Of both operands.
  std::int64_t kernel_features() const { return depthwise ? 1 : ci; }
  std::int64_t oh() const { return results(h, kh); }
  std::int64_t ow() const { return results(w, kw); }
  std::int64_t results(std::int64_t pixels, std::int64_t size) const {
    return (pixels + pad_low + pad_high - (size - 1) * dilation - 1) / stride + 1;
  }
};

Shape image_shape(const Geometry& g, const Extents& extents) {
  Shape shape = hlo::array_shape(g.type, extents);
  shape.layout =
      compiler::tiled_layout(g.type, g.batch_in_lanes ? Extents{0, 3, 2, 1} : Extents{3, 0, 2, 1});
  return shape;
}

hlo::Module two_operand_module(const hlo::HloInstruction& instruction, const Shape& a,
                               const Shape& b) {
  hlo::Module module;
  module.computations.emplace_back();
  module.entry = 0;
  hlo::Computation& computation = module.computations[0];
  for (const Shape* shape : {&a, &b}) {
    hlo::HloInstruction parameter;
    parameter.id = static_cast<hlo::InstructionId>(computation.instructions.size());
    parameter.parameter_number = parameter.id;
    parameter.name = "p" + std::to_string(parameter.id);
    parameter.opcode = hlo::HloOpcode::kParameter;
    parameter.shape = *shape;
    computation.instructions.push_back(parameter);
  }
  computation.instructions.push_back(instruction);
  hlo::HloInstruction& added = computation.instructions.back();
  added.id = 2;
  added.operands = {0, 1};
  computation.root = 2;
  return module;
}

hlo::HloInstruction convolution_of(const Geometry& g, const Shape& shape) {
  hlo::HloInstruction instruction;
  instruction.name = g.name;
  instruction.opcode = hlo::HloOpcode::kConvolution;
  instruction.shape = shape;
  if (g.depthwise) instruction.feature_group_count = g.co;
  instruction.raw_attributes = compiler::precision_of_parts(g.parts);
  return instruction;
}

hlo::Module forward_module(const Geometry& g) {
  hlo::HloInstruction conv = convolution_of(g, image_shape(g, {g.n, g.oh(), g.ow(), g.co}));
  conv.convolution = {0, 3, {1, 2}, 2, 3, {0, 1}, 0, 3, {1, 2}};
  for (std::int64_t size : {g.kh, g.kw}) {
    hlo::WindowDimension window;
    window.size = size;
    window.stride = g.stride;
    window.window_dilation = g.dilation;
    window.padding_low = g.pad_low;
    window.padding_high = g.pad_high;
    conv.window.push_back(window);
  }
  return two_operand_module(
      conv, image_shape(g, {g.n, g.h, g.w, g.ci}),
      array_in_memory(g.kernel_type, {g.kh, g.kw, g.kernel_features(), g.co}));
}

/// The gradient of the images: the result's gradient dilated by the stride, with the reversed
/// kernel whose features change places.
hlo::Module input_gradient_module(const Geometry& g) {
  hlo::HloInstruction conv = convolution_of(g, image_shape(g, {g.n, g.h, g.w, g.ci}));
  conv.convolution = {0, 3, {1, 2}, 3, 2, {0, 1}, 0, 3, {1, 2}};
  const Extents sizes{g.kh, g.kw}, images{g.h, g.w}, results{g.oh(), g.ow()};
  for (std::size_t i = 0; i < 2; ++i) {
    hlo::WindowDimension window;
    window.size = sizes[i];
    window.base_dilation = g.stride;
    window.window_dilation = g.dilation;
    window.padding_low = (sizes[i] - 1) * g.dilation - g.pad_low;
    window.padding_high = images[i] - (results[i] - 1) * g.stride - 1 + g.pad_low;
    window.reversal = true;
    conv.window.push_back(window);
  }
  Shape kernel = array_in_memory(g.kernel_type, {g.kh, g.kw, g.ci, g.co});
  if (g.depthwise) {
    kernel = hlo::array_shape(g.kernel_type, {g.kh, g.kw, g.ci, 1});
    kernel.layout = compiler::tiled_layout(g.kernel_type, {2, 3, 1, 0});
  }
  return two_operand_module(conv, image_shape(g, {g.n, g.oh(), g.ow(), g.co}), kernel);
}

/// The gradient of the kernel: features of the images as batch, the batch as features, the result's
/// gradient as window.
hlo::Module kernel_gradient_module(const Geometry& g) {
  hlo::HloInstruction conv =
      convolution_of(g, array_in_memory(g.kernel_type, {g.kh, g.kw, g.kernel_features(), g.co}));
  if (g.depthwise) std::swap(conv.feature_group_count, conv.batch_group_count);
  conv.convolution = {3, 0, {1, 2}, 0, 3, {1, 2}, 2, 3, {0, 1}};
  const Extents sizes{g.kh, g.kw}, images{g.h, g.w}, results{g.oh(), g.ow()};
  for (std::size_t i = 0; i < 2; ++i) {
    hlo::WindowDimension window;
    window.size = results[i];
    window.window_dilation = g.stride;
    window.stride = g.dilation;
    window.padding_low = g.pad_low;
    window.padding_high =
        (sizes[i] - 1) * g.dilation + (results[i] - 1) * g.stride + 1 - images[i] - g.pad_low;
    conv.window.push_back(window);
  }
  return two_operand_module(conv, image_shape(g, {g.n, g.h, g.w, g.ci}),
                            image_shape(g, {g.n, g.oh(), g.ow(), g.co}));
}

enum class Pass { kForward, kInputGradient, kKernelGradient };

/// By loops over pixels, positions of the kernel and features, of operands rounded to bf16.
std::vector<float> expected_of(const Geometry& g, Pass pass, const std::vector<float>& a,
                               const std::vector<float>& b) {
  const auto at4 = [](std::int64_t i, std::int64_t j, std::int64_t k, std::int64_t l,
                      std::int64_t J, std::int64_t K, std::int64_t L) {
    return static_cast<std::size_t>(((i * J + j) * K + k) * L + l);
  };
  const std::int64_t out_count = pass == Pass::kForward ? g.n * g.oh() * g.ow() * g.co
                                 : pass == Pass::kInputGradient
                                     ? g.n * g.h * g.w * g.ci
                                     : g.kh * g.kw * g.kernel_features() * g.co;
  std::vector<double> sums(static_cast<std::size_t>(out_count));
  std::vector<double> x(a.size()), y(b.size());
  // Depthwise convolutions multiply in fp32.
  const auto take = [&g](std::size_t side) {
    return [parts = g.depthwise ? compiler::kMostParts : g.parts[side]](float value) {
      return taken_in_parts(value, parts);
    };
  };
  std::transform(a.begin(), a.end(), x.begin(), take(0));
  std::transform(b.begin(), b.end(), y.begin(), take(1));
  const std::int64_t oh = g.oh(), ow = g.ow();
  // Of a depthwise convolution a feature meets itself alone.
  const std::int64_t own = g.depthwise ? 1 : g.co;
  for (std::int64_t oy = 0; oy < oh; ++oy)
    for (std::int64_t ox = 0; ox < ow; ++ox)
      for (std::int64_t ky = 0; ky < g.kh; ++ky)
        for (std::int64_t kx = 0; kx < g.kw; ++kx) {
          const std::int64_t iy = oy * g.stride + ky * g.dilation - g.pad_low;
          const std::int64_t ix = ox * g.stride + kx * g.dilation - g.pad_low;
          if (iy < 0 || iy >= g.h || ix < 0 || ix >= g.w) continue;
          for (std::int64_t n = 0; n < g.n; ++n)
            for (std::int64_t ci = 0; ci < g.ci; ++ci) {
              const std::int64_t co = g.depthwise ? ci : 0;
              const std::size_t image = at4(n, iy, ix, ci, g.h, g.w, g.ci);
              const std::size_t result = at4(n, oy, ox, co, oh, ow, g.co);
              const std::size_t kernel =
                  at4(ky, kx, g.depthwise ? 0 : ci, co, g.kw, g.kernel_features(), g.co);
              if (pass == Pass::kForward) {
                for (std::int64_t i = 0; i < own; ++i)
                  (&sums[result])[i] += x[image] * (&y[kernel])[i];
              } else if (pass == Pass::kInputGradient) {
                for (std::int64_t i = 0; i < own; ++i)
                  sums[image] += (&x[result])[i] * (&y[kernel])[i];
              } else {
                for (std::int64_t i = 0; i < own; ++i)
                  (&sums[kernel])[i] += x[image] * (&y[result])[i];
              }
            }
        }
  return {sums.begin(), sums.end()};
}

hlo::Module module_of(const Geometry& g, Pass pass) {
  switch (pass) {
    case Pass::kForward:
      return forward_module(g);
    case Pass::kInputGradient:
      return input_gradient_module(g);
    default:
      return kernel_gradient_module(g);
  }
}

/// `expected`: computed where it is empty.
void check(const Geometry& g, Pass pass, const Target& target, std::vector<float>& expected) {
  SCOPED_TRACE(g.name + ", pass " + std::to_string(static_cast<int>(pass)) + " on " + target.chip);
  const hlo::Module module = module_of(g, pass);
  const hlo::Computation& computation = module.computations[0];
  const compiler::LoweredKernel lowered =
      compiler::lower_convolution(module, computation, computation.at(2), target);
  const PaddedArray a = random_array(computation.at(0).shape, 1);
  const PaddedArray b = random_array(computation.at(1).shape, 2);
  if (expected.empty()) expected = expected_of(g, pass, a.values, b.values);
  const Shape& shape = computation.at(2).shape;
  for (DmaTiming timing : {DmaTiming::kAtOnce, DmaTiming::kLate}) {
    KernelHarness harness(target);
    const std::uint32_t pa = harness.place(a.words);
    const std::uint32_t pb = harness.place(b.words);
    const std::uint32_t pc = harness.reserve(compiler::granules(shape) * 1024);
    harness.run(lowered.kernel, {pa, pb, pc}, timing);
    const std::vector<float> out =
        values_of(shape, harness.read(pc, compiler::granules(shape) * 256));
    ASSERT_EQ(out.size(), expected.size());
    for (std::size_t i = 0; i < out.size(); ++i) {
      const double tolerance = 1.5 * tolerance_of(shape.type, g.parts, expected[i]);
      ASSERT_NEAR(out[i], expected[i], tolerance) << "element " << i;
    }
  }
}

void check(const Geometry& g, Pass pass, const Target& target) {
  std::vector<float> expected;
  check(g, pass, target, expected);
}

void check(const Geometry& g, Pass pass) {
  std::vector<float> expected;
  check(g, pass, Target{}, expected);
  check(g, pass, v2_target(), expected);
}

const Geometry kThree{"three", 9, 5, 6, 5, 7, 3, 3, 1, 1, 1};
const Geometry kWide{"wide", 8, 4, 4, 130, 150, 3, 3, 1, 1, 1};
const Geometry kStrided{"strided", 8, 7, 8, 10, 12, 3, 3, 2, 1, 1};
const Geometry kStem{"stem", 4, 12, 12, 3, 16, 7, 7, 2, 2, 3};
const Geometry kOneByOne{"one", 8, 5, 5, 20, 140, 1, 1, 1, 0, 0};
const Geometry kShortcut{"shortcut", 8, 6, 6, 20, 30, 1, 1, 2, 0, 0};
const Geometry kNoPadding{"valid", 3, 6, 7, 4, 5, 2, 3, 1, 0, 0};

Geometry in_lanes(Geometry g, std::int64_t batch) {
  g.name += "_in_lanes";
  g.batch_in_lanes = true;
  g.n = batch;
  return g;
}

Geometry packed(Geometry g) {
  g.name += "_bf16";
  g.type = ElementType::kBf16;
  return g;
}

/// Pieces of pixels of four granules, five pixels a row, six rows a block.
TEST(ImageRows, AreOneBoxWherePiecesAreEquallyFarApart) {
  using compiler::ImageShape;
  using compiler::StridedBox;
  const auto box_of = [](ImageShape shape) {
    shape.block_rows = 6;
    const std::optional<StridedBox> box = shape.block();
    return box ? std::vector{box->run, box->runs, box->hbm_stride, box->vmem_stride}
               : std::vector<std::uint32_t>();
  };
  using Box = std::vector<std::uint32_t>;
  ImageShape whole;  // Rows without gaps, in VMEM between borders of four granules.
  whole.row = {4, 5, 4};
  whole.row_stride = 20;
  whole.pitch = 2 * (20 + 8);
  EXPECT_EQ(box_of(whole), (Box{20, 6, 20, 28}));
  whole.row_stride = 65536;
  EXPECT_EQ(box_of(whole), Box());
  whole.row_stride = 65535;
  EXPECT_EQ(box_of(whole), (Box{20, 6, 65535, 28}));
  whole.rows_vary = true;
  EXPECT_EQ(box_of(whole), Box());
  ImageShape part;  // One granule of each pixel.
  part.row = {1, 5, 4};
  part.row_stride = 20;
  part.pitch = 2 * 5;
  EXPECT_EQ(box_of(part), (Box{1, 30, 4, 1}));
  part.pitch = 2 * 7;
  EXPECT_EQ(box_of(part), Box());
  part.pitch = 2 * 5;
  part.row_stride = 24;
  EXPECT_EQ(box_of(part), Box());
  part.row_stride = 20;
  part.slices = 2;
  EXPECT_EQ(box_of(part), Box());
}

/// The window comes once, a block of the image and of the result in one DMA each: whole rows with a
/// border in VMEM, and a column of which a block has some of the batch.
TEST(ImageRows, MoveByOneDmaABlock) {
  for (const Geometry& g : {Geometry{"rows", 8, 48, 6, 40, 50, 3, 3, 1, 1, 1},
                            Geometry{"column", 64, 70, 1, 40, 50, 3, 1, 1, 0, 0}}) {
    Target target;
    target.vmem_bytes = 2 << 20;
    const hlo::Module module = forward_module(g);
    const hlo::Computation& computation = module.computations[0];
    const compiler::ConvolutionProblem problem =
        compiler::convolution_problem(computation.at(2), computation.at(0).shape,
                                      computation.at(1).shape, computation.at(2).shape)
            .value();
    const compiler::ConvolutionSizes sizes(
        problem, compiler::find_convolution_tiling(problem, target).value(), target);
    const std::uint32_t blocks = sizes.plan.grid[1] * sizes.plan.grid[2];
    EXPECT_GT(blocks, 1U);
    const compiler::LoweredKernel lowered =
        compiler::lower_convolution(module, computation, computation.at(2), target);
    KernelHarness harness(target);
    const std::uint32_t a = harness.place(random_array(computation.at(0).shape, 1).words);
    const std::uint32_t b = harness.place(random_array(computation.at(1).shape, 2).words);
    const std::uint32_t c = harness.reserve(compiler::granules(computation.at(2).shape) * 1024);
    EXPECT_EQ(harness.run(lowered.kernel, {a, b, c}).dmas, 1U + 2 * blocks) << g.name;
    check(g, Pass::kForward, target);
  }
}

TEST(Convolution, ForwardThreeByThree) { check(kThree, Pass::kForward); }
TEST(Convolution, ForwardManyFeatures) { check(kWide, Pass::kForward); }
TEST(Convolution, ForwardWithStride) { check(kStrided, Pass::kForward); }
TEST(Convolution, ForwardStem) { check(kStem, Pass::kForward); }
TEST(Convolution, ForwardOneByOne) {
  check(kOneByOne, Pass::kForward);
  check(kShortcut, Pass::kForward);
}
TEST(Convolution, ForwardWithoutPadding) { check(kNoPadding, Pass::kForward); }
TEST(Convolution, ForwardPacked) {
  check(packed(kThree), Pass::kForward);
  check(packed(kWide), Pass::kForward);
  Geometry weights = packed(kStrided);
  weights.kernel_type = ElementType::kBf16;
  check(weights, Pass::kForward);
}
TEST(Convolution, InputGradient) {
  check(kThree, Pass::kInputGradient);
  check(kWide, Pass::kInputGradient);
  check(kNoPadding, Pass::kInputGradient);
}
TEST(Convolution, InputGradientWithStride) {
  check(kStrided, Pass::kInputGradient);
  check(kStem, Pass::kInputGradient);
}
TEST(Convolution, InputGradientOneByOne) {
  check(kOneByOne, Pass::kInputGradient);
  check(kShortcut, Pass::kInputGradient);
}
TEST(Convolution, InputGradientPacked) {
  check(packed(kThree), Pass::kInputGradient);
  check(packed(kStrided), Pass::kInputGradient);
}

TEST(Convolution, KernelGradient) {
  check(kThree, Pass::kKernelGradient);
  check(kWide, Pass::kKernelGradient);
  check(kNoPadding, Pass::kKernelGradient);
}
TEST(Convolution, KernelGradientWithStride) {
  check(kStrided, Pass::kKernelGradient);
  check(kStem, Pass::kKernelGradient);
}
TEST(Convolution, KernelGradientOneByOne) {
  check(kOneByOne, Pass::kKernelGradient);
  check(kShortcut, Pass::kKernelGradient);
}
TEST(Convolution, KernelGradientPacked) {
  check(packed(kThree), Pass::kKernelGradient);
  check(packed(kStrided), Pass::kKernelGradient);
}
TEST(Convolution, KernelGradientOfALargeBatch) {
  check({"batch", 136, 3, 3, 5, 7, 3, 3, 1, 1, 1}, Pass::kKernelGradient);
  check({"batch", 130, 3, 3, 5, 7, 1, 1, 1, 0, 0}, Pass::kKernelGradient);
}

/// Arrays of other sizes than any core has.
Target large_arrays(std::uint32_t count, std::uint32_t rows, std::uint32_t columns) {
  Target target;
  target.mxu_count = count;
  target.mxu_rows = rows;
  target.mxu_columns = columns;
  target.matmul_latency_cycles = 7 + rows / 2 + columns / 4 + 2;
  return target;
}

/// Rows of pixels that are shorter and longer than a group, of batches that share tiles or do not.
TEST(Convolution, KernelGradientOfAFewExamples) {
  for (std::int64_t batch : {1, 2, 3, 4, 5}) {
    SCOPED_TRACE(batch);
    const Geometry wide{"wide", batch, 4, 45, 3, 20, 3, 3, 1, 1, 1};
    const Geometry strided{"strided", batch, 9, 11, 20, 6, 3, 3, 2, 0, 1};
    const Geometry many{"many", batch, 3, 5, 140, 130, 3, 3, 1, 1, 1};
    for (const Geometry& g : {wide, strided, many}) {
      check(g, Pass::kKernelGradient, Target{});
      check(packed(g), Pass::kKernelGradient, Target{});
    }
    Geometry narrow = strided;
    narrow.kernel_type = ElementType::kBf16;
    check(narrow, Pass::kKernelGradient, Target{});
  }
  check({"arrays", 2, 6, 9, 20, 300, 3, 3, 1, 1, 1}, Pass::kKernelGradient,
        large_arrays(2, 256, 256));
}

compiler::ConvolutionProblem problem_of(const Geometry& g, Pass pass) {
  const hlo::Module module = module_of(g, pass);
  const hlo::Computation& computation = module.computations[0];
  return compiler::convolution_problem(computation.at(2), computation.at(0).shape,
                                       computation.at(1).shape, computation.at(2).shape)
      .value();
}

TEST(Convolution, NeighbouringPixelsOfFourExamplesShareATile) {
  const Geometry four{"four", 4, 8, 32, 16, 32, 3, 3, 1, 1, 1};
  const auto problem = problem_of(four, Pass::kKernelGradient);
  const compiler::WeightsTiling tiling = compiler::find_weights_tiling(problem, Target{}).value();
  EXPECT_EQ(tiling.tile_pixels, 2U);
  EXPECT_EQ(tiling.group, 32U);
  EXPECT_TRUE(tiling.splits_rows);  // A row is one group: the other array takes the next row.
  EXPECT_EQ(compiler::WeightsSizes(problem, tiling, compiler::Target{}).group_tiles, 16U);
  Geometry eight = four;
  eight.n = 8;
  EXPECT_EQ(compiler::find_weights_tiling(problem_of(eight, Pass::kKernelGradient), Target{})
                .value()
                .tile_pixels,
            1U);
}

TEST(Convolution, AStepTakesSeveralShortRowsOfPixels) {
  const Geometry image{"short", 8, 8, 8, 16, 32, 3, 3, 1, 1, 1};
  const auto problem = problem_of(image, Pass::kForward);
  const compiler::ConvolutionTiling tiling =
      compiler::find_convolution_tiling(problem, Target{}).value();
  EXPECT_EQ(tiling.chunk_x, 8U);
  EXPECT_GT(tiling.chunk_y, 2U);  // 8 pixels of 8 examples are 32 cycles of an array, weights 128.
  EXPECT_EQ(tiling.block_y % tiling.chunk_y, 0U);
  check(image, Pass::kForward, Target{});
  check(image, Pass::kInputGradient, Target{});
}

/// Few features of few examples, what kernels join and turn; or several tiles of features of small
/// images.
class RandomShapes {
 public:
  RandomShapes(unsigned seed, bool many_features) : random_(seed), many_features_(many_features) {}

  Geometry next(Pass pass) {
    for (;;) {
      Geometry g;
      if (many_features_) {
        g.n = one_of({1, 2, 3, 4, 8});
        g.h = between(1, 3);
        g.w = between(4, 20);
        g.ci = one_of({96, 128, 130, 192, 256, 300});
        g.co = one_of({8, 96, 128, 140, 192, 260});
        g.kh = between(1, 2);
      } else {
        g.n = one_of({1, 4, 8, 11, 16, 32, 48, 127});
        g.h = between(2, 12);
        g.w = between(6, 32);
        g.ci = one_of({1, 3, 5, 8, 12, 16, 30, 32, 64, 127});
        g.co = between(1, 80);
        g.kh = between(1, 5);
      }
      g.kw = between(2, 7);
      const bool is_column = !many_features_ && random_() % 3 == 0;
      if (is_column) {  // Of lines of single pixels.
        g.h = between(12, 90);
        g.kh = between(2, 9);
        g.w = g.kw = 1;
      }
      g.stride = one_of({1, 1, 2});
      g.dilation = pass == Pass::kInputGradient && g.stride > 1 ? 1 : one_of({1, 1, 2});
      g.pad_low = is_column ? 0 : between(0, 2);
      g.pad_high = is_column ? 0 : between(0, 2);
      if (random_() % 2 != 0) g.type = ElementType::kBf16;
      if (random_() % 2 != 0) g.kernel_type = ElementType::kBf16;
      const std::int64_t reach = std::min((g.kh - 1) * g.dilation, (g.kw - 1) * g.dilation);
      if (reach < g.pad_low || g.h <= (g.kh - 1) * g.dilation || g.w <= (g.kw - 1) * g.dilation) {
        continue;
      }
      if (g.n * g.oh() * g.ow() * g.ci * g.co * g.kh * g.kw > 8'000'000) continue;
      return g;
    }
  }

 private:
  std::int64_t between(std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random_);
  }
  std::int64_t one_of(const std::vector<std::int64_t>& values) {
    return values[random_() % values.size()];
  }
  std::mt19937 random_;
  bool many_features_;
};

TEST(ConvolutionOfManyFeatures, ValuesOfRandomShapes) {
  for (unsigned seed = 0; seed < 12; ++seed) {
    for (Pass pass : {Pass::kForward, Pass::kInputGradient, Pass::kKernelGradient}) {
      SCOPED_TRACE(seed);
      check(RandomShapes(3 * seed + static_cast<unsigned>(pass), true).next(pass), pass);
    }
  }
}

TEST(ConvolutionOfFewFeatures, ValuesOfRandomShapes) {
  int joined = 0;
  for (unsigned seed = 0; seed < 12; ++seed) {
    for (Pass pass : {Pass::kForward, Pass::kInputGradient, Pass::kKernelGradient}) {
      RandomShapes shapes(4 * seed + static_cast<unsigned>(pass), false);
      const Geometry g = shapes.next(pass);
      const auto problem = problem_of(g, pass);
      for (const Target& target : {Target{}, v2_target()}) {
        SCOPED_TRACE(seed);
        check(g, pass, target);
        if (problem.is_product() || pass == Pass::kKernelGradient) continue;
        joined += compiler::find_convolution_tiling(problem, target).value().joined.count() > 1;
      }
    }
  }
  EXPECT_GE(joined, 8);
}

/// Each kernel, with the batch in the rows and in the lanes: features that fill no tile, that fill
/// several, and positions that are joined.
TEST(Convolution, InPartsOfItsOperands) {
  const Geometry joined{"joined", 8, 6, 20, 16, 48, 3, 3, 1, 1, 1};
  for (const compiler::OperandParts& parts :
       {compiler::OperandParts{3, 3}, {2, 2}, {3, 1}, {1, 3}}) {
    SCOPED_TRACE(testing::Message() << parts[0] << " and " << parts[1] << " parts");
    for (Geometry g : {kThree, kWide, kStrided, kOneByOne, joined}) {
      g.parts = parts;
      for (const Pass pass : {Pass::kForward, Pass::kInputGradient, Pass::kKernelGradient}) {
        check(g, pass);
        if (g.ci < 100) check(in_lanes(g, 100), pass);
      }
    }
  }
}

TEST(ConvolutionOfFewFeatures, PositionsOfTheWindowAreJoined) {
  const Geometry sixteen{"sixteen", 8, 6, 20, 16, 48, 3, 3, 1, 1, 1};
  const Geometry half{"half", 16, 6, 14, 64, 64, 3, 3, 1, 1, 1};
  const Geometry wide{"wide", 16, 6, 14, 72, 64, 3, 3, 1, 1, 1};
  const auto steps_of = [](Geometry g, Pass pass) {
    g.h = g.w = 56;  // In small images the joined kernel costs more than it spares.
    const auto problem = problem_of(g, pass);
    const auto tiling = compiler::find_convolution_tiling(problem, v2_target()).value();
    const compiler::ConvolutionSizes sizes(problem, tiling, v2_target());
    return sizes.join ? sizes.join->y.groups * sizes.join->x.groups : 9;
  };
  EXPECT_EQ(steps_of(packed(sixteen), Pass::kForward), 2U);        // 6 and 3 of 8 positions.
  EXPECT_EQ(steps_of(packed(sixteen), Pass::kInputGradient), 6U);  // Pairs of 48 features.
  EXPECT_EQ(steps_of(packed(half), Pass::kForward), 6U);
  EXPECT_EQ(steps_of(packed(half), Pass::kInputGradient), 6U);
  EXPECT_EQ(steps_of(packed(wide), Pass::kForward), 9U);
  for (const Geometry& g : {sixteen, half}) {
    for (Pass pass : {Pass::kForward, Pass::kInputGradient}) {
      check(g, pass);
      check(packed(g), pass);
    }
  }
}

/// Lines of single pixels are joined in straight code along the column, no line by itself.
TEST(ConvolutionOfFewFeatures, AColumnIsJoinedAsALineIs) {
  Geometry column{"column", 8, 600, 1, 32, 32, 7, 1, 1, 0, 0};
  Geometry line = column;
  std::swap(line.h, line.w);
  std::swap(line.kh, line.kw);
  for (const ElementType type : {ElementType::kF32, ElementType::kBf16}) {
    column.type = line.type = type;
    const auto join_of = [](const Geometry& g) {
      const auto problem = problem_of(g, Pass::kForward);
      compiler::ConvolutionTiling tiling;
      tiling.joined = g.w == 1 ? compiler::JoinedPositions{4, 1} : compiler::JoinedPositions{1, 4};
      tiling.block_y = g.w == 1 ? 120 : 1;
      tiling.pixels_x = g.w == 1 ? 1 : 120;
      return compiler::ConvolutionSizes(problem, tiling, Target{}).join.value();
    };
    const compiler::WindowJoin along = join_of(line), down = join_of(column);
    EXPECT_EQ(down.y.pixels, along.x.pixels);
    EXPECT_EQ(down.x.pixels, 1U);
    EXPECT_EQ(down.cycles(Target{}), along.cycles(Target{}));
    EXPECT_EQ(down.passes[0].lines, 1U);
    const compiler::ConvolutionTiling found =
        compiler::find_convolution_tiling(problem_of(column, Pass::kForward), Target{}).value();
    EXPECT_GT(found.joined.y, 1U);
    check(column, Pass::kForward);
    check(column, Pass::kInputGradient);
  }
}

/// Each group of the input's pixels is turned once, whatever position of a row of the window it
/// meets: what lies in rows, the gradient, begins elsewhere.
TEST(Convolution, AKernelGradientReadsTheGradientAtTheWindowsPlace) {
  Geometry plain{"plain", 8, 4, 20, 12, 20, 3, 3, 1, 1, 1};
  Geometry far = plain;
  far.kw = 5;
  far.dilation = 2;
  far.pad_low = far.pad_high = 3;
  Geometry ragged = plain;  // Rows of padding below each pixel's batch.
  ragged.n = 11;
  Geometry shared = plain;  // Pixels share tiles of eight.
  shared.n = 3;
  shared.w = 60;
  Geometry wide = plain;
  wide.ci = 140;
  wide.co = 150;
  for (const Geometry& g : {plain, far, ragged, shared, wide, packed(plain), packed(wide)}) {
    SCOPED_TRACE(g.n);
    const auto problem = problem_of(g, Pass::kKernelGradient);
    const auto tiling = compiler::find_weights_tiling(problem, Target{}).value();
    EXPECT_TRUE(tiling.moves_gradient);
    const compiler::WeightsSizes sizes(problem, tiling, Target{});
    EXPECT_EQ(sizes.starts * tiling.parts, sizes.groups);
    EXPECT_EQ(sizes.margin, (g.kw - 1) * g.dilation);
    check(g, Pass::kKernelGradient);
  }
  Geometry strided = plain;  // Its neighbouring pixels are no neighbours in the input.
  strided.stride = 2;
  const auto problem = problem_of(strided, Pass::kKernelGradient);
  EXPECT_FALSE(compiler::find_weights_tiling(problem, Target{}).value().moves_gradient);
}

/// Runs of pixels of the batch that fill 128 lanes in pairs of rows.
TEST(ConvolutionOfFewFeatures, RunsOfPixelsAreTurnedOnce) {
  for (const std::int64_t batch : {8, 16, 32, 64}) {
    SCOPED_TRACE(batch);
    Geometry g = packed({"runs", batch, 4, 512 / batch + 12, 12, 20, 3, 5, 1, 1, 2});
    g.kernel_type = ElementType::kF32;
    for (const std::int64_t dilation : {1, 3}) {
      g.dilation = dilation;
      const auto problem = problem_of(g, Pass::kKernelGradient);
      EXPECT_TRUE(compiler::find_weights_tiling(problem, Target{}).value().turns_runs);
      check(g, Pass::kKernelGradient);
    }
  }
  // Two tiles of 128 features, both column tiles of an array.
  check(packed({"tiles", 16, 3, 21, 140, 260, 3, 3, 1, 1, 1}), Pass::kKernelGradient);
  check(packed({"arrays", 16, 3, 21, 40, 300, 3, 3, 1, 1, 1}), Pass::kKernelGradient,
        large_arrays(2, 256, 256));
}

TEST(ConvolutionInLanes, Forward) {
  check(in_lanes(kThree, 9), Pass::kForward);
  check(in_lanes(kNoPadding, 130), Pass::kForward);
  check(in_lanes(kStem, 128), Pass::kForward);
}
TEST(ConvolutionInLanes, ForwardManyFeatures) {
  check(in_lanes(kWide, 8), Pass::kForward);
  check(in_lanes({"even", 8, 4, 4, 64, 64, 3, 3, 1, 1, 1}, 16), Pass::kForward);
  check(in_lanes({"blocks", 8, 2, 3, 32, 512, 1, 1, 1, 0, 0}, 16), Pass::kForward);
}
TEST(ConvolutionInLanes, ForwardWithStride) { check(in_lanes(kStrided, 100), Pass::kForward); }
TEST(ConvolutionInLanes, ForwardOneByOne) {
  check(in_lanes(kOneByOne, 40), Pass::kForward);
  check(in_lanes(kShortcut, 140), Pass::kForward);
}
TEST(ConvolutionInLanes, ForwardPacked) {
  check(packed(in_lanes(kThree, 9)), Pass::kForward);
  check(packed(in_lanes(kStem, 128)), Pass::kForward);
  Geometry weights = packed(in_lanes(kStrided, 20));
  weights.kernel_type = ElementType::kBf16;
  check(weights, Pass::kForward);
}
TEST(ConvolutionInLanes, InputGradient) {
  check(in_lanes(kThree, 9), Pass::kInputGradient);
  check(in_lanes(kWide, 8), Pass::kInputGradient);
  check(in_lanes(kNoPadding, 130), Pass::kInputGradient);
  check(in_lanes({"even", 8, 4, 4, 64, 64, 3, 3, 1, 1, 1}, 16), Pass::kInputGradient);
}
TEST(ConvolutionInLanes, InputGradientWithStride) {
  check(in_lanes(kStrided, 20), Pass::kInputGradient);
  check(in_lanes(kStem, 20), Pass::kInputGradient);
  check(in_lanes(kOneByOne, 40), Pass::kInputGradient);
  check(in_lanes(kShortcut, 140), Pass::kInputGradient);
}
TEST(ConvolutionInLanes, InputGradientPacked) {
  check(packed(in_lanes(kThree, 9)), Pass::kInputGradient);
  Geometry weights = packed(in_lanes(kStrided, 20));
  weights.kernel_type = ElementType::kBf16;
  check(weights, Pass::kInputGradient);
}
TEST(ConvolutionInLanes, KernelGradient) {
  check(in_lanes(kThree, 9), Pass::kKernelGradient);
  check(in_lanes(kWide, 8), Pass::kKernelGradient);
  check(in_lanes(kNoPadding, 130), Pass::kKernelGradient);
  check(in_lanes({"blocks", 8, 2, 3, 32, 512, 1, 1, 1, 0, 0}, 16), Pass::kKernelGradient);
}
TEST(ConvolutionInLanes, KernelGradientWithStride) {
  check(in_lanes(kStrided, 100), Pass::kKernelGradient);
  check(in_lanes(kStem, 128), Pass::kKernelGradient);
  check(in_lanes(kOneByOne, 40), Pass::kKernelGradient);
  check(in_lanes(kShortcut, 140), Pass::kKernelGradient);
}
TEST(ConvolutionInLanes, KernelGradientPacked) {
  check(packed(in_lanes(kThree, 9)), Pass::kKernelGradient);
  Geometry weights = packed(in_lanes(kStrided, 20));
  weights.kernel_type = ElementType::kBf16;
  check(weights, Pass::kKernelGradient);
}

Geometry depthwise(Geometry g) {
  g.name += "_depthwise";
  g.depthwise = true;
  g.co = g.ci;
  return g;
}

TEST(DepthwiseConvolution, AllPassesWithTheBatchInRows) {
  for (Pass pass : {Pass::kForward, Pass::kInputGradient, Pass::kKernelGradient}) {
    check(depthwise(kThree), pass);
    check(depthwise(kWide), pass);
    check(depthwise(kStrided), pass);
    check(packed(depthwise(kStrided)), pass);
  }
}

TEST(DepthwiseConvolution, AllPassesWithTheBatchInLanes) {
  for (Pass pass : {Pass::kForward, Pass::kInputGradient, Pass::kKernelGradient}) {
    check(depthwise(in_lanes(kThree, 9)), pass);
    check(depthwise(in_lanes(kWide, 130)), pass);
    check(depthwise(in_lanes(kStrided, 40)), pass);
    check(packed(depthwise(in_lanes(kStrided, 128))), pass);
  }
}

/// A machine whose VMEM holds neither whole rows of such images nor all of their features.
Target small_target(std::uint64_t mib) {
  Target target;
  target.vmem_bytes = mib << 20;
  return target;
}

/// A line of pixels: pieces of code go along it, over blocks of whole pieces, to its end.
TEST(DepthwiseConvolution, ColumnsOfOnePixel) {
  const Geometry five{"five", 12, 37, 1, 200, 200, 5, 1, 1, 0, 0};
  const Geometry strided{"strided", 9, 40, 1, 130, 130, 4, 1, 2, 0, 0};
  const Geometry short_one{"short", 8, 3, 1, 128, 128, 3, 1, 1, 0, 0};
  for (Pass pass : {Pass::kForward, Pass::kInputGradient, Pass::kKernelGradient}) {
    for (const Geometry& g : {five, strided, short_one}) {
      check(depthwise(g), pass);
      check(packed(depthwise(g)), pass);
      check(depthwise(in_lanes(g, 20)), pass);
    }
    check(depthwise(five), pass, small_target(2));
  }
}

/// The same with pixels beside the line.
TEST(DepthwiseConvolution, ColumnsWithPadding) {
  for (const std::string& convolution :
       {std::string("f32[9,40,1,140] convolution(x, w), window={size=5x1 pad=3_4x0_0}, "
                    "dim_labels=b01f_01io->b01f, feature_group_count=140"),
        std::string("f32[9,19,1,140] convolution(x, w), window={size=5x1 pad=2_2x0_0 stride=2x1}, "
                    "dim_labels=b01f_01io->b01f, feature_group_count=140"),
        std::string("f32[5,1,1,140] convolution(x, x), window={size=37x1 pad=2_2x0_0}, "
                    "dim_labels=f01b_i01o->01bf, batch_group_count=140")}) {
    const Verdict verdict = check_graph(case_of(
        hlo::read_hlo_text("column.hlo",
                           "HloModule m\nENTRY main {\n  x = f32[9,37,1,140] parameter(0)\n  w = "
                           "f32[5,1,1,140] parameter(1)\n  ROOT c = " +
                               convolution + "\n}\n"),
        5));
    EXPECT_EQ(verdict.kind, Verdict::Kind::kEqual) << convolution << ": " << verdict.message;
  }
}

/// Windows of 7x7 over packed rows of 32 and 12 pixels. A product and its sum take a cycle of both
/// vector slots, as unpacking a pixel does: 7 rows of 14 pixels for 8 results, 7 of 10 for 4. Eight
/// at once would compute 16 results for 12. Of a column with windows of 7 in it, 14 pixels for 8.
TEST(DepthwiseConvolution, PixelsAreUnpackedOnceForTheirNeighbours) {
  struct Case {
    Geometry image;
    double tiles, positions, unpacked;
    double beside = 0;  ///< Of a piece of a few positions, by pixel.
  };
  for (const auto& [image, tiles, positions, unpacked, beside] :
       {Case{{"row", 8, 8, 32, 128, 128, 7, 7, 1, 3, 3}, 256, 49, 7 * 14 / 8.0},
        Case{{"odd", 8, 8, 12, 128, 128, 7, 7, 1, 3, 3}, 96, 49, 7 * 10 / 4.0},
        Case{{"column", 8, 518, 1, 128, 128, 7, 1, 1, 0, 0}, 512, 7, 14 / 8.0, 2}}) {
    const Geometry g = packed(depthwise(image));
    for (Pass pass : {Pass::kForward, Pass::kKernelGradient}) {
      check(g, pass, Target{});
      const hlo::Module module = module_of(g, pass);
      const hlo::Computation& computation = module.computations[0];
      const compiler::LoweredKernel lowered =
          compiler::lower_convolution(module, computation, computation.at(2), Target{});
      KernelHarness harness(Target{});
      std::vector<std::uint32_t> places;
      for (int i = 0; i < 3; ++i) {
        places.push_back(harness.reserve(compiler::granules(computation.at(i).shape) * 1024));
      }
      const auto cycles =
          static_cast<double>(harness.run(lowered.kernel, places, DmaTiming::kAtOnce).cycles);
      EXPECT_GT(cycles, tiles * positions);
      // A gradient adds each piece to the sums of its 49 positions.
      const double pieces = pass == Pass::kForward ? 1.16 : 1.28;
      EXPECT_LT(cycles, tiles * pieces * (positions + unpacked + beside)) << image.name;
    }
  }
}

TEST(Convolution, LargerArrays) {
  const Geometry features{"features", 16, 2, 4, 256, 384, 1, 1, 1, 0, 0};
  const Geometry three{"three", 8, 2, 4, 256, 256, 3, 3, 1, 1, 1};
  for (const Target& target : {large_arrays(4, 256, 256), large_arrays(1, 128, 384)}) {
    SCOPED_TRACE(std::to_string(target.mxu_count) + " of " + std::to_string(target.mxu_rows) + "x" +
                 std::to_string(target.mxu_columns));
    for (Pass pass : {Pass::kForward, Pass::kInputGradient, Pass::kKernelGradient}) {
      for (const Geometry& g : {kThree, kStrided, features}) check(g, pass, target);
      for (const Geometry& g : {kStrided, kOneByOne}) check(in_lanes(g, 130), pass, target);
    }
    check(packed(three), Pass::kForward, target);
  }
}

compiler::ConvolutionProblem problem_in(const hlo::Module& module) {
  const hlo::Computation& computation = module.computations[0];
  return compiler::convolution_problem(computation.at(2), computation.at(0).shape,
                                       computation.at(1).shape, computation.at(2).shape)
      .value();
}

/// Whole features of images of two tiles of the batch do not fit.
TEST(ConvolutionInLanes, KernelGradientOfPartsOfTheBatchAndOfTheFeatures) {
  const Geometry input{"input", 8, 3, 20, 64, 24, 3, 3, 2, 1, 1};
  const Geometry gradient{"gradient", 8, 2, 12, 32, 256, 1, 1, 1, 0, 0};
  for (const Geometry& g : {input, packed(input), gradient}) {
    const Geometry wide = in_lanes(g, 140);
    const Target target = small_target(g.type == ElementType::kF32 ? 4 : 3);
    const compiler::LanesWeightsTiling tiling =
        compiler::find_lanes_weights_tiling(problem_in(kernel_gradient_module(wide)), target)
            .value();
    EXPECT_LT(tiling.block_rows + tiling.block_columns, wide.ci / 8 + wide.co / 8);
    check(wide, Pass::kKernelGradient, target);
  }
}

TEST(ConvolutionInLanes, PartsOfRowsAndOfFeaturesWhereVmemIsSmall) {
  const Geometry rows{"rows", 8, 6, 31, 40, 48, 3, 3, 1, 1, 1};
  const Geometry strided{"strided", 8, 5, 34, 24, 40, 3, 3, 2, 0, 1};
  const Geometry features{"features", 8, 3, 3, 256, 64, 3, 3, 1, 1, 1};
  const Geometry shortcut{"shortcut", 8, 4, 30, 128, 256, 1, 1, 2, 0, 0};
  for (Geometry g : {rows, strided, features, shortcut}) {
    g = in_lanes(g, 8);
    const std::uint64_t mib = g.ci > 100 ? 5 : 3;
    for (Pass pass : {Pass::kForward, Pass::kInputGradient}) {
      check(g, pass, small_target(g.ci > 128 ? 12 : mib));
      check(packed(g), pass, small_target(g.ci > 128 ? 7 : mib));
    }
  }
}

/// "Is there a tiling?" ends with the first one, and "which is the best?" leaves out rows of pixels
/// that cannot fit: both rest on what is held here.
TEST(ConvolutionInLanes, SearchesThatEndEarlyFindWhatIsThere) {
  const Geometry rows{"rows", 8, 9, 31, 40, 48, 3, 3, 1, 1, 1};
  const Geometry features{"features", 8, 6, 3, 256, 64, 3, 3, 1, 1, 1};
  std::size_t found = 0, none = 0;
  for (const Geometry& g :
       {in_lanes(rows, 140), in_lanes(features, 140), in_lanes(rows, 8), in_lanes(features, 8)}) {
    const compiler::ConvolutionProblem forward = problem_in(forward_module(g));
    const compiler::ConvolutionProblem gradient = problem_in(kernel_gradient_module(g));
    for (std::uint64_t kib = 1024; kib <= 24 * 1024; kib += 512) {
      Target target;
      target.vmem_bytes = kib << 10;
      const bool has{compiler::find_lanes_tiling(forward, target)};
      EXPECT_EQ(compiler::has_lanes_tiling(forward, target), has) << g.name << ", " << kib;
      EXPECT_EQ(compiler::has_lanes_weights_tiling(gradient, target),
                bool{compiler::find_lanes_weights_tiling(gradient, target)})
          << g.name << ", " << kib;
      ++(has ? found : none);
    }
    const Target target;
    const auto pixels_y = static_cast<std::uint32_t>(forward.spatial[0].output);
    for (std::uint32_t group = 1; group <= 8; ++group) {
      const compiler::Patches patches(forward, group, 1);
      std::uint64_t before = 0;
      for (std::uint32_t y = 1; y < pixels_y; ++y) {
        compiler::LanesTiling tiling;
        tiling.group = group;
        tiling.block_y = y;
        const compiler::LanesSizes sizes(forward, tiling, patches, target);
        EXPECT_GT(sizes.plan.vmem_rows(), before) << g.name << ", " << group << " " << y;
        before = sizes.plan.vmem_rows();
      }
    }
  }
  EXPECT_GT(found, 20u);
  EXPECT_GT(none, 5u);
}

}  // namespace
}  // namespace tpu::test::convolution_test
