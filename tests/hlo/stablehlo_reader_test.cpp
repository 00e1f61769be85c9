#include "workloads/hlo/stablehlo_reader.h"

#include <gtest/gtest.h>

#include <random>

#include "sim/base/error.h"
#include "workloads/hlo/annotations.h"
#include "workloads/hlo/chlo_functions.h"
#include "workloads/hlo/hlo_reader.h"

namespace tpu::hlo::stablehlo_reader_test {
namespace {

const char kModule[] =
    R"(#loc1 = loc("model.py":12:4 to :8)
module @jit_f attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<2x6x6x3xf32> loc("x"), %arg1: tensor<3x3x3x8xf32> {tf.aliasing_output = 1 : i32}, %arg2: tensor<i32>) -> (tensor<2x3x6x8xf32> {jax.result_info = "result[0]"}, tensor<3x3x3x8xf32>) {
    %0 = stablehlo.convolution(%arg0, %arg1) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [2, 1], pad = [[0, 1], [1, 1]], reverse = [false, true]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision DEFAULT>]} : (tensor<2x6x6x3xf32>, tensor<3x3x3x8xf32>) -> tensor<2x3x6x8xf32> loc(#loc2)
    %cst = stablehlo.constant dense<[0x7F800000, -1.5, 2.000000e+00]> : tensor<3xf32>
    %c = stablehlo.constant dense<2> : tensor<i32>
    %1:2 = stablehlo.while(%iterArg = %cst, %iterArg_0 = %arg2) : tensor<3xf32>, tensor<i32>
    cond {
      %4 = stablehlo.compare LT, %iterArg_0, %c, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %4 : tensor<i1>
    } do {
      %4 = stablehlo.add %iterArg_0, %c : tensor<i32>
      %5 = stablehlo.slice %iterArg [0:3:2] : (tensor<3xf32>) -> tensor<2xf32>
      %6 = stablehlo.reduce(%5 init: %cst_1) applies stablehlo.maximum across dimensions = [0] : (tensor<2xf32>, tensor<f32>) -> tensor<f32>
      stablehlo.return %iterArg, %4 : tensor<3xf32>, tensor<i32>
    }
    %cst_1 = stablehlo.constant dense<0.5> : tensor<f32>
    %2 = call @scaled(%arg1, %cst_1) : (tensor<3x3x3x8xf32>, tensor<f32>) -> tensor<3x3x3x8xf32>
    return %0, %2 : tensor<2x3x6x8xf32>, tensor<3x3x3x8xf32>
  }
  func.func private @scaled(%arg0: tensor<3x3x3x8xf32>, %arg1: tensor<f32>) -> tensor<3x3x3x8xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<f32>) -> tensor<3x3x3x8xf32>
    %1 = stablehlo.multiply %arg0, %0 : tensor<3x3x3x8xf32>
    return %1 : tensor<3x3x3x8xf32>
  }
}
#loc2 = loc("jit(f)/conv"(#loc1))
)";

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

/// The module above with its constant in front of the loop that reads it.
std::string whole() {
  const std::string line = "    %cst_1 = stablehlo.constant dense<0.5> : tensor<f32>\n";
  std::string text = replaced(kModule, line, "");
  return text.insert(text.find("    %1:2 = "), line);
}

std::string error_of(const std::string& text) {
  try {
    verify(read_hlo("m.mlir", text));
  } catch (const WorkloadError& error) {
    return error.what();
  }
  return "no error";
}

/// A module whose main is the lines.
std::string main_of(const std::string& arguments, const std::string& lines) {
  return "module {\n  func.func @main(" + arguments + ") -> tensor<4xf32> {\n" + lines + "  }\n}\n";
}

TEST(StablehloReader, ReadsAttributesAliasesLoopsCallsAndSourceLines) {
  const Module module = read_stablehlo_text("m.mlir", whole());
  verify(module);
  EXPECT_EQ(module.name, "jit_f");
  ASSERT_EQ(module.aliases.size(), 1U);
  EXPECT_EQ(module.aliases[0].output_index, 1);
  EXPECT_EQ(module.aliases[0].parameter_number, 1);
  const Computation& entry = module.entry_computation();
  const HloInstruction& result = entry.at(entry.root);
  const HloInstruction& convolution = entry.at(result.operands[0]);
  ASSERT_EQ(convolution.opcode, HloOpcode::kConvolution);
  ASSERT_EQ(convolution.window.size(), 2U);
  EXPECT_EQ(convolution.window[0].stride, 2);
  EXPECT_EQ(convolution.window[0].padding_low, 0);
  EXPECT_EQ(convolution.window[0].padding_high, 1);
  EXPECT_TRUE(convolution.window[1].reversal);
  EXPECT_EQ(convolution.raw_attributes.get(), "operand_precision={highest,default}");
  EXPECT_EQ(convolution.metadata.op_name.get(), "jit(f)/conv");
  EXPECT_EQ(source_of(module, convolution.metadata), "model.py:12");
  EXPECT_EQ(entry.at(entry.parameters()[0]).metadata.op_name.get(), "x");
  const HloInstruction& call = entry.at(result.operands[1]);
  ASSERT_EQ(call.opcode, HloOpcode::kCall);
  EXPECT_EQ(module.computation(call.called[0]).name, "scaled");
}

