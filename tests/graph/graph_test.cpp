#include "workloads/graph/graph.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "sim/base/error.h"
#include "workloads/frontend/zoo.h"
#include "workloads/graph/shape_inference.h"
#include "workloads/hlo/hlo_reader.h"

namespace tpu::hlo::graph_test {
namespace {

/// A module of one computation with these lines, the last of which is the root.
Module module_of(const std::string& body, const std::string& before = "") {
  return read_hlo_text("test", "HloModule test\n" + before + "\nENTRY main {\n" + body + "\n}\n");
}

std::string error_of(const Module& module) {
  try {
    verify(module);
  } catch (const WorkloadError& error) {
    return error.what();
  }
  return "no error";
}

std::string error_of(const std::string& body, const std::string& before = "") {
  return error_of(module_of(body, before));
}

std::int64_t root_flops(const std::string& body, const std::string& before = "") {
  const Module module = module_of(body, before);
  const Computation& entry = module.entry_computation();
  return flops(module, entry, entry.at(entry.root));
}

constexpr char kAdd[] =
    "add { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b) }\n";

TEST(Opcode, EveryNameIsFoundAgain) {
  for (int i = 0; i < static_cast<int>(HloOpcode::kCount); ++i) {
    const HloOpcode opcode = static_cast<HloOpcode>(i);
    EXPECT_EQ(hlo_opcode(to_string(opcode)), opcode);
  }
}

TEST(Opcode, OldSpellingsAreFoundToo) {
  EXPECT_EQ(hlo_opcode("cross-replica-sum"), HloOpcode::kAllReduce);
  EXPECT_EQ(hlo_opcode("optimization-barrier"), HloOpcode::kOptimizationBarrier);
  EXPECT_EQ(to_string(HloOpcode::kOptimizationBarrier), "opt-barrier");
  EXPECT_EQ(hlo_opcode("add "), HloOpcode::kCount);
  EXPECT_EQ(hlo_opcode(""), HloOpcode::kCount);
}

TEST(Opcode, ElementwiseOnesAreThoseThatComputeElementByElement) {
  for (HloOpcode opcode :
       {HloOpcode::kAdd, HloOpcode::kSelect, HloOpcode::kCompare, HloOpcode::kConvert,
        HloOpcode::kAtan2, HloOpcode::kClamp, HloOpcode::kBitcastConvert}) {
    EXPECT_TRUE(is_elementwise(opcode)) << to_string(opcode);
  }
  for (HloOpcode opcode : {HloOpcode::kDot, HloOpcode::kReduce, HloOpcode::kBroadcast,
                           HloOpcode::kCopy, HloOpcode::kTuple, HloOpcode::kIota}) {
    EXPECT_FALSE(is_elementwise(opcode)) << to_string(opcode);
  }
}

TEST(Graph, ParametersComeInTheOrderOfTheirNumbers) {
  const Module module =
      module_of("  y = f32[] parameter(1)\n  x = f32[] parameter(0)\n  ROOT z = f32[] add(x, y)");
  const Computation& entry = module.entry_computation();
  ASSERT_EQ(entry.parameters().size(), 2u);
  EXPECT_EQ(entry.at(entry.parameters()[0]).name, "x");
  EXPECT_EQ(entry.at(entry.parameters()[1]).name, "y");
}

TEST(Flops, OfADotAreTwoPerMultiplyAdd) {
  EXPECT_EQ(root_flops("  a = f32[3,4,5] parameter(0)\n  b = f32[3,5,7] parameter(1)\n"
                       "  ROOT c = f32[3,4,7] dot(a, b), lhs_batch_dims={0}, rhs_batch_dims={0}, "
                       "lhs_contracting_dims={2}, rhs_contracting_dims={1}"),
            2 * 3 * 4 * 5 * 7);
}

TEST(Flops, OfAConvolutionLeaveOutPaddingAndDilationZeros) {
  // Padded by 1 at both ends, the first and the last of 5 outputs read 2 of 3 elements.
  EXPECT_EQ(root_flops("  x = f32[2,5,5,3] parameter(0)\n  k = f32[3,3,3,4] parameter(1)\n"
                       "  ROOT y = f32[2,5,5,4] convolution(x, k), window={size=3x3 "
                       "pad=1_1x1_1}, dim_labels=b01f_01io->b01f"),
            2 * 2 * 4 * 3 * 13 * 13);
  // Its input gradient with stride 2: of each dimension's 11 positions the odd ones are zeros. Each
  // of the 5 outputs of the forward pass and each of the 3 window places meet once.
  EXPECT_EQ(root_flops("  g = f32[1,5,5,4] parameter(0)\n  k = f32[3,3,3,4] parameter(1)\n"
                       "  ROOT y = f32[1,11,11,3] convolution(g, k), window={size=3x3 "
                       "pad=2_2x2_2 lhs_dilate=2x2 rhs_reversal=1x1}, dim_labels=b01f_01oi->b01f"),
            2 * 4 * 3 * 15 * 15);
  // Groups: each output sees its own group's features.
  EXPECT_EQ(root_flops("  x = f32[1,5,5,6] parameter(0)\n  k = f32[1,1,2,9] parameter(1)\n"
                       "  ROOT y = f32[1,5,5,9] convolution(x, k), window={size=1x1}, "
                       "dim_labels=b01f_01io->b01f, feature_group_count=3"),
            2 * 25 * 9 * 2);
}

TEST(Flops, ForwardAndBothGradientsOfAConvolutionAreEqual) {
  const auto of = [](const char* pass) {
    frontend::WorkloadOptions options;
    set_option(options, "shape", "4x13x10x8x16");
    set_option(options, "kernel", "3x2");
    set_option(options, "stride", "2x3");
    set_option(options, "padding", "2_1x0_1");
    set_option(options, "pass", pass);
    return matmul_flops(frontend::build_workload("conv", options).module);
  };
  EXPECT_GT(of("fwd"), 0);
  EXPECT_EQ(of("dgrad"), of("fwd"));
  EXPECT_EQ(of("wgrad"), of("fwd"));
}

TEST(Flops, OfElementwiseOperationsAndReductionsAreOnePerElement) {
  EXPECT_EQ(root_flops("  a = f32[3,4] parameter(0)\n  ROOT b = f32[3,4] tanh(a)"), 12);
  EXPECT_EQ(root_flops("  a = f32[3,4] parameter(0)\n  ROOT b = bf16[3,4] convert(a)"), 0);
  EXPECT_EQ(root_flops("  a = f32[3,4] parameter(0)\n  z = f32[] constant(0)\n  ROOT b = f32[4] "
                       "reduce(a, z), dimensions={0}, to_apply=add",
                       kAdd),
            12);
  EXPECT_EQ(root_flops("  a = f32[6] parameter(0)\n  z = f32[] constant(0)\n  ROOT b = f32[3] "
                       "reduce-window(a, z), window={size=2 stride=2}, to_apply=add",
                       kAdd),
            6);
}

TEST(Flops, OfACallAreThoseOfItsComputationAndALoopIsMultipliedByItsTripCount) {
  const std::string body =
      "square { p = f32[4,4] parameter(0)\n ROOT d = f32[4,4] dot(p, p), "
      "lhs_contracting_dims={1}, rhs_contracting_dims={0} }\n"
      "forever { q = f32[4,4] parameter(0)\n ROOT t = pred[] constant(true) }\n";
  EXPECT_EQ(
      root_flops("  x = f32[4,4] parameter(0)\n  ROOT c = f32[4,4] call(x), to_apply=square", body),
      128);
  const Module module = module_of(
      "  x = f32[4,4] parameter(0)\n  ROOT w = f32[4,4] while(x), condition=forever, body=square, "
      "backend_config={\"known_trip_count\":{\"n\":\"5\"}}",
      body);
  EXPECT_EQ(matmul_flops(module), 5 * 128);
}

TEST(Verify, TheZooIsValid) {
  for (const frontend::WorkloadInfo& info : frontend::workload_list()) {
    EXPECT_EQ(error_of(frontend::build_workload(info.name).module), "no error") << info.name;
  }
}

TEST(Verify, ErrorsNameTheInstructionAndWhatWasExpected) {
  EXPECT_EQ(error_of("  a = f32[2] parameter(0)\n  b = f32[3] parameter(1)\n  ROOT c = f32[2] "
                     "add(a, b)"),
            "instruction \"c\" (add) of computation \"main\": expected two operands of one shape, "
            "found f32[2] and f32[3]");
  EXPECT_EQ(
      error_of("  a = f32[2,3] parameter(0)\n  b = f32[4,5] parameter(1)\n  ROOT c = "
               "f32[2,5] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
      "instruction \"c\" (dot) of computation \"main\": expected equal extents in dimension 1 "
      "of f32[2,3] and dimension 0 of f32[4,5]");
  EXPECT_EQ(error_of("  a = f32[2,3] parameter(0)\n  ROOT c = f32[3,3] transpose(a), "
                     "dimensions={1,0}"),
            "instruction \"c\" (transpose) of computation \"main\": expected f32[3,2], which its "
            "operands imply, found f32[3,3]");
  EXPECT_EQ(error_of("  a = f32[2,3] parameter(0)\n  ROOT c = f32[7] reshape(a)"),
            "instruction \"c\" (reshape) of computation \"main\": expected as many elements as the "
            "operand f32[2,3] has (6), found f32[7]");
  EXPECT_EQ(error_of("  a = f32[5] parameter(0)\n  ROOT c = f32[3] slice(a), slice={[3:6]}"),
            "instruction \"c\" (slice) of computation \"main\": expected a slice within f32[5], "
            "found [3:6:1] in dimension 0");
  EXPECT_EQ(
      error_of("  a = f32[5] parameter(1)\n  ROOT c = f32[5] tanh(a)"),
      "instruction \"a\" (parameter) of computation \"main\": expected parameter numbers 0 to "
      "0 once each, found 1 in the place of 0");
}

TEST(Verify, EachKindOfOperationHasItsChecks) {
  const std::vector<std::pair<const char*, const char*>> cases = {
      {"  a = f32[2] parameter(0)\n  ROOT c = f32[3,2] broadcast(a), dimensions={0}",
       "expected dimension 0 of the result f32[3,2] to equal dimension 0 of the operand f32[2]"},
      {"  a = f32[2] parameter(0)\n  ROOT c = f32[3,2] broadcast(a), dimensions={5}",
       "expected broadcast dimensions below the rank 2, found 5"},
      {"  a = f32[2,2] parameter(0)\n  ROOT c = f32[2,2] transpose(a), dimensions={0,0}",
       "expected dimensions that differ, found {0,0}"},
      {"  a = f32[2,2] parameter(0)\n  b = f32[3,3] parameter(1)\n  ROOT c = f32[5,2] "
       "concatenate(a, b), dimensions={0}",
       "expected operands that differ in dimension 0 only"},
      {"  a = f32[2] parameter(0)\n  z = f32[] constant(0)\n  ROOT c = f32[] pad(a, z), "
       "padding=-3_0",
       "expected padding that leaves dimension 0 no negative size, found size -1"},
      {"  a = f32[2] parameter(0)\n  z = f32[] constant(0)\n  ROOT c = f32[2] reduce(a, z), "
       "dimensions={1}, to_apply=add",
       "expected dimensions below the rank 1, found 1"},
      {"  a = f32[2,5,5,3] parameter(0)\n  k = f32[3,3,4,4] parameter(1)\n  ROOT c = f32[2,3,3,4] "
       "convolution(a, k), window={size=3x3}, dim_labels=b01f_01io->b01f",
       "expected 3 input features of the kernel"},
      {"  a = f32[2,5,5,3] parameter(0)\n  k = f32[3,3,3,4] parameter(1)\n  ROOT c = f32[2,3,3,4] "
       "convolution(a, k), window={size=2x3}, dim_labels=b01f_01io->b01f",
       "expected a window of the kernel's size 3 in spatial dimension 0, found 2"},
      {"  a = f32[2,5,5,3] parameter(0)\n  k = f32[3,3,3,4] parameter(1)\n  ROOT c = f32[2,3,3,4] "
       "convolution(a, k), window={size=3x3 stride=0x1}, dim_labels=b01f_01io->b01f",
       "expected window sizes, strides and dilations from 1 to 2^31, found 0"},
      {"  t = (f32[2], f32[3]) parameter(0)\n  ROOT c = f32[2] get-tuple-element(t), index=2",
       "expected an index below the rank 2, found 2"},
      {"  t = (f32[2], f32[3]) parameter(0)\n  ROOT c = (f32[2], f32[3]) tanh(t)",
       "expected an array as operand 0, found (f32[2], f32[3])"},
      {"  a = f32[2] parameter(0)\n  p = f32[2] parameter(1)\n  ROOT c = f32[2] select(p, a, a)",
       "expected a pred and two values of the same dimensions"},
      {"  a = f32[2] parameter(0)\n  ROOT c = f32[2] call(a), to_apply=add",
       "expected 2 operands, found 1"},
      {"  a = f32[4] parameter(0)\n  i = s32[] parameter(1)\n  ROOT c = f32[5] dynamic-slice(a, "
       "i), "
       "dynamic_slice_sizes={5}",
       "expected sizes within f32[4], found {5}"},
      {"  a = f32[4,2] parameter(0)\n  i = s32[3] parameter(1)\n  ROOT c = f32[3,2] gather(a, i), "
       "offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0,1}, index_vector_dim=1, "
       "slice_sizes={1,2}",
       "expected 1 entries of start_index_map, found 2"},
      {"  ROOT c = s32[3] iota(), iota_dimension=1", "expected one iota_dimension within s32[3]"},
  };
  for (const auto& [body, expected] : cases) {
    const std::string error = error_of(body, kAdd);
    EXPECT_NE(error.find(expected), std::string::npos) << body << "\n" << error;
  }
}

TEST(Verify, BrokenModulesAreRefused) {
  const auto valid = [] {
    return module_of("  a = f32[2] parameter(0)\n  b = f32[2] tanh(a)\n  ROOT c = f32[2] tanh(b)");
  };
  Module module = valid();
  module.entry_computation().at(1).operands = {2};
  EXPECT_NE(error_of(module).find("expected operands that stand before it, found number 2"),
            std::string::npos);
  module = valid();
  module.entry_computation().root = 3;
  EXPECT_NE(error_of(module).find("expected a root among 3 instructions"), std::string::npos);
  module = valid();
  module.entry = 1;
  EXPECT_NE(error_of(module).find("expected an entry computation among 1"), std::string::npos);
  module = valid();
  module.entry_computation().at(2).name = "a";
  EXPECT_NE(error_of(module).find("expected a name that no other instruction has"),
            std::string::npos);
  module = valid();
  module.aliases = {{0, 1}};
  EXPECT_NE(error_of(module).find("expected an alias of one of 1 outputs with one of 1 parameters"),
            std::string::npos);
  module = valid();
  module.infeed_parameters = {1};
  EXPECT_NE(error_of(module).find("expected infeed parameters among 1, found number 1"),
            std::string::npos);
  module = valid();
  module.entry_computation().at(0).shape.dimensions = {-2};
  EXPECT_NE(error_of(module).find("expected dimensions of at least 0"), std::string::npos);
}

TEST(Verify, RecursionIsRefused) {
  Module module = module_of("  x = f32[2] parameter(0)\n  ROOT c = f32[2] call(x), to_apply=inner",
                            "inner { p = f32[2] parameter(0)\n ROOT t = f32[2] tanh(p) }\n");
  for (Computation& computation : module.computations) {
    HloInstruction& root = computation.at(computation.root);
    root.opcode = HloOpcode::kCall;
    root.called = {module.entry};
  }
  EXPECT_NE(error_of(module).find("expected calls without recursion"), std::string::npos);
}

TEST(ModuleText, OfTheZooReadsBackAsTheSameText) {
  for (const frontend::WorkloadInfo& info : frontend::workload_list()) {
    frontend::WorkloadOptions options;
    if (info.name == "transformer") options.replicas = 4;
    const Module module = frontend::build_workload(info.name, options).module;
    const std::string text = to_string(module);
    const Module again = read_hlo_text(info.name, text);
    EXPECT_EQ(again.examples_per_step, module.examples_per_step);
    EXPECT_EQ(again.infeed_parameters, module.infeed_parameters);
    EXPECT_TRUE(to_string(again) == text) << info.name;
    EXPECT_EQ(again.replicas, module.replicas);
    EXPECT_EQ(matmul_flops(again), matmul_flops(module));
  }
}

TEST(ModuleText, NumbersInTheFrontendsAttributesMustBeNumbers) {
  const auto read = [](const std::string& attributes) {
    return read_hlo_text("test", "HloModule m, frontend_attributes={" + attributes +
                                     "}\nENTRY e {\n  ROOT x = f32[] parameter(0)\n}\n");
  };
  EXPECT_EQ(read("other=\"thing\",examples_per_step=\"12\"").examples_per_step, 12);
  EXPECT_THROW(read("examples_per_step=\"12x\""), WorkloadError);
  EXPECT_THROW(read("infeed_parameters=\"1,,2\""), WorkloadError);
}

TEST(ModuleText, EveryAttributeReadsBack) {
  const std::string lines =
      "  a = f32[2,3]{1,0:T(8,128)} parameter(0), metadata={op_type=\"x\" op_name=\"n/a\\\"b\" "
      "source_file=\"f.py\" source_line=3}\n"
      "  i = s32[] parameter(1)\n"
      "  z = f32[] constant(-0.1)\n"
      "  l = bf16[2,2] constant({{1, inf}, {-inf, 0.3}})\n"
      "  p = pred[2] constant({1, 0})\n"
      "  s = f32[1,2] slice(a), slice={[0:1], [0:3:2]}\n"
      "  d = f32[4,6] pad(a, z), padding=1_0_1x-1_4\n"
      "  y = f32[1,3] dynamic-slice(a, i, i), dynamic_slice_sizes={1,3}\n"
      "  r = f32[2] reduce(a, z), dimensions={1}, to_apply=add\n"
      "  w = f32[2,2] reduce-window(a, z), window={size=1x3 stride=1x2 pad=0_0x1_1}, to_apply=add\n"
      "  q = f32[2,3] all-reduce(a), replica_groups={{0,1},{2,3}}, to_apply=add\n"
      "  o = (f32[2,3], f32[2,3]) sort(a, q), dimensions={0}, to_apply=less\n"
      "  c = f32[2,3] custom-call(a), custom_call_target=\"thing\"\n"
      "  u = pred[2,3] compare(a, c), direction=LE, control-predecessors={r}\n"
      "  ROOT t = (f32[1,2], f32[2]) tuple(s, r)";
  const std::string before =
      std::string(kAdd) +
      "less { e = f32[] parameter(0)\n f = f32[] parameter(1)\n g = f32[] parameter(2)\n h = f32[] "
      "parameter(3)\n ROOT k = pred[] compare(e, f), direction=LT }\n";
  const std::string text = to_string(module_of(lines, before));
  EXPECT_EQ(to_string(read_hlo_text("again", text)), text);
  for (const char* part :
       {"constant(-0.1)", "constant({{1, inf}, {-inf, 0.3", "constant({1, 0})",
        "slice={[0:1:1], [0:3:2]}", "padding=1_0_1x-1_4_0",
        "window={size=1x3 stride=1x2 pad=0_0x1_1}", "replica_groups={{0,1},{2,3}}",
        "direction=LE, control-predecessors={%r}", "custom_call_target=\"thing\"", "{1,0:T(8,128)}",
        "source_file=\"f.py\" source_line=3"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
}

TEST(ModuleText, TrainingStepsOfOthersVerifyAndReadBack) {
  const std::filesystem::path folder = TPUSIM_SOURCE_DIR "/../shared/hlo/train";
  if (!std::filesystem::is_directory(folder)) GTEST_SKIP() << "no reference modules here";
  for (const char* name : {"resnet50_b32", "imagenette", "vit"}) {
    const Module module = read_hlo_file((folder / name).string() + ".hlo.gz");
    EXPECT_EQ(error_of(module), "no error") << name;
    const std::string text = to_string(module);
    const Module again = read_hlo_text(name, text);
    EXPECT_TRUE(to_string(again) == text) << name;
    EXPECT_GT(matmul_flops(again), 0);
  }
}

TEST(WindowOutput, FollowsTheFormula) {
  WindowDimension window;
  window.size = 3;
  window.stride = 2;
  window.padding_low = window.padding_high = 1;
  EXPECT_EQ(window_output_extent(56, window), 28);
  EXPECT_EQ(window_output_extent(55, window), 28);
  window.window_dilation = 2;
  EXPECT_EQ(window_output_extent(3, window), 1);
  EXPECT_EQ(window_output_extent(2, window), 0);
  window.base_dilation = 3;
  EXPECT_EQ(window_output_extent(4, window), 4);
  EXPECT_EQ(window_output_extent(0, window), 0);
}

}  // namespace
}  // namespace tpu::hlo::graph_test
