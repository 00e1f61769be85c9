#include "workloads/frontend/zoo.h"

#include <gtest/gtest.h>

#include <set>

#include "sim/base/error.h"
#include "workloads/frontend/model.h"
#include "workloads/reference/interpreter.h"

namespace tpu::frontend::zoo_test {
namespace {

using hlo::ElementType;
using hlo::HloOpcode;

std::string error_of(std::string_view name, const WorkloadOptions& options) {
  try {
    build_workload(name, options);
  } catch (const UsageError& error) {
    return error.what();
  } catch (const WorkloadError& error) {
    return std::string("workload error: ") + error.what();
  }
  return "no error";
}

std::string error_of(std::string_view name, std::string_view option, std::string_view value) {
  try {
    WorkloadOptions options;
    set_option(options, option, value);
    return error_of(name, options);
  } catch (const UsageError& error) {
    return error.what();
  }
}

WorkloadOptions options_of(
    const std::vector<std::pair<std::string_view, std::string_view>>& settings) {
  WorkloadOptions options;
  for (const auto& [name, value] : settings) set_option(options, name, value);
  return options;
}

std::vector<reference::Value> arguments(const Workload& workload, std::int64_t replica = 0) {
  std::vector<reference::Value> values;
  const hlo::Computation& entry = workload.module.entry_computation();
  const std::vector<hlo::InstructionId> parameters = entry.parameters();
  const std::vector<std::vector<std::uint8_t>> bytes = initial_values(workload, 1, replica);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    values.push_back(reference::from_bytes(entry.at(parameters[i]).shape, bytes[i]));
  }
  return values;
}

/// Losses of several steps, each with its own examples.
std::vector<float> losses(const Workload& workload, int steps, bool fresh_examples = true) {
  const hlo::Computation& entry = workload.module.entry_computation();
  const std::vector<hlo::InstructionId> parameters = entry.parameters();
  std::vector<reference::Value> state = arguments(workload);
  std::vector<float> values;
  for (int step = 0; step < steps; ++step) {
    const std::vector<std::vector<std::uint8_t>> inputs =
        step_inputs(workload, 1, fresh_examples ? step : 0);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const std::size_t at = static_cast<std::size_t>(workload.state_tensors) + i;
      state[at] = reference::from_bytes(entry.at(parameters[at]).shape, inputs[i]);
    }
    reference::Value result = reference::Interpreter(workload.module).run(state);
    values.push_back(result.elements.back().numbers.at(0));
    for (std::size_t i = 0; i < static_cast<std::size_t>(workload.state_tensors); ++i) {
      state[i] = std::move(result.elements[i]);
    }
  }
  return values;
}

TEST(Zoo, EveryWorkloadBuildsAndKeepsTheConventionsOfATrainingStep) {
  ASSERT_EQ(workload_list().size(), 11u);
  for (const WorkloadInfo& info : workload_list()) {
    SCOPED_TRACE(info.name);
    EXPECT_TRUE(is_workload(info.name));
    EXPECT_FALSE(info.description.empty());
    const Workload workload = build_workload(info.name);
    const hlo::Module& module = workload.module;
    const hlo::Computation& entry = module.entry_computation();
    const std::vector<hlo::InstructionId> parameters = entry.parameters();
    EXPECT_EQ(workload.initializers.size(), parameters.size());
    EXPECT_GT(module.examples_per_step, 0);
    EXPECT_EQ(module.replicas, 1);
    if (workload.state_tensors == 0) continue;
    const hlo::Shape& result = entry.at(entry.root).shape;
    ASSERT_EQ(static_cast<std::int64_t>(result.elements.size()), workload.state_tensors + 1);
    EXPECT_EQ(hlo::to_string(result.elements.back()), "f32[]");
    ASSERT_EQ(static_cast<std::int64_t>(module.aliases.size()), workload.state_tensors);
    for (std::size_t i = 0; i < module.aliases.size(); ++i) {
      EXPECT_EQ(module.aliases[i].output_index, static_cast<std::int64_t>(i));
      EXPECT_EQ(module.aliases[i].parameter_number, static_cast<std::int64_t>(i));
    }
    EXPECT_EQ(module.infeed_parameters.size(),
              parameters.size() - static_cast<std::size_t>(workload.state_tensors));
    EXPECT_EQ(module.infeed_parameters.front(), workload.state_tensors);
  }
}