/// What nothing reads is gone; what both regions read from outside is one element of the tuple,
/// behind what the body hands on.
TEST(StablehloReader, ValuesFromOutsideALoopAreElementsOfItsTuple) {
  const std::string text = main_of("%a: tensor<4xf32>, %n: tensor<i32>",
                                   R"(    %one = stablehlo.constant dense<1> : tensor<i32>
    %0:2 = stablehlo.while(%x = %a, %i = %n) : tensor<4xf32>, tensor<i32>
    cond {
      %1 = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    } do {
      %1 = stablehlo.add %i, %one : tensor<i32>
      %2 = stablehlo.add %1, %n : tensor<i32>
      stablehlo.return %x, %2 : tensor<4xf32>, tensor<i32>
    }
    return %0#0 : tensor<4xf32>
)");
  const Module module = read_stablehlo_text("m.mlir", text);
  verify(module);
  const Computation& entry = module.entry_computation();
  const HloInstruction& element = entry.at(entry.root);
  ASSERT_EQ(element.opcode, HloOpcode::kGetTupleElement);
  EXPECT_EQ(element.tuple_index, 1);
  const HloInstruction& loop = entry.at(element.operands[0]);
  EXPECT_EQ(to_string(loop.shape, false), "(s32[], f32[4], s32[], s32[])");
  const Computation& body = module.computation(loop.called[0]);
  const std::vector<InstructionId>& returned = body.at(body.root).operands;
  ASSERT_EQ(returned.size(), 4U);
  EXPECT_EQ(body.at(returned[0]).opcode, HloOpcode::kAdd);
  for (std::size_t i : {1, 2, 3}) {
    EXPECT_EQ(body.at(returned[i]).tuple_index, static_cast<std::int64_t>(i));
  }
}

TEST(StablehloReader, ConstantsInAllForms) {
  const auto literal = [](const std::string& value, const std::string& type) {
    const Module module = read_stablehlo_text(
        "m.mlir", "func.func @main() -> tensor<" + type + "> {\n %0 = stablehlo.constant dense<" +
                      value + "> : tensor<" + type + ">\n return %0 : tensor<" + type + ">\n}\n");
    const Computation& entry = module.entry_computation();
    return entry.at(entry.root).literal;
  };
  using Bytes = std::vector<std::uint8_t>;
  EXPECT_EQ(literal("[[1, -2], [3, 4]]", "2x2xi8"), (Bytes{1, 0xfe, 3, 4}));
  EXPECT_EQ(literal("\"0x01FE0304\"", "2x2xui8"), (Bytes{1, 0xfe, 3, 4}));
  EXPECT_EQ(literal("0xFF800000", "f32"), (Bytes{0, 0, 0x80, 0xff}));
  EXPECT_EQ(literal("true", "3xi1"), (Bytes{1, 1, 1}));
  EXPECT_EQ(literal("[false, true]", "2xi1"), (Bytes{0, 1}));
  EXPECT_EQ(literal("1.5", "2xbf16"), (Bytes{0xc0, 0x3f, 0xc0, 0x3f}));
  EXPECT_EQ(literal("(1.0, 0xBF800000)", "complex<f32>"),
            (Bytes{0, 0, 0x80, 0x3f, 0, 0, 0x80, 0xbf}));
  EXPECT_EQ(literal("", "0xf32"), Bytes{});
}

