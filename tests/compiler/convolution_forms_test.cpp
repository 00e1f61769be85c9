#include "workloads/compiler/passes/expand/convolution_forms.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <set>
#include <sstream>

#include "tests/compiler/graph_check.h"
#include "tests/compiler/hlo_check.h"
#include "tests/compiler/random_convolution.h"
#include "workloads/compiler/passes/edit.h"
#include "workloads/compiler/passes/expand/convolution_steps.h"
#include "workloads/compiler/passes/expand/convolution_strips.h"
#include "workloads/hlo/hlo_reader.h"
#include "workloads/reference/value.h"

namespace tpu::test::convolution_forms_test {
namespace {

using random_convolution::count_of;
using random_convolution::expect_same_values;
using random_convolution::Form;
using random_convolution::module_of;
using random_convolution::random_form;
using Extents = std::vector<std::int64_t>;

/// Nothing fits this one: every convolution takes the way without a kernel.
compiler::Target tiny_target() {
  compiler::Target target;
  target.vmem_bytes = 1024;
  return target;
}

/// Convolutions that are more than one product of matrices.
std::size_t windows_in(const hlo::Module& module) {
  const hlo::Computation& entry = module.entry_computation();
  return static_cast<std::size_t>(std::count_if(
      entry.instructions.begin(), entry.instructions.end(), [&](const hlo::HloInstruction& i) {
        const auto area = [&](const hlo::Shape& shape, const Extents& spatial) {
          std::int64_t pixels = 1;
          for (std::int64_t d : spatial) pixels *= shape.dimensions[static_cast<std::size_t>(d)];
          return pixels;
        };
        if (i.opcode != hlo::HloOpcode::kConvolution) return false;
        return area(entry.at(i.operands[1]).shape, i.convolution->kernel_spatial) > 1 &&
               area(i.shape, i.convolution->output_spatial) > 1;
      }));
}

TEST(ConvolutionForms, ConvolutionsOfAnyKindNeedNoKernel) {
  std::mt19937 engine(3);
  for (int i = 0; i < 1500 && !::testing::Test::HasFailure(); ++i) {
    const hlo::Module after = expect_same_values(
        module_of(random_form(engine)),
        [](hlo::Module& module) { compiler::rewrite_convolutions(module, tiny_target()); });
    EXPECT_EQ(windows_in(after), 0U);
  }
}

/// Groups are the batch of a dot, whatever strides, dilations and orders there are.
TEST(ConvolutionForms, GroupsAreTheBatchOfADot) {
  std::mt19937 engine(13);
  int grouped = 0;
  for (int i = 0; i < 600 && !::testing::Test::HasFailure(); ++i) {
    const Form form = random_form(engine);
    const std::int64_t groups = form.feature_groups * form.batch_groups;
    const hlo::Module after = expect_same_values(module_of(form), [](hlo::Module& module) {
      compiler::GraphEditor edit(module);
      const hlo::HloInstruction convolution = module.entry_computation().instructions.back();
      edit.stand_for(convolution.id);
      edit.finish(compiler::convolution_as_dot(edit, convolution));
      compiler::tidy(module.entry_computation());
    });
    EXPECT_EQ(count_of(after, hlo::HloOpcode::kConvolution), 0U);
    if (groups == 1) continue;
    ++grouped;
    for (const hlo::HloInstruction& dot : after.entry_computation().instructions) {
      if (dot.opcode != hlo::HloOpcode::kDot) continue;
      EXPECT_EQ(dot.dot->lhs_batch.size(), 1U);
      EXPECT_EQ(dot.shape.dimensions[0], groups);
    }
  }
  EXPECT_GT(grouped, 100);
}

/// Gradients of each example alone: as many groups as examples, each a product of small matrices.
/// A kernel for groups of a network's features is 0 between them, and fills the array.
TEST(ConvolutionForms, ManyGroupsAreADotAndFewWideOnesAreNot) {
  const auto dots = [](const std::string& types, const std::string& convolution) {
    hlo::Module module = hlo::read_hlo_text("test.hlo", "HloModule groups\nENTRY main {\n" + types +
                                                            "  ROOT r = " + convolution + "\n}\n");
    compiler::rewrite_convolutions(module, {});
    hlo::verify(module);
    std::size_t batches = 0;
    for (const hlo::HloInstruction& each : module.entry_computation().instructions) {
      batches += each.opcode == hlo::HloOpcode::kDot && !each.dot->lhs_batch.empty() ? 1 : 0;
    }
    return batches;
  };
  EXPECT_EQ(
      dots("  x = f32[128,13,13,16] parameter(0)\n  w = f32[1,7,7,4096] parameter(1)\n",
           "f32[4,4,16,4096] convolution(x, w), window={size=7x7 pad=1_2x1_2 rhs_dilate=2x2}, "
           "dim_labels=f01b_i01o->01bf, feature_group_count=128"),
      1U);
  EXPECT_EQ(dots("  x = f32[32,32,32,64] parameter(0)\n  w = f32[3,3,4,64] parameter(1)\n",
                 "f32[32,32,32,64] convolution(x, w), window={size=3x3 pad=1_1x1_1}, "
                 "dim_labels=b01f_01io->b01f, feature_group_count=16"),
            0U);
}

using WriteParts =
    std::function<hlo::InstructionId(compiler::GraphEditor&, const hlo::HloInstruction&,
                                     std::size_t index, const compiler::EmitConvolution&)>;

/// Writes the convolution of a module in parts of a dimension chosen at random.
std::function<void(hlo::Module&)> in_parts(std::mt19937& engine, const WriteParts& write) {
  return [&engine, write](hlo::Module& module) {
    compiler::GraphEditor edit(module);
    const hlo::HloInstruction convolution = module.entry_computation().instructions.back();
    if (convolution.window.empty()) return;
    edit.stand_for(convolution.id);
    edit.finish(write(edit, convolution, engine() % convolution.window.size(),
                      [&edit, &module](hlo::HloInstruction part) {
                        part.name +=
                            "." + std::to_string(module.entry_computation().instructions.size());
                        return edit.append_instruction(std::move(part));
                      }));
    compiler::tidy(module.entry_computation());
  };
}

/// Each convolution in parts of a row, whatever its strides and dilations are.
TEST(ConvolutionForms, PartsOfARowTogetherAreTheRow) {
  std::mt19937 engine(5);
  const auto split = in_parts(engine, [&engine](compiler::GraphEditor& edit, const auto& whole,
                                                std::size_t index, const auto& emit) {
    const std::int64_t count =
        whole.window[index].base_dilation * (1 + static_cast<std::int64_t>(engine() % 2));
    return compiler::split_positions(edit, whole, index, count, emit);
  });
  for (int i = 0; i < 800 && !::testing::Test::HasFailure(); ++i) {
    expect_same_values(module_of(random_form(engine)), split);
  }
}

TEST(ConvolutionForms, ResultsOneByOneAreTheGradient) {
  std::mt19937 engine(7);
  const auto one_by_one = in_parts(engine, compiler::result_by_result);
  for (int i = 0; i < 400 && !::testing::Test::HasFailure(); ++i) {
    Form form = random_form(engine);
    for (hlo::WindowDimension& w : form.window) w.base_dilation = w.window_dilation = 1;
    if (std::all_of(form.window.begin(), form.window.end(), [&](const hlo::WindowDimension& w) {
          return form.result(static_cast<std::size_t>(&w - form.window.data())) > 0;
        })) {
      expect_same_values(module_of(form), one_by_one);
    }
  }
}

/// Images of which more stand one behind the other, in place of one dimension of any convolution.
TEST(ConvolutionForms, PlanesOneBehindTheOtherAreTheWhole) {
  std::mt19937 engine(19);
  const auto by_planes = in_parts(engine, compiler::unroll_by_planes);
  for (int i = 0; i < 800 && !::testing::Test::HasFailure(); ++i) {
    expect_same_values(module_of(random_form(engine)), by_planes);
  }
}

/// Compiled, on the machine; nothing may be refused.
void check_compiled(const std::string& text, std::uint32_t seed) {
  GraphCase graph = case_of(hlo::read_hlo_text("form.hlo", text), seed);
  graph.machine.core.vmem_mib = 2;
  const Verdict verdict = check_graph(graph);
  EXPECT_EQ(verdict.kind, Verdict::Kind::kEqual) << verdict.message << "\n" << text;
}

TEST(ConvolutionForms, ConvolutionsOfAnyKindHaveTheirValuesOnTheMachine) {
  const char* more = std::getenv("TPUSIM_RANDOM_GRAPHS");
  const int count = more != nullptr ? std::atoi(more) : 60;
  std::mt19937 engine(17);
  for (int i = 0; i < count && !::testing::Test::HasFailure(); ++i) {
    check_compiled(module_of(random_form(engine)), 3);
  }
}

/// A causal convolution over a line whose pixels do not fit VMEM as one row, and the gradient of
/// its kernel: an image of one column, and a dot of parts of both lines for each position.
TEST(ConvolutionForms, ALongLineIsAColumnAndItsGradientDots) {
  const auto text = [](const std::string& root) {
    return "HloModule line\nENTRY main {\n  x = f32[8,400,64] parameter(0)\n  w = f32[2,64,64] "
           "parameter(1)\n  g = f32[8,400,64] parameter(2)\n  ROOT r = " +
           root + "\n}\n";
  };
  const std::string forward = text(
      "f32[8,400,64] convolution(x, w), window={size=2 pad=4_0 rhs_dilate=4}, "
      "dim_labels=b0f_0io->b0f");
  const std::string gradient = text(
      "f32[2,64,64] convolution(x, g), window={size=400 stride=4 pad=4_0}, "
      "dim_labels=f0b_i0o->0bf");
  compiler::Target target;
  target.vmem_bytes = 2U << 20;
  const auto rewritten = [&](const std::string& module_text) {
    hlo::Module module = hlo::read_hlo_text("test.hlo", module_text);
    compiler::rewrite_convolutions(module, target);
    hlo::verify(module);
    EXPECT_EQ(count_of(module, hlo::HloOpcode::kPad), 0U);
    EXPECT_EQ(count_of(module, hlo::HloOpcode::kSlice),
              count_of(module, hlo::HloOpcode::kDot));  // Of x and of g, once each.
    return module;
  };
  const hlo::Module column = rewritten(forward);
  const hlo::Computation& entry = column.entry_computation();
  const auto found =
      std::find_if(entry.instructions.begin(), entry.instructions.end(),
                   [](const auto& i) { return i.opcode == hlo::HloOpcode::kConvolution; });
  ASSERT_NE(found, entry.instructions.end());
  EXPECT_EQ(found->shape.dimensions, (Extents{8, 400, 1, 64}));
  EXPECT_EQ(found->window[0].window_dilation, 4);
  EXPECT_EQ(count_of(rewritten(gradient), hlo::HloOpcode::kDot), 2U);
  check_compiled(forward, 5);
  check_compiled(gradient, 6);
}

/// Each result of a line by itself would be a dot, a kernel each: of a few small ones a kernel of
/// convolutions makes all.
TEST(ConvolutionForms, AFewResultsOfAShortLineAreOneKernel) {
  const std::string text =
      "HloModule m\nENTRY main {\n  x = f32[2,13,16] parameter(0)\n  w = f32[5,77,16] "
      "parameter(1)\n  ROOT r = f32[2,3,77] convolution(x, w), window={size=5 stride=4}, "
      "dim_labels=b0f_0oi->b0f\n}\n";
  hlo::Module module = hlo::read_hlo_text("test.hlo", text);
  compiler::rewrite_convolutions(module, compiler::Target());
  EXPECT_EQ(count_of(module, hlo::HloOpcode::kDot), 0U);
  EXPECT_EQ(count_of(module, hlo::HloOpcode::kConvolution), 1U);
  check_compiled(text, 7);
}

/// A kernel of one position has its gradient from the pixels as they lie, where a dot would have
/// both sides turned. Tiles that few examples fill are a dot.
TEST(ConvolutionForms, TheGradientOfOnePositionIsThatOfAColumn) {
  struct Form {
    std::int64_t batch, pixels, features;
    std::size_t dots;
  };
  compiler::Target target;
  target.vmem_bytes = 2U << 20;
  for (const Form& form :
       {Form{8, 1000, 32, 0}, Form{8, 1000, 64, 0}, Form{4, 1000, 32, 1}, Form{8, 1000, 128, 0}}) {
    const std::string features = std::to_string(form.features);
    const std::string line = "f32[" + std::to_string(form.batch) + "," +
                             std::to_string(form.pixels) + "," + features + "]";
    const std::string text = "HloModule line\nENTRY main {\n  x = " + line +
                             " parameter(0)\n  g = " + line + " parameter(1)\n  ROOT r = f32[1," +
                             features + "," + features +
                             "] convolution(x, g), window={size=" + std::to_string(form.pixels) +
                             "}, dim_labels=f0b_i0o->0bf\n}\n";
    const hlo::Module after = expect_same_values(
        text, [&](hlo::Module& module) { compiler::rewrite_convolutions(module, target); });
    EXPECT_EQ(count_of(after, hlo::HloOpcode::kDot), form.dots) << text;
    EXPECT_EQ(count_of(after, hlo::HloOpcode::kConvolution), 1 - form.dots) << text;
  }
}

/// Results of a gradient that pass over the line once, in rows, take less than by themselves from
/// the fourth on. As many rows as a kernel takes that are equal.
TEST(ConvolutionForms, TheGradientOfALongLineIsThatOfAnImageOfRows) {
  compiler::Target target;
  target.vmem_bytes = 2U << 20;
  for (const int results : {3, 4, 5}) {
    const std::string count = std::to_string(results);
    const std::string text =
        "HloModule line\nENTRY main {\n  x = f32[8,400,64] parameter(0)\n  g = f32[8,400,64] "
        "parameter(1)\n  ROOT r = f32[" +
        count + ",64,64] convolution(x, g), window={size=400 pad=" + std::to_string(results - 1) +
        "_0}, dim_labels=f0b_i0o->0bf\n}\n";
    const hlo::Module after = expect_same_values(
        text, [&](hlo::Module& module) { compiler::rewrite_convolutions(module, target); });
    EXPECT_EQ(windows_in(after), results < 4 ? 0U : 1U);
    EXPECT_EQ(count_of(after, hlo::HloOpcode::kDot), results < 4 ? 3U : 0U);
    for (const hlo::HloInstruction& each : after.entry_computation().instructions) {
      if (each.opcode != hlo::HloOpcode::kConvolution) continue;
      EXPECT_GT(each.window[0].size, 1);
      EXPECT_EQ(each.window[0].size * each.window[1].size, 400);
    }
  }
}

/// Lines of any length, in rows that may end beyond them.
TEST(ConvolutionForms, ALineInRowsHasItsGradient) {
  std::mt19937 engine(17);
  int tried = 0;
  for (int i = 0; i < 3000 && !::testing::Test::HasFailure(); ++i) {
    Form form = random_form(engine);
    if (form.window.size() != 1 || form.feature_groups * form.batch_groups > 1) continue;
    form.window[0].base_dilation = 1;
    form.window[0].reversal = false;
    if (form.result(0) < 1) continue;
    ++tried;
    expect_same_values(module_of(form), in_parts(engine, [&](compiler::GraphEditor& edit,
                                                             const hlo::HloInstruction& line,
                                                             std::size_t, const auto& emit) {
                         return compiler::add_spatial_dimension(
                             edit, line, 0, [&](const hlo::HloInstruction& image) {
                               const auto rows = 1 + static_cast<std::int64_t>(engine() % 4);
                               return emit(compiler::write_in_rows(
                                   edit, image, compiler::line_in_rows(edit, image, rows)));
                             });
                       }));
  }
  EXPECT_GT(tried, 300);
}

/// Strips of images, of any kind of convolution that has them, and their neighbours' pixels.
TEST(ConvolutionForms, StripsOfImagesHaveTheValuesOfWholeOnes) {
  std::mt19937 engine(29);
  int tried = 0, cut_twice = 0, depthwise = 0;
  for (int i = 0; i < 20000 && !::testing::Test::HasFailure(); ++i) {
    Form form = random_form(engine);
    const bool is_line = form.window.size() == 1;
    if (!is_line && form.window.size() != 2) continue;
    const auto index = is_line ? 0 : static_cast<std::size_t>(engine() % 2);
    const auto count = 2 + static_cast<std::int64_t>(engine() % 3);
    // Whose strips are all of its pixels, or any.
    if (engine() % 2 == 0)
      form.input[index] = count * (1 + static_cast<std::int64_t>(engine() % 5));
    if (form.result(0) < 1 || (!is_line && form.result(1) < 1)) continue;
    bool has_strips = false;
    const hlo::Module after = expect_same_values(
        module_of(form),
        in_parts(engine, [&](compiler::GraphEditor& edit, const hlo::HloInstruction& whole,
                             std::size_t, const auto& emit) {
          const auto in_strips = [&](const hlo::HloInstruction& image) {
            const auto strips = compiler::image_strips(edit, image, is_line ? 1 : index, count);
            has_strips = strips.has_value();
            if (strips && !strips->parts_input) ++cut_twice;
            if (strips && form.feature_groups * form.batch_groups > 1) {
              // The vector unit rounds nothing.
              EXPECT_EQ(strips->input.type, edit.shape(image.operands[0]).type);
            }
            return strips ? compiler::write_in_strips(edit, image, *strips, emit) : emit(image);
          };
          return is_line ? compiler::add_spatial_dimension(edit, whole, 0, in_strips)
                         : in_strips(whole);
        }));
    tried += has_strips ? 1 : 0;
    depthwise += has_strips && form.feature_groups * form.batch_groups > 1 ? 1 : 0;
  }
  EXPECT_GT(tried, 100);
  EXPECT_GT(cut_twice, 50);
  EXPECT_GT(depthwise, 20);
}

/// The first convolution that a module's are rewritten as: how many spatial dimensions it has, and
/// the examples of its input.
struct FirstForm {
  std::size_t spatial = 0;
  std::int64_t batch = 0;
};

FirstForm first_form(const std::string& text) {
  hlo::Module module = hlo::read_hlo_text("image.hlo", text);
  compiler::rewrite_convolutions(module, compiler::Target());
  hlo::verify(module);
  for (const hlo::HloInstruction& each : module.entry_computation().instructions) {
    if (each.opcode != hlo::HloOpcode::kConvolution) continue;
    const hlo::Shape& input = module.entry_computation().at(each.operands[0]).shape;
    const std::int64_t batch =
        std::min(each.convolution->input_batch, each.convolution->input_feature);
    return {each.window.size(), input.dimensions[static_cast<std::size_t>(batch)]};
  }
  return {};
}

/// Images, their kernel of 3x3 (by groups of one feature) or its gradient.
std::string image_text(std::int64_t batch, std::int64_t pixels, bool is_gradient, bool has_groups) {
  const std::string size = std::to_string(pixels), window = has_groups ? "1,64" : "64,64";
  const std::string image = "f32[" + std::to_string(batch) + "," + size + "," + size + ",64]";
  const std::string kernel = "f32[3,3," + window + "]";
  return "HloModule image\nENTRY main {\n  x = " + image +
         " parameter(0)\n  k = " + (is_gradient ? image : kernel) +
         " parameter(1)\n  ROOT r = " + (is_gradient ? kernel : image) +
         " convolution(x, k), window={size=" + (is_gradient ? size + "x" + size : "3x3") +
         " pad=1_1x1_1}, dim_labels=" + (is_gradient ? "f01b_i01o->01bf" : "b01f_01io->b01f") +
         (!has_groups   ? ""
          : is_gradient ? ", batch_group_count=64"
                        : ", feature_group_count=64") +
         "\n}\n";
}

/// Fewer than eight images of 64x64 pixels fill a part of the rows of each tile: they have their
/// pixels there, convolutions by groups of one feature, too. Kernels of gradients put the pixels of
/// few images into one tile by themselves.
TEST(ConvolutionForms, FewImagesHaveTheirPixelsInTheRowsOfTiles) {
  for (const std::int64_t batch : {1, 2, 4, 8}) {
    for (const bool is_gradient : {false, true}) {
      const bool in_rows = batch < (is_gradient ? 4 : 8);
      EXPECT_EQ(first_form(image_text(batch, 64, is_gradient, false)).spatial, in_rows ? 3U : 2U)
          << batch << is_gradient;
      EXPECT_EQ(first_form(image_text(batch, 64, is_gradient, true)).spatial, batch < 8 ? 3U : 2U)
          << batch << is_gradient;
    }
  }
}

/// A sound of one feature fills the lanes with strips of 16 examples; one of 64 features stays in
/// them, and examples that fill the lanes need none.
TEST(ConvolutionForms, ALineOfFewFeaturesFillsTheLanesWithItsStrips) {
  const auto batch_of = [](int batch, int features, bool is_gradient) {
    const std::string n = std::to_string(batch), f = std::to_string(features);
    const std::string line = "f32[" + n + ",4096," + f + "]", kernel = "f32[9," + f + ",64]",
                      result = "f32[" + n + ",2048,64]";
    hlo::Module module = hlo::read_hlo_text(
        "line.hlo", "HloModule line\nENTRY main {\n  x = " + line +
                        " parameter(0)\n  k = " + (is_gradient ? result : kernel) +
                        " parameter(1)\n  ROOT r = " + (is_gradient ? kernel : result) +
                        " convolution(x, k), window={size=" +
                        (is_gradient ? "2048 pad=3_4 rhs_dilate=2}, dim_labels=f0b_i0o->0bf"
                                     : "9 pad=3_4 stride=2}, dim_labels=b0f_0io->b0f") +
                        "\n}\n");
    compiler::rewrite_convolutions(module, compiler::Target());
    hlo::verify(module);
    std::int64_t found = 0;
    for (const hlo::HloInstruction& each : module.entry_computation().instructions) {
      if (each.opcode != hlo::HloOpcode::kConvolution) continue;
      const hlo::Shape& input = module.entry_computation().at(each.operands[0]).shape;
      found = input.dimensions[static_cast<std::size_t>(
          is_gradient ? each.convolution->input_feature : each.convolution->input_batch)];
    }
    return found;
  };
  for (const bool is_gradient : {false, true}) {
    EXPECT_EQ(batch_of(16, 1, is_gradient), 128);
    EXPECT_EQ(batch_of(32, 2, is_gradient), 128);
    EXPECT_EQ(batch_of(16, 64, is_gradient), 16);
    EXPECT_EQ(batch_of(128, 1, is_gradient), 128);
  }
}

/// Where one convolution of an image stays whole, the image would be turned for the other: both
/// stay. One image whose convolutions all have strips is read in strips by both: few features of
/// several positions of the window are multiplied at once.
TEST(ConvolutionForms, StripsAreOfAllConvolutionsOfAnImageOrOfNone) {
  for (const std::int64_t second : {128, 131}) {  // 131 rows have no equal strips.
    const std::string rows = std::to_string(second);
    const std::string text =
        "HloModule image\nsum {\n  p = f32[] parameter(0)\n  q = f32[] parameter(1)\n  ROOT s = "
        "f32[] add(p, q)\n}\nENTRY main {\n  x = f32[1,128,128,12] parameter(0)\n  k = "
        "f32[5,5,12,12] parameter(1)\n  z = f32[] constant(0)\n  a = f32[1,128,128,12] "
        "convolution(x, k), window={size=5x5 pad=2_2x2_2}, dim_labels=b01f_01io->b01f\n"
        "  n = f32[1,128,128,12] negate(a)\n  b = f32[1," +
        rows + "," + rows + ",12] convolution(n, k), window={size=5x5 pad=2_" +
        (second == 128 ? "2x2_2" : "5x2_5") +
        "}, dim_labels=b01f_01io->b01f\n  ROOT r = f32[1,12] reduce(b, z), "
        "dimensions={1,2}, to_apply=sum\n}\n";
    hlo::Module module = hlo::read_hlo_text("image.hlo", text);
    compiler::rewrite_convolutions(module, compiler::Target());
    hlo::verify(module);
    std::vector<std::int64_t> batches;
    for (const hlo::HloInstruction& each : module.entry_computation().instructions) {
      if (each.opcode == hlo::HloOpcode::kConvolution) batches.push_back(each.shape.dimensions[0]);
    }
    const std::int64_t batch = second == 128 ? 8 : 1;
    EXPECT_EQ(batches, (std::vector{batch, batch}));
  }
}

/// The first convolution behind the rewriting; none: the module has other products.
std::optional<hlo::HloInstruction> rewritten(const std::string& text, std::uint64_t vmem_bytes,
                                             hlo::ElementType* operand_type = nullptr) {
  hlo::Module module = hlo::read_hlo_text("test.hlo", text);
  compiler::Target target;
  target.vmem_bytes = vmem_bytes;
  compiler::rewrite_convolutions(module, target);
  hlo::verify(module);
  const hlo::Computation& entry = module.entry_computation();
  const auto found =
      std::find_if(entry.instructions.begin(), entry.instructions.end(),
                   [](const auto& i) { return i.opcode == hlo::HloOpcode::kConvolution; });
  if (found == entry.instructions.end()) return std::nullopt;
  if (operand_type != nullptr) *operand_type = entry.at(found->operands[0]).shape.type;
  return *found;
}

/// The gradient of a line's kernel is one of an image of one row, with its pixels as they are where
/// they fit VMEM, else rounded; where they do not fit rounded either, products of parts.
TEST(ConvolutionForms, AGradientOfALineThatFitsRoundedIsOfARow) {
  const std::string text =
      "HloModule line\nENTRY main {\n  x = f32[16,400,128] parameter(0)\n  g = "
      "f32[16,400,128] parameter(1)\n  ROOT r = f32[3,128,128] convolution(x, g), "
      "window={size=400 pad=1_1}, dim_labels=f0b_i0o->0bf\n}\n";
  std::string forms;
  for (std::uint64_t kib = 1024; kib <= 32768; kib += 1024) {
    hlo::ElementType type{};
    const std::optional<hlo::HloInstruction> image = rewritten(text, kib << 10, &type);
    const char form = !image ? 'p' : type == hlo::ElementType::kBf16 ? 'b' : 'f';
    if (form != 'p') {
      ASSERT_EQ(image->window.size(), 2U);
      EXPECT_EQ(image->window[0].size, 1);
    }
    if (forms.empty() || forms.back() != form) forms += form;
  }
  EXPECT_EQ(forms, "pbf");
}

/// A row is one block, that nothing overlaps; of a column there are many.
TEST(ConvolutionForms, ALineIsTheImageThatTakesLess) {
  const auto row_pixels = [](const std::string& pixels) {
    const auto image = rewritten("HloModule line\nENTRY main {\n  x = f32[16," + pixels +
                                     ",128] parameter(0)\n  w = f32[3,128,128] parameter(1)\n  "
                                     "ROOT r = f32[16," +
                                     pixels +
                                     ",128] convolution(x, w), "
                                     "window={size=3 pad=1_1}, dim_labels=b0f_0io->b0f\n}\n",
                                 16 << 20);
    return image ? image->window[1].size : 0;
  };
  EXPECT_EQ(row_pixels("64"), 3);
  EXPECT_EQ(row_pixels("512"), 1);
}

/// Of a depthwise line whose row does not fit, every product is of a column: forward, and the
/// gradient of its kernel.
TEST(ConvolutionForms, ADepthwiseLineLongerThanARowIsAColumn) {
  const auto column = [](const std::string& convolution) {
    const auto image = rewritten(
        "HloModule line\nENTRY main {\n  x = f32[8,512,512] "
        "parameter(0)\n" +
            convolution + "\n}\n",
        16 << 20);
    return image && image->window.size() == 2 && image->window[1].size == 1;
  };
  EXPECT_TRUE(
      column("  w = f32[4,1,512] parameter(1)\n  ROOT r = f32[8,512,512] convolution(x, "
             "w), window={size=4 pad=3_0}, dim_labels=b0f_0io->b0f, "
             "feature_group_count=512"));
  EXPECT_TRUE(
      column("  g = f32[8,512,512] parameter(1)\n  ROOT r = f32[4,1,512] convolution(x, "
             "g), window={size=512 pad=3_0}, dim_labels=f0b_i0o->0bf, "
             "batch_group_count=512"));
}

/// The vector unit, which computes convolutions by groups, rounds nothing: a line that would fit
/// rounded stays as it is.
TEST(ConvolutionForms, ALineByGroupsIsNotRounded) {
  for (std::uint64_t kib = 1024; kib <= 10240; kib += 256) {
    hlo::Module module = hlo::read_hlo_text(
        "test.hlo",
        "HloModule line\nENTRY main {\n  x = f32[8,400,128] parameter(0)\n  w = f32[3,1,128] "
        "parameter(1)\n  ROOT r = f32[8,400,128] convolution(x, w), window={size=3 pad=1_1}, "
        "dim_labels=b0f_0io->b0f, feature_group_count=128\n}\n");
    compiler::Target target;
    target.vmem_bytes = kib << 10;
    compiler::rewrite_convolutions(module, target);
    for (const hlo::HloInstruction& instruction : module.entry_computation().instructions) {
      EXPECT_NE(instruction.shape.type, hlo::ElementType::kBf16) << kib << " " << instruction.name;
    }
  }
}

/// Behind a row of pixels that just fits stands what has room: one image more, not two. Of two
/// blocks each has two buffers.
/// Nor is what a depthwise convolution of images reads that a kernel has made.
TEST(ConvolutionForms, AComputedImageByGroupsIsNotRounded) {
  HloCheck check;
  check.round_matmul_operands = false;
  check.tolerance = 1e-6;
  for (const char* window : {"size=1x1", "size=3x3 pad=1_1x1_1"}) {
    const std::string size = std::string(window).substr(5, 1) + "," + std::string(window)[5];
    check_hlo("HloModule m\nENTRY main {\n  p = f32[4,8,8,200] parameter(0)\n  w = f32[" + size +
                  ",1,200] parameter(1)\n  x = f32[4,8,8,200] cosine(p)\n  ROOT r = "
                  "f32[4,8,8,200] convolution(x, w), window={" +
                  window + "}, dim_labels=b01f_01io->b01f, feature_group_count=200\n}\n",
              check);
  }
}

TEST(ConvolutionForms, WhatHasNoRoomBehindARowIsAKernelOfItsOwn) {
  const std::string image = "f32[16,512,64]";
  HloCheck check;
  check.tolerance = 4e-3;
  check_hlo(
      "HloModule line\nENTRY main {\n  x = " + image +
          " parameter(0)\n  w = f32[3,64,64] "
          "parameter(1)\n  a = " +
          image + " parameter(2)\n  b = " + image + " parameter(3)\n  c = " + image +
          " convolution(x, w), window={size=3 pad=8_0 rhs_dilate=4}, dim_labels=b0f_0io->b0f\n"
          "  p = " +
          image + " multiply(a, c)\n  ROOT s = " + image + " add(p, b)\n}\n",
      check);
}

int convolutions_left(const std::string& text) {
  hlo::Module module = hlo::read_hlo_text("test.hlo", text);
  compiler::rewrite_convolutions(module, {});
  hlo::verify(module);
  const std::vector<hlo::HloInstruction>& all = module.entry_computation().instructions;
  return static_cast<int>(
      std::count_if(all.begin(), all.end(), [](const hlo::HloInstruction& instruction) {
        return instruction.opcode == hlo::HloOpcode::kConvolution;
      }));
}

/// Forward, input gradient and kernel gradient of patches of 4x4 pixels: dots where a pixel has few
/// features; with more of them kernels read the pixels where they are.
TEST(ConvolutionForms, PatchesOfFewFeaturesThatDoNotOverlapAreDots) {
  const auto text = [](const std::string& features) {
    const std::string image = "f32[6,16,12," + features + "]";
    const std::string kernel = "f32[4,4," + features + ",40]";
    return "HloModule patches\nENTRY main {\n  x = " + image + " parameter(0)\n  w = " + kernel +
           " parameter(1)\n  g = f32[6,4,3,40] parameter(2)\n  y = f32[6,4,3,40] convolution(x, "
           "w), window={size=4x4 stride=4x4}, dim_labels=b01f_01io->b01f\n  dx = " +
           image +
           " convolution(g, w), window={size=4x4 pad=3_3x3_3 lhs_dilate=4x4 rhs_reversal=1x1}, "
           "dim_labels=b01f_01oi->b01f\n  dw = " +
           kernel +
           " convolution(x, g), window={size=4x3 rhs_dilate=4x4}, "
           "dim_labels=f01b_i01o->01bf\n  ROOT r = (f32[6,4,3,40], " +
           image + ", " + kernel + ") tuple(y, dx, dw)\n}\n";
  };
  EXPECT_EQ(convolutions_left(text("7")), 0);
  EXPECT_EQ(convolutions_left(text("8")), 3);
  check_hlo(text("7"));
  check_hlo(text("8"));
}

/// A layer that makes one number of each pixel, and its gradients.
TEST(ConvolutionForms, OneFeatureOfEachPixelIsAProductWithAVector) {
  const auto text = [](const std::string& features, const std::string& made,
                       const std::string& window = "") {
    const std::string images = "f32[3,6,10," + features + "]", result = "f32[3,6,10," + made + "]";
    const std::string kernel = "f32[1,1," + features + "," + made + "]";
    return "HloModule vector\nENTRY main {\n  x = " + images + " parameter(0)\n  w = " + kernel +
           " parameter(1)\n  g = " + result + " parameter(2)\n  y = " + result +
           " convolution(x, w), window={size=1x1" + window +
           "}, dim_labels=b01f_01io->b01f\n  dx = " + images +
           " convolution(g, w), window={size=1x1}, dim_labels=b01f_01oi->b01f\n  dw = " + kernel +
           " convolution(x, g), window={size=6x10}, dim_labels=f01b_i01o->01bf\n  ROOT r = (" +
           result + ", " + images + ", " + kernel + ") tuple(y, dx, dw)\n}\n";
  };
  for (const auto& [features, made] : {std::pair("20", "1"), std::pair("1", "20")}) {
    EXPECT_EQ(convolutions_left(text(features, made)), 0);
    HloCheck exact;
    exact.round_matmul_operands = false;
    check_hlo(text(features, made), exact);
  }
  EXPECT_EQ(convolutions_left(text("20", "2")), 3);
  EXPECT_EQ(convolutions_left(text("20", "1", " pad=1_-1x0_0")), 1);
}

/// What JAX writes of the gradient of an image: the kernel reversed in space. A kernel reversed in
/// its features as well keeps its reverse.
TEST(ConvolutionForms, AKernelReversedInSpaceIsReadBackwards) {
  const auto text = [](const std::string& dimensions) {
    return R"(HloModule backwards
ENTRY main {
  g = f32[4,9,8,6] parameter(0)
  w = f32[3,2,5,6] parameter(1)
  r = f32[3,2,5,6] reverse(w), dimensions={)" +
           dimensions + R"(}
  ROOT dx = f32[4,9,8,5] convolution(g, r), window={size=3x2 pad=1_1x0_1}, dim_labels=b01f_01oi->b01f
}
)";
  };
  const auto rewritten = [&](const std::string& dimensions) {
    hlo::Module module = hlo::read_hlo_text("test.hlo", text(dimensions));
    compiler::rewrite_convolutions(module, {});
    hlo::verify(module);
    return module.entry_computation();
  };
  for (const std::string dimensions : {"0,1", "1"}) {
    const hlo::Computation entry = rewritten(dimensions);
    EXPECT_EQ(entry.at(entry.at(entry.root).operands[1]).opcode, hlo::HloOpcode::kParameter);
    EXPECT_EQ(entry.at(entry.root).window[0].reversal, dimensions == "0,1");
    EXPECT_TRUE(entry.at(entry.root).window[1].reversal);
    check_hlo(text(dimensions));
  }
  const hlo::Computation entry = rewritten("1,3");
  EXPECT_EQ(entry.at(entry.at(entry.root).operands[1]).opcode, hlo::HloOpcode::kReverse);
  check_hlo(text("1,3"));
}

/// A line is an image of one row to the kernel, and what its gradient reverses is read backwards,
/// too.
TEST(ConvolutionForms, AKernelReversedAlongALineIsReadBackwards) {
  const auto text = [](const std::string& dimensions) {
    return R"(HloModule backwards
ENTRY main {
  g = f32[4,16,24] parameter(0)
  w = f32[5,40,24] parameter(1)
  r = f32[5,40,24] reverse(w), dimensions={)" +
           dimensions + R"(}
  ROOT dx = f32[4,16,40] convolution(g, r), window={size=5 pad=2_2}, dim_labels=b0f_0oi->b0f
}
)";
  };
  for (const std::string dimensions : {"0", "0,1"}) {
    hlo::Module module = hlo::read_hlo_text("test.hlo", text(dimensions));
    compiler::rewrite_convolutions(module, {});
    hlo::verify(module);
    bool reverses = false;
    for (const hlo::HloInstruction& instruction : module.entry_computation().instructions) {
      reverses = reverses || instruction.opcode == hlo::HloOpcode::kReverse;
    }
    EXPECT_EQ(reverses, dimensions != "0");
    check_hlo(text(dimensions));
  }
}

