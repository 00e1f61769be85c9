#include <gtest/gtest.h>

#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "sim/config/compiler_target.h"
#include "tests/compiler/elementwise_check.h"
#include "tests/compiler/hlo_check.h"
#include "tests/compiler/kernel_harness.h"
#include "tests/compiler/machine_target.h"
#include "workloads/compiler/ir/array_layout.h"
#include "workloads/compiler/kernels/contraction/contraction_plan.h"
#include "workloads/compiler/kernels/contraction/matmul_epilogue.h"
#include "workloads/compiler/kernels/lowering.h"
#include "workloads/compiler/passes/pipeline.h"
#include "workloads/hlo/hlo_reader.h"
#include "workloads/reference/interpreter.h"

namespace tpu::matmul_prologue_test {

namespace {

/// A product whose sides its kernel makes, in one fusion. Images are normalised, with a factor and
/// a summand for each feature, or for each example and feature; a residual is added; then comes an
/// activation, and what rounds the result.
struct MadeSide {
  /// forward, input gradient, weight gradient, dot, dot of its right.
  std::string product = "forward";
  bool batch_in_lanes = false;
  int batch = 8, height = 5, width = 6, features = 16, results = 24, window = 3;
  std::string array = "bf16", residual, side = "bf16";  ///< Types; no residual: none.
  bool by_example = false;
  int stride = 1;