TEST(StablehloReader, ErrorsSayWhereAndWhatWasExpected) {
  const auto has = [](const std::string& text, const std::string& what) {
    EXPECT_NE(error_of(text).find(what), std::string::npos) << error_of(text);
  };
  has(kModule, "m.mlir:14:39: expected a value that is defined above, found \"cst_1)");
  has(replaced(whole(), "stablehlo.multiply", "stablehlo.multiplied"),
      ": expected an operation of StableHLO that is read here");
  has(replaced(whole(), "stablehlo.multiply", "arith.mulf"),
      ": expected an operation of StableHLO, CHLO or func; other dialects are read as HLO");
  has(replaced(whole(), "@scaled(%arg1", "@scale(%arg1"), ": expected a function of this module");
  has(replaced(whole(), "\"model.py\":12:4", "\"model.py\":-1:4"),
      ": expected a line, a whole number, found \"-1");
  has(replaced(whole(), "num_partitions = 1", "num_partitions = 8"),
      "m.mlir:2:49: expected a mesh of Shardy (sdy.mesh) in a module of several partitions");
  has(replaced(whole(), "tensor<i32>) ->", "tensor<?xi32>) ->"),
      ": expected the extent of each dimension");
  has(replaced(whole(), "tensor<i32>) ->", "tensor<4xindex>) ->"),
      ": expected an element type that HLO has, found \"index");
  has(replaced(whole(), "pad = [[0, 1], [1, 1]]", "pad = [[0, 1]]"), ": expected 4 numbers");
  has(replaced(whole(), "stride = [2, 1]", "stride = [2, 1, 1]"), ": expected 2 numbers");
  has(replaced(whole(), "%2 = call @scaled(%arg1", "%2 = call @scaled(%1#2"),
      ": expected a value that is defined above, found \"1");
  has(replaced(whole(), "stablehlo.return %4 ", "%9 = stablehlo.negate %4 "),
      ": expected a region that ends with return");
  has(replaced(whole(), "@main", "@step"), ": expected a function @main");
  has(replaced(whole(), "call @scaled", "call @main"), "expected a call with the arguments");
  has(replaced(whole(), "%1 = stablehlo.multiply %arg0, %0 :",
               "%1 = call @scaled(%arg0, %arg1) : (tensor<3x3x3x8xf32>, tensor<f32>) ->"),
      "function scaled calls itself");
  has(std::string("ML\xefR\x01\x02", 6), "python -m tpusim_capture FILE -o FOLDER");
}

/// The text as HLO of a main with these arguments, one operation and its type.
std::string hlo_of(const std::string& arguments, const std::string& operation,
                   const std::string& result) {
  const Module module =
      read_stablehlo_text("m.mlir", "func.func @main(" + arguments + ") -> tensor<" + result +
                                        "> {\n  %0 = " + operation + " -> tensor<" + result +
                                        ">\n  return %0 : tensor<" + result + ">\n}\n");
  verify(module);
  return to_string(module);
}

TEST(StablehloReader, AttributesAreThoseOfHlo) {
  const auto has = [](const std::string& text, const std::string& what) {
    EXPECT_NE(text.find(what), std::string::npos) << text;
  };
  const std::string matrices = "%a: tensor<2x3xf32>, %b: tensor<3x4xf32>";
  has(hlo_of(matrices, "stablehlo.dot %a, %b : (tensor<2x3xf32>, tensor<3x4xf32>)", "2x4xf32"),
      "lhs_contracting_dims={1}, rhs_contracting_dims={0}");
  has(hlo_of("%a: tensor<4x5x5x2xf32>, %b: tensor<3x3x2x6xf32>",
             "stablehlo.convolution(%a, %b) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], "
             "window = "
             "{lhs_dilate = [1, 2], rhs_dilate = [2, 1]} {batch_group_count = 2 : i64, "
             "feature_group_count = 1 : i64} : (tensor<4x5x5x2xf32>, tensor<3x3x2x6xf32>)",
             "2x1x7x6xf32"),
      "window={size=3x3 lhs_dilate=1x2 rhs_dilate=2x1}, dim_labels=b01f_01io->b01f, "
      "batch_group_count=2");
  // A dimension of one that becomes two is repeated, one of two is not.
  const std::string repeated =
      hlo_of("%a: tensor<1x2xf32>",
             "stablehlo.broadcast_in_dim %a, dims = [0, 2] : (tensor<1x2xf32>)", "2x5x2xf32");
  has(repeated, "f32[2] reshape(");
  has(repeated, "f32[2,5,2] broadcast(%reshape.2), dimensions={2}");
  has(hlo_of("%a: tensor<2x3xf32>",
             "\"stablehlo.transpose\"(%a) {permutation = array<i64:1,0>} : (tensor<2x3xf32>)",
             "3x2xf32"),
      "dimensions={1,0}");
}