TEST(Zoo, MasterWeightsAreF32AndMatrixOperandsOfTheComputeType) {
  for (const char* name : {"resnet50", "transformer", "mlp", "lenet", "bert", "roberta",
                           "fairseq-transformer", "biggan"}) {
    SCOPED_TRACE(name);
    const bool wide = std::string(name) == "mlp" || std::string(name) == "lenet";
    const Workload workload = build_workload(name);
    const hlo::Computation& entry = workload.module.entry_computation();
    for (hlo::InstructionId id : entry.parameters()) {
      const hlo::HloInstruction& parameter = entry.at(id);
      if (parameter.parameter_number < workload.state_tensors) {
        EXPECT_EQ(parameter.shape.type, ElementType::kF32);
      }
    }
    for (const hlo::HloInstruction& instruction : entry.instructions) {
      if (instruction.opcode != HloOpcode::kDot && instruction.opcode != HloOpcode::kConvolution) {
        if (instruction.opcode == HloOpcode::kReduce && !wide) {
          EXPECT_EQ(instruction.shape.type, ElementType::kF32) << instruction.name;
        }
        continue;
      }
      for (hlo::InstructionId operand : instruction.operands) {
        EXPECT_EQ(entry.at(operand).shape.type, wide ? ElementType::kF32 : ElementType::kBf16)
            << instruction.name;
      }
    }
  }
}

TEST(Zoo, NoTransposeIsNeededByTheseWorkloads) {
  for (const char* name : {"mlp", "lenet", "resnet50", "transformer", "matmul", "conv"}) {
    const Workload workload = build_workload(name);
    for (const hlo::HloInstruction& instruction :
         workload.module.entry_computation().instructions) {
      EXPECT_NE(instruction.opcode, HloOpcode::kTranspose) << name << instruction.name;
    }
  }
}

/// Numbers in all trained tensors: Adam keeps a mean of each.
std::int64_t trained(const Workload& workload) {
  std::int64_t count = 0;
  const hlo::Computation& entry = workload.module.entry_computation();
  for (hlo::InstructionId id : entry.parameters()) {
    const std::string path = entry.at(id).metadata.op_name;
    const bool is_mean = path.size() > 5 && path.compare(path.size() - 5, 5, "/mean") == 0;
    if (path.find("/optimizer/") != std::string::npos && is_mean) {
      count += entry.at(id).shape.element_count();
    }
  }
  return count;
}

TEST(Zoo, ModelsOfLanguageHaveTheirPublishedSizes) {
  // transformers' BertForPreTraining and RobertaForMaskedLM; that has 514 positions, and a segment
  // that all words are of.
  EXPECT_EQ(trained(build_workload("bert-large")), 336226108);
  EXPECT_EQ(trained(build_workload("bert", options_of({{"sequence", "512"}}))), 110106428);
  EXPECT_EQ(trained(build_workload("roberta")), 124697433 - 3 * 768);
}

TEST(Zoo, BigganHasItsPublishedSize) {
  // 70.4 M and 88.0 M; ours have biases of the conditional norms and none of convolutions.
  EXPECT_NEAR(static_cast<double>(trained(build_workload("biggan"))), 158.4e6, 0.2e6);
}

TEST(Zoo, MaskedWordsAreFifteenOfAHundred) {
  const std::string text = hlo::to_string(build_workload("bert").module);
  EXPECT_NE(text.find("s32[640]"), std::string::npos) << "20 of 128, 32 sequences";
  const std::string large = hlo::to_string(build_workload("bert-large").module);
  EXPECT_NE(large.find("s32[608]"), std::string::npos) << "76 of 512, 8 sequences";
}

TEST(Zoo, LossesOfEncodersAndTranslationFall) {
  const auto settings = options_of({{"batch", "2"},
                                    {"width", "32"},
                                    {"heads", "2"},
                                    {"sequence", "16"},
                                    {"vocabulary", "48"},
                                    {"layers", "1"},
                                    {"learning_rate", "0.01"}});
  for (const char* name : {"bert", "roberta", "fairseq-transformer"}) {
    const std::vector<float> values = losses(build_workload(name, settings), 6, false);
    EXPECT_LT(values.back(), 0.9f * values.front()) << name;
  }
}