  std::string text() const;
  std::string image(const std::string& type, int count) const {
    return type + "[" + std::to_string(batch) + "," + std::to_string(height) + "," +
           std::to_string(width) + "," + std::to_string(count) + "]";
  }
};

/// `name` of `arrays`: x, s, t and, where there is one, r.
std::string normalised(const MadeSide& form, const std::string& name, const std::string& dimensions,
                       const std::string& spread) {
  const std::string f32 = "f32" + dimensions;
  std::ostringstream text;
  text << " " << name << "f = " << f32 << " convert(" << name << "x)\n " << name << "ss = " << f32
       << " broadcast(" << name << "s), dimensions={" << spread << "}\n " << name << "m = " << f32
       << " multiply(" << name << "f, " << name << "ss)\n " << name << "tt = " << f32
       << " broadcast(" << name << "t), dimensions={" << spread << "}\n " << name << "n = " << f32
       << " add(" << name << "m, " << name << "tt)\n";
  std::string last = name + "n";
  if (!form.residual.empty()) {
    text << " " << name << "rf = " << f32 << " convert(" << name << "r)\n " << name << "a = " << f32
         << " add(" << last << ", " << name << "rf)\n";
    last = name + "a";
  }
  text << " " << name << "zero = f32[] constant(0.25)\n " << name << "zeros = " << f32
       << " broadcast(" << name << "zero), dimensions={}\n " << name << "y = " << f32 << " maximum("
       << last << ", " << name << "zeros)\n " << name << " = " << form.side << dimensions
       << " convert(" << name << "y)\n";
  return text.str();
}

std::string MadeSide::text() const {
  const auto count = [](int n) { return std::to_string(n); };
  const bool is_dot = product.substr(0, 3) == "dot";
  std::vector<std::string> parameters;
  std::ostringstream body;
  const auto parameter = [&](const std::string& name, const std::string& shape) {
    body << " " << name << " = " << shape << " parameter(" << parameters.size() << ")\n";
    parameters.push_back(shape);
  };
  // Its arrays, then what is made of them.
  const auto make = [&](const std::string& name, int channels) {
    const std::string dimensions =
        is_dot ? "[" + count(batch) + "," + count(channels) + "]" : image("", channels);
    const bool spreads = by_example && !is_dot;
    const std::string vector =
        "f32[" + (spreads ? count(batch) + "," : std::string()) + count(channels) + "]";
    parameter(name + "x", array + dimensions);
    parameter(name + "s", vector);
    parameter(name + "t", vector);
    if (!residual.empty()) parameter(name + "r", residual + dimensions);
    body << normalised(*this, name, dimensions, is_dot ? "1" : spreads ? "0,3" : "3");
  };
  std::string result;
  const std::string side_text = count(window), pad = count(window / 2) + "_" + count(window / 2);
  const std::string steps = " stride=" + count(stride) + "x" + count(stride);
  if (product == "weight gradient") {
    make("p", features);
    make("q", results);
    result = "f32[" + count(window) + "," + count(window) + "," + count(features) + "," +
             count(results) + "]";
    body << " ROOT c = " << result << " convolution(p, q), window={size=" << height << "x" << width
         << " pad=" << pad << "x" << pad << "}, dim_labels=f01b_i01o->01bf\n";
  } else if (is_dot) {
    const bool is_right = product == "dot of its right";
    make("p", features);
    if (is_right) {
      // The rows of the side are contracted.
      parameter("w", side + "[" + count(batch) + "," + count(results) + "]");
      result = "f32[" + count(results) + "," + count(features) + "]";
      body << " ROOT c = " << result
           << " dot(w, p), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n";
    } else {
      parameter("w", side + "[" + count(features) + "," + count(results) + "]");
      result = "f32[" + count(batch) + "," + count(results) + "]";
      body << " ROOT c = " << result
           << " dot(p, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n";
    }
  } else {
    make("p", features);
    const bool is_gradient = product == "input gradient";
    const std::string kernel = is_gradient ? count(results) + "," + count(features)
                                           : count(features) + "," + count(results);
    parameter("w", side + "[" + side_text + "," + side_text + "," + kernel + "]");
    MadeSide out = *this;
    out.height = (height + 2 * (window / 2) - window) / stride + 1;
    out.width = (width + 2 * (window / 2) - window) / stride + 1;
    result = out.image("f32", results);
    body << " ROOT c = " << result << " convolution(p, w), window={size=" << side_text << "x"
         << side_text << (stride > 1 ? steps : "") << " pad=" << pad << "x" << pad
         << (is_gradient ? " rhs_reversal=1x1" : "") << "}, dim_labels=b01f_"
         << (is_gradient ? "01oi" : "01io") << "->b01f\n";
  }
  std::ostringstream text;
  text << "HloModule made\nfused {\n" << body.str() << "}\nENTRY e {\n";
  std::string operands;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    text << " a" << i << " = " << parameters[i] << " parameter(" << i << ")\n";
    operands += (i > 0 ? ", a" : "a") + std::to_string(i);
  }
  text << " ROOT k = " << result << " fusion(" << operands << "), kind=kOutput, calls=fused\n}\n";
  return text.str();
}

/// Images lie with their pixels outermost, and as they do what is the same for all pixels; all else
/// row-major.
void set_layouts(hlo::Module& module, const MadeSide& form) {
  for (hlo::Computation& computation : module.computations) {
    for (hlo::HloInstruction& instruction : computation.instructions) {
      hlo::Shape& shape = instruction.shape;
      std::vector<std::int64_t> order;
      for (std::int64_t d = shape.rank(); d-- > 0;) order.push_back(d);
      const bool is_image = shape.rank() == 4 && shape.dimensions[0] == form.batch;
      if (is_image && form.batch_in_lanes) order = {0, 3, 2, 1};
      if (is_image && !form.batch_in_lanes) order = {3, 0, 2, 1};
      if (shape.rank() == 2 && form.batch_in_lanes) order = {0, 1};
      if (shape.rank() > 0) shape.layout = compiler::tiled_layout(shape.type, order);
    }
  }
}

void check(const MadeSide& form, const compiler::Target& target) {
  SCOPED_TRACE(form.text() + " on " + target.chip);
  hlo::Module module = hlo::read_hlo_text("made", form.text());
  set_layouts(module, form);
  const hlo::Computation& entry = module.entry_computation();
  const hlo::HloInstruction& fusion = entry.at(entry.root);
  const bool is_dot = form.product.substr(0, 3) == "dot";
  const compiler::LoweredKernel lowered =
      is_dot ? compiler::lower_dot(module, entry, fusion, target)
             : compiler::lower_convolution(module, entry, fusion, target);
  std::mt19937 engine(3);
  std::vector<reference::Value> values;
  std::vector<std::vector<std::uint32_t>> words;
  for (hlo::InstructionId parameter : entry.parameters()) {
    const hlo::Shape& shape = entry.at(parameter).shape;
    values.push_back(test::random_value(shape, engine, {}));
    const reference::Value& value = values.back();
    words.push_back(test::words_of({shape, {value.numbers.begin(), value.numbers.end()}}));
  }
  reference::InterpreterOptions options;
  options.round_matmul_operands_to_bf16 = true;
  const reference::Value expected = reference::Interpreter(module, options).run(values);
  for (const test::DmaTiming timing : {test::DmaTiming::kAtOnce, test::DmaTiming::kLate}) {
    test::KernelHarness harness(target);
    std::vector<std::uint32_t> places;
    for (const auto& array : words) places.push_back(harness.place(array));
    const std::uint64_t granules = compiler::granules(fusion.shape);
    const std::uint32_t out = harness.reserve(granules * 1024);
    places.push_back(out);
    harness.run(lowered.kernel, places, timing);
    const std::vector<double> found =
        test::values_of(fusion.shape, hlo::unpack(fusion.shape, harness.read(out, granules * 256)));
    ASSERT_EQ(found.size(), expected.numbers.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      ASSERT_NEAR(found[i], expected.numbers[i], 1e-3 + 1e-5 * std::abs(found[i])) << i;
    }
    // What it reads is as it was.
    for (std::size_t i = 0; i < words.size(); ++i) {
      EXPECT_EQ(harness.read(places[i], words[i].size()), words[i]) << "operand " << i;
    }
  }
}

/// What of a layer's image reads: `readers` convolutions, and whether the caller gets it, too. The
/// image is normalised and activated by `operations` operations.
std::string layer(int size, int readers, bool is_result, int operations) {
  const std::string dimensions =
      "[16," + std::to_string(size) + "," + std::to_string(size) + ",32]";
  const std::string image = "bf16" + dimensions, f32 = "f32" + dimensions;
  std::ostringstream text;
  text << "HloModule layer\nENTRY e {\n x = " << image
       << " parameter(0)\n s = f32[32] parameter(1)\n"
       << " xf = " << f32 << " convert(x)\n ss = " << f32
       << " broadcast(s), dimensions={3}\n y0 = " << f32 << " multiply(xf, ss)\n";
  for (int i = 0; i < operations; ++i) {
    text << " y" << i + 1 << " = " << f32 << " tanh(y" << i << ")\n";
  }
  text << " y = " << image << " convert(y" << operations << ")\n";
  std::string shapes, values;
  const auto add = [&](const std::string& name) {
    shapes += (shapes.empty() ? "" : ", ") + image;
    values += (values.empty() ? "" : ", ") + name;
  };
  for (int i = 0; i < readers; ++i) {
    const std::string number = std::to_string(i);
    text << " w" << number << " = bf16[3,3,32,32] parameter(" << i + 2 << ")\n c" << number << " = "
         << image << " convolution(y, w" << number
         << "), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f\n";
    add("c" + number);
  }
  if (is_result) add("y");
  text << " ROOT all = (" << shapes << ") tuple(" << values << ")\n}\n";
  return text.str();
}

/// Kernels that make no product, and products that make their image.
struct Kernels {
  int apart = 0, made = 0;
};
Kernels kernels_of(const std::string& text) {
  const hlo::Module module = hlo::read_hlo_text("layer", text);
  const compiler::ScheduledModule scheduled =
      compiler::schedule(module, config::target_of(MachineParams{}, 1), nullptr);
  const hlo::Computation& entry = scheduled.module.entry_computation();
  Kernels found;
  for (const hlo::HloInstruction& instruction : entry.instructions) {
    if (instruction.fusion_kind.get() == "kLoop") ++found.apart;
    if (instruction.fusion_kind.get() != "kOutput") continue;
    const auto epilogue = compiler::matmul_epilogue(scheduled.module, entry, instruction);
    if (epilogue.prologues[0]) ++found.made;
  }
  return found;
}

void check(const MadeSide& form) {
  for (const MachineParams& machine : {MachineParams{}, test::v2_8()}) {
    check(form, test::target_of(machine, 1));
  }
}

}  // namespace