TEST(StablehloReader, AttributesOfWindowsPrecisionAndOrder) {
  const auto has = [](const std::string& text, const std::string& what) {
    EXPECT_NE(text.find(what), std::string::npos) << text;
  };
  has(hlo_of(
          "%a: tensor<9x9xf32>, %z: tensor<f32>",
          R"("stablehlo.reduce_window"(%a, %z) <{window_dimensions = array<i64: 2, 3>, window_strides = array<i64: 1, 2>, base_dilations = array<i64: 1, 2>, window_dilations = array<i64: 3, 1>, padding = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>}> ({
    ^bb0(%x: tensor<f32>, %y: tensor<f32>):
      %s = stablehlo.add %x, %y : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<9x9xf32>, tensor<f32>))",
          "7x10xf32"),
      "window={size=2x3 stride=1x2 pad=0_1x2_3 lhs_dilate=1x2 rhs_dilate=3x1}");
  for (const char* format : {"\"stablehlo.reduce_precision\"(%a) {exponent_bits = 5 : i32, "
                             "mantissa_bits = 10 : i32} : (tensor<4xf32>)",
                             "stablehlo.reduce_precision %a, format = e5m10 : (tensor<4xf32>)"}) {
    has(hlo_of("%a: tensor<4xf32>", format, "4xf32"), "exponent_bits=5, mantissa_bits=10");
  }
  const std::string both = "%a: tensor<4xf32>, %b: tensor<4xf32>";
  const std::string types = " : (tensor<4xf32>, tensor<4xf32>)";
  has(hlo_of(both, "stablehlo.compare LT, %a, %b, TOTALORDER" + types, "4xi1"),
      "direction=LT, type=TOTALORDER");
  EXPECT_EQ(hlo_of(both, "stablehlo.compare GE, %a, %b, FLOAT" + types, "4xi1").find("type="),
            std::string::npos);
}

/// As jax.nn.dot_product_attention and jax.lax.dot(precision=DotAlgorithmPreset) print them.
TEST(StablehloReader, AlgorithmsOfDotsHaveTheirNamesInHlo) {
  const auto dot = [](const std::string& lhs, const std::string& rhs, const std::string& sums,
                      const std::string& products, bool generic) {
    const std::string algorithm =
        "<lhs_precision_type = " + lhs + ", rhs_precision_type = " + rhs +
        ", accumulation_type = " + sums + ", lhs_component_count = 1, rhs_component_count = 1" +
        ", num_primitive_operations = " + products + ", allow_imprecise_accumulation = false>";
    const std::string types = " : (tensor<4x4xf32>, tensor<4x4xf32>)";
    return hlo_of("%a: tensor<4x4xf32>, %b: tensor<4x4xf32>",
                  generic ? "\"stablehlo.dot_general\"(%a, %b) <{algorithm = "
                            "#stablehlo.dot_algorithm" +
                                algorithm +
                                ", dot_dimension_numbers = #stablehlo.dot<"
                                "lhs_contracting_dimensions = [1], "
                                "rhs_contracting_dimensions = [0]>}>" +
                                types
                          : "stablehlo.dot_general %a, %b, contracting_dims = [1] x [0], "
                            "precision = [DEFAULT, DEFAULT], algorithm = " +
                                algorithm + types,
                  "4x4xf32");
  };
  const auto has = [](const std::string& text, const std::string& what) {
    EXPECT_NE(text.find(what + "\n"), std::string::npos) << text;
  };
  for (const bool generic : {false, true}) {
    has(dot("bf16", "bf16", "f32", "1", generic), "algorithm=dot_bf16_bf16_f32");
    has(dot("bf16", "bf16", "f32", "6", generic), "algorithm=dot_bf16_bf16_f32_x6");
    has(dot("tf32", "tf32", "f32", "3", generic), "algorithm=dot_tf32_tf32_f32_x3");
    has(dot("f8E4M3FN", "f8E5M2", "f32", "1", generic), "algorithm=dot_any_f8_any_f8_f32");
  }
  try {
    dot("bf16", "f32", "f32", "1", false);
    FAIL();
  } catch (const WorkloadError& error) {
    EXPECT_NE(std::string(error.what()).find("that XLA has, not dot_bf16_f32_f32"),
              std::string::npos)
        << error.what();
  }
}

