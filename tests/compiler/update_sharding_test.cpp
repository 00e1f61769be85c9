#include "workloads/compiler/sharding/update_sharding.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sim/base/error.h"
#include "tests/compiler/hlo_check.h"
#include "tests/compiler/partition_check.h"
#include "tests/compiler/run_compiled.h"
#include "workloads/hlo/hlo_reader.h"

namespace tpu::test::update_sharding_test {
namespace {

using compiler::PartitionedModule;
using reference::Value;
using Arguments = std::vector<Value>;

constexpr std::size_t kStates = 7;  ///< Of the step below; its gradients follow.

/// Two weights, one under Adam's moments with a decay and clipping by its norm, one whose gradient
/// comes transposed, and a bias, whose gradient is too small to be cut.
std::string step_text(std::int64_t replicas) {
  return "HloModule step, replica_count=" + std::to_string(replicas) +
         ", input_output_alias={ {0}: (0, {}, may-alias), {1}: (1, {}, may-alias), {2}: (2, {}, "
         "may-alias), {3}: (3, {}, may-alias), {4}: (4, {}, may-alias), {5}: (5, {}, may-alias), "
         "{6}: (6, {}, may-alias) }\n" +
         R"(
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
ENTRY main {
  w = f32[256,128] parameter(0)
  m = f32[256,128] parameter(1)
  v = f32[256,128] parameter(2)
  u = f32[3,256,160] parameter(3)
  n = f32[3,256,160] parameter(4)
  bias = f32[128] parameter(5)
  o = f32[128] parameter(6)
  gw = f32[256,128] parameter(7)
  gu = f32[256,3,160] parameter(8)
  gb = f32[128] parameter(9)
  r = (f32[256,128], f32[256,3,160], f32[128]) all-reduce(gw, gu, gb), replica_groups={}, to_apply=add
  sw = f32[256,128] get-tuple-element(r), index=0
  moved_su = f32[256,3,160] get-tuple-element(r), index=1
  su = f32[3,256,160] transpose(moved_su), dimensions={1,0,2}
  sb = f32[128] get-tuple-element(r), index=2
  zero = f32[] constant(0)
  square = f32[256,128] multiply(sw, sw)
  norm = f32[] reduce(square, zero), dimensions={0,1}, to_apply=add
  root = f32[] rsqrt(norm)
  read_w = f32[] reduce(w, zero), dimensions={0,1}, to_apply=add
  read_u = f32[] reduce(u, zero), dimensions={0,1,2}, to_apply=add
  read = f32[] add(read_w, read_u)
  loss = f32[] add(read, norm)
  scale = f32[256,128] broadcast(root), dimensions={}
  clipped = f32[256,128] multiply(sw, scale)
  rate = f32[] constant(0.125)
  rates = f32[256,128] broadcast(rate), dimensions={}
  decay = f32[256,128] multiply(w, rates)
  gradient = f32[256,128] add(clipped, decay)
  m1 = f32[256,128] multiply(m, rates)
  m2 = f32[256,128] add(m1, gradient)
  v1 = f32[256,128] multiply(v, rates)
  g2 = f32[256,128] multiply(gradient, gradient)
  v2 = f32[256,128] add(v1, g2)
  deep = f32[256,128] sqrt(v2)
  moved = f32[256,128] multiply(m2, deep)
  w2 = f32[256,128] subtract(w, moved)
  column = f32[3,160] broadcast(rate), dimensions={}
  columns = f32[3,256,160] broadcast(column), dimensions={0,2}
  n1 = f32[3,256,160] multiply(n, columns)
  n2 = f32[3,256,160] add(n1, su)
  u2 = f32[3,256,160] subtract(u, n2)
  o2 = f32[128] add(o, sb)
  bias2 = f32[128] subtract(bias, o2)
  ROOT t = (f32[256,128], f32[256,128], f32[256,128], f32[3,256,160], f32[3,256,160], f32[128], f32[128], f32[]) tuple(w2, m2, v2, u2, n2, bias2, o2, loss)
}
)";
}

hlo::Module step(std::int64_t replicas) {
  return hlo::read_hlo_text("step.hlo", step_text(replicas));
}

PartitionedModule sharded(const hlo::Module& module) {
  PartitionedModule program;
  program.module = module;
  compiler::shard_updates(program);
  return program;
}

/// Of each replica: the same state, gradients of its own.
std::vector<Arguments> random_arguments(const hlo::Module& module) {
  std::mt19937 engine(5);
  HloCheck check;
  check.low = 0.25;
  check.high = 1;
  const hlo::Computation& entry = module.entry_computation();
  std::vector<Arguments> all(static_cast<std::size_t>(module.replicas));
  for (Arguments& arguments : all) {
    for (hlo::InstructionId parameter : entry.parameters()) {
      const bool is_state = arguments.size() < kStates && &arguments != &all[0];
      arguments.push_back(is_state ? all[0][arguments.size()]
                                   : random_value(entry.at(parameter).shape, engine, check));
    }
  }
  return all;
}

Value share_of(const std::vector<compiler::ArrayParts>& parts, std::size_t number,
               std::size_t replica, Value whole) {
  if (parts[number].starts.empty()) return whole;
  Value part = reference::make_value(hlo::array_shape(whole.shape.type, parts[number].part));
  copy_part(parts[number], replica, whole, part, true);
  return part;
}

/// What so many steps of the module as it was written leave on the first replica.
std::vector<Value> after_steps(const hlo::Module& module, std::vector<Arguments> arguments,
                               std::uint32_t steps) {
  std::vector<Value> results;
  for (std::uint32_t i = 0; i < steps; ++i) {
    std::vector<Value> ends = reference::Interpreter(module).run_replicas(arguments);
    results = leaves_of(ends[0]);
    for (Arguments& each : arguments) {
      std::copy(results.begin(), results.begin() + kStates, each.begin());
    }
  }
  return results;
}

/// Two steps on a machine: each core's results are its shares of what the module says.
void check_values(std::uint32_t x, std::uint32_t y) {
  MachineParams params;
  params.ici.mesh_x = x;
  params.ici.mesh_y = y;
  SCOPED_TRACE(std::to_string(params.cores()) + " cores");
  const hlo::Module module = step(params.cores());
  const std::vector<Arguments> arguments = random_arguments(module);
  const std::vector<Value> wanted = after_steps(module, arguments, 2);
  const PartitionedModule program = sharded(module);
  std::vector<CoreArguments> loads(arguments.size());
  for (std::size_t core = 0; core < loads.size(); ++core) {
    for (std::size_t i = 0; i < arguments[core].size(); ++i) {
      loads[core].parameters.push_back(
          reference::to_bytes(share_of(program.parameters, i, core, arguments[core][i])));
    }
  }
  const CompiledRun run = run_compiled(program.module, loads, 2, params);
  for (std::size_t core = 0; core < loads.size(); ++core) {
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const Value share = share_of(program.results, i, core, wanted[i]);
      EXPECT_LE(distance(numbers_of(run.outputs[core].at(i)), numbers_of(share)), 1e-5)
          << "result " << i << " of core " << core;
    }
  }
}