/// Rows of tiles that are whole, padding, and none in pairs; lines of pixels that are cut.
TEST(MatmulPrologue, ConvolutionsMakeTheirImages) {
  for (const bool batch_in_lanes : {false, true}) {
    for (const char* residual : {"", "bf16", "f32"}) {
      for (const bool by_example : {false, true}) {
        MadeSide form;
        form.batch_in_lanes = batch_in_lanes;
        form.residual = residual;
        form.by_example = by_example;
        check(form);
        form.batch = 24, form.features = 24;
        check(form);
        form.batch = 12, form.features = 140, form.results = 40;
        check(form);
        form.batch = 130, form.features = 20, form.window = 1;
        if (batch_in_lanes) check(form);
      }
    }
  }
}

/// In f32, in f32 for a product of bf16, behind a stride, of the gradient of an image.
TEST(MatmulPrologue, ConvolutionsMakeImagesOfEitherType) {
  for (const bool batch_in_lanes : {false, true}) {
    MadeSide form;
    form.batch_in_lanes = batch_in_lanes;
    form.array = "f32";
    check(form);
    form.residual = "f32";
    check(form);
    form.side = "f32";
    check(form);
    form.residual = "bf16";
    check(form);
    // The residual alone has the side's type.
    form.side = "bf16";
    check(form);
    form.array = "bf16", form.residual = "f32", form.side = "f32";
    check(form);
    form.residual = "bf16", form.side = "bf16";
    form.product = "input gradient";
    check(form);
    form.product = "forward";
    form.width = 9, form.stride = 2;
    check(form);
    form.height = 1, form.width = 40, form.stride = 1;
    check(form);
  }
}