TEST(StablehloReader, BarriersHoldOneValueOrATuple) {
  const auto read = [](const std::string& lines) {
    const Module module = read_stablehlo_text("m.mlir", main_of("%a: tensor<4xf32>", lines));
    verify(module);
    return to_string(module);
  };
  const std::string one = read(
      "    %0 = stablehlo.optimization_barrier %a : tensor<4xf32>\n"
      "    return %0 : tensor<4xf32>\n");
  EXPECT_NE(one.find("f32[4] opt-barrier("), std::string::npos) << one;
  EXPECT_EQ(one.find("tuple"), std::string::npos) << one;
  const std::string two = read(
      "    %0:2 = stablehlo.optimization_barrier %a, %a : tensor<4xf32>, tensor<4xf32>\n"
      "    return %0#1 : tensor<4xf32>\n");
  EXPECT_NE(two.find("opt-barrier(%"), std::string::npos) << two;
  EXPECT_NE(two.find("index=1"), std::string::npos) << two;
}

TEST(StablehloReader, FunctionsOfChloAreThoseOfHlo) {
  const auto read = [](const std::string& line) {
    return read_stablehlo_text(
        "m.mlir", main_of("%a: tensor<4xf32>", line + "    return %0 : tensor<4xf32>\n"));
  };
  const Module module = read("    %0 = chlo.asin %a : tensor<4xf32> -> tensor<4xf32>\n");
  verify(module);
  EXPECT_GT(module.entry_computation().instructions.size(), 8U);
  const Module half = read_stablehlo_text(
      "m.mlir", main_of("%a: tensor<4xf32>",
                        R"(    %1 = stablehlo.convert %a : (tensor<4xf32>) -> tensor<4xbf16>
    %2 = chlo.lgamma %1 : tensor<4xbf16> -> tensor<4xbf16>
    %0 = stablehlo.convert %2 : (tensor<4xbf16>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
)"));
  verify(half);
  EXPECT_THROW(
      read("    %0 = chlo.no_function %a, %a : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>\n"),
      WorkloadError);
  EXPECT_THROW(read("    %0 = chlo.polygamma %a : tensor<4xf32> -> tensor<4xf32>\n"),
               WorkloadError);
  EXPECT_EQ(chlo_function("no_function"), nullptr);
}

/// What MLIR prints of the module above with print_generic_op_form.
const char kGeneric[] =
    R"(#loc1 = loc("model.py":12:4 to :8)
"builtin.module"() <{sym_name = "jit_f"}> ({
  "func.func"() <{arg_attrs = [{}, {tf.aliasing_output = 1 : i32}, {}], function_type = (tensor<2x6x6x3xf32>, tensor<3x3x3x8xf32>, tensor<i32>) -> (tensor<2x3x6x8xf32>, tensor<3x3x3x8xf32>), res_attrs = [{jax.result_info = "result[0]"}, {}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg2: tensor<2x6x6x3xf32> loc("x"), %arg3: tensor<3x3x3x8xf32>, %arg4: tensor<i32>):
    %2 = "stablehlo.convolution"(%arg2, %arg3) <{batch_group_count = 1 : i64, dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>, feature_group_count = 1 : i64, padding = dense<[[0, 1], [1, 1]]> : tensor<2x2xi64>, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision DEFAULT>], window_reversal = array<i1: false, true>, window_strides = array<i64: 2, 1>}> : (tensor<2x6x6x3xf32>, tensor<3x3x3x8xf32>) -> tensor<2x3x6x8xf32> loc(#loc2)
    %3 = "stablehlo.constant"() <{value = dense<[0x7F800000, -1.500000e+00, 2.000000e+00]> : tensor<3xf32>}> : () -> tensor<3xf32>
    %4 = "stablehlo.constant"() <{value = dense<2> : tensor<i32>}> : () -> tensor<i32>
    %5 = "stablehlo.constant"() <{value = dense<5.000000e-01> : tensor<f32>}> : () -> tensor<f32>
    %6:2 = "stablehlo.while"(%3, %arg4) ({
    ^bb0(%arg9: tensor<3xf32>, %arg10: tensor<i32>):
      %12 = "stablehlo.compare"(%arg10, %4) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<i32>, tensor<i32>) -> tensor<i1>
      "stablehlo.return"(%12) : (tensor<i1>) -> ()
    }, {
    ^bb0(%arg5: tensor<3xf32>, %arg6: tensor<i32>):
      %8 = "stablehlo.add"(%arg6, %4) : (tensor<i32>, tensor<i32>) -> tensor<i32>
      %9 = "stablehlo.slice"(%arg5) <{limit_indices = array<i64: 3>, start_indices = array<i64: 0>, strides = array<i64: 2>}> : (tensor<3xf32>) -> tensor<2xf32>
      %10 = "stablehlo.reduce"(%9, %5) <{dimensions = array<i64: 0>}> ({
      ^bb0(%arg7: tensor<f32>, %arg8: tensor<f32>):
        %11 = "stablehlo.maximum"(%arg7, %arg8) : (tensor<f32>, tensor<f32>) -> tensor<f32>
        "stablehlo.return"(%11) : (tensor<f32>) -> ()
      }) : (tensor<2xf32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%arg5, %8) : (tensor<3xf32>, tensor<i32>) -> ()
    }) : (tensor<3xf32>, tensor<i32>) -> (tensor<3xf32>, tensor<i32>)
    %7 = "func.call"(%arg3, %5) <{callee = @scaled}> : (tensor<3x3x3x8xf32>, tensor<f32>) -> tensor<3x3x3x8xf32>
    "func.return"(%2, %7) : (tensor<2x3x6x8xf32>, tensor<3x3x3x8xf32>) -> ()
  }) : () -> ()
  "func.func"() <{function_type = (tensor<3x3x3x8xf32>, tensor<f32>) -> tensor<3x3x3x8xf32>, sym_name = "scaled", sym_visibility = "private"}> ({
  ^bb0(%arg0: tensor<3x3x3x8xf32>, %arg1: tensor<f32>):
    %0 = "stablehlo.broadcast_in_dim"(%arg1) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<3x3x3x8xf32>
    %1 = "stablehlo.multiply"(%arg0, %0) : (tensor<3x3x3x8xf32>, tensor<3x3x3x8xf32>) -> tensor<3x3x3x8xf32>
    "func.return"(%1) : (tensor<3x3x3x8xf32>) -> ()
  }) : () -> ()
}) {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
#loc2 = loc("jit(f)/conv"(#loc1))
)";