TEST(UpdateSharding, EveryCoreEndsWithItsShares) {
  check_values(1, 1);
  check_values(2, 2);
  check_values(4, 4);
}

std::size_t count_of(const hlo::Module& module, hlo::HloOpcode opcode) {
  std::size_t count = 0;
  for (const hlo::HloInstruction& instruction : module.entry_computation().instructions) {
    count += instruction.opcode == opcode;
  }
  return count;
}

TEST(UpdateSharding, CutsTheStateThatNothingElseReads) {
  PartitionedModule program;
  program.module = step(8);
  const compiler::UpdateShares shares = compiler::shard_updates(program);
  EXPECT_EQ(shares.shared, 2U);
  EXPECT_EQ(shares.whole, 1U);
  EXPECT_EQ(shares.state_bytes, (2 * 256 * 128 + 3 * 256 * 160) * 4);
  using Extents = std::vector<std::int64_t>;
  EXPECT_TRUE(program.parameters[0].starts.empty());
  EXPECT_EQ(program.parameters[1].part, (Extents{32, 128}));
  EXPECT_EQ(program.parameters[4].part, (Extents{3, 32, 160}));
  EXPECT_EQ(program.parameters[4].starts.at(7), (Extents{0, 224, 0}));
  EXPECT_EQ(program.results[2].part, (Extents{32, 128}));
  EXPECT_TRUE(program.results[3].starts.empty());
  // Two sums, and the own share of both weights; both weights are collected; the bias, the norm.
  EXPECT_EQ(count_of(program.module, hlo::HloOpcode::kReduceScatter), 4U);
  EXPECT_EQ(count_of(program.module, hlo::HloOpcode::kAllGather), 2U);
  EXPECT_EQ(count_of(program.module, hlo::HloOpcode::kAllReduce), 2U);
}

std::string without(std::string text, const std::string& part, const std::string& instead) {
  const std::size_t at = text.find(part);
  EXPECT_NE(at, std::string::npos) << part;
  return text.replace(at, part.size(), instead);
}

std::size_t shared_of(const std::string& text) {
  PartitionedModule program;
  program.module = hlo::read_hlo_text("step.hlo", text);
  return compiler::shard_updates(program).shared;
}

TEST(UpdateSharding, KeepsAParameterWholeWhosePlaceAWholeArrayTakes) {
  PartitionedModule program;
  program.module =
      hlo::read_hlo_text("step.hlo", without(step_text(8), "tuple(w2, m2, v2", "tuple(w2, gw, v2"));
  EXPECT_EQ(compiler::shard_updates(program).shared, 2U);
  EXPECT_TRUE(program.parameters[1].starts.empty());
  EXPECT_TRUE(program.results[1].starts.empty());
  EXPECT_FALSE(program.parameters[2].starts.empty());
}

TEST(UpdateSharding, LeavesWholeWhatWouldBeCollectedTwice) {
  const std::string text = step_text(8);
  EXPECT_EQ(shared_of(text), 2U);
  // A moment that no parameter takes: it would be collected beside the weight.
  EXPECT_EQ(shared_of(without(text, "{4}: (4, {}, may-alias), ", "")), 1U);
  // Somebody reads the moment in place of its sum.
  EXPECT_EQ(shared_of(without(text, "reduce(square, zero), dimensions={0,1}",
                              "reduce(m, zero), dimensions={0,1}")),
            1U);
  // 24 cores: rows of no whole tiles.
  EXPECT_EQ(shared_of(step_text(24)), 0U);
  EXPECT_EQ(shared_of(step_text(1)), 0U);
}

}  // namespace
}  // namespace tpu::test::update_sharding_test
