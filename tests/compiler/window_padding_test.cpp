#include "workloads/compiler/passes/simplify/window_padding.h"

#include <gtest/gtest.h>

#include "tests/compiler/random_convolution.h"

namespace tpu::test::window_padding_test {
namespace {

using random_convolution::count_of;
using random_convolution::expect_same_values;
using random_convolution::Form;
using random_convolution::list;
using random_convolution::module_of;
using random_convolution::random_form;

/// A convolution of an input that is padded before, whose result is cut behind it.
std::string padded_and_cut(const Form& whole, const std::vector<hlo::PaddingDimension>& padding,
                           const std::vector<hlo::PaddingDimension>& cuts, bool cuts_by_pad) {
  std::string text = module_of(whole);
  Form inside = whole;
  const auto spatial = [](char label) { return static_cast<std::size_t>(label - '0'); };
  const auto is_spatial = [](char label) { return label >= '0' && label <= '9'; };
  std::string pads, ends, limits;
  for (std::size_t i = 0; i < padding.size(); ++i) {
    const hlo::PaddingDimension& p = padding[i];
    inside.input[i] = (whole.input[i] - p.low - p.high - 1) / (p.interior + 1) + 1;
  }
  for (char label : whole.input_labels) {
    const hlo::PaddingDimension p =
        is_spatial(label) ? padding[spatial(label)] : hlo::PaddingDimension{};
    pads += (pads.empty() ? "" : "x") + std::to_string(p.low) + "_" + std::to_string(p.high) + "_" +
            std::to_string(p.interior);
  }
  const auto result = [&](char label) {
    return label == 'b'   ? whole.batch / whole.batch_groups
           : label == 'f' ? whole.columns
                          : whole.result(spatial(label));
  };
  for (char label : whole.output_labels) {
    const hlo::PaddingDimension p =
        is_spatial(label) ? cuts[spatial(label)] : hlo::PaddingDimension{};
    ends += (ends.empty() ? "" : "x") + std::to_string(-p.low) + "_" + std::to_string(-p.high);
    limits += (limits.empty() ? "[" : ", [") + std::to_string(p.low) + ":" +
              std::to_string(result(label) - p.high) + "]";
  }
  const auto features = [](const Form& form) {
    return list(form.input_labels, [&](char label) {
      return label == 'b'   ? form.batch
             : label == 'f' ? form.features
                            : form.input[static_cast<std::size_t>(label - '0')];
    });
  };
  const std::string parameter = "x = " + features(whole) + " parameter(0)";
  text.replace(text.find(parameter), parameter.size(),
               "z = f32[] constant(0)\n  x0 = " + features(inside) +
                   " parameter(0)\n  x = " + features(whole) + " pad(x0, z), padding=" + pads);
  text.replace(text.find("ROOT r"), 6, "r");
  const std::string cut = list(whole.output_labels, [&](char label) {
    const hlo::PaddingDimension p =
        is_spatial(label) ? cuts[spatial(label)] : hlo::PaddingDimension{};
    return result(label) - p.low - p.high;
  });
  return text.substr(0, text.rfind('}')) + "  ROOT s = " + cut +
         (cuts_by_pad ? " pad(r, z), padding=" + ends : " slice(r), slice={" + limits + "}") +
         "\n}\n";
}

/// Random padding in front of random convolutions, and random cuts behind them: the values stay,
/// the window takes what it can, and nothing else.
TEST(WindowPadding, BelongsToTheWindow) {
  std::mt19937 engine(23);
  const auto below = [&](std::int64_t bound) {
    return static_cast<std::int64_t>(engine() % static_cast<std::uint64_t>(bound));
  };
  int folded = 0, left_out = 0, kept = 0;
  for (int i = 0; i < 600 && !::testing::Test::HasFailure(); ++i) {
    Form form = random_form(engine);
    if (form.window.empty()) continue;
    std::vector<hlo::PaddingDimension> padding(form.window.size()), cuts(form.window.size());
    bool takes = true, leaves = true;
    for (std::size_t d = 0; d < form.window.size(); ++d) {
      hlo::WindowDimension w = form.window[d];
      padding[d] = {below(3), below(3), below(3) == 0 ? 1 : 0};
      form.input[d] =
          (form.input[d] - 1) * (padding[d].interior + 1) + 1 + padding[d].low + padding[d].high;
      takes = takes && (padding[d].interior == 0 || w.base_dilation == 1);
    }
    for (std::size_t d = 0; d < form.window.size(); ++d) {
      const hlo::WindowDimension& w = form.window[d];
      const std::int64_t results = form.result(d);
      cuts[d].low = below(std::min<std::int64_t>(results, 3));
      cuts[d].high = below(std::min<std::int64_t>(results - cuts[d].low, 3));
      const std::int64_t low = w.padding_low + (takes ? padding[d].low * w.base_dilation : 0);
      leaves = leaves && (cuts[d].low == 0 || low >= cuts[d].low * w.stride);
    }
    const bool cuts_by_pad = below(2) == 0;
    const hlo::Module after =
        expect_same_values(padded_and_cut(form, padding, cuts, cuts_by_pad),
                           [](hlo::Module& m) { compiler::fold_window_padding(m); });
    std::size_t pads = 0, slices = 0;  // Of the input, and cuts of the result.
    const hlo::Computation& entry = after.entry_computation();
    for (const hlo::HloInstruction& each : entry.instructions) {
      const bool is_cut =
          std::any_of(each.padding.begin(), each.padding.end(),
                      [](const auto& along) { return along.low < 0 || along.high < 0; });
      const auto reads_parameter = [&] {
        return entry.at(each.operands[0]).opcode == hlo::HloOpcode::kParameter;
      };
      pads += each.opcode == hlo::HloOpcode::kPad && (is_cut || reads_parameter());
      slices += each.opcode == hlo::HloOpcode::kSlice && !reads_parameter();
    }
    EXPECT_EQ(pads, (takes ? 0U : 1U) + (leaves || !cuts_by_pad ? 0U : 1U));
    EXPECT_EQ(slices, leaves || cuts_by_pad ? 0U : 1U);
    folded += takes;
    left_out += leaves;
    kept += !takes || !leaves;
  }
  EXPECT_GT(folded, 100);
  EXPECT_GT(left_out, 100);
  EXPECT_GT(kept, 100);
}

/// What is no zero, is around features, is read by others or would cut the input stays.
TEST(WindowPadding, StaysWhereItIsNotTheWindows) {
  struct Case {
    std::string fill, features, first, root;
    std::size_t pads, slices;
  };
  const std::string cut = "f32[2,4,5] negate(s)";
  const std::string whole = "(f32[2,4,5], f32[2,8,5]) tuple(s, r)";
  for (const Case& each : {Case{"0", "3", "1", cut, 0, 0}, Case{"0", "3", "2", cut, 0, 1},
                           Case{"1", "3", "1", cut, 1, 1}, Case{"0", "4", "0", cut, 1, 0},
                           Case{"0", "3", "1", whole, 0, 1}}) {
    const std::string last = std::to_string(std::stoi(each.first) + 4);
    hlo::Module module = hlo::read_hlo_text(
        "test.hlo",
        "HloModule stays\nENTRY main {\n  x = f32[2,8,3] parameter(0)\n  w = f32[3," +
            each.features + ",5] parameter(1)\n  z = f32[] constant(" + each.fill +
            ")\n  p = f32[2,10," + each.features + "] pad(x, z), padding=0_0x1_1x0_" +
            (each.features == "4" ? "1" : "0") +
            "\n  r = f32[2,8,5] convolution(p, w), window={size=3}, dim_labels=b0f_0io->b0f\n  "
            "s = f32[2,4,5] slice(r), slice={[0:2], [" +
            each.first + ":" + last + "], [0:5]}\n  ROOT t = " + each.root + "\n}\n");
    compiler::fold_window_padding(module);
    hlo::verify(module);
    EXPECT_EQ(count_of(module, hlo::HloOpcode::kPad), each.pads);
    EXPECT_EQ(count_of(module, hlo::HloOpcode::kSlice), each.slices);
  }
}

/// Of each convolution: elements of its windows, times its results.
std::int64_t products(const hlo::Module& module) {
  const hlo::Computation& entry = module.entry_computation();
  std::int64_t sum = 0;
  for (const hlo::HloInstruction& each : entry.instructions) {
    if (each.opcode != hlo::HloOpcode::kConvolution) continue;
    std::int64_t elements = 1;
    for (const hlo::WindowDimension& w : each.window) elements *= w.size;
    sum += elements * each.shape.element_count();
  }
  return sum;
}

/// Large windows, wide gaps and much padding over few pixels.
TEST(WindowPadding, WindowsKeepToPixels) {
  std::mt19937 engine(29);
  const auto below = [&](std::int64_t bound) {
    return static_cast<std::int64_t>(engine() % static_cast<std::uint64_t>(bound));
  };
  int smaller = 0, whole = 0;
  for (int i = 0; i < 400 && !::testing::Test::HasFailure(); ++i) {
    Form form = random_form(engine);
    for (std::size_t d = 0; d < form.window.size(); ++d) {
      hlo::WindowDimension& w = form.window[d];
      form.input[d] = 1 + below(4);
      w.window_dilation = 1 + below(5);
      w.padding_low = below(12) - 2;
      w.padding_high = below(12) - 2;
      while (form.result(d) < 1) ++w.padding_high;
    }
    const std::string text = module_of(form);
    const hlo::Module after =
        expect_same_values(text, [](hlo::Module& m) { compiler::fold_window_padding(m); });
    const std::int64_t before = products(hlo::read_hlo_text("test.hlo", text));
    EXPECT_LE(products(after), before) << text;
    (2 * products(after) <= before ? smaller : whole) += 1;
  }
  EXPECT_GT(smaller, 100);
  EXPECT_GT(whole, 100);
}

/// What stands in the place of the only convolution of a module.
std::string kept(const std::string& arrays, const std::string& attributes) {
  hlo::Module module = hlo::read_hlo_text(
      "test.hlo",
      "HloModule m\nENTRY main {\n  x = " + arrays.substr(0, arrays.find(';')) +
          " parameter(0)\n  w = " +
          arrays.substr(arrays.find(';') + 1, arrays.rfind(';') - arrays.find(';') - 1) +
          " parameter(1)\n  ROOT r = " + arrays.substr(arrays.rfind(';') + 1) +
          " convolution(x, w), window={" + attributes + "}, dim_labels=b0f_0io->b0f\n}\n");
  compiler::fold_window_padding(module);
  for (const hlo::HloInstruction& each : module.entry_computation().instructions) {
    if (each.opcode != hlo::HloOpcode::kConvolution) continue;
    const hlo::WindowDimension& w = each.window[0];
    return std::to_string(w.size) + " pad " + std::to_string(w.padding_low) + "_" +
           std::to_string(w.padding_high) + " -> " + std::to_string(each.shape.dimensions[1]);
  }
  return "none";
}

TEST(WindowPadding, HalfOfAWindowOrOfAResultIsWorthIt) {
  // One pixel: the element in the middle. Gaps that reach beyond the pixels.
  EXPECT_EQ(kept("f32[2,1,3];f32[5,3,4];f32[2,1,4]", "size=5 pad=2_2"), "1 pad 0_0 -> 1");
  EXPECT_EQ(kept("f32[2,14,3];f32[3,3,4];f32[2,14,4]", "size=3 pad=18_18 rhs_dilate=18"),
            "1 pad 0_0 -> 14");
  // Of two pixels three elements of five meet one, of four windows' elements two.
  EXPECT_EQ(kept("f32[2,2,3];f32[5,3,4];f32[2,2,4]", "size=5 pad=2_2"), "5 pad 2_2 -> 2");
  EXPECT_EQ(kept("f32[2,2,3];f32[4,3,4];f32[2,1,4]", "size=4 pad=1_1"), "2 pad 0_0 -> 1");
  EXPECT_EQ(kept("f32[2,2,3];f32[4,3,4];f32[2,1,4]", "size=4 pad=0_2 rhs_reversal=1"),
            "2 pad 0_0 -> 1");
  // The gradient of such a window: results that meet nothing are zeros.
  EXPECT_EQ(kept("f32[2,1,3];f32[1,3,4];f32[2,5,4]", "size=1 pad=2_2"), "1 pad 0_0 -> 1");
  EXPECT_EQ(kept("f32[2,3,3];f32[1,3,4];f32[2,5,4]", "size=1 pad=1_1"), "1 pad 1_1 -> 5");
  // Nothing but zeros is left as it is.
  EXPECT_EQ(kept("f32[2,1,3];f32[1,3,4];f32[2,1,4]", "size=1 pad=3_-3"), "1 pad 3_-3 -> 1");
}

}  // namespace
}  // namespace tpu::test::window_padding_test