/// The module's text. Parameters have names in the text of MLIR, which it changes with the form.
std::string text_of(Module module) {
  for (Computation& computation : module.computations) {
    for (HloInstruction& each : computation.instructions) {
      if (each.opcode != HloOpcode::kParameter) continue;
      each.name = "parameter" + each.name.substr(each.name.rfind('.'));
    }
  }
  return to_string(module);
}

TEST(StablehloReader, OrdersOfArgumentsAndResultsAreTheLayoutOfTheEntry) {
  const auto layout_of = [](const std::string& argument, const std::string& result) {
    const std::string text = "func.func public @main(%x: tensor<4x8xf32>" + argument +
                             ", %y: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<8x4xf32>" +
                             result +
                             ") {\n  %0 = stablehlo.transpose %x, dims = [1, 0] : "
                             "(tensor<4x8xf32>) -> tensor<8x4xf32>\n"
                             "  return %y, %0 : tensor<4x8xf32>, tensor<8x4xf32>\n}\n";
    const Module module = read_stablehlo_text("test.mlir", text);
    std::string found;
    for (const Shape& shape : module.entry_layout->parameters) found += to_string(shape) + " ";
    return found + (module.entry_layout.is_set() ? to_string(module.entry_layout->result) : "");
  };
  EXPECT_EQ(layout_of("", ""), "");
  EXPECT_EQ(layout_of(R"( {mhlo.layout_mode = "default"})", R"( {mhlo.layout_mode = "auto"})"), "");
  EXPECT_EQ(layout_of(R"( {mhlo.layout_mode = "{0,1}"})", ""),
            "f32[4,8]{0,1} f32[4,8] (f32[4,8], f32[8,4])");
  EXPECT_EQ(layout_of("", R"( {mhlo.layout_mode = "{0,1:T(8,128)}"})"),
            "f32[4,8] f32[4,8] (f32[4,8], f32[8,4]{0,1})");
  for (const char* wrong : {"{0}", "{0,2}", "{0,0}", "0,1", "{0,1", "{}", ""}) {
    try {
      layout_of(" {mhlo.layout_mode = \"" + std::string(wrong) + "\"}", "");
      ADD_FAILURE() << wrong;
    } catch (const WorkloadError& error) {
      const std::string what = error.what();
      EXPECT_NE(what.find("test.mlir:1:64"), std::string::npos) << what;
      EXPECT_NE(what.find("auto, default or every dimension of f32[4,8] once, as in {1,0}"),
                std::string::npos)
          << what;
    }
  }
}