/// The first layer of an image network and the gradient of its kernel: with three features in the
/// lanes the four pixels of a stride of two become features. A hundred fill the lanes already.
TEST(ConvolutionForms, StridesOfFewFeaturesBecomeFeatures) {
  const auto text = [](int features) {
    const bool few = features == 3;
    const std::string images = "f32[4,16,16," + std::to_string(features) + "]";
    const std::string size = few ? "7x7" : "5x5", pad = few ? "2_3x2_3" : "1_2x1_2";
    const std::string kernel =
        "f32[" + (few ? std::string("7,7,3") : "5,5," + std::to_string(features)) + ",136]";
    return "HloModule stem\nENTRY main {\n  x = " + images + " parameter(0)\n  w = " + kernel +
           " parameter(1)\n  g = f32[4,8,8,136] parameter(2)\n  y = f32[4,8,8,136] "
           "convolution(x, " +
           "w), window={size=" + size + " stride=2x2 pad=" + pad +
           "}, dim_labels=b01f_01io->b01f\n  dw = " + kernel +
           " convolution(x, g), window={size=8x8 pad=" + pad + " rhs_dilate=2x2}, " +
           "dim_labels=f01b_i01o->01bf\n  ROOT t = (f32[4,8,8,136], " + kernel +
           ") tuple(y, dw)\n}\n";
  };
  const auto positions = [&](int features) {
    hlo::Module module = hlo::read_hlo_text("test.hlo", text(features));
    compiler::rewrite_convolutions(module, {});
    hlo::verify(module);
    std::vector<std::int64_t> all;
    for (const hlo::HloInstruction& made : module.entry_computation().instructions) {
      if (made.opcode != hlo::HloOpcode::kConvolution) continue;
      const bool gradient = compiler::has_large_window(made);
      all.push_back(gradient ? made.shape.dimensions[0] * made.shape.dimensions[1]
                             : made.window[0].size * made.window[1].size);
      all.push_back(module.entry_computation().at(made.operands[0]).shape.dimensions[3]);
    }
    return all;
  };
  EXPECT_EQ(positions(3), (std::vector<std::int64_t>{16, 12, 16, 12}));
  EXPECT_EQ(positions(100), (std::vector<std::int64_t>{25, 100, 25, 100}));
  check_hlo(text(3));
}

