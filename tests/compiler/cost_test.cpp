// The figures that passes and searches weigh against each other, beside what kernels take that are
// compiled and run.

#include "workloads/compiler/cost.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string_view>

#include "models/machine.h"
#include "tests/compiler/machine_target.h"
#include "workloads/compiler/compiler.h"
#include "workloads/compiler/ir/around_product.h"
#include "workloads/compiler/ir/array_layout.h"
#include "workloads/compiler/ir/kernel_forms.h"
#include "workloads/compiler/kernels/contraction/dot_tiling.h"
#include "workloads/compiler/kernels/contraction/matmul_epilogue.h"
#include "workloads/compiler/kernels/lowering.h"
#include "workloads/compiler/passes/layout/layouts.h"
#include "workloads/compiler/passes/pipeline.h"
#include "workloads/compiler/program/program_assembly.h"
#include "workloads/hlo/hlo_reader.h"

namespace tpu::test::cost_test {
namespace {

using hlo::HloOpcode;

/// Registers of 1024 elements that the chains of operations go over.
constexpr int kRegisters = 64;

RunResult run_of(const hlo::Module& module, const MachineParams& machine) {
  const isa::Program program = compiler::compile(module, target_of(machine, 1));
  RunOptions options;
  options.cores = {0};
  return Machine(machine, program).run(options);
}

/// Cycles of the kernels of a run, and instructions of the vector ALUs.
compiler::VectorCost cost_of(const RunResult& run) {
  return {static_cast<double>(run.cycles),
          static_cast<double>(run.cores.at(0).total.vector_alu_ops)};
}

/// A kernel that applies an operation so often (none: nothing), with an addition behind each.
compiler::VectorCost cost_of_chain(std::string_view operation, bool is_binary, int count,
                                   const std::string& element) {
  const std::string type = element + "[" + std::to_string(8 * kRegisters) + ",128]";
  std::string text = "HloModule chain\n\nENTRY %main (p: " + type + ", q: " + type + ") -> " +
                     type + " {\n  %p = " + type + " parameter(0)\n  %q = " + type +
                     " parameter(1)\n";
  std::string value = "%p";
  const auto apply = [&](const std::string& name, std::string_view with, bool both, bool is_root) {
    text += std::string(is_root ? "  ROOT " : "  ") + name + " = " + type + " " +
            std::string(with) + "(" + value + (both ? ", %q" : "") + ")\n";
    value = name;
  };
  for (int i = 0; i < count; ++i) {
    if (!operation.empty()) apply("%o" + std::to_string(i), operation, is_binary, false);
    apply("%a" + std::to_string(i), "add", true, i + 1 == count);
  }
  return cost_of(run_of(hlo::read_hlo_text("chain", text + "}\n"), MachineParams{}));
}

/// Of one operation on a register, by the difference of two counts of them.
template <typename CostOf>
compiler::VectorCost cost_of_one(const CostOf& cost_of_count) {
  const compiler::VectorCost many = cost_of_count(40), few = cost_of_count(24);
  return {(many.cycles - few.cycles) / (16.0 * kRegisters),
          (many.instructions - few.instructions) / (16.0 * kRegisters)};
}

compiler::VectorCost measured_cost(std::string_view operation, bool is_binary,
                                   const std::string& element = "f32") {
  const auto of_one = [&](std::string_view name) {
    return cost_of_one([&](int count) { return cost_of_chain(name, is_binary, count, element); });
  };
  const compiler::VectorCost with = of_one(operation), without = of_one("");
  return {with.cycles - without.cycles, with.instructions - without.instructions};
}

/// A kernel that adds up so many quotients or products with other divisors each: the reciprocal of
/// one that comes again is computed once.
compiler::VectorCost cost_of_sum(std::string_view operation, int count,
                                 const std::string& element) {
  const std::string type = element + "[" + std::to_string(8 * kRegisters) + ",128]";
  std::string text = "HloModule sum\n\nENTRY %main (p: " + type + ", q: " + type + ") -> " + type +
                     " {\n  %p = " + type + " parameter(0)\n  %q = " + type + " parameter(1)\n";
  std::string divisor = "%q", sum = "%p";
  for (int i = 0; i < count; ++i) {
    const std::string n = std::to_string(i), is = " = " + type + " ";
    text += "  %d" + n + is + "add(" + divisor + ", %q)\n";
    text += "  %o" + n + is + std::string(operation) + "(%p, %d" + n + ")\n";
    text += std::string(i + 1 == count ? "  ROOT" : " ") + " %s" + n + is + "add(" + sum + ", %o" +
            n + ")\n";
    divisor = "%d" + n;
    sum = "%s" + n;
  }
  return cost_of(run_of(hlo::read_hlo_text("sum", text + "}\n"), MachineParams{}));
}

TEST(Cost, QuotientsTakeWhatTheTableSays) {
  for (const hlo::ElementType type : {hlo::ElementType::kF32, hlo::ElementType::kBf16}) {
    const std::string element(hlo::to_string(type));
    const auto of_one = [&](std::string_view name) {
      return cost_of_one([&](int count) { return cost_of_sum(name, count, element); });
    };
    const compiler::VectorCost quotient = of_one("divide"), product = of_one("multiply");
    const compiler::VectorCost said = compiler::vector_cost(HloOpcode::kDivide, type),
                               said_product = compiler::vector_cost(HloOpcode::kMultiply);
    const double more = quotient.cycles - product.cycles;
    EXPECT_NEAR(said.cycles - said_product.cycles, more, std::max(0.3, 0.1 * more));
    EXPECT_EQ(said.instructions - said_product.instructions,
              quotient.instructions - product.instructions);
  }
}
TEST(Cost, OperationsOfTheVectorUnitTakeWhatTheTableSays) {
  const std::vector<std::pair<HloOpcode, bool>> operations{{HloOpcode::kExponential, false},
                                                           {HloOpcode::kExponentialMinusOne, false},
                                                           {HloOpcode::kLog, false},
                                                           {HloOpcode::kLogPlusOne, false},
                                                           {HloOpcode::kTanh, false},
                                                           {HloOpcode::kLogistic, false},
                                                           {HloOpcode::kSqrt, false},
                                                           {HloOpcode::kRsqrt, false},
                                                           {HloOpcode::kCbrt, false},
                                                           {HloOpcode::kSine, false},
                                                           {HloOpcode::kCosine, false},
                                                           {HloOpcode::kTan, false},
                                                           {HloOpcode::kErf, false},
                                                           {HloOpcode::kSign, false},
                                                           {HloOpcode::kFloor, false},
                                                           {HloOpcode::kCeil, false},
                                                           {HloOpcode::kNegate, false},
                                                           {HloOpcode::kAbs, false},
                                                           {HloOpcode::kMultiply, true},
                                                           {HloOpcode::kSubtract, true},
                                                           {HloOpcode::kMaximum, true},
                                                           {HloOpcode::kPower, true},
                                                           {HloOpcode::kRemainder, true},
                                                           {HloOpcode::kAtan2, true},
                                                           {HloOpcode::kRoundNearestEven, false},
                                                           {HloOpcode::kRoundNearestAfz, false}};
  for (const auto& [opcode, is_binary] : operations) {
    SCOPED_TRACE(hlo::to_string(opcode));
    const compiler::VectorCost measured = measured_cost(hlo::to_string(opcode), is_binary);
    const compiler::VectorCost said = compiler::vector_cost(opcode);
    EXPECT_NEAR(said.cycles, measured.cycles, std::max(0.5, 0.1 * measured.cycles));
    EXPECT_NEAR(said.instructions, measured.instructions, 0.01 * measured.instructions);
  }
}

/// Of bf16 they have no Newton step behind vrcp and vrsqrt.
TEST(Cost, OperationsOfBf16TakeAStepLess) {
  for (const HloOpcode opcode : {HloOpcode::kLogistic, HloOpcode::kSqrt, HloOpcode::kRsqrt,
                                 HloOpcode::kExponential, HloOpcode::kTanh}) {
    SCOPED_TRACE(hlo::to_string(opcode));
    const compiler::VectorCost measured = measured_cost(hlo::to_string(opcode), false, "bf16");
    const compiler::VectorCost said = compiler::vector_cost(opcode, hlo::ElementType::kBf16);
    EXPECT_NEAR(said.cycles, measured.cycles, std::max(0.5, 0.1 * measured.cycles));
    EXPECT_NEAR(said.instructions, measured.instructions, 1);
  }
}

/// Relative error of what the search expects of a product of f32 [m, k] and [k, n].
double error_of_product(std::int64_t m, std::int64_t k, std::int64_t n,
                        const MachineParams& machine, const std::string& attributes = "") {
  const auto type = [](std::int64_t a, std::int64_t b) {
    return "f32[" + std::to_string(a) + "," + std::to_string(b) + "]";
  };
  hlo::Module module = hlo::read_hlo_text(
      "product", "HloModule product\n\nENTRY %main (a: " + type(m, k) + ", b: " + type(k, n) +
                     ") -> " + type(m, n) + " {\n  %a = " + type(m, k) + " parameter(0)\n  %b = " +
                     type(k, n) + " parameter(1)\n  ROOT %c = " + type(m, n) +
                     " dot(%a, %b), lhs_contracting_dims={1}, rhs_contracting_dims={0}" +
                     attributes + "\n}\n");
  const auto measured = static_cast<double>(run_of(module, machine).cores.at(0).ops[0].cycles);
  const compiler::Target target = target_of(machine, 1);
  compiler::assign_layouts(module, target);
  const hlo::Computation& entry = module.entry_computation();
  compiler::DotProblem problem =
      compiler::dot_problem(entry.at(2), entry.at(0).shape, entry.at(1).shape, entry.at(2).shape);
  compiler::exchange_where_cheaper(problem);
  const double expected = compiler::find_dot_tiling(problem, target).value().cycles;
  return std::abs(expected - measured) / measured;
}

/// The gradient of weights [256, 512] from bf16 activations and gradients of so many rows, as a
/// batch of sequences brings them: the activations' rows have to be turned.
OpResult weight_gradient(std::int64_t rows, const MachineParams& machine) {
  const std::string outer = std::to_string(rows / 64) + ",64,";
  const hlo::Module module = hlo::read_hlo_text(
      "gradient", "HloModule gradient\n\nENTRY main {\n  a = bf16[" + outer +
                      "256] parameter(0)\n  b = bf16[" + outer +
                      "512] parameter(1)\n  ROOT c = f32[256,512] dot(a, b), "
                      "lhs_contracting_dims={0,1}, rhs_contracting_dims={0,1}\n}\n");
  return run_of(module, machine).cores.at(0).ops[0];
}

double cycles_of_weight_gradient(std::int64_t rows, const MachineParams& machine) {
  return static_cast<double>(weight_gradient(rows, machine).cycles);
}

/// 128 rows are a tile of weights of each of four columns of tiles, against the 256 columns of the
/// other side: with two MXUs twice 32 pushes, eight cycles apart. Turning the two blocks of 128 by
/// 128 before would take 2 x 16 pushes, eight cycles apart, more.
TEST(Cost, RowsAreTurnedBesideTheStepsThatTakeThem) {
  const MachineParams machine;
  const double tiles = 32, steps = 2 * 32 * 8, turns = 2 * 16 * 8;
  const double tile = (cycles_of_weight_gradient(2 * 128 * 32, machine) -
                       cycles_of_weight_gradient(128 * 32, machine)) /
                      tiles;
  EXPECT_GE(tile, steps);
  EXPECT_LT(tile, steps + turns);
}

/// The activations' 32 x 2 blocks of 128 by 128 become rows of bf16 for the MXUs: two side by side
/// are the halves of words, 16 pushes for both. Some at the ends of the grid's tiles are pushed for
/// steps that do not come, fewer than one by one would take.
TEST(Cost, TwoBlocksOfRowsAreTurnedAtOnce) {
  const std::uint64_t pushes = weight_gradient(128 * 32, MachineParams{}).counters.xlu_pushes;
  EXPECT_GE(pushes, 32U * 16);
  EXPECT_LT(pushes, 32U * 2 * 16);
}

/// Cycles of a product of so many rows and 4,224 columns, times a number for each column, which is
/// more than may lie along the rows, and a number for each row or one for all.
double cycles_of_scaled_product(std::int64_t rows, bool by_row, const MachineParams& machine) {
  const std::string m = std::to_string(rows), matrix = " = f32[" + m + ",4224] ";
  const hlo::Module module = hlo::read_hlo_text(
      "scaled", "HloModule scaled\n\nENTRY main {\n  a = f32[" + m +
                    ",128] parameter(0)\n  b = f32[128,4224] parameter(1)\n  r = f32[" +
                    (by_row ? m : "") + "] parameter(2)\n  l = f32[4224] parameter(3)\n  c" +
                    matrix + "dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n  s" +
                    matrix + "broadcast(r), dimensions={" + (by_row ? "0" : "") + "}\n  t" +
                    matrix + "broadcast(l), dimensions={1}\n  d" + matrix +
                    "multiply(c, s)\n  ROOT e" + matrix + "multiply(d, t)\n}\n");
  const RunResult result = run_of(module, machine);
  EXPECT_EQ(result.cores.at(0).ops.size(), 1U);
  return static_cast<double>(result.cores.at(0).ops[0].cycles);
}

/// Numbers of 128 rows lie in a line of lanes. What spreads them over the lanes of 16 registers is
/// on its way through the adder of lanes for all of them together: a slower adder costs a line what
/// it costs a number.
TEST(Cost, NumbersOfRowsBehindAProductWaitForTheAdderOnceALine) {
  constexpr std::uint32_t kSlower = 200;
  const auto slower = [&](bool by_row) {
    MachineParams machine;
    machine.hbm.pin_mbps *= 64;  // Nothing else happens meanwhile.
    const double cycles = cycles_of_scaled_product(2048, by_row, machine);
    machine.core.xlu_latency_cycles += kSlower;
    return cycles_of_scaled_product(2048, by_row, machine) - cycles;
  };
  const double lines = 2048 / 128;
  EXPECT_NEAR(slower(true) / kSlower, lines, 1);
  EXPECT_NEAR(slower(false) / kSlower, 0, 1);
}

/// Two blocks of each side and two of the result (one where it is all there is), and the sums in
/// fp32 where the result is packed: counted here apart from the search.
TEST(Cost, BlocksOfAProductThatFollowEachOtherFitTheVmemTwice) {
  const compiler::Target target = target_of(v2_8(), 1);
  for (const std::string type : {"f32", "bf16"}) {
    const std::uint64_t tile = type == "f32" ? 8 : 4, sum = type == "f32" ? 0 : 8;
    for (const auto& [m, k, n] : std::vector<std::array<std::int64_t, 3>>{
             {4096, 4096, 4096}, {128, 65536, 8192}, {8192, 128, 8192}, {16, 16384, 16384}}) {
      const auto shape = [&](std::int64_t a, std::int64_t b) {
        return type + "[" + std::to_string(a) + "," + std::to_string(b) + "]";
      };
      hlo::Module module = hlo::read_hlo_text(
          "product", "HloModule product\n\nENTRY %main (a: " + shape(m, k) + ", b: " + shape(k, n) +
                         ") -> " + shape(m, n) + " {\n  %a = " + shape(m, k) +
                         " parameter(0)\n  %b = " + shape(k, n) +
                         " parameter(1)\n  ROOT %c = " + shape(m, n) +
                         " dot(%a, %b), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}\n");
      compiler::assign_layouts(module, target);
      const hlo::Computation& entry = module.entry_computation();
      compiler::DotProblem problem = compiler::dot_problem(entry.at(2), entry.at(0).shape,
                                                           entry.at(1).shape, entry.at(2).shape);
      const compiler::DotTiling tiling = compiler::find_dot_tiling(problem, target).value();
      const std::uint64_t rows_m = tiling.block_m, tiles_k = tiling.block_k,
                          tiles_n = tiling.block_n;
      const bool cuts_m = 8 * rows_m < static_cast<std::uint64_t>(m),
                 cuts_n = 128 * tiles_n < static_cast<std::uint64_t>(n),
                 cuts_k = 128 * tiles_k < static_cast<std::uint64_t>(k);
      const std::uint64_t rows = (cuts_m || cuts_k ? 2 : 1) * rows_m * tiles_k * tile +
                                 (cuts_n || cuts_k ? 2 : 1) * 16 * tiles_n * tiles_k * tile +
                                 rows_m * tiles_n * ((cuts_m || cuts_n ? 2 : 1) * tile + sum);
      EXPECT_LE(rows * isa::kVmemRowBytes, target.vmem_bytes)
          << type << " " << m << "x" << k << "x" << n << ": blocks of " << rows_m << " x "
          << tiles_k << " x " << tiles_n << " tiles";
    }
  }
}

TEST(Cost, SearchesOfProductsExpectWhatTheirKernelsTake) {
  for (const MachineParams& machine : {MachineParams{}, v2_8()}) {
    for (const char* precision : {"", ", operand_precision={highest,highest}"}) {
      std::vector<double> errors;
      for (const std::int64_t m : {16, 128, 1024}) {
        for (const std::int64_t k : {64, 256, 1024}) {
          for (const std::int64_t n : {32, 256, 2048}) {
            errors.push_back(error_of_product(m, k, n, machine, precision));
          }
        }
      }
      std::sort(errors.begin(), errors.end());
      EXPECT_LE(errors[errors.size() / 2], 0.10)
          << machine.name << precision << ", worst " << errors.back();
    }
  }
}

/// Cycles of the kernel that copies an array, as it lies in row-major order, to another order: it
/// stands in a program in place of a negation.
double cycles_of_copy(const hlo::Shape& from, const hlo::Shape& to, const MachineParams& machine) {
  const std::string type = hlo::to_string(from, false);
  const compiler::Target target = target_of(machine, 1);
  compiler::ScheduledModule scheduled = compiler::schedule(
      hlo::read_hlo_text("copy", "HloModule copy\nENTRY main {\n  x = " + type +
                                     " parameter(0)\n  ROOT y = " + type + " negate(x)\n}\n"),
      target, nullptr);
  hlo::Computation& entry = scheduled.module.entry_computation();
  hlo::HloInstruction& copy = entry.at(entry.root);
  copy.opcode = HloOpcode::kCopy;
  copy.shape = to;
  entry.at(copy.operands[0]).shape = from;
  const isa::Program program = compiler::assemble_program(
      scheduled, target,
      [&](const hlo::Module& module, const hlo::HloInstruction& instruction,
          const compiler::KernelPlace& place, const auto&) {
        compiler::Target placed = target;
        placed.place = place;
        return compiler::lower_relayout(module, module.entry_computation(), instruction, placed);
      });
  RunOptions options;
  options.cores = {0};
  return static_cast<double>(Machine(machine, program).run(options).cycles);
}

/// What is turned is brought and taken away meanwhile, in as many slabs as that needs, whichever
/// dimension they are cut along: the outermost one has two indices, or four.
TEST(Cost, LargeCopiesTakeWhatTheirBytesTake) {
  const MachineParams machine;
  const compiler::Target target = target_of(machine, 1);
  for (const hlo::ElementType type : {hlo::ElementType::kF32, hlo::ElementType::kBf16}) {
    for (const auto& [extents, order] :
         std::vector<std::pair<std::vector<std::int64_t>, std::vector<std::int64_t>>>{
             {{256, 4, 64, 64}, {0, 2, 3, 1}},
             {{256, 4, 33, 33}, {0, 2, 3, 1}},
             {{2, 512, 16, 256}, {1, 3, 2, 0}}}) {
      hlo::Shape from = hlo::array_shape(type, extents), to = from;
      from.layout = compiler::row_major_layout(type, from.rank());
      to.layout = compiler::tiled_layout(type, order);
      const double cycles = cycles_of_copy(from, to, machine);
      const auto bytes = static_cast<double>(from.padded_bytes() + to.padded_bytes());
      EXPECT_GE(cycles, bytes / target.hbm_bytes_per_cycle);
      EXPECT_NEAR(cycles / compiler::move_cycles(from, to, target), 1, 0.15) << hlo::to_string(to);
    }
  }
}

/// A convolution of 3x3 positions over square images, its result or the gradient of its kernel.
struct Images {
  int batch, side, features, results;
  bool is_gradient;
  bool in_rows = false;     ///< Three spatial dimensions: the pixels stand in the rows of tiles.
  bool has_groups = false;  ///< Of one feature.
};

hlo::Module module_of(const Images& of) {
  const std::string one = of.in_rows ? "1," : "", along = of.in_rows ? "1x" : "",
                    pad = of.in_rows ? "0_0x1_1x1_1" : "1_1x1_1";
  const auto image = [&](int features) {
    const std::string side = std::to_string(of.side);
    return "f32[" + std::to_string(of.batch) + "," + one + side + "," + side + "," +
           std::to_string(features) + "]" + (of.in_rows ? "{4,3,2,1,0}" : "{3,0,2,1}");
  };
  const std::string window =
      "f32[" + one + "3,3," + std::to_string(of.has_groups ? 1 : of.features) + "," +
      std::to_string(of.results) + (of.in_rows ? "]{4,3,2,1,0}" : "]{3,2,1,0}");
  const std::string a = image(of.features), c = of.is_gradient ? window : image(of.results),
                    b = of.is_gradient ? image(of.results) : window;
  const std::string side = std::to_string(of.side), d = of.in_rows ? "012" : "01";
  const std::string dims = of.is_gradient ? "f" + d + "b_i" + d + "o->" + d + "bf"
                                          : "b" + d + "f_" + d + "io->b" + d + "f";
  return hlo::read_hlo_text(
      "images",
      "HloModule images\n\nENTRY %main (a: " + a + ", b: " + b + ") -> " + c + " {\n  %a = " + a +
          " parameter(0)\n  %b = " + b + " parameter(1)\n  ROOT %c = " + c +
          " convolution(%a, %b), window={size=" + along +
          (of.is_gradient ? side + "x" + side : "3x3") + " pad=" + pad + "}, dim_labels=" + dims +
          (!of.has_groups   ? ""
           : of.is_gradient ? ", batch_group_count=" + std::to_string(of.features)
                            : ", feature_group_count=" + std::to_string(of.features)) +
          "\n}\n");
}

/// What stands around a block comes once; registers that are turned in their lanes pass the XLU.
TEST(Cost, KernelsThatReadElsewhereTakeWhatTheirPlansSay) {
  const std::string down =
      "  a = T[2046,2048] slice(x), slice={[2:2048], [0:2048]}\n"
      "  b = T[2046,2048] slice(x), slice={[0:2046], [0:2048]}\n"
      "  ROOT r = T[2046,2048] subtract(a, b)\n";
  const std::string across =
      "  a = T[2048,2046] slice(x), slice={[0:2048], [2:2048]}\n"
      "  b = T[2048,2046] slice(x), slice={[0:2048], [1:2047]}\n"
      "  c = T[2048,2046] slice(x), slice={[0:2048], [0:2046]}\n"
      "  d = T[2048,2046] subtract(a, b)\n"
      "  ROOT r = T[2048,2046] multiply(d, c)\n";
  std::string turns = "  s0 = T[2048,2040] slice(x), slice={[0:2048], [0:2040]}\n";
  for (int i = 1; i < 7; ++i) {
    const std::string n = std::to_string(i), before = std::to_string(i - 1);
    turns += "  a" + n + " = T[2048,2040] slice(x), slice={[0:2048], [" + n + ":" +
             std::to_string(2040 + i) + "]}\n  s" + n + " = T[2048,2040] subtract(a" + n + ", s" +
             before + ")\n";
  }
  turns += "  ROOT r = T[2048,2040] negate(s6)\n";
  const std::string steps =
      "  a = T[1024,2048] slice(x), slice={[0:2048:2], [0:2048]}\n"
      "  b = T[1024,2048] slice(x), slice={[1:2048:2], [0:2048]}\n"
      "  ROOT r = T[1024,2048] maximum(a, b)\n";
  const MachineParams machine;
  for (const std::string type : {"f32", "bf16"}) {
    for (const std::string& body : {down, across, turns, steps}) {
      std::string text = "HloModule test\nENTRY main {\n  x = T[2048,2048] parameter(0)\n" + body;
      for (std::size_t at = 0; (at = text.find("T[", at)) != std::string::npos; ++at) {
        text.replace(at, 1, type);
      }
      const hlo::Module module = hlo::read_hlo_text("moves", text + "}\n");
      const compiler::ScheduledModule made =
          compiler::lower_to_kernels(module, target_of(machine, 1), nullptr, {});
      const hlo::Module& kernels = made.module;
      const hlo::HloInstruction& root =
          kernels.entry_computation().at(kernels.entry_computation().root);
      ASSERT_EQ(root.opcode, HloOpcode::kFusion) << text;
      const std::optional<double> expected =
          compiler::elementwise_cycles(kernels, kernels.computation(root.called[0]),
                                       root.operands.size(), target_of(machine, 1));
      ASSERT_TRUE(expected.has_value());
      const auto taken = static_cast<double>(run_of(module, machine).cycles);
      EXPECT_GT(*expected, 0.75 * taken) << text << taken;
      EXPECT_LT(*expected, 1.35 * taken) << text << taken;
    }
  }
}

TEST(Cost, SearchesOfConvolutionsExpectWhatTheirKernelsTake) {
  for (const MachineParams& machine : {MachineParams{}, v2_8()}) {
    for (const Images& of : std::vector<Images>{{8, 28, 128, 128, false},
                                                {8, 28, 128, 128, true},
                                                {16, 14, 256, 128, false},
                                                {16, 14, 256, 128, true},
                                                {32, 14, 64, 256, false},
                                                {32, 14, 64, 256, true},
                                                {8, 32, 32, 32, false},
                                                {8, 32, 32, 32, true},
                                                {8, 28, 384, 384, false, false, true},
                                                {8, 28, 384, 384, true, false, true},
                                                {16, 14, 256, 256, false, false, true},
                                                {1, 56, 256, 256, false, true, true},
                                                {3, 28, 384, 384, true, true, true},
                                                {1, 64, 128, 128, false, true},
                                                {1, 64, 128, 128, true, true},
                                                {3, 28, 256, 64, false, true},
                                                {3, 28, 256, 64, true, true},
                                                {4, 32, 64, 256, false, true},
                                                {4, 32, 64, 256, true, true},
                                                {16, 32, 32, 32, false},
                                                {8, 32, 16, 48, false},
                                                {16, 28, 64, 64, false}}) {
      hlo::Module module = module_of(of);
      const auto measured = static_cast<double>(run_of(module, machine).cores.at(0).ops[0].cycles);
      const compiler::Target target = target_of(machine, 1);
      compiler::assign_layouts(module, target);
      const hlo::Computation& entry = module.entry_computation();
      const std::optional<double> expected =
          convolution_cycles(entry.at(2), entry.at(0).shape, entry.at(1).shape, target);
      ASSERT_TRUE(expected);
      // On the vector unit code is scheduled more or less densely; gradients over pixels in rows
      // wait for what is turned.
      const double bound = of.has_groups ? 0.20 : of.in_rows && of.is_gradient ? 0.15 : 0.10;
      EXPECT_NEAR(*expected / measured, 1, bound)
          << machine.name << " " << of.batch << " " << of.side;
    }
  }
}

/// Windows of 7x7 by groups of one feature: the vector unit has more to do than the memory.
TEST(Cost, ProductsByGroupsAreExpectedToTakeTheVectorUnit) {
  for (const auto& [dims, window, layout] :
       {std::tuple("8,56,56,96", "7x7 pad=3_3x3_3}, dim_labels=b01f_01io->b01f", "{3,0,2,1}"),
        std::tuple("2,1,56,56,96", "1x7x7 pad=0_0x3_3x3_3}, dim_labels=b012f_012io->b012f",
                   "{4,3,2,1,0}")}) {
    const bool in_rows = layout[1] == '4';
    const std::string image = std::string("bf16[") + dims + "]" + layout;
    hlo::Module module = hlo::read_hlo_text(
        "groups", "HloModule groups\nENTRY e {\n x = " + image + " parameter(0)\n w = bf16[" +
                      (in_rows ? "1,7,7,1,96]{4,3,2,1,0}" : "7,7,1,96]{3,2,1,0}") +
                      " parameter(1)\n ROOT c = " + image + " convolution(x, w), window={size=" +
                      window + ", feature_group_count=96\n}\n");
    const MachineParams machine;
    const compiler::Target target = target_of(machine, 1);
    const auto measured = static_cast<double>(run_of(module, machine).cores.at(0).ops[0].cycles);
    compiler::assign_layouts(module, target);
    const hlo::Computation& entry = module.entry_computation();
    const std::optional<double> expected =
        convolution_cycles(entry.at(2), entry.at(0).shape, entry.at(1).shape, target);
    ASSERT_TRUE(expected);
    EXPECT_NEAR(*expected / measured, 1, 0.20) << dims;
    const auto bytes = static_cast<double>(2 * entry.at(0).shape.padded_bytes());
    EXPECT_GT(measured, 2 * bytes / target.hbm_bytes_per_cycle) << dims;
  }
}

/// With the batch in the lanes the features of four neighbouring pixels are pushed as weights at
/// once: 16 pushes, of eight cycles, for four pixels, not for each. At most all that moves comes on
/// top.
TEST(Cost, NeighboursOfFewFeaturesAreMultipliedAtOnce) {
  for (const MachineParams& machine : {MachineParams{}, v2_8()}) {
    const hlo::Module module = hlo::read_hlo_text(
        "pixels",
        "HloModule pixels\nENTRY e {\n x = bf16[128,32,32,32] parameter(0)\n"
        " w = bf16[1,1,32,8] parameter(1)\n ROOT c = bf16[128,32,32,8] convolution(x, w), "
        "window={size=1x1}, dim_labels=b01f_01io->b01f\n}\n");
    const auto measured = static_cast<double>(run_of(module, machine).cores.at(0).ops[0].cycles);
    const compiler::Target target = target_of(machine, 1);
    const double pixels = 32 * 32, pushes = pixels / 4 * 16 * 8 / target.mxu_count;
    const double moved = pixels * 5 * 2048 / target.hbm_bytes_per_cycle;
    EXPECT_GT(measured, std::max(pushes, moved)) << machine.name;
    EXPECT_LT(measured, pushes + moved + 3.0 * target.dma_latency_cycles) << machine.name;
  }
}

/// An image that the kernel makes of another one, with a factor for each feature.
TEST(Cost, SearchesExpectWhatItTakesToMakeASide) {
  for (const MachineParams& machine : {MachineParams{}, v2_8()}) {
    for (const int batch : {8, 16, 128}) {
      const int size = batch == 128 ? 16 : 32;
      const std::string dimensions = "[" + std::to_string(batch) + "," + std::to_string(size) +
                                     "," + std::to_string(size) + ",64]";
      const std::string image = "bf16" + dimensions, f32 = "f32" + dimensions;
      const hlo::Module module = hlo::read_hlo_text(
          "made",
          "HloModule made\nENTRY e {\n x = " + image + " parameter(0)\n r = " + image +
              " parameter(1)\n s = f32[64] parameter(2)\n w = bf16[3,3,64,64] parameter(3)\n"
              " xf = " +
              f32 + " convert(x)\n rf = " + f32 + " convert(r)\n ss = " + f32 +
              " broadcast(s), dimensions={3}\n m = " + f32 + " multiply(xf, ss)\n a = " + f32 +
              " add(m, rf)\n y = " + image + " convert(a)\n ROOT c = " + image +
              " convolution(y, w), window={size=3x3 pad=1_1x1_1}, "
              "dim_labels=b01f_01io->b01f\n}\n");
      const compiler::Target target = target_of(machine, 1);
      const compiler::ScheduledModule scheduled = compiler::schedule(module, target, nullptr);
      const hlo::Computation& entry = scheduled.module.entry_computation();
      const auto kernel =
          std::find_if(entry.instructions.begin(), entry.instructions.end(),
                       [](const auto& of) { return of.fusion_kind.get() == "kOutput"; });
      ASSERT_NE(kernel, entry.instructions.end());
      const auto epilogue = compiler::matmul_epilogue(scheduled.module, entry, *kernel);
      ASSERT_TRUE(epilogue.prologues[0]);
      compiler::AroundProduct around;
      around.has_expression = false;
      around.sides = epilogue.made_sides();
      const std::optional<double> expected =
          convolution_cycles(*epilogue.product, epilogue.lhs_shape, epilogue.rhs_shape,
                             epilogue.out_shape, around, target);
      ASSERT_TRUE(expected);
      double measured = 0;
      const RunResult run = run_of(module, machine);
      for (const auto& op : run.cores.at(0).ops) {
        measured = std::max(measured, static_cast<double>(op.cycles));
      }
      EXPECT_NEAR(*expected, measured, 0.10 * measured) << machine.name << ", batch " << batch;
    }
  }
}

/// Three positions of 32 features are joined: three steps in place of nine, and two turns for each
/// tile of the image and its border, eight cycles each. At most all that moves comes on top.
TEST(Cost, AStepContractsSeveralPositionsOfFewFeatures) {
  for (const MachineParams& machine : {MachineParams{}, v2_8()}) {
    const auto measured = static_cast<double>(
        run_of(module_of(Images{16, 32, 32, 32, false}), machine).cores.at(0).ops[0].cycles);
    const compiler::Target target = target_of(machine, 1);
    const double tiles = 32 * 32 * 2, moved = 2 * tiles * 4096 / target.hbm_bytes_per_cycle;
    const double pushes = 3 * tiles * 8 / target.mxu_count, turns = 2 * tiles * 34 / 32 * 8;
    EXPECT_GT(measured, pushes + turns) << machine.name;
    EXPECT_LT(measured, pushes + turns + moved) << machine.name;
  }
}

}  // namespace
}  // namespace tpu::test::cost_test