/// Two parts, of which the second sees what the first makes: each follows its own loss alone.
TEST(Zoo, PartsOfAModelFollowTheirOwnLosses) {
  Model model("parts", ElementType::kF32);
  GraphBuilder& graph = model.graph;
  const hlo::Shape shape = hlo::array_shape(ElementType::kF32, {2});
  const Tensor x = model.input("x", shape, {Fill::kNormal, 1});
  const auto weight = [&](const char* part) {
    GraphBuilder::Scope scope(graph, part);
    return model.weight("w", {2}, {Fill::kConstant, 3});
  };
  const Tensor made = graph.multiply(weight("maker"), x);
  const Tensor seen = graph.reduce_sum(graph.multiply(weight("judge"), made), {0});
  Optimizer optimizer;
  optimizer.learning_rate = 1;
  optimizer.momentum = 0;
  const Workload workload =
      model.training_step({{seen, "judge"}, {graph.scale(seen, -1), "maker"}}, optimizer, 1, {});
  std::vector<reference::Value> values = arguments(workload);
  values.back().numbers = {1, 2};
  const reference::Value result = reference::Interpreter(workload.module).run(values);
  // seen = judge * maker * x: the maker goes up by judge * x, the judge down by maker * x.
  EXPECT_EQ(result.elements[0].numbers, (std::vector<float>{3 + 3, 3 + 6}));
  EXPECT_EQ(result.elements[1].numbers, (std::vector<float>{3 - 3, 3 - 6}));
}

/// An evaluation step has the forward pass of the training step, and nothing else.
TEST(Zoo, AnEvaluationStepIsTheForwardPass) {
  for (const char* name : {"mlp", "lenet", "transformer"}) {
    SCOPED_TRACE(name);
    WorkloadOptions options = options_of({{"batch", "4"}});
    const Workload training = build_workload(name, options);
    options.forward_only = true;
    const Workload evaluation = build_workload(name, options);
    const hlo::Computation& entry = evaluation.module.entry_computation();
    EXPECT_EQ(evaluation.state_tensors, 0);
    EXPECT_TRUE(evaluation.module.aliases.empty());
    EXPECT_EQ(evaluation.module.examples_per_step, 4);
    ASSERT_EQ(evaluation.module.infeed_parameters.size(), training.module.infeed_parameters.size());
    EXPECT_EQ(evaluation.module.infeed_parameters.back() + 1,
              static_cast<std::int64_t>(entry.parameters().size()));
    const auto loss = [](const Workload& workload) {
      return reference::Interpreter(workload.module)
          .run(arguments(workload))
          .elements.back()
          .numbers.at(0);
    };
    EXPECT_EQ(loss(evaluation), loss(training));
    EXPECT_LT(hlo::matmul_flops(evaluation.module), hlo::matmul_flops(training.module) / 2);
  }
}

TEST(Zoo, HeadsHaveToDivideTheWidth) {
  EXPECT_EQ(error_of("roberta", "heads", "7"),
            "option heads: expected a divisor of the width 768, found 7");
}