/// The gradient of the kernel of a transposed convolution has zeros between the pixels of its
/// input.
TEST(ConvolutionForms, AKernelGradientWithABaseDilationExchangesItsOperands) {
  check_hlo(R"(HloModule exchange
ENTRY main {
  x = f32[4,4,4,8] parameter(0)
  g = f32[4,8,8,5] parameter(1)
  ROOT dw = f32[4,4,8,5] convolution(x, g), window={size=8x8 pad=2_2x2_2 lhs_dilate=2x2}, dim_labels=f01b_i01o->01bf
}
)");
  // Of windows that do not overlap, too: one convolution, whose small result is turned.
  const std::string patches = R"(HloModule exchange
ENTRY main {
  x = f32[4,6,4,8] parameter(0)
  g = f32[4,12,8,12] parameter(1)
  ROOT dw = f32[2,2,8,12] convolution(x, g), window={size=12x8 pad=1_1x1_1 lhs_dilate=2x2}, dim_labels=f01b_i01o->01bf
}
)";
  EXPECT_EQ(convolutions_left(patches), 1);
  check_hlo(patches);
}

/// Phases of a result stand before its features or, where that is the longer one, before the batch:
/// the last dimension fills the lanes.
TEST(ConvolutionForms, PhasesOfAVolumeLeaveTheLanesToTheLongerDimension) {
  const auto last_dimensions = [](int batch) {
    const std::string images = std::to_string(batch);
    const std::string text = "HloModule up\nENTRY main {\n  x = f32[" + images +
                             ",4,4,4,16] parameter(0)\n  w = f32[2,2,2,16,24] parameter(1)\n" +
                             "  ROOT y = f32[" + images +
                             ",8,8,8,24] convolution(x, w), window={size=2x2x2 pad=1_1x1_1x1_1 "
                             "lhs_dilate=2x2x2}, dim_labels=b012f_012io->b012f\n}\n";
    check_hlo(text);
    hlo::Module module = hlo::read_hlo_text("test.hlo", text);
    compiler::rewrite_convolutions(module, {});
    std::set<std::int64_t> last;
    bool is_behind = false;
    for (const hlo::HloInstruction& each : module.entry_computation().instructions) {
      is_behind = is_behind || each.opcode == hlo::HloOpcode::kDot;
      if (is_behind && each.opcode == hlo::HloOpcode::kTranspose) {
        last.insert(each.shape.dimensions.back());
      }
    }
    return last;
  };
  // The phases of the last dimension stand where they belong.
  EXPECT_EQ(last_dimensions(2), (std::set<std::int64_t>{48, 96}));
  EXPECT_TRUE(last_dimensions(40).count(40) == 1);
}