TEST(StablehloReader, TheGenericFormIsTheSameModule) {
  const Module module = read_hlo("m.mlir", kGeneric);
  verify(module);
  const Module plain = read_hlo("m.mlir", whole());
  EXPECT_EQ(text_of(module), text_of(plain));
  EXPECT_EQ(module.name, "jit_f");
  ASSERT_EQ(module.aliases.size(), 1U);
  EXPECT_EQ(module.aliases[0].output_index, 1);
  EXPECT_EQ(module.aliases[0].parameter_number, 1);
}

TEST(StablehloReader, ErrorsInTheGenericFormSayWhereAndWhatWasExpected) {
  const auto generic_with = [](const std::string& from, const std::string& to) {
    return error_of(replaced(kGeneric, from, to));
  };
  EXPECT_NE(generic_with("num_replicas = 1", "num_replicas = 0").find("one replica or more"),
            std::string::npos);
  EXPECT_NE(generic_with("\"func.func\"", "\"func.fun\"").find("expected \"func.func\"()"),
            std::string::npos);
  EXPECT_NE(generic_with("sym_name = \"main\"", "sym_name = main").find("a name in quotes"),
            std::string::npos);
  EXPECT_NE(generic_with("window_strides = array<i64: 2, 1>", "window_strides = array<i64: 2>")
                .find("expected 2 numbers"),
            std::string::npos);
  const std::string text = kGeneric;
  for (std::size_t length = 0; length < text.size(); length += 3) error_of(text.substr(0, length));
}

const char kSharded[] = R"(module @jit_f attributes {mhlo.num_partitions = 8 : i32} {
  sdy.mesh @maximal_mesh_0 = <[], device_ids=[0]>
  sdy.mesh @mesh = <["data"=4, "model"=2]> {stablehlo.mesh = {axes = []}}
  sdy.mesh @line = <["x"=8]> loc("a.py":1:2)
  func.func public @main(%arg0: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> (tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>}) {
    %0 = sdy.sharding_constraint %arg0 <@mesh, [{"data", "model"}, {}]> : tensor<8x4xf32> loc("b.py":3:4)
    %1:2 = sdy.manual_computation(%0, %arg0) in_shardings=[<@mesh, [{"data"}, {}]>, <@mesh, [{}, {}]>] out_shardings=[<@mesh, [{"data"}, {}]>, <@mesh, []>] manual_axes={"data", "model"} (%arg1: tensor<2x4xf32>, %arg2: tensor<8x4xf32>) {
      %cst = stablehlo.constant dense<0.0> : tensor<f32>
      %2 = stablehlo.reduce(%arg2 init: %cst) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x4xf32>, tensor<f32>) -> tensor<f32>
      %3 = "stablehlo.collective_permute"(%arg1) <{channel_handle = #stablehlo.channel_handle<handle = 7, type = 1>, source_target_pairs = dense<[[0, 2], [2, 0]]> : tensor<2x2xi64>}> : (tensor<2x4xf32>) -> tensor<2x4xf32>
      %4 = "stablehlo.all_gather"(%3) <{all_gather_dim = 1 : i64, replica_groups = dense<[[0, 1, 2], [3, -1, -1]]> : tensor<2x3xi64>, use_global_device_ids}> : (tensor<2x4xf32>) -> tensor<2x4xf32>
      sdy.return %4, %2 : tensor<2x4xf32>, tensor<f32>
    } : (tensor<8x4xf32>, tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<f32>)
    return %1#0 : tensor<8x4xf32>
  }
}
)";

TEST(StablehloReader, WhatShardySaysIsWrittenAsXlaWritesItInHlo) {
  const Module module = read_hlo("m.mlir", kSharded);
  verify(module);
  EXPECT_EQ(
      module.frontend_attributes,
      R"(xla.sdy.meshes={mesh = #sdy.mesh<["data"=4, "model"=2]>, line = #sdy.mesh<["x"=8]>})");
  const std::string text = to_string(module);
  for (
      const char* part :
      {R"(parameter(0), frontend_attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{\"data\"}, {}]>"})",
       R"(custom_call_target="Sharding", custom_call_has_side_effect=true, frontend_attributes={xla.sdy.sharding="#sdy.sharding_per_value<[<@mesh, [{\"data\", \"model\"}, {}]>]>"})",
       R"((f32[2,4], f32[8,4]) custom-call()", R"(custom_call_target="xla.sdy.GlobalToLocalShape")",
       R"(xla.sdy.in_shardings="#sdy.sharding_per_value<[<@mesh, [{\"data\"}, {}]>, <@mesh, [{}, {}]>]>",xla.sdy.manual_axes="#sdy<manual_axes{\"data\", \"model\"}>")",
       R"(to_apply=%xla.sdy.manual_computation_body.0)", R"((f32[8,4], f32[]) custom-call()",
       R"(custom_call_target="xla.sdy.LocalToGlobalShape")",
       R"(custom_call_target="xla.sdy.FuncResultSharding", custom_call_has_side_effect=true, frontend_attributes={xla.sdy.sharding="#sdy.sharding_per_value<[<@mesh, [{}, {\"model\"}]>]>"})",
       "channel_id=7, source_target_pairs={{0,2},{2,0}}",
       "dimensions={1}, replica_groups={{0,1,2},{3}}", "use_global_device_ids=true"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " in\n" << text;
  }
  EXPECT_EQ(unpartitioned_annotation(module).substr(0, 11), "instruction");
}