TEST(Zoo, Resnet50HasItsKnownSize) {
  const Workload workload = build_workload("resnet50", options_of({{"batch", "1"}}));
  const hlo::Computation& entry = workload.module.entry_computation();
  std::int64_t weights = 0;
  std::int64_t forward = 0;
  for (const hlo::HloInstruction& instruction : entry.instructions) {
    const std::string& path = instruction.metadata.op_name;
    if (instruction.opcode == HloOpcode::kParameter &&
        path.find("/optimizer/") != std::string::npos) {
      weights += instruction.shape.element_count();
    }
    if ((instruction.opcode == HloOpcode::kConvolution || instruction.opcode == HloOpcode::kDot) &&
        path.rfind("resnet50/", 0) == 0) {
      forward += hlo::flops(workload.module, entry, instruction);
    }
  }
  // 25,557,032 parameters, and 4x4x12 instead of 7x7x3 weights per output of the stem.
  EXPECT_EQ(weights, 25557032 + 64 * (4 * 4 * 12 - 7 * 7 * 3));
  // Multiply-adds of the convolutions and the classifier; window positions in the padding, which
  // the usual 4.1e9 counts, are left out.
  std::int64_t expected = 444 * 444 * 12 * 64 + 2048 * 1000;
  std::int64_t extent = 56, inputs = 64;
  const std::int64_t blocks[] = {3, 4, 6, 3};
  for (std::int64_t stage = 0; stage < 4; ++stage) {
    const std::int64_t features = 64 << stage;
    for (std::int64_t block = 0; block < blocks[stage]; ++block) {
      const std::int64_t stride = stage > 0 && block == 0 ? 2 : 1;
      const std::int64_t outputs = extent / stride;
      const std::int64_t pairs = stride == 1 ? 3 * extent - 2 : 3 * outputs - 1;
      expected += extent * extent * inputs * features;
      expected += pairs * pairs * features * features;
      expected += outputs * outputs * features * 4 * features;
      if (block == 0) expected += outputs * outputs * inputs * 4 * features;
      extent = outputs;
      inputs = 4 * features;
    }
  }
  EXPECT_EQ(forward, 2 * expected);
  EXPECT_NEAR(static_cast<double>(forward), 2 * 4.1e9, 2 * 0.13e9);
  // The gradients cost twice that, but for the gradient of the images.
  EXPECT_EQ(hlo::matmul_flops(workload.module), 3 * forward - 2 * 444 * 444 * 12 * 64);
}

TEST(Zoo, TheStemAfterSpaceToDepthIsTheSevenBySevenConvolutionOfStrideTwo) {
  const Workload workload =
      build_workload("resnet50", options_of({{"batch", "1"}, {"image", "64"}}));
  const std::string text = hlo::to_string(workload.module);
  EXPECT_NE(text.find("bf16[1,32,32,64] convolution(%images"), std::string::npos);
  EXPECT_NE(text.find("window={size=4x4 pad=2_1x2_1}, dim_labels=b01f_01io->b01f"),
            std::string::npos);
}

TEST(Zoo, MlpFlopsAreThoseOfItsMatrices) {
  const Workload workload = build_workload("mlp", options_of({{"batch", "32"}}));
  const std::int64_t products = 784 * 1024 + 1024 * 1024 + 1024 * 10;
  EXPECT_EQ(hlo::matmul_flops(workload.module), 2 * 32 * (3 * products - 784 * 1024));
}

TEST(Zoo, LossesFall) {
  const std::vector<float> mlp = losses(build_workload("mlp", options_of({{"batch", "32"}})), 6);
  EXPECT_LT(mlp.back(), 0.5f * mlp.front());
  const std::vector<float> lenet =
      losses(build_workload("lenet", options_of({{"batch", "16"}})), 6);
  EXPECT_LT(lenet.back(), 0.8f * lenet.front());
  const std::vector<float> transformer =
      losses(build_workload("transformer", options_of({{"batch", "2"},
                                                       {"width", "64"},
                                                       {"heads", "2"},
                                                       {"sequence", "32"},
                                                       {"vocabulary", "64"},
                                                       {"layers", "1"},
                                                       {"learning_rate", "0.01"}})),
             8);
  EXPECT_LT(transformer.back(), 0.9f * transformer.front());
}

TEST(Zoo, LossOfResnet50Falls) {
  const Workload workload = build_workload(
      "resnet50",
      options_of({{"batch", "2"}, {"image", "32"}, {"classes", "4"}, {"learning_rate", "0.001"}}));
  const std::vector<float> values = losses(workload, 3, false);
  EXPECT_LT(values.back(), values.front());
}