/// A window over volumes becomes one over images, of which nobody has weighed on which side they
/// lie: it takes the side with a kernel, not the patches of all its positions.
TEST(ConvolutionForms, AVolumeOfManyFeaturesIsAnImageWithAKernel) {
  hlo::Module module = hlo::read_hlo_text("test.hlo", R"(HloModule volumes
ENTRY main {
  x = bf16[14,2,28,8,200] parameter(0)
  w = bf16[5,5,5,200,4] parameter(1)
  ROOT y = bf16[14,2,28,8,4] convolution(x, w), window={size=5x5x5 pad=2_2x2_2x2_2}, dim_labels=b012f_012io->b012f
})");
  compiler::rewrite_convolutions(module, {});
  EXPECT_EQ(count_of(module, hlo::HloOpcode::kConvolution), 1);
  EXPECT_EQ(count_of(module, hlo::HloOpcode::kDot), 0);
}

/// Channels before height and width, as PyTorch and Equinox have them: the kernel lies as (output
/// features, input features, height, width), its gradient comes with the output features in lanes.
TEST(ConvolutionForms, AKernelGradientOfChannelsFirstHasAKernel) {
  for (const char* channels : {"3", "40"}) {
    const std::string text =
        std::string(R"(HloModule channels
ENTRY main {
  x = f32[16,)") +
        channels + R"(,12,12] parameter(0)
  g = f32[16,6,10,10] parameter(1)
  ROOT dw = f32[6,)" +
        channels + R"(,3,3] convolution(x, g), window={size=10x10}, dim_labels=fb01_io01->fb01
}
)";
    EXPECT_EQ(convolutions_left(text), 1) << text;
    check_hlo(text);
  }
}

}  // namespace
}  // namespace tpu::test::convolution_forms_test