TEST(MatmulPrologue, WeightGradientsMakeBothSides) {
  for (const bool batch_in_lanes : {false, true}) {
    for (const char* residual : {"", "f32"}) {
      for (const bool by_example : {false, true}) {
        MadeSide form;
        form.product = "weight gradient";
        form.batch_in_lanes = batch_in_lanes;
        form.residual = residual;
        form.by_example = by_example;
        check(form);
        form.batch = 24, form.features = 20;
        check(form);
        form.batch = 4, form.features = 136, form.results = 8;
        check(form);
        form.batch = 130, form.features = 16, form.array = "f32", form.window = 5;
        if (batch_in_lanes) check(form);
      }
    }
  }
}

/// Vectors go along the lanes of the side alone.
TEST(MatmulPrologue, DotsMakeASide) {
  for (const char* product : {"dot", "dot of its right"}) {
    for (const char* type : {"bf16", "f32"}) {
      for (const bool has_residual : {false, true}) {
        MadeSide form;
        form.product = product;
        form.array = type;
        if (has_residual) form.residual = type;
        check(form);
        form.batch = 200, form.features = 300, form.results = 136;
        check(form);
        form.batch = 1000, form.features = 256, form.results = 128;
        check(form);
      }
    }
  }
}

/// Two buffers of a block of 16 packed tiles: each has one of an array in fp32 beside it.
TEST(MatmulPrologue, WhatASideIsMadeOfTakesRoomBytesAndTime) {
  const compiler::Target target = test::target_of(MachineParams{}, 1);
  compiler::ContractionPlan plan(compiler::MatmulUnits(target, 1));
  plan.grid = {4};
  plan.lhs.dimensions = {0};
  plan.lhs.rows = 64;
  plan.lhs.bytes = 64 * 512;
  const std::uint64_t rows = plan.array_rows();
  compiler::MadeSide made;
  made.is_made = true;
  made.cost = {3, 6};
  made.beside = {hlo::ElementType::kF32};
  made.resident_rows = 100;
  plan.make_side(plan.lhs, made, hlo::ElementType::kBf16);
  EXPECT_EQ(plan.array_rows(), rows + 2 * 128 + 100);
  EXPECT_EQ(plan.lhs.bytes, 3 * 64 * 512);
  EXPECT_GT(plan.lhs.cycles, 16 * 3);
  EXPECT_EQ(plan.lhs.rows_of(hlo::ElementType::kF32, hlo::ElementType::kBf16), 128U);
}

TEST(MatmulPrologue, ProductsMakeWhatTheyAloneRead) {
  for (const int readers : {1, 2}) {
    const Kernels kernels = kernels_of(layer(64, readers, false, 0));
    EXPECT_EQ(kernels.apart, 0);
    EXPECT_EQ(kernels.made, readers);
    test::HloCheck check;
    check.tolerance = 4e-3;
    test::check_hlo(layer(64, readers, false, 0), check);
  }
}

TEST(MatmulPrologue, WhatIsWrittenAnywayOrTakesLongerTwiceIsReadByProducts) {
  for (const std::string& text :
       {layer(64, 1, true, 0), layer(64, 2, false, 8), layer(8, 1, false, 0)}) {
    EXPECT_EQ(kernels_of(text).made, 0) << text;
    EXPECT_EQ(kernels_of(text).apart, 1) << text;
  }
}

/// A kernel of loops reads the slice where it stands; a product would need a copy of it.
TEST(MatmulPrologue, WhatIsMadeOfASliceIsMadeByAKernelOfItsOwn) {
  const std::string text =
      "HloModule slice\nENTRY e {\n x0 = bf16[16,64,64,96] parameter(0)\n"
      " x = bf16[16,32,64,96] slice(x0), slice={[0:16], [16:48], [0:64], [0:96]}\n"
      " s = f32[96] parameter(1)\n xf = f32[16,32,64,96] convert(x)\n"
      " ss = f32[16,32,64,96] broadcast(s), dimensions={3}\n"
      " y0 = f32[16,32,64,96] multiply(xf, ss)\n y = bf16[16,32,64,96] convert(y0)\n"
      " w = bf16[3,3,96,32] parameter(2)\n ROOT c = bf16[16,32,64,32] convolution(y, w), "
      "window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f\n}\n";
  EXPECT_EQ(kernels_of(text).made, 0);
  EXPECT_EQ(kernels_of(text).apart, 1);
}

}  // namespace tpu::matmul_prologue_test