TEST(Zoo, TheEmbeddingOfTheTransformerIsTiedAndGetsOneSum) {
  const Workload workload = build_workload("transformer", options_of({{"layers", "1"}}));
  const hlo::Computation& entry = workload.module.entry_computation();
  std::int64_t tables = 0;
  for (hlo::InstructionId id : entry.parameters()) {
    if (entry.at(id).parameter_number < workload.state_tensors &&
        entry.at(id).shape.dimensions == std::vector<std::int64_t>{1024, 256} &&
        entry.at(id).metadata.op_name.get() == "transformer/embedding") {
      ++tables;
    }
  }
  EXPECT_EQ(tables, 1);
  std::int64_t scatters = 0;
  for (const hlo::HloInstruction& instruction : entry.instructions) {
    if (instruction.opcode != HloOpcode::kScatter) continue;
    ++scatters;
    std::int64_t sums = 0;
    for (const hlo::HloInstruction& user : entry.instructions) {
      for (hlo::InstructionId operand : user.operands) {
        if (operand == instruction.id) {
          EXPECT_EQ(user.opcode, HloOpcode::kAdd);
          ++sums;
        }
      }
    }
    EXPECT_EQ(sums, 1);
  }
  EXPECT_EQ(scatters, 1);
}

/// Two replicas with half a batch each do what one with the whole batch does.
TEST(Zoo, ReplicasAverageTheirGradients) {
  const Workload one = build_workload("mlp", options_of({{"batch", "8"}}));
  const Workload two = build_workload("mlp", options_of({{"batch", "4"}, {"replicas", "2"}}));
  EXPECT_EQ(two.module.replicas, 2);
  std::int64_t all_reduces = 0;
  for (const hlo::HloInstruction& instruction : two.module.entry_computation().instructions) {
    if (instruction.opcode == HloOpcode::kAllReduce) {
      ++all_reduces;
      EXPECT_EQ(instruction.operands.size(), 7u) << "six gradients and the loss";
    }
  }
  EXPECT_EQ(all_reduces, 1);
  std::vector<reference::Value> whole = arguments(one);
  std::vector<std::vector<reference::Value>> halves;
  for (std::size_t r = 0; r < 2; ++r) {
    halves.push_back(arguments(two));
    std::vector<reference::Value>& half = halves.back();
    std::vector<float>& pixels = half[12].numbers;
    std::copy_n(whole[12].numbers.begin() + static_cast<std::ptrdiff_t>(r * 4 * 784), 4 * 784,
                pixels.begin());
    std::copy_n(whole[13].integers.begin() + static_cast<std::ptrdiff_t>(r * 4), 4,
                half[13].integers.begin());
  }
  const reference::Value expected = reference::Interpreter(one.module).run(whole);
  const std::vector<reference::Value> found =
      reference::Interpreter(two.module).run_replicas(std::move(halves));
  ASSERT_EQ(found.size(), 2u);
  for (std::size_t i = 0; i < expected.elements.size(); ++i) {
    for (std::size_t k = 0; k < expected.elements[i].numbers.size(); ++k) {
      ASSERT_NEAR(found[0].elements[i].numbers[k], expected.elements[i].numbers[k], 2e-6f) << i;
      ASSERT_EQ(found[0].elements[i].numbers[k], found[1].elements[i].numbers[k]) << i;
    }
  }
}

TEST(Zoo, EqualSeedsGiveEqualValuesAndReplicasDifferInTheirInputsOnly) {
  const Workload workload = build_workload("lenet", options_of({{"batch", "4"}}));
  const auto first = initial_values(workload, 7);
  EXPECT_EQ(first, initial_values(workload, 7));
  EXPECT_NE(first, initial_values(workload, 8));
  const auto other = initial_values(workload, 7, 1);
  for (std::size_t i = 0; i < first.size(); ++i) {
    if (static_cast<std::int64_t>(i) < workload.state_tensors) {
      EXPECT_EQ(first[i], other[i]) << i;
    }
  }
  EXPECT_NE(first[static_cast<std::size_t>(workload.state_tensors)],
            other[static_cast<std::size_t>(workload.state_tensors)]);
  EXPECT_NE(step_inputs(workload, 7, 0), step_inputs(workload, 7, 1));
  EXPECT_EQ(parameter_value(workload, 3, 7, 5), first[3]);
  EXPECT_EQ(parameter_value(workload, workload.state_tensors, 7, 5, 2),
            step_inputs(workload, 7, 5, 2)[0]);
}