TEST(StablehloReader, ErrorsInWhatShardySaysSayWhereAndWhatWasExpected) {
  const auto sharded_with = [](const std::string& from, const std::string& to) {
    return error_of(replaced(kSharded, from, to));
  };
  EXPECT_EQ(error_of(kSharded), "no error");
  const auto has = [](const std::string& error, const std::string& what) {
    EXPECT_NE(error.find(what), std::string::npos) << error;
  };
  has(sharded_with("sdy.sharding_constraint", "sdy.data_flow_edge"),
      "m.mlir:6:10: expected an operation of Shardy that is read here");
  has(sharded_with("%arg0 <@mesh, [{\"data\", \"model\"}, {}]>", "%arg0"),
      "m.mlir:6:10: expected a sharding over a mesh");
  has(sharded_with("manual_axes={\"data\", \"model\"}", ""), "expected manual_axes=...");
  has(sharded_with("(%arg1: tensor<2x4xf32>, %arg2: tensor<8x4xf32>)", "(%arg2: tensor<8x4xf32>)"),
      "expected a value that is defined above");
  has(sharded_with("sdy.return %4, %2 : tensor<2x4xf32>, tensor<f32>",
                   "sdy.return %4 : tensor<2x4xf32>"),
      "expected a manual computation with an argument for each operand");
  has(sharded_with("tensor<2x3xi64>", "tensor<2x5xi64>"), "expected 10 numbers");
  has(sharded_with("dense<[[0, 2], [2, 0]]> : tensor<2x2xi64>",
                   "dense<[0, 2, 2]> : tensor<1x3xi64>"),
      "expected pairs of devices");
  has(sharded_with("_partitions = 8", "_replicas = 0"), "expected one replica or more");
}

TEST(StablehloReader, AnExchangeAlongTwoDimensionsMovesItsParts) {
  const std::string text = hlo_of(
      "%arg0: tensor<8x6x2xf32>",
      "\"stablehlo.all_to_all\"(%arg0) <{split_dimension = 0 : i64, concat_dimension = 1 : i64, "
      "split_count = 4 : i64, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>}> : "
      "(tensor<8x6x2xf32>)",
      "2x24x2xf32");
  EXPECT_NE(text.find("f32[8,6,2] all-to-all("), std::string::npos) << text;
  EXPECT_NE(text.find("f32[4,2,6,2] reshape("), std::string::npos) << text;
  EXPECT_NE(text.find("f32[2,4,6,2] transpose("), std::string::npos) << text;
  EXPECT_NE(text.find("f32[2,24,2] reshape("), std::string::npos) << text;
}

/// Where damaged text is a module all the same, what we print of it reads to the same.
void expect_refused_or_reads_back(const std::string& text) {
  if (error_of(text) != "no error") return;
  const std::string printed = to_string(read_hlo("m.mlir", text));
  EXPECT_EQ(to_string(read_hlo("again.hlo", printed)), printed) << text;
}

TEST(StablehloReader, NeverCrashesOnTruncatedOrDamagedText) {
  for (const std::string& text : {whole(), std::string(kSharded)}) {
    for (std::size_t length = 0; length < text.size(); length += 3) {
      error_of(text.substr(0, length));
    }
    std::mt19937 engine(5);
    const std::string characters = "%#@(){}[]<>:,=\"x0-9a \n";
    for (int i = 0; i < 1000; ++i) {
      std::string damaged = text;
      for (int k = 0; k < 2; ++k) {
        damaged[engine() % damaged.size()] = characters[engine() % characters.size()];
      }
      expect_refused_or_reads_back(damaged);
    }
  }
}

}  // namespace
}  // namespace tpu::hlo::stablehlo_reader_test
