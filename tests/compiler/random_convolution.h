#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "tests/compiler/hlo_check.h"
#include "workloads/hlo/hlo_reader.h"
#include "workloads/reference/value.h"

/// Convolutions of any kind, for tests of passes that write them otherwise.
namespace tpu::test::random_convolution {

/// A convolution of any kind; extents by spatial dimension.
struct Form {
  std::int64_t batch = 1, features = 1, columns = 1;
  std::int64_t feature_groups = 1, batch_groups = 1;
  std::vector<std::int64_t> input;
  std::vector<hlo::WindowDimension> window;
  /// dim_labels in the order batch 'b', feature 'f', spatial '0'...; kernel 'i', 'o'.
  std::string input_labels, kernel_labels, output_labels;

  std::int64_t result(std::size_t i) const {
    const hlo::WindowDimension& w = window[i];
    const std::int64_t padded =
        (input[i] - 1) * w.base_dilation + 1 + w.padding_low + w.padding_high;
    const std::int64_t reach = (w.size - 1) * w.window_dilation + 1;
    return padded < reach ? 0 : (padded - reach) / w.stride + 1;
  }
};

inline std::string list(const std::string& labels,
                        const std::function<std::int64_t(char)>& extent) {
  std::string text = "f32[";
  for (std::size_t i = 0; i < labels.size(); ++i) {
    text += (i == 0 ? "" : ",") + std::to_string(extent(labels[i]));
  }
  return text + "]";
}

inline std::string window_text(const std::vector<hlo::WindowDimension>& window) {
  if (window.empty()) return "";
  const auto each = [&](const std::function<std::string(const hlo::WindowDimension&)>& text) {
    std::string all;
    for (const hlo::WindowDimension& w : window) all += (all.empty() ? "" : "x") + text(w);
    return all;
  };
  return ", window={size=" + each([](const auto& w) { return std::to_string(w.size); }) +
         " stride=" + each([](const auto& w) { return std::to_string(w.stride); }) +
         " pad=" + each([](const auto& w) {
           return std::to_string(w.padding_low) + "_" + std::to_string(w.padding_high);
         }) +
         " lhs_dilate=" + each([](const auto& w) { return std::to_string(w.base_dilation); }) +
         " rhs_dilate=" + each([](const auto& w) { return std::to_string(w.window_dilation); }) +
         " rhs_reversal=" + each([](const auto& w) { return w.reversal ? "1" : "0"; }) + "}";
}

inline std::string module_of(const Form& form) {
  const auto spatial = [](char label) { return static_cast<std::size_t>(label - '0'); };
  const std::string input = list(form.input_labels, [&](char label) {
    return label == 'b' ? form.batch : label == 'f' ? form.features : form.input[spatial(label)];
  });
  const std::string kernel = list(form.kernel_labels, [&](char label) {
    return label == 'i'   ? form.features / form.feature_groups
           : label == 'o' ? form.columns
                          : form.window[spatial(label)].size;
  });
  const std::string output = list(form.output_labels, [&](char label) {
    return label == 'b'   ? form.batch / form.batch_groups
           : label == 'f' ? form.columns
                          : form.result(spatial(label));
  });
  std::ostringstream text;
  text << "HloModule form\nENTRY main {\n  x = " << input << " parameter(0)\n  w = " << kernel
       << " parameter(1)\n  ROOT r = " << output << " convolution(x, w)" << window_text(form.window)
       << ", dim_labels=" << form.input_labels << "_" << form.kernel_labels << "->"
       << form.output_labels;
  if (form.feature_groups > 1) text << ", feature_group_count=" << form.feature_groups;
  if (form.batch_groups > 1) text << ", batch_group_count=" << form.batch_groups;
  text << "\n}\n";
  return text.str();
}

inline std::size_t count_of(const hlo::Module& module, hlo::HloOpcode opcode) {
  const std::vector<hlo::HloInstruction>& all = module.entry_computation().instructions;
  return static_cast<std::size_t>(std::count_if(
      all.begin(), all.end(), [opcode](const auto& each) { return each.opcode == opcode; }));
}

/// What is done to the module leaves the values of operands that the MXUs take as they are: in
/// double precision, both in the interpreter.
inline hlo::Module expect_same_values(const std::string& text,
                                      const std::function<void(hlo::Module&)>& rewrite) {
  const hlo::Module before = hlo::read_hlo_text("test.hlo", text);
  hlo::verify(before);
  hlo::Module after = before;
  rewrite(after);
  hlo::verify(after);
  std::mt19937 engine(11);
  std::vector<reference::Value> arguments;
  for (hlo::InstructionId id : before.entry_computation().parameters()) {
    arguments.push_back(random_value(before.entry_computation().at(id).shape, engine, {}));
    for (float& number : arguments.back().numbers) number = reference::round_to_bf16(number);
  }
  const reference::Value wanted = reference::Interpreter(before).run(arguments);
  const reference::Value found = reference::Interpreter(after).run(arguments);
  EXPECT_EQ(to_string(wanted.shape), to_string(found.shape)) << text;
  EXPECT_LE(distance(numbers_of(found), numbers_of(wanted)), 1e-6) << text;
  return after;
}

/// Any combination that HLO allows.
inline Form random_form(std::mt19937& engine) {
  const auto below = [&](std::int64_t bound) {
    return static_cast<std::int64_t>(engine() % static_cast<std::uint64_t>(bound));
  };
  const auto order = [&](std::string labels) {
    if (below(2) == 0) std::shuffle(labels.begin(), labels.end(), engine);
    return labels;
  };
  Form form;
  const std::string spatial = std::string("012").substr(0, static_cast<std::size_t>(below(4)));
  do {
    form = {};
    form.batch = 1 + below(3);
    const std::int64_t groups = below(3) == 0 ? 2 + below(3) : 1;
    if (below(2) == 0) {
      form.feature_groups = groups;
    } else {
      form.batch_groups = groups;
      form.batch *= groups;
    }
    form.features = form.feature_groups * (1 + below(3));
    form.columns = groups * (1 + below(3));
    for (std::size_t i = 0; i < spatial.size(); ++i) {
      form.input.push_back(1 + below(7));
      hlo::WindowDimension w;
      w.size = 1 + below(5);
      w.stride = 1 + below(3) * below(2);
      w.base_dilation = 1 + below(3) * below(2);
      w.window_dilation = 1 + below(3) * below(2);
      w.padding_low = below(5) - 2;
      w.padding_high = below(5) - 2;
      w.reversal = below(4) == 0;
      form.window.push_back(w);
    }
  } while ([&] {
    for (std::size_t i = 0; i < spatial.size(); ++i) {
      if (form.result(i) < 1) return true;
    }
    return false;
  }());
  form.input_labels = order("b" + spatial + "f");
  form.kernel_labels = order(spatial + "io");
  form.output_labels = order("b" + spatial + "f");
  return form;
}

}  // namespace tpu::test::random_convolution