TEST(Zoo, InitialWeightsHaveTheDeviationOfHe) {
  const Workload workload = build_workload("mlp", options_of({{"batch", "1"}}));
  const auto values = initial_values(workload, 1);
  const reference::Value kernel =
      reference::from_bytes(hlo::array_shape(ElementType::kF32, {784, 1024}), values[0]);
  double sum = 0, squares = 0;
  for (float number : kernel.numbers) {
    sum += static_cast<double>(number);
    squares += static_cast<double>(number) * static_cast<double>(number);
  }
  const double count = static_cast<double>(kernel.numbers.size());
  EXPECT_NEAR(sum / count, 0, 1e-3);
  EXPECT_NEAR(squares / count, 2.0 / 784, 0.01 * 2.0 / 784);
}

TEST(Zoo, MatmulAndConvHaveTheShapesAskedFor) {
  EXPECT_NE(
      hlo::to_string(
          build_workload("matmul", options_of({{"shape", "8x128x256"}, {"dtype", "bf16"}})).module)
          .find("ROOT %dot.2 = bf16[8,256] dot(%lhs, %rhs)"),
      std::string::npos);
  const std::vector<std::pair<std::string_view, std::string_view>> shape = {
      {"shape", "4x14x14x32x64"}, {"stride", "2"}, {"padding", "0_1x1_0"}, {"dtype", "f32"}};
  const auto text = [&](std::string_view pass) {
    WorkloadOptions options = options_of(shape);
    set_option(options, "pass", pass);
    return hlo::to_string(build_workload("conv", options).module);
  };
  EXPECT_NE(text("fwd").find("f32[4,7,7,64] convolution(%input, %kernel), window={size=3x3 "
                             "stride=2x2 pad=0_1x1_0}, dim_labels=b01f_01io->b01f"),
            std::string::npos);
  EXPECT_NE(text("dgrad").find("f32[4,14,14,32] convolution(%gradient, %kernel), window={size=3x3 "
                               "pad=2_1x1_2 lhs_dilate=2x2 rhs_reversal=1x1}, "
                               "dim_labels=b01f_01oi->b01f"),
            std::string::npos);
  EXPECT_NE(text("wgrad").find("f32[3,3,32,64] convolution(%input, %gradient), window={size=7x7 "
                               "pad=0_1x1_0 rhs_dilate=2x2}, dim_labels=f01b_i01o->01bf"),
            std::string::npos);
}

TEST(Zoo, ProductsAskForThePrecision) {
  const auto asking = [](const char* name, const char* precision) {
    const hlo::Module module =
        build_workload(name, options_of({{"batch", "2"}, {"precision", precision}})).module;
    const hlo::Computation& entry = module.entry_computation();
    return std::count_if(
        entry.instructions.begin(), entry.instructions.end(), [](const auto& each) {
          return each.raw_attributes.get() == "operand_precision={highest,highest}";
        });
  };
  EXPECT_EQ(asking("lenet", "highest"), 14);  // Two convolutions and three dots, and gradients.
  EXPECT_EQ(asking("lenet", "default"), 0);
  EXPECT_EQ(asking("mlp", "highest"), 8);
}

/// Whatever has the option fills the lanes with it: no product of layers has fewer features.
TEST(Zoo, FeaturesFillTheLanesWhereAsked) {
  int asked = 0;
  for (const WorkloadInfo& info : workload_list()) {
    const auto& options = info.options;
    if (std::find(options.begin(), options.end(), "feature_multiple") == options.end()) continue;
    ++asked;
    std::vector<std::pair<std::string_view, std::string_view>> given{{"feature_multiple", "128"}};
    if (std::find(options.begin(), options.end(), "batch") != options.end()) {
      given.emplace_back("batch", "8");
    }
    // The length of a sequence is no feature.
    if (std::find(options.begin(), options.end(), "sequence") != options.end()) {
      given.emplace_back("sequence", "128");
    }
    const auto most_narrow = [&info](const WorkloadOptions& with) {
      const hlo::Module module = build_workload(info.name, with).module;
      int narrow = 0;
      for (const hlo::HloInstruction& each : module.entry_computation().instructions) {
        const bool is_product =
            each.opcode == hlo::HloOpcode::kDot || each.opcode == hlo::HloOpcode::kConvolution;
        if (!is_product || each.shape.dimensions.back() % 128 == 0) continue;
        // Each block of BigGAN takes a class of 128 numbers with 20 of the noise.
        const bool is_condition = info.name == "biggan" && each.shape.dimensions.back() == 148;
        if (!is_condition) ++narrow;
      }
      return narrow;
    };
    // Classes, inputs and their gradients stay as they are.
    EXPECT_LE(most_narrow(options_of(given)), 3) << info.name;
  }
  EXPECT_EQ(asked, 11);
}

TEST(Zoo, ErrorsSayWhatIsAllowed) {
  EXPECT_EQ(error_of("vgg", WorkloadOptions()),
            "no workload \"vgg\" (there are: mlp, lenet, resnet50, transformer, bert, bert-large, "
            "roberta, fairseq-transformer, biggan, matmul, conv)");
  EXPECT_EQ(error_of("lenet", "shape", "1x2x3"),
            "workload lenet has no option shape (it has: batch, replicas, dtype, precision, "
            "learning_rate, feature_multiple)");
  EXPECT_EQ(error_of("mlp", "batch", "0"), "option batch: expected 1 to 1048576, found 0");
  EXPECT_EQ(error_of("resnet50", "batch", "1000000000000"),
            "option batch: expected 1 to 1048576, found 1000000000000");
  EXPECT_EQ(error_of("mlp", "batch", "99999999999999999999"),
            "option batch: expected a whole number, found \"99999999999999999999\"");
  EXPECT_EQ(error_of("mlp", "batch", "12 "),
            "option batch: expected a whole number, found \"12 \"");
  EXPECT_EQ(error_of("resnet50", "image", "-224"), "option image: expected 32 to 2048, found -224");
  EXPECT_EQ(error_of("resnet50", "image", "100"),
            "option image: expected a multiple of 32 from 32 to 2048, found 100");
  EXPECT_EQ(error_of("mlp", "dtype", "f16"), "option dtype: expected f32 or bf16, found \"f16\"");
  EXPECT_EQ(error_of("mlp", "precision", "fp32"),
            "option precision: expected default, high or highest, found \"fp32\"");
  EXPECT_EQ(error_of("mlp", "replicas", "0"), "option replicas: expected 1 to 2048, found 0");
  EXPECT_EQ(error_of("mlp", "learning_rate", "nan"),
            "option learning_rate: expected a number, found \"nan\"");
  EXPECT_EQ(error_of("transformer", "heads", "3"),
            "option heads: expected a divisor of the width 256, found 3");
  for (const char* shape : {"", "8", "8x8", "8x8x8x8", "8x8x", "axbxc", "0x8x8", "-1x8x8",
                            "8x8x99999999999", "8 x8x8"}) {
    EXPECT_EQ(error_of("matmul", "shape", shape),
              "option shape: expected MxKxN, each from 1 to 1073741824, found \"" +
                  std::string(shape) + "\"");
  }
  EXPECT_EQ(error_of("conv", "padding", "1_2_3"),
            "option padding: expected same, valid, a number, HEIGHTxWIDTH or LOW_HIGHxLOW_HIGH, "
            "found \"1_2_3\"");
  EXPECT_EQ(error_of("conv", "pass", "bwd"),
            "option pass: expected fwd, dgrad or wgrad, found \"bwd\"");
  EXPECT_EQ(error_of("conv", "kernel", "100"), "no error");
  EXPECT_EQ(error_of("conv", options_of({{"kernel", "100"}, {"padding", "valid"}})),
            "option kernel: expected at most the padded image, 56, found 100");
  EXPECT_EQ(error_of("conv", "kernel", "1000000000"),
            "option kernel: expected less than twice the image, 112, found 1000000000");
  EXPECT_EQ(error_of("conv", "stride", "1x1000000000"),
            "option stride: expected at most the image, 56, found 1000000000");
  EXPECT_EQ(
      error_of("mlp", "depth", "3").rfind("no workload option \"depth\" (there are: batch", 0), 0u);
}

TEST(Zoo, ShapesBeyondAnyMemoryAreRefusedWithoutOverflow) {
  const std::string error =
      error_of("conv", "shape", "1073741824x1073741824x1073741824x1073741824x8");
  EXPECT_NE(error.find("2^63"), std::string::npos) << error;
  EXPECT_EQ(error_of("matmul", "shape", "10000x100000x10000"), "no error");
}

}  // namespace
}  // namespace tpu::frontend::zoo_test
